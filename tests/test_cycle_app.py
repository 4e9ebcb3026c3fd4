"""Cycles as a GitHub App: the gate is a check run, with the review as its summary and a note on each line."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from fake_github.clients import CONTEXT, forge_for
from fake_github.state import CheckRun
from world import APP, Ticks, World, failed, found, reviewed

from appliance.core.findings import Coverage, Finding, InlineAnchor, NotSeen
from appliance.core.outcomes import Outcome
from appliance.forge import github_limits

OURS = 42
GREEN = "success: no blocking findings"
SECRET = "ghp_" + "s" * 36
LINES = "".join(f"line {number}\n" for number in range(1, 201))


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(github_limits, "WRITE_GAP", 0.0)
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"new.py": LINES})
    made = World(fake_github, tmp_path, app=OURS)
    yield made
    made.close()


def on_line(number: int, priority: int = 1, side: str = "RIGHT", **more: object) -> Finding:
    anchor = InlineAnchor("new.py", number, side)  # type: ignore[arg-type]
    made = Finding(f"Defect {number}", f"Line {number} is wrong.", priority, 0.9, "new.py", number, number)
    return replace(made, anchor=anchor, **more)  # type: ignore[arg-type]


def run(world: World) -> CheckRun:
    """The newest."""
    return world.github.check_runs(APP, world.pull().head_sha, CONTEXT)[0]


def writes(world: World) -> list[str]:
    """Those of REST: GraphQL reads by POST too."""
    return [write for write in world.writes if not write.endswith("/graphql")]


def test_a_review_is_a_check_run_with_its_report(world: World) -> None:
    world.script = lambda pull, _: reviewed(
        pull,
        *(on_line(priority + 1, priority) for priority in range(4)),
        on_line(9, 1, advisory=True),
        on_line(10, 2, "LEFT"),
        replace(on_line(11, 3), anchor=None),
        replace(on_line(12, 2), anchor=InlineAnchor("new.py", 14, "RIGHT", 12, "RIGHT")),
    )
    world.run()
    assert world.run_gates() == ["failure: 2 blocking findings (P0, P1)"]
    assert world.statuses() == []
    shown = [(it["annotation_level"], it["title"], it["start_line"], it["end_line"]) for it in run(world).annotations]
    assert shown == [
        ("failure", "[P0] Defect 1", 1, 1),
        ("failure", "[P1] Defect 2", 2, 2),
        ("notice", "[P1] Defect 9", 9, 9),
        ("warning", "[P2] Defect 3", 3, 3),
        ("warning", "[P2] Defect 12", 12, 14),
        ("notice", "[P3] Defect 4", 4, 4),
    ]
    said = run(world).summary or ""
    assert all(f"Line {number} is wrong." in said for number in (1, 2, 3, 4, 9, 10, 11, 12))
    assert "review-appliance:v1" not in said
    [comment] = [it for it in world.github.comments(APP, 1) if "## Codex review" in it.body]
    assert (run(world).details_url or "").endswith(f"#issuecomment-{comment.id}")


def test_the_summary_says_what_was_not_looked_at(world: World) -> None:
    def script(pull: object, _: object) -> object:
        ending = reviewed(world.pull())
        assert ending.review
        told = Coverage(1, (), (NotSeen("big.bin", "binary", "binary"),))
        return replace(ending, review=replace(ending.review, coverage=told))

    world.script = script  # type: ignore[assignment]
    world.run()
    assert "**Coverage**: 1 file reviewed, 1 left out (1 binary)." in (run(world).summary or "")


def test_no_secret_is_in_it(world: World) -> None:
    world.script = lambda pull, _: reviewed(
        pull, on_line(1, title=f"Look: {SECRET}", body=f"It is {SECRET}."), replace(found(3), body=SECRET)
    )
    world.run()
    assert len(run(world).annotations) == 1
    assert not any(SECRET.encode() in each.request_body for each in world.github.exchanges)


def test_nothing_is_written_twice(world: World) -> None:
    world.run()
    before = len(writes(world))
    world.run()
    world.restart(lose_database=True)
    world.run()
    assert (len(writes(world)), world.run_gates(), len(world.asked)) == (before, [GREEN], 1)


@pytest.mark.parametrize("skip", range(5))
@pytest.mark.parametrize("store", [False, True], ids=["before it is stored", "after it is stored"])
def test_what_fails_midway_is_sent_to_its_end_by_the_outbox(world: World, skip: int, store: bool) -> None:
    """Pending, running, and three writes for 120 notes."""
    world.script = lambda pull, _: reviewed(pull, *(on_line(number) for number in range(1, 121)))
    world.github.fail(path="/check-runs", status=502, skip=skip, store=store)
    world.github.failures[-1].method = "POST" if skip == 0 else "PATCH"
    world.github.failures[-1].skip = max(skip - 1, 0)
    for _ in range(3):
        world.run()
    assert world.run_gates() == ["failure: 120 blocking findings (P1)"]
    assert [it["start_line"] for it in run(world).annotations] == list(range(1, 121))
    assert len(world.asked) == 1 and len(world.markers()) == 1


def test_a_commit_that_two_pull_requests_share_is_green_only_if_both_are(world: World) -> None:
    """A check run belongs to the commit, as a status does."""
    world.run()
    assert world.run_gates()[0] == GREEN
    world.github.push(APP, "other", {"other.txt": "x"}, base="main")
    other = world.github.add_pull(APP, world.pull().head_ref, "other")
    world.script = lambda pull, _: failed(Outcome.SANDBOX)
    world.run()
    world.run()
    assert world.run_gates()[0] == "in_progress: waiting for the Codex review"
    world.script = lambda pull, _: reviewed(pull, on_line(3))
    world.now += 24 * 3600
    world.run()
    assert world.run_gates()[0] == "failure: 1 blocking finding (P1)"
    before = len(writes(world))
    world.run()
    assert len(writes(world)) == before, "and it rests"
    world.github.edit_pull(APP, other.number, state="closed")
    world.run()
    assert world.run_gates()[0] == GREEN


def test_what_the_token_showed_is_shown_by_the_app_too(world: World) -> None:
    """A required check that must come from the App would wait for ever on heads that were reviewed before it."""
    world.app = 0
    world.restart()
    world.run()
    assert (world.gate(), world.run_gates()) == (GREEN, [])
    world.app = OURS
    world.restart()
    world.run()
    assert (world.run_gates(), len(world.asked)) == ([GREEN], 1)
    assert "no blocking findings" in (run(world).summary or "")
    before = len(writes(world))
    world.run()
    assert len(writes(world)) == before


def test_what_stood_under_another_name_is_shown_under_the_new_one(world: World) -> None:
    world.app = 0
    world.restart()
    world.run()
    world.forge.close()
    ticks = Ticks(world)
    world.forge = forge_for(world.github, etags=world.store, clock=ticks, sleep=ticks.sleep, context="other")
    world.run()
    shown = world.github.statuses(APP, world.pull().head_sha, "other")
    assert ([status.state for status in shown], len(world.asked)) == (["success"], 1)


@pytest.mark.parametrize("change", ["completed", "queued"])
def test_a_run_that_somebody_asked_for_again_gets_its_gate_back_and_no_review(world: World, change: str) -> None:
    """`queued` is how GitHub shows it while the App has not answered; it is seen when the database is lost."""
    world.run()
    run(world).status, run(world).conclusion = change, "success" if change == "completed" else None
    world.github.generation += 1
    world.restart(lose_database=True)
    world.run()
    assert (world.run_gates(), len(world.asked)) == ([GREEN], 1)


def test_an_error_is_one_and_blocks(world: World) -> None:
    world.script = lambda pull, _: reviewed(pull, verdict="inconclusive")
    world.run()
    assert world.run_gates() == ["failure: error: the review is inconclusive"]
    world.restart(lose_database=True)
    before = len(writes(world))
    world.run()
    assert len(writes(world)) == before
