"""What a jail uses is counted with all that it started, and one that uses too much is ended."""

import errno
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance import bounds, facts, jail, process

FAMILY = """
import subprocess, sys, threading, time
held = bytearray(b"x" * (64 << 20))
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture
def family() -> Iterator[int]:
    """A process of two threads and 64 MB, with a child."""
    made = subprocess.Popen([sys.executable, "-c", FAMILY], stdout=subprocess.PIPE, start_new_session=True)
    assert made.stdout is not None and made.stdout.readline() == b"up\n"
    yield made.pid
    process.kill_group(made)
    made.stdout.close()


def test_all_of_a_family_is_counted(family: int) -> None:
    for _ in range(100):  # the child may not be there yet
        used = bounds.usage(family)
        if used.tasks == 3:
            break
        time.sleep(0.05)
    assert used.tasks == 3
    assert 64 << 20 < used.memory < 128 << 20


def test_what_has_ended_uses_nothing() -> None:
    assert bounds.usage(1 << 22) == bounds.Usage(0, 0)


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A /proc whose process 7 has a tmpfs of its own: made by hand, for only a jail has one, but /dev/shm is real. The
    container's own does not count."""
    line = "30 1 0:{} / {} rw - tmpfs tmpfs rw\n"
    for pid, mounts in (("self", line.format(5, "/run")), ("7", line.format(5, "/run") + line.format(9, "/dev/shm"))):
        (tmp_path / pid / "ns").mkdir(parents=True)
        (tmp_path / pid / "mountinfo").write_text(mounts)
        (tmp_path / pid / "ns/mnt").symlink_to(f"mnt:[{pid}]")
    (tmp_path / "7" / "root").symlink_to("/")
    return tmp_path


@pytest.fixture
def shared() -> Iterator[Path]:
    """A directory in /dev/shm."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def test_a_tmpfs_of_its_own_counts(mounted: Path, shared: Path) -> None:
    before = bounds.usage(7, mounted).memory
    (shared / "file").write_bytes(bytes(32 << 20))
    assert bounds.usage(7, mounted).memory - before == pytest.approx(32 << 20, rel=0.2)


def test_empty_files_in_it_count_by_what_the_kernel_has_for_them(mounted: Path, shared: Path) -> None:
    before = bounds.usage(7, mounted)
    for number in range(2000):
        (shared / str(number)).touch()
    after = bounds.usage(7, mounted)
    assert after.kernel - before.kernel == pytest.approx(2000 * bounds.FILE_BYTES, rel=0.2)
    assert after.memory - before.memory < 1 << 20


@pytest.mark.parametrize(
    ("looks", "refused"),
    [
        ([None, "EACCES", ""], ""),
        ([None, "EACCES", None, "EPERM"], "EPERM"),
        ([None], ""),
    ],
    ids=["let through in the end", "refused", "never up"],
)
def test_whether_a_jail_can_be_looked_into_is_tried_as_long_as_it_lives(
    monkeypatch: pytest.MonkeyPatch, looks: list[str | None], refused: str
) -> None:
    told = iter(looks)
    monkeypatch.setattr(bounds, "_refusal", lambda pid: next(told, looks[-1]))
    sight = bounds.Sight()
    done = process.run(["sleep", "0.2"], timeout=20, watch=sight.over)
    assert (done.code, sight.refused) == (0, refused)
    assert list(told) == []


def test_a_look_into_a_jail_is_refused_or_not_yet_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made by hand: only a kernel with a security module refuses it."""
    for pid, parent in ((7, 1), (8, 7)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (bwrap) S {parent} 7 7 0")
    assert bounds._refusal(7, tmp_path) is None
    (tmp_path / f"8/root{jail.CODEX_HOME}").mkdir(parents=True)
    assert bounds._refusal(7, tmp_path) is None
    (tmp_path / "8/ns").mkdir()
    (tmp_path / "8/ns/mnt").symlink_to("mnt:[8]")
    assert bounds._refusal(7, tmp_path) == ""
    assert bounds._refusal(8, tmp_path) is None, "nothing is below it"

    def denied(path: Path) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "readlink", denied)
    assert bounds._refusal(7, tmp_path) == "EACCES"


@pytest.mark.parametrize(
    ("limit", "at_once", "megabytes"), [(4 << 30, 2, 1792), (4 << 30, 1, 3584), (2 << 30, 2, 768), (1 << 30, 8, 512)]
)
def test_reviews_share_what_the_appliance_leaves(limit: int, at_once: int, megabytes: int) -> None:
    assert bounds.share(limit, at_once) == megabytes << 20


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The container is full enough for a look at the jail."""
    monkeypatch.setattr(facts, "tasks_now", lambda: None)
    monkeypatch.setattr(jail, "PROCESSES", 3)


def sleeping(watch: bounds.Watch, script: str = FAMILY) -> process.Completed:
    return process.run([sys.executable, "-c", script], timeout=20, watch=watch.over)


def test_one_that_uses_up_its_processes_is_ended(looked_at: None) -> None:
    watch = bounds.Watch(None)
    done = sleeping(watch)
    assert (done.code, done.timed_out) == (-9, False)
    assert watch.exceeded == "the review used up its 3 processes"


def test_one_that_uses_more_than_its_memory_is_ended(looked_at: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "PROCESSES", 100)
    watch = bounds.Watch(32 << 20)
    assert sleeping(watch).code == -9
    assert watch.exceeded == "the review used more than its 32 MB of memory"


def test_memory_that_its_processes_share_counts_once(looked_at: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 300 forks has all of its parent's pages, but the container has few: not its memory was too much."""
    monkeypatch.setattr(facts, "memory_now", lambda: 31 << 20)
    monkeypatch.setattr(bounds, "usage", lambda pid: bounds.Usage(2, 900 << 20))
    watch = bounds.Watch(32 << 20)
    assert sleeping(watch, "import time; time.sleep(0.5); print('ended')").out == "ended\n"
    assert watch.exceeded == ""


def test_one_that_keeps_within_them_is_left_alone(looked_at: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jail, "PROCESSES", 100)
    watch = bounds.Watch(1 << 30)
    done = sleeping(watch, "import time; time.sleep(0.5); print('ended')")
    assert (done.code, done.out, watch.exceeded) == (0, "ended\n", "")


def test_one_whose_files_take_too_much_of_the_kernels_memory_is_ended(
    looked_at: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However little of its own the whole container has."""
    monkeypatch.setattr(facts, "memory_now", lambda: 1 << 20)
    monkeypatch.setattr(bounds, "usage", lambda pid: bounds.Usage(2, 1 << 20, 40 << 20))
    watch = bounds.Watch(32 << 20)
    assert sleeping(watch).code == -9
    assert watch.exceeded == "the review used more than its 32 MB of memory"


@pytest.mark.parametrize(
    ("tasks", "memory", "kernel", "looks"),
    [
        (10, 0, 0, False), (364, 0, 0, False), (365, 0, 0, True), (10, 101, 0, True), (10, 50, 50, False),
        (10, 50, 51, True), (None, 0, 0, True), (10, None, 0, True), (10, 0, None, True),
    ],
)  # fmt: skip
def test_a_jail_is_looked_at_only_if_it_can_be_too_much(
    monkeypatch: pytest.MonkeyPatch, tasks: int | None, memory: int | None, kernel: int | None, looks: bool
) -> None:
    monkeypatch.setattr(facts, "tasks_now", lambda: tasks)
    monkeypatch.setattr(facts, "memory_now", lambda: memory)
    monkeypatch.setattr(facts, "kernel_memory_now", lambda: kernel)
    assert bounds.Watch(100)._may_be_too_much() is looks


def test_the_cgroup_is_read_in_both_hierarchies(tmp_path: Path) -> None:
    base = tmp_path / "sys/fs/cgroup"
    (base / "memory").mkdir(parents=True)
    assert facts.memory_now(tmp_path) is None
    assert facts.kernel_memory_now(tmp_path) is None
    (base / "memory/memory.kmem.usage_in_bytes").write_text("5\n")
    assert facts.kernel_memory_now(tmp_path) == 5
    (base / "memory/memory.stat").write_text("rss 1\nshmem 1\ntotal_rss 30\ntotal_shmem 12\n")
    assert facts.memory_now(tmp_path) == 42
    (base / "memory.stat").write_text("anon 7\nfile 100\nshmem 1\nslab 3\n")
    assert (facts.memory_now(tmp_path), facts.kernel_memory_now(tmp_path)) == (8, 3)
    (base / "memory.max").write_text("max\n")
    assert facts.memory_limit(tmp_path) == 1 << 62
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       1024 kB\n")
    assert facts.memory_limit(tmp_path) == 1 << 20
    (base / "memory.max").write_text("4096\n")
    assert facts.memory_limit(tmp_path) == 4096
