"""Tokens used by day, of all repositories and processes together."""

from typing import Any

import sqlalchemy as sa

from appliance.core.budget import Spent
from appliance.core.moments import day_of
from appliance.store.base import Base
from appliance.tables import spending


class Spending(Base):
    """What is set aside for a request counts until it is known what the request took (`meter.Ledger`)."""

    def take(self, tokens: int, limit: int) -> str | None:
        """Count `tokens` as used today and return the day; None if they do not fit into `limit` (0 is none).

        One statement decides, so that of two processes never both get what is left for one.
        """
        day = day_of(self._clock())
        fits = spending.c.tokens + tokens <= limit if limit else sa.true()
        more = {"tokens": spending.c.tokens + tokens}
        with self._write() as db:
            if _changed(db, spending.update().where(spending.c.day == day, fits).values(**more)):
                return day
            marked = spending.update().where(spending.c.day == day, spending.c.refused_under < limit)
            if _changed(db, marked.values(refused_under=limit)) or _exists(db, day):
                return None
            fresh = limit == 0 or tokens <= limit
            values = {"tokens": tokens} if fresh else {"tokens": 0, "refused_under": limit}
            db.execute(spending.insert().values(day=day, **values))
            return day if fresh else None

    def settle(self, day: str, change: int) -> None:
        with self._write() as db:
            db.execute(spending.update().where(spending.c.day == day).values(tokens=spending.c.tokens + change))

    def spent(self) -> Spent:
        """What was used today."""
        day = day_of(self._clock())
        with self._engine.connect() as db:
            row = db.execute(sa.select(spending).where(spending.c.day == day)).one_or_none()
        return Spent(day, row.tokens, row.refused_under) if row else Spent(day)


def _changed(db: sa.Connection, change: sa.Update) -> bool:
    return bool(db.execute(change).rowcount)


def _exists(db: sa.Connection, day: str) -> Any:
    return db.execute(sa.select(sa.literal(1)).where(spending.c.day == day)).scalar_one_or_none()
