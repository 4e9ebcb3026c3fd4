"""One cycle and the next: what is reviewed, what is shown, what counts, and what is written once.

Only the self-test and the reviewer are scripted. The reports in the names (`r31`) are those of the replay list.
"""

import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_github import FakeGitHub
from world import APP, INTERVAL, SANDBOX, World, failed, found, reviewed

from appliance.core.doctor_causes import CAUSES
from appliance.core.outcomes import Ending, Outcome
from appliance.core.pulls import Policy, Pull
from appliance.core.verdict import gate_of
from appliance.cycle import Cycle
from appliance.flock import held
from appliance.process import Stopped

WAITING = "pending: waiting for the Codex review"
GREEN = "success: no blocking findings"


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path) -> Iterator[World]:
    """One repository with one pull request, number 1."""
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"}, title="Print two")
    world = World(fake_github, tmp_path)
    yield world
    world.close()


def more(world: World, count: int) -> None:
    for number in range(count):
        world.github.add_pull(APP, f"more{number}", files={"app.py": f"print({number}, 2)\n"})


# ---- a review


def test_a_ready_pull_request_gets_its_comment_and_its_gate(world: World) -> None:
    world.script = lambda pull, _: reviewed(pull, found(1), verdict="incorrect")
    result = world.run()
    assert (result.failed, result.pulls, result.reviewed, world.health) == (False, 1, 1, [None, None])
    [marker] = world.markers()
    pull = world.pull()
    assert (marker.target, marker.head_sha, marker.base_ref, marker.base_sha) == (
        "octo/app#1", pull.head_sha, "main", pull.base_sha,
    )  # fmt: skip
    assert [f"{it.state}: {it.description}" for it in reversed(world.statuses())] == [
        WAITING,
        "pending: Codex review running (attempt 1 of 3)",
        "failure: 1 blocking finding (P1)",
    ]
    assert world.status().state == "reviewed"


@pytest.mark.parametrize(
    "path",
    [
        "../../../../evil/phish/releases/download/v1/x.exe",
        "../" * 9 + "login",
        "src/..",
        "./app.py",
        "src//app.py",
        "/etc/passwd",
        "//evil.example/x",
        "src/",
        "",
        "..\\..\\..\\evil",
        "%2e%2e/%2E./evil",
        ".%2e/evil",
        "..%2f..%2fevil",
        "..%5cevil",
        "%252e%252e/evil",
        ".\t./evil",
    ],
)
def test_a_comment_links_to_nothing_outside_of_the_reviewed_tree(path: str, world: World) -> None:
    world.script = lambda pull, _: reviewed(pull, replace(found(1), path=path), found(2), verdict="incorrect")
    world.run()
    [comment] = world.github.comments(APP, 1)
    tree = f"{world.github.base}/{APP}/blob/{world.pull().head_sha}/"
    assert re.findall(r"\]\(([^)]*)\)", comment.body) == [f"{tree}app.py#L1"], "that of the plain path, and no other"


def test_the_gate_is_pending_while_the_review_runs(world: World) -> None:
    seen: list[str] = []

    def script(pull: Pull, _: threading.Event) -> Ending:
        seen.extend((world.gate(), world.status().state))
        return reviewed(pull)

    world.script = script
    world.run()
    assert seen == ["pending: Codex review running (attempt 1 of 3)", "reviewing"]
    assert world.gate() == GREEN


def test_an_unchanged_cycle_writes_nothing_and_asks_no_model(world: World) -> None:
    world.run()
    world.run()  # our own comment changed the listing
    world.github.clear()
    for _ in range(3):
        assert not world.run().failed
    assert world.writes == []
    assert len(world.asked) == 1
    assert {it.status for it in world.github.exchanges} == {304}


@pytest.mark.parametrize(
    ("change", "policy", "reason"),
    [
        ({"draft": True}, Policy(), "draft"),
        ({"author": None, "author_association": "NONE"}, Policy(), "author association NONE"),  # R35
        ({"labels": ["wip"]}, Policy(skip_labels=frozenset({"WIP"})), "label wip"),
        ({}, Policy(require_label="review"), "label review is missing"),
    ],
    ids=["draft", "r35-ghost", "skip", "require"],
)
def test_what_is_not_ready_gets_nothing(change: dict[str, object], policy: Policy, reason: str, world: World) -> None:
    world.github.edit_pull(APP, 1, **change)
    world.policy = policy
    world.github.clear()
    assert not world.run().failed
    assert (world.writes, world.asked) == ([], [])
    assert (world.status().state, world.status().reason) == ("skipped", reason)


def test_a_draft_that_is_ready_now_is_reviewed(world: World) -> None:
    world.github.edit_pull(APP, 1, draft=True)
    world.run()
    world.github.edit_pull(APP, 1, draft=False)
    world.run()
    assert world.gate() == GREEN


def test_r29_all_pages_of_pull_requests_and_comments(world: World) -> None:
    for number in range(105):
        world.github.add_comment(APP, 1, f"comment {number}")
    world.run()
    world.restart(lose_database=True)
    for number in range(105):
        world.github.add_comment(APP, 1, f"later {number}")
    world.github.add_pulls(APP, 101)
    for number in (1, 102):
        world.github.edit_pull(APP, number, labels=["review"])
    world.policy = Policy(require_label="review")
    assert world.run().pulls == 102
    assert [pull.number for pull in world.asked] == [1, 102], "the marker of 1, on page 2, was found"


# ---- attempts


@pytest.mark.parametrize("outcome", [Outcome.MODEL_OUTPUT, Outcome.TIMEOUT, Outcome.CONTEXT, Outcome.TURN_FAILED])
def test_r39_what_is_the_pull_requests_counts_up_to_the_limit_and_then_says_so(outcome: Outcome, world: World) -> None:
    world.script = lambda *_: Ending(outcome, outcome.value)
    for attempt in (1, 2, 3):
        assert not world.run().failed
        assert world.attempts() == attempt
    assert world.gate() == f"error: review failed 3 times: {outcome.value}"
    world.run()
    assert len(world.asked) == 3
    assert (world.status().state, world.status().attempts) == ("given-up", 3)
    assert world.markers() == []


def test_a_retry_starts_over(world: World) -> None:
    world.script = lambda *_: Ending(Outcome.TIMEOUT, "timeout")
    for _ in range(3):
        world.run()
    world.store.forget("octo/app#1")
    world.script = lambda pull, _: reviewed(pull)
    world.run()
    assert (world.gate(), world.attempts()) == (GREEN, 1)


def test_r37_a_review_asked_for_again_on_a_green_head_is_pending_first(world: World) -> None:
    world.run()
    world.store.forget("octo/app#1")
    seen: list[str] = []

    def script(pull: Pull, _: threading.Event) -> Ending:
        seen.append(world.gate())
        return reviewed(pull, found(0))

    world.script = script
    world.run()
    assert seen == ["pending: Codex review running (attempt 1 of 3)"]
    assert world.gate() == "failure: 1 blocking finding (P0)"
    assert len(world.markers()) == 2


def test_a_push_starts_over(world: World) -> None:
    world.script = lambda *_: Ending(Outcome.TIMEOUT, "timeout")
    for _ in range(3):
        world.run()
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.run()
    assert world.attempts() == 1
    assert world.gate() == WAITING


NO_ATTEMPT = [
    Outcome.SANDBOX,
    Outcome.WORKSTATION,
    Outcome.LOGIN,
    Outcome.QUOTA,
    Outcome.MODEL_REFUSED,
    Outcome.MODEL_UNREACHABLE,
    Outcome.FORGE_UNREACHABLE,
]


@pytest.mark.parametrize("outcome", NO_ATTEMPT)
def test_what_is_not_the_pull_requests_costs_no_attempt_and_fails_the_cycle(outcome: Outcome, world: World) -> None:
    world.script = lambda *_: failed(outcome)
    for _ in range(5):
        result = world.run()
        assert result.failed
        assert result.fault is not None
        assert result.fault.cause == outcome.value
        assert result.fault.remedy
    assert (world.attempts(), world.markers()) == (0, [])
    assert world.gate().startswith("pending: ")
    assert world.status().state == "waiting"


@pytest.mark.parametrize(
    ("outcome", "further"),
    [(outcome, outcome is Outcome.FORGE_UNREACHABLE) for outcome in NO_ATTEMPT]
    + [(Outcome.TIMEOUT, True), (Outcome.SUPERSEDED, True), (Outcome.INTERRUPTED, True)],
)
def test_whether_further_reviews_start_in_this_cycle(outcome: Outcome, further: bool, world: World) -> None:
    more(world, 3)
    world.script = lambda *_: failed(outcome)
    world.run()
    assert len(world.asked) == (4 if further else 1)


@pytest.mark.parametrize(
    ("outcome", "cycles"),
    [
        (Outcome.SANDBOX, 1),
        (Outcome.WORKSTATION, 1),
        (Outcome.LOGIN, 1),
        (Outcome.MODEL_REFUSED, 1),
        (Outcome.MODEL_UNREACHABLE, 3),
    ],
)
def test_health_shows_it_after_so_many_cycles_and_recovers_by_itself(
    outcome: Outcome, cycles: int, world: World
) -> None:
    world.script = lambda *_: failed(outcome)
    shown = [getattr(world.run().unhealthy, "cause", None) for _ in range(cycles)]
    assert shown == [None] * (cycles - 1) + [outcome.value]
    world.script = lambda pull, _: reviewed(pull)
    world.now += 86_400
    world.run()
    result = world.run()
    assert (result.failed, result.unhealthy) == (False, None)
    assert world.gate() == GREEN


def test_quota_waits_until_its_reset_and_says_until_when(world: World) -> None:
    reset = world.now + 3 * INTERVAL
    world.script = lambda *_: failed(Outcome.QUOTA, reset)
    result = world.run()
    assert result.failed
    assert result.unhealthy is None, "a limit is no fault to be mended"
    at = time.strftime("%H:%M UTC", time.gmtime(reset))
    assert world.gate() == f"pending: usage limit, next try {at}"
    assert world.status().next_try == reset
    world.run()
    assert len(world.asked) == 1, "not asked before"
    world.script = lambda pull, _: reviewed(pull)
    world.run()
    world.run()
    assert (world.gate(), len(world.asked)) == (GREEN, 2)


def test_an_uncounted_fault_is_never_tried_hot(world: World) -> None:
    """Each delay is longer than the last, and a new pull request does not start a try of its own."""
    world.script = lambda *_: failed(Outcome.MODEL_UNREACHABLE)
    tries = []
    for _ in range(16):
        before = len(world.asked)
        more(world, 1) if before == 1 else None
        world.run()
        tries.append(len(world.asked) - before)
    assert max(tries) == 1
    assert tries[:2] == [1, 1]
    assert sum(tries) <= 6


@pytest.mark.parametrize("outcome", sorted(set(NO_ATTEMPT) - {Outcome.FORGE_UNREACHABLE}))
def test_a_cycle_by_hand_tries_once_what_a_person_can_have_mended_and_the_loop_waits_on(
    outcome: Outcome, world: World
) -> None:
    world.script = lambda *_: failed(outcome)
    world.run()
    world.run()
    before = len(world.asked)
    world.run()
    assert len(world.asked) == before, "the loop waits"
    world.by_hand = True
    assert world.run().failed
    assert len(world.asked) == before + 1
    assert (world.attempts(), world.status().state) == (0, "waiting")
    world.by_hand = False
    world.run()
    assert len(world.asked) == before + 1, "what was tried in vain waits on"
    world.by_hand = True
    world.script = lambda pull, _: reviewed(pull)
    result = world.run()
    assert (result.failed, result.unhealthy, world.gate()) == (False, None, GREEN)


def test_a_cycle_by_hand_does_not_ask_before_a_reset_that_the_api_named(world: World) -> None:
    world.script = lambda *_: failed(Outcome.QUOTA, world.now + 3 * INTERVAL)
    world.run()
    world.by_hand = True
    assert world.run().again.endswith("`appliance retry TARGET` asks with the next cycle.")
    assert len(world.asked) == 1


def test_a_cycle_by_hand_that_can_ask_nobody_ends_no_wait(world: World) -> None:
    world.script = lambda *_: failed(Outcome.MODEL_UNREACHABLE)
    world.run()
    world.run()
    waits = world.store.note("held")["until"]
    world.github.fail(method="GET", path="/pulls", status=502, times=20)
    world.by_hand = True
    world.run()
    assert world.store.note("held")["until"] == waits


def test_another_key_is_tried_at_once(world: World) -> None:
    world.script = lambda *_: failed(Outcome.LOGIN)
    world.run()
    world.run()
    world.credentials = "another"
    world.script = lambda pull, _: reviewed(pull)
    assert not world.run().failed
    assert world.gate() == GREEN


def test_without_a_login_nothing_is_asked_and_gates_are_still_shown(world: World) -> None:
    world.no_login = failed(Outcome.LOGIN).fault
    result = world.run()
    assert result.failed
    assert result.unhealthy == world.no_login
    assert (world.asked, world.gate(), world.attempts()) == ([], WAITING, 0)


# ---- interruptions


def test_a_stop_during_a_review_counts_nothing_and_gives_the_lease_back(world: World) -> None:
    def script(_: Pull, stop: threading.Event) -> Ending:
        world.stop.set()
        assert stop.wait(20), "the review is told"
        raise Stopped("stopped")

    world.script = script
    world.cycle().run()
    world.restart()
    assert world.attempts() == 0
    assert not world.store.records([world.pull()])["octo/app#1"].leased
    world.script = lambda pull, _: reviewed(pull)
    world.run()
    assert world.gate() == GREEN


def test_a_stop_while_reviews_wait_starts_none_of_them(world: World) -> None:
    more(world, 3)

    def script(*_: object) -> Ending:
        world.stop.set()
        raise Stopped("stopped")

    world.script = script
    world.cycle().run()
    assert len(world.asked) == 1


def test_a_crash_is_an_interruption_and_the_third_in_a_row_counts(world: World) -> None:
    for crashes in (1, 2, 3):
        assert world.store.begin_attempt(world.pull(), f"dead {crashes}") is not None
        world.store.reclaim(lambda _: False)
    assert world.attempts() == 1
    world.run()
    assert world.gate() == GREEN


def test_what_a_dead_process_held_is_reviewed_and_what_a_living_one_holds_is_not(world: World) -> None:
    more(world, 1)
    world.store.begin_attempt(world.pull(1), "dead")
    world.store.begin_attempt(world.pull(2), "living")
    living = world.cycle()
    replace(living, alive=lambda owner: owner == "living").run()
    assert [pull.number for pull in world.asked] == [1]
    assert world.status(2).state == "reviewing"


def test_a_defect_of_ours_is_no_attempt_of_the_pull_request(world: World) -> None:
    def script(*_: object) -> Ending:
        raise RuntimeError("a bug")

    world.script = script
    result = world.run()
    assert result.fault is not None
    assert result.fault.cause == "defect"
    assert "RuntimeError: a bug" in result.fault.sentence
    assert world.attempts() == 0


def test_without_a_thread_to_be_had_nothing_is_counted_and_no_lease_is_left(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that hands the stop on is the first that a review starts of its own."""

    class NoThread:
        def __init__(self, **_: object) -> None: ...

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("appliance.cycle.threading", SimpleNamespace(Thread=NoThread, Event=threading.Event))
        result = world.run()
    assert result.fault is not None and result.fault.cause == "pids-limit"
    assert result.unhealthy == result.fault
    assert world.attempts() == 0
    assert not world.store.records([world.pull()])[world.pull().target].leased


def test_a_full_disk_is_the_workstations(world: World) -> None:
    def script(*_: object) -> Ending:
        raise OSError(28, "No space left on device")

    world.script = script
    result = world.run()
    assert result.fault is not None
    assert result.fault.cause == "disk-full"
    assert (world.attempts(), result.unhealthy) == (0, result.fault)


# ---- the pull request moves on


def pushed(world: World) -> None:
    world.github.push(APP, "feature", {"app.py": "print(3)\n"})


def retargeted(world: World) -> None:
    world.github.push(APP, "release", {"app.py": "print(0)\n"}, base="main")
    world.github.edit_pull(APP, 1, base="release")


def closed(world: World) -> None:
    world.github.edit_pull(APP, 1, state="closed")


@pytest.mark.parametrize("moves", [pushed, retargeted, closed])
def test_r31_r32_what_moves_on_while_codex_runs_gets_no_success_for_what_it_was(moves: object, world: World) -> None:
    head = world.pull().head_sha

    def script(pull: Pull, _: threading.Event) -> Ending:
        moves(world)  # type: ignore[operator]
        world.script = lambda pull, _: reviewed(pull)
        return reviewed(pull)

    world.script = script
    assert not world.run().failed
    assert world.markers() == []
    assert not any(status.state == "success" for status in world.statuses(sha=head))
    world.run()
    if moves is closed:
        assert world.markers() == []
    else:
        assert world.gate() == GREEN
        assert [marker.base_ref for marker in world.markers()] == ["release" if moves is retargeted else "main"]


@pytest.mark.parametrize("moves", [pushed, retargeted, closed])
def test_nothing_is_written_about_what_is_no_longer_there(moves: object, world: World) -> None:
    def script(*_: object) -> Ending:
        moves(world)  # type: ignore[operator]
        world.github.clear()
        return Ending(Outcome.TIMEOUT, "timeout")

    world.script = script
    world.run()
    assert world.writes == []


def test_r32_a_retargeted_pull_request_that_was_green_is_pending_and_reviewed_anew(world: World) -> None:
    world.run()
    retargeted(world)
    seen: list[str] = []

    def script(pull: Pull, _: threading.Event) -> Ending:
        seen.append(world.gate())
        return reviewed(pull)

    world.script = script
    world.run()
    assert seen == ["pending: Codex review running (attempt 1 of 3)"]
    assert [marker.base_ref for marker in world.markers()] == ["main", "release"]


def test_a_review_whose_pull_request_moved_on_is_ended(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.cycle.WATCH_SECONDS", 0.05)

    def script(_: Pull, stop: threading.Event) -> Ending:
        pushed(world)
        assert stop.wait(10), "nobody looked"
        raise Stopped("stopped")

    world.script = script
    assert not world.run().failed
    assert world.attempts() == 0
    world.script = lambda pull, _: reviewed(pull)
    world.run()
    assert world.gate() == GREEN


def test_a_forge_that_does_not_answer_ends_no_review(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.cycle.WATCH_SECONDS", 0.02)

    def script(pull: Pull, stop: threading.Event) -> Ending:
        world.github.fail(status=404, path="/pulls/1", times=20)
        assert not stop.wait(0.5)
        world.github.failures.clear()
        return reviewed(pull)

    world.script = script
    world.run()
    assert world.gate() == GREEN


def test_a_later_review_supersedes_the_earlier_and_says_what_became_of_it(world: World) -> None:
    world.script = lambda pull, _: reviewed(pull, found(1, "Off by one"), found(2, "Leaks"))
    world.run()
    first = world.pull().head_sha
    pushed(world)
    world.script = lambda pull, _: reviewed(pull, found(1, "Off by one"))
    world.run()
    body = world.github.comments(APP, 1)[-1].body
    assert f"supersedes the one of head `{first}`" in body
    assert "- [P1] Off by one (`app.py`): reported again" in body
    assert "- [P2] Leaks (`app.py`): not reported any more" in body


# ---- posting


def test_r25_a_comment_that_was_stored_although_the_answer_was_502_is_posted_once(world: World) -> None:
    world.github.fail(method="POST", path="/comments", status=502, store=True)
    assert world.run().failed
    assert len(world.markers()) == 1
    assert not world.run().failed
    assert (len(world.markers()), world.gate(), len(world.asked)) == (1, GREEN, 1)


def test_r26_a_limit_delays_the_posting_and_asks_no_model_again(world: World) -> None:
    world.github.secondary_limit(method="POST", path="/comments", times=10)
    result = world.run()
    assert result.failed
    assert result.fault is not None
    assert result.fault.cause == "forge-rate-limited"
    assert world.markers() == []
    assert world.gate().startswith("pending")
    world.github.failures.clear()
    world.restart()  # the limit's pause is over
    assert not world.run().failed
    assert (len(world.markers()), world.gate(), len(world.asked)) == (1, GREEN, 1)


def test_a_crash_between_the_result_and_its_posting_costs_no_second_review(world: World) -> None:
    review = reviewed(world.pull()).review
    assert review is not None
    world.store.finish(world.store.begin_attempt(world.pull(), "dead"), review, gate_of(review, 1))
    world.restart()
    world.run()
    assert world.asked == []
    assert (world.gate(), len(world.markers()), world.status().state) == (GREEN, 1, "reviewed")


def test_a_status_that_fails_after_the_comment_is_set_later_and_the_comment_stays_one(world: World) -> None:
    world.github.fail(method="POST", path="/statuses/", skip=2, times=1, status=500)
    assert world.run().failed
    assert (len(world.markers()), world.gate().split(":")[0]) == (1, "pending")
    assert not world.run().failed
    assert (len(world.markers()), world.gate(), len(world.asked)) == (1, GREEN, 1)


def test_a_posting_that_is_refused_holds_up_no_other(world: World) -> None:
    more(world, 1)
    world.github.fail(method="POST", path="/issues/1/comments", status=403, body={"message": "locked"}, times=9)
    for _ in range(2):
        result = world.run()
        assert result.failed
    assert result.unhealthy is not None
    assert (world.gate(2), world.markers(1), len(world.asked)) == (GREEN, [], 2)


def test_a_result_for_a_pull_request_that_closed_before_its_posting_is_abandoned(world: World) -> None:
    world.github.fail(method="POST", path="/comments", status=500, times=1)
    world.run()
    closed(world)
    world.github.clear()
    assert not world.run().failed
    assert world.writes == []
    assert world.store.undelivered() == []


# ---- the forge is the truth


def test_a_lost_database_loses_only_history(world: World) -> None:
    world.script = lambda pull, _: reviewed(pull, found(1))
    world.run()
    world.restart(lose_database=True)
    world.github.clear()
    assert not world.run().failed
    assert ([it for it in world.writes if it != "POST /graphql"], len(world.asked)) == ([], 1), "that one reads"
    assert world.status().state == "reviewed"
    assert world.gate() == "failure: 1 blocking finding (P1)"


def test_a_new_signing_key_beside_the_database_reviews_nothing_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the doctor says of a lost key."""
    world.run()
    monkeypatch.setattr("world.KEY", b"another key of 32 bytes, as made")
    world.restart()
    world.github.clear()
    assert (world.run().reviewed, world.writes, world.markers()) == (0, [], [])
    [lost] = [cause for cause in CAUSES if cause.id == "signing-key-missing"]
    assert "what the database has is not reviewed again, but no comment so far counts as" in lost.remedy


def test_a_marker_that_somebody_copied_or_forged_counts_for_nothing(world: World) -> None:
    world.run()
    ours = world.github.comments(APP, 1)[0].body
    world.restart(lose_database=True)
    more(world, 1)
    world.github.add_comment(APP, 2, ours)  # of another pull request
    pushed(world)  # and now of another head
    world.run()
    assert [pull.number for pull in world.asked] == [1, 1, 2]


@pytest.mark.parametrize(
    "trouble",
    [{"status": 502}, {"empty": True}, {"short": 1}, {"truncate": True}, {"disconnect": True}, {"cut_off": True}],
    ids=str,
)
def test_r28_nothing_is_reviewed_while_it_is_unknown_what_is_there(trouble: dict[str, object], world: World) -> None:
    world.run()
    world.github.add_comment(APP, 1, "another")
    world.restart(lose_database=True)
    world.github.clear()
    world.github.fail(method="GET", path="/issues/1/comments", times=50, **trouble)
    world.run()
    assert (world.writes, len(world.asked)) == ([], 1)
    assert world.gate() == GREEN
    world.github.failures.clear()
    world.run()
    assert (world.writes, len(world.asked)) == ([], 1)
    assert world.status().state == "reviewed"


def test_comments_that_may_not_be_read_are_a_fault_at_once(world: World) -> None:
    world.github.fail(method="GET", path="/issues/1/comments", status=403, times=500)
    result = world.run()
    assert [getattr(it, "cause", None) for it in (result.fault, result.unhealthy)] == ["forge-permission"] * 2
    assert "GITHUB_TOKEN" in str(result.unhealthy)
    assert (world.asked, world.attempts(), world.status().state) == ([], 0, "waiting")
    world.github.failures.clear()
    result = world.run()
    assert (result.fault, result.unhealthy, result.reviewed) == (None, None, 1)


def test_comments_that_do_not_come_for_a_while_are_unhealthy_after_three_cycles(world: World) -> None:
    world.github.fail(method="GET", path="/issues/1/comments", status=502, times=500)
    results = [world.run() for _ in range(3)]
    assert all(result.failed for result in results)
    assert [getattr(it.unhealthy, "cause", None) for it in results] == [None, None, "forge-unreachable"]
    assert (world.asked, world.attempts()) == ([], 0)
    world.github.failures.clear()
    assert world.run().unhealthy is None


@pytest.mark.parametrize("trouble", [{"status": 502}, {"empty": True}, {"truncate": True}], ids=str)
def test_r28_a_listing_of_pull_requests_that_fails_changes_nothing(trouble: dict[str, object], world: World) -> None:
    world.run()
    world.github.clear()
    world.github.fail(method="GET", path=r"/pulls\?", times=50, **trouble)
    result = world.run()
    assert result.failed is ("empty" not in trouble)
    assert world.writes == []
    world.github.failures.clear()
    assert not world.run().failed
    assert (world.writes, len(world.asked), world.status().state) == ([], 1, "reviewed")


def test_one_repository_that_cannot_be_listed_does_not_stop_the_others(world: World) -> None:
    world.github.add_repository("octo/lib")
    world.github.add_pull("octo/lib", "feature", files={"a": "1\n"})
    world.forge.close()
    world.forge = world.forge_of("octo/gone", "octo/app", "octo/lib")
    result = world.run()
    assert result.failed
    assert result.reviewed == 2
    assert result.unhealthy is not None, "a name that is not there does not pass by itself"
    assert result.unhealthy.cause == "forge-not-found"


def test_a_forge_that_is_away_turns_unhealthy_after_three_cycles_and_recovers(world: World) -> None:
    world.run()
    world.github.fail(path="/pulls", status=500, times=1000)
    shown = [getattr(world.run().unhealthy, "cause", None) for _ in range(3)]
    assert shown == [None, None, "forge-unreachable"]
    world.github.failures.clear()
    assert world.run().unhealthy is None


def test_r24_no_more_statuses_is_a_fault_and_no_crash(world: World) -> None:
    sha = world.pull().head_sha
    for _ in range(1000):
        world.github.add_status(APP, sha, "pending", "codex-review")
    world.github.clear()
    for _ in range(3):
        result = world.run()
    assert result.fault is not None
    assert result.fault.cause == "forge-refused"
    assert "maximum number of statuses" in result.fault.sentence
    assert (len(world.markers()), len(world.asked)) == (1, 1)


def test_a_permission_that_is_missing_is_shown_at_once_with_the_next_step(world: World) -> None:
    world.github.tokens[world.github.token] = replace(world.github.tokens[world.github.token], writes=False)
    result = world.run()
    assert result.unhealthy is not None
    assert result.unhealthy.cause == "forge-permission"
    assert "GITHUB_TOKEN" in result.unhealthy.remedy


def test_the_token_is_in_no_fault(world: World) -> None:
    world.github.fail(path="/pulls", status=500, body={"message": f"bad token {world.github.token}"}, times=99)
    result = world.run()
    assert world.github.token not in repr(result)


# ---- several at once


def test_as_many_at_once_as_allowed(world: World) -> None:
    more(world, 5)
    world.at_once = 3
    lock, running, most, three = threading.Lock(), [0], [0], threading.Barrier(3)

    def script(pull: Pull, _: threading.Event) -> Ending:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        three.wait(20)
        time.sleep(0.05)  # for a fourth, if it were let in
        with lock:
            running[0] -= 1
        return reviewed(pull)

    world.script = script
    assert world.run().reviewed == 6
    assert most == [3]
    assert [world.gate(number) for number in range(1, 7)] == [GREEN] * 6
    assert all(len(world.markers(number)) == 1 for number in range(1, 7))


def test_a_result_that_finishes_beside_a_failing_one_is_not_lost(world: World) -> None:
    more(world, 1)
    world.at_once = 2
    both = threading.Barrier(2)

    def script(pull: Pull, _: threading.Event) -> Ending:
        both.wait(20)
        if pull.number == 1:
            return failed(Outcome.SANDBOX)
        time.sleep(0.2)
        return reviewed(pull)

    world.script = script
    result = world.run()
    assert (result.failed, result.reviewed, world.gate(2)) == (True, 1, GREEN)


def test_two_cycles_at_once_review_each_pull_request_once(world: World) -> None:
    """They should not be: but a lease is what decides, not luck."""
    more(world, 2)
    cycles: list[Cycle] = [replace(world.cycle(), alive=lambda _: True, owner=name) for name in ("a", "b")]
    world.script = lambda pull, _: reviewed(pull)
    threads = [threading.Thread(target=cycle.run) for cycle in cycles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = sorted(pull.number for pull in world.asked)
    assert set(numbers) == {1, 2, 3}
    assert [len(world.markers(number)) for number in (1, 2, 3)] == [numbers.count(number) for number in (1, 2, 3)]


def test_progress_moves_with_the_cycle(world: World) -> None:
    cycle = world.cycle()
    before = cycle.progress.moved_at
    seen: list[bool] = []
    cycle = replace(cycle, selftest=lambda: seen.append(cycle.progress.running))
    cycle.run()
    assert seen == [True]
    assert not cycle.progress.running
    assert cycle.progress.moved_at > before


def test_the_selftest_is_asked_before_each_cycle(world: World) -> None:
    world.selftest = SANDBOX
    assert world.run().fault == SANDBOX
    world.selftest = None
    assert world.run().fault is None


def test_a_result_that_two_processes_want_to_post_is_posted_once(world: World) -> None:
    """`review --post` stores its result and posts it; the loop finds it stored in between."""
    review = reviewed(world.pull()).review
    assert review is not None
    world.store.seen("github", APP, [world.pull()])
    world.store.finish(world.store.begin_attempt(world.pull(), "me"), review, gate_of(review, 1))
    lock = world.path / "delivery.lock"
    delivery = replace(world.cycle().delivery, alone=lambda: held(lock, timeout=20))
    [stored] = world.store.undelivered()
    told: list[bool] = []

    def post() -> None:
        told.append(delivery.deliver(world.forge, stored, world.pull()))

    threads = [threading.Thread(target=post) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (told, len(world.markers()), world.gate()) == ([True] * 4, 1, GREEN)


def test_a_result_that_another_process_abandoned_is_not_told_as_posted(world: World) -> None:
    review = reviewed(world.pull()).review
    assert review is not None
    world.store.finish(world.store.begin_attempt(world.pull(), "me"), review, gate_of(review, 1))
    [stored] = world.store.undelivered()
    world.store.abandon(stored.id)
    assert not world.cycle().delivery.deliver(world.forge, stored, world.pull())
    assert world.markers() == []


def test_a_commit_that_two_pull_requests_share_is_green_only_if_both_are(world: World) -> None:
    """A status belongs to the commit: what is fine for another base must not open the way into this one."""
    sha = world.pull().head_sha
    world.github.push(APP, "other", {"other.txt": "x"})
    world.script = lambda pull, _: reviewed(pull, *([found(1)] if pull.base_ref == "main" else []))
    world.run()
    assert world.gate(1) == "failure: 1 blocking finding (P1)"
    other = world.github.add_pull(APP, world.pull().head_ref, "other")
    assert other.head_sha == sha
    world.run()
    assert [marker.gate_state for marker in world.markers(other.number)] == ["success"]
    assert world.gate(1) == "failure: 1 blocking finding (P1)"
    writes = len(world.statuses())
    world.run()
    assert len(world.statuses()) == writes, "and it rests"
    world.github.edit_pull(APP, 1, state="closed")
    world.run()
    assert world.gate(other.number) == "success: no blocking findings"


def test_a_green_commit_is_pending_while_another_pull_request_of_it_waits(world: World) -> None:
    world.run()
    assert world.gate() == "success: no blocking findings"
    world.github.push(APP, "other", {"other.txt": "x"})
    other = world.github.add_pull(APP, world.pull().head_ref, "other")
    world.script = lambda pull, _: failed(Outcome.SANDBOX)
    world.run()
    world.run()
    assert world.gate() == "pending: waiting for the Codex review"
    world.github.edit_pull(APP, other.number, draft=True)
    world.run()
    told = "pending: octo/app#2 has this commit too, into another branch, and is not ready"
    assert world.gate() == told, "it would be green at the moment when it becomes ready"
    writes = len(world.statuses())
    world.run()
    assert len(world.statuses()) == writes, "and it rests"
    world.github.edit_pull(APP, other.number, base="main")
    world.run()
    assert world.gate() == "success: no blocking findings", "into the same branch it is the same change"
