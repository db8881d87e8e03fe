"""Files of cells, .csv and .tsv: what is wrong with them is named, and every cell is text as it stands."""

import csv
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from datasets import Features, Value

from toybert.train.sentences import read_lines

SUFFIXES = (".csv", ".tsv")


def cells_source(files: Sequence[Path], most: int | None = None) -> tuple[dict[str, Any], int]:
    """Gives what `load_dataset` has to be told about files of cells, and how many rows they have.

    "NA" and "007" stay text. In a .csv, quotes hold a cell together; in a .tsv they are text like any other, as in
    nearly all corpora of that form: read otherwise, one stray quote swallows rows.

    Args:
        most: rows of each file that are looked at; else all.

    Raises:
        ValueError: one is not as `check_cells` wants it, or has other columns than the first.
    """
    names, number = check_cells(files[0], most)
    for file in files[1:]:
        others, rows = check_cells(file, most)
        if others != names:
            raise ValueError(f"{file} has other columns than {files[0]}, which has {', '.join(names)}")
        number += rows
    how = dialect(files[0])
    return {
        "path": "csv",
        "data_files": {"train": [str(file) for file in files]},
        "sep": how["delimiter"],
        "quoting": how["quoting"],
        "encoding": "utf-8-sig",
        "keep_default_na": False,
        "names": names,
        "header": 0,
        "features": Features({name: Value("string") for name in names}),
        "skip_blank_lines": len(names) > 1,  # of a single column, it is a row without text
    }, number


def dialect(path: Path) -> dict[str, Any]:
    """Gives what Python's reader has to be told of a file, by the end of its name."""
    if path.suffix.lower() == ".tsv":
        return {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
    return {"delimiter": ",", "quoting": csv.QUOTE_MINIMAL}


def check_cells(path: Path, most: int | None = None) -> tuple[list[str], int]:
    """Gives the names in a file's first line, and the number of its rows; a name that is missing becomes its place.

    Args:
        most: rows that are looked at; else all.

    Raises:
        ValueError: it is not in UTF-8 or has no rows, two columns have one name, or a row has more or fewer cells than
            the first line, which pandas would shift or cut.
    """
    csv.field_size_limit(2**31 - 1)  # of one cell; by itself some 130,000 characters
    number = 0
    lines = csv.reader(read_lines(path), strict=True, **dialect(path))
    try:
        names = [name or f"column {place}" for place, name in enumerate(next(lines, []), start=1)]
        for cells in islice(lines, most):
            if cells and len(cells) != len(names):
                raise ValueError(f"line {lines.line_num} of {path} has {len(cells)} cells, its first {len(names)}")
            number += bool(cells) or len(names) == 1
    except csv.Error as error:  # a stray quote would swallow rows
        raise ValueError(f"line {lines.line_num} of {path} cannot be split into cells: {error}") from error
    if not names or not number:
        raise ValueError(f"{path} has no rows" if names else f"{path} is empty")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the first line of {path} has {name[:40]!r} twice; it should name the columns")
    return names, number
