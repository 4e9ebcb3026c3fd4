"""Container test 1: started with no configuration at all, the appliance reviews its sample and says what to do next."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Start
from .stack import Stack, eventually

SAMPLE = "/var/lib/appliance/sample/basket"
STEPS = ("GITHUB_TOKEN", "APPLIANCE_REPOSITORIES", "OPENAI_API_KEY")


@pytest.fixture(scope="module")
def stack(module_stacks: Start) -> Iterator[Stack]:
    stack = module_stacks(fakes=False)
    stack.start()
    stack.wait_health("healthy")
    yield stack


def test_it_is_healthy_and_its_probe_says_so_in_one_line(stack: Stack) -> None:
    probe = stack.exec("/usr/local/bin/health-probe")
    assert (probe.code, probe.err) == (0, "")
    assert re.fullmatch(r"healthy: [^\n]+\n", probe.out)
    assert stack.wait_health("healthy", "healthy: ") == probe.out.strip()
    assert stack.container.attrs["Config"]["Healthcheck"]["Test"] == ["CMD", "/usr/local/bin/health-probe"]


def test_the_log_shows_the_review_of_the_sample_and_the_next_steps(stack: Stack) -> None:
    eventually("the next steps in the log", lambda: "rehearsal.done" in stack.log)
    log = stack.log
    assert "**Rehearsal**" in log
    assert "### [P1] The boundary itself is left out" in log
    assert "basket/pricing.py:25" in log
    assert "Verdict: incorrect" in log
    assert all(step in log[log.index("rehearsal.done") :] for step in STEPS)


def test_exactly_one_note_is_written(stack: Stack) -> None:
    git = ("git", "-c", "safe.directory=*", "-C", SAMPLE)
    listed = stack.exec(*git, "for-each-ref", "--format=%(refname)", "refs/notes/").out.split()
    assert len(listed) == 1, listed
    noted = [line.split()[1] for line in stack.exec(*git, "notes", f"--ref={listed[0]}", "list").out.splitlines()]
    assert noted == [stack.exec(*git, "rev-parse", "volume-discount").out.strip()]
    assert "[P1]" in stack.exec(*git, "notes", f"--ref={listed[0]}", "show", noted[0]).out


def test_status_as_json(stack: Stack) -> None:
    told = stack.status()
    assert set(told) >= {"health", "cycle", "pulls"}
    assert set(told["health"]) >= {"state", "cause", "message", "since"}
    assert (told["health"]["state"], told["health"]["cause"]) == ("healthy", "")
    assert set(told["cycle"]) >= {"last_ended", "next", "failed"}
    assert told["cycle"]["failed"] is False
    (pull,) = told["pulls"]
    assert set(pull) >= {"target", "head", "state", "attempts", "max_attempts", "next_try", "reason"}
    assert (pull["target"], pull["state"], pull["max_attempts"]) == (f"{SAMPLE}#volume-discount", "reviewed", 3)
    assert re.fullmatch("[0-9a-f]{40}", pull["head"])


def test_selftest_as_json(stack: Stack) -> None:
    done = stack.exec("appliance", "selftest", "--json")
    assert done.code == 0, done
    told = done.json
    assert (told["ok"], told["fault"]) == (True, None)
    assert told["seconds"] > 0
    assert all(set(step) >= {"name", "ok", "seconds"} and step["ok"] for step in told["steps"])
    assert len(told["steps"]) > 4


def test_rehearse_proves_the_chain_at_any_time_and_writes_nothing(stack: Stack) -> None:
    done = stack.exec("appliance", "rehearse")
    assert done.code == 0, done
    assert "The boundary itself is left out" in done.out
    assert "The chain works" in done.out
    assert stack.exec("appliance", "rehearse", "--format", "json").json["rehearsal"] is True
    test_exactly_one_note_is_written(stack)


def test_cycle_and_settings(stack: Stack) -> None:
    assert stack.exec("appliance", "cycle").code == 0
    assert "APPLIANCE_INTERVAL=300" in stack.exec("appliance", "settings").out


def test_every_process_runs_without_rights(stack: Stack) -> None:
    # One file at a time; the engine's own program that starts another exec just now is none of ours.
    files = stack.exec("sh", "-c", "for one in /proc/[0-9]*/status; do cat $one; echo; done").out.split("\n\n")
    shown = "\n".join(file for file in files if not file.lstrip().startswith("Name:\trunc"))
    assert "Name:\tappliance" in shown or "Name:\tpython" in shown
    for field, right in (
        ("Uid", "10001\t10001\t10001\t10001"),
        ("CapEff", "0" * 16),
        ("CapPrm", "0" * 16),
        ("CapBnd", "0" * 16),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ):
        values = set(re.findall(rf"^{field}:\t(.+)$", shown, re.MULTILINE))
        assert values == {right}, field


def test_the_root_is_read_only_and_the_container_is_as_compose_yaml_says(stack: Stack) -> None:
    host: dict[str, Any] = stack.container.attrs["HostConfig"]
    assert (host["Privileged"], host["ReadonlyRootfs"], host["CapDrop"]) == (False, True, ["ALL"])
    assert host["CapAdd"] is None
    assert not host["Binds"] or all("docker.sock" not in bind for bind in host["Binds"])
    assert stack.exec("sh", "-c", "echo x >/usr/x").code != 0


def test_nothing_that_builds_or_installs_is_in_the_image(stack: Stack) -> None:
    for program in ("pip", "pip3", "node", "npm", "gcc", "cc", "make", "ld"):
        assert stack.exec("sh", "-c", f"command -v {program}").out == ""
    assert stack.exec("/opt/appliance/bin/python", "-m", "pip", "--version").code != 0
    assert stack.exec("sh", "-c", "find /var/lib/apt/lists /var/cache /root -type f 2>/dev/null").out == ""


def test_no_secret_lies_in_the_image_or_its_environment(stack: Stack) -> None:
    image = json.dumps(stack.docker.api.inspect_image(stack.container.attrs["Image"]))
    history = json.dumps(stack.docker.api.history(stack.container.attrs["Image"]))
    for text in (image, history, json.dumps(stack.container.attrs["Config"]["Env"])):
        assert not re.search(r"gh[a-z]_[A-Za-z0-9]{30}|github_pat_|sk-[A-Za-z0-9]{20}|://[^/ \"]*:[^/ \"]*@", text)
        assert "OPENAI_API_KEY" not in text and "GITHUB_TOKEN" not in text
