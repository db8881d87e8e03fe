"""What is no text, no label or no JSON: it is refused, and named with its row or line, before anything is learnt."""

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

SLICE = 16  # rows at a time: one by one, a column of `datasets` takes ten times as long


def check_json_lines(path: str) -> None:
    """Refuses a file that is not made of JSON objects in UTF-8, one a line; the message names the file and the line."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"the corpus file {path} does not exist")
    objects = 0
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                row = json.loads(text or "{}")
                json.dumps(row, ensure_ascii=False).encode()  # an escaped half of a character would get this far
            except ValueError as error:
                raise ValueError(f"line {number} of {path} is not JSON in UTF-8: {error}") from error
            if not isinstance(row, dict):
                raise ValueError(f"line {number} of {path} is no JSON object: {text[:60]}")
            if not isinstance(row.get("sentences", []), list):
                raise ValueError(f"line {number} of {path} has 'sentences' that are no list: {text[:60]}")
            objects += bool(text)
    if not objects:
        raise ValueError(f"the corpus file {path} is empty")


def in_slices(values: Sequence[Any]) -> Iterator[Any]:
    """Yields values one by one; a column of `datasets` gives them in slices, so that few are there at a time."""
    for start in range(0, len(values), SLICE):
        yield from values[start : start + SLICE]


def check_texts(values: Sequence[Any], where: str) -> None:
    """Refuses what is neither a string nor a list of strings.

    Raises:
        ValueError: there is such a value; the message names the first one and its row.
    """
    for row, value in enumerate(in_slices(values)):
        if not is_text(value):
            found = next(text for text in value if not isinstance(text, str)) if isinstance(value, list) else value
            raise ValueError(f"row {row + 1} of {where} has {found!r} where text should be")


def is_text(value: Any) -> bool:
    """Tells whether a value is a string or a list of strings."""
    return all(isinstance(text, str) for text in (value if isinstance(value, list) else [value]))


def check_column(column: str, names: Collection[str], where: str) -> None:
    """Refuses a column that is none of a table's.

    Raises:
        ValueError: so it is; the message lists those that there are.
    """
    if column not in names:
        raise ValueError(f"{where} has no column {column!r}, it has {', '.join(names)}: name one with --text-column")


def check_labels(labels: Sequence[Any], num_labels: int, where: str) -> None:
    """Refuses labels that are not class numbers.

    Raises:
        ValueError: a label is not an integer from 0 to `num_labels` - 1; the message names the first one and its row.
    """
    for row, label in enumerate(in_slices(labels)):
        if not isinstance(label, int) or isinstance(label, bool) or not 0 <= label < num_labels:
            raise ValueError(f"row {row + 1} of {where} has the label {label!r}, not one of 0 to {num_labels - 1}")
