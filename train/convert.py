"""Converts a BERT checkpoint to ToyBERT, or a ToyBERT checkpoint to a stock `bert` folder that needs no custom code.

Only this package's own code is run: of the source, configuration, tensors and tokenizer are read as data.
"""

import argparse
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from huggingface_hub import save_torch_state_dict, snapshot_download
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoTokenizer, BertConfig, PreTrainedTokenizerBase

from toybert.train import cli
from toybert.train.hub.card import write_conversion_card
from toybert.train.hub.folders import (
    CODE,
    ROOT,
    check_checkpoint,
    check_revision,
    load_config,
    load_tokenizer,
    longest_input,
    read_json,
    reading,
)
from toybert.train.hub.names import check_tensors, current_names, load_tensors, translate
from toybert.train.hub.stock import save_stock_tokenizer

OURS, THEIRS = "ToyBert", "Bert"  # how the classes' names begin, and how they go on:
PRETRAINED = ("Model", "ForPreTraining", "ForMaskedLM", "ForNextSentencePrediction")
TASKS = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice")
ONLY = {"position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
MODULES = "[0-9]_*"  # the folders in which sentence-transformers keeps what follows the encoder
POOLING = ("modules.json", "*sentence*.json", f"{MODULES}/config.json")
SETTINGS = ("config.json", "*token*.json", "vocab.txt", *POOLING)
WEIGHTS = ("model*.safetensors", "model.safetensors.index.json", f"{MODULES}/model.safetensors")
PICKLED = ("pytorch_model*.bin", "pytorch_model.bin.index.json", f"{MODULES}/pytorch_model.bin")


def fetch(source: str | Path, revision: str | None) -> Path:
    """Gives the source's folder; of one on the Hub, only what is read is downloaded.

    Raises:
        ValueError: there is a revision for what is no id on the Hub.
        OSError: there is no such source.
    """
    check_checkpoint(source)
    check_revision(source, revision)
    if Path(source).is_dir():
        return Path(source)
    folder = Path(snapshot_download(str(source), revision=revision, allow_patterns=[*SETTINGS, *WEIGHTS]))
    if not any(folder.glob(WEIGHTS[0])):
        snapshot_download(str(source), revision=revision, allow_patterns=list(PICKLED))
    return folder


def find_kind(config: Any, names: Iterable[str], source: str | Path) -> str | None:
    """Gives what the name of the source's class is after `Bert`, or None if the class is somebody's own.

    Raises:
        ValueError: `architectures` is no list of names; or the class is somebody's own, or not named, and has a head
            that could be of several classes.
    """
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
            f"what that is for: write one of {', '.join(THEIRS + task for task in TASKS)} there"
        )
    return None


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


def load_foreign_tokenizer(folder: Path, config: BertConfig) -> PreTrainedTokenizerBase | None:
    """Loads a folder's tokenizer by this package's code or the library's; it may have none."""
    if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        return None
    path = folder / "tokenizer_config.json"
    with reading(f"the tokenizer of {folder}"):
        if path.is_file() and read_json(path).get("tokenizer_class") == f"{OURS}Tokenizer":
            return type(load_tokenizer(ROOT)).from_pretrained(folder)
        return AutoTokenizer.from_pretrained(folder, config=config, trust_remote_code=False)


def copy_modules(folder: Path, target: Path, weights: dict[str, dict[str, Tensor]]) -> None:
    """Copies what sentence-transformers does after the encoder, such as pooling; its weights become safetensors."""
    for path in (path for pattern in POOLING for path in folder.glob(pattern)):
        copy = target / path.relative_to(folder)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
    for module, tensors in weights.items():
        if tensors:  # a dense layer has some, pooling none
            save_file(tensors, target / module / "model.safetensors")


def convert(source: str | Path, target: str | Path, revision: str | None = None) -> list[str]:
    """Writes `target`, a new folder: a ToyBERT where `source`, a folder or Hub id, is a BERT, and the reverse.

    Each tensor keeps its type and its bits. Nothing of the source is run.

    Args:
        revision: a commit, tag or branch of a source on the Hub.

    Returns:
        The names of the tensors that were left out, as they have no place in the target.

    Raises:
        ValueError: the source is neither, or has something that can't be converted.
        OSError: the source lacks its configuration or its weights, or there is something at `target`.
    """
    target = Path(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"{target} is not empty: name a new folder")
    folder = fetch(source, revision)
    given = read_json(folder / "config.json")
    if given.get("model_type") not in ("bert", "toybert"):
        raise ValueError(f"model_type is {given.get('model_type')!r}, and only 'bert' and 'toybert' can be converted")
    to_bert = given["model_type"] == "toybert"
    tensors = current_names(load_tensors(folder))
    if not tensors:
        raise FileNotFoundError(f"{source} has no weights: neither model.safetensors nor pytorch_model.bin")
    with reading(f"the configuration of {source}"):
        old = (type(load_config(ROOT)) if to_bert else BertConfig).from_pretrained(folder)
    kind = find_kind(old, tensors, source)
    if not kind:
        old.architectures = [f"{OURS if to_bert else THEIRS}ForPreTraining"]
    new = convert_config(old)
    stock, most = new if to_bert else old, kind if kind in TASKS else "ForPreTraining"
    left_out = check_tensors(tensors, stock, to_bert, source, least=kind or "Model", most=most)
    tokenizer = load_foreign_tokenizer(folder, stock)
    modules = {path.parent.name: load_tensors(path.parent) for path in folder.glob(f"{MODULES}/config.json")}

    target.mkdir(parents=True, exist_ok=True)  # whatever is wrong with the source, it has been found by now
    new.save_pretrained(target)
    save_torch_state_dict(translate(tensors, new, to_bert), target)
    if tokenizer:
        tokenizer.model_max_length = longest_input(tokenizer, new)  # a folder with only vocab.txt has no limit
        save_stock_tokenizer(tokenizer, target)
    for name in () if to_bert else CODE:
        shutil.copyfile(ROOT / name, target / name)
    copy_modules(folder, target, modules)
    write_conversion_card(target, source, revision, new, left_out)
    return left_out


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m toybert.train.convert", description=__doc__, epilog=cli.DEBUG)
    parser.add_argument("source", help="a BERT or a ToyBERT: a folder, or an id on the Hub")
    parser.add_argument("target", help="the new folder")
    parser.add_argument("--revision", help="the commit, tag or branch of a source on the Hub (default: its main)")
    options = parser.parse_args()
    left_out = convert(options.source, options.target, options.revision)
    print(f"converted {options.source} to {options.target}")
    if left_out:
        print(f"left out, as they have no place there: {', '.join(left_out)}")


if __name__ == "__main__":
    cli.run(main)
