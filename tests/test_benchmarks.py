"""Claims about the benchmarks: each one runs and leaves results (what they measure is not tested)."""

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import ROOT, make_checkpoint

from toybert.train.release import read_pages

here_only = pytest.mark.skipif(not (ROOT / "benchmarks").exists(), reason="the Hub has no benchmarks")
COMMANDS = {  # by the name of what they leave
    "pretrain": ["pretrain", "--sizes", "toy"],
    "levers": ["pretrain", "--levers", "--sizes", "toy"],
    "profile": ["pretrain", "--profile"],
    "time_to_quality": ["time_to_quality", "--targets", "7:0.3"],
    "inference": ["inference", "--rows", "one"],
    "scaling": ["scaling", "--parts", "processes"],
    "overhead": ["overhead"],
    "few_labels": ["few_labels"],
}


def benchmark(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"benchmarks.{name}", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def printed(code: str) -> str:
    """Runs code in a process of its own, since importing the benchmarks sets the environment; returns its output."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    return done.stdout


@here_only
@pytest.mark.parametrize(
    ("name", "marks"), [("speed", {"speed", "quartiles"}), ("real", {"real", "real_rows", "ranges"})]
)
def test_the_tables_say_what_was_measured(name: str, marks: set[str]) -> None:
    figures = ROOT / "figures" / f"{'real_text' if name == 'real' else name}.json"
    found = json.loads(
        printed(
            f"import json, pathlib; from benchmarks.summary import {name}_blocks as blocks;"
            f"print(json.dumps(blocks(json.loads(pathlib.Path({str(figures)!r}).read_text('utf-8')))))"
        )
    )
    shown = "".join(read_pages().values())
    assert found.keys() == marks
    for mark, text in found.items():
        assert f"<!-- {mark} -->\n{text}\n<!-- /{mark} -->" in shown, mark


@here_only
@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_benchmark_runs_on_next_to_nothing(name: str, tmp_path: Path) -> None:
    done = benchmark(*COMMANDS[name], "--smoke", "--output", tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["results"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Writes the public data sets' files, with a few rows each."""
    good, bad = "a warm and clever film .", "a dull and clumsy film ."
    for name, lines in {
        "sst2/train.tsv": [
            "label\tsentence",
            *[f"1\t{good} so {number}\n0\t{bad} so {number}" for number in range(8)],
            "1\tclever film",
        ],
        "sst2/dev.tsv": ["label\tcontent", f"1\t{good}", f"0\t{bad}"],
        "sst2/test.tsv": ["label\tcontent", f"0\t{bad}", f"1\t{good}"],
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


def real_text(data: Path, output: Path, *more: str | Path) -> str:
    """Returns what a smoke run of that benchmark prints."""
    done = benchmark("real_text", "--smoke", "--data", data, "--output", output, *more)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@here_only
@pytest.mark.slow
def test_accuracies_on_real_text_are_measured_and_told_apart(data: Path, tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "pretrained")
    facts = {"step": 1, "seconds": 2.0, "validation": [{"mlm_loss": 3.0}]}
    (checkpoint / "history.json").write_text(json.dumps(facts), encoding="utf-8")
    real_text(data, tmp_path, "--checkpoint", str(checkpoint))
    record = json.loads((tmp_path / "real_text.json").read_text(encoding="utf-8"))
    tasks = record["results"]["tasks"]
    (tales,) = tasks["tales"]["ToyBERT"]
    assert 0 < tales["mlm"]["bigram_accuracy"] < 1
    assert {"accuracy", "word_overlap_accuracy"} <= tales["nsp"].keys()  # a model's figure beside that without one
    models = {
        "the commonest class",
        "naive Bayes, words and pairs of neighbours",
        "logistic regression, words and pairs of neighbours",
        "transformers' BERT of the same size, from scratch",
        "ToyBERT, from scratch",
        "ToyBERT, pre-trained",
    }
    for task, train, parts in (
        ("sst2", 17, {"dev": 2, "test": 2}),
        ("polarity", 36, {"test": 4}),
        ("spam", 16, {"test": 4}),
    ):
        assert tasks[task].keys() == models
        for run in (run for runs in tasks[task].values() for run in runs):
            assert run["train"] == train
            assert {part: found["rows"] for part, found in run["parts"].items()} == parts
        (linear,) = tasks[task]["naive Bayes, words and pairs of neighbours"]
        assert [part["accuracy"] for part in linear["parts"].values()] == [1] * len(parts)
    bert, ours = (tasks["sst2"][f"{name}, from scratch"] for name in ("transformers' BERT of the same size", "ToyBERT"))
    assert bert[0]["parameters"] == ours[0]["parameters"]
    runs = (tmp_path / "real_text.runs.jsonl").read_text(encoding="utf-8").splitlines()
    first, *others = ((run["task"], run.get("model", "ToyBERT")) for run in map(json.loads, runs))
    everything = {("tales", "ToyBERT"), *itertools.product(("sst2", "polarity", "spam"), models)}
    assert sorted([first, *others]) == sorted(everything)
    (tmp_path / "real_text.runs.jsonl").write_text("\n".join(runs[1:]) + "\n", encoding="utf-8")
    said = real_text(data, tmp_path, "--checkpoint", str(checkpoint), "--resume")
    done = re.findall(r"^(.+), seed 0: ", said, re.MULTILINE)
    assert len(done) == 1
    assert done[0].startswith(", ".join(first))  # the one that was taken out
    assert json.loads((tmp_path / "real_text.json").read_text(encoding="utf-8"))["results"]["tasks"] == tasks
    tuned = {**record, "results": {"tried": []}}
    for name, figures in (("real_text", record), ("real_text_tune", tuned)):  # as if it had not been a smoke run
        figures = {**figures, "options": {**record["options"], "smoke": False}}
        (tmp_path / f"{name}.json").write_text(json.dumps(figures), encoding="utf-8")
    table = printed(
        "from pathlib import Path; from benchmarks.summary import collect_real, real_blocks;"
        f"print(real_blocks(collect_real(Path({str(tmp_path)!r})))['real'])"
    )
    assert all(model in table for model in tasks["sst2"])


@here_only
@pytest.mark.slow
def test_recipes_are_chosen_on_sentences_none_of_whose_phrases_is_learnt_from(data: Path, tmp_path: Path) -> None:
    said = real_text(data, tmp_path, "--checkpoint", str(make_checkpoint(tmp_path / "pretrained")), "--tune")
    assert "accuracy on 8 sentences, learnt from 8 phrases" in said  # "clever film" is a part of those that are kept
    found = printed(
        "from pathlib import Path; from benchmarks.real_data import sst2_train_part as part;"
        f"rows = part(Path({str(data)!r}));"
        "print(any(a in b for a, _ in rows['train'] for b, _ in rows['sentences']))"
    )
    assert found == "False\n"


@here_only
@pytest.mark.slow
def test_no_text_that_is_measured_was_learnt_from() -> None:
    found = printed(
        "from benchmarks.real_data import divided, plain; from benchmarks.real_text import scores;"
        "texts = [('A b.', 'x'), ('a  B', 'y'), ('c', 'x'), (':)', 'y'), (':(', 'x'), ('C!', 'y')];"
        "rows = divided(texts, 0.5);"
        "learnt, measured = ({plain(text) for text, _ in rows[part]} for part in ('train', 'test'));"
        "print(sorted(sum(rows.values(), [])), learnt & measured);"
        "print(scores(['x', '', 'y'], ['x', 'y', 'y']))"
    )
    assert found.splitlines() == [
        "[(':(', 'x'), (':)', 'y'), ('A b.', 'x'), ('c', 'x')] set()",
        "{'accuracy': 0.6666666666666666, 'macro_f1': 0.8333333333333333, 'rows': 3}",
    ]


@here_only
def test_what_a_benchmark_of_accuracies_lacks_is_said_before_it_begins(data: Path, tmp_path: Path) -> None:
    (data / "sst2/dev.tsv").write_text("label\tcontent\n1\tfine\n2\tbad\n", encoding="utf-8")
    arguments = ("--data", data, "--output", tmp_path, "--checkpoint", tmp_path)
    done = benchmark("real_text", *arguments)
    assert done.returncode == 2
    assert f"error: line 3 of {data / 'sst2/dev.tsv'} is not one of 0, 1, a tab and a text" in done.stderr
    done = benchmark("real_text", *arguments, "--tasks", "polarity")
    assert done.returncode == 2
    assert "history.json" in done.stderr.splitlines()[-1]


@here_only
def test_the_tables_do_not_hide_that_ours_failed() -> None:
    found = printed(
        "from benchmarks.summary import OURS, is_drawn, median, tables, time_to_quality;"
        "curve = [{'curve': [{'seconds': 9.0}]}] * 2;"
        "peer = {'1.0:0.8': {'seconds': [5.0, 5.0], 'ours_is_faster': None}, 'runs': curve};"
        "ours = {'1.0:0.8': {'seconds': [None, 8.0], 'ours_is_faster': None}, 'runs': curve};"
        "rows = [*time_to_quality({OURS: ours, 'a peer': peer})];"
        "print(tables(rows, median), is_drawn(rows[0]), sep='\\n')"
    )
    header, _, row, drawn = found.splitlines()
    assert [cell.strip() for cell in header.split("|")[2:-1]] == ["a peer"]
    assert [cell.strip() for cell in row.split("|")[2:-1]] == ["**ours got there in 1 of 2 runs**, it in 2"]
    assert drawn == "False"


@here_only
def test_what_was_run_in_part_is_not_shown(tmp_path: Path) -> None:
    sizes = ("toy", "2x128-8k", "2x128-30k", "4x256-8k")
    options: dict[str, Any] = {"smoke": False, "rows": None}
    for folder, more, some in (
        ("whole", {}, sizes),
        ("size", {}, sizes[:1]),
        ("smoke", {"smoke": True}, sizes),
        ("rows", {"rows": ["ours, dropout 0"]}, sizes),
    ):
        record = {"benchmark": "pretrain", "options": {**options, **more}, "results": {size: {} for size in some}}
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "pretrain.json").write_text(json.dumps(record), encoding="utf-8")
    found = printed(
        "from pathlib import Path; from benchmarks.summary import WHOLE, read\n"
        "def look(folder, name):\n"
        f"    try: print(read(Path({str(tmp_path)!r}) / folder, name, WHOLE[name])['benchmark'])\n"
        "    except (OSError, ValueError) as error: print(error)\n"
        "for folder in ('whole', 'size', 'smoke', 'rows'): look(folder, 'pretrain')\n"
        "look('whole', 'profile')"
    ).splitlines()
    assert found[0] == "pretrain"
    for refused in found[1:4]:
        assert "pretrain.json is of a part, or of a smoke run: run python -m benchmarks.pretrain" in refused
    assert found[4].endswith("profile.json: run python -m benchmarks.pretrain --profile first")
