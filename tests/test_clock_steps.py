"""A clock that is set back brings no old success back, and keeps nothing waiting for the years between."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_github import FakeGitHub
from world import APP, World, found, reviewed

from appliance import commands
from appliance.board import Board
from appliance.core.faults import Fault
from appliance.core.holds import Held, hold_of
from appliance.core.outcomes import Ending, Outcome
from appliance.core.plan import Record, Review, plan
from appliance.core.pulls import Policy

GREEN = "success: no blocking findings"
RED = "failure: 1 blocking finding (P1)"
YEAR = 365 * 86_400.0


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path) -> Iterator[World]:
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"})
    world = World(fake_github, tmp_path)
    yield world
    world.close()


def test_R37_a_review_asked_again_after_the_clock_was_set_back_is_made(world: World) -> None:
    world.run()
    assert world.gate() == GREEN
    world.now -= YEAR
    world.script = lambda pull, _: reviewed(pull, found(1))
    world.store.forget(f"{APP}#1")
    world.run()
    assert (len(world.asked), world.gate()) == (2, RED)
    world.restart(lose_database=True)
    world.run()
    assert (len(world.asked), world.gate()) == (2, RED), "the newest marker holds, by whatever clock"


def test_a_base_branch_that_was_looked_at_in_the_future_is_looked_at_again(world: World) -> None:
    pull = world.pull()
    world.store.set_base_tip(pull, "a" * 40)
    assert world.store.base_tip(pull, world.now - 3600) == "a" * 40
    world.now -= YEAR
    assert world.store.base_tip(pull, world.now - 3600) is None


def test_R26_what_waits_for_a_try_in_a_year_is_tried(world: World) -> None:
    world.now += YEAR
    broken = world.github.fail(method="POST", path="/comments", status=502, times=99)
    world.run()
    broken.times = 0
    world.now -= YEAR
    world.run()
    assert world.gate() == GREEN and len(world.markers()) == 1


def test_no_fault_of_the_future_keeps_a_review_waiting(world: World) -> None:
    record = Record(faults=1, faulted_at=world.now + YEAR)
    [action] = plan([world.pull()], {f"{APP}#1": record}, world.now, Policy())
    assert isinstance(action, Review)
    held = Held(Outcome.MODEL_UNREACHABLE, Fault("model-unreachable", "s", "r"), world.now + YEAR, 1, 1, "key")
    assert hold_of(held, world.now) is None
    assert hold_of(replace(held, until=world.now + 60), world.now) is not None


@pytest.mark.parametrize("moved", [False, True])
def test_R32_a_review_by_hand_that_fails_brings_no_success_of_another_base_back(
    world: World, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    why: list[str] = []
    world.stale = lambda _: why[0] if why else None
    world.run()
    assert world.gate() == GREEN

    def fails(*_: Any, **__: Any) -> Ending:
        why.extend(["the rules of its review changed"] * moved)
        return Ending(Outcome.TURN_FAILED, "turn failed")

    monkeypatch.setattr(commands, "review_once", fails)
    parts: Any = SimpleNamespace(
        store=world.store,
        owner="by hand",
        keeper=world.keeper,
        settings=SimpleNamespace(max_attempts=3),
        board=Board(world.path, lambda _: True),
        delivery=world.delivery,
    )
    commands.review_and_post(parts, world.forge, world.pull(), rehearse=False, progress=lambda _: None)
    assert world.gate() == ("pending: waiting for the Codex review" if moved else GREEN)
