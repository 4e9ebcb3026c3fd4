"""A result that was paid for is never lost and never posted twice, wherever the appliance is killed or refused.

Whole `appliance cycle` processes over the fake GitHub, with real git, SQLite, locks and work directories; in place of
Codex stands an answer that comes at once. A process is stopped at a named point and killed there, or its disk is full.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from fake_github import FakeGitHub
from sqlalchemy.exc import OperationalError
from world import APP, INTERVAL, World, reviewed

from appliance import codex
from appliance.core.outcomes import Ending, Outcome
from appliance.core.pulls import Pull
from appliance.cycle import Result as CycleResult
from appliance.store import Store, opening
from appliance.workdir import LEFT, WorkDirs

# Imports take most of a second, and there are many cycles: one process imports, and forks one for each.
CYCLE = """
import contextlib, json, os, sys, threading, time
from appliance import cli, codex, delivery, reviewing, schedule, wiring, workdir
from appliance.core.findings import Evidence, Result, Review
from appliance.core.outcomes import Ending, Outcome
from appliance.forge import github_limits
from appliance.store import Store

def answer(job, model, work, **_):
    print("asked", flush=True)
    if "fill" in order:
        file = os.open(order["fill"], os.O_WRONLY | os.O_CREAT)
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    os.write(file, b"x" * size)
    review = Review(
        job.pull.target, job.pull.head_sha, job.pull.base_ref, job.base_sha, job.merge_base,
        Result("correct", "s", "r" * order.get("length", 1), "l"), evidence=Evidence(("git diff",), (), 1), model="m",
    )
    return Ending(Outcome.REVIEWED, "reviewed", review=review)

def stop_at(point):
    place, name = {
        "asked": (reviewing.codex, "review"),
        "half saved": (os, "ftruncate"),
        "saved": (Store, "finish"),
        "in the transaction": (Store, "_end"),
        "stored": (workdir.WorkDirs, "settle"),
        "settled": (workdir, "_remove"),
        "half removed": (os, "rmdir"),
        "unsent": (delivery.Delivery, "send"),
        "posted": (Store, "delivered"),
        "adopting": (Store, "adopt"),
        "adopted": (workdir, "_remove"),
    }[point]
    real = getattr(place, name)
    def stopped(*args, **named):
        ours = "half" not in point or threading.current_thread().name.startswith("review")
        if ours and (point != "half removed" or str(args[0]).startswith("review-")):
            print("stopped", flush=True)
            time.sleep(600)
        return real(*args, **named)
    setattr(place, name, stopped)

github_limits.WRITE_GAP = 0.0
wiring.blocked = lambda _: None  # root's state volume, as root runs the tests
wiring.Appliance.selftest = lambda _: None
reviewing.codex.review = answer
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid:
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        continue
    os.environ |= order["env"]
    for number, name in enumerate(("stdin", "out", "err")):
        os.dup2(os.open(order.get(name, "/dev/null"), os.O_RDWR | os.O_CREAT), number)
    if "point" in order:
        stop_at(order["point"])
    cli.main(["cycle"])
"""
GREEN = "no blocking findings"


class Appliances:
    """Processes of one appliance, one after the other, on one state volume."""

    def __init__(self, forks: "subprocess.Popen[str]", github: FakeGitHub, folder: Path) -> None:
        self.github, self.state, self.folder = github, folder / "state", folder
        self._forks = forks
        self._env = {
            "APPLIANCE_STATE_DIR": str(self.state),
            "APPLIANCE_RUN_DIR": str(folder / "run"),
            "APPLIANCE_GITHUB_URL": github.url,
            "APPLIANCE_REPOSITORIES": APP,
            "GITHUB_TOKEN": github.token,
            "OPENAI_API_KEY": "key",
        }
        self.asked = 0

    def _start(self, **order: Any) -> int:
        for path in (self._out, self._log):
            path.write_text("")
        assert self._forks.stdin
        order |= {"env": self._env, "out": str(self._out), "err": str(self._log)}
        self._forks.stdin.write(json.dumps(order) + "\n")
        self._forks.stdin.flush()
        return self._read()

    def _read(self) -> int:
        assert self._forks.stdout
        return int(self._forks.stdout.readline())

    @property
    def _out(self) -> Path:
        return self.folder / "out"

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def killed_at(self, point: str) -> None:
        pid = self._start(point=point)
        deadline = time.monotonic() + 120
        while "stopped" not in self._out.read_text() and time.monotonic() < deadline and Path(f"/proc/{pid}").exists():
            time.sleep(0.01)
        with suppress(ProcessLookupError):  # it ended; its code is to be read, or the next start takes that for a pid
            os.kill(pid, signal.SIGKILL)
        code = self._read()
        said = self._out.read_text().split()
        assert (code, said[-1:]) == (-signal.SIGKILL, ["stopped"]), self._log.read_text()[-3000:]
        self.asked += said.count("asked")

    def cycle(self, **order: Any) -> tuple[int, str]:
        """Exit code and log of a cycle that nobody kills."""
        self._start(**order)
        code = self._read()
        self.asked += self._out.read_text().count("asked")
        return code, self._log.read_text()

    @property
    def left(self) -> list[str]:
        work = self.state / "work"
        return sorted(path.name for path in work.iterdir()) if work.is_dir() else []

    def rows(self, query: str) -> list[Any]:
        db = sqlite3.connect(self.state / "appliance.db")
        try:
            return db.execute(query).fetchall()
        finally:
            db.close()


@pytest.fixture(scope="module")
def forks() -> Iterator["subprocess.Popen[str]"]:
    argv = [sys.executable, "-c", CYCLE]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin
        process.stdin.close()


@pytest.fixture
def appliances(forks: "subprocess.Popen[str]", fake_github: FakeGitHub, tmp_path: Path) -> Appliances:
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "first", files={"app.py": "print(2)\n"})
    return Appliances(forks, fake_github, tmp_path)


def posted_once(appliances: Appliances, asked: int) -> None:
    """One comment, the gate, one attempt, and nothing left over."""
    github = appliances.github
    assert len(github.comments(APP, 1)) == 1
    newest = github.statuses(APP, github.repository(APP).pulls[1].head_sha, "codex-review")[0]
    assert (newest.state, newest.description) == ("success", GREEN)
    assert appliances.asked == asked
    assert appliances.left == []
    outcomes = [row[0] for row in appliances.rows("select outcome from attempts")]
    assert outcomes == ["interrupted"] * (asked - 1) + ["reviewed"]
    assert appliances.rows("select count(*) from reviews where attempt is not null") == [(1,)]


@pytest.mark.parametrize(
    ("point", "asked"),
    [
        pytest.param("half saved", 2, id="before the result is whole"),
        pytest.param("saved", 1, id="saved, not stored"),
        pytest.param("in the transaction", 1, id="in the transaction"),
        pytest.param("stored", 1, id="stored, not settled"),
        pytest.param("settled", 1, id="settled, not removed"),
        pytest.param("half removed", 1, id="half removed"),
        pytest.param("unsent", 1, id="not posted"),
        pytest.param("posted", 1, id="posted, not noted"),
    ],
)
def test_killed_on_the_way_it_is_stored_and_posted_once(appliances: Appliances, point: str, asked: int) -> None:
    appliances.killed_at(point)
    code, log = appliances.cycle()
    assert code == 0, log
    posted_once(appliances, asked)


def test_killed_again_while_it_is_adopted(appliances: Appliances) -> None:
    for point in ("saved", "adopting", "adopted"):
        appliances.killed_at(point)
        assert [name for name in appliances.left if name.startswith("review-")]
    appliances.cycle()
    posted_once(appliances, asked=1)


def test_killed_before_it_was_asked_it_asks_again(appliances: Appliances) -> None:
    appliances.killed_at("asked")
    appliances.cycle()
    assert appliances.asked == 1
    assert (len(appliances.github.comments(APP, 1)), appliances.left) == (1, [])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_fills_up_during_the_review_costs_nothing(appliances: Appliances) -> None:
    """The room for the result is set aside before; database and directory are on the one disk that is full."""
    appliances.state.mkdir()
    with small_disk(appliances.state, "16m"):
        fill = appliances.state / "fill"
        code, log = appliances.cycle(fill=str(fill), length=200_000)
        assert code == 1
        assert "disk-full" in log
        [left] = appliances.left
        saved = json.loads((appliances.state / "work" / left / LEFT).read_text())
        assert len(saved["review"]["result"]["reasoning"]) == 200_000
        assert appliances.github.comments(APP, 1) == []
        code, log = appliances.cycle()
        assert (code, appliances.left) == (1, [left]), "still full, still there"
        assert appliances.asked == 1
        fill.unlink()
        code, log = appliances.cycle()
        assert code == 0, log
        posted_once(appliances, asked=1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_no_review_is_asked_for_without_room_for_its_result(tmp_path: Path) -> None:
    with small_disk(tmp_path, "1m"), WorkDirs(tmp_path / "work").new("review-") as work:
        (tmp_path / "fill").write_bytes(b"x" * 900_000)
        with pytest.raises(OSError, match="No space left"):
            WorkDirs(tmp_path / "work").reserve(work)


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[None]:
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", path], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no mount here: {done.stderr!r}")
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


# ---- the database that does not take it, in one process


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(opening, "BUSY_SECONDS", 0.2)
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "first", files={"app.py": "print(2)\n"})
    world = World(fake_github, tmp_path)
    yield world
    world.close()


def codex_answers(world: World, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> list[Pull]:
    """In place of Codex; `meanwhile` happens at the end of each review."""
    asked = []

    def answer(job: codex.Job, *_: object, **__: object) -> Ending:
        asked.append(job.pull)
        meanwhile()
        return reviewed(job.pull)

    monkeypatch.setattr(codex, "review", answer)
    return asked


def next_cycle(world: World) -> CycleResult:
    """As the loop does it, and with the real reviewer."""
    world.keeper.reclaim()
    result = world.cycle(world.real_reviewer()).run()
    world.now += INTERVAL
    return result


def test_a_locked_database_ends_the_cycle_and_the_next_one_takes_the_result_up(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "appliance.db", check_same_thread=False)
    asked = codex_answers(world, monkeypatch, lambda: other.execute("begin immediate"))
    with pytest.raises(OperationalError, match="locked"):
        next_cycle(world)
    [left] = (tmp_path / "work").iterdir()
    assert (left / LEFT).is_file()
    with pytest.raises(OperationalError, match="locked"):
        next_cycle(world)
    assert len(asked) == 1, "with its result not stored, no review starts"
    other.rollback()
    assert next_cycle(world).fault is None
    assert len(asked) == 1
    assert (len(world.markers()), world.attempts(), world.gate()) == (1, 1, f"success: {GREEN}")
    assert list((tmp_path / "work").iterdir()) == []


def test_a_database_that_fails_once_is_told_and_leaves_no_lasting_fault(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = codex_answers(world, monkeypatch, lambda: None)
    real, refusals = Store.finish, [OperationalError("insert", {}, Exception("disk I/O error"))]

    def finish(*args: Any) -> int:
        if refusals:
            raise refusals.pop()
        return real(*args)

    monkeypatch.setattr(Store, "finish", finish)
    told = next_cycle(world).unhealthy
    assert told is not None
    assert "disk I/O error" in told.sentence
    result = next_cycle(world)
    assert (result.fault, result.unhealthy, len(asked)) == (None, None, 1)
    assert (len(world.markers()), world.attempts()) == (1, 1)


# ---- what became of a result meanwhile


def saved(world: World, pull: Pull, at: float = 0.0) -> Path:
    """A directory of a dead process, with a review of `pull`, as an attempt of its that was interrupted."""
    attempt = world.store.begin_attempt(pull, "dead")
    assert attempt
    review = reviewed(pull).review
    assert review
    with world.work.new("review-") as work:
        result = {"attempt": attempt, "owner": "dead", "at": at or world.clock(), "review": asdict(review)}
        world.work.save(work, result)
    world.store.reclaim(lambda _: False)
    return work.parent


def test_an_interrupted_attempt_becomes_the_review(world: World) -> None:
    saved(world, world.pull())
    assert world.attempts() == 0
    next_cycle(world)
    assert (world.attempts(), len(world.markers()), world.asked) == (1, 1, [])


def test_a_head_that_moved_on_meanwhile_gets_no_old_review(world: World) -> None:
    saved(world, world.pull())
    world.github.push(APP, "first", {"app.py": "print(3)\n"})
    world.keeper.reclaim()
    world.run()
    assert [marker.head_sha for marker in world.markers()] == [world.pull().head_sha]
    assert [pull.head_sha for pull in world.asked] == [world.pull().head_sha]
    assert list(world.work.reclaim()) == []
    assert world.store.undelivered() == []


def test_a_review_that_stands_already_is_not_joined_by_another(world: World) -> None:
    directory = saved(world, world.pull())
    world.run()
    world.keeper.reclaim()
    world.run()
    assert (len(world.markers()), len(world.asked), directory.exists()) == (1, 1, False)


def test_a_person_who_asks_again_gets_a_new_one(world: World) -> None:
    world.run()
    directory = saved(world, world.pull())
    world.store.forget(world.pull().target)
    world.keeper.reclaim()
    assert not directory.exists()
    world.run()
    assert (len(world.markers()), len(world.asked)) == (2, 2)


def test_while_somebody_else_reviews_it_the_result_waits(world: World) -> None:
    directory = saved(world, world.pull())
    attempt = world.store.begin_attempt(world.pull(), "alive")
    assert attempt
    assert world.keeper.reclaim() == []
    world.store.end_attempt(attempt, Outcome.MODEL_OUTPUT, "nonsense")
    assert world.keeper.reclaim() == [directory]
    assert len(world.store.undelivered()) == 1


def test_a_lost_database_takes_it_all_the_same(world: World) -> None:
    directory = saved(world, world.pull())
    world.restart(lose_database=True)
    assert world.keeper.reclaim() == [directory]
    world.run()
    assert (len(world.markers()), world.asked) == (1, [])


def test_a_result_that_was_posted_before_the_database_was_lost_is_not_posted_again(world: World) -> None:
    moment = world.clock()
    saved(world, world.pull(), at=moment)
    world.keeper.reclaim()
    world.run()
    world.restart(lose_database=True)
    saved(world, world.pull(), at=moment)  # as if its directory could not be removed
    world.keeper.reclaim()
    world.run()
    assert len(world.markers()) == 1


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"attempt": 1}', '{"attempt": 1, "ow', "\x00"])
def test_what_cannot_be_read_is_kept(world: World, content: str) -> None:
    directory = saved(world, world.pull())
    (directory / LEFT).write_text(content)
    assert world.keeper.reclaim() == []
    assert directory.exists()
