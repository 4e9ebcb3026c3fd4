"""`appliance doctor` for real: in the container, and on the host beside it."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Start
from .stack import KEY, PROJECT, REPOSITORY, TOKEN, Done, Stack, security_without

POOR = "github_pat_Planted0Poor0Token0That0Only0Reads"


@pytest.fixture(scope="module")
def stack(module_stacks: Start) -> Iterator[Stack]:
    """A healthy appliance with one pull request, its gate required; after its first cycle it rests."""
    stack = module_stacks(APPLIANCE_INTERVAL=600)
    stack.pull()
    stack.forge.call("require_check", name=REPOSITORY, contexts=["codex-review"])
    stack.start()
    stack.wait_health("healthy", "healthy: ")
    stack.wait_log("cycle.done")
    yield stack


def lines(done: Done) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = done.json["lines"]
    assert done.json["ok"] == (done.code == 0)
    return told


def bad(done: Done) -> list[tuple[str, str, str]]:
    """What is not ok, but for what hangs on the machine of the tests and on Debian's bubblewrap."""
    told = [(line["check"], line["state"], line["id"]) for line in lines(done) if line["state"] != "ok"]
    here = ("sandbox-advice", "engine-untried", "apparmor-unknown", "container-apparmor-unconfined")
    return [each for each in told if each[2] not in here]


def in_container(stack: Stack, *options: str, **environment: str) -> Done:
    given = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
    return stack.docker_exec(given, "appliance", "doctor", "--json", *options)


def test_in_the_container_all_is_well(stack: Stack) -> None:
    writes = [it for it in stack.forge.get("writes") if it["status"] < 400]
    done = in_container(stack)
    assert bad(done) == [], done
    assert done.code == 0
    checks = {line["check"] for line in lines(done)}
    assert checks >= {
        "confinement",
        "settings",
        "state",
        "disk",
        "sandbox",
        "health",
        "cycle",
        "holds",
        "login",
        "model",
    }
    assert checks >= {"token", "clock", "contents", "pulls", "comment", "status", "required", "rate"}
    assert [it for it in stack.forge.get("writes") if it["status"] < 400] == writes
    assert TOKEN not in done.out and KEY not in done.out


def test_the_text_has_a_line_for_each_and_a_sum(stack: Stack) -> None:
    done = stack.exec("appliance", "doctor", "--deep")
    assert done.code == 0, done
    assert re.search(r"ok      sandbox: The sandbox works, .*\(\d+ steps\), and every attack was held", done.out), done
    assert "ok      status octo/shop: The token may set commit statuses." in done.out
    assert re.fullmatch(r"All is well: .*|0 faults, .*", done.out.rstrip().splitlines()[-1])


def test_a_token_that_may_not_write_is_a_fault_with_the_permissions_name(stack: Stack) -> None:
    stack.forge.call("add_token", token=POOR, lacks=["statuses"])
    done = in_container(stack, GITHUB_TOKEN=POOR)
    assert bad(done) == [("status", "fault", "forge-permission")]
    (fault,) = [line for line in lines(done) if line["state"] == "fault"]
    assert "statuses=write" in fault["remedy"] and fault["subject"] == REPOSITORY
    assert done.code == 1
    assert POOR not in done.out + done.err


def test_a_gate_that_nothing_requires_and_a_mistyped_setting_are_warnings(stack: Stack) -> None:
    done = in_container(stack, APPLIANCE_STATUS_CONTEXT="another", APPLIANCE_INTERVALL="3")
    assert bad(done) == [("settings", "warning", "setting-unknown"), ("required", "warning", "gate-not-required")]
    assert done.code == 0


def test_a_model_that_refuses_the_key_or_is_not_there(stack: Stack) -> None:
    stack.model.rule(status=401, body={"error": {"code": "invalid_api_key", "message": "no"}})
    try:
        done = in_container(stack)
        assert ("model", "fault", "login") in bad(done) and done.code == 1
    finally:
        stack.model.clear()
    done = in_container(stack, APPLIANCE_MODEL_URL="http://nowhere.invalid/v1")
    assert ("model", "fault", "model-unreachable") in bad(done)


def test_bad_settings_are_lines_and_the_sandbox_is_looked_at_all_the_same(stack: Stack) -> None:
    done = in_container(stack, APPLIANCE_INTERVAL="soon", APPLIANCE_INTERVALL="3")
    assert bad(done) == [("settings", "fault", "settings")]
    assert [line["check"] for line in lines(done) if line["id"] != "sandbox-advice"] == [
        "settings", "confinement", "sandbox",
    ]  # fmt: skip


def test_as_root_it_says_so_and_nothing_that_it_could_not_see(stack: Stack) -> None:
    """Root without capabilities may not even search the volume."""
    done = stack.docker_exec(["-u", "0:0"], "appliance", "doctor", "--json")
    assert bad(done) == [("state", "fault", "root-user"), ("sandbox", "fault", "root-user")]


# --- on the host


def on_host(name: str, *options: str, command: tuple[str, ...] = (sys.executable, "-m", "appliance.cli")) -> Done:
    line = [*command, "doctor", "--container", name, "--compose-file", str(PROJECT / "compose.yaml"), *options]
    done = subprocess.run(line, capture_output=True, text=True, cwd=PROJECT, timeout=200, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def bare() -> dict[str, str]:
    """The environment, with nothing of ours on Python's path."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `appliance` as pipx makes it: a fresh environment with the wheel of this tree.

    What the wheel depends on comes from the environment of the tests, so that nothing but the lock decides versions.
    """
    folder = tmp_path_factory.mktemp("pipx")
    (folder / "tree").mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, folder / "tree")
    shutil.copytree(PROJECT / "appliance", folder / "tree/appliance", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    fresh = folder / "venv"
    wheel = [*pip, "wheel", "--no-deps", "-w", str(folder), str(folder / "tree")]
    subprocess.run(wheel, env=bare(), check=True, timeout=120)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(fresh)], check=True, timeout=60)
    (made,) = folder.glob("*.whl")
    install = ["--python", str(fresh), "install", "--no-deps", "--no-index", str(made)]
    subprocess.run([*pip, *install], env=bare(), check=True, timeout=60)
    (packages,) = fresh.glob("lib/python*/site-packages")
    (packages / "locked.pth").write_text(sysconfig.get_path("purelib"))
    return fresh / "bin/appliance"


def test_on_the_host_all_is_well(stack: Stack, installed: Path, tmp_path: Path) -> None:
    """From a folder without anything of ours, and with nothing of ours on the path."""
    where = [str(installed.with_name("python")), "-c", "import appliance; print(appliance.__file__)"]
    found = subprocess.run(where, env=bare(), cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(installed.parent.parent)), found
    line = [str(installed), "doctor", "--json", "--container", stack.project]
    run = subprocess.run(line, env=bare(), cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    done = Done(run.returncode, run.stdout, run.stderr)
    assert bad(done) == [], done
    there = {line["check"] for line in lines(done) if line["place"] == "host"}
    assert there >= {"engine", "compose", "kernel", "engine-disk", "running", "container-health", "image", "container"}
    assert {line["check"] for line in lines(done) if line["place"] == "container"} >= {"sandbox", "status", "model"}
    assert TOKEN not in done.out and KEY not in done.out


def test_what_is_wrong_inside_is_a_fault_on_the_host_too(stack: Stack) -> None:
    stack.model.rule(status=401, body={"error": {"code": "invalid_api_key", "message": "no"}})
    try:
        done = on_host(stack.project, "--json")
    finally:
        stack.model.clear()
    assert ("model", "fault", "login") in bad(done) and done.code == 1


def test_there_is_no_such_container() -> None:
    done = on_host("appliance-test-nobody", "--json")
    assert ("running", "fault", "container-missing") in bad(done) and done.code == 1


def test_an_engine_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    done = on_host("any", "--json")
    assert [(line["id"], line["place"]) for line in lines(done)] == [("engine-unreachable", "host")]
    assert done.code == 1


ALL_WRONG = (
    "privileged: true",
    "cap_drop: !override []",
    "cap_add: [SYS_ADMIN]",
    'user: "0:0"',
    "read_only: false",
    "tmpfs: !override [/tmp]",
    "pids_limit: -1",
    "mem_limit: 2g",
    "init: false",
    "pid: host",
    "ipc: host",
    "devices: [/dev/null:/dev/null]",
    "ports: ['127.0.0.1::9999']",
    "security_opt: !override [seccomp=unconfined]",
    "volumes: !override [/var/run/docker.sock:/var/run/docker.sock, /:/host]",
)
NAMED = {
    "container-privileged",
    "container-capabilities",
    "container-seccomp",
    "container-new-privileges",
    "container-systempaths",
    "container-root-writable",
    "container-user",
    "container-tmpfs",
    "container-unlimited",
    "container-limits",
    "container-engine-socket",
    "container-mounts",
    "container-state",
    "container-host-namespace",
    "container-devices",
    "container-ports",
    "container-init",
}


def test_each_option_that_is_not_that_of_compose_yaml_is_named(stacks: Start) -> None:
    stack = stacks(*ALL_WRONG, fakes=False)
    stack.compose("create", "--no-build", "appliance")
    done = on_host(stack.project, "--json")
    found = {line["id"] for line in lines(done) if line["check"] not in ("engine", "image", "apparmor")}
    # A privileged container is given no masks by the engine, whatever its options say.
    assert found - {"running"} >= NAMED - {"container-systempaths"}, NAMED - found
    assert {"container-stopped", "unexamined"} <= found
    assert done.code == 1
    assert all(line["remedy"] for line in lines(done) if line["state"] != "ok")


@pytest.mark.parametrize(
    ("option", "cause"),
    [("systempaths", "container-systempaths"), ("seccomp", "container-seccomp")],
)
def test_one_security_option_left_out_is_the_one_that_is_named(stacks: Start, option: str, cause: str) -> None:
    """As somebody does who starts it in another way; not a privileged container, which has no masks."""
    stack = stacks(security_without(option), fakes=False)
    stack.compose("create", "--no-build", "appliance")
    done = on_host(stack.project, "--json")
    (told,) = [line for line in lines(done) if line["id"].startswith("container-") and line["check"] != "running"]
    assert (told["id"], told["state"], told["place"]) == (cause, "fault", "host")


def test_without_a_run_directory_what_is_wrong_is_told_once_and_the_sandbox_is_looked_at(stacks: Start) -> None:
    stack = stacks("tmpfs: !override ['/tmp:mode=1777,size=512m']", fakes=False)
    stack.start()
    done = stack.exec("appliance", "doctor", "--json")
    assert [(one["check"], one["id"]) for one in lines(done) if one["state"] != "ok"] == [
        ("state", "no-run-dir"),
        ("appliance", "unexamined"),
    ]
    assert "sandbox" in [one["check"] for one in lines(done) if one["state"] == "ok"]
    assert all("/run:mode=1777" in one["remedy"] for one in lines(done) if one["state"] != "ok")
