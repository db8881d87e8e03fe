"""Checks that refuse what is no text or no label before anything is learnt, and name its row."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

SLICE = 16  # rows at a time: one by one, a column of `datasets` takes ten times as long


def in_slices(values: Sequence[Any]) -> Iterator[Any]:
    """Yields values one by one; a column of `datasets` is read in slices, so that few are in memory at a time."""
    for start in range(0, len(values), SLICE):
        yield from values[start : start + SLICE]


def is_text(value: Any, lists: bool = True) -> bool:
    """Tells whether a value is a string or, if `lists` may be too, a list of strings."""
    return all(isinstance(each, str) for each in (value if lists and isinstance(value, list) else [value]))


def has_text(value: Any) -> bool:
    """Tells whether a string, or a string of a list, has more than white space; False for what is no text."""
    return is_text(value) and any(each.strip() for each in (value if isinstance(value, list) else [value]))


def check_texts(values: Sequence[Any], where: str, lists: bool = True) -> None:
    """Refuses values that are not text (see `is_text`); the message names the first such value and its row."""
    for row, value in enumerate(in_slices(values), start=1):
        if not is_text(value, lists):
            found = next(each for each in value if not is_text(each)) if lists and isinstance(value, list) else value
            raise ValueError(f"row {row} of {where} has {repr(found)[:60]} where text should be")


def check_column(column: str, names: Collection[str], where: str, hint: str = "") -> None:
    """Refuses a column that a table does not have; the message names the columns that it has."""
    if column not in names:
        first = "its first line says that " if where.endswith((".csv", ".tsv")) else ""
        there = ", ".join(repr(name[:40]) for name in names)
        raise ValueError(f"{where} has no column {column!r}, {first}it has {there}{hint}")


def check_labels(labels: Sequence[Any], num_labels: int, where: str) -> None:
    """Refuses labels that are not numbers from 0 to `num_labels` - 1; the message names the first one and its row."""
    for row, label in enumerate(in_slices(labels), start=1):
        if not isinstance(label, int) or isinstance(label, bool) or not 0 <= label < num_labels:
            raise ValueError(f"row {row} of {where} has the label {label!r}, not one of 0 to {num_labels - 1}")
