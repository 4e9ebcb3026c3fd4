"""Locks between processes: `flock` on small files that are never deleted while somebody may wait for them."""

import fcntl
import os
import threading
import time
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
def held(path: Path, *, timeout: float, stop: threading.Event | None = None) -> Iterator[None]:
    """Hold the lock at `path`, waiting up to `timeout` seconds for it.

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
        yield
    finally:
        os.close(descriptor)
