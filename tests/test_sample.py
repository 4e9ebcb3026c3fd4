"""The sample repository."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.git import git
from appliance.sample import BRANCH, DEFECT_LINE, DEFECT_PATH, SAMPLE_NAME, make


def tips(path: Path) -> list[str]:
    return git(["rev-parse", "main", BRANCH], git_dir=path / ".git", timeout=10).out.split()


def test_the_defect_is_where_the_constants_say(tmp_path: Path) -> None:
    path = make(tmp_path / SAMPLE_NAME)
    shown = git(["show", f"{BRANCH}:{DEFECT_PATH}"], git_dir=path / ".git", timeout=10).out.splitlines()
    assert "quantity > pieces" in shown[DEFECT_LINE - 1]
    diff = git(["diff", "--unified=0", "main", BRANCH, "--", DEFECT_PATH], git_dir=path / ".git", timeout=10).out
    assert f"+{shown[DEFECT_LINE - 1]}" in diff.splitlines()


@pytest.mark.parametrize("branch", ["main", BRANCH])
def test_its_own_tests_pass_and_miss_the_defect(tmp_path: Path, branch: str) -> None:
    path = make(tmp_path / SAMPLE_NAME)
    git(["checkout", "--quiet", branch], cwd=path, timeout=10)
    tests = subprocess.run(
        [sys.executable, "-B", "-m", "unittest"], cwd=path, capture_output=True, text=True, check=True
    )
    assert "Ran 3" in tests.stderr if branch == "main" else "Ran 4" in tests.stderr
    if branch == BRANCH:
        wrong = "from basket.pricing import discount; print(discount(10), discount(50))"
        out = subprocess.run([sys.executable, "-B", "-c", wrong], cwd=path, capture_output=True, text=True, check=True)
        assert out.stdout == "0 5\n", "10 and 50 pieces should get 5 and 12 %: this is the planted defect"


def test_the_commits_are_the_same_everywhere(tmp_path: Path) -> None:
    assert tips(make(tmp_path / "a" / SAMPLE_NAME)) == tips(make(tmp_path / "b" / "other"))


def test_files_have_plain_rights_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        path = make(tmp_path / SAMPLE_NAME)
    finally:
        os.umask(before)
    listing = git(["ls-tree", "-r", "--format=%(objectmode)", BRANCH], git_dir=path / ".git", timeout=10).out.split()
    assert set(listing) == {"100644"}


def test_a_second_call_changes_nothing_and_is_quick(tmp_path: Path) -> None:
    path = make(tmp_path / SAMPLE_NAME)
    before = path.stat().st_ino
    before_it = sum(os.times()[:4])
    make(path)
    assert sum(os.times()[:4]) - before_it < 1.0  # of processor time, git's too; it takes 0.04 s
    assert path.stat().st_ino == before


@pytest.mark.parametrize("damage", ["branch", "object", "mark", "empty", "aside", "file"])
def test_a_half_made_one_is_repaired(tmp_path: Path, damage: str) -> None:
    path = make(tmp_path / SAMPLE_NAME)
    whole = tips(path)
    if damage == "branch":
        (path / ".git" / "refs" / "heads" / BRANCH).unlink()
    elif damage == "object":
        tree = git(["rev-parse", f"{BRANCH}^{{tree}}"], git_dir=path / ".git", timeout=10).out.strip()
        (path / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    elif damage == "mark":
        (path / ".git" / "appliance-sample").write_text("torn")
    elif damage == "empty":
        shutil.rmtree(path)
        path.mkdir()
    elif damage == "file":
        shutil.rmtree(path)
        path.write_text("not a directory")
    else:
        (tmp_path / f".{SAMPLE_NAME}.new").mkdir()
        shutil.rmtree(path)
    make(path)
    assert tips(path) == whole
    git(["fsck", "--strict"], git_dir=path / ".git", timeout=10)
