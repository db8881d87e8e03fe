"""Claims about what is kept between runs: damage is noticed and made good, and nothing is left half-written."""

import errno
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest

from toybert.tokenization_toybert import ToyBertTokenizer
from toybert.train.data import kept, tokens
from toybert.train.data.kept import is_whole
from toybert.train.data.source import TextOptions, find_source
from toybert.train.data.text import load_text
from toybert.train.data.tokens import tokenise_text

SENTENCES = [[f"w{i % 7} w{i % 11} w{n} ." for n in range(4)] for i in range(40)]
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": lambda whole: (
        whole[: len(whole) // 2] + bytes([whole[len(whole) // 2] ^ 1]) + whole[len(whole) // 2 + 1 :]
    ),
    "a half of zeros": lambda whole: whole[: len(whole) // 2].ljust(len(whole), b"\0"),
    "a cut in the middle": lambda whole: whole[: len(whole) // 2],
    "a cut at a record's end": lambda whole: whole[:-32],
    "nothing": lambda whole: b"",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes an empty cache."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "cache" / "toybert"


def write(folder: Path, kind: str) -> str:
    """Writes a corpus; returns its path."""
    folder.mkdir(exist_ok=True)
    texts = ["\n".join(sentences) for sentences in SENTENCES]
    lines = {
        "txt": "\n\n".join(texts),
        "csv": "text\n" + "".join(f'"{text}"\n' for text in texts),
        "jsonl": "".join(json.dumps({"text": text}) + "\n" for text in texts),
        "book.txt": "\n".join(texts),  # one document
    }
    (folder / f"corpus.{kind}").write_text(lines[kind], encoding="utf-8")
    return str(folder / f"corpus.{kind}")


def learn(corpus: str) -> list[Any]:
    """Returns all that a run learns from a corpus: its sentences, and their tokens."""
    text = load_text(find_source(TextOptions(corpus=corpus)), seed=0, pairs=False)
    words = [" ".join(f"w{i}" for i in range(11)) + " ."]
    tokenizer = ToyBertTokenizer().train_new_from_iterator(words, vocab_size=30, show_progress=False)
    found = tokenise_text(text, tokenizer)
    return [
        *([rows[:] for rows in (text.training, text.validation)]),
        *([part.ids.tolist(), part.row.tolist(), part.key.tolist()] for part in (found.training, found.validation)),
    ]


@pytest.mark.parametrize("kind", ["txt", "csv", "jsonl", "book.txt"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named_and_made_again(
    kind: str, damage: str, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = write(tmp_path / "text", kind)
    whole = learn(corpus)
    files = sorted(cache.iterdir())
    assert {path.suffix for path in files} == {".npy", ".arrow"}
    contents = [path.read_bytes() for path in files]
    assert capsys.readouterr().out == ""
    for path, content in zip(files, contents, strict=True):
        path.unlink()  # an earlier test's rows may have it mapped
        path.write_bytes(DAMAGES[damage](content))
    assert learn(corpus) == whole
    said = capsys.readouterr().out
    assert all(f"making {path} again: it is not what was written" in said for path in files)
    assert sorted(cache.iterdir()) == files
    assert all(is_whole(path) for path in files)
    assert list(cache.parent.iterdir()) == [cache]  # `datasets` keeps nothing beside it


def test_a_damaged_side_file_of_a_data_set_is_made_again(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = Path(write(tmp_path / "text", "jsonl"))
    (corpus.parent / "README.md").write_text("---\nconfigs:\n- config_name: a\n  data_files: corpus.jsonl\n---\n")
    whole = learn(str(corpus.parent))
    sides = [path for path in cache.parent.rglob("*") if path.suffix in (".arrow", ".json") and path.parent != cache]
    assert {path.suffix for path in sides} == {".arrow", ".json"}
    for path in sides:
        before = path.read_bytes()
        for damage in DAMAGES.values():
            path.unlink()
            path.write_bytes(damage(before))
            assert learn(str(corpus.parent)) == whole
            assert f"making {path} again" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["txt", "csv", "jsonl"])
def test_a_full_disk_names_the_file_and_leaves_no_part_of_it(
    kind: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = write(tmp_path / "text", kind)

    def fail(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for where, name, suffix in (
        (kept.pa.ipc, "new_stream", "arrow"),
        (datasets.arrow_writer.ArrowWriter, "write_table", "arrow"),
        (tokens.np, "save", "npy"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(where, name, fail)
            if (where, kind) == (datasets.arrow_writer.ArrowWriter, "jsonl") or name != "write_table":
                with pytest.raises(
                    OSError, match=rf"could not write .*{suffix} \(No space left on device; [\d,]+ bytes"
                ):
                    learn(corpus)
        assert not [path for path in cache.iterdir() if path.suffix not in (".npy", ".arrow", ".lock")]
        assert all(is_whole(path) for path in cache.iterdir() if path.suffix != ".lock")
    learn(corpus)


def learn_into(folder: Path, corpus: str, slow: str) -> None:
    """Learns with a cache in a folder, and takes its time over the part that is to be killed."""
    datasets.config.HF_DATASETS_CACHE = folder
    if slow == "tokens":
        encode = tokens.encode
        tokens.encode = lambda *arguments: time.sleep(60) if list(folder.rglob("*.arrow")) else encode(*arguments)
    else:
        kept.os.fsync = lambda number: time.sleep(60)  # the rows are written, and not yet sealed
    learn(corpus)


@pytest.mark.parametrize("slow", ["tokens", "text"])
def test_a_kill_leaves_nothing_that_the_next_run_does_not_make_good(slow: str, cache: Path, tmp_path: Path) -> None:
    corpus = write(tmp_path / "text", "txt")
    whole = learn(corpus)
    undisturbed = {path.name: path.read_bytes() for path in cache.iterdir()}
    for path in cache.iterdir():
        path.unlink()
    process = multiprocessing.get_context("forkserver").Process(target=learn_into, args=(cache.parent, corpus, slow))
    process.start()
    end = time.monotonic() + 30
    wanted = "*.npy" if slow == "tokens" else "*.arrow"
    while not list(cache.glob(f"*.unfinished/{wanted}")):
        assert process.is_alive()
        assert time.monotonic() < end
        time.sleep(0.01)
    process.kill()
    process.join()
    assert list(cache.glob("*.unfinished"))
    assert learn(corpus) == whole
    assert not list(cache.glob("*.unfinished"))
    assert {path.name: path.read_bytes() for path in cache.iterdir() if path.suffix != ".lock"} == undisturbed


def test_a_large_cache_says_how_it_is_emptied(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kept, "LARGE", 1000)
    learn(write(tmp_path / "text", "txt"))
    assert f"{cache} holds 0 GiB: python -m toybert.train.data.kept empties it" in capsys.readouterr().out
