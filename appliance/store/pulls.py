"""Pull requests as they were listed, and what is known of each."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import sqlalchemy as sa

from appliance import redaction
from appliance.core.outcomes import FAULTS_OF_A_REVIEW, Outcome, tally
from appliance.core.plan import Record
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.store.base import Base, standing
from appliance.tables import attempts, findings, pulls, reviews


@dataclass(frozen=True)
class PullRow:
    """One line of `appliance status`. `dismissed`: path, title, who and reason of each finding."""

    target: str
    head: str
    state: str
    attempts: int
    next_try: float | None
    reason: str
    dismissed: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True)
class PullState:
    """What the plan came to for one pull request; `next_try` in seconds of the epoch."""

    target: str
    state: str
    attempts: int
    reason: str
    next_try: float | None


@dataclass(frozen=True)
class Place:
    """Where a pull request lives."""

    forge: str
    repository: str
    number: int


class Pulls(Base):
    """What the plan is made from, and what `appliance status` shows of it."""

    def unsure(self, listed: Sequence[Pull]) -> list[Pull]:
        """Those without a review here whose comments were not read since they last changed."""
        if not listed:
            return []
        targets = [pull.target for pull in listed]
        with self._engine.connect() as db:
            read = {
                row.target: row.looked_at
                for row in db.execute(sa.select(pulls.c.target, pulls.c.looked_at).where(pulls.c.target.in_(targets)))
            }
            done = standing(reviews, targets).where(reviews.c.abandoned_at.is_(None))
            reviewed = {(row.target, row.head_sha, row.base_ref) for row in db.execute(done)}
        return [
            pull
            for pull in listed
            if (pull.target, *pull.key) not in reviewed and read.get(pull.target) != version_of(pull)
        ]

    def set_looked_at(self, pull: Pull) -> None:
        with self._write() as db:
            db.execute(pulls.update().where(pulls.c.target == pull.target).values(looked_at=version_of(pull)))

    def again_after(self, target: str) -> float:
        """When a person last asked for a new review; markers that were there then count no more."""
        with self._engine.connect() as db:
            found = db.execute(sa.select(pulls.c.again_after).where(pulls.c.target == target)).scalar_one_or_none()
        return found or 0.0

    def seen(self, forge: str, repository: str, listed: Sequence[Pull]) -> bool:
        """Note what the forge lists; what it lists no more is shown no more. Returns whether anything changed."""
        now = self._clock()
        query = sa.select(pulls).where(pulls.c.repository == repository, pulls.c.open)
        with self._engine.connect() as db:
            known = {row.target: row for row in db.execute(query)}
        fresh = {pull.target: _listed(forge, repository, pull) for pull in listed}
        changed = {
            target: values
            for target, values in fresh.items()
            if target not in known or any(getattr(known[target], name) != value for name, value in values.items())
        }
        closed = known.keys() - fresh.keys()
        if not changed and not closed:
            return False
        with self._write() as db:
            for target, values in changed.items():
                if target not in known or known[target].head_sha != values["head_sha"]:
                    values |= {"head_seen_at": now}
                if db.execute(pulls.update().where(pulls.c.target == target).values(**values)).rowcount == 0:
                    db.execute(pulls.insert().values(target=target, first_seen_at=now, **values))
            for target in closed:
                db.execute(pulls.update().where(pulls.c.target == target).values(open=False))
        return True

    def forget_unwatched(self, watched: Mapping[str, Sequence[str] | None]) -> None:
        """Show no more what is in no repository that is watched; `watched` by forge, None where it is unknown;
        `owner/*` stands for those of an owner that are unknown."""
        with self._engine.connect() as db:
            shown = db.execute(sa.select(pulls.c.target, pulls.c.forge, pulls.c.repository).where(pulls.c.open)).all()
        gone = []
        for row in shown:
            names = watched.get(row.forge, ())
            owner = row.repository.partition("/")[0].casefold()
            if names is not None and row.repository not in names and f"{owner}/*" not in map(str.casefold, names):
                gone.append(row.target)
        if gone:
            with self._write() as db:
                db.execute(pulls.update().where(pulls.c.target.in_(gone)).values(open=False))

    def seen_one(self, forge: str, pull: Pull) -> None:
        """Note one pull request that no listing need have shown."""
        values = _listed(forge, pull.repository, pull)
        with self._write() as db:
            before = db.execute(sa.select(pulls.c.head_sha).where(pulls.c.target == pull.target)).scalar_one_or_none()
            if before != pull.head_sha:
                values |= {"head_seen_at": self._clock()}
            if db.execute(pulls.update().where(pulls.c.target == pull.target).values(**values)).rowcount == 0:
                db.execute(pulls.insert().values(target=pull.target, first_seen_at=self._clock(), **values))

    def place(self, target: str) -> Place | None:
        """Where a pull request was last seen."""
        with self._engine.connect() as db:
            row = db.execute(sa.select(pulls).where(pulls.c.target == target)).one_or_none()
        return Place(row.forge, row.repository, row.number) if row else None

    def set_states(self, states: Sequence[PullState]) -> None:
        """Note the states that changed."""
        query = sa.select(pulls.c.target, pulls.c.state, pulls.c.attempts, pulls.c.reason, pulls.c.next_try)
        now = self._clock()
        with self._engine.connect() as db:
            known = {row.target: PullState(*row) for row in db.execute(query.where(pulls.c.open))}
        changed = [state for state in states if known.get(state.target) != state]
        if not changed:
            return
        with self._write() as db:
            for state in changed:
                db.execute(
                    pulls.update()
                    .where(pulls.c.target == state.target)
                    .values(
                        state=state.state,
                        attempts=state.attempts,
                        reason=redaction.redacted(state.reason),
                        next_try=state.next_try,
                        ready_since=sa.func.coalesce(pulls.c.ready_since, now) if state.state == "waiting" else None,
                    )
                )

    def states(self) -> list[PullRow]:
        query = sa.select(pulls).where(pulls.c.open).order_by(pulls.c.repository, pulls.c.number)
        with self._engine.connect() as db:
            leased = set(db.execute(sa.select(attempts.c.target).where(attempts.c.ended_at.is_(None))).scalars())
            dismissed = _by_target(db.execute(sa.select(findings).where(findings.c.state == "dismissed")))
            return [
                PullRow(
                    row.target,
                    row.head_sha,
                    "reviewing" if row.target in leased else row.state,
                    row.attempts,
                    row.next_try,
                    "a review runs" if row.target in leased else row.reason,
                    tuple(
                        {"path": one.path, "title": one.title, "who": one.who, "reason": one.reason}
                        for one in dismissed.get(row.target, ())
                    ),
                )
                for row in db.execute(query)
            ]

    def records(self, listed: Sequence[Pull]) -> dict[str, Record]:
        """What the database knows of each pull request's present head and base."""
        targets = [pull.target for pull in listed]
        with self._engine.connect() as db:
            tried = _by_target(db.execute(standing(attempts, targets).order_by(attempts.c.id)).all())
            done = _by_target(
                db.execute(
                    standing(reviews, targets).where(reviews.c.abandoned_at.is_(None)).order_by(reviews.c.id)
                ).all()
            )
        return {pull.target: _record(pull, tried.get(pull.target, []), done.get(pull.target, [])) for pull in listed}


def _listed(forge: str, repository: str, pull: Pull) -> dict[str, Any]:
    return {
        "forge": forge,
        "repository": repository,
        "number": pull.number,
        "head_sha": pull.head_sha,
        "base_ref": pull.base_ref,
        "title": pull.title,
        "author": pull.author,
        "url": pull.url,
        "open": True,
    }


def version_of(pull: Pull) -> str:
    return f"{pull.updated_at} {pull.head_sha} {pull.base_ref}"


def _by_target(rows: Iterable[Any]) -> Mapping[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for row in rows:
        found.setdefault(row.target, []).append(row)
    return found


def _record(pull: Pull, tried: Sequence[Any], done: Sequence[Any]) -> Record:
    mine = [row for row in tried if (row.head_sha, row.base_ref) == pull.key]
    ended = [(Outcome(row.outcome), row.reason) for row in mine if row.ended_at is not None]
    latest = reversed([row for row in mine if row.ended_at is not None])
    faults = list(takewhile(lambda row: Outcome(row.outcome) in FAULTS_OF_A_REVIEW, latest))
    used = tally(ended)
    here = [row for row in done if (row.head_sha, row.base_ref) == pull.key]
    newest = here[-1] if here else None
    return Record(
        gate=Gate(newest.gate_state, newest.gate_description) if newest else None,
        attempts=used.attempts,
        reason=used.reason,
        leased=any(row.ended_at is None for row in tried),
        undelivered=newest is not None and newest.delivered_at is None,
        faults=len(faults),
        faulted_at=faults[0].ended_at if faults else 0.0,
    )
