"""Reviews that wait for the checks of others, over cycles."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from world import APP, INTERVAL, World

from appliance.core.pulls import Policy

GREEN = "success: no blocking findings"


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path) -> Iterator[World]:
    """One repository with one pull request, number 1, of alice."""
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"})
    world = World(fake_github, tmp_path)
    yield world
    world.close()


def more(world: World, count: int) -> None:
    for number in range(count):
        world.github.add_pull(APP, f"more{number}", files={"app.py": f"print({number})\n"})


def asked_for_checks(world: World) -> int:
    return sum("/check-runs" in it.path for it in world.github.exchanges)


def check(world: World, state: str, name: str = "ci", number: int = 1) -> None:
    world.github.add_status(APP, world.github.repository(APP).pulls[number].head_sha, state, name)


def test_it_waits_until_the_named_checks_are_green(world: World) -> None:
    world.policy = Policy(wait_for_checks=("ci",))
    check(world, "success", "lint")
    world.run()
    assert world.gate() == "pending: waiting for checks: ci"
    assert (world.status().reason, world.status().attempts) == ("waiting for checks: ci", 0)
    check(world, "failure")
    world.run()
    assert world.gate() == "pending: waiting for checks that failed: ci"
    check(world, "success")
    for _ in range(3):
        world.run()
    assert (world.gate(), len(world.asked)) == (GREEN, 1)


def test_all_checks_means_all_that_report_soon_after_the_push(world: World) -> None:
    world.policy = Policy(wait_for_checks=("*",))
    world.run()
    assert world.gate() == "pending: waiting for checks: none has reported yet"
    check(world, "pending", "build")
    world.run()
    assert world.gate() == "pending: waiting for checks: build"
    check(world, "success", "build")
    world.run()
    assert world.gate() == GREEN, "our own status is none of them"


def test_a_repository_without_checks_does_not_wait_for_ever(world: World) -> None:
    world.policy = Policy(wait_for_checks=("*",))
    world.run()
    world.run()
    assert world.asked == []
    world.run()
    assert world.gate() == GREEN


@pytest.mark.parametrize("how", [{"status": 502}, {"status": 403}, {"truncate": True}])
def test_unknown_checks_are_not_green(how: dict[str, object], world: World) -> None:
    world.policy = Policy(wait_for_checks=("ci",))
    check(world, "success")
    world.github.fail(method="GET", path="/check-runs", times=99, **how)
    assert world.run().failed
    assert world.gate() == "pending: waiting for checks: the forge did not say how they stand"
    assert (world.asked, world.attempts()) == ([], 0)


def test_checks_are_looked_at_only_for_what_would_be_reviewed_and_not_too_often(world: World) -> None:
    more(world, 1)
    world.github.edit_pull(APP, 2, draft=True)
    world.policy = Policy(wait_for_checks=("ci",))
    check(world, "failure")
    for _ in range(4):
        world.run()
        world.now -= INTERVAL - 30
    assert asked_for_checks(world) == 1
    world.now += 600
    world.run()
    assert asked_for_checks(world) == 2
    world.github.push(APP, "feature", {"app.py": "print(7)\n"})
    world.run()
    assert asked_for_checks(world) == 3, "another head has other checks"


def test_who_waits_for_checks_takes_no_others_place_in_the_day(world: World) -> None:
    more(world, 1)
    world.policy = Policy(wait_for_checks=("ci",), reviews_per_author=1)
    check(world, "success", number=2)
    world.run()
    assert [pull.number for pull in world.asked] == [2]
    assert world.gate() == "pending: waiting for checks: ci"
