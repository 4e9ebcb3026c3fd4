"""Container test 5, DESIGN scenario 2: the sandbox fails in the middle of a review, after a good self-test."""

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Start
from .stack import IMAGE, Stack

WAITING = ("pending", "waiting for the Codex review")
RUNNING = ("pending", "Codex review running (attempt 1 of 3)")
NO_PERMISSIONS = (
    "bwrap: No permissions to create a new namespace, likely because the kernel does not allow non-privileged user "
    "namespaces. See <https://deb.li/bubblewrap> or <file:///usr/share/doc/bubblewrap/README.Debian.gz>."
)
# Stands where the image's bwrap is. Only a jail has /checkout, so only the sandbox inside it is refused. What it can do
# it still tells: Codex asks each time, and takes its bundled bwrap if there is no answer.
STAND_IN = f"""#!/bin/sh
if [ -d /checkout ] && [ -e /usr/local/share/stand-in/broken ] && [ "$1" != --help ] && [ "$1" != --version ]; then
    echo '{NO_PERMISSIONS}' >&2
    exit 1
fi
exec /usr/local/share/stand-in/bwrap "$@"
"""


def two_pulls(stack: Stack) -> list[dict[str, Any]]:
    return [stack.pull("first"), stack.pull("second")]


def failed_alone(stack: Stack, first: dict[str, Any]) -> None:
    """The first review failed, and the second was not begun: true whatever later cycles do meanwhile."""
    stack.wait_log("outcome=sandbox")
    stack.wait_log("cycle.failed")
    begun = stack.log[: stack.log.index("cycle.failed")].count("review.start")
    assert begun == 1, "a further review started in the cycle"
    assert stack.statuses(first["head_sha"])[:3] == [WAITING, RUNNING, WAITING]


def spared(stack: Stack, first: dict[str, Any], second: dict[str, Any]) -> None:
    """The same, with a sandbox that stays broken: nothing counted, nothing posted."""
    failed_alone(stack, first)
    stack.wait_gate(first["head_sha"], *WAITING)
    for pull in (first, second):
        assert stack.comments(pull["number"]) == []
        assert {state for state, _ in stack.statuses(pull["head_sha"])} == {"pending"}
    assert stack.statuses(first["head_sha"]) == [WAITING, RUNNING, WAITING]


def reviewed_once(stack: Stack, *pulls: dict[str, Any]) -> None:
    """In the end each has its review, of a first attempt."""
    for pull in pulls:
        stack.wait_gate(pull["head_sha"], "failure")
        assert len(stack.comments(pull["number"])) == 1
        assert {status for status in stack.statuses(pull["head_sha"]) if "attempt" in status[1]} == {RUNNING}
    assert stack.attempts() == [1] * len(pulls)


@pytest.mark.parametrize("where", ["the jail alone", "jail and container"])
def test_the_incident_during_a_review(stacks: Start, where: str) -> None:
    stack = stacks(APPLIANCE_REVIEWS_AT_ONCE=1)
    first, second = two_pulls(stack)
    stack.model.hold()
    stack.start()
    stack.model.wait_held()
    with stack.masked(stack.codex()):
        if where == "the jail alone":
            stack.model.clear()
            failed_alone(stack, first)
            assert "proc-masked" in stack.log, "a sandbox that is well again has its cause too"
        else:
            with stack.masked(stack.state["Pid"]):
                stack.model.clear()
                spared(stack, first, second)
                stack.wait_health("unhealthy", "unhealthy: proc-masked: ")
                stack.cycles(1)
                told = stack.status()
                assert [row["attempts"] for row in told["pulls"]] == [0, 0]
                assert told["cycle"]["failed"] is True
    reviewed_once(stack, first, second)
    stack.wait_health("healthy")


@pytest.fixture
def stand_in(stacks: Start, tmp_path: Path) -> Iterator[tuple[Stack, Path]]:
    """A stack whose inner bwrap, and no other, fails while the file is there."""
    folder = tmp_path / "stand-in"
    folder.mkdir()
    folder.chmod(0o755)
    stack = stacks(APPLIANCE_REVIEWS_AT_ONCE=1)
    made = stack.docker.containers.create(IMAGE, ["true"])
    try:
        chunks, _ = made.get_archive("/usr/bin/bwrap")
        archive = tmp_path / "bwrap.tar"
        archive.write_bytes(b"".join(chunks))
    finally:
        made.remove(v=True)
    with tarfile.open(archive) as tar:
        program = tar.extractfile("bwrap")  # not `extract`: its filter came only with Python 3.11.4
        assert program is not None
        (folder / "bwrap").write_bytes(program.read())
    script = tmp_path / "bwrap"
    script.write_text(STAND_IN)
    for path in (script, folder / "bwrap"):
        path.chmod(0o755)
    mounts = [f"{script}:/usr/bin/bwrap:ro", f"{folder}:/usr/local/share/stand-in:ro"]
    stack.options = [f"volumes: {mounts}"]
    yield stack, folder / "broken"


def test_the_inner_bwrap_fails_alone_at_the_self_test(stand_in: tuple[Stack, Path]) -> None:
    stack, switch = stand_in
    switch.touch()
    pull = stack.pull()
    stack.start()
    stack.wait_health("unhealthy")
    stack.wait_gate(pull["head_sha"], *WAITING)
    stack.cycles(1)
    fault = stack.exec("appliance", "selftest", "--json").json["fault"]
    assert NO_PERMISSIONS in fault["symptom"]
    assert fault["cause"] != "seccomp-clone", "the text alone proves nothing: the filter lets the call through"
    assert stack.exec("appliance", "cycle").code == 1
    assert stack.row(1)["attempts"] == 0
    assert stack.model.requests == [] and stack.comments(1) == []
    switch.unlink()
    stack.wait_gate(pull["head_sha"], "failure")
    stack.wait_health("healthy")


def test_the_inner_bwrap_fails_alone_during_a_review(stand_in: tuple[Stack, Path]) -> None:
    stack, switch = stand_in
    first, second = two_pulls(stack)
    stack.model.hold()
    stack.start()
    stack.model.wait_held()
    switch.touch()
    stack.model.clear()
    spared(stack, first, second)
    stack.wait_health("unhealthy")
    stack.cycles(1)
    assert stack.attempts() == [0, 0]
    switch.unlink()
    reviewed_once(stack, first, second)
