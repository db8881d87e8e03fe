"""Files of tables: found by their splits, checked, and read; what is wrong with them is said in one sentence."""

import csv
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from datasets import Dataset, Features, Value, load_dataset
from datasets.exceptions import DatasetsError

from toybert.train.data.checks import check_json_lines
from toybert.train.data.sentences import read_lines

READERS = {".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
# Words in a file's name that tell its split; the same as `datasets` goes by.
SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}


def reader_of(path: Path) -> str | None:
    """Gives the reader of `datasets` for a table, by the end of its name; None for anything else."""
    return READERS.get(path.suffix.lower())


def split_of(path: Path) -> str | None:
    """Gives the split that a file's name tells, if it does."""
    words = re.split(r"[-._ 0-9]+", path.stem.lower())
    return next((split for split, names in SPLITS.items() if not set(names).isdisjoint(words)), None)


def tables_in(folder: Path) -> dict[str, list[Path]]:
    """Finds the tables that lie in a folder, by their splits; all are to train on where no name tells one.

    None are found where the folder's card says which they are, or where they lie in further folders: that is left to
    `datasets`.

    Raises:
        ValueError: there are tables of several kinds, or one whose name does not tell its split beside one that is
            named for training: not all would be read.
    """
    card = folder / "README.md"
    if card.is_file() and "data_files:" in card.read_text(encoding="utf-8", errors="replace"):
        return {}
    tables = [file for file in sorted(folder.iterdir()) if reader_of(file) and file.name != "dataset_infos.json"]
    splits = {file: split_of(file) for file in tables}
    is_told = "train" in splits.values()
    known = [file for file in tables if splits[file] or not is_told]
    if other := [file for file in known if file.suffix.lower() != known[0].suffix.lower()]:
        raise ValueError(f"{folder} has tables of several kinds, such as {known[0].name} and {other[0].name}")
    for file in tables:  # of another kind, it may be anything
        if file not in known and file.suffix.lower() == known[0].suffix.lower():
            raise ValueError(f"{file} does not tell its split, as {known[0].name} beside it does")
    found: dict[str, list[Path]] = {}
    for file in known:
        found.setdefault(splits[file] or "train", []).append(file)
    return found


def texts_in(folder: Path) -> dict[str, list[Path]]:
    """Finds the files of plain text in a folder and in those below it, by their splits.

    Files, or folders at the top, that are called train, validation or test (or another of `SPLITS`) are those splits;
    where none is called train, all are to train on.

    Raises:
        ValueError: there is one of another name beside them, which would not be read.
    """
    texts = sorted(file for file in folder.rglob("*") if file.suffix.lower() == ".txt" and file.is_file())
    tops = {file: Path(file.relative_to(folder).parts[0]).stem.lower() for file in texts}
    splits = {file: next((split for split, names in SPLITS.items() if tops[file] in names), None) for file in texts}
    if "train" not in splits.values():
        return {"train": texts} if texts else {}
    if others := [file for file in texts if not splits[file]]:
        raise ValueError(f"{others[0]} does not tell its split, as others in {folder} do: call it train, or name one")
    return {split: [file for file in texts if splits[file] == split] for split in SPLITS if split in splits.values()}


def name_of(files: Sequence[Path]) -> str:
    """Gives what a message calls some files."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def load_rows(files: Sequence[Path]) -> Dataset:
    """Reads the rows of some files of one kind.

    Raises:
        FileNotFoundError: one is not there.
        ValueError: one is not as it should be.
    """
    source, number = table_source(files)
    name = name_of(files)
    try:
        rows = load_dataset(**source, split="train")
    except (DatasetsError, ValueError, OSError) as error:
        reason = one_line(error.__cause__ or error)
        reason = "it has no rows" if "corresponds to no data" in reason else reason
        raise ValueError(f"{name} cannot be read as {source['path']}: {reason}") from error
    if number is not None and len(rows) != number:
        raise ValueError(f"{name} has {number} rows, of which only {len(rows)} can be read: is there an odd line end?")
    return rows


def table_source(files: Sequence[Path], most: int | None = None) -> tuple[dict[str, Any], int | None]:
    """Gives what `load_dataset` has to be told about files of one kind, and how many rows they have if it counted them.

    Args:
        most: rows that are looked at, of all files together, and those of a .json or .jsonl aren't; else all.

    Raises:
        FileNotFoundError: one is not there.
        ValueError: one is not text in UTF-8, not JSON, or not as `check_cells` wants it.
    """
    if missing := [file for file in files if not file.is_file()]:
        raise FileNotFoundError(f"the file {missing[0]} does not exist")
    suffix = files[0].suffix.lower()
    if READERS[suffix] == "csv":
        return cells_source(files, most)
    if most is None:
        for file in files:
            if suffix == ".jsonl":
                check_json_lines(str(file))
            elif suffix == ".json":
                for _ in read_lines(file):
                    pass
    return {"path": READERS[suffix], "data_files": {"train": [str(file) for file in files]}}, None


def cells_source(files: Sequence[Path], most: int | None) -> tuple[dict[str, Any], int]:
    """Gives the same for files of cells, .csv and .tsv: every cell is text as it stands, "NA" and "007" too.

    In a .csv, quotes hold a cell together; in a .tsv they are text like any other, as in nearly all corpora of that
    form: read otherwise, one stray quote swallows rows.
    """
    names, number = check_cells(files[0], most)
    for file in files[1:]:
        others, rows = check_cells(file, most and max(1, most - number))
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
        first = next(lines, None)
        if first is None:
            raise ValueError(f"{path} is empty")
        if not first:
            raise ValueError(f"the first line of {path} is blank; it should name the columns")
        names = [name or f"column {place}" for place, name in enumerate(first, start=1)]
        for cells in islice((cells for cells in lines if cells or len(names) == 1), most):
            if cells and len(cells) != len(names):
                raise ValueError(f"line {lines.line_num} of {path} has {len(cells)} cells, its first {len(names)}")
            number += 1
    except csv.Error as error:  # a stray quote would swallow rows
        raise ValueError(f"line {lines.line_num} of {path} cannot be split into cells: {error}") from error
    if not number:
        raise ValueError(f"{path} has no rows")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"the first line of {path} has {name[:40]!r} twice; it should name the columns")
    return names, number


def one_line(error: BaseException) -> str:
    """Gives an error's message in one line."""
    return " ".join(str(error).split())
