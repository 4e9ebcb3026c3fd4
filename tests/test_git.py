"""Git with real repositories: what a review needs, and what a hostile repository must not reach."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from appliance.forge import Source
from appliance.git import Mirror, Mirrors, Slots, git

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "HOME": "/nonexistent",
    "PATH": os.environ["PATH"],
}


class Repo:
    """A repository of a test, driven by plain git."""

    def __init__(self, path: Path, *init: str) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main", *init)

    def git(self, *args: str, env: Mapping[str, str] | None = None) -> str:
        return subprocess.run(
            ["git", *args], cwd=self.path, env=IDENTITY | dict(env or {}), check=True, capture_output=True, text=True
        ).stdout.strip()

    def write(self, name: str | bytes, content: str | bytes) -> None:
        path = self.path / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, message: str = "a change", **files: str) -> str:
        for name, content in files.items():
            self.write(name, content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def source(self, head: str = "refs/heads/feature", base: str = "refs/heads/main") -> Source:
        return Source(str(self.path), head, base)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """`main` and a branch `feature` of one commit more."""
    repo = Repo(tmp_path / "repo")
    repo.commit("first", a="one\n", b="two\n")
    repo.git("checkout", "--quiet", "-b", "feature")
    repo.commit("second", a="ONE\n", c="three\n")
    return repo


@pytest.fixture
def mirrors(tmp_path: Path) -> Mirrors:
    return Mirrors(tmp_path / "mirrors")


def fetch(mirrors: Mirrors, repo: Repo, head: str = "feature") -> tuple[Mirror, str]:
    sha = repo.git("rev-parse", head)
    return mirrors.fetch("ada/repo", repo.source(f"refs/heads/{head}"), head_sha=sha), sha


def test_head_and_base_come_and_nothing_else(repo: Repo, mirrors: Mirrors) -> None:
    repo.git("branch", "other", "main")
    repo.git("tag", "v1")
    mirror, head = fetch(mirrors, repo)
    refs = git(["for-each-ref", "--format=%(refname) %(objectname)"], git_dir=mirror.path, timeout=10).out.split()
    assert sorted(refs[1::2]) == sorted([head, repo.git("rev-parse", "main")])
    assert all(ref.startswith("refs/appliance/") for ref in refs[::2])
    assert mirror.base_sha("main") == mirror.base_sha("refs/heads/main") == repo.git("rev-parse", "main")


def test_slot_is_the_head_and_the_reviewer_can_diff_it(repo: Repo, mirrors: Mirrors, tmp_path: Path) -> None:
    mirror, head = fetch(mirrors, repo)
    base = mirror.base_sha("main")
    slots = Slots(tmp_path / "slots")
    with slots.checkout(mirror, "ada/repo", head_sha=head, base_sha=base, merge_base=base) as slot:
        assert (slot.tree / "a").read_text() == "ONE\n"
        args = ["git", f"--git-dir={slot.git_dir}", f"--work-tree={slot.tree}"]
        diff = subprocess.run([*args, "diff", "merge-base..head"], capture_output=True, text=True, check=True).stdout
        assert "+ONE" in diff
        status = subprocess.run([*args, "status", "--porcelain"], capture_output=True, text=True, check=True).stdout
        assert status == ""
        assert list((slot.tree / ".git").iterdir()) == []
