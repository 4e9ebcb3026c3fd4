"""Inputs that broke how others post, through a whole cycle against the fake GitHub; each test names its row."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_github import FakeGitHub
from world import APP, KEY, SANDBOX, World, reviewed

from appliance.core.findings import Finding, InlineAnchor
from appliance.core.marker import read_tag
from appliance.core.outcomes import Ending, Outcome
from appliance.core.report import MAX_COMMENT
from appliance.forge.github_client import GitHubClient
from appliance.store.base import Base

LINES = "".join(f"line {number}\n" for number in range(1, 21))
GREEN = "success: no blocking findings"
RED = "failure: 10 blocking findings (P1)"


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path) -> Iterator[World]:
    """One repository with one pull request, number 1, that adds twenty lines."""
    world = world_of(fake_github, tmp_path)
    yield world
    world.close()


def world_of(github: FakeGitHub, path: Path) -> World:
    github.add_repository(APP, {"app.py": "print(1)\n"})
    github.add_pull(APP, "feature", files={"new.py": LINES}, title="Twenty lines")
    return World(github, path)


def on_line(number: int, priority: int = 1, **more: Any) -> Finding:
    """A finding on a line of the new file, in the words of the place it has."""
    anchor = InlineAnchor("new.py", number, "RIGHT")
    made = Finding(f"Defect {number}", f"Line {number} is wrong.", priority, 0.9, "new.py", number, number)
    return replace(made, **({"anchor": anchor} | more))


def off_lines(number: int = 9999) -> Finding:
    return on_line(number, anchor=None)


def finds(world: World, *findings: Finding) -> None:
    world.script = lambda pull, _: reviewed(pull, *findings, verdict="incorrect" if findings else "correct")


def summary(world: World, number: int = 1) -> str:
    [comment] = [it for it in world.github.comments(APP, number) if "## Codex review" in it.body]
    return comment.body


def told(world: World, number: int = 1) -> list[str]:
    """The titles of all findings that a reader finds with their whole text, on lines and in the summary, sorted."""
    on_lines = [it.body for it in world.github.line_comments(APP, number)]
    texts = [*on_lines, *(it.body for it in world.github.comments(APP, number))]
    return sorted(match for text in texts for match in re.findall(r"Line (\d+) is wrong", text))


# ---- findings on lines


def test_R19_a_finding_outside_of_every_hunk_stands_in_the_body(world: World) -> None:
    finds(world, on_line(3), off_lines())
    assert not world.run().failed
    assert [(it.path, it.line, it.side) for it in world.github.line_comments(APP, 1)] == [("new.py", 3, "RIGHT")]
    assert told(world) == ["3", "9999"]
    assert "Line 9999 is wrong" in summary(world)
    assert "- [P1] Defect 3 (`new.py:3`)" in summary(world), "what stands on a line is named"
    assert len(world.github.reviews(APP, 1)) == 1
    assert world.gate() == "failure: 2 blocking findings (P1)"


def test_R19_with_no_finding_on_a_line_there_is_no_pull_request_review(world: World) -> None:
    finds(world, off_lines())
    world.run()
    assert (world.github.reviews(APP, 1), told(world)) == ([], ["9999"])


@pytest.mark.parametrize(
    "bad",
    [
        InlineAnchor("new.py", 9999, "RIGHT"),
        InlineAnchor("gone.py", 1, "RIGHT"),
        InlineAnchor("new.py", 3, "LEFT"),
        InlineAnchor("new.py", 3, "RIGHT", 9, "RIGHT"),
        InlineAnchor("app.py", 1, "RIGHT"),
    ],
    ids=["no such line", "no such file", "the other side", "start behind the end", "a file that did not change"],
)
def test_R21_nine_good_anchors_and_a_bad_one_deliver_ten_findings(bad: InlineAnchor, world: World) -> None:
    finds(world, *(on_line(number) for number in range(1, 10)), on_line(10, anchor=bad))
    world.run()
    assert told(world) == sorted(map(str, range(1, 11)))
    assert (world.gate(), len(world.markers()), len(world.asked)) == (RED, 1, 1)
    assert not world.run().failed, "it is told once, and then it rests"
    writes = len(world.writes)
    world.run()
    assert len(world.writes) == writes


def test_R21_one_that_is_known_not_to_fit_takes_nothing_from_the_nine(world: World) -> None:
    finds(world, *(on_line(number) for number in range(1, 10)), off_lines(10))
    assert not world.run().failed
    assert len(world.github.line_comments(APP, 1)) == 9
    assert told(world) == sorted(map(str, range(1, 11)))


def test_more_findings_than_a_review_takes_stand_in_the_body(world: World) -> None:
    finds(world, *(on_line(1 + number % 20, 2, title=f"Defect {number}", body=f"Line {number} is wrong.")
                   for number in range(60)))  # fmt: skip
    assert not world.run().failed
    assert len(world.github.line_comments(APP, 1)) == 50
    assert len(told(world)) == 60


def test_each_comment_on_a_line_can_be_found_again(world: World) -> None:
    finds(world, on_line(1, fingerprint="f" * 32), on_line(2))
    world.run()
    tags = [read_tag(it.body, KEY) for it in world.github.line_comments(APP, 1)]
    assert [(tag.target, tag.kind) for tag in tags if tag] == [("octo/app#1", "finding")] * 2
    assert tags[0] and tags[0].id == "f" * 32
    assert read_tag(world.github.line_comments(APP, 1)[0].body, b"another key") is None


def test_a_suggestion_that_applies_can_be_committed_and_any_other_not(world: World) -> None:
    finds(
        world,
        on_line(1, suggestion="x = 1\n```\n", committable=True),
        on_line(2, suggestion="y = 2\n", committable=False),
    )
    world.run()
    first, second = (it.body for it in world.github.line_comments(APP, 1))
    assert "\n````suggestion\nx = 1\n```\n````\n" in first
    assert "suggestion" not in second


# ---- what the review does beside its comments


@pytest.mark.parametrize(
    ("events", "findings", "association", "author", "state"),
    [
        ("comment", [on_line(1)], "OWNER", "alice", "COMMENTED"),
        ("request-changes", [on_line(1)], "NONE", "alice", "CHANGES_REQUESTED"),
        ("request-changes", [off_lines()], "OWNER", "alice", "CHANGES_REQUESTED"),
        ("request-changes", [on_line(1, 3)], "OWNER", "alice", "COMMENTED"),
        ("request-changes", [], "OWNER", "alice", None),
        ("approve", [], "OWNER", "alice", "APPROVED"),
        ("approve", [on_line(1, 3)], "MEMBER", "alice", "APPROVED"),
        ("approve", [], "COLLABORATOR", "alice", "APPROVED"),
        ("approve", [], "CONTRIBUTOR", "alice", None),
        ("approve", [], "NONE", "alice", None),
        ("approve", [], "FIRST_TIME_CONTRIBUTOR", "alice", None),
        ("approve", [on_line(1)], "OWNER", "alice", "CHANGES_REQUESTED"),
        ("approve", [], "OWNER", "review-bot", None),
        ("approve", [on_line(1)], "OWNER", "review-bot", "COMMENTED"),
    ],
)
def test_what_a_review_does_by_the_setting(
    events: Any, findings: list[Finding], association: str, author: str, state: str | None, world: World
) -> None:
    world.github.edit_pull(APP, 1, author=author, author_association=association)
    world.policy = replace(world.policy, author_associations=frozenset({association}))
    world.events = events
    finds(world, *findings)
    world.run()
    assert [it.state for it in world.github.reviews(APP, 1)] == ([state] if state else [])
    assert len(world.markers()) == 1


def test_an_inconclusive_review_approves_nothing(world: World) -> None:
    world.events = "approve"
    world.script = lambda pull, _: reviewed(pull, verdict="inconclusive")
    world.run()
    assert [it.state for it in world.github.reviews(APP, 1)] == ["CHANGES_REQUESTED"]


def test_while_it_is_not_known_who_we_are_nothing_is_approved(world: World) -> None:
    world.events = "approve"
    world.github.fail(path="^/user|/graphql", status=403, times=99)
    world.run()
    assert (world.github.reviews(APP, 1), world.gate()) == ([], GREEN)


def test_a_review_that_asks_for_changes_does_so_without_comments_that_do_not_fit(world: World) -> None:
    world.events = "request-changes"
    finds(world, on_line(1), on_line(2, anchor=InlineAnchor("new.py", 9999, "RIGHT")))
    world.run()
    assert [it.state for it in world.github.reviews(APP, 1)] == ["CHANGES_REQUESTED"]
    assert (world.github.line_comments(APP, 1), told(world)) == ([], ["1", "2"])


# ---- length


def test_R22_a_review_of_70000_characters_is_cut_with_a_notice_and_keeps_its_verdict(world: World) -> None:
    finds(world, *(on_line(number, anchor=None, body="x" * 7000) for number in range(1, 11)))
    assert not world.run().failed
    body = summary(world)
    assert len(body) <= MAX_COMMENT
    assert "_(cut: the review is longer than a comment may be)_" in body
    assert "**Verdict: incorrect**" in body
    assert (len(world.markers()), world.gate()) == (1, RED)


def test_R22_a_finding_of_70000_characters_on_a_line_is_cut(world: World) -> None:
    finds(world, on_line(1, body="評" * 70_000))
    assert not world.run().failed
    [comment] = world.github.line_comments(APP, 1)
    assert len(comment.body) <= 65_536
    assert "_(cut: " in comment.body
    assert read_tag(comment.body, KEY)


# ---- the gate


def test_R24_no_more_statuses_is_a_fault_that_is_not_tried_hot(world: World) -> None:
    sha = world.pull().head_sha
    for _ in range(1000):
        world.github.add_status(APP, sha, "pending", "codex-review")
    world.run()
    world.github.clear()
    results = [world.run() for _ in range(12)]  # an hour
    assert all(result.fault and "maximum number of statuses" in result.fault.sentence for result in results)
    assert len(world.markers()) == 1
    assert len(world.writes) == 0, "tried again some times a day"
    assert len(world.asked) == 1


def test_R24_a_gate_that_is_refused_for_good_is_not_tried_in_each_cycle(world: World) -> None:
    sha = world.pull().head_sha
    for _ in range(1000):
        world.github.add_status(APP, sha, "pending", "codex-review")
    world.selftest = SANDBOX  # no review begins, so that the pending gate alone is to be shown
    results = [world.run() for _ in range(12)]
    assert all(result.failed for result in results)
    assert len(world.writes) == 1
    world.now += 6 * 3600
    world.run()
    assert len(world.writes) == 2


def test_R24_a_thousand_cycles_without_a_change_write_nothing(world: World) -> None:
    world.run()
    world.run()
    writes = len(world.writes)
    for _ in range(50):
        assert not world.run().failed
    assert len(world.writes) == writes


# ---- stored, and then the answer broke

BROKEN: list[dict[str, Any]] = [
    {"status": 502, "store": True}, {"status": 500, "store": True}, {"disconnect": True}, {"truncate": True},
    {"cut_off": True}, {"status": 502}, {"status": 503, "headers": {"Retry-After": "30"}},
]  # fmt: skip
WRITES = {"review": r"/pulls/1/reviews", "comment": r"/issues/1/comments", "status": r"/statuses/"}


def once(world: World) -> None:
    """One of each is there, and the last status is the review's."""
    assert len(world.github.reviews(APP, 1)) == 1
    assert len(world.github.line_comments(APP, 1)) == 1
    assert len(world.markers()) == 1
    described = [f"{it.state}: {it.description}" for it in reversed(world.statuses())]
    assert described == list(dict.fromkeys(described)), "no status twice"
    assert world.gate() == "failure: 1 blocking finding (P1)"
    assert len(world.asked) == 1


@pytest.mark.parametrize("how", BROKEN, ids=str)
@pytest.mark.parametrize("what", WRITES)
def test_R25_what_is_stored_before_the_answer_breaks_is_there_once(
    what: str, how: dict[str, Any], world: World
) -> None:
    finds(world, on_line(1))
    world.github.fail(method="POST", path=WRITES[what], skip=2 if what == "status" else 0, **how)
    assert world.run().failed
    assert not world.run().failed
    once(world)


@pytest.mark.parametrize("what", WRITES)
def test_R25_a_lost_process_after_the_broken_answer_finds_it_too(what: str, world: World) -> None:
    finds(world, on_line(1))
    world.github.fail(method="POST", path=WRITES[what], skip=2 if what == "status" else 0, status=502, store=True)
    world.run()
    world.restart()
    assert not world.run().failed
    once(world)


@pytest.mark.parametrize("trouble", [{"empty": True}, {"status": 502}, {"truncate": True}], ids=str)
@pytest.mark.parametrize(("what", "listing"), [("review", r"/pulls/1/reviews"), ("comment", r"/issues/1/comments")])
def test_R28_nothing_is_written_again_while_it_is_unknown_what_landed(
    what: str, listing: str, trouble: dict[str, Any], world: World
) -> None:
    finds(world, on_line(1))
    world.github.add_comment(APP, 1, "somebody's")
    world.github.fail(method="POST", path=WRITES[what], status=502, store=True)
    world.run()
    world.github.fail(method="GET", path=listing, times=500, **trouble)
    for _ in range(3):
        assert world.run().failed
    world.github.failures.clear()
    for _ in range(4):
        world.run()
    once(world)


def test_R29_the_review_that_landed_is_on_page_two(world: World) -> None:
    finds(world, on_line(1))
    for number in range(101):
        world.github.add_review(APP, 1, "COMMENTED", f"review {number}")
    for number in range(101):
        world.github.add_comment(APP, 1, f"comment {number}")
    world.github.fail(method="POST", path=WRITES["review"], status=502, store=True)
    world.run()
    world.github.fail(method="POST", path=WRITES["comment"], status=502, store=True)
    world.run()
    world.run()
    assert len(world.github.reviews(APP, 1)) == 102
    assert (len(world.markers()), len(world.asked)) == (1, 1)


# ---- limits


def test_R26_a_secondary_limit_twice_without_retry_after_waits_and_posts_what_is_stored(world: World) -> None:
    finds(world, on_line(1))
    world.github.secondary_limit(method="POST", path=WRITES["review"], times=2)
    assert world.run().failed
    for _ in range(3):
        world.run()
    once(world)


@pytest.mark.parametrize("what", WRITES)
def test_R26_a_limit_holds_all_writes_and_is_asked_nothing_hot(what: str, world: World) -> None:
    world.github.add_pull(APP, "second", files={"other.py": "1\n"})
    finds(world, on_line(1))
    world.github.secondary_limit(method="POST", path=WRITES[what], times=99, skip=2 if what == "status" else 0)
    world.run()
    limited = [it for it in world.github.exchanges if it.status == 403]
    assert len(limited) == 1
    after = world.github.exchanges[world.github.exchanges.index(limited[0]) + 1 :]
    assert after == [], "not even read"


# ---- attempts and verdicts


@pytest.mark.parametrize("outcome", [Outcome.MODEL_OUTPUT, Outcome.TURN_FAILED])
def test_R39_R41_a_model_that_fails_every_time_ends_in_an_error_with_nothing_posted(
    outcome: Outcome, world: World
) -> None:
    world.script = lambda *_: Ending(outcome, f"{outcome.value}: cut off")
    for _ in range(4):
        world.run()
    assert world.gate() == f"error: review failed 3 times: {outcome.value}: cut off"
    assert (world.markers(), world.github.reviews(APP, 1), len(world.asked)) == ([], [], 3)


@pytest.mark.parametrize(
    ("findings", "gate"),
    [
        ([], GREEN),
        ([on_line(1, 3)], "success: no blocking findings (1 note)"),
        ([on_line(1, 0)], "failure: 1 blocking finding (P0)"),
    ],
    ids=["none", "only P3", "a P0"],
)
def test_R40_the_gate_is_of_the_findings_on_lines_too(findings: list[Finding], gate: str, world: World) -> None:
    world.script = lambda pull, _: reviewed(pull, *findings)
    world.run()
    assert world.gate() == gate
    assert len(told(world)) == len(findings)


# ---- one stuck holds up no other


@pytest.mark.parametrize("what", WRITES)
@pytest.mark.parametrize("answer", [{"status": 502}, {"status": 422}, {"status": 403, "body": {"message": "locked"}}],
                         ids=str)  # fmt: skip
def test_one_stuck_pull_request_never_holds_up_the_others(what: str, answer: dict[str, Any], world: World) -> None:
    other = world.github.add_pull(APP, "second", files={"other.py": "1\n"})
    path = WRITES[what].replace("statuses/", f"statuses/{world.pull().head_sha}")
    world.script = lambda pull, _: reviewed(pull, *([on_line(1)] if pull.number == 1 else []))
    world.github.fail(method="POST", path=path, times=999, **answer)
    for _ in range(3):
        world.run()
    assert world.gate(other.number) == GREEN
    assert len(world.markers(other.number)) == 1
    assert len(world.asked) == 2
    world.store.add_letter(f"{APP}#{other.number}", "comment", "said", {"body": "said"})
    world.run()
    assert world.store.letter_sent_as("said"), "what comes later into the outbox, too"


def test_what_a_forge_refuses_for_good_on_lines_stands_in_the_summary(world: World) -> None:
    finds(world, on_line(1))
    world.github.fail(method="POST", path=WRITES["review"], status=422, times=99)
    result = world.run()
    assert result.fault and result.fault.cause == "forge-refused"
    assert (told(world), len(world.markers()), world.gate()) == (["1"], 1, "failure: 1 blocking finding (P1)")
    assert not world.run().failed


def test_a_permission_that_is_missing_gives_nothing_up(world: World) -> None:
    finds(world, on_line(1))
    failure = world.github.fail(method="POST", path=WRITES["review"], status=403, times=999,
                                body={"message": "Resource not accessible by personal access token"})  # fmt: skip
    for _ in range(4):
        assert world.run().failed
    world.github.failures.remove(failure)
    for _ in range(4):
        world.run()
    once(world)


# ---- others meddle


def test_a_comment_that_somebody_deleted_is_not_written_again(world: World) -> None:
    finds(world, on_line(1))
    world.run()
    for comment in world.github.comments(APP, 1):
        world.github.delete_comment(APP, comment.id)
    writes = len(world.writes)
    for _ in range(3):
        assert not world.run().failed
    assert (len(world.writes), len(world.asked)) == (writes, 1)


def test_a_review_that_somebody_dismissed_before_its_answer_was_heard_is_not_written_again(world: World) -> None:
    world.events = "request-changes"
    finds(world, on_line(1))
    world.github.fail(method="POST", path=WRITES["review"], status=502, store=True)
    world.run()
    world.github.reviews(APP, 1)[0].state = "DISMISSED"
    assert not world.run().failed
    assert [it.state for it in world.github.reviews(APP, 1)] == ["DISMISSED"]


@pytest.mark.parametrize("what", WRITES)
def test_a_push_between_two_writes_ends_the_rest_of_the_review(
    what: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    finds(world, on_line(1, 3))
    head, write = world.pull().head_sha, GitHubClient.write

    def pushed(self: GitHubClient, path: str, *args: Any, **named: Any) -> Any:
        answer = write(self, path, *args, **named)
        if world.asked and re.search(WRITES[what], path) and world.github.repository(APP).pulls[1].head_sha == head:
            world.github.push(APP, "feature", {"new.py": LINES + "more\n"})
        return answer

    monkeypatch.setattr(GitHubClient, "write", pushed)
    world.run()
    if what != "status":
        assert [it.state for it in world.statuses(sha=head) if it.state == "success"] == []
    world.run()
    world.run()
    assert world.gate() == "success: no blocking findings (1 note)"
    assert [it.commit_id for it in world.github.reviews(APP, 1)][-1] == world.pull().head_sha


def test_a_force_push_back_to_an_older_head_finds_its_review_and_posts_nothing(world: World) -> None:
    finds(world, on_line(1))
    world.run()
    first = world.pull().head_sha
    world.github.push(APP, "feature", {"new.py": LINES + "more\n"})
    world.run()
    assert len(world.github.reviews(APP, 1)) == 2
    world.github.sync(APP, {"refs/heads/feature": first})
    world.run()
    world.run()
    assert world.pull().head_sha == first
    assert (len(world.github.reviews(APP, 1)), len(world.markers()), len(world.asked)) == (2, 2, 2)
    assert world.gate() == "failure: 1 blocking finding (P1)"


# ---- killed between any two statements


class Killed(BaseException):
    """The process is gone."""


class Killer:
    """Ends the process at moment number `at` once it is armed; `seen` counts the moments."""

    def __init__(self, at: int) -> None:
        self.at, self.seen, self.armed = at, 0, False

    def moment(self) -> None:
        if self.armed:
            self.seen += 1
            if self.seen == self.at:
                raise Killed


def killing(killer: Killer, patch: pytest.MonkeyPatch) -> None:
    """Before and after each write of the database, and of the forge."""
    database, write = Base._write, GitHubClient.write

    @contextmanager
    def stored(self: Base) -> Iterator[Any]:
        killer.moment()
        with database(self) as db:
            yield db
        killer.moment()

    def written(self: GitHubClient, *args: Any, **named: Any) -> Any:
        killer.moment()
        answer = write(self, *args, **named)
        killer.moment()
        return answer

    patch.setattr(Base, "_write", stored)
    patch.setattr(GitHubClient, "write", written)


def killed_at(moment: int, github: FakeGitHub, path: Path, *, lost: bool) -> bool:
    """One world whose process ends at `moment` of its delivery, and whose database may be `lost` with it; False if
    it ended before that moment came."""
    world, killer = world_of(github, path), Killer(moment)
    good: Callable[..., Ending] = lambda pull, _: reviewed(pull, on_line(1))  # noqa: E731

    def script(pull: Any, stop: Any) -> Ending:
        killer.armed = True
        return good(pull, stop)

    world.script = script
    try:
        with pytest.MonkeyPatch.context() as patch:
            killing(killer, patch)
            world.run()
        return False
    except Killed:
        world.restart(lose_database=lost)
        world.script = good
        results = [world.run() for _ in range(2)]
        assert not results[-1].failed, (moment, results[-1].fault)
        assert len(world.github.reviews(APP, 1)) == 1, moment
        assert len(world.github.line_comments(APP, 1)) == 1, moment
        assert len(world.markers()) == 1, moment
        finished = [it for it in world.statuses() if it.state == "failure"]
        assert len(finished) == 1, moment
        assert world.gate() == "failure: 1 blocking finding (P1)"
        return True
    finally:
        world.close()


@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_killed_between_any_two_statements_there_is_one_of_each(tmp_path: Path, lost: bool) -> None:
    moments = 0
    for moment in range(1, 100):
        folder = tmp_path / str(moment)
        folder.mkdir()
        with FakeGitHub() as github:
            if not killed_at(moment, github, folder, lost=lost):
                break
        moments = moment
    assert 20 <= moments < 99


def test_after_a_lost_database_only_what_is_new_is_said_on_lines(world: World) -> None:
    """Killed between the comments on lines and the summary; reviewed anew, the model finds something else."""
    finds(world, on_line(1), on_line(2))
    world.github.fail(method="POST", path="/issues/1/comments", times=1, status=502)
    world.run()
    assert (len(world.github.line_comments(APP, 1)), world.markers()) == (2, [])
    world.restart(lose_database=True)
    finds(world, on_line(2), on_line(3))
    world.run()
    assert [it.line for it in world.github.line_comments(APP, 1)] == [1, 2, 3]
    assert told(world) == ["1", "2", "3"]
    assert "Defect 2" in summary(world) and "Defect 3" in summary(world)
    assert world.gate() == "failure: 2 blocking findings (P1)"


def test_after_a_lost_database_what_a_person_resolved_is_said_again(world: World) -> None:
    finds(world, on_line(1))
    world.github.fail(method="POST", path="/issues/1/comments", times=1, status=502)
    world.run()
    [thread] = world.forge.threads(world.pull())
    world.forge.resolve(world.pull(), thread)
    copy = {"path": "new.py", "line": 1, "body": world.github.line_comments(APP, 1)[0].body}
    world.github.add_review(APP, 1, "COMMENTED", "", "mallory", comments=[copy])
    world.restart(lose_database=True)
    world.run()
    authors = [it.author for it in world.github.line_comments(APP, 1)]
    assert authors == ["review-bot", "mallory", "review-bot"], "a copy of it is none of ours"
