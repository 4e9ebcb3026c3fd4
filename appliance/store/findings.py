"""What became of each finding of a pull request, over all its heads."""

import json
from dataclasses import asdict, replace
from typing import Any

import sqlalchemy as sa

from appliance import redaction
from appliance.core.earlier import History, Known, fingerprinted
from appliance.core.findings import EarlierFinding, Finding, InlineAnchor, Review
from appliance.core.marker import Marker
from appliance.core.pulls import Pull
from appliance.store.base import Base
from appliance.store.reviews import load_review
from appliance.tables import findings, reviews


class Findings(Base):
    """Written when a review is delivered, and when people decide."""

    def earlier_heads(self, pull: Pull) -> History:
        """What is known of the earlier heads of `pull`."""
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

    def known(self, target: str) -> tuple[Known, ...]:
        with self._engine.connect() as db:
            return tuple(_known(row) for row in db.execute(_of(target)))

    def adopt_marker(self, marker: Marker) -> None:
        """Take over from the forge what the database does not know: the findings that a review of an earlier head had.

        One that is known here stays as it is.
        """
        pairs = zip(marker.findings, marker.fingerprints or ("",) * len(marker.findings), strict=False)
        with self._write() as db:
            own = sa.select(reviews.c.id).where(
                reviews.c.target == marker.target,
                reviews.c.head_sha == marker.head_sha,
                reviews.c.review.is_not(None),
            )
            if db.execute(own).first():
                return
            here = {row.fingerprint for row in db.execute(_of(marker.target))}
            for (priority, path, title), print_ in pairs:
                one = fingerprinted(Finding(title, "", priority, 0.0, path, 1, 1, fingerprint=print_))
                if one.fingerprint not in here:
                    self._put(db, marker.target, Known(one, "open", marker.head_sha, marker.head_sha))
                    here.add(one.fingerprint)

    def decide(self, target: str, known: Known) -> None:
        """A person has dismissed a finding, or opened it again."""
        with self._write() as db:
            self._put(db, target, known)

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
        """What a review that was delivered says of the pull request's findings, those of earlier heads among them."""
        before = {each.fingerprint: each for each in self.known(review.target)}
        with self._write() as db:
            for finding in map(fingerprinted, review.result.findings):
                old = before.get(finding.fingerprint)
                if finding.carried and old is not None:
                    continue
                anchor = finding.anchor or (old.finding.anchor if old else None)
                first = old.first_head if old else review.head_sha
                fresh = Known(replace(finding, anchor=anchor), "open", review.head_sha, first)
                self._put(db, review.target, fresh)
            for told in review.earlier:
                old = before.get(told.fingerprint)
                if old is not None and told.state != "open":
                    self._put(db, review.target, _after(old, told))


def _after(old: Known, told: EarlierFinding) -> Known:
    return replace(old, state=told.state, commit=told.commit, evidence=told.evidence, reason=told.reason, who=told.who)


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
