"""Converts a BERT checkpoint to ToyBERT, or a ToyBERT checkpoint to a stock `bert` folder that needs no custom code.

It runs only this package's code: the source's configuration, tensors and tokenizer are read as data.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from huggingface_hub import save_torch_state_dict, snapshot_download
from transformers import BertConfig

from toybert.train import cli
from toybert.train.hub import folders, names, stock
from toybert.train.hub.card import write_conversion_card
from toybert.train.hub.escape import in_line
from toybert.train.hub.folders import CODE, ROOT
from toybert.train.loop.checkpoint import flush

UNFINISHED = ".unfinished"
SETTINGS = ("config.json", "*token*.json", "vocab.txt", *stock.POOLING)
WEIGHTS = ("model*.safetensors", "model.safetensors.index.json", f"{stock.MODULES}/model.safetensors")
EARLY = {"hidden_size", "num_hidden_layers", "type_vocab_size"}  # a first BERT's config.json has no model_type
PICKLED = ("pytorch_model*.bin", "pytorch_model.bin.index.json", f"{stock.MODULES}/pytorch_model.bin")


def fetch(source: str | Path, revision: str | None) -> Path:
    """Returns the source's folder; for a source on the Hub, downloads only the files that are needed."""
    folders.check_checkpoint(source, revision)
    if Path(source).is_dir():
        return Path(source)
    folder = Path(snapshot_download(str(source), revision=revision, allow_patterns=[*SETTINGS, *WEIGHTS]))
    if not any(folder.glob(WEIGHTS[0])):
        snapshot_download(str(source), revision=revision, allow_patterns=list(PICKLED))
    return folder


def read_config(folder: Path, source: str | Path) -> Any:
    """Reads a configuration: BERT's with the library's class, ToyBERT's with this package's."""
    settings = folders.read_json(folder / "config.json")
    kind = settings.get("model_type", "bert" if settings.keys() >= EARLY else None)
    if kind not in ("bert", "toybert"):
        raise ValueError(f"model_type is {kind!r}, and only 'bert' and 'toybert' can be converted")
    folders.check_sizes(folder)
    with folders.reading(f"the configuration of {source}"):
        return (type(folders.load_config(ROOT)) if kind == "toybert" else BertConfig).from_pretrained(folder)


def convert(source: str | Path, target: str | Path, revision: str | None = None) -> list[str]:
    """Converts `source`, a folder or Hub id, from BERT to ToyBERT or the reverse, into the new folder `target`.

    Each tensor keeps its type and its bits. No code of the source is run.

    Args:
        revision: a commit, tag or branch of a source on the Hub.

    Returns:
        The names of the tensors left out, which have no place in the target.

    Raises:
        ValueError: the source is neither of the two, or has something that can't be converted.
        OSError: the source lacks its configuration or its weights, or `target` is not empty.
    """
    str(target).encode()  # as in `check_checkpoint`
    target = Path(target).resolve()
    if target.exists() and (not target.is_dir() or {path.name for path in target.iterdir()} - {UNFINISHED}):
        raise FileExistsError(f"{target} is not empty: name a new folder")
    folder = fetch(source, revision)
    folders.check_files(folder)
    old = read_config(folder, source)
    to_bert = old.model_type == "toybert"
    tensors = names.current_names(stock.load_tensors(folder))
    if not tensors:
        raise FileNotFoundError(f"{source} has no weights: neither model.safetensors nor pytorch_model.bin")
    kind = names.find_kind(old, tensors, source)
    old.architectures = [(names.OURS if to_bert else names.THEIRS) + (kind or "ForPreTraining")]
    new = names.convert_config(old)
    bert_config = new if to_bert else old
    left_out = names.check_tensors(tensors, bert_config, to_bert, source, kind)
    tokenizer, modules = stock.load_foreign_tokenizer(folder, bert_config), stock.load_modules(folder)
    if tokenizer:
        folders.check_vocabulary(tokenizer, new, source)
        tokenizer.model_max_length = folders.longest_input(tokenizer, new)  # a folder with only vocab.txt has no limit

    with made_whole(target) as unfinished:  # the source has passed all checks by now
        new.save_pretrained(unfinished)
        save_torch_state_dict(names.translate(tensors, new, to_bert), unfinished)
        if tokenizer:
            stock.save_stock_tokenizer(tokenizer, unfinished)
        for name in () if to_bert else CODE:
            shutil.copyfile(ROOT / name, unfinished / name)
        stock.copy_modules(folder, unfinished, modules)
        write_conversion_card(unfinished, source, revision, new, left_out)
    return left_out


@contextmanager
def made_whole(target: Path) -> Iterator[Path]:
    """Lends a folder of the target's name, and puts what is in it in the target's place at the end, or nothing.

    An empty target is filled, config.json last, rather than replaced: it may be a mount, or a working directory.
    """
    empty = target.is_dir()
    scratch = target / UNFINISHED if empty else target.with_name(f".{target.name}{UNFINISHED}")
    made = scratch / target.name
    shutil.rmtree(scratch, ignore_errors=True)  # of a run that was killed
    try:
        made.mkdir(parents=True)
        yield made
        for path in (*made.rglob("*"), made):
            flush(path)
        for path in sorted(made.iterdir(), key=lambda path: path.name == "config.json") if empty else (made,):
            os.replace(path, target / path.name if empty else target)
        flush(target.parent)
    except Exception as error:  # torch and safetensors have their own errors for a full disk
        raise OSError(f"could not write {target}: {' '.join(str(error).split())}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def main() -> None:
    """Converts the checkpoint that the command line names."""
    parser = cli.make_parser(__doc__)
    parser.add_argument("source", help="A BERT or a ToyBERT: a folder, or an id on the Hub.")
    parser.add_argument("target", help="The new folder.")
    parser.add_argument("--revision", help="The commit, tag or branch of a source on the Hub (default: its main).")
    options = parser.parse_args()
    left_out = convert(options.source, options.target, options.revision)
    print(f"converted {options.source} to {options.target}")
    if left_out:
        print(f"left out, as they have no place there: {', '.join(map(in_line, left_out))}")


if __name__ == "__main__":
    cli.run(main)
