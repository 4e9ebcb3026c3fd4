"""The gate as a check run of a GitHub App, towards a fake GitHub over HTTP; its description is the judge of both."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fake_github import FakeGitHub
from fake_github.clients import CONTEXT, app_token, forge_for
from fake_github.state import CheckRun

from appliance.core.pulls import Pull
from appliance.core.verdict import WAITING, Gate, running
from appliance.forge import Annotation, ForgeError, Report
from appliance.forge.github import GitHubForge
from appliance.forge.github_checks import MAX_MESSAGE, MAX_SUMMARY

APP, OURS, OTHER = "octo/app", 42, 43
GREEN = Gate("success", "no blocking findings")
RED = Gate("failure", "1 blocking finding (P1)")
BROKEN = Gate("error", "the review is inconclusive")


@pytest.fixture
def github(fake_github: FakeGitHub) -> FakeGitHub:
    fake_github.add_repository(APP, {"app.py": "one\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "two\n"})
    return fake_github


@pytest.fixture
def forge(github: FakeGitHub) -> Iterator[GitHubForge]:
    made = forge_for(github, token=app_token(github, OURS), app_id=OURS)
    yield made
    made.close()


@pytest.fixture
def pull(forge: GitHubForge) -> Pull:
    return forge.pull(APP, 1)


def runs(github: FakeGitHub, pull: Pull) -> list[CheckRun]:
    """Ours, newest first."""
    return [run for run in github.check_runs(APP, pull.head_sha, CONTEXT) if run.app == OURS]


def notes(count: int, message: str = "Left out.") -> tuple[Annotation, ...]:
    return tuple(Annotation("app.py", n + 1, n + 1, "failure", f"[P1] Number {n}", message) for n in range(count))


def error_of(forge: GitHubForge, pull: Pull, gate: Gate, report: Report | None = None) -> ForgeError:
    with pytest.raises(ForgeError) as caught:
        forge.set_gate(pull, gate, report)
    return caught.value


def writes(github: FakeGitHub) -> list[tuple[str, dict[str, Any]]]:
    return [(it.method, json.loads(it.request_body)) for it in github.writes]


@pytest.mark.parametrize(
    ("gate", "ends", "title"),
    [
        (WAITING, ("in_progress", None), WAITING.description),
        (GREEN, ("completed", "success"), GREEN.description),
        (RED, ("completed", "failure"), RED.description),
        (BROKEN, ("completed", "failure"), f"error: {BROKEN.description}"),
        (Gate("failure", "error: x"), ("completed", "failure"), "error: x"),
    ],
    ids=["pending", "success", "failure", "error", "a failure that reads as an error"],
)
def test_a_gate_is_a_check_run_and_is_read_back_as_it_was(
    github: FakeGitHub, forge: GitHubForge, pull: Pull, gate: Gate, ends: tuple[str, str | None], title: str
) -> None:
    assert forge.check_runs
    forge.set_gate(pull, gate)
    (run,) = runs(github, pull)
    assert ((run.status, run.conclusion), run.title, run.sha) == (ends, title, pull.head_sha)
    assert github.statuses(APP, pull.head_sha) == []
    assert forge.gate(pull) == gate


@pytest.mark.parametrize("gate", [WAITING, RED, BROKEN])
def test_nothing_but_a_success_lets_a_required_check_pass(
    github: FakeGitHub, forge: GitHubForge, pull: Pull, gate: Gate
) -> None:
    forge.set_gate(pull, gate)
    assert runs(github, pull)[0].conclusion not in ("success", "neutral", "skipped")


def test_a_token_keeps_its_status(github: FakeGitHub) -> None:
    forge = forge_for(github)
    forge.set_gate(pull := forge.pull(APP, 1), RED, Report("all of it", notes(3)))
    assert not forge.check_runs and runs(github, pull) == []
    assert forge.gate(pull) == RED


def test_a_run_is_written_on_until_it_is_completed_and_then_followed_by_a_new_one(
    github: FakeGitHub, forge: GitHubForge, pull: Pull
) -> None:
    """GitHub lets nobody open a completed run again."""
    for gate in (WAITING, running(1, 3), RED, WAITING, GREEN):
        forge.set_gate(pull, gate)
        assert forge.gate(pull) == gate
    assert [(run.conclusion, run.title) for run in runs(github, pull)] == [
        ("success", GREEN.description),
        ("failure", RED.description),
    ]
    assert [method for method, _ in writes(github)] == ["POST", "PATCH", "PATCH", "POST", "PATCH"]


def test_an_old_listing_does_not_say_that_a_red_one_is_there_already(
    github: FakeGitHub, forge: GitHubForge, pull: Pull
) -> None:
    forge.set_gate(pull, RED)
    old = json.loads(github.exchanges[-1].body)
    forge.set_gate(pull, GREEN)
    github.fail(method="GET", path="/check-runs", status=200, body={"total_count": 1, "check_runs": [old]})
    forge.set_gate(pull, RED)
    assert forge.gate(pull) == RED


@pytest.mark.parametrize("gate", [WAITING, RED, BROKEN])
@pytest.mark.parametrize("taken", [True, False], ids=["taken and passed over", "refused"])
def test_an_old_listing_does_not_leave_a_green_run_as_it_is(
    github: FakeGitHub, forge: GitHubForge, pull: Pull, gate: Gate, taken: bool
) -> None:
    """It says that the run is pending still, which is completed: GitHub takes the write, and changes nothing."""
    forge.set_gate(pull, WAITING)
    old = json.loads(github.exchanges[-1].body)
    forge.set_gate(pull, GREEN)
    github.fail(method="GET", path="/check-runs", status=200, body={"total_count": 1, "check_runs": [old]})
    if not taken:
        github.fail(method="PATCH", path="/check-runs/", status=422, body={"message": "It is completed."})
    forge.set_gate(pull, gate, None if gate == WAITING else Report("all of it", notes(60)))
    assert forge.gate(pull) == gate
    assert len(runs(github, pull)[0].annotations) == (0 if gate == WAITING else 60)


def test_what_others_have_of_the_same_name_is_not_ours(github: FakeGitHub, forge: GitHubForge, pull: Pull) -> None:
    github.add_app(OTHER, 0, slug="other")
    forge.set_gate(pull, WAITING)
    github.add_check_run(APP, pull.head_sha, CONTEXT, app=OTHER)
    github.add_status(APP, pull.head_sha, "success", CONTEXT)
    assert forge.gate(pull) == WAITING
    forge.set_gate(pull, RED)
    assert [(run.app, run.conclusion) for run in github.check_runs(APP, pull.head_sha)] == [
        (OTHER, "success"),
        (OURS, "failure"),
    ]


def test_a_server_that_does_not_filter_is_not_believed(github: FakeGitHub, forge: GitHubForge, pull: Pull) -> None:
    shown = {"id": 9, "name": CONTEXT, "status": "completed", "conclusion": "success", "app": {"id": OTHER}}
    shown |= {"external_id": "", "output": {"title": "x", "annotations_count": 0}}
    github.fail(path="/check-runs", times=2, status=200, body={"total_count": 1, "check_runs": [shown]})
    assert forge.gate(pull) is None


@pytest.mark.parametrize(
    ("status", "conclusion"),
    [("queued", None), ("completed", "neutral"), ("completed", "skipped"), ("completed", "stale")],
)
def test_what_we_never_write_is_no_gate_and_is_written_anew(
    github: FakeGitHub, forge: GitHubForge, pull: Pull, status: str, conclusion: str | None
) -> None:
    forge.set_gate(pull, RED)
    run = runs(github, pull)[0]
    run.status, run.conclusion = status, conclusion
    github.generation += 1
    body = {"total_count": 1, "check_runs": [{"id": run.id, "name": CONTEXT, "app": {"id": OURS}, "status": status}]}
    body["check_runs"][0] |= {"conclusion": conclusion, "external_id": run.external_id}  # type: ignore[index]
    body["check_runs"][0]["output"] = {"title": run.title, "annotations_count": 0}  # type: ignore[index]
    github.fail(path="/check-runs", times=1, status=200, body=body)  # the description knows no "stale"
    assert forge.gate(pull) is None
    run.conclusion = conclusion and "neutral"
    forge.set_gate(pull, RED)
    assert forge.gate(pull) == RED


@pytest.mark.parametrize("gate", [WAITING, RED, BROKEN, GREEN])
@pytest.mark.parametrize("before", [None, WAITING, GREEN], ids=["new", "after pending", "after success"])
@pytest.mark.parametrize("how", [{"status": 502}, {"truncate": True}, {"disconnect": True}], ids=str)
def test_a_write_that_was_stored_before_its_answer_broke_is_there_once(
    github: FakeGitHub, forge: GitHubForge, pull: Pull, gate: Gate, before: Gate | None, how: dict[str, Any]
) -> None:
    if before:
        forge.set_gate(pull, before)
    report = None if gate in (WAITING, before) else Report("all", notes(3))
    if gate != before:
        github.fail(path="/check-runs", method="PATCH" if before == WAITING else "POST", store=True, **how)
        assert not error_of(forge, pull, gate, report).permanent
    stored = [(run.id, list(run.annotations)) for run in runs(github, pull)]
    if gate == GREEN or forge.gate(pull) != gate:  # as the delivery asks
        forge.set_gate(pull, gate, report)
    assert [(run.id, run.annotations) for run in runs(github, pull)] == stored
    assert forge.gate(pull) == gate


@pytest.mark.parametrize("count", [0, 1, 50, 51, 100, 120])
def test_all_annotations_arrive_at_most_fifty_at_once(
    github: FakeGitHub, forge: GitHubForge, pull: Pull, count: int
) -> None:
    forge.set_gate(pull, WAITING)
    forge.set_gate(pull, RED, Report("all of it", notes(count), "http://x/comment"))
    (run,) = runs(github, pull)
    assert [note["title"] for note in run.annotations] == [f"[P1] Number {n}" for n in range(count)]
    assert (run.conclusion, run.summary, run.details_url) == ("failure", "all of it", "http://x/comment")
    assert max(len(body["output"].get("annotations", [])) for _, body in writes(github)) <= 50


@pytest.mark.parametrize("store", [False, True], ids=["before it is stored", "after it is stored"])
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_failure_midway_is_no_gate_yet_and_what_is_there_is_gone_on_with(
    github: FakeGitHub, forge: GitHubForge, pull: Pull, skip: int, store: bool
) -> None:
    report = Report("all of it", notes(120))
    forge.set_gate(pull, running(1, 3))
    github.fail(method="PATCH", path="/check-runs/", status=502, skip=skip, store=store)
    assert not error_of(forge, pull, GREEN, report).permanent
    done = skip == 2 and store
    assert (runs(github, pull)[0].conclusion == "success") is done
    assert (forge.gate(pull) == GREEN) is done
    forge.set_gate(pull, GREEN, report)
    (run,) = runs(github, pull)
    assert (run.conclusion, [note["start_line"] for note in run.annotations]) == ("success", list(range(1, 121)))


def test_notes_of_another_review_are_not_taken_for_ones_own(github: FakeGitHub, forge: GitHubForge, pull: Pull) -> None:
    github.fail(method="PATCH", path="/check-runs/", status=502)
    error_of(forge, pull, RED, Report("the first", notes(80)))
    forge.set_gate(pull, RED, Report("the second", notes(60, "Something else.")))
    newest = runs(github, pull)[0]
    assert {note["message"] for note in newest.annotations} == {"Something else."}
    assert len(newest.annotations) == 60 and forge.gate(pull) == RED


def test_what_is_longer_than_github_takes_is_cut(github: FakeGitHub, forge: GitHubForge, pull: Pull) -> None:
    long = Annotation("app.py", 1, 2, "notice", "t" * 300, "ü" * 70_000)
    empty = replace(long, title="", message="")
    forge.set_gate(pull, Gate("error", "d" * 200), Report("ü" * 70_000, (long, empty)))
    (run,) = runs(github, pull)
    assert len(run.annotations) == 2 and run.annotations[1]["message"]
    assert len(run.annotations[0]["message"].encode()) <= MAX_MESSAGE
    assert len((run.summary or "").encode()) <= MAX_SUMMARY
    assert forge.gate(pull) == Gate("error", "d" * 140)


def test_a_report_that_is_refused_does_not_keep_the_gate(github: FakeGitHub, forge: GitHubForge, pull: Pull) -> None:
    bad = Annotation("app.py", 0, 0, "notice", "t", "m")
    forge.set_gate(pull, RED, Report("all of it", (bad,), "http://x/comment"))
    (run,) = runs(github, pull)
    assert (run.conclusion, run.annotations, run.details_url) == ("failure", [], "http://x/comment")


@pytest.mark.parametrize(
    "how", [{"empty": True}, {"truncate": True}, {"status": 502, "times": 9}, {"status": 200, "body": {}}], ids=str
)
def test_a_bad_listing_is_not_none_and_green_waits(
    github: FakeGitHub, forge: GitHubForge, pull: Pull, how: dict[str, Any]
) -> None:
    forge.set_gate(pull, RED)
    github.fail(method="GET", path="/check-runs", **how)
    with pytest.raises(ForgeError) as caught:
        forge.gate(pull)
    assert not caught.value.permanent
    github.fail(method="GET", path="/check-runs", **how)
    error_of(forge, pull, GREEN)
    assert runs(github, pull)[0].conclusion == "failure"


def test_an_empty_list_that_counts_none_is_not_believed_either(
    github: FakeGitHub, forge: GitHubForge, pull: Pull
) -> None:
    forge.set_gate(pull, GREEN)
    github.fail(method="GET", path="filter=all", status=200, body={"total_count": 0, "check_runs": []})
    with pytest.raises(ForgeError, match="came back short"):
        forge.gate(pull)


def test_while_github_does_not_say_a_red_one_is_written_all_the_same(
    github: FakeGitHub, forge: GitHubForge, pull: Pull
) -> None:
    forge.set_gate(pull, GREEN)
    github.fail(method="GET", path="/check-runs", status=502, times=3)
    forge.set_gate(pull, WAITING)
    assert forge.gate(pull) == WAITING


def test_a_missing_permission_is_named(github: FakeGitHub, pull: Pull) -> None:
    github.add_token(token := "ghs_" + "y" * 36, installation=True, app=OURS, owner="octo", lacks={"checks"})
    forge = forge_for(github, token=token, app_id=OURS)
    error = error_of(forge, pull, GREEN)
    assert (error.cause, error.permanent, "checks=write" in str(error)) == ("forge-permission", True, True)


def test_writes_keep_the_pace(github: FakeGitHub) -> None:
    from fake_github.clients import Clock

    clock = Clock()
    forge = forge_for(github, token=app_token(github, OURS), app_id=OURS, clock=clock)
    forge.set_gate(forge.pull(APP, 1), RED, Report("all of it", notes(101)))
    assert len(github.writes) == 3 and sum(clock.slept) >= 2.0
