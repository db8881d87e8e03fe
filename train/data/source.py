"""What `--corpus` names: `find_source` looks at it once, and all that follows uses the record that it returns."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from huggingface_hub.utils.sha import sha_fileobj

from toybert.train.cli import option

CORPORA = Path(__file__).parents[1] / "corpora"
# The reader of `datasets` for a table, by the suffix of its name.
READERS = {".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".parquet": "parquet"}
# Words in a file's name that tell its split; `datasets` uses the same.
SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
TEXT, TABLE, DATASET = "plain text", "a table", "a data set"  # the last is what only `datasets` knows how to read
ALL = "all"  # in place of a split: the files of a data set, whose splits only `datasets` knows
Files = dict[str, list[Path]]  # by split
ABOUT = ("readme", "license", "licence", "dataset_infos")  # files that nobody expects to be read as text
# The results of this folder's code are cached under names that change with the code.
CODE = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))).hexdigest()


@dataclass(kw_only=True)
class TextOptions:
    """Holds where the text is, and how to read it."""

    corpus: str = option("A text file, a table, a folder of either, or a data set's id on the Hub.")
    corpus_config: str | None = option("Configuration of the data set, if it has several.", None)
    text_column: str | None = option("A table's column of text or sentences (default: sentences, or else text).", None)
    split_sentences: bool = option("Split running text into sentences; without it, each line is one.", False)
    language: str = option("Language of running text, such as en.", "en")


@dataclass(frozen=True)
class Source:
    """Holds what a corpus is, which files it has, and how to read them."""

    name: str  # as it was given
    kind: str  # TEXT, TABLE or DATASET
    files: Files  # or all of them under ALL; none for an id on the Hub
    unread: Sequence[str] = ()  # the files in its folder that hold none of the text
    has_splits: bool = False  # it is a folder such as the repository's own, of train.jsonl and others
    config: str | None = None
    text_column: str | None = None
    language: str | None = None  # of running text; without one, each line is a sentence

    @cached_property
    def digests(self) -> dict[Path, str]:
        """The SHA-256 of every file, computed once; whatever depends on the contents uses it."""
        return {file: digest(file) for files in self.files.values() for file in files}

    @property
    def twins(self) -> list[tuple[str, str]]:
        """The names of files that are the same as another, byte for byte, and the other's."""
        first: dict[str, Path] = {}
        twins = [(file, one) for file, value in self.digests.items() if (one := first.setdefault(value, file)) != file]
        return [(file.name, one.name) for file, one in twins]

    def key(self, split: str) -> str | None:
        """Returns a key for a split's contents and for how they are read; None if no file is known."""
        named = self.files.get(split)
        files = named or self.files.get(ALL, [])
        how = [CODE, "" if named else split, self.kind, self.config, self.text_column, self.language]
        every = repr([*how, *(self.digests[file] for file in files)])
        return hashlib.sha256(every.encode()).hexdigest() if files else None

    def column_of(self, names: Collection[str]) -> str:
        """Returns the column of a table that should hold the text."""
        return self.text_column or ("sentences" if "sentences" in names else "text")


def find_source(options: TextOptions) -> Source:
    """Finds out what a corpus is; refuses a folder that has both texts and tables."""
    path, inside = look_into(options.corpus)
    has_splits = path / "train.jsonl" in inside
    if has_splits:
        kind, files = TABLE, {split: [file] for split in SPLITS if (file := path / f"{split}.jsonl") in inside}
    elif texts := texts_in(path, inside):
        if tables := [file for file in inside if reader_of(file)]:
            text = texts["train"][0]
            raise ValueError(f"{path} has texts such as {text.name} and tables such as {tables[0].name}: give one")
        kind, files = TEXT, texts
    else:
        kind, files = tables_or_all(path, inside)
    read = {file for some in files.values() for file in some}
    others = [file for file in inside if file not in read]
    return Source(
        options.corpus,
        kind,
        files,
        unread=[str(file.relative_to(path)) for file in others if file.stem.lower() not in ABOUT],
        has_splits=has_splits,
        config=options.corpus_config,
        text_column=options.text_column,
        language=options.language if options.split_sentences else None,
    )


def find_tables(corpus: str, config: str | None, named: Mapping[str, str | None]) -> Source:
    """Finds out where labelled rows are: in the files given for the splits, or else in a corpus."""
    given = {split: [existing(path)] for split, path in named.items() if path}
    if "train" in given:
        return Source(corpus, TABLE, given)
    kind, files = tables_or_all(*look_into(corpus))
    return Source(corpus, kind, {**files, **given}, config=config)


def existing(path: str | Path) -> Path:
    """Returns the path of a file; refuses a file that does not exist."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"the file {path} does not exist")
    return Path(path)


def look_into(corpus: str) -> tuple[Path, list[Path]]:
    """Returns a corpus as a path, and the files there: itself or those inside; none if it may be an id on the Hub."""
    path = Path(corpus)
    if path.is_file():
        return path, [path]
    if path.is_dir():
        every = sorted(file for file in path.rglob("*") if file.is_file())
        # What begins with a dot was put there by a program: .ipynb_checkpoints, ._tales.txt, .git
        if inside := [file for file in every if not any(part[0] == "." for part in file.relative_to(path).parts)]:
            return path, inside
        raise FileNotFoundError(f"the folder {path} is empty: it has no text to learn from")
    if corpus.count("/") > 1 or corpus[:1] in ("/", ".", "~") or path.suffix == ".txt" or reader_of(path):
        raise FileNotFoundError(f"the corpus {corpus} does not exist")
    return path, []


def tables_or_all(path: Path, inside: list[Path]) -> tuple[str, Files]:
    """Finds the tables of a corpus; without one to train on, it leaves the files to `datasets`."""
    found = tables_in(path, inside)
    if "train" in found:
        return TABLE, found
    return DATASET, {ALL: inside} if inside else {}


def tables_in(path: Path, inside: list[Path]) -> Files:
    """Finds the tables in a folder, by split; if none is named for training, those without a split are to train on."""
    if path in inside:  # it is no folder, but a file
        return {"train": [path]} if reader_of(path) else {}
    card = path / "README.md"
    if card in inside and "data_files:" in card.read_text(encoding="utf-8", errors="replace"):
        return {}  # the card says which they are: `datasets` reads it, and also tables in subfolders
    tables = [file for file in inside if file.parent == path and reader_of(file) and file.name != "dataset_infos.json"]
    splits = {file: split_of(file) for file in tables}
    is_told = "train" in splits.values()
    known = [file for file in tables if splits[file] or not is_told]
    if other := [file for file in known if file.suffix.lower() != known[0].suffix.lower()]:
        raise ValueError(f"{path} has tables of several kinds, such as {known[0].name} and {other[0].name}")
    for file in tables:  # of another kind, it may be anything
        if file not in known and file.suffix.lower() == known[0].suffix.lower():
            raise ValueError(f"{file} does not name its split, as {known[0].name} does: rename it")
    return by_split({file: splits[file] or "train" for file in known})


def texts_in(path: Path, inside: list[Path]) -> Files:
    """Finds texts in and below a folder; the name of each, or of its top folder, tells its split (see `SPLITS`)."""
    if path in inside:  # it is no folder, but a file
        return {} if reader_of(path) else {"train": [path]}
    texts = [file for file in inside if file.suffix.lower() == ".txt"]
    tops = {file: Path(file.relative_to(path).parts[0]).stem.lower() for file in texts}
    splits = {file: next((split for split, names in SPLITS.items() if tops[file] in names), None) for file in texts}
    if "train" not in splits.values():  # whatever they are called, all are to train on
        return {"train": texts} if texts else {}
    if others := [file for file in texts if not splits[file]]:
        raise ValueError(f"{others[0]} does not name its split, as others in {path} do: rename it, or give one file")
    return by_split({file: split for file, split in splits.items() if split})


def by_split(splits: Mapping[Path, str]) -> Files:
    """Groups files by split."""
    return {split: [file for file in splits if splits[file] == split] for split in SPLITS if split in splits.values()}


def by_name(digests: Mapping[Path, str]) -> dict[str, list[str]]:
    """Groups the hashes of files by file name, for run.json: files in different folders may share a name."""
    found: dict[str, list[str]] = {}
    for file, value in digests.items():
        found.setdefault(file.name, []).append(value)
    return found


def reader_of(path: Path) -> str | None:
    """Returns the reader for a table, by the suffix of its name; None for anything else."""
    return READERS.get(path.suffix.lower())


def split_of(path: Path) -> str | None:
    """Returns the split that a file's name tells, or None."""
    words = re.split(r"[-._ 0-9]+", path.stem.lower())
    return next((split for split, names in SPLITS.items() if not set(names).isdisjoint(words)), None)


def digest(path: Path) -> str:
    """Returns the SHA-256 of a file of any size."""
    with path.open("rb") as file:
        return sha_fileobj(file).hex()
