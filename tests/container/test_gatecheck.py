"""`appliance gate-check` as a person runs it: in the image, as its user, with the real Codex in its jail."""

import json
from collections.abc import Iterator

import pytest
from testcontainers.compose import DockerCompose

from .test_inside import idle


@pytest.fixture(scope="module")
def inside(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCompose]:
    yield from idle(tmp_path_factory)


@pytest.mark.timeout(1800)  # all of the table, with the real Codex
def test_no_fault_makes_the_gate_lie(inside: DockerCompose) -> None:
    out, err, code = inside.exec_in_container(["appliance", "gate-check", "--json"], "appliance")
    told = json.loads(out.splitlines()[-1])
    assert told["failed"] == [], err
    assert (code, told["ok"], told["real_codex"]) == (0, True, True)
    assert told["faults"] >= 400
    assert {told[name] for name in ("false_successes", "lost_results", "double_posts", "stuck")} == {0}
    assert told["wrongly_counted_attempts"] == 0
    left, _, _ = inside.exec_in_container(["sh", "-c", "ls /tmp /var/lib/appliance"], "appliance")
    assert "gate-check" not in left and "appliance.db" not in left, "it leaves nothing, and touches no state"
