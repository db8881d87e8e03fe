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
}


@pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="the Hub has no benchmarks")
@pytest.mark.skipif(not (ROOT / "figures" / "speed.json").exists(), reason="nothing has been measured")
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
