"""What a review tells while it runs: one line on a terminal, few in a pipe, the tokens that were really taken."""

import os
import pty
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from appliance.cli.telling import QUIET_SECONDS, Teller
from appliance.core.steps import MOST, Step
from appliance.meter import Meter, Ticket

COMMANDS = [Step(command=f"cat {number}", tokens=1000 * number) for number in range(1, 200)]


def test_a_pipe_is_not_flooded_and_hears_of_each_phase(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    teller = Teller(clock=lambda: now[0])
    teller(Step("fetching"))
    teller(Step("reviewing 1 changed file with m"))
    for step in COMMANDS:
        now[0] += QUIET_SECONDS / 10
        teller(step)
        teller(Step(tokens=(step.tokens or 0) + 1))
    teller(Step("posting"))
    told = capsys.readouterr().err.splitlines()
    assert told[:3] == ["… fetching", "… reviewing 1 changed file with m", "… $ cat 1 · 1,000 tokens"]
    assert told[-1] == "… posting · 199,001 tokens"
    assert 15 <= len(told) <= 25


def test_a_command_is_one_line_cut_and_no_command_to_a_runner(capsys: pytest.CaptureFixture[str]) -> None:
    teller = Teller("github")
    teller(Step(command=f"echo a\n::error::x\x1b[2J {'b' * 5000}", tokens=5))
    [line] = capsys.readouterr().err.splitlines()
    assert len(line) <= MOST + 30 and line.endswith("… · 5 tokens")
    assert "::" not in line and "\x1b" not in line
    Teller(quiet=True)(Step("fetching"))
    assert capsys.readouterr().err == ""


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """A real one as stderr; gives what was written to it so far."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    with os.fdopen(theirs, "w") as stderr, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        patch.setenv("TERM", "xterm")
        yield lambda: all_of(ours).decode()
    os.close(ours)


def all_of(descriptor: int) -> bytes:
    read = b""
    try:
        while more := os.read(descriptor, 65536):
            read += more
    except BlockingIOError:
        return read
    return read


def test_on_a_terminal_one_line_lives_and_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as shown, Teller() as teller:
        teller(Step("reviewing 1 changed file with m"))
        for step in COMMANDS[:3]:
            teller(step)
        teller(Step(tokens=3500))
        teller(Step(command="語" * 400))
        teller.clear()
        told = shown()
    assert "\n" not in told, "it stays on its line"
    lines = told.split("\r")[1:]
    assert lines[3] == "… reviewing 1 changed file with m · $ cat 3 · 3,000 tokens\x1b[K"
    assert lines[4] == "… reviewing 1 changed file with m · $ cat 3 · 3,500 tokens\x1b[K"
    assert len(lines[5].removesuffix("\x1b[K")) < 80 - 20, "wide characters take two columns"
    assert lines[6:] == ["\x1b[K"]


def test_a_phase_ends_the_command_of_the_one_before() -> None:
    assert Step("posting").after(Step("reviewing", "ls", 5)) == Step("posting", None, 5)
    assert Step(tokens=9).after(Step("reviewing", "ls", 5)).line() == "reviewing · $ ls · 9 tokens"
    assert (Step("a").said, Step(command="ls").said, Step(tokens=1).said) == ("a", "$ ls", "")


def test_tokens_are_those_that_were_taken_not_those_set_aside() -> None:
    meter = Meter()
    first, second = meter.ask(4000), meter.ask(400_000)
    assert isinstance(first, Ticket) and isinstance(second, Ticket)
    assert (meter.settled, meter.used > 0) == (0, True)
    meter.settle(first, 700)
    assert meter.settled == 700
