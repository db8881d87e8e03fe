"""ToyBERT's and BERT's names for classes, settings and tensors: translates them, and checks what they name."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import BertConfig

from toybert.train.hub.folders import ROOT, load_config, read_json

OURS, THEIRS = "ToyBert", "Bert"  # how the classes' names begin, and how they go on:
PRETRAINED = ("Model", "ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction")
TASKS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice")
ONLY = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
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
    ("nsp_head.*", "cls.seq_relationship.*"),  # two rows, swapped: only in ToyBERT is class 1 "B follows A"
    ("classifier.*", "classifier.*"),
    ("qa_outputs.*", "qa_outputs.*"),
)
SWAPPED = ("nsp_head.", "cls.seq_relationship.")
SECOND_BIAS = "cls.predictions.decoder.bias"  # BERT's decoder has its one bias under two names
LAYER = re.compile(r"bert\.(?:layers|encoder\.layer)\.(\d+)\.")


def find_kind(config: Any, names: Iterable[str], source: str | Path) -> str | None:
    """Returns the name of the source's class without `Bert`, or None if the class is not one of the library's."""
    named = config.architectures or ["no class"]
    if not isinstance(named, list) or not isinstance(named[0], str):
        raise ValueError(f"architectures is {named!r} in the config.json of {source}, not a list of names")
    architecture = named[0]
    kind = architecture.removeprefix(OURS if config.model_type == "toybert" else THEIRS)
    if kind in (*PRETRAINED, *TASKS):
        return kind
    if heads := sorted(name for name in names if name.startswith(("classifier.", "qa_outputs."))):
        raise ValueError(
            f"{source} has {heads[0]}, and its config.json has {architecture} under architectures, which does not say "
            f"what that tensor is for: write one of {', '.join(THEIRS + task for task in TASKS)} there"
        )
    return None


def convert_config(config: Any) -> Any:
    """Returns the other side's configuration; a ValueError names a field whose value ToyBERT does not support."""
    for field, value in ONLY.items():
        if getattr(config, field, None) not in (value, None):
            raise ValueError(f"{field} is {getattr(config, field)!r}, and only {value!r} can be converted")
    to_bert, architecture = config.model_type == "toybert", config.architectures[0]
    target, fields = BertConfig if to_bert else type(load_config(ROOT)), config.to_dict()
    if architecture.endswith("NextSentencePrediction"):
        first, second = (config.id2label[index] for index in (0, 1))
        fields |= {"id2label": {0: second, 1: first}, "label2id": {second: 0, first: 1}}
    shared = (fields.keys() & target().to_dict().keys()) - {"model_type"}
    converted = target(**{name: fields[name] for name in shared})
    converted.architectures = [architecture.replace(*(OURS, THEIRS) if to_bert else (THEIRS, OURS))]
    if not to_bert:
        converted.auto_map = read_json(ROOT / "config.json")["auto_map"]
    return converted


def pairs_of_names(num_layers: int) -> dict[str, str]:
    """Returns BERT's name for each of ToyBERT's tensors."""
    return {
        ours.format(layer).replace("*", kind): theirs.format(layer).replace("*", kind)
        for ours, theirs in NAMES
        for layer in range(num_layers if "{}" in ours else 1)
        for kind in (("weight", "bias") if "*" in ours else ("",))
    }


def translate(tensors: dict[str, Tensor], config: Any, to_bert: bool) -> dict[str, Tensor]:
    """Returns a model's tensors under the other side's names, without those that have no place there."""
    names = pairs_of_names(config.num_hidden_layers)
    if not to_bert:
        names = {theirs: ours for ours, theirs in names.items()}
    known = {new: old for old, new in names.items() if old in tensors}
    translated = {new: tensors[old].flip(0) if old.startswith(SWAPPED) else tensors[old] for new, old in known.items()}
    if config.tie_word_embeddings:  # then the decoder's weight is the embedding, and BERT's second bias is the first
        translated.pop("cls.predictions.decoder.weight" if to_bert else "mlm_head.decoder.weight", None)
    elif to_bert and "mlm_head.decoder.bias" in tensors:
        translated[SECOND_BIAS] = tensors["mlm_head.decoder.bias"].clone()
    elif SECOND_BIAS in tensors:
        translated["mlm_head.decoder.bias"] = tensors[SECOND_BIAS]
    return translated


def current_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns tensors under the current names of a model with a head."""
    renamed = {}
    for name, tensor in tensors.items():
        name = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        encoder = name.startswith(("embeddings.", "encoder.", "layers.", "pooler."))  # of a bare model
        renamed[f"bert.{name}" if encoder else name] = tensor
    renamed.pop("bert.embeddings.position_ids", None)  # the numbers from 0 on, which old versions saved
    if SECOND_BIAS in renamed:
        renamed.setdefault("cls.predictions.bias", renamed[SECOND_BIAS])
    return renamed


def shapes_of(kind: str, config: BertConfig) -> dict[str, tuple[int, ...]]:
    """Returns the shape of each tensor of the library's `Bert{kind}`, by its name in a model with a head."""
    with torch.device("meta"):  # shapes without values
        model = getattr(transformers, f"Bert{kind}")(config)
    prefix = "bert." if kind == "Model" else ""
    return {f"{prefix}{name}": tuple(tensor.shape) for name, tensor in model.state_dict().items()}


def check_tensors(
    tensors: dict[str, Tensor], config: BertConfig, to_bert: bool, source: str | Path, kind: str | None
) -> list[str]:
    """Refuses tensors that do not fit stock BERT's configuration; returns the names of those with no place in it.

    All tensors of the class `Bert{kind}` must be there, but a bare model needs no pooler. For an unknown class, None,
    those of a bare model are enough.
    """
    least, most = kind or "Model", kind if kind in TASKS else "ForPreTraining"
    layers = config.num_hidden_layers
    found = {int(layer[1]) for name in tensors if (layer := LAYER.match(name))}
    if len(found) < layers:  # before a model of so many layers is made
        raise ValueError(f"{source} is not complete: it has {len(found)} of the {layers:,} layers of its config.json")
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
            raise ValueError(f"{source} has {name}, but its config.json says num_hidden_layers {layers}")
        if name in shapes and tuple(tensor.shape) != shapes[name]:
            raise ValueError(f"{name} of {source} is {tuple(tensor.shape)}, but its config.json says {shapes[name]}")
    return sorted(tensors.keys() - shapes.keys())
