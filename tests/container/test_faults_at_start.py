"""Container test 3: started without what it needs, it says so, counts nothing, and is well again when it has it.

One stack for the module, its appliance made anew for each fault: the volume keeps what an earlier one counted.
"""

from collections.abc import Iterator

import pytest

from .conftest import Start
from .stack import Stack, security_without

WAITING = ("pending", "waiting for the Codex review")


@pytest.fixture(scope="module")
def stack(module_stacks: Start) -> Iterator[Stack]:
    stack = module_stacks()
    stack.pull()
    yield stack


def faulty(stack: Stack, cause: str, *options: str) -> str:
    """Start it so; returns the remedy that `docker inspect` shows."""
    stack.start(*options)
    line = stack.wait_health("unhealthy", f"unhealthy: {cause}: ")
    assert " Next: " in line
    return line.partition(" Next: ")[2]


def counted_nothing(stack: Stack) -> None:
    head = stack.forge.get("repositories")[0]["pulls"]["1"]["head_sha"]
    stack.wait_gate(head, *WAITING)
    stack.cycles(1)
    told = stack.status()
    assert [(row["attempts"], row["state"]) for row in told["pulls"]] == [(0, "waiting")]
    assert told["cycle"]["failed"] is True
    assert stack.comments(1) == []
    assert stack.model.requests == []
    assert stack.statuses(head) == [WAITING]
    assert stack.state["Status"] == "running" and stack.container.attrs["RestartCount"] == 0


def test_engines_default_seccomp(stack: Stack) -> None:
    assert "seccomp=./docker/seccomp.json" in faulty(stack, "seccomp-clone", security_without("seccomp"))
    counted_nothing(stack)
    done = stack.exec("appliance", "selftest", "--json")
    assert done.code == 1, done
    assert done.json["ok"] is False
    assert set(done.json["fault"]) >= {"cause", "sentence", "remedy", "symptom", "facts"}
    assert done.json["fault"]["cause"] == "seccomp-clone"
    assert "No permissions to create" in done.json["fault"]["symptom"]


def test_without_systempaths_unconfined(stack: Stack) -> None:
    assert "systempaths=unconfined" in faulty(stack, "proc-masked", security_without("systempaths"))
    counted_nothing(stack)


def test_small_pids_limit(stack: Stack) -> None:
    assert "pids_limit" in faulty(stack, "pids-limit", "pids_limit: 40")
    counted_nothing(stack)


def test_as_root(stack: Stack) -> None:
    """The state volume is closed to root: what it notes passes, but gates are still set and nothing is counted."""
    late = stack.pull("as-root")["head_sha"]
    assert "user" in faulty(stack, "root-user", 'user: "0:0"')
    stack.wait_gate(late, *WAITING)
    told = stack.status()
    assert (told["health"]["cause"], told["pulls"]) == ("root-user", []), "what stands in the volume is not known"
    head = stack.forge.get("repositories")[0]["pulls"]["1"]["head_sha"]
    assert (stack.statuses(head), stack.statuses(late)) == ([WAITING], [WAITING])
    assert stack.comments(1) == [] and stack.model.requests == []


def test_with_all_it_needs_it_reviews_at_the_first_attempt(stack: Stack) -> None:
    stack.start()
    head = stack.forge.get("repositories")[0]["pulls"]["1"]["head_sha"]
    stack.wait_gate(head, "failure")
    stack.wait_health("healthy")
    assert stack.row(1)["attempts"] == 1
    assert ("pending", "Codex review running (attempt 1 of 3)") in stack.statuses(head)


def test_pids_limit_lowered_while_it_runs(stack: Stack) -> None:
    if stack.state["Status"] != "running":
        stack.start()
    stack.wait_health("healthy")
    _pids_limit(stack, 24)
    try:
        late = stack.pull("late")
        stack.wait_health("unhealthy", "unhealthy: pids-limit: ")
        stack.wait_gate(late["head_sha"], *WAITING)
        stack.cycles(1)
        assert stack.comments(late["number"]) == []
    finally:
        _pids_limit(stack, 1024)
    stack.wait_gate(late["head_sha"], "failure")
    stack.wait_health("healthy")
    assert stack.row(late["number"])["attempts"] == 1


def _pids_limit(stack: Stack, limit: int) -> None:
    stack.engine("update", "--pids-limit", str(limit), stack.project)
