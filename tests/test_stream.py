"""Claims about text that is streamed: each process reads its part, nothing stays on the disk, a resume is exact."""

import json
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import toybert.train.loop as loop
import toybert.train.stream as stream
from toybert.train.pretrain import PretrainOptions, train_pretraining
from toybert.train.stream import StreamedBatches, is_held_out, open_stream

OPTIONS: dict[str, Any] = {"streaming": True, "epochs": 2, "max_steps": 16, "dropout": 0.1, "batch_size": 8}


def story(number: int) -> list[str]:
    who = f"the {'abcdefghij'[number % 10]} of the {'klmnopqrs'[number // 10]}"
    return [f"{who} is {word}." for word in ("red", "old", "here", "big")]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same 90 documents as a table in three files, and as text."""
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
    """A dataset of a window of documents, one row each."""

    group = 1

    def __init__(self, documents: list[dict[str, Any]]):
        self.documents, self.lengths = documents, np.full(len(documents), 5)
        self.tokens = SimpleNamespace(path=SimpleNamespace(unlink=lambda: None))

    def set_epoch(self, epoch: int) -> None:
        pass

    def __getitems__(self, rows: list[int]) -> list[str]:
        return [self.documents[row]["sentences"][0] for row in rows]


def read(corpus: Path, process: int, processes: int, state: Any = None) -> StreamedBatches:
    options = PretrainOptions(output_dir="x", corpus=str(corpus))
    accelerator: Any = SimpleNamespace(
        process_index=process, num_processes=processes, gradient_accumulation_steps=1, device=torch.device("cpu")
    )
    batches = StreamedBatches(open_stream(options), Window, 4, 1000, accelerator, seed=0)
    if state:
        batches.load_state_dict({"places": [state] * processes})
    return batches


@pytest.mark.parametrize("processes", [1, 2, 3])  # three files: parts of one in two cases, whole ones in the other
def test_a_pass_gives_every_document_to_one_process_once(corpora: dict[str, Path], processes: int) -> None:
    seen = []
    for process in range(processes):
        batches = read(corpora["table"], process, processes)
        batches.stream.set_epoch(1)
        part = [row for row in batches.stream if not is_held_out(row)]
        windows = [row for window in islice(batches._windows(), 6) for row in window]
        assert windows[: len(part)] == part
        seen += [row["sentences"][0] for row in part]
    learnt = [story(number) for number in range(90) if not is_held_out({"sentences": story(number)})]
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
    assert len(list((tmp_path / "cache").rglob("*.arrow"))) == 2  # of the beginning: learnt from, and held out


def test_what_can_not_be_streamed_is_refused(corpora: dict[str, Path], tmp_path: Path) -> None:
    for changes, message in (
        ({"max_steps": 0}, r"streaming needs max_steps, a multiple of epochs \(2\)"),
        ({"max_steps": 15}, "got 15"),
        ({"streaming": False}, "and only it"),
    ):
        with pytest.raises(ValueError, match=message):
            PretrainOptions(output_dir="x", **{**OPTIONS, **changes})
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_stream(PretrainOptions(output_dir="x", corpus=str(tmp_path / "none.jsonl"), **OPTIONS))
    (tmp_path / "small.txt").write_text("a b\nc d\n\ne f\ng h\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has 2 documents: too few to stream"):
        train_pretraining(
            PretrainOptions(output_dir=str(tmp_path / "run"), corpus=str(tmp_path / "small.txt"), **OPTIONS)
        )
