"""What became of each finding of a pull request, over all its heads."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import sqlalchemy as sa

from appliance import redaction
from appliance.core.earlier import History, Known, fingerprinted
from appliance.core.findings import EarlierFinding, Finding, InlineAnchor, Review
from appliance.core.marker import Marker
from appliance.core.outbox import Letter
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.store.base import Base
from appliance.store.outbox import add
from appliance.store.pulls import version_of
from appliance.store.reviews import StoredReview, load_review
from appliance.tables import findings, pulls, reviews

AGAIN = " again"


@dataclass(frozen=True)
class Decided:
    """What a person has decided: of which finding, and in which comment of which conversation."""

    known: Known
    thread: str
    comment: int


@dataclass(frozen=True)
class Revised:
    """A stored review as it is after a decision, and its gate."""

    stored: StoredReview
    review: Review
    gate: Gate


class Findings(Base):
    """Written when a review is delivered, before one of a later head begins, and when people decide."""

    def earlier_heads(self, pull: Pull) -> History:
        """What is known of the earlier heads of `pull`."""
        self._note_undelivered(pull.target)
        last = (
            sa.select(reviews.c.head_sha, reviews.c.review)
            .where(reviews.c.target == pull.target, reviews.c.base_ref == pull.base_ref)
            .where(reviews.c.delivered_at.is_not(None))
            .order_by(reviews.c.id.desc())
            .limit(1)
        )
        with self._engine.connect() as db:
            known = tuple(_known(row) for row in db.execute(_of(pull.target)))
            row = db.execute(last).one_or_none()
        if row is None:
            return History(known, max((each.head_sha for each in known), default=""))
        if row.review is None:
            return History(known, row.head_sha)
        review = load_review(json.loads(row.review))
        seen = review.coverage
        return History(
            known,
            row.head_sha,
            judged=_judged(review),
            digest=review.configuration.digest,
            not_seen=frozenset(each.path for each in (*seen.trimmed, *seen.left_out)),
        )

    def _note_undelivered(self, target: str) -> None:
        """What a review found stays open until another shows otherwise, also if its end was never posted, since the
        pull request moved on meanwhile. What it said of earlier ones does not count: nobody was told."""
        since = sa.select(sa.func.max(reviews.c.id)).where(
            reviews.c.target == target, reviews.c.delivered_at.is_not(None)
        )
        with self._engine.connect() as db:
            delivered = db.execute(since).scalar() or 0
            mine = (reviews.c.target == target, reviews.c.id > delivered, reviews.c.review.is_not(None))
            found = db.execute(sa.select(reviews.c.review).where(*mine).order_by(reviews.c.id)).scalars().all()
        for review in map(load_review, map(json.loads, found)):
            self.note_findings(replace(review, earlier=()))

    def known(self, target: str) -> tuple[Known, ...]:
        with self._engine.connect() as db:
            return tuple(_known(row) for row in db.execute(_of(target)))

    def adopt_marker(self, marker: Marker) -> None:
        """Take over from the forge what the database does not know: the findings that a review of an earlier head had.

        One that is known here stays as it is.
        """
        count = len(marker.findings)
        prints, advisory = marker.fingerprints or ("",) * count, marker.advisory or (False,) * count
        with self._write() as db:
            own = sa.select(reviews.c.id).where(
                reviews.c.target == marker.target,
                reviews.c.head_sha == marker.head_sha,
                reviews.c.review.is_not(None),
            )
            if db.execute(own).first():
                return
            here = {row.fingerprint for row in db.execute(_of(marker.target))}
            for (priority, path, title), print_, only in zip(marker.findings, prints, advisory, strict=False):
                one = Finding(title, "", priority, 0.0, path, 1, 1, fingerprint=print_, advisory=only)
                one = fingerprinted(one)
                if one.fingerprint not in here:
                    self._put(db, marker.target, Known(one, "open", marker.head_sha, marker.head_sha))
                    here.add(one.fingerprint)
            for each in marker.dismissed:
                if each.fingerprint not in here:
                    one = Finding(each.title, "", each.priority, 0.0, each.path, 1, 1, fingerprint=each.fingerprint)
                    known = Known(one, "dismissed", marker.head_sha, marker.head_sha, reason=each.reason, who=each.who)
                    self._put(db, marker.target, known)
                    here.add(each.fingerprint)

    def decide(
        self, target: str, decided: Decided, revised: Revised | None = None, letters: Iterable[Letter] = ()
    ) -> bool:
        """A person has dismissed a finding, or opened it again: noted in one step with what follows from it.

        False, and nothing is done, if the review that was `revised` is no longer what it was.
        """
        known = decided.known
        with self._write() as db:
            if revised is not None and not self._revise(db, revised):
                return False
            self._put(db, target, known)
            one = (findings.c.target == target) & (findings.c.fingerprint == known.fingerprint)
            where = {"thread_id": decided.thread, "comment_id": str(decided.comment)}
            db.execute(findings.update().where(one).values(**where))
            for letter in letters:
                add(db, target, letter.kind, letter.key, letter.payload, letter.review, self._clock())
        return True

    def _revise(self, db: sa.Connection, revised: Revised) -> bool:
        """The text and the gate that it has now; what was posted of it is written anew."""
        stored, revision = revised.stored, revised.stored.revision + 1
        as_it_was = (
            reviews.c.id == stored.id,
            reviews.c.revision == stored.revision,
            reviews.c.abandoned_at.is_(None),
            reviews.c.forgotten_at.is_(None),
        )
        values = {
            "review": json.dumps(asdict(redaction.review(revised.review))),
            "gate_state": revised.gate.state,
            "gate_description": revised.gate.description,
            "revision": revision,
        }
        if db.execute(reviews.update().where(*as_it_was).values(**values)).rowcount != 1:
            return False
        add(db, stored.target, "revise", f"review {stored.id} revision {revision}", {}, stored.id, self._clock())
        return True

    def decided_in(self, target: str) -> dict[str, int]:
        """By fingerprint, the comment that decided last; of those that nobody has decided about, nothing."""
        query = sa.select(findings.c.fingerprint, findings.c.comment_id).where(
            findings.c.target == target, findings.c.comment_id != ""
        )
        with self._engine.connect() as db:
            return {row.fingerprint: int(row.comment_id) for row in db.execute(query)}

    def unread_threads(self, listed: Sequence[Pull]) -> list[Pull]:
        """Whose conversations are to be read: when the listing says that the pull request changed, and once more after
        that, as for commands; only where one can change something."""
        query = sa.select(pulls.c.target, pulls.c.threads_read).where(pulls.c.open)
        with self._engine.connect() as db:
            read = {row.target: row.threads_read for row in db.execute(query)}
        unread = [pull for pull in listed if read.get(pull.target) != version_of(pull) + AGAIN]
        return [pull for pull in unread if any(map(_has_conversation, self.known(pull.target)))]

    def set_threads_read(self, pull: Pull) -> None:
        version = version_of(pull)
        done = sa.case((pulls.c.threads_read == version, version + AGAIN), else_=version)
        with self._write() as db:
            db.execute(pulls.update().where(pulls.c.target == pull.target).values(threads_read=done))

    def _put(self, db: sa.Connection, target: str, known: Known) -> None:
        values = {
            "priority": known.finding.priority,
            "path": redaction.redacted(known.finding.path),
            "title": redaction.redacted(known.finding.title),
            "state": known.state,
            "first_head": known.first_head or known.head_sha,
            "last_head": known.head_sha,
            "commit": known.commit,
            "evidence": redaction.redacted(known.evidence),
            "reason": redaction.redacted(known.reason),
            "who": redaction.redacted(known.who),
            "finding": json.dumps(redaction.cleaned(asdict(known.finding))),
            "updated_at": self._clock(),
        }
        one = (findings.c.target == target) & (findings.c.fingerprint == known.fingerprint)
        if db.execute(findings.update().where(one).values(**values)).rowcount == 0:
            db.execute(findings.insert().values(target=target, fingerprint=known.fingerprint, **values))

    def note_findings(self, review: Review) -> None:
        """What a review says of the pull request's findings, those of earlier heads among them."""
        before = {each.fingerprint: each for each in self.known(review.target)}
        with self._write() as db:
            for finding in map(fingerprinted, review.result.findings):
                old = before.get(finding.fingerprint)
                if old is not None and (finding.carried or old.state == "dismissed"):
                    continue  # what a person has dismissed, only a person opens again
                anchor = finding.anchor or (old.finding.anchor if old else None)
                first = old.first_head if old else review.head_sha
                fresh = Known(replace(finding, anchor=anchor), "open", review.head_sha, first)
                self._put(db, review.target, fresh)
            for told in review.earlier:
                old = before.get(told.fingerprint)
                if old is not None and told.state not in ("open", "dismissed") and old.state != "dismissed":
                    self._put(db, review.target, _after(old, told))


def _after(old: Known, told: EarlierFinding) -> Known:
    return replace(old, state=told.state, commit=told.commit, evidence=told.evidence)


def _has_conversation(known: Known) -> bool:
    """Whether there may be one that decides: of what was learnt from the forge, it is not known."""
    learnt = not known.finding.body
    return known.state in ("open", "dismissed") and (known.finding.anchor is not None or learnt)


def _judged(review: Review) -> bool:
    looked = bool(review.evidence.commands) and not review.evidence.files_left_out
    return looked and not review.nothing_to_review and review.result.verdict != "inconclusive"


def _of(target: str) -> sa.Select[Any]:
    return sa.select(findings).where(findings.c.target == target).order_by(findings.c.fingerprint)


def _known(row: Any) -> Known:
    fields = json.loads(row.finding)
    anchor = fields.get("anchor")
    finding = Finding(**(fields | {"anchor": InlineAnchor(**anchor) if anchor else None}))
    return Known(finding, row.state, row.last_head, row.first_head, row.commit, row.evidence, row.reason, row.who)
