"""Faults of the model, end to end: what counts, what does not, and what is shown (DESIGN section 4)."""

import base64
import json
import time
from datetime import UTC, datetime
from typing import Any

from days import enough_of_today

from .conftest import Start
from .stack import HARMLESS, KEY, REPOSITORY, Stack, eventually

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


def test_a_cycle_by_hand_tries_what_was_mended_and_the_loop_would_still_wait_for(stacks: Start) -> None:
    stack = stacks(APPLIANCE_INTERVAL=600)
    pull = begin(stack, status=404, body=error("model_not_found", "The model does not exist."))
    stack.wait_health("unhealthy", "unhealthy: model-refused: ")
    vain = stack.exec("appliance", "cycle")
    assert (vain.code, "`appliance cycle` tries at once" in vain.err) == (1, True), vain
    uncounted(stack, pull["head_sha"])
    stack.model.clear()
    mended = stack.exec("appliance", "cycle")
    assert (mended.code, mended.out) == (0, "1 pull request, 1 reviewed\n"), mended
    assert stack.gate(pull["head_sha"])[0] == "failure"  # type: ignore[index]
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
    stack.wait_health("unhealthy", "unhealthy: model-unreachable: ", seconds=120)
    since = stack.status()["health"]["since"]  # a cycle shows its fault, and then logs that it failed
    earlier = [when for when, line in stack.dated_log() if "cycle.failed" in line and when < since]
    assert len(earlier) == 2, "one cycle, or two, are not yet a fault that a person must see"
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
    stack = stacks(APPLIANCE_REVIEW_TIMEOUT=10)  # in which it must be asked, on a busy machine too
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


# ---- budgets


def tokens(stack: Stack) -> dict[str, Any]:
    told: dict[str, Any] = stack.exec("appliance", "status", "--json").json["tokens"]
    return told


def test_a_review_that_uses_up_its_tokens_counts_and_is_given_up_with_that_reason(stacks: Start) -> None:
    enough_of_today(150)
    stack = stacks(APPLIANCE_TOKENS_PER_REVIEW=200_000, APPLIANCE_MAX_ATTEMPTS=2)
    pull = begin(stack, usage=150_000)
    said = "review failed 2 times: token budget of the review (200,000 tokens) is used up"
    stack.wait_gate(pull["head_sha"], "error", said, seconds=90)
    assert len(stack.model.requests) == 4, "two in each attempt: the third was not sent, and Codex did not try again"
    assert stack.log.count('outcome="token budget"') + stack.log.count("outcome='token budget'") == 2
    assert stack.comments(1) == []
    assert stack.health[0] == "healthy"
    assert tokens(stack)["used"] > 600_000
    stack.model.clear()
    assert stack.exec("appliance", "retry", f"{REPOSITORY}#1").code == 0
    stack.wait_gate(pull["head_sha"], "failure", "1 blocking finding")


def test_a_used_up_day_holds_all_reviews_in_good_health_until_it_is_over_or_the_limit_is_raised(
    stacks: Start,
) -> None:
    enough_of_today(150)
    stack = stacks(APPLIANCE_TOKENS_PER_DAY=200_000)
    pull = begin(stack, usage=150_000)
    stack.wait_gate(pull["head_sha"], "pending", "token budget of the day is used up, next try 00:00 UTC")
    uncounted(stack, pull["head_sha"])
    told = "token-budget: The token budget of the day (200,000 tokens) is used up. Next try "
    stack.wait_health("healthy", f"healthy: watching 1 pull request; {told}")
    asked = len(stack.model.requests)
    assert asked == 2
    done = stack.exec("appliance", "cycle")
    assert done.code == 0, "it is what the setting asks for"
    once = stack.exec("review", f"{REPOSITORY}#1")
    assert (once.code, once.err.count("token-budget: ")) == (1, 1)
    assert len(stack.model.requests) == asked
    assert tokens(stack)["limit"] == 200_000 < tokens(stack)["used"]
    assert stack.row(1)["next_try"].endswith("T00:00:00Z")
    stack.model.clear()
    stack.environment = {**stack.environment, "APPLIANCE_TOKENS_PER_DAY": "100000000"}
    stack.start()
    stack.wait_gate(pull["head_sha"], "failure", "1 blocking finding", seconds=90)
    assert tokens(stack)["used"] > 300_000, "a restart forgets nothing"


# ---- the ChatGPT login


def test_with_a_login_the_gate_alone_adds_its_token(stacks: Start) -> None:
    stack = stacks(OPENAI_API_KEY="")
    pull = begin(stack)
    stack.wait_health("unhealthy", "unhealthy: login: ")
    offline = stack.exec("env", "HTTPS_PROXY=http://127.0.0.1:1", "appliance", "login")
    assert offline.code == 1
    assert offline.err.startswith("login: Codex could not log in: ") and offline.err.count("\n") == 1
    assert "Next: check the network" in offline.err
    assert stack.exec("sh", "-c", "find /var/lib/appliance/login -type f -size +0").out == "", "no half login"
    claims = base64.urlsafe_b64encode(json.dumps({"exp": int(time.time()) + 86_400}).encode()).rstrip(b"=").decode()
    kept = {"access_token": f"eyJh.{claims}.planted", "refresh_token": "rt-planted-token", "account_id": "acct-1"}
    write = f"umask 077; mkdir -p /var/lib/appliance/login; echo '{json.dumps({'tokens': kept})}' >"
    stack.exec("sh", "-c", f"{write} /var/lib/appliance/login/auth.json")
    stack.wait_gate(pull["head_sha"], "failure", "1 blocking finding", seconds=90)
    stack.wait_health("healthy")
    assert {request["authorization"] for request in stack.model.requests} == {f"Bearer {kept['access_token']}"}
    assert KEY not in stack.log
    for secret in (kept["access_token"], kept["refresh_token"]):
        assert secret not in stack.log
        found = stack.exec("grep", "-rlaF", "--", secret, "/var/lib/appliance", "/run", "/tmp")
        assert found.out.split() == ["/var/lib/appliance/login/auth.json"], "and it is nowhere else"
