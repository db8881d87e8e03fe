"""Measures a checkpoint on held-out text, beside baselines that need no network."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from datasets import Dataset as TextDataset

from toybert.train import cli
from toybert.train.corpora.best_possible import beside_the_best
from toybert.train.data.labels import SINGLE, Labels
from toybert.train.data.source import CORPORA, TextOptions, find_source, find_tables
from toybert.train.data.stream import load_head
from toybert.train.data.tables import Table, load_corpus, load_tables
from toybert.train.data.text import Text, load_text
from toybert.train.hub.folders import load_config, pinned
from toybert.train.loop.checkpoint import RECORD, read_record
from toybert.train.loop.run import on_main_process, shares_a_cpu
from toybert.train.measure.classification import file_report, format_comparison, sentiment_report
from toybert.train.measure.pretraining import pretraining_report

PRETRAINED = ("ToyBertForPreTraining", "ToyBertForMaskedLM")
CLASSIFIER = "ToyBertForSequenceClassification"


def record_of(folder: str | Path) -> dict[str, Any]:
    """Returns the options of the run that made a checkpoint, from its run.json; none if it has no such file."""
    return read_record(Path(folder)) if (Path(folder) / RECORD).is_file() else {}


def own_text(folder: str | Path, corpus: str, pairs: bool) -> tuple[dict[str, TextDataset], bool]:
    """Loads text as the run that made a checkpoint read it (see its run.json), and tells whether it is packed.

    Without a test split, it takes the part that the run held out.
    """
    run = record_of(folder)
    known = {each.name: run[each.name] for each in fields(TextOptions) if each.name in run}
    source = find_source(TextOptions(**{**known, "corpus": corpus}))
    text = load_head(source) if run.get("streaming") else load_text(source, seed=run.get("seed", 0), pairs=pairs)
    if text.test is None:
        check_unchanged(text, run.get("sources", {}))
    packed = not source.has_splits if run.get("pack") is None else run["pack"]
    return {"train": text.training, "test": text.validation if text.test is None else text.test}, packed


def check_unchanged(text: Text, known: Mapping[str, Any]) -> None:
    """Refuses a text that has changed since a run learnt from it: another part of it would be held out."""
    for name, digests in text.record.items():
        if not set(digests) <= set(known.get(name, digests)):
            raise ValueError(
                f"{name} is no longer the text that the model learnt from, and the part held out now would include "
                "training text: give the text as it was, or only new text under another name"
            )


def read_test_file(options: argparse.Namespace) -> tuple[Table, Labels, list[str]]:
    """Reads labelled rows to test a classifier on; returns them, what their labels stand for, and the columns of text.

    The columns are those of the run that made the classifier, unless others are given.
    """
    config = load_config(options.checkpoint)
    if config.architectures != [CLASSIFIER]:
        raise ValueError(f"{options.checkpoint} is no classifier, but --test-file needs one")
    table = load_tables(find_tables("", None, {"train": options.test_file}))["train"]
    run = {"text_column": "text", "label_column": "label", **record_of(options.checkpoint)}
    given = {name: value for name, value in vars(options).items() if value is not None}
    columns = ("text_column", "text_pair_column", "label_column", "label_separator")
    text, pair, label, separator = (given.get(name, run.get(name)) for name in columns)
    texts = [column for column in (text, pair) if column]
    for column in texts:
        table.check_text(column)
    names = tuple(config.id2label[number] for number in range(config.num_labels))
    return table, Labels(config.problem_type or SINGLE, names, label, separator), texts


def format_results(results: dict[str, Any]) -> str:
    """Formats results for a terminal."""
    if "baseline" in results:
        return format_comparison(results, "these rows")
    lines = []
    for part in ("mlm", "nsp", "sentiment"):
        if part in results:
            lines += [part, *(f"  {name.replace('_', ' '):44}{value:8.3f}" for name, value in results[part].items())]
    for sample in results.get("samples", []):
        words = ", ".join(f"{word} {probability:.2f}" for word, probability in sample["words"])
        lines.append(f"  {sample['text']:52} {words}")
    return "\n".join(lines)


def main() -> None:
    """Evaluates the checkpoint that the command line names."""
    parser = cli.make_parser(__doc__)
    parser.add_argument("checkpoint", help="A pre-trained model or a classifier: a folder, or an id on the Hub.")
    parser.add_argument("--revision", help="Commit, tag or branch of a model on the Hub (default: its main branch).")
    parser.add_argument("--corpus", help="Text, as given to training (default: the toy corpora).")
    parser.add_argument("--test-file", help="Labelled rows for a classifier: .csv, .tsv, .json, .jsonl or .parquet.")
    parser.add_argument("--text-column", help="Column of the text (default: as in training).")
    parser.add_argument("--text-pair-column", help="Column of the second text, for pairs (default: as in training).")
    parser.add_argument("--label-column", help="Column of the label (default: as in training).")
    parser.add_argument("--label-separator", help="Separates several labels in one cell (default: as in training).")
    parser.add_argument("--output", type=Path, help="File to write the results into, as JSON.")
    options = parser.parse_args()
    if options.output and not options.output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {options.output.parent} to write {options.output.name} into")
    accelerator = Accelerator(cpu=shares_a_cpu())
    options.checkpoint = pinned(options.checkpoint, options.revision)
    architecture = (load_config(options.checkpoint).architectures or ["?"])[0]
    if architecture not in (*PRETRAINED, CLASSIFIER):
        raise ValueError(f"{options.checkpoint} holds a {architecture}; give a pre-trained model or a classifier")
    if options.test_file:
        results = file_report(options.checkpoint, *read_test_file(options), accelerator)
    elif architecture == CLASSIFIER:
        folder = options.corpus or str(CORPORA / "sentiment")
        rows = on_main_process(accelerator, lambda: load_corpus(folder, columns=["text", "label"]))
        results = sentiment_report(options.checkpoint, rows, accelerator)
    else:
        folder, pairs = options.corpus or str(CORPORA / "stories"), architecture == PRETRAINED[0]
        if (Path(folder) / "test.jsonl").is_file():  # its people and topics may allow hard pairs
            read = partial(load_corpus, folder, columns=["sentences"], splits=["train", "test"])
            corpus, packed = on_main_process(accelerator, read), bool(record_of(options.checkpoint).get("pack"))
        else:
            corpus, packed = on_main_process(accelerator, lambda: own_text(options.checkpoint, folder, pairs))
        results = pretraining_report(options.checkpoint, corpus, accelerator, packed)
        if accelerator.is_main_process and not packed:
            results = beside_the_best(results, options.checkpoint, folder)
    accelerator.print(format_results(results))
    if options.output and accelerator.is_main_process:
        options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    cli.run(main)
