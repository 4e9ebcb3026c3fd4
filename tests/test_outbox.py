"""The outbox: what is in it is sent once, in its order, and what is refused is told and waits, or is given up."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from fake_github import FakeGitHub
from world import APP, World, reviewed

from appliance.core.outbox import LONGEST_DELAY, MOST_TRIES, REFUSED_DELAY, Abandon, Again, after
from appliance.core.verdict import gate_of
from appliance.senders import KINDS
from appliance.store import key_of, opening

TARGET = "octo/app#1"


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path) -> Iterator[World]:
    """One repository with one pull request, number 1, that is reviewed."""
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"}, title="Print two")
    world = World(fake_github, tmp_path)
    world.run()
    world.run()
    yield world
    world.close()


# ---- what follows a refusal


@pytest.mark.parametrize("vital", [True, False])
@pytest.mark.parametrize("cause", ["forge-login", "forge-permission"])
def test_what_a_person_mends_for_all_gives_nothing_up(cause: str, vital: bool) -> None:
    then = after(cause, permanent=True, vital=vital, tries=1, now=100.0)
    assert then == Again(130.0, landed=False)


def test_what_is_refused_for_good_is_given_up_unless_it_is_vital() -> None:
    refused: dict[str, Any] = {"cause": "forge-refused", "permanent": True, "tries": 1, "now": 0.0}
    assert after(**refused, vital=False) == Abandon()
    assert after(**refused, vital=True) == Again(REFUSED_DELAY, landed=False)


def test_each_try_waits_longer_up_to_a_limit_and_only_what_may_be_there_is_looked_for() -> None:
    waits = [after("forge-unreachable", permanent=False, vital=True, tries=n, now=0.0) for n in range(1, 40)]
    assert waits[:3] == [Again(30.0, landed=True), Again(60.0, landed=True), Again(120.0, landed=True)]
    assert waits[-1] == Again(LONGEST_DELAY, landed=True)
    limited = after("forge-rate-limited", permanent=False, vital=False, tries=1, now=0.0)
    assert limited == Again(30.0, landed=False)
    assert after("forge-unreachable", permanent=False, vital=False, tries=MOST_TRIES, now=0.0) == Abandon()


# ---- the store


def test_a_key_is_taken_once_whatever_became_of_it(world: World) -> None:
    assert world.store.add_letter(TARGET, "comment", "k", {"body": "x"})
    assert not world.store.add_letter(TARGET, "comment", "k", {"body": "y"})
    [letter] = world.store.letters()
    assert (letter.payload, letter.tries, letter.tried_at) == ({"body": "x"}, 0, None)
    world.store.letter_sent(letter, "7")
    assert not world.store.add_letter(TARGET, "comment", "k", {"body": "z"})
    assert (world.store.letters(), world.store.letter_sent_as("k")) == ([], "7")


def test_the_letters_of_a_review_are_stored_with_it_in_their_order(world: World) -> None:
    review = reviewed(world.pull()).review
    assert review
    stored = world.store.finish(None, review, gate_of(review, 1))
    assert [it.kind for it in world.store.letters(TARGET)] == ["inline", "summary", "gate", "threads"]
    world.store.abandon(stored)
    assert world.store.letters(TARGET) == []


def test_a_review_that_waits_in_a_database_of_before_is_posted_and_looked_for_first(
    fake_github: FakeGitHub, tmp_path: Path
) -> None:
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"}, title="Print two")
    world = World(fake_github, tmp_path)
    fake_github.fail(method="POST", path="/comments", status=502, store=True)
    world.run()
    world.close()
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'appliance.db'}")
    with engine.begin() as db:
        waiting = db.execute(sa.text("SELECT id FROM reviews WHERE delivered_at IS NULL")).scalars().all()
        before = {row[0]: row[1:] for row in db.execute(sa.text("SELECT id, target, review FROM reviews"))}
        db.execute(sa.text("DELETE FROM outbox"))
    assert (len(waiting), len(before)) == (1, 1)
    _downgrade(tmp_path / "appliance.db")
    world.restart()
    assert [it.kind for it in world.store.letters()] == ["summary", "gate"]
    assert not world.run().failed
    assert (len(world.markers()), world.gate(), len(world.asked)) == (1, "success: no blocking findings", 1)
    world.close()


def _downgrade(path: Path) -> None:
    from alembic import command
    from alembic.config import Config

    engine, config = sa.create_engine(f"sqlite:///{path}"), Config()
    config.set_main_option("script_location", str(opening.MIGRATIONS))
    with engine.begin() as db:
        config.attributes["connection"] = db
        command.downgrade(config, "0002")


# ---- the kinds


def thread(world: World) -> dict[str, Any]:
    """A thread on a line, as the payload of a letter names it."""
    world.github.add_review(APP, 1, "COMMENTED", "r", comments=[{"path": "app.py", "line": 1, "body": "why?"}])
    [found] = world.forge.threads(world.pull())
    return {"thread": found.id, "comment": found.comments[0].id}


def payload_of(kind: str, world: World) -> dict[str, Any]:
    comment = world.forge.comments(world.pull())[0]
    match kind:
        case "comment":
            return {"body": "said"}
        case "reply":
            return thread(world) | {"body": "said"}
        case "resolve":
            return thread(world)
        case "minimize":
            return {"node": comment.node_id}
        case "react":
            return {"comment": comment.id, "content": "eyes"}
    raise AssertionError(f"no test of {kind}")


def seen(kind: str, world: World) -> int:
    """How often it is there."""
    github = world.github
    match kind:
        case "comment":
            return sum("said" in it.body for it in github.comments(APP, 1))
        case "reply":
            return sum("said" in it.body for it in github.line_comments(APP, 1))
        case "resolve":
            return sum(it.resolved for it in github.line_comments(APP, 1))
        case "minimize":
            return sum(it.minimized for it in github.comments(APP, 1))
        case "react":
            return sum(len(it.reactions) for it in github.comments(APP, 1))
    raise AssertionError(kind)


OTHERS = [kind for kind in KINDS if kind not in ("inline", "summary", "gate", "threads", "revise")]
WRITE = r"/graphql|/comments|/reactions|/replies"


@pytest.mark.parametrize("kind", OTHERS)
def test_each_kind_is_written_once(kind: str, world: World) -> None:
    world.store.add_letter(TARGET, kind, "k", payload_of(kind, world))
    for _ in range(3):
        assert not world.run().failed
    assert (seen(kind, world), world.store.letters()) == (1, [])


@pytest.mark.parametrize("kind", OTHERS)
def test_each_kind_is_there_once_although_its_answer_was_not_heard(kind: str, world: World) -> None:
    world.store.add_letter(TARGET, kind, "k", payload_of(kind, world))
    world.github.fail(method="POST", path=WRITE, status=502, store=True)
    assert world.run().failed
    for _ in range(2):
        world.run()
    assert (seen(kind, world), world.store.letters()) == (1, [])


@pytest.mark.parametrize("kind", OTHERS)
def test_each_kind_that_is_refused_for_good_is_told_once_and_given_up(kind: str, world: World) -> None:
    world.store.add_letter(TARGET, kind, "k", payload_of(kind, world))
    world.github.fail(method="POST", path=WRITE, status=422, times=99)
    result = world.run()
    assert result.fault and result.fault.cause == "forge-refused"
    assert world.store.letter_abandoned("k")
    assert not world.run().failed


def test_a_letter_without_a_review_does_not_wait_for_a_stuck_one(world: World) -> None:
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.github.fail(method="POST", path="/issues/1/comments", status=502, times=99)
    world.run()
    world.store.add_letter(TARGET, "react", "k", payload_of("react", world))
    world.run()
    assert seen("react", world) == 1
    assert [it.kind for it in world.store.letters()] == ["summary", "gate", "threads"]


def waiting(world: World) -> list[str]:
    """What waits beside the hiding of an older comment, which comes with the next cycle."""
    return [letter.kind for letter in world.store.letters() if letter.kind != "minimize"]


def test_what_stands_behind_in_one_review_waits_for_what_stands_before(world: World) -> None:
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.github.fail(method="POST", path="/issues/1/comments", status=502, times=99)
    world.run()
    stored = world.store.undelivered()[0]
    world.store.add_letter(TARGET, "react", "k", payload_of("react", world), review=stored.id)
    world.run()
    assert seen("react", world) == 0
    world.github.failures.clear()
    world.now += LONGEST_DELAY
    world.run()
    assert (seen("react", world), waiting(world)) == (1, [])
    assert world.store.letter_sent_as(key_of(stored.id, "summary"))


def test_letters_of_a_review_go_with_it_when_the_pull_request_moves_on(world: World) -> None:
    stored = world.store.review_of(world.pull())
    assert stored
    world.store.add_letter(TARGET, "react", "k", payload_of("react", world), review=stored.id)
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.run()
    assert (seen("react", world), waiting(world)) == (0, [])


def test_while_it_waits_for_its_next_try_its_fault_is_told_and_nothing_is_asked(world: World) -> None:
    world.store.add_letter(TARGET, "comment", "k", {"body": "said"})
    world.github.fail(method="POST", path="/comments", status=502, times=99)
    for _ in range(5):
        world.run()
    [letter] = world.store.letters()
    assert letter.next_try > world.now
    world.github.clear()
    result = world.run()
    assert result.fault and result.fault.cause == "forge-unreachable"
    assert world.writes == []
    world.by_hand = True
    world.run()
    assert seen("comment", world) == 1


def test_a_secret_is_in_no_letter(world: World) -> None:
    world.store.add_letter(TARGET, "comment", "k", {"body": f"said {world.github.token}"})
    world.run()
    assert world.github.token not in world.github.comments(APP, 1)[-1].body
    assert seen("comment", world) == 1


def test_the_fault_of_a_letter_is_kept_as_it_is_told(world: World) -> None:
    world.store.add_letter(TARGET, "comment", "k", {"body": "said"})
    world.github.fail(method="POST", path="/comments", status=502, times=99)
    told = world.run().fault
    [letter] = world.store.letters()
    assert told and letter.error
    assert json.loads(json.dumps(letter.error))["sentence"] == told.sentence
    assert replace(told, symptom="").remedy == letter.error["remedy"]
