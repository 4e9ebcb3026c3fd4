"""Work directories that outlive a crash and are reclaimed only when their owner is known to be gone.

Each directory below the root carries a stamp that says who made it, and the maker holds a lock on that stamp as long
as it lives. What proves that an owner is gone:

| stamp against us                                   | proof of its end, always together with the lock being free  |
|----------------------------------------------------|--------------------------------------------------------------|
| same host, boot and pid namespace                  | its pid is absent, or belongs to a process started later     |
| same host and boot, another pid namespace          | the free lock, if the filesystem is a local one              |
| same host, another boot                            | the same                                                     |
| another host, or any of the three unknown (either) | nothing: it is kept                                          |
| no stamp, or a torn one                            | a day of age                                                 |

A free lock alone is no proof on a network filesystem: there it may be kept by the client only, and two machines of
one name would delete each other's live directories. On a local filesystem one kernel keeps all locks, so that a
container that was killed and started again (same kernel, new pid namespace) gets its directories back.
"""

import fcntl
import json
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path

from appliance.flock import OwnerLocks
from appliance.owner import LOCAL_FILESYSTEMS, Identity, filesystem, identity, judge

__all__ = ["Identity", "OwnerLocks", "WorkDirs", "identity"]

STAMP = "owner.json"
CONTENT = "content"
UNSTAMPED_SECONDS = 24 * 3600.0
log = logging.getLogger(__name__)


class WorkDirs:
    """The work directories below `root`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextmanager
    def new(self, prefix: str) -> Iterator[Path]:
        """An empty directory for this process, removed at the end. The stamp lies beside it, out of a jail's reach.

        Raises OSError if it cannot be made.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        outer = Path(tempfile.mkdtemp(prefix=prefix, dir=self._root))
        lock = _stamp(outer)
        try:
            content = outer / CONTENT
            content.mkdir(mode=0o700)
            yield content
        finally:
            try:
                _remove(self._root, outer.name)
            except OSError as error:  # reclaimed later; the review that ends here has its result
                log.warning("work directory %s cannot be removed: %s", outer, error)
            os.close(lock)

    def reclaim(self) -> list[Path]:
        """Remove the directories whose owner is known to be gone, and return them. One that resists is left alone."""
        if not self._root.is_dir():
            return []
        ours = identity()
        local = filesystem(self._root) in LOCAL_FILESYSTEMS
        with os.scandir(self._root) as entries:  # a symlink is no directory of ours, whatever it points to
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return [self._root / name for name in names if self._reclaim(name, ours, local=local)]

    def _reclaim(self, name: str, ours: Identity, *, local: bool) -> bool:
        outer = self._root / name
        try:
            lock = _lock(outer / STAMP)
        except FileNotFoundError:
            lock = None
        except OSError:
            return False  # held, or nothing that can be locked
        try:
            stamp = _read(lock)
            gone = _is_old(outer) if stamp is None else judge(stamp, ours, local=local) == "gone"
            if gone:
                _remove(self._root, name)
        except FileNotFoundError:
            return False  # somebody else was first
        except OSError as error:
            log.warning("work directory %s cannot be reclaimed: %s", outer, error)
            return False
        finally:
            if lock is not None:
                os.close(lock)
        return gone


def _stamp(outer: Path) -> int:
    """Write the stamp and return the descriptor that holds its lock; both appear at once, by a rename."""
    aside = outer / f".{STAMP}"
    lock = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # a filesystem without locks: the stamp still says who
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    known = {name: value for name, value in asdict(identity()).items() if value is not None}
    os.write(lock, json.dumps(known).encode())
    aside.rename(outer / STAMP)
    return lock


def _lock(path: Path) -> int:
    """Take the lock of a stamp and return its descriptor; raises OSError if it is held or cannot be locked."""
    lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(lock).st_mode):
            raise OSError(f"{path} is no file")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # NFS turns a client's flock into a POSIX lock on the server (nfs(5)), and these two do not see each other
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _read(lock: int | None) -> Identity | None:
    """The stamp behind a descriptor, or None if there is none or it is torn."""
    if lock is None:
        return None
    try:
        found = json.loads(os.pread(lock, 65536, 0))
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    known = {field.name: found[field.name] for field in fields(Identity) if found.get(field.name) is not None}
    numbers = {"pid", "start_time"}
    if any(type(value) is not (int if name in numbers else str) for name, value in known.items()):
        return None
    return Identity(**known)


def _is_old(path: Path) -> bool:
    return time.time() - path.stat(follow_symlinks=False).st_mtime > UNSTAMPED_SECONDS


def _remove(root: Path, name: str) -> None:
    """Delete the directory `name` in `root`; links in it are deleted, never followed."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _, directories, _, here in os.fwalk(name, dir_fd=handle, follow_symlinks=False):
            for directory in directories:  # one without rights could not be emptied
                mode = os.stat(directory, dir_fd=here, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                    os.chmod(directory, 0o700, dir_fd=here)
        shutil.rmtree(name, dir_fd=handle)
    finally:
        os.close(handle)
