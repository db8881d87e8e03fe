"""How the scripts read their options and tell of failure."""

import logging as standard_logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import datasets
from transformers import HfArgumentParser
from transformers.utils import logging

Options = TypeVar("Options")


def parse(options_class: type[Options], description: str, arguments: list[str] | None = None) -> Options:
    """Reads options from the command line; a mistake in them ends the program with exit code 2."""
    parser = HfArgumentParser(options_class, description=description)
    (options,) = parser.parse_args_into_dataclasses(arguments, look_for_args_file=False)
    return options


def run(main: Callable[[], Any]) -> None:
    """Runs a script, turning what a user can mend into one sentence and exit code 1."""
    datasets.disable_progress_bars()  # they flash by; ours stay
    logging.set_verbosity_error()
    standard_logging.getLogger("accelerate").setLevel(standard_logging.ERROR)  # it warns of the tied weight at each save
    try:
        main()
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("interrupted: what was saved last is whole, and --resume goes on from there")
