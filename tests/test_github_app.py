"""The appliance signs in as a GitHub App: claims, tokens of installations, and what may be wrong with them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from apps import add_app, as_app
from fake_github import FakeGitHub
from fake_github.clients import Clock
from world import APP, World, found, reviewed

from appliance.forge.github_installations import GitHubInstallations

OTHER = "alice/tool"
HOUR = 3600.0


@pytest.fixture
def github(fake_github: FakeGitHub) -> FakeGitHub:
    """Two owners, each with a private repository and one pull request; the App is installed for both."""
    for name in (APP, OTHER):
        fake_github.add_repository(name, {"app.py": "print(1)\n"}, private=True)
        fake_github.add_pull(name, "feature", files={"app.py": "print(2)\n"})
    add_app(fake_github, octo=77, alice=78)
    return fake_github


@pytest.fixture
def app(github: FakeGitHub) -> Iterator[GitHubInstallations]:
    forge = as_app(github, APP, OTHER)
    yield forge
    forge.close()


def made(github: FakeGitHub) -> list[str]:
    """The tokens that were asked for, by path."""
    return [it.path for it in github.exchanges if it.path.endswith("/access_tokens") and it.status == 201]


def asked(github: FakeGitHub, path: str) -> list[int]:
    return [it.status for it in github.exchanges if it.path.endswith(path)]


class AsApp(World):
    def forge_of(self, *repositories: str) -> GitHubInstallations:  # type: ignore[override]
        clock = Clock()
        clock.__class__ = type("Now", (Clock,), {"__call__": lambda _: self.clock()})
        return as_app(self.github, *(repositories or (APP,)), clock=clock, etags=self.store, stop=self.stop)


def test_a_whole_cycle_as_an_app(github: FakeGitHub, tmp_path: Path) -> None:
    world = AsApp(github, tmp_path)
    world.script = lambda pull, _: reviewed(pull, found(1), verdict="incorrect")
    result = world.run()
    assert (result.failed, result.reviewed, world.health) == (False, 1, [None, None])
    assert world.run_gates()[0] == "failure: 1 blocking finding (P1)"
    assert github.repository(APP).statuses == []
    [comment] = github.comments(APP, 1)
    assert comment.author == "review-appliance[bot]"
    assert world.forge.me() == "review-appliance[bot]"
    world.run()
    assert made(github) == ["/app/installations/77/access_tokens"], "one token is enough for an hour"
    world.close()


def test_each_owner_has_a_token_of_its_own(app: GitHubInstallations, github: FakeGitHub) -> None:
    assert [app.pulls(name)[0].target for name in app.repositories()] == [f"{APP}#1", f"{OTHER}#1"]
    assert made(github) == ["/app/installations/77/access_tokens", "/app/installations/78/access_tokens"]
