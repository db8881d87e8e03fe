"""The people that the stories are about, and how they go together."""

from __future__ import annotations

from toybert.train.corpora.engine import By, Choice

WOMEN = ("Anna", "Mary", "Lucy", "Emma", "Nina", "Clara")
MEN = ("Tom", "Ben", "Paul", "Sam", "Max", "Jack")
GENDER = {**dict.fromkeys(WOMEN, "woman"), **dict.fromkeys(MEN, "man")}

# Each of them has a best friend: the one of the other six who stands at the same place. A story
# has a woman and a man, so that "he" and "she" always say who is meant.
FRIEND_WEIGHT = 5
COMPANION = {
    name: {other: FRIEND_WEIGHT if i == j else 1 for j, other in enumerate(others)}
    for names, others in ((WOMEN, MEN), (MEN, WOMEN))
    for i, name in enumerate(names)
}

CAST: dict[str, Choice] = {"A": [*WOMEN, *MEN], "B": By("A", COMPANION)}
