"""What a run reports: on its card, and after fine-tuning in results.json, predictions.csv and a picture."""

import json
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accelerate import Accelerator
from torch import Tensor, nn

from toybert.train.data.datasets import FinetuneDataset, MaskedDataset
from toybert.train.data.labels import REGRESSION, SINGLE, Labels, dataset_notes, is_number, read_labels, shortened
from toybert.train.data.tables import Table
from toybert.train.data.tokens import TokenisedText
from toybert.train.hub.card import Result, shown, write_card
from toybert.train.hub.escape import code, in_line
from toybert.train.hub.folders import ROOT
from toybert.train.measure import classification
from toybert.train.measure.baselines import commonest_word
from toybert.train.measure.classification import BASELINES, METRICS, Comparison
from toybert.train.measure.plots import MOST_CLASSES, plot_confusion

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet runs


def describe(text: TokenisedText, training: MaskedDataset, validation: MaskedDataset, options: Any) -> list[str]:
    """Describes what pre-training learns from, what is held out, and which text it does not use."""
    name = f"{'the beginning of ' * options.streaming}{code(Path(options.corpus).name)}"
    rows = f"{len(training):,} pairs of sentences, half of them true" if options.nsp else f"{len(training):,} inputs"
    said = [
        f"{text.documents:,} training documents of {name}, {rows}",
        f"{training.vocab_size:,} tokens in the vocabulary; unknown to it are {training.unknown:.1%} of the training "
        f"text and {validation.unknown:.1%} of the held-out text",
        f"held out to measure on: {text.held_out}, {len(validation):,} {'pairs' if options.nsp else 'inputs'}",
    ]
    said += [f"{code(twin)} holds the same as {code(other)}" for twin, other in text.source.twins]
    if others := text.source.unread:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        said.append(f"not read of this folder: {', '.join(map(code, others[:5]))}{more}")
    said += [f"training text: {note}" for note in training.notes()]
    return said + [f"held-out text: {note}" for note in validation.notes()]


def pretraining_rows(last: dict[str, float], training: MaskedDataset, validation: MaskedDataset) -> list[Result]:
    """Returns the card's rows: the last figures on the validation documents, beside their baselines."""
    commonest = commonest_word(training, validation)
    rows = [("validation", "masked words, 15 %", last["mlm_accuracy"], "the commonest word", commonest)]
    if "nsp_accuracy" in last:
        rows.append(("validation", "next sentence", last["nsp_accuracy"], "a coin", 0.5))
    return rows


def write_results(
    model: nn.Module,
    tables: dict[str, Table],
    data: dict[str, FinetuneDataset],
    labels: Labels,
    options: Any,
    accelerator: Accelerator,
) -> dict[str, Comparison]:
    """Measures a model on each table that has labels, and writes the results into a run's folder.

    `tables` are the validation table and, if there is one, the test table; `data` has these and the training rows.
    """
    results, folder = {}, Path(options.output_dir)
    for split, table in tables.items():
        logits, truth = classification.predict(model, data[split], accelerator), data[split].labels
        if truth is not None:
            results[split] = classification.with_baseline(logits, truth, data["train"].labels, labels.names)
            accelerator.print(f"{in_line(table.name)}:\n{classification.format_comparison(results[split], 'training')}")
        if not accelerator.is_main_process:
            continue
        if split == "test":
            rows = table_of_predictions(table, options.texts, data[split].row, logits, labels)
            write_predictions(folder / "predictions.csv", quoted(rows) if options.quote_formulas else rows)
        elif labels.problem_type == SINGLE and len(labels.names) <= MOST_CLASSES:
            plot_confusion(truth, logits.argmax(1), labels.names, folder / "figures" / "confusion.png")
        elif labels.problem_type == SINGLE:
            print(f"no confusion matrix is drawn: {len(labels.names)} classes are more than {MOST_CLASSES}")
    if accelerator.is_main_process:
        (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return results


def table_of_predictions(
    table: Table, texts: Sequence[str], rows: np.ndarray, logits: Tensor, labels: Labels
) -> pd.DataFrame:
    """Returns a table's texts, its labels if it has any, what was predicted, and each class's probability.

    `rows` are those of the table that have logits; the others have no word, and their predictions stay empty.
    """
    given = {name: table.rows[name][:] for name in texts}
    if labels.column in table.rows.column_names:
        found = read_labels(table, labels.column, labels.separator)
        given[labels.column] = [labels.as_text(label) for label in found]
    predicted = pd.DataFrame(predictions(logits, labels), index=rows).reindex(range(len(table.rows)))
    return pd.concat([pd.DataFrame(given), predicted], axis=1)


def quoted(rows: pd.DataFrame) -> pd.DataFrame:
    """Puts ' before every text and name of a column that a spreadsheet would take for a formula; numbers stay."""

    def quote(cell: Any) -> Any:
        return f"'{cell}" if str(cell).startswith(FORMULA) and not is_number(cell) else cell

    return rows.apply(lambda column: column.map(quote)).rename(columns=quote)


def write_predictions(path: Path, rows: pd.DataFrame) -> None:
    """Writes rows into a CSV file, unless a file with other contents is there."""
    unfinished = path.with_suffix(".unfinished")
    # pandas quotes a text for a lone "\r" only if the ends of lines have one.
    rows.to_csv(unfinished, index=False, lineterminator="\r\n")
    if path.exists() and path.read_bytes() != unfinished.read_bytes():
        unfinished.unlink()
        print(f"left {path} as it is: it is not what this run predicts, so somebody may have edited it")
    else:
        unfinished.replace(path)
        print(f"wrote the predictions into {path}")


def predictions(logits: Tensor, labels: Labels) -> dict[str, list[str]]:
    """Returns columns of text: what logits (N, L) say about each row, and the probability of each class."""
    if labels.problem_type == REGRESSION:
        return {"predicted": [f"{number:.6g}" for number in logits[:, 0].tolist()]}
    if labels.problem_type == SINGLE:
        said, probability = [labels.names[number] for number in logits.argmax(1).tolist()], logits.softmax(1)
    else:
        held = [[name for name, x in zip(labels.names, row, strict=True) if x > 0] for row in logits.tolist()]
        said, probability = [labels.as_text(names) for names in held], logits.sigmoid()
    columns = zip(labels.names, probability.T.tolist(), strict=True)
    return {"predicted": said, **{f"p({name})": [f"{p:.4f}" for p in column] for name, column in columns}}


def write_finetuning_card(
    model: nn.Module,
    data: dict[str, FinetuneDataset],
    labels: Labels,
    results: dict[str, Comparison],
    options: Any,
    progress: Any,
) -> None:
    """Writes the card of a run: what it learnt from, and its figures beside those of the baseline."""
    source = code(Path(options.train_file or options.corpus).name)
    start = "the shipped ToyBERT" if Path(options.model).resolve() == ROOT else code(shown(options.model))
    classes = f"Classes: {shortened([code(name) for name in labels.names])}"
    notes = [
        f"{len(data['train']):,} training and {len(data['validation']):,} validation sentences of {source}",
        classes if labels.problem_type != REGRESSION else f"The label is a number, {code(labels.column)}",
        f"Fine-tuned from {start}" + (f" at {code(options.revision)}" if options.revision else ""),
        *chain(*(dataset_notes(dataset, f"the {split} split") for split, dataset in data.items())),
    ]
    baseline = f"{BASELINES[labels.problem_type]} in training"
    rows = [
        (split, name, comparison["model"][name], baseline, comparison["baseline"][name])
        for split, comparison in results.items()
        for name in METRICS[labels.problem_type]
        if name != "loss" or labels.problem_type == REGRESSION
    ]
    write_card("finetune", model, options, progress, notes, rows)
