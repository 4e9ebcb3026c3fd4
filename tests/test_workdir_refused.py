"""Scenario 6 where things are refused for real: no /proc, an unreadable boot id, system calls that a sandbox forbids,
stamps of others, directories that resist, locks that a child holds, many who reclaim at once."""

import json
import os
import platform
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_workdir import MAKE, edit, in_child, owner_of

from appliance.workdir import CONTENT, STAMP, UNSTAMPED_SECONDS, WorkDirs

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount, or be somebody else")

PROBE = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from appliance.workdir import WorkDirs, identity
work = WorkDirs(Path(sys.argv[1]))
reclaimed = [path.name for path in work.reclaim()]
with work.new("review-") as made:
    stamp = json.loads((made.parent / "owner.json").read_text())
    (made / "file").write_text("work")
    reclaimed += [path.name for path in work.reclaim()]
print(json.dumps({"identity": asdict(identity()), "stamp": stamp, "reclaimed": reclaimed}))
"""
BWRAP = ("bwrap", "--die-with-parent", "--dev-bind", "/", "/")
# Of each machine: uname (the host's name), readlink and readlinkat (the pid namespace), kill.
SYSTEM_CALLS = {"x86_64": (63, 89, 267, 62), "aarch64": (160, 78, 129)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture
def dead(root: Path) -> Path:
    with owner_of(root) as (_, path):
        pass
    return path


def probe(root: Path, *jail: str, fds: tuple[int, ...] = ()) -> dict[str, Any]:
    """What a process in `jail` knows of itself and reclaims; it makes a directory of its own as well."""
    argv = [*jail, sys.executable, "-c", PROBE, str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, pass_fds=fds, timeout=60)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def refusing(tmp_path: Path, *calls: int) -> int:
    """A seccomp filter that answers these system calls with EPERM, as bwrap reads it from a descriptor."""
    lines = [(0x20, 0, 0, 0)]  # load the number
    lines += [(0x15, len(calls) - place, 0, call) for place, call in enumerate(calls)]
    lines += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)]
    path = tmp_path / "filter"
    path.write_bytes(b"".join(struct.pack("<HBBI", *line) for line in lines))
    return os.open(path, os.O_RDONLY)


def test_in_a_jail_that_refuses_nothing_the_dead_one_is_reclaimed(root: Path, dead: Path) -> None:
    """Without this the tests below would prove nothing."""
    told = probe(root, *BWRAP)
    assert None not in told["identity"].values()
    assert told["reclaimed"] == [dead.name]


def test_without_proc_everything_is_kept_and_a_new_one_is_made(root: Path, dead: Path) -> None:
    edit(dead, boot_id=None, pid_ns=None, start_time=None)  # as one of such a jail is: unknown is not equal
    told = probe(root, *BWRAP, "--tmpfs", "/proc")
    assert [name for name, value in told["identity"].items() if value is None] == ["boot_id", "pid_ns", "start_time"]
    assert told["stamp"].keys() == {"host", "pid"}
    assert (told["reclaimed"], dead.exists()) == ([], True)


@root_only
@pytest.mark.parametrize("mode", [0o000, 0o444], ids=["refused", "empty"])
def test_with_an_unreadable_boot_id_everything_is_kept(root: Path, dead: Path, tmp_path: Path, mode: int) -> None:
    file = tmp_path / "boot_id"
    file.touch(mode)
    told = probe(root, *BWRAP, "--cap-drop", "ALL", "--ro-bind", str(file), "/proc/sys/kernel/random/boot_id")
    assert [name for name, value in told["identity"].items() if value is None] == ["boot_id"]
    assert "boot_id" not in told["stamp"]
    assert (told["reclaimed"], dead.exists()) == ([], True)


@pytest.mark.skipif(platform.machine() not in SYSTEM_CALLS, reason="numbers of this machine's system calls unknown")
def test_with_system_calls_forbidden_everything_is_kept(root: Path, dead: Path, tmp_path: Path) -> None:
    edit(dead, host=None, pid_ns=None)
    file = refusing(tmp_path, *SYSTEM_CALLS[platform.machine()])
    try:
        told = probe(root, *BWRAP, "--seccomp", str(file), fds=(file,))
    finally:
        os.close(file)
    assert [name for name, value in told["identity"].items() if value is None] == ["host", "pid_ns"]
    assert (told["reclaimed"], dead.exists()) == ([], True)


@pytest.mark.parametrize("missing", [("--tmpfs", "/proc"), ("--unshare-uts", "--hostname", "another")])
def test_one_made_without_identity_or_on_another_host_is_kept_here(root: Path, missing: tuple[str, ...]) -> None:
    jail = (*BWRAP, *(("--unshare-user",) if "--unshare-uts" in missing else ()), *missing)
    with owner_of(root, *jail) as (_, path):
        pid = json.loads((path / STAMP).read_text())["pid"]
    while Path(f"/proc/{pid}").exists():  # bwrap is dead, and what ran in it dies a moment later
        time.sleep(0.01)
    assert WorkDirs(root).reclaim() == []
    assert (path / CONTENT / "file").read_text() == "work"


def test_a_stamp_cut_off_anywhere_is_no_stamp(root: Path, dead: Path) -> None:
    whole = (dead / STAMP).read_bytes()
    for length in range(len(whole)):
        (root / f"cut-{length}").mkdir()
        (root / f"cut-{length}" / STAMP).write_bytes(whole[:length])
    (dead / STAMP).write_bytes(whole[:1])
    assert WorkDirs(root).reclaim() == []
    for path in root.iterdir():
        old = time.time() - UNSTAMPED_SECONDS - 60
        os.utime(path, (old, old))
    assert len(WorkDirs(root).reclaim()) == len(whole) + 1


def test_a_time_in_the_future_is_no_age(root: Path) -> None:
    """Also what lay here when the clock was set back."""
    (root / "review-x").mkdir(parents=True)
    later = time.time() + 365 * 86_400
    os.utime(root / "review-x", (later, later))
    assert WorkDirs(root).reclaim() == []


def test_a_stamp_that_is_a_directory_is_kept(root: Path) -> None:
    (root / "review-x" / STAMP).mkdir(parents=True)
    os.utime(root / "review-x", (0, 0))
    assert WorkDirs(root).reclaim() == []


@root_only
def test_a_stamp_that_we_may_not_read_is_kept_whatever_its_age(root: Path, dead: Path) -> None:
    for path in (root, *root.parents[:3]):
        path.chmod(0o777)
    for path in (dead, dead / CONTENT):
        path.chmod(0o777)
    os.utime(dead, (0, 0))

    def as_nobody() -> bool:
        os.setgid(65534)
        os.setuid(65534)
        return WorkDirs(root).reclaim() == [] and dead.exists()

    assert in_child(as_nobody)
    assert WorkDirs(root).reclaim() == [dead]


@root_only
def test_one_that_resists_is_left_ends_nothing_and_goes_later(root: Path, dead: Path) -> None:
    with owner_of(root) as (_, other):
        pass
    (dead / CONTENT / "mounted").mkdir()
    with mounted(dead / CONTENT / "mounted"):
        assert WorkDirs(root).reclaim() == [other]
        with WorkDirs(root).new("review-") as path:
            assert path.is_dir()
        assert (dead / STAMP).is_file(), "what is left still says whose it is"
    assert WorkDirs(root).reclaim() == [dead], "and needs no day of age"


@root_only
def test_our_own_that_resists_ends_no_review(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ExitStack() as stuck:
        with WorkDirs(root).new("review-") as path:
            (path / "mounted").mkdir()
            stuck.enter_context(mounted(path / "mounted"))
        assert "cannot be removed" in caplog.text


@contextmanager
def mounted(path: Path) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


# The parent alone prints: what both print at once may come in pieces.
FORKING = MAKE.replace(
    "time.sleep(600)", "(child := __import__('os').fork()) and print(child, flush=True); time.sleep(600)"
)


def test_a_child_that_holds_the_lock_keeps_the_directory(root: Path) -> None:
    """The owner was killed, and a process that it forked still works there."""
    process = subprocess.Popen([sys.executable, "-c", FORKING, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    path = Path(process.stdout.readline().strip())
    child = int(process.stdout.readline())
    try:
        process.kill()
        process.wait()
        assert WorkDirs(root).reclaim() == []
        assert path.exists()
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()
    deadline = time.monotonic() + 10
    while not (reclaimed := WorkDirs(root).reclaim()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert reclaimed == [path]


RECLAIM = """
import sys
from pathlib import Path
from appliance.workdir import WorkDirs
print("ready", flush=True)
sys.stdin.readline()
print(*[path.name for path in WorkDirs(Path(sys.argv[1])).reclaim()], flush=True)
"""


def test_processes_that_reclaim_at_once_remove_each_once(root: Path, dead: Path) -> None:
    for number in range(60):
        shutil.copytree(dead, root / f"copy-{number}")
    argv = [sys.executable, "-c", RECLAIM, str(root)]
    others = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in others:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in others:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    removed, complaints = [], ""
    for process in others:
        out, err = process.communicate(timeout=60)
        removed += out.split()
        complaints += err
    assert len(removed) == len(set(removed)) == 61
    assert list(root.iterdir()) == []
    assert complaints == ""
