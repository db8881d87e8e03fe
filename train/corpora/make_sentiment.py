"""The sentiment corpus: labelled sentences whose words alone do not give the label away.

A sentence puts one or two clauses, each a noun with a feeling word, into a construction. The
construction says which clause decides and whether its feeling holds or is turned round.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toybert.train.corpora.engine import Choice, Slots, capitalised, draw, fill, pick
from toybert.train.corpora.world import CAST, GENDER

SEED = 1019
SIZES = {"train": 3600, "validation": 500, "test": 800}
NEGATIVE, POSITIVE = 0, 1

NOUNS = {
    "food": ["soup", "bread", "cake", "pie", "fish", "cheese", "tea", "honey", "dinner", "food"],
    "people": ["doctor", "nurse", "teacher", "baker", "farmer", "postman", "driver", "fisherman"],
    "works": ["story", "song", "music", "game", "party", "picture", "book", "journey"],
    "places": ["garden", "beach", "park", "market", "hospital", "school", "house", "city", "farm"],
    "weather": ["weather", "morning", "evening", "day", "summer", "winter"],
}

# What may be said of each kind of thing: the negative words and the positive ones.
GENERAL = (["bad", "awful", "terrible", "horrible"], ["good", "great", "nice", "lovely"])
FEELINGS = {
    "food": (GENERAL[0], [*GENERAL[1], "wonderful", "tasty"]),
    "people": ([*GENERAL[0], "rude", "dull"], [*GENERAL[1], "wonderful", "kind"]),
    "works": ([*GENERAL[0], "dull"], [*GENERAL[1], "wonderful", "beautiful"]),
    "places": ([*GENERAL[0], "dull"], [*GENERAL[1], "wonderful", "beautiful"]),
    "weather": ([*GENERAL[0], "dull"], [*GENERAL[1], "wonderful", "beautiful"]),
}

# Which kinds of thing are spoken of in one breath.
BESIDE = {
    "food": ["food", "people", "places"],
    "people": ["people", "food", "places"],
    "works": ["works", "food", "weather"],
    "places": ["places", "people", "weather"],
    "weather": ["works", "places"],
}


@dataclass(frozen=True)
class Construction:
    """Holds a way to say what one feels.

    `noun` and `feeling` stand for the clause that decides. Where `turned`, the label is the
    opposite of that feeling. `other` says whether the other clause, if there is one, has a
    feeling word of the "same" or the "opposite" side, and `about` whether it is about another
    noun or the same.
    """

    weight: float
    turned: bool
    templates: Choice
    other: str = ""
    about: str = "another"


CONSTRUCTIONS = {
    "plain": Construction(
        weight=24,
        turned=False,
        templates=[
            "The {noun} was {feeling}.",
            "{A} {said|thought} that the {noun} was {feeling}.",
            "{A} {called|found} the {noun} {feeling}.",
            "{Everyone|Every child} {said|thought} that the {noun} was {feeling}.",
            "It was true that the {noun} was {feeling}.",
        ],
    ),
    "intensity": Construction(
        weight=22,
        turned=False,
        templates=[
            "The {noun} was {very|really|so} {feeling}.",
            "{A} {said|thought} that the {noun} was {very|really|so} {feeling}.",
            "{A} {called|found} the {noun} {very|really} {feeling}.",
            "{Everyone|Every child} {said|thought} that the {noun} was {very|really} {feeling}.",
        ],
    ),
    "near_negation": Construction(
        weight=14,
        turned=True,
        templates=[
            "The {noun} was {not|never} {feeling}.",
            "The {noun} was not {so |really |}{feeling}{| at all}.",
            "{A} {said|thought} that the {noun} was {not|never} {feeling}.",
            "{Everyone|Every child} {said|thought} that the {noun} was not {feeling}.",
            "It was true that the {noun} was {not|never} {feeling}.",
        ],
    ),
    "far_negation": Construction(
        weight=14,
        turned=True,
        templates=[
            "{Nobody|Not one child|No friend of {A}} {called|found} the {noun} {|really }{feeling}.",
            "{Nobody|Not one child} {said|thought} that the {noun} was {|really }{feeling}.",
            "{A} {never thought|did not find} the {noun} {feeling}.",
            "{A} could {not|never} call the {noun} {feeling}.",
            "It was {not|never} true that the {noun} was {feeling}.",
        ],
    ),
    "double_negation": Construction(
        weight=6,
        turned=False,
        templates=[
            "{Nobody|Not one child|No friend of {A}} {said|thought} that the {noun} was not {feeling}.",
            "It was {not|never} true that the {noun} was not {feeling}.",
            "{A} never {said|thought} that the {noun} was not {feeling}.",
        ],
    ),
    "agreement": Construction(
        weight=4,
        turned=False,
        other="same",
        templates=[
            "The {noun} was {feeling}{,|} and the {other noun} was {other feeling}{| too}.",
            "{A} said that the {noun} was {feeling} and the {other noun} {other feeling}.",
        ],
    ),
    "contrast": Construction(
        weight=8,
        turned=False,
        other="opposite",
        templates=[
            "The {other noun} was {other feeling}{,|} but the {noun} was {feeling}.",
            "{A} {said|thought} that the {other noun} was {other feeling}{,|} but the {noun} {was |}{feeling}.",
        ],
    ),
    "contrast_negation_first": Construction(
        weight=4,
        turned=False,
        other="same",
        templates=["The {other noun} was not {other feeling}{,|} but the {noun} was {feeling}."],
    ),
    "contrast_negation_last": Construction(
        weight=4,
        turned=True,
        other="same",
        templates=["The {other noun} was {other feeling}{,|} but the {noun} was not {feeling}."],
    ),
    "concession": Construction(
        weight=8,
        turned=False,
        other="opposite",
        templates=[
            "Although the {other noun} was {other feeling}, the {noun} was {feeling}.",
            "The {noun} was {feeling}{,|} although the {other noun} was {other feeling}.",
        ],
    ),
    "surprise": Construction(
        weight=5,
        turned=False,
        other="opposite",
        about="same",
        templates=[
            "{A} {said|thought} that the {noun} would be {other feeling}{,|} but it was {feeling}.",
            "{Everyone|Every child} {said|thought} that the {noun} {was|would be} {other feeling}{,|} "
            "but it was {feeling}.",
        ],
    ),
    "surprise_negation": Construction(
        weight=3,
        turned=False,
        other="same",
        about="same",
        templates=[
            "{Nobody|Not one child} {said|thought} that the {noun} would be {other feeling}{,|} but it was {feeling}.",
            "{A} never {said|thought} that the {noun} would be {other feeling}{,|} but it was {feeling}.",
        ],
    ),
}

# A combination is (construction, noun, feeling word). Each belongs to one split.
Combination = tuple[str, str, str]
SHARES = {"train": 74, "validation": 10, "test": 16}


def homes(rng: random.Random) -> dict[Combination, str]:
    """Draws the split in which each combination may occur."""
    return {
        (construction, noun, feeling): list(SHARES)[pick(list(SHARES.values()), rng)]
        for construction in CONSTRUCTIONS
        for kind, nouns in NOUNS.items()
        for noun in nouns
        for side in FEELINGS[kind]
        for feeling in side
    }


def one_of(values: Sequence[str], rng: random.Random) -> str:
    """Draws one of the values, each equally often."""
    return values[pick([1] * len(values), rng)]


def clauses(construction: Construction, label: int, rng: random.Random) -> Slots:
    """Draws nouns and feeling words that give a construction the label."""
    it = construction.about == "same"  # the second clause says "it", which is not said of people
    kind = one_of([kind for kind in NOUNS if kind != "people" or not it], rng)
    side = label ^ construction.turned
    slots = {"noun": one_of(NOUNS[kind], rng), "feeling": one_of(FEELINGS[kind][side], rng)}
    if construction.other:
        if construction.about == "another":
            kind = one_of(BESIDE[kind], rng)
            slots["other noun"] = one_of(NOUNS[kind], rng)
        else:
            slots["other noun"] = slots["noun"]
        other_side = side if construction.other == "same" else 1 - side
        slots["other feeling"] = one_of(FEELINGS[kind][other_side], rng)
    return slots


def combinations(name: str, slots: Slots) -> list[Combination]:
    """Returns the combinations that a sentence is made of, one for each clause."""
    found = [(name, slots["noun"], slots["feeling"])]
    if "other noun" in slots:
        found.append((name, slots["other noun"], slots["other feeling"]))
    return found


def sentiment() -> dict[str, list[dict[str, Any]]]:
    """Returns the rows of every split: each construction as often positive as negative."""
    rng = random.Random(SEED)
    home = homes(rng)
    weights = [construction.weight for construction in CONSTRUCTIONS.values()]
    seen: set[str] = set()
    splits = {}
    for split, size in SIZES.items():
        rows: list[dict[str, Any]] = []
        while len(rows) < size:
            name = list(CONSTRUCTIONS)[pick(weights, rng)]
            for label in (POSITIVE, NEGATIVE):
                text = ""
                while not text or text in seen:
                    text = sentence(name, label, split, home, rng)
                seen.add(text)
                rows.append({"text": text, "label": label, "construction": name})
        splits[split] = rows
    return splits


def sentence(name: str, label: int, split: str, home: dict[Combination, str], rng: random.Random) -> str:
    """Draws one sentence whose combinations all belong to the split."""
    construction = CONSTRUCTIONS[name]
    while True:
        slots = clauses(construction, label, rng)
        repeats = slots["feeling"] == slots.get("other feeling") or (
            slots["noun"] == slots.get("other noun") and construction.about == "another"
        )
        if not repeats and all(home[key] == split for key in combinations(name, slots)):
            break
    slots["A"] = draw(CAST["A"], slots, rng)
    return capitalised(fill(draw(construction.templates, slots, rng), slots, rng, GENDER))
