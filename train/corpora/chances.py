"""The chances of everything that the stories can say, computed from the scripts: no document is drawn.

A script is its slot assignments z with their chances p(z) and, for each of its events, the chance of every text given
z; "" is the chance that the event gives no sentence. Given z, the events are independent of each other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csc_matrix

from toybert.train.corpora.engine import BRACES, PRONOUNS, By, Choice, Slots
from toybert.train.corpora.scripts import SCRIPTS, Script
from toybert.train.corpora.world import CAST, GENDER

KINDS = ("template", "choices", "slots", "names", "pronouns")  # the sources of a word in a sentence
MARKS = dict(zip(KINDS[1:], "\x01\x02\x03\x04", strict=True))  # each opens a stretch of text of its kind,
END = "\x05"  # and this closes it

Outcomes = dict[str, float]


def templates(choice: Choice, slots: Slots) -> Outcomes:
    """Returns every template that `draw` can take from a choice, with its chance."""
    if isinstance(choice, str):
        return {choice: 1.0}
    if isinstance(choice, By):
        return templates(choice.given(slots), slots)
    if not hasattr(choice, "items"):
        choice = [(each, 1.0) for each in choice]  # type: ignore[assignment]
    weights = list(choice.items()) if hasattr(choice, "items") else choice  # type: ignore[union-attr]
    found: Outcomes = defaultdict(float)
    for each, weight in weights:
        for template, chance in templates(each, slots).items():
            found[template] += chance * weight / sum(w for _, w in weights)
    return found


def texts(template: str, slots: Slots) -> Outcomes:
    """Returns every text that `fill` can make of a template, with its chance; marks say where its words come from."""
    match = BRACES.search(template)
    if match is None:
        return {template: 1.0}
    name = match[1]
    if "|" in name:
        values = [(MARKS["choices"], value) for value in name.split("|")]
    elif name.endswith("?"):
        values = [("", f"{{{name[:-1]}}}"), ("", f"{{{name[:-1]}.he}}")]
    elif "." in name:
        person, form = name.split(".")
        values = [(MARKS["pronouns"], PRONOUNS[form][GENDER[slots[person]]])]
    else:
        values = [(MARKS["names" if name in CAST else "slots"], slots[name])]
    found: Outcomes = defaultdict(float)
    for mark, value in values:
        marked = f"{mark}{value}{END}" if mark else value
        for text, chance in texts(template[: match.start()] + marked + template[match.end() :], slots).items():
            found[text] += chance / len(values)
    return found


def drawn(choice: Choice, slots: Slots) -> Outcomes:
    """Returns every marked text that a choice can become, with its chance."""
    found: Outcomes = defaultdict(float)
    for template, chance in templates(choice, slots).items():
        for text, share in texts(template, slots).items():
            found[text] += chance * share
    return found


def unmarked(text: str) -> str:
    """Returns a text without the marks."""
    return re.sub("[\x01-\x05]", "", text)


def kinds_of_words(text: str) -> list[tuple[str, str]]:
    """Splits a marked text as the tokenizer does, each word with its kind: that of the innermost mark around it."""
    names = {mark: kind for kind, mark in MARKS.items()}
    stack, plain, kinds = [KINDS[0]], "", []
    for letter in text.lower():
        if letter in names:
            stack.append(names[letter])
        elif letter == END:
            stack.pop()
        else:
            plain += letter
            kinds.append(stack[-1])
    return [(match[0], kinds[match.start()]) for match in re.finditer(r"\w+|[^\w\s]", plain)]


def assignments(script: Script) -> Iterator[tuple[Slots, float]]:
    """Yields every way to draw a script's slots, the people among them, with its chance."""
    choices = list({**CAST, **script.slots}.items())

    def rest(slots: Slots, chance: float) -> Iterator[tuple[Slots, float]]:
        if len(slots) == len(choices):
            yield slots, chance
            return
        name, choice = choices[len(slots)]
        values: Outcomes = defaultdict(float)
        for text, share in drawn(choice, slots).items():
            values[unmarked(text)] += share
        for value, share in values.items():
            yield from rest({**slots, name: value}, chance * share)

    return rest({}, 1.0)


def words_in(choice: Choice) -> set[str]:
    """Returns every word of a choice, including the slots that it depends on."""
    if isinstance(choice, str):
        return set(re.findall(r"\w+", choice))
    if isinstance(choice, By):
        return {choice.slot}.union(*map(words_in, choice.cases.values()))
    return set().union(*map(words_in, choice))


@dataclass
class Event:
    """Holds the chance of each text of one event, `chances[row[z], text]`; the text 0 is "", no sentence."""

    row: np.ndarray  # (Z,)
    chances: csc_matrix  # (rows, texts)

    def given(self, texts: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Sums the weights (n, W) of n texts by their chances given z: (Z, W)."""
        return (self.chances[:, texts] @ weights)[self.row]

    def of_texts(self, weights: np.ndarray) -> np.ndarray:
        """Sums the weights (Z, W) of the assignments by their chances of each text: (texts, W)."""
        by_row = np.zeros((self.chances.shape[0], weights.shape[1]))
        np.add.at(by_row, self.row, weights)
        return self.chances.T @ by_row

    @cached_property
    def empty(self) -> np.ndarray:
        """The chance of no sentence, (Z, 1)."""
        return self.given(np.zeros(1, dtype=int), np.ones((1, 1)))


@dataclass
class Chances:
    """Holds one script: the chance of each assignment of its slots, the people in it, and its events."""

    name: str
    chance: np.ndarray  # (Z,)
    people: np.ndarray  # (Z,), the number of the pair of people
    events: list[Event]

    @cached_property
    def says(self) -> np.ndarray:
        """Whether the script has each text, bool (texts,)."""
        return np.logical_or.reduce([event.chances.getnnz(axis=0) > 0 for event in self.events])


class World:
    """Holds every script, and every text with its words."""

    def __init__(self, scripts: tuple[Script, ...] = SCRIPTS):
        """Enumerates what the scripts can say; of all of them, some 31,000 assignments and 69,000 texts, in seconds."""
        self.number: dict[str, int] = {"": 0}  # of each text
        self.words: list[list[tuple[str, str]]] = [[]]  # of each text, with their kinds
        self.pairs: dict[tuple[str, str], int] = {}  # of people
        self.scripts = [self._enumerate(script, 1 / len(scripts)) for script in scripts]
        for script in self.scripts:
            for event in script.events:
                event.chances.resize(event.chances.shape[0], len(self.number))

    def _enumerate(self, script: Script, share: float) -> Chances:
        every = list(assignments(script))
        people = [self.pairs.setdefault((slots["A"], slots["B"]), len(self.pairs)) for slots, _ in every]
        events = []
        for choice in script.events:
            used = [name for name in every[0][0] if name in words_in(choice)]
            rows: dict[tuple[str, ...], int] = {}
            entries: list[tuple[int, int, float]] = []
            for slots, _ in every:
                key = tuple(slots[name] for name in used)
                if key not in rows:
                    rows[key] = len(rows)
                    entries += [(rows[key], self._number(t), p) for t, p in drawn(choice, slots).items()]
            row, text, chance = zip(*entries, strict=True)
            matrix = csc_matrix((chance, (row, text)))  # sums where two derivations give one text
            events.append(Event(np.array([rows[tuple(slots[n] for n in used)] for slots, _ in every]), matrix))
        chances = share * np.array([chance for _, chance in every])
        return Chances(script.name, chances, np.array(people), events)

    def _number(self, text: str) -> int:
        plain = unmarked(text)
        words = kinds_of_words(text)
        key = " ".join(word for word, _ in words)
        if key not in self.number:
            self.number[key] = len(self.number)
            self.words.append(words)
        return self.number[key] if plain else 0

    @cached_property
    def share_people(self) -> np.ndarray:
        """1 where two pairs of people have somebody in common, (pairs, pairs)."""
        pairs = [set(pair) for pair in self.pairs]
        return np.array([[float(bool(one & other)) for other in pairs] for one in pairs])

    @cached_property
    def names(self) -> set[str]:
        """The names of all people."""
        return {name for pair in self.pairs for name in pair}
