"""What is to be written to the forges: each thing once, and not forgotten before it is."""

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from appliance import redaction
from appliance.core.outbox import Letter
from appliance.store.base import Base
from appliance.tables import outbox, reviews

DELIVERED = ("inline", "summary", "gate")  # what a person waits for
OF_A_REVIEW = (*DELIVERED, "threads")  # in the order in which they are sent


class Outbox(Base):
    """A letter waits until it is sent or abandoned; those of a review that stands no more wait no more."""

    def add_letter(
        self, target: str, kind: str, key: str, payload: Mapping[str, Any] | None = None, review: int | None = None
    ) -> bool:
        """Have something written, once: False if `key` was given before, whatever became of that.

        `kind` is one of `senders.KINDS`. With `review` it goes behind what that review has sent so far, and only as
        long as the review stands.
        """
        with self._write() as db:
            return add(db, target, kind, key, payload or {}, review, self._clock())

    def letters(self, target: str | None = None) -> list[Letter]:
        """What waits, oldest first."""
        stands = outbox.c.review.is_(None) | (reviews.c.abandoned_at.is_(None) & reviews.c.forgotten_at.is_(None))
        query = (
            sa.select(outbox)
            .outerjoin(reviews, reviews.c.id == outbox.c.review)
            .where(outbox.c.sent_at.is_(None), outbox.c.abandoned_at.is_(None), stands)
            .order_by(outbox.c.id)
        )
        if target is not None:
            query = query.where(outbox.c.target == target)
        with self._engine.connect() as db:
            return [_letter(row) for row in db.execute(query)]

    def letter_sent_as(self, key: str) -> str | None:
        """What the forge calls it; None if it was not sent, or there is none of this key."""
        query = sa.select(outbox.c.remote_id).where(outbox.c.key == key, outbox.c.sent_at.is_not(None))
        with self._engine.connect() as db:
            return db.execute(query).scalar_one_or_none()

    def letter_abandoned(self, key: str) -> bool:
        query = sa.select(outbox.c.id).where(outbox.c.key == key, outbox.c.abandoned_at.is_not(None))
        with self._engine.connect() as db:
            return db.execute(query).first() is not None

    def try_letter(self, letter: Letter) -> None:
        """Before it is sent: whatever ends this process now, the next one knows that it may have landed."""
        self._set_letter(letter, tried_at=self._clock())

    def letter_sent(self, letter: Letter, remote_id: str, url: str = "") -> None:
        values = {"sent_at": self._clock(), "remote_id": remote_id, "error": "", "next_try": None}
        with self._write() as db:
            db.execute(outbox.update().where(outbox.c.id == letter.id).values(**values))
            if letter.kind == "summary":
                one = reviews.c.id == letter.review
                db.execute(reviews.update().where(one).values(comment_id=remote_id, comment_url=url))

    def letter_refused(self, letter: Letter, fault: Mapping[str, Any], next_try: float, *, landed: bool) -> None:
        """`landed`: that try may be there all the same."""
        error = json.dumps(redaction.cleaned(dict(fault)))
        tried = {} if landed else {"tried_at": letter.tried_at}
        self._set_letter(letter, tries=letter.tries + 1, next_try=next_try, error=error, **tried)

    def abandon_letter(self, letter: Letter, fault: Mapping[str, Any]) -> None:
        error = json.dumps(redaction.cleaned(dict(fault)))
        self._set_letter(letter, tries=letter.tries + 1, abandoned_at=self._clock(), error=error)

    def _set_letter(self, letter: Letter, **values: Any) -> None:
        with self._write() as db:
            db.execute(outbox.update().where(outbox.c.id == letter.id).values(**values))


def add(
    db: sa.Connection,
    target: str,
    kind: str,
    key: str,
    payload: Mapping[str, Any],
    review: int | None,
    now: float,
) -> bool:
    if db.execute(sa.select(outbox.c.id).where(outbox.c.key == key)).first():
        return False
    db.execute(
        outbox.insert().values(
            review=review, target=target, kind=kind, key=key, payload=json.dumps(dict(payload)), created_at=now
        )
    )
    return True


def add_review(db: sa.Connection, target: str, review: int, now: float, *, known: bool) -> None:
    """What a finished review has written, in the transaction that stores it.

    `known`: this database had its attempt; else it may be older than the database, and posted in part.
    """
    for kind in OF_A_REVIEW:
        add(db, target, kind, key_of(review, kind), {}, review, now)
    if not known:
        db.execute(outbox.update().where(outbox.c.review == review).values(tried_at=now))


def sent_all(db: sa.Connection, review: int, now: float) -> None:
    """Those letters of a finished review without which it is not delivered."""
    waits = outbox.c.sent_at.is_(None) & outbox.c.abandoned_at.is_(None)
    mine = outbox.c.key.in_([key_of(review, kind) for kind in DELIVERED])
    db.execute(outbox.update().where(mine, waits).values(sent_at=now, error="", next_try=None))


def key_of(review: int, kind: str) -> str:
    return f"review {review} {kind}"


def _letter(row: Any) -> Letter:
    return Letter(
        id=row.id,
        review=row.review,
        target=row.target,
        kind=row.kind,
        key=row.key,
        payload=json.loads(row.payload),
        tries=row.tries,
        next_try=row.next_try or 0.0,
        tried_at=row.tried_at,
        error=json.loads(row.error) if row.error else None,
    )
