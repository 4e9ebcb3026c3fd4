"""What the container is given and what is withheld, read from compose.yaml: no engine needed."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from appliance import settings

PROJECT = Path(__file__).parent.parent


def compose(**environment: str) -> dict[str, Any]:
    """compose.yaml as Compose itself reads it, with nothing of this shell's environment but `environment`."""
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("needs Docker's command line with Compose")
    env = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ} | environment
    command = [docker, "compose", "--env-file", "/dev/null", "-f", "compose.yaml", "config", "--format", "json"]
    read = subprocess.run(command, cwd=PROJECT, env=env, capture_output=True, text=True, check=True, timeout=60)
    config: dict[str, Any] = json.loads(read.stdout)
    return config


@pytest.fixture(scope="module")
def service() -> dict[str, Any]:
    only: dict[str, Any] = compose()["services"]["appliance"]
    return only


def test_names_that_others_hang_on() -> None:
    config = compose()
    service = config["services"]["appliance"]
    assert list(config["services"]) == ["appliance"]
    assert service["container_name"] == "review-appliance"
    assert service["image"] == "review-appliance:local"
    assert config["volumes"]["state"]["name"] == "review-appliance_state"
    assert {(mount["type"], mount["source"], mount["target"]) for mount in service["volumes"]} == {
        ("volume", "state", "/var/lib/appliance")
    }


def test_container_has_no_right_beyond_nested_sandboxes(service: dict[str, Any]) -> None:
    assert service["user"] == "10001:10001"
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert set(service["security_opt"]) == {
        "no-new-privileges:true",
        "seccomp=./docker/seccomp.json",
        "systempaths=unconfined",
        "apparmor=unconfined",
    }
    assert not {"privileged", "cap_add", "devices", "pid", "ipc", "network_mode", "userns_mode", "ports"} & set(service)


def test_container_is_bounded_and_ends_in_time(service: dict[str, Any]) -> None:
    assert service["init"] is True
    assert service["pids_limit"] > 0
    assert int(service["mem_limit"]) > 0
    assert service["stop_grace_period"] == "10s"
    assert service["restart"] == "unless-stopped"
    assert service["logging"]["driver"] == "json-file"
    assert {"max-size", "max-file"} <= set(service["logging"]["options"])
    assert [mount.split(":")[0] for mount in service["tmpfs"]] == ["/tmp", "/run"]


def test_health_is_asked_by_the_probe_and_not_too_often(service: dict[str, Any]) -> None:
    check = service["healthcheck"]
    assert check["test"] == ["CMD", "/usr/local/bin/health-probe"]
    assert check["interval"] == "30s"  # each run costs 60 ms of the machine, whatever it runs
    assert check["start_interval"] == "1s"
    assert check["start_period"] == "20s"
    assert check["retries"] == 1  # a fault is shown at the next look, not at the third


def test_apparmor_profile_is_chosen_by_the_environment() -> None:
    options = compose(APPLIANCE_APPARMOR="review-appliance")["services"]["appliance"]["security_opt"]
    assert "apparmor=review-appliance" in options


def test_build_trusts_an_authority_only_if_one_is_named() -> None:
    assert (PROJECT / "docker/no-ca.pem").read_bytes() == b""
    assert compose()["secrets"]["host-ca"]["file"] == str(PROJECT / "docker/no-ca.pem")
    assert compose(APPLIANCE_BUILD_CA="/some/bundle.pem")["secrets"]["host-ca"]["file"] == "/some/bundle.pem"


def container_settings() -> set[str]:
    """Names a person sets. The two directories are given with the image."""
    return set(settings.names().values()) - {"APPLIANCE_STATE_DIR", "APPLIANCE_RUN_DIR"}


def test_every_setting_reaches_the_container_from_the_shell(service: dict[str, Any]) -> None:
    assert container_settings() <= set(service["environment"])
    given = compose(APPLIANCE_INTERVAL="4", GITHUB_TOKEN="a")["services"]["appliance"]["environment"]
    assert (given["APPLIANCE_INTERVAL"], given["GITHUB_TOKEN"]) == ("4", "a")
    assert given["OPENAI_API_KEY"] is None


def test_every_setting_is_in_the_example() -> None:
    example = (PROJECT / ".env.example").read_text()
    assert set(re.findall(r"^#([A-Z_]+)=", example, re.MULTILINE)) == container_settings() | {"APPLIANCE_APPARMOR"}
    assert not re.findall(r"^[A-Z_]+=", example, re.MULTILINE), "copied as it is, it changes nothing"


def test_apparmor_profile_carries_no_denial_of_mount() -> None:
    text = (PROJECT / "docker/apparmor/review-appliance").read_text()
    lines = {line.strip() for line in text.splitlines()}
    assert {"userns,", "mount,", "umount,", "pivot_root,"} <= lines
    assert not [line for line in lines if line.startswith("deny") and "mount" in line]


@pytest.mark.parametrize("name", ["docker/Dockerfile", "compose.yaml", "requirements.lock", "requirements-dev.lock"])
def test_no_index_is_named(name: str) -> None:
    text = (PROJECT / name).read_text()
    assert not re.search(r"^\s*(--(extra-)?index-url|--find-links|ENV PIP_)", text, re.MULTILINE)
    assert "://" not in text


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("name", ["docker/up", "docker/test"])
def test_commands_tell_what_they_do_and_do_nothing(name: str, option: str) -> None:
    with_nothing = {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [PROJECT / name, option], cwd="/", env=with_nothing, capture_output=True, text=True, timeout=20, check=True
    )
    assert f"{name} " in done.stdout and "set -euo" not in done.stdout
    assert "== " not in done.stderr, "something was started"


DOCKER = """#!/bin/sh
case "$*" in
    "version -f"*) echo 27.0 ;;
    "compose version"*) echo 2.30 ;;
    "compose config -q") [ -z "$SAYS" ] || { printf '%s\\n' "$SAYS" >&2; exit 1; } ;;
    "compose config") printf '    security_opt:\\n      - seccomp=%s\\n' "$RULES" ;;
    "compose up"*) echo raw words >&2; exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("says", "rules", "said", "built"),
    [
        ("", None, "seccomp rules cannot be used: {} is not there", False),
        ("", '{"syscalls": [{"names": ["read"', "seccomp rules cannot be used: {} is not complete", True),
        ("", "", "seccomp rules cannot be used: {} is not complete", True),
        ("", '{"syscalls": [{}]}', "the container cannot be started", True),
        (
            '.env: line 8: unexpected "@" in "B@D ghp_secret"\nmore',
            "",
            "cannot read compose.yaml or .env: .env: ",
            False,
        ),
    ],
)
def test_up_says_what_the_engine_or_compose_does_not_take(
    says: str, rules: str | None, said: str, built: bool, tmp_path: Path
) -> None:
    docker, file = tmp_path / "docker", tmp_path / "seccomp.json"
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    if rules is not None:
        file.write_text(rules)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SAYS": says, "RULES": str(file)}
    done = subprocess.run([PROJECT / "docker/up"], env=env, capture_output=True, text=True, timeout=20, check=False)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("docker/up: ") and said.format(file) in last and " Next: " in last
    assert ("Building" in done.stderr) == built and ("raw words" in done.stderr) == built
    assert "secret" not in done.stderr and "image cannot be built" not in done.stderr


@pytest.mark.parametrize("name", ["docker/up", "docker/test", "docker/engine", ".ci/run", "docker/health-probe"])
def test_commands_can_be_run(name: str) -> None:
    assert os.access(PROJECT / name, os.X_OK)
