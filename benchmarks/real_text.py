"""Accuracies on public data sets: ours from scratch and after pre-training, a BERT of the same size, and linear models.

The data sets are given by path, as they are distributed: README.md says where they come from.
"""

import json
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from sklearn.dummy import DummyClassifier
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
    set_seed,
)

from benchmarks import CORES, common, peers
from benchmarks.real_data import TASKS, TO_CHOOSE_ON, Rows
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.hub.folders import save_hub_folder
from toybert.train.measure.baselines import WORD

Spec = dict[str, Any]  # of a run: the data, the checkpoint, the task, the model, its recipe and the seed
Fitted = tuple[list[str], int | None]  # the labels that a model gives the rows that are measured, and its parameters
REAL = {  # the columns of the table: a task, its part and the figure
    "SST-2, dev": ("sst2", "dev", "accuracy"),
    "SST-2, test": ("sst2", "test", "accuracy"),
    "film reviews": ("polarity", "test", "accuracy"),
    "SMS spam": ("spam", "test", "accuracy"),
    "SMS spam, macro-F1": ("spam", "test", "macro_f1"),
}
KINDS = {  # the columns of the card's table, and the models that each shows the best of
    "a linear model": ("naive Bayes", "logistic regression"),
    "transformers' BERT, from scratch": ("transformers' BERT",),
    "ToyBERT, from scratch": ("ToyBERT, from scratch",),
    "ToyBERT, pre-trained": ("ToyBERT, pre-trained",),
}


def words_and_config(train: Rows, spec: Spec) -> tuple[Any, Any]:
    """Makes the tokenizer of a task's words, and the configuration of a network of a checkpoint's size for them."""
    set_seed(spec["seed"])
    tokenizer = peers.learn_words([[text for text, _ in train]], 8_000)
    fields = {"vocab_size": len(tokenizer), "initializer_range": 0.05}
    return tokenizer, AutoConfig.from_pretrained(spec["checkpoint"], trust_remote_code=True, **fields)


def recipe(folder: str, spec: Spec, **files: str) -> FinetuneOptions:
    """Returns the options of a network's run, which keeps its last epoch: nothing is chosen on measured rows."""
    how: dict[str, Any] = {"epochs": 3, "dropout": 0.1, "checkpoint_every": peers.NEVER, **spec["recipe"]}
    return FinetuneOptions(output_dir=folder, model=spec["checkpoint"], seed=spec["seed"], **how, **files)


def from_scratch(train: Rows, measured: Rows, spec: Spec) -> Fitted:
    """Trains ours, of a checkpoint's size, on the words of a task."""
    with tempfile.TemporaryDirectory() as top:
        tokenizer, config = words_and_config(train, spec)
        save_hub_folder(AutoModelForPreTraining.from_config(config, trust_remote_code=True), tokenizer, Path(top))
        return fine_tuned(train, measured, {**spec, "checkpoint": top})


def fine_tuned(train: Rows, measured: Rows, spec: Spec) -> Fitted:
    """Fine-tunes a checkpoint by `train_finetuning`."""
    with tempfile.TemporaryDirectory() as top, common.silence():
        run, learnt, others = f"{top}/run", f"{top}/train.csv", f"{top}/measured.csv"
        for rows, file in ((train, learnt), (measured, others)):
            pd.DataFrame(rows, columns=["text", "label"]).to_csv(file, index=False)
        train_finetuning(recipe(run, spec, train_file=learnt, validation_file=others, test_file=others))
        guesses = pd.read_csv(f"{run}/predictions.csv", dtype=str, keep_default_na=False)["predicted"].tolist()
        model = AutoModelForSequenceClassification.from_pretrained(run, trust_remote_code=True)
        return guesses, model.num_parameters()


def bert(train: Rows, measured: Rows, spec: Spec) -> Fitted:
    """Trains the library's BERT of the same size and words from scratch with Trainer, by the same recipe."""
    names = sorted({label for _, label in train})
    with tempfile.TemporaryDirectory() as top, common.silence():
        ours, config = words_and_config(train, spec)
        tokenizer, options = peers.with_stock([], ours, 64).stock, recipe(top, spec)

        def encode(rows: Rows) -> list[dict[str, Any]]:
            how: dict[str, Any] = {"truncation": True, "max_length": 64}
            return [{**tokenizer(text, **how), "labels": names.index(label)} for text, label in rows]

        set_seed(spec["seed"])
        dropout = dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), options.dropout)
        model = BertForSequenceClassification(peers.bert_config(config, **dropout))
        arguments, collator = peers.training_arguments(options, train), DataCollatorWithPadding(tokenizer)
        trainer = Trainer(model=model, args=arguments, train_dataset=encode(train), data_collator=collator)
        trainer.train()
        guesses = trainer.predict(encode(measured)).predictions.argmax(-1)
        return [names[guess] for guess in guesses], model.num_parameters()


def linear(kind: Any, train: Rows, measured: Rows, spec: Spec) -> Fitted:
    """Fits a model of scikit-learn on words and pairs of neighbours."""
    model = make_pipeline(CountVectorizer(token_pattern=WORD, ngram_range=(1, 2)), kind(**spec["recipe"]))
    model.fit(*map(list, zip(*train, strict=True)))
    return list(model.predict([text for text, _ in measured])), None


class Model(NamedTuple):
    """Holds how to fit a model, and the setting that `--tune` chose for it on sentences of SST-2's train part."""

    fit: Callable[..., Fitted]
    setting: str = ""
    tried: tuple[float, ...] = ()
    chosen: float = 0.0


LOGISTIC = partial(LogisticRegression, max_iter=2000)
MODELS = {
    "the commonest class": Model(partial(linear, DummyClassifier)),
    "naive Bayes, words and pairs of neighbours": Model(partial(linear, MultinomialNB), "alpha", (0.1, 0.3, 1, 3), 1.0),
    "logistic regression, words and pairs of neighbours": Model(
        partial(linear, LOGISTIC), "C", (0.1, 0.3, 1, 3, 10), 0.3
    ),
    "transformers' BERT of the same size, from scratch": Model(bert, "learning_rate", (5e-4, 1e-3), 5e-4),
    "ToyBERT, from scratch": Model(from_scratch, "learning_rate", (5e-4, 1e-3), 5e-4),
    "ToyBERT, pre-trained": Model(fine_tuned, "learning_rate", (2.5e-4, 5e-4), 2.5e-4),
}


def tales(corpus: str, seed: int, smoke: bool) -> dict[str, dict[str, float]]:
    """Pre-trains ours on three books of tales, and measures it and the baselines on the stretches that it held out."""
    with tempfile.TemporaryDirectory() as top:
        run, found = f"{top}/run", Path(top) / "found.json"
        how = f"--seed {seed} --split-sentences true --epochs {1 if smoke else 30} --checkpoint-every {peers.NEVER}"
        given = ("--corpus", corpus, "--output-dir", run, *how.split())
        common.python("-m", "toybert.train.pretrain", *given)
        common.python("-m", "toybert.train.evaluate", run, "--corpus", corpus, "--output", str(found))
        report = json.loads(found.read_text(encoding="utf-8"))
    return {task: report[task] for task in ("mlm", "nsp")}


def facts(checkpoint: str) -> dict[str, Any]:
    """Reads the steps and seconds of a pre-training run, and its last figures on held-out text."""
    history = json.loads((Path(checkpoint) / "history.json").read_text(encoding="utf-8"))
    return {"steps": history["step"], "seconds": history["seconds"], **history["validation"][-1]}


def one_run(spec: Spec) -> dict[str, Any]:
    """Fits one model on one task with one seed, and returns its figures on each part that is measured."""
    data = Path(spec["data"])
    if spec["task"] == "tales":
        return tales(str(data / "tales"), spec["seed"], spec["smoke"])
    parts = {part: rows[: 200 if spec["smoke"] else None] for part, rows in TASKS[spec["task"]](data).items()}
    train = parts.pop("train")
    guesses, parameters = MODELS[spec["model"]].fit(train, [row for rows in parts.values() for row in rows], spec)
    rest = iter(guesses)
    found = {part: scores([next(rest) for _ in rows], [label for _, label in rows]) for part, rows in parts.items()}
    return {"train": len(train), "parameters": parameters, "parts": found}


def scores(guesses: list[str], truth: list[str]) -> dict[str, float]:
    """Returns the figures of guesses beside the labels."""
    macro = f1_score(truth, guesses, average="macro", labels=sorted(set(truth)))  # "" is said of a text without words
    return {"accuracy": accuracy_score(truth, guesses), "macro_f1": macro, "rows": len(truth)}


def run_all(specs: list[Spec], options: Any) -> list[dict[str, Any]]:
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

    def run(spec: Spec) -> dict[str, Any]:
        asked = {**shared, **spec}
        for earlier in done:
            if asked.items() <= earlier.items():
                return {name: value for name, value in earlier.items() if name not in asked}
        found = common.child("real_text", asked, OMP_NUM_THREADS="1")
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**asked, **found}) + "\n")
        said = ", ".join(f"{part} {figures['accuracy']:.4f}" for part, figures in found.get("parts", {}).items())
        print(f"{spec['task']}, {spec['model']}, {spec['recipe']}, seed {spec['seed']}: {said or 'done'}", flush=True)
        return found

    with ThreadPool(CORES) as pool:
        return pool.map(run, specs, chunksize=1)


def mean(values: Sequence[float]) -> str:
    """Writes the mean of some shares."""
    return f"{statistics.mean(values) * 100:.1f} %"


def spread(values: Sequence[float]) -> str:
    """Writes the least and the most of some shares, if there are several."""
    return f"{min(values) * 100:.1f} - {max(values) * 100:.1f} %" if len(values) > 1 else ""


def on_tales(runs: list[dict[str, Any]] | None, cell: Callable[[Sequence[float]], str]) -> Iterator[str]:
    """Yields the tables of what was measured on held-out stretches of the tales, if it was."""
    words = {"unigram": "the commonest word", "bigram": "the word between its neighbours"}
    pairs = {"length_only": "length", "word_overlap": "shared words", "word_pairs": "all pairs of words"}
    for name, task, others in (("masked words", "mlm", words), ("next sentences", "nsp", pairs)) if runs else ():
        keys = ("accuracy", *[f"{other}_accuracy" for other in others])
        line = [cell([run[task][key] for run in runs]) for key in keys]
        yield common.table(("the tales", "ToyBERT", *others.values()), [(name, *line)])


def real_blocks(found: dict[str, Any]) -> dict[str, str]:
    """Returns the card's rows, and the tables of docs/results.md, by the names in their markers."""
    tasks = found["tasks"]
    columns = {name: column for name, column in REAL.items() if column[0] in tasks}
    models = tasks[next(iter(columns.values()))[0]] if columns else {}

    def figures(model: str, task: str, part: str, name: str) -> list[float]:
        return [run["parts"][part][name] for run in tasks[task][model]]

    def lines(cell: Callable[[Sequence[float]], str]) -> Iterator[tuple[str, ...]]:
        for model, (run, *_) in models.items():
            size = f"{run['parameters'] / 1e6:.1f} M" if run["parameters"] else ""
            yield model, size, *[cell(figures(model, *column)) for column in columns.values()]

    learnt: list[str] = ["(rows to learn from)", ""]
    measured: list[str] = ["(rows to measure on)", ""]
    brief = []  # the sets whose rows nothing was chosen on
    for name, (task, part, figure) in columns.items():
        runs, is_accuracy = tasks[task], figure == "accuracy"
        one = next(iter(runs.values()))[0]
        learnt.append(f"{one['train']:,}" if is_accuracy else "")
        measured.append(f"{one['parts'][part]['rows']:,}" if is_accuracy else "")
        if part == "test" and is_accuracy:
            means = {model: statistics.mean(figures(model, task, part, figure)) for model in runs}
            best = [max(means[model] for model in means if model.startswith(kind)) for kind in KINDS.values()]
            cells, top = [mean([value]) for value in best], mean([max(best)])
            brief.append((name.removesuffix(", test"), *[f"**{cell}**" if cell == top else cell for cell in cells]))
    header, some = ("accuracy", "parameters", *columns), tasks.get("tales", {}).get("ToyBERT")
    full = [common.table(header, [*lines(mean), learnt, measured]), *on_tales(some, mean)]
    ranges = [common.table(header, [line for line in lines(spread) if any(line[2:])]), *on_tales(some, spread)]
    brief_table = common.table(("accuracy", *KINDS), brief)
    return {"real": "\n\n".join(full), "ranges": "\n\n".join(ranges), "real_rows": brief_table}


def specs_of(task: str, settings: Callable[[Model], Sequence[float]], rounds: int) -> list[Spec]:
    """Lists the runs of every model on a task, by each of some settings; those that nothing random goes into, once."""
    return [
        {"task": task, "model": name, "seed": seed, "recipe": {model.setting: value} if model.setting else {}}
        for name, model in MODELS.items()
        for value in settings(model)
        for seed in range(rounds if model.setting == "learning_rate" else 1)
    ]


def tune(options: Any) -> None:
    """Tries each setting of each model on sentences that are kept apart."""
    specs = specs_of(TO_CHOOSE_ON, lambda model: model.tried[: 1 if options.smoke else None], options.rounds)
    tried: dict[tuple[str, str], list[float]] = {}
    for spec, found in zip(specs, run_all(specs, options), strict=True):
        ((setting, value),) = spec["recipe"].items()
        some = tried.setdefault((spec["model"], f"{setting} {value:g}"), [])
        some.append(found["parts"]["sentences"]["accuracy"])
    rows = f"accuracy on {found['parts']['sentences']['rows']} sentences, learnt from {found['train']:,} phrases"
    text = common.table(("model", "recipe", rows), [(*name, mean(some)) for name, some in tried.items()])
    results = [{"model": model, "recipe": recipe, "accuracy": some} for (model, recipe), some in tried.items()]
    common.report("real_text_tune", options, {"tried": results}, text)


def compare(options: Any) -> None:
    """Runs every model on every task with every seed."""
    specs: list[Spec] = []
    for task in options.tasks:
        if task == "tales":
            specs += [{"task": task, "model": "ToyBERT", "seed": seed, "recipe": {}} for seed in range(options.rounds)]
        else:
            specs += specs_of(task, lambda model: [model.chosen], options.rounds)
    runs: dict[str, dict[str, list[Any]]] = {}
    for spec, found in zip(specs, run_all(specs, options), strict=True):
        runs.setdefault(spec["task"], {}).setdefault(spec["model"], []).append(found)
    results = {"checkpoint": facts(options.checkpoint), "tasks": runs}
    common.report("real_text", options, results, "\n\n".join(real_blocks(results).values()))


def main() -> None:
    parser = common.parser(__doc__, rounds=3, tasks=("sst2", "polarity", "spam", "tales"))
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of sst2, sentence_polarity, sms_spam and tales"
    )
    parser.add_argument("--checkpoint", required=True, help="the folder of a model that was pre-trained on other text")
    parser.add_argument("--resume", action="store_true", help="keep what an interrupted run has found")
    parser.add_argument("--tune", action="store_true", help="try recipes on a part of SST-2's train phrases instead")
    options = common.parse(parser)
    try:  # rather now than when hours have passed
        for task in ("sst2", "polarity") if options.tune else options.tasks:
            list((options.data / "tales").iterdir()) if task == "tales" else TASKS[task](options.data)
        if not options.tune:
            facts(options.checkpoint)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    tune(options) if options.tune else compare(options)


if __name__ == "__main__":
    main()
