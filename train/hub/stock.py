"""Stock BERT folders: reads them as data, without running any code of theirs, and writes what is in them."""

import json
import shutil
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoTokenizer, BertConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.models.bert import BertTokenizerFast  # type: ignore[attr-defined]

from toybert.train.hub.folders import ROOT, load_tokenizer, read_json, reading

MODULES = "[0-9]_*"  # the folders in which sentence-transformers keeps what follows the encoder
POOLING = ("modules.json", "*sentence*.json", f"{MODULES}/config.json")


def load_pickle(path: Path) -> dict[str, Tensor]:
    """Reads a `.bin` file of tensors, and refuses to unpickle anything else."""
    tensors = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.clone() for name, tensor in tensors.items()}  # two names may share one tensor


def load_tensors(folder: Path) -> dict[str, Tensor]:
    """Reads a folder's tensors, each in the type that it was saved in; returns {} if there are no weights."""
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
            except Exception as error:  # safetensors and pickle have errors of their own
                kind = type(error).__name__
                raise ValueError(f"{part} is damaged, or holds more than tensors ({kind}); it was not run") from error
        return tensors
    return {}


def load_foreign_tokenizer(folder: Path, config: BertConfig) -> PreTrainedTokenizerBase | None:
    """Loads a folder's tokenizer with this package's code or the library's; returns None if there is none."""
    if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt")):
        return None
    path, words = folder / "tokenizer_config.json", folder / "vocab.txt"
    if words.is_file() and words.read_bytes().startswith(BOM_UTF8):
        raise ValueError(f"{words} begins with a byte-order mark, which would be part of its first word: take it out")
    with reading(f"the tokenizer of {folder}"):
        if path.is_file() and read_json(path).get("tokenizer_class") == "ToyBertTokenizer":
            return type(load_tokenizer(ROOT)).from_pretrained(folder)
        return AutoTokenizer.from_pretrained(folder, config=config, trust_remote_code=False)


def load_modules(folder: Path) -> dict[str, dict[str, Tensor]]:
    """Reads the tensors of the sentence-transformers modules after the encoder, by the names of their folders."""
    return {path.parent.name: load_tensors(path.parent) for path in folder.glob(f"{MODULES}/config.json")}


def copy_modules(folder: Path, target: Path, weights: dict[str, dict[str, Tensor]]) -> None:
    """Copies the settings of the sentence-transformers modules after the encoder, and writes their weights."""
    for path in (path for pattern in POOLING for path in folder.glob(pattern)):
        copy = target / path.relative_to(folder)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
    for module, tensors in weights.items():
        if tensors:  # a dense layer has some, pooling none
            save_file(tensors, target / module / "model.safetensors")


def save_stock_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Saves a tokenizer as one that needs no code of ours, on any version of the library.

    A ToyBertTokenizer that splits off punctuation becomes a BertTokenizer. This makes the same tokens, except that it
    drops control and zero-width characters and doesn't compose letters with their accents (NFC). Any other, or one with
    parts that a user has set, becomes a PreTrainedTokenizerFast with the same parts.
    """
    if type(tokenizer).__name__ == "ToyBertTokenizer":
        tokenizer = stock_tokenizer(tokenizer, folder)
    # In a ToyBERT's folder, transformers 5.0 loads a BertTokenizer as a plain one, which has no segments unless told.
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names
    tokenizer.save_pretrained(folder)
    # Newer versions write down how the tokenizer was loaded, and a class that older versions don't know.
    path = folder / "tokenizer_config.json"
    settings = {name: value for name, value in read_json(path).items() if name not in ("is_local", "local_files_only")}
    if settings.get("tokenizer_class") == "TokenizersBackend":
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def stock_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> PreTrainedTokenizerBase:
    """Makes one of the library's tokenizers from a ToyBertTokenizer, and leaves BERT's vocab.txt in the folder."""
    words = tokenizer.backend_tokenizer.get_vocab(with_added_tokens=False)
    kept = {"model_max_length": tokenizer.model_max_length, "clean_up_tokenization_spaces": False}
    if not is_like_bert(tokenizer) or any(not is_line_of_bert(word) for word in words):
        kept |= tokenizer.special_tokens_map
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, **kept)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in sorted(words, key=words.get)), "utf-8")
    kept |= {"do_lower_case": tokenizer.do_lower_case, "strip_accents": False, "tokenize_chinese_chars": False}
    stock = BertTokenizerFast.from_pretrained(folder, **kept)
    stock.add_tokens([token for _, token in sorted(tokenizer.added_tokens_decoder.items())][5:])
    return stock


def is_line_of_bert(word: str) -> bool:
    """Tells whether a word can stand in a vocab.txt: one line, no "##" of a piece, and no more than 100 letters."""
    return word.split() == [word] and not word.startswith("##") and len(word) <= 100


def is_like_bert(tokenizer: Any) -> bool:
    """Tells whether a ToyBertTokenizer still has its default parts, which a BertTokenizer can replace."""
    ours, made = tokenizer.backend_tokenizer, type(tokenizer)().backend_tokenizer
    parts = ((getattr(each, name) for each in (ours, made)) for name in ("pre_tokenizer", "post_processor", "decoder"))
    same = all(part and part.__getstate__() == another.__getstate__() for part, another in parts)
    return same and tokenizer.do_lower_case is not None
