"""One sentence and batches of 32: ours against the library's BERT of the same weights, like with like, and ONNX."""

import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

from benchmarks import common
from toybert.train.convert import convert
from toybert.train.data.source import CORPORA
from toybert.train.data.tables import load_corpus
from toybert.train.hub.folders import ROOT

try:
    import onnxruntime
except ImportError:  # the rows of ONNX Runtime are then left out
    onnxruntime = None

BATCH = 32
TRUST = {"trust_remote_code": True}
# Programs whose first answer is waited for: {folder} holds the model, {text} the sentence. Each prints the time.
STARTS = {
    "pipeline": """
import time
from transformers import pipeline
fill = pipeline("fill-mask", model={folder!r}, **{how!r})
fill({text!r})
print(time.time())
""",
    "tokenizer + model": """
import time
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained({folder!r}, **{how!r})
model = AutoModelForMaskedLM.from_pretrained({folder!r}, **{how!r}).eval()
with torch.inference_mode():
    model(**tokenizer({text!r}, return_tensors="pt")).logits.argmax(-1)
print(time.time())
""",
    "tokenizers + ONNX Runtime": """
import time
import numpy as np
import onnxruntime
from tokenizers import Tokenizer
tokenizer = Tokenizer.from_file({folder!r} + "/tokenizer.json")
session = onnxruntime.InferenceSession({folder!r} + "/model.onnx")
found = tokenizer.encode({text!r})
feed = dict(input_ids=found.ids, token_type_ids=found.type_ids, attention_mask=found.attention_mask)
session.run(None, {{name: np.array([values]) for name, values in feed.items()}})[0].argmax(-1)
print(time.time())
""",
}


def masked_sentences(count: int) -> list[str]:
    """Gives held-out sentences of the stories, each with one of its words replaced by [MASK]."""
    documents = load_corpus(CORPORA / "stories", columns=["sentences"])["test"]["sentences"]
    texts = [document[0] for document in documents][:count]
    cut = [text.split() for text in texts]
    return [
        " ".join("[MASK]" if place == len(words) // 2 else word for place, word in enumerate(words)) for words in cut
    ]


class Side:
    """Holds one side's model in all the ways in which it can be asked."""

    def __init__(self, folder: Path, texts: list[str], how: dict[str, Any]):
        self.tokenizer = AutoTokenizer.from_pretrained(folder, **how)
        self.model = AutoModelForMaskedLM.from_pretrained(folder, **how).eval()
        self.fill = pipeline("fill-mask", model=self.model, tokenizer=self.tokenizer, device="cpu")
        self.texts, self.encoded = texts, self.encode(texts)

    def encode(self, texts: list[str]) -> dict[str, torch.Tensor]:
        return dict(self.tokenizer(texts, padding=len(texts) > 1, return_tensors="pt"))

    def pipeline(self) -> Any:
        return self.fill(self.texts if len(self.texts) > 1 else self.texts[0], batch_size=len(self.texts))

    @torch.inference_mode()
    def tokenizer_and_model(self) -> torch.Tensor:
        return self.model(**self.encode(self.texts)).logits

    @torch.inference_mode()
    def forward(self) -> torch.Tensor:
        return self.model(**self.encoded).logits


class Onnx:
    """Holds the converted model in ONNX Runtime, with as many threads as torch has."""

    def __init__(self, folder: Path, side: Side):
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = torch.get_num_threads()
        self.session = onnxruntime.InferenceSession(folder / "model.onnx", settings)
        self.side, self.encoded = side, self.arrays(side.encoded)

    @staticmethod
    def arrays(batch: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
        return {name: tensor.numpy() for name, tensor in batch.items()}

    def tokenizer_and_model(self) -> np.ndarray:
        return self.session.run(["logits"], self.arrays(self.side.encode(self.side.texts)))[0]

    def forward(self) -> np.ndarray:
        return self.session.run(["logits"], self.encoded)[0]


def export(folder: Path) -> None:
    """Writes `model.onnx` of the converted model beside its weights, for batches of any size."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it names what the model doesn't need
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    batch = dict(tokenizer(["a dog [MASK]", "the cat sat"], padding=True, return_tensors="pt"))
    B, S = torch.export.Dim("B"), torch.export.Dim("S", max=64)
    torch.onnx.export(
        model, kwargs=batch, f=folder / "model.onnx", dynamo=True, verbose=False,
        input_names=list(batch), output_names=["logits"], dynamic_shapes={name: {0: B, 1: S} for name in batch},
    )  # fmt: skip


def check_agreement(ours: Side, bert: Side, onnx: Onnx | None) -> float:
    """Gives the largest difference between the sides' logits at the real tokens.

    Raises:
        AssertionError: the sides do not give the same answers.
    """
    assert all(torch.equal(ours.encoded[name], bert.encoded[name]) for name in bert.encoded), "the tokens differ"
    real = ours.encoded["attention_mask"].bool()
    found = [side.forward() for side in (ours, bert)] + ([torch.from_numpy(onnx.forward())] if onnx else [])
    for other in found[1:]:
        torch.testing.assert_close(other[real], found[0][real], rtol=1e-4, atol=1e-4)  # logits of up to some 20
    return max(float((other - found[0])[real].abs().max()) for other in found[1:])


def per_call(call: Callable[[], Any], seconds: float) -> float:
    """Gives the median seconds of a call, out of as many as fit."""
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 3 or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def until_first_answer(program: str, folder: Path, text: str, how: dict[str, Any]) -> float:
    """Gives the seconds from the start of a process to its first answer."""
    source = program.format(folder=str(folder), text=text, how=how)
    began = time.time()
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return float(done.stdout.split()[-1]) - began


def rows_of(size: int, texts: list[str], folder: Path, seconds: float) -> tuple[dict[str, Callable[[], float]], float]:
    """Gives the rows of one batch size, and the largest difference between the sides' answers."""
    ours, bert = Side(ROOT, texts[:size], TRUST), Side(folder, texts[:size], {})
    onnx = Onnx(folder, bert) if onnxruntime else None
    calls: dict[str, Callable[[], Any]] = {}
    for what in ("pipeline", "tokenizer_and_model", "forward"):
        for name, side in (("ours", ours), ("BERT", bert), ("ONNX Runtime", onnx)):
            if hasattr(side, what):
                calls[f"{what.replace('_and_', ' + ')}, {name}"] = getattr(side, what)
    rows: dict[str, Callable[[], float]] = {name: partial(per_call, call, seconds) for name, call in calls.items()}
    return rows, check_agreement(ours, bert, onnx)


def starts_of(texts: list[str], folder: Path) -> dict[str, Callable[[], float]]:
    """Gives the rows of the time from process start to first answer."""
    rows: dict[str, Callable[[], float]] = {}
    for what, program in STARTS.items():
        if "ONNX" not in what:
            rows[f"{what}, ours"] = partial(until_first_answer, program, ROOT, texts[0], TRUST)
        if "ONNX" not in what or onnxruntime:
            rows[f"{what}, BERT"] = partial(until_first_answer, program, folder, texts[0], {})
    return rows


def summary(results: dict[str, list[float]]) -> dict[str, Any]:
    """Gives each row's spread and, for a row that has ours beside it, the paired ratio."""
    found = {}
    for name, values in results.items():
        ours = f"{name.rpartition(', ')[0]}, ours"
        found[name] = {"seconds": common.spread(values)}
        if name != ours and ours in results:
            found[name]["ours_is_faster"] = common.ratios(values, results[ours])
    return found


def layout(title: str, found: dict[str, Any], unit: str, scale: float) -> str:
    """Lays out the table of one group of rows."""
    lines = [
        (name, common.show(row["seconds"], scale=scale), common.show(row.get("ours_is_faster")))
        for name, row in found.items()
    ]
    return f"### {title}\n\n{common.table(('row', unit, 'ours is faster by'), lines)}"


def main() -> None:
    parser = common.parser(__doc__)
    groups = ("one", "batch", "start")
    parser.add_argument("--rows", nargs="+", choices=groups, default=groups, metavar="GROUP", help=", ".join(groups))
    parser.add_argument("--seconds", type=float, default=1.0, help="that each row is called for in each round")
    options = common.parse(parser)
    seconds, threads = 0.05 if options.smoke else options.seconds, torch.get_num_threads()
    results, tables = {}, []
    with tempfile.TemporaryDirectory() as top:
        folder, texts = Path(top) / "bert", masked_sentences(BATCH)
        with common.silence():
            convert(ROOT, folder)
            if onnxruntime:
                export(folder)
        titles = {
            "one": ("One sentence, one thread", "ms", 1e3),
            "batch": (f"{BATCH} sentences at once", "ms", 1e3),
            "start": ("From process start to first answer", "s", 1.0),
        }
        for group in options.rows:
            if group == "start":
                rows, difference = starts_of(texts, folder), None
            else:
                torch.set_num_threads(1 if group == "one" else threads)  # a second one only costs a single sentence
                rows, difference = rows_of(1 if group == "one" else BATCH, texts, folder, seconds)
                for row in rows.values():
                    row()  # the first calls are slower
            found = summary(common.interleaved(rows, options.rounds))
            results[group] = {"rows": found, "largest_difference_of_logits": difference}
            tables.append(layout(titles[group][0], found, *titles[group][1:]))
    common.report("inference", options, results, "\n\n".join(tables))


if __name__ == "__main__":
    main()
