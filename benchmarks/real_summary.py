"""Puts what benchmarks.real_text found into the README's table and figures/real_text.json."""

import argparse
import json
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks import common
from benchmarks.summary import FIGURES
from toybert.train.release import replaced

PARTS = {  # of the tasks, and what the table calls them
    ("sst2", "dev"): "SST-2, dev",
    ("sst2", "test"): "SST-2, test",
    ("polarity", "test"): "film reviews",
    ("spam", "test"): "SMS spam",
}


def collect(record: dict[str, Any], tuning: dict[str, Any]) -> dict[str, Any]:
    """Gives what the card shows of a run's results, how it was run, and what its recipes were chosen from.

    Raises:
        ValueError: it was a smoke run, or left a column of the table out.
    """
    results = record["results"]
    if record["options"]["smoke"] or not {task for task, _ in PARTS} <= results["tasks"].keys():
        raise ValueError("run benchmarks.real_text on sst2, polarity and spam first")
    shown = {name: record["options"][name] for name in ("rounds", "tasks")}
    return {**results, "tried": tuning["results"]["tried"], "options": shown, "machine": record["machine"]}


def block(found: dict[str, Any]) -> str:
    """Writes the README's table, and a sentence on the tales if they were measured."""
    tasks = found["tasks"]
    lines = []
    for model, first in tasks["sst2"].items():
        size = f"{first[0]['parameters'] / 1e6:.1f} M" if first[0]["parameters"] else ""
        found_there = [[run["parts"][part] for run in tasks[task][model]] for task, part in PARTS]
        cells = [shares([run["accuracy"] for run in runs]) for runs in found_there]
        cells[-1] += f", macro-F1 {shares([run['macro_f1'] for run in found_there[-1]])}"
        lines.append((model, size, *cells))
    names = []
    for (task, part), name in PARTS.items():
        one = next(iter(tasks[task].values()))[0]
        names.append(f"{name}: {one['train']:,} / {one['parts'][part]['rows']:,}")
    table = common.table(("", "parameters", *names), lines)
    return f"{table}\n\n{on_tales(tasks['tales']['ToyBERT'])}" if "tales" in tasks else table


def on_tales(runs: list[dict[str, dict[str, float]]]) -> str:
    """Says what is known of the tales."""

    def of(task: str, name: str) -> str:
        return shares([run[task][name] for run in runs])

    return (
        f"On held-out stretches of the tales: masked words {of('mlm', 'accuracy')} (the commonest word "
        f"{of('mlm', 'unigram_accuracy')}, the word between its neighbours {of('mlm', 'bigram_accuracy')}), next "
        f"sentences {of('nsp', 'accuracy')} (length {of('nsp', 'length_only_accuracy')}, shared words "
        f"{of('nsp', 'word_overlap_accuracy')}, all pairs of words {of('nsp', 'word_pairs_accuracy')})."
    )


def shares(values: Sequence[float]) -> str:
    """Writes the mean of some shares and, of several, the least and the most."""
    spread = f" ({min(values) * 100:.1f} - {max(values) * 100:.1f})" if len(values) > 1 else ""
    return f"{statistics.mean(values) * 100:.1f}{spread} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    folder = common.ROOT / "outputs" / "benchmarks"
    try:
        names = ("real_text", "real_text_tune")
        found = collect(*(json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in names))
    except FileNotFoundError as error:
        parser.exit(1, f"error: there is no {error.filename}: run benchmarks.real_text first, and with --tune\n")
    except ValueError as error:
        parser.exit(1, f"error: {error}\n")
    (FIGURES / "real_text.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    readme = common.ROOT / "README.md"
    card = replaced(readme.read_text(encoding="utf-8"), r"<!-- real -->\n(.*?)<!-- /real -->", block(found) + "\n")
    readme.write_text(card, encoding="utf-8")
    print(block(found))


if __name__ == "__main__":
    main()
