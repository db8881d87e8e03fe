"""One sentence and batches of 32: ours against the library's BERT of the same weights, like with like, and ONNX."""

import logging
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

from benchmarks import common, peers
from benchmarks.common import ROOT
from toybert.train.convert import convert

try:
    import onnxruntime
except ImportError:  # the rows of ONNX Runtime are then left out
    onnxruntime = None

BATCH = 32
SECONDS = 1.0  # that each row is called for in each round
TRUST = {"trust_remote_code": True}
GROUPS = {  # title, unit, how many of it a second has
    "one": ("One sentence, one thread", "ms", 1e3),
    "batch": (f"{BATCH} sentences at once", "ms", 1e3),
    "start": ("From process start to first answer", "s", 1.0),
}
# Programs that print the time at which they have their first answer; {folder} holds the model, {text} the sentence.
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
    """Returns held-out sentences of the stories, each with [MASK] in the place of its middle word."""
    texts = [document[0].split() for document in peers.story_documents("test")[:count]]
    return [" ".join([*words[: len(words) // 2], "[MASK]", *words[len(words) // 2 + 1 :]]) for words in texts]


def export(folder: Path) -> None:
    """Writes `model.onnx` of the converted model beside its weights, for batches of any size."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it names what the model doesn't need
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    batch = dict(tokenizer(["a dog [MASK]", "the cat sat"], padding=True, return_tensors="pt"))
    shape = {0: torch.export.Dim("B"), 1: torch.export.Dim("S", max=64)}
    torch.onnx.export(
        model, kwargs=batch, f=folder / "model.onnx", dynamo=True, verbose=False,
        input_names=list(batch), output_names=["logits"], dynamic_shapes=dict.fromkeys(batch, shape),
    )  # fmt: skip


def encoder(folder: Path, texts: list[str], how: dict[str, Any]) -> tuple[Any, Callable[[], dict[str, torch.Tensor]]]:
    """Returns a side's tokenizer, and the call that tokenises the texts."""
    tokenizer = AutoTokenizer.from_pretrained(folder, **how)
    return tokenizer, lambda: dict(tokenizer(texts, padding=len(texts) > 1, return_tensors="pt"))


def with_torch(folder: Path, texts: list[str], how: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Returns the calls by which a side's model answers the texts."""
    tokenizer, encode = encoder(folder, texts, how)
    model = AutoModelForMaskedLM.from_pretrained(folder, **how).eval()
    fill = pipeline("fill-mask", model=model, tokenizer=tokenizer, device="cpu")
    asked, encoded = texts if len(texts) > 1 else texts[0], encode()

    @torch.inference_mode()
    def forward(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return model(**batch).logits

    return {
        "pipeline": lambda: fill(asked, batch_size=len(texts)),
        "tokenizer + model": lambda: forward(encode()),
        "forward": lambda: forward(encoded),
    }


def with_onnx(folder: Path, texts: list[str]) -> dict[str, Callable[[], Any]]:
    """Returns the calls of the converted model in ONNX Runtime, with as many threads as torch has."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(folder / "model.onnx", settings)
    _, encode = encoder(folder, texts, {})

    def arrays() -> dict[str, np.ndarray]:
        return {name: tensor.numpy() for name, tensor in encode().items()}

    encoded = arrays()
    return {
        "tokenizer + model": lambda: session.run(["logits"], arrays())[0],
        "forward": lambda: session.run(["logits"], encoded)[0],
    }


def answers(folder: Path, texts: list[str], seconds: float) -> dict[str, Callable[[], float]]:
    """Returns the rows of some texts, to which the sides must give the same logits."""
    sides = {"ours": with_torch(ROOT, texts, TRUST), "BERT": with_torch(folder, texts, {})}
    sides |= {"ONNX Runtime": with_onnx(folder, texts)} if onnxruntime else {}
    rows: dict[str, Callable[[], float]] = {
        f"{what}, {name}": partial(common.per_call, calls[what], seconds)
        for what in sides["ours"]
        for name, calls in sides.items()
        if what in calls
    }
    for row in rows.values():
        row()  # the first calls are slower
    ours, bert = (encoder(*side)[1]() for side in ((ROOT, texts, TRUST), (folder, texts, {})))
    assert all(torch.equal(ours[name], bert[name]) for name in bert), "the tokens differ"
    first, *others = (torch.as_tensor(calls["forward"]())[bert["attention_mask"].bool()] for calls in sides.values())
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-4, atol=1e-4)  # logits of up to some 20
    return rows


def until_first_answer(program: str, folder: Path, text: str, how: dict[str, Any]) -> float:
    """Returns the seconds from the start of a process to its first answer."""
    source = program.format(folder=str(folder), text=text, how=how)
    began = time.time()
    return float(common.python("-c", source)[-1]) - began


def starts(folder: Path, text: str) -> dict[str, Callable[[], float]]:
    """Returns the rows of the time from process start to first answer."""
    sides: dict[str, tuple[Path, dict[str, Any]]] = {"ours": (ROOT, TRUST), "BERT": (folder, {})}
    return {
        f"{what}, {name}": partial(until_first_answer, program, place, text, how)
        for what, program in STARTS.items()
        for name, (place, how) in sides.items()
        if "ONNX" not in what or (onnxruntime and name == "BERT")
    }


def main() -> None:
    options = common.parse(common.parser(__doc__, rows=GROUPS))
    results, tables, threads = {}, [], torch.get_num_threads()
    with tempfile.TemporaryDirectory() as top:
        folder, texts = Path(top) / "bert", masked_sentences(BATCH)
        with common.silence():
            convert(ROOT, folder)
            if onnxruntime:
                export(folder)
        for group in options.rows:
            title, unit, scale = GROUPS[group]
            if group == "start":
                rows = starts(folder, texts[0])
            else:
                torch.set_num_threads(1 if group == "one" else threads)  # a second one only costs a single sentence
                asked = texts[:1] if group == "one" else texts
                rows = answers(folder, asked, 0.05 if options.smoke else SECONDS)
            times = common.interleaved(rows, options.rounds)
            runs = {name: [{"seconds": seconds} for seconds in some] for name, some in times.items()}
            found = common.compared(runs, {name: f"{name.rpartition(', ')[0]}, ours" for name in runs})
            results[group] = {"rows": found}
            columns = {unit: ("seconds", 2, scale), "ours is faster by": ("ours_is_faster", 2, 1.0)}
            tables.append(f"### {title}\n\n{common.figures_table('row', found, columns)}")
    common.report("inference", options, results, "\n\n".join(tables))


if __name__ == "__main__":
    main()
