"""Puts what the benchmarks found into the tables of docs/speed.md, figures/speed.json and figures/speed.png.

--real-text does so for the accuracies of benchmarks.real_text: README.md, docs/results.md and figures/real_text.json.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from benchmarks import common
from benchmarks.real_text import mean, on_tales, spread
from benchmarks.time_to_quality import OURS, ROWS
from toybert.train.release import put, read_pages, write_pages

FIGURES = common.ROOT / "figures"
SIZES = {
    "toy": "the shipped size",
    "2x128-8k": "2 x 128, 8,000 words",
    "2x128-30k": "2 x 128, 30,000 words",
    "4x256-8k": "4 x 256, 8,000 words",
}
PEERS = {
    "dynamic": "HF Trainer",
    "grouped": "HF Trainer, batches by length",
    "padded": "HF Trainer, padded to 64",
    "notebook": "a notebook's loop",
}
REAL = {  # tasks and their parts, and what the table calls them
    ("sst2", "dev"): "SST-2, dev",
    ("sst2", "test"): "SST-2, test",
    ("polarity", "test"): "film reviews",
    ("spam", "test"): "SMS spam",
}
EPOCH, QUALITY, ANSWER = "An epoch from text", "Training to a quality", "An answer"


# What the results of each benchmark hold if it was run as a whole.
WHOLE: dict[str, Collection[str]] = {
    "pretrain": SIZES,
    "time_to_quality": ROWS,
    "inference": ("one", "batch", "start"),
    "overhead": ("overhead",),
    "profile": ("toy",),
}
COMMANDS = {"profile": "pretrain --profile", "levers": "pretrain --levers", "real_text_tune": "real_text --tune"}


def read(folder: Path, name: str, whole: Collection[str] = ()) -> dict[str, Any]:
    """Reads what a benchmark has left.

    Raises:
        FileNotFoundError: it has left nothing.
        ValueError: it was a smoke run, or one of a part.
    """
    path, command = folder / f"{name}.json", f"python -m benchmarks.{COMMANDS.get(name, name)}"
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}: run {command} first")
    record = json.loads(path.read_text(encoding="utf-8"))
    if not is_whole(record, whole):
        raise ValueError(f"{path} is of a part, or of a smoke run: run {command} as a whole first")
    return record


def is_whole(record: dict[str, Any], whole: Collection[str]) -> bool:
    """Tells whether a record is of no smoke run, and has all of these results with all their rows."""
    options, results = record["options"], record["results"]
    results = results.get("tasks", results)
    chosen = record["benchmark"] == "pretrain" and options["rows"]
    return not (options["smoke"] or chosen or set(whole) - results.keys())


def how_run(record: dict[str, Any]) -> dict[str, Any]:
    return {"rounds": record["options"]["rounds"], **record["machine"]}


def collect_speed(folder: Path) -> dict[str, Any]:
    """Returns the rows of every benchmark that has left its results in a folder, and how each was run."""
    records = {name: read(folder, name, whole) for name, whole in WHOLE.items()}
    results = {name: record["results"] for name, record in records.items()}
    toy, overhead = results["pretrain"]["toy"]["rows"], results["overhead"]["overhead"]["values"]
    floor = {row: found["share_of_floor"] for row, found in toy.items() if row.startswith("ours")}
    floor["with Muon"] = toy["ours, default recipe"]["share_with_muon"]
    times = results["profile"]["toy"]["AdamW, dropout 0"]
    found = {
        "rows": [row for reader in (pretrain, time_to_quality, inference) for row in reader(results[reader.__name__])],
        "share_of_floor": {name: round(share["median"], 3) for name, share in floor.items()},
        "overhead_of_accelerate": {
            "median": round(statistics.median(overhead), 4),
            "least": min(overhead),
            "most": max(overhead),
        },
        "profile": {kind: round(seconds, 4) for kind, seconds in times.items()},
        "runs": {name: how_run(record) for name, record in records.items()},
    }
    for name in ("levers", "scaling"):  # which are for the text beside the tables, if they were run
        if (folder / f"{name}.json").exists():
            record = read(folder, name)
            found[name] = {**how_run(record), **medians(record["results"])}
    return found


def medians(results: dict[str, Any]) -> dict[str, Any]:
    """Returns results with the median in the place of each spread."""
    return {
        name: round(each["median"], 4) if "median" in each else medians(each)
        for name, each in results.items()
        if isinstance(each, dict)
    }


def collect_real(folder: Path) -> dict[str, Any]:
    """Returns the accuracies on real text, how they were measured, and what the recipes were chosen from."""
    record = read(folder, "real_text", {task for task, _ in REAL})
    tried = read(folder, "real_text_tune")["results"]["tried"]
    shown = {name: record["options"][name] for name in ("rounds", "tasks")}
    return {**record["results"], "tried": tried, "options": shown, "machine": record["machine"]}


def pretrain(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of the benchmark of that name; so do the next two."""
    rows = []
    for size, found in results.items():
        for name, row in found["rows"].items():
            if "ours_is_faster" in row:
                kind, _, rest = name.partition(", ")
                what = "our default recipe against its defaults" if "library" in rest else rest
                rows.append(entry(EPOCH, f"{SIZES[size]}, {what}", PEERS[kind], row["ours_is_faster"]))
    return rows


def time_to_quality(results: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for goal in (goal for goal in next(iter(results.values())) if ":" in goal):
        ours = results[OURS][goal]["seconds"]
        for name, found in ((name, row[goal]) for name, row in results.items() if name != OURS):
            loss, accuracy = goal.split(":")
            others = f"next sentence {float(accuracy):.0%}" if float(accuracy) else "whatever becomes of next sentences"
            what = f"masked words {loss} nats, {others}"
            there = {"reached": [seconds is not None for seconds in found["seconds"]]}
            if None in ours:
                there["ours_reached"] = [seconds is not None for seconds in ours]
                rows.append({"group": QUALITY, "what": what, "peer": name, **there})
                continue
            made = {**entry(QUALITY, what, name, found["ours_is_faster"]), **there}
            made["ours"] = round(statistics.median(ours))
            made["longest"] = max(round(run["curve"][-1]["seconds"]) for run in results[name]["runs"])
            rows.append(made)
    return rows


def inference(results: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for group, what in (("one", "one sentence"), ("batch", "32 sentences"), ("start", "a process's first")):
        for name, row in results.get(group, {"rows": {}})["rows"].items():
            how, _, peer = name.rpartition(", ")
            if "ours_is_faster" in row:
                peer = {"BERT": "transformers' BERT", "ONNX Runtime": "the same weights in ONNX Runtime"}[peer]
                rows.append(entry(ANSWER, f"{what}, {how}", peer, row["ours_is_faster"]))
    return rows


def entry(group: str, what: str, peer: str, ratio: dict[str, Any]) -> dict[str, Any]:
    """Makes a row: what is measured, against whom, and by what factor ours is faster, with the quartiles."""
    rounded = {name: round(ratio[name], 3) for name in ("median", "q1", "q3")}
    return {"group": group, "what": what, "peer": peer, **rounded, "at_least": bool(ratio.get("at_least"))}


def speed_blocks(found: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/speed.md, by the names in their markers: the medians, and the quartiles."""
    return {
        "speed": f"{tables(found['rows'], median)}\n\n{below(found)}",
        "quartiles": tables(found["rows"], quartiles),
    }


def tables(rows: Sequence[dict[str, Any]], cell: Callable[[dict[str, Any]], str]) -> str:
    """Lays out a table for each group: a row for each thing that is measured, a column for each peer."""
    made = []
    for group in dict.fromkeys(row["group"] for row in rows):
        cells: dict[str, dict[str, str]] = {}
        for row in (row for row in rows if row["group"] == group):
            cells.setdefault(row["what"], {})[row["peer"]] = cell(row)
        peers = list(dict.fromkeys(peer for by in cells.values() for peer in by))
        lines = [(what, *[by.get(peer, "") for peer in peers]) for what, by in cells.items()]
        made.append(common.table((group, *peers), lines))
    return "\n\n".join(made)


def median(row: dict[str, Any]) -> str:
    """Writes by what factor ours is faster than the peer, or how many runs got there where not all did."""
    if "ours_reached" in row:
        ours, reached = row["ours_reached"], row["reached"]
        return f"**ours got there in {sum(ours)} of {len(ours)} runs**, it in {sum(reached)}"
    if row["at_least"] and not any(row["reached"]):
        return f"**never got there** in {row['longest']} s (ours in {row['ours']} s)"
    if row["at_least"]:
        return f"at least **{row['median']:.2f}** ({sum(row['reached'])} of {len(row['reached'])} runs got there)"
    return f"**{row['median']:.2f}**" if row["median"] >= 1 else f"{row['median']:.2f}: ours is **slower**"


def quartiles(row: dict[str, Any]) -> str:
    """Writes the quartiles of that factor, where all runs got there."""
    return "" if "ours_reached" in row or row["at_least"] else f"{row['q1']:.2f} - {row['q3']:.2f}"


def below(found: dict[str, Any]) -> str:
    """Writes what stands below the medians: where an epoch's time goes."""
    floor, overhead, times = found["share_of_floor"], found["overhead_of_accelerate"], found["profile"]
    largest = sorted((name for name in times if name != "all"), key=times.__getitem__, reverse=True)[:5]
    shares = ", ".join(f"{name} {times[name] / times['all']:.0%}" for name in largest)
    return (
        f"An epoch of the shipped size can't do without its matrix products. They alone would take "
        f"{floor['ours, dropout 0']:.0%} of its time with AdamW, and {floor['ours, default recipe']:.0%} with the "
        f"default recipe ({floor['with Muon']:.0%} if Muon's own products count). Beside a bare loop, accelerate and "
        f"the log cost {overhead['median']:.1%}, less than the runs differ by ({overhead['least']:.1%} to "
        f"{overhead['most']:.1%}). With AdamW and no dropout, this is where that epoch's time goes: {shares}."
    )


def real_blocks(found: dict[str, Any]) -> dict[str, str]:
    """Returns the card's rows, and the tables of docs/results.md, by the names in their markers."""
    tasks = found["tasks"]
    measured = [(name, tasks[task], part) for (task, part), name in REAL.items()]  # each a column, or a row

    def lines(cell: Callable[[Sequence[float]], str]) -> list[tuple[str, ...]]:
        made = []
        for model, first in tasks["sst2"].items():
            size = f"{first[0]['parameters'] / 1e6:.1f} M" if first[0]["parameters"] else ""
            runs = [[run["parts"][part] for run in models[model]] for _, models, part in measured]
            figures = [[run["accuracy"] for run in each] for each in runs]
            figures.append([run["macro_f1"] for run in runs[-1]])
            made.append((model, size, *[cell(values) for values in figures]))
        return made

    header = ("accuracy", "parameters", *REAL.values(), f"{measured[-1][0]}, macro-F1")
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


def is_drawn(row: dict[str, Any]) -> bool:
    """Tells whether a row is drawn: it has a ratio, as a row in which none of the peer's runs got there has not.

    Of the larger sizes, dropout 0 and batches by length are in the table alone.
    """
    if row["group"] == EPOCH and SIZES["toy"] not in row["what"]:
        return row["what"].endswith("dropout 0.1") and row["peer"] == PEERS["dynamic"]
    return "ours_reached" not in row and (not row["at_least"] or any(row["reached"]))


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draws the ratios as bars on a logarithmic scale, with their quartiles; to the right of 1, ours is faster."""
    figure, axes = plt.subplots(figsize=(8, 0.24 * len(rows) + 1.2))
    colours = dict(zip((EPOCH, QUALITY, ANSWER), ("tab:blue", "tab:green", "tab:orange"), strict=True))
    names = [f"{row['what']}: {row['peer']}" for row in rows]
    for place, row in enumerate(rows):
        error = [[row["median"] - row["q1"]], [row["q3"] - row["median"]]]
        axes.barh(place, row["median"] - 1, left=1, color=colours[row["group"]], height=0.7)
        if row["at_least"]:  # not all of the peer's runs got there
            axes.annotate("or more", (row["q3"], place), xytext=(5, -2), textcoords="offset points", fontsize=6.5)
        axes.errorbar(row["median"], place, xerr=error, color="black", linewidth=1, capsize=2)
    axes.set_yticks(range(len(rows)), names, fontsize=7.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    ticks = [0.25, 0.5, 1, 1.5, 2, 3, 5, 8, 12]
    low, high = min(0.8, *(row["q1"] for row in rows)), max(2.0, *(row["q3"] for row in rows))
    ticks = [tick for tick in ticks if low * 0.9 <= tick <= high * 1.1]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlim(low * 0.85, high * 1.5)  # room for "or more"
    axes.minorticks_off()
    axes.axvline(1, color="black", linewidth=1)
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.set(xlabel="ours is slower < 1 < ours is faster (median of paired runs; the lines are quartiles)")
    used = [group for group in colours if any(row["group"] == group for row in rows)]
    axes.legend([plt.Rectangle((0, 0), 1, 1, color=colours[group]) for group in used], used, fontsize=7)
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
    main()
