"""The pace of writes and the pause after a limit, shared by all processes of one state volume: GitHub counts a token's
requests, not a process's. The loop and a `review --post` beside it, or a restart, keep to them together."""

import os
import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from appliance.flock import try_lock
from appliance.forge.github_limits import MOST_WRITES, Pause, WritePace

POLL_SECONDS = 0.05
_NUMBERS = struct.Struct("<ddd")
MOST = max(most for most, _ in MOST_WRITES)
_TIMES = struct.Struct(f"<{MOST}d")


class SharedPace(WritePace):
    """As WritePace, with the times in the file at `path`, which is locked for as long as a write lasts.

    Where the file cannot be used (a full disk), each process keeps the pace alone.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    @contextmanager
    def turn(self, clock: Callable[[], float], sleep: Callable[[float], None]) -> Iterator[None]:
        with ExitStack() as stack:
            file = self._locked(sleep)
            if file is not None:
                stack.callback(os.close, file)
                self._ended = deque(_read(file), maxlen=self._ended.maxlen)
                stack.callback(lambda: _write(file, list(self._ended)))
            stack.enter_context(super().turn(clock, sleep))
            if file is not None:  # killed while it is written, it counts as written
                _write(file, [*self._ended, clock()])
            yield

    def _locked(self, sleep: Callable[[float], None]) -> int | None:
        with suppress(OSError):
            while (file := try_lock(self._path)) is None:
                sleep(POLL_SECONDS)
            return file
        return None


class SharedPause(Pause):
    """As Pause, kept in the file at `path`: a process that begins while GitHub limits us does not ask it hot."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def begin(self, now: float, seconds: float, *, told: bool) -> float:
        self._load()
        until = super().begin(now, seconds, told=told)
        self._save()
        return until

    def end(self) -> None:
        if self.untold:
            super().end()
            self._save()

    def until(self, now: float) -> float | None:
        self._load()
        return super().until(now)

    def _load(self) -> None:
        with suppress(OSError, struct.error):
            since, until, untold = _NUMBERS.unpack(self._path.read_bytes())
            with self._lock:
                if until >= self._until:
                    self._since, self._until, self.untold = since, until, int(untold)

    def _save(self) -> None:
        with suppress(OSError):
            aside = self._path.with_suffix(".part")
            aside.write_bytes(_NUMBERS.pack(self._since, self._until, self.untold))
            aside.replace(self._path)


def _read(file: int) -> list[float]:
    data = os.pread(file, _TIMES.size, 0)
    return [number for (number,) in struct.iter_unpack("<d", data[: len(data) // 8 * 8]) if number]


def _write(file: int, times: Sequence[float]) -> None:
    """Always all of them, so that nothing of an older list stands behind."""
    newest = list(times)[-MOST:]
    with suppress(OSError):
        os.pwrite(file, _TIMES.pack(*newest, *[0.0] * (MOST - len(newest))), 0)
