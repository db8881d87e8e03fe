"""The best that any model can do on the toy stories, computed from the scripts that they are drawn from.

A reader who knows every chance, and how words are hidden, weighs each text that a sentence can have been by how likely
it is to look like this. It is exact but for four approximations: a false B is drawn from all that the scripts can say,
not from the documents of a split; the target of a row that chance left without one counts as any other; texts that
differ from what is seen in over two words more than the nearest one are left out; and it does not know that no
document comes twice. `python -m toybert.train.corpora.best_possible` computes the figures and writes them beside this
file, where `evaluate` finds them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from scipy.stats import entropy
from tqdm import tqdm
from transformers import AutoModelForPreTraining

from toybert.train import cli
from toybert.train.corpora.chances import KINDS, Chances, World
from toybert.train.data.datasets import PretrainDataset
from toybert.train.data.source import CORPORA
from toybert.train.data.tables import load_corpus
from toybert.train.hub.folders import ROOT, load_config, load_model, load_tokenizer, longest_input
from toybert.train.measure.baselines import guesses
from toybert.train.measure.pretraining import content_words, related_documents

STORIES = CORPORA / "stories"
WRITTEN = Path(__file__).with_name("best_possible.json")
MISMATCHES = 2  # beyond those of the nearest text
CHOSEN, HIDDEN, RANDOM, KEPT = 0.15, 0.8, 0.1, 0.1  # how `create_mlm_data` hides words in evaluation


# Hidden targets that tell what a reader has learnt: a pronoun where the same sentence shows one name, a name that the
# other sentence of a true pair shows, and a template's word beside three other hidden words and a wrong one.
PROBES = {"pronouns": "pronoun_by_its_name", "names": "name_in_both", "template": "template_in_noise"}


@dataclass
class Side:
    """Holds what one of two sentences can have been: `texts` (n,), the weights of each as it is read, (n, 1 + W).

    The first weight is the chance to look as the sentence does. The others are the same for one target and one word
    each, 0 unless the text has this word there; `target` and `word` (W,) say which.
    """

    texts: np.ndarray
    weights: np.ndarray
    target: np.ndarray
    word: np.ndarray


class Reader:
    """Knows the scripts and a vocabulary, and reads pairs of sentences in which words are hidden."""

    def __init__(self, world: World, vocabulary: dict[str, int], num_special: int = 5):
        """Adds up what the scripts can say: how often each text is an A, before a B of each length, or a B."""
        self.world, self.mask, self.num_words = world, vocabulary["[MASK]"], len(vocabulary) - num_special
        ids = [[vocabulary[word] for word, _ in words] for words in world.words]
        lengths = np.array([len(words) for words in ids])
        self.texts = {L: np.flatnonzero(lengths == L) for L in range(1, lengths.max() + 1)}
        self.ids = {L: np.array([ids[text] for text in texts]).reshape(-1, L) for L, texts in self.texts.items()}
        of_length = np.eye(lengths.max() + 1)[lengths]  # (texts, L)
        of_length[:, 0] = 0  # no sentence has no words
        self.a = np.zeros_like(of_length)  # chance of the text as A, with a B of the length after it
        self.b = np.zeros(len(lengths))  # chance of the text as B
        self.before, self.after = [], []  # for each script and event: see `neighbours`
        everything = np.arange(len(lengths))
        b_lengths = np.zeros((of_length.shape[1], len(world.scripts), len(world.pairs)))
        for number, script in enumerate(world.scripts):
            said = [event.given(everything, of_length) for event in script.events]  # (Z, L) each
            after = list(following(script, said))
            before = list(preceding(script, [each.sum(1, keepdims=True) for each in said]))
            for event, here, next_length, is_before in zip(script.events, said, after, before, strict=True):
                self.a += event.of_texts(script.chance[:, None] * next_length)
                self.b += event.of_texts(script.chance[:, None] * is_before)[:, 0]
                for length, said_so in enumerate((script.chance[:, None] * is_before * here).T):
                    b_lengths[length, number] += np.bincount(script.people, said_so, len(world.pairs))
            self.after.append(after)
            self.before.append(before)
        self.a[0] = self.b[0] = 0
        self.b_lengths = self.b @ of_length
        self.related_lengths = self._related(b_lengths)
        self.total = self.b.sum()  # of all pairs: that of a document is the number of its pairs

    def side(self, seen: np.ndarray, targets: np.ndarray, hides: bool = True) -> Side:
        """Finds the texts that a sentence seen as `seen` (L,) can have been, with targets at some of its places."""
        every, ids = self.texts[len(seen)], self.ids[len(seen)]
        differ = ((ids != seen) & (seen != self.mask)).sum(1)
        kept = differ <= differ.min() + (MISMATCHES if hides else 0)
        texts, ids = every[kept], ids[kept]
        same, is_mask = ids == seen, seen == self.mask
        random = RANDOM / self.num_words
        at_target = np.where(is_mask, HIDDEN, np.where(same, KEPT + random, random))  # (n, L)
        chance = np.where(is_mask, 0.0, np.where(same, 1 - CHOSEN, 0.0)) + CHOSEN * at_target
        likely = chance.prod(1, keepdims=True)
        columns, target, word = [likely], [], []
        for place in targets:
            here = likely[:, 0] / chance[:, place] * at_target[:, place]
            words = np.unique(ids[:, place])
            columns.append(np.where(ids[:, place, None] == words, here[:, None], 0.0))
            target += [place] * len(words)
            word += words.tolist()
        return Side(texts, np.concatenate(columns, axis=1), np.array(target, int), np.array(word, int))

    def together(self, a: Side, b: Side) -> tuple[np.ndarray, np.ndarray]:
        """Adds up the chances of a true pair: of A's weights with B's first (1 + W), and of B's with A's first."""
        of_a, of_b = np.zeros(a.weights.shape[1]), np.zeros(b.weights.shape[1])
        for script in self.world.scripts:
            if not (script.says[a.texts].any() and script.says[b.texts].any()):
                continue
            as_a = [event.given(a.texts, a.weights) for event in script.events]  # (Z, 1 + W) each
            as_b = [event.given(b.texts, b.weights) for event in script.events]
            chance = script.chance[:, None]
            after = following(script, [each[:, :1] for each in as_b])
            of_a += sum((chance * said * rest).sum(0) for said, rest in zip(as_a, after, strict=True))
            before = preceding(script, [each[:, :1] for each in as_a])
            of_b += sum((chance * said * rest).sum(0) for said, rest in zip(as_b, before, strict=True))
        return of_a / self.total, of_b / self.total

    def apart(self, a: Side, b: Side, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Adds up the chances of a false pair, whose B has the length of a true one; as `together`."""
        of_a = a.weights.T @ self.a[a.texts, length] / self.total
        of_b = b.weights.T @ self.b[b.texts] / self.b_lengths[length]
        return of_a * of_b[0], of_a[0] * of_b

    def apart_but_related(self, a: Side, b: Side, length: int) -> float:
        """Adds up the chance of a hard false pair: B is from a document of the same topic or with one of the people."""
        of_a, of_b = np.zeros((2, len(self.world.scripts), len(self.world.pairs)))
        for number, script in enumerate(self.world.scripts):
            for side, sums in ((a, of_a), (b, of_b)):
                if script.says[side.texts].any():
                    for event, after, before in zip(
                        script.events, self.after[number], self.before[number], strict=True
                    ):
                        said = event.given(side.texts, side.weights[:, :1])[:, 0]
                        said = said * script.chance * (after[:, length] if side is a else before[:, 0])
                        sums[number] += np.bincount(script.people, said, len(self.world.pairs))
        return float((of_a * self._related(of_b) / self.related_lengths[length]).sum() / self.total)

    def _related(self, sums: np.ndarray) -> np.ndarray:
        """Adds up sums (..., scripts, pairs of people) over what shares the script or a person."""
        with_people = sums @ self.world.share_people
        return sums.sum(-1, keepdims=True) + with_people.sum(-2, keepdims=True) - with_people


def following(script: Chances, said: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Yields, for each event, what the next sentence after it says, (Z, W), of what each event says, (Z, W)."""
    rest, found = np.zeros_like(said[0]), []
    for event, here in zip(reversed(script.events), reversed(said), strict=True):
        found.append(rest)
        rest = here + event.empty * rest
    return reversed(found)


def preceding(script: Chances, said: list[np.ndarray]) -> Iterator[np.ndarray]:
    """Yields, for each event, what the last sentence before it says, as `following` does."""
    rest = np.zeros_like(said[0])
    for event, here in zip(script.events, said, strict=True):
        yield rest
        rest = here + event.empty * rest


@dataclass
class Answers:
    """Holds what a reader or a model says of every row and of every target, in their order."""

    words: np.ndarray  # (targets,), the likeliest
    log_chances: np.ndarray  # (targets,), of the true words
    entropies: np.ndarray  # (targets,), in nats
    follows: np.ndarray  # (rows,), whether B follows A


def sentences_of(row: dict[str, Any], sep_id: int) -> list[slice]:
    """Finds where A and B stand in a row."""
    first, second = np.flatnonzero(row["input_ids"] == sep_id)[:2]
    return [slice(1, first), slice(first + 1, second)]


def rows_of(dataset: PretrainDataset, hide: bool = True) -> Iterator[dict[str, Any]]:
    """Yields the rows of epoch 0, as arrays; without `hide`, every word is seen."""
    dataset.set_epoch(0)
    for number in range(len(dataset)):
        row = {name: values[0].numpy() for name, values in dataset.__getitems__([number]).items()}
        if not hide:
            row["input_ids"] = np.where(row["labels"] == -100, row["input_ids"], row["labels"])
        yield row


def read(reader: Reader, dataset: PretrainDataset, hard: bool = False, hide: bool = True) -> Answers:
    """Reads a dataset with a reader who knows every chance.

    Args:
        hard: the false sentences come from related documents.
        hide: the words at the targets are hidden. Otherwise, or if `hard`, only next sentences are answered.
    """
    words, log_chances, entropies, follows = [], [], [], []
    for row in tqdm(rows_of(dataset, hide), total=len(dataset), desc="Best possible", leave=False):
        places = sentences_of(row, dataset.sep_id)
        labels = [row["labels"][place] for place in places]
        a, b = (
            reader.side(row["input_ids"][place], np.flatnonzero((given != -100) & hide), hide)
            for place, given in zip(places, labels, strict=True)
        )
        true, false = reader.together(a, b), reader.apart(a, b, len(labels[1]))
        against = reader.apart_but_related(a, b, len(labels[1])) if hard else false[0][0]
        follows.append(true[0][0] > against)
        if hard or not hide:
            continue
        for side, given, one, other in zip((a, b), labels, true, false, strict=True):
            chances = (one + other)[1:]
            for target in np.unique(side.target):
                here = side.target == target
                candidates, share = side.word[here], chances[here] / chances[here].sum()
                words.append(candidates[share.argmax()])
                log_chances.append(np.log(share[candidates == given[target]].sum()))
                entropies.append(entropy(share))
    return Answers(*map(np.array, (words, log_chances, entropies, follows)))


@torch.no_grad()
def ask(model: Any, dataset: PretrainDataset, hide: bool = True) -> Answers:
    """Reads a dataset with a model."""
    model.eval()
    dataset.set_epoch(0)
    parts = []
    for start in range(0, len(dataset), 128):
        batch = dataset.__getitems__(range(start, min(start + 128, len(dataset))))
        chosen = batch["labels"] != -100
        if not hide:
            batch["input_ids"] = torch.where(chosen, batch["labels"], batch["input_ids"])
        output = model(**batch)
        logits = output.prediction_logits
        logits = (logits[chosen] if logits.dim() == 3 else logits).log_softmax(-1)
        true = logits.gather(1, batch["labels"][chosen][:, None])[:, 0]
        entropies = -(logits.exp() * logits).sum(-1)
        parts.append((logits.argmax(-1), true, entropies, output.seq_relationship_logits.argmax(-1) == 1))
    return Answers(*(torch.cat(column).numpy() for column in zip(*parts, strict=True)))


class Targets:
    """Holds the word of every target of a dataset, and the word's role in its sentence."""

    def __init__(self, world: World, dataset: PretrainDataset, words: Sequence[str]):
        """Looks at every target; `words` are the vocabulary's, in the order of their ids."""
        names = {index for index, word in enumerate(words) if any(word == name.lower() for name in world.names)}
        found: list[tuple[int, int, bool]] = []
        for row in rows_of(dataset):
            places = sentences_of(row, dataset.sep_id)
            for place, other in (places, places[::-1]):
                seen, given, beyond = row["input_ids"][place], row["labels"][place], row["input_ids"][other]
                whole = np.where(given == -100, seen, given)
                kinds = [kind for _, kind in world.words[world.number[" ".join(words[i] for i in whole)]]]
                is_mask = seen == dataset.mask_token_id
                wrong = (seen != whole) & ~is_mask
                is_name = np.isin(seen, list(names))
                for target in np.flatnonzero(given != -100):
                    others = np.arange(len(seen)) != target
                    hidden, kind = is_mask[target], kinds[target]
                    one_name = (is_name & others).sum() == 1
                    in_other = bool(row["next_sentence_label"]) and given[target] in beyond
                    in_noise = (is_mask & others).sum() == 3 and (wrong & others).sum() == 1
                    asked = {"pronouns": one_name, "names": in_other, "template": in_noise}.get(kind, False)
                    found.append((int(given[target]), KINDS.index(kind), bool(hidden and asked)))
        self.word, self.kind, self.asked = (np.array(column) for column in zip(*found, strict=True))
        self.label = np.tile([True, False], len(dataset) // 2)

    def groups(self, content: np.ndarray) -> dict[str, np.ndarray]:
        """Marks, bool (targets,), the targets of each group that is measured; `content` is bool (V,)."""
        found = {"": np.ones(len(self.word), dtype=bool), "content_": content[self.word]}
        found |= {f"{kind}_": self.kind == index for index, kind in enumerate(KINDS)}
        probes = {f"{name}_": self.asked & found[f"{kind}_"] for kind, name in PROBES.items()}
        return {**found, **probes}


def best_possible() -> dict[str, dict[str, float]]:
    """Measures the best possible reader on the test stories as `evaluate` masks them.

    Returns:
        The figures of the masked words, `mlm`, and of the next sentences, `nsp`, by their names in results.json.
    """
    tokenizer, rows = load_tokenizer(ROOT), load_corpus(STORIES, ["sentences"], ["test"])["test"]
    world, vocabulary = World(), tokenizer.get_vocab()
    reader, test = Reader(world, vocabulary), PretrainDataset(rows["sentences"], tokenizer)
    hard = PretrainDataset(rows["sentences"], tokenizer, related=related_documents(rows))
    targets = Targets(world, test, sorted(vocabulary, key=vocabulary.__getitem__))
    masked, name = read(reader, test), "best_possible_"
    right, groups = masked.words == targets.word, targets.groups(content_words(tokenizer))
    mlm = {f"{group}{name}accuracy": float(right[here].mean()) for group, here in groups.items()}
    follows = {
        "": masked.follows,
        "unmasked_": read(reader, test, hide=False).follows,
        "hard_": read(reader, hard, hard=True).follows,
        "hard_unmasked_": read(reader, hard, hard=True, hide=False).follows,
    }
    nsp = {f"{group}{name}accuracy": float((said == targets.label).mean()) for group, said in follows.items()}
    return {"mlm": {f"{name}loss": float(-masked.log_chances.mean()), **mlm}, "nsp": nsp}


def beside_the_best(results: dict[str, Any], checkpoint: str | Path, folder: str | Path) -> dict[str, Any]:
    """Adds, to a checkpoint's results on the toy stories, the best possible ones and those for each kind of word.

    Results on other text, or of a vocabulary that lacks a word of the stories, are returned as they are.
    """
    if Path(folder).resolve() != STORIES.resolve() or "nsp" not in results:
        return results
    tokenizer, config = load_tokenizer(checkpoint), load_config(checkpoint)
    corpus, world, vocabulary = load_corpus(STORIES, ["sentences"], ["train", "test"]), World(), tokenizer.get_vocab()
    if not {word for words in world.words for word, _ in words} <= vocabulary.keys():
        return results

    def dataset(rows: Dataset) -> PretrainDataset:
        return PretrainDataset(rows["sentences"], tokenizer, max_length=longest_input(tokenizer, config))

    training, test = dataset(corpus["train"]), dataset(corpus["test"])
    words = sorted(vocabulary, key=vocabulary.__getitem__)
    targets, content = Targets(world, test, words), content_words(tokenizer)
    frequency, _, between = guesses(training, test)
    guessed = ask(load_model(AutoModelForPreTraining, checkpoint), test).words
    best, mlm = json.loads(WRITTEN.read_text(encoding="utf-8")), {}
    for group, here in targets.groups(content).items():
        true = targets.word[here]
        commonest = np.where(np.isin(np.arange(len(words)), true), frequency, 0).argmax()  # of those asked for
        for name, answers in (("", guessed[here]), ("bigram_", between[here]), ("unigram_", commonest)):
            mlm[f"{group}{name}accuracy"] = float((true == answers).mean())
        mlm[f"{group}best_possible_accuracy"] = best["mlm"][f"{group}best_possible_accuracy"]
    return results | {"mlm": mlm | results["mlm"] | best["mlm"], "nsp": results["nsp"] | best["nsp"]}


def main() -> None:
    """Computes the figures of the best possible reader, writes them down, and prints them."""
    argparse.ArgumentParser(prog="python -m toybert.train.corpora.best_possible", description=__doc__).parse_args()
    text = json.dumps(best_possible(), indent=2) + "\n"
    WRITTEN.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    cli.run(main)
