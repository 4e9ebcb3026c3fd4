"""Git with real repositories: what a review needs, and what a hostile repository must not reach."""

import subprocess
from pathlib import Path

import pytest
from gitrepo import Repo

from appliance.git import Mirror, Mirrors, Slots, git


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
