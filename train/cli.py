"""How the scripts read their options and tell of failure."""

import argparse
import json
import logging as standard_logging
import sys
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any, TypeVar

import datasets
import torch
import yaml
from transformers import HfArgumentParser
from transformers.utils import logging

Options = TypeVar("Options")
DEBUG = "With --debug, an error shows where it arose."  # the end of every script's help


def option(help: str, default: Any = MISSING) -> Any:
    """Declares a field of an options class, with the help that the command line shows."""
    return field(default=default, metadata={"help": help})


def parse(
    options_class: type[Options], description: str | None, recipes: dict[str, dict[str, Any]] | None = None
) -> Options:
    """Reads options from the command line; a mistake in them ends the program with exit code 2.

    `--recipe` names one of the sets of defaults, `--config` a file of options; what is said beside them still counts.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    prog = f"python -m {spec.name.removesuffix('.__main__')}" if spec else None
    usage = "%(prog)s [options]; --help lists them"  # all of them at each mistake would hide what it is
    parser = HfArgumentParser(
        options_class,  # type: ignore[arg-type]
        prog=prog,
        usage=usage,
        description=description,
        epilog=DEBUG,
    )
    parser.add_argument("--config", help="A JSON or YAML file of options; those given beside it win.")
    if recipes:
        parser.add_argument("--recipe", choices=list(recipes), default="default", help="Where the defaults come from.")
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)  # reads these two before the others
    first.add_argument("--config")
    first.add_argument("--recipe", default="default")
    given = first.parse_known_args()[0]
    try:
        defaults = dict((recipes or {}).get(given.recipe, {}))
        if given.config:
            defaults |= read_options(given.config, {each.name for each in fields(options_class)})  # type: ignore[arg-type]
        parser.set_defaults(**defaults)
        for action in parser._actions:
            action.required = action.required and action.dest not in defaults
        options, *_, unknown = parser.parse_args_into_dataclasses(
            look_for_args_file=False, return_remaining_strings=True
        )
        if unknown:
            raise ValueError(f"there is no option {unknown[0]}")
    except ValueError as error:  # of the options class, or of the file
        parser.error(str(error))
    return options


def read_options(path: str, names: set[str]) -> dict[str, Any]:
    """Reads options by name from a file; argparse then takes them as if they were typed.

    Raises:
        ValueError: it is not there, is no JSON or YAML, or has a name that is none of `names`.
    """
    try:
        values = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{path} could not be read: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path} holds no options by name")
    named = {str(name).replace("-", "_"): value for name, value in values.items()}
    if unknown := sorted(named.keys() - names):
        raise ValueError(f"{path} sets {', '.join(unknown)}, and there is no such option")
    return {name: value if value is None or isinstance(value, bool) else str(value) for name, value in named.items()}


def run(main: Callable[[], Any]) -> None:
    """Runs a script, turning what goes wrong into one sentence and exit code 1; with `--debug`, into a traceback."""
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]  # so that no script has to know it
    datasets.disable_progress_bars()  # these two flash by, save for a large text (see `load_text`); ours stay
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    # accelerate warns of the tied weight at each save
    standard_logging.getLogger("accelerate").setLevel(standard_logging.ERROR)
    # `datasets` logs what it then raises, and we say it in a sentence
    standard_logging.getLogger("datasets.packaged_modules").setLevel(standard_logging.CRITICAL)
    try:
        main()
        if torch.distributed.is_initialized():  # else its threads may still run when Python ends, and abort it
            torch.distributed.destroy_process_group()
    except KeyboardInterrupt as interruption:  # a training run says what its last checkpoint is
        sys.exit(str(interruption) or "interrupted")
    except Exception as error:
        if debug:
            raise
        sys.exit(f"error: {sentence(error)}")


def sentence(error: Exception) -> str:
    """Says in one line what went wrong; ValueError and OSError are what the scripts raise at what a user can mend."""
    # These two are ValueErrors as well, and name no file: where one can be mended, it was caught and the file named.
    unnamed = isinstance(error, (json.JSONDecodeError, UnicodeError))
    if isinstance(error, (ValueError, OSError)) and not unnamed:
        return " ".join(str(error).split())
    reason = " ".join(f"{error} {error.__cause__ or ''}".split())
    return f"unexpected {type(error).__name__}: {reason} (run it again with --debug to see where)"
