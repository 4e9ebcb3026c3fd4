"""Scenario 6 with containers: two of one hostname share a volume, and the pid of the one is absent in the other."""

import json
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from .stack import IMAGE, Stack, eventually
from .test_kill_and_stop import killed

PYTHON = "/opt/appliance/bin/python"
ROOT = "/var/lib/appliance/work"
HOLD = """
import json, sys, time
from pathlib import Path
from appliance.workdir import WorkDirs
with WorkDirs(Path(sys.argv[1])).new("review-") as path:
    (path / "file").write_text("work")
    stamp = path.parent / "owner.json"
    if sys.argv[2] == "unlocked":  # as where locks do not reach other machines: the same words, and nobody holds it
        words = stamp.read_text()
        stamp.unlink()
        stamp.write_text(words)
    print(json.dumps({"name": path.parent.name, "stamp": json.loads(stamp.read_text())}), flush=True)
    time.sleep(600)
"""
RECLAIM = """
import json, os, socket, sys
from pathlib import Path
from appliance.workdir import WorkDirs
work, before = WorkDirs(Path(sys.argv[1])), sorted(path.name for path in Path(sys.argv[1]).iterdir())
pid = json.loads((Path(sys.argv[1]) / before[0] / "owner.json").read_text())["pid"]
reclaimed = [path.name for path in work.reclaim()]
with work.new("review-") as made:
    new = made.is_dir()
print(json.dumps({"host": socket.gethostname(), "absent": not os.path.exists(f"/proc/{pid}"),
                  "reclaimed": reclaimed, "new": new}))
"""


class Twins:
    """Containers of one hostname on one volume. The first has a hundred processes more, so that its pid is high."""

    def __init__(self, volume: str) -> None:
        self.volume, self.holder = volume, f"appliance-test-{uuid.uuid4().hex[:8]}"

    def _argv(self, *options: str) -> list[str]:
        mount = f"type=volume,source={self.volume},target=/var/lib/appliance"
        isolation = ["--network", "none", "--user", "0:0", "--hostname", "same", "--mount", mount]
        return ["docker", "run", *isolation, *options, "--entrypoint", "/bin/sh", IMAGE, "-c"]

    def hold(self, how: str) -> dict[str, Any]:
        script = f'i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done; exec {PYTHON} -c "$0" {ROOT} {how}'
        run(*self._argv("--detach", "--init", "--name", self.holder), f"{script} & exec sleep 600", HOLD)
        told: dict[str, Any] = json.loads(
            eventually("a directory that is held", lambda: run("docker", "logs", self.holder)).splitlines()[0]
        )
        self.pid = told["stamp"]["pid"]
        return told

    def reclaim(self) -> dict[str, object]:
        told: dict[str, object] = json.loads(run(*self._argv("--rm"), f'exec {PYTHON} -c "$0" {ROOT}', RECLAIM))
        return told

    def kill_owner(self) -> None:
        run("docker", "exec", self.holder, "sh", "-c", f"kill -9 {self.pid}")

    def kill(self) -> None:
        run("docker", "kill", self.holder)
        run("docker", "wait", self.holder)


def run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout.strip()


@contextmanager
def twins_on(*options: str) -> Iterator[Twins]:
    volume = run("docker", "volume", "create", *options)
    twins = Twins(volume)
    try:
        yield twins
    finally:
        subprocess.run(["docker", "rm", "--force", twins.holder], capture_output=True, check=False)
        run("docker", "volume", "rm", volume)


@pytest.mark.usefixtures("engine")
def test_of_two_containers_of_one_hostname_neither_takes_what_the_other_holds() -> None:
    with twins_on() as twins:
        held = twins.hold("locked")
        told = twins.reclaim()
        assert (told["host"], told["absent"], told["new"]) == ("same", True, True)
        assert told["reclaimed"] == []
        twins.kill()
        assert twins.reclaim()["reclaimed"] == [held["name"]], "its lock is free, and one kernel keeps all locks here"


@pytest.mark.usefixtures("engine")
def test_where_locks_cannot_be_seen_it_is_kept_even_when_the_owner_is_dead() -> None:
    """A filesystem that is not known to be of one machine (here ramfs): there a free lock says nothing."""
    with twins_on("--driver", "local", "--opt", "type=ramfs", "--opt", "device=ramfs") as twins:
        twins.hold("unlocked")
        told = twins.reclaim()
        assert (told["absent"], told["new"], told["reclaimed"]) == (True, True, [])
        twins.kill_owner()  # its namespace lives on: the number of a dead one may be given to the next container
        told = twins.reclaim()
        assert (told["absent"], told["new"], told["reclaimed"]) == (True, True, [])


def test_killed_with_a_result_that_the_database_did_not_take(stack: Stack) -> None:
    """The model is asked once, the review is posted once, although it never got as far as the store."""
    pull = stack.pull()
    stack.model.hold()
    stack.start()
    stack.model.wait_held()
    refuse = "CREATE TRIGGER refuse BEFORE INSERT ON reviews BEGIN SELECT RAISE(ABORT, 'no reviews today'); END"
    assert stack.exec(PYTHON, "-c", SQL, refuse).code == 0
    stack.model.clear()
    eventually("a result in its directory", lambda: stack.exec("sh", "-c", f"cat {ROOT}/*/left.json").code == 0)
    stack.wait_health("unhealthy")
    assert stack.comments(1) == []
    killed(stack)
    assert "review.done" not in stack.log
    asked = len(stack.model.requests)
    stack.container.start()
    assert stack.exec(PYTHON, "-c", SQL, "DROP TRIGGER refuse").code == 0
    stack.wait_gate(pull["head_sha"], "failure")
    stack.wait_log("result.adopted")
    stack.cycles(1)
    assert len(stack.model.requests) == asked, "the model was asked again"
    assert len(stack.comments(1)) == 1
    assert stack.row(1)["attempts"] == 1
    assert "review-" not in stack.exec("ls", ROOT).out


SQL = """
import sqlite3, sys
with sqlite3.connect("/var/lib/appliance/appliance.db", timeout=30) as db:
    db.execute(sys.argv[1])
"""
