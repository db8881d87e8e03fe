"""Puts what benchmarks.real_text found into the card, docs/results.md and figures/real_text.json."""

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks import common
from benchmarks.summary import FIGURES
from toybert.train.release import put, read_pages, write_pages

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


def blocks(found: dict[str, Any]) -> dict[str, str]:
    """Returns the card's rows, and the tables of docs/results.md, by the names in their markers."""
    tasks = found["tasks"]
    measured = [(name, tasks[task], part) for (task, part), name in PARTS.items()]  # each a column, or a row

    def lines(cell: Callable[[Sequence[float]], str]) -> list[tuple[str, ...]]:
        made = []
        for model, first in tasks["sst2"].items():
            size = f"{first[0]['parameters'] / 1e6:.1f} M" if first[0]["parameters"] else ""
            runs = [[run["parts"][part] for run in models[model]] for _, models, part in measured]
            figures = [[run["accuracy"] for run in each] for each in runs]
            figures.append([run["macro_f1"] for run in runs[-1]])
            made.append((model, size, *[cell(values) for values in figures]))
        return made

    header = ("accuracy", "parameters", *PARTS.values(), f"{measured[-1][0]}, macro-F1")
    ones = [(next(iter(models.values()))[0], part) for _, models, part in measured]
    rows = [
        ("(rows to learn from)", "", *[f"{one['train']:,}" for one, _ in ones], ""),
        ("(rows to measure on)", "", *[f"{one['parts'][part]['rows']:,}" for one, part in ones], ""),
    ]
    full = common.table(header, [*lines(mean), *rows])
    ranges = common.table(header, [line for line in lines(spread) if any(line[2:])])
    if "tales" in tasks:
        full += f"\n\n{on_tales(tasks['tales']['ToyBERT'], mean)}"
        ranges += f"\n\n{on_tales(tasks['tales']['ToyBERT'], spread)}"
    return {"real": full, "ranges": ranges, "real_rows": brief(measured)}


def brief(measured: Sequence[tuple[str, dict[str, Any], str]]) -> str:
    """Lays out the card's rows: the sets whose rows nothing was chosen on, and a column for each kind of model."""
    kinds = {
        "a linear model": ("naive Bayes", "logistic regression"),  # the better one
        "transformers' BERT, from scratch": ("transformers' BERT",),
        "ToyBERT, from scratch": ("ToyBERT, from scratch",),
        "ToyBERT, pre-trained": ("ToyBERT, pre-trained",),
    }
    lines = []
    for name, models, part in measured:
        if part == "test":
            means = [
                max(
                    statistics.mean(run["parts"][part]["accuracy"] for run in runs)
                    for model, runs in models.items()
                    if model.startswith(beginnings)
                )
                for beginnings in kinds.values()
            ]
            best = max(round(value, 3) for value in means)
            shown = [f"**{mean([value])}**" if round(value, 3) == best else mean([value]) for value in means]
            lines.append((name.removesuffix(", test"), *shown))
    return common.table(("accuracy", *kinds), lines)


def on_tales(runs: list[dict[str, dict[str, float]]], cell: Callable[[Sequence[float]], str]) -> str:
    """Lays out what was measured on held-out stretches of the tales."""
    words = {"unigram": "the commonest word", "bigram": "the word between its neighbours"}
    pairs = {"length_only": "length", "word_overlap": "shared words", "word_pairs": "all pairs of words"}
    made = []
    for name, task, others in (("masked words", "mlm", words), ("next sentences", "nsp", pairs)):
        keys = ("accuracy", *[f"{other}_accuracy" for other in others])
        line = [cell([run[task][key] for run in runs]) for key in keys]
        made.append(common.table(("the tales", "ToyBERT", *others.values()), [(name, *line)]))
    return "\n\n".join(made)


def mean(values: Sequence[float]) -> str:
    """Writes the mean of some shares."""
    return f"{statistics.mean(values) * 100:.1f} %"


def spread(values: Sequence[float]) -> str:
    """Writes the least and the most of some shares, if there are several."""
    return f"{min(values) * 100:.1f} - {max(values) * 100:.1f} %" if len(values) > 1 else ""


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
    write_pages(put(read_pages(), blocks(found)))
    print("\n\n".join(blocks(found).values()))


if __name__ == "__main__":
    main()
