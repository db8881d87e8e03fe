"""Claims about the library's versions: the shipped checkpoints answer alike on all, and each reads what any wrote.

`tox` runs the tests on each version with TOYBERT_WRITE set, where each leaves a folder of every kind, and then these on
each with TOYBERT_READ set. `python tests/test_versions.py` stores the answers of new checkpoints.
"""

import json
import logging
import os
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from helpers import ROOT
from torch import Tensor
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments

HERE = transformers.__version__
STORED = Path(__file__).parent / "expected" / "shipped.json"
CONFIG = json.loads((ROOT / "config.json").read_text(encoding="utf-8"))

# Each kind of folder that is exchanged, and the Auto class that it is written and read through.
KINDS = {name: name for name in CONFIG["auto_map"] if name != "AutoConfig"} | {
    "float16": "AutoModelForMaskedLM",
    "bfloat16": "AutoModelForPreTraining",
    "untied": "AutoModelForMaskedLM",
    "added_tokens": "AutoModelForMaskedLM",
    "new_vocabulary": "AutoModelForMaskedLM",
    "trained": "AutoModelForSequenceClassification",
}
WRITE, READ = os.environ.get("TOYBERT_WRITE"), os.environ.get("TOYBERT_READ")
WRITTEN = sorted(path.parent for path in Path(READ).glob("*/*/answers.json")) if READ else []

FIRST = ["The dog saw the cat and began to [MASK].", "Ben heard the [MASK]!", "It was <new> not good, ZEBRA.", ""]
SECOND = ["Then it ran to the old tree by the river.", "He went home.", "was it", "so"]


def load(auto_class, folder=ROOT, **options):
    return getattr(transformers, auto_class).from_pretrained(folder, trust_remote_code=True, **options)


def answers_of_the_shipped_checkpoints():
    """Returns some of what the shipped models answer, in float64: so it is the same on every machine to ten digits."""
    tokenizer = load("AutoTokenizer")
    batch = tokenizer(FIRST, SECOND, padding=True, return_tensors="pt")
    shorter = load("AutoTokenizer", subfolder="sentiment")(FIRST, padding=True, return_tensors="pt")
    with torch.no_grad():
        pretrained = load("AutoModelForPreTraining").double()(**batch)
        encoded = load("AutoModel").double()(**batch)
        sentiment = load("AutoModelForSequenceClassification", subfolder="sentiment").double()(**shorter)
    words = pretrained.prediction_logits
    answers = {
        **batch,
        "decoded": tokenizer.batch_decode(batch["input_ids"]),
        "words": words[:, ::4, ::40],  # (B, S / 4, V / 40): at real tokens and at padding
        "best": words[batch["input_ids"] == tokenizer.mask_token_id].topk(5).indices,
        "follows": pretrained.seq_relationship_logits,
        "pooled": encoded.pooler_output[:, ::16],
        "sentiment": sentiment.logits,
    }
    return {name: value.tolist() if isinstance(value, Tensor) else value for name, value in answers.items()}


def make(kind):
    """Returns a model and a tokenizer that differ from the shipped ones in what the kind says."""
    torch.manual_seed(0)  # of a new head
    options = {
        "float16": {"dtype": torch.float16},
        "bfloat16": {"dtype": torch.bfloat16},
        "untied": {"tie_word_embeddings": False},
        "trained": {"id2label": {0: "bad", 1: "so-so", 2: "good"}, "label2id": {"bad": 0, "so-so": 1, "good": 2}},
    }
    model, tokenizer = load(KINDS[kind], **options.get(kind, {})), load("AutoTokenizer")
    if kind == "added_tokens":
        tokenizer.add_tokens(["zebra"])
        tokenizer.add_special_tokens({"additional_special_tokens": ["<new>"]})
    elif kind == "new_vocabulary":
        tokenizer = load("AutoTokenizer", split_punctuation=False)
        tokenizer = tokenizer.train_new_from_iterator(["dx:I10 rx:metformin", *FIRST], vocab_size=100)
    if len(tokenizer) != model.config.vocab_size:
        model.resize_token_embeddings(len(tokenizer))
    return model.eval(), tokenizer


def train_and_save(model, tokenizer, folder):
    arguments = TrainingArguments(
        str(folder), max_steps=3, learning_rate=1e-3, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True
    )
    rows = [{**tokenizer(text), "label": index % 3} for index, text in enumerate(FIRST * 6)]
    collator = DataCollatorWithPadding(tokenizer)
    trainer = Trainer(model, arguments, train_dataset=rows, data_collator=collator, processing_class=tokenizer)
    trainer.train()
    trainer.save_model(str(folder))


def answers_of(model, tokenizer):
    """Returns, in JSON's types, all that has to survive the way from one version to another."""
    batch = tokenizer(FIRST, SECOND, padding=True, return_tensors="pt")
    several = {name: value[:, None].expand(-1, 2, -1) for name, value in batch.items()}  # (B, C, S)
    with torch.no_grad():
        output = model.eval()(**several if type(model).__name__.endswith("MultipleChoice") else batch)
    decoder = model.get_output_embeddings()
    fields = [name for name in CONFIG if name not in ("auto_map", "dtype", "transformers_version")]
    answers = {
        "outputs": {name: value.tolist() for name, value in output.items()},
        "class": type(model).__name__,
        "dtype": str(model.dtype).removeprefix("torch."),
        "tied": decoder is not None and decoder.weight is model.get_input_embeddings().weight,
        "config": {name: getattr(model.config, name) for name in (*fields, "id2label", "label2id")},
        "batch": {name: value.tolist() for name, value in batch.items()},
        "decoded": [tokenizer.batch_decode(batch["input_ids"], skip_special_tokens=skip) for skip in (False, True)],
        "tokenizer": [len(tokenizer), tokenizer.model_max_length, tokenizer.split_punctuation, tokenizer.padding_side],
        "special tokens": sorted(tokenizer.all_special_tokens),
    }
    return json.loads(json.dumps(answers))


def assert_same(found, expected, name, dtype):
    found, expected = (torch.tensor(value, dtype=dtype) for value in (found, expected))
    torch.testing.assert_close(found, expected, msg=lambda text: f"{name}: {text}")


def test_the_shipped_checkpoints_give_the_stored_answers():
    stored, found = json.loads(STORED.read_text(encoding="utf-8")), answers_of_the_shipped_checkpoints()
    for name in ("words", "follows", "pooled", "sentiment"):
        assert_same(found.pop(name), stored.pop(name), f"{name} on transformers {HERE}", torch.float64)
    assert found == stored, f"on transformers {HERE}"


@pytest.mark.parametrize("kind", KINDS if WRITE else [])
def test_this_version_writes_each_kind_of_folder(kind):
    folder = Path(WRITE) / HERE / kind
    shutil.rmtree(folder, ignore_errors=True)
    model, tokenizer = make(kind)
    if kind == "trained":
        train_and_save(model, tokenizer, folder)
    else:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    (folder / "answers.json").write_text(json.dumps(answers_of(model, tokenizer)), encoding="utf-8")


@pytest.mark.skipif(READ is None, reason="TOYBERT_READ names no folder to read")
def test_each_version_wrote_every_kind_of_folder():
    kinds = {}
    for folder in WRITTEN:
        kinds.setdefault(folder.parent.name, set()).add(folder.name)
    assert HERE in kinds
    assert {version: set(KINDS) - found for version, found in kinds.items() if found != set(KINDS)} == {}


@pytest.mark.parametrize("folder", WRITTEN, ids=lambda folder: f"{folder.name} of {folder.parent.name}")
def test_this_version_reads_a_folder_as_it_was_written(folder, caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    model, info = load(KINDS[folder.name], folder, dtype="auto", output_loading_info=True)
    tokenizer = load("AutoTokenizer", folder)
    where = f"written by transformers {folder.parent.name}, read by {HERE}"
    assert not any(info.values()), where
    assert caplog.messages == [], where

    found, expected = answers_of(model, tokenizer), json.loads((folder / "answers.json").read_text(encoding="utf-8"))
    outputs, dtype = expected.pop("outputs"), getattr(torch, expected["dtype"])
    assert list(found["outputs"]) == list(outputs), where
    for name, value in found.pop("outputs").items():
        assert_same(value, outputs[name], f"{name}, {where}", dtype)
    assert found == expected, where


if __name__ == "__main__":
    STORED.parent.mkdir(exist_ok=True)
    STORED.write_text(json.dumps(answers_of_the_shipped_checkpoints()) + "\n", encoding="utf-8")
