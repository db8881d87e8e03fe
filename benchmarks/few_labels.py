"""Why pre-train? Accuracy on sentiment by the number of labels, and on words of feeling that no label showed.

It trains both kinds of network from each of five seeds, and draws the accuracies beside the tables.
"""

import json
import re
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from transformers import AutoModelForPreTraining, set_seed

from benchmarks import common, peers
from toybert.train.corpora.make_sentiment import FEELINGS
from toybert.train.data.source import CORPORA
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.hub.folders import ROOT, load_config, load_tokenizer, save_hub_folder
from toybert.train.measure.baselines import WORD

Rows = pd.DataFrame  # of texts and labels, 0 or 1
SIZES = (16, 64, 256, 1024, 3600)  # of the rows to learn from; the last is all
FOLDS = 4  # each word of feeling is held out in one of them
PRE_TRAINED, FROZEN = "pre-trained", "pre-trained, with --freeze-embeddings"
FROM_SCRATCH, WORDS = "from scratch", "a linear model of words and pairs of neighbours"
BAD, GOOD = (sorted({word for sides in FEELINGS.values() for word in sides[side]}) for side in (0, 1))


def read(split: str) -> Rows:
    """Reads a split of the toy sentiment corpus."""
    return pd.read_json(CORPORA / "sentiment" / f"{split}.jsonl", lines=True)[["text", "label"]]


def some(rows: Rows, size: int, seed: int) -> Rows:
    """Draws as many rows of each class, `size` together."""
    return rows.groupby("label").sample(size // 2, random_state=seed)


def network(train: Rows, measured: Rows, seed: int, epochs: int, **how: Any) -> float:
    """Fine-tunes a checkpoint, or new weights of its size and words if none is given; returns its accuracy.

    Few rows are repeated, so that every run takes as many steps as `epochs` of all.
    """
    with tempfile.TemporaryDirectory() as top, common.silence():
        if "model" not in how:
            set_seed(seed)
            how["model"] = f"{top}/new"
            new = AutoModelForPreTraining.from_config(load_config(ROOT, initializer_range=0.05), trust_remote_code=True)
            save_hub_folder(new, load_tokenizer(ROOT), Path(how["model"]))
        repeated = pd.concat([train] * round(epochs * max(SIZES) / len(train)))  # and measured once, at the end
        files = {"train_file": repeated, "validation_file": measured}  # the last epoch is kept: nothing is chosen
        for name, rows in files.items():
            rows.to_json(f"{top}/{name}.jsonl", orient="records", lines=True)
        given = {name: f"{top}/{name}.jsonl" for name in files}
        how |= {"epochs": 1, "checkpoint_every": peers.NEVER}
        options = FinetuneOptions(output_dir=f"{top}/run", seed=seed, **given, **how)
        return float(train_finetuning(options)["accuracy"])


def linear(train: Rows, measured: Rows, seed: int) -> float:
    """Fits logistic regression on words and pairs of neighbours; returns its accuracy."""
    features = CountVectorizer(token_pattern=WORD, ngram_range=(1, 2))
    model = make_pipeline(features, LogisticRegression(max_iter=2000)).fit(train["text"], train["label"])
    return float(model.score(measured["text"], measured["label"]))


def folds() -> list[tuple[Rows, Rows]]:
    """Divides the words of feeling into folds; returns, for each, the rows without its words, and those of only them.

    Rows of all splits are measured: whatever has one of these words is not trained on.
    """
    train, every = read("train"), pd.concat([read(split) for split in ("train", "validation", "test")])

    def feelings(rows: Rows) -> list[set[str]]:
        return [{*BAD, *GOOD} & set(re.findall(WORD, text.lower())) for text in rows["text"]]

    made = []
    for number in range(FOLDS):
        held = {*BAD[number::FOLDS], *GOOD[number::FOLDS]}
        kept = train[[not found & held for found in feelings(train)]]
        made.append((kept, every[[found <= held for found in feelings(every)]]))
    return made


def measure(seeds: Sequence[int], sizes: Sequence[int], number: int, epochs: int) -> dict[str, Any]:
    """Measures each model for each number of labels, and on the first `number` folds, with each seed."""
    kinds: dict[str, Callable[..., float]] = {
        PRE_TRAINED: lambda *rows: network(*rows, epochs, model=str(ROOT)),
        FROM_SCRATCH: lambda *rows: network(*rows, epochs),
        WORDS: linear,
    }
    unseen = {**kinds, FROZEN: lambda *rows: network(*rows, epochs, model=str(ROOT), freeze_embeddings=True)}
    train, test = read("train"), read("test")
    by_size: dict[str, Any] = {}
    for size in sizes:
        runs = {name: [run(some(train, size, seed), test, seed) for seed in seeds] for name, run in kinds.items()}
        by_size[str(size)] = runs
        print(size, {name: round(statistics.mean(found), 3) for name, found in runs.items()}, flush=True)
    by_seed: dict[str, list[float]] = {}
    for name, run in unseen.items():
        found = [[run(*rows, seed) for rows in folds()[:number]] for seed in seeds]
        by_seed[name] = np.mean(found, axis=1).tolist()  # over the folds
        print(name, [round(value, 3) for value in by_seed[name]], flush=True)
    most = [max(rows["label"].mean(), 1 - rows["label"].mean()) for _, rows in folds()]
    return {"labels": by_size, "unseen": by_seed, "commoner class": float(np.mean(most))}


def tables(found: dict[str, Any]) -> str:
    """Lays out the means of the seeds and, in brackets, the least and the most."""

    def cell(values: Sequence[float]) -> str:
        return f"{statistics.mean(values):.1%} ({min(values):.1%} - {max(values):.1%})".replace("%", " %")

    names = (PRE_TRAINED, FROM_SCRATCH, WORDS)
    by_size = [(size, *(cell(runs[name]) for name in names)) for size, runs in found["labels"].items()]
    unseen = [(name, cell(values)) for name, values in found["unseen"].items()]
    unseen.append(("the commoner class", f"{found['commoner class']:.1%}".replace("%", " %")))
    first, second = ("labels", *names), ("words of feeling that no label showed", "accuracy")
    return f"{common.table(first, by_size)}\n\n{common.table(second, unseen)}"


def draw(found: dict[str, Any], path: Path) -> None:
    """Draws the accuracy by the number of labels, with bands from the worst seed to the best, and the unseen words'."""
    figure, (curve, bars) = plt.subplots(1, 2, figsize=(11, 3.8), width_ratios=(3, 2))
    sizes = [int(size) for size in found["labels"]]
    for number, name in enumerate((PRE_TRAINED, FROM_SCRATCH, WORDS)):
        values = np.array([runs[name] for runs in found["labels"].values()])
        curve.plot(sizes, values.mean(1), color=f"C{number}", marker="o", markersize=4, label=name)
        curve.fill_between(sizes, values.min(1), values.max(1), color=f"C{number}", alpha=0.2, linewidth=0)
    curve.axhline(0.5, color="grey", linestyle=":", label="chance")
    curve.set_xscale("log", base=2)
    curve.set_xticks(sizes, sizes)
    curve.set(title="Fewer labels", xlabel="labelled sentences", ylabel="accuracy on test sentences", ylim=(0.4, 1.02))
    curve.legend(fontsize=8)
    curve.grid(alpha=0.3)
    names = [FROZEN, PRE_TRAINED, FROM_SCRATCH, WORDS]
    for place, name in enumerate(names):
        values = found["unseen"][name]
        mean = statistics.mean(values)
        error = [[mean - min(values)], [max(values) - mean]]
        colour = "C0" if name.startswith(PRE_TRAINED) else f"C{place - 1}"
        bars.barh(place, mean, xerr=error, color=colour, alpha=1 if place else 0.7, height=0.6)
    bars.axvline(0.5, color="grey", linestyle=":")
    short = {FROZEN: "pre-trained,\nembeddings frozen", WORDS: "a linear model"}
    bars.set_yticks(range(len(names)), [short.get(name, name) for name in names])
    bars.invert_yaxis()
    bars.set(title="Words of feeling that no label showed", xlabel="accuracy", xlim=(0, 1))
    figure.tight_layout()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    """Measures, and writes down, prints and draws what was found."""
    options = common.parse(common.parser(__doc__))
    sizes, number = (SIZES[:1], 1) if options.smoke else (SIZES, FOLDS)
    found = measure(range(options.rounds), sizes, number, 1 if options.smoke else FinetuneOptions.epochs)
    options.output.mkdir(parents=True, exist_ok=True)
    record = {"results": found, "rounds": options.rounds, "machine": options.machine}
    (options.output / "few_labels.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (options.output / "few_labels.md").write_text(f"{tables(found)}\n", encoding="utf-8")
    draw(found, options.output / "few_labels.png")
    print(tables(found))


if __name__ == "__main__":
    main()
