"""Rows of the replay list that concern what a cycle decides, through the real parts: R37, R39, R52."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from world import APP, World, failed, found, reviewed

from appliance import process
from appliance.core.outcomes import RULES, Ending, Outcome
from appliance.core.pulls import Policy, Pull
from appliance.core.verdict import MAX_DESCRIPTION
from appliance.core.windows import parse

GREEN = "success: no blocking findings"
COUNTED = [it for it in Outcome if RULES[it].counts and it is not Outcome.REVIEWED]
UNCOUNTED = [it for it in Outcome if not RULES[it].counts and it not in (Outcome.INTERRUPTED, Outcome.SUPERSEDED)]


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path) -> Iterator[World]:
    """One repository with one pull request, number 1."""
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"})
    world = World(fake_github, tmp_path)
    yield world
    world.close()


def states(world: World) -> list[str]:
    """Those that the head has had, oldest first."""
    return [it.state for it in reversed(world.statuses())]


# ---- R37: a review asked again on a green head is pending first


def timeout(*_: object) -> Ending:
    return Ending(Outcome.TIMEOUT, "timeout")


@pytest.mark.parametrize(
    "then",
    [lambda pull, _: reviewed(pull), lambda pull, _: reviewed(pull, found(0)), timeout],
    ids=["green again", "red", "fails"],
)
def test_R37_between_two_verdicts_of_a_head_there_is_a_pending(
    then: Callable[[Pull, threading.Event], Ending], world: World
) -> None:
    world.run()
    before = len(states(world))
    world.store.forget(f"{APP}#1")
    world.script = then
    world.run()
    after = states(world)[before:]
    assert after[0] == "pending"
    assert "success" not in after[:-1]


def test_R37_what_keeps_the_new_review_from_beginning_brings_no_old_success_back(world: World) -> None:
    world.run()
    world.store.forget(f"{APP}#1")
    world.policy = Policy(schedule=parse("12:00-12:01", lambda _: UTC)[0])
    for _ in range(3):
        world.run()
        assert world.gate().startswith("pending: outside the review schedule")
    world.restart()
    world.run()
    assert world.gate().startswith("pending")


def test_R37_while_the_forge_takes_no_pending_the_old_success_is_told_no_longer_than_it_must(world: World) -> None:
    world.run()
    world.store.forget(f"{APP}#1")
    world.github.fail(method="POST", path="/statuses/", times=3, status=502)
    world.script = lambda pull, _: reviewed(pull, found(0))
    world.run()
    world.run()
    assert world.gate() == "failure: 1 blocking finding (P0)"


# ---- R39: the model fails every time


@pytest.mark.parametrize("outcome", COUNTED, ids=lambda it: it.value)
@pytest.mark.parametrize("most", [1, 3])
def test_R39_after_the_last_attempt_it_is_an_error_with_the_way_out(outcome: Outcome, most: int, world: World) -> None:
    world.policy = Policy(max_attempts=most)
    world.script = lambda *_: Ending(outcome, outcome.value)
    for _ in range(most + 3):
        world.run()
    times = "once" if most == 1 else f"{most} times"
    assert len(world.asked) == most, "and is asked no more"
    assert world.gate() == f"error: review failed {times}: {outcome.value}"
    row = world.status()
    assert (row.state, row.attempts) == ("given-up", most)
    assert f"`appliance retry {APP}#1` starts over" in row.reason
    world.store.forget(f"{APP}#1")
    world.script = lambda pull, _: reviewed(pull)
    world.run()
    assert world.gate() == GREEN


@pytest.mark.parametrize("outcome", UNCOUNTED, ids=lambda it: it.value)
def test_R39_what_is_not_the_pull_requests_never_gives_it_up(outcome: Outcome, world: World) -> None:
    world.script = lambda *_: failed(outcome)
    for _ in range(8):
        world.run()
    assert world.attempts() == 0
    assert world.gate().startswith("pending")


def test_R39_the_attempts_of_one_head_are_not_those_of_the_next(world: World) -> None:
    world.script = timeout
    for _ in range(4):
        world.run()
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.run()
    assert (world.attempts(), len(world.asked)) == (1, 4)


def test_R39_attempts_outlive_a_restart_and_the_reason_fits(world: World) -> None:
    world.script = lambda *_: Ending(Outcome.TURN_FAILED, "turn failed: " + "many\nwords " * 60)
    for _ in range(3):
        world.run()
        world.restart()
    world.run()
    state, _, text = world.gate().partition(": ")
    assert (state, len(world.asked)) == ("error", 3)
    assert len(text) <= MAX_DESCRIPTION and "\n" not in text
    assert text.startswith("review failed 3 times: turn failed: many words")


# ---- R52: a review that never ends


@pytest.mark.parametrize(
    "program",
    ["exec sleep 600", "trap '' TERM INT HUP; while :; do sleep 600; done", "sleep 600 & sleep 600", "yes"],
    ids=["sleeps", "is deaf", "has children", "prints for ever"],
)
def test_R52_the_watchdog_ends_what_never_ends_and_all_that_it_began(program: str) -> None:
    mark = f"{os.getpid()}-{time.monotonic()}"
    done = process.run(["sh", "-c", program], timeout=1, env={"PATH": os.environ["PATH"], "R52": mark})
    assert (done.ok, done.timed_out or done.flooded) == (False, True)
    assert done.seconds < 20
    assert [path for path in Path("/proc").glob("[0-9]*/environ") if f"R52={mark}".encode() in environ(path)] == []


def environ(path: Path) -> bytes:
    with suppress(OSError):  # it has ended, or is another user's
        return path.read_bytes()
    return b""


def test_R52_a_review_that_ran_out_of_time_counts_and_the_next_pull_request_is_reviewed(world: World) -> None:
    world.github.add_pull(APP, "other", files={"app.py": "print(3)\n"})
    world.script = lambda pull, stop: timeout() if pull.number == 1 else reviewed(pull)
    world.run()
    assert (world.attempts(1), world.gate(2)) == (1, GREEN)
    assert world.gate(1) == "pending: waiting for the Codex review"
