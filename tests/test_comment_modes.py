"""One comment for each head, or one that is edited; and what is folded after many rounds."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from world import APP, KEY, World, found, reviewed

from appliance import senders
from appliance.core import marker as markers
from appliance.core.findings import InlineAnchor
from appliance.core.outbox import REFUSED_DELAY
from appliance.forge import github_limits

GREEN = "success: no blocking findings"


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(github_limits, "WRITE_GAP", 0.0)
    fake_github.add_repository(APP, {"app.py": "one\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "two\n"})
    made = World(fake_github, tmp_path)
    yield made
    made.close()


def push(world: World, text: str) -> str:
    return world.github.push(APP, "feature", {"app.py": text})


def bodies(world: World) -> list[str]:
    return [comment.body for comment in world.github.comments(APP, 1)]


def heads(body: str) -> list[str]:
    return [mark.head_sha for mark in markers.read_all(body, KEY)]


def minimized(world: World) -> list[bool]:
    return [comment.minimized for comment in world.github.repository(APP).pulls[1].comments]


def test_one_for_each_head_and_the_older_hidden(world: World) -> None:
    world.run()
    push(world, "three\n")
    world.run()
    world.run()
    assert minimized(world) == [True, False]
    push(world, "four\n")
    world.run()
    world.run()
    assert minimized(world) == [True, True, False]
    assert sum("minimizeComment" in it.request_body.decode() for it in world.github.exchanges) == 2


def test_a_comment_that_cannot_be_hidden_stops_nothing(world: World) -> None:
    world.run()
    push(world, "three\n")
    world.github.fail(method="POST", path="/graphql", times=1000, status=200, body={"errors": [{"type": "FORBIDDEN"}]})
    world.run()
    push(world, "four\n")
    world.run()
    assert (len(world.markers()), world.gate()) == (3, GREEN)


def test_killed_after_the_comment_the_older_is_hidden_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.run()
    push(world, "three\n")
    with monkeypatch.context() as patched:
        patched.setattr(senders, "_hide_older", lambda *_: None)
        world.github.fail(method="POST", path="/issues/1/comments", times=1, status=502, store=True)
        world.run()
    world.run()
    world.run()
    assert (minimized(world), len(world.markers())) == ([True, False], 2)


def test_a_comment_that_is_there_but_not_for_an_edit_has_no_second(world: World) -> None:
    world.comments = "edit"
    world.run()
    second = push(world, "three\n")
    world.github.fail(method="PATCH", path="/issues/comments/", times=1, status=404)
    world.run()
    assert len(bodies(world)) == 1
    world.now += REFUSED_DELAY
    world.run()
    assert (len(bodies(world)), heads(bodies(world)[0])[-1], world.gate()) == (1, second, GREEN)


def test_one_that_is_edited_keeps_what_earlier_heads_came_to(world: World) -> None:
    world.comments = "edit"
    first = world.pull().head_sha
    world.script = lambda pull, _: reviewed(pull, found(1))
    world.run()
    second = push(world, "three\n")
    world.script = lambda pull, _: reviewed(pull)
    world.run()
    third = push(world, "four\n")
    world.run()
    [body] = bodies(world)
    assert heads(body) == [second, first, third]
    assert (world.markers()[0].head_sha, world.gate()) == (third, GREEN)
    assert f"- `{first}`: failure, 1 blocking finding (P1)" in body and "Earlier heads: 2" in body
    writes = len(world.writes)
    world.run()
    assert len(world.writes) == writes


def test_a_lost_database_and_a_head_that_comes_back_know_it_from_the_history(world: World) -> None:
    world.comments = "edit"
    first = world.pull().head_sha
    world.script = lambda pull, _: reviewed(pull, found(1))
    world.run()
    push(world, "three\n")
    world.script = lambda pull, _: reviewed(pull)
    world.run()
    world.github.push(APP, "other", {"x": "y"}, base=first)
    world.restart(lose_database=True)
    world.run()
    assert len(world.asked) == 2, "the present head is known"
    repository = world.github.repository(APP)
    (repository.path / "refs/heads/feature").write_text(f"{first}\n")
    world.github.edit_pull(APP, 1, title="back")
    assert world.pull().head_sha == first
    world.run()
    assert (len(world.asked), len(bodies(world))) == (2, 1)
    assert world.gate().startswith("failure")


@pytest.mark.parametrize("gone", [True, False], ids=["ours deleted", "ours there"])
@pytest.mark.parametrize("known", [True, False], ids=["", "not told who we are"])
def test_a_copy_of_our_comment_by_somebody_else_is_not_edited(known: bool, gone: bool, world: World) -> None:
    if not known:
        world.github.fail(method="GET", path="^/user", times=1000, status=403)
        world.github.fail(
            method="POST", path="/graphql", times=1000, status=200, body={"errors": [{"type": "FORBIDDEN"}]}
        )
    world.comments = "edit"
    world.run()
    [ours] = world.github.comments(APP, 1)
    copy = world.github.add_comment(APP, 1, ours.body, "mallory")
    said = copy.body
    world.github.fail(method="PATCH", path=f"/issues/comments/{copy.id}", times=1000, status=403)
    if gone:
        world.github.delete_comment(APP, ours.id)
    for text in ("three\n", "four\n"):
        push(world, text)
        world.run()
        assert world.gate() == GREEN
    others = [it for it in world.github.comments(APP, 1) if it.id != copy.id]
    assert (len(others), copy.body, others[0].author) == (1, said, "review-bot")
    assert heads(others[0].body)[-1] == world.pull().head_sha


def test_an_edit_that_was_stored_and_not_answered_is_made_once(world: World) -> None:
    world.comments = "edit"
    world.run()
    second = push(world, "three\n")
    world.github.fail(method="PATCH", path="/issues/comments/", times=1, status=502, store=True)
    world.run()
    world.run()
    edits = [it for it in world.github.exchanges if it.method == "PATCH"]
    assert (len(edits), len(bodies(world)), world.markers()[0].head_sha) == (1, 1, second)
    assert world.gate() == GREEN


def test_a_comment_that_somebody_deleted_is_written_anew(world: World) -> None:
    world.comments = "edit"
    world.run()
    world.github.delete_comment(APP, world.github.comments(APP, 1)[0].id)
    second = push(world, "three\n")
    world.run()
    assert [mark.head_sha for mark in world.markers()] == [second]


@pytest.mark.parametrize("before", ["new", "edit"])
def test_the_mode_may_change_in_between(world: World, before: str) -> None:
    world.comments = "new" if before == "new" else "edit"
    world.run()
    push(world, "three\n")
    world.run()
    world.comments = "edit" if before == "new" else "new"
    last = push(world, "four\n")
    world.run()
    assert (len(bodies(world)), len(world.asked)) == (2, 3)
    assert last in [mark.head_sha for mark in world.markers()]
    world.restart(lose_database=True)
    world.run()
    assert len(world.asked) == 3


def test_after_many_rounds_what_is_less_grave_is_folded(world: World) -> None:
    world.max_rounds = 1
    anchor = InlineAnchor("app.py", 1, "RIGHT", None)
    grave, note = replace(found(1, "Grave"), anchor=anchor), replace(found(3, "Small"), anchor=anchor)
    world.script = lambda pull, _: reviewed(pull, grave, note)
    world.run()
    push(world, "three\n")
    world.run()
    first, second = bodies(world)
    assert "folded after so many rounds" not in first
    assert "1 finding of lower priority, folded after so many rounds" in second
    assert second.index("folded after") < second.index("Small")
    lines = [it.body for it in world.github.line_comments(APP, 1)]
    assert sum("Small" in body for body in lines) == 1 and sum("Grave" in body for body in lines) == 2
