"""What every script does: reads its options, and reports an error in one sentence."""

import argparse
import json
import logging as standard_logging
import os
import signal
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import datasets
import torch
import yaml
from transformers.utils import logging

from toybert.train.console import guard_console
from toybert.train.hub.escape import in_line

Options = TypeVar("Options")
STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows has one of them
DEBUG = "With --debug, an error prints its traceback."  # the end of every script's help
# The headings of --help and their options; options without a heading come first.
GROUPS = {
    "data": "corpus corpus_config train_file validation_file test_file text_column text_pair_column label_column "
    "label_separator problem_type split_sentences language pack streaming stories sentiment",
    "model": "model init_from revision tokenizer lower_case strip_accents vocab_size min_frequency max_length "
    "num_hidden_layers hidden_size num_attention_heads intermediate_size embeddings initializer_range",
    "recipe": "recipe nsp mlm_probability mlm_probability_end epochs finetuning_epochs max_steps batch_size "
    "gradient_accumulation_steps learning_rate muon_learning_rate weight_decay schedule warmup_ratio dropout "
    "max_grad_norm freeze_embeddings best_metric patience",
    "run": "output_dir seed checkpoint_every checkpoint_on_signal resume report_to quote_formulas",
    "hub": "push_to_hub repo_id private dry_run",
}


def option(help: str, default: Any = MISSING) -> Any:
    """Declares a field of an options class, with the help that the command line shows."""
    return field(default=default, metadata={"help": help})


def make_parser(description: str | None, **how: Any) -> argparse.ArgumentParser:
    """Makes a parser that shows the script's name as typed and refuses abbreviated options."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    prog = f"python -m {spec.name.removesuffix('.__main__')}" if spec else None
    return argparse.ArgumentParser(prog=prog, description=description, epilog=DEBUG, allow_abbrev=False, **how)


def parse(
    options_class: type[Options], description: str | None, recipes: dict[str, dict[str, Any]] | None = None
) -> Options:
    """Reads the fields of a dataclass from the command line; a mistake in them ends the program with exit code 2.

    `--recipe` names a set of defaults and `--config` a file of options; the command line overrides both.
    """
    usage = "%(prog)s [options]; --help lists them"  # a list of all options would hide the mistake
    parser = make_parser(description, usage=usage, add_help=False)
    parser.add_argument("--config", metavar="FILE", help="A JSON or YAML file of options; the command line wins.")
    if recipes:
        parser.add_argument("--recipe", choices=list(recipes), default="default", help="Which set of defaults to use.")
    first = vars(parser.parse_known_args()[0])
    defaults = (recipes or {}).get(first.get("recipe", ""), {})
    switches = add_options(parser, options_class, defaults)
    parser.add_argument("-h", "--help", action="help", help="Show this help and stop.")
    try:
        names = {each.name for each in fields(options_class)}  # type: ignore[arg-type]
        words = [*(read_options(first["config"], names) if first["config"] else []), *sys.argv[1:]]
        given, unknown = parser.parse_known_args(spell(words, switches))
        if unknown:
            raise ValueError(f"there is no option {unknown[0]}")
        typed = {name: value for name, value in vars(given).items() if name in names}
        return options_class(**{**defaults, **typed})
    except ValueError as error:  # from the options class or the file
        parser.error(str(error))


def add_options(parser: argparse.ArgumentParser, options_class: Any, defaults: dict[str, Any]) -> set[str]:
    """Adds an option for each field of a dataclass, with `defaults` for some; returns the boolean options."""
    groups = [(parser.add_argument_group(title), names.split()) for title, names in GROUPS.items()]
    kinds, switches = get_type_hints(options_class), set()
    for each in fields(options_class):
        flag, default = f"--{each.name.replace('_', '-')}", defaults.get(each.name, each.default)
        kind = next(kind for kind in (*get_args(kinds[each.name]), kinds[each.name]) if kind is not type(None))
        text, how = each.metadata["help"].replace("%", "%%"), dict[str, Any](action=argparse.BooleanOptionalAction)
        if kind is bool:
            switches.add(flag)
        else:
            metavar = {int: "N", float: "X"}.get(kind, each.name.rpartition("_")[2].upper())
            how = {"type": kind, "metavar": metavar}
            if default is not None:
                shown = min(default, os.path.relpath(default), key=len) if os.path.isabs(str(default)) else default
                text = f"{text.removesuffix('.')} ({'required' if default is MISSING else f'default: {shown}'})."
        parent = next((group for group, names in groups if each.name in names), parser)
        parent.add_argument(flag, default=argparse.SUPPRESS, required=default is MISSING, help=text, **how)
    return switches


def spell(words: Iterable[str], switches: set[str]) -> list[str]:
    """Spells options as the parser knows them: `--split_sentences` with a hyphen, `--nsp false` as `--no-nsp`."""
    spelt: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            word = name.replace("_", "-") + equals + value
        if spelt and spelt[-1] in switches and word.lower() in ("true", "false"):
            spelt[-1] = spelt[-1] if word.lower() == "true" else f"--no-{spelt[-1][2:]}"
        else:
            spelt.append(word)
    return spelt


def read_options(path: str, names: set[str]) -> list[str]:
    """Reads options from a JSON or YAML file; returns them as words of a command line."""
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{path} could not be read: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no options by name")
    if unknown := sorted({str(name).replace("-", "_") for name in values} - names):
        raise ValueError(f"{path} sets {', '.join(unknown)}, and there is no such option")
    words = []
    for name, value in values.items():  # a null leaves an option at its default
        if isinstance(value, bool):
            words += [f"--{name}", str(value)]
        elif value is not None:
            words.append(f"--{name}={value}")
    return words


def run(main: Callable[[], Any]) -> None:
    """Runs a script; an error becomes one sentence and exit code 1, or with `--debug` a traceback."""
    guard_console()
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]  # the scripts need not know it
    datasets.disable_progress_bars()  # the libraries' bars flash by; `load_text` shows one for a large text
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    # accelerate warns about the tied weight at each save
    standard_logging.getLogger("accelerate").setLevel(standard_logging.ERROR)
    # `datasets` logs each error before it raises it, and `sentence` prints it
    standard_logging.getLogger("datasets.packaged_modules").setLevel(standard_logging.CRITICAL)
    for each in STOPS:
        if signal.getsignal(each) == signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(each, signal.default_int_handler)  # how clusters end a run: as Ctrl-C does
    try:
        main()
        if torch.distributed.is_initialized():  # else its threads may outlive Python and abort it
            torch.distributed.destroy_process_group()
    except KeyboardInterrupt as interruption:  # a training run's message names its last checkpoint
        sys.exit(str(interruption) or "interrupted")
    except BaseException as error:
        # A panic of the tokenizers, as over a pattern that takes too long, is no Exception.
        if debug or not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
            raise
        sys.exit(f"error: {sentence(error)}")


def sentence(error: BaseException) -> str:
    """Describes an error in one line; a ValueError or an OSError is one that the user can fix."""
    # These two are ValueErrors that name no file; those that a user can fix were caught earlier, to name it.
    if isinstance(error, UnicodeEncodeError):
        return f"{in_line(error.object)} is not UTF-8: give it another name"
    unnamed = isinstance(error, (json.JSONDecodeError, UnicodeError))
    if isinstance(error, (ValueError, OSError)) and not unnamed:
        return " ".join(str(error).split())
    reason = " ".join(f"{error} {error.__cause__ or ''}".split())
    return f"unexpected {type(error).__name__}: {reason} (run it again with --debug to see where)"
