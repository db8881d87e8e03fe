"""Claims about the benchmarks: each one runs and leaves results (what they measure is not tested)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT

ARGUMENTS = {
    "pretrain": ["--sizes", "toy"],
    "time_to_quality": ["--targets", "7:0.3"],
    "inference": ["--rows", "one"],
    "scaling": ["--parts", "processes"],
    "overhead": [],
    "profile": [],
}


@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="the Hub has no benchmarks")
def test_the_cards_table_of_speed_says_what_was_measured() -> None:
    code = (
        "import json; from benchmarks.summary import FIGURES, block;"
        "print(block(json.loads((FIGURES / 'speed.json').read_text('utf-8'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    assert f"<!-- speed -->\n{done.stdout}<!-- /speed -->" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="the Hub has no benchmarks")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_benchmark_runs_on_next_to_nothing(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", f"benchmarks.{name}", "--smoke", "--output", str(tmp_path), *ARGUMENTS[name]]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["results"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The public data sets' files, with little in them."""
    good, bad = "a warm and clever film .", "a dull and clumsy film ."
    for name, lines in {
        "sst2/train.tsv": ["label\tsentence", *[f"1\t{good}", f"0\t{bad}"] * 8],
        "sst2/dev.tsv": ["label\tcontent", f"1\t{good}", f"0\t{bad}"],
        "sentence_polarity/rt-polarity.pos": [f"{good} {number}" for number in range(20)],
        "sentence_polarity/rt-polarity.neg": [f"{bad} {number}" for number in range(20)]
        + [f"{bad} 1"],  # one stands there twice
        "tales/fox.txt": [f"The fox {n % 7} ran to the hen {n % 5}. The hen {n % 3} flew." for n in range(120)],
        "sms_spam/SMSSpamCollection": [
            "Label\tSMS",
            *[f'ham\tsee you at "{number}"\nspam\twin {number}' for number in range(10)],
        ],
    }.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "data"


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="the Hub has no benchmarks")
def test_accuracies_on_real_text_are_measured_and_told_apart(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.real_text", "--smoke", "--data", str(data), "--output", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    results = json.loads((tmp_path / "real_text.json").read_text(encoding="utf-8"))["results"]
    (tales,) = results.pop("tales")["runs"]
    assert 0 < tales["mlm"]["bigram_accuracy"] < 1
    assert 0 <= tales["nsp"]["accuracy"] <= 1
    assert {task: found["rows"] for task, found in results.items()} == {
        "sst2": {"train": 16, "test": 2},
        "polarity": {"train": 36, "test": 4},
        "spam": {"train": 16, "test": 4},
    }
    assert all(
        runs["naive Bayes, words and bigrams"][0]["accuracy"] == 1 for runs in (f["models"] for f in results.values())
    )
