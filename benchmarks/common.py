"""What the benchmarks share: options, rounds in turns, paired ratios, tables, reports, processes of their own."""

import argparse
import contextlib
import gc
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import datasets
import numpy as np
import psutil
import torch
from transformers.utils import logging

from benchmarks import SETTINGS
from toybert.train.console import guard_console

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = ROOT / "outputs" / "benchmarks"
PACKAGES = ("torch", "transformers", "tokenizers", "datasets", "accelerate", "numpy", "onnxruntime")
Result = TypeVar("Result")
Runs = dict[str, list[dict[str, Any]]]  # the figures of each run of each row


class Enough(Exception):  # noqa: N818 (not an error)
    """Ends a training run from outside: it has done its steps, is good enough, or has had its time."""


def parser(doc: str | None, rounds: int = 5, **choices: Collection[str]) -> argparse.ArgumentParser:
    """Makes a parser of the options that every benchmark has, and of those that take some of these names."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    made.add_argument("--rounds", type=int, default=rounds, help="how often each row runs, in turns")
    made.add_argument("--smoke", action="store_true", help="tiny sizes and one round: shows that it runs, not how fast")
    made.add_argument("--output", type=Path, help="folder of NAME.json and NAME.md (default: outputs/benchmarks)")
    for option, names in choices.items():
        more: dict[str, Any] = {"default": list(names), "metavar": option[:-1].upper(), "help": "; ".join(names)}
        made.add_argument(f"--{option}", nargs="+", choices=names, **more)
    return made


def quieten() -> None:
    """Silences the libraries' progress bars and warnings."""
    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    logging.set_verbosity_error()


def parse(made: argparse.ArgumentParser) -> argparse.Namespace:
    """Reads the command line and quietens the libraries; a smoke run has one round and a folder of its own."""
    guard_console()
    options = made.parse_args()
    quieten()
    options.rounds = 1 if options.smoke else options.rounds
    options.output = options.output or (OUTPUT / "smoke" if options.smoke else OUTPUT)
    options.machine = machine()
    print(", ".join(f"{name}={value}" for name, value in options.machine["settings"].items()))
    print(f"{options.machine['cpu']}, {options.machine['threads']} threads of torch", flush=True)
    if options.machine["busy"] > 10:
        print(f"warning: other programs take {options.machine['busy']:.0f} % of this machine's cores")
    return options


def machine() -> dict[str, Any]:
    """Returns what a figure depends on: versions, the CPU, threads and settings."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    cpu = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), cpu)
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    with contextlib.suppress(OSError):
        versions["commit"] = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    return {
        "versions": versions,
        "cpu": cpu,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "settings": {name: os.environ[name] for name in SETTINGS},
        "busy": psutil.cpu_percent(interval=1.0),  # per cent of the cores, before anything runs
    }


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Swallows what the training loops print, so that printing costs both sides the same: nothing."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


def interleaved(rows: Mapping[str, Callable[[], Result]], rounds: int) -> dict[str, list[Result]]:
    """Runs each row once a round, in another order each round: what slows the machine down meets all rows alike."""
    order, results = random.Random(0), dict[str, list[Result]]((name, []) for name in rows)
    for number in range(rounds):
        began = time.perf_counter()
        for name in order.sample(list(rows), len(rows)):
            gc.collect()
            gc.freeze()  # Trainer collects garbage once a run; searching this program's objects is not its work
            results[name].append(rows[name]())
            gc.unfreeze()
        print(f"round {number + 1} of {rounds}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    return results


def per_call(call: Callable[[], Any], seconds: float) -> float:
    """Calls a function for some seconds, at least three times, and returns the median seconds of a call."""
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Returns the median, the quartiles and the values themselves."""
    low, middle, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
    return {"median": middle, "q1": low, "q3": high, "values": list(values)}


def ratios(numerator: Sequence[float], denominator: Sequence[float]) -> dict[str, Any]:
    """Returns the spread of the ratios within each round."""
    return spread([a / b for a, b in zip(numerator, denominator, strict=True)])


def compared(
    results: Runs, against: Mapping[str, str], ratio: str = "ours_is_faster", field: str = "seconds"
) -> dict[str, Any]:
    """Returns the spread of each figure of each row, and how many times as long it takes as its counterpart, if any."""
    found = {name: {each: spread([run[each] for run in runs]) for each in runs[0]} for name, runs in results.items()}
    for name, other in against.items():
        if name in found and other in found and name != other:
            found[name][ratio] = ratios(*(found[row][field]["values"] for row in (name, other)))
    return found


def show(values: dict[str, Any] | None, digits: int = 2, scale: float = 1.0) -> str:
    """Writes a spread as `median (q1 - q3)`."""
    if values is None:
        return ""
    median, low, high = (f"{values[name] * scale:.{digits}f}" for name in ("median", "q1", "q3"))
    return f"{median} ({low} - {high})"


def table(header: Sequence[str], lines: Sequence[Sequence[Any]]) -> str:
    """Lays out a table in markdown."""
    rows = [list(header), ["---"] * len(header), *[[str(cell) for cell in line] for line in lines]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in rows)


def figures_table(first: str, found: Mapping[str, Any], columns: Mapping[str, tuple[str, int, float]]) -> str:
    """Lays out the spreads of rows; a column has its figure's name, digits and scale."""
    lines = [
        (name, *[show(row.get(figure), digits, scale) for figure, digits, scale in columns.values()])
        for name, row in found.items()
    ]
    return table((first, *columns), lines)


def report(name: str, options: argparse.Namespace, results: dict[str, Any], text: str) -> None:
    """Prints a benchmark's tables and leaves them and the figures in `options.output`."""
    asked = {key: value for key, value in vars(options).items() if key not in ("machine", "output")}
    record = {"benchmark": name, "options": asked, "machine": options.machine, "results": results}
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / f"{name}.json").write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")
    (options.output / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}\n\nwritten to {options.output / name}.json and .md")


def child(name: str, spec: dict[str, Any], launcher: Sequence[str] = (), **environment: str) -> dict[str, Any]:
    """Does one run of a benchmark as a process of its own, `benchmarks/__main__.py`, and returns what it found."""
    return json.loads(python("-m", "benchmarks", name, json.dumps(spec), launcher=launcher, **environment)[-1])


def python(*arguments: str, launcher: Sequence[str] = (), **environment: str) -> list[str]:
    """Runs Python as a process of its own and returns the lines that it printed; raises RuntimeError if it failed."""
    command = [sys.executable, *launcher, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout.splitlines()
