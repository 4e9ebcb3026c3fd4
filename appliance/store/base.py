"""What every part of the store has: the engine and the clock."""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import sqlalchemy as sa


class Base:
    """Safe to share among threads; several processes may use one file."""

    def __init__(self, engine: sa.Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock

    def close(self) -> None:
        self._engine.dispose()

    def _write(self) -> AbstractContextManager[sa.Connection]:
        return self._engine.begin()


def standing(table: sa.Table, targets: Iterable[str]) -> sa.Select[Any]:
    """The rows of these targets that no person has asked to forget."""
    return sa.select(table).where(table.c.target.in_(list(targets)), table.c.forgotten_at.is_(None))
