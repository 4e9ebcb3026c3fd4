"""What every part of the store has: the engine and the clock."""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import sqlalchemy as sa


class Base:
    """Safe to share among threads; several processes may use one file."""

    def __init__(self, engine: sa.Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock
        self._opened = _file(engine)

    def close(self) -> None:
        self._engine.dispose()

    def gone(self) -> bool:
        """Whether the file at the path is no longer the one that was opened. Raises OSError."""
        return _file(self._engine) != self._opened

    def _write(self) -> AbstractContextManager[sa.Connection]:
        return self._engine.begin()


def _file(engine: sa.Engine) -> tuple[int, int] | None:
    try:
        found = Path(engine.url.database or "").stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def standing(table: sa.Table, targets: Iterable[str]) -> sa.Select[Any]:
    """The rows of these targets that no person has asked to forget."""
    return sa.select(table).where(table.c.target.in_(list(targets)), table.c.forgotten_at.is_(None))
