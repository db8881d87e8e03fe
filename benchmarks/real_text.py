"""Accuracies on public data sets: ours from scratch and after pre-training, a BERT of the same size, and naive Bayes.

The data sets are given by path, as they are distributed: see README.md for where they come from.
"""

import csv
import json
import random
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import Accelerator
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from transformers import (
    AutoModelForPreTraining,
    AutoTokenizer,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
    set_seed,
)

from benchmarks import common, peers
from toybert.train.evaluate import own_text, pretraining_report
from toybert.train.finetune import FinetuneOptions, train_finetuning
from toybert.train.hub import ROOT, load_config, load_tokenizer, save_hub_folder
from toybert.train.pretrain import PretrainOptions, train_pretraining
from toybert.train.vocabulary import learn_tokenizer

Rows = list[tuple[str, str]]  # text, label
VOCABULARY = 8_000
TALES: dict[str, Any] = {"split_sentences": True, "epochs": 30}
BASELINES = {  # of the tales
    "mlm": {"unigram_accuracy": "the commonest word", "bigram_accuracy": "the word between its neighbours"},
    "nsp": {
        "length_only_accuracy": "length",
        "word_overlap_accuracy": "shared words",
        "word_pairs_accuracy": "all pairs of words",
    },
}
RECIPE: dict[str, Any] = {"epochs": 3, "learning_rate": 1e-3, "batch_size": 32, "dropout": 0.1}


def read_table(path: Path, names: Sequence[str]) -> Rows:
    """Reads a table of labels and texts between tabs, whose quotes are text; a row of another label is its header."""
    with open(path, encoding="utf-8", newline=None) as lines:
        cells = [line.rstrip("\n").split("\t") for line in lines]
    return [(row[1], row[0]) for row in cells if row[0] in names]


def divided(rows: Rows, share: float) -> dict[str, Rows]:
    """Divides rows at random, always in the same way, into some to learn from and a share to measure on.

    A text that stands there several times counts once: else some of what is measured on was learnt from.
    """
    once = list(dict(rows).items())
    rows = random.Random(0).sample(once, len(once))
    count = round(share * len(rows))
    return {"train": rows[count:], "test": rows[:count]}


def sst2(data: Path) -> dict[str, Rows]:
    """Reads SST-2: its train phrases and, to measure on, its dev sentences."""
    files = {"train": "train.tsv", "test": "dev.tsv"}
    return {split: read_table(data / "sst2" / name, ("0", "1")) for split, name in files.items()}


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


TASKS: dict[str, Callable[[Path], dict[str, Rows]]] = {"sst2": sst2, "polarity": polarity, "spam": spam}


def write_csv(path: Path, rows: Rows) -> Path:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return path


def untrained(folder: Path, texts: list[str], seed: int) -> Path:
    """Leaves a checkpoint that has learnt nothing but the words of a task, for a start from scratch."""
    set_seed(seed)
    tokenizer = learn_tokenizer("word", [texts], VOCABULARY, 1, 64)
    config = load_config(ROOT, vocab_size=len(tokenizer), initializer_range=0.05)
    folder.mkdir()
    save_hub_folder(AutoModelForPreTraining.from_config(config, trust_remote_code=True), tokenizer, folder)
    return folder


def ours(rows: dict[str, Rows], seed: int, checkpoint: str | None = None) -> dict[str, float]:
    """Fine-tunes ours, from scratch or from a checkpoint, by `train_finetuning`, and measures it on the test rows."""
    with tempfile.TemporaryDirectory() as top, common.silence():
        folder = Path(top)
        files = {split: str(write_csv(folder / f"{split}.csv", some)) for split, some in rows.items()}
        start = checkpoint or untrained(folder / "untrained", [text for text, _ in rows["train"]], seed)
        options = FinetuneOptions(
            output_dir=str(folder / "run"), model=str(start), seed=seed, checkpoint_every=peers.NEVER,
            train_file=files["train"], validation_file=files["test"], test_file=files["test"], **RECIPE,
        )  # fmt: skip
        train_finetuning(options)  # the last epoch is kept: nothing is chosen on the rows that are measured
        found = json.loads((folder / "run/results.json").read_text(encoding="utf-8"))["test"]["model"]
        return {"accuracy": found["accuracy"], "macro_f1": found["macro_f1"]}


def bert(rows: dict[str, Rows], seed: int) -> dict[str, float]:
    """Trains the library's BERT of the same size and words from scratch with Trainer, by the same recipe."""
    names = sorted({label for _, label in rows["train"]})
    with tempfile.TemporaryDirectory() as top, common.silence():
        start = untrained(Path(top) / "untrained", [text for text, _ in rows["train"]], seed)
        peers.save_stock_tokenizer(load_tokenizer(start), Path(top))
        tokenizer = AutoTokenizer.from_pretrained(top, model_max_length=64)
        config = peers.bert_config(load_config(start, num_labels=len(names)))
        config.num_labels = len(names)
        encoded = {
            split: [
                {**dict(tokenizer(text, truncation=True, max_length=64)), "labels": names.index(label)}
                for text, label in some
            ]
            for split, some in rows.items()
        }
        set_seed(seed)
        steps = RECIPE["epochs"] * -(-len(rows["train"]) // RECIPE["batch_size"])
        arguments = TrainingArguments(
            output_dir=top, num_train_epochs=RECIPE["epochs"], per_device_train_batch_size=RECIPE["batch_size"],
            learning_rate=RECIPE["learning_rate"], weight_decay=0.01, warmup_steps=round(0.06 * steps), seed=seed,
            use_cpu=True, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        trainer = Trainer(
            model=BertForSequenceClassification(config), args=arguments, train_dataset=encoded["train"],
            data_collator=DataCollatorWithPadding(tokenizer),
        )  # fmt: skip
        trainer.train()
        guesses = trainer.predict(encoded["test"]).predictions.argmax(-1)
    return scores([names[guess] for guess in guesses], rows["test"])


def scores(guesses: Any, test: Rows) -> dict[str, float]:
    truth = [label for _, label in test]
    return {"accuracy": accuracy_score(truth, guesses), "macro_f1": f1_score(truth, guesses, average="macro")}


def linear(classifier: Any, rows: dict[str, Rows]) -> dict[str, float]:
    """Fits a model of scikit-learn on words and bigrams."""
    model = make_pipeline(CountVectorizer(ngram_range=(1, 2), token_pattern=r"\S+"), classifier)
    model.fit(*map(list, zip(*rows["train"], strict=True)))
    return scores(model.predict([text for text, _ in rows["test"]]), rows["test"])


def tales(data: Path, seed: int, smoke: bool) -> dict[str, dict[str, float]]:
    """Pre-trains ours on three books of tales, and measures it and the baselines on the stretches that it held out."""
    with tempfile.TemporaryDirectory() as top, common.silence():
        recipe = {**TALES, "epochs": 1 if smoke else TALES["epochs"]}
        options = PretrainOptions(
            output_dir=str(Path(top) / "run"), corpus=str(data / "tales"), seed=seed, checkpoint_every=peers.NEVER,
            **recipe,
        )  # fmt: skip
        train_pretraining(options)
        text, packed = own_text(options.output_dir, options.corpus, pairs=True)
        report = pretraining_report(options.output_dir, text, Accelerator(), packed)
    return {task: report[task] for task in ("mlm", "nsp")}


def spread(values: list[float]) -> str:
    """Writes the mean of some shares and, of several, the extremes."""
    return f"{statistics.mean(values):.1%}" + (f" ({min(values):.1%} - {max(values):.1%})" if values[1:] else "")


def table_of_tales(runs: list[dict[str, dict[str, float]]]) -> str:
    """Lays out what is known of the tales."""
    lines = []
    for task, what in (("mlm", "masked words, 15 %"), ("nsp", "next sentence")):
        names = [name for name in runs[0][task] if name.endswith("_accuracy") and name in BASELINES[task]]
        without = "; ".join(f"{BASELINES[task][name]} {spread([run[task][name] for run in runs])}" for name in names)
        lines.append((what, spread([run[task]["accuracy"] for run in runs]), without))
    return common.table(("tales, held-out stretches", "ToyBERT", "without a network"), lines)


def main() -> None:
    parser = common.parser(__doc__, rounds=3)
    parser.add_argument("--data", type=Path, help="folder of sst2, sentence_polarity, sms_spam and tales")
    every = [*TASKS, "tales"]
    parser.add_argument("--tasks", nargs="+", choices=every, default=every, metavar="TASK", help=", ".join(every))
    parser.add_argument("--checkpoint", help="a model that was pre-trained on other text, to be fine-tuned too")
    options = common.parse(parser)
    results: dict[str, Any] = {}
    lines = []
    for task in options.tasks:
        if task == "tales":
            continue
        rows = TASKS[task](options.data)
        if options.smoke:
            rows = {split: some[:200] for split, some in rows.items()}
        names, counts = np.unique([label for _, label in rows["train"]], return_counts=True)
        commonest = scores([names[counts.argmax()]] * len(rows["test"]), rows["test"])
        seeds = range(options.rounds)
        runs: dict[str, list[dict[str, float]]] = {
            "the commonest class": [commonest],
            "naive Bayes, words and bigrams": [linear(MultinomialNB(), rows)],
            "logistic regression, words and bigrams": [linear(LogisticRegression(max_iter=1000), rows)],
            "transformers' BERT of this size, from scratch": [bert(rows, seed) for seed in seeds],
            "ToyBERT, from scratch": [ours(rows, seed) for seed in seeds],
        }
        if options.checkpoint:
            runs["ToyBERT, pre-trained"] = [ours(rows, seed, options.checkpoint) for seed in seeds]
        results[task] = {"rows": {split: len(some) for split, some in rows.items()}, "models": runs}
        for model, found in runs.items():
            accuracy, macro = (spread([one[figure] for one in found]) for figure in ("accuracy", "macro_f1"))
            lines.append((task, f"{len(rows['train']):,} / {len(rows['test']):,}", model, accuracy, macro))
    header = ("task", "rows, train / test", "model", "accuracy, mean (least - most)", "macro-F1")
    text = f"{options.rounds} seeds.\n\n{common.table(header, lines)}"
    if "tales" in options.tasks:
        runs = [tales(options.data, seed, options.smoke) for seed in range(options.rounds)]
        results["tales"] = {"runs": runs}
        text += f"\n\n{table_of_tales(runs)}"
    common.report("real_text", options, results, text)


if __name__ == "__main__":
    main()
