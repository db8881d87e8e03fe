"""A checkpoint's tensors as they lie in its folder, under ToyBERT's names or BERT's; nothing of the folder is run."""

import re
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor
from transformers import BertConfig

from toybert.train.hub.folders import read_json, reading

# ToyBERT's name, BERT's name; {} is the number of a layer, and * both weight and bias.
NAMES = (
    ("bert.embeddings.token.weight", "bert.embeddings.word_embeddings.weight"),
    ("bert.embeddings.segment.weight", "bert.embeddings.token_type_embeddings.weight"),
    ("bert.embeddings.position.weight", "bert.embeddings.position_embeddings.weight"),
    ("bert.embeddings.norm.*", "bert.embeddings.LayerNorm.*"),
    ("bert.layers.{}.attention.query.*", "bert.encoder.layer.{}.attention.self.query.*"),
    ("bert.layers.{}.attention.key.*", "bert.encoder.layer.{}.attention.self.key.*"),
    ("bert.layers.{}.attention.value.*", "bert.encoder.layer.{}.attention.self.value.*"),
    ("bert.layers.{}.attention.output.*", "bert.encoder.layer.{}.attention.output.dense.*"),
    ("bert.layers.{}.attention_norm.*", "bert.encoder.layer.{}.attention.output.LayerNorm.*"),
    ("bert.layers.{}.feed_forward.inner.*", "bert.encoder.layer.{}.intermediate.dense.*"),
    ("bert.layers.{}.feed_forward.outer.*", "bert.encoder.layer.{}.output.dense.*"),
    ("bert.layers.{}.feed_forward_norm.*", "bert.encoder.layer.{}.output.LayerNorm.*"),
    ("bert.pooler.dense.*", "bert.pooler.dense.*"),
    ("mlm_head.dense.*", "cls.predictions.transform.dense.*"),
    ("mlm_head.norm.*", "cls.predictions.transform.LayerNorm.*"),
    ("mlm_head.decoder.weight", "cls.predictions.decoder.weight"),
    ("mlm_head.decoder.bias", "cls.predictions.bias"),
    ("nsp_head.*", "cls.seq_relationship.*"),  # with its two rows swapped: only here does class 1 say that B follows A
    ("classifier.*", "classifier.*"),
    ("qa_outputs.*", "qa_outputs.*"),
)
SWAPPED = ("nsp_head.", "cls.seq_relationship.")
SECOND_BIAS = "cls.predictions.decoder.bias"  # a BERT's decoder has the one bias under two names
LAYER = re.compile(r"bert\.(?:layers|encoder\.layer)\.(\d+)\.")


def pairs_of_names(num_layers: int) -> dict[str, str]:
    """Gives BERT's name for each of ToyBERT's."""
    return {
        ours.format(layer).replace("*", kind): theirs.format(layer).replace("*", kind)
        for ours, theirs in NAMES
        for layer in range(num_layers if "{}" in ours else 1)
        for kind in (("weight", "bias") if "*" in ours else ("",))
    }


def translate(tensors: dict[str, Tensor], config: Any, to_bert: bool) -> dict[str, Tensor]:
    """Gives a model's tensors under the other side's names; what has no place there is left out."""
    names = pairs_of_names(config.num_hidden_layers)
    if not to_bert:
        names = {theirs: ours for ours, theirs in names.items()}
    translated = {
        new: tensors[old].flip(0) if old.startswith(SWAPPED) else tensors[old]
        for old, new in names.items()
        if old in tensors
    }
    if config.tie_word_embeddings:  # then the decoder's weight is the embedding, and BERT's second bias the first
        translated.pop("cls.predictions.decoder.weight" if to_bert else "mlm_head.decoder.weight", None)
    elif to_bert and "mlm_head.decoder.bias" in tensors:
        translated[SECOND_BIAS] = tensors["mlm_head.decoder.bias"].clone()
    elif SECOND_BIAS in tensors:
        translated["mlm_head.decoder.bias"] = tensors[SECOND_BIAS]
    return translated


def load_pickle(path: Path) -> dict[str, Tensor]:
    """Reads a `.bin` file of tensors, and refuses to unpickle anything else."""
    tensors = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.clone() for name, tensor in tensors.items()}  # two names may share one tensor


def load_tensors(folder: Path) -> dict[str, Tensor]:
    """Reads a folder's tensors, each of the type that it was saved with; without weights there are none.

    Raises:
        OSError: a part of the weights is missing.
        ValueError: a file is damaged, or is a pickle of more than tensors.
    """
    for name, load in (("model.safetensors", load_file), ("pytorch_model.bin", load_pickle)):
        parts, index = [folder / name], folder / f"{name}.index.json"
        if not parts[0].is_file():
            if not index.is_file():
                continue
            with reading(index):
                parts = [folder / part for part in sorted(set(read_json(index)["weight_map"].values()))]
        tensors: dict[str, Tensor] = {}
        for part in parts:
            try:
                tensors |= load(part)
            except OSError:
                raise
            except Exception as error:  # each library has its own
                kind = type(error).__name__
                raise ValueError(f"{part} is damaged, or holds more than tensors ({kind}); it was not run") from error
        return tensors
    return {}


def current_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Gives tensors under the names that a model with a head has for them today."""
    renamed = {}
    for name, tensor in tensors.items():
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        encoder = name.startswith(("embeddings.", "encoder.", "layers.", "pooler."))  # of a model without a head
        renamed[f"bert.{name}" if encoder else name] = tensor
    renamed.pop("bert.embeddings.position_ids", None)  # a count from 0, which old versions saved
    if SECOND_BIAS in renamed:
        renamed.setdefault("cls.predictions.bias", renamed[SECOND_BIAS])
    return renamed


def shapes_of(kind: str, config: BertConfig) -> dict[str, tuple[int, ...]]:
    """Gives the shape of each tensor of the library's `Bert{kind}`, under its name in a model with a head."""
    with torch.device("meta"):  # shapes without numbers
        model = getattr(transformers, f"Bert{kind}")(config)
    prefix = "bert." if kind == "Model" else ""
    return {f"{prefix}{name}": tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def check_tensors(
    tensors: dict[str, Tensor], config: BertConfig, to_bert: bool, source: Any, least: str, most: str
) -> list[str]:
    """Refuses tensors that are not what the configuration says, and gives the names of those that it does not mention.

    Args:
        least: the class, after `Bert`, whose tensors must all be there; the pooler of a bare model need not.
        most: the class whose tensors may be there.

    Raises:
        ValueError: one is missing, has another shape, or is of a layer that the configuration does not count.
    """
    layers = config.num_hidden_layers
    ours = {theirs: ours for ours, theirs in pairs_of_names(layers).items()} if to_bert else {}
    optional = {SECOND_BIAS} | ({"cls.predictions.decoder.weight"} if config.tie_word_embeddings else set())
    for name in shapes_of(least, config):
        if name in optional or (least == "Model" and "pooler" in name):
            continue
        if ours.get(name, name) not in tensors:
            raise ValueError(f"{source} is no complete Bert{least}: it has no {ours.get(name, name)}")
    shapes = {ours.get(name, name): shape for name, shape in shapes_of(most, config).items()}
    for name, tensor in tensors.items():
        layer = LAYER.match(name)
        if layer and int(layer[1]) >= layers:
            raise ValueError(f"{source} has {name}, and its config.json says num_hidden_layers {layers}")
        if name in shapes and tuple(tensor.shape) != shapes[name]:
            raise ValueError(f"{name} of {source} is {tuple(tensor.shape)}, its config.json says {shapes[name]}")
    return sorted(tensors.keys() - shapes.keys())
