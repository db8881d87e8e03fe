"""How the scripts read their options and tell of failure."""

import argparse
import logging as standard_logging
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import datasets
import yaml
from transformers import HfArgumentParser
from transformers.utils import logging

Options = TypeVar("Options")


def parse(
    options_class: type[Options], description: str | None, recipes: dict[str, dict[str, Any]] | None = None
) -> Options:
    """Reads options from the command line; a mistake in them ends the program with exit code 2.

    `--recipe` names one of the sets of defaults, `--config` a file of options; what is said beside them still counts.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    prog = f"python -m {spec.name.removesuffix('.__main__')}" if spec else None
    parser = HfArgumentParser(options_class, prog=prog, description=description)  # type: ignore[arg-type]
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
        options, *_ = parser.parse_args_into_dataclasses(look_for_args_file=False)
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
    """Runs a script, turning what a user can mend into one sentence and exit code 1."""
    datasets.disable_progress_bars()  # these two flash by; ours stay
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    # accelerate warns of the tied weight at each save
    standard_logging.getLogger("accelerate").setLevel(standard_logging.ERROR)
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt as interruption:  # a training run says what its last checkpoint is
        sys.exit(str(interruption) or "interrupted")
