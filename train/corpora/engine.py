"""Weighted choices and templates: everything that turns the corpora's data into sentences.

A *choice* says what may stand somewhere, and how often:

    "cold"                            always this text
    ["cold", "warm"]                  each alternative equally often; alternatives may be choices
    {"cold": 3, "warm": 1}            by weight
    By("season", {"winter": "cold"})  what an earlier slot holds decides; "*" is any other value

A *template* is text with braces:

    {food}        the document's slot of that name, drawn once a document
    {A} {A.he}    a person, or a pronoun for that person
    {A?}          the person's name or "he" or "she", equally often
    {walked|ran}  one of these, equally often, drawn where it stands; braces may stand in braces

`random.Random.random` is the only source of randomness, because its sequence is the one that
Python promises to keep from version to version.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Union

Choice = Union[str, Sequence["Choice"], Mapping[str, float], "By"]
Slots = dict[str, str]

PRONOUNS = {
    "he": {"woman": "she", "man": "he"},
    "him": {"woman": "her", "man": "him"},
    "his": {"woman": "her", "man": "his"},
}
BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class By:
    """Holds a choice that depends on the value of a slot drawn earlier."""

    slot: str
    cases: Mapping[str, Choice]

    def given(self, slots: Slots) -> Choice:
        """Returns the case for what the slot holds; raises KeyError where no case fits."""
        value = slots[self.slot]
        return self.cases[value if value in self.cases else "*"]


def pick(weights: Sequence[float], rng: random.Random) -> int:
    """Draws an index with probability proportional to its weight."""
    point = rng.random() * sum(weights)
    for index, weight in enumerate(weights):
        point -= weight
        if point < 0:
            return index
    return len(weights) - 1


def draw(choice: Choice, slots: Slots, rng: random.Random) -> str:
    """Draws one template from a choice."""
    while not isinstance(choice, str):
        if isinstance(choice, By):
            choice = choice.given(slots)
        elif isinstance(choice, Mapping):
            choice = list(choice)[pick(list(choice.values()), rng)]
        else:
            choice = choice[pick([1] * len(choice), rng)]
    return choice


def fill(template: str, slots: Slots, rng: random.Random, gender: Mapping[str, str]) -> str:
    """Replaces every pair of braces in a template; raises KeyError for an unknown slot."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if "|" in name:
            return draw(name.split("|"), slots, rng)
        if name.endswith("?"):
            name = draw([name[:-1], name[:-1] + ".he"], slots, rng)
        if "." in name:
            person, form = name.split(".")
            return PRONOUNS[form][gender[slots[person]]]
        return slots[name]

    while BRACES.search(template):
        template = BRACES.sub(value, template)
    return template


def draw_slots(choices: Mapping[str, Choice], rng: random.Random, gender: Mapping[str, str]) -> Slots:
    """Draws every slot once, in the order written, so that later ones may depend on earlier ones."""
    slots: Slots = {}
    for name, choice in choices.items():
        slots[name] = fill(draw(choice, slots, rng), slots, rng, gender)
    return slots


def capitalised(text: str) -> str:
    """Returns the text with its first letter as a capital."""
    return text[:1].upper() + text[1:]


def tokens(text: str) -> list[str]:
    """Splits lower-cased text on white space and around punctuation, as the tokenizer does."""
    return re.findall(r"\w+|[^\w\s]", text.lower())
