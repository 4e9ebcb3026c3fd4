"""The battery in the real container: all is held there, and each leak that is made is a breach with its name."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.client import DockerClient
from testcontainers.compose import DockerCompose

from appliance.attacks import run

from .inside_battery import KEY, LEAKS
from .stack import IMAGE
from .test_inside import PYTHON, idle


@pytest.fixture(scope="module")
def inside(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCompose]:
    """An idle container of the image."""
    yield from idle(tmp_path_factory)


@pytest.fixture(scope="module")
def leaks(inside: DockerCompose) -> dict[str, dict[str, Any]]:
    """What the battery said of each leak."""
    command = [PYTHON, "/trials/inside_battery.py", "/var/lib/appliance/work"]
    out, err, code = inside.exec_in_container(command, "appliance")
    assert code == 0, err
    assert KEY not in out + err
    told = [json.loads(line) for line in out.splitlines()]
    return {one["leak"]: one for one in told}


@pytest.mark.parametrize("name", LEAKS)
def test_each_leak_is_found_by_the_attack_that_looks_for_it(leaks: dict[str, dict[str, Any]], name: str) -> None:
    told = leaks[name]
    assert told["cause"] == LEAKS[name].cause, told
    assert told["missed"] == [], told


def test_the_deep_self_test_holds(inside: DockerCompose) -> None:
    out, err, code = inside.exec_in_container(["appliance", "selftest", "--deep", "--json"], "appliance")
    told = json.loads(out)
    assert (code, told["ok"], told["fault"]) == (0, True, None), (told, err)
    names = [step["name"] for step in told["steps"]]
    assert names[:2] == ["preconditions", "user"]
    assert {"jail/secrets", "sandbox/secrets", "jail/mounts", "sandbox/tcp", "sandbox/listeners"} <= set(names)
    assert len(names) > 50
    out, _, _ = inside.exec_in_container(["sh", "-c", "ls -A /run/appliance /tmp /var/lib/appliance/work"], "appliance")
    assert "battery" not in out and "selftest" not in out, "it left something behind"


@pytest.fixture(scope="module")
def unheld(engine: None) -> dict[str, list[str]]:
    """Where each attack gets to as root in a privileged container."""
    client = DockerClient.from_env(timeout=120)
    try:
        out = client.containers.run(
            IMAGE,
            [PYTHON, "/trials/inside_unheld.py"],
            user="0:0",
            privileged=True,
            remove=True,
            volumes={str(Path(__file__).parent): {"bind": "/trials", "mode": "ro"}},
            extra_hosts={"example.com": "192.0.2.1"},
        )
    finally:
        client.close()
    told: dict[str, list[str]] = json.loads(out.splitlines()[-1])
    return told


@pytest.mark.parametrize("name", run.ATTACKS)
def test_each_attack_gets_through_where_nothing_holds_it(unheld: dict[str, list[str]], name: str) -> None:
    assert unheld[name] != []
