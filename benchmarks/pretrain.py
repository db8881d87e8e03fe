"""One epoch from text to trained weights: ours against HF Trainer and a notebook's loop, and against the floor.

--levers times our side with one lever after the other taken away, --profile says where our time goes.
"""

import contextlib
import tempfile
import time
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from benchmarks import common, peers
from toybert.train.data.datasets import PretrainDataset
from toybert.train.pretrain import PretrainOptions

BATCH = PretrainOptions.batch_size
Product = tuple[int, int, int, int, int]  # a stack of how many products of (m, k) and (k, n), and how often


class Size(NamedTuple):
    """Holds the size of a model, and of its corpus: the stories without `vocab_size`, else synthetic text."""

    title: str
    layers: int = 2
    width: int = 128
    heads: int = 4
    vocab_size: int = 0
    documents: int = 40

    @property
    def fields(self) -> dict[str, int]:
        heads, wide = {"num_attention_heads": self.heads}, {"intermediate_size": 4 * self.width}
        return {"num_hidden_layers": self.layers, "hidden_size": self.width, **heads, **wide}

    def corpus(self, smoke: bool) -> peers.Corpus:
        documents = 4 if smoke else self.documents
        if not (V := self.vocab_size):
            return peers.stories(documents)
        return peers.with_stock(peers.synthetic_documents(documents, V), peers.synthetic_tokenizer(V, 128), 128)


class Row(NamedTuple):
    """Holds one way to train, the recipe that it follows, and our row that it is held against."""

    kind: str
    recipe: dict[str, Any]
    against: str


SIZES = {
    "toy": Size("the shipped size", documents=160),
    "2x128-8k": Size("2 x 128, 8,000 words", vocab_size=8_000),
    "2x128-30k": Size("2 x 128, 30,000 words", vocab_size=30_000),
    "4x256-8k": Size("4 x 256, 8,000 words", layers=4, width=256, vocab_size=8_000),
}
SLOW = ("padded", "notebook")  # these kinds, and RECIPES, run at the larger sizes only if --rows names them
RECIPES = {
    "ours, default recipe": Row("ours", {"epochs": 1}, "ours, default recipe"),
    "dynamic, the library's defaults": Row("dynamic", peers.LIBRARY_DEFAULTS, "ours, default recipe"),
}
ROWS = {
    f"{kind}, dropout {dropout:g}": Row(kind, peers.same_maths(dropout), f"ours, dropout {dropout:g}")
    for dropout in (0.1, 0.0)
    for kind in ("ours", "dynamic", "grouped", *(SLOW if dropout else ()))
} | RECIPES

ALL = "all levers"
same_lengths = property(lambda dataset: np.ones(len(dataset), dtype=int))
# What is taken away: fields of the model's configuration, or from the sampler how long the rows are.
LEVERS: dict[str, dict[str, Any]] = {
    ALL: {},
    "logits for every token": {"sparse_prediction": False},
    "batches of rows of any length": {"around": mock.patch.object(PretrainDataset, "lengths", same_lengths)},
}

# What is done, and the names of torch's operations that do it; the first that fits counts.
OPERATIONS = {
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
    "torch's other operations": ("",),
}
PYTHON = "Python, tokenising, and what torch does between operations"
PROFILED = {
    "AdamW, dropout 0.1": "ours, dropout 0.1",
    "AdamW, dropout 0": "ours, dropout 0",
    "default recipe": "ours, default recipe",
}


def epoch(
    row: Row, size: Size, corpus: peers.Corpus, pairs: Any = (), around: Any = None, **fields: Any
) -> tuple[nn.Module, dict[str, float]]:
    """Trains once, from text in memory to weights in memory, and returns the model, the seconds and the mean loss."""
    fields = {**size.fields, **fields}
    with tempfile.TemporaryDirectory() as folder, common.silence(), around or contextlib.nullcontext():
        options = peers.pretrain_options(folder, **row.recipe)
        began = time.perf_counter()
        rows = peers.encode(pairs, corpus, padding=row.kind in SLOW) if row.kind != "ours" else []
        if row.kind == "ours":
            model, figures = peers.train_ours(corpus, options, **fields)
        elif row.kind == "notebook":
            model, figures = peers.train_in_a_notebook(rows, corpus, options, **fields)
        else:
            model, figures = peers.train_with_trainer(
                rows, corpus, options, {"grouped": row.kind == "grouped"}, **fields
            )
        return model, {"seconds": time.perf_counter() - began, **figures}


def operations(size: Size, lengths: torch.Tensor, masked: float, vocab_size: int) -> float:
    """Counts the multiplications and additions of the matrix products of an epoch, forward and backward.

    With T real tokens in R rows of lengths S, N of them masked, L layers of width D with a feed-forward of I:

        3 * ( L * (2 T (4 D^2 + 2 D I) + 4 D sum(S^2)) + 2 N (D^2 + D V) + 2 R (D^2 + 2 D) )

    The backward pass has two products for each of the forward pass's: hence the 3. Padding and logits that nobody
    asked for are no part of it, and nor is anything that is not a matrix product.
    """
    D, V, L = size.width, vocab_size, size.layers
    T, R = int(lengths.sum()), len(lengths)
    layers = L * (2 * T * (4 * D * D + 2 * D * 4 * D) + 4 * D * int((lengths**2).sum()))
    return 3.0 * (layers + 2 * masked * (D * D + D * V) + 2 * R * (D * D + 2 * D))


def muon_operations(size: Size, steps: int) -> float:
    """Counts the products of Muon: in each of 5 iterations, for a matrix r by c, 4 r^2 c + 2 r^3."""
    square, wide = (5 * (4 * size.width**2 * c + 2 * size.width**3) for c in (size.width, 4 * size.width))
    return float(steps * size.layers * (4 * square + 2 * wide))


def products(size: Size, length: int, masked: int, vocab_size: int) -> list[Product]:
    """Lists the matrix products of a mean step."""
    D, I, V, T, H = size.width, 4 * size.width, vocab_size, BATCH * length, size.heads  # noqa: E741 (the paper's letter)
    forward = [
        (1, T, D, D, 4 * size.layers),
        (1, T, D, I, size.layers),
        (1, T, I, D, size.layers),
        (BATCH * H, length, D // H, length, size.layers),
        (BATCH * H, length, length, D // H, size.layers),
        (1, masked, D, D, 1),
        (1, masked, D, V, 1),
    ]
    of_the_input = [(s, m, n, k, times) for s, m, k, n, times in forward]
    of_the_weights = [(s, k, m, n, times) for s, m, k, n, times in forward]
    return forward + of_the_input + of_the_weights


def matrix_rate(shapes: list[Product], seconds: float = 0.5) -> float:
    """Measures how many operations a second this machine does in products of these shapes, each into memory it has."""
    calls = []
    for stack, m, k, n, times in shapes:
        a, b, out = torch.rand(stack, m, k), torch.rand(stack, k, n), torch.empty(stack, m, n)
        calls += [(torch.mm, a[0], b[0], out[0]) if stack == 1 else (torch.bmm, a, b, out)] * times

    def step() -> None:
        for multiply, a, b, out in calls:
            multiply(a, b, out=out)

    step()
    return sum(2 * stack * m * k * n * times for stack, m, k, n, times in shapes) / common.per_call(step, seconds)


def floor(size: Size, corpus: peers.Corpus, pairs: list[peers.Pair], recipe: dict[str, Any]) -> dict[str, Any]:
    """Returns the operations of an epoch, those of Muon, and the products of a mean step."""
    options, V = peers.pretrain_options(**recipe), len(corpus.tokenizer)
    lengths = torch.tensor([len(row["input_ids"]) for row in peers.encode(pairs, corpus)])
    masked = options.mlm_probability * float(lengths.sum() - 3 * len(lengths))
    return {
        "operations": operations(size, lengths, masked, V),
        "muon_operations": muon_operations(size, -(-len(lengths) // BATCH)) if options.muon_learning_rate else 0.0,
        "shapes": products(size, int(lengths.float().mean().round()), round(masked / len(lengths) * BATCH), V),
    }


def jobs(size: Size, rows: list[str], smoke: bool) -> tuple[peers.Corpus, list[peers.Pair], dict[str, Any]]:
    """Makes a size's corpus and its pairs, and the calls that train and measure each row."""
    corpus = size.corpus(smoke)
    pairs, batches = peers.text_pairs(corpus), peers.fixed_batches(corpus, rows=256)

    def run(row: str) -> dict[str, float]:
        model, figures = epoch(ROWS[row], size, corpus, pairs)
        return {**figures, **peers.measure(model, batches)}

    return corpus, pairs, {row: partial(run, row) for row in rows}


def compare(name: str, options: Any) -> tuple[dict[str, Any], str]:
    """Runs the rows of one size and returns their figures and their table."""
    size = SIZES[name]
    small = [row for row in ROWS if name == "toy" or (ROWS[row].kind not in SLOW and row not in RECIPES)]
    chosen = options.rows or small
    for run in jobs(size, chosen, smoke=True)[-1].values():  # whatever is slow only the first time is over after this
        run()
    corpus, pairs, runs = jobs(size, chosen, options.smoke)
    facts: dict[str, Any] = {**peers.check_alike(pairs, corpus, **size.fields), "vocabulary": len(corpus.tokenizer)}
    plain = floor(size, corpus, pairs, peers.same_maths(0.0))["shapes"]

    results = common.interleaved({**runs, "rate": lambda: matrix_rate(plain)}, options.rounds)
    rates = results.pop("rate")
    found = common.compared(results, {row: ROWS[row].against for row in chosen})
    for row in (row for row in chosen if ROWS[row].kind == "ours"):
        count, seconds = floor(size, corpus, pairs, ROWS[row].recipe), found[row]["seconds"]["values"]
        shares = {"share_of_floor": count["operations"]}  # of the row's seconds, that its products alone would take
        if count["muon_operations"]:
            shares["share_with_muon"] = count["operations"] + count["muon_operations"]
        for share, needed in shares.items():
            found[row][share] = common.ratios([needed / rate for rate in rates], seconds)
    check_losses(found)
    facts["matrix_rate"] = common.spread(rates)
    return {"facts": facts, "rows": found}, layout(name, size, facts, found)


def check_losses(found: dict[str, Any], tolerance: float = 0.1) -> None:
    """Refuses a comparison in which one side of the same maths learns otherwise than the other."""
    for name, figures in found.items():
        row = ROWS[name]
        if row.recipe is not peers.LIBRARY_DEFAULTS and row.against in found:
            theirs, ours = (found[each]["training_loss"]["median"] for each in (name, row.against))
            assert abs(theirs / ours - 1) < tolerance, (
                f"the training loss is {theirs:.3f} of {name}, {ours:.3f} of ours"
            )
            assert figures["mlm_loss"]["median"] < 20, f"{name} has diverged"


def layout(name: str, size: Size, facts: dict[str, Any], found: dict[str, Any]) -> str:
    """Lays out the table of one size."""
    columns = {
        "seconds": ("seconds", 2, 1.0),
        "ours is faster by": ("ours_is_faster", 2, 1.0),
        "of the floor": ("share_of_floor", 2, 1.0),
        "with Muon's products": ("share_with_muon", 2, 1.0),
        "loss": ("training_loss", 3, 1.0),
        "MLM after": ("mlm_loss", 3, 1.0),
        "NSP": ("nsp_accuracy", 3, 1.0),
    }
    return (
        f"### {name}: {size.layers} layers of {size.width}, {facts['parameters']:,} parameters, "
        f"{facts['vocabulary']:,} words; {facts['rows']:,} rows of {facts['tokens'] / facts['rows']:.0f} tokens, "
        f"batches of {BATCH}; matrix products at these shapes: {common.show(facts['matrix_rate'], 0, 1e-9)} GFLOP/s\n\n"
        f"{common.figures_table('row', found, columns)}"
    )


def levers(name: str, options: Any) -> tuple[dict[str, Any], str]:
    """Times an epoch of ours with all levers, and with one after the other taken away."""
    size = SIZES[name]
    corpus, row = size.corpus(options.smoke), ROWS["ours, dropout 0"]
    runs = {lever: lambda change=change: epoch(row, size, corpus, **change)[1] for lever, change in LEVERS.items()}
    for run in runs.values():  # whatever is slow only the first time is over after this
        run()
    found = common.compared(common.interleaved(runs, options.rounds), dict.fromkeys(runs, ALL), "slower")
    losses = {lever: figures["training_loss"]["values"][0] for lever, figures in found.items()}
    assert all(abs(loss / losses[ALL] - 1) < 0.1 for loss in losses.values()), f"not all learn alike: {losses}"
    columns = {"seconds": ("seconds", 2, 1.0), "times as long": ("slower", 2, 1.0), "loss": ("training_loss", 3, 1.0)}
    return found, f"### {name}\n\n{common.figures_table('', found, columns)}"


def profiled(name: str, options: Any) -> tuple[dict[str, Any], str]:
    """Returns the seconds of each kind of operation in an epoch of ours, by each recipe."""
    size, found = SIZES[name], {}
    corpus = size.corpus(options.smoke)
    for recipe, row in PROFILED.items():
        run = partial(epoch, ROWS[row], size, corpus)
        run()  # whatever is slow only the first time is over after this
        # timed without the profiler, which takes time itself
        whole = common.spread([run()[1]["seconds"] for _ in range(options.rounds)])["median"]
        run(around=(seen := profile(activities=[ProfilerActivity.CPU])))
        seconds = dict.fromkeys(OPERATIONS, 0.0)
        for event in seen.key_averages():
            if event.key.startswith("aten::"):
                kind = next(kind for kind, names in OPERATIONS.items() if any(each in event.key for each in names))
                seconds[kind] += event.self_cpu_time_total / 1e6
        found[recipe] = {**seconds, PYTHON: whole - sum(seconds.values()), "all": whole}
    lines = [
        (kind, *(f"{seconds[kind]:.2f} ({seconds[kind] / seconds['all']:.0%})" for seconds in found.values()))
        for kind in [*OPERATIONS, PYTHON, "all"]
    ]
    header = ("seconds (share of the epoch)", *PROFILED)
    return found, f"### {name}, one epoch from text\n\n{common.table(header, lines)}"


def main() -> None:
    parser = common.parser(__doc__, sizes=SIZES, rows=ROWS)
    parser.set_defaults(sizes=None, rows=None)  # what is left out at some sizes runs if it is named
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--levers", action="store_true", help="what each lever of our side brings, instead")
    instead.add_argument("--profile", action="store_true", help="where our time goes, at the toy size, instead")
    options = common.parse(parser)
    name, look = "pretrain", compare
    if options.levers or options.profile:
        name, look = ("levers", levers) if options.levers else ("profile", profiled)
    results, texts = {}, []
    for size in options.sizes or (["toy"] if options.profile else SIZES):
        results[size], text = look(size, options)
        texts.append(text)
        common.report(name, options, results, "\n\n".join(texts))  # after each: an interrupted run leaves something


if __name__ == "__main__":
    main()
