"""What a jail may use at most, and the watch that ends one that uses it up.

Without capabilities there is no cgroup of its own for a jail. What there is: `jail.argv` sets RLIMIT_NPROC, which the
kernel counts for each user namespace and those within it (5.14 and newer), sizes for its tmpfs, and makes it the first
that the kernel kills for lack of memory. The memory of all its processes together can only be looked at, so it is. So
is CODEX_HOME: Codex without room there fails in words that name no cause.
"""

import contextlib
import errno
import os
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from appliance import facts, jail

LOOK_SECONDS = 0.1  # a look at the whole container takes 0.1 ms; one at the jail 3, and only if it may be too much
FULL = 0.95  # of the processes; from there on hardly a command can start
LOOKS_UNTIL_FULL = 5
LOOKS_UNTIL_UP = 50  # a jail is up at once, or is never shown: a security module may refuse the look
TRY_SECONDS = 0.01  # between two looks of `Sight`: a jail of the self-test is there for a tenth of a second
OURS_BYTES = 512 * 1024 * 1024  # for the appliance itself, git, and the container's own tmpfs
HOME_USED_UP = f"the review used up the {jail.CODEX_HOME_BYTES >> 20} MB of CODEX_HOME"
FILE_BYTES = 1536  # of the kernel's memory, measured: an empty file in a tmpfs takes 964, with the longest name 1484
LEAST_BYTES = 512 * 1024 * 1024  # measured: a review takes 130 MB, with git and ripgrep some more


@dataclass(frozen=True)
class Usage:
    """Tasks (processes and threads), bytes of memory, tmpfs included, and bytes that the kernel has for their files."""

    tasks: int = 0
    memory: int = 0
    kernel: int = 0


def share(limit: int, reviews_at_once: int) -> int:
    """How many bytes one review may use of a container's `limit`."""
    return max(LEAST_BYTES, (limit - OURS_BYTES) // reviews_at_once)


@dataclass
class Watch:
    """Ends the jail whose bwrap has the given pid when it uses up its processes or its CODEX_HOME, or more than
    `memory` bytes.

    `exceeded` says of what too much was used, in words for people; it may also have ended by itself then.
    """

    memory: int | None
    exceeded: str = ""
    _done: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def over(self, pid: int) -> Iterator[None]:
        """Watch as long as the context is open. Raises RuntimeError if there is no thread to be had."""
        thread = threading.Thread(target=self._watch, args=(pid,), name="bounds", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join(2 * LOOK_SECONDS)

    def _watch(self, pid: int) -> None:
        try:
            handle = os.pidfd_open(pid)
        except OSError:  # it has ended already
            return
        full = looks = 0
        home: int | None = None
        try:
            while not self._done.wait(LOOK_SECONDS) and full < LOOKS_UNTIL_FULL:
                looks += 1
                home = _codex_home(pid) if home is None and looks <= LOOKS_UNTIL_UP else home
                used = self._used(pid)
                no_room = _is_full(home)
                full = full + 1 if no_room or used.tasks >= FULL * jail.PROCESSES else 0
                if no_room:
                    self.exceeded = HOME_USED_UP
                elif full:
                    self.exceeded = f"the review used up its {jail.PROCESSES} processes"
                elif self.memory is not None and used.memory + used.kernel > self.memory:
                    self.exceeded = f"the review used more than its {self.memory >> 20} MB of memory"
                    full = LOOKS_UNTIL_FULL
            if not full and _is_full(home):  # the last that it did: without room it ended by itself
                self.exceeded = HOME_USED_UP
            if full >= LOOKS_UNTIL_FULL:
                signal.pidfd_send_signal(handle, signal.SIGKILL)  # its jail dies with it
        except ProcessLookupError:
            return
        finally:
            os.close(handle)
            if home is not None:
                os.close(home)

    def _used(self, pid: int) -> Usage:
        """What the jail uses; nothing if it cannot be too much.

        Pages that processes share since a fork are counted for each of them, but the container has them once.
        """
        if not self._may_be_too_much():
            return Usage()
        used, whole = usage(pid), facts.memory_now()
        return used if whole is None else Usage(used.tasks, min(used.memory, whole), used.kernel)

    def _may_be_too_much(self) -> bool:
        """Whether the whole container has as much as this jail may have; where that is not told, it may."""
        tasks, memory, kernel = facts.tasks_now(), facts.memory_now(), facts.kernel_memory_now()
        if tasks is None or memory is None or kernel is None:
            return True
        return tasks >= FULL * jail.PROCESSES or (self.memory is not None and memory + kernel > self.memory)


@dataclass
class Sight:
    """Tries on the jail whose bwrap has the given pid whether it can be looked into, as `Watch` has to.

    `refused` is the name of the error if no look was let through ("EACCES"), else empty: also where there was no jail.
    """

    refused: str = ""

    @contextmanager
    def over(self, pid: int) -> Iterator[None]:
        """Look until it is let through, or the jail has ended; then go on."""
        for _ in range(LOOKS_UNTIL_UP):
            told = _refusal(pid)
            self.refused = self.refused if told is None else told
            if told == "" or _has_ended(pid):
                break
            time.sleep(TRY_SECONDS)
        yield


def _has_ended(pid: int) -> bool:
    """Also before anybody has waited for it."""
    return _words(Path(f"/proc/{pid}/stat"))[:1] in ([], ["Z"])


def _refusal(pid: int, proc: Path = Path("/proc")) -> str | None:
    """The error with which a look into the jail of bwrap `pid` is refused, "" if it is not; None before it is up."""
    for each in _family(pid, proc)[1:2]:
        try:
            Path(f"{proc}/{each}/root{jail.CODEX_HOME}").stat()
            Path(f"{proc}/{each}/ns/mnt").readlink()
        except PermissionError as error:
            return errno.errorcode[error.errno or errno.EPERM]
        except OSError:
            return None
        return ""
    return None


def _codex_home(pid: int, proc: Path = Path("/proc")) -> int | None:
    """The CODEX_HOME of the jail whose bwrap is `pid`, held open; None as long as it is not mounted, or not shown.

    The first below bwrap is bwrap too: no program of the jail can have moved its root.
    """
    for each in _family(pid, proc)[1:2]:
        with contextlib.suppress(OSError):
            return os.open(f"{proc}/{each}/root{jail.CODEX_HOME}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    return None


def _is_full(home: int | None) -> bool:
    if home is None:
        return False
    told = os.fstatvfs(home)
    return told.f_blocks - told.f_bfree >= FULL * told.f_blocks


def usage(pid: int, proc: Path = Path("/proc")) -> Usage:
    """What the process `pid` and all its descendants use now. What cannot be read, or has just ended, is nothing."""
    tasks, memory = 0, 0
    seen: dict[str, int] = {}
    for each in _family(pid, proc):
        stat = _words(proc / str(each) / "stat")
        tasks += int(stat[17]) if len(stat) > 17 else 0  # num_threads
        size = _text(proc / str(each) / "statm").split()
        if len(size) > 2:
            memory += (int(size[1]) - int(size[2])) * os.sysconf("SC_PAGE_SIZE")  # resident, less what is of files
        with contextlib.suppress(OSError):
            seen.setdefault(str((proc / str(each) / "ns/mnt").readlink()), each)
    ours = {device for device, _ in _tmpfs(proc / "self")}
    filled: dict[str, tuple[int, int]] = {}
    for each in seen.values():
        for device, point in _tmpfs(proc / str(each)):
            if device not in ours and device not in filled:
                filled[device] = _filled(proc / str(each) / "root" / point.lstrip("/"))
    files = sum(count for _, count in filled.values())
    return Usage(tasks, memory + sum(size for size, _ in filled.values()), files * FILE_BYTES)


def _family(pid: int, proc: Path) -> list[int]:
    children: dict[int, list[int]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir(proc):  # noqa: PTH208  (twice a second)
            if name.isdigit():
                stat = _words(proc / name / "stat")
                if len(stat) > 1:
                    children.setdefault(int(stat[1]), []).append(int(name))
    family = [pid]
    for each in family:
        family += children.get(each, [])
    return family


def _tmpfs(process: Path) -> Iterable[tuple[str, str]]:
    """Device and mount point of each tmpfs that a process sees (proc_pid_mountinfo(5))."""
    for line in _text(process / "mountinfo").splitlines():
        mount, _, kind = line.partition(" - ")
        words = mount.split()
        if kind.startswith("tmpfs ") and len(words) > 4:
            yield words[2], words[4]


def _filled(path: Path) -> tuple[int, int]:
    """Bytes and files of the file system that is mounted there."""
    try:
        told = os.statvfs(path)
    except OSError:
        return 0, 0
    return (told.f_blocks - told.f_bfree) * told.f_frsize, told.f_files - told.f_ffree


def _words(stat: Path) -> list[str]:
    """The fields of a `stat` after the name, which may have blanks: state, parent, …"""
    return _text(stat).rpartition(")")[2].split()


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
