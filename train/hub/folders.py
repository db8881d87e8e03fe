"""Loads checkpoints from a folder or the Hub, and saves a model as a folder that loads anywhere."""

import contextlib
import json
import math
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from huggingface_hub.errors import RepositoryNotFoundError
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

ROOT = Path(__file__).resolve().parents[2]  # the repository's root: the shipped model and its code
CODE = ("configuration_toybert.py", "modeling_toybert.py", "tokenization_toybert.py")
# What the library, or `convert`, may read in a checkpoint's folder; the last are the modules of sentence-transformers.
READ = (
    *CODE, "*.json", "vocab*", "merges.txt", "*.model", "*.jinja", "additional_chat_templates/*", "*.safetensors",
    "*model*.bin", "[0-9]_*", "[0-9]_*/*",
)  # fmt: skip
# With these settings, the library reads other files, or other fields, than those that are checked here.
ELSEWHERE = re.compile(r"configuration_files|attribute_map|transformers_weights|vocab|.*(?<!special_tokens_map)_files?")
SIZES = (
    "num_hidden_layers", "num_labels", "vocab_size", "hidden_size", "intermediate_size", "num_attention_heads",
    "max_position_embeddings", "type_vocab_size",
)  # fmt: skip
MOST, MOST_LAYERS = 10**6, 1000  # for a folder whose weights don't say


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
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the tokenizers is no Exception
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


def pinned(checkpoint: str | Path, revision: str | None = None) -> str:
    """Returns a folder as it is; downloads a Hub id's commit, tag or branch (default: main) and returns its folder."""
    check_checkpoint(checkpoint, revision)
    if not is_hub_id(checkpoint):
        return str(checkpoint)
    loaded = [*CODE, "*.json", "vocab.txt", "*.safetensors"]
    with reading(f"the files of {checkpoint}"):
        try:
            return snapshot_download(str(checkpoint), revision=revision, allow_patterns=loaded)
        except RepositoryNotFoundError as error:
            raise FileNotFoundError(f"{checkpoint} is not on the Hub, or you may not read it: log in?") from error


def check_files(folder: Path) -> None:
    """Refuses a folder if the library would read something outside it, or something else than what is checked here."""
    for path in sorted(path for pattern in READ for path in folder.glob(pattern)):
        within(path, folder)
        if path.name == "adapter_config.json":
            raise ValueError(f"{path} is of an adapter, whose model, with its code, would come from elsewhere")
        if path.name.endswith(".index.json"):
            index = read_json(path)
            with reading(path):
                parts = [path.parent / part for part in index["weight_map"].values()]
            for part in parts:
                within(part, folder)
        if path.name in ("config.json", "tokenizer_config.json") and path.parent == folder:
            for name, value in read_json(path).items():
                if ELSEWHERE.fullmatch(name) and value and (name != "vocab" or isinstance(value, str)):
                    raise ValueError(f"{path} has {name} {value!r}, which leads elsewhere: take that line out")


def check_code(folder: Path) -> None:
    """Refuses a checkpoint that takes code from anywhere but its own folder's three files."""
    for name in ("config.json", "tokenizer_config.json"):
        settings = read_json(folder / name) if (folder / name).is_file() else {}
        named = settings.get("auto_map") or {}
        classes = [*named.values()] if isinstance(named, dict) else [named]
        classes = [each for entry in classes for each in (entry if isinstance(entry, list) else [entry])]
        for each in classes:
            if each is not None and f"{str(each).rpartition('.')[0]}.py" not in CODE:
                raise ValueError(f"{folder / name} takes code from {each!r}: only {', '.join(CODE)} beside it are run")
        for setting, value in settings.items():
            if "_implementation" in setting and value not in (None, True, False, "sdpa", "eager"):
                raise ValueError(f"{folder / name} wants {value!r} for attention: only sdpa and eager are run")


def check_sizes(folder: Path) -> None:
    """Refuses a configuration with larger sizes than its weights have, before anything is made of that size."""
    settings = read_json(folder / "config.json")
    shapes: dict[str, list[int]] = {}
    for path in folder.glob("*.safetensors"):
        with contextlib.suppress(SafetensorError, OSError), safe_open(path, "pt") as file:  # found when they are loaded
            shapes |= {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 (no mapping)
    shapes = {name: shape for name, shape in shapes.items() if 0 not in shape}  # an empty tensor may claim any size
    layers = {number for name in shapes for number in re.findall(r"layers?\.(\d+)\.", name)}
    width = max((size for shape in shapes.values() for size in shape), default=MOST)
    for name in SIZES:
        most = (len(layers) if shapes else MOST_LAYERS) if name == "num_hidden_layers" else width
        value = settings.get(name, 0)
        if not isinstance(value, int) or value > most:
            found = "its weights have" if shapes else "at most"
            raise ValueError(f"{folder / 'config.json'} says {name} {value!r}, but {found} {most:,}")
    depth, _, vocabulary, hidden, inner, _, positions, segments = (settings.get(name, 0) for name in SIZES)
    needed = hidden * (vocabulary + positions + segments + depth * (4 * hidden + 2 * inner))  # no biases, no heads
    if shapes and needed > (saved := sum(map(math.prod, shapes.values()))):
        raise ValueError(f"{folder / 'config.json'} describes {needed:,} weights or more, but its files have {saved:,}")


def within(path: Path, folder: Path) -> Path:
    """Returns a path in a folder, and refuses one that leads out of it; the Hub's cache may link to its own files."""
    real, root = path.resolve(), folder.resolve()
    blobs = [each.with_name("blobs") for each in root.parents if each.name == "snapshots"]
    if any(real.is_relative_to(place) for place in (root, *blobs)):
        return path
    raise ValueError(f"{path} leads out of {folder}, to {real}: put a copy there if you want it")


def locate(checkpoint: str | Path) -> tuple[str, dict[str, Any]]:
    """Returns what from_pretrained needs to find a checkpoint, in a folder.

    A local folder without code, such as the repository's `sentiment`, is loaded as a subfolder of the one that has it.
    """
    folder = pinned(checkpoint)
    inside, path = "", Path(folder).resolve()
    check_files(path)
    check_code(path)
    check_sizes(path)
    if not (path / CODE[1]).exists() and (path.parent / CODE[1]).exists():
        inside, folder = path.name, str(path.parent)
        check_files(path.parent)
    return folder, {"subfolder": inside, "trust_remote_code": True}


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
    """Loads a checkpoint's model in float32, with `changes` in its configuration; refuses weights that are no numbers.

    It takes an Auto class, since the library saves a model's code only if an Auto class loaded it.
    """
    where, how = locate(folder)
    with reading(f"the model of {folder}"):
        try:
            model = auto_class.from_pretrained(where, **how, dtype="float32", use_safetensors=True, **changes)
        except RuntimeError as error:
            if "mismatch" not in str(error):
                raise
            raise ValueError("its tensors have other shapes than its config.json says") from error
    if bad := [name for name, weight in model.named_parameters() if not weight.isfinite().all()]:
        raise ValueError(f"the weights of {folder} are no numbers: {bad[0]} has infinities or NaN")
    return model


def saved_type(folder: str | Path) -> list[str]:
    """Says in which type a checkpoint's weights are, unless that is float32."""
    dtype = str(getattr(load_config(folder), "dtype", None) or "float32").removeprefix("torch.")
    return [] if dtype == "float32" else [f"the weights of {folder} are {dtype}: they are trained and saved as float32"]


def check_vocabulary(tokenizer: PreTrainedTokenizerBase, config: Any, folder: str | Path) -> None:
    """Refuses a checkpoint whose tokenizer has more tokens than its model."""
    if len(tokenizer) > config.vocab_size:  # fewer is common: sizes are rounded up for speed
        raise ValueError(f"the tokenizer of {folder} has {len(tokenizer)} tokens, its model {config.vocab_size}")


def longest_input(tokenizer: PreTrainedTokenizerBase, config: Any) -> int:
    """Returns how many tokens an input may have: the tokenizer's limit or the model's, whichever is less."""
    limit = tokenizer.model_max_length
    if not isinstance(limit, (int, float)) or not limit >= 1:
        raise ValueError(f"model_max_length in tokenizer_config.json is {limit!r}, not a number of tokens")
    return int(min(limit, config.max_position_embeddings))


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
