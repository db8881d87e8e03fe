"""Claims about tokens on disk: they are the tokenizer's, made once, and mapped into memory."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch

from toybert.tokenization_toybert import ToyBertTokenizer
from toybert.train.data import kept, tokens
from toybert.train.data.datasets import FinetuneDataset, PretrainDataset
from toybert.train.data.tables import load_corpus
from toybert.train.data.tokens import Tokens, tokenise

DOCUMENTS = [[f"w{i} w{i + 1}", "", f"w{i % 7} .", f"w{i} w{i + 1} unknown"] for i in range(1500)]
TEXTS = [text for document in DOCUMENTS for text in document]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes an empty cache."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache" / "toybert"


@pytest.fixture
def tokenizer() -> ToyBertTokenizer:
    texts = [" ".join(f"w{i}" for i in range(1501)) + " ."]
    return ToyBertTokenizer().train_new_from_iterator(texts, vocab_size=1507, show_progress=False)


def lists(found: Tokens) -> list[list[int]]:
    return [found.ids[a : a + n].tolist() for a, n in zip(found.start, found.length, strict=True)]


def write_corpus(folder: Path, documents: list[list[str]]) -> Path:
    folder.mkdir(parents=True)
    lines = "".join(json.dumps({"sentences": sentences}) + "\n" for sentences in documents)
    for split in ("train", "validation", "test"):
        (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.mark.parametrize("at_a_time", [10_000, 7])
def test_tokens_are_those_of_the_tokenizer(
    tokenizer: ToyBertTokenizer, monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    monkeypatch.setattr(tokens, "TEXTS", at_a_time)
    expected = [ids for ids in tokenizer(TEXTS, add_special_tokens=False)["input_ids"] if ids]
    for texts, rows in ((DOCUMENTS, np.arange(1500).repeat(3)), (TEXTS, np.flatnonzero([bool(t) for t in TEXTS]))):
        found = tokenise(texts, tokenizer)
        assert lists(found) == expected
        assert found.dropped == 1500
        np.testing.assert_array_equal(found.row, rows)
        counts = np.bincount([token for ids in expected for token in ids], minlength=len(tokenizer))
        np.testing.assert_array_equal(found.counts(len(tokenizer)), counts)


@pytest.mark.parametrize("texts", [["", "  "], [[""], []], [[], []]])
def test_texts_without_any_token_give_none(tokenizer: ToyBertTokenizer, texts: list[Any]) -> None:
    found = tokenise(texts, tokenizer)
    assert lists(found) == []
    assert len(found.row) == len(found.key) == 0
    assert found.counts(9).tolist() == [0] * 9


def test_texts_have_the_same_key_exactly_if_they_have_the_same_tokens(tokenizer: ToyBertTokenizer) -> None:
    found = tokenise(DOCUMENTS, tokenizer)
    ids, (_, where) = lists(found), np.unique(found.key, return_inverse=True)
    assert len(set(zip(where.tolist(), map(tuple, ids), strict=True))) == len(set(where)) == len(set(map(tuple, ids)))


def test_ids_stay_in_the_file(tokenizer: ToyBertTokenizer, cache: Path) -> None:
    for dataset in (PretrainDataset(DOCUMENTS, tokenizer), FinetuneDataset(TEXTS, [0] * len(TEXTS), tokenizer)):
        found = dataset.tokens
        assert found.path.parent == cache
        assert not found.ids.flags.owndata
        assert not found.ids.flags.writeable
        assert all(isinstance(value, np.ndarray) for value in (found.start, found.length, found.row, found.key))
        assert not any(isinstance(value, list | dict | set) and len(value) > 100 for value in vars(dataset).values())
        assert len(pickle.dumps(found)) < 1000  # a worker process is told where the file is
        rows = list(range(50))
        for name, values in pickle.loads(pickle.dumps(dataset)).__getitems__(rows).items():
            assert torch.equal(values, dataset.__getitems__(rows)[name])


def test_the_same_text_is_tokenised_once(
    tokenizer: ToyBertTokenizer, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tokenise(DOCUMENTS, tokenizer)
    other = tokenizer.train_new_from_iterator(["w1 w2 w3"], vocab_size=8, show_progress=False)

    def encode(*arguments: Any, **named: Any) -> None:
        raise AssertionError("tokenised again")

    with monkeypatch.context() as patch:
        patch.setattr(tokens, "encode", encode)
        assert lists(tokenise(DOCUMENTS, tokenizer)) == lists(first)
        tokenizer(["w1 w2", "w3"], padding=True, truncation=True, max_length=9)  # it remembers this
        columns = [load_corpus(write_corpus(tmp_path / name, DOCUMENTS), ["sentences"])["train"] for name in "ab"]
        for column in columns:  # text in whatever file
            assert tokenise(column["sentences"], tokenizer).path == first.path
        for texts, by in ((DOCUMENTS[:-1], tokenizer), (DOCUMENTS[::-1], tokenizer), (DOCUMENTS, other)):
            with pytest.raises(AssertionError, match="tokenised again"):
                tokenise(texts, by)
    assert len(list(cache.glob("*.npy"))) == 1
    assert lists(tokenise(DOCUMENTS, other)) != lists(first)


def test_the_rows_of_a_column_are_those_that_were_selected(tokenizer: ToyBertTokenizer) -> None:
    rows = datasets.Dataset.from_dict({"label": range(1500), "sentences": DOCUMENTS}).select([7, 1400, 3])
    expected = tokenise([DOCUMENTS[7], DOCUMENTS[1400], DOCUMENTS[3]], tokenizer)
    assert lists(tokenise(rows["sentences"], tokenizer)) == lists(expected)


ALONE = """
import sys
from toybert.train.data.tables import load_corpus
from toybert.train.hub.folders import ROOT, load_tokenizer
from toybert.train.data import tokens

def encode(*arguments, encode=tokens.encode, **named):
    print("tokenised")
    return encode(*arguments, **named)

tokens.encode = encode
corpus = load_corpus(sys.argv[1], ["sentences"])
tokenizer = load_tokenizer(ROOT).train_new_from_iterator(corpus["train"]["sentences"], 1000, show_progress=False)
for split in ("train", "validation"):  # the same text
    tokens.tokenise(corpus[split]["sentences"], tokenizer)
    tokenizer("cat", padding="max_length", truncation=True)
"""


def alone(script: str, *arguments: Any, cache: Path, **environment: str) -> list[str]:
    """Runs a script in a new process with a cache of its own, and returns the lines that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "HF_DATASETS_CACHE": str(cache), "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_another_process_finds_what_was_tokenised(tmp_path: Path) -> None:
    documents = [[f"the cat number {i} is red.", "it is old."] for i in range(20)]
    printed = [
        alone(ALONE, write_corpus(tmp_path / seed, documents), cache=tmp_path / "cache", PYTHONHASHSEED=seed)
        for seed in ("1", "2")
    ]
    assert printed == [["tokenised"], []]


MEMORY = """
import sys
from pathlib import Path
import numpy as np
import torch
from toybert.tokenization_toybert import ToyBertTokenizer
from toybert.train.data.checks import in_slices
from toybert.train.data.tables import load_corpus
from toybert.train.data.datasets import PretrainDataset
from toybert.train.data.batches import LengthBatchSampler

def memory(name):
    return int(Path("/proc/self/status").read_text().split(name + ":")[1].split()[0]) / 1024

tokenizer = ToyBertTokenizer()
tokenizer("so that what it needs is there")
Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
before = memory("VmRSS")
documents = load_corpus(sys.argv[1], ["sentences"])["train"]["sentences"]
tokenizer = tokenizer.train_new_from_iterator(in_slices(documents), 1000, show_progress=False)
dataset = PretrainDataset(documents, tokenizer)
sampler = LengthBatchSampler(dataset.lengths, 32, group=2)
for number, rows in enumerate(sampler):
    if number % 10 == 0:
        dataset.__getitems__(rows)
print(len(dataset), memory("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measures memory as Linux counts it")
@pytest.mark.slow
def test_a_hundred_thousand_sentences_take_less_than_100_mb(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    words = random.integers(0, 2000, (10_000, 10, 12)).tolist()
    documents = [[" ".join(f"w{word}" for word in sentence) for sentence in document] for document in words]
    corpus = write_corpus(tmp_path / "corpus", documents[:1])
    write_corpus(tmp_path / "large", documents)
    (tmp_path / "large" / "train.jsonl").replace(corpus / "train.jsonl")
    (printed,) = alone(MEMORY, corpus, cache=tmp_path / "cache")
    rows, megabytes = printed.split()
    assert int(rows) == 2 * 10_000 * 9
    assert float(megabytes) < 100


PROCESSES = """
import os, sys
from pathlib import Path
from toybert.train.data import tokens
from toybert.train.pretrain import PretrainOptions, train_pretraining

def encode(*arguments, encode=tokens.encode, **named):
    print("tokenised by", os.environ["RANK"], flush=True)
    return encode(*arguments, **named)

def watch(event, arguments):
    if event == "open" and str(arguments[0]).startswith(sys.argv[1]):
        print("read by", os.environ["RANK"], flush=True)

tokens.encode = encode
sys.addaudithook(watch)
train_pretraining(PretrainOptions(output_dir=sys.argv[2], corpus=sys.argv[1], epochs=1))
"""


@pytest.mark.slow
def test_of_two_processes_one_reads_and_tokenises(tmp_path: Path) -> None:
    documents = [[f"the cat number {i} is {word}." for word in ("red", "old", "here")] for i in range(40)]
    corpus = write_corpus(tmp_path / "corpus", documents)
    (tmp_path / "script.py").write_text(PROCESSES)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launch, tmp_path / "script.py", corpus, tmp_path / "run"],
        env={
            **os.environ,
            "HF_DATASETS_CACHE": str(tmp_path / "cache"),
            "ACCELERATE_USE_CPU": "true",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "training on 2 x cpu" in done.stdout
    # The validation documents are the training documents: there is but one text to tokenise.
    assert [line for line in done.stdout.splitlines() if "tokenised" in line] == ["tokenised by 0"]
    assert {line for line in done.stdout.splitlines() if "read by" in line} == {"read by 0"}


@pytest.mark.parametrize("times", [1, 4, 5])
def test_tokens_that_another_process_takes_away_are_made_again(
    times: int, tokenizer: ToyBertTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    def load_what_is_left(path: Path, load: Callable[[Path], Tokens] = tokens.load_tokens) -> Tokens:
        if len(taken) < times:
            taken.append(path)
            path.unlink()
        return load(path)

    expected = lists(tokenise(["w1 w2", "w3 ."], tokenizer))
    monkeypatch.setattr(tokens, "load_tokens", load_what_is_left)
    if times < kept.TRIES:
        assert lists(tokenise(["w1 w2", "w3 ."], tokenizer)) == expected
        assert len(taken) == times
    else:
        with pytest.raises(FileNotFoundError):
            tokenise(["w1 w2", "w3 ."], tokenizer)
