"""The real jail and the real sandbox, tried from inside a container with compose.yaml's own options."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.compose import DockerCompose

from .stack import IMAGE, PROJECT

PYTHON = "/opt/appliance/bin/python"
OVERRIDE = """\
name: {name}
services:
  appliance:
    container_name: {name}
    image: {image}
    build: !reset null
    env_file: !reset []
    command: [sleep, "3600"]
    network_mode: none  # what is tried needs neither a forge nor a model
    volumes: ["{trials}:/trials:ro"]
"""


def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCompose]:
    """An idle container of the image, with compose.yaml's own options but for a network."""
    override = tmp_path_factory.mktemp("inside") / "override.yaml"
    name = f"appliance-test-{uuid.uuid4().hex[:8]}"
    override.write_text(OVERRIDE.format(name=name, image=IMAGE, trials=Path(__file__).parent))
    with DockerCompose(
        str(PROJECT), compose_file_name=["compose.yaml", str(override)], env_file="/dev/null", wait=False
    ) as compose:
        yield compose


@pytest.fixture(scope="module")
def inside(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCompose]:
    yield from idle(tmp_path_factory)


def test_what_jail_and_sandbox_let_through(inside: DockerCompose) -> None:
    command = [PYTHON, "/trials/inside_selftest.py", "/var/lib/appliance/work"]
    out, err, code = inside.exec_in_container(command, "appliance")
    trials = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert [trial for trial in trials if not trial["ok"]] == []
    assert code == 0, err
    assert len(trials) >= 17


def test_the_self_test_needs_no_network(inside: DockerCompose) -> None:
    out, err, code = inside.exec_in_container(["appliance", "selftest", "--json"], "appliance")
    assert code == 0, err
    assert json.loads(out)["ok"] is True
