"""Container tests 6 and 7: killed or stopped at the worst moment, it counts nothing, asks nothing twice, posts once."""

from pathlib import Path
from typing import Any

import pytest

from .conftest import Start
from .stack import REPOSITORY, Stack, eventually

COMMENTS = rf"/repos/{REPOSITORY}/issues/\d+/comments"
RUNNING = ("pending", "Codex review running (attempt 1 of 3)")
UNDER_WAY = 8.0  # seconds, in which it is killed; after the restart it waits for a comment until ten after it was sent


def killed(stack: Stack) -> None:
    stack.container.kill()
    stack.container.wait(timeout=30)


def test_killed_during_a_review_it_reviews_after_the_restart(stack: Stack) -> None:
    pull = stack.pull()
    stack.model.hold()
    stack.start()
    stack.model.wait_held()
    killed(stack)
    stack.model.clear()
    stack.container.start()
    stack.wait_gate(pull["head_sha"], "failure")
    stack.wait_log("attempt.interrupted")
    assert {text for _, text in stack.statuses(pull["head_sha"]) if "attempt" in text} == {RUNNING[1]}
    assert stack.row(1)["attempts"] == 1
    assert len(stack.comments(1)) == 1
    left = stack.exec("ls", "/var/lib/appliance/work")
    assert "review-" not in left.out, "the dead process's work directory was not reclaimed"


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param({"delay": UNDER_WAY, "status": 502}, id="sent, and lost"),
        pytest.param({"delay": UNDER_WAY, "status": 502, "store": True}, id="sent, and landing after the restart"),
        pytest.param({"status": 502, "store": True}, id="stored, then 502"),
    ],
)
def test_killed_between_the_stored_result_and_its_posting(stack: Stack, failure: dict[str, Any]) -> None:
    stack.forge.call("fail", method="POST", path=COMMENTS, **failure)
    pull = stack.pull()
    stack.start()
    eventually("a comment on its way", lambda: stack.forge.get("failures")[0]["times"] == 0)
    if not failure.get("delay"):
        stack.wait_log("delivery.failed")
    killed(stack)
    assert "review.done" in stack.log
    assert "review.posted" not in stack.log
    asked = len(stack.model.requests)
    stack.container.start()
    stack.wait_log("review.posted")
    eventually("the end of the lost request", lambda: any(it["injected"] for it in stack.forge.get("exchanges")))
    stack.cycles(1)
    assert len(stack.comments(1)) == 1
    assert stack.gate(pull["head_sha"]) == ("failure", "1 blocking finding (P1)")
    assert len(stack.model.requests) == asked, "the model was asked again"
    assert stack.row(1)["attempts"] == 1
    assert stack.statuses(pull["head_sha"]).count(RUNNING) == 1


def stopped(stack: Stack) -> None:
    """`docker stop`: within Docker's patience of ten seconds, after which the code is 137, and nothing left."""
    pids = [pid for pid, _ in stack.processes()]
    assert pids
    ours = all(Path(f"/proc/{pid}").exists() for pid in pids)  # the engine's machine is this one
    stack.container.stop()
    state = stack.state
    assert (state["Status"], state["ExitCode"], state["OOMKilled"], state["Pid"]) == ("exited", 0, False, 0)
    assert "stopping" in stack.log and "Traceback" not in stack.log and ".defect" not in stack.log
    left = [pid for pid in pids if ours and Path(f"/proc/{pid}").exists()]
    assert left == []


def test_stopped_while_idle(stacks: Start) -> None:
    stack = stacks(fakes=False)
    stack.start()
    stack.wait_health("healthy")
    stopped(stack)
    assert "stopping.hangs" not in stack.log


def test_stopped_during_a_review(stack: Stack) -> None:
    pull = stack.pull()
    stack.model.hold()
    stack.start()
    stack.model.wait_held()
    stopped(stack)
    assert "stopping.hangs" not in stack.log
    stack.model.clear()
    asked = len(stack.model.requests)
    stack.container.start()
    stack.wait_gate(pull["head_sha"], "failure")
    assert len(stack.model.requests) > asked
    assert stack.row(1)["attempts"] == 1
    assert {text for _, text in stack.statuses(pull["head_sha"]) if "attempt" in text} == {RUNNING[1]}


def test_stopped_while_the_forge_hangs(stack: Stack) -> None:
    stack.forge.call("fail", method="GET", path=f"/repos/{REPOSITORY}/pulls", delay=60.0)
    stack.start()
    eventually("a request that hangs", lambda: stack.forge.get("failures")[0]["times"] == 0)
    stopped(stack)


def test_stopped_while_a_fetch_hangs(stack: Stack) -> None:
    stack.pull()
    stack.forge.call("fail", path=r"\.git/", delay=60.0, times=5)
    stack.start()
    eventually("a fetch that hangs", lambda: stack.forge.get("failures")[0]["times"] < 5)
    stopped(stack)
    assert "stopping.hangs" not in stack.log


def test_stopped_with_settings_that_are_wrong(stacks: Start) -> None:
    stack = stacks(fakes=False, APPLIANCE_INTERVAL="soon", APPLIANCE_MAX_ATTEMPTS="-1")
    stack.start()
    line = stack.wait_health("unhealthy", "unhealthy: settings: ")
    assert "APPLIANCE_INTERVAL" in line and "APPLIANCE_MAX_ATTEMPTS" in line
    stack.container.stop()
    assert stack.state["ExitCode"] == 0
