"""The stories: documents drawn from the scripts.

A script's slots are drawn once a document, the people among them; then each of its events in turn
gives one sentence, or none where the choice falls on "".
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from toybert.train.corpora.engine import capitalised, draw, draw_slots, fill, tokens
from toybert.train.corpora.scripts import SCRIPTS, Script
from toybert.train.corpora.world import CAST, GENDER

SEED = 2018
SIZES = {"train": 2000, "validation": 250, "test": 250}


def documents(script: Script, rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yields documents of one script for ever."""
    while True:
        slots = draw_slots({**CAST, **script.slots}, rng, GENDER)
        texts = [fill(draw(event, slots, rng), slots, rng, GENDER) for event in script.events]
        sentences = [capitalised(text) for text in texts if text]
        words = {word for sentence in sentences for word in tokens(sentence)}
        people = [slots[role] for role in ("A", "B") if slots[role].lower() in words]
        yield {"script": script.name, "people": people, "sentences": sentences}


def stories() -> dict[str, list[dict[str, Any]]]:
    """Returns the rows of every split; the scripts take turns, and no document comes twice."""
    rng = random.Random(SEED)
    sources = [documents(script, rng) for script in SCRIPTS]
    seen: set[tuple[str, ...]] = set()
    splits = {}
    for split, size in SIZES.items():
        rows: list[dict[str, Any]] = []
        while len(rows) < size:
            document = next(sources[len(rows) % len(sources)])
            if tuple(document["sentences"]) not in seen:
                seen.add(tuple(document["sentences"]))
                rows.append({"id": f"{split}-{len(rows) + 1:04d}", **document})
        splits[split] = rows
    return splits
