"""The labelled text that a run learns from: read, checked, a part of it held out, and tokenised."""

from collections.abc import Sequence
from pathlib import Path

from accelerate import Accelerator
from datasets import ClassLabel
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from toybert.train.data.datasets import FinetuneDataset
from toybert.train.data.labels import SINGLE, Labels, looks_like_several
from toybert.train.data.tables import Table, hold_out

HELD_OUT = 0.1  # of the training rows, where there are no others to validate on
SENTIMENT = ("negative", "positive")  # what 0 and 1 mean in a corpus of JSON lines


def with_names(tables: dict[str, Table], corpus: str, column: str) -> dict[str, Table]:
    """Names the classes of a corpus folder that has only 0 and 1, as the toy corpus has."""

    def is_unnamed(table: Table) -> bool:
        feature = table.rows.features.get(column)
        return getattr(feature, "dtype", "") == "int64" and set(table.rows[column][:]) <= {0, 1}

    if not (Path(corpus) / "train.jsonl").is_file() or not all(is_unnamed(table) for table in tables.values()):
        return tables
    names = ClassLabel(names=list(SENTIMENT))
    return {split: Table(table.rows.cast_column(column, names), table.name) for split, table in tables.items()}


def encode_labels(tables: dict[str, Table], labels: Labels) -> dict[str, Tensor | None]:
    """Turns the labels of all tables into numbers; only those to be tested on may lack them."""
    return {
        split: labels.encode_if_given(table) if split == "test" else labels.encode(table)
        for split, table in tables.items()
    }


def hold_some_out(
    tables: dict[str, Table], encoded: dict[str, Tensor | None], labels: Labels, seed: int
) -> tuple[dict[str, Table], dict[str, Tensor | None]]:
    """Takes the rows to validate on from those to train on."""
    table, every = tables["train"], encoded["train"]
    assert every is not None
    rows = hold_out(every.numpy() if labels.problem_type == SINGLE else None, len(every), HELD_OUT, seed)
    parts = dict(zip(("train", "validation"), rows, strict=True))
    names = {"train": "to train on", "validation": "that is held out to validate on"}
    held = {
        split: Table(table.rows.select(part), f"the part of {table.name} {names[split]}")
        for split, part in parts.items()
    }
    return tables | held, encoded | {split: every[part] for split, part in parts.items()}


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
            raise ValueError(f"{table.name} is of no use: {error}") from error
    return data


def announce(
    tables: dict[str, Table], data: dict[str, FinetuneDataset], labels: Labels, accelerator: Accelerator
) -> None:
    """Says what a run learns, from what, and what of that is not used."""
    accelerator.print(f"each row has {labels.shown()} ({labels.problem_type})")
    if labels.problem_type == SINGLE and not labels.separator and (hint := looks_like_several(labels.names)):
        accelerator.print(hint)
    for split, dataset in data.items():
        for note in notes(dataset, tables[split].name):
            accelerator.print(note)
    accelerator.print(
        f"{len(data['train'])} sentences, and {len(data['validation'])} of {tables['validation'].name}; training on "
        f"{accelerator.num_processes} x {accelerator.device}, precision {accelerator.mixed_precision}"
    )


def notes(dataset: FinetuneDataset, name: str) -> list[str]:
    """Says what of some rows a model doesn't know, and what was left out or cut."""
    rows = f"of the {len(dataset) + dataset.dropped:,} rows of {name}"
    said = {
        f"{dataset.unknown:.1%} of the words of {name} are unknown to the model": dataset.unknown,
        f"left out {dataset.dropped:,} {rows}: they have no word": dataset.dropped,
        f"cut {dataset.cut:,} {rows} at {dataset.lengths.max()} tokens": dataset.cut,
    }
    return [sentence for sentence, number in said.items() if number]
