"""The network and the tokenizer that a run begins with: new ones, or a checkpoint's."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    PreTrainedTokenizerBase,
)

from toybert.train.data.labels import SINGLE, Labels, shortened
from toybert.train.data.vocabulary import load_learnt
from toybert.train.hub.card import shown
from toybert.train.hub.escape import code
from toybert.train.hub.folders import (
    ROOT,
    check_vocabulary,
    load_config,
    load_model,
    load_tokenizer,
    longest_input,
    pinned,
    saved_type,
)

VOCABULARY = "run.vocabulary"  # in the run's folder: the tokenizer that it learnt
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")  # for the run only; config.json keeps its own
# The tasks whose heads a checkpoint of each class brings along; other classes bring neither.
HEADS: dict[str, tuple[str, ...]] = {
    "ToyBertForPreTraining": ("masked words", "next sentences"),
    "ToyBertForMaskedLM": ("masked words",),
    "ToyBertForNextSentencePrediction": ("next sentences",),
}


def make_model(options: Any, vocab_size: int) -> tuple[Any, dict[str, Any]]:
    """Makes a new model or loads the checkpoint's; returns it and the fields to put back into its configuration."""
    auto_class = AutoModelForPreTraining if options.nsp else AutoModelForMaskedLM
    changed: dict[str, Any] = {**dict.fromkeys(DROPOUTS, options.dropout), "sparse_prediction": True}
    if options.init_from:
        checkpoint = pinned(options.init_from, options.revision)
        config = load_config(checkpoint)
        kept = {name: getattr(config, name) for name in changed}
        if (config.architectures or [""])[0] not in HEADS:  # its classes are not those learnt here
            plain = load_config(ROOT)
            changed |= {name: getattr(plain, name) for name in ("id2label", "label2id", "problem_type")}
        return load_model(auto_class, checkpoint, **changed), kept
    sizes = {name: getattr(options, name) for name in ("num_hidden_layers", "hidden_size", "num_attention_heads")}
    sizes |= {"vocab_size": vocab_size, "max_position_embeddings": options.max_length}
    config = load_config(ROOT, intermediate_size=options.intermediate_size or 4 * options.hidden_size, **sizes)
    changed["initializer_range"] = options.initializer_range
    kept = {name: getattr(config, name) for name in changed}
    config.update(changed)
    return auto_class.from_config(config, trust_remote_code=True), kept


def load_its_tokenizer(options: Any) -> tuple[PreTrainedTokenizerBase, int]:
    """Loads the tokenizer that the run learnt or its checkpoint's; returns it and the longest input."""
    if not options.init_from:
        return load_learnt(options.tokenizer, Path(options.output_dir) / VOCABULARY), options.max_length
    checkpoint = pinned(options.init_from, options.revision)
    tokenizer, config = load_tokenizer(checkpoint), load_config(checkpoint)
    check_vocabulary(tokenizer, config, options.init_from)
    return tokenizer, longest_input(tokenizer, config)


@torch.no_grad()
def start_from(model: Any, vectors: np.ndarray) -> None:
    """Gives each word of a new model a vector (V, D) of its own, twice as large as the random one that it had.

    What was drawn stays in it as a part that tells words apart whose vectors are alike.
    """
    embedding = model.get_input_embeddings()
    given = torch.from_numpy(vectors).to(embedding.weight) * (2 * model.config.initializer_range)
    given[embedding.padding_idx] = 0
    embedding.weight.add_(given)


def goes_on_from(options: Any) -> list[str]:
    """Says which checkpoint a run continues from, if any, and which of its tasks get a new head."""
    if not options.init_from:
        return []
    checkpoint = pinned(options.init_from, options.revision)
    config = load_config(checkpoint)
    known = HEADS.get((config.architectures or [""])[0], ())
    new = [head for head in HEADS["ToyBertForPreTraining"][: 1 + options.nsp] if head not in known]
    heads = f", with a new head for {' and '.join(new)}" if new else ""
    return [f"goes on from {code(shown(options.init_from))}{heads}", *saved_type(checkpoint)]


def make_classifier(checkpoint: str, labels: Labels, dropout: float) -> tuple[Any, dict[str, Any]]:
    """Loads a checkpoint to fine-tune; returns it and the fields to put back into its configuration."""
    config = load_config(checkpoint)
    changed = {"id2label": dict(enumerate(labels.names)), "label2id": labels.numbers}
    changed |= {"problem_type": labels.problem_type, **dict.fromkeys(DROPOUTS, dropout)}
    model = load_model(AutoModelForSequenceClassification, checkpoint, **changed)
    return model, {name: getattr(config, name) for name in DROPOUTS}


def check_head(config: Any, labels: Labels, model: str) -> list[str]:
    """Refuses a classifier with another number of outputs; returns a note if its classes have other names."""
    if (config.architectures or [""])[0] != "ToyBertForSequenceClassification":
        return []
    if config.num_labels != len(labels.names):
        raise ValueError(
            f"{model} is a classifier with {config.num_labels} outputs but the labels need {len(labels.names)}: "
            "fine-tune a pre-trained model"
        )
    names = tuple(config.id2label[number] for number in range(config.num_labels))
    if (names, config.problem_type or SINGLE) == (labels.names, labels.problem_type):
        return []
    return [f"{model} is a classifier of {shortened(names)}: the training goes on with its head"]
