"""What nobody has committed is reviewed as it lies there, and the person's repository stays as it was."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gitrepo import IDENTITY, Repo, feature_repo

from appliance.git import git
from appliance.git.snapshot import Snapshot, Unusable, patched, root_of, uncommitted
from appliance.process import Completed


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return feature_repo(tmp_path / "repo")


def state(repo: Repo) -> dict[str, tuple[int, bytes]]:
    """All of its git directory; of objects not the time, which git renews when it would write the same."""
    return {
        str(path): (0 if "objects" in path.parts else path.stat().st_mtime_ns, path.read_bytes())
        for path in (repo.path / ".git").rglob("*")
        if path.is_file()
    }


def show(made: Snapshot, *args: str) -> str:
    return subprocess.run(
        ["git", f"--git-dir={made.git_dir}", *args], check=True, capture_output=True, text=True
    ).stdout


def changes(made: Snapshot) -> dict[str, str]:
    told = show(made, "diff", "--name-status", "--no-renames", made.base, made.head)
    return {name: letter for letter, name in (line.split("\t") for line in told.splitlines())}


def test_staged_unstaged_and_untracked_and_nothing_is_written(repo: Repo, tmp_path: Path) -> None:
    repo.write(".gitignore", "ignored\n")
    repo.write("staged", "s\n")
    repo.git("add", "staged")
    repo.write("intent", "i\n")
    repo.git("add", "--intent-to-add", "intent")
    repo.write("a", "unstaged\n")
    (repo.path / "b").unlink()
    repo.write("new/deep.txt", "n\n")
    repo.write("ignored", "x\n")
    (repo.path / "link").symlink_to("/etc/passwd")
    hook = repo.path / ".git/hooks/reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    before = state(repo)
    made = uncommitted(repo.path, tmp_path)
    assert state(repo) == before and not (tmp_path / "hooked").exists()
    assert changes(made) == {
        ".gitignore": "A", "a": "M", "b": "D", "intent": "A", "link": "A", "new/deep.txt": "A", "staged": "A",
    }  # fmt: skip
    assert show(made, "show", f"{made.head}:link") == "/etc/passwd"
    assert uncommitted(repo.path, _other(tmp_path)).head == made.head


def _other(tmp_path: Path) -> Path:
    other = tmp_path / "other"
    other.mkdir()
    return other


def test_no_program_of_the_repository_runs(repo: Repo, tmp_path: Path) -> None:
    run = f"touch {tmp_path}/ran; cat"
    for key in ("filter.x.clean", "filter.x.process", "core.fsmonitor", "filter.lfs.clean"):
        repo.git("config", key, run)
    repo.git("config", "filter.x.required", "true")
    repo.write(".gitattributes", "* filter=x\n")
    repo.write("c", "changed\n")
    made = uncommitted(repo.path, tmp_path)
    assert not (tmp_path / "ran").exists()
    assert show(made, "show", f"{made.head}:c") == "changed\n"


def test_a_configured_work_tree_elsewhere_is_not_read(repo: Repo, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("k\n")
    repo.git("config", "core.worktree", str(tmp_path / "secret"))
    made = uncommitted(root_of(repo.path), tmp_path)
    assert "key" not in show(made, "ls-tree", "-r", "--name-only", made.head)


def test_a_folder_that_became_a_link_is_not_followed(repo: Repo, tmp_path: Path) -> None:
    repo.commit("dir", **{"d/f": "in\n"})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f").write_text("outside\n")
    (repo.path / "d" / "f").unlink()
    (repo.path / "d").rmdir()
    (repo.path / "d").symlink_to(tmp_path / "out")
    made = uncommitted(repo.path, tmp_path)
    assert changes(made) == {"d": "A", "d/f": "D"}
    assert "outside" not in show(made, "show", f"{made.head}:d")


def test_a_file_that_became_a_folder_and_the_reverse(repo: Repo, tmp_path: Path) -> None:
    repo.commit("dir", **{"d/f": "in\n"})
    (repo.path / "a").unlink()
    repo.write("a/x", "x\n")
    (repo.path / "d" / "f").unlink()
    (repo.path / "d").rmdir()
    repo.write("d", "file\n")
    assert changes(uncommitted(repo.path, tmp_path)) == {"a": "D", "a/x": "A", "d": "A", "d/f": "D"}


def test_before_the_first_commit(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "fresh")
    repo.write("one", "1\n")
    assert changes(uncommitted(repo.path, tmp_path)) == {"one": "A"}


def test_a_linked_worktree_and_a_repository_within(repo: Repo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "main")
    (tmp_path / "linked" / "a").write_text("linked\n")
    Repo(tmp_path / "linked" / "within").commit("x", y="z\n")
    made = uncommitted(root_of(tmp_path / "linked"), tmp_path)
    assert changes(made) == {"a": "M"}
    assert made.base == repo.git("rev-parse", "main")


def test_line_ends_follow_the_attributes(repo: Repo, tmp_path: Path) -> None:
    repo.commit("attributes", **{".gitattributes": "*.txt text eol=crlf\n", "t.txt": "one\ntwo\n"})
    repo.write("t.txt", "one\r\ntwo\r\nthree\r\n")
    made = uncommitted(repo.path, tmp_path)
    assert show(made, "diff", "--numstat", made.base, made.head).startswith("1\t0\t")


def test_a_folder_that_git_could_not_open_is_not_left_out_in_silence(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git says so on stderr, and its exit code is 0; root, who may run this, opens everything."""

    def closed(args: Sequence[str], **how: Any) -> Completed:
        done = git(args, **how)
        said = b"warning: could not open directory 'x/': Permission denied\n" if "--others" in args else b""
        return replace(done, stderr=done.stderr + said)

    monkeypatch.setattr("appliance.git.snapshot.git", closed)
    with pytest.raises(Unusable, match=r"could not open.*Next: make it readable"):
        uncommitted(repo.path, tmp_path)


# ---- shapes of work trees: each as git itself would commit it, or a clear error, and nothing of it is touched


def lying(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below `root`, byte for byte; of objects not the time, which git renews."""
    found = {}
    for path in root.rglob("*"):
        seen = path.lstat()
        content = bytes(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path)] = (seen.st_mode, 0 if "objects" in path.parts else seen.st_mtime_ns, content)
    return found


def _submodule(repo: Repo, tmp_path: Path) -> None:
    Repo(tmp_path / "library").commit("one", lib="1\n")
    allow = ("-c", "protocol.file.allow=always")
    repo.git(*allow, "submodule", "--quiet", "add", str(tmp_path / "library"), "lib")


def _dirty_submodule(repo: Repo, tmp_path: Path) -> None:
    _submodule(repo, tmp_path)
    repo.git("commit", "-qm", "a submodule")
    (repo.path / "lib" / "lib").write_text("dirty\n")
    (repo.path / "lib" / "untracked").write_text("u\n")
    repo.write("a", "changed\n")


def _moved_submodule(repo: Repo, tmp_path: Path) -> None:
    _dirty_submodule(repo, tmp_path)
    repo.git("-C", "lib", "commit", "-qam", "two")


def _new_submodule(repo: Repo, tmp_path: Path) -> None:
    _submodule(repo, tmp_path)


def _sparse(repo: Repo, tmp_path: Path) -> None:
    repo.commit("folders", **{"in/x": "1\n", "out/y": "1\n"})
    repo.git("sparse-checkout", "set", "in")
    repo.write("in/x", "2\n")


def _split_index(repo: Repo, tmp_path: Path) -> None:
    repo.git("update-index", "--split-index")
    repo.write("a", "changed\n")
    repo.write("staged", "s\n")
    repo.git("add", "staged")


def _intent(repo: Repo, tmp_path: Path) -> None:
    repo.write("intent", "i\n")
    repo.git("add", "--intent-to-add", "intent")
    repo.write("intent gone", "i\n")
    repo.git("add", "--intent-to-add", "intent gone")
    (repo.path / "intent gone").unlink()


def _links_and_modes(repo: Repo, tmp_path: Path) -> None:
    (repo.path / "a").chmod(0o755)
    (repo.path / "b").unlink()
    (repo.path / "b").symlink_to("a")
    (repo.path / "dangling").symlink_to("nowhere")
    (repo.path / "folder").symlink_to("/etc")


def _odd_names(repo: Repo, tmp_path: Path) -> None:
    for name in (b"\xff\xfe", b"line\nend", b'quo"te', b"tab\t", " ü".encode(), b"-rf", b":(top)x", b"a b", b"\\x"):
        repo.write(name, "odd\n")


def _conflict(repo: Repo, tmp_path: Path) -> None:
    repo.git("checkout", "-q", "main")
    repo.commit("theirs", a="other\n")
    subprocess.run(["git", "merge", "-q", "feature"], cwd=repo.path, env=IDENTITY, capture_output=True, check=False)


def _merge_resolved(repo: Repo, tmp_path: Path) -> None:
    _conflict(repo, tmp_path)
    repo.write("a", "both\n")
    repo.git("add", "a")


def _lfs(repo: Repo, tmp_path: Path) -> None:
    repo.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    repo.write("pointer.bin", f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 9\n")
    repo.write("content.bin", bytes(range(256)))


def _skipped(repo: Repo, tmp_path: Path) -> None:
    """What a person has told git not to look at is not looked at."""
    repo.git("update-index", "--assume-unchanged", "a")
    repo.write("a", "hidden\n")
    repo.write("c", "seen\n")


SHAPES = [_dirty_submodule, _moved_submodule, _new_submodule, _sparse, _split_index, _intent, _links_and_modes,
          _odd_names, _conflict, _merge_resolved, _lfs, _skipped]  # fmt: skip


def as_git_would(repo: Repo, tmp_path: Path) -> str:
    """The tree that `git add --all` makes, in a copy."""
    copy = tmp_path / "copy"
    shutil.copytree(repo.path, copy, symlinks=True)

    def told(*args: str) -> str:
        done = subprocess.run(["git", *args], cwd=copy, env=IDENTITY, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    told("add", "--all")
    return told("write-tree")


@pytest.mark.parametrize(
    ("form", "shape"),
    [(form, shape) for form in ("sha1", "sha256") for shape in SHAPES
     if form == "sha1" or "submodule" not in shape.__name__],  # of the other form: the test's library is of the first
    ids=lambda given: given if isinstance(given, str) else given.__name__.strip("_"),
)  # fmt: skip
def test_each_shape_is_taken_as_git_would_take_it_and_left_as_it_was(
    form: str, shape: Callable[[Repo, Path], None], tmp_path: Path
) -> None:
    repo = Repo(tmp_path / "repo", f"--object-format={form}")
    repo.commit("first", a="one\n", b="two\n")
    repo.git("checkout", "--quiet", "-b", "feature")
    repo.commit("second", a="ONE\n", c="three\n")
    shape(repo, tmp_path)
    before = lying(repo.path)
    made = uncommitted(repo.path, _other(tmp_path))
    assert lying(repo.path) == before
    assert show(made, "rev-parse", f"{made.head}^{{tree}}").strip() == as_git_would(repo, tmp_path)
    assert made.base == repo.git("rev-parse", "HEAD")
    assert len(made.head) == (64 if form == "sha256" else 40)


@pytest.mark.parametrize("staged", [False, True])
def test_all_is_deleted(staged: bool, repo: Repo, tmp_path: Path) -> None:
    for name in "abc":
        (repo.path / name).unlink()
    if staged:
        repo.git("add", "--all")
    assert changes(uncommitted(repo.path, tmp_path)) == {"a": "D", "b": "D", "c": "D"}


def test_nothing_is_changed_and_nothing_was_ever_committed(repo: Repo, tmp_path: Path) -> None:
    assert changes(uncommitted(repo.path, tmp_path)) == {}
    empty = Repo(tmp_path / "empty")
    before = lying(empty.path)
    assert changes(uncommitted(empty.path, _other(tmp_path))) == {}
    assert lying(empty.path) == before


def diff(repo: Repo, *args: str) -> bytes:
    return subprocess.run(["git", *(args or ("diff",))], cwd=repo.path, capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    "args", [("diff", "--binary", "main", "feature"), ("format-patch", "--stdout", "main..feature")]
)
def test_a_patch_is_applied_to_its_base(args: tuple[str, ...], repo: Repo, tmp_path: Path) -> None:
    repo.commit("binary", **{"c": "four\n"})
    repo.write("raw", bytes(range(256)))
    repo.git("add", "raw")
    repo.git("commit", "-qm", "raw")
    if args[0] == "format-patch":
        args = ("format-patch", "--stdout", "--binary", "main..feature")
    before = state(repo)
    made = patched(repo.path, tmp_path, diff(repo, *args), repo.git("rev-parse", "main"))
    assert state(repo) == before
    assert show(made, "rev-parse", f"{made.head}^{{tree}}").strip() == repo.git("rev-parse", "feature^{tree}")


TRAVERSAL = b"diff --git a/../x b/../x\nnew file mode 100644\n--- /dev/null\n+++ b/../x\n@@ -0,0 +1 @@\n+x\n"


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"hello\n", "No valid patches"),
        (b"x" * (32 * 1024**2 + 1), "MiB"),
        (TRAVERSAL, "invalid path"),
        (TRAVERSAL.replace(b"../x", b".git/config"), "invalid path"),
        (b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-nothing\n+x\n", "does not apply"),
        (b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,9 +1 @@\n-ONE\n", "corrupt"),
    ],
)  # fmt: skip
def test_what_is_no_patch_for_this_base_says_what_to_do(patch: bytes, said: str, repo: Repo, tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=rf"(?s){said}.*Next: "):
        patched(repo.path, tmp_path, patch)
