"""Seconds of training until a held-out quality on the stories: ours against HF Trainer with two recipes."""

import contextlib
import itertools
import json
import math
import random
import tempfile
import time
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Any

from torch import nn
from torch.utils.data import Dataset

from benchmarks import CORES, common, peers
from toybert.train.pretrain import RECIPES

# The best recipe for HF Trainer with AdamW that `--tune` found, with one seed on one thread. It began at what our own
# recipe has beside Muon (20 % masked). `pairs` and `grouped` say how Trainer gets its rows.
BEST_ADAMW: dict[str, Any] = {
    "epochs": 8,
    "learning_rate": 2e-3,
    "adam_beta2": 0.999,
    "dropout": 0.0,
    "mlm_probability": 0.3,
    "initializer_range": 0.05,
    "weight_decay": 0.01,
    "warmup_ratio": 0.06,
    "pairs": "fresh",
    "grouped": True,
}
# What `--tune` tries, one line after the other: it begins at BEST_ADAMW and keeps what gets there sooner.
GRID: tuple[dict[str, Any], ...] = (
    {"learning_rate": 1e-3},
    {"learning_rate": 3e-3},
    {"adam_beta2": 0.98},
    {"mlm_probability": 0.2},
    {"initializer_range": 0.02},
)
NOTEBOOK = {**RECIPES["seed"], "pairs": "fixed", "grouped": False}
ROWS: dict[str, dict[str, Any]] = {
    "ours, default recipe": {"side": "ours", "recipe": {}},
    "HF Trainer, the notebook's recipe": {"side": "HF Trainer", "recipe": NOTEBOOK},
    "HF Trainer, tuned AdamW": {"side": "HF Trainer", "recipe": BEST_ADAMW},
    "HF Trainer, tuned AdamW, 12 epochs": {"side": "HF Trainer", "recipe": {**BEST_ADAMW, "epochs": 12}},
}
OURS = next(iter(ROWS))
TARGETS = ("0.7:0", "2.0:0.60", "1.0:0.80", "0.7:0.90")  # MLM loss at most, NSP accuracy at least
Goal = tuple[float, float]
Found = dict[str, Any]  # of a run: its curve


class FreshPairs(Dataset):
    """Holds two rows for each A, as on our side: with its true next sentence, and with one drawn anew each time."""

    def __init__(self, corpus: peers.Corpus):
        self.tokenizer, self.max_length = corpus.stock, corpus.max_length
        self.special = set(corpus.stock.all_special_ids)
        texts = [text for document in corpus.documents for text in document]
        ids = iter(corpus.stock(texts, add_special_tokens=False)["input_ids"])
        sentences = [[next(ids) for _ in document] for document in corpus.documents]
        self.pairs = [(number, *pair) for number, some in enumerate(sentences) for pair in itertools.pairwise(some)]

    def __len__(self) -> int:
        return 2 * len(self.pairs)

    def __getitem__(self, row: int) -> dict[str, Any]:
        document, a, b = self.pairs[row // 2]
        if row % 2:
            other = document
            while other == document:
                other, _, b = random.choice(self.pairs)
        sep = self.tokenizer.sep_token_id
        first = [self.tokenizer.cls_token_id, *a, sep]
        second = [*b[: self.max_length - 1 - len(first)], sep]
        return {
            "input_ids": first + second,
            "token_type_ids": [0] * len(first) + [1] * len(second),
            "attention_mask": [1] * len(first + second),
            "special_tokens_mask": [int(token in self.special) for token in first + second],
            "next_sentence_label": row % 2,
        }


class Watch:
    """Measures a model before its forward pass every so many steps, and stops the clock meanwhile."""

    def __init__(self, spec: dict[str, Any]):
        self.every, self.cap, self.goal = spec["every"], spec["cap"], spec["goal"]
        self.batches = peers.fixed_batches(peers.stories(spec["documents"], split="validation"))
        self.began, self.excluded, self.steps = time.perf_counter(), 0.0, 0
        self.curve: list[dict[str, float]] = []

    def __call__(self, model: nn.Module, inputs: Any) -> None:
        if model.training:
            if self.steps and self.steps % self.every == 0:
                self.look(model)
            self.steps += 1

    def look(self, model: nn.Module) -> None:
        """Adds a point to the curve; raises Enough where the goal is reached or the time is over."""
        stopped = time.perf_counter()
        seconds = stopped - self.began - self.excluded
        self.curve.append({"step": self.steps, "seconds": seconds, **peers.measure(model, self.batches)})
        self.excluded += time.perf_counter() - stopped
        if seconds > self.cap or reached(self.curve[-1], self.goal):
            raise common.Enough


def reached(point: dict[str, float], goal: Goal) -> bool:
    return point["mlm_loss"] <= goal[0] and point["nsp_accuracy"] >= goal[1]


def one_run(spec: dict[str, Any]) -> Found:
    """Trains once, from text in memory, and returns the curve of what it had learnt by when."""
    corpus, is_ours = peers.stories(spec["documents"]), spec["side"] == "ours"
    recipe = dict(spec["recipe"])
    pairs, how = (
        recipe.pop("pairs", None),
        {name: recipe.pop(name) for name in ("grouped", "adam_beta2") if name in recipe},
    )
    fixed = peers.text_pairs(corpus) if pairs == "fixed" else []  # before the clock starts
    with tempfile.TemporaryDirectory() as folder, common.silence(), contextlib.suppress(common.Enough):
        changes = recipe if is_ours else {"muon_learning_rate": 0.0, **recipe}
        options = peers.pretrain_options(folder, seed=spec["seed"], **changes)
        watch = Watch(spec)
        if is_ours:
            model, _ = peers.train_ours(corpus, options, watch)
        else:
            rows = FreshPairs(corpus) if pairs == "fresh" else peers.encode(fixed, corpus)
            model, _ = peers.train_with_trainer(rows, corpus, options, how, watch)
        watch.look(model)  # after the last step
    return {"curve": watch.curve}


def run(row: dict[str, Any], seed: int, options: Any, **environment: str) -> Found:
    """Does a run in a process of its own, so that none profits from what another has set up."""
    spec = {name: getattr(options, name) for name in ("every", "cap", "documents")}
    spec |= {**row, "seed": seed, "goal": options.goals[-1]}
    return common.child("time_to_quality", spec, **environment)


def seconds_to(goal: Goal, runs: list[Found]) -> list[float | None]:
    """Returns the seconds of each run's first point that reaches a goal, None where no point does."""
    return [next((point["seconds"] for point in found["curve"] if reached(point, goal)), None) for found in runs]


def ratio(times: list[float | None], had: list[float], ours: list[float | None]) -> dict[str, Any] | None:
    """Returns the paired ratios of seconds to a goal; a run that never did counts with the seconds that it had."""
    if None in ours:
        return None
    found = common.ratios([time or most for time, most in zip(times, had, strict=True)], ours)
    return {**found, "at_least": None in times}


def compare(options: Any) -> None:
    """Runs every row with every seed, in another order for each."""
    seeds = {name: iter(range(options.rounds)) for name in options.rows}

    def turn(name: str) -> Found:
        found = run(ROWS[name], seed := next(seeds[name]), options)
        print(f"{name}, seed {seed}: {found['curve'][-1]}", flush=True)
        return found

    runs = common.interleaved({name: partial(turn, name) for name in options.rows}, options.rounds)
    results: dict[str, Any] = {name: {"recipe": ROWS[name], "runs": found} for name, found in runs.items()}
    lines = []
    for goal, name in itertools.product(options.goals, runs):
        times, had = seconds_to(goal, runs[name]), [found["curve"][-1]["seconds"] for found in runs[name]]
        faster = ratio(times, had, seconds_to(goal, runs[OURS])) if OURS in runs and name != OURS else None
        results[name][f"{goal[0]}:{goal[1]}"] = {"seconds": times, "ours_is_faster": faster}
        shown = ", ".join("never" if seconds is None else f"{seconds:.0f}" for seconds in times)
        at_least = "at least " if faster and faster["at_least"] else ""
        lines.append((f"{goal[0]} and {goal[1]}", name, shown, at_least + common.show(faster)))
    header = ("MLM loss and NSP accuracy", "row", "seconds of each seed", "ours is faster by")
    text = f"{options.rounds} seeds, measured every {options.every} steps.\n\n{common.table(header, lines)}"
    common.report("time_to_quality", options, results, text)


def tune(options: Any) -> None:
    """Looks for the peer's best recipe, one change after the other, by the seconds to the last goal, then by loss.

    As many runs as the machine has cores are tried at once, on one thread each, against what was best before them.
    """
    best, top, lines, tried = dict(BEST_ADAMW), (math.inf, math.inf), [], []

    def score(change: dict[str, Any]) -> tuple[float, float]:
        recipe = {**best, **change}
        found = run({"side": "HF Trainer", "recipe": recipe}, 0, options, OMP_NUM_THREADS="1")
        [seconds], last = seconds_to(options.goals[-1], [found]), found["curve"][-1]
        tried.append({"recipe": recipe, "seconds_to_goal": seconds, "last": last})
        return (math.inf if seconds is None else seconds), last["mlm_loss"]

    changes: list[dict[str, Any]] = [{}, *GRID[: 1 if options.smoke else None]]
    with ThreadPool(CORES) as pool:
        for first in range(0, len(changes), CORES):
            some = changes[first : first + CORES]
            for change, found in sorted(zip(some, pool.map(score, some), strict=True), key=lambda pair: pair[1]):
                kept = found < top
                name = ", ".join(f"{field} {value}" for field, value in change.items()) or "start"
                lines.append((name, f"{found[0]:.0f}", f"{found[1]:.3f}", "kept" if kept else ""))
                print(*lines[-1], flush=True)
                if kept:
                    best, top = {**best, **change}, found
    header = ("change", "seconds to the goal", "MLM loss at the end", "")
    text = f"Goal: {options.goals[-1]}\n\n{common.table(header, lines)}\n\nBest: `{json.dumps(best)}`"
    common.report("time_to_quality_tune", options, {"best": best, "tried": tried}, text)


def main() -> None:
    parser = common.parser(__doc__, rounds=3, rows=ROWS)
    parser.add_argument("--targets", nargs="+", default=TARGETS, help="MLM loss:NSP accuracy, the hardest last")
    parser.add_argument("--every", type=int, default=100, help="steps between measurements")
    parser.add_argument("--cap", type=float, default=1800.0, help="seconds of training after which a run is given up")
    parser.add_argument("--tune", action="store_true", help="look for the peer's best AdamW recipe instead")
    options = common.parse(parser)
    options.documents = None  # all of the corpus
    if options.smoke:
        options.every, options.cap, options.documents = 2, 0.3, 8
    options.goals = [tuple(map(float, target.split(":"))) for target in options.targets]
    tune(options) if options.tune else compare(options)


if __name__ == "__main__":
    main()
