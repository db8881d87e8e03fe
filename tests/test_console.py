"""Claims about what is printed: whatever the console can show, and whoever reads it, the run goes on to its end."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import make_checkpoint

from toybert.train import cli, convert, evaluate
from toybert.train.pretrain import PretrainOptions, train_pretraining

PRINT = """
import sys
from pathlib import Path
from toybert.train import cli

def main():
    for number in range(20_000):
        print("line", number)
    print("line", file=sys.stderr, flush=True)
    sys.stdout.flush()
    Path(sys.argv[1]).touch()

cli.run(main)
"""


def start(*words: str | Path, **how: Any) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **how.pop("environment", {})}
    return subprocess.Popen([sys.executable, *map(str, words)], env=environment, **how)


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["ascii", "cp1252", "C"],
)
def test_a_console_without_the_texts_characters_does_not_end_a_run(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("text,label\n" + "der Hund lief .,良い\nthe cat .,плохо\n" * 10, encoding="utf-8")
    model, run = make_checkpoint(tmp_path / "tiny", num_hidden_layers=1), tmp_path / "run"
    options = ["--model", model, "--train-file", tmp_path / "r.csv", "--output-dir", run, "--epochs", "1"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = start("-m", "toybert.train.finetune", *options, environment=environment, **pipes)
    said = process.communicate()[0].decode("cp1252")
    assert process.returncode == 0, said
    assert r"one of 2 classes: \u043f\u043b\u043e\u0445\u043e, \u826f\u3044" in said
    assert "- Classes: `плохо`, `良い`\n" in (run / "README.md").read_text(encoding="utf-8")


def test_a_run_goes_on_when_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    process = start("-c", PRINT, tmp_path / "end", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()  # type: ignore[union-attr]
    assert process.communicate()[1] == b"line\n"
    assert process.returncode == 0
    assert (tmp_path / "end").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_run_goes_on_when_its_log_has_no_room(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        process = start("-c", PRINT, tmp_path / "end", stdout=full, stderr=subprocess.PIPE)
    said = process.communicate()[1]
    assert process.returncode == 0
    assert said.startswith(b"nothing more can be printed: ")
    assert (tmp_path / "end").exists()


@pytest.mark.parametrize("place", ["output_dir", "model", "target"])
def test_a_folders_name_that_is_not_utf_8_is_refused_before_any_work(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = str(tmp_path / "caf\udce9")
    main, words = {
        "output_dir": (lambda: cli.parse(PretrainOptions, None), ["--output-dir", bad]),
        "model": (evaluate.main, [bad]),
        "target": (convert.main, [str(tmp_path), bad]),
    }[place]
    monkeypatch.setattr("sys.argv", ["script", *words])
    with pytest.raises(SystemExit) as stop:
        cli.run(main)
    said = str(stop.value.code) if place != "output_dir" else capsys.readouterr().err
    assert r"caf\udce9" in said
    assert "UTF-8" in said
    assert "unexpected" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_texts_whose_names_are_not_utf_8_are_learnt_from(tmp_path: Path) -> None:
    story = "the {} ran .\nit slept .\nit woke .\n\n"
    (tmp_path / "caf\udce9").mkdir()
    for name in ("a.txt", "b\udce9.txt"):
        text = "".join(story.format(f"{name[0]}{number}") for number in range(20))
        (tmp_path / "caf\udce9" / name).write_text(text, encoding="utf-8")
    sizes = {"epochs": 1, "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2}
    for corpus in (tmp_path / "caf\udce9", tmp_path / "caf\udce9" / "b\udce9.txt"):
        run = tmp_path / f"run-{corpus.suffix}"
        train_pretraining(PretrainOptions(output_dir=str(run), corpus=str(corpus), report_to="tensorboard", **sizes))
        assert rf"udce9{corpus.suffix}`" in (run / "README.md").read_text(encoding="utf-8")
