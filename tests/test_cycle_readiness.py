"""The rules of readiness over cycles: what waits, what its gate and the status say, and that nothing is counted."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from world import APP, INTERVAL, World, failed, reviewed

from appliance.core.moments import midnight, next_day
from appliance.core.outcomes import Ending, Outcome
from appliance.core.pulls import Policy
from appliance.core.windows import parse

GREEN = "success: no blocking findings"
BEGIN = 1_796_000_000.0 + 5 * INTERVAL  # 2026-11-30 01:18 UTC


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path) -> Iterator[World]:
    """One repository with one pull request, number 1, of alice."""
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"})
    world = World(fake_github, tmp_path)
    world.now = BEGIN
    yield world
    world.close()


def more(world: World, count: int, author: str = "alice") -> None:
    for number in range(count):
        world.github.add_pull(APP, f"{author}{number}", files={"app.py": f"print({number})\n"}, author=author)


def test_it_is_quiet_for_a_while_after_a_push_and_each_push_begins_it_anew(world: World) -> None:
    world.policy = Policy(quiet_period=INTERVAL + 60)
    world.run()
    row = world.status()
    assert world.gate() == "pending: pushed to a moment ago, next try 01:24 UTC"
    assert (row.state, row.attempts, row.reason) == ("waiting", 0, "quiet period after a push")
    assert row.next_try == pytest.approx(BEGIN + INTERVAL + 60, abs=1)
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.run()
    assert world.asked == []
    assert world.gate() == "pending: pushed to a moment ago, next try 01:29 UTC"
    world.run()
    assert world.asked == []
    world.run()
    assert (len(world.asked), world.gate()) == (1, GREEN)


def test_a_lost_database_only_begins_the_quiet_period_anew(world: World) -> None:
    world.policy = Policy(quiet_period=INTERVAL + 60)
    world.run()
    world.restart(lose_database=True)
    world.run()
    assert world.asked == []
    world.run()
    world.run()
    assert world.gate() == GREEN


def test_no_review_begins_outside_the_schedule_and_what_is_stored_is_posted_all_the_same(world: World) -> None:
    world.github.fail(method="POST", path="/comments", status=502, times=9)
    world.run()
    assert world.markers() == []
    world.github.clear()
    world.github.failures.clear()
    more(world, 1)
    world.policy = Policy(schedule=parse("08:00-09:00", lambda _: UTC)[0])
    world.run()
    assert world.gate() == GREEN
    assert world.gate(2) == "pending: outside the review schedule, next try 08:00 UTC"
    row = world.status(2)
    assert (row.reason, row.next_try) == ("outside the schedule", midnight(BEGIN) + 8 * 3600)
    world.now = midnight(BEGIN) + 8 * 3600
    world.run()
    assert world.gate(2) == GREEN


def test_when_the_schedule_closes_no_further_review_of_the_cycle_begins(world: World) -> None:
    more(world, 2)
    world.policy = Policy(schedule=parse("01:00-02:00", lambda _: UTC)[0])

    def script(pull: object, _: object) -> Ending:
        world.now = midnight(BEGIN) + 2 * 3600
        return reviewed(pull)  # type: ignore[arg-type]

    world.script = script
    world.run()
    assert [pull.number for pull in world.asked] == [1]
    assert [world.attempts(number) for number in (1, 2, 3)] == [1, 0, 0]


def test_an_author_has_so_many_reviews_a_day_and_faults_are_not_counted(world: World) -> None:
    more(world, 2)
    more(world, 1, "bob")
    world.policy = Policy(reviews_per_author=2)
    world.script = lambda *_: failed(Outcome.FORGE_UNREACHABLE)
    world.run()
    assert [pull.number for pull in world.asked] == [1, 2, 4]
    world.asked.clear()
    world.script = lambda pull, _: reviewed(pull)
    world.run()
    assert [pull.number for pull in world.asked] == [1, 2, 4]
    world.run()
    assert world.gate(3) == "pending: limit of 2 reviews a day for its author, next try 2026-12-01 00:00 UTC"
    assert world.status(3).next_try == next_day(BEGIN)
    world.store.forget(f"{APP}#1")  # asked for again: what it took, it took
    world.asked.clear()
    world.run()
    assert world.asked == []
    assert world.gate(1).startswith("pending: limit of 2 reviews")
    world.now = next_day(BEGIN)
    world.run()
    assert [pull.number for pull in world.asked] == [3, 1], "who has waited longer first"


def test_who_has_waited_longest_is_first_and_a_push_loses_no_place(world: World) -> None:
    world.policy = Policy(schedule=parse("08:00-09:00", lambda _: UTC)[0])
    for number in (3, 2):
        world.github.add_pull(APP, f"b{number}", files={"app.py": f"print({number})\n"})
        world.run()
    world.github.push(APP, "feature", {"app.py": "print(9)\n"})
    world.github.edit_pull(APP, 3, labels=["Now"])
    world.run()
    world.policy = replace(world.policy, first_label="now")
    world.now = midnight(BEGIN) + 8 * 3600
    world.run()
    assert [pull.number for pull in world.asked] == [3, 1, 2]


def test_a_pull_request_that_was_reviewed_waits_anew(world: World) -> None:
    world.run()
    world.policy = Policy(schedule=parse("08:00-09:00", lambda _: UTC)[0])
    world.github.add_pull(APP, "other", files={"app.py": "print(3)\n"})
    world.run()
    world.github.push(APP, "feature", {"app.py": "print(9)\n"})
    world.run()
    world.asked.clear()
    world.now = midnight(BEGIN) + 8 * 3600
    world.run()
    assert [pull.number for pull in world.asked] == [2, 1]
