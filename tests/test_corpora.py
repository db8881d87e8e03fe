"""Claims about the toy corpora: what the files hold, and what they hold out."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict

import pytest
from datasets import load_dataset
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from toybert.train.corpora.__main__ import FOLDER, files
from toybert.train.corpora.card import share_in_train, vocabulary
from toybert.train.corpora.engine import By, capitalised, draw, draw_slots, fill, tokens
from toybert.train.corpora.make_sentiment import CONSTRUCTIONS, FEELINGS, NOUNS
from toybert.train.corpora.scripts import SCRIPTS
from toybert.train.corpora.world import GENDER

SPLITS = ("train", "validation", "test")
HELD_OUT = ("validation", "test")


def read(corpus: str) -> dict[str, list[dict]]:
    """Returns the committed rows of a corpus by split."""
    return {
        split: [json.loads(line) for line in (FOLDER / corpus / f"{split}.jsonl").read_text("utf-8").splitlines()]
        for split in SPLITS
    }


STORIES = read("stories")
SENTIMENT = read("sentiment")
DOCUMENTS = [row for split in SPLITS for row in STORIES[split]]
SENTENCES = [text for row in DOCUMENTS for text in row["sentences"]]
LABELLED = [row for split in SPLITS for row in SENTIMENT[split]]


def test_the_generator_writes_the_committed_bytes() -> None:
    for name, text in files().items():
        assert (FOLDER / name).read_bytes() == text.encode(), f"{name} is stale: run python -m toybert.train.corpora"


def test_datasets_loads_both_corpora_by_the_card_alone() -> None:
    pytest.importorskip("yaml")
    for name, rows in (("stories", STORIES), ("sentiment", SENTIMENT)):
        loaded = load_dataset(str(FOLDER), name)
        assert {split: len(loaded[split]) for split in loaded} == {split: len(rows[split]) for split in SPLITS}


# The engine


def test_a_choice_follows_its_slot_and_weights() -> None:
    by = By("pet", {"dog": "barked", "*": {"purred": 1, "flew": 0}})
    half = FixedRandom(0.5)
    assert draw(by, {"pet": "dog"}, half) == "barked"
    assert draw(by, {"pet": "cat"}, half) == "purred"
    assert draw(["a", "b", ["c", "d"]], {}, FixedRandom(0.99)) == "d"


def test_slots_may_use_earlier_slots_and_braces_may_nest() -> None:
    rng = FixedRandom(0.0)
    slots = draw_slots({"A": "Anna", "what": "{A.his} key"}, rng, GENDER)
    assert slots["what"] == "her key"
    assert fill("{{A}|nobody} lost {what}", slots, rng, GENDER) == "Anna lost her key"
    assert fill("{A?} saw {A.him}", slots, FixedRandom(0.9), GENDER) == "she saw her"
    with pytest.raises(KeyError, match="where"):
        fill("{where}", slots, rng, GENDER)


class FixedRandom:
    """Draws the same number always."""

    def __init__(self, value: float) -> None:
        self.value = value

    def random(self) -> float:
        """Returns the number."""
        return self.value


# Stories


def test_sizes_are_those_of_the_card() -> None:
    assert [len(STORIES[split]) for split in SPLITS] == [2000, 250, 250]
    assert all(5 <= len(row["sentences"]) <= 8 for row in DOCUMENTS)
    assert 300 <= len(vocabulary(STORIES, SENTIMENT)) <= 500


def test_two_sentences_fit_the_model_with_room_to_spare() -> None:
    longest = max(len(tokens(text)) for text in SENTENCES)
    assert 2 * longest + 3 <= 48


def test_no_document_occurs_twice() -> None:
    documents = Counter(tuple(row["sentences"]) for row in DOCUMENTS)
    assert max(documents.values()) == 1


def test_ids_are_unique_and_name_the_split() -> None:
    assert len({row["id"] for row in DOCUMENTS}) == len(DOCUMENTS)
    assert all(row["id"].startswith(split) for split in SPLITS for row in STORIES[split])


def test_every_topic_is_in_every_split() -> None:
    names = {script.name for script in SCRIPTS}
    assert len(names) == len(SCRIPTS) >= 25
    for split in SPLITS:
        assert {row["script"] for row in STORIES[split]} == names


def test_held_out_words_occur_in_training() -> None:
    known = vocabulary({"train": STORIES["train"]})
    assert vocabulary(STORIES) <= known
    assert vocabulary(SENTIMENT) <= known


def test_at_most_half_of_the_held_out_sentences_are_known_from_training() -> None:
    for split in HELD_OUT:
        assert share_in_train(STORIES, split) < 0.5


def test_people_are_those_whom_the_story_names() -> None:
    for row in DOCUMENTS:
        words = {token for text in row["sentences"] for token in tokens(text)}
        assert set(row["people"]) == {name for name in GENDER if name.lower() in words}
        assert 1 <= len(row["people"]) <= 2


# They are spoken of as "he" or "him" without a name: two trades, and the man made of snow.
NAMELESS_MEN = {"fisherman", "man", "postman"}


def test_pronouns_agree_with_people_named_so_far() -> None:
    for row in DOCUMENTS:
        named: set[str] = set()
        for text in row["sentences"]:
            words = tokens(text)
            named |= {GENDER[word.capitalize()] for word in words if word.capitalize() in GENDER}
            named |= {"man"} if NAMELESS_MEN & set(words) else set()
            assert "woman" in named or not {"she", "her"} & set(words), row
            assert "man" in named or not {"he", "him", "his"} & set(words), row


def test_a_story_has_at_most_one_woman_and_one_man() -> None:
    for row in DOCUMENTS:
        assert len({GENDER[name] for name in row["people"]}) == len(row["people"]), row


def test_sentences_are_well_formed() -> None:
    for text in SENTENCES + [row["text"] for row in LABELLED]:
        assert re.fullmatch(r"[A-Z][a-zA-Z]*(,? [a-zA-Z]+)+\.", text), text
        assert text == capitalised(text)
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeioh]", text), text
        assert not re.search(r"\b(\w+) \1\b", text), text


def test_words_with_two_senses_occur_in_several_topics() -> None:
    topics = defaultdict(Counter)
    for row in STORIES["train"]:
        for text in row["sentences"]:
            for token in set(tokens(text)):
                topics[token][row["script"]] += 1
    for word in ["bank", "bark", "bat", "leaves", "light", "ring", "rose", "spring", "watch", "wave"]:
        common = [script for script, count in topics[word].items() if count >= 3]
        assert len(common) >= 2, (word, topics[word])


def test_facts_of_the_world_are_often_told() -> None:
    """Each pair of words keeps company in a sentence, or in two that follow each other."""
    facts = "dog barked|cat purred|bird sing|key door|rain wet|snow white|snow cold|honey sweet"
    facts += "|lemons sour|sun warm|ill doctor|oven hot|bees honey|baker bread|book read"
    for fact in facts.split("|"):
        together = 0
        for row in STORIES["train"]:
            for first, second in zip(row["sentences"], [*row["sentences"][1:], ""], strict=True):
                together += set(fact.split()) <= set(tokens(first + " " + second))
        assert together >= 15, (fact, together)


# Sentiment


def combinations(row: dict) -> set[tuple[str, str, str]]:
    """Returns the (construction, noun, feeling word) of each clause, read off the text.

    Each noun goes with the first feeling word after it, and a feeling word that has no noun of its
    own ("but it was good") with the noun before it.
    """
    nouns = {noun for group in NOUNS.values() for noun in group}
    feelings = {word for sides in FEELINGS.values() for side in sides for word in side}
    found, noun = set(), ""
    for token in tokens(row["text"]):
        if token in nouns:
            noun = token
        elif token in feelings:
            found.add((row["construction"], noun, token))
    return found


def test_sentiment_is_balanced_as_a_whole_and_in_each_construction() -> None:
    assert [len(SENTIMENT[split]) for split in SPLITS] == [3600, 500, 800]
    for split in SPLITS:
        labels = defaultdict(Counter)
        for row in SENTIMENT[split]:
            labels[row["construction"]][row["label"]] += 1
        assert set(labels) == set(CONSTRUCTIONS)
        assert all(count[0] == count[1] for count in labels.values())


def test_no_sentence_is_in_two_splits() -> None:
    assert len({row["text"] for row in LABELLED}) == len(LABELLED)


def test_held_out_combinations_never_occur_in_training() -> None:
    seen = {key for row in SENTIMENT["train"] for key in combinations(row)}
    for split in HELD_OUT:
        for row in SENTIMENT[split]:
            assert combinations(row), row
            assert not combinations(row) & seen, row


def test_training_covers_each_construction_with_each_feeling_word() -> None:
    seen = Counter((c, f) for row in SENTIMENT["train"] for c, _, f in combinations(row))
    for construction, rule in CONSTRUCTIONS.items():
        for kind, sides in FEELINGS.items():
            for feeling in sides[0] + sides[1]:
                if kind != "people" or rule.about != "same":
                    assert seen[construction, feeling] >= 1, (construction, feeling)


def test_no_person_is_called_it() -> None:
    for split in SPLITS:
        for row in SENTIMENT[split]:
            if CONSTRUCTIONS[row["construction"]].about == "same":
                assert set(NOUNS["people"]).isdisjoint(tokens(row["text"])), row["text"]


@pytest.mark.parametrize(("longest", "limit"), [(1, 0.80), (2, 0.90)])
def test_words_alone_do_not_give_the_label_away(longest: int, limit: float) -> None:
    texts = {split: [row["text"] for row in SENTIMENT[split]] for split in SPLITS}
    labels = {split: [row["label"] for row in SENTIMENT[split]] for split in SPLITS}
    count = CountVectorizer(tokenizer=tokens, token_pattern=None, ngram_range=(1, longest))
    count.fit(texts["train"])
    models = [
        LogisticRegression(C=c, max_iter=1000).fit(count.transform(texts["train"]), labels["train"])
        for c in (0.1, 1, 10)
    ]
    best = max(models, key=lambda m: m.score(count.transform(texts["validation"]), labels["validation"]))
    assert best.score(count.transform(texts["test"]), labels["test"]) <= limit
