"""Measures a checkpoint on held-out text, each figure beside what can be had without a network."""

import argparse
import json
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from accelerate import Accelerator
from datasets import Dataset as TextDataset
from datasets import DatasetDict
from torch import nn
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining, AutoModelForSequenceClassification

from toybert.train import cli
from toybert.train.data.batches import evaluation_loader
from toybert.train.data.checks import check_labels
from toybert.train.data.datasets import FinetuneDataset, MaskedWordDataset, PretrainDataset
from toybert.train.data.labelled import SENTIMENT, make_datasets
from toybert.train.data.labels import SINGLE, Labels, shortened
from toybert.train.data.sentences import document_numbers
from toybert.train.data.source import CORPORA, TextOptions, find_source
from toybert.train.data.stream import load_head
from toybert.train.data.tables import Table, load_corpus, load_file
from toybert.train.data.text import Text, load_text
from toybert.train.hub.folders import check_vocabulary, load_config, load_model, load_tokenizer, longest_input, pinned
from toybert.train.loop.checkpoint import RECORD, read_record
from toybert.train.loop.run import on_main_process, shares_a_cpu
from toybert.train.measure import baselines
from toybert.train.measure.classification import beside, compare, evaluate_classification, predict
from toybert.train.measure.pretraining import content_words, evaluate_pretraining, fill_mask

FEWEST_FOR_HARD = 100  # documents; among fewer, some have no other that shares a person or the topic
# Sample sentences: the two about Tom have the same word slot in different company, the two after them want one word in
# its two senses, and the last shows what the model does not know.
PROMPTS = (
    "The dog heard it and [MASK].",
    "Anna turned the [MASK], and the door opened.",
    "Tom went to the [MASK] to fish.",
    "Tom went to the [MASK] to buy apples.",
    "She sat on the [MASK] by the river.",
    "Ben put his money in the [MASK].",
    "In spring the tree had green [MASK].",
)


def related_documents(documents: TextDataset) -> np.ndarray | None:
    """Marks, bool (documents, documents), those that share a person or the topic; None if the corpus names none."""
    if not {"script", "people"} <= set(documents.column_names):
        return None
    scripts, people = np.array(documents["script"]), [set(names or ()) for names in documents["people"]]
    shared = np.array([[bool(a & b) for b in people] for a in people])
    return shared | (scripts[:, None] == scripts[None])


def record_of(folder: str | Path) -> dict[str, Any]:
    """Returns what the run that made a checkpoint was told; nothing, if its folder does not say."""
    return read_record(Path(folder)) if (Path(folder) / RECORD).is_file() else {}


def own_text(folder: str | Path, corpus: str, pairs: bool) -> tuple[dict[str, TextDataset], bool]:
    """Loads text as the run that made a checkpoint read it (see its run.json), and tells whether it is packed.

    Where the text has no test split, the part that the run held out stands for it.
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
    """Refuses to hold a part out of a text that has changed since a run learnt from it: it would be another part.

    Raises:
        ValueError: a file has the name of one that the run read, and other contents.
    """
    for name, digests in text.record.items():
        if not set(digests) <= set(known.get(name, digests)):
            raise ValueError(
                f"{name} is no longer the text that the model learnt from, so that what is held out of it now was in "
                "part learnt from: give the text as it was, or new text alone under another name"
            )


def pretraining_report(
    folder: str | Path, corpus: Mapping[str, TextDataset], accelerator: Accelerator, packed: bool = False
) -> dict[str, Any]:
    """Gives everything that is measured of a pre-trained checkpoint, on the test documents."""
    tokenizer, config = load_tokenizer(folder), load_config(folder)
    check_vocabulary(tokenizer, config, folder)
    content = content_words(tokenizer)
    pairs = config.architectures == ["ToyBertForPreTraining"]
    model = accelerator.prepare(load_model(AutoModelForPreTraining if pairs else AutoModelForMaskedLM, folder))

    def dataset(split: str, **more: Any) -> Any:
        rows, kind = corpus[split], PretrainDataset if pairs else MaskedWordDataset
        how = {"packed": packed, "max_length": longest_input(tokenizer, config), "numbers": document_numbers(rows)}
        return kind(rows["sentences"], tokenizer, **how, **more)

    with accelerator.main_process_first():  # it tokenises, the others find what it made
        training, test = dataset("train"), dataset("test")
    figures = evaluate_pretraining(model, evaluation_loader(test, accelerator), accelerator, content)
    mlm = {name: figures[f"mlm_{name}"] for name in ("loss", "accuracy")}
    nsp = {name: figures[f"nsp_{name}"] for name in ("loss", "accuracy") if pairs}
    unseen_rows = test.rows_without(training.sentences)
    mlm |= {"content_accuracy": figures["content_accuracy"], "unseen_share": len(unseen_rows) / len(test)}
    if len(unseen_rows):
        unseen = evaluate_pretraining(model, evaluation_loader(test, accelerator, unseen_rows), accelerator)
        mlm["unseen_accuracy"] = unseen["mlm_accuracy"]
        nsp |= {"unseen_accuracy": unseen["nsp_accuracy"]} if pairs else {}
    results = {"mlm": {**mlm, **baselines.masked_word_baselines(training, test, content)}}
    if pairs:
        held_out = {"": test}
        related = related_documents(corpus["test"])
        if related is not None and len(corpus["test"]) >= FEWEST_FOR_HARD:
            held_out["hard_"] = dataset("test", related=related)
        nsp |= next_sentence_figures(model, held_out, accelerator)
        nsp |= {"chance_accuracy": 0.5, **baselines.next_sentence_baselines(training, held_out, content)}
        results["nsp"] = nsp
    return {**results, "samples": fill_mask(accelerator.unwrap_model(model), tokenizer, PROMPTS)}


def next_sentence_figures(
    model: nn.Module, held_out: dict[str, PretrainDataset], accelerator: Accelerator
) -> dict[str, float]:
    """Gives the accuracies of next sentences, with and without words hidden, on each set by its prefix."""
    figures = {}
    for prefix, dataset in held_out.items():
        loader = evaluation_loader(dataset, accelerator)
        for name, hide in (("accuracy", True), ("unmasked_accuracy", False)):
            figures[f"{prefix}{name}"] = evaluate_pretraining(model, loader, accelerator, hide=hide)["nsp_accuracy"]
    return figures


def classification_report(folder: str | Path, corpus: DatasetDict, accelerator: Accelerator) -> dict[str, Any]:
    """Gives everything that is measured of a classifier of sentiment, on the test sentences."""
    names = tuple(load_config(folder).id2label.values())
    if names != SENTIMENT:
        raise ValueError(f"{folder} tells {shortened(names)}, not sentiment: give a --test-file")
    tokenizer = load_tokenizer(folder)
    check_vocabulary(tokenizer, load_config(folder), folder)
    model = accelerator.prepare(load_model(AutoModelForSequenceClassification, folder))
    for name, rows in corpus.items():
        check_labels(rows["label"], len(SENTIMENT), f"{name}.jsonl")
    with accelerator.main_process_first():
        longest = longest_input(tokenizer, load_config(folder))
        test = FinetuneDataset(corpus["test"]["text"], corpus["test"]["label"], tokenizer, longest)
    every = evaluate_classification(model, evaluation_loader(test, accelerator), accelerator)
    figures = {name: every[name] for name in ("loss", "accuracy")}
    train, validation, test_rows = (
        (corpus[split]["text"][:], corpus[split]["label"][:]) for split in ("train", "validation", "test")
    )
    return {"sentiment": {**figures, **baselines.text_baselines(train, validation, test_rows)}}


def file_report(options: argparse.Namespace, accelerator: Accelerator) -> dict[str, dict[str, float]]:
    """Gives what is measured of a classifier on the rows of a file, beside saying of all what is commonest in it."""
    config, tokenizer = load_config(options.checkpoint), load_tokenizer(options.checkpoint)
    if config.architectures != ["ToyBertForSequenceClassification"]:
        raise ValueError(f"{options.checkpoint} is no classifier, and a --test-file is for one")
    check_vocabulary(tokenizer, config, options.checkpoint)
    rows = Table(load_file(options.test_file), options.test_file)
    run = {"text_column": "text", "label_column": "label", **record_of(options.checkpoint)}
    given = {name: value for name, value in vars(options).items() if value is not None}
    columns = ("text_column", "text_pair_column", "label_column", "label_separator")
    text, pair, label, separator = (given.get(name, run.get(name)) for name in columns)
    texts = [text, pair] if pair else [text]
    for column in texts:
        rows.check_text(column)
    names = tuple(config.id2label[number] for number in range(config.num_labels))
    labels = Labels(config.problem_type or SINGLE, names, label, separator)
    model = accelerator.prepare(load_model(AutoModelForSequenceClassification, options.checkpoint))
    with accelerator.main_process_first():
        longest = longest_input(tokenizer, config)
        test = make_datasets({"test": rows}, {"test": labels.encode(rows)}, texts, tokenizer, longest)["test"]
    assert test.labels is not None
    return compare(predict(model, test, accelerator), test.labels, test.labels, names)


def table(results: dict[str, Any]) -> str:
    """Lays out results for a terminal."""
    if "baseline" in results:
        return beside(results, "these rows")
    lines = []
    for part in ("mlm", "nsp", "sentiment"):
        if part in results:
            lines += [
                f"{part}",
                *(f"  {name.replace('_', ' '):36}{value:8.3f}" for name, value in results[part].items()),
            ]
    for sample in results.get("samples", []):
        words = ", ".join(f"{word} {probability:.2f}" for word, probability in sample["words"])
        lines.append(f"  {sample['text']:52} {words}")
    return "\n".join(lines)


def main() -> None:
    """Evaluates the checkpoint that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m toybert.train.evaluate", description=__doc__, epilog=cli.DEBUG)
    parser.add_argument("checkpoint", help="a folder or a Hub id: a pre-trained model, or a sentiment classifier")
    parser.add_argument("--revision", help="its commit, tag or branch, if it is on the Hub (default: its main)")
    parser.add_argument("--corpus", help="its text, as it was given to the training (default: the toy corpora)")
    parser.add_argument("--test-file", help="of a classifier: labelled rows, as .csv, .tsv, .json, .jsonl or .parquet")
    parser.add_argument("--text-column", help="its column of texts (default: as in training, as for the next three)")
    parser.add_argument("--text-pair-column", help="its column of second texts, if there is one")
    parser.add_argument("--label-column", help="its column of labels")
    parser.add_argument("--label-separator", help="stands between labels, where a cell can hold several")
    parser.add_argument("--output", type=Path, help="write the results there, as JSON")
    options = parser.parse_args()
    if options.output and not options.output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {options.output.parent} to write {options.output.name} into")
    accelerator = Accelerator(cpu=shares_a_cpu())
    options.checkpoint = pinned(options.checkpoint, options.revision)
    architecture = (load_config(options.checkpoint).architectures or ["?"])[0]
    pretrained = ("ToyBertForPreTraining", "ToyBertForMaskedLM")
    if architecture not in (*pretrained, "ToyBertForSequenceClassification"):
        raise ValueError(f"{options.checkpoint} holds a {architecture}; give a pre-trained model or a classifier")
    if options.test_file:
        results = file_report(options, accelerator)
    elif architecture == "ToyBertForSequenceClassification":
        read = partial(load_corpus, options.corpus or CORPORA / "sentiment", columns=["text", "label"])
        corpus = on_main_process(accelerator, read)
        results = classification_report(options.checkpoint, corpus, accelerator)
    else:
        folder = options.corpus or str(CORPORA / "stories")
        if (Path(folder) / "test.jsonl").is_file():
            read = partial(load_corpus, folder, columns=["sentences"], splits=["train", "test"])
            corpus = on_main_process(accelerator, read)
            packed = bool(record_of(options.checkpoint).get("pack"))
        else:
            pairs = architecture == pretrained[0]
            corpus, packed = on_main_process(accelerator, lambda: own_text(options.checkpoint, folder, pairs))
        results = pretraining_report(options.checkpoint, corpus, accelerator, packed)
    accelerator.print(table(results))
    if options.output and accelerator.is_main_process:
        options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    cli.run(main)
