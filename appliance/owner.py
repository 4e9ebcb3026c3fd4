"""Who owns what lies about on the disk, and whether it is known to be gone. The table is in `appliance.workdir`."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

LOCAL_FILESYSTEMS = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})

Owner = Literal["gone", "alive", "unknown"]


@dataclass(frozen=True)
class Identity:
    """Who made a directory. None for what could not be read.

    `boot_id` is the kernel's random id of this boot, `pid_ns` names the namespace that `pid` counts in, `start_time`
    is in clock ticks since boot and tells two processes with one pid apart (proc_pid_stat(5), field 22).
    """

    host: str | None = None
    boot_id: str | None = None
    pid_ns: str | None = None
    pid: int | None = None
    start_time: int | None = None


def identity() -> Identity:
    """This process. A probe that is refused (a sandbox may refuse any) leaves its field out and never raises."""
    return Identity(
        host=_attempt(socket.gethostname),
        boot_id=_attempt(lambda: Path("/proc/sys/kernel/random/boot_id").read_text().strip()),
        pid_ns=_attempt(lambda: str(Path("/proc/self/ns/pid").readlink())),
        pid=os.getpid(),
        start_time=_process("self")[1],
    )


def _attempt(probe: Callable[[], str]) -> str | None:
    try:
        return probe() or None
    except (OSError, ValueError):
        return None


def _process(pid: int | str) -> tuple[str | None, int | None]:
    """State letter and start time of a process, each None if it cannot be read."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return after_name[0], int(after_name[19])
    except (OSError, ValueError, IndexError):
        return None, None


def judge(stamp: Identity, ours: Identity, *, local: bool) -> Owner:
    """What is known of the owner of a directory whose lock is free.

    `local`: its filesystem is one that no two machines share.
    """
    scope = (stamp.host, stamp.boot_id, stamp.pid_ns)
    our_scope = (ours.host, ours.boot_id, ours.pid_ns)
    if None in scope or None in our_scope or stamp.host != ours.host:
        return "unknown"
    if scope != our_scope:
        return "gone" if local else "unknown"
    return "unknown" if stamp.pid is None else _judge_pid(stamp.pid, stamp.start_time)


def _judge_pid(pid: int, start_time: int | None) -> Owner:
    if pid <= 0:
        return "unknown"
    try:
        os.kill(pid, 0)  # unlike /proc, which `hidepid` can empty, this tells "absent" from "not yours"
    except ProcessLookupError:
        return "gone"
    except (PermissionError, OverflowError):
        pass
    state, started = _process(pid)
    if state in {"Z", "X"}:  # dead, and not yet waited for
        return "gone"
    if start_time is None or started is None:
        return "unknown"
    return "alive" if started == start_time else "gone"


def filesystem(path: Path) -> str | None:
    """Type of the filesystem that holds `path`, such as `ext4`, or None if it cannot be told."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    best: tuple[int, str] | None = None
    for line in lines:
        mount, _, behind = line.partition(" - ")
        point = Path(_unescape(mount.split(" ")[4]))
        if target.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = len(point.parts), behind.split(" ")[0]  # of two on one point, the later one is on top
    return None if best is None else best[1]


def _unescape(text: str) -> str:
    for code, character in (("040", " "), ("011", "\t"), ("012", "\n"), ("134", "\\")):
        text = text.replace(f"\\{code}", character)
    return text
