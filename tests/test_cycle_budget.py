"""The token budget of the day, over cycles: nothing starts, nothing counts, gates say so, and it goes on by itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from world import APP, World, reviewed

from appliance.core.budget import REMEDY
from appliance.core.faults import Fault
from appliance.core.moments import next_day
from appliance.core.outcomes import Ending, Outcome

LIMIT = 1000
USED_UP = "pending: token budget of the day is used up, next try 00:00 UTC"
GREEN = "success: no blocking findings"


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path) -> Iterator[World]:
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    for name in ("one", "two"):
        fake_github.add_pull(APP, name, files={f"{name}.py": "print(2)\n"})
    made = World(fake_github, tmp_path, tokens_per_day=LIMIT)
    yield made
    made.close()


def spend(world: World, tokens: int) -> None:
    assert world.store.take(tokens, 0)


def cut_short(world: World) -> Ending:
    """A review that is under way when the day's tokens are used up, as the model gate makes it end."""
    assert world.store.take(LIMIT, LIMIT) is None or world.store.take(1, LIMIT) is None
    fault = Fault("token-budget", "The token budget of the day (1,000 tokens) is used up.", REMEDY)
    return Ending(Outcome.DAY_BUDGET, "token budget of the day", fault=fault, retry_at=next_day(world.now))


def test_a_used_up_day_starts_no_review_and_says_until_when(world: World) -> None:
    spend(world, LIMIT)
    result = world.run()
    assert (world.asked, world.gate(1), world.gate(2)) == ([], USED_UP, USED_UP)
    assert (result.failed, result.unhealthy) == (False, None), "it is what the setting asks for"
    told = "token-budget: The token budget of the day (1,000 tokens) is used up. Next try 2026-12-01 00:00 UTC."
    assert world.waits[-1] == told
    row = world.status(1)
    assert (row.state, row.attempts, row.next_try) == ("waiting", 0, next_day(world.now))
    assert "token budget" in row.reason
    world.restart()
    world.run()
    assert world.asked == [], "a restart changes nothing"
    world.now = next_day(world.now) + 1
    assert not world.run().failed
    assert (world.gate(1), world.gate(2)) == (GREEN, GREEN)


def test_a_review_under_way_ends_uncounted_and_is_tried_again(world: World) -> None:
    world.script = lambda *_: cut_short(world)
    result = world.run()
    assert (result.failed, result.unhealthy) == (False, None)
    assert len(world.asked) == 1, "no further review starts"
    assert world.gate(1) == USED_UP
    assert world.attempts(1) == 0
    world.run()
    assert (len(world.asked), world.gate(2)) == (1, USED_UP)
    world.script = lambda pull, _: reviewed(pull)
    world.now = next_day(world.now) + 1
    world.run()
    assert (world.gate(1), world.gate(2)) == (GREEN, GREEN)


def test_a_higher_limit_ends_the_waiting_at_once(world: World) -> None:
    spend(world, 900)
    world.script = lambda *_: cut_short(world)
    world.run()
    world.script = lambda pull, _: reviewed(pull)
    world.tokens_per_day = 2 * LIMIT
    world.run()
    assert (world.gate(1), world.gate(2)) == (GREEN, GREEN)


def test_a_review_that_used_up_its_own_budget_counts_and_is_given_up_with_that_reason(world: World) -> None:
    said = "token budget of the review (10,000,000 tokens) is used up"
    world.script = lambda *_: Ending(Outcome.TOKEN_BUDGET, said)
    for _ in range(4):
        assert not world.run().failed
    assert world.gate() == f"error: review failed 3 times: {said}"
