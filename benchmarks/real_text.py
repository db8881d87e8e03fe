"""Accuracies on public data sets: ours from scratch and after pre-training, a BERT of the same size, and linear models.

The data sets are given by path, as they are distributed: README.md says where they come from.
"""

import csv
import itertools
import json
import random
import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from transformers import (
    AutoConfig,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

from benchmarks import CORES, common, peers
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.hub.folders import save_hub_folder
from toybert.train.measure.baselines import WORD

Rows = list[tuple[str, str]]  # text, label
Fitted = tuple[list[str], int | None]  # the labels that a model gives the rows that are measured, and its parameters
VOCABULARY = 8_000
TALES_EPOCHS = 30
RECIPE: dict[str, Any] = {"epochs": 3, "batch_size": 32, "dropout": 0.1}  # of the networks


def plain(text: str) -> str:
    """Returns a text's words in lower case: two texts with the same words are the same to the models here."""
    return " ".join(re.findall(r"\w+", text.lower())) or text


def read_table(path: Path, names: Sequence[str]) -> Rows:
    """Reads a table of labels and texts with a tab between them, in which quotes are text; a header may come first.

    Raises:
        ValueError: another line is not a label, a tab and a text.
    """
    with open(path, encoding="utf-8", newline=None) as lines:
        rows = [line.rstrip("\n").split("\t", 1) for line in lines]
    has_header = bool(rows) and rows[0][0] not in names
    for number, row in enumerate(rows[has_header:], start=1 + has_header):
        if len(row) != 2 or row[0] not in names:
            raise ValueError(f"line {number} of {path} is not one of {', '.join(names)}, a tab and a text: {row}")
    return [(text.strip(), label) for label, text in rows[has_header:]]


def divided(rows: Rows, share: float) -> dict[str, Rows]:
    """Divides rows at random, always in the same way, into some to learn from and a share to measure on.

    Of texts with the same words only the first counts, so that none of what is measured on was learnt from.
    """
    once: dict[str, tuple[str, str]] = {}
    for row in rows:
        once.setdefault(plain(row[0]), row)
    rows = random.Random(0).sample([*once.values()], len(once))
    count = round(share * len(rows))
    return {"train": rows[count:], "test": rows[:count]}


def sst2(data: Path) -> dict[str, Rows]:
    """Reads SST-2: its dev and test sentences, and those of its train phrases that are neither."""
    parts = {part: read_table(data / "sst2" / f"{part}.tsv", ("0", "1")) for part in ("train", "dev", "test")}
    measured = {plain(text) for part in ("dev", "test") for text, _ in parts[part]}
    return {**parts, "train": [row for row in parts["train"] if plain(row[0]) not in measured]}


def polarity(data: Path) -> dict[str, Rows]:
    """Reads the film-review sentences of Pang & Lee 2005, a tenth of them to measure on."""
    rows = []
    for label, name in (("positive", "rt-polarity.pos"), ("negative", "rt-polarity.neg")):
        lines = (data / "sentence_polarity" / name).read_text(encoding="utf-8").split("\n")
        rows += [(line.strip(), label) for line in lines if line.strip()]
    return divided(rows, 0.1)


def spam(data: Path) -> dict[str, Rows]:
    """Reads the SMS Spam Collection, a fifth of it to measure on."""
    return divided(read_table(data / "sms_spam/SMSSpamCollection", ("ham", "spam")), 0.2)


def sst2_train_part(data: Path) -> dict[str, Rows]:
    """Divides SST-2's train phrases into whole sentences to choose recipes on and phrases of none of them.

    Its phrases are parts of its sentences: one that is part of no other phrase counts as a sentence. Sentences that are
    measured among the film reviews of Pang & Lee are left out.
    """

    def spans(text: str) -> set[str]:
        words = text.split()
        return {" ".join(words[a:b]) for a in range(len(words)) for b in range(a + 1, len(words) + 1)}

    rows = sst2(data)["train"]
    texts, measured = {text for text, _ in rows}, {plain(text) for text, _ in polarity(data)["test"]}
    whole = texts - set().union(*(spans(text) - {text} for text in texts))
    sentences = sorted(text for text in whole if plain(text) not in measured)
    chosen = set(random.Random(0).sample(sentences, min(872, len(sentences) // 2)))  # as many as the dev part has
    left_out = set().union(*map(spans, chosen))
    return {
        "train": [row for row in rows if row[0] not in left_out],
        "sentences": [row for row in dict.fromkeys(rows) if row[0] in chosen],
    }


TO_CHOOSE_ON = "sst2, train part"
TASKS: dict[str, Callable[[Path], dict[str, Rows]]] = {
    "sst2": sst2,
    TO_CHOOSE_ON: sst2_train_part,
    "polarity": polarity,
    "spam": spam,
}


def write_csv(path: Path, rows: Rows) -> str:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return str(path)


def words_and_config(train: Rows, seed: int, size: str) -> tuple[Any, Any]:
    """Makes the tokenizer of a task's words, and the configuration of a network of a checkpoint's size for them."""
    set_seed(seed)
    tokenizer = peers.learn_words([[text for text, _ in train]], VOCABULARY)
    fields = {"vocab_size": len(tokenizer), "initializer_range": 0.05}
    return tokenizer, AutoConfig.from_pretrained(size, trust_remote_code=True, **fields)


def from_scratch(train: Rows, measured: Rows, seed: int, size: str, recipe: dict[str, Any]) -> Fitted:
    """Trains ours, of a checkpoint's size, on the words of a task."""
    with tempfile.TemporaryDirectory() as top:
        tokenizer, config = words_and_config(train, seed, size)
        save_hub_folder(AutoModelForPreTraining.from_config(config, trust_remote_code=True), tokenizer, Path(top))
        return fine_tuned(train, measured, seed, top, recipe)


def fine_tuned(train: Rows, measured: Rows, seed: int, checkpoint: str, recipe: dict[str, Any]) -> Fitted:
    """Fine-tunes a checkpoint by `train_finetuning`, and keeps the last epoch: nothing is chosen on measured rows."""
    with tempfile.TemporaryDirectory() as top, common.silence():
        folder, run = Path(top), Path(top) / "run"
        learnt, others = write_csv(folder / "train.csv", train), write_csv(folder / "measured.csv", measured)
        options = FinetuneOptions(
            output_dir=str(run), model=checkpoint, seed=seed, checkpoint_every=peers.NEVER,
            train_file=learnt, validation_file=others, test_file=others, **{**RECIPE, **recipe},
        )  # fmt: skip
        train_finetuning(options)
        with open(run / "predictions.csv", encoding="utf-8", newline="") as rows:
            guesses = [row["predicted"] for row in csv.DictReader(rows)]
        model = AutoModelForSequenceClassification.from_pretrained(run, trust_remote_code=True)
        return guesses, model.num_parameters()


def bert(train: Rows, measured: Rows, seed: int, size: str, recipe: dict[str, Any]) -> Fitted:
    """Trains the library's BERT of the same size and words from scratch with Trainer, by the same recipe."""
    names, recipe = sorted({label for _, label in train}), {**RECIPE, **recipe}
    with tempfile.TemporaryDirectory() as top, common.silence():
        ours, config = words_and_config(train, seed, size)
        tokenizer = peers.with_stock([], ours, 64).stock
        dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), recipe["dropout"])

        def encode(rows: Rows) -> list[dict[str, Any]]:
            texts = [dict(tokenizer(text, truncation=True, max_length=64)) for text, _ in rows]
            return [{**one, "labels": names.index(label)} for one, (_, label) in zip(texts, rows, strict=True)]

        set_seed(seed)
        steps = recipe["epochs"] * -(-len(train) // recipe["batch_size"])
        arguments = TrainingArguments(
            output_dir=top, num_train_epochs=recipe["epochs"], per_device_train_batch_size=recipe["batch_size"],
            learning_rate=recipe["learning_rate"], weight_decay=0.01, warmup_steps=round(0.06 * steps), seed=seed,
            **peers.QUIET,
        )  # fmt: skip
        trainer = Trainer(
            model=BertForSequenceClassification(peers.bert_config(config, **dropout)), args=arguments,
            train_dataset=encode(train), data_collator=DataCollatorWithPadding(tokenizer),
        )  # fmt: skip
        trainer.train()
        guesses = trainer.predict(encode(measured)).predictions.argmax(-1)
        return [names[guess] for guess in guesses], trainer.model.num_parameters()


def linear(kind: Any, train: Rows, measured: Rows, seed: int, size: str, recipe: dict[str, Any]) -> Fitted:
    """Fits a model of scikit-learn on words and pairs of neighbours."""
    model = make_pipeline(CountVectorizer(token_pattern=WORD, ngram_range=(1, 2)), kind(**recipe))
    model.fit(*map(list, zip(*train, strict=True)))
    return list(model.predict([text for text, _ in measured])), None


def commonest(train: Rows, measured: Rows, *unused: Any) -> Fitted:
    """Always says the commonest class of training."""
    label, _ = Counter(label for _, label in train).most_common(1)[0]
    return [label] * len(measured), None


class Model(NamedTuple):
    """Holds how to fit a model, and the setting that `--tune` chose for it on sentences of SST-2's train part."""

    fit: Callable[..., Fitted]
    setting: str = ""
    tried: tuple[float, ...] = ()
    chosen: float = 0.0

    def recipe(self, value: float) -> dict[str, float]:
        return {self.setting: value} if self.setting else {}

    def seeds(self, rounds: int) -> range:
        return range(rounds if self.setting == "learning_rate" else 1)  # nothing random goes into the others


MODELS = {
    "the commonest class": Model(commonest),
    "naive Bayes, words and pairs of neighbours": Model(
        partial(linear, MultinomialNB), "alpha", (0.1, 0.3, 1.0, 3.0), chosen=1.0
    ),
    "logistic regression, words and pairs of neighbours": Model(
        partial(linear, partial(LogisticRegression, max_iter=2000)), "C", (0.1, 0.3, 1.0, 3.0, 10.0), chosen=0.3
    ),
    "transformers' BERT of the same size, from scratch": Model(bert, "learning_rate", (5e-4, 1e-3), chosen=5e-4),
    "ToyBERT, from scratch": Model(from_scratch, "learning_rate", (5e-4, 1e-3), chosen=5e-4),
    "ToyBERT, pre-trained": Model(fine_tuned, "learning_rate", (2.5e-4, 5e-4), chosen=2.5e-4),
}


def tales(corpus: str, seed: int, smoke: bool) -> dict[str, dict[str, float]]:
    """Pre-trains ours on three books of tales, and measures it and the baselines on the stretches that it held out."""
    with tempfile.TemporaryDirectory() as top:
        run, found = f"{top}/run", Path(top) / "found.json"
        given = {
            "--corpus": corpus,
            "--output-dir": run,
            "--seed": seed,
            "--split-sentences": "true",
            "--epochs": 1 if smoke else TALES_EPOCHS,
            "--checkpoint-every": peers.NEVER,
        }
        common.python("-m", "toybert.train.pretrain", *map(str, itertools.chain(*given.items())))
        common.python("-m", "toybert.train.evaluate", run, "--corpus", corpus, "--output", str(found))
        report = json.loads(found.read_text(encoding="utf-8"))
    return {task: report[task] for task in ("mlm", "nsp")}


def facts(checkpoint: str) -> dict[str, Any]:
    """Reads the steps and seconds of a pre-training run, and its last figures on held-out text."""
    history = json.loads((Path(checkpoint) / "history.json").read_text(encoding="utf-8"))
    return {"steps": history["step"], "seconds": history["seconds"], **history["validation"][-1]}


def one_run(spec: dict[str, Any]) -> dict[str, Any]:
    """Fits one model on one task with one seed, and returns its figures on each part that is measured."""
    data, seed = Path(spec["data"]), spec["seed"]
    if spec["task"] == "tales":
        return tales(str(data / "tales"), seed, spec["smoke"])
    parts = {part: rows[: 200 if spec["smoke"] else None] for part, rows in TASKS[spec["task"]](data).items()}
    train = parts.pop("train")
    measured = [row for rows in parts.values() for row in rows]
    guesses, parameters = MODELS[spec["model"]].fit(train, measured, seed, spec["checkpoint"], spec["recipe"])
    rest = iter(zip(guesses, measured, strict=True))
    found = {part: scores(list(itertools.islice(rest, len(rows)))) for part, rows in parts.items()}
    return {"train": len(train), "parameters": parameters, "parts": found}


def scores(said: list[tuple[str, tuple[str, str]]]) -> dict[str, float]:
    """Returns the figures of guesses beside rows."""
    guesses, truth = zip(*((guess, label) for guess, (_, label) in said), strict=True)
    macro = f1_score(truth, guesses, average="macro", labels=sorted(set(truth)))  # "" is said of a text without words
    return {"accuracy": accuracy_score(truth, guesses), "macro_f1": macro, "rows": len(truth)}


def run_all(specs: list[dict[str, Any]], options: Any) -> list[dict[str, Any]]:
    """Does the runs as processes of one thread each, as many at a time as the machine has cores.

    Each result goes to real_text.runs.jsonl at once, and `--resume` takes it from there.
    """
    shared = {"data": str(options.data), "checkpoint": options.checkpoint, "smoke": options.smoke}
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "real_text.runs.jsonl"
    if not options.resume:
        path.unlink(missing_ok=True)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    done = [json.loads(line) for line in lines]

    def run(spec: dict[str, Any]) -> dict[str, Any]:
        asked = {**shared, **spec}
        for earlier in done:
            if asked.items() <= earlier.items():
                return {name: value for name, value in earlier.items() if name not in asked}
        found = common.child("benchmarks.real_text", asked, OMP_NUM_THREADS="1")
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**asked, **found}) + "\n")
        said = ", ".join(f"{part} {figures['accuracy']:.4f}" for part, figures in found.get("parts", {}).items())
        how = ", ".join([spec["task"], spec.get("model", "ToyBERT"), *settings(spec.get("recipe", {}))])
        print(f"{how}, seed {spec['seed']}: {said or 'done'}", flush=True)
        return found

    with ThreadPool(CORES) as pool:
        return pool.map(run, specs, chunksize=1)


def settings(recipe: dict[str, float]) -> list[str]:
    return [f"{name} {value:g}" for name, value in recipe.items()]


def on_tales(runs: list[dict[str, dict[str, float]]], cell: Callable[[Sequence[float]], str]) -> str:
    """Lays out what was measured on held-out stretches of the tales."""
    words = {"unigram": "the commonest word", "bigram": "the word between its neighbours"}
    pairs = {"length_only": "length", "word_overlap": "shared words", "word_pairs": "all pairs of words"}
    made = []
    for name, task, others in (("masked words", "mlm", words), ("next sentences", "nsp", pairs)):
        keys = ("accuracy", *[f"{other}_accuracy" for other in others])
        line = [cell([run[task][key] for run in runs]) for key in keys]
        made.append(common.table(("the tales", "ToyBERT", *others.values()), [(name, *line)]))
    return "\n\n".join(made)


def mean(values: Sequence[float]) -> str:
    """Writes the mean of some shares."""
    return f"{statistics.mean(values) * 100:.1f} %"


def spread(values: Sequence[float]) -> str:
    """Writes the least and the most of some shares, if there are several."""
    return f"{min(values) * 100:.1f} - {max(values) * 100:.1f} %" if len(values) > 1 else ""


def shares(values: Sequence[float]) -> str:
    """Writes the mean of some shares and, of several, the least and the most."""
    spread = f" ({min(values) * 100:.1f} - {max(values) * 100:.1f})" if len(values) > 1 else ""
    return f"{statistics.mean(values) * 100:.1f}{spread} %"


def tune(options: Any) -> None:
    """Tries each setting of each model on sentences that are kept apart."""
    specs = [
        {"task": TO_CHOOSE_ON, "model": name, "seed": seed, "recipe": model.recipe(value)}
        for name, model in MODELS.items()
        for value in model.tried[: 1 if options.smoke else None]
        for seed in model.seeds(options.rounds)
    ]
    tried: dict[tuple[str, str], list[float]] = {}
    for spec, found in zip(specs, run_all(specs, options), strict=True):
        name = (spec["model"], *settings(spec["recipe"]))
        tried.setdefault(name, []).append(found["parts"]["sentences"]["accuracy"])
    rows = f"accuracy on {found['parts']['sentences']['rows']} sentences, learnt from {found['train']:,} phrases"
    text = common.table(("model", "recipe", rows), [(*name, shares(some)) for name, some in tried.items()])
    results = [{"model": model, "recipe": recipe, "accuracy": some} for (model, recipe), some in tried.items()]
    common.report("real_text_tune", options, {"tried": results}, text)


def compare(options: Any) -> None:
    """Runs every model on every task with every seed; those that nothing random goes into, once."""
    specs: list[dict[str, Any]] = [
        {"task": task, "model": name, "seed": seed, "recipe": model.recipe(model.chosen)}
        for task in options.tasks
        if task != "tales"
        for name, model in MODELS.items()
        for seed in model.seeds(options.rounds)
    ]
    specs += [{"task": "tales", "seed": seed} for seed in range(options.rounds) if "tales" in options.tasks]
    runs: dict[str, dict[str, list[Any]]] = {}
    for spec, found in zip(specs, run_all(specs, options), strict=True):
        runs.setdefault(spec["task"], {}).setdefault(spec.get("model", "ToyBERT"), []).append(found)
    lines = []
    for task, model in itertools.product((task for task in runs if task != "tales"), MODELS):
        found = runs[task][model]
        million = f"{found[0]['parameters'] / 1e6:.2f} M" if found[0]["parameters"] else ""
        for part, one in found[0]["parts"].items():
            figures = [shares([run["parts"][part][each] for run in found]) for each in ("accuracy", "macro_f1")]
            lines.append((f"{task}, {part}", f"{found[0]['train']:,} / {one['rows']:,}", model, million, *figures))
    header = ("task", "rows, train / test", "model", "parameters", "accuracy, mean (least - most)", "macro-F1")
    text = f"{options.rounds} seeds.\n\n{common.table(header, lines)}"
    if "tales" in runs:
        text += f"\n\n{on_tales(runs['tales']['ToyBERT'], shares)}"
    common.report("real_text", options, {"checkpoint": facts(options.checkpoint), "tasks": runs}, text)


def main() -> None:
    parser = common.parser(__doc__, rounds=3)
    parser.add_argument("--data", type=Path, help="folder of sst2, sentence_polarity, sms_spam and tales")
    common.add_choice(parser, "--tasks", ["sst2", "polarity", "spam", "tales"])
    parser.add_argument("--checkpoint", help="the folder of a model that was pre-trained on other text")
    parser.add_argument("--resume", action="store_true", help="keep what an interrupted run has found")
    parser.add_argument("--tune", action="store_true", help="try recipes on a part of SST-2's train phrases instead")
    options = common.parse(parser, one_run)
    if not options.data or not options.checkpoint:
        parser.error("give --data and --checkpoint")
    try:  # rather now than when hours have passed
        for task in {"sst2", "polarity"} if options.tune else options.tasks:
            read = TASKS.get(task, lambda data: list((data / "tales").iterdir()))
            read(options.data)
        if not options.tune:
            facts(options.checkpoint)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    tune(options) if options.tune else compare(options)


if __name__ == "__main__":
    main()
