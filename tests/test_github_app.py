"""The appliance signs in as a GitHub App: claims, tokens of installations, and what may be wrong with them."""

import base64
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from apps import GRANTED, ID, add_app, as_app, pem
from fake_github import FakeGitHub, render
from fake_github.clients import CONTEXT, Clock, MemoryEtags
from fake_github.state import App, Request
from world import APP, World, found, reviewed

from appliance import redaction
from appliance.core.doctor import Line
from appliance.core.verdict import Gate
from appliance.doctor import forge as doctor
from appliance.forge import ForgeError
from appliance.forge.github_installations import GitHubInstallations

OTHER = "alice/tool"
MINUTE = 60.0
GREEN = Gate("success", "no blocking findings")
ALL = "Metadata read, Contents read, Pull requests read and write, Issues read and write, Checks read and write"


@pytest.fixture
def github(fake_github: FakeGitHub) -> FakeGitHub:
    """Two owners, each with a private repository and one pull request; the App is installed for both."""
    for name in (APP, OTHER):
        fake_github.add_repository(name, {"app.py": "print(1)\n"}, private=True)
        fake_github.add_pull(name, "feature", files={"app.py": "print(2)\n"})
    add_app(fake_github, octo=77, alice=78)
    return fake_github


@pytest.fixture
def clock(github: FakeGitHub) -> Clock:
    return Clock(github.now())


@pytest.fixture
def app(github: FakeGitHub, clock: Clock) -> Iterator[GitHubInstallations]:
    forge = as_app(github, APP, OTHER, clock=clock)
    yield forge
    forge.close()


def made(github: FakeGitHub) -> list[str]:
    """The installations for which tokens were asked, in their order."""
    return [it.path.split("/")[3] for it in github.exchanges if it.path.endswith("/access_tokens") and it.status == 201]


def later(github: FakeGitHub, clock: Clock, seconds: float) -> None:
    """Everybody's clock moves on."""
    clock.now += seconds
    github.adjust(clock_offset=github.clock_offset + seconds)


class AsApp(World):
    def forge_of(self, *repositories: str) -> GitHubInstallations:  # type: ignore[override]
        now = type("Now", (Clock,), {"__call__": lambda _: self.clock()})()
        return as_app(self.github, *(repositories or (APP,)), clock=now, etags=self.store, stop=self.stop)


@pytest.fixture
def world(github: FakeGitHub, tmp_path: Path) -> Iterator[AsApp]:
    world = AsApp(github, tmp_path)
    yield world
    world.close()


def test_a_whole_cycle(world: AsApp, github: FakeGitHub) -> None:
    world.script = lambda pull, _: reviewed(pull, found(1), verdict="incorrect")
    result = world.run()
    assert (result.failed, result.reviewed, world.health) == (False, 1, [None, None])
    assert world.run_gates()[0] == "failure: 1 blocking finding (P1)"
    assert github.repository(APP).statuses == []
    [comment] = github.comments(APP, 1)
    assert comment.author == world.forge.me() == "review-appliance[bot]"
    world.run()
    assert made(github) == ["77"], "one token is enough for an hour"


def test_an_owner_who_is_limited_holds_up_no_delivery_of_another(world: AsApp, github: FakeGitHub) -> None:
    world.forge.close()
    world.forge = world.forge_of(APP, OTHER)  # type: ignore[assignment]
    world.script = lambda pull, _: reviewed(pull, found(1), verdict="incorrect")
    github.fail(method="POST", path="/comments", status=502, times=99)
    world.run()
    assert [github.comments(name, 1) for name in (APP, OTHER)] == [[], []]
    github.failures.clear()
    limited = {"status": 429, "headers": {"Retry-After": "3600"}, "body": {"message": "slow down"}}
    github.fail(method="POST", path=f"/repos/{APP}", times=99, **limited)
    world.now += 301
    github.adjust(clock_offset=github.clock_offset + 301)
    world.run()
    assert [len(github.comments(name, 1)) for name in (APP, OTHER)] == [0, 1]


# ---- tokens


def test_each_owner_has_a_token_of_its_own(app: GitHubInstallations, github: FakeGitHub) -> None:
    assert [app.pulls(name)[0].target for name in app.repositories()] == [f"{APP}#1", f"{OTHER}#1"]
    assert made(github) == ["77", "78"]


def test_all_threads_wait_for_one_token(app: GitHubInstallations, github: FakeGitHub) -> None:
    github.fail(path="/access_tokens", delay=0.3, times=9)
    begin = threading.Barrier(8)

    def ask(_: int) -> int:
        begin.wait()
        return len(app.pulls(APP))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [1] * 8
    assert made(github) == ["77"]


@pytest.mark.parametrize(("minutes", "tokens"), [(54, 1), (56, 2), (90, 2)])
def test_a_token_is_renewed_before_it_ends(
    minutes: float, tokens: int, app: GitHubInstallations, github: FakeGitHub, clock: Clock
) -> None:
    app.pulls(APP)
    later(github, clock, minutes * MINUTE)
    assert app.pulls(APP)
    assert made(github) == ["77"] * tokens
    assert [it.status for it in github.exchanges if it.path.endswith("/pulls")] == [200, 304 if tokens == 1 else 200]


def test_one_that_cannot_be_renewed_is_used_until_it_ends(
    app: GitHubInstallations, github: FakeGitHub, clock: Clock
) -> None:
    app.pulls(APP)
    later(github, clock, 57 * MINUTE)
    github.fail(path="/access_tokens", status=502, times=99)
    assert app.pulls(APP)
    later(github, clock, 4 * MINUTE)
    with pytest.raises(ForgeError) as refused:
        app.pulls(APP)
    assert (refused.value.cause, refused.value.permanent) == ("forge-unreachable", False)


def test_a_token_that_was_revoked_is_replaced_once(app: GitHubInstallations, github: FakeGitHub, clock: Clock) -> None:
    pull = app.pull(APP, 1)
    later(github, clock, 2 * MINUTE)
    github.tokens.clear()
    assert app.post_comment(pull, "after it was revoked").body == "after it was revoked"
    assert len(github.comments(APP, 1)) == 1
    assert made(github) == ["77", "77"]


def test_a_token_that_is_refused_at_once_is_no_reason_for_another(app: GitHubInstallations, github: FakeGitHub) -> None:
    github.fail(path="/pulls", status=401, body={"message": "Bad credentials"}, times=9)
    with pytest.raises(ForgeError) as refused:
        app.pulls(APP)
    assert (refused.value.cause, made(github)) == ("forge-login", ["77"])
    assert "GITHUB_TOKEN" not in refused.value.remedy


def test_a_new_token_still_asks_by_the_etag_of_the_old_one(
    app: GitHubInstallations, github: FakeGitHub, clock: Clock
) -> None:
    app.pulls(APP)
    later(github, clock, 56 * MINUTE)
    app.pulls(APP)
    assert ["if-none-match" in it.request_headers for it in github.exchanges if it.path.endswith("/pulls")] == [
        False,
        True,
    ]


def test_installations_share_no_answer(github: FakeGitHub) -> None:
    etags = MemoryEtags()
    app = as_app(github, "octo/*", "alice/*", etags=etags)
    assert app.repositories() == app.repositories() == [APP, OTHER]
    assert len(etags) == 3, "where it is installed, and a list of its own for each"
    app.close()


@pytest.mark.parametrize("wrong", [-7200.0, -90.0, 0.0, 90.0, 7200.0, 90_000.0])
def test_the_clock_of_the_workstation_may_be_wrong(wrong: float, github: FakeGitHub) -> None:
    clock = Clock(github.now() + wrong)
    app = as_app(github, clock=clock)
    assert app.pulls(APP)
    later(github, clock, 54 * MINUTE)
    assert app.pulls(APP)
    assert made(github) == ["77"]
    later(github, clock, 2 * MINUTE)
    assert app.pulls(APP)
    assert made(github) == ["77", "77"]
    app.close()


def test_one_installation_that_is_limited_does_not_limit_another(app: GitHubInstallations, github: FakeGitHub) -> None:
    github.fail(path=f"/{APP}/pulls", status=429, headers={"Retry-After": "900"}, body={"message": "slow down"})
    for _ in range(2):
        with pytest.raises(ForgeError) as limited:
            app.pulls(APP)
        assert limited.value.cause == "forge-rate-limited"
    assert app.pulls(OTHER)


def test_git_is_given_the_token_of_the_installation_and_no_other_host_is(
    app: GitHubInstallations, github: FakeGitHub
) -> None:
    pull = app.pull(OTHER, 1)
    given = app.source(pull).authorization
    assert given is not None
    user, _, token = base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")
    assert (user, github.tokens[token].owner) == ("x-access-token", "alice")
    assert app.source(replace(pull, clone_url="https://elsewhere.example/alice/tool.git")).authorization is None
    rights = app.of(OTHER).rights()
    rights.read_contents(rights.repository(OTHER))


def test_a_renamed_owner_is_found_by_where_the_old_name_leads(github: FakeGitHub) -> None:
    github.rename_repository(APP, "octo-inc/app")
    github.apps[ID].installations = {"octo-inc": 77}
    app = as_app(github)
    assert [pull.number for pull in app.pulls(APP)] == [1]
    app.close()


def test_neither_key_nor_claim_nor_token_is_ever_said(app: GitHubInstallations, github: FakeGitHub) -> None:
    app.pulls(APP)
    [token] = app.tokens()
    lines = [line for line in pem().splitlines() if not line.startswith("-")]
    for secret in (token, pem(), "".join(lines), pem().replace("\n", "\\n"), *lines):
        assert secret not in redaction.say(f"it is {secret} here"), secret
    assert token not in repr(app) + repr(app.of(APP)) + repr(app.__dict__)


# ---- what may be wrong

Break = Callable[[FakeGitHub], object]


def uninstall(github: FakeGitHub) -> None:
    del github.apps[ID].installations["octo"]
    github.tokens.clear()


def delete(github: FakeGitHub) -> None:
    github.tokens.clear()
    github.fail(path="^/(api/v3/)?app", status=404, body={"message": "Integration not found"}, times=999)


def other_key(github: FakeGitHub) -> None:
    add_app(github, number=1, octo=77)
    github.tokens.clear()


BROKEN: dict[str, tuple[Break, str, str]] = {
    "not installed": (uninstall, "is not installed for octo", "/apps/review-appliance/installations/new"),
    "suspended": (lambda it: it.apps[ID].suspended.add("octo"), "suspended", "installation"),
    "deleted": (delete, "GitHub does not accept the App", "APPLIANCE_GITHUB_APP_ID"),
    "another key": (other_key, "GitHub does not accept the App", "APPLIANCE_GITHUB_APP_KEY"),
}


@pytest.mark.parametrize("begun", [False, True], ids=["from the start", "later"])
@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_wrong_with_the_app_is_said_with_its_next_step(
    broken: str, begun: bool, app: GitHubInstallations, github: FakeGitHub, clock: Clock
) -> None:
    if begun:
        app.pulls(APP)
        later(github, clock, 2 * MINUTE)
    wrong, said, step = BROKEN[broken]
    wrong(github)
    for _ in range(2):
        with pytest.raises(ForgeError) as refused:
            app.pulls(APP)
        error = refused.value
        assert (error.cause, error.permanent) == ("forge-login", True)
        assert said in str(error) and step in error.remedy, (str(error), error.remedy)
        assert "GITHUB_TOKEN" not in str(error) + error.remedy


@pytest.mark.parametrize("broken", BROKEN)
def test_no_attempt_is_lost_and_it_goes_on_by_itself(broken: str, world: AsApp, github: FakeGitHub) -> None:
    whole = replace(github.apps[ID], installations=dict(github.apps[ID].installations), suspended=set())
    BROKEN[broken][0](github)
    result = world.run()
    assert result.reviewed == 0 and result.unhealthy is not None and result.unhealthy.cause == "forge-login"
    github.apps[ID] = whole
    github.failures.clear()
    github.adjust()
    assert world.run().reviewed == 1
    assert world.status().attempts == 1
    assert world.run_gates()[0] == f"success: {GREEN.description}"


def test_a_key_of_another_app_is_refused(github: FakeGitHub) -> None:
    add_app(github, app_id=5, number=1, octo=79)
    app = as_app(github, key=pem(1))
    with pytest.raises(ForgeError, match="GitHub does not accept the App"):
        app.pulls(APP)
    app.close()


@pytest.mark.parametrize(
    ("lacks", "act"),
    [
        ("checks", lambda app, pull: app.set_gate(pull, GREEN)),
        ("pull_requests", lambda app, pull: app.post_review(pull, "COMMENT", "x")),
    ],
)
def test_a_missing_permission_is_named(
    lacks: str, act: Callable[[GitHubInstallations, object], object], app: GitHubInstallations, github: FakeGitHub
) -> None:
    pull = app.pull(APP, 1)
    app.close()
    github.apps[ID].permissions[lacks] = "read"
    again = as_app(github)
    with pytest.raises(ForgeError) as refused:
        act(again, pull)
    again.close()
    assert refused.value.cause == "forge-permission"
    assert f"the permission {lacks}=write" in refused.value.remedy and ALL in refused.value.remedy
    assert "GITHUB_TOKEN" not in refused.value.remedy


def test_an_owner_without_the_app_holds_up_no_other(world: AsApp, github: FakeGitHub) -> None:
    world.forge.close()
    world.forge = world.forge_of("octo/*", "alice/*")  # type: ignore[assignment]
    assert world.run().reviewed == 2
    github.apps[ID].installations.pop("alice")
    github.push(APP, "feature", {"app.py": "print(3)\n"})
    world.restart()
    world.forge.close()
    world.forge = world.forge_of("octo/*", "alice/*")  # type: ignore[assignment]
    result = world.run()
    assert result.reviewed == 1
    assert result.unhealthy is not None and "not installed for alice" in result.unhealthy.sentence
    assert {row.target for row in world.store.states()} == {f"{APP}#1", f"{OTHER}#1"}, "unknown is not none"


def test_an_installation_whose_account_is_not_told_holds_up_nobody(
    app: GitHubInstallations, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GitHub's own description says that `account` may be null."""
    shown = render.installation

    def nameless(request: Request, it: App, owner: str, number: int) -> dict[str, object]:
        return shown(request, it, owner, number) | ({"account": None} if owner == "alice" else {})

    monkeypatch.setattr(render, "installation", nameless)
    assert app.pulls(APP)[0].target == f"{APP}#1"
    assert app.pulls(OTHER), "found by its repository"


# ---- the doctor


def lines(app: GitHubInstallations) -> list[Line]:
    return list(doctor.of_app(app, CONTEXT))


def bad(found: list[Line]) -> list[tuple[str, str, str]]:
    return [(line.check, line.state, line.id) for line in found if line.state != "ok"]


def test_the_doctor_shows_the_app_and_writes_nothing(app: GitHubInstallations, github: FakeGitHub) -> None:
    for name in (APP, OTHER):
        github.require(name, CONTEXT, source=ID)
    told = lines(app)
    assert bad(told) == []
    assert told[0].sentence == f"GitHub accepts the App review-appliance ({ID}), installed for alice, octo."
    assert f"checks: {GRANTED['checks']}" in told[1].sentence
    assert {line.check for line in told} == {
        "app", "clock", "contents", "pulls", "comment", "required", "rate",
    }  # fmt: skip
    assert all(it.status == 422 for it in github.writes if not it.path.endswith("/access_tokens"))


def test_the_doctor_names_each_permission_that_is_missing(app: GitHubInstallations, github: FakeGitHub) -> None:
    github.apps[ID].permissions |= {"issues": "read"}
    del github.apps[ID].permissions["checks"]
    line = next(line for line in lines(app) if line.id == "app-permissions")
    assert (line.state, line.subject) == ("fault", "octo")
    assert "issues: write, checks: write" in line.sentence


def test_the_doctor_examines_the_others_where_one_owner_has_no_app(
    app: GitHubInstallations, github: FakeGitHub
) -> None:
    uninstall(github)
    told = lines(app)
    assert ("app", "fault", "forge-login") in bad(told)
    assert [line.subject for line in told if line.check == "contents"] == [OTHER]


def test_a_rule_that_wants_another_app_is_found(app: GitHubInstallations, github: FakeGitHub) -> None:
    github.require(APP, CONTEXT, source=ID + 1)
    assert ("required", "fault", "gate-wrong-source") in bad(lines(app))


def test_the_doctor_says_what_is_wrong_with_the_key(github: FakeGitHub) -> None:
    app = as_app(github, key=pem(1))
    assert [(line.check, line.id) for line in lines(app)] == [("app", "forge-login")]
    app.close()
