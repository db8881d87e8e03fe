"""Seconds a step and peak memory as the corpus, the vocabulary and the width grow, and one process against two."""

import contextlib
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from accelerate.state import PartialState
from torch import nn

from benchmarks import common, peers
from toybert.train.data.tables import load_corpus

WARM_UP = 5  # steps before the clock starts
CORPORA = (1_000, 10_000, 100_000, 1_000_000)
VOCABULARIES = (500, 8_000, 30_000, 100_000)
WIDTHS = (64, 128, 256, 512)
MUON = "ours with Muon"  # the default recipe's; the other two have AdamW
SIDES = ("ours", MUON, "HF Trainer")
BASE: dict[str, Any] = {"sentences": 10_000, "vocabulary": 8_000, "width": 128, "processes": 1, "side": "ours"}
PARTS = {
    "corpus": [{**BASE, "sentences": count} for count in CORPORA],
    "vocabulary": [{**BASE, "vocabulary": V, "side": side} for V, side in itertools.product(VOCABULARIES, SIDES)],
    "width": [{**BASE, "width": D, "side": side} for D, side in itertools.product(WIDTHS, SIDES)],
    "processes": [{**BASE, "processes": number} for number in (1, 2)],
}
BATCH = 32  # rows a step, of all processes together


class Enough(Exception):  # noqa: N818 (not an error)
    """Ends a run that has done its steps."""


class Steps:
    """Times the steps of a model from outside: it is told before each forward pass."""

    def __init__(self, wanted: int):
        self.wanted, self.count = wanted, 0
        self.first = self.began = self.seconds = 0.0

    def attach(self, model: nn.Module) -> None:
        model.register_forward_pre_hook(self.tick)

    def tick(self, model: nn.Module, inputs: Any) -> None:
        now = time.perf_counter()
        self.first = self.first or now
        if self.count == WARM_UP:
            self.began = now
        if self.count == WARM_UP + self.wanted:
            self.seconds = (now - self.began) / self.wanted
            raise Enough
        self.count += 1


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
    """Trains some steps from a corpus on disk, and gives the seconds of a step and the memory of the process."""
    began, steps = time.perf_counter(), Steps(spec["steps"])
    with tempfile.TemporaryDirectory() as folder, common.silence():
        changes = {"epochs": 1, "batch_size": BATCH // spec["processes"], "corpus": spec["corpus"]}
        changes |= {} if spec["side"] == MUON else {"muon_learning_rate": 0.0}
        options = peers.pretrain_options(folder, **changes)
        documents = load_corpus(spec["corpus"], columns=["sentences"])["train"]["sentences"]
        tokenizer = peers.synthetic_tokenizer(spec["vocabulary"], 64)
        size = {"hidden_size": spec["width"], "intermediate_size": 4 * spec["width"]}
        with contextlib.suppress(Enough):
            if spec["side"] != "HF Trainer":
                corpus = peers.Corpus(documents, tokenizer, None, 64)
                peers.train_ours(corpus, options, steps.attach, **size)
            else:
                corpus = peers.with_stock(documents, tokenizer, 64)
                rows = peers.encode(peers.plain_pairs(documents[:]), corpus)
                peers.train_with_trainer(rows, corpus, options, grouped=True, attach=steps.attach, **size)
    assert steps.seconds, f"the corpus has only {steps.count} steps"
    return {
        "seconds_a_step": steps.seconds,
        "seconds_to_first_step": steps.first - began,
        "peak_memory_mb": common.peak_memory_mb(),
        "processes": PartialState().num_processes,
    }


def run(case: dict[str, Any], corpus: Path, steps: int) -> dict[str, Any]:
    """Runs a case as a process of its own, or as two, and sees that there were as many as it says."""
    number = case["processes"]
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={number}"] if number > 1 else []
    threads = str(max(1, int(os.environ["OMP_NUM_THREADS"]) // number))  # the cores are shared out
    with tempfile.TemporaryDirectory() as cache:  # each run reads the text anew
        environment = {"OMP_NUM_THREADS": threads, "HF_DATASETS_CACHE": cache}
        spec = {**case, "corpus": str(corpus), "steps": steps}
        found = common.child("benchmarks.scaling", spec, launcher, **environment)
    assert found["processes"] == number, f"{number} processes were asked for, {found['processes']} ran"
    return {**found, "threads_of_each": int(threads)}


def label(case: dict[str, Any], part: str) -> str:
    """Names a case by what changes in its part."""
    changed = {"corpus": f"{case['sentences']:,} sentences", "vocabulary": f"{case['vocabulary']:,} words"}
    changed |= {"width": f"width {case['width']}", "processes": f"{case['processes']} processes"}
    return f"{part}: {changed[part]}, {case['side']}"


def layout(results: dict[str, Any]) -> str:
    """Lays out the table; the ratio is of a step's seconds, HF Trainer's over ours or one process's over two's."""
    lines = [
        (
            name,
            common.show(row["seconds_a_step"], 1, 1e3),
            common.show(row.get("ours_is_faster") or row.get("two_are_faster")),
            common.show(row["seconds_to_first_step"], 1),
            common.show(row["peak_memory_mb"], 0),
        )
        for name, row in results.items()
    ]
    header = ("case", "ms a step", "ratio", "s to the first step", "peak MB of a process")
    return f"Steps of {BATCH} rows.\n\n{common.table(header, lines)}"


def summary(results: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Gives the spread of each case's figures, and the paired ratios."""
    fields = ("seconds_a_step", "seconds_to_first_step", "peak_memory_mb")
    found: dict[str, Any] = {}
    for name, runs in results.items():
        found[name] = {field: common.spread([one[field] for one in runs]) for field in fields}
        found[name]["threads_of_each"] = runs[0]["threads_of_each"]
        seconds = [one["seconds_a_step"] for one in runs]
        ours, single = name.replace("HF Trainer", "ours"), name.replace("2 processes", "1 processes")
        if ours != name and ours in results:
            found[name]["ours_is_faster"] = common.ratios(seconds, [one["seconds_a_step"] for one in results[ours]])
        if single != name and single in results:
            found[name]["two_are_faster"] = common.ratios([one["seconds_a_step"] for one in results[single]], seconds)
    return found


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), metavar="SIDE", help=", ".join(SIDES))
    parser.add_argument("--most-sentences", type=int, default=CORPORA[-1], help="leave larger corpora out")
    parser.add_argument("--steps", type=int, default=30, help="that are timed in each run")
    options = common.parse(parser)
    if options.child:
        found = one_run(options.child)
        if PartialState().is_main_process:
            print(json.dumps(found), flush=True)
        return
    if options.smoke:
        options.most_sentences, options.steps = CORPORA[0], 3
    cases: dict[str, Callable[[], dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as top:
        for part in options.parts:
            every = [case for case in PARTS[part] if part != "corpus" or case["sentences"] <= options.most_sentences]
            every = [case for case in every if case["side"] in options.sides]
            for case in every[:2] if options.smoke else every:
                sentences = min(case["sentences"], options.most_sentences)
                corpus = Path(top) / f"{sentences}-{case['vocabulary']}"
                if not corpus.exists():
                    write_corpus(corpus, sentences, case["vocabulary"])
                cases[label(case, part)] = partial(run, {**case, "sentences": sentences}, corpus, options.steps)
        results = summary(common.interleaved(cases, options.rounds))
    common.report("scaling", options, results, layout(results))


if __name__ == "__main__":
    main()
