"""Claims about the best possible answers: they follow from the scripts alone, whatever was drawn."""

import json
import math
import random
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT
from transformers import AutoModelForPreTraining

from toybert.train.corpora.best_possible import (
    CHOSEN,
    HIDDEN,
    KEPT,
    PROBES,
    RANDOM,
    STORIES,
    WRITTEN,
    Reader,
    Targets,
    beside_the_best,
    best_possible,
    read,
)
from toybert.train.corpora.chances import KINDS, World, drawn, kinds_of_words, unmarked
from toybert.train.corpora.engine import By, draw, fill, tokens
from toybert.train.corpora.make_stories import documents
from toybert.train.corpora.scripts import SCRIPTS, Script
from toybert.train.corpora.world import GENDER
from toybert.train.data.datasets import PretrainDataset
from toybert.train.data.source import CORPORA
from toybert.train.data.tables import load_corpus
from toybert.train.hub.folders import load_config, load_tokenizer, save_hub_folder

TWO_EVENTS = Script(
    "tea",
    slots={"drink": {"tea": 3, "milk": 1}, "cup": By("drink", {"tea": ["cup", "pot"], "milk": "bowl"})},
    events=[
        ["{A?} {made|saw} some {drink}.", {"{A} and {B} sat.": 2, "": 1}],
        ["The {cup} was {very |}{big|full}.", "{B} {saw|made} a {cup} {and {A.he}|so {B.he}} sat."],
    ],
)


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def test_the_chances_of_everything_sum_to_one(world: World) -> None:
    assert sum(script.chance.sum() for script in world.scripts) == pytest.approx(1, abs=1e-12)
    for script in world.scripts:
        for event in script.events:
            np.testing.assert_allclose(np.asarray(event.chances.sum(1)), 1, atol=1e-12)


def test_what_is_drawn_is_drawn_as_often_as_its_chance_says() -> None:
    rng, slots = random.Random(5), {"A": "Anna", "B": "Tom", "drink": "tea", "cup": "pot"}
    number = 20_000
    for event in TWO_EVENTS.events:
        counts: dict[str, int] = {}
        for _ in range(number):
            text = fill(draw(event, slots, rng), slots, rng, GENDER)
            counts[text] = counts.get(text, 0) + 1
        chances = {unmarked(text): chance for text, chance in drawn(event, slots).items()}
        assert counts.keys() <= chances.keys()
        for text, chance in chances.items():
            assert abs(counts.get(text, 0) - number * chance) < 5 * math.sqrt(number * chance)


def test_every_sentence_of_every_split_has_a_chance(world: World) -> None:
    for split in load_corpus(CORPORA / "stories", ["sentences"]).values():
        for document in split:
            [script] = [script for script in world.scripts if script.name == document["script"]]
            for sentence in document["sentences"]:
                assert script.says[world.number[" ".join(tokens(sentence))]], sentence


def test_a_word_knows_where_it_comes_from() -> None:
    slots = {"A": "Anna", "B": "Tom", "drink": "tea", "cup": "pot"}
    [text] = [text for text in drawn(TWO_EVENTS.events[1], slots) if unmarked(text) == "Tom made a pot and she sat."]
    assert kinds_of_words(text) == [
        ("tom", "names"), ("made", "choices"), ("a", "template"), ("pot", "slots"), ("and", "choices"),
        ("she", "pronouns"), ("sat", "template"), (".", "template"),
    ]  # fmt: skip


class ByHand:
    """Weighs every document of one script, one by one: the answers of `Reader`, computed in the plainest way."""

    def __init__(self, script: Script, vocabulary: dict[str, int]):
        self.vocabulary, self.pairs = vocabulary, []
        world = World((script,))
        texts = {number: text.split() for text, number in world.number.items()}
        [enumerated] = world.scripts
        first, second = (event.chances.toarray()[event.row] for event in enumerated.events)
        for z, chance in enumerate(enumerated.chance):
            for a, b in product(np.flatnonzero(first[z])[:], np.flatnonzero(second[z])):
                if a and b:  # both events give a sentence
                    self.pairs.append((texts[a], texts[b], chance * first[z, a] * second[z, b]))
        self.total = sum(chance for *_, chance in self.pairs)

    def look(self, words: list[str], seen: list[str], target: int | None) -> float:
        """Returns the chance that a sentence looks so."""
        if len(words) != len(seen):
            return 0.0
        found, V = 1.0, len(self.vocabulary) - 5
        for place, (word, here) in enumerate(zip(words, seen, strict=True)):
            chosen = HIDDEN if here == "[MASK]" else RANDOM / V + KEPT * (here == word)
            found *= chosen if place == target else CHOSEN * chosen + (1 - CHOSEN) * (here == word)
        return found

    def answer(self, a: list[str], b: list[str], target: int) -> tuple[dict[str, float], float, float]:
        """Returns what a word of A can have been, and how likely a true and a false pair look so."""
        words: dict[str, float] = {}
        of_a: dict[tuple[str, ...], float] = {}
        of_b: dict[tuple[str, ...], float] = {}
        length = sum(chance for _, two, chance in self.pairs if len(two) == len(b))
        for one, two, chance in self.pairs:
            words[one[min(target, len(one) - 1)]] = 0.0
            if len(two) == len(b):
                of_a[tuple(one)] = of_a.get(tuple(one), 0) + chance
                of_b[tuple(two)] = of_b.get(tuple(two), 0) + chance
        false_b = sum(chance * self.look(list(two), b, None) for two, chance in of_b.items()) / length
        for one, two, chance in self.pairs:
            if len(one) == len(a):
                words[one[target]] += chance * self.look(one, a, target) * self.look(two, b, None)
        for one, chance in of_a.items():
            if len(one) == len(a):
                words[one[target]] += chance * self.look(list(one), a, target) * false_b
        true = sum(chance * self.look(one, a, None) * self.look(two, b, None) for one, two, chance in self.pairs)
        false = sum(chance * self.look(list(one), a, None) for one, chance in of_a.items()) * false_b
        every = sum(words.values())
        return {word: chance / every for word, chance in words.items()}, true / self.total, false / self.total


@pytest.mark.parametrize(
    ("a", "b", "target"),
    [
        ("anna [MASK] some tea .", "the pot was full .", 1),
        ("[MASK] made some tea .", "tom saw a bowl and she [MASK] .", 0),
        ("[MASK] made some [MASK] .", "[MASK] saw a cup so he sat .", 3),
        ("he saw [MASK] milk .", "the [MASK] was very big .", 2),
        ("lucy and paul sat .", "paul made a [MASK] and [MASK] sat .", 2),
    ],
)
def test_a_reader_agrees_with_every_document_weighed_by_hand(
    a: str, b: str, target: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toybert.train.corpora.best_possible.MISMATCHES", 20)  # leave out nothing
    world = World((TWO_EVENTS,))
    words = sorted({word for text in world.number for word in text.split()})
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])}
    reader = Reader(world, vocabulary)
    one, two = (np.array([vocabulary[word] for word in text.split()]) for text in (a, b))
    side, other = reader.side(one, np.array([target])), reader.side(two, np.array([], dtype=int))
    true, false = reader.together(side, other)[0], reader.apart(side, other, len(two))[0]
    expected, true_by_hand, false_by_hand = ByHand(TWO_EVENTS, vocabulary).answer(a.split(), b.split(), target)
    assert true[0] == pytest.approx(true_by_hand, rel=1e-6)
    assert false[0] == pytest.approx(false_by_hand, rel=1e-6)
    share = (true + false)[1:] / (true + false)[1:].sum()
    by_id = {index: word for word, index in vocabulary.items()}
    for word, chance in zip(side.word, share, strict=True):
        assert chance == pytest.approx(expected.get(by_id[word], 0.0), abs=1e-6)


@pytest.fixture(scope="module")
def fresh(world: World) -> tuple[World, Reader, Any, PretrainDataset]:
    """Draws documents that are in no split, and makes a reader of the whole world."""
    rng = random.Random(77)
    rows = [row["sentences"] for script in SCRIPTS for row in islice(documents(script, rng), 6)]
    tokenizer = load_tokenizer(ROOT)
    return world, Reader(world, tokenizer.get_vocab()), tokenizer, PretrainDataset(rows, tokenizer)


def test_a_reader_is_as_sure_as_it_is_right_on_fresh_documents(fresh: Any) -> None:
    """The mean loss is the mean entropy, and the mean chance of the likeliest word its accuracy."""
    world, reader, tokenizer, dataset = fresh
    said = read(reader, dataset)
    excess = -said.log_chances - said.entropies
    assert len(excess) > 5000
    assert abs(excess.mean()) < 5 * excess.std() / math.sqrt(len(excess))
    labels = np.arange(len(dataset)) % 2 == 0
    assert (said.follows == labels).mean() > 0.98
    words = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    targets = Targets(world, dataset, words)
    assert len(targets.word) == len(said.words)
    groups = targets.groups(np.ones(len(tokenizer), dtype=bool))
    assert set(groups) == {"", "content_", *(f"{name}_" for name in (*KINDS, *PROBES.values()))}
    figures = {name: (said.words == targets.word)[here].mean() for name, here in groups.items()}
    assert 0.88 < figures[""] < 0.92
    assert figures["template_"] > 0.99 > figures["choices_"] > figures["names_"] > 1 / 12


@pytest.mark.slow
def test_the_figures_beside_the_stories_are_those_of_the_reader() -> None:
    written = json.loads(WRITTEN.read_text(encoding="utf-8"))
    for part, figures in best_possible().items():
        assert figures == pytest.approx(written[part], abs=0.003)  # of two names just as likely, rounding chooses one


def test_only_the_toy_stories_and_a_whole_vocabulary_have_a_best_possible_answer(tmp_path: Path) -> None:
    results = {"mlm": {"accuracy": 0.5}, "nsp": {"accuracy": 0.5}}
    assert beside_the_best(results, ROOT, tmp_path) is results
    assert beside_the_best({"mlm": {}}, ROOT, STORIES) == {"mlm": {}}  # of a model without next sentences
    small = load_tokenizer(ROOT).train_new_from_iterator([["a dog ran ."]], vocab_size=20)
    config = load_config(ROOT, vocab_size=len(small))
    save_hub_folder(AutoModelForPreTraining.from_config(config, trust_remote_code=True), small, tmp_path)
    assert beside_the_best(results, tmp_path, STORIES) is results
