"""How the scripts read their options and tell of failure."""

import json
import logging as standard_logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import datasets
from transformers import HfArgumentParser
from transformers.utils import logging

Options = TypeVar("Options")
DEBUG = "With --debug, an error shows where it arose."  # the end of every script's help


def parse(
    options_class: type[Options], description: str | None, recipes: dict[str, dict[str, Any]] | None = None
) -> Options:
    """Reads options from the command line; a mistake in them ends the program with exit code 2.

    `--recipe` names one of the sets of defaults; what is said beside it still counts.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    prog = f"python -m {spec.name.removesuffix('.__main__')}" if spec else None
    parser = HfArgumentParser(options_class, prog=prog, description=description, epilog=DEBUG)  # type: ignore[arg-type]
    if recipes:
        parser.add_argument("--recipe", choices=list(recipes), default="default", help="Where the defaults come from.")
        parser.set_defaults(**recipes[parser.parse_known_args()[0].recipe])
    try:
        options, *_ = parser.parse_args_into_dataclasses(look_for_args_file=False)
    except ValueError as error:  # of the options class
        parser.error(str(error))
    return options


def run(main: Callable[[], Any]) -> None:
    """Runs a script, turning what goes wrong into one sentence and exit code 1; with `--debug`, into a traceback."""
    debug = "--debug" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--debug"]  # so that no script has to know it
    datasets.disable_progress_bars()  # these two flash by; ours stay
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    # accelerate warns of the tied weight at each save
    standard_logging.getLogger("accelerate").setLevel(standard_logging.ERROR)
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted: a training run goes on from its last checkpoint with --resume")
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
