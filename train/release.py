"""Trains the checkpoints that the repository ships, and brings its figures, its numbers and its examples up to date."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
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
    card = (ROOT / "README.md").read_text(encoding="utf-8")
    for picture in [*run.glob("figures/*.png"), *run.glob("sentiment/figures/*.png")]:
        if f"figures/{picture.name}" in card:
            shutil.copyfile(picture, ROOT / "figures" / picture.name)
    shutil.copyfile(run / "results.json", ROOT / "figures" / "results.json")


def run_example(code: str) -> str:
    """Gives what a Python example of the README prints, run offline from the root, without the package installed."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "example.py"
        script.write_text(WITHOUT_THE_PACKAGE + code, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, script], cwd=ROOT, env=environment, capture_output=True, text=True, encoding="utf-8"
        )
    if done.returncode:
        raise ValueError(f"an example of the README fails:\n{code}\n{done.stderr}")
    return done.stdout


def percent(value: float) -> str:
    """Writes a share as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


def blocks(results: dict[str, Any]) -> dict[str, str]:
    """Gives the parts of the README that hold measured numbers, by the name in their markers."""
    mlm, nsp, sentiment = results["mlm"], results["nsp"], results["sentiment"]
    seconds, steps, recipe = results["seconds"], results["steps"], results["recipe"]["pretraining"]
    pair_baselines = {"length_only": "length", "word_overlap": "shared words", "word_pairs": "all pairs of words"}
    rows = [
        ("masked words, 15 %", mlm, "", {"unigram": "the commonest word", "bigram": "the word between its neighbours"}),
        ("... content words only", mlm, "content_", {"unigram": "the commonest", "bigram": "between its neighbours"}),
        ("next sentence", nsp, "", pair_baselines),
        ("... a false one shares a person or the topic", nsp, "hard_", pair_baselines),
        ("sentiment", sentiment, "", SENTIMENT_BASELINES),
    ]
    table = ["| on held-out text | ToyBERT | without a network |", "|---|---|---|"]
    for name, figures, prefix, baselines in rows:
        others = [f"{label} {percent(figures[f'{prefix}{key}_accuracy'])}" for key, label in baselines.items()]
        if name == "sentiment":
            others.insert(0, f"majority {percent(figures['majority_accuracy'])}")
        ours = f"**{percent(figures[f'{prefix}accuracy'])}**"
        if f"{prefix}unmasked_accuracy" in figures:
            ours += f" ({percent(figures[f'{prefix}unmasked_accuracy'])} with nothing masked)"
        table.append(f"| {name} | {ours} | {', '.join(others)} |")
    samples = ["| sentence | likeliest words |", "|---|---|"]
    for sample in results["samples"]:
        words = ", ".join(f"{word} {percent(share)}" for word, share in sample["words"] if share >= 0.01)
        samples.append(f"| {sample['text']} | {words} |")
    return {
        "results": "\n".join(table),
        "unseen": f"On the {percent(mlm['unseen_share'])} of the test pairs neither of whose sentences occurs in "
        f"training, it reaches {percent(mlm['unseen_accuracy'])} on masked words and "
        f"{percent(nsp['unseen_accuracy'])} on next sentences.",
        "losses": f"Held-out losses in nats: masked words {mlm['loss']:.3f} (frequencies alone: "
        f"{mlm['unigram_loss']:.3f}), next sentence {nsp['loss']:.3f} (chance: 0.693), "
        f"sentiment {sentiment['loss']:.3f}.",
        "cost": f"{steps['pretraining']} steps of pre-training took {seconds['pretraining']:.0f} s and "
        f"{steps['finetuning']} of fine-tuning {seconds['finetuning']:.0f} s with {results['threads']} threads of a "
        f"server CPU; everything together {seconds['total']:.0f} s, in {results['peak_memory_mb']} MB of memory.",
        "recipe": f"{recipe['epochs']} epochs in batches of {recipe['batch_size']}, Muon "
        f"{recipe['muon_learning_rate']:g} for the layers' matrices and AdamW {recipe['learning_rate']:g} for others, "
        f"a warm-up over "
        f"{100 * recipe['warmup_ratio']:.0f} % of the steps and linear decay, {100 * recipe['mlm_probability']:.0f} % "
        f"of the words to predict, dropout {recipe['dropout']:g}.",
        "samples": "\n".join(samples),
    }


def replaced(card: str, pattern: str, text: str) -> str:
    """Gives the README with other text in the place of the pattern's group.

    Raises:
        ValueError: the pattern is not there.
    """
    match = re.search(pattern, card, re.DOTALL)
    if not match:
        raise ValueError(f"README.md has no place for a number that matches {pattern}")
    return card[: match.start(1)] + text + card[match.end(1) :]


def refresh(card: str, results: dict[str, Any]) -> str:
    """Gives the README with its numbers replaced, between its markers and in its YAML head.

    Raises:
        ValueError: a marker is missing.
    """
    for name, text in blocks(results).items():
        card = replaced(card, rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text + "\n")
    for task, figures in (("masked words", "mlm"), ("next sentence", "nsp"), ("sentiment", "sentiment")):
        card = replaced(card, rf"name: Accuracy \({task}\)\n\s+value: ([\d.]+)", f"{results[figures]['accuracy']:.4f}")
    return card


def refresh_examples(card: str) -> str:
    """Gives the README with what its Python examples print, wherever it shows that below them."""
    for match in EXAMPLE.finditer(card):
        block = match[0].replace(f"```text\n{match['output']}```", f"```text\n{run_example(match['code'])}```")
        card = card.replace(match[0], block)
    return card


def refresh_readme() -> None:
    """Brings the README up to date with what is shipped."""
    readme = ROOT / "README.md"
    results = json.loads((ROOT / "figures" / "results.json").read_text(encoding="utf-8"))
    card = refresh(readme.read_text(encoding="utf-8"), results)
    readme.write_text(refresh_examples(card), encoding="utf-8")


def main() -> None:
    """Trains with the default recipe, ships the result, and refreshes the README."""
    run = Path(first_free_folder())
    train_all(Options(output_dir=str(run)))
    ship(run)
    refresh_readme()
    print(f"shipped {run}: read the difference before you commit it")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m toybert.train.release", description=__doc__)
    parser.add_argument("--readme-only", action="store_true", help="only refresh README.md, from figures/results.json")
    cli.run(refresh_readme if parser.parse_args().readme_only else main)
