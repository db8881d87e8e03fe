"""What the labels of a table stand for: one of several classes, any number of them, or a number."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from datasets import ClassLabel
from torch import Tensor

from toybert.train.data.tables import Table

SINGLE, MULTI, REGRESSION = "single_label_classification", "multi_label_classification", "regression"
PROBLEMS = (SINGLE, MULTI, REGRESSION)  # config.json's words for them
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)

Label = str | float | list[str] | None  # as a table has it; None where it is missing


@dataclass(frozen=True)
class Labels:
    """Turns the labels of tables into what a classifier learns."""

    problem_type: str
    names: tuple[str, ...]  # of the classes, in the order of their numbers; of a number, its column's
    column: str
    separator: str | None = None

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each class, by its name."""
        return {name: number for number, name in enumerate(self.names)}

    def encode(self, table: Table) -> Tensor:
        """Gives class numbers (N,), or 0 and 1 (N, L) where several classes can hold, or numbers (N,).

        Raises:
            ValueError: a label is missing, or is not one of those in training; the message names it and its row.
        """
        labels = read_labels(table, self.column, self.separator)
        if None in labels:
            raise ValueError(f"{self._row(labels.index(None), table)} has no label in the column {self.column!r}")
        if self.problem_type == REGRESSION:
            return torch.tensor([as_number(label, self._row(row, table)) for row, label in enumerate(labels)])
        classes = [self._classes(label, self._row(row, table)) for row, label in enumerate(labels)]
        if self.problem_type == SINGLE:
            return torch.tensor(classes).flatten()
        return torch.stack(
            [torch.zeros(len(self.names)).index_fill(0, torch.tensor(held).long(), 1.0) for held in classes]
        )

    def _row(self, row: int, table: Table) -> str:
        return f"row {row + 1} of {table.name}"

    def _classes(self, label: Label, where: str) -> list[int]:
        """Gives the numbers of the classes that a label names."""
        if isinstance(label, list) != (self.problem_type == MULTI):
            wanted = "names in a list, or with a --label-separator" if self.problem_type == MULTI else "one name"
            raise ValueError(f"{where} has the label {label!r}, where {self.problem_type} wants {wanted}")
        names = label if isinstance(label, list) else [str(label)]
        for name in names:
            if name not in self.numbers:
                raise ValueError(
                    f"{where} has the label {name!r}, which training lacks: it has {shortened(self.names)}"
                )
        if len(set(names)) < len(names):
            raise ValueError(f"{where} has a label twice in {names!r}: it should name each that holds")
        return [self.numbers[name] for name in names]

    def encode_if_given(self, table: Table) -> Tensor | None:
        """Encodes the labels of a table, unless it has none in any row."""
        if self.column not in table.rows.column_names:
            return None
        if all(label is None for label in read_labels(table, self.column, self.separator)):
            return None
        return self.encode(table)

    def spelt(self, label: Label) -> str:
        """Writes a label as a cell of text."""
        return (self.separator or ";").join(label) if isinstance(label, list) else "" if label is None else str(label)

    def shown(self) -> str:
        """Says in a few words what the labels are."""
        if self.problem_type == REGRESSION:
            return f"a number, {self.names[0]}"
        kind = "one of" if self.problem_type == SINGLE else "any of"
        return f"{kind} {len(self.names)} classes: {shortened(self.names)}"


def learn_labels(table: Table, column: str, separator: str | None, problem_type: str | None) -> Labels:
    """Finds out what the labels of a training table stand for.

    Lists of names are several classes at once, numbers that are not integers something to regress on, and integers,
    truth values and names are classes, in the order of the numbers or else of the alphabet. A `ClassLabel` of
    `datasets` keeps its own order and all of its names.

    Args:
        separator: what stands between the names, where a cell of text can hold several.
        problem_type: one of `PROBLEMS`, where it is known better.

    Raises:
        ValueError: there is no such column, or some labels are numbers and others names, or all are the same.
    """
    labels = read_labels(table, column, separator)
    problem_type = problem_type or guess_problem(labels, table)
    if problem_type == REGRESSION:
        return Labels(problem_type, (column,), column, separator)
    found = {
        str(name) for label in labels for name in (label if isinstance(label, list) else [label]) if name is not None
    }
    if len(found) < 2:
        said = f"only the label {found.pop()!r}" if found else "no label"
        raise ValueError(f"the column {column!r} of {table.name} has {said}: there is nothing to tell apart")
    names = sorted(found)
    if all(INTEGER.fullmatch(name) for name in names):
        names.sort(key=int)
    declared = class_label(table, column)
    return Labels(problem_type, tuple(declared.names if declared else names), column, separator)


def looks_like_several(names: Sequence[str]) -> str | None:
    """Says how to read the names of classes as several labels each, if that is what they look like."""
    lists = [name for name in names if name.startswith("[") and name.endswith("]")]
    if 2 * len(lists) > len(names):
        return (
            f"labels such as {lists[0]!r} look like lists, and each is taken as one class: if a text can have several, "
            "write food;trip in a cell and give --label-separator ';', or keep the lists in a .jsonl file"
        )
    for separator in ";|,":
        joined = [name for name in names if separator in name]
        held = Counter(part for name in names for part in {part.strip() for part in name.split(separator)})
        parts = {part.strip() for name in joined for part in name.split(separator)}
        if 2 * sum(held[part] > 1 for part in parts) > len(parts):  # most stand in other names too
            return (
                f"labels such as {joined[0]!r} are taken as one class: if they are several each, "
                f"give --label-separator '{separator}'"
            )
    return None


def guess_problem(labels: Sequence[Label], table: Table) -> str:
    """Tells from labels which kind of problem they are."""
    if any(isinstance(label, list) for label in labels):
        return MULTI
    given = [label for label in labels if label is not None]
    if all(isinstance(label, str) and (INTEGER.fullmatch(label) or not NUMBER.fullmatch(label)) for label in given):
        return SINGLE
    for row, label in enumerate(labels, start=1):
        if isinstance(label, str) and not NUMBER.fullmatch(label):
            raise ValueError(
                f"row {row} of {table.name} has the label {label!r} among numbers: mend it, or take all as names "
                f"with --problem-type {SINGLE}"
            )
    return REGRESSION


def read_labels(table: Table, column: str, separator: str | None) -> list[Label]:
    """Gives the labels as names, lists of names, or floats; None where there is none."""
    table.check_column(column)
    declared = class_label(table, column)

    def read(value: Any) -> Label:
        if isinstance(value, list):
            return [str(name) for each in value if (name := read(each)) is not None]
        if separator and isinstance(value, str):
            return [name.strip() for name in value.split(separator) if name.strip()]
        value = value.strip() if isinstance(value, str) else value  # " food" is no other class than "food"
        if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
            return None
        if declared:
            return declared.names[value] if value >= 0 else None  # -1 is how the Hub says that it is kept secret
        return value if isinstance(value, float) else str(value)

    return [read(value) for value in table.rows[column][:]]


def class_label(table: Table, column: str) -> ClassLabel | None:
    """Gives the names that `datasets` has for the classes of a column, of single labels or of lists, if it has."""
    feature = table.rows.features[column]
    feature = getattr(feature, "feature", feature)
    return feature if isinstance(feature, ClassLabel) else None


def as_number(label: Label, where: str) -> float:
    """Gives a label as a number."""
    is_number = isinstance(label, float) or (isinstance(label, str) and NUMBER.fullmatch(label))
    if not is_number or not math.isfinite(float(label)):  # type: ignore[arg-type]
        raise ValueError(f"{where} has the label {label!r}, where {REGRESSION} wants a number")
    return float(label)  # type: ignore[arg-type]


def shortened(names: Sequence[str], most: int = 20) -> str:
    """Lists names, but not very many."""
    some = ", ".join(" ".join(name.split()) for name in names[:most])  # a line of a log is one line
    return some if len(names) <= most else f"{some} and {len(names) - most} others"
