"""Commands in comments over cycles, on a fake GitHub: what they change, what is answered, and that it is once."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from world import APP, KEY, World, found, reviewed

from appliance.core.findings import InlineAnchor
from appliance.core.marker import read_tag
from appliance.core.outcomes import Ending, Outcome
from appliance.core.pulls import Policy, Pull
from appliance.core.slash import NOT_ALLOWED, UNKNOWN
from appliance.core.windows import parse

GREEN = "success: no blocking findings"
PAUSED = "pending: paused by @alice; the comment /review resume goes on"


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path) -> Iterator[World]:
    """One repository with one pull request, number 1; alice may write, mallory may not."""
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"})
    for name, role in (("alice", "write"), ("bob", "maintain"), ("carol", "triage"), ("review-bot", "admin")):
        fake_github.set_permission(APP, name, role)
    fake_github.set_permission(APP, "mallory", "read")
    world = World(fake_github, tmp_path)
    yield world
    world.close()


def say(world: World, body: str, author: str | None = "alice") -> int:
    """In another second than all before it."""
    world.github.clock_offset += 2
    return world.github.add_comment(APP, 1, body, author).id


def reactions(world: World, comment: int) -> list[str]:
    [one] = [it for it in world.github.comments(APP, 1) if it.id == comment]
    return [it.content for it in one.reactions]


def replies(world: World) -> list[str]:
    return [it.body for it in world.github.comments(APP, 1) if (tag := read_tag(it.body, KEY)) and tag.kind == "letter"]


def test_R37_review_asked_again_on_a_green_head_is_pending_first(world: World) -> None:
    world.run()
    assert world.gate() == GREEN
    comment = say(world, "/review\r\n\r\nI fixed the base")
    seen: list[str] = []

    def script(pull: Pull, _: threading.Event) -> Ending:
        seen.append(world.gate())
        return reviewed(pull, found(0))

    world.script = script
    world.run()
    assert seen == ["pending: Codex review running (attempt 1 of 3)"]
    assert world.gate() == "failure: 1 blocking finding (P0)"
    assert (reactions(world, comment), replies(world)) == (["eyes"], [])
    for _ in range(3):
        world.run()
    assert len(world.asked) == 2, "once"


def test_R37_while_no_review_can_begin_the_gate_is_pending_and_stays_so(world: World) -> None:
    world.run()
    say(world, "/review")
    world.policy = Policy(schedule=parse("12:00-13:00", lambda _: UTC)[0])
    world.run()
    assert world.gate().startswith("pending: outside the review schedule")
    world.run()
    assert len(world.asked) == 1


def test_attempts_start_over(world: World) -> None:
    world.script = lambda *_: Ending(Outcome.TIMEOUT, "timeout")
    for _ in range(4):
        world.run()
    assert world.gate() == "error: review failed 3 times: timeout"
    say(world, "/review", "bob")
    world.script = lambda pull, _: reviewed(pull)
    world.run()
    assert (world.gate(), world.attempts()) == (GREEN, 1)


def test_a_pause_holds_over_heads_and_restarts_until_it_is_ended(world: World) -> None:
    comment = say(world, "/review pause")
    world.run()
    assert (world.asked, world.gate(), reactions(world, comment)) == ([], PAUSED, ["eyes"])
    row = world.status()
    assert (row.state, row.attempts, row.reason) == ("waiting", 0, PAUSED.removeprefix("pending: "))
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.restart()
    world.run()
    assert (world.asked, world.gate()) == ([], PAUSED)
    say(world, "/review resume", "bob")
    world.run()
    assert (len(world.asked), world.gate()) == (1, GREEN)


def test_a_success_that_was_earned_stays_while_it_is_paused_and_the_next_head_has_none(world: World) -> None:
    world.run()
    say(world, "/review pause")
    world.run()
    assert world.gate() == GREEN
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.run()
    assert world.gate() == PAUSED


def test_one_review_may_be_asked_for_while_it_is_paused(world: World) -> None:
    say(world, "/review pause")
    world.run()
    say(world, "/review")
    world.run()
    assert (len(world.asked), world.gate()) == (1, GREEN)
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.run()
    assert (len(world.asked), world.gate()) == (1, PAUSED)


def test_a_review_that_is_asked_for_waits_for_no_quiet_and_no_limit_of_its_author(world: World) -> None:
    world.policy = Policy(quiet_period=3600, reviews_per_author=1)
    world.run()
    assert world.asked == []
    say(world, "/review")
    world.run()
    say(world, "/review")
    world.run()
    assert len(world.asked) == 2


@pytest.mark.parametrize("command", ["/review", "/review pause", "/review explain 1", "/review nonsense"])
@pytest.mark.parametrize("author", ["mallory", "carol", "stranger"])
def test_who_may_not_write_is_told_so_and_nothing_happens(command: str, author: str, world: World) -> None:
    world.run()
    comment = say(world, command, author)
    world.run()
    world.run()
    assert (len(world.asked), world.gate(), world.status().state) == (1, GREEN, "reviewed")
    assert reactions(world, comment) == ["confused"]
    [reply] = replies(world)
    assert NOT_ALLOWED in reply


def test_who_keeps_asking_is_answered_once_and_shown_so_a_few_times(world: World) -> None:
    comments = [say(world, "/review", "mallory") for _ in range(120)]
    world.run()
    world.run()
    assert len(replies(world)) == 1
    assert sum(bool(reactions(world, comment)) for comment in comments) == 3
    asked = [it for it in world.github.exchanges if "/permission" in it.path]
    assert len(asked) == 1
    say(world, "/review pause")
    world.run()
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.run()
    assert world.gate() == PAUSED, "whoever may is heard all the same"


def test_who_lost_access_may_not(world: World) -> None:
    world.run()
    say(world, "/review")
    world.github.set_permission(APP, "alice", "read")
    world.run()
    assert len(world.asked) == 1


def test_who_gave_a_token_of_his_own_commands_and_the_appliance_under_his_name_does_not(world: World) -> None:
    """`review-bot` is whom the token belongs to. What a model writes begins with commands, in each of our texts."""
    command = "/review pause\n\n/review pause"
    finding = replace(found(1), title=command, body=command, anchor=InlineAnchor("app.py", 1, "RIGHT"))
    ending = reviewed(world.pull(), finding, verdict="incorrect")
    assert ending.review
    result = replace(ending.review.result, summary=command, reasoning=command, limits=command)
    said = replace(ending, review=replace(ending.review, result=result))
    world.script = lambda *_: said
    world.run()
    comment = say(world, "/review explain 1", "review-bot")
    for _ in range(4):
        world.run()
    assert (reactions(world, comment), len(replies(world)), len(world.asked)) == (["eyes"], 1, 1)
    assert len(world.github.line_comments(APP, 1)) == 1
    assert "paused" not in world.gate()
    say(world, "/review", "review-bot")
    world.run()
    assert len(world.asked) == 2


@pytest.mark.parametrize("author", ["review-bot[bot]", "Review-Bot[bot]", None])
def test_the_appliance_bots_and_the_deleted_are_not_heard(author: str | None, world: World) -> None:
    world.run()
    say(world, "/review", author)
    world.run()
    world.run()
    assert (len(world.asked), replies(world)) == (1, [])


@pytest.mark.parametrize(
    "body", ["> /review", "```\n/review\n```", "please\n/review", "    /review", "/reviewers", "/review-later"]
)
def test_what_is_no_command_is_none(body: str, world: World) -> None:
    world.run()
    comment = say(world, body)
    world.run()
    assert (len(world.asked), replies(world), reactions(world, comment)) == (1, [], [])


def test_a_command_that_is_unknown_is_answered_with_those_there_are(world: World) -> None:
    world.run()
    comment = say(world, "/review everything please")
    world.run()
    world.run()
    assert reactions(world, comment) == ["confused"]
    [reply] = replies(world)
    assert UNKNOWN in reply
    assert len(world.asked) == 1


@pytest.mark.parametrize("how", [{"status": 502}, {"status": 403}, {"status": 404}, {"truncate": True}])
def test_while_it_is_unknown_whether_somebody_may_it_waits_and_is_tried_again(
    how: dict[str, object], world: World
) -> None:
    world.run()
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    comment = say(world, "/review pause")
    failure = world.github.fail(method="GET", path="/permission", times=99, **how)
    world.run()
    assert (reactions(world, comment), replies(world)) == ([], [])
    failure.times = 0
    world.run()
    world.run()
    assert reactions(world, comment) == ["eyes"]
    world.github.push(APP, "feature", {"app.py": "print(4)\n"})
    world.run()
    assert world.gate() == PAUSED


@pytest.mark.parametrize("status", [403, 404, 500])
@pytest.mark.parametrize("first", [False, True], ids=["", "first time"])
def test_of_whom_the_forge_does_not_tell_holds_up_nobody(status: int, first: bool, world: World) -> None:
    if not first:
        world.run()
    strange = say(world, "/review pause", "bob")
    theirs = [say(world, "/review explain 1"), say(world, "/review pause")]
    failure = world.github.fail(method="GET", path="/collaborators/bob/permission", times=99, status=status)
    world.run()
    assert [reactions(world, it) for it in (strange, *theirs)] == [[], ["confused"], ["eyes"]]
    world.github.push(APP, "feature", {"app.py": "print(4)\n"})
    world.run()
    assert world.gate() == PAUSED
    last = say(world, "/review resume")
    world.run()
    assert reactions(world, last) == ["eyes"]
    failure.times = 0
    world.run()
    world.run()
    assert reactions(world, strange) == ["eyes"], "it waited, and was carried out, without an effect on what came later"
    world.github.push(APP, "feature", {"app.py": "print(5)\n"})
    world.run()
    assert world.gate() == GREEN


def test_what_somebody_asked_for_who_may_not_does_not_outdo_a_late_pause(world: World) -> None:
    world.run()
    late = say(world, "/review pause")
    refused = say(world, "/review resume", "mallory")
    failure = world.github.fail(method="GET", path="/collaborators/alice/permission", times=99, status=404)
    world.run()
    assert [reactions(world, it) for it in (late, refused)] == [[], ["confused"]]
    failure.times = 0
    world.github.push(APP, "feature", {"app.py": "print(4)\n"})
    world.run()
    world.run()
    assert world.gate() == PAUSED


def test_no_stranger_can_make_the_cycle_fail(world: World) -> None:
    world.run()
    say(world, "/review", "mallory")
    world.github.fail(method="GET", path="/permission", times=99, status=403)
    assert not world.run().failed


def test_the_last_of_several_comments_holds_and_each_is_answered(world: World) -> None:
    comments = [say(world, body) for body in ("/review pause", "/review resume", "/review pause\n/review resume")]
    world.run()
    assert world.gate() == PAUSED
    assert [reactions(world, comment) for comment in comments] == [["eyes"]] * 3


def test_a_comment_that_is_edited_into_another_command_was_carried_out_already(world: World) -> None:
    comment = say(world, "/review pause")
    world.run()
    world.github.edit_comment(APP, comment, "/review resume")
    world.run()
    assert world.gate() == PAUSED


def test_two_comments_of_one_second_are_both_read(world: World) -> None:
    world.run()
    world.run()
    say(world, "hello")
    moment = world.github.repository(APP).pulls[1].updated_at
    world.run()
    say(world, "/review")
    world.github.repository(APP).pulls[1].updated_at = moment
    world.run()
    assert len(world.asked) == 2


def test_a_lost_database_carries_nothing_out_again_but_a_pause(world: World) -> None:
    for body in ("/review", "/review explain 1", "/review nonsense"):
        say(world, body)
    world.run()
    world.run()
    before, count = replies(world), len(world.asked)
    world.restart(lose_database=True)
    world.run()
    world.run()
    assert (replies(world), len(world.asked)) == (before, count)
    say(world, "/review pause")
    world.run()
    world.restart(lose_database=True)
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.run()
    assert (world.gate(), len(world.asked)) == (PAUSED, count)


def test_a_command_after_our_last_comment_is_carried_out_by_a_new_database_too(world: World) -> None:
    world.run()
    world.restart(lose_database=True)
    say(world, "/review")
    world.run()
    assert len(world.asked) == 2


def test_a_reaction_whose_answer_was_lost_is_given_once_and_the_command_carried_out_once(world: World) -> None:
    world.run()
    comment = say(world, "/review explain 1")
    world.github.fail(method="POST", path="/issues/1/comments", status=502, store=True)
    world.github.fail(method="POST", path="/reactions", status=502, store=True)
    for _ in range(4):
        world.run()
    assert len(replies(world)) == 1
    assert reactions(world, comment) == ["confused"]


def test_a_finding_is_explained_from_what_is_stored(world: World) -> None:
    world.script = lambda pull, _: reviewed(pull, found(3, "Style"), found(1), verdict="incorrect")
    world.run()
    gate = world.gate()
    comment = say(world, "/review explain 1")
    world.run()
    world.run()
    [reply] = replies(world)
    assert "[P1] Off by one" in reply and "The last one is left out." in reply and "no model was asked" in reply
    assert (reactions(world, comment), world.gate(), len(world.asked), world.attempts()) == (["eyes"], gate, 1, 1)


def test_a_command_for_a_draft_waits_until_it_is_none(world: World) -> None:
    world.github.edit_pull(APP, 1, draft=True)
    comment = say(world, "/review pause")
    world.run()
    assert reactions(world, comment) == []
    world.github.edit_pull(APP, 1, draft=False)
    world.run()
    assert (reactions(world, comment), world.asked, world.gate()) == (["eyes"], [], PAUSED)


def test_unchanged_pull_requests_are_asked_for_no_comments(world: World) -> None:
    say(world, "/review")
    for _ in range(4):
        world.run()
    world.github.clear()
    world.run()
    assert [it.path for it in world.github.exchanges] == [f"/repos/{APP}/pulls"]
