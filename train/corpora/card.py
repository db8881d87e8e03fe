"""The figures and examples in the data card, computed from the corpora themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from toybert.train.corpora.engine import tokens
from toybert.train.corpora.make_sentiment import CONSTRUCTIONS

Splits = Mapping[str, list[dict[str, Any]]]

EXAMPLES = 10


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Returns a Markdown table."""
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def sentences(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the sentences of stories, or the texts of labelled rows, in order."""
    return [text for row in rows for text in row.get("sentences", [row.get("text")])]


def vocabulary(*corpora: Splits) -> set[str]:
    """Returns every token of every split of the corpora."""
    return {
        token for splits in corpora for rows in splits.values() for text in sentences(rows) for token in tokens(text)
    }


def share_in_train(splits: Splits, split: str) -> float:
    """Returns the share of a split's sentences that also stand, word for word, in training."""
    known = set(sentences(splits["train"]))
    held_out = sentences(splits[split])
    return sum(text in known for text in held_out) / len(held_out)


def numbers(stories: Splits, sentiment: Splits) -> str:
    """Returns the card's tables of sizes."""
    story_rows: list[list[Any]] = []
    for split, rows in stories.items():
        texts = sentences(rows)
        lengths = [len(tokens(text)) for text in texts]
        share = "" if split == "train" else f"{share_in_train(stories, split):.1%}"
        mean, longest = f"{sum(lengths) / len(lengths):.1f}", max(lengths)
        story_rows.append([split, f"{len(rows):,}", f"{len(texts):,}", mean, longest, share])
    label_rows: list[list[Any]] = []
    for split, rows in sentiment.items():
        positive = sum(row["label"] for row in rows) / len(rows)
        share = "" if split == "train" else f"{share_in_train(sentiment, split):.1%}"
        label_rows.append([split, f"{len(rows):,}", f"{positive:.1%}", share])
    words = table(
        ["", "distinct tokens"],
        [
            ["stories", len(vocabulary(stories))],
            ["sentiment", len(vocabulary(sentiment))],
            ["both", len(vocabulary(stories, sentiment))],
        ],
    )
    story_head = ["stories", "documents", "sentences", "tokens a sentence", "longest"]
    return "\n\n".join(
        [
            table([*story_head, "sentences also in train"], story_rows),
            table(["sentiment", "sentences", "positive", "also in train"], label_rows),
            words,
        ]
    )


def constructions(sentiment: Splits) -> str:
    """Returns the card's table of constructions, with their counts and two examples each."""
    rows: list[list[Any]] = []
    for name in CONSTRUCTIONS:
        counts = [sum(row["construction"] == name for row in rows) for rows in sentiment.values()]
        label = len(rows) % 2
        example = next(row for row in sentiment["train"] if row["construction"] == name and row["label"] == label)
        sign = "+" if example["label"] else "-"
        rows.append([f"`{name}`", *counts, example["text"], sign])
    return table(["construction", *sentiment, "for example", "label"], rows)


def examples(stories: Splits) -> str:
    """Returns ten test stories, each of another topic."""
    topics = {row["script"]: row for row in reversed(stories["test"])}
    step = len(topics) / EXAMPLES
    chosen = [list(topics.values())[int(i * step)] for i in range(EXAMPLES)]
    return "\n".join(f"- **{row['script']}.** {' '.join(row['sentences'])}" for row in chosen)


def written(card: str, stories: Splits, sentiment: Splits) -> str:
    """Returns the card with everything between its markers written anew."""
    parts = {
        "numbers": numbers(stories, sentiment),
        "constructions": constructions(sentiment),
        "examples": examples(stories),
    }
    for name, text in parts.items():
        first, last = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, rest = card.split(first)
        after = rest.split(last)[1]
        card = f"{before}{first}\n{text}\n{last}{after}"
    return card
