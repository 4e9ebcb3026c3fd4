"""The scenarios of DESIGN section 2, each by its number.

Here the cycle runs over a fake GitHub, real git and real SQLite, with the self-test and Codex injected. With the real
jail, Codex and container the same scenarios are in `tests/container`: `test_incident.py` and `test_faults_at_start.py`
(1, 3, 5), `test_during_review.py` and `test_model_faults.py` (2, 4), `test_kill_and_stop.py` (6), `test_github.py` and
`test_clean_start.py` (7). Work directories (6) are in `tests/test_workdir.py` in every form.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_github import FakeGitHub
from structlog.testing import capture_logs
from test_ending import BWRAP, QUOTED, ending
from test_ending import reviewed as codex_reviewed
from test_events import command
from test_result import answer
from world import APP, SANDBOX, World, failed, found, reviewed

from appliance import codex, codex_config, health, ladder
from appliance.cli import main
from appliance.core.ending import judge
from appliance.core.faults import Fault
from appliance.core.findings import Evidence, Result, Review, Usage
from appliance.core.outcomes import Ending, Outcome
from appliance.core.pulls import Pull
from appliance.core.result import SCHEMA
from appliance.git import Slot
from appliance.owner import Identity
from appliance.owner import judge as judge_owner
from appliance.process import Stopped
from appliance.wiring import Appliance

WAITING = "pending: waiting for the Codex review"
GREEN = "success: no blocking findings"


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path) -> Iterator[World]:
    """Pull request 1 has its review, 2 is ready and has none."""
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "first", files={"app.py": "print(2)\n"})
    world = World(fake_github, tmp_path)
    world.run()
    fake_github.add_pull(APP, "second", files={"app.py": "print(3)\n"})
    yield world
    world.close()


# ---- 1


def test_scenario_1_a_broken_sandbox_stops_the_reviews_of_a_cycle(world: World) -> None:
    world.selftest = SANDBOX
    asked = len(world.asked)
    with capture_logs() as logs:
        result = world.run()
    assert len(world.asked) == asked, "no review"
    assert (world.attempts(2), world.markers(2)) == (0, [])
    [told] = [line for line in logs if line["event"] == "selftest.failed"]
    assert (told["cause"], told["next"], told["log_level"]) == (SANDBOX.cause, SANDBOX.remedy, "error")
    assert result.failed
    assert result.unhealthy == SANDBOX
    assert world.health[-2:] == [SANDBOX, SANDBOX], "told before the cycle ends, and at its end"


def test_scenario_1_pull_requests_are_still_collected_and_keep_or_get_their_gate(world: World) -> None:
    world.selftest = SANDBOX
    world.run()
    assert world.gate(1) == GREEN
    assert world.gate(2) == WAITING
    assert (world.status(1).state, world.status(2).state) == ("reviewed", "waiting")
    assert world.status(2).reason.startswith("apparmor: ")
    world.restart(lose_database=True)
    world.selftest = SANDBOX
    world.run()
    assert (world.gate(1), world.gate(2)) == (GREEN, WAITING)


def test_scenario_1_a_result_that_waits_is_still_posted(world: World) -> None:
    world.github.fail(method="POST", path="/issues/2/comments", status=500)
    world.run()
    assert world.markers(2) == []
    world.selftest = SANDBOX
    world.run()
    assert (len(world.markers(2)), world.gate(2)) == (1, GREEN)


def test_scenario_1_the_command_exits_1_and_health_shows_the_cause(
    tmp_path: Path, fake_github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "first", files={"app.py": "print(2)\n"})
    monkeypatch.setattr("appliance.wiring.blocked", lambda _: None)
    monkeypatch.setattr(Appliance, "selftest", lambda _: SANDBOX)
    environment = {
        "APPLIANCE_STATE_DIR": str(tmp_path / "state"),
        "APPLIANCE_RUN_DIR": str(tmp_path / "run"),
        "APPLIANCE_GITHUB_URL": fake_github.url,
        "APPLIANCE_REPOSITORIES": APP,
        "GITHUB_TOKEN": fake_github.token,
        "OPENAI_API_KEY": "key",
    }
    old = os.umask(0o022)
    done = CliRunner().invoke(main, ["cycle"], env=environment)
    os.umask(old)
    assert done.exit_code == 1
    assert SANDBOX.sentence in done.stderr
    assert SANDBOX.remedy in done.stderr
    shown = health.read(tmp_path / "run")
    assert shown is not None
    assert (shown.state, shown.cause) == ("unhealthy", "apparmor")
    assert shown.message == f"{SANDBOX.sentence} Next: {SANDBOX.remedy}"


# ---- 2


def test_scenario_2_a_jail_that_fails_during_a_review_costs_no_attempt(world: World) -> None:
    world.github.add_pull(APP, "third", files={"app.py": "print(4)\n"})
    asked = len(world.asked)
    world.script = lambda *_: failed(Outcome.SANDBOX)
    result = world.run()
    assert (world.attempts(2), world.attempts(3)) == (0, 0)
    assert len(world.asked) - asked == 1, "no further review starts in this cycle"
    assert result.failed
    assert result.unhealthy is not None


def test_scenario_2_the_failed_bwrap_posts_nothing_so_nobody_gets_past_the_gate_that_way(world: World) -> None:
    world.script = lambda *_: failed(Outcome.SANDBOX)
    for _ in range(5):
        world.run()
    assert world.markers(2) == []
    assert world.gate(2) == WAITING
    assert not any(status.state in ("success", "failure", "error") for status in world.statuses(2))


def with_codex(world: World, monkeypatch: pytest.MonkeyPatch, runs: list[object], probe: Fault | None = None) -> Ending:
    """One review by the real reviewer (real git), whose runs of Codex left behind what `runs` says."""
    left = list(runs)
    monkeypatch.setattr(codex, "in_jail", lambda *_: left.pop(0))
    pull = world.pull(2)
    reviewer = replace(world.real_reviewer(), probe=lambda: probe)
    return reviewer.review(pull, world.forge.source(pull), stop=threading.Event())


LOOK = command("git diff", "+x")
BROKEN = command("ls", BWRAP, 1, "failed")


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ([BROKEN], "I was unable to review."),
        ([LOOK, BROKEN], answer()),
        ([], "I was unable to review."),  # Codex has no event at all for a command whose sandbox died
        ([], answer(verdict="correct", findings=[])),
    ],
)
def test_scenario_2_whatever_the_model_makes_of_a_dead_sandbox_is_no_verdict(
    lines: list[bytes], text: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    got = with_codex(world, monkeypatch, [codex_reviewed(*lines, text=text)] * 2, probe=SANDBOX)
    assert (got.outcome, got.fault, got.review) == (Outcome.SANDBOX, SANDBOX, None)


def test_scenario_2_a_sandbox_that_is_well_again_is_named_from_what_it_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.facts.everything", lambda: {"label": "unconfined", "proc_masks": ""})
    died = command("ls", "bwrap: setting up uid map: Permission denied\n", 1, "failed")
    got = with_codex(world, monkeypatch, [codex_reviewed(LOOK, died, text=answer())])
    assert got.outcome is Outcome.SANDBOX
    assert got.fault is not None
    assert (got.fault.cause, got.fault.facts["proc_masks"]) == ("apparmor-unprivileged-userns", "")
    assert "during a review" in got.fault.sentence


def test_scenario_2_a_sandbox_that_works_makes_it_the_models_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    got = with_codex(world, monkeypatch, [codex_reviewed(text="prose"), codex_reviewed(text="prose again")])
    assert got.outcome is Outcome.MODEL_OUTPUT
    got = with_codex(world, monkeypatch, [codex_reviewed(LOOK, text="prose"), codex_reviewed()])
    assert got.outcome is Outcome.REVIEWED, "one repair round"


# ---- 3


def test_scenario_3_the_selftest_runs_in_the_jail_of_a_review_with_the_same_builder_and_environment(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ask `jail.review_policy` and `jail.argv`: the argv differs in the paths of the state volume only."""
    made: list[list[str]] = []

    def run(argv: list[str], **_: object) -> object:
        made.append(list(argv))
        raise Stopped("seen")

    monkeypatch.setattr("appliance.process.run", run)
    pull = world.pull(2)
    slot = Slot(*(tmp_path / name for name in ("tree", "git", "objects")))
    for place in (slot.tree, slot.git_dir, slot.objects, tmp_path / "home"):
        place.mkdir()
    codex_config.write_home(tmp_path / "home", model="none", effort="low", objects=slot.objects, schema=SCHEMA)
    probe = ladder.Probe(slot.tree, slot.git_dir, slot.objects, tmp_path / "home", tmp_path / "gate.sock", "nonce")
    job = codex.Job(pull, pull.base_sha, pull.base_sha, [], slot)
    model = world.real_reviewer().model
    with pytest.raises(Stopped):
        codex.review(job, model, tmp_path / "w", timeout=9, stop=None, probe=lambda: None)
    assert flags(probe.jailed(["/bin/true"])) == flags(made[0])
    assert "--unshare-all" in made[0] or "--unshare-net" in made[0]


def flags(argv: list[str]) -> list[str]:
    """What the jail is made of: all but the places outside that are bound into it, and the command."""
    kept, words = [], iter(argv[: argv.index("--")])
    for word in words:
        kept.append(word)
        if "bind" in word:
            outside, inside = next(words), next(words)
            kept.append(inside if inside != outside else "the same place")
    return kept


def test_scenario_3_it_returns_the_cause_or_nothing_and_can_be_injected(world: World) -> None:
    for fault in (None, SANDBOX):
        world.selftest = fault
        assert world.run().fault == fault


def test_scenario_3_it_runs_before_each_cycle_and_before_anything_is_asked(world: World) -> None:
    order: list[str] = []
    world.github.clear()

    def selftest() -> None:
        order.append(f"selftest after {len(world.github.exchanges)} requests")

    def script(pull: Pull, _: threading.Event) -> Ending:
        order.append("review")
        return reviewed(pull)

    world.script = script
    replace(world.cycle(), selftest=selftest).run()
    assert order == ["selftest after 0 requests", "review"]


# ---- 4


def test_scenario_4_only_a_failed_bwrap_is_a_jail_fault() -> None:
    assert ending(codex_reviewed(BROKEN)).outcome is Outcome.SANDBOX
    for lines, text in (
        ([command("cat notes", QUOTED)], answer()),
        ([LOOK], answer(summary=BWRAP, reasoning=QUOTED, limits=BWRAP)),
        ([LOOK], answer(findings=[])),
    ):
        assert isinstance(judge([codex_reviewed(*lines, text=text)]), Result)


# ---- 5


def test_scenario_5_a_failed_cycle_does_not_stop_the_schedule_and_health_recovers_by_itself(world: World) -> None:
    """That the next one comes, an interval after the last one ended, is in `test_schedule.py`."""
    world.selftest = SANDBOX
    for _ in range(3):
        assert world.run().unhealthy == SANDBOX
    world.selftest = None
    result = world.run()
    assert (result.failed, result.unhealthy, world.health[-1]) == (False, None, None)
    assert (world.gate(2), world.attempts(2)) == (GREEN, 1)


# ---- 6

OURS = Identity("host", "boot", "ns", os.getpid(), None)


def test_scenario_6_work_directories_are_reclaimed_only_when_their_owner_is_known_to_be_gone() -> None:
    for stamp in (Identity(), Identity("host"), Identity("host", "boot"), Identity(None, "boot", "ns", 1, 1), OURS):
        assert judge_owner(stamp, OURS, local=True) == "unknown", stamp
    assert judge_owner(Identity("host", "old boot", "ns", 1, 1), OURS, local=True) == "gone"
    assert judge_owner(Identity("host", "old boot", "ns", 1, 1), OURS, local=False) == "unknown"
    assert judge_owner(Identity("other", "boot", "ns", 1, 1), OURS, local=True) == "unknown"


# ---- 7


def test_scenario_7_a_review_names_exactly_what_it_looked_at(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With real git: the base branch has moved on since, so base and merge base differ."""
    begun = world.pull(2).base_sha
    tip = world.github.push(APP, "main", {"other.py": "1\n"})
    got = with_codex(world, monkeypatch, [codex_reviewed(LOOK, command("cat -n app.py", "1 print(3)"))])
    review = got.review
    assert review is not None
    assert (review.head_sha, review.base_sha, review.merge_base) == (world.pull(2).head_sha, tip, begun)
    assert review.evidence == Evidence(("git diff", "cat -n app.py"), (), 1), "only what the pull request changes"
    world.script = lambda *_: got
    world.run()
    body = world.github.comments(APP, 2)[0].body
    for expected in (
        f"`{review.head_sha}`",
        f"`{tip}`",
        f"(merge base `{begun}`)",
        "### [P1] Off by one",
        f"/blob/{review.head_sha}/src/a.py#L3-L4",
        "**Verdict: incorrect**",
        "**Evidence**: 1 file changed, 2 commands ran",
        "- `cat -n app.py`",
        "**Limits**",
    ):
        assert expected in body, expected


def test_scenario_7_a_review_of_a_new_head_says_what_became_of_each_earlier_finding(world: World) -> None:
    world.script = lambda pull, _: reviewed(pull, found(2, "Leaks"), found(1, "Off by one"))
    world.run()
    old = world.pull(2).head_sha
    world.github.push(APP, "second", {"app.py": "print(9)\n"})
    world.script = lambda pull, _: reviewed(pull, found(2, "Leaks"))
    world.run()
    body = world.github.comments(APP, 2)[-1].body
    assert f"This review supersedes the one of head `{old}`" in body
    assert "Off by one (`app.py`): not reported any more" in body
    assert "Leaks (`app.py`): reported again" in body


def test_scenario_7_r18_an_empty_diff_is_said_and_is_no_success(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.github.push(APP, "second", {}, base="main", message="nothing")
    monkeypatch.setattr(codex, "in_jail", lambda *_: pytest.fail("the model is not asked"))
    pull = world.pull(2)
    got = world.real_reviewer().review(pull, world.forge.source(pull), stop=threading.Event())
    assert got.review is not None
    assert got.review.nothing_to_review
    world.script = lambda *_: got
    world.run()
    assert world.gate(2) == "error: nothing to review: the pull request changes no reviewable file"
    world.run()
    assert len(world.markers(2)) == 1


def test_a_review_holds_nothing_but_what_was_measured(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    got = with_codex(world, monkeypatch, [codex_reviewed(LOOK, text="prose"), codex_reviewed()])
    review = got.review
    assert isinstance(review, Review)
    assert (review.model, review.rehearsal, review.usage) == ("m", False, Usage())
    assert review.seconds > 0
    assert review.target == f"{APP}#2"
