"""Scenario 6: work directories are reclaimed only when their owner is known to be gone. Real processes, real locks."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from appliance import owner, workdir
from appliance.owner import Identity, filesystem, identity, judge
from appliance.workdir import STAMP, OwnerLocks, WorkDirs

MAKE = """
import sys, time
from pathlib import Path
from appliance.workdir import WorkDirs
with WorkDirs(Path(sys.argv[1])).new("review-") as path:
    (path / "file").write_text("work")
    print(path.parent, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "work"


@contextlib.contextmanager
def owner_of(root: Path, *before: str) -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """A process that holds one work directory."""
    process = subprocess.Popen([*before, sys.executable, "-c", MAKE, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def dead(root: Path) -> Path:
    """A directory whose owner was killed."""
    with owner_of(root) as (_, path):
        pass
    assert (path / STAMP).is_file()
    return path


def edit(path: Path, **values: object) -> None:
    """Change fields of a stamp; None leaves the field out, as an unreadable one is."""
    stamp = json.loads((path / STAMP).read_text()) | values
    (path / STAMP).write_text(json.dumps({name: value for name, value in stamp.items() if value is not None}))


def test_a_directory_is_ours_and_goes_with_the_work(root: Path) -> None:
    with WorkDirs(root).new("review-") as path:
        assert list(path.iterdir()) == []
        stamp = json.loads((path.parent / STAMP).read_text())
        assert Identity(**stamp) == identity()
        assert None not in stamp.values()
        assert path.parent.name.startswith("review-")
        assert path.stat().st_mode & 0o777 == 0o700
    assert list(root.iterdir()) == []


def test_a_dead_owner_of_known_scope_is_reclaimed(root: Path, dead: Path) -> None:
    assert WorkDirs(root).reclaim() == [dead]
    assert not dead.exists()


def test_a_live_owner_is_kept(root: Path) -> None:
    with owner_of(root) as (_, path):
        assert WorkDirs(root).reclaim() == []
        assert (path / "content" / "file").read_text() == "work"
    assert WorkDirs(root).reclaim() == [path]


def test_a_live_owner_is_kept_by_its_lock_alone(root: Path) -> None:
    with owner_of(root) as (_, path):
        edit(path, pid=2**22 + 1)  # as if its pid were another namespace's
        assert WorkDirs(root).reclaim() == []


def test_a_live_owner_is_kept_by_its_pid_alone(root: Path) -> None:
    with owner_of(root) as (_, path):
        stamp = (path / STAMP).read_text()
        (path / STAMP).unlink()
        (path / STAMP).write_text(stamp)  # the same words, and nobody holds this file
        assert WorkDirs(root).reclaim() == []


def test_a_pid_that_was_used_again_is_another_process(root: Path, dead: Path) -> None:
    edit(dead, pid=os.getpid())  # lives, but started at another time
    assert WorkDirs(root).reclaim() == [dead]


def test_a_process_without_a_start_time_is_unknown(root: Path, dead: Path) -> None:
    edit(dead, pid=os.getpid(), start_time=None)
    assert WorkDirs(root).reclaim() == []


def test_a_zombie_is_gone(root: Path) -> None:
    with owner_of(root) as (process, path):
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet waited for
        assert WorkDirs(root).reclaim() == [path]


@pytest.mark.parametrize("field", ["host", "boot_id", "pid_ns"])
def test_a_stamp_without_scope_is_kept_and_a_new_directory_is_made(root: Path, dead: Path, field: str) -> None:
    edit(dead, **{field: None})
    work = WorkDirs(root)
    assert work.reclaim() == []
    with work.new("review-") as path:
        assert path.is_dir()
    assert dead.is_dir()


@pytest.mark.parametrize("field", ["host", "boot_id", "pid_ns"])
def test_a_probe_that_is_refused_here_keeps_everything_and_ends_nothing(
    root: Path, dead: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """Both sides may lack the same field: two unknowns are not equal (the case that deleted live directories)."""

    def refused(*_: object, **__: object) -> str:
        raise PermissionError(1, "Operation not permitted")

    if field == "host":
        monkeypatch.setattr(socket, "gethostname", refused)
    else:
        name = "read_text" if field == "boot_id" else "readlink"
        real = getattr(Path, name)
        wanted = {"boot_id": "/proc/sys/kernel/random/boot_id", "pid_ns": "/proc/self/ns/pid"}[field]
        monkeypatch.setattr(
            Path, name, lambda self, *args, **kw: refused() if str(self) == wanted else real(self, *args, **kw)
        )
    assert getattr(identity(), field) is None
    edit(dead, **{field: None})
    work = WorkDirs(root)
    with work.new("review-") as path:
        stamp = json.loads((path.parent / STAMP).read_text())
        assert field not in stamp
        assert work.reclaim() == []
    assert dead.is_dir()


def test_a_process_whose_stat_is_refused_leaves_the_field_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.read_text
    monkeypatch.setattr(
        Path, "read_text", lambda self, *a, **k: "nonsense" if self.name == "stat" else real(self, *a, **k)
    )
    assert identity().start_time is None


def test_another_host_is_kept(root: Path, dead: Path) -> None:
    edit(dead, host="another")
    assert WorkDirs(root).reclaim() == []


def test_another_boot_of_this_host_is_gone_on_a_local_filesystem(root: Path, dead: Path) -> None:
    assert filesystem(root) in owner.LOCAL_FILESYSTEMS, "run the tests on a local filesystem"
    edit(dead, boot_id="3f0f1ab6-0000-4000-8000-000000000000", pid=os.getpid(), start_time=identity().start_time)
    assert WorkDirs(root).reclaim() == [dead]


@pytest.mark.parametrize("field", ["boot_id", "pid_ns"])
def test_on_a_network_filesystem_a_free_lock_proves_nothing(
    root: Path, dead: Path, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    monkeypatch.setattr(workdir, "filesystem", lambda path: "nfs4")
    edit(dead, **{field: "pid:[1]"})
    assert WorkDirs(root).reclaim() == []
    edit(dead, **{field: getattr(identity(), field)})
    assert WorkDirs(root).reclaim() == [dead], "the same scope needs no lock to be known"


@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace of its own needs root here")
def test_another_pid_namespace_alive_and_dead(root: Path) -> None:
    """Two containers of one hostname on one volume: the pid of the one means nothing in the other."""
    unshare = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    tried = subprocess.run([*unshare, "true"], capture_output=True, check=False)
    if tried.returncode:
        pytest.skip(f"no pid namespace here: {tried.stderr!r}")
    with owner_of(root, *unshare) as (_, path):
        stamp = json.loads((path / STAMP).read_text())
        assert stamp["pid"] < 10
        assert stamp["pid_ns"] != identity().pid_ns
        edit(path, pid=2**22 + 1)  # absent here, which says nothing of there
        assert WorkDirs(root).reclaim() == []
        assert (path / "content" / "file").is_file()
    deadline = time.monotonic() + 10
    while not (reclaimed := WorkDirs(root).reclaim()) and time.monotonic() < deadline:
        time.sleep(0.05)  # the namespace dies with its first process
    assert reclaimed == [path]


@pytest.mark.parametrize("stamp", [None, "", '{"host": "a', "[]", '{"pid": "7"}', '{"host": 3}', "\x00\xff"])
def test_without_a_whole_stamp_only_age_counts(root: Path, stamp: str | None) -> None:
    path = root / "review-x"
    path.mkdir(parents=True)
    if stamp is not None:
        (path / STAMP).write_text(stamp, encoding="latin-1")
    work = WorkDirs(root)
    assert work.reclaim() == []
    old = time.time() - workdir.UNSTAMPED_SECONDS - 60
    os.utime(path, (old, old))
    assert work.reclaim() == [path]


def test_a_torn_stamp_that_is_locked_is_kept_at_any_age(root: Path) -> None:
    with owner_of(root) as (_, path):
        (path / STAMP).write_text('{"host": "a')
        os.utime(path, (0, 0))
        assert WorkDirs(root).reclaim() == []


def test_an_empty_stamp_is_unknown_at_any_age(root: Path) -> None:
    path = root / "review-x"
    path.mkdir(parents=True)
    (path / STAMP).write_text("{}")
    os.utime(path, (0, 0))
    assert WorkDirs(root).reclaim() == []


def test_deletion_follows_no_link_and_stays_in_the_root(root: Path, dead: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    (dead / "content" / "link").symlink_to(outside)
    (dead / "content" / "file-link").symlink_to(outside / "precious")
    (root / "whole-link").symlink_to(outside)
    os.utime(outside, (0, 0))
    os.utime(root / "whole-link", (0, 0), follow_symlinks=False)
    (root / "a-file").write_text("not ours")
    assert WorkDirs(root).reclaim() == [dead]
    assert (outside / "precious").read_text() == "kept"
    assert (root / "whole-link").is_symlink()
    assert (root / "a-file").exists()


def test_a_stamp_that_is_a_link_or_a_pipe_is_not_opened(root: Path, tmp_path: Path) -> None:
    (tmp_path / "stamp").write_text(json.dumps(asdict(replace(identity(), pid=2**22 + 1))))  # of a dead owner
    for name, make in (("a", lambda path: path.symlink_to(tmp_path / "stamp")), ("b", os.mkfifo)):
        (root / name).mkdir(parents=True)
        make(root / name / STAMP)
        os.utime(root / name, (0, 0))
    assert WorkDirs(root).reclaim() == []


def test_directories_without_rights_are_removed() -> None:
    def work() -> bool:
        if os.geteuid() == 0:
            os.setgid(65534)
            os.setuid(65534)  # root may always
        with WorkDirs(Path(folder)).new("review-") as path:
            (path / "a" / "b").mkdir(parents=True)
            (path / "a" / "b" / "file").write_text("")
            (path / "a" / "b").chmod(0)
            (path / "a").chmod(0o500)
        return list(Path(folder).iterdir()) == []

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        assert in_child(work)


def test_two_who_reclaim_at_once_remove_it_once(root: Path) -> None:
    paths = []
    for _ in range(5):
        with owner_of(root) as (_, path):
            paths.append(path)
    removed: list[Path] = []
    threads = [threading.Thread(target=lambda: removed.extend(WorkDirs(root).reclaim())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(removed) == sorted(paths)


def test_no_root_is_no_error(root: Path) -> None:
    assert WorkDirs(root).reclaim() == []


def test_judge_needs_every_field_on_both_sides() -> None:
    ours = identity()
    absent = replace(ours, pid=2**22 + 1)
    assert judge(absent, ours, local=False) == "gone"
    for field in ("host", "boot_id", "pid_ns"):
        unknown = replace(ours, **{field: None})
        assert judge(absent, unknown, local=True) == "unknown"
        assert judge(replace(absent, **{field: None}), ours, local=True) == "unknown"
        assert judge(replace(absent, **{field: None}), unknown, local=True) == "unknown"
    assert judge(ours, ours, local=True) == "alive"
    assert judge(replace(ours, pid=None), ours, local=True) == "unknown"
    assert judge(replace(ours, pid=-1), ours, local=True) == "unknown"


def in_child(work: Callable[[], bool]) -> bool:
    """The answer of `work` in a forked process."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


HOLD = """
import sys, time
from pathlib import Path
from appliance.workdir import OwnerLocks
print(OwnerLocks(Path(sys.argv[1])).mine(), flush=True)
time.sleep(600)
"""


def test_owner_locks_tell_the_living_from_the_dead(tmp_path: Path) -> None:
    locks = OwnerLocks(tmp_path / "locks")
    other = subprocess.Popen([sys.executable, "-c", HOLD, tmp_path / "locks"], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    try:
        theirs = other.stdout.readline().strip()
        assert locks.mine() == locks.mine() != theirs
        assert locks.alive(locks.mine())
        assert OwnerLocks(tmp_path / "locks").alive(locks.mine())
        assert locks.alive(theirs)
    finally:
        other.kill()
        other.wait()
        other.stdout.close()
    assert not locks.alive(theirs)
    assert not locks.alive("1-" + "0" * 32)
    assert not locks.alive("../locks")


def test_a_fork_is_another_owner_and_ends_nobody(tmp_path: Path) -> None:
    locks = OwnerLocks(tmp_path)
    mine = locks.mine()
    assert in_child(lambda: locks.mine() != mine and locks.alive(mine) and locks.alive(locks.mine()))
    assert locks.mine() == mine
    assert locks.alive(mine)


def test_the_files_of_the_dead_are_swept(tmp_path: Path) -> None:
    assert in_child(lambda: bool(OwnerLocks(tmp_path).mine()))
    (tmp_path / "review.lock").write_text("")  # not an owner's
    mine = OwnerLocks(tmp_path).mine()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine, "review.lock"])


def test_threads_share_one_owner(tmp_path: Path) -> None:
    locks = OwnerLocks(tmp_path)
    seen: set[str] = set()
    threads = [threading.Thread(target=lambda: seen.add(locks.mine())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 1
