"""Folders that load anywhere: what a run starts from, and what it leaves behind."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, HfApi, snapshot_download
from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast
from transformers.models.bert import BertTokenizerFast  # type: ignore[attr-defined]

ROOT = Path(__file__).resolve().parents[1]  # the repository's root: the shipped model and its code
CODE = ("configuration_toybert.py", "modeling_toybert.py", "tokenization_toybert.py")
# What `push` uploads of a run.
UPLOADED = (
    *CODE,
    "README.md",
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "model.safetensors",
    "history.json",
    "results.json",
    "figures/*.png",
)


@contextmanager
def reading(what: str | Path) -> Iterator[None]:
    """Turns whatever the libraries raise at a file that is not what it should be into a ValueError that names it.

    What the system or the network has to say stays an OSError, and names it too.

    Args:
        what: the file or the folder, as the message names it.
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
    """Reads a file that holds a JSON object.

    Raises:
        OSError: there is no such file.
        ValueError: it holds something else; the message names it.
    """
    with reading(path):
        found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a JSON {type(found).__name__}, not an object")
    return found


def is_hub_id(name: str | Path) -> bool:
    """Tells whether this can only be an id on the Hub, such as me/toybert."""
    return not Path(name).exists() and str(name).count("/") == 1 and str(name)[0] not in "./"


def check_checkpoint(folder: str | Path) -> None:
    """Refuses a local folder that holds no checkpoint; what may be a Hub id is left for the library to find.

    Raises:
        FileNotFoundError: the folder is missing, or has no config.json.
    """
    if not is_hub_id(folder) and not (Path(folder) / "config.json").is_file():
        raise FileNotFoundError(f"{folder} is no checkpoint: it has no config.json")


def check_revision(source: str | Path, revision: str | None) -> None:
    """Refuses a revision of what is no id on the Hub."""
    if revision and not is_hub_id(source):
        raise ValueError(f"{source} is a folder: a revision, here {revision}, is of an id on the Hub")


def pinned(checkpoint: str, revision: str | None) -> str:
    """Gives a checkpoint as it was at a commit, a tag or a branch: of an id on the Hub, the folder of its files there.

    Raises:
        ValueError: there is a revision of what is no id on the Hub.
        OSError: the Hub has no such revision.
    """
    check_revision(checkpoint, revision)
    loaded = [*CODE, "*.json", "vocab.txt", "*.safetensors"]
    return snapshot_download(checkpoint, revision=revision, allow_patterns=loaded) if revision else checkpoint


def locate(folder: str | Path) -> tuple[str, dict[str, Any]]:
    """Gives what from_pretrained needs to find a checkpoint.

    A local folder without code of its own, such as the repository's `sentiment`, is found from the folder above it.
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
    load_config(folder)  # of another model's folder, the library would make a tokenizer of its own
    where, how = locate(folder)
    with reading(f"the tokenizer of {folder}"):
        return AutoTokenizer.from_pretrained(where, **how)


def load_model(auto_class: Any, folder: str | Path, **changes: Any) -> Any:
    """Loads a checkpoint's model as any outside user would; `changes` go into its configuration.

    Through an Auto class, since only such a model takes its code along when it is saved.
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
    """Refuses a checkpoint whose tokenizer and model do not fit.

    Raises:
        ValueError: the tokenizer has more tokens than the model.
    """
    if len(tokenizer) > config.vocab_size:  # fewer is common: sizes are rounded up for speed
        raise ValueError(f"in {folder} the tokenizer has {len(tokenizer)} tokens, the model {config.vocab_size}")


def longest_input(tokenizer: PreTrainedTokenizerBase, config: Any) -> int:
    """Gives the number of tokens that a checkpoint takes: its tokenizer's limit, or its model's where that is less."""
    return min(tokenizer.model_max_length, config.max_position_embeddings)


def save_hub_folder(
    model: Any, tokenizer: PreTrainedTokenizerBase, folder: Path, weights: dict[str, Any] | None = None, **restored: Any
) -> None:
    """Saves a model, its tokenizer and its code as a folder that loads by itself with trust_remote_code.

    Every file is written elsewhere first and then moved into place, so that an interruption leaves no half of one.

    Args:
        weights: the model's, where it does not hold all of them itself.
        restored: configuration fields that the run had changed for itself, with the values to save.
    """
    for name, value in restored.items():
        setattr(model.config, name, value)
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


def save_stock_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Saves a tokenizer as one that needs no code of ours, on any version of the library.

    Where a ToyBertTokenizer splits off punctuation it becomes a BertTokenizer, which gives the same tokens save that it
    drops control and zero-width characters and doesn't compose letters with their accents (NFC). Else the words stay a
    plain list.
    """
    if type(tokenizer).__name__ == "ToyBertTokenizer":
        tokenizer = stock_tokenizer(tokenizer, folder)
    # 5.0 makes a plain tokenizer of a BertTokenizer in a ToyBERT's folder, and that has no segments by itself.
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    tokenizer.init_kwargs["model_input_names"] = tokenizer.model_input_names
    tokenizer.save_pretrained(folder)
    # Newer versions write facts about one loading, and a class that older ones don't know.
    path = folder / "tokenizer_config.json"
    settings = {name: value for name, value in read_json(path).items() if name not in ("is_local", "local_files_only")}
    if settings.get("tokenizer_class") == "TokenizersBackend":
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def stock_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> PreTrainedTokenizerBase:
    """Makes the library's own tokenizer of a ToyBertTokenizer; BERT's vocab.txt is left in the folder."""
    words = tokenizer.backend_tokenizer.get_vocab(with_added_tokens=False)
    kept = {"model_max_length": tokenizer.model_max_length, "clean_up_tokenization_spaces": False}
    # BERT's cuts words in pieces, "##" before all but the first, and gives up on those of over 100 letters.
    if not tokenizer.split_punctuation or any(word.startswith("##") or len(word) > 100 for word in words):
        kept |= tokenizer.special_tokens_map
        return PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, **kept)
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in sorted(words, key=words.get)), "utf-8")
    kept |= {"do_lower_case": True, "strip_accents": False, "tokenize_chinese_chars": False}
    stock = BertTokenizerFast.from_pretrained(folder, **kept)
    stock.add_tokens([token for _, token in sorted(tokenizer.added_tokens_decoder.items())][5:])
    return stock


def check_login() -> None:
    """Refuses an upload that can only fail, before anything is done for it.

    Raises:
        OSError: there is no login, or no network.
    """
    try:
        HfApi().whoami()
    except Exception as error:  # as in `push`
        raise OSError(f"there is no way to upload: {why(error)}") from error


def why(error: Exception) -> str:
    """Gives an error's kind, message and cause in one line."""
    return " ".join(f"{type(error).__name__}: {error} {error.__cause__ or ''}".split())


def push(folder: Path, repo_id: str, patterns: Sequence[str] = UPLOADED, private: bool = False) -> None:
    """Uploads files of a folder as one commit: no checkpoints, no logs, nothing that happens to lie there.

    Args:
        patterns: the files' names in the folder, or patterns of them.
        private: whether the repository is private, if it is made now.

    Raises:
        OSError: there is no login, no network, or no right to write; the folder is whole all the same.
    """
    api = HfApi()
    try:
        print(f"logged in as {api.whoami()['name']}")
        api.create_repo(repo_id, private=private or None, exist_ok=True)
        paths = sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
        added = [CommitOperationAdd(path.relative_to(folder).as_posix(), path) for path in paths]
        # upload_folder repeats a failed commit for minutes, and then in parts, which can leave half of a repository.
        url = api.create_commit(repo_id, added, commit_message="Upload ToyBERT")
    except Exception as error:  # the client's own, the system's, or those of the library below the client
        raise OSError(f"could not upload {folder} to {repo_id} (it is saved all the same): {why(error)}") from error
    print(f"uploaded {folder} to {url}")
