"""Locks between processes: `flock` on small files that are never deleted while somebody may wait for them."""

import fcntl
import os
import re
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appliance.process import Stopped

POLL_SECONDS = 0.05


def try_lock(path: Path) -> int | None:
    """Take the lock at `path` (made if missing) and return its descriptor, or None if somebody holds it.

    Closing the descriptor gives the lock back, and so does the end of the process, whatever ends it. Programs that
    are started do not inherit it. Raises OSError if the file cannot be made or its filesystem has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def held(path: Path, *, timeout: float, stop: threading.Event | None = None) -> Iterator[int]:
    """Hold the lock at `path`, waiting up to `timeout` seconds for it; gives its descriptor.

    Raises TimeoutError, or Stopped if `stop` is set meanwhile.
    """
    deadline = time.monotonic() + timeout
    while (descriptor := try_lock(path)) is None:
        if stop is not None and stop.is_set():
            raise Stopped(f"stopped while waiting for {path}")
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{path} is held by another process for more than {timeout:.0f} s")
        time.sleep(POLL_SECONDS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class OwnerLocks:
    """Which processes live: each holds a lock on a file of its own below `root` for as long as it does.

    All of them have to share `root` on one machine: the kernel keeps the locks, and gives them back whatever ends a
    process. An owner of another machine is unknown here, and so counts as gone.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._guard = threading.Lock()
        self._mine: tuple[str, int] | None = None
        _every.add(self)

    def mine(self) -> str:
        """The id of this process, the same at every call and another one after a fork. Raises OSError."""
        with self._guard:
            if self._mine is None:
                self._sweep()
                owner = f"{os.getpid()}-{os.urandom(16).hex()}"  # not `uuid`: its import dies where uname is refused
                aside = self._root / f".{owner}"  # locked before anybody can see it
                lock = try_lock(aside)
                assert lock is not None
                aside.rename(self._root / owner)
                self._mine = owner, lock
            return self._mine[0]

    def alive(self, owner: str) -> bool:
        """False if the process with this id is known to be gone: its lock can be taken, or its file is missing.

        Raises OSError if the file cannot be opened for another reason.
        """
        if not _OWNER.match(owner):
            return False  # no id that we ever gave, and never a path
        try:
            lock = os.open(self._root / owner, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two who ask do not see each other
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
        return False

    def _sweep(self) -> None:
        """Remove the files of processes that are gone; a missing file means the same."""
        self._root.mkdir(parents=True, exist_ok=True)
        for path in self._root.iterdir():
            if _OWNER.match(path.name) and not self.alive(path.name):
                path.unlink(missing_ok=True)

    def _forget(self) -> None:
        """In a forked child: the id stays the parent's. Closing our descriptor does not give its lock back."""
        self._guard = threading.Lock()  # another thread of the parent may have held it
        if self._mine is not None:
            os.close(self._mine[1])
            self._mine = None


def _forget_all() -> None:
    for locks in list(_every):
        locks._forget()


_OWNER = re.compile(r"[0-9]+-[0-9a-f]{32}\Z")
_every: "weakref.WeakSet[OwnerLocks]" = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_all)
