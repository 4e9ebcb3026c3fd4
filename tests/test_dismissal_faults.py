"""A decision about a finding while everything goes wrong: the process ends at each statement, the forge at each
request. In the end all is written, each once, and no success was shown before it was true."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_github import FakeGitHub
from test_replay_delivery import Killed, Killer, killing
from world import APP, KEY, World, found, reviewed

from appliance.core.findings import InlineAnchor
from appliance.core.marker import read_tag

FINDING = replace(found(1), fingerprint="f1", anchor=InlineAnchor("app.py", 1, "RIGHT"))
END = {
    "won't fix": ("success: no blocking findings (1 dismissed)", "Dismissed by @alice.", "success"),
    "reopen": ("failure: 1 blocking finding (P1)", "Opened again by @alice.", "failure"),
}


def world_of(github: FakeGitHub, path: Path, reply: str) -> World:
    """A reviewed pull request whose finding somebody has just decided about."""
    path.mkdir(parents=True)
    github.add_repository(APP, {"app.py": "print(1)\n"})
    github.add_pull(APP, "feature", files={"app.py": "print(2)\n"})
    github.set_permission(APP, "alice", "write")
    world = World(github, path)
    world.script = lambda pull, _: reviewed(pull, FINDING, verdict="incorrect")
    world.run()
    if reply == "reopen":
        say(world, "won't fix")
        world.run()
    say(world, reply)
    return world


def say(world: World, body: str) -> None:
    world.github.clock_offset += 2
    world.github.add_reply(APP, 1, world.github.line_comments(APP, 1)[0].id, body)


def ended_well(world: World, reply: str) -> None:
    """Four more cycles come to the same, whatever was."""
    gate, answer, state = END[reply]
    for _ in range(4):
        world.run()
    assert world.gate() == gate
    shown = [f"{it.state}: {it.description}" for it in world.statuses()]
    assert shown.count(gate) == (1 if reply == "won't fix" else 2), "once for each time"
    answers = [it.body.replace("\u200b", "") for it in world.github.line_comments(APP, 1) if it.reply_to]
    ours = [body for body in answers if (tag := read_tag(body, KEY)) and tag.kind == "letter"]
    assert len([body for body in ours if body.startswith(answer)]) == 1
    assert [mark.gate.state for mark in world.markers()] == [state]
    assert [it.resolved for it in world.forge.threads(world.pull())] == [True]
    assert (len(world.asked), world.store.letters()) == (1, [])


def killed_at(moment: int, github: FakeGitHub, path: Path, reply: str) -> bool:
    """Whether there is such a moment in the cycle that reads the decision."""
    world, killer = world_of(github, path, reply), Killer(moment)
    with pytest.MonkeyPatch.context() as patch:
        killing(killer, patch)
        killer.armed = True
        try:
            world.run()
            killed = False
        except Killed:
            killed = True
        killer.armed = False
    world.restart()
    ended_well(world, reply)
    world.close()
    return killed


@pytest.mark.parametrize("reply", END)
def test_killed_at_each_statement_it_ends_in_the_same(reply: str, tmp_path: Path) -> None:
    moments = 0
    while True:
        (tmp_path / str(moments)).mkdir()
        with FakeGitHub(tmp_path / str(moments) / "github") as github:
            if not killed_at(moments + 1, github, tmp_path / str(moments) / "world", reply):
                break
        moments += 1
    assert moments > 20, "there were so many, at the least"


FAULTS: dict[str, dict[str, Any]] = {
    "502": {"status": 502},
    "502 after it was stored": {"status": 502, "store": True},
    "cut off": {"cut_off": True, "store": True},
}


@pytest.mark.parametrize(
    ("reply", "fault"), [("won't fix", "502"), ("won't fix", "502 after it was stored"), ("reopen", "cut off")]
)
def test_a_forge_that_fails_at_each_request_ends_in_the_same(reply: str, fault: str, tmp_path: Path) -> None:
    requests, number = 1, 0
    while number < requests:
        (tmp_path / str(number)).mkdir()
        with FakeGitHub(tmp_path / str(number) / "github") as github:
            world = world_of(github, tmp_path / str(number) / "world", reply)
            github.clear()
            github.fail(path="^/(?!octo/app.git)", skip=number, **FAULTS[fault])
            world.run()
            requests = max(requests, len(github.exchanges))
            github.failures.clear()
            ended_well(world, reply)
            world.close()
        number += 1
    assert requests > 8
