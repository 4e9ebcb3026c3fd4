"""The doctor and GitHub: what GitHub itself answers about the token, over real HTTP, with nothing ever written."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from fake_github import FakeGitHub
from fake_github.clients import CONTEXT, Clock, forge_for

from appliance.core import doctor_forge as judge
from appliance.core.doctor import Line
from appliance.core.doctor_forge import Branch, Budget, Protection, Required, TokenFacts
from appliance.doctor import forge

APP = "octo/app"
DAY = 86_400.0


@pytest.fixture
def github(fake_github: FakeGitHub) -> FakeGitHub:
    """A private repository with one pull request, and the gate required on its default branch."""
    fake_github.add_repository(APP, {"app.py": "print(1)\n"}, private=True)
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"})
    fake_github.require(APP, CONTEXT)
    return fake_github


def lines(github: FakeGitHub, *repositories: str, token: str | None = None) -> list[Line]:
    clock = Clock(github.now() - github.clock_offset)
    token = token or github.token
    return list(forge.of_github(forge_for(github, *repositories, clock=clock, token=token), token, CONTEXT))


def bad(found: list[Line]) -> list[tuple[str, str, str]]:
    return [(line.check, line.state, line.id) for line in found if line.state != "ok"]


def state_of(github: FakeGitHub) -> list[object]:
    """Everything that a write could change."""
    return [
        (it.full_name, [(pull.comments, pull.updated_at) for pull in it.pulls.values()], list(it.statuses))
        for it in github.repositories.values()
    ]


def test_all_is_well_and_nothing_was_written(github: FakeGitHub) -> None:
    before = state_of(github)
    found = lines(github)
    assert bad(found) == []
    checks = ["token", "clock", "contents", "pulls", "comment", "status", "required", "rate"]
    assert [line.check for line in found] == checks
    assert state_of(github) == before
    assert [(it.path.rpartition("/repos/")[2], it.status) for it in github.writes] == [
        (f"{APP}/issues/1/comments", 422),
        (f"{APP}/statuses/{'0' * 40}", 422),
    ]


@pytest.mark.parametrize("pulls", [True, False], ids=["a pull request", "none yet"])
@pytest.mark.parametrize(
    ("lacks", "broken"),
    [
        ("statuses", {"status": "statuses=write"}),
        ("contents", {"contents": "GITHUB_TOKEN"}),
        ("pull_requests", {"pulls": "pull_requests=read", "comment": "pull_requests"}),
    ],
)
def test_each_permission_that_is_missing_is_named(
    github: FakeGitHub, lacks: str, broken: dict[str, str], pulls: bool
) -> None:
    if not pulls:
        github.repository(APP).pulls.clear()
    github.add_token("poor", lacks=[lacks, "issues"] if lacks == "pull_requests" else [lacks])
    before = state_of(github)
    found = {line.check: line for line in lines(github, token="poor") if line.state == "fault"}
    assert {check: line.id for check, line in found.items()} == dict.fromkeys(broken, "forge-permission")
    for check, words in broken.items():
        assert words in found[check].sentence + found[check].remedy
        assert found[check].remedy
    assert state_of(github) == before


def test_a_token_that_only_reads_is_a_fault_though_every_read_succeeds(github: FakeGitHub) -> None:
    """As one that the organisation has not approved yet: reads of public repositories go through."""
    github.repository(APP).private = False
    github.add_token("reader", writes=False)
    found = lines(github, token="reader")
    assert bad(found) == [("comment", "fault", "forge-permission"), ("status", "fault", "forge-permission")]
    assert {line.check for line in found if line.state == "ok"} >= {"contents", "pulls", "token"}


def test_a_classic_token_is_told_nothing_but_404_and_it_is_the_right_all_the_same(github: FakeGitHub) -> None:
    github.add_token("ghp_poor", writes=False, classic=True, scopes=("read:user",))
    found = lines(github, token="ghp_poor")
    assert [line[0] for line in bad(found) if line[2] == "forge-permission"] == ["comment", "status"]
    assert all("scope repo" in line.remedy for line in found if line.id == "forge-permission")
    assert "classic" in found[0].sentence and "read:user" in found[0].sentence


def test_with_no_pull_request_yet_the_right_to_comment_is_tried_all_the_same(github: FakeGitHub) -> None:
    github.repository(APP).pulls.clear()
    assert bad(lines(github)) == []
    assert next((it.path, it.status) for it in github.writes) == (f"/repos/{APP}/pulls", 422)
    assert github.repository(APP).pulls == {}


def test_an_answer_that_looks_like_a_write_is_never_fine(github: FakeGitHub) -> None:
    github.fail(method="POST", path="/statuses/", status=201, body={})
    assert ("status", "fault", "forge-unreachable") in bad(lines(github))


@pytest.mark.parametrize("status", [500, 502])
def test_what_github_could_not_say_is_not_taken_for_a_right(github: FakeGitHub, status: int) -> None:
    github.fail(method="POST", path="/comments", status=status, body={"message": "oops"})
    assert bad(lines(github)) == [("comment", "fault", "forge-unreachable")]


def test_a_token_that_github_refuses_is_one_line(github: FakeGitHub) -> None:
    found = lines(github, token="revoked")
    assert bad(found) == [("token", "fault", "forge-login")]
    assert len(found) == 1


def test_a_repository_that_is_not_seen_is_named_and_the_others_go_on(github: FakeGitHub) -> None:
    found = lines(github, "octo/gone", APP)
    assert bad(found) == [("repository", "fault", "forge-not-found")]
    assert [line.subject for line in found if line.state == "fault"] == ["octo/gone"]
    of_app = [line.check for line in found if line.subject == APP]
    assert of_app == ["contents", "pulls", "comment", "status", "required"]


def test_no_more_repositories_than_can_be_examined_and_it_says_so(
    github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forge, "MOST_REPOSITORIES", 1)
    github.add_repository("octo/other")
    found = lines(github, APP, "octo/other")
    assert bad(found) == [("repositories", "warning", "repositories-left-out")]
    assert not [it for it in github.exchanges if "other" in it.path]


def test_no_secret_is_in_a_line(github: FakeGitHub) -> None:
    secret = "github_pat_11AAAAAAAAAAAAAAAAAAAA_secret"
    github.add_token(secret, writes=False)
    assert secret not in str(lines(github, token=secret))


# --- the token, the clock, the budget


@pytest.mark.parametrize(
    ("days", "zone", "state"),
    [(13, "UTC", "warning"), (13, "+0000", "warning"), (15, "UTC", "ok"), (15, "-0100", "ok"), (13, "soon", "warning")],
)
def test_a_token_that_ends_soon_is_a_warning(github: FakeGitHub, days: int, zone: str, state: str) -> None:
    github.add_token("github_pat_x", expires=github.now() + days * DAY, expires_zone=zone)
    token = lines(github, token="github_pat_x")[0]
    assert (token.check, token.state) == ("token", state)
    assert token.id == {"ok": "token", "warning": "token-expires"}[state] or zone == "soon"
    assert zone != "soon" or token.id == "token-expiry-unknown"


@pytest.mark.parametrize(
    ("ahead", "expected"),
    [
        (0, "clock"), (20, "clock"), (-20, "clock"), (40, "clock-skew"), (-40, "clock-skew"),
        (400, "clock-wrong"), (-400, "clock-wrong"),
    ],
)  # fmt: skip
def test_the_clock_against_githubs(github: FakeGitHub, ahead: float, expected: str) -> None:
    github.adjust(clock_offset=ahead)
    line = next(line for line in lines(github) if line.check == "clock")
    assert line.id == expected
    if expected != "clock":
        assert ("behind" if ahead > 0 else "ahead of") in line.sentence


@pytest.mark.parametrize("trip", [0.0, 100.0])
@pytest.mark.parametrize("skew", [0.0, 29.0, -29.0])
def test_a_slow_answer_is_no_skew(skew: float, trip: float) -> None:
    """GitHub stamped it somewhere between our question and its arrival."""
    now = 1_000_000.0
    for stamped in (0.0, 0.5, 1.0):
        date = float(int(now + stamped * trip - skew))
        assert judge.clock(TokenFacts(now, now + trip, date)).state == "ok"


def test_an_unknown_time_is_a_warning_and_never_fine() -> None:
    assert judge.clock(TokenFacts(0.0, 1.0, None)).id == "clock-unknown"
    assert judge.clock(TokenFacts(1.0, 0.0, 0.5)).id == "clock-unknown"


def test_the_budget_against_what_a_cycle_needs(github: FakeGitHub) -> None:
    github.adjust(rate_remaining=4999)
    assert lines(github)[-1].state == "ok"
    facts = TokenFacts(0, 0, 0, budget=Budget(5000, 100, 3600.0))
    assert judge.budget(facts, 40, 10).state == "ok"
    low = judge.budget(facts, 41, 10)
    assert (low.id, low.state) == ("rate-low", "warning")
    assert "1970-01-01 01:00 UTC" in low.sentence
    assert judge.budget(replace(facts, budget=None), 1, 1).id == "rate-unknown"


def test_a_budget_that_is_used_up_is_the_forges_own_fault(github: FakeGitHub) -> None:
    github.adjust(rate_remaining=0)
    github.fail(path="/rate_limit", status=403, headers={"Retry-After": "900"}, body={"message": "API rate limit"})
    assert bad(lines(github)) == [("token", "fault", "forge-rate-limited")]


# --- is the gate required?


Arrange = Callable[[FakeGitHub], object]
NONE: Arrange = lambda github: github.repository(APP).rules.clear()  # noqa: E731


def _classic(*contexts: str) -> Arrange:
    def arrange(github: FakeGitHub) -> None:
        NONE(github)
        github.require(APP, *contexts, by="protection")

    return arrange


@pytest.mark.parametrize(
    ("arrange", "expected"),
    [
        (lambda _: None, "required"),
        (lambda github: github.require(APP, CONTEXT.upper()), "required"),
        (lambda github: github.require(APP, "build", CONTEXT), "required"),
        (NONE, "gate-not-required"),
        (lambda github: github.require(APP, "build"), "gate-not-required"),
        (_classic(CONTEXT), "required"),
        (_classic("build"), "gate-not-required"),
        (_classic(), "gate-required-unknown"),
        (lambda github: github.require(APP, CONTEXT, source=7), "gate-wrong-source"),
    ],
    ids=["ruleset", "case", "among others", "none", "other check", "classic", "classic other", "classic empty", "app"],
)
def test_whether_the_gate_is_required(github: FakeGitHub, arrange: Arrange, expected: str) -> None:
    arrange(github)
    (line,) = [line for line in lines(github) if line.check == "required"]
    assert (line.id, line.subject) == (expected, APP)
    assert line.state == ("ok" if expected == "required" else "fault" if expected == "gate-wrong-source" else "warning")
    assert "main" in line.sentence and CONTEXT in line.sentence


def test_who_may_read_the_protection_gets_an_answer_where_the_branch_tells_nothing(github: FakeGitHub) -> None:
    _classic()(github)
    github.add_token("admin", administers=True)
    (line,) = [line for line in lines(github, token="admin") if line.check == "required"]
    assert line.id == "gate-not-required"


@pytest.mark.parametrize("status", [403, 404, 500])
@pytest.mark.parametrize("path", ["/rules/branches/", "/branches/main"])
def test_what_github_does_not_tell_is_unknown_and_never_no(github: FakeGitHub, status: int, path: str) -> None:
    NONE(github)
    github.fail(path=path, status=status, body={"message": "Upgrade to GitHub Pro"}, times=9)
    (line,) = [line for line in lines(github) if line.check == "required"]
    assert (line.id, line.state) == ("gate-required-unknown", "warning") or status == 500


def test_bases_of_open_pull_requests_are_looked_at_too(github: FakeGitHub) -> None:
    github.push(APP, "release/1.0", {"a": "b"}, base="main")
    github.add_pull(APP, "fix", base="release/1.0", files={"app.py": "print(3)\n"})
    found = [line for line in lines(github) if line.check == "required"]
    assert [(line.id, "release/1.0" in line.sentence) for line in found] == [
        ("required", False),
        ("gate-not-required", True),
    ]


def test_a_branch_needs_every_source_told_before_it_is_no() -> None:
    def told(branch: Branch) -> str:
        return judge.required(branch, CONTEXT, APP).id

    ours, other = (Required(CONTEXT),), (Required("build"),)
    assert told(Branch("main", None, Protection(False, ()))) == "gate-required-unknown"
    assert told(Branch("main", (), None)) == "gate-required-unknown"
    assert told(Branch("main", (), Protection(True, None))) == "gate-required-unknown"
    assert told(Branch("main", None, Protection(True, ours))) == "required"
    assert told(Branch("main", ours, None)) == "required"
    assert told(Branch("main", other, Protection(True, other))) == "gate-not-required"
    assert told(Branch("main", (Required(CONTEXT, -1),), None)) == "required"


def test_limits_are_waited_for_and_a_stop_ends_it(github: FakeGitHub) -> None:
    stop = threading.Event()
    forge_ = forge_for(github, stop=stop)
    assert forge_.rights().token().budget is not None
