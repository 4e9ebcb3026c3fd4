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
container that was killed and started again (same kernel, new pid namespace) gets its directories back. The number of a
pid namespace may be given to a later one; then the earlier, of the same boot, has ended with all its processes.
"""

import fcntl
import json
import logging
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from appliance.flock import OwnerLocks
from appliance.owner import LOCAL_FILESYSTEMS, Identity, filesystem, identity, judge

__all__ = ["Identity", "OwnerLocks", "WorkDirs", "identity"]

STAMP = "owner.json"
CONTENT = "content"
ROOM = ".result.json"  # set aside for a result
RESULT = "result.json"  # its owner means to store it elsewhere
LEFT = "left.json"  # its owner could not, and has gone on: whoever comes may
ROOM_BYTES = 256 * 1024  # a review has some ten thousand
UNSTAMPED_SECONDS = 24 * 3600.0
log = logging.getLogger(__name__)


class WorkDirs:
    """The work directories below `root`.

    `new` lends one, `reclaim` removes those of the dead. A result that is worth money is put into its directory with
    `save`: from then on the directory stays, whoever ends, until `settle` says that the result is stored elsewhere, or
    until `reclaim` has handed it to somebody who stored it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextmanager
    def new(self, prefix: str) -> Iterator[Path]:
        """An empty directory for this process, removed at the end. The stamp lies beside it, out of a jail's reach.

        One with a result that was not settled is left for `reclaim`. Raises OSError if it cannot be made.
        """
        self._root.mkdir(parents=True, exist_ok=True)
        outer = Path(tempfile.mkdtemp(prefix=prefix, dir=self._root))
        try:
            lock = _stamp(outer)
        except OSError:
            shutil.rmtree(outer, ignore_errors=True)
            raise
        try:
            content = outer / CONTENT
            content.mkdir(mode=0o700)
            yield content
        finally:
            try:
                if not _leave(outer):
                    _remove(self._root, outer.name)
            except OSError as error:  # reclaimed later; the review that ends here has its result
                log.warning("work directory %s cannot be removed: %s", outer, error)
            os.close(lock)

    def reserve(self, work: Path) -> None:
        """Set room aside for a result, so that a disk that fills up meanwhile does not cost it.

        Raises OSError if there is no room now.
        """
        with _opened(work.parent / ROOM) as room:
            os.posix_fallocate(room, 0, ROOM_BYTES)

    def save(self, work: Path, result: Mapping[str, object]) -> None:
        """Put `result`, to be written as JSON, beside the directory `work` that `new` lent; it survives any crash.

        Raises OSError; then there is no result, and never half of one.
        """
        outer = work.parent
        with _opened(outer / ROOM) as room:
            left = memoryview(json.dumps(result).encode())
            os.ftruncate(room, max(len(left), os.fstat(room).st_size))
            while left:
                left = left[os.write(room, left) :]
            os.ftruncate(room, os.lseek(room, 0, os.SEEK_CUR))
            os.fsync(room)
        (outer / ROOM).rename(outer / RESULT)
        for directory in (outer, self._root):
            _sync(directory)

    def settle(self, work: Path) -> None:
        """The result of `work` is stored where it belongs: the directory may go. Raises OSError."""
        (work.parent / RESULT).unlink(missing_ok=True)

    def reclaim(self, adopt: Callable[[Any], bool] | None = None) -> list[Path]:
        """Remove the directories whose owner is known to be gone, and return them. One that resists is left alone.

        One with a result is removed only after `adopt` was given the result and returned True: it is stored, or it is
        decided that nobody wants it. `adopt` raises ValueError for what is no result, which is kept too; whatever else
        it raises ends the reclaiming. It runs under the directory's lock, so that no two get one result.
        """
        if not self._root.is_dir():
            return []
        ours = identity()
        local = filesystem(self._root) in LOCAL_FILESYSTEMS
        with os.scandir(self._root) as entries:  # a symlink is no directory of ours, whatever it points to
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return [self._root / name for name in names if self._reclaim(name, ours, adopt, local=local)]

    def _reclaim(self, name: str, ours: Identity, adopt: Callable[[Any], bool] | None, *, local: bool) -> bool:
        outer = self._root / name
        try:
            lock = _lock(outer / STAMP)
        except FileNotFoundError:
            lock = None
        except OSError:
            return False  # held, or nothing that can be locked
        try:
            gone = _is_gone(outer, _read(lock), ours, local=local) and _has_no_result(outer, adopt)
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


def _is_gone(outer: Path, stamp: Identity | None, ours: Identity, *, local: bool) -> bool:
    """Whether nobody works here any more, for all that is known."""
    if (outer / LEFT).is_file():  # the owner itself said so, and its lock is free
        return True
    return _is_old(outer) if stamp is None else judge(stamp, ours, local=local) == "gone"


def _leave(outer: Path) -> bool:
    """Give up a directory that holds a result: whoever reclaims next may take it. False if it holds none."""
    try:
        (outer / RESULT).rename(outer / LEFT)  # needs no room, even on a full disk
    except FileNotFoundError:
        return False
    return True


def _has_no_result(outer: Path, adopt: Callable[[Any], bool] | None) -> bool:
    """True if there is none, or none that is still wanted."""
    for name in (RESULT, LEFT):
        if not os.path.lexists(outer / name):
            continue
        if adopt is None:
            return False
        try:
            if not adopt(json.loads(_content(outer / name))):
                return False
        except ValueError as error:
            log.warning("the result in work directory %s cannot be read, it is kept: %s", outer, error)
            return False
    return True


def _content(path: Path) -> bytes:
    """Of a file that is one; raises OSError for a link, and ValueError for anything else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path} is no file")
        return file.read()


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _stamp(outer: Path) -> int:
    """Write the stamp and return the descriptor that holds its lock; both appear at once, by a rename."""
    aside = outer / f".{STAMP}"
    lock = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # a filesystem without locks: the stamp still says who
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    known = {name: value for name, value in asdict(identity()).items() if value is not None}
    try:
        os.write(lock, json.dumps(known).encode())
        aside.rename(outer / STAMP)
    except OSError:
        os.close(lock)
        raise
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
    """Delete the directory `name` in `root`; links in it are deleted, never followed.

    What says whose it is goes last: so whatever is left, when something resists or we are killed, is taken up again.
    """
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for _, directories, _, here in os.fwalk(name, dir_fd=handle, follow_symlinks=False):
            for directory in directories:  # one without rights could not be emptied
                mode = os.stat(directory, dir_fd=here, follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                    os.chmod(directory, 0o700, dir_fd=here)
        entries = [path.name for path in (root / name).iterdir()]
        for entry in sorted(entries, key=lambda entry: (entry == STAMP, entry == LEFT)):
            _delete(f"{name}/{entry}", handle)
        os.rmdir(name, dir_fd=handle)
    finally:
        os.close(handle)


def _delete(name: str, root: int) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=root, follow_symlinks=False).st_mode):
        shutil.rmtree(name, dir_fd=root)
    else:
        os.unlink(name, dir_fd=root)
