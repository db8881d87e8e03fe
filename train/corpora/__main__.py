"""Writes every file of the corpora anew: `python -m toybert.train.corpora`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from toybert.train import cli
from toybert.train.corpora.card import written
from toybert.train.corpora.make_sentiment import sentiment
from toybert.train.corpora.make_stories import stories

FOLDER = Path(__file__).parent


def jsonl(rows: Iterable[dict[str, Any]]) -> str:
    """Returns rows as lines of JSON."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def files() -> dict[str, str]:
    """Returns the text of every generated file, by its path in this folder."""
    corpora = {"stories": stories(), "sentiment": sentiment()}
    texts = {f"{name}/{split}.jsonl": jsonl(rows) for name, splits in corpora.items() for split, rows in splits.items()}
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    return {**texts, "README.md": written(card, **corpora)}


def main() -> None:
    """Writes every file."""
    cli.make_parser(__doc__).parse_args()
    for name, text in files().items():
        path = FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode())
        print(f"wrote {path}")


if __name__ == "__main__":
    cli.run(main)
