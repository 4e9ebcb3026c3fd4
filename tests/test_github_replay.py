"""Inputs that broke other reviewers, as far as the forge's client answers for them; each test names its row."""

import json
from collections.abc import Callable

import pytest
from fake_github import FakeGitHub
from fake_github.clients import CONTEXT, Clock, forge_for

from appliance.core.verdict import WAITING, Gate
from appliance.forge import ForgeError

APP = "octo/app"
MARKER = "<!-- review-appliance: signed -->"


@pytest.fixture
def github(fake_github: FakeGitHub) -> FakeGitHub:
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"})
    return fake_github


def error_of(call: Callable[[], object]) -> ForgeError:
    with pytest.raises(ForgeError) as caught:
        call()
    return caught.value


def test_r22_a_comment_at_githubs_limit_is_taken_and_one_above_never_sent(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    assert len(forge.post_comment(pull, "評" * 65_536).body) == 65_536
    assert error_of(lambda: forge.post_comment(pull, "x" * 70_000)).permanent
    assert len(github.writes) == 1


def test_r24_the_maximum_number_of_statuses_is_a_fault_and_no_crash(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    for _ in range(1000):
        github.add_status(APP, pull.head_sha, "pending", CONTEXT.upper(), WAITING.description)
    error = error_of(lambda: forge.set_gate(pull, Gate("success", "no blocking findings")))
    assert (error.cause, error.permanent) == ("forge-refused", True)
    assert "maximum number of statuses" in str(error)
    assert forge.gate(pull) == WAITING
    assert len(github.writes) == 1


@pytest.mark.parametrize("how", [{"status": 502, "store": True}, {"status": 500, "store": True}, {"disconnect": True},
                                 {"truncate": True}, {"cut_off": True}])  # fmt: skip
def test_r25_a_comment_that_was_stored_before_the_answer_broke_is_written_once(
    github: FakeGitHub, how: dict[str, object]
) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    github.fail(method="POST", **how)
    error = error_of(lambda: forge.post_comment(pull, MARKER))
    assert (error.cause, error.permanent) == ("forge-unreachable", False)
    assert len(github.writes) == 1, "never written again blindly"
    assert [comment.body for comment in forge.comments(pull)] == [MARKER], "the caller finds its marker"


def test_r25_a_status_that_was_stored_before_the_502_is_found(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    github.fail(method="POST", status=502, store=True)
    assert not error_of(lambda: forge.set_gate(pull, WAITING)).permanent
    assert forge.gate(pull) == WAITING
    assert len(github.statuses(APP, pull.head_sha)) == 1


def test_r26_a_secondary_limit_twice_without_retry_after_is_waited_out(github: FakeGitHub) -> None:
    clock = Clock()
    forge = forge_for(github, clock=clock)
    pull = forge.pull(APP, 1)
    github.secondary_limit(method="POST", times=2)
    for expected in (60, 120):
        error = error_of(lambda: forge.post_comment(pull, MARKER))
        assert (error.cause, error.permanent) == ("forge-rate-limited", False)
        assert error.retry_at == clock.now + expected
        assert error_of(lambda: forge.post_comment(pull, MARKER)).retry_at == error.retry_at
        clock.now = error.retry_at
    forge.post_comment(pull, MARKER)
    assert [comment.body for comment in github.comments(APP, 1)] == [MARKER]
    assert [exchange.status for exchange in github.writes] == [403, 403, 201]


@pytest.mark.parametrize("how", [{"empty": True}, {"short": 1}, {"status": 502}, {"truncate": True}])
def test_r28_comments_that_come_back_empty_short_or_not_at_all_are_unknown(
    github: FakeGitHub, how: dict[str, object]
) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    github.add_comment(APP, 1, "first")
    github.add_comment(APP, 1, MARKER)
    for _ in range(2):  # also when an earlier good answer is known
        github.fail(path="/issues/1/comments", times=3, **how)
        error = error_of(lambda: forge.comments(pull))
        assert (error.cause, error.permanent) == ("forge-unreachable", False)
        github.clear()
        assert len(forge.comments(pull)) == 2


@pytest.mark.parametrize("how", [{"empty": True}, {"status": 502}, {"truncate": True}])
def test_r28_statuses_that_come_back_empty_or_not_at_all_are_unknown(
    github: FakeGitHub, how: dict[str, object]
) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    forge.set_gate(pull, WAITING)
    for _ in range(2):
        github.fail(path="/statuses", times=3, **how)
        assert error_of(lambda: forge.gate(pull)).cause == "forge-unreachable"
        github.clear()
        assert forge.gate(pull) == WAITING


def test_r28_a_pull_request_listing_that_fails_is_no_empty_one(github: FakeGitHub) -> None:
    forge = forge_for(github)
    github.add_pulls(APP, 100)
    github.fail(path="page=2", status=502, times=3)
    assert error_of(lambda: forge.pulls(APP)).cause == "forge-unreachable", "no half of a listing either"
    assert len(forge.pulls(APP)) == 101


def test_r29_the_marker_is_on_page_two_of_the_comments(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    for number in range(100):
        github.add_comment(APP, 1, f"comment {number}")
    written = forge.post_comment(pull, MARKER)
    assert forge.comments(pull)[100] == written
    assert [exchange.path.split("/")[1] for exchange in github.exchanges if "page=2" in exchange.query] == [
        "repositories"
    ]
    github.clear()
    assert len(forge.comments(pull)) == 101
    assert {exchange.status for exchange in github.exchanges} == {304}


def test_r29_all_of_101_pull_requests(github: FakeGitHub) -> None:
    github.add_pulls(APP, 100)
    assert [pull.number for pull in forge_for(github).pulls(APP)] == list(range(1, 102))


def test_r31_a_push_is_seen_before_the_write(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    github.push(APP, "feature", {"app.py": "print(3)\n"})
    assert forge.pull(APP, 1).head_sha != pull.head_sha


def test_r32_a_retargeted_base_is_another_key(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    github.push(APP, "release", {"release.txt": "1\n"}, base="main")
    github.edit_pull(APP, 1, base="release")
    again = forge.pull(APP, 1)
    assert again.head_sha == pull.head_sha
    assert again.key != pull.key
    assert forge.source(again).base_ref == "refs/heads/release"


def test_r35_a_deleted_account_is_ghost_and_a_deleted_fork_no_crash(github: FakeGitHub) -> None:
    github.edit_pull(APP, 1, author=None, head_repository=False)
    github.add_comment(APP, 1, "from nobody", author=None)
    forge = forge_for(github)
    (listed,) = forge.pulls(APP)
    assert listed.author == forge.pull(APP, 1).author == "ghost"
    assert forge.source(listed).url == f"{github.base}/octo/app.git", "of the base: the fork is gone"
    assert [comment.body for comment in forge.comments(listed)] == ["from nobody"]


def test_a_renamed_repository_is_followed_for_reading_and_writing(github: FakeGitHub) -> None:
    github.add_pulls(APP, 100)
    github.rename_repository(APP, "octo/renamed")
    forge = forge_for(github)
    pulls = forge.pulls(APP)
    assert len(pulls) == 101
    assert pulls[0].target == "octo/app#1", "the name it is watched by: its attempts stay its own"
    assert pulls[0].clone_url == f"{github.base}/octo/renamed.git"
    assert forge.permalink(pulls[0], "app.py", 1, 1) == (
        f"{github.base}/octo/renamed/blob/{pulls[0].head_sha}/app.py#L1"
    )
    forge.set_gate(pulls[0], WAITING)
    forge.post_comment(pulls[0], MARKER)
    assert forge.gate(pulls[0]) == WAITING
    assert [comment.body for comment in forge.comments(pulls[0])] == [MARKER]
    assert [exchange.status for exchange in github.writes] == [307, 201, 307, 201]


def test_a_renamed_repository_costs_nothing_of_the_limit_when_unchanged(github: FakeGitHub) -> None:
    github.rename_repository(APP, "octo/renamed")
    forge = forge_for(github)
    forge.pulls(APP)
    github.clear()
    assert len(forge.pulls(APP)) == 1
    assert [exchange.status for exchange in github.exchanges] == [301, 304]


def test_a_degraded_answer_is_not_remembered(github: FakeGitHub) -> None:
    """The ETag table must not serve a bad listing again when the good one comes back."""
    forge = forge_for(github)
    good = forge.pulls(APP)
    entries = json.loads(github.exchanges[0].body)
    del entries[0]["head"]
    github.fail(status=200, body=entries, headers={"ETag": '"bad"'})
    error_of(lambda: forge.pulls(APP))
    assert forge.pulls(APP) == good
    assert github.exchanges[-1].status == 304
