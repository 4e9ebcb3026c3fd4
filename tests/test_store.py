"""The database: real SQLite, several processes, and nothing that is told twice."""

import multiprocessing
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy.exc import SQLAlchemyError

import appliance
from appliance.core.findings import Evidence, Finding, Result, Review, Usage
from appliance.core.identity import Identity
from appliance.core.outcomes import Outcome
from appliance.core.plan import Record
from appliance.core.pulls import Pull
from appliance.core.verdict import WAITING, Gate
from appliance.forge import Cached
from appliance.store import SCHEMA_REVISION, Place, PullState, Store, open_store
from appliance.tables import attempts, metadata

PULL = Pull("octo/app#1", "octo/app", 1, "a" * 40, "main", "b" * 40, title="T", updated_at="1")
GREEN = Gate("success", "no blocking findings")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "appliance.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    store = open_store(path, Clock())
    store.seen("github", "octo/app", [PULL])
    yield store
    store.close()


def review(pull: Pull = PULL) -> Review:
    finding = Finding("Off by one \N{SNOWMAN}", "body", 1, 0.5, "a.py", 1, 2)
    return Review(
        target=pull.target,
        head_sha=pull.head_sha,
        base_ref=pull.base_ref,
        base_sha=pull.base_sha,
        merge_base="c" * 40,
        result=Result("incorrect", "s", "r", "l", (finding,)),
        usage=Usage(1, 2, 3, 4),
        evidence=Evidence(("git diff",), ("ls",), 1),
        seconds=1.5,
        model="m",
    )


def record(store: Store, pull: Pull = PULL) -> Record:
    return store.records([pull])[pull.target]


def attempt(store: Store, outcome: Outcome, reason: str = "why", pull: Pull = PULL) -> None:
    begun = store.begin_attempt(pull, "me")
    assert begun is not None
    store.end_attempt(begun, outcome, reason)


def finished(store: Store, pull: Pull = PULL, gate: Gate = GREEN) -> int:
    return store.finish(store.begin_attempt(pull, "me"), review(pull), gate)


# ---- the file


def test_it_is_made_from_nothing_in_wal_mode(store: Store, path: Path) -> None:
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("SELECT version_num FROM alembic_version").fetchone() == (SCHEMA_REVISION,)


def test_the_migrations_make_the_same_tables(path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{path}")
    config = Config()
    config.set_main_option("script_location", str(Path(appliance.__file__).parent / "migrations"))
    with engine.begin() as db:
        config.attributes["connection"] = db
        command.upgrade(config, "head")
    with engine.connect() as db:
        assert compare_metadata(MigrationContext.configure(db), metadata) == []
    store = open_store(path)
    assert store.begin_attempt(PULL, "me")
    assert store.begin_attempt(PULL, "you") is None
    store.close()


def test_what_a_crash_in_between_left_is_completed(path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{path}")
    attempts.create(engine)
    store = open_store(path)
    store.set_note("a", 1)
    assert store.note("a") == 1
    store.close()


def test_one_of_a_later_version_is_left_alone_and_said(path: Path) -> None:
    open_store(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(ValueError, match="later version"):
        open_store(path)


@pytest.mark.parametrize("content", [b"not a database" * 100, b"SQLite format 3\0" + b"x" * 2000])
def test_a_damaged_one_is_an_error_of_the_database(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    with pytest.raises(SQLAlchemyError):
        open_store(path)


def test_it_outlives_the_process(path: Path) -> None:
    first = open_store(path)
    finished(first)
    first.close()
    second = open_store(path)
    assert record(second).gate == GREEN
    second.close()


# ---- several processes and threads


def _open_and_claim(path: Path) -> bool:
    store = open_store(path)
    try:
        return store.begin_attempt(PULL, "x") is not None
    finally:
        store.close()


def _write(arguments: tuple[Path, int]) -> None:
    path, number = arguments
    store = open_store(path)
    for index in range(20):
        store.put(f"{number}-{index}", Cached("e", None, b"x" * 1000))
        store.put("shared", Cached(f"{number}-{index}", None, b""))
    store.close()


def test_two_processes_open_a_new_one_at_once_and_one_gets_the_lease(path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        claims = pool.map(_open_and_claim, [path] * 6, chunksize=1)
        assert claims.count(True) == 1
        pool.map(_write, [(path, 1), (path, 2)], chunksize=1)
    store = open_store(path)
    assert all(store.get(f"{number}-{index}") for number in (1, 2) for index in range(20))
    store.close()


def test_threads_write_at_once_and_nothing_is_lost(store: Store) -> None:
    pulls = [replace(PULL, target=f"octo/app#{number}", number=number) for number in range(8)]
    claims: list[int | None] = []

    def work(pull: Pull) -> None:
        claims.append(store.begin_attempt(PULL, "me"))
        for _ in range(5):
            attempt(store, Outcome.TIMEOUT, pull=pull)
            store.set_note(pull.target, "x")
            store.set_note("shared", pull.target)
            store.set_last_gate(pull, WAITING)
        finished(store, pull)

    store.seen("github", "octo/app", pulls)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [pull for pull in pulls if pull.number != 1]))
    assert sum(claim is not None for claim in claims) == 1
    assert [record(store, pull).attempts for pull in pulls if pull.number != 1] == [6] * 7


# ---- attempts and leases


def test_the_lease_is_one_for_a_pull_request_whatever_its_head(store: Store) -> None:
    begun = store.begin_attempt(PULL, "me")
    assert begun is not None
    assert record(store).leased
    assert store.begin_attempt(replace(PULL, head_sha="d" * 40), "me") is None
    assert store.begin_attempt(replace(PULL, target="octo/app#2"), "me") is not None
    store.end_attempt(begun, Outcome.SANDBOX, "x")
    assert not record(store).leased
    assert store.begin_attempt(PULL, "you") is not None


def test_attempts_count_for_one_head_and_base(store: Store) -> None:
    for outcome in (Outcome.TIMEOUT, Outcome.SANDBOX, Outcome.MODEL_OUTPUT, Outcome.QUOTA):
        attempt(store, outcome, outcome.value)
    assert (record(store).attempts, record(store).reason) == (2, "model-output")
    assert record(store, replace(PULL, head_sha="d" * 40)).attempts == 0
    assert record(store, replace(PULL, base_ref="release")).attempts == 0
    assert record(store, replace(PULL, base_sha="d" * 40)).attempts == 2


@pytest.mark.parametrize(
    ("outcome", "faults"),
    [(Outcome.SANDBOX, 2), (Outcome.WORKSTATION, 2), (Outcome.TIMEOUT, 0), (Outcome.QUOTA, 0)],
)
def test_faults_in_a_row_are_counted_until_a_review_ends_otherwise(store: Store, outcome: Outcome, faults: int) -> None:
    attempt(store, outcome)
    attempt(store, outcome)
    assert record(store).faults == faults
    assert (record(store).faulted_at > 0) is (faults > 0)
    attempt(store, Outcome.TIMEOUT)
    assert record(store).faults == 0


def test_an_attempt_ends_once(store: Store) -> None:
    begun = store.begin_attempt(PULL, "me")
    assert begun is not None
    store.end_attempt(begun, Outcome.INTERRUPTED, "stopped")
    store.end_attempt(begun, Outcome.TIMEOUT, "late")
    assert record(store).attempts == 0


def test_what_the_dead_held_is_given_back_as_interrupted_and_the_living_keep_theirs(store: Store) -> None:
    store.begin_attempt(PULL, "dead")
    store.begin_attempt(replace(PULL, target="octo/app#2"), "alive")
    assert store.reclaim(lambda owner: owner == "alive") == ["octo/app#1"]
    assert record(store) == Record()
    assert record(store, replace(PULL, target="octo/app#2")).leased
    assert store.reclaim(lambda owner: owner == "alive") == []


def test_the_third_crash_in_a_row_counts(store: Store) -> None:
    for _ in range(3):
        assert record(store).attempts == 0
        store.begin_attempt(PULL, "dead")
        store.reclaim(lambda _: False)
    assert record(store).attempts == 1


# ---- reviews


def test_a_result_is_stored_whole_and_ends_its_attempt_in_one_step(store: Store) -> None:
    number = finished(store)
    [stored] = store.undelivered()
    assert (stored.id, stored.review, stored.gate) == (number, review(), GREEN)
    assert record(store) == Record(gate=GREEN, attempts=1, reason="reviewed", undelivered=True)


def test_a_result_that_cannot_be_stored_leaves_its_attempt_open(store: Store, path: Path) -> None:
    begun = store.begin_attempt(PULL, "me")
    with sqlite3.connect(path) as db:
        db.execute("CREATE TRIGGER full BEFORE UPDATE ON attempts BEGIN SELECT RAISE(FAIL, 'full'); END")
    with pytest.raises(SQLAlchemyError):
        store.finish(begun, review(), GREEN)
    assert store.undelivered() == []
    assert record(store).leased


def test_delivered_once_it_waits_no_more(store: Store) -> None:
    store.delivered(finished(store), "7", "https://x/7")
    assert store.undelivered() == []
    assert not record(store).undelivered
    found = store.review_of(PULL)
    assert found is not None
    assert (found.comment_id, found.comment_url) == ("7", "https://x/7")


def test_an_abandoned_one_is_neither_posted_nor_a_gate(store: Store) -> None:
    store.abandon(finished(store))
    assert store.undelivered() == []
    assert record(store).gate is None
    assert store.review_of(PULL) is None


def test_a_learnt_one_counts_as_delivered(store: Store) -> None:
    store.learn(PULL, Identity(*PULL.key, "b", "m", "d"), GREEN, "7", "https://x/7")
    assert record(store) == Record(gate=GREEN)
    assert store.undelivered() == []


def test_the_newest_review_of_a_head_stands(store: Store) -> None:
    store.delivered(finished(store, gate=Gate("failure", "1 blocking finding (P1)")), "1", "")
    store.delivered(finished(store), "2", "")
    assert record(store).gate == GREEN
    assert record(store, replace(PULL, head_sha="d" * 40)).gate is None


def test_starting_over_forgets_attempts_and_reviews_of_one_pull_request(store: Store) -> None:
    other = replace(PULL, target="octo/app#2", number=2)
    store.seen("github", "octo/app", [PULL, other])
    for pull in (PULL, other):
        attempt(store, Outcome.TIMEOUT, pull=pull)
        store.delivered(finished(store, pull), "1", "")
        store.set_looked_at(pull)
    assert store.forget(PULL.target) == 3
    assert record(store) == Record()
    assert record(store, other).attempts == 2
    assert store.unsure([PULL, other]) == [PULL]
    assert store.again_after(PULL.target) > 1000
    assert store.again_after(other.target) == 0


# ---- pull requests


def test_only_what_changed_since_its_comments_were_read_is_unsure(store: Store) -> None:
    assert store.unsure([PULL]) == [PULL]
    store.set_looked_at(PULL)
    assert store.unsure([PULL]) == []
    for change in ({"updated_at": "2"}, {"head_sha": "d" * 40}, {"base_ref": "release"}):
        changed = replace(PULL, **change)  # type: ignore[arg-type]
        assert store.unsure([changed]) == [changed]
    finished(store)
    assert store.unsure([replace(PULL, updated_at="3")]) == []
    assert store.unsure([]) == []


def test_what_is_listed_no_more_is_shown_no_more_and_comes_back(store: Store) -> None:
    other = replace(PULL, target="octo/lib#1", repository="octo/lib")
    store.seen("github", "octo/lib", [other])
    store.seen("github", "octo/app", [])
    assert [row.target for row in store.states()] == ["octo/lib#1"]
    assert store.place(PULL.target) == Place("github", "octo/app", 1)
    store.seen("github", "octo/app", [PULL])
    assert [row.target for row in store.states()] == ["octo/app#1", "octo/lib#1"]
    assert store.place("octo/none#1") is None


def test_one_that_no_listing_showed_is_noted(store: Store) -> None:
    other = replace(PULL, target="octo/new#5", repository="octo/new", number=5)
    store.seen_one("github", other)
    store.seen_one("github", replace(other, title="again"))
    assert store.place(other.target) == Place("github", "octo/new", 5)


def test_states_are_shown_and_a_lease_shows_as_reviewing(store: Store) -> None:
    store.set_states([PullState(PULL.target, "given-up", 3, "timeout", 5.0)])
    [row] = store.states()
    assert (row.state, row.attempts, row.reason, row.next_try, row.head) == ("given-up", 3, "timeout", 5.0, "a" * 40)
    store.begin_attempt(PULL, "me")
    assert (store.states()[0].state, store.states()[0].reason) == ("reviewing", "a review runs")


def writes(store: Store) -> list[str]:
    """The statements that changed something from now on."""
    found: list[str] = []

    def note(_c: object, _cur: object, statement: str, *_: object) -> None:
        if not statement.lstrip().upper().startswith(("SELECT", "PRAGMA")):
            found.append(statement)

    sa.event.listen(store._engine, "before_cursor_execute", note)
    return found


def test_what_did_not_change_is_not_written(store: Store) -> None:
    states = [PullState(PULL.target, "waiting", 0, "next in line", None)]
    store.set_states(states)
    seen = writes(store)
    store.seen("github", "octo/app", [replace(PULL, updated_at="9")])
    store.set_states(states)
    assert seen == []


# ---- gates, answers, notes


def test_gates_are_kept_by_pull_request_and_head(store: Store) -> None:
    store.set_last_gate(PULL, WAITING)
    store.set_last_gate(PULL, GREEN)
    store.set_last_gate(replace(PULL, head_sha="d" * 40), WAITING)
    assert store.last_gate(PULL) == GREEN
    assert store.last_gate(replace(PULL, head_sha="e" * 40)) is None
    assert store.last_gates("octo/app") == {(PULL.target, "a" * 40): GREEN, (PULL.target, "d" * 40): WAITING}
    assert store.last_gates("octo/lib") == {}
    store.set_local_gate("/r#b", "a" * 40, GREEN)
    store.set_local_gate("/r#b", "a" * 40, WAITING)
    assert store.local_gate("/r#b", "a" * 40) == WAITING
    assert store.local_gate("/r#b", "d" * 40) is None


@pytest.mark.parametrize("bodies", [[b"", b"\x00\xff"], [b"x" * 3_000_000, b"y"]])
def test_answers_are_kept_as_they_are(store: Store, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        store.put("k", Cached('W/"e"', "<u>; rel=next", body))
        assert store.get("k") == Cached('W/"e"', "<u>; rel=next", body)
    assert store.get("other") is None
    store.forget_answers_before(1e9)
    assert store.get("k") is None


def test_notes(store: Store) -> None:
    assert store.note("held") is None
    for value in ({"a": [1, 2.5, None]}, None, 0):
        store.set_note("held", value)
        assert store.note("held") == value


def test_many_pull_requests_at_once(store: Store) -> None:
    many = [replace(PULL, target=f"octo/app#{number}", number=number) for number in range(1, 3001)]
    store.seen("github", "octo/app", many)
    assert len(store.unsure(many)) == len(store.records(many)) == 3000


def test_threads_that_race_for_a_row_that_is_not_there_all_succeed(store: Store) -> None:
    """UPDATE, then INSERT if there was nothing: two may find nothing."""
    barrier = threading.Barrier(8)

    def put(number: int) -> None:
        for index in range(10):
            barrier.wait(10)
            store.put(f"k{index}", Cached(str(number), None, b""))
            store.set_note(f"n{index}", number)
            store.set_last_gate(replace(PULL, head_sha=f"{index}"), WAITING)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(8)))


def test_what_is_watched_no_more_is_shown_no_more(store: Store) -> None:
    other = replace(PULL, target="octo/lib#1", repository="octo/lib")
    for one in (PULL, other):
        store.seen("github", one.repository, [one])
    store.forget_unwatched({"github": None})  # the forge did not say what is watched
    assert len(store.states()) == 2
    store.forget_unwatched({"github": ["octo/lib"]})
    assert [row.target for row in store.states()] == ["octo/lib#1"]
    store.forget_unwatched({"local": ["/repositories/shop"]})
    assert store.states() == []
    store.seen("github", PULL.repository, [PULL])
    assert [row.target for row in store.states()] == [PULL.target]
