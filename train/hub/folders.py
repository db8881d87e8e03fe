"""Loads checkpoints from a folder or the Hub, and saves a model as a folder that loads anywhere."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

ROOT = Path(__file__).resolve().parents[2]  # the repository's root: the shipped model and its code
CODE = ("configuration_toybert.py", "modeling_toybert.py", "tokenization_toybert.py")


@contextmanager
def reading(what: str | Path) -> Iterator[None]:
    """Turns any error of the libraries about a damaged file into a ValueError that names the file by `what`.

    Errors of the system and of the network stay OSErrors, and name it too.
    """
    try:
        yield
    except OSError as error:
        if error.filename or str(what).rpartition(" of ")[2] in str(error):
            raise
        raise OSError(f"{what} can't be read: {error}") from error
    except Exception as error:
        raise ValueError(f"{what} can't be read ({type(error).__name__}: {error})") from error


def read_json(path: Path) -> dict[str, Any]:
    """Reads a file that must hold a JSON object."""
    with reading(path):
        found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a JSON {type(found).__name__}, not an object")
    return found


def is_hub_id(name: str | Path) -> bool:
    """Tells whether a name can only be an id on the Hub, such as me/toybert."""
    return not Path(name).exists() and str(name).count("/") == 1 and str(name)[0] not in "./"


def check_checkpoint(source: str | Path, revision: str | None = None) -> None:
    """Refuses a local folder without a checkpoint or with a revision; the library itself checks a Hub id."""
    str(source).encode()  # an error if the name is not UTF-8: the libraries below can't read it
    if revision and not is_hub_id(source):
        raise ValueError(f"{source} is a folder, and revision {revision} needs an id on the Hub")
    if not is_hub_id(source) and not (Path(source) / "config.json").is_file():
        reason = "it has no config.json" if Path(source).is_dir() else "there is no such folder"
        raise FileNotFoundError(f"{source} is no checkpoint: {reason}")


def pinned(checkpoint: str, revision: str | None) -> str:
    """Returns a checkpoint as it is; with a revision, downloads that commit, tag or branch and returns its folder."""
    if not revision:
        return checkpoint
    check_checkpoint(checkpoint, revision)
    loaded = [*CODE, "*.json", "vocab.txt", "*.safetensors"]
    return snapshot_download(checkpoint, revision=revision, allow_patterns=loaded)


def locate(folder: str | Path) -> tuple[str, dict[str, Any]]:
    """Returns what from_pretrained needs to find a checkpoint.

    A local folder without code, such as the repository's `sentiment`, is loaded as a subfolder of the one that has it.
    """
    check_checkpoint(folder)
    inside, path = "", Path(folder).resolve()
    if path.is_dir() and not (path / CODE[1]).exists() and (path.parent / CODE[1]).exists():
        inside, folder = path.name, path.parent
    return str(folder), {"subfolder": inside, "trust_remote_code": True}


def load_config(folder: str | Path, **changes: Any) -> Any:
    """Loads a checkpoint's configuration as any outside user would."""
    where, how = locate(folder)
    with reading(f"the configuration of {folder}"):
        config = AutoConfig.from_pretrained(where, **how, **changes)
    if config.model_type != "toybert":
        raise ValueError(f"{folder} holds a model of type {config.model_type}, not toybert")
    return config


def load_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """Loads a checkpoint's tokenizer as any outside user would."""
    load_config(folder)  # for another model's folder, the library would build a tokenizer of its own
    where, how = locate(folder)
    with reading(f"the tokenizer of {folder}"):
        return AutoTokenizer.from_pretrained(where, **how)


def load_model(auto_class: Any, folder: str | Path, **changes: Any) -> Any:
    """Loads a checkpoint's model as any outside user would; `changes` go into its configuration.

    It takes an Auto class, since the library saves a model's code only if an Auto class loaded it.
    """
    where, how = locate(folder)
    with reading(f"the model of {folder}"):
        try:
            return auto_class.from_pretrained(where, **how, **changes)
        except RuntimeError as error:
            if "mismatch" not in str(error):
                raise
            raise ValueError("its tensors have other shapes than its config.json says") from error


def check_vocabulary(tokenizer: PreTrainedTokenizerBase, config: Any, folder: str | Path) -> None:
    """Refuses a checkpoint whose tokenizer has more tokens than its model."""
    if len(tokenizer) > config.vocab_size:  # fewer is common: sizes are rounded up for speed
        raise ValueError(f"the tokenizer of {folder} has {len(tokenizer)} tokens, its model {config.vocab_size}")


def longest_input(tokenizer: PreTrainedTokenizerBase, config: Any) -> int:
    """Returns how many tokens an input may have: the tokenizer's limit or the model's, whichever is less."""
    return min(tokenizer.model_max_length, config.max_position_embeddings)


def save_hub_folder(
    model: Any, tokenizer: PreTrainedTokenizerBase, folder: Path, weights: dict[str, Any] | None = None, **restored: Any
) -> None:
    """Saves a model, its tokenizer and its code into a folder, which loads by itself with trust_remote_code.

    Every file is written elsewhere first and then moved into place, so that an interruption leaves no partial file.
    `weights` are the model's, if it does not hold all of them itself; `restored` are the values to save for the fields
    of the configuration that the run changed.
    """
    for name, value in restored.items():
        setattr(model.config, name, value)
    tokenizer.model_max_length = longest_input(tokenizer, model.config)
    unfinished = folder / "model.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        model.save_pretrained(unfinished, state_dict=weights)
        tokenizer.save_pretrained(unfinished)
        for name in CODE:
            shutil.copyfile(ROOT / name, unfinished / name)
        for path in sorted(unfinished.iterdir()):
            os.replace(path, folder / path.name)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
