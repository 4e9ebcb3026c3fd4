"""Finished reviews: stored before they are posted."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from appliance.core.findings import Evidence, Finding, Result, Review, Usage
from appliance.core.outcomes import Outcome
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.store.attempts import Attempts
from appliance.tables import reviews


@dataclass(frozen=True)
class StoredReview:
    """A finished review and what became of its posting."""

    id: int
    target: str
    head_sha: str
    base_ref: str
    gate: Gate
    created_at: float
    review: Review | None
    comment_id: str | None
    comment_url: str | None


class Reviews(Attempts):
    """A review ends its attempt in the same step in which it is stored."""

    def finish(self, attempt: int | None, review: Review, gate: Gate) -> int:
        """Store a result before it is posted, and end its attempt, in one step. Returns its id."""
        with self._write() as db:
            stored: int = db.execute(
                reviews.insert()
                .values(
                    attempt=attempt,
                    target=review.target,
                    head_sha=review.head_sha,
                    base_ref=review.base_ref,
                    gate_state=gate.state,
                    gate_description=gate.description,
                    review=json.dumps(asdict(review)),
                    created_at=self._clock(),
                )
                .returning(reviews.c.id)
            ).scalar_one()
            if attempt is not None:
                self._end(db, attempt, Outcome.REVIEWED, "reviewed")
        return stored

    def learn(self, pull: Pull, gate: Gate, comment_id: str, comment_url: str) -> None:
        """Take over a review that the forge has and the database does not."""
        with self._write() as db:
            db.execute(
                reviews.insert().values(
                    target=pull.target,
                    head_sha=pull.head_sha,
                    base_ref=pull.base_ref,
                    gate_state=gate.state,
                    gate_description=gate.description,
                    created_at=self._clock(),
                    delivered_at=self._clock(),
                    comment_id=comment_id,
                    comment_url=comment_url,
                )
            )

    def undelivered(self) -> list[StoredReview]:
        return self._reviews(reviews.c.delivered_at.is_(None), reviews.c.abandoned_at.is_(None))

    def review_of(self, pull: Pull) -> StoredReview | None:
        """The newest review, posted or not, of this head and base that still stands."""
        found = self._reviews(
            reviews.c.target == pull.target,
            reviews.c.head_sha == pull.head_sha,
            reviews.c.base_ref == pull.base_ref,
            reviews.c.abandoned_at.is_(None),
        )
        return found[-1] if found else None

    def _reviews(self, *conditions: sa.ColumnElement[bool]) -> list[StoredReview]:
        query = sa.select(reviews).where(reviews.c.forgotten_at.is_(None), *conditions).order_by(reviews.c.id)
        with self._engine.connect() as db:
            return [_stored(row) for row in db.execute(query)]

    def delivered(self, review: int, comment_id: str, comment_url: str) -> None:
        with self._write() as db:
            db.execute(
                reviews.update()
                .where(reviews.c.id == review)
                .values(delivered_at=self._clock(), comment_id=comment_id, comment_url=comment_url)
            )

    def abandon(self, review: int) -> None:
        """The pull request moved on before the review could be posted: kept as history, never posted."""
        with self._write() as db:
            db.execute(reviews.update().where(reviews.c.id == review).values(abandoned_at=self._clock()))


def _stored(row: Any) -> StoredReview:
    review = load_review(json.loads(row.review)) if row.review else None
    gate = Gate(row.gate_state, row.gate_description)
    return StoredReview(
        row.id, row.target, row.head_sha, row.base_ref, gate, row.created_at, review, row.comment_id, row.comment_url
    )


def load_review(fields: dict[str, Any]) -> Review:
    """The review that `dataclasses.asdict` took apart."""
    result, evidence = dict(fields["result"]), dict(fields["evidence"])
    result["findings"] = tuple(Finding(**finding) for finding in result["findings"])
    for name in ("commands", "failed_commands"):
        evidence[name] = tuple(evidence[name])
    parts = {"result": Result(**result), "evidence": Evidence(**evidence), "usage": Usage(**fields["usage"])}
    return Review(**(fields | parts))
