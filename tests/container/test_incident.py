"""Container test 4, DESIGN scenarios 1 and 5: the sandbox of a running appliance breaks, and is mended again."""

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Start
from .stack import REPOSITORY, Stack

WAITING = ("pending", "waiting for the Codex review")


@pytest.fixture(scope="module")
def stack(module_stacks: Start) -> Iterator[Stack]:
    yield module_stacks()


def test_a_broken_sandbox_costs_nothing_and_heals_by_itself(stack: Stack) -> None:
    old = stack.pull("old")
    stack.start()
    stack.wait_gate(old["head_sha"], "failure")
    stack.wait_health("healthy")
    gates = stack.statuses(old["head_sha"])
    with stack.masked(stack.state["Pid"]):
        new = stack.pull("new")
        line = stack.wait_health("unhealthy", "unhealthy: proc-masked: ")
        assert " Next: start the container with compose.yaml's `security_opt: systempaths=unconfined`" in line
        stack.wait_gate(new["head_sha"], *WAITING)
        _nothing_happens(stack, old, new, gates)
    stack.wait_gate(new["head_sha"], "failure")
    stack.wait_health("healthy", "healthy: ")
    assert stack.statuses(new["head_sha"])[1] == ("pending", "Codex review running (attempt 1 of 3)")
    assert stack.row(new["number"])["attempts"] == 1
    assert len(stack.comments(new["number"])) == len(stack.comments(old["number"])) == 1


def _nothing_happens(stack: Stack, old: dict[str, Any], new: dict[str, Any], gates: list[tuple[str, str]]) -> None:
    asked = len(stack.model.requests)
    cycle = stack.exec("appliance", "cycle")
    assert cycle.code == 1, cycle
    assert "proc-masked: " in cycle.err and "Next: " in cycle.err
    stack.cycles(1)
    assert "selftest.failed" in stack.log and "systempaths=unconfined" in stack.log
    assert stack.statuses(old["head_sha"]) == gates
    assert stack.statuses(new["head_sha"]) == [WAITING]
    assert stack.comments(new["number"]) == []
    assert len(stack.model.requests) == asked
    told = stack.status()
    rows = {row["target"]: (row["state"], row["attempts"]) for row in told["pulls"]}
    assert rows == {
        f"{REPOSITORY}#{old['number']}": ("reviewed", 1),
        f"{REPOSITORY}#{new['number']}": ("waiting", 0),
    }
    assert (told["health"]["state"], told["health"]["cause"]) == ("unhealthy", "proc-masked")
    assert told["cycle"]["failed"] is True
    assert stack.state["Status"] == "running"
    review = stack.exec("review", f"{REPOSITORY}#{new['number']}")
    assert review.code == 1 and "proc-masked: " in review.err, review


def test_a_full_tmp_is_found_before_a_review_meets_it_and_its_end_by_the_next_cycle(stacks: Start) -> None:
    stack = stacks()
    stack.start()
    stack.wait_health("healthy")
    stack.exec("dd", "if=/dev/zero", "of=/tmp/full", "bs=1M")
    told = stack.exec("appliance", "selftest", "--json")
    assert (told.code, told.json["fault"]["cause"]) == (1, "disk-full")
    pull = stack.pull()
    assert "docker restart" in stack.wait_health("unhealthy", "unhealthy: disk-full: The container's /tmp is full.")
    stack.wait_gate(pull["head_sha"], *WAITING)
    assert stack.exec("appliance", "doctor").code == 1
    cycle = stack.exec("appliance", "cycle")
    assert (cycle.code, "disk-full: " in cycle.err) == (1, True)
    assert stack.model.asked(pull["head_sha"]) == 0, "the doctor alone has asked, for nothing"
    assert stack.row(1)["attempts"] == 0
    assert stack.exec("rm", "/tmp/full").code == 0
    stack.wait_gate(pull["head_sha"], "failure")
    stack.wait_health("healthy")
