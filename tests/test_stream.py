"""Claims about text that is streamed: each process reads its part, nothing stays on the disk, a resume is exact."""

import json
import re
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import toybert.train.data.stream as stream
import toybert.train.loop.loop as loop
from toybert.train.data.source import Source, TextOptions, find_source
from toybert.train.data.stream import StreamedBatches, as_rows, is_held_out, load_head, open_stream
from toybert.train.pretrain import PretrainOptions, train_pretraining

OPTIONS: dict[str, Any] = {"streaming": True, "epochs": 2, "max_steps": 16, "dropout": 0.1, "batch_size": 8}


def story(number: int) -> list[str]:
    who = f"the {'abcdefghij'[number % 10]} of the {'klmnopqrs'[number // 10]}"
    return [f"{who} is {word}." for word in ("red", "old", "here", "big")]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Writes the same 90 documents as a table in three files, and as text."""
    folder = tmp_path_factory.mktemp("corpora")
    (folder / "table").mkdir()
    for part in range(3):
        lines = [json.dumps({"sentences": story(number)}) for number in range(30 * part, 30 * part + 30)]
        (folder / "table" / f"train-{part}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "text.txt").write_text("\n\n".join("\n".join(story(number)) for number in range(90)), encoding="utf-8")
    return {"table": folder / "table", "text": folder / "text.txt"}


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WINDOW", 20)


class Window:
    """Holds a window of documents, one row each."""

    group = 1

    def __init__(self, documents: list[dict[str, Any]]):
        self.documents, self.lengths = documents, np.full(len(documents), 5)

    def set_epoch(self, epoch: int) -> None:
        pass

    def __getitems__(self, rows: list[int]) -> list[str]:
        return [self.documents[row]["sentences"][0] for row in rows]


def source_of(corpus: Path, **options: Any) -> Source:
    return find_source(TextOptions(corpus=str(corpus), **options))


def is_test(row: dict[str, Any]) -> bool:
    return is_held_out(row, Source("x", "a table", {}))


def read(corpus: Path, process: int, processes: int, state: Any = None) -> StreamedBatches:
    accelerator: Any = SimpleNamespace(
        process_index=process, num_processes=processes, gradient_accumulation_steps=1, device=torch.device("cpu")
    )
    batches = StreamedBatches(source_of(corpus), Window, 4, 1000, accelerator, seed=0)
    if state:
        batches.load_state_dict({"places": [state] * processes})
    return batches


@pytest.mark.parametrize("kind", ["table", "text"])
@pytest.mark.parametrize("processes", [1, 2, 3])  # three files: parts of one in two cases, whole ones in the other
def test_a_pass_gives_every_document_to_one_process_once(corpora: dict[str, Path], processes: int, kind: str) -> None:
    seen = []
    for process in range(processes):
        batches = read(corpora[kind], process, processes)
        batches.stream.set_epoch(1)
        part = [row for row in batches.stream if not is_test(row)]
        windows = [row for window in islice(batches._windows(), 6) for row in window]
        assert windows[: len(part)] == part
        seen += [row["sentences"][0] for row in part]
    learnt = [story(number) for number in range(90) if not is_test({"sentences": story(number)})]
    assert sorted(seen) == sorted(sentences[0] for sentences in learnt)
    assert 0 < len(learnt) < 90


def test_a_resumed_stream_goes_on_where_it_was_from_the_window_and_not_from_the_beginning(
    corpora: dict[str, Path],
) -> None:
    whole = list(islice(read(corpora["table"], 0, 1).of_epoch(0, 0), 60))
    for stop in (0, 1, 5, 6, 20, 23, 41):
        batches = read(corpora["table"], 0, 1)
        assert list(islice(batches.of_epoch(0, 0), stop)) == whole[:stop]
        place = batches.state_dict()["places"][0]
        again = read(corpora["table"], 0, 1, json.loads(json.dumps(place)))
        assert list(islice(again.of_epoch(0, 0), 60 - stop)) == whole[stop:]


@pytest.mark.parametrize("kind", ["table", "text"])
def test_a_streamed_run_resumes_exactly_and_leaves_no_text_on_the_disk(
    corpora: dict[str, Path], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    options = {**OPTIONS, "corpus": str(corpora[kind]), "checkpoint_every": 3}
    figures = train_pretraining(PretrainOptions(output_dir=str(tmp_path / "whole"), **options))
    assert figures["step"] == 16

    def stop(*arguments: Any) -> None:
        save(*arguments)
        if arguments[2] == 9:
            raise KeyboardInterrupt

    save = loop.save_checkpoint
    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_checkpoint", stop)
        with pytest.raises(KeyboardInterrupt):
            train_pretraining(PretrainOptions(output_dir=str(tmp_path / "resumed"), **options))
    train_pretraining(PretrainOptions(output_dir=str(tmp_path / "resumed"), resume=True, **options))
    histories = [json.loads((tmp_path / name / "history.json").read_text()) for name in ("whole", "resumed")]
    assert histories[0]["train"] == histories[1]["train"]
    assert histories[0]["validation"] == histories[1]["validation"]
    weights, others = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "resumed"))
    assert all(torch.equal(weights[name], others[name]) for name in weights)
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 2  # of the beginning: learnt from, and held out


def test_a_copy_of_a_document_is_held_out_with_it_whatever_stands_beside_it() -> None:
    source = Source("x", "a table", {}, text_column="said")
    for number in range(40):
        rows = [{"id": copy, "said": f"text {number}"} for copy in range(3)]
        assert len({is_held_out(row, source) for row in rows}) == 1
    assert {is_held_out({"id": 0, "said": f"text {number}"}, source) for number in range(99)} == {True, False}


def test_a_streamed_text_is_divided_as_one_that_is_there(tmp_path: Path) -> None:
    """A line of spaces is blank, a byte order mark is no letter, and 007 is text."""
    text = "\n \n".join("\n".join(story(number)) for number in range(90))
    (tmp_path / "mine.txt").write_text(f"\ufeff{text}", encoding="utf-8")
    lines = [f'{number},"{". ".join(story(number))}"' for number in range(90)]
    (tmp_path / "mine.csv").write_text("\ufeffid,text\n" + "\n".join([*lines, "90,007", "91,NA"]), encoding="utf-8")
    source = source_of(tmp_path / "mine.txt")
    rows = as_rows(list(open_stream(source)), source)
    assert rows["sentences"][:] == [story(number) for number in range(90)]
    source = source_of(tmp_path / "mine.csv")
    rows = as_rows(list(open_stream(source)), source)
    assert rows["sentences"][:] == [[". ".join(story(number))] for number in range(90)] + [["007"], ["NA"]]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": "id,text\n1,a,x\n2,b,y\n"}, r"line 2 of .*a\.csv has 3 cells, its first 2"),
        ({"a.csv": "id,text\n1,a\n", "b.csv": "text\na\n"}, r"b\.csv .*a\.csv, .* id, text"),
        ({"a.csv": "text\na\n", "b.jsonl": '{"text": "a"}\n'}, r"a\.csv and b\.jsonl"),
    ],
)
def test_tables_that_a_stream_would_misread_are_refused(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        list(open_stream(source_of(tmp_path)))


def test_a_stream_leaves_the_tables_of_other_splits_out(tmp_path: Path) -> None:
    for name in ("data", "test", "validation-0"):
        (tmp_path / f"{name}.csv").write_text(f"text\nfrom {name}\n", encoding="utf-8")
    assert list(open_stream(source_of(tmp_path))) == [{"text": "from data"}]
    (tmp_path / "testimonials.CSV").write_text("text\nfrom testimonials\n", encoding="utf-8")
    assert len(list(open_stream(source_of(tmp_path)))) == 2
    assert list(open_stream(source_of(tmp_path / "test.csv"))) == [{"text": "from test"}]


def test_what_can_not_be_streamed_is_refused(corpora: dict[str, Path], tmp_path: Path) -> None:
    for changes, message in (
        ({"max_steps": 0}, r"--max-steps .*--streaming, .*--epochs \(2\): got 0"),
        ({"max_steps": 15}, "got 15"),
        ({"streaming": False}, "--max-steps .*--streaming"),
    ):
        with pytest.raises(ValueError, match=message):
            PretrainOptions(output_dir="x", **{**OPTIONS, **changes})
    with pytest.raises(FileNotFoundError, match="does not exist"):
        source_of(tmp_path / "none.jsonl")
    (tmp_path / "small.txt").write_text("a b\nc d\n\ne f\ng h\n", encoding="utf-8")
    with pytest.raises(ValueError, match="2 documents"):
        train_pretraining(
            PretrainOptions(output_dir=str(tmp_path / "run"), corpus=str(tmp_path / "small.txt"), **OPTIONS)
        )


def late(folder: Path, row: str) -> Path:
    """Writes a table in which one row has no text; it comes after the rows that are looked at beforehand."""
    lines = [json.dumps({"sentences": story(number)}) for number in range(90)]
    (folder / "mine.jsonl").write_text("\n".join([*lines[:70], row, *lines[70:]]), encoding="utf-8")
    return folder / "mine.jsonl"


@pytest.mark.parametrize("row", ['{"sentences": null}', '{"sentences": 5}', '{"id": 5}'])
def test_late_rows_without_text_are_passed_over_and_counted(
    row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stream, "HEAD", 60)
    options = {**OPTIONS, "corpus": str(late(tmp_path, row)), "epochs": 1, "max_steps": 40}
    train_pretraining(PretrainOptions(output_dir=str(tmp_path / "run"), **options))
    said = capsys.readouterr().out
    (count,) = re.findall(r"^(\d+) rows without text passed over", said, re.MULTILINE)
    assert int(count) >= 1
    assert f"{count} rows without text passed over" in (tmp_path / "run" / "README.md").read_text(encoding="utf-8")
    batches = read(Path(options["corpus"]), 0, 1)
    whole = list(islice(batches.of_epoch(0, 0), 60))
    place = json.loads(json.dumps(batches.state_dict()["places"][0]))
    again = read(Path(options["corpus"]), 0, 1, place)
    assert list(islice(again.of_epoch(0, 0), 5)) == list(islice(batches.of_epoch(0, 0), 5))
    assert again.without_text == batches.without_text > 0
    assert len(whole) == 60


def test_a_late_row_that_can_not_be_read_ends_the_run_with_the_name_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEAD", 60)
    options = {**OPTIONS, "corpus": str(late(tmp_path, '{"sentences": ["a"]')), "epochs": 1, "max_steps": 40}
    with pytest.raises(ValueError, match=r"mine\.jsonl could not be read: "):
        train_pretraining(PretrainOptions(output_dir=str(tmp_path / "run"), **options))


def test_a_streamed_text_that_is_no_utf8_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("a b\nc d\n", encoding="utf-8")
    (tmp_path / "2.txt").write_bytes("a\nb \xe9\n".encode("latin-1"))
    options = {**OPTIONS, "corpus": str(tmp_path)}
    with pytest.raises(ValueError, match=r"^line 2 of .*2\.txt is not in UTF-8"):
        train_pretraining(PretrainOptions(output_dir=str(tmp_path / "run"), **options))


def test_the_first_row_without_text_and_a_column_that_is_missing_are_named(tmp_path: Path) -> None:
    corpus = late(tmp_path, '{"sentences": null}')
    options = {**OPTIONS, "corpus": str(corpus)}
    with pytest.raises(ValueError, match=r"row 71 of .*mine\.jsonl has None"):
        train_pretraining(PretrainOptions(output_dir=str(tmp_path / "run"), **options))
    with pytest.raises(ValueError, match=r"mine\.jsonl .*'body', .* 'sentences'"):
        train_pretraining(PretrainOptions(output_dir=str(tmp_path / "run"), text_column="body", **options))


def test_running_text_is_streamed_in_the_documents_that_it_has_unstreamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n \n".join("He ran. She came.\nThey sang." for _ in range(40))
    (tmp_path / "book.txt").write_text(text, encoding="utf-8")
    source = source_of(tmp_path / "book.txt", split_sentences=True)
    rows = as_rows(list(open_stream(source)), source)
    assert [len(sentences) for sentences in rows["sentences"]] == [32, 32, 32, 24]
    monkeypatch.setattr("toybert.train.data.sentences.LONGEST", 20)
    assert [len(row["sentences"]) for row in open_stream(source)] == [20, 12, 20, 12, 20, 12, 20, 4]


def test_blank_documents_of_a_stream_are_passed_over(tmp_path: Path) -> None:
    rows = [{"sentences": [" ", ""]}] * 50 + [{"sentences": [f"a cat {i} .", "it sat ."]} for i in range(100)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = load_head(find_source(TextOptions(corpus=str(file))))
    every = [sentence for part in (text.training, text.validation) for row in part["sentences"] for sentence in row]
    assert len(every) == 200
    assert all(sentence.strip() for sentence in every)
