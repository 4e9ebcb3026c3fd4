"""`appliance doctor` for real: in the container, and on the host beside it."""

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Start
from .stack import KEY, REPOSITORY, TOKEN, Done, Stack

POOR = "github_pat_Planted0Poor0Token0That0Only0Reads"


@pytest.fixture(scope="module")
def stack(module_stacks: Start) -> Iterator[Stack]:
    """A healthy appliance with one pull request, its gate required."""
    stack = module_stacks(APPLIANCE_INTERVAL=3)
    stack.pull()
    stack.forge.call("require_check", name=REPOSITORY, contexts=["codex-review"])
    stack.start()
    stack.wait_health("healthy", "healthy: ")
    stack.cycles(1)
    yield stack


def lines(done: Done) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = done.json["lines"]
    assert done.json["ok"] == (done.code == 0)
    return told


def bad(done: Done) -> list[tuple[str, str, str]]:
    return [(line["check"], line["state"], line["id"]) for line in lines(done) if line["state"] != "ok"]


def in_container(stack: Stack, *options: str, **environment: str) -> Done:
    given = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
    return stack.docker_exec(given, "appliance", "doctor", "--json", *options)


def test_in_the_container_all_is_well(stack: Stack) -> None:
    writes = [it for it in stack.forge.get("writes") if it["status"] < 400]
    done = in_container(stack)
    assert bad(done) == [], done
    assert done.code == 0
    checks = {line["check"] for line in lines(done)}
    assert checks >= {"settings", "state", "disk", "sandbox", "health", "cycle", "holds", "login", "model"}
    assert checks >= {"token", "clock", "contents", "pulls", "comment", "status", "required", "rate"}
    assert [it for it in stack.forge.get("writes") if it["status"] < 400] == writes
    assert TOKEN not in done.out and KEY not in done.out


def test_the_text_has_a_line_for_each_and_a_sum(stack: Stack) -> None:
    done = stack.exec("appliance", "doctor")
    assert done.code == 0, done
    assert "ok      status octo/shop: The token may set commit statuses." in done.out
    assert done.out.rstrip().splitlines()[-1].startswith("All is well: ")


def test_a_token_that_may_not_write_is_a_fault_with_the_permissions_name(stack: Stack) -> None:
    stack.forge.call("add_token", token=POOR, lacks=["statuses"])
    done = in_container(stack, GITHUB_TOKEN=POOR)
    assert bad(done) == [("status", "fault", "forge-permission")]
    (fault,) = [line for line in lines(done) if line["state"] == "fault"]
    assert "statuses=write" in fault["remedy"] and fault["subject"] == REPOSITORY
    assert done.code == 1
    assert POOR not in done.out + done.err


def test_a_gate_that_nothing_requires_is_a_warning(stack: Stack) -> None:
    done = in_container(stack, APPLIANCE_STATUS_CONTEXT="another")
    assert bad(done) == [("required", "warning", "gate-not-required")]
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
    assert [line["check"] for line in lines(done)] == ["settings", "sandbox"]
    done = in_container(stack, APPLIANCE_INTERVALL="3")
    assert bad(done) == [("settings", "warning", "setting-unknown")]
