"""Progress of a review, for people who wait: one line that lives on a terminal, a few lines in a pipe."""

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

import click

from appliance.cli.common import echo
from appliance.core.steps import Step, clean

QUIET_SECONDS = 15.0  # between two commands that are told into a pipe: the log of a job is not to be flooded
_FALLBACK_WIDTH = 80


class Teller:
    """Tells `Step`s on stderr, from any thread; at the end the living line is gone.

    `form` is the review's: in one of workflow commands nothing that is told may be a command.
    """

    def __init__(self, form: str = "text", *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._form, self._quiet, self._clock = form, quiet, clock
        self._now, self._next = Step(), 0.0
        self._living = ""
        self._lock = threading.Lock()

    def __enter__(self) -> "Teller":
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.clear()

    def __call__(self, step: Step) -> None:
        if self._quiet:
            return
        from appliance.redaction import say

        with self._lock:
            before, self._now = self._now, clean(step, say).after(self._now)
            if self._now == before:
                return
            if _is_terminal():
                self._live(self._now.line())
            elif step.phase is not None:
                self._next = 0.0
                self._print(self._now.line())
            elif step.command is not None and self._clock() >= self._next:
                self._next = self._clock() + QUIET_SECONDS
                self._print(Step(None, self._now.command, self._now.tokens).line())

    def note(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self.clear()
            self._print(Step(text).line())

    def clear(self) -> None:
        with self._lock:
            if self._living:
                click.echo("\r\x1b[K", nl=False, err=True)
                self._living = ""

    def _print(self, text: str) -> None:
        echo(self._harmless(f"… {text}"), err=True)

    def _live(self, text: str) -> None:
        from rich.cells import set_cell_size

        line = set_cell_size(self._harmless(f"… {text}"), _width() - 1).rstrip()  # at the last column it would wrap
        if line != self._living:
            self._living = line
            click.echo(f"\r{line}\x1b[K", nl=False, err=True)

    def _harmless(self, line: str) -> str:
        from appliance.core.workflow import harmless

        return harmless(line) if self._form == "github" else line


def _is_terminal() -> bool:
    """Asked of the file first: Rich takes a pipe for one where colours are forced, as jobs do."""
    if not sys.stderr.isatty():
        return False
    from rich.console import Console

    return not Console(stderr=True).is_dumb_terminal


def _width() -> int:
    try:
        return max(20, os.get_terminal_size(sys.stderr.fileno()).columns or _FALLBACK_WIDTH)
    except (OSError, ValueError):
        return _FALLBACK_WIDTH
