"""Finished reviews: stored before they are posted."""

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

import sqlalchemy as sa

from appliance import redaction
from appliance.core.findings import (
    Configuration,
    Coverage,
    EarlierAnswer,
    EarlierFinding,
    Evidence,
    Finding,
    InlineAnchor,
    NotSeen,
    Result,
    Review,
    Usage,
)
from appliance.core.identity import Identity
from appliance.core.outcomes import Outcome
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.store.attempts import Attempts
from appliance.store.outbox import add_review, sent_all
from appliance.tables import attempts, pulls, reviews

Adopted = Literal["stored", "known", "forgotten", "later"]


@dataclass(frozen=True)
class StoredReview:
    """A finished review and what became of its posting. `revision` counts what people decided about it since."""

    id: int
    target: str
    head_sha: str
    base_ref: str
    gate: Gate
    created_at: float
    review: Review | None
    comment_id: str | None
    comment_url: str | None
    identity: Identity
    revision: int = 0


class Reviews(Attempts):
    """A review ends its attempt in the same step in which it is stored."""

    def finish(self, attempt: int | None, review: Review, gate: Gate, at: float | None = None) -> int:
        """Store a result before it is posted, and end its attempt, in one step. Returns its id.

        `at` is when it was made, now if it is not said: with head and base it tells one review from another.
        """
        with self._write() as db:
            stored = self._insert(db, attempt, review, gate, self._clock() if at is None else at)
            if attempt is not None:
                self._end(db, attempt, Outcome.REVIEWED, "reviewed")
        return stored

    def moment(self, target: str) -> float:
        """Now, for a review that is made now: later than all of the pull request, also if the clock was set back."""
        with self._engine.connect() as db:
            made = db.execute(sa.select(sa.func.max(reviews.c.created_at)).where(reviews.c.target == target)).scalar()
            again = db.execute(sa.select(pulls.c.again_after).where(pulls.c.target == target)).scalar()
        return max(self._clock(), *(at + 0.001 for at in (made or 0.0, again or 0.0)))

    def ever_posted(self) -> bool:
        """Whether some review became a comment of ours, forgotten ones too."""
        posted = sa.select(reviews.c.id).where(reviews.c.comment_id.is_not(None)).limit(1)
        with self._engine.connect() as db:
            return db.execute(posted).first() is not None

    def adopt(self, attempt: int, owner: str, review: Review, gate: Gate, at: float) -> Adopted:
        """Store the result of `attempt`, which a process left behind that ended, or that could not store it.

        However often it is asked, and whatever that process did itself: one result is stored once, and none beside a
        review of the same head and base that stands. "later" while somebody else reviews the pull request.
        """
        ours = (attempts.c.id == attempt, attempts.c.owner == owner, attempts.c.target == review.target)
        with self._write() as db:
            # A write first: it takes the database's lock, so that what is read here stays true until the end.
            known = db.execute(attempts.update().where(*ours).values(owner=owner)).rowcount == 1
            of_it = sa.select(reviews.c.id).where(
                reviews.c.target == review.target,
                reviews.c.head_sha == review.head_sha,
                reviews.c.base_ref == review.base_ref,
                sa.or_(reviews.c.created_at == at, reviews.c.abandoned_at.is_(None) & reviews.c.forgotten_at.is_(None)),
            )
            if db.execute(of_it).first():
                return "known"
            again = sa.select(pulls.c.again_after).where(pulls.c.target == review.target)
            if (db.execute(again).scalar() or 0.0) > at:  # a person has asked for another since
                return "forgotten"
            leased = sa.select(attempts.c.id).where(
                attempts.c.target == review.target, attempts.c.ended_at.is_(None), attempts.c.id != attempt
            )
            if db.execute(leased).first():
                return "later"
            self._insert(db, attempt if known else None, review, gate, at)
            if known:
                db.execute(
                    attempts.update()
                    .where(*ours)
                    .values(outcome=Outcome.REVIEWED.value, reason="reviewed", ended_at=self._clock())
                )
        return "stored"

    def _insert(self, db: sa.Connection, attempt: int | None, review: Review, gate: Gate, at: float) -> int:
        made: int = db.execute(
            reviews.insert()
            .values(
                attempt=attempt,
                target=review.target,
                head_sha=review.head_sha,
                base_ref=review.base_ref,
                base_sha=review.base_sha,
                merge_base=review.merge_base,
                digest=review.configuration.digest,
                gate_state=gate.state,
                gate_description=gate.description,
                review=json.dumps(asdict(redaction.review(review))),
                created_at=at,
            )
            .returning(reviews.c.id)
        ).scalar_one()
        add_review(db, review.target, made, self._clock(), known=attempt is not None)
        return made

    def learn(self, pull: Pull, identity: Identity, gate: Gate, comment_id: str, comment_url: str) -> None:
        """Take over a review that the forge has and the database does not; `identity` is of this head and base."""
        with self._write() as db:
            db.execute(
                reviews.insert().values(
                    target=pull.target,
                    head_sha=pull.head_sha,
                    base_ref=pull.base_ref,
                    base_sha=identity.base_sha,
                    merge_base=identity.merge_base,
                    digest=identity.digest,
                    gate_state=gate.state,
                    gate_description=gate.description,
                    created_at=self._clock(),
                    delivered_at=self._clock(),
                    comment_id=comment_id,
                    comment_url=comment_url,
                )
            )

    def rounds(self, stored: StoredReview) -> int:
        """How many reviews of the same pull request were delivered before this one."""
        query = sa.select(sa.func.count()).where(
            reviews.c.target == stored.target, reviews.c.delivered_at.is_not(None), reviews.c.id < stored.id
        )
        with self._engine.connect() as db:
            return int(db.execute(query).scalar_one())

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
            return [stored_of(row) for row in db.execute(query)]

    def review(self, review: int) -> StoredReview | None:
        """One that stands or was abandoned; None if a person had it forgotten."""
        found = self._reviews(reviews.c.id == review)
        return found[0] if found else None

    def delivered(self, review: int, comment_id: str, comment_url: str) -> None:
        """It is posted as a whole: comment and gate wait no more."""
        with self._write() as db:
            sent_all(db, review, self._clock())
            db.execute(
                reviews.update()
                .where(reviews.c.id == review)
                .values(delivered_at=self._clock(), comment_id=comment_id, comment_url=comment_url)
            )

    def stale(self, review: int, reason: str) -> None:
        """The review holds no longer, though head and base branch are the same: start over, as `forget` does."""
        with self._write() as db:
            one = reviews.c.id == review
            db.execute(reviews.update().where(one).values(stale_at=self._clock(), stale_reason=reason[:500]))
            target = db.execute(sa.select(reviews.c.target).where(one)).scalar_one()
            self._forget(db, target)

    def abandon(self, review: int) -> None:
        """The pull request moved on before the review could be posted: kept as history, never posted."""
        with self._write() as db:
            db.execute(reviews.update().where(reviews.c.id == review).values(abandoned_at=self._clock()))


def stored_of(row: Any) -> StoredReview:
    review = load_review(json.loads(row.review)) if row.review else None
    gate = Gate(row.gate_state, row.gate_description)
    return StoredReview(
        id=row.id,
        target=row.target,
        head_sha=row.head_sha,
        base_ref=row.base_ref,
        gate=gate,
        created_at=row.created_at,
        review=review,
        comment_id=row.comment_id,
        comment_url=row.comment_url,
        identity=_identity(row, review),
        revision=row.revision,
    )


def _identity(row: Any, review: Review | None) -> Identity:
    if review is not None:  # rows of an earlier version have it nowhere else
        parts = (review.base_sha, review.merge_base, review.configuration.digest)
    else:
        parts = (row.base_sha, row.merge_base, row.digest)
    return Identity(row.head_sha, row.base_ref, *parts)


def load_review(fields: dict[str, Any]) -> Review:
    """The review that `dataclasses.asdict` took apart."""
    result, evidence = dict(fields["result"]), dict(fields["evidence"])
    result["findings"] = tuple(_finding(finding) for finding in result["findings"])
    result["earlier"] = tuple(EarlierAnswer(**answer) for answer in result.get("earlier", ()))
    for name in ("commands", "failed_commands"):
        evidence[name] = tuple(evidence[name])
    parts = {
        "result": Result(**result),
        "evidence": Evidence(**evidence),
        "usage": Usage(**fields["usage"]),
        # the first version had none of these
        "configuration": _held(fields.get("configuration") or {}),
        "coverage": _coverage(fields.get("coverage") or {}),
        "earlier": tuple(EarlierFinding(**finding) for finding in fields.get("earlier", ())),
    }
    return Review(**(fields | parts))


def _finding(fields: dict[str, Any]) -> Finding:
    anchor = fields.get("anchor")
    return Finding(**(fields | {"anchor": InlineAnchor(**anchor) if anchor else None}))


def _held(fields: dict[str, Any]) -> Configuration:
    tuples: dict[str, Any] = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Configuration(**(fields | tuples))


def _coverage(fields: dict[str, Any]) -> Coverage:
    lists = {name: tuple(NotSeen(**one) for one in value) for name, value in fields.items() if isinstance(value, list)}
    return Coverage(**(fields | lists))
