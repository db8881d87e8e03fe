"""Converts a BERT checkpoint to ToyBERT, or a ToyBERT checkpoint to a stock `bert` folder that needs no custom code."""

import argparse
import json
import shutil
import struct
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import transformers
from huggingface_hub import save_torch_state_dict, snapshot_download
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer, BertConfig

from toybert.train import cli
from toybert.train.hub import CODE, ROOT, check_checkpoint, load_config, locate, save_stock_tokenizer

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
OURS, THEIRS = "ToyBert", "Bert"  # how the classes' names begin
TASKS = ("SequenceClassification", "TokenClassification", "QuestionAnswering", "MultipleChoice")
ONLY = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
POOLING = ("modules.json", "*sentence*.json", "[0-9]_*/config.json")  # of a sentence-transformers folder


def translate(tensors: dict[str, Tensor], config: Any, to_bert: bool) -> dict[str, Tensor]:
    """Gives a model's tensors under the other side's names; what has no place there is left out."""
    translated = {}
    for ours, theirs in NAMES:
        for layer in range(config.num_hidden_layers if "{}" in ours else 1):
            for kind in ("weight", "bias") if "*" in ours else [""]:
                pair = [name.format(layer).replace("*", kind) for name in (ours, theirs)]
                old, new = pair if to_bert else reversed(pair)
                if old in tensors:
                    translated[new] = tensors[old].flip(0) if ours == "nsp_head.*" else tensors[old]
    if config.tie_word_embeddings:  # then the decoder's weight is the embedding, and BERT's second bias the first
        translated.pop("cls.predictions.decoder.weight" if to_bert else "mlm_head.decoder.weight", None)
    elif to_bert and "mlm_head.decoder.bias" in tensors:
        translated["cls.predictions.decoder.bias"] = tensors["mlm_head.decoder.bias"].clone()
    elif "cls.predictions.decoder.bias" in tensors:
        translated["mlm_head.decoder.bias"] = tensors["cls.predictions.decoder.bias"]
    return translated


def convert_config(config: Any) -> Any:
    """Gives the other side's configuration; a ValueError names a field whose value ToyBERT does not know."""
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
        converted.auto_map = json.loads((ROOT / "config.json").read_text("utf-8"))["auto_map"]
    return converted


def convert(source: str | Path, target: str | Path) -> list[str]:
    """Writes `target`, a new folder: a ToyBERT where `source`, a folder or Hub id, is a BERT, and the reverse.

    Returns:
        The names of the tensors that were left out, being no part of BERT.

    Raises:
        ValueError: the source is neither, or has something that can't be converted.
        OSError: the source lacks its configuration or its weights, or there is something at `target`.
    """
    check_checkpoint(source)
    target, local = Path(target), Path(source).is_dir()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target} is not empty: name a new folder")
    folder = Path(source if local else snapshot_download(str(source), allow_patterns=["*.json", "*.txt", "*.py"]))
    given = json.loads((folder / "config.json").read_text("utf-8"))
    if given.get("model_type") not in ("bert", "toybert"):
        raise ValueError(f"model_type is {given.get('model_type')!r}, and only 'bert' and 'toybert' can be converted")
    to_bert = given["model_type"] == "toybert"
    where, how = locate(folder) if to_bert else (str(folder), {})
    old_config = AutoConfig.from_pretrained(where, **how)
    architecture = (old_config.architectures or [""])[0]
    task = next((task for task in TASKS if architecture.endswith(f"For{task}")), "PreTraining")
    if not hasattr(transformers, architecture.replace(OURS, THEIRS)):  # a class of somebody's own
        old_config.architectures = [f"{OURS if to_bert else THEIRS}For{task}"]
    config = convert_config(old_config)

    # The library finds the weights, in one file or several, and knows how old ones spell their names.
    load = getattr(transformers, f"AutoModelFor{task}").from_pretrained
    try:
        model, report = load(where if local else source, **how, dtype="auto", output_loading_info=True)
    except (UnpicklingError, SafetensorError, RuntimeError, struct.error) as error:
        name = type(error).__name__
        raise ValueError(
            f"{source} has damaged weights, or a pickle of more than tensors ({name}); none was run"
        ) from error
    missing = set(report["missing_keys"])
    if encoder := sorted(name for name in missing if name.startswith("bert.") and "pooler" not in name):
        raise ValueError(f"{source} is no complete BERT: it has no {encoder[0]}")
    tensors = {name: tensor for name, tensor in model.state_dict().items() if name not in missing}

    target.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(target)
    save_torch_state_dict(translate(tensors, config, to_bert), target)
    beside = [path.relative_to(folder) for pattern in POOLING for path in folder.glob(pattern)]
    for origin, name in [(folder, name) for name in beside] + [(ROOT, name) for name in CODE if not to_bert]:
        (target / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(origin / name, target / name)
    if any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        save_stock_tokenizer(AutoTokenizer.from_pretrained(where, **how), target)
    return sorted(report["unexpected_keys"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m toybert.train.convert", description=__doc__)
    parser.add_argument("source", help="a BERT or a ToyBERT: a folder, or an id on the Hub")
    parser.add_argument("target", help="the new folder")
    options = parser.parse_args()
    left_out = convert(options.source, options.target)
    print(f"converted {options.source} to {options.target}")
    if left_out:
        print(f"left out, as no part of BERT: {', '.join(left_out)}")


if __name__ == "__main__":
    cli.run(main)
