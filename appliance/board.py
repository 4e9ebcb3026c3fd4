"""What each review that runs does now, for `review --watch`: a small file for each target in the run directory.

The database knows which review runs (an attempt that has not ended); this only says how far it is. So a file that is
missing, torn or forged makes the news unknown, and nothing else. It is replaced by rename and removed at the end; what
a dead process left is swept away by the next one that begins a review.
"""

import hashlib
import json
import math
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import structlog

from appliance import redaction
from appliance.core.steps import MOST, Step, clean

log = structlog.get_logger()

FOLDER = "reviewing"
MAX_BYTES = 16384  # the longest has 12,000, each character as two escapes
MAX_FILES = 1000  # that a sweep looks at
_WHOLE = (1 << 53) - 1  # what JSON's readers agree on


@dataclass(frozen=True)
class News:
    """How far a review is. `attempt` is its number in the database and `owner` the id of its process (`OwnerLocks`);
    it is try `number` of at most `most`. Times are seconds of the epoch."""

    target: str
    attempt: int
    owner: str
    pid: int
    number: int
    most: int
    began: float
    phase: str = ""
    phase_since: float = 0.0
    command: str = ""
    tokens: int = 0

    @property
    def step(self) -> Step:
        return Step(self.phase, self.command, self.tokens)


class Unreadable(Exception):
    """There is something, and it is not what we write; the message says why."""


@dataclass(frozen=True)
class Board:
    """In the folder `run_dir`/FOLDER, which is ours alone; None: nothing is written, and nothing is there."""

    run_dir: Path | None
    alive: Callable[[str], bool] = lambda _: True
    clock: Callable[[], float] = time.time

    @contextmanager
    def shown(self, target: str, attempt: int, owner: str, number: int, most: int) -> Iterator[Callable[[Step], None]]:
        """Show how far this attempt is, as told to what this gives; no more at the end. Never raises of itself."""
        now = self.clock()
        said, name = redaction.say(target)[:MOST], _name(target)
        news = News(said, attempt, owner, os.getpid(), number, most, now, "starting", now)
        self._sweep()
        self._write(name, news)
        last, since = Step(news.phase), now

        def tell(step: Step) -> None:
            nonlocal last, since
            before, last = last, clean(step, redaction.say).after(last)
            since = self.clock() if last.phase != before.phase else since
            if last != before:
                told = {"phase": last.phase or "", "command": last.command or "", "tokens": last.tokens or 0}
                self._write(name, News(**{**asdict(news), **told, "phase_since": since}))

        try:
            yield tell
        finally:
            self._remove(name, news)

    def read(self, target: str) -> News | None:
        """None if nothing is shown. Raises Unreadable."""
        try:
            with self._folder() as folder:
                return None if folder is None else _read(folder, _name(target))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Unreadable(error.strerror or str(error)) from error

    def _write(self, name: str, news: News) -> None:
        new = f".{name}.{os.getpid()}"
        try:
            with self._folder(make=True) as folder:
                if folder is None:
                    return
                with suppress(FileNotFoundError):
                    os.unlink(new, dir_fd=folder)  # of a process that was killed
                file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
                try:
                    os.write(file, json.dumps(asdict(news)).encode())
                finally:
                    os.close(file)
                os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError as error:
            log.debug("progress.unwritten", target=news.target, error=str(error))

    def _remove(self, name: str, news: News) -> None:
        """Only what is of this attempt: a person's `retry` may have let another process begin the next."""
        with suppress(OSError, Unreadable), self._folder() as folder:
            if folder is not None:
                found = _read(folder, name)
                if (found.attempt, found.owner) == (news.attempt, news.owner):
                    os.unlink(name, dir_fd=folder)

    def _sweep(self) -> None:
        with suppress(OSError), self._folder() as folder:
            names = os.listdir(folder)[:MAX_FILES] if folder is not None else []  # noqa: PTH208  (of a descriptor)
            for name in names:
                try:
                    gone = not self.alive(_read(folder or 0, name).owner)
                except (OSError, Unreadable):
                    gone = False  # half of a rename, or nothing of ours
                if gone:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=folder)

    @contextmanager
    def _folder(self, *, make: bool = False) -> Iterator[int | None]:
        """Its descriptor, so that nobody changes in between what the path leads to. Raises OSError, also for one that
        is a link or another user's: the run directory may be everybody's, as /tmp is."""
        if self.run_dir is None:
            yield None
            return
        path = self.run_dir / FOLDER
        if make:
            with suppress(FileExistsError):
                path.mkdir(mode=0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if os.fstat(folder).st_uid != os.geteuid():
                raise PermissionError(1, f"{path} belongs to another user")
            yield folder
        finally:
            os.close(folder)


def _name(target: str) -> str:
    return f"{hashlib.sha256(target.casefold().encode('utf-8', 'backslashreplace')).hexdigest()[:32]}.json"


def _read(folder: int, name: str) -> News:
    """Raises OSError, and Unreadable for what we did not write."""
    file = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise Unreadable("it is no file of ours")
        read = os.read(file, MAX_BYTES + 1)
    finally:
        os.close(file)
    if len(read) > MAX_BYTES:
        raise Unreadable("it is too large")
    try:
        told = json.loads(read)
    except (ValueError, RecursionError) as error:
        raise Unreadable("it is no JSON") from error
    return _news(told)


def _news(told: Any) -> News:
    """Field by field: what it says is printed, compared and counted with."""
    if not isinstance(told, dict):
        raise Unreadable("it is no object")
    values: dict[str, Any] = {}
    for field in fields(News):
        value: Any = told.get(field.name)
        if field.type is float and type(value) is int:
            value = float(value)
        if type(value) is not field.type:
            raise Unreadable(f"{field.name} is missing or of another kind")
        if isinstance(value, float) and not math.isfinite(value):
            raise Unreadable(f"{field.name} is no number")
        if not isinstance(value, str) and not 0 <= value <= _WHOLE:
            raise Unreadable(f"{field.name} is out of bounds")
        values[field.name] = value
    return News(**values)
