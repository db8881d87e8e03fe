"""Reads the public data sets that benchmarks/real_text.py measures on, as they are distributed, and divides them."""

import itertools
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

Rows = list[tuple[str, str]]  # text, label


def plain(text: str) -> str:
    """Returns a text's words in lower case: two texts with the same words are the same to the models here."""
    return " ".join(re.findall(r"\w+", text.lower())) or text


def read_table(path: Path, names: Sequence[str]) -> Rows:
    """Reads a table of labels and texts with a tab between them, in which quotes are text; a header may come first."""
    with open(path, encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 1) for line in lines]
    has_header = bool(rows) and rows[0][0] not in names
    for number, row in enumerate(rows[has_header:], start=1 + has_header):
        if len(row) != 2 or row[0] not in names:
            raise ValueError(f"line {number} of {path} is not one of {', '.join(names)}, a tab and a text: {row}")
    return [(text.strip(), label) for label, text in rows[has_header:]]


def divided(rows: Rows, share: float) -> dict[str, Rows]:
    """Divides rows at random, always in the same way, into some to learn from and a share to measure on.

    Of texts with the same words only the first counts, so that none of what is measured on was learnt from.
    """
    once: dict[str, tuple[str, str]] = {}
    for row in rows:
        once.setdefault(plain(row[0]), row)
    rows = random.Random(0).sample([*once.values()], len(once))
    count = round(share * len(rows))
    return {"train": rows[count:], "test": rows[:count]}


def sst2(data: Path) -> dict[str, Rows]:
    """Reads SST-2: its dev and test sentences, and those of its train phrases that are neither."""
    parts = {part: read_table(data / "sst2" / f"{part}.tsv", ("0", "1")) for part in ("train", "dev", "test")}
    measured = {plain(text) for part in ("dev", "test") for text, _ in parts[part]}
    return {**parts, "train": [row for row in parts["train"] if plain(row[0]) not in measured]}


def polarity(data: Path) -> dict[str, Rows]:
    """Reads the film-review sentences of Pang & Lee 2005, a tenth of them to measure on."""
    rows = []
    for label, name in (("positive", "rt-polarity.pos"), ("negative", "rt-polarity.neg")):
        lines = (data / "sentence_polarity" / name).read_text(encoding="utf-8").split("\n")
        rows += [(line.strip(), label) for line in lines if line.strip()]
    return divided(rows, 0.1)


def spam(data: Path) -> dict[str, Rows]:
    """Reads the SMS Spam Collection, a fifth of it to measure on."""
    return divided(read_table(data / "sms_spam/SMSSpamCollection", ("ham", "spam")), 0.2)


def spans(text: str) -> set[str]:
    """Returns every run of a text's words."""
    words = text.split()
    return {" ".join(words[a:b]) for a, b in itertools.combinations(range(len(words) + 1), 2)}


def sst2_train_part(data: Path) -> dict[str, Rows]:
    """Divides SST-2's train phrases into whole sentences to choose recipes on and phrases of none of them.

    Its phrases are parts of its sentences: one that is part of no other phrase counts as a sentence. Sentences that are
    measured among the film reviews of Pang & Lee are left out.
    """
    rows = sst2(data)["train"]
    texts, measured = {text for text, _ in rows}, {plain(text) for text, _ in polarity(data)["test"]}
    whole = texts - set().union(*(spans(text) - {text} for text in texts))
    sentences = sorted(text for text in whole if plain(text) not in measured)
    chosen = set(random.Random(0).sample(sentences, min(872, len(sentences) // 2)))  # as many as the dev part has
    left_out = set().union(*map(spans, chosen))
    return {
        "train": [row for row in rows if row[0] not in left_out],
        "sentences": [row for row in dict.fromkeys(rows) if row[0] in chosen],
    }


TO_CHOOSE_ON = "sst2, train part"
TASKS: dict[str, Callable[[Path], dict[str, Rows]]] = {
    "sst2": sst2,
    TO_CHOOSE_ON: sst2_train_part,
    "polarity": polarity,
    "spam": spam,
}
