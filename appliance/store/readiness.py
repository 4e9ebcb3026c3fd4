"""What the rules of readiness ask of the database."""

from collections.abc import Sequence

import sqlalchemy as sa

from appliance.core.moments import midnight, next_day
from appliance.core.outcomes import RULES, Outcome
from appliance.core.pulls import Pull
from appliance.core.readiness import Standing, author_of
from appliance.store.base import Base
from appliance.tables import attempts, pulls

COUNTING = [outcome.value for outcome in Outcome if RULES[outcome].counts]


class Readiness(Base):
    """Since when each waits, whether it is paused or asked for, and how much its author has had today."""

    def standings(self, listed: Sequence[Pull]) -> dict[str, Standing]:
        """By target. Reviews that ended in a fault are not the author's, and count for nobody."""
        by_author = self._reviews_by_author()
        columns = (
            pulls.c.target,
            pulls.c.head_sha,
            pulls.c.ready_since,
            pulls.c.head_seen_at,
            pulls.c.asked_head,
            pulls.c.paused_at,
            pulls.c.paused_by,
        )
        with self._engine.connect() as db:
            rows = {row.target: row for row in db.execute(sa.select(*columns).where(pulls.c.open))}
        found = {}
        for pull in listed:
            used = by_author.get(author_of(pull), 0)
            row = rows.get(pull.target)
            if row is None:
                found[pull.target] = Standing(author_reviews=used)
                continue
            found[pull.target] = Standing(
                waiting_since=row.ready_since,
                head_seen_at=row.head_seen_at if row.head_sha == pull.head_sha else None,
                asked=row.asked_head == pull.head_sha,
                paused_by=(row.paused_by or "somebody") if row.paused_at is not None else "",
                author_reviews=used,
            )
        return found

    def _reviews_by_author(self) -> dict[str, int]:
        """Reviews that began today (UTC), asked for again or not, and run or count."""
        now = self._clock()
        today = attempts.c.started_at.between(midnight(now), next_day(now) - 1e-6)
        counts = attempts.c.ended_at.is_(None) | attempts.c.outcome.in_(COUNTING)
        query = sa.select(pulls.c.author).join(attempts, attempts.c.target == pulls.c.target).where(today, counts)
        found: dict[str, int] = {}
        with self._engine.connect() as db:
            for author in db.execute(query).scalars():
                name = author.casefold()
                found[name] = found.get(name, 0) + 1
        return found
