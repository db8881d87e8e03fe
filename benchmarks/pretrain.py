"""One epoch from text to trained weights: ours against HF Trainer and a notebook's loop, and against the floor."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from benchmarks import common, peers
from toybert.train.pretrain import PretrainOptions

BATCH = PretrainOptions.batch_size


@dataclass(frozen=True)
class Size:
    """Holds the size of a model, and of its corpus: the stories without `vocab_size`, else synthetic text."""

    layers: int = 2
    width: int = 128
    heads: int = 4
    vocab_size: int = 0
    documents: int = 40

    @property
    def fields(self) -> dict[str, int]:
        return {
            "num_hidden_layers": self.layers,
            "hidden_size": self.width,
            "num_attention_heads": self.heads,
            "intermediate_size": 4 * self.width,
        }

    def corpus(self, documents: int) -> peers.Corpus:
        return peers.synthetic(documents, self.vocab_size) if self.vocab_size else peers.stories(documents)


SIZES = {
    "toy": Size(documents=160),
    "2x128-8k": Size(vocab_size=8_000),
    "2x128-30k": Size(vocab_size=30_000),
    "4x256-8k": Size(layers=4, width=256, vocab_size=8_000),
}


@dataclass(frozen=True)
class Row:
    """Holds one way to train, the recipe that it follows, and our row that it is held against."""

    kind: str
    recipe: dict[str, Any]
    against: str


def rows() -> dict[str, Row]:
    """Gives the rows of the table, by their names."""
    made = {}
    for dropout in (0.1, 0.0):
        recipe, ours = peers.same_maths(dropout), f"ours, dropout {dropout:g}"
        made[ours] = Row("ours", recipe, ours)
        for kind in ("dynamic", "grouped") + (("padded", "notebook") if dropout else ()):
            made[f"{kind}, dropout {dropout:g}"] = Row(kind, recipe, ours)
    made["ours, default recipe"] = Row("ours", {"epochs": 1}, "ours, default recipe")
    made["dynamic, the library's defaults"] = Row("dynamic", peers.LIBRARY_DEFAULTS, "ours, default recipe")
    return made


ROWS = rows()
SLOW = ("padded", "notebook")  # these kinds and these rows are run at the larger sizes only if --rows names them
RECIPES = ("ours, default recipe", "dynamic, the library's defaults")


def run(row: Row, size: Size, corpus: peers.Corpus, pairs: list[peers.Pair], batches: Any) -> dict[str, float]:
    """Trains once, from text in memory to weights in memory, then looks at what was learnt."""
    with tempfile.TemporaryDirectory() as folder, common.silence():
        options = peers.pretrain_options(folder, **row.recipe)
        began = time.perf_counter()
        if row.kind == "ours":
            model, figures = peers.train_ours(corpus, options, **size.fields)
        else:
            encoded = peers.encode(pairs, corpus, padding=row.kind in SLOW)
            if row.kind == "notebook":
                model, figures = peers.train_in_a_notebook(encoded, corpus, options, **size.fields)
            else:
                grouped = row.kind == "grouped"
                model, figures = peers.train_with_trainer(encoded, corpus, options, grouped, **size.fields)
        seconds = time.perf_counter() - began
        return {"seconds": seconds, **figures, **peers.measure(model, batches)}


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
    D = size.width

    def one(r: int, c: int) -> int:
        return 5 * (4 * r * r * c + 2 * r**3)

    return float(steps * size.layers * (4 * one(D, D) + 2 * one(D, 4 * D)))


def products(size: Size, length: int, masked: int, vocab_size: int) -> list[tuple[int, int, int, int, int]]:
    """Lists the matrix products of a mean step, (stack, m, k, n, how often): what `matrix_rate` runs."""
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
    backward = [(s, m, n, k, times) for s, m, k, n, times in forward]  # of the input
    backward += [(s, k, m, n, times) for s, m, k, n, times in forward]  # of the weights
    return forward + backward


def matrix_rate(shapes: list[tuple[int, int, int, int, int]], seconds: float = 0.5) -> float:
    """Measures how many operations a second this machine does in products of these shapes, each into memory it has."""
    calls = []
    for stack, m, k, n, times in shapes:
        a, b, out = torch.rand(stack, m, k), torch.rand(stack, k, n), torch.empty(stack, m, n)
        one = (torch.mm, a[0], b[0], out[0]) if stack == 1 else (torch.bmm, a, b, out)
        calls += [one] * times
    count = sum(2 * stack * m * k * n * times for stack, m, k, n, times in shapes)
    passes: list[float] = []
    began = time.perf_counter()
    while len(passes) < 4 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        for multiply, a, b, out in calls:
            multiply(a, b, out=out)
        passes.append(time.perf_counter() - start)
    return count / sorted(passes[1:])[len(passes[1:]) // 2]


def floor(size: Size, corpus: peers.Corpus, pairs: list[peers.Pair], probability: float) -> dict[str, Any]:
    """Gives the operations of an epoch, and the shapes of a mean step."""
    lengths = torch.tensor([len(row["input_ids"]) for row in peers.encode(pairs, corpus)])
    masked = probability * float(lengths.sum() - 3 * len(lengths))
    mean = int(lengths.float().mean().round())
    V = len(corpus.tokenizer)
    return {
        "operations": operations(size, lengths, masked, V),
        "shapes": products(size, mean, round(masked / len(lengths) * BATCH), V),
        "muon_operations": muon_operations(size, -(-len(lengths) // BATCH)),
    }


def benchmark(name: str, size: Size, chosen: list[str], options: Any) -> tuple[dict[str, Any], str]:
    """Runs the rows of one size and gives their figures and their table."""
    corpus = size.corpus(options.documents or (4 if options.smoke else size.documents))
    pairs = peers.text_pairs(corpus)
    with tempfile.TemporaryDirectory() as folder:
        parameters = peers.check_same_size(corpus, peers.pretrain_options(folder), **size.fields)
    facts: dict[str, Any] = {
        "parameters": parameters,
        **peers.check_same_rows(pairs, corpus),
        "vocabulary": len(corpus.tokenizer),
    }
    batches = peers.fixed_batches(corpus, rows=256)
    counts = {r: floor(size, corpus, pairs, probability_of(ROWS[r])) for r in chosen if ROWS[r].kind == "ours"}
    plain = floor(size, corpus, pairs, 0.15)["shapes"]

    small = size.corpus(4)  # whatever is only slow the first time is over after this
    small_pairs, small_batches = peers.text_pairs(small), peers.fixed_batches(small)
    for row in chosen:
        run(ROWS[row], size, small, small_pairs, small_batches)
    jobs: dict[str, Callable[[], Any]] = {r: partial(run, ROWS[r], size, corpus, pairs, batches) for r in chosen}
    results = common.interleaved({**jobs, "rate": lambda: matrix_rate(plain)}, options.rounds)

    rates = results.pop("rate")
    found = {row: summary(row, results, rates, counts) for row in chosen}
    check_losses(found)
    facts["matrix_rate"] = common.spread(rates)
    return {"facts": facts, "rows": found}, layout(name, size, facts, found)


def probability_of(row: Row) -> float:
    return row.recipe.get("mlm_probability", PretrainOptions.mlm_probability)


def summary(row: str, results: dict[str, list[dict[str, float]]], rates: list[float], counts: Any) -> dict[str, Any]:
    """Gives the spread of a row's seconds, of its paired ratios and of its share of the floor."""
    seconds = {name: [one["seconds"] for one in every] for name, every in results.items()}
    found: dict[str, Any] = {"seconds": common.spread(seconds[row])}
    against = ROWS[row].against
    if row != against and against in seconds:
        found["ours_is_faster"] = common.ratios(seconds[row], seconds[against])
    if row in counts:
        count, muon = counts[row]["operations"], counts[row]["muon_operations"]
        found["operations"], found["floor_seconds"] = count, common.spread([count / rate for rate in rates])
        found["share_of_floor"] = common.ratios([count / rate for rate in rates], seconds[row])
        if ROWS[row].recipe.get("muon_learning_rate", PretrainOptions.muon_learning_rate):
            found["muon_operations"] = muon
            found["share_with_muon"] = common.ratios([(count + muon) / rate for rate in rates], seconds[row])
    for name in ("training_loss", "mlm_loss", "nsp_accuracy"):
        found[name] = common.spread([one[name] for one in results[row]])
    return found


def check_losses(found: dict[str, Any], tolerance: float = 0.1) -> None:
    """Refuses a comparison in which one side of the same maths learns otherwise than the other.

    Raises:
        AssertionError: the mean training losses differ by more than a tenth.
    """
    for name, figures in found.items():
        row = ROWS[name]
        if row.recipe is peers.LIBRARY_DEFAULTS or row.against not in found:
            continue
        theirs, ours = (found[r]["training_loss"]["median"] for r in (name, row.against))
        assert abs(theirs / ours - 1) < tolerance, (
            f"{name} has a training loss of {theirs:.3f}, {row.against} {ours:.3f}"
        )
        assert figures["mlm_loss"]["median"] < 20, f"{name} has diverged"


def layout(name: str, size: Size, facts: dict[str, Any], found: dict[str, Any]) -> str:
    """Lays out the table of one size."""
    header = ("row", "seconds", "ours is faster by", "of the floor", "with Muon's products", "loss", "MLM after", "NSP")
    lines = [
        (
            row,
            common.show(figures["seconds"]),
            common.show(figures.get("ours_is_faster")),
            common.show(figures.get("share_of_floor")),
            common.show(figures.get("share_with_muon")),
            *(f"{figures[each]['median']:.3f}" for each in ("training_loss", "mlm_loss", "nsp_accuracy")),
        )
        for row, figures in found.items()
    ]
    return (
        f"### {name}: {size.layers} layers of {size.width}, {facts['parameters']:,} parameters, "
        f"{facts['vocabulary']:,} words; {facts['rows']:,} rows of {facts['tokens'] / facts['rows']:.0f} tokens, "
        f"batches of {BATCH}\n\nMatrix products at these shapes: "
        f"{common.show(facts['matrix_rate'], 0, 1e-9)} GFLOP/s\n\n{common.table(header, lines)}"
    )


def main() -> None:
    parser = common.parser(__doc__)
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES), metavar="SIZE", help=", ".join(SIZES))
    parser.add_argument("--rows", nargs="+", choices=ROWS, metavar="ROW", help="; ".join(ROWS))
    parser.add_argument("--documents", type=int, help="of the corpus, in place of each size's own number")
    options = common.parse(parser)
    results, texts = {}, []
    for name in options.sizes:
        few = [row for row in ROWS if name == "toy" or (ROWS[row].kind not in SLOW and row not in RECIPES)]
        results[name], text = benchmark(name, SIZES[name], options.rows or few, options)
        texts.append(text)
        common.report("pretrain", options, results, "\n\n".join(texts))


if __name__ == "__main__":
    main()
