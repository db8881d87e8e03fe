"""How the scripts read their options and tell of failure."""

import logging as standard_logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import datasets
from transformers import HfArgumentParser
from transformers.utils import logging

Options = TypeVar("Options")


def parse(
    options_class: type[Options], description: str | None, recipes: dict[str, dict[str, Any]] | None = None
) -> Options:
    """Reads options from the command line; a mistake in them ends the program with exit code 2.

    `--recipe` names one of the sets of defaults; what is said beside it still counts.
    """
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    prog = f"python -m {spec.name.removesuffix('.__main__')}" if spec else None
    parser = HfArgumentParser(options_class, prog=prog, description=description)  # type: ignore[arg-type]
    if recipes:
        parser.add_argument("--recipe", choices=list(recipes), default="default", help="Where the defaults come from.")
        parser.set_defaults(**recipes[parser.parse_known_args()[0].recipe])
    try:
        options, *_ = parser.parse_args_into_dataclasses(look_for_args_file=False)
    except ValueError as error:  # of the options class
        parser.error(str(error))
    return options


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
