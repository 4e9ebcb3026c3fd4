"""The one door to the database: attempts, leases, results that wait to be posted, ETags, history.

The forge is the truth of what was reviewed; this holds what the forge cannot: a lost database loses only history.
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from appliance.core.findings import Evidence, Finding, Result, Review, Usage
from appliance.core.outcomes import FAULTS_OF_A_REVIEW, Outcome, tally
from appliance.core.plan import Record
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.forge import Cached
from appliance.tables import attempts, etags, gates, local_gates, meta, metadata, pulls, reviews

SCHEMA_REVISION = "0001"
BUSY_SECONDS = 30.0


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


@dataclass(frozen=True)
class PullRow:
    """One line of `appliance status`."""

    target: str
    head: str
    state: str
    attempts: int
    next_try: float | None
    reason: str


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


class Store:
    """Open with `open_store`. Safe to share among threads; several processes may use one file."""

    def __init__(self, engine: sa.Engine, clock: Callable[[], float] = time.time) -> None:
        self._engine = engine
        self._clock = clock

    def close(self) -> None:
        self._engine.dispose()

    def _write(self) -> AbstractContextManager[sa.Connection]:
        return self._engine.begin()

    # ---- answers of the forge, by ETag

    def get(self, key: str) -> Cached | None:
        with self._engine.connect() as db:
            row = db.execute(sa.select(etags).where(etags.c.key == key)).one_or_none()
        return Cached(row.etag, row.link, row.body) if row else None

    def put(self, key: str, cached: Cached) -> None:
        values = {"etag": cached.etag, "link": cached.link, "body": cached.body, "stored_at": self._clock()}
        with self._write() as db:
            if db.execute(etags.update().where(etags.c.key == key).values(values)).rowcount == 0:
                db.execute(etags.insert().values(key=key, **values))

    def forget_answers_before(self, moment: float) -> None:
        with self._write() as db:
            db.execute(etags.delete().where(etags.c.stored_at < moment))

    # ---- attempts and leases

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

    def end_attempt(self, attempt: int, outcome: Outcome, reason: str) -> None:
        with self._write() as db:
            self._end(db, attempt, outcome, reason)

    def _end(self, db: sa.Connection, attempt: int, outcome: Outcome, reason: str) -> None:
        db.execute(
            attempts.update()
            .where(attempts.c.id == attempt, attempts.c.ended_at.is_(None))
            .values(outcome=outcome.value, reason=reason[:500], ended_at=self._clock())
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
        now = self._clock()
        with self._write() as db:
            changed = 0
            for table in (attempts, reviews):
                done = db.execute(
                    table.update()
                    .where(table.c.target == target, table.c.forgotten_at.is_(None))
                    .values(forgotten_at=now)
                )
                changed += done.rowcount
            db.execute(pulls.update().where(pulls.c.target == target).values(looked_at="", again_after=now))
        return changed

    # ---- reviews

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

    # ---- pull requests

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
            standing = _of(reviews, targets).where(reviews.c.abandoned_at.is_(None))
            reviewed = {(row.target, row.head_sha, row.base_ref) for row in db.execute(standing)}
        return [
            pull
            for pull in listed
            if (pull.target, *pull.key) not in reviewed and read.get(pull.target) != _version(pull)
        ]

    def set_looked_at(self, pull: Pull) -> None:
        with self._write() as db:
            db.execute(pulls.update().where(pulls.c.target == pull.target).values(looked_at=_version(pull)))

    def again_after(self, target: str) -> float:
        """When a person last asked for a new review; markers that were there then count no more."""
        with self._engine.connect() as db:
            found = db.execute(sa.select(pulls.c.again_after).where(pulls.c.target == target)).scalar_one_or_none()
        return found or 0.0

    def seen(self, forge: str, repository: str, listed: Sequence[Pull]) -> None:
        """Note what the forge lists; what it lists no more is shown no more."""
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
            return
        with self._write() as db:
            for target, values in changed.items():
                if db.execute(pulls.update().where(pulls.c.target == target).values(**values)).rowcount == 0:
                    db.execute(pulls.insert().values(target=target, first_seen_at=now, **values))
            for target in closed:
                db.execute(pulls.update().where(pulls.c.target == target).values(open=False))

    def seen_one(self, forge: str, pull: Pull) -> None:
        """Note one pull request that no listing need have shown."""
        values = _listed(forge, pull.repository, pull)
        with self._write() as db:
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
                    .values(state=state.state, attempts=state.attempts, reason=state.reason, next_try=state.next_try)
                )

    def states(self) -> list[PullRow]:
        query = sa.select(pulls).where(pulls.c.open).order_by(pulls.c.repository, pulls.c.number)
        with self._engine.connect() as db:
            leased = set(db.execute(sa.select(attempts.c.target).where(attempts.c.ended_at.is_(None))).scalars())
            return [
                PullRow(
                    row.target,
                    row.head_sha,
                    "reviewing" if row.target in leased else row.state,
                    row.attempts,
                    row.next_try,
                    row.reason,
                )
                for row in db.execute(query)
            ]

    def records(self, listed: Sequence[Pull]) -> dict[str, Record]:
        """What the database knows of each pull request's present head and base."""
        targets = [pull.target for pull in listed]
        with self._engine.connect() as db:
            tried = _by_target(db.execute(_of(attempts, targets).order_by(attempts.c.id)).all())
            done = _by_target(
                db.execute(_of(reviews, targets).where(reviews.c.abandoned_at.is_(None)).order_by(reviews.c.id)).all()
            )
        return {pull.target: _record(pull, tried.get(pull.target, []), done.get(pull.target, [])) for pull in listed}

    # ---- gates as we last set them

    def last_gate(self, pull: Pull) -> Gate | None:
        with self._engine.connect() as db:
            row = db.execute(
                sa.select(gates).where(gates.c.target == pull.target, gates.c.head_sha == pull.head_sha)
            ).one_or_none()
        return Gate(row.state, row.description) if row else None

    def last_gates(self, repository: str) -> dict[tuple[str, str], Gate]:
        """All gates last set in a repository, by target and head SHA."""
        query = sa.select(gates).join(pulls, pulls.c.target == gates.c.target).where(pulls.c.repository == repository)
        with self._engine.connect() as db:
            return {(row.target, row.head_sha): Gate(row.state, row.description) for row in db.execute(query)}

    def set_last_gate(self, pull: Pull, gate: Gate) -> None:
        values = {"state": gate.state, "description": gate.description, "set_at": self._clock()}
        with self._write() as db:
            one = (gates.c.target == pull.target) & (gates.c.head_sha == pull.head_sha)
            if db.execute(gates.update().where(one).values(values)).rowcount == 0:
                db.execute(gates.insert().values(target=pull.target, head_sha=pull.head_sha, **values))

    def local_gate(self, target: str, head_sha: str) -> Gate | None:
        with self._engine.connect() as db:
            row = db.execute(
                sa.select(local_gates).where(local_gates.c.target == target, local_gates.c.head_sha == head_sha)
            ).one_or_none()
        return Gate(row.state, row.description) if row else None

    def set_local_gate(self, target: str, head_sha: str, gate: Gate) -> None:
        values = {"state": gate.state, "description": gate.description}
        with self._write() as db:
            one = (local_gates.c.target == target) & (local_gates.c.head_sha == head_sha)
            if db.execute(local_gates.update().where(one).values(values)).rowcount == 0:
                db.execute(local_gates.insert().values(target=target, head_sha=head_sha, **values))

    # ---- small things that outlive a process

    def note(self, name: str) -> Any:
        """The JSON value noted under `name`, or None."""
        with self._engine.connect() as db:
            found = db.execute(sa.select(meta.c.value).where(meta.c.name == name)).scalar_one_or_none()
        return json.loads(found) if found is not None else None

    def set_note(self, name: str, value: Any) -> None:
        text = json.dumps(value)
        with self._write() as db:
            if db.execute(meta.update().where(meta.c.name == name).values(value=text)).rowcount == 0:
                db.execute(meta.insert().values(name=name, value=text))


def open_store(path: Path, clock: Callable[[], float] = time.time) -> Store:
    """Open the database at `path`, made or brought up to date if need be.

    Raises sqlalchemy.exc.SQLAlchemyError, and ValueError for one that a later version made.
    """
    engine = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_SECONDS})
    sa.event.listen(engine, "connect", _pragmas)
    if _revision(engine) != SCHEMA_REVISION:
        _migrate(engine, path)
    return Store(engine, clock)


def words(error: Exception) -> str:
    """What the database itself said, on one line, without SQLAlchemy's advice to programmers."""
    return " ".join(str(getattr(error, "orig", None) or error).split())[:500]


def _pragmas(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _revision(engine: sa.Engine) -> str | None:
    """The schema's revision, asked without Alembic: its import costs more than half a second."""
    with engine.connect() as db:
        if not sa.inspect(db).has_table("alembic_version"):
            return None
        return db.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _migrate(engine: sa.Engine, path: Path) -> None:
    import fcntl

    with path.with_suffix(".migrating").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes may start at once
        revision = _revision(engine)
        if revision is None:
            _create(engine)
        elif revision != SCHEMA_REVISION:
            _upgrade(engine)


def _create(engine: sa.Engine) -> None:
    """The newest tables at once: Alembic costs the first start half a second, and 7 MB for as long as it runs."""
    with engine.begin() as db:
        metadata.create_all(db)
        db.execute(sa.text("CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        db.execute(sa.text("INSERT INTO alembic_version VALUES (:revision)"), {"revision": SCHEMA_REVISION})


def _upgrade(engine: sa.Engine) -> None:
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    try:
        with engine.begin() as db:
            config.attributes["connection"] = db
            command.upgrade(config, "head")
    except CommandError as error:
        raise ValueError(f"the database is of a later version of the appliance: {error}; update the image") from None


def _listed(forge: str, repository: str, pull: Pull) -> dict[str, Any]:
    return {
        "forge": forge,
        "repository": repository,
        "number": pull.number,
        "head_sha": pull.head_sha,
        "base_ref": pull.base_ref,
        "title": pull.title,
        "url": pull.url,
        "open": True,
    }


def _version(pull: Pull) -> str:
    return f"{pull.updated_at} {pull.head_sha} {pull.base_ref}"


def _of(table: sa.Table, targets: Iterable[str]) -> sa.Select[Any]:
    return sa.select(table).where(table.c.target.in_(list(targets)), table.c.forgotten_at.is_(None))


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
