"""Puts what the benchmarks found into one picture, figures/speed.png, and into the tables of docs/speed.md."""

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from benchmarks import common
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
EPOCH, QUALITY, ANSWER = "An epoch from text", "Training to a quality", "An answer"


def pretrain(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Gives the rows of the benchmark of that name; so do the next two."""
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
            what = f"masked words {loss} nats"
            what += (
                f", next sentence {float(accuracy):.0%}" if float(accuracy) else ", whatever becomes of next sentences"
            )
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


READERS = {"pretrain": pretrain, "time_to_quality": time_to_quality, "inference": inference}


def collect(folder: Path) -> dict[str, Any]:
    """Gives the rows of every benchmark that has left its results in a folder, and how each was run.

    Raises:
        FileNotFoundError: one has left none.
        ValueError: one was run in part.
    """
    rows: list[dict[str, Any]] = []
    runs, floor, overhead, times = {}, {}, None, None
    for name in (*READERS, "overhead", "profile"):
        path = folder / f"{name}.json"
        if not path.exists():
            raise FileNotFoundError(f"there is no {path}: run benchmarks.{name} first")
        record = json.loads(path.read_text(encoding="utf-8"))
        if not is_whole(name, record):
            raise ValueError(f"{path} is of a part, or of a smoke run: run benchmarks.{name} as a whole first")
        runs[name] = {"rounds": record["options"]["rounds"], **record["machine"]}
        if name == "overhead":
            values = record["results"]["overhead"]["values"]
            overhead = {"median": round(statistics.median(values), 4), "least": min(values), "most": max(values)}
            continue
        if name == "profile":
            times = {group: round(seconds, 4) for group, seconds in record["results"]["AdamW, dropout 0"].items()}
            continue
        rows += READERS[name](record["results"])
        if name == "pretrain":
            toy = record["results"]["toy"]["rows"]
            floor = {
                row: round(found["share_of_floor"]["median"], 3) for row, found in toy.items() if row[:4] == "ours"
            }
            floor["with Muon"] = round(toy["ours, default recipe"]["share_with_muon"]["median"], 3)
    found = {"rows": rows, "share_of_floor": floor, "overhead_of_accelerate": overhead, "profile": times, "runs": runs}
    return {**found, **beside(folder)}


def beside(folder: Path) -> dict[str, Any]:
    """Gives the medians of the benchmarks that the table leaves to the text below it, if they were run."""
    found = {}
    for name in ("levers", "scaling"):
        if (folder / f"{name}.json").exists():
            record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            found[name] = {"rounds": record["options"]["rounds"], **record["machine"], **medians(record["results"])}
    return found


def medians(results: dict[str, Any]) -> dict[str, Any]:
    """Gives results with the median in the place of each spread."""
    return {
        name: round(each["median"], 4) if "median" in each else medians(each)
        for name, each in results.items()
        if isinstance(each, dict)
    }


def is_whole(name: str, record: dict[str, Any]) -> bool:
    """Tells whether a record has all the rows of its benchmark."""
    options, results = record["options"], record["results"]
    rows = {"pretrain": SIZES, "time_to_quality": ROWS, "inference": ("one", "batch", "start")}.get(name, ())
    chosen = options.get("rows") if name == "pretrain" else None
    return not (options["smoke"] or options.get("documents") or chosen or set(rows) - results.keys())


def blocks(found: dict[str, Any]) -> dict[str, str]:
    """Returns the tables of docs/speed.md, by the names in their markers: the medians, and the quartiles."""
    return {"speed": f"{tables(found['rows'], median)}{below(found)}", "quartiles": tables(found["rows"], quartiles)}


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
    text = ""
    floor, overhead, times = found["share_of_floor"], found["overhead_of_accelerate"], found["profile"]
    if floor:
        text += (
            f"\n\nAn epoch of the shipped size can't do without its matrix products. They alone would take "
            f"{floor['ours, dropout 0']:.0%} of its time with AdamW, and {floor['ours, default recipe']:.0%} with the "
            f"default recipe ({floor['with Muon']:.0%} if Muon's own products count)."
        )
    if overhead:
        text += (
            f" Beside a bare loop, accelerate and the log cost {overhead['median']:.1%}, less than the runs differ by "
            f"({overhead['least']:.1%} to {overhead['most']:.1%})."
        )
    if times:
        whole = times["all"]
        largest = sorted((name for name in times if name != "all"), key=times.__getitem__, reverse=True)[:5]
        shares = ", ".join(f"{name} {times[name] / whole:.0%}" for name in largest)
        text += f" With AdamW and no dropout, this is where that epoch's time goes: {shares}."
    return text


def is_drawn(row: dict[str, Any]) -> bool:
    """Tells whether a row is drawn: it has a ratio, which it has not where none of the peer's runs got there.

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
    parser.parse_args()
    try:
        found = collect(common.ROOT / "outputs" / "benchmarks")
    except (OSError, ValueError) as error:
        parser.exit(1, f"error: {error}\n")
    FIGURES.mkdir(exist_ok=True)
    (FIGURES / "speed.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    draw([row for row in found["rows"] if is_drawn(row)], FIGURES / "speed.png")
    write_pages(put(read_pages(), blocks(found)))
    print("\n\n".join(blocks(found).values()))


if __name__ == "__main__":
    main()
