"""Container test 2: against a fake GitHub, from the listing to comment and commit status.

One appliance for the module: the tests run in this order, and each leaves it idle.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Start
from .stack import HARMLESS, KEY, REPOSITORY, TOKEN, Stack, eventually

WAITING = ("pending", "waiting for the Codex review")
RUNNING = ("pending", "Codex review running (attempt 1 of 3)")
BLOCKED = ("failure", "1 blocking finding (P1)")
CLEAN = ("success", "no blocking findings")


@pytest.fixture(scope="module")
def stack(module_stacks: Start) -> Iterator[Stack]:
    yield module_stacks()


@pytest.fixture(scope="module")
def ready(stack: Stack) -> dict[str, Any]:
    return stack.pull(title="Give a discount")


@pytest.fixture(scope="module")
def draft(stack: Stack) -> dict[str, Any]:
    return stack.pull("draft", draft=True, files=HARMLESS)


@pytest.fixture(scope="module")
def reviewed(stack: Stack, ready: dict[str, Any], draft: dict[str, Any]) -> Stack:
    stack.start()
    stack.wait_gate(ready["head_sha"], "failure")
    return stack


def test_a_ready_pull_request_gets_the_statuses_in_their_exact_texts(reviewed: Stack, ready: dict[str, Any]) -> None:
    assert reviewed.statuses(ready["head_sha"]) == [WAITING, RUNNING, BLOCKED]
    contexts = {it["context"] for it in reviewed.forge.call("statuses", name=REPOSITORY, sha=ready["head_sha"])}
    assert contexts == {"codex-review"}


def test_its_comment_names_exactly_what_was_looked_at(reviewed: Stack, ready: dict[str, Any]) -> None:
    (body,) = reviewed.comments(1)
    assert "1 blocking finding (P1)" in body
    assert f"head `{ready['head_sha']}`" in body
    assert f"base `main` at `{ready['base_sha']}`" in body
    assert f"merge base `{ready['base_sha']}`" in body
    assert "- [P1] The boundary itself is left out (`shop.py:3`) · blocks" in body
    assert "**Verdict: incorrect**" in body
    assert "**Evidence**" in body and "**Limits**" in body
    assert re.search(r"<!-- review-appliance:v1 \S+ [0-9a-f]{64} -->", body)
    assert "Rehearsal" not in body


def test_the_finding_stands_on_its_line_of_the_diff(reviewed: Stack, ready: dict[str, Any]) -> None:
    (review,) = reviewed.forge.call("reviews", name=REPOSITORY, number=1)
    assert (review["state"], review["commit_id"]) == ("COMMENTED", ready["head_sha"])
    (line,) = reviewed.forge.call("line_comments", name=REPOSITORY, number=1)
    assert (line["path"], line["line"], line["side"]) == ("shop.py", 3, "RIGHT")
    assert "**[P1] The boundary itself is left out** · blocks" in line["body"]


def test_a_draft_gets_none(reviewed: Stack, draft: dict[str, Any]) -> None:
    assert reviewed.statuses(draft["head_sha"]) == []
    assert reviewed.comments(2) == []
    assert reviewed.model.asked(draft["head_sha"]) == 0
    assert reviewed.row(2)["state"] == "skipped"


def test_a_second_cycle_writes_nothing_and_asks_no_model(reviewed: Stack) -> None:
    writes, asked = len(reviewed.forge.get("writes")), len(reviewed.model.requests)
    reviewed.cycles(1)
    assert reviewed.exec("appliance", "cycle").code == 0
    assert (len(reviewed.forge.get("writes")), len(reviewed.model.requests)) == (writes, asked)


def test_an_unchanged_cycle_costs_one_conditional_request(reviewed: Stack) -> None:
    reviewed.cycles(1)
    before = len(reviewed.forge.get("exchanges"))
    reviewed.cycles(1)
    new = reviewed.forge.get("exchanges")[before:]
    assert {(it["method"], it["status"]) for it in new} == {("GET", 304)}
    assert {it["path"] for it in new} == {f"/repos/{REPOSITORY}/pulls"}


def test_it_is_healthy_and_status_says_reviewed(reviewed: Stack) -> None:
    reviewed.wait_health("healthy", "healthy: ")
    row = reviewed.row(1)
    assert (row["state"], row["attempts"], row["next_try"]) == ("reviewed", 1, None)


def test_review_prints_and_posts_only_when_told_to(reviewed: Stack, ready: dict[str, Any]) -> None:
    writes = len(reviewed.forge.get("writes"))
    shown = reviewed.exec("review", f"{REPOSITORY}#1")
    assert shown.code == 0, shown
    assert "The boundary itself is left out" in shown.out
    assert "reviewing 2 changed files" in shown.err
    done = reviewed.exec("review", f"http://forge:8080/{REPOSITORY}/pull/1", "--format", "json", "--fail-on", "P1")
    assert done.code == 3, done
    told = done.json
    assert {key: told[key] for key in ("target", "head_sha", "base_sha", "merge_base", "verdict", "gate")} == {
        "target": f"{REPOSITORY}#1",
        "head_sha": ready["head_sha"],
        "base_sha": ready["base_sha"],
        "merge_base": ready["base_sha"],
        "verdict": "incorrect",
        "gate": "failure",
    }
    (finding,) = told["findings"]
    assert set(finding) >= {"title", "body", "priority", "confidence", "path", "line_start", "line_end"}
    assert (finding["path"], finding["line_start"], finding["priority"]) == ("shop.py", 3, 1)
    assert all(isinstance(told[key], str) for key in ("summary", "reasoning", "limits"))
    assert told["usage"] and told["seconds"] > 0
    assert len(reviewed.forge.get("writes")) == writes
    assert len(reviewed.comments(1)) == 1


def test_review_with_post_publishes(reviewed: Stack) -> None:
    late = reviewed.pull("late", draft=True, files={"late.md": "Late.\n"})
    done = reviewed.exec("review", f"{REPOSITORY}#{late['number']}", "--post", "--format", "markdown")
    assert done.code == 0, done
    assert "No findings." in done.out
    assert len(reviewed.comments(late["number"])) == 1
    assert reviewed.gate(late["head_sha"]) == CLEAN


def test_what_a_person_mistypes_is_one_line_and_exit_2(reviewed: Stack) -> None:
    for wrong in (
        ["review", "nonsense"],
        ["review", f"{REPOSITORY}#1", "--base", "main"],
        ["appliance", "retry", "x#1"],
    ):
        done = reviewed.exec(*wrong)
        assert done.code == 2, done
        assert "Traceback" not in done.err and "Next:" in done.err


def test_a_new_head_is_reviewed_and_supersedes_the_old_review(reviewed: Stack) -> None:
    head = reviewed.forge.call("push", name=REPOSITORY, branch="discount", files={"extra.py": "x = 1\n"})
    reviewed.wait_gate(head, "failure")
    first, second = reviewed.comments(1)
    assert "supersedes the one of head" in second and head in second and head not in first


def test_retry_starts_over(reviewed: Stack, ready: dict[str, Any]) -> None:
    comments = len(reviewed.comments(1))
    assert reviewed.exec("appliance", "retry", f"{REPOSITORY}#1").code == 0
    eventually("another review", lambda: len(reviewed.comments(1)) == comments + 1)


def test_no_secret_is_seen_anywhere(reviewed: Stack) -> None:
    """The key is the gate's, the token the client's: neither is in a log, in an argv, in the jail or the volume."""
    reviewed.model.hold()
    held = reviewed.pull("held", title="Another discount")
    reviewed.model.wait_held(held["head_sha"])
    script = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find / -xdev -type f -size -64k -exec cat {} + 2>/dev/null"
    jail = reviewed.nsenter(reviewed.codex(), "/bin/sh", "-c", script).out
    assert "GATE_TOKEN=added-by-the-gate" in jail
    lines = "\n".join(line for _, line in reviewed.processes())
    reviewed.model.clear()
    reviewed.wait_gate(held["head_sha"], "failure")
    found = reviewed.exec("grep", "-rlaF", "-e", KEY, "-e", TOKEN, "/var/lib/appliance", "/tmp", "/run")
    assert (found.code, found.out) == (1, "")
    inspected = {**reviewed.container.attrs, "Config": {**reviewed.container.attrs["Config"], "Env": "as given"}}
    posted = str([reviewed.forge.get("writes"), reviewed.comments(1)])
    for place, text in (
        ("log", reviewed.log),
        ("argv", lines),
        ("jail", jail),
        ("forge", posted),
        ("inspect", str(inspected)),
    ):
        assert KEY not in text and TOKEN not in text, place
    assert {request["authorization"] for request in reviewed.model.requests} == {f"Bearer {KEY}"}
