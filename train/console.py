"""The terminal, or what stands in its place: printing to it never fails and never steers it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from toybert.train.hub.escape import visible


class Console:
    """Writes to the terminal or to what stands in its place, so that nothing printed can steer it or end the run."""

    def __init__(self, stream: Any, kept: str = "\n"):
        """Wraps sys.stdout or sys.stderr; all that its encoding lacks is escaped, and all that steers it but `kept`."""
        if hasattr(stream, "reconfigure"):  # it is no text in memory, which holds any character
            stream.reconfigure(errors="backslashreplace")
        self.stream, self.kept = stream, kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with self._whatever_happens():
            self.stream.write(self.kept.join(map(visible, text.split(self.kept))))
        return len(text)

    def flush(self) -> None:
        with self._whatever_happens():
            self.stream.flush()

    @contextmanager
    def _whatever_happens(self) -> Iterator[None]:
        """Lets the run go on without a reader, as after `| head`, and without room for the file that is printed to."""
        try:
            yield
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())
            if not isinstance(error, BrokenPipeError):
                print(f"nothing more can be printed: {error}", file=sys.stderr)


def guard_console() -> None:
    """Makes printing safe, whatever is printed and wherever it goes."""
    if sys.stdout:  # without one, print does nothing
        sys.stdout = Console(sys.stdout)  # type: ignore[assignment]
    if sys.stderr:
        sys.stderr = Console(sys.stderr, kept="\r")  # type: ignore[assignment]  # begins a line of the progress bar
