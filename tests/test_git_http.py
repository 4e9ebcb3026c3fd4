"""Fetching over HTTP from the fake GitHub: where the token goes, and what each refusal means."""

import base64
import os
from pathlib import Path

import pytest
from fake_github import FakeGitHub, Pull
from fake_github.fixtures import fake_github

from appliance.forge import Source
from appliance.git import GitError, Mirror, Mirrors, Superseded

__all__ = ["fake_github"]

TOKEN = "fake-token"
NAME = "octo/app"


def basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"x-access-token:{token}".encode()).decode()


@pytest.fixture
def pull(fake_github: FakeGitHub) -> Pull:
    fake_github.add_repository(NAME, {"app.py": "print(1)\n"}, private=True)
    return fake_github.add_pull(NAME, "feature", files={"app.py": "print(2)\n"})


@pytest.fixture
def mirrors(tmp_path: Path) -> Mirrors:
    return Mirrors(tmp_path / "mirrors")


def source(fake: FakeGitHub, token: str | None = TOKEN, name: str = NAME, number: int = 1) -> Source:
    authorization = None if token is None else basic(token)
    return Source(f"{fake.base}/{name}.git", f"refs/pull/{number}/head", "refs/heads/main", authorization)


def fetch(mirrors: Mirrors, fake: FakeGitHub, pull: Pull, token: str | None = TOKEN) -> Mirror:
    return mirrors.fetch(NAME, source(fake, token), head_sha=pull.head_sha)


def test_a_private_repository_is_fetched_with_the_token(fake_github: FakeGitHub, pull: Pull, mirrors: Mirrors) -> None:
    mirror = fetch(mirrors, fake_github, pull)
    assert [file.path for file in mirror.changed_files(mirror.base, pull.head_sha)] == ["app.py"]
    assert b"token" not in (mirror.path / "config").read_bytes()


def test_the_branch_of_a_deleted_fork_is_still_there(fake_github: FakeGitHub, pull: Pull, mirrors: Mirrors) -> None:
    fake_github.delete_branch(NAME, "feature")
    assert fetch(mirrors, fake_github, pull)


@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_token_that_is_not_accepted_is_a_login_fault(
    fake_github: FakeGitHub, pull: Pull, mirrors: Mirrors, token: str | None
) -> None:
    with pytest.raises(GitError) as caught:
        fetch(mirrors, fake_github, pull, token)
    assert caught.value.cause == "forge-login"
    assert caught.value.permanent
    assert "GITHUB_TOKEN" in caught.value.remedy


@pytest.mark.parametrize(
    ("status", "cause", "permanent"),
    [
        (403, "forge-permission", True),
        (404, "forge-not-found", True),
        (429, "forge-rate-limited", False),
        (500, "forge-unreachable", False),
        (502, "forge-unreachable", False),
        (503, "forge-unreachable", False),
    ],
)
def test_what_an_answer_means(
    fake_github: FakeGitHub, pull: Pull, mirrors: Mirrors, status: int, cause: str, permanent: bool
) -> None:
    fake_github.fail(path=r"info/refs", status=status, times=9, body="no")
    with pytest.raises(GitError) as caught:
        fetch(mirrors, fake_github, pull)
    assert (caught.value.cause, caught.value.permanent) == (cause, permanent), caught.value


@pytest.mark.parametrize("how", [{"disconnect": True}, {"path": "git-upload-pack", "cut_off": True}])
def test_a_connection_that_breaks_is_unreachable_and_heals(
    fake_github: FakeGitHub, pull: Pull, mirrors: Mirrors, how: dict[str, object]
) -> None:
    failure = fake_github.fail(times=9, **how)
    with pytest.raises(GitError) as caught:
        fetch(mirrors, fake_github, pull)
    assert (caught.value.cause, caught.value.permanent) == ("forge-unreachable", False), caught.value
    fake_github.failures.remove(failure)
    assert fetch(mirrors, fake_github, pull)


def test_nobody_listens(mirrors: Mirrors) -> None:
    for url in ("http://127.0.0.1:1/octo/app.git", "http://no-such-host.invalid/octo/app.git"):
        with pytest.raises(GitError) as caught:
            mirrors.fetch(NAME, Source(url, "refs/pull/1/head", "refs/heads/main", basic(TOKEN)), head_sha="1" * 40)
        assert (caught.value.cause, caught.value.permanent) == ("forge-unreachable", False), caught.value


def test_a_redirect_is_not_followed_with_the_token(fake_github: FakeGitHub, pull: Pull, mirrors: Mirrors) -> None:
    with FakeGitHub() as thief:
        where = f"{thief.base}/{NAME}.git/info/refs?service=git-upload-pack"
        fake_github.fail(path="info/refs", status=301, headers={"Location": where}, body="", times=9)
        with pytest.raises(GitError) as caught:
            fetch(mirrors, fake_github, pull)
        assert thief.exchanges == []
    assert caught.value.cause == "forge-not-found"


def test_a_head_that_moved_on(fake_github: FakeGitHub, pull: Pull, mirrors: Mirrors) -> None:
    old = pull.head_sha
    fake_github.push(NAME, "feature", {"app.py": "print(3)\n"})
    with pytest.raises(Superseded):
        mirrors.fetch(NAME, source(fake_github), head_sha=old)


def test_the_token_is_in_no_argv_no_file_and_no_error(
    fake_github: FakeGitHub, pull: Pull, mirrors: Mirrors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also a server that gives the header back in its answer, which git prints."""
    secret = basic(TOKEN).removeprefix("Basic ")
    log, real = tmp_path / "argv", os.popen("command -v git").read().strip()
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nprintf "%s\\n" "$0 $*" >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    mirror = fetch(mirrors, fake_github, pull)
    assert "fetch" in log.read_text()
    assert secret not in log.read_text()
    files = [path for path in mirror.path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    echo = f"you said: {basic(TOKEN)}"
    fake_github.fail(path="info/refs", status=403, headers={"Content-Type": "text/plain"}, body=echo, times=9)
    with pytest.raises(GitError) as caught:
        fetch(mirrors, fake_github, pull)
    assert "[redacted]" in str(caught.value), "the fake's answer should have been shown"
    assert secret not in str(caught.value)


def test_the_token_goes_to_its_own_address_only(fake_github: FakeGitHub, pull: Pull, tmp_path: Path) -> None:
    """The header of one repository is not sent to another one of the same host."""
    from appliance.git import git

    other = fake_github.add_repository("octo/other", {"x": "y\n"}, private=True)
    assert other
    authorization = (f"{fake_github.base}/{NAME}.git", basic(TOKEN))
    for name, accepted in ((NAME, True), ("octo/other", False), ("octo/app.git-evil", False)):
        args = ["ls-remote", f"{fake_github.base}/{name}.git"]
        done = git(args, authorization=authorization, protocols=("http",), timeout=20, check=False)
        assert done.ok == accepted, (name, done.err)
    seen = [exchange for exchange in fake_github.exchanges if "other" in exchange.path or "evil" in exchange.path]
    assert {exchange.request_headers["authorization"] for exchange in seen} == {"absent"}


def test_a_line_break_in_the_token_is_refused(fake_github: FakeGitHub, pull: Pull, mirrors: Mirrors) -> None:
    evil = Source(source(fake_github).url, "refs/pull/1/head", "refs/heads/main", "Basic a\r\nX-Evil: 1")
    with pytest.raises(GitError, match="line break") as caught:
        mirrors.fetch(NAME, evil, head_sha=pull.head_sha)
    assert caught.value.cause == "forge-login"
    assert "Evil" not in str(caught.value)
    assert fake_github.exchanges == []
