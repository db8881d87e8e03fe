"""Puts what the benchmarks found into the tables of docs/speed.md, figures/speed.json and figures/speed.png.

--real-text does so for the accuracies of benchmarks.real_text: README.md, docs/results.md and figures/real_text.json.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from benchmarks import common
from benchmarks.pretrain import SIZES
from benchmarks.real_text import REAL, real_blocks
from benchmarks.time_to_quality import OURS, ROWS
from toybert.train import cli
from toybert.train.release import put, read_pages, write_pages

FIGURES = common.ROOT / "figures"
PEERS = {
    "dynamic": "HF Trainer",
    "grouped": "HF Trainer, batches by length",
    "padded": "HF Trainer, padded to 64",
    "notebook": "a notebook's loop",
    "BERT": "transformers' BERT",
    "ONNX Runtime": "the same weights in ONNX Runtime",
}
ANSWERS = {"one": "one sentence", "batch": "32 sentences", "start": "a process's first"}
EPOCH, QUALITY, ANSWER = "An epoch from text", "Training to a quality", "An answer"
COLOURS = {EPOCH: "tab:blue", QUALITY: "tab:green", ANSWER: "tab:orange"}
# What the results of each benchmark hold if it was run as a whole.
WHOLE: dict[str, Collection[str]] = {
    "pretrain": SIZES,
    "time_to_quality": ROWS,
    "inference": ANSWERS,
    "overhead": ("overhead",),
    "profile": ("toy",),
}
COMMANDS = {"profile": "pretrain --profile", "levers": "pretrain --levers", "real_text_tune": "real_text --tune"}
Row = dict[str, Any]  # what is measured, against whom, and by what factor ours is faster


def read(folder: Path, name: str, whole: Collection[str] = ()) -> dict[str, Any]:
    """Reads what a benchmark has left; raises ValueError where that is of a smoke run, or of a part."""
    path, command = folder / f"{name}.json", f"python -m benchmarks.{COMMANDS.get(name, name)}"
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}: run {command} first")
    record = json.loads(path.read_text(encoding="utf-8"))
    options, results = record["options"], record["results"]
    chosen = name == "pretrain" and options["rows"]
    if options["smoke"] or chosen or set(whole) - results.get("tasks", results).keys():
        raise ValueError(f"{path} is of a part, or of a smoke run: run {command} as a whole first")
    return record


def collect_speed(folder: Path) -> dict[str, Any]:
    """Returns the rows of every benchmark that has left its results in a folder, and how each was run."""
    records = {name: read(folder, name, whole) for name, whole in WHOLE.items()}
    beside = {name: read(folder, name) for name in ("levers", "scaling") if (folder / f"{name}.json").exists()}
    every = {**records, **beside}  # the latter are for the text beside the tables, if they were run
    how = {name: {"rounds": record["options"]["rounds"], **record["machine"]} for name, record in every.items()}
    results = {name: record["results"] for name, record in every.items()}
    toy, overhead = results["pretrain"]["toy"]["rows"], results["overhead"]["overhead"]
    floor = {row: found["share_of_floor"] for row, found in toy.items() if row.startswith("ours")}
    floor["with Muon"] = toy["ours, default recipe"]["share_with_muon"]
    least, most = min(overhead["values"]), max(overhead["values"])
    return {
        "rows": [row for reader in (pretrain, time_to_quality, inference) for row in reader(results[reader.__name__])],
        "share_of_floor": {name: round(share["median"], 3) for name, share in floor.items()},
        "overhead_of_accelerate": {"median": round(overhead["median"], 4), "least": least, "most": most},
        "profile": {kind: round(seconds, 4) for kind, seconds in results["profile"]["toy"]["AdamW, dropout 0"].items()},
        "runs": {name: how[name] for name in records},
        **{name: {**how[name], **medians(results[name])} for name in beside},
    }


def medians(results: dict[str, Any]) -> dict[str, Any]:
    """Returns results with the median in the place of each spread."""
    return {
        name: round(each["median"], 4) if "median" in each else medians(each)
        for name, each in results.items()
        if isinstance(each, dict)
    }


def collect_real(folder: Path) -> dict[str, Any]:
    """Returns the accuracies on real text, how they were measured, and what the recipes were chosen from."""
    record = read(folder, "real_text", {task for task, *_ in REAL.values()})
    tried = read(folder, "real_text_tune")["results"]["tried"]
    shown = {name: record["options"][name] for name in ("rounds", "tasks")}
    return {**record["results"], "tried": tried, "options": shown, "machine": record["machine"]}


def pretrain(results: dict[str, Any]) -> Iterator[Row]:
    """Yields the rows of the benchmark of that name; so do the next two."""
    for size, found in results.items():
        for name, row in found["rows"].items():
            if "ours_is_faster" in row:
                kind, _, rest = name.partition(", ")
                what = "our default recipe against its defaults" if "library" in rest else rest
                yield entry(EPOCH, f"{SIZES[size].title}, {what}", PEERS[kind], row["ours_is_faster"])


def time_to_quality(results: dict[str, Any]) -> Iterator[Row]:
    for goal in (goal for goal in results[OURS] if ":" in goal):
        loss, accuracy = goal.split(":")
        others = f"next sentence {float(accuracy):.0%}" if float(accuracy) else "whatever becomes of next sentences"
        ours = results[OURS][goal]["seconds"]
        for name, row in results.items():
            if name == OURS:
                continue
            made = entry(QUALITY, f"masked words {loss} nats, {others}", name, row[goal]["ours_is_faster"])
            made["reached"] = [seconds is not None for seconds in row[goal]["seconds"]]
            if None in ours:
                yield {**made, "ours_reached": [seconds is not None for seconds in ours]}
            else:
                longest = max(round(run["curve"][-1]["seconds"]) for run in row["runs"])
                yield {**made, "ours": round(statistics.median(ours)), "longest": longest}


def inference(results: dict[str, Any]) -> Iterator[Row]:
    for group, what in ANSWERS.items():
        for name, row in results[group]["rows"].items():
            how, _, peer = name.rpartition(", ")
            if "ours_is_faster" in row:
                yield entry(ANSWER, f"{what}, {how}", PEERS[peer], row["ours_is_faster"])


def entry(group: str, what: str, peer: str, ratio: dict[str, Any] | None) -> Row:
    """Makes a row, with the factor and its quartiles if there is one."""
    made = {"group": group, "what": what, "peer": peer}
    if ratio:
        made |= {name: round(ratio[name], 3) for name in ("median", "q1", "q3")}
        made["at_least"] = bool(ratio.get("at_least"))
    return made


def speed_blocks(found: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/speed.md, by the names in their markers: the medians, and the quartiles."""
    rows = found["rows"]
    return {"speed": f"{tables(rows, median)}\n\n{below(found)}", "quartiles": tables(rows, quartiles)}


def tables(rows: Sequence[Row], cell: Callable[[Row], str]) -> str:
    """Lays out a table for each group: a row for each thing that is measured, a column for each peer."""
    made = []
    for group in dict.fromkeys(row["group"] for row in rows):
        cells = {(row["what"], row["peer"]): cell(row) for row in rows if row["group"] == group}
        whats, peers = (dict.fromkeys(names) for names in zip(*cells, strict=True))
        lines = [(what, *[cells.get((what, peer), "") for peer in peers]) for what in whats]
        made.append(common.table((group, *peers), lines))
    return "\n\n".join(made)


def median(row: Row) -> str:
    """Writes by what factor ours is faster than the peer, or how many runs got there where not all did."""
    if "ours_reached" in row:
        ours, reached = row["ours_reached"], row["reached"]
        return f"**ours got there in {sum(ours)} of {len(ours)} runs**, it in {sum(reached)}"
    if row["at_least"] and not any(row["reached"]):
        return f"**never got there** in {row['longest']} s (ours in {row['ours']} s)"
    if row["at_least"]:
        return f"at least **{row['median']:.2f}** ({sum(row['reached'])} of {len(row['reached'])} runs got there)"
    return f"**{row['median']:.2f}**" if row["median"] >= 1 else f"{row['median']:.2f}: ours is **slower**"


def quartiles(row: Row) -> str:
    """Writes the quartiles of that factor, where all runs got there."""
    return "" if "ours_reached" in row or row["at_least"] else f"{row['q1']:.2f} - {row['q3']:.2f}"


def below(found: dict[str, Any]) -> str:
    """Writes what stands below the medians: where an epoch's time goes."""
    floor, overhead, times = found["share_of_floor"], found["overhead_of_accelerate"], found["profile"]
    largest = sorted(times.keys() - {"all"}, key=times.__getitem__, reverse=True)[:5]
    shares = ", ".join(f"{name} {times[name] / times['all']:.0%}" for name in largest)
    return (
        f"An epoch of the shipped size can't do without its matrix products. They alone would take "
        f"{floor['ours, dropout 0']:.0%} of its time with AdamW, and {floor['ours, default recipe']:.0%} with the "
        f"default recipe ({floor['with Muon']:.0%} if Muon's own products count). Beside a bare loop, accelerate and "
        f"the log cost {overhead['median']:.1%}, less than the runs differ by ({overhead['least']:.1%} to "
        f"{overhead['most']:.1%}). With AdamW and no dropout, this is where that epoch's time goes: {shares}."
    )


def is_drawn(row: Row) -> bool:
    """Tells whether a row is drawn: it has a ratio, and of the larger sizes only the plainest rows are drawn."""
    if row["group"] == EPOCH and SIZES["toy"].title not in row["what"]:
        return row["what"].endswith("dropout 0.1") and row["peer"] == PEERS["dynamic"]
    return "ours_reached" not in row and (not row["at_least"] or any(row["reached"]))


def draw(rows: list[Row], path: Path) -> None:
    """Draws the ratios as bars on a logarithmic scale, with their quartiles; to the right of 1, ours is faster."""
    figure, axes = plt.subplots(figsize=(8, 0.24 * len(rows) + 1.2))
    places = range(len(rows))
    middle, low, high = ([row[name] for row in rows] for name in ("median", "q1", "q3"))
    errors = [[m - q for m, q in zip(middle, low, strict=True)], [q - m for m, q in zip(middle, high, strict=True)]]
    axes.barh(places, [m - 1 for m in middle], left=1, color=[COLOURS[row["group"]] for row in rows], height=0.7)
    axes.errorbar(middle, places, xerr=errors, fmt="none", ecolor="black", elinewidth=1, capsize=2)
    for place, row in enumerate(rows):
        if row["at_least"]:  # not all of the peer's runs got there
            axes.annotate("or more", (row["q3"], place), xytext=(5, -2), textcoords="offset points", fontsize=6.5)
    axes.set_yticks(places, [f"{row['what']}: {row['peer']}" for row in rows], fontsize=7.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    least, most = min(0.8, *low), max(2.0, *high)
    ticks = [tick for tick in (0.25, 0.5, 1, 1.5, 2, 3, 5, 8, 12) if least * 0.9 <= tick <= most * 1.1]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlim(least * 0.85, most * 1.5)  # room for "or more"
    axes.minorticks_off()
    axes.axvline(1, color="black", linewidth=1)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.set(xlabel="ours is slower < 1 < ours is faster (median of paired runs; the lines are quartiles)")
    used = [group for group in COLOURS if any(row["group"] == group for row in rows)]
    axes.legend([plt.Rectangle((0, 0), 1, 1, color=COLOURS[group]) for group in used], used, fontsize=7)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--real-text", action="store_true", help="the accuracies on real text, in place of the speed")
    real = parser.parse_args().real_text
    name, collect, blocks = ("real_text", collect_real, real_blocks) if real else ("speed", collect_speed, speed_blocks)
    try:
        found = collect(common.OUTPUT)
    except (OSError, ValueError) as error:
        parser.exit(1, f"error: {error}\n")
    (FIGURES / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if not real:
        draw([row for row in found["rows"] if is_drawn(row)], FIGURES / "speed.png")
    write_pages(put(read_pages(), blocks(found)))
    print("\n\n".join(blocks(found).values()))


if __name__ == "__main__":
    cli.run(main)
