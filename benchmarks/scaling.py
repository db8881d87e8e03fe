"""Seconds a step and peak memory as the corpus, the vocabulary and the width grow, and one process against two."""

import contextlib
import json
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from accelerate.state import PartialState
from torch import nn

from benchmarks import common, peers
from toybert.train.data.tables import load_corpus
from toybert.train.loop.run import peak_memory_mb

WARM_UP, TIMED = 5, 30  # steps before the clock starts, and steps that are timed
BATCH = 32  # rows a step, of all processes together
CORPORA = (1_000, 10_000, 100_000, 1_000_000)
MUON = "ours with Muon"  # the default recipe's; the other two have AdamW
SIDES = ("ours", MUON, "HF Trainer")
BASE: dict[str, Any] = {"sentences": 10_000, "vocabulary": 8_000, "width": 128, "processes": 1, "side": "ours"}
PARTS = {  # what changes, how a case is called, and the cases
    "corpus": ("{sentences:,} sentences", [{"sentences": count} for count in CORPORA]),
    "vocabulary": (
        "{vocabulary:,} words",
        [{"vocabulary": V, "side": side} for V in (500, 8_000, 30_000, 100_000) for side in SIDES],
    ),
    "width": ("width {width}", [{"width": D, "side": side} for D in (64, 128, 256, 512) for side in SIDES]),
    "processes": ("{processes} processes", [{"processes": number} for number in (1, 2)]),
}


class Steps:
    """Times the steps of a model from outside: it is called before each forward pass."""

    def __init__(self, wanted: int):
        self.wanted, self.began = wanted, []  # when each step began

    def __call__(self, model: nn.Module, inputs: Any) -> None:
        self.began.append(time.perf_counter())
        if len(self.began) > WARM_UP + self.wanted:
            raise common.Enough


def write_corpus(folder: Path, sentences: int, vocabulary: int, chunk: int = 1_000) -> None:
    """Writes a synthetic corpus of documents of ten sentences of nine to thirteen words, a part at a time."""
    make = partial(peers.synthetic_documents, vocab_size=vocabulary, sentences=10, shortest=9, longest=13)
    folder.mkdir()
    for split, count in (("train", sentences // 10), ("validation", 10), ("test", 10)):
        with open(folder / f"{split}.jsonl", "w", encoding="utf-8") as lines:
            for start in range(0, count, chunk):
                for document in make(min(chunk, count - start), seed=start):
                    lines.write(json.dumps({"sentences": document}) + "\n")


def one_run(spec: dict[str, Any]) -> dict[str, Any]:
    """Trains some steps from a corpus on disk, and returns the seconds of a step and the memory of the process."""
    began, steps = time.perf_counter(), Steps(spec["steps"])
    with tempfile.TemporaryDirectory() as folder, common.silence(), contextlib.suppress(common.Enough):
        changes = {} if spec["side"] == MUON else {"muon_learning_rate": 0.0}
        batch_size = BATCH // spec["processes"]
        options = peers.pretrain_options(folder, epochs=1, batch_size=batch_size, corpus=spec["corpus"], **changes)
        documents = load_corpus(spec["corpus"], columns=["sentences"])["train"]["sentences"]
        tokenizer = peers.synthetic_tokenizer(spec["vocabulary"], 64)
        size = {"hidden_size": spec["width"], "intermediate_size": 4 * spec["width"]}
        if spec["side"] == "HF Trainer":
            corpus = peers.with_stock(documents, tokenizer, 64)
            rows = peers.encode(peers.plain_pairs(documents[:]), corpus)
            peers.train_with_trainer(rows, corpus, options, {"grouped": True}, steps, **size)
        else:
            peers.train_ours(peers.Corpus(documents, tokenizer, None, 64), options, steps, **size)
    assert len(steps.began) > WARM_UP + steps.wanted, f"the corpus has only {len(steps.began)} steps"
    return {
        "seconds_a_step": (steps.began[-1] - steps.began[WARM_UP]) / steps.wanted,
        "seconds_to_first_step": steps.began[0] - began,
        "peak_memory_mb": peak_memory_mb(),
        "processes": PartialState().num_processes,
        "threads_of_each": int(os.environ["OMP_NUM_THREADS"]),
    }


def run(case: dict[str, Any], corpus: Path, steps: int) -> dict[str, Any]:
    """Runs a case as a process of its own, or as two, and checks that there were as many as it says."""
    number = case["processes"]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={number}"] if number > 1 else []
    threads = str(max(1, int(os.environ["OMP_NUM_THREADS"]) // number))  # the cores are shared out
    with tempfile.TemporaryDirectory() as cache:  # each run reads the text anew
        spec, environment = {**case, "corpus": str(corpus), "steps": steps}, {"HF_DATASETS_CACHE": cache}
        found = common.child("scaling", spec, launcher, OMP_NUM_THREADS=threads, **environment)
    assert found["processes"] == number, f"{number} processes were asked for, {found['processes']} ran"
    return found


def main() -> None:
    parser = common.parser(__doc__, parts=PARTS)
    parser.add_argument("--most-sentences", type=int, default=CORPORA[-1], help="leave larger corpora out")
    options = common.parse(parser)
    most = CORPORA[0] if options.smoke else options.most_sentences
    cases, against = {}, {}
    with tempfile.TemporaryDirectory() as top:
        for part in options.parts:
            called, changes = PARTS[part]
            changes = [change for change in changes if change.get("sentences", 0) <= most]
            for change in changes[:2] if options.smoke else changes:
                case = {**BASE, **change}
                name = f"{part}: {called.format(**case)}, {case['side']}"
                case["sentences"] = min(case["sentences"], most)
                corpus = Path(top) / f"{case['sentences']}-{case['vocabulary']}"
                if not corpus.exists():
                    write_corpus(corpus, case["sentences"], case["vocabulary"])
                cases[name] = partial(run, case, corpus, 3 if options.smoke else TIMED)
                against[name] = name.replace("HF Trainer", "ours").replace("1 processes", "2 processes")
        runs = common.interleaved(cases, options.rounds)
    results = common.compared(runs, against, "slower", "seconds_a_step")
    columns = {
        "ms a step": ("seconds_a_step", 1, 1e3),
        "times ours, or two's": ("slower", 2, 1.0),
        "s to the first step": ("seconds_to_first_step", 1, 1.0),
        "peak MB of a process": ("peak_memory_mb", 0, 1.0),
    }
    text = f"Steps of {BATCH} rows.\n\n{common.figures_table('case', results, columns)}"
    common.report("scaling", options, results, text)


if __name__ == "__main__":
    main()
