"""Trains the checkpoints that the repository ships, and brings its figures, its numbers and its examples up to date."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toybert.train import cli
from toybert.train.__main__ import Options, first_free_folder, train_all
from toybert.train.hub.folders import ROOT

MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
SENTIMENT_BASELINES = {
    "bag_of_words": "words",
    "bag_of_bigrams": "words and bigrams",
    "ordered_pairs": "words and ordered pairs of words",
}
REPO = 'repo = "me/toybert"'  # how a page's first example begins: the others go on from it
EXAMPLE = re.compile(r"```python\n(?P<code>(?:(?!```).)*)```\n+```text\n(?P<output>.*?)```", re.DOTALL)
# A fresh user has not installed the package: the examples must not need it.
WITHOUT_THE_PACKAGE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "toybert":
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Absent())
"""


def ship(run: Path) -> None:
    """Copies a run's checkpoints, pictures and results to where the repository ships them."""
    (ROOT / "sentiment").mkdir(exist_ok=True)
    (ROOT / "figures").mkdir(exist_ok=True)
    for name in MODEL_FILES:
        shutil.copyfile(run / name, ROOT / name)
        shutil.copyfile(run / "sentiment" / name, ROOT / "sentiment" / name)
    shown = "".join(read_pages().values())
    for picture in [*run.glob("figures/*.png"), *run.glob("sentiment/figures/*.png")]:
        if f"figures/{picture.name}" in shown:
            shutil.copyfile(picture, ROOT / "figures" / picture.name)
    shutil.copyfile(run / "results.json", ROOT / "figures" / "results.json")


def read_pages(root: Path = ROOT) -> dict[str, str]:
    """Reads the card and the pages of docs/, by their paths from the root."""
    paths = [root / "README.md", *sorted(root.glob("docs/*.md"))]
    return {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def write_pages(pages: dict[str, str]) -> None:
    """Writes the card and the pages of docs/."""
    for name, text in pages.items():
        (ROOT / name).write_text(text, encoding="utf-8")


def run_example(code: str) -> str:
    """Returns what a Python example prints, run offline and without the package, where the repository is `me/toybert`.

    Raises:
        ValueError: the example fails.
    """
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    if REPO not in code:
        code = f"{REPO}\n{code}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "me").mkdir()
        (Path(folder) / "me" / "toybert").symlink_to(ROOT, target_is_directory=True)
        script = Path(folder) / "example.py"
        script.write_text(WITHOUT_THE_PACKAGE + code, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, script], cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8"
        )
    if done.returncode:
        raise ValueError(f"an example of the card or of docs/ fails:\n{code}\n{done.stderr}")
    return done.stdout


def percent(value: float) -> str:
    """Writes a share as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Lays out a table."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *lines))


def blocks(results: dict[str, Any]) -> dict[str, str]:
    """Returns the parts of the card and of docs/ that hold measured numbers, by the names in their markers."""
    mlm, nsp, sentiment = results["mlm"], results["nsp"], results["sentiment"]
    seconds, steps, recipe = results["seconds"], results["steps"], results["recipe"]["pretraining"]
    hard = "the false one shares a person or the topic"
    rows = [  # a name, the figures, which of them, and the best that is known without a network
        ("masked words", mlm, "", "bigram", "the word between its neighbours"),
        ("... content words only", mlm, "content_", "bigram", "the word between its neighbours"),
        ("next sentence", nsp, "", "word_pairs", "a linear model of all pairs of words"),
        (f"... {hard}", nsp, "hard_", "word_pairs", "a linear model of all pairs of words"),
        ("sentiment", sentiment, "", "ordered_pairs", "a linear model of ordered pairs of words"),
    ]
    best = []
    for name, figures, prefix, key, other in rows:
        ours, its = figures[f"{prefix}accuracy"], figures[f"{prefix}{key}_accuracy"]
        shown = [f"**{percent(value)}**" if value == max(ours, its) else percent(value) for value in (ours, its)]
        best.append((name, shown[0], f"{shown[1]}, {other}"))
    words = {"unigram": "the commonest word", "bigram": "the word between its neighbours"}
    pairs = {"length_only": "length", "word_overlap": "shared words", "word_pairs": "all pairs of words"}
    tables = []  # each with a column for everything that needs no network
    for header, figures, kinds, others in (
        ("masked words", mlm, {"all": "", "content words only": "content_"}, words),
        ("next sentence", nsp, {"all": "", hard: "hard_"}, {"unmasked": "... with nothing masked"} | pairs),
        ("sentiment", sentiment, {"all": ""}, {"majority": "the commoner class"} | SENTIMENT_BASELINES),
    ):
        lines = [
            (name, *[percent(figures[f"{prefix}{key}accuracy"]) for key in ("", *[f"{other}_" for other in others])])
            for name, prefix in kinds.items()
        ]
        tables.append(markdown((header, "ToyBERT", *others.values()), lines))
    samples = ["| sentence | likeliest words |", "|---|---|"]
    for sample in results["samples"]:
        likeliest = ", ".join(f"{word} {percent(share)}" for word, share in sample["words"] if share >= 0.01)
        samples.append(f"| {sample['text']} | {likeliest} |")
    return {
        "results": markdown(("on held-out text", "ToyBERT", "the best without a network"), best),
        "baselines": "\n\n".join(tables),
        "unseen": f"In {percent(mlm['unseen_share'])} of the test pairs, neither sentence occurs in training. On "
        f"these, it reaches {percent(mlm['unseen_accuracy'])} on masked words and "
        f"{percent(nsp['unseen_accuracy'])} on next sentences.",
        "losses": f"Held-out losses in nats: masked words {mlm['loss']:.3f} (frequencies alone: "
        f"{mlm['unigram_loss']:.3f}), next sentence {nsp['loss']:.3f} (chance: 0.693), "
        f"sentiment {sentiment['loss']:.3f}.",
        "cost": f"Pre-training took {seconds['pretraining']:.0f} s for {steps['pretraining']:,} steps, and fine-tuning "
        f"{seconds['finetuning']:.0f} s for {steps['finetuning']}, with {results['threads']} threads of a server CPU. "
        f"Everything together took {seconds['total']:.0f} s and {results['peak_memory_mb']} MB of memory.",
        "recipe": f"{recipe['epochs']} epochs in batches of {recipe['batch_size']}; Muon at "
        f"{recipe['muon_learning_rate']:g} for the layers' matrices, and AdamW at {recipe['learning_rate']:g} for "
        f"everything else; a warm-up over {100 * recipe['warmup_ratio']:.0f} % of the steps, then linear decay; "
        f"{100 * recipe['mlm_probability']:.0f} % of the words to predict; dropout {recipe['dropout']:g}.",
        "samples": "\n".join(samples),
    }


def replaced(card: str, pattern: str, text: str) -> str:
    """Returns the page with other text in the place of the pattern's group.

    Raises:
        ValueError: the pattern is not there.
    """
    match = re.search(pattern, card, re.DOTALL)
    if not match:
        raise ValueError(f"README.md has no place for a number that matches {pattern}")
    return card[: match.start(1)] + text + card[match.end(1) :]


def put(pages: dict[str, str], blocks: dict[str, str]) -> dict[str, str]:
    """Returns the pages with each block between its markers, on the page that has them.

    Raises:
        ValueError: no page has them.
    """
    pages = dict(pages)
    for mark, text in blocks.items():
        page = next((page for page, content in pages.items() if f"<!-- {mark} -->" in content), None)
        if page is None:
            raise ValueError(f"README.md and docs/ have no place for a number marked <!-- {mark} -->")
        pages[page] = replaced(pages[page], rf"<!-- {mark} -->\n(.*?)<!-- /{mark} -->", text + "\n")
    return pages


def refresh(pages: dict[str, str], results: dict[str, Any]) -> dict[str, str]:
    """Returns the pages with their numbers replaced, between the markers and in the card's YAML head.

    Raises:
        ValueError: a marker is missing.
    """
    pages = put(pages, blocks(results))
    for task, figures in (("masked words", "mlm"), ("next sentence", "nsp"), ("sentiment", "sentiment")):
        pattern, value = rf"name: Accuracy \({task}\)\n\s+value: ([\d.]+)", f"{results[figures]['accuracy']:.4f}"
        pages["README.md"] = replaced(pages["README.md"], pattern, value)
    return pages


def refresh_examples(page: str) -> str:
    """Returns a page with what its Python examples print, wherever it shows that below them."""
    for match in EXAMPLE.finditer(page):
        block = match[0].replace(f"```text\n{match['output']}```", f"```text\n{run_example(match['code'])}```")
        page = page.replace(match[0], block)
    return page


def refresh_pages() -> None:
    """Brings the card and docs/ up to date with what is shipped."""
    results = json.loads((ROOT / "figures" / "results.json").read_text(encoding="utf-8"))
    write_pages({name: refresh_examples(page) for name, page in refresh(read_pages(), results).items()})


def main() -> None:
    """Trains with the default recipe, ships the result, and refreshes the card and docs/."""
    run = Path(first_free_folder())
    train_all(Options(output_dir=str(run)))
    ship(run)
    refresh_pages()
    print(f"shipped {run}: read the difference before you commit it")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m toybert.train.release", description=__doc__)
    parser.add_argument("--readme-only", action="store_true", help="only refresh README.md and docs/")
    cli.run(refresh_pages if parser.parse_args().readme_only else main)
