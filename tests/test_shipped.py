"""Claims about the shipped checkpoints, and about the command that makes them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from accelerate import Accelerator
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

from toybert.train.corpora.best_possible import beside_the_best
from toybert.train.data.source import CORPORA
from toybert.train.data.tables import load_corpus
from toybert.train.hub.folders import ROOT
from toybert.train.measure.classification import sentiment_report
from toybert.train.measure.pretraining import pretraining_report

RESULTS = json.loads((ROOT / "figures" / "results.json").read_text(encoding="utf-8"))
# The sums of floats differ a little between machines, and a near tie may fall the other way.
CLOSE = {"abs": 0.003}


def test_the_pretrained_checkpoint_has_the_figures_that_are_shipped() -> None:
    report = pretraining_report(ROOT, load_corpus(CORPORA / "stories", ["sentences"]), Accelerator())
    report = beside_the_best(report, ROOT, CORPORA / "stories")
    for part in ("mlm", "nsp"):
        assert report[part] == pytest.approx(RESULTS[part], **CLOSE)


def test_the_sentiment_checkpoint_has_the_figures_that_are_shipped() -> None:
    corpus = load_corpus(CORPORA / "sentiment", ["text", "label"])
    report = sentiment_report(ROOT / "sentiment", corpus, Accelerator())
    assert report["sentiment"] == pytest.approx(RESULTS["sentiment"], **CLOSE)


@pytest.mark.parametrize("folder", [".", "sentiment"])
def test_weights_are_small_float32_and_fit_the_tokenizer(folder: str) -> None:
    weights = ROOT / folder / "model.safetensors"
    assert weights.stat().st_size < 2.5e6
    tensors = load_file(weights)
    assert {str(tensor.dtype) for tensor in tensors.values()} == {"torch.float32"}
    config = json.loads((ROOT / folder / "config.json").read_text())
    vocabulary = json.loads((ROOT / folder / "tokenizer.json").read_text())["model"]["vocab"]
    assert config["vocab_size"] == len(vocabulary) == len(tensors["bert.embeddings.token.weight"])


def test_special_tokens_never_win_at_a_mask() -> None:
    prompts = [
        text
        for document in load_corpus(CORPORA / "stories", ["sentences"])["test"]["sentences"][:60]
        for text in document
    ]
    tokenizer = AutoTokenizer.from_pretrained(ROOT, trust_remote_code=True)
    model = AutoModelForMaskedLM.from_pretrained(ROOT, trust_remote_code=True)
    words = [text.rstrip(".").split() for text in prompts]
    masked = [" ".join(["[MASK]" if i == len(w) // 2 else word for i, word in enumerate(w)]) + "." for w in words]
    fill = pipeline("fill-mask", model=model, tokenizer=tokenizer, top_k=1)
    assert all(guess[0]["token"] >= 5 for guess in fill(masked))


def test_the_shipped_model_knows_its_small_world() -> None:
    tokenizer = AutoTokenizer.from_pretrained(ROOT, trust_remote_code=True)
    model = AutoModelForMaskedLM.from_pretrained(ROOT, trust_remote_code=True)
    fill = pipeline("fill-mask", model=model, tokenizer=tokenizer)
    facts = {
        "The dog heard it and [MASK].": "barked",
        "The honey was very [MASK].": "sweet",
        "Emma turned the [MASK] in the door, and it opened.": "key",
        "The bees were [MASK].": "angry",
    }
    right = {text: word in [guess["token_str"] for guess in fill(text)] for text, word in facts.items()}
    assert sum(right.values()) >= 3, right


@pytest.mark.slow
def test_the_whole_story_runs_in_one_command_and_reaches_its_aims(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "toybert.train", "--output-dir", "outputs/run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^done in \d+ s", done.stdout, re.MULTILINE)
    run = tmp_path / "outputs" / "run"
    results = json.loads((run / "results.json").read_text())
    assert results["mlm"]["accuracy"] >= 2.5 * results["mlm"]["unigram_accuracy"]
    assert results["mlm"]["accuracy"] >= results["mlm"]["bigram_accuracy"] + 0.1
    assert results["nsp"]["accuracy"] >= 0.90
    assert results["nsp"]["hard_accuracy"] >= results["nsp"]["hard_word_overlap_accuracy"] + 0.1
    assert results["sentiment"]["bag_of_words_accuracy"] <= 0.80
    assert results["sentiment"]["accuracy"] >= 0.95
    assert results["peak_memory_mb"] < 2000
