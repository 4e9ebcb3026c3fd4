"""Limits that several processes keep together, or one after the other."""

import multiprocessing
import time
from itertools import pairwise
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from fake_github.clients import Clock, forge_for

from appliance.forge import ForgeError
from appliance.forge.github_limits import MOST_WRITES, WRITE_GAP
from appliance.forge.github_pace import SharedPace, SharedPause

APP = "octo/app"


@pytest.fixture
def github(fake_github: FakeGitHub) -> FakeGitHub:
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"})
    return fake_github


def writes(path: Path, url: str, count: int) -> None:
    fake = FakeGitHub()
    fake._address = ("127.0.0.1", int(url.rpartition(":")[2]))
    forge = forge_for(fake, clock=None, pace=SharedPace(path))
    forge._client._clock, forge._client._sleep = time.time, time.sleep
    pull = forge.pull(APP, 1)
    for _ in range(count):
        forge.post_comment(pull, "x")


def test_between_writes_of_two_processes_is_a_second_too(github: FakeGitHub, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=writes, args=(tmp_path / "pace", github.url, 2)) for _ in range(2)]
    for one in both:
        one.start()
    for one in both:
        one.join(60)
    times = sorted(it.at for it in github.writes)
    assert len(times) == 4
    assert min(b - a for a, b in pairwise(times)) >= WRITE_GAP * 0.95


def test_a_process_after_another_counts_its_writes(github: FakeGitHub, tmp_path: Path) -> None:
    clock = Clock()
    first = forge_for(github, clock=clock, pace=SharedPace(tmp_path / "pace"))
    pull = first.pull(APP, 1)
    for _ in range(MOST_WRITES[1][0]):
        first.post_comment(pull, "x")
        clock.now += 3
    second = forge_for(github, clock=clock, pace=SharedPace(tmp_path / "pace"))
    with pytest.raises(ForgeError) as caught:
        second.post_comment(pull, "x")
    assert caught.value.cause == "forge-rate-limited"
    assert len(github.writes) == 500
    clock.now += 3600
    second.post_comment(pull, "x")


def test_a_process_that_begins_while_github_limits_us_asks_nothing(github: FakeGitHub, tmp_path: Path) -> None:
    clock = Clock()
    github.secondary_limit(method="POST", times=1)
    first = forge_for(github, clock=clock, pause=SharedPause(tmp_path / "pause"))
    pull = first.pull(APP, 1)
    with pytest.raises(ForgeError):
        first.post_comment(pull, "x")
    asked = len(github.exchanges)
    second = forge_for(github, clock=clock, pause=SharedPause(tmp_path / "pause"))
    with pytest.raises(ForgeError) as caught:
        second.pull(APP, 1)
    assert (caught.value.cause, len(github.exchanges)) == ("forge-rate-limited", asked)
    clock.now += 61
    second.post_comment(pull, "x")
    assert len(github.comments(APP, 1)) == 1


@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 24, b"\xff" * 4001])
def test_a_torn_file_stops_nothing(content: bytes, github: FakeGitHub, tmp_path: Path) -> None:
    for name in ("pace", "pause"):
        (tmp_path / name).write_bytes(content)
    forge = forge_for(github, pace=SharedPace(tmp_path / "pace"), pause=SharedPause(tmp_path / "pause"))
    forge.post_comment(forge.pull(APP, 1), "x")
    assert len(github.comments(APP, 1)) == 1


def test_where_no_file_can_be_made_each_process_keeps_the_pace_alone(github: FakeGitHub) -> None:
    clock = Clock()
    nowhere = Path("/proc/nowhere")
    forge = forge_for(github, clock=clock, pace=SharedPace(nowhere / "pace"), pause=SharedPause(nowhere / "pause"))
    for _ in range(2):
        forge.post_comment(forge.pull(APP, 1), "x")
    assert clock.slept == [pytest.approx(WRITE_GAP)]
