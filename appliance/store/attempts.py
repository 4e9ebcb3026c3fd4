"""Attempts and leases: an attempt that has not ended is a lease."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from appliance import redaction
from appliance.core.outcomes import Outcome
from appliance.core.pulls import Pull
from appliance.store.base import Base
from appliance.tables import attempts, pulls, reviews


@dataclass(frozen=True)
class Tried:
    """One attempt. `outcome` is None while it runs; `review` is the id of what it came to, if that is stored."""

    id: int
    target: str
    head_sha: str
    owner: str
    started_at: float
    outcome: Outcome | None
    reason: str
    review: int | None


class Attempts(Base):
    """One attempt at a time for each pull request: a unique index sees to it."""

    def begin_attempt(self, pull: Pull, owner: str) -> int | None:
        """Claim the pull request for one attempt; None if somebody else has it (a unique index decides)."""
        try:
            with self._write() as db:
                made: int = db.execute(
                    attempts.insert()
                    .values(
                        target=pull.target,
                        head_sha=pull.head_sha,
                        base_ref=pull.base_ref,
                        base_sha=pull.base_sha,
                        owner=owner,
                        started_at=self._clock(),
                    )
                    .returning(attempts.c.id)
                ).scalar_one()
                return made
        except sa.exc.IntegrityError:
            return None

    def running(self, target: str) -> Tried | None:
        """The attempt at `target` (compared without case) that has not ended."""
        same = sa.or_(attempts.c.target == target, sa.func.lower(attempts.c.target) == target.lower())
        return self._tried(same, attempts.c.ended_at.is_(None))

    def tried(self, attempt: int) -> Tried | None:
        return self._tried(attempts.c.id == attempt)

    def _tried(self, *conditions: sa.ColumnElement[bool]) -> Tried | None:
        query = sa.select(attempts, reviews.c.id.label("review"))
        query = query.outerjoin(reviews, reviews.c.attempt == attempts.c.id).where(*conditions)
        with self._engine.connect() as db:
            row: Any = db.execute(query.order_by(attempts.c.id.desc())).first()
        if row is None:
            return None
        outcome = Outcome(row.outcome) if row.outcome else None
        return Tried(row.id, row.target, row.head_sha, row.owner, row.started_at, outcome, row.reason, row.review)

    def end_attempt(self, attempt: int, outcome: Outcome, reason: str) -> None:
        with self._write() as db:
            self._end(db, attempt, outcome, reason)

    def _end(self, db: sa.Connection, attempt: int, outcome: Outcome, reason: str) -> None:
        db.execute(
            attempts.update()
            .where(attempts.c.id == attempt, attempts.c.ended_at.is_(None))
            .values(outcome=outcome.value, reason=redaction.redacted(reason)[:500], ended_at=self._clock())
        )

    def reclaim(self, alive: Callable[[str], bool]) -> list[str]:
        """End the attempts whose owner is gone as interrupted; returns their targets."""
        with self._engine.connect() as db:
            held = db.execute(sa.select(attempts).where(attempts.c.ended_at.is_(None))).all()
        gone = [row for row in held if not alive(row.owner)]
        for row in gone:
            self.end_attempt(row.id, Outcome.INTERRUPTED, "the appliance ended during the review")
        return [row.target for row in gone]

    def forget(self, target: str) -> int:
        """Start over with a pull request: its attempts count no more, its reviews stand no more. Returns how many."""
        with self._write() as db:
            return self._forget(db, target)

    def _forget(self, db: sa.Connection, target: str) -> int:
        now = self._clock()
        changed = 0
        for table in (attempts, reviews):
            done = db.execute(
                table.update().where(table.c.target == target, table.c.forgotten_at.is_(None)).values(forgotten_at=now)
            )
            changed += done.rowcount
        # The clock may have been set back since: what was made by then is older all the same.
        newest = db.execute(sa.select(sa.func.max(reviews.c.created_at)).where(reviews.c.target == target)).scalar()
        after = max(now, newest or 0.0)
        db.execute(pulls.update().where(pulls.c.target == target).values(looked_at="", again_after=after))
        return changed
