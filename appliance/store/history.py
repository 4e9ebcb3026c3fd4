"""What was tried and what came of it, for people who look back."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from appliance.core.outcomes import RULES, Outcome
from appliance.store.base import Base
from appliance.store.reviews import StoredReview, stored_of
from appliance.tables import attempts, reviews


@dataclass(frozen=True)
class Past:
    """One attempt, or a review without one (learnt from the forge, or taken up later).

    `review` is the id of its review, None if it came to none. `outcome` is "running" for one that has not ended.
    `counts`: it uses up an attempt of its head and base. `findings` and `tokens` are None where no text is stored.
    `dismissed`: path, title, who and reason of each finding that people dismissed.
    """

    at: float
    target: str
    head_sha: str
    review: int | None
    outcome: str
    reason: str
    counts: bool
    findings: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    comment_url: str | None = None
    dismissed: tuple[Mapping[str, str], ...] = ()


class History(Base):
    """Forgotten attempts and abandoned reviews too: they happened."""

    def history(self, target: str | None = None, limit: int = 0) -> list[Past]:
        """The newest first; of all targets if none is named (compared without case), all of it if `limit` is 0."""
        tried, done = sa.select(attempts), sa.select(reviews)
        if target is not None:
            tried = tried.where(sa.func.lower(attempts.c.target) == target.lower())
            done = done.where(sa.func.lower(reviews.c.target) == target.lower())
        with self._engine.connect() as db:
            found = db.execute(done.order_by(reviews.c.id)).all()
            of_attempt = {row.attempt: row for row in found if row.attempt is not None}
            rows = [_past(row, of_attempt.pop(row.id, None)) for row in db.execute(tried)]
        rows += [_past(None, row) for row in found if row.attempt is None or row.attempt in of_attempt]
        rows.sort(key=lambda past: past.at, reverse=True)
        return rows[:limit] if limit else rows

    def any_review(self, review: int) -> StoredReview | None:
        """One by its id, forgotten and abandoned ones too."""
        with self._engine.connect() as db:
            row = db.execute(sa.select(reviews).where(reviews.c.id == review)).one_or_none()
        return stored_of(row) if row else None


def _past(tried: Any, done: Any) -> Past:
    of = tried if tried is not None else done
    at = (tried.ended_at or tried.started_at) if tried is not None else done.created_at
    outcome = Outcome.REVIEWED.value if tried is None else tried.outcome or "running"
    counts = of.forgotten_at is None and outcome != "running" and RULES[Outcome(outcome)].counts
    if done is None:
        return Past(at, of.target, of.head_sha, None, outcome, of.reason, counts)
    told = json.loads(done.review) if done.review else None
    usage = told["usage"] if told else {}
    return Past(
        at,
        of.target,
        of.head_sha,
        done.id,
        outcome,
        done.gate_description,
        counts,
        len(told["result"]["findings"]) if told else None,
        usage["input_tokens"] + usage["output_tokens"] if told else None,
        told["seconds"] if told else None,
        done.comment_url,
        _dismissed(told.get("earlier", ())) if told else (),
    )


def _dismissed(earlier: Iterable[Mapping[str, str]]) -> tuple[Mapping[str, str], ...]:
    names = ("path", "title", "who", "reason")
    return tuple({name: one[name] for name in names} for one in earlier if one["state"] == "dismissed")
