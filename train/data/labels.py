"""Labelled text: what its labels stand for, which rows to validate on, and the rows that a model takes."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from datasets import ClassLabel
from sklearn.preprocessing import MultiLabelBinarizer
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from toybert.train.data.datasets import FinetuneDataset
from toybert.train.data.tables import Table, stratified_split

SINGLE, MULTI, REGRESSION = "single_label_classification", "multi_label_classification", "regression"
PROBLEMS = (SINGLE, MULTI, REGRESSION)  # config.json's words for them
WANTED = {SINGLE: "one name", MULTI: "names in a list, or with a --label-separator", REGRESSION: "a number"}
VALIDATION_SHARE = 0.1  # of the training rows, where there is no validation split
SENTIMENT = ("negative", "positive")  # what 0 and 1 mean in a corpus of JSON lines
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)

Label = str | float | list[str] | None  # as a table has it; None where it is missing


@dataclass(frozen=True)
class Labels:
    """Turns the labels of tables into what a classifier learns."""

    problem_type: str
    names: tuple[str, ...]  # of the classes, in the order of their numbers; of a regression, the column's
    column: str
    separator: str | None = None

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each class, by its name."""
        return {name: number for number, name in enumerate(self.names)}

    def encode(self, table: Table) -> Tensor:
        """Encodes a table's labels: class numbers (N,), 0 and 1 (N, L) for any number of classes, or floats (N,)."""
        labels = read_labels(table, self.column, self.separator)
        for row, label in enumerate(labels, start=1):
            self._check(label, f"row {row} of {table.name}")
        if self.problem_type == REGRESSION:
            return torch.tensor([float(label) for label in labels])  # type: ignore[arg-type]
        if self.problem_type == SINGLE:
            return torch.tensor([self.numbers[str(label)] for label in labels])
        return torch.from_numpy(MultiLabelBinarizer(classes=self.names).fit_transform(labels)).float()

    def _check(self, label: Label, where: str) -> None:
        """Refuses a label that the model can't learn or be measured on."""
        if label is None:
            raise ValueError(f"{where} has no label in the column {self.column!r}")
        kind, names = self.problem_type, names_in(label)
        if not (is_number(label) if kind == REGRESSION else isinstance(label, list) == (kind == MULTI)):
            raise ValueError(f"{where} has the label {label!r}, where {kind} wants {WANTED[kind]}")
        unknown = [name for name in names if name not in self.numbers]
        if unknown and kind != REGRESSION:
            known = shortened(self.names)
            raise ValueError(f"{where} has the label {unknown[0]!r}, which no training row has: they have {known}")
        if len(set(names)) < len(names):
            raise ValueError(f"{where} has a label twice in {names!r}: name it once")

    def encode_if_given(self, table: Table) -> Tensor | None:
        """Encodes the labels of a table, unless it has none in any row."""
        labels = read_labels(table, self.column, self.separator) if self.column in table.rows.column_names else []
        return None if all(label is None for label in labels) else self.encode(table)

    def as_text(self, label: Label) -> str:
        """Writes a label as a cell of text."""
        return (self.separator or ";").join(names_in(label))

    def summary(self) -> str:
        """Describes the labels in a few words."""
        if self.problem_type == REGRESSION:
            return f"a number, {self.names[0]}"
        kind = "one of" if self.problem_type == SINGLE else "any of"
        return f"{kind} {len(self.names)} classes: {shortened(self.names)}"


def names_in(label: Label) -> list[str]:
    """Returns the names that a label holds: none, one or several."""
    if isinstance(label, list):
        return label
    return [] if label is None else [str(label)]


def learn_labels(table: Table, column: str, separator: str | None, problem_type: str | None) -> Labels:
    """Learns the classes and, unless it is given, the problem type from a training table's labels.

    Lists of names mean any number of classes for a row, and numbers that are not integers a regression. Integers, truth
    values and names mean one class for a row; the classes are sorted, integers by value. A `ClassLabel` of `datasets`
    keeps its own order and all of its names. A `separator` divides the names in a cell that can hold several.
    """
    labels = read_labels(table, column, separator)
    problem_type = problem_type or guess_problem(labels, table)
    if problem_type == REGRESSION:
        return Labels(problem_type, (column,), column, separator)
    found = set(chain.from_iterable(map(names_in, labels)))
    if len(found) < 2:
        said = f"only the label {found.pop()!r}" if found else "no label"
        raise ValueError(f"the column {column!r} of {table.name} has {said}: there is nothing to tell apart")
    names = sorted(found)
    if all(INTEGER.fullmatch(name) for name in names):
        names.sort(key=int)
    declared = class_label(table, column)
    return Labels(problem_type, tuple(declared.names if declared else names), column, separator)


def looks_like_several(names: Sequence[str]) -> str | None:
    """Returns a hint if the names of classes look like several labels each."""
    lists = [name for name in names if name.startswith("[") and name.endswith("]")]
    if 2 * len(lists) > len(names):
        return (
            f"labels such as {lists[0]!r} look like lists, and each is taken as one class: if a text can have several, "
            "write food;trip in a cell and give --label-separator ';', or keep the lists in a .jsonl file"
        )
    for separator in ";|,":
        split = {name: {part.strip() for part in name.split(separator)} for name in names}
        held = Counter(chain.from_iterable(split.values()))
        joined = [name for name in names if separator in name]
        parts = set().union(*(split[name] for name in joined))
        if 2 * sum(held[part] > 1 for part in parts) > len(parts):  # most occur in other names too
            return (
                f"labels such as {joined[0]!r} are taken as one class: if they are several each, "
                f"give --label-separator '{separator}'"
            )
    return None


def guess_problem(labels: Sequence[Label], table: Table) -> str:
    """Guesses the problem type from the labels of a table."""
    if any(isinstance(label, list) for label in labels):
        return MULTI
    given = [label for label in labels if label is not None]
    if all(isinstance(label, str) and (INTEGER.fullmatch(label) or not NUMBER.fullmatch(label)) for label in given):
        return SINGLE
    for row, label in enumerate(labels, start=1):
        if isinstance(label, str) and not NUMBER.fullmatch(label):
            raise ValueError(
                f"row {row} of {table.name} has the label {label!r} among numbers: correct it, or make each number a "
                f"class with --problem-type {SINGLE}"
            )
    return REGRESSION


def read_labels(table: Table, column: str, separator: str | None) -> list[Label]:
    """Reads the labels of a table as names, lists of names, or floats; None where one is missing."""
    table.check_column(column)
    declared = class_label(table, column)

    def read(value: Any) -> Label:
        if isinstance(value, list):
            return [str(name) for each in value if (name := read(each)) is not None]
        if separator and isinstance(value, str):
            return [name.strip() for name in value.split(separator) if name.strip()]
        value = value.strip() if isinstance(value, str) else value  # " food" is the same class as "food"
        if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
            return None
        if declared:
            return declared.names[value] if value >= 0 else None  # -1 marks a label that the Hub keeps secret
        return value if isinstance(value, float) else str(value)

    return [read(value) for value in table.rows[column][:]]


def class_label(table: Table, column: str) -> ClassLabel | None:
    """Returns the `ClassLabel` that `datasets` declares for a column of labels or of lists, or None."""
    feature = table.rows.features[column]
    feature = getattr(feature, "feature", feature)
    return feature if isinstance(feature, ClassLabel) else None


def is_number(label: Label) -> bool:
    """Tells whether a label is a finite number, or text that is one."""
    return bool(NUMBER.fullmatch(str(label))) and math.isfinite(float(label))  # type: ignore[arg-type]


def shortened(names: Sequence[str], most: int = 20) -> str:
    """Joins names in one line; it lists at most `most` and counts the rest."""
    some = ", ".join(" ".join(name.split()) for name in names[:most])  # a name may have line breaks
    return some if len(names) <= most else f"{some} and {len(names) - most} others"


def name_sentiment(tables: dict[str, Table], corpus: str, column: str) -> dict[str, Table]:
    """Names the classes of a folder of JSON lines whose only labels are 0 and 1, as in the toy corpus."""

    def is_unnamed(table: Table) -> bool:
        feature = table.rows.features.get(column)
        return getattr(feature, "dtype", "") == "int64" and set(table.rows[column][:]) <= {0, 1}

    if not (Path(corpus) / "train.jsonl").is_file() or not all(is_unnamed(table) for table in tables.values()):
        return tables
    names = ClassLabel(names=list(SENTIMENT))
    return {split: Table(table.rows.cast_column(column, names), table.name) for split, table in tables.items()}


def split_validation(tables: dict[str, Table], labels: Labels, seed: int) -> dict[str, Table]:
    """Splits the training table into rows to train on and rows to validate on, `VALIDATION_SHARE` of each class."""
    table = tables["train"]
    encoded = labels.encode(table).numpy()
    classes = encoded if labels.problem_type == SINGLE else np.zeros(len(encoded))
    train, validation = stratified_split(classes, VALIDATION_SHARE, seed)
    return tables | {
        "train": Table(table.rows.select(train), f"the training part of {table.name}"),
        "validation": Table(table.rows.select(validation), f"the validation part of {table.name}"),
    }


def make_datasets(
    tables: dict[str, Table],
    encoded: dict[str, Tensor | None],
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> dict[str, FinetuneDataset]:
    """Tokenises tables; `texts` are the names of their one or two columns of text."""
    data = {}
    for split, table in tables.items():
        first, *second = (table.rows[column] for column in texts)
        try:
            data[split] = FinetuneDataset(first, encoded[split], tokenizer, max_length, *second)
        except ValueError as error:
            raise ValueError(f"{table.name} cannot be used: {error}") from error
    return data


def dataset_notes(dataset: FinetuneDataset, name: str) -> list[str]:
    """Says how many words of a dataset are unknown, and how many of its rows were left out or cut."""
    rows = f"of the {len(dataset) + dataset.dropped:,} rows of {name}"
    counts = {
        f"{dataset.unknown:.1%} of the words of {name} are unknown to the model": dataset.unknown,
        f"left out {dataset.dropped:,} {rows}: they have no word": dataset.dropped,
        f"cut {dataset.cut:,} {rows} at {dataset.lengths.max()} tokens": dataset.cut,
    }
    return [sentence for sentence, count in counts.items() if count]


def label_doubts(table: Table, training: FinetuneDataset, labels: Labels) -> list[str]:
    """Says what looks odd about training labels: classes of a single row, or whole numbers with a decimal point."""
    if labels.problem_type == REGRESSION:
        given = {str(label) for label in read_labels(table, labels.column, labels.separator)} - {"None"}
        if all(label.endswith(".0") for label in given):  # as pandas writes integers in a column with a gap
            hint = f"if they are classes, give --problem-type {SINGLE}"
            return [f"labels such as {min(given)} are learnt as numbers: {hint}"]
    if labels.problem_type == SINGLE:
        rows = torch.bincount(training.labels, minlength=len(labels.names))
        if alone := [name for name, count in zip(labels.names, rows.tolist(), strict=True) if count == 1]:
            return [f"only one training row each has the label {shortened(alone)}"]
    return []


def data_summary(
    tables: dict[str, Table], data: dict[str, FinetuneDataset], labels: Labels, accelerator: Accelerator
) -> list[str]:
    """Describes what a run learns, from how many rows, and which text the model does not see."""
    one_each = labels.problem_type == SINGLE and not labels.separator
    return [
        f"each row has {labels.summary()} ({labels.problem_type})",
        *([hint] if one_each and (hint := looks_like_several(labels.names)) else []),
        *label_doubts(tables["train"], data["train"], labels),
        *chain(*(dataset_notes(dataset, tables[split].name) for split, dataset in data.items())),
        f"{len(data['train'])} training and {len(data['validation'])} validation rows; training on "
        f"{accelerator.num_processes} x {accelerator.device}, precision {accelerator.mixed_precision}",
    ]
