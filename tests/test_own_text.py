"""Claims about a user's own text: every format is read alike, all of it is used, and a part is held out."""

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict
from helpers import make_checkpoint
from safetensors.torch import load_file
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    AutoTokenizer,
)

from toybert.tokenization_toybert import ToyBertTokenizer
from toybert.train import cli, evaluate
from toybert.train.data import source, tables, tokens
from toybert.train.data import text as documents
from toybert.train.data.datasets import MaskedWordDataset, PretrainDataset
from toybert.train.data.sentences import PIECE, STRETCH, document_numbers
from toybert.train.data.source import Source, TextOptions, find_source, find_tables
from toybert.train.data.stream import is_held_out
from toybert.train.data.text import Text, load_text
from toybert.train.data.tokens import pack, tokenise
from toybert.train.data.vocabulary import accents_taken, learn_tokenizer, load_learnt, save_learnt
from toybert.train.hub.folders import ROOT, load_config, load_model, load_tokenizer, save_hub_folder
from toybert.train.pretrain import PretrainOptions, make_model, train_pretraining

SMALL: dict[str, Any] = {"epochs": 1, "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
DOCUMENTS = [
    [f"The {thing} number {i} is {word}." for word in ("red", "old", "here")] for i in range(20) for thing in "ab"
]
TEXT = "\n\n".join("\n".join(sentences) for sentences in DOCUMENTS)


def write(path: Path, text: str | bytes = TEXT) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return str(path)


def pretrain(corpus: str, folder: Path, **options: Any) -> dict[str, Any]:
    return train_pretraining(PretrainOptions(corpus=corpus, output_dir=str(folder), **{**SMALL, **options}))


def source_of(corpus: str | Path, **options: Any) -> Source:
    return find_source(TextOptions(corpus=str(corpus), **options))


def load_whole(corpus: str | Path, seed: int = 0, pairs: bool = True, **options: Any) -> Text:
    return load_text(source_of(corpus, **options), seed=seed, pairs=pairs)


def load(corpus: str, seed: int = 0, pairs: bool = True, **options: Any) -> tuple[list[list[str]], list[list[str]]]:
    """Returns the documents to learn from, and those that are held out."""
    text = load_whole(corpus, seed, pairs, **options)
    return documents_of(text.training), documents_of(text.validation)


def load_all(corpus: str, **options: Any) -> list[list[str]]:
    training, held_out = load(corpus, **options)
    return sorted(training + held_out)


def documents_of(rows: Dataset) -> list[list[str]]:
    found: dict[int, list[str]] = {}
    for number, sentences in zip(document_numbers(rows).tolist(), rows["sentences"], strict=True):
        found.setdefault(number, []).extend(sentences)
    return list(found.values())


@pytest.fixture(scope="module")
def text_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("text") / "mine.txt")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, text_file: str) -> Path:
    """Trains a model of both tasks."""
    folder = tmp_path_factory.mktemp("run") / "mine"
    pretrain(text_file, folder, max_length=32)
    return folder


@pytest.fixture(scope="module")
def masked_run(tmp_path_factory: pytest.TempPathFactory, text_file: str) -> Path:
    """Trains a model of masked words alone, on word pieces."""
    folder = tmp_path_factory.mktemp("run") / "masked"
    pretrain(text_file, folder, nsp=False, tokenizer="wordpiece", vocab_size=60, batch_size=15)
    return folder


def as_text_files(folder: Path) -> str:
    (folder / "texts" / "more").mkdir(parents=True)
    for number, document in enumerate(DOCUMENTS):
        write(folder / "texts" / ("more" if number % 2 else "") / f"{number:02}.txt", "\n".join(document))
    return str(folder / "texts")


def as_folder_of_parquet(folder: Path) -> str:
    (folder / "set").mkdir()
    Dataset.from_dict({"sentences": DOCUMENTS}).to_parquet(folder / "set" / "train-0.parquet")
    return str(folder / "set")


def as_table(folder: Path, ending: str) -> str:
    rows = Dataset.from_dict({"text": ["\n".join(document) for document in DOCUMENTS], "number": range(40)})
    path = folder / f"mine.{ending}"
    if ending == "json":
        write(path, json.dumps(rows.to_list()))
    else:
        {"csv": rows.to_csv, "jsonl": rows.to_json, "parquet": rows.to_parquet}[ending](path)
    return str(path)


def as_sentences(folder: Path) -> str:
    return write(folder / "mine.jsonl", "".join(json.dumps({"sentences": each}) + "\n" for each in DOCUMENTS))


def as_split(folder: Path) -> str:
    Path(as_sentences(folder)).rename(folder / "train.jsonl")
    return str(folder)


MAKERS = {
    "a text file": lambda folder: write(folder / "mine.txt"),
    "a text file without an ending": lambda folder: write(folder / "mine"),
    "a folder of text files": as_text_files,
    **{ending: lambda folder, ending=ending: as_table(folder, ending) for ending in ("csv", "json", "jsonl")},
    "parquet": lambda folder: as_table(folder, "parquet"),
    "sentences": as_sentences,
    "a folder of a data set": as_folder_of_parquet,
    "a folder of train.jsonl alone": as_split,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_the_same_text_in_any_file_gives_the_same_documents(tmp_path: Path, kind: str) -> None:
    training, held_out = load(MAKERS[kind](tmp_path))
    assert len(held_out) == 2  # 5 % of 40
    assert sorted(training + held_out) == sorted(DOCUMENTS)


def test_a_data_set_of_the_hub_is_asked_for_by_its_id_and_keeps_its_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load_dataset(path: str, name: str | None) -> DatasetDict:
        asked.append((path, name))
        rows = Dataset.from_dict({"text": ["\n".join(document) for document in DOCUMENTS]})
        return DatasetDict({"train": rows, "validation": rows.select(range(3)), "unsupervised": rows})

    monkeypatch.setattr(tables, "load_dataset", load_dataset)
    assert load("me/tales", corpus_config="old") == (DOCUMENTS, DOCUMENTS[:3])
    assert asked == [("me/tales", "old")]
    monkeypatch.setattr(tables, "load_dataset", lambda path, name: {"first": 1, "second": 2})
    with pytest.raises(ValueError, match=r"me/tales .*'train'.* first, second"):
        load("me/tales")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_a_byte_order_mark_do_no_harm(tmp_path: Path, end: str, mark: bytes) -> None:
    corpus = write(tmp_path / "mine.txt", mark + TEXT.replace("\n", end).encode())
    assert load_all(corpus) == sorted(DOCUMENTS)


def test_what_pandas_takes_for_nothing_or_a_number_is_text(tmp_path: Path) -> None:
    texts = ["NA", "null", "007", 'a "quoted", text', "nan"]
    path = tmp_path / "mine.csv"
    Dataset.from_dict({"my text": texts}).to_csv(path)
    assert load_all(str(path), text_column="my text", pairs=False) == sorted([text] for text in texts)


def test_running_text_is_split_into_sentences_and_they_into_documents(tmp_path: Path) -> None:
    paragraph = "Mr. Smith went\nhome. It cost 3.14 dollars! Did he say so?\n\n"
    corpus = write(tmp_path / "book.txt", paragraph * 100)
    documents = load_all(corpus, split_sentences=True)
    assert sorted(map(len, documents)) == [300 % STRETCH] + [STRETCH] * (300 // STRETCH)
    assert {sentence for document in documents for sentence in document} == {
        "Mr. Smith went home.", "It cost 3.14 dollars!", "Did he say so?"
    }  # fmt: skip


def test_a_row_of_running_text_stays_one_document(tmp_path: Path) -> None:
    texts = [f"Number {i} came. Then it left.\n" * 30 for i in range(20)]
    path = tmp_path / "mine.csv"
    Dataset.from_dict({"text": texts}).to_csv(path)
    documents = load_all(str(path), split_sentences=True)
    assert len(documents) == 20
    assert {len(document) for document in documents} == {60}


def test_whole_documents_are_held_out_chosen_by_seed(text_file: str) -> None:
    training, held_out = load(text_file)
    assert not {sentence for each in training for sentence in each} & {line for each in held_out for line in each}
    assert load(text_file) == (training, held_out)
    assert any(load(text_file, seed=seed)[1] != held_out for seed in (1, 2))


def test_a_document_that_goes_on_in_other_rows_is_one(tmp_path: Path) -> None:
    long = [[f"Sentence {i} of {name}." for i in range(2 * PIECE + 5)] for name in "abcd"]
    corpus = write(tmp_path / "mine.txt", "\n\n".join("\n".join(sentences) for sentences in long))
    training, held_out = load(corpus)
    assert sorted(training + held_out) == sorted(long)
    assert len(held_out) == 2  # fewer would have no false next sentence
    text = load_whole(corpus)
    tokenizer = learn_tokenizer("word", text.training["sentences"], 500, 1, 64)
    dataset = PretrainDataset(text.training["sentences"], tokenizer, numbers=document_numbers(text.training))
    assert len(dataset) == 2 * 2 * (2 * PIECE + 4)


def test_the_end_of_a_single_document_is_held_out(tmp_path: Path) -> None:
    sentences = [f"Sentence number {i}." for i in range(250)]
    training, held_out = load(write(tmp_path / "mine.txt", "\n".join(sentences)), pairs=False)
    assert training == [sentences[:-12]]
    assert held_out == [sentences[-12:]]


def test_of_few_documents_the_end_of_each_is_held_out(tmp_path: Path) -> None:
    documents = [[f"Sentence {i} of {name}." for i in range(5)] for name in "abc"]
    corpus = write(tmp_path / "mine.txt", "\n\n".join("\n".join(sentences) for sentences in documents))
    assert load(corpus) == ([each[:3] for each in documents], [each[3:] for each in documents])
    assert pretrain(corpus, tmp_path / "run")["nsp_loss"] > 0


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.txt", TEXT.encode("utf-16"), {}, r"line 1 of .*a\.txt has a NUL byte: .* UTF-16"),
        ("a.txt", TEXT.encode("utf-16-le"), {}, r"line 1 of .*a\.txt has a NUL byte: .* UTF-16"),
        ("a.txt", b"fine\n\x89PNG\r\n\x1a\n\0\0", {}, r"line 2 of .*a\.txt is not in UTF-8"),
        ("a.txt", b"fine\ncaf\xe9\n", {}, r"line 2 of .*a\.txt is not in UTF-8"),
        ("a.txt", b"", {}, r"a\.txt .* nothing in it"),
        ("a.txt", b"\xef\xbb\xbf \r\n\r\n", {}, r"a\.txt .* nothing in it"),
        ("a.txt", b"One.\nTwo.\n", {}, r"too few documents .* 1 of two"),
        ("a.txt", b"One.\n\nTwo.\n\nThree.", {}, r"too few .* 0 of two .* --no-nsp"),
        ("a.txt", b"One.\n", {"nsp": False}, r"single sentence"),
        ("a.csv", b"", {}, r"a\.csv is empty"),
        ("a.csv", b"text\n", {}, r"a\.csv has no rows"),
        ("a.csv", b"title,body\na,b\n", {}, r"no column 'text', .* 'title', 'body': .* --text-column"),
        ("a.csv", b"text\nhello, world\n", {}, r"line 2 of .*a\.csv has 2 cells, its first 1"),
        ("a.csv", b"text\ncaf\xe9\n", {}, r"line 2 of .*a\.csv is not in UTF-8"),
        ("a.jsonl", b'{"text": "a"}\nno json\n', {}, r"line 2 of .*a\.jsonl is not JSON in UTF-8"),
        ("a.jsonl", b'{"text": 7}\n', {}, r"row 1 of .*a\.jsonl has 7"),
        ("a.jsonl", b'{"sentences": ["a"]}\n', {"split_sentences": True}, r"leave out --split"),
        ("a.json", b'[{"text": ', {}, r"a\.json cannot be read as json: "),
        ("a.parquet", b"PAR1", {}, r"a\.parquet cannot be read as parquet: "),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_in_a_sentence(
    tmp_path: Path, name: str, content: bytes, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        pretrain(write(tmp_path / name, content), tmp_path / "run", **options)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_texts_and_tables_is_not_read_by_half(tmp_path: Path) -> None:
    write(tmp_path / "a.txt")
    as_table(tmp_path, "csv")
    with pytest.raises(ValueError, match=r"a\.txt .*mine\.csv"):
        load(str(tmp_path))


def test_a_folder_of_tables_is_read_as_they_are_one_by_one(tmp_path: Path) -> None:
    for name, texts in (("a", "NA\n007"), ("b", "One."), ("dev", "Two.")):
        write(tmp_path / f"{name}.csv", f"text\n{texts}\n")
    assert load(str(tmp_path), pairs=False) == ([["NA"], ["007"], ["One."]], [["Two."]])
    write(tmp_path / "c.tsv", 'text\n"Three\n')
    with pytest.raises(ValueError, match=r"has tables of several kinds, such as a\.csv and c\.tsv"):
        load(str(tmp_path))


def test_blank_lines_at_the_end_of_a_table_do_no_harm(tmp_path: Path) -> None:
    assert load_all(write(tmp_path / "a.csv", "text\nOne.\nTwo.\n\n\n"), pairs=False) == [["One."], ["Two."]]


@pytest.mark.parametrize("corpus", ["missing.txt", "missing.csv", "/nowhere/at/all"])
def test_a_corpus_that_does_not_exist_is_named(tmp_path: Path, corpus: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"{corpus} does not exist"):
        pretrain(corpus, tmp_path / "run")


def test_a_run_leaves_a_folder_that_loads_and_says_what_it_learnt_from(run: Path, text_file: str) -> None:
    config, tokenizer = (each.from_pretrained(run, trust_remote_code=True) for each in (AutoConfig, AutoTokenizer))
    AutoModelForPreTraining.from_pretrained(run, trust_remote_code=True)
    assert (config.num_hidden_layers, config.hidden_size, config.num_attention_heads) == (1, 16, 2)
    assert (config.intermediate_size, config.max_position_embeddings) == (64, 32)
    assert (config.vocab_size, tokenizer.model_max_length) == (len(tokenizer), 32)
    assert config.hidden_dropout_prob == 0.1
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "- 38 training documents of `mine.txt`, " in card
    assert "- held out to measure on: 2 of 40 documents, chosen at random (seed 0), " in card
    assert "unknown to it are 0.0% of the training text and " in card
    assert "| validation: next sentence | " in card


@pytest.mark.parametrize("name", ["mine.txt", "mine.csv", "train.jsonl"])
def test_text_is_hashed_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One hash of a file serves the run's record, what was read of it before, and the tokens."""
    (tmp_path / "corpus").mkdir()
    rows = [f'"{" . ".join(sentences)}"' for sentences in DOCUMENTS]
    texts = {
        "mine.txt": TEXT,
        "mine.csv": "\n".join(["text", *rows]),
        "train.jsonl": "".join(json.dumps({"sentences": sentences}) + "\n" for sentences in DOCUMENTS),
    }
    write(tmp_path / "corpus" / name, texts[name])
    hashed: list[str] = []

    def digest(path: Path, digest: Any = source.digest) -> str:
        hashed.append(path.name)
        return digest(path)

    monkeypatch.setattr(source, "digest", digest)
    monkeypatch.setattr(tokens, "content_key", lambda *_: pytest.fail("hashed the text again"))
    pretrain(str(tmp_path / "corpus"), tmp_path / "run", nsp=False)
    assert hashed == [name]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["sources"].keys() == {name}
    evaluate.own_text(tmp_path / "run", str(tmp_path / "corpus"), pairs=False)
    assert hashed == [name, name]  # a new process, as it were


def test_tokens_of_another_text_or_another_part_are_not_taken_for_these(tmp_path: Path) -> None:
    """The hash of a file and how it is read stand for its text, so all that changes the text has to change them."""
    path = tmp_path / "mine.txt"
    write(path, TEXT)
    keys = [load_whole(path).keys, load_whole(path, seed=1).keys, load_whole(path, pairs=False).keys]
    keys += [load_whole(path, split_sentences=True).keys, load_whole(path, split_sentences=True, language="fr").keys]
    write(path, TEXT.replace("red", "odd"))
    keys.append(load_whole(path).keys)
    every = [key for some in keys for key in some.values()]
    assert len(set(every)) == len(every) == 2 * 6
    write(path, TEXT)
    assert load_whole(path).keys == keys[0]


def test_evaluation_reads_the_text_as_the_run_did(
    run: Path, masked_run: Path, text_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, tasks in ((run, {"mlm", "nsp"}), (masked_run, {"mlm"})):
        arguments = ["evaluate", str(folder), "--corpus", text_file, "--output", str(tmp_path / "results.json")]
        monkeypatch.setattr(sys, "argv", arguments)
        evaluate.main()
        results = json.loads((tmp_path / "results.json").read_text())
        assert tasks == results.keys() & {"mlm", "nsp"}
        history = json.loads((folder / "history.json").read_text())["validation"][-1]
        assert results["mlm"]["accuracy"] == pytest.approx(history["mlm_accuracy"])  # no test split: the held-out part


def test_masked_words_alone_need_no_head_for_pairs(masked_run: Path) -> None:
    config = json.loads((masked_run / "config.json").read_text())
    assert config["architectures"] == ["ToyBertForMaskedLM"]
    assert not [name for name in load_file(masked_run / "model.safetensors") if "pooler" in name or "nsp" in name]
    AutoModelForMaskedLM.from_pretrained(masked_run, trust_remote_code=True)
    history = json.loads((masked_run / "history.json").read_text())
    assert {"mlm_loss", "mlm_accuracy"} <= history["validation"][0].keys()
    assert not any("nsp" in name for name in history["validation"][0])
    card = (masked_run / "README.md").read_text(encoding="utf-8")
    assert "next sentence |" not in card
    assert "It learnt masked words alone" in card


def test_word_pieces_are_a_stock_tokenizer_that_knows_new_words(masked_run: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(masked_run, trust_remote_code=True)
    # 5.0 makes a plain tokenizer of a BertTokenizer in a ToyBERT's folder; what it does is the same
    assert type(tokenizer).__name__ in ("BertTokenizer", "BertTokenizerFast", "TokenizersBackend")
    batch = tokenizer("The tubes", "is reel.")  # of letters that the text has, at the start or inside of a word
    assert tokenizer.unk_token_id not in batch["input_ids"]
    assert set(batch["token_type_ids"]) == {0, 1}
    assert tokenizer.decode(batch["input_ids"], skip_special_tokens=True) == "the tubes is reel."
    assert len(tokenizer) <= 60


def test_single_sentences_are_rows_of_their_own_when_they_are_not_packed(tmp_path: Path) -> None:
    tokenizer = learn_tokenizer("word", [["a b c d e f g h i"]], 50, 1, 8)
    dataset = MaskedWordDataset([["a b", "c d e"], ["a b c d e f g h"]], tokenizer, packed=False, max_length=8)
    assert dataset.lengths.tolist() == [4, 5, 6, 6]  # the last sentence is split
    packed = MaskedWordDataset([["a b", "c d e"], ["a b c d e f g h"]], tokenizer, max_length=8)
    assert packed.lengths.tolist() == [7, 6, 6]
    batch = packed.__getitems__([0, 1])
    real = batch["labels"].where(batch["labels"] != -100, batch["input_ids"])
    words = [tokenizer.decode(row[row != 0]) for row in real]
    assert words == ["[CLS] a b c d e [SEP]", "[CLS] a b c d [SEP]"]
    assert batch["attention_mask"].tolist() == [[1] * 7, [1] * 6 + [0]]


@pytest.fixture(scope="module")
def word_tokenizer() -> ToyBertTokenizer:
    texts = [" ".join(f"w{i}" for i in range(100))]
    return ToyBertTokenizer().train_new_from_iterator(texts, vocab_size=105, show_progress=False)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_every_token_is_in_exactly_one_span_of_its_document(
    word_tokenizer: ToyBertTokenizer, monkeypatch: pytest.MonkeyPatch, seed: int, several: bool
) -> None:
    monkeypatch.setattr(tokens, "TEXTS", 40)  # so that documents lie across the edges of chunks
    random = np.random.default_rng(seed)
    documents = [
        [" ".join(f"w{w}" for w in random.integers(0, 100, random.integers(0, 30))) for _ in range(random.integers(9))]
        for _ in range(60)
    ]
    found = tokenise(documents, word_tokenizer)
    room = int(random.integers(1, 25))
    spans = pack(found, found.row, room, several)
    assert spans.length.min() >= 1
    assert spans.length.max() <= room
    places = np.concatenate([np.arange(a, a + n) for a, n in zip(spans.start, spans.length, strict=True)])
    expected = np.concatenate([np.arange(a, a + n) for a, n in zip(found.start, found.length, strict=True)])
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(np.repeat(spans.row, spans.length), np.repeat(found.row, found.length))
    assert spans.split == (found.length > room).sum()
    if several:
        sentences, parts = np.bincount(found.row, minlength=60), np.bincount(spans.row, minlength=60)
        assert (parts[sentences > 1] > 1).all()
    texts = [tuple(found.ids[a : a + n]) for a, n in zip(spans.start, spans.length, strict=True)]
    assert len(set(zip(spans.key.tolist(), texts, strict=True))) == len(set(spans.key)) == len(set(texts))


def test_packed_pairs_are_neighbours_or_of_two_documents(word_tokenizer: ToyBertTokenizer) -> None:
    documents = [[" ".join(f"w{10 * d + s}" for _ in range(7 * s + 3)) for s in range(6)] for d in range(8)]
    dataset = PretrainDataset(documents, word_tokenizer, packed=True, max_length=32)
    every = {d: [id for s in each for id in word_tokenizer(s, add_special_tokens=False).input_ids]
             for d, each in enumerate(documents)}  # fmt: skip
    batch = dataset.__getitems__(range(len(dataset)))
    ids = batch["labels"].where(batch["labels"] != -100, batch["input_ids"])
    for row, types, real, label in zip(
        ids, batch["token_type_ids"], batch["attention_mask"], batch["next_sentence_label"], strict=True
    ):
        a, b = row[(types == 0) & (real == 1)][1:-1].tolist(), row[types == 1][:-1].tolist()
        (of_a,), (of_b,) = ([d for d, ids in every.items() if part[0] in ids] for part in (a, b))
        assert (of_a == of_b) == bool(label)
        if label:
            text = every[of_a]
            assert any(text[i : i + len(a) + len(b)] == a + b for i in range(len(text)))


def test_packed_spans_are_as_full_as_they_can_be(word_tokenizer: ToyBertTokenizer) -> None:
    found = tokenise([["w1 w2 w3", "w4 w5", "w6 w7 w8 w9", "w1"], ["w2"]], word_tokenizer)
    assert pack(found, found.row, 5).length.tolist() == [5, 5, 1]
    assert pack(found, found.row, 99).length.tolist() == [10, 1]
    assert pack(found, found.row, 99, several=True).length.tolist() == [5, 5, 1]


def test_pairs_of_packed_text_are_never_cut(word_tokenizer: ToyBertTokenizer) -> None:
    documents = [[" ".join(["w1"] * 50), " ".join([f"w{i}"] * 90), "w3"] for i in range(5, 9)]
    dataset = PretrainDataset(documents, word_tokenizer, packed=True, max_length=64)
    assert (dataset.cut, dataset.alone) == (0, 0)
    assert dataset.__getitems__(range(len(dataset)))["input_ids"].shape[1] <= 64
    assert dataset.spans.split == 8
    assert PretrainDataset(documents, word_tokenizer).cut == 8
    alone = PretrainDataset([*documents, ["w9"]], word_tokenizer, packed=True)
    assert alone.alone == 1


@pytest.mark.slow
def test_a_line_of_10_megabytes_is_used_to_its_last_word(tmp_path: Path) -> None:
    corpus = write(tmp_path / "mine.txt", "word " * 2_000_000 + "\nAnd a second.\n")
    text = load_whole(corpus, pairs=False)
    tokenizer = learn_tokenizer("word", text.training["sentences"], 20, 1, 64)
    dataset = MaskedWordDataset(text.training["sentences"], tokenizer)
    assert dataset.spans.length.sum() == 2_000_000
    assert dataset.lengths.max() <= 64


def test_ten_thousand_documents_of_one_word_can_be_learnt(tmp_path: Path) -> None:
    corpus = write(tmp_path / "mine.txt", "\n\n".join(f"w{i % 50}" for i in range(10_000)))
    figures = pretrain(corpus, tmp_path / "run", nsp=False, batch_size=1000, num_hidden_layers=1)
    assert figures["step"] == 10  # of 9,500 documents
    with pytest.raises(ValueError, match=r"too few documents .* 0 of two"):
        pretrain(corpus, tmp_path / "pairs")


def test_a_checkpoint_goes_on_with_its_own_words_on_new_text(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write(tmp_path / "new.txt", TEXT.replace("number", "platypus"))
    frozen = {"learning_rate": 1e-12, "muon_learning_rate": 0.0, "weight_decay": 0.0}
    options = PretrainOptions(corpus=corpus, output_dir=str(tmp_path / "on"), init_from=str(run), epochs=1, **frozen)
    train_pretraining(options)
    assert "unknown to it are 14.3% of the training text" in capsys.readouterr().out  # a sentence has 7 words
    assert (tmp_path / "on" / "tokenizer.json").read_bytes() == (run / "tokenizer.json").read_bytes()
    before, after = (load_file(folder / "model.safetensors") for folder in (run, tmp_path / "on"))
    assert all(np.allclose(before[name], after[name], atol=1e-6) for name in before)
    assert f"init-from {run.name}" in (tmp_path / "on" / "README.md").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"max_length .* init_from"):
        PretrainOptions(output_dir="x", init_from=str(run), max_length=16)


def test_a_checkpoint_of_masked_words_gets_a_new_head_for_pairs(
    masked_run: Path, text_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = PretrainOptions(corpus=text_file, output_dir=str(tmp_path / "on"), init_from=str(masked_run), epochs=1)
    assert "nsp_accuracy" in train_pretraining(options)
    assert f"goes on from {masked_run.name}, with a new head for next sentences" in capsys.readouterr().out
    assert "nsp_head.weight" in load_file(tmp_path / "on" / "model.safetensors")


def test_a_classifier_that_goes_on_as_a_pretrained_model_leaves_its_classes_behind(
    text_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = make_checkpoint(tmp_path / "classifier", problem_type="multi_label_classification")
    model = load_model(AutoModelForSequenceClassification, start, id2label={0: "a", 1: "b", 2: "c"})
    save_hub_folder(model, load_tokenizer(start), start)
    options = PretrainOptions(corpus=text_file, output_dir=str(tmp_path / "on"), init_from=str(start), epochs=1)
    train_pretraining(options)
    assert "with a new head for masked words and next sentences" in capsys.readouterr().out
    config = load_config(tmp_path / "on")
    assert config.id2label == load_config(ROOT).id2label
    assert config.problem_type is None


def test_a_resume_on_changed_text_or_with_other_options_is_refused(tmp_path: Path) -> None:
    corpus = write(tmp_path / "mine.txt")
    pretrain(corpus, tmp_path / "run")
    with pytest.raises(ValueError, match="split_sentences=False"):
        pretrain(corpus, tmp_path / "run", resume=True, split_sentences=True)
    write(tmp_path / "mine.txt", TEXT + "\nOne more.\n")
    with pytest.raises(ValueError, match=r"mine\.txt is no longer .* run in "):
        pretrain(corpus, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 30, "num_attention_heads": 4}, "hidden_size 30 .* num_attention_heads 4"),
        ({"tokenizer": "letters"}, "tokenizer .* word or wordpiece, got 'letters'"),
        ({"max_length": 4}, "max_length .* 8"),
        ({"min_frequency": 0}, "min_frequency .* 1"),
    ],
)
def test_sizes_that_no_model_can_have_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PretrainOptions(output_dir="x", **changes)


def test_bert_base_is_a_matter_of_options() -> None:
    text = (ROOT / "docs" / "train.md").read_text(encoding="utf-8")
    (base,) = re.findall(r'`(\{"num_hidden_layers".*?\})`', text)
    options = PretrainOptions(output_dir="x", **json.loads(base))
    with torch.device("meta"):
        model, _ = make_model(options, options.vocab_size)
    assert sum(each.numel() for each in model.bert.parameters()) == 109_482_240  # as bert-base-uncased has


def test_rare_words_are_unknown_where_it_is_asked(text_file: str) -> None:
    rows = load_whole(text_file).training["sentences"]
    words = {word for word in learn_tokenizer("word", rows, 500, 20, 64).get_vocab() if word[0] != "["}
    assert words == {"the", "number", "is", ".", "red", "old", "here", "a", "b"}


def test_a_vocabulary_smaller_than_the_alphabet_is_refused(text_file: str) -> None:
    rows = load_whole(text_file).training["sentences"]
    with pytest.raises(ValueError, match=r"vocab_size 10 is too small: .* [0-9]"):
        learn_tokenizer("wordpiece", rows, 10, 1, 64)


def test_the_same_text_gives_the_same_word_pieces() -> None:
    """Many pairs of pieces are equally common here: which is joined first must not be left to chance."""
    rng = random.Random(0)
    words = ["".join(rng.choice("abcdefghij") for _ in range(rng.randint(2, 7))) for _ in range(300)]
    first, *others = (learn_tokenizer("wordpiece", [words], 200, 1, 64).get_vocab() for _ in range(4))
    assert others == [first] * 3
    assert sorted(first, key=first.__getitem__)[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("options.json", '{"hidden-size": 32, "nsp": false, "learning_rate": 1e-3, "output_dir": "x"}'),
     ("options.yaml", "hidden_size: 32\nnsp: no\nlearning-rate: 1e-3\noutput_dir: x\n")],
)  # fmt: skip
def test_options_can_come_from_a_file_and_those_beside_it_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    file = write(tmp_path / name, text)
    monkeypatch.setattr(sys, "argv", ["pretrain", "--config", file, "--hidden-size", "64"])
    options = cli.parse(PretrainOptions, None)
    assert options == PretrainOptions(output_dir="x", hidden_size=64, nsp=False, learning_rate=1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"size": 3}', "sets size, and there is no such option"), ("[1]", "holds no options by name"),
     ('{"epochs": 1.5}', "invalid int value: '1.5'"), ("{", "could not be read")],
)  # fmt: skip
def test_a_file_of_other_things_is_a_mistake_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["pretrain", "--output-dir", "x", "--config", write(tmp_path / "a.json", text)])
    with pytest.raises(SystemExit) as caught:
        cli.parse(PretrainOptions, None)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["word", "wordpiece"])
def test_a_resume_has_the_tokens_that_the_run_began_with(tmp_path: Path, text_file: str, kind: str) -> None:
    pretrain(text_file, tmp_path / "run", tokenizer=kind, vocab_size=80)
    begun = (tmp_path / "run" / "tokenizer.json").read_bytes()
    pretrain(text_file, tmp_path / "run", tokenizer=kind, vocab_size=80, resume=True)
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == begun
    # And a new run does not use what another left before that one could record its options.
    (tmp_path / "run" / "run.vocabulary").rename(tmp_path / "left")
    (tmp_path / "new").mkdir()
    (tmp_path / "left").rename(tmp_path / "new" / "run.vocabulary")
    other = write(tmp_path / "other.txt", "\n\n".join(["quite other words\nstand in here\nall of them new"] * 8))
    pretrain(other, tmp_path / "new", tokenizer=kind, nsp=False)
    assert "quite" in json.loads((tmp_path / "new" / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]


def test_quotes_are_text_in_a_tsv_and_an_index_may_have_no_name(tmp_path: Path) -> None:
    rows = [f'"she said {number}\t{number}' if number == 3 else f"it was {number}\t{number}" for number in range(20)]
    stray = write(tmp_path / "stray.TSV", "text\tnumber\n" + "\n".join(rows) + "\n")
    assert load_all(stray, pairs=False) == sorted([row.split("\t")[0]] for row in rows)
    index = write(tmp_path / "index.csv", ",text\n" + "".join(f"{number},NA {number}\n" for number in range(20)))
    assert load_all(index, pairs=False) == sorted([f"NA {number}"] for number in range(20))


def test_a_stray_quote_in_a_csv_is_named_before_it_swallows_rows(tmp_path: Path) -> None:
    lines = [('"' if number in (3, 9) else "") + f"it was {number},{number}" for number in range(20)]
    corpus = write(tmp_path / "mine.csv", "text,number\n" + "\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"line \d+ of .*mine\.csv "):
        load_all(corpus, pairs=False)


def test_what_was_learnt_from_is_not_measured_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"the {animal} {i} ran\nit ran to the {animal} house {i}" for i in range(60) for animal in "ab"]
    corpus = write(tmp_path / "mine.txt", "\n\n".join(lines))
    pretrain(corpus, tmp_path / "run")
    write(tmp_path / "mine.txt", "\n\n".join([*lines, "a new one\nand its end"]))
    with pytest.raises(ValueError, match=r"mine\.txt is no longer"):
        evaluate.own_text(tmp_path / "run", corpus, pairs=True)
    pretrain(corpus, tmp_path / "streamed", streaming=True, max_steps=2)
    text, _ = evaluate.own_text(tmp_path / "streamed", corpus, pairs=True)
    rows = [{"sentences": document} for document in documents_of(text["test"])]
    assert rows
    assert all(is_held_out(row, source_of(corpus)) for row in rows)


@pytest.mark.parametrize("names", ["{}.txt", "{}/part 1.TXT"])
def test_texts_that_are_called_by_their_splits_are_these(tmp_path: Path, names: str) -> None:
    parts = {"train": DOCUMENTS[:20], "dev": DOCUMENTS[20:25], "test": DOCUMENTS[25:]}
    for split, some in parts.items():
        path = tmp_path / names.format(split)
        path.parent.mkdir(exist_ok=True)
        write(path, "\n\n".join("\n".join(document) for document in some))
    text = load_whole(tmp_path)
    assert text.test is not None
    assert [documents_of(part) for part in (text.training, text.validation, text.test)] == [*parts.values()]
    write(tmp_path / "more.txt")
    with pytest.raises(ValueError, match=r"more\.txt .* split"):
        load(str(tmp_path))


def test_texts_are_all_to_train_on_where_none_is_called_train(tmp_path: Path) -> None:
    for place, name in enumerate(("test.txt", "b.TXT", "sub/training day.txt")):
        (tmp_path / "sub").mkdir(exist_ok=True)
        some = DOCUMENTS[place * 10 : place * 10 + 10]
        write(tmp_path / name, "\n\n".join("\n".join(document) for document in some))
    assert load_all(str(tmp_path)) == sorted(DOCUMENTS[:30])


@pytest.mark.parametrize(
    ("files", "unread"),
    [
        (["a.txt", "c.text", "notes/d.md"], "c.text, notes/d.md"),
        (["train.jsonl", "test.jsonl", "dev.jsonl", "train-2.jsonl"], "dev.jsonl, train-2.jsonl"),
        (["train.csv", "more/train2.csv"], "more/train2.csv"),
        (["train.csv", "README.md", ".hidden"], ""),
        (["a.txt", *(f"{i}.log" for i in range(7))], "0.log, 1.log, 2.log, 3.log, 4.log and 2 more"),
    ],
)
def test_files_of_a_folder_that_are_not_read_are_named(
    files: list[str], unread: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in files:
        path = tmp_path / "corpus" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        rows = [{"text": "\n".join(document)} for document in DOCUMENTS]
        if path.suffix == ".jsonl":
            Dataset.from_list([{"sentences": document} for document in DOCUMENTS]).to_json(path)
        elif path.suffix == ".csv":
            Dataset.from_list(rows).to_csv(path)
        else:
            write(path)
    pretrain(str(tmp_path / "corpus"), tmp_path / "run")
    said = [line for line in capsys.readouterr().out.splitlines() if "not read" in line]
    assert said == ([f"not read of this folder: {unread}"] if unread else [])
    card = (tmp_path / "run" / "README.md").read_text(encoding="utf-8").replace("`", "")  # names are code there
    assert unread in card or not unread


def test_of_a_large_text_one_sees_how_far_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small, large = (write(tmp_path / name, f"{TEXT}\n\nof {name}\nalone") for name in ("small.txt", "large.txt"))
    datasets.disable_progress_bars()
    try:
        load(small)
        assert capsys.readouterr().err == ""
        monkeypatch.setattr(documents, "LARGE", 1)
        load(large)
        assert f"{len(DOCUMENTS) + 1} examples" in capsys.readouterr().err
    finally:
        datasets.enable_progress_bars()


def test_what_begins_with_a_dot_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "tales"
    for name in ("a.txt", ".ipynb_checkpoints/a-checkpoint.txt", "more/b.txt", "more/.git/c.txt", "._a.txt", ".csv"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"\0" if name.startswith("._") else b"One cat. \nTwo dogs.\n")
    source = find_source(TextOptions(corpus=str(folder)))
    assert [str(file.relative_to(folder)) for file in source.files["train"]] == ["a.txt", "more/b.txt"]
    assert source.unread == []
    assert source.twins == [("b.txt", "a.txt")]
    for path in (folder / "a.txt", folder / "more" / "b.txt"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match="is empty"):
        find_source(TextOptions(corpus=str(folder)))


def test_tables_that_begin_with_a_dot_are_not_read(tmp_path: Path) -> None:
    for name in ("train.csv", "._train.csv", "._test.csv"):
        (tmp_path / name).write_bytes(b"\0" if name.startswith(".") else b"text,label\na,b\n")
    assert find_tables(str(tmp_path), None, {}).files == {"train": [tmp_path / "train.csv"]}


def test_documents_of_blank_sentences_are_never_held_out(tmp_path: Path) -> None:
    blank, real = {"sentences": [" ", "\t", "\u3000"]}, {"sentences": ["the cat sat .", "it was old ."]}
    rows = [blank] * 40 + [{"sentences": [f"{text} {i}" for text in real["sentences"]]} for i in range(6)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for seed in range(5):
        text = load_text(find_source(TextOptions(corpus=str(file))), seed=seed, pairs=True)
        assert all(sentence.strip() for sentences in text.validation["sentences"] for sentence in sentences)
        assert len(text.validation) == 2


def test_a_row_nested_without_end_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"sentences": ["a"]}\n{"sentences": ' + "[" * 10**5 + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"line 2 of .*rows\.jsonl is not JSON"):
        load_text(find_source(TextOptions(corpus=str(file))), seed=0, pairs=True)


@pytest.mark.parametrize("name", ["learning_rate", "muon_learning_rate", "weight_decay", "dropout", "mlm_probability"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_options_that_are_no_numbers_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a finite number"):
        PretrainOptions(output_dir="x", **{name: value})


@pytest.mark.parametrize(
    "name",
    ["vocab_size", "max_length", "batch_size", "epochs", "hidden_size", "num_hidden_layers", "seed", "max_steps"],
)
def test_options_of_an_absurd_size_are_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        PretrainOptions(output_dir="x", **{name: 10**23})


def test_a_vocabulary_without_a_word_is_refused_before_anything_is_learnt(text_file: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no word of the text occurs 100,000 times"):
        train_pretraining(PretrainOptions(output_dir=str(tmp_path / "run"), corpus=text_file, min_frequency=10**5))
    assert not (tmp_path / "run" / "run.json").exists()


def test_word_pieces_keep_the_marks_that_they_are_told_to_keep() -> None:
    texts = [["\u304b\u304e \u304c\u304d", "\u0915\u093f \u0915\u0940 \u0915", "caf\u00e9 cafe"]] * 3
    for strip, different in ((None, False), (True, False), (False, True)):
        tokenizer = learn_tokenizer("wordpiece", texts, 100, 1, 64, strip_accents=strip)
        for one, other in (("\u304b", "\u304c"), ("caf\u00e9", "cafe")):
            assert (tokenizer(one)["input_ids"] != tokenizer(other)["input_ids"]) == different
        assert tokenizer.unk_token_id not in tokenizer(" ".join(texts[0]))["input_ids"]
        assert accents_taken(texts, True, strip) == (0 if different else 5)
    assert accents_taken([["\ud55c\uad6d \u4e2d\u56fd \u20ac 5"]], True, None) == 0  # nothing to take off


@pytest.mark.parametrize("kind", ["word", "wordpiece"])
def test_capitals_are_kept_if_that_is_asked_for(kind: str, tmp_path: Path) -> None:
    for lower in (True, False):
        tokenizer = learn_tokenizer(kind, [["The cat saw The Cat ."]] * 3, 60, 1, 64, lower_case=lower)
        save_learnt(tokenizer, tmp_path / kind)
        for each in (tokenizer, load_learnt(kind, tmp_path / kind)):
            assert (each("The Cat")["input_ids"] == each("the cat")["input_ids"]) == lower


def test_the_letters_of_a_chinese_text_are_known() -> None:
    letters = [chr(0x4E00 + number) for number in range(3000)]
    tokenizer = learn_tokenizer("wordpiece", [["".join(letters[i : i + 30]) for i in range(0, 3000, 30)]], 8000, 1, 64)
    assert tokenizer.unk_token_id not in tokenizer("".join(letters))["input_ids"]


def test_words_have_no_accents_to_take_off(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="strip_accents goes with the tokenizer wordpiece"):
        PretrainOptions(output_dir="x", strip_accents=True)
