"""Faults of the model, end to end: what counts, what does not, and what is shown (DESIGN section 4)."""

import time
from datetime import UTC, datetime
from typing import Any

from .conftest import Start
from .stack import HARMLESS, REPOSITORY, Stack, eventually

WAITING = ("pending", "waiting for the Codex review")


def error(kind: str, message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"type": kind, "code": kind, "message": message, **more}}


def begin(stack: Stack, **rule: Any) -> dict[str, Any]:
    """One pull request, and a model that answers by `rule`."""
    pull = stack.pull()
    stack.model.rule(**rule)
    stack.start()
    return pull


def uncounted(stack: Stack, head: str) -> None:
    assert stack.row(1)["attempts"] == 0
    assert stack.comments(1) == []
    assert {state for state, _ in stack.statuses(head)} == {"pending"}


def test_401_is_the_login_and_counts_nothing(stack: Stack) -> None:
    pull = begin(stack, status=401, body=error("invalid_api_key", "Incorrect API key provided."))
    line = stack.wait_health("unhealthy", "unhealthy: login: ")
    assert "OPENAI_API_KEY" in line
    stack.wait_gate(pull["head_sha"], *WAITING)
    assert stack.exec("appliance", "cycle").code == 1
    uncounted(stack, pull["head_sha"])
    stack.model.clear()
    stack.wait_gate(pull["head_sha"], "failure", seconds=90)
    stack.wait_health("healthy")


def test_usage_limit_waits_until_its_reset(stack: Stack) -> None:
    reset = time.time() + 3 * 3600
    limit = error("usage_limit_reached", "The usage limit has been reached", resets_at=int(reset), plan_type="plus")
    pull = begin(stack, status=429, body=limit)
    when = datetime.fromtimestamp(reset, UTC).strftime("%H:%M UTC")
    stack.wait_gate(pull["head_sha"], "pending", f"usage limit, next try {when}")
    asked = len(stack.model.requests)
    stack.cycles(1)
    assert len(stack.model.requests) == asked, "an uncounted fault is never retried hot"
    uncounted(stack, pull["head_sha"])
    row = stack.row(1)
    assert row["next_try"] == datetime.fromtimestamp(int(reset), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert row["reason"].startswith("quota: ")
    assert stack.health[0] == "healthy"
    assert stack.exec("appliance", "retry", f"{REPOSITORY}#1").code == 0
    stack.model.clear()
    stack.wait_gate(pull["head_sha"], "failure")


def test_500_is_the_models_fault_and_shows_after_three_cycles(stack: Stack) -> None:
    pull = begin(stack, status=500, body=error("server_error", "The server had an error"))
    stack.wait_log("cycle.failed")
    assert stack.health[0] != "unhealthy", "one cycle is not yet a fault that a person must see"
    stack.wait_health("unhealthy", "unhealthy: model-unreachable: ", seconds=120)
    assert stack.log.count("cycle.failed") >= 3
    stack.wait_gate(pull["head_sha"], *WAITING)
    uncounted(stack, pull["head_sha"])


def test_prose_counts_and_after_three_attempts_the_gate_is_an_error(stack: Stack) -> None:
    pull = begin(stack, answer="prose")
    stack.wait_gate(pull["head_sha"], "error", "review failed 3 times: ", seconds=120)
    texts = [text for _, text in stack.statuses(pull["head_sha"])]
    assert [text for text in texts if "attempt" in text] == [
        f"Codex review running (attempt {number} of 3)" for number in (1, 2, 3)
    ]
    assert stack.log.count("review.repair") == 3
    assert stack.log.count("outcome=model-output") == 3
    assert stack.comments(1) == []
    asked = len(stack.model.requests)
    stack.cycles(1)
    assert len(stack.model.requests) == asked
    row = stack.row(1)
    assert (row["state"], row["attempts"]) == ("given-up", 3)
    stack.model.clear()
    assert stack.exec("appliance", "retry", f"{REPOSITORY}#1").code == 0
    stack.wait_gate(pull["head_sha"], "failure", "1 blocking finding")


def test_a_review_without_a_look_is_none(stacks: Start) -> None:
    stack = stacks(APPLIANCE_MAX_ATTEMPTS=1)
    pull = begin(stack, answer="blind")
    stack.wait_gate(pull["head_sha"], "error", "review failed once: ")
    assert "no command succeeded" in stack.gate(pull["head_sha"])[1]  # type: ignore[index]
    assert "success" not in {state for state, _ in stack.statuses(pull["head_sha"])}
    assert stack.comments(1) == []


def test_a_model_that_does_not_answer_is_no_fault_of_the_pull_request(stacks: Start) -> None:
    stack = stacks(APPLIANCE_REVIEW_TIMEOUT=4)
    pull = begin(stack, hold=True)
    stack.wait_log("outcome=model-unreachable")
    stack.wait_gate(pull["head_sha"], *WAITING)
    uncounted(stack, pull["head_sha"])


def test_head_moved_during_a_review(stack: Stack) -> None:
    """Superseded: the run is ended, the new head reviewed, and the old one never gets a success."""
    old = stack.pull(files=HARMLESS)
    stack.model.hold(old["head_sha"])
    stack.start()
    stack.model.wait_held(old["head_sha"])
    new = stack.forge.call("push", name=REPOSITORY, branch="discount", files={"more.md": "More.\n"})
    stack.wait_gate(new, "success")
    stack.wait_log("outcome=superseded")
    assert stack.row(1)["attempts"] == 1
    assert "success" not in {state for state, _ in stack.statuses(old["head_sha"])}
    (body,) = stack.comments(1)
    assert new in body and f"head `{old['head_sha']}`" not in body
    assert eventually("one review asked of the new head", lambda: stack.model.asked(new)) > 0


def test_closed_during_a_review(stack: Stack) -> None:
    pull = stack.pull()
    stack.model.hold()
    stack.start()
    stack.model.wait_held()
    stack.forge.call("edit_pull", name=REPOSITORY, number=1, state="closed")
    stack.wait_log("outcome=superseded")
    stack.model.clear()
    stack.cycles(1)
    assert stack.comments(1) == []
    assert {state for state, _ in stack.statuses(pull["head_sha"])} == {"pending"}
