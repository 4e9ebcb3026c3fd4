"""The GitHub client against the fake."""

import json
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from fake_github import FakeGitHub, Token
from fake_github.clients import Clock, MemoryEtags, forge_for

from appliance import __version__
from appliance.core.pulls import Pull
from appliance.core.verdict import WAITING, Gate
from appliance.forge import ForgeError
from appliance.forge import github_client as client_module
from appliance.forge.github import GitHubForge, parse_target
from appliance.forge.github_shapes import Shape
from appliance.process import Stopped

APP = "octo/app"


@pytest.fixture
def github(fake_github: FakeGitHub) -> FakeGitHub:
    """One repository with one pull request, number 1."""
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"}, title="Print two", labels=["bug"])
    return fake_github


def error_of(call: Callable[[], object]) -> ForgeError:
    with pytest.raises(ForgeError) as caught:
        call()
    assert caught.value.remedy, "an error without a next step"
    return caught.value


# --- reading ---


def test_a_pull_request_is_what_git_and_github_say(github: FakeGitHub) -> None:
    (pull,) = forge_for(github).pulls(APP)
    made = github.repository(APP).pulls[1]
    assert pull == Pull(
        target="octo/app#1",
        repository=APP,
        number=1,
        head_sha=made.head_sha,
        base_ref="main",
        base_sha=made.base_sha,
        title="Print two",
        body="",
        author="alice",
        author_association="MEMBER",
        labels=("bug",),
        draft=False,
        open=True,
        updated_at=pull.updated_at,
        url=f"{github.base}/octo/app/pull/1",
        clone_url=f"{github.base}/octo/app.git",
        head_ref="feature",
    )


def test_an_unchanged_cycle_over_10_repositories_of_50_is_10_requests_all_304(fake_github: FakeGitHub) -> None:
    names = [f"octo/app{number}" for number in range(10)]
    for name in names:
        fake_github.add_repository(name)
        fake_github.add_pulls(name, 50)
    forge = forge_for(fake_github, *names)
    first = [forge.pulls(name) for name in forge.repositories()]
    fake_github.clear()
    started = time.process_time()  # that of the fake too, but not what else the machine does
    second = [forge.pulls(name) for name in forge.repositories()]
    seconds = time.process_time() - started
    assert [exchange.status for exchange in fake_github.exchanges] == [304] * 10
    assert second == first
    assert sum(map(len, second)) == 500
    assert seconds < 0.5


def test_a_change_is_seen_at_once(github: FakeGitHub) -> None:
    forge = forge_for(github)
    before = forge.pulls(APP)
    sha = github.push(APP, "feature", {"app.py": "print(3)\n"})
    assert [pull.head_sha for pull in before] != [sha]
    assert [pull.head_sha for pull in forge.pulls(APP)] == [sha]
    assert [exchange.status for exchange in github.exchanges] == [200, 200]


def test_answers_are_kept_per_token(github: FakeGitHub) -> None:
    github.tokens["other-token"] = Token("other")
    etags = MemoryEtags()
    forge_for(github, etags=etags).pulls(APP)
    forge_for(github, etags=etags, token="other-token").pulls(APP)
    assert "if-none-match" not in github.exchanges[1].request_headers
    assert len(etags) == 2
    assert not any("token" in key for key in etags)


def test_a_torn_row_of_the_etag_table_costs_one_full_answer(github: FakeGitHub) -> None:
    etags = MemoryEtags()
    forge = forge_for(github, etags=etags)
    before = forge.pulls(APP)
    for key, cached in etags.items():
        etags[key] = replace(cached, body=cached.body[:10])
    assert forge.pulls(APP) == before


def test_what_makes_no_sense_is_never_kept(github: FakeGitHub) -> None:
    forge = forge_for(github)
    github.fail(truncate=True, path="/pulls")
    assert error_of(lambda: forge.pulls(APP)).cause == "forge-unreachable"
    assert len(forge.pulls(APP)) == 1
    assert "if-none-match" not in github.exchanges[-1].request_headers


def test_headers_name_us_and_the_version_of_the_api(github: FakeGitHub) -> None:
    forge_for(github, api_version="2026-03-10").pulls(APP)
    sent = github.exchanges[0].request_headers
    assert sent["user-agent"] == f"review-appliance/{__version__}"
    assert sent["x-github-api-version"] == "2026-03-10"
    assert sent["accept"] == "application/vnd.github+json"
    assert github.exchanges[0].query == "state=open&per_page=100"


def test_an_enterprise_server_with_its_prefix(github: FakeGitHub) -> None:
    github.add_pulls(APP, 100)
    for api_url in (f"{github.base}/api/v3", f"{github.base}/api/v3/"):
        forge = forge_for(github, api_url=api_url)
        assert len(forge.pulls(APP)) == 101
        assert forge.source(forge.pull(APP, 1)).authorization


def test_a_closed_pull_request_is_read_but_not_listed(github: FakeGitHub) -> None:
    forge = forge_for(github)
    github.edit_pull(APP, 1, state="closed")
    assert forge.pulls(APP) == []
    assert forge.pull(APP, 1).open is False


def test_drafts_are_listed(github: FakeGitHub) -> None:
    github.edit_pull(APP, 1, draft=True)
    assert [pull.draft for pull in forge_for(github).pulls(APP)] == [True]


def _without(path: str) -> Callable[[dict[str, Any]], None]:
    *parents, last = path.split(".")

    def change(entry: dict[str, Any]) -> None:
        for parent in parents:
            entry = entry[parent]
        del entry[last]

    return change


def _with(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda entry: entry.update({key: value})


BROKEN: list[Callable[[dict[str, Any]], None]] = [
    _without("number"),
    _without("head"),
    _without("head.sha"),
    _without("base.ref"),
    _without("base.sha"),
    _without("base.repo"),
    _without("base.repo.clone_url"),
    _without("state"),
    _with("number", "7"),
    _with("number", True),
    _with("state", "merged"),
    _with("draft", "no"),
    _with("labels", "bug"),
    _with("labels", [7]),
    _with("user", "alice"),
    _with("head", {"sha": "../../etc", "ref": "x"}),
]


@pytest.mark.parametrize("change", BROKEN)
def test_a_malformed_entry_makes_the_listing_unknown(
    github: FakeGitHub, change: Callable[[dict[str, Any]], None]
) -> None:
    github.add_pull(APP, "other", files={"b.py": ""})
    forge = forge_for(github)
    forge.pulls(APP)
    entries = json.loads(github.exchanges[0].body)
    change(entries[1])
    github.fail(status=200, body=entries)
    error = error_of(lambda: forge_for(github).pulls(APP))
    assert (error.cause, error.permanent) == ("forge-unreachable", False)


@pytest.mark.parametrize("body", ["null", "{}", "[null]", '"x"', "7", "", "<html>", "[" * 100_000])
def test_an_answer_of_another_shape_is_no_empty_list(github: FakeGitHub, body: str) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    github.fail(status=200, body=body, times=100)
    for call in (lambda: forge.pulls(APP), lambda: forge.pull(APP, 1), lambda: forge.gate(pull)):
        assert error_of(call).cause == "forge-unreachable"


@pytest.mark.parametrize(
    "change",
    [_without("labels"), _with("labels", None), _with("body", None), _with("user", None), _without("draft"),
     _without("author_association"), _with("labels", [{"name": None}]), _without("base.repo.html_url")],
)  # fmt: skip
def test_what_may_be_missing_is_tolerated(github: FakeGitHub, change: Callable[[dict[str, Any]], None]) -> None:
    forge_for(github).pulls(APP)
    entries = json.loads(github.exchanges[0].body)
    change(entries[0])
    github.fail(status=200, body=entries)
    assert len(forge_for(github).pulls(APP)) == 1


# --- the token stays home ---


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_to_another_origin_gets_no_token(github: FakeGitHub, status: int) -> None:
    with FakeGitHub() as stranger:
        github.fail(status=status, headers={"Location": f"{stranger.url}/repos/octo/app/pulls"})
        error = error_of(lambda: forge_for(github).pulls(APP))
        assert error.cause == "forge-unreachable"
        assert "APPLIANCE_GITHUB_URL" in error.remedy
        assert stranger.exchanges == []


def test_a_next_page_at_another_origin_gets_no_token(github: FakeGitHub) -> None:
    with FakeGitHub() as stranger:
        github.fail(status=200, body=[], headers={"Link": f'<{stranger.url}/pulls?page=2>; rel="next"'})
        assert error_of(lambda: forge_for(github).pulls(APP)).cause == "forge-unreachable"
        assert stranger.exchanges == []


@pytest.mark.parametrize("target", ["", "http://[", "ftp://127.0.0.1/x", "//evil.example/x"])
def test_a_redirect_to_nowhere_is_an_error(github: FakeGitHub, target: str) -> None:
    github.fail(status=301, headers={"Location": target})
    assert error_of(lambda: forge_for(github).pulls(APP)).cause == "forge-unreachable"


def test_redirects_and_pages_that_go_round_in_circles_end(github: FakeGitHub) -> None:
    where = f"{github.url}/repos/octo/app/pulls"
    github.fail(status=302, headers={"Location": where}, times=50)
    assert error_of(lambda: forge_for(github).pulls(APP)).cause == "forge-unreachable"
    assert len(github.exchanges) < 10
    github.clear()
    github.fail(status=200, body=[], headers={"Link": f'<{where}>; rel="next"'}, times=50)
    assert error_of(lambda: forge_for(github).pulls(APP)).cause == "forge-unreachable"
    assert len(github.exchanges) < 10


def test_the_token_is_in_no_message(github: FakeGitHub) -> None:
    token = "ghp_" + "a1" * 20
    github.tokens[token] = Token("review-bot")
    other = "ghs_" + "b2." * 200
    forge = forge_for(github, token=token)
    bodies = [{"message": f"no {token} and no {other}"}, f"plain {token}"]
    for status in (401, 403, 404, 422, 429, 500):
        for body in bodies:
            github.fail(status=status, body=body, times=9)
            error = error_of(lambda: forge_for(github, token=token).pull(APP, 1))
            assert token not in f"{error!r}{error}{error.remedy}{vars(error)}"
            assert other not in str(error)
            github.clear()
    assert token not in f"{forge!r}{forge}{forge._client!r}"


def test_a_token_of_impossible_characters_is_a_login_fault(github: FakeGitHub) -> None:
    for token in ("ghp_ä", "two words", "line\nbreak"):
        error = error_of(lambda token=token: forge_for(github, token=token))  # type: ignore[misc]
        assert (error.cause, error.permanent) == ("forge-login", True)
        assert token not in str(error)
    assert forge_for(github, token=f"{github.token}\n").pulls(APP)


def test_without_a_token_public_repositories_are_read(github: FakeGitHub) -> None:
    forge = forge_for(github, token="")
    (pull,) = forge.pulls(APP)
    assert github.exchanges[0].request_headers["authorization"] == "absent"
    assert forge.source(pull).authorization is None
    assert error_of(lambda: forge.set_gate(pull, WAITING)).cause == "forge-login"


# --- errors ---


def test_a_login_that_is_not_valid(github: FakeGitHub) -> None:
    error = error_of(lambda: forge_for(github, token="wrong").pulls(APP))
    assert (error.cause, error.permanent) == ("forge-login", True)
    assert "GITHUB_TOKEN" in error.remedy
    assert "Bad credentials" in str(error)


def test_a_missing_permission_is_named(github: FakeGitHub) -> None:
    github.tokens["reader"] = Token("reader", writes=False)
    forge = forge_for(github, token="reader")
    pull = forge.pull(APP, 1)
    for call, permission in (
        (lambda: forge.set_gate(pull, WAITING), "statuses=write"),
        (lambda: forge.post_comment(pull, "x"), "pull_requests=write"),
    ):
        error = error_of(call)
        assert (error.cause, error.permanent) == ("forge-permission", True)
        assert permission in str(error)
        assert permission in error.remedy


def test_single_sign_on_is_named_without_its_link(github: FakeGitHub) -> None:
    link = "required; url=https://github.com/orgs/octo/sso?authorization_request=SECRET"
    github.fail(status=403, headers={"X-GitHub-SSO": link}, body={"message": "Resource protected by SAML"})
    error = error_of(lambda: forge_for(github).pulls(APP))
    assert error.cause == "forge-permission"
    assert "single sign-on" in error.remedy
    assert "SECRET" not in f"{error}{error.remedy}"


@pytest.mark.parametrize(
    ("status", "body", "cause", "permanent"),
    [
        (400, {"message": "Problems parsing JSON"}, "forge-refused", True),
        (403, {"message": "Repository was archived so is read-only."}, "forge-refused", True),
        (403, {"message": "Unable to create comment because issue is locked."}, "forge-refused", True),
        (404, {"message": "Not Found"}, "forge-not-found", True),
        (409, {"message": "Git Repository is empty."}, "forge-refused", True),
        (410, {"message": "This issue was deleted"}, "forge-not-found", True),
        (422, {"message": "Validation Failed", "errors": [{"message": "too odd"}]}, "forge-refused", True),
        (422, {"message": "Validation Failed", "errors": ["too odd"]}, "forge-refused", True),
        (451, {"message": "Repository access blocked"}, "forge-refused", True),
        (500, "<html>", "forge-unreachable", False),
        (502, "Bad Gateway", "forge-unreachable", False),
        (503, "", "forge-unreachable", False),
        (504, None, "forge-unreachable", False),
        (204, None, "forge-unreachable", False),
        (304, None, "forge-unreachable", False),
    ],
)
def test_each_answer_has_its_cause(github: FakeGitHub, status: int, body: object, cause: str, permanent: bool) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    github.fail(status=status, body=body, times=9)
    error = error_of(lambda: forge.pulls(APP))
    assert (error.cause, error.permanent) == (cause, permanent)
    assert str(status) in str(error)
    if isinstance(body, dict):
        assert body["message"] in str(error)
        assert ("errors" in body) == ("too odd" in str(error))
    assert error_of(lambda: forge.post_comment(pull, "x")).cause == cause


def test_a_forge_that_is_not_there(tmp_path: Path) -> None:
    with FakeGitHub(tmp_path / "gone") as gone:
        forge = forge_for(gone)
    error = error_of(lambda: forge.pulls(APP))
    assert (error.cause, error.permanent) == ("forge-unreachable", False)
    for odd in ("localhost:1", "", "https://", "file:///etc"):
        assert error_of(lambda odd=odd: forge_for(gone, api_url=odd).pulls(APP)).cause == "forge-unreachable"  # type: ignore[misc]


def test_a_slow_forge_is_not_waited_for(github: FakeGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "TIMEOUT", httpx.Timeout(0.2))
    forge = forge_for(github)
    github.fail(delay=1.0)
    assert error_of(lambda: forge.pulls(APP)).cause == "forge-unreachable"
    assert len(github.exchanges) <= 1, "a timeout is not asked again hot"


@pytest.mark.parametrize(
    "how", [{"status": 502}, {"status": 503}, {"status": 504}, {"disconnect": True}, {"cut_off": True}]
)
def test_a_read_is_tried_again_quickly(github: FakeGitHub, how: dict[str, Any]) -> None:
    clock = Clock()
    github.fail(times=2, **how)
    assert len(forge_for(github, clock=clock).pulls(APP)) == 1
    assert len(github.exchanges) == 3
    assert sum(clock.slept) < 2
    github.fail(times=9, **how)
    github.exchanges.clear()
    assert error_of(lambda: forge_for(github).pulls(APP)).cause == "forge-unreachable"
    assert len(github.exchanges) == 3


def test_a_503_that_wants_us_away_for_long_is_not_asked_again(github: FakeGitHub) -> None:
    clock = Clock()
    github.fail(status=503, headers={"Retry-After": "120"}, times=9)
    error = error_of(lambda: forge_for(github, clock=clock).pulls(APP))
    assert error.retry_at == clock.now + 120
    assert len(github.exchanges) == 1


# --- limits ---


@pytest.mark.parametrize("status", [403, 429])
def test_retry_after_comes_first(github: FakeGitHub, status: int) -> None:
    clock = Clock()
    forge = forge_for(github, clock=clock)
    headers = {"Retry-After": "90", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 3000)}
    github.fail(status=status, headers=headers, body={"message": "API rate limit exceeded"})
    error = error_of(lambda: forge.pulls(APP))
    assert (error.cause, error.permanent) == ("forge-rate-limited", False)
    assert error.retry_at == clock.now + 90
    assert clock.slept == [], "nothing sleeps for minutes inside a call"


def test_further_calls_raise_without_a_request_until_it_is_time(github: FakeGitHub) -> None:
    clock = Clock()
    forge = forge_for(github, clock=clock)
    pull = forge.pull(APP, 1)
    github.clear()
    github.fail(status=429, headers={"Retry-After": "90"})
    until = error_of(lambda: forge.pulls(APP)).retry_at
    assert until is not None
    for call in (lambda: forge.pulls(APP), lambda: forge.post_comment(pull, "x"), lambda: forge.gate(pull)):
        error = error_of(call)
        assert (error.cause, error.retry_at) == ("forge-rate-limited", until)
    assert len(github.exchanges) == 1
    clock.now = until
    assert forge.pulls(APP)


def test_a_spent_primary_limit_waits_for_the_reset_by_the_servers_clock(github: FakeGitHub) -> None:
    github.clock_offset = 50_000.0
    github.rate_remaining = 0
    clock = Clock()
    error = error_of(lambda: forge_for(github, clock=clock).pulls(APP))
    assert error.cause == "forge-rate-limited"
    assert error.retry_at is not None
    assert error.retry_at - clock.now == pytest.approx(3600, abs=2)


def test_a_limit_without_a_word_is_a_minute_and_then_more(github: FakeGitHub) -> None:
    clock = Clock()
    forge = forge_for(github, clock=clock)
    waits = []
    for _ in range(3):
        github.secondary_limit()
        until = error_of(lambda: forge.pulls(APP)).retry_at
        assert until is not None
        waits.append(until - clock.now)
        clock.now = until
    assert waits == [60, 120, 240]
    forge.pulls(APP)
    github.secondary_limit()
    assert error_of(lambda: forge.pulls(APP)).retry_at == clock.now + 60


def test_a_short_limit_is_waited_for(github: FakeGitHub) -> None:
    clock = Clock()
    forge = forge_for(github, clock=clock)
    github.fail(status=429, headers={"Retry-After": "2"}, times=2)
    assert forge.pulls(APP)
    assert clock.slept == [2, 2]


@pytest.mark.parametrize("value", ["soon", "-5", "1e400", "nan", "9" * 400, ""])
def test_a_wild_retry_after_neither_crashes_nor_stops_us_for_days(github: FakeGitHub, value: str) -> None:
    clock = Clock()
    forge = forge_for(github, clock=clock)
    github.fail(status=429, headers={"Retry-After": value, "X-RateLimit-Reset": "never"}, times=9)
    error = error_of(lambda: forge.pulls(APP))
    assert error.cause == "forge-rate-limited"
    assert error.retry_at is not None
    assert 0 < error.retry_at - clock.now <= 7200


def test_a_permission_fault_is_no_limit(github: FakeGitHub) -> None:
    github.fail(status=403, headers={"X-RateLimit-Remaining": "4999"}, body={"message": "Must have admin rights"})
    assert error_of(lambda: forge_for(github).pulls(APP)).cause == "forge-permission"


def test_writes_are_a_second_apart_across_threads(github: FakeGitHub) -> None:
    clock = Clock()
    forge = forge_for(github, clock=clock)
    pull = forge.pull(APP, 1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: forge.post_comment(pull, f"comment {number}"), range(4)))
    assert clock.slept == [1, 1, 1]
    assert len(github.comments(APP, 1)) == 4


def test_all_forges_of_a_process_share_the_pace(github: FakeGitHub) -> None:
    def forge() -> GitHubForge:
        return GitHubForge(api_url=github.url, token=github.token, repositories=[APP], context="c", etags=MemoryEtags())

    pull = forge().pull(APP, 1)
    for number in range(2):
        forge().post_comment(pull, f"comment {number}")
    first, second = (exchange.at for exchange in github.writes)
    assert second - first >= 1.0


# --- stop ---


def test_a_stop_ends_the_waiting(github: FakeGitHub) -> None:
    stop = threading.Event()
    forge = GitHubForge(
        api_url=github.url, token=github.token, repositories=[APP], context="c", etags=MemoryEtags(), stop=stop
    )
    github.fail(status=429, headers={"Retry-After": "4"})
    threading.Timer(0.2, stop.set).start()
    started = time.monotonic()
    with pytest.raises(Stopped):
        forge.pulls(APP)
    assert time.monotonic() - started < 4, "it waited to the end"
    with pytest.raises(Stopped):
        forge.pulls(APP)


# --- repositories ---


def test_an_owners_repositories_private_ones_too(fake_github: FakeGitHub) -> None:
    fake_github.add_repository("octo/open", organization=True)
    fake_github.add_repository("Octo/Secret", organization=True, private=True)
    fake_github.add_repository("octo/old", organization=True, archived=True)
    fake_github.add_repository("octo/off", organization=True, disabled=True)
    fake_github.add_repository("alice/public")
    fake_github.add_repository("alice/private", private=True)
    fake_github.add_repository("octopus/other")
    forge = forge_for(fake_github, "x/y", "octo/*", "octo/open", "alice/*")
    assert forge.repositories() == ["x/y", "octo/open", "Octo/Secret", "alice/private", "alice/public"]
    fake_github.clear()
    forge.repositories()
    assert {exchange.status for exchange in fake_github.exchanges} <= {304, 404}


def test_an_owners_repositories_are_those_the_token_sees(fake_github: FakeGitHub) -> None:
    fake_github.add_repository("octo/mine", organization=True, private=True)
    fake_github.add_repository("octo/theirs", organization=True, private=True)
    fake_github.tokens["narrow"] = Token("bot", sees=frozenset({"octo/mine"}))
    assert forge_for(fake_github, "octo/*", token="narrow").repositories() == ["octo/mine"]


def test_an_owners_repositories_of_an_installation(fake_github: FakeGitHub) -> None:
    for number in range(101):
        fake_github.add_repository(f"octo/app{number:03}", private=True)
    fake_github.add_repository("alice/app", private=True)
    for token in ("ghs_new", "v1.old"):
        fake_github.tokens[token] = Token("app[bot]", installation=True)
        assert len(forge_for(fake_github, "octo/*", token=token).repositories()) == 101


def test_an_owner_that_is_unknown_or_unreachable_is_no_empty_list(fake_github: FakeGitHub) -> None:
    fake_github.tokens["ghs_app"] = Token("app[bot]", installation=True)
    fake_github.fail(status=404, body={"message": "Not Found"}, times=99)
    assert error_of(lambda: forge_for(fake_github, "nobody/*").repositories()).cause == "forge-not-found"
    fake_github.clear()
    for path in ("/user/repos", "/orgs/"):
        fake_github.fail(status=502, path=path, times=9)
        assert error_of(lambda: forge_for(fake_github, "octo/*").repositories()).cause == "forge-unreachable"
        fake_github.clear()


@pytest.mark.parametrize("pattern", ["octo", "*/app", "octo/app/x", "octo/..", "", "octo/a b", "octo/app#1"])
def test_a_pattern_that_is_none_is_refused(fake_github: FakeGitHub, pattern: str) -> None:
    with pytest.raises(ValueError, match=r"owner/name"):
        forge_for(fake_github, "octo/app", pattern)


# --- comments ---


def test_comments_come_back_as_they_were_written(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    written = forge.post_comment(pull, "Grüße 评论 \U0001f600 <!-- marker -->")
    github.add_comment(APP, 1, "ghostly", author=None)
    listed = forge.comments(pull)
    assert listed[0] == written == forge.comment(pull, written.id)
    assert [comment.body for comment in listed][1] == "ghostly"
    assert written.url.startswith("http")


def test_a_comment_that_comes_in_between_is_no_alarm(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    github.add_comment(APP, 1, "one")
    gone = github.add_comment(APP, 1, "two")
    stale = forge._client.read("/repos/octo/app/pulls/1", Shape("test", lambda value: value))
    github.add_comment(APP, 1, "three")
    github.fail(status=200, body=stale, path=r"/pulls/1\?")
    assert len(forge.comments(pull)) == 3, "added after the count"
    github.delete_comment(APP, gone.id)
    github.fail(status=200, body={**stale, "comments": 3}, path=r"/pulls/1\?")
    assert len(forge.comments(pull)) == 2, "deleted after the count"


def test_comments_that_github_counts_and_never_shows_stop_a_pull_request_for_an_hour_only(github: FakeGitHub) -> None:
    clock = Clock()
    forge = forge_for(github, clock=clock)
    pull = forge.pull(APP, 1)
    told = json.loads(github.exchanges[-1].body)
    github.add_comment(APP, 1, "one")
    github.fail(status=200, body={**told, "comments": 3}, path=r"/pulls/1\?", times=99)
    assert error_of(lambda: forge.comments(pull)).cause == "forge-unreachable"
    clock.now += 3000
    github.add_comment(APP, 1, "two")
    assert error_of(lambda: forge.comments(pull)).cause == "forge-unreachable", "it moved: the hour begins anew"
    clock.now += 3000
    assert error_of(lambda: forge.comments(pull)).cause == "forge-unreachable"
    clock.now += 600
    assert len(forge.comments(pull)) == 2


def test_a_count_that_is_missing_is_no_alarm(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    told = json.loads(github.exchanges[-1].body)
    del told["comments"]
    github.fail(status=200, body=told, path=r"/pulls/1\?")
    assert forge.comments(pull) == []


def test_a_comment_is_gone_only_if_its_pull_request_is_still_there(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    assert forge.comment(pull, "123") is None
    github.fail(status=410, body={"message": "Gone"}, path="/comments/")
    assert forge.comment(pull, "123") is None
    github.repository(APP).private = True
    github.tokens[github.token] = Token("review-bot", sees=frozenset())
    github.generation += 1
    assert error_of(lambda: forge.comment(pull, "123")).cause == "forge-not-found"
    github.fail(status=502, times=9)
    assert error_of(lambda: forge.comment(pull, "123")).cause == "forge-unreachable"


def test_a_comment_that_is_too_long_is_not_sent(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    assert forge.post_comment(pull, "x" * 65_536)
    error = error_of(lambda: forge.post_comment(pull, "x" * 65_537))
    assert (error.cause, error.permanent) == ("forge-refused", True)
    assert len(github.writes) == 1


# --- gate ---


def test_the_gate_is_the_newest_status_of_our_context_on_the_head(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    assert forge.gate(pull) is None
    for number in range(150):
        github.add_status(APP, pull.head_sha, "success", f"ci/{number}")
    forge.set_gate(pull, WAITING)
    forge.set_gate(pull, Gate("success", "no blocking findings"))
    github.add_status(APP, pull.base_sha, "error", "codex-review")
    assert forge.gate(pull) == Gate("success", "no blocking findings")
    github.add_status(APP, pull.head_sha, "failure", "Codex-Review", None)
    assert forge.gate(pull) == Gate("failure", ""), "contexts compare without case"
    for number in range(150):
        github.add_status(APP, pull.head_sha, "success", f"later/{number}")
    assert forge.gate(pull) == Gate("failure", ""), "on the second page"


def test_a_server_without_the_combined_status_has_no_gate_either(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    github.fail(status=404, body={"message": "Not Found"}, path="/status[?]")
    assert forge.gate(pull) is None


def test_a_description_fits(github: FakeGitHub) -> None:
    forge = forge_for(github, target_url="https://example.com/log")
    pull = forge.pull(APP, 1)
    forge.set_gate(pull, Gate("error", "x" * 200))
    (status,) = github.statuses(APP, pull.head_sha)
    assert status.description == "x" * 140
    assert status.target_url == "https://example.com/log"
    assert status.context == "codex-review"


def test_a_status_of_an_unknown_state_is_no_gate(github: FakeGitHub) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    github.add_status(APP, pull.head_sha, "unheard-of", "codex-review")
    assert error_of(lambda: forge.gate(pull)).cause == "forge-unreachable"


# --- where git and people look ---


def test_a_private_repository_is_cloned_with_the_authorization(github: FakeGitHub, tmp_path: Path) -> None:
    github.repository(APP).private = True
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    source = forge.source(pull)
    env = {"PATH": "/usr/bin:/bin", "GIT_TERMINAL_PROMPT": "0", "HOME": str(tmp_path)}
    command = ["git", "ls-remote", source.url, source.head_ref, source.base_ref]
    assert subprocess.run(command, env=env, capture_output=True, check=False).returncode != 0
    env |= {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{source.url}.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: {source.authorization}",
    }
    listed = subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout
    assert f"{pull.head_sha}\trefs/pull/1/head" in listed
    assert f"{pull.base_sha}\trefs/heads/main" in listed
    assert github.token not in repr(command)


PULL = Pull("octo/app#1", APP, 1, "a" * 40, "main", "b" * 40)


@pytest.mark.parametrize(
    ("api_url", "clone_url", "given"),
    [
        ("https://api.github.com", "https://github.com/octo/app.git", True),
        ("https://api.github.com", "https://GITHUB.com/octo/app.git", True),
        ("https://api.github.com", "http://github.com/octo/app.git", False),
        ("https://api.github.com", "https://evil.example/octo/app.git", False),
        ("https://api.github.com", "https://github.com.evil.example/octo/app.git", False),
        ("https://api.github.com", "https://github.com@evil.example/octo/app.git", False),
        ("https://api.github.com", "https://evil@github.com/octo/app.git", False),
        ("https://api.octo.ghe.com", "https://octo.ghe.com/octo/app.git", True),
        ("https://api.example.com", "https://example.com/octo/app.git", False),
        ("https://ghes.example.com/api/v3", "https://ghes.example.com/octo/app.git", True),
        ("https://ghes.example.com/api/v3", "http://ghes.example.com/octo/app.git", False),
        ("http://github:8080", "http://github:8080/octo/app.git", True),
        ("http://github:8080", "https://github/octo/app.git", True),
        ("http://github:8080", "http://other:8080/octo/app.git", False),
        ("http://github:8080", "git://github/octo/app.git", False),
    ],
)
def test_the_token_goes_to_the_apis_own_host_only(
    fake_github: FakeGitHub, api_url: str, clone_url: str, given: bool
) -> None:
    source = forge_for(fake_github, api_url=api_url).source(replace(PULL, clone_url=clone_url))
    assert (source.authorization is not None) is given
    assert (source.url, source.head_ref, source.base_ref) == (clone_url, "refs/pull/1/head", "refs/heads/main")


@pytest.mark.parametrize("clone_url", ["", "/etc", "ext::sh -c id", "file:///etc", "--upload-pack=id"])
def test_a_clone_address_of_no_known_kind_is_refused(fake_github: FakeGitHub, clone_url: str) -> None:
    error = error_of(lambda: forge_for(fake_github).source(replace(PULL, clone_url=clone_url)))
    assert error.cause == "forge-unreachable"


@pytest.mark.parametrize(
    ("path", "start", "end", "tail"),
    [
        ("app.py", 10, 12, "app.py#L10-L12"),
        ("app.py", 10, 10, "app.py#L10"),
        ("app.py", 10, 3, "app.py#L10"),
        ("app.py", 0, 0, "app.py"),
        ("(auth)/[id]/x y.ts", 1, 1, "%28auth%29/%5Bid%5D/x%20y.ts#L1"),
        ("评论.py", 1, 1, "%E8%AF%84%E8%AE%BA.py#L1"),
        ("caf\udce9.py", 1, 1, "caf%E9.py#L1"),
        ("a?b#c%d.py", 1, 1, "a%3Fb%23c%25d.py#L1"),
    ],
)
def test_permalinks(github: FakeGitHub, path: str, start: int, end: int, tail: str) -> None:
    forge = forge_for(github)
    pull = forge.pull(APP, 1)
    expected = f"{github.base}/octo/app/blob/{pull.head_sha}/{tail}"
    assert forge.permalink(pull, path, start, end) == expected
    assert forge_for(github).permalink(pull, path, start, end) == expected, "from the pull request's own address"
    assert forge_for(github).permalink(replace(pull, url=""), path, start, end) is None


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("octo/app#12", (APP, 12)),
        (" octo/app#12\n", (APP, 12)),
        ("Octo-1/a.b_c#1", ("Octo-1/a.b_c", 1)),
        ("https://github.com/octo/app/pull/12", (APP, 12)),
        ("https://github.com/octo/app/pull/12/", (APP, 12)),
        ("https://github.com/octo/app/pull/12/files#diff-1", (APP, 12)),
        ("https://github.com/octo/app/pull/12?diff=split", (APP, 12)),
        ("http://ghes.example.com:8443/octo/app/pull/12/commits/abc", (APP, 12)),
        ("octo/app", None),
        ("octo/app#0", None),
        ("octo/app#feature", None),
        ("octo/../app#1", None),
        ("octo/..#1", None),
        ("/srv/app#12", None),
        ("https://github.com/octo/app/issues/12", None),
        ("https://github.com/octo/app/pull/12x", None),
        ("https://github.com/octo/app/pull/", None),
        ("", None),
    ],
)
def test_targets(text: str, target: tuple[str, int] | None) -> None:
    assert parse_target(text) == target
