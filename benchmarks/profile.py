"""Where the time of an epoch goes on our side: by operation of torch, and what is left for Python."""

import tempfile
import time
from typing import Any

from torch.profiler import ProfilerActivity, profile

from benchmarks import common, peers
from benchmarks.pretrain import SIZES, Size

# What is done, and the names of torch's operations that do it; the first that fits counts.
GROUPS = {
    "matrix products": ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"),
    "attention": ("scaled_dot_product", "flash_attention"),
    "GELU": ("gelu",),
    "dropout": ("dropout", "bernoulli"),
    "layer norm": ("layer_norm",),
    "AdamW's update": ("adam",),
    "norms of the gradients": ("_norm", "clip", "foreach"),
    "losses": ("softmax", "nll_loss"),
    "choosing and copying": ("embedding", "index", "gather", "copy", "select", "nonzero", "cat", "fill", "zero"),
    "adding and scaling": ("aten::add", "aten::mul", "aten::div", "aten::sum", "aten::tanh"),
}
OTHER, PYTHON = "torch's other operations", "Python, tokenising, and what torch does between operations"
RECIPES: dict[str, dict[str, Any]] = {
    "AdamW, dropout 0.1": peers.same_maths(0.1),
    "AdamW, dropout 0": peers.same_maths(0.0),
    "default recipe": {"epochs": 1},
}


def group_of(operation: str) -> str:
    return next((group for group, names in GROUPS.items() if any(name in operation for name in names)), OTHER)


def seconds(corpus: peers.Corpus, size: Size, recipe: dict[str, Any], watch: Any = None) -> tuple[float, Any]:
    """Trains for an epoch from text in memory; gives the seconds, and what a profiler saw if there is one."""
    with tempfile.TemporaryDirectory() as folder, common.silence():
        options = peers.pretrain_options(folder, **recipe)
        began = time.perf_counter()
        if watch is None:
            peers.train_ours(corpus, options, **size.fields)
        else:
            with watch:
                peers.train_ours(corpus, options, **size.fields)
        return time.perf_counter() - began, watch


def look(corpus: peers.Corpus, size: Size, recipe: dict[str, Any], rounds: int) -> dict[str, float]:
    """Gives the seconds of each group; the whole is timed without the profiler, which costs some itself."""
    seconds(corpus, size, recipe)  # whatever is only slow the first time is over after this
    whole = common.spread([seconds(corpus, size, recipe)[0] for _ in range(rounds)])["median"]
    _, seen = seconds(corpus, size, recipe, profile(activities=[ProfilerActivity.CPU]))
    found = dict.fromkeys([*GROUPS, OTHER], 0.0)
    for event in seen.key_averages():
        if event.key.startswith("aten::"):
            found[group_of(event.key)] += event.self_cpu_time_total / 1e6
    return {**found, PYTHON: whole - sum(found.values()), "all": whole}


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--size", choices=SIZES, default="toy")
    options = common.parse(parser)
    size = SIZES[options.size]
    corpus = size.corpus(8 if options.smoke else size.documents)
    results = {name: look(corpus, size, recipe, options.rounds) for name, recipe in RECIPES.items()}
    lines = [
        (group, *(f"{found[group]:.2f} ({found[group] / found['all']:.0%})" for found in results.values()))
        for group in [*GROUPS, OTHER, PYTHON, "all"]
    ]
    header = ("seconds (share of the epoch)", *RECIPES)
    common.report("profile", options, results, f"{options.size}, one epoch from text.\n\n{common.table(header, lines)}")


if __name__ == "__main__":
    main()
