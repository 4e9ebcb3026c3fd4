"""A verdict holds for one head, one base branch and what held for its review; with real git behind the forge."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from world import APP, World, earnest, found

from appliance.core import marker as markers
from appliance.core.outcomes import Ending
from appliance.core.pulls import Pull
from appliance.cycle import BASE_LOOK_SECONDS
from appliance.forge import github_limits
from appliance.publishing import Seen

GREEN = "success: no blocking findings"
RULES = {"AGENTS.md": "# Code review rules\nNo loops.\n"}


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(github_limits, "WRITE_GAP", 0.0)
    fake_github.add_repository(APP, {"app.py": "one\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "two\n"})
    made = World(fake_github, tmp_path, in_earnest=True)
    made.script = lambda pull, _: earnest(made, pull)
    yield made
    made.close()


def reviews(world: World) -> int:
    """How many more reviews one cycle made."""
    before = len(world.asked)
    world.run()
    return len(world.asked) - before


def states(world: World) -> list[str]:
    """Of the gate of the head, oldest first."""
    return [status.state for status in reversed(world.statuses())]


def later(world: World) -> None:
    """So long that base branches are looked at again."""
    world.now += BASE_LOOK_SECONDS


def test_what_the_base_branch_gains_does_not_end_a_success(world: World) -> None:
    assert (reviews(world), world.gate()) == (1, GREEN)
    for name in ("b.txt", "c.txt"):
        world.github.push(APP, "main", {name: "x\n"})
        later(world)
        assert (reviews(world), states(world)) == (0, ["pending", "pending", "success"])


def test_a_base_branch_is_asked_for_only_when_something_may_have_moved(world: World) -> None:
    world.run()
    world.run()  # holds the fresh review against it
    world.run()  # reads the comments once more, if ours came in a later second than the pull request
    world.github.clear()
    for _ in range(3):
        world.run()
    assert [it.path for it in world.github.exchanges] == [f"/repos/{APP}/pulls"] * 3
    later(world)
    world.run()
    assert [it.path for it in world.github.exchanges[3:]] == [f"/repos/{APP}/pulls", f"/repos/{APP}/branches/main"]
    world.github.add_pull(APP, "other", files={"x": "y"}, draft=True)
    world.github.clear()
    world.run()
    assert f"/repos/{APP}/branches/main" in {it.path for it in world.github.exchanges}, "the listing changed"


def test_new_rules_on_the_base_branch_end_it_pending_first(world: World) -> None:
    world.run()
    world.run()  # holds the fresh review against it
    sent = len(world.statuses())
    world.github.push(APP, "main", RULES)
    assert reviews(world) == 0, "nobody told of it yet"
    later(world)
    world.run()
    assert states(world)[sent:] == ["pending", "pending", "success"]
    assert len(world.asked) == 2
    assert len(world.markers()) == 2
    later(world)
    assert reviews(world) == 0, "and it rests"


def test_rules_that_are_merged_by_another_pull_request_are_seen_at_once(world: World) -> None:
    other = world.github.add_pull(APP, "rules", files=RULES, draft=True)
    world.run()
    world.github.push(APP, "main", RULES)
    world.github.edit_pull(APP, other.number, state="closed")
    assert reviews(world) == 1


@pytest.mark.parametrize("priority", [0, 2])
def test_another_blocking_priority_is_another_review(world: World, priority: int) -> None:
    world.script = lambda pull, _: earnest(world, pull, found(2))
    world.run()
    world.block_priority = priority
    assert reviews(world) == 1
    assert world.gate().startswith("failure" if priority == 2 else "success")
    assert reviews(world) == 0


def test_base_drift(world: World) -> None:
    world.base_drift = 2
    world.run()
    world.github.push(APP, "main", {"b.txt": "x\n"})
    later(world)
    assert reviews(world) == 0
    world.github.push(APP, "main", {"c.txt": "x\n"})
    later(world)
    assert reviews(world) == 1
    later(world)
    assert reviews(world) == 0, "it is counted from the new review"


def test_base_drift_ends_no_failure(world: World) -> None:
    world.base_drift = 1
    world.script = lambda pull, _: earnest(world, pull, found(0))
    world.run()
    world.github.push(APP, "main", {"b.txt": "x\n"})
    later(world)
    assert reviews(world) == 0
    assert world.gate().startswith("failure")


def test_a_base_branch_that_was_set_back_makes_the_change_larger(world: World) -> None:
    first = world.github.push(APP, "main", {"b.txt": "x\n"})
    second = world.github.push(APP, "main", {"c.txt": "x\n"})
    stacked = world.github.push(APP, "stacked", {"d.txt": "x\n"}, base=second)
    assert stacked
    world.github.add_pull(APP, "stacked")
    world.run()
    back = world.github.push(APP, "main", {"e.txt": "x\n"}, base=first)
    later(world)
    world.run()
    assert [pull.number for pull in world.asked[2:]] == [2], "what #1 left main at is still in main"
    stored = world.store.review_of(world.pull(2))
    assert stored and (stored.identity.base_sha, stored.identity.merge_base) == (back, first)


def test_R33_the_base_that_the_forge_lists_is_days_old(world: World) -> None:
    """GitHub's listing keeps the base of the last push: the merge base is of the branch as it is."""
    listed = world.pull().base_sha
    tip = world.github.push(APP, "main", {"b.txt": "x\n"})
    merged = world.github.push(APP, "feature", {"b.txt": "x\n"}, base=tip)
    world.github.repository(APP).pulls[1].base_sha = listed
    world.run()
    review = world.store.review_of(world.pull())
    assert review is not None and review.review is not None
    assert (review.head_sha, review.identity.base_sha, review.identity.merge_base) == (merged, tip, tip)
    assert world.pull().base_sha == listed


def meanwhile(world: World, happens: Callable[[], object]) -> None:
    """Let something happen while the first review runs."""

    def once(pull: Pull, _: object) -> Ending:
        ending = earnest(world, pull)
        happens()
        world.script = lambda pull, _: earnest(world, pull)
        return ending

    world.script = once


@pytest.mark.parametrize("what", ["rules", "drift", "rewritten"])
def test_what_changes_while_codex_runs_is_never_posted(world: World, what: str) -> None:
    root, world.base_drift = world.pull().base_sha, int(what == "drift")
    second = world.github.push(APP, "main", {"b.txt": "x\n"})
    world.github.push(APP, "feature", {"app.py": "two\n"}, base=second)
    changes = {
        "rules": lambda: world.github.push(APP, "main", RULES),
        "drift": lambda: world.github.push(APP, "main", {"c.txt": "x\n"}),
        "rewritten": lambda: world.github.push(APP, "main", {"c.txt": "x\n"}, base=root),
    }
    meanwhile(world, changes[what])
    world.run()
    assert world.markers() == []
    assert "success" not in states(world)
    assert world.gate() == "pending: waiting for the Codex review"
    world.run()
    assert (len(world.asked), len(world.markers()), world.gate()) == (2, 1, GREEN)
    assert world.attempts() == 1, "the one that counts is of this review"


@pytest.mark.parametrize("failure", [{"status": 502}, {"status": 404}, {"truncate": True}])
def test_R28_while_the_base_branch_is_unknown_nothing_is_written(world: World, failure: dict[str, object]) -> None:
    world.run()
    world.github.push(APP, "main", RULES)
    later(world)
    writes = len(world.writes)
    world.github.fail(path="/branches/", times=100, **failure)
    assert world.cycle().run().failed
    assert (len(world.asked), len(world.writes)) == (1, writes)
    assert world.status().reason == "whether its review still holds could not be told"
    world.github.failures.clear()
    world.run()
    assert len(world.asked) == 2


def test_while_the_base_branch_is_unknown_no_result_is_posted_and_none_is_lost(world: World) -> None:
    world.github.fail(path="/branches/", times=100, status=502)
    assert world.run().failed
    assert (world.markers(), "success" in states(world)) == ([], False)
    world.github.failures.clear()
    world.run()
    assert (len(world.asked), len(world.markers()), world.gate()) == (1, 1, GREEN)


def test_a_lost_database_finds_the_identity_in_the_marker(world: World) -> None:
    world.run()
    world.restart(lose_database=True)
    assert (reviews(world), world.gate()) == (0, GREEN)
    world.github.push(APP, "main", RULES)
    world.restart(lose_database=True)
    assert reviews(world) == 1


def test_a_marker_that_does_not_tell_what_held_is_of_no_verdict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as old:
        told = markers._encode
        old.setattr(markers, "_encode", lambda mark: told(replace(mark, digest="")))
        world.run()
    world.restart(lose_database=True)
    assert reviews(world) == 1
    assert reviews(world) == 0


def test_R31_a_push_while_codex_runs_gives_the_old_head_no_success(world: World) -> None:
    old = world.pull().head_sha

    meanwhile(world, lambda: world.github.push(APP, "feature", {"app.py": "three\n"}))
    world.run()
    assert "success" not in {status.state for status in world.statuses(sha=old)}
    assert world.markers() == []
    world.run()
    assert [pull.head_sha for pull in world.asked] == [old, world.pull().head_sha]
    assert world.gate() == GREEN
    assert "success" not in {status.state for status in world.statuses(sha=old)}


def test_R32_another_base_for_the_same_head_is_pending_and_reviewed_anew(world: World) -> None:
    world.run()
    world.github.push(APP, "release", {"r.txt": "x\n"})
    world.github.edit_pull(APP, 1, base="release")
    sent = len(world.statuses())
    world.run()
    assert states(world)[sent:] == ["pending", "pending", "success"]
    assert [pull.base_ref for pull in world.asked] == ["main", "release"]
    world.github.edit_pull(APP, 1, base="main")
    world.run()
    assert world.gate() == GREEN


def test_R37_a_review_that_is_asked_again_on_a_green_head_is_pending_first(world: World) -> None:
    world.run()
    sent = len(world.statuses())
    world.store.forget(world.pull().target)
    world.script = lambda pull, _: earnest(world, pull, found(0))
    world.run()
    assert states(world)[sent:] == ["pending", "pending", "failure"]


def test_a_forge_whose_answer_lags_behind_git_ends_no_review(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.pull().base_sha
    world.github.push(APP, "main", RULES)
    monkeypatch.setattr(type(world.forge), "base_tip", lambda *_: before)
    world.run()
    world.run()
    assert (len(world.asked), len(world.markers()), world.gate()) == (1, 1, GREEN)


def test_a_success_that_was_not_shown_yet_is_looked_at_once_more(world: World) -> None:
    """Posted, and the process died before its gate; then the rules changed."""
    world.github.fail(method="POST", path="/statuses/", times=100, skip=2, status=403, body={"message": "no"})
    world.run()
    stored = world.store.review_of(world.pull())
    assert stored is not None
    world.store.delivered(stored.id, "1", "https://x/1")
    world.github.failures.clear()
    world.github.push(APP, "main", RULES)
    seen = Seen(world.pull(), world.forge)
    assert world.cycle()._publisher.set_gate(seen, stored.gate) is None
    assert "success" not in states(world)
    assert world.store.review_of(world.pull()) is None, "it is to be made anew"
