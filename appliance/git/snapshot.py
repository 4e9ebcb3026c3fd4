"""What nobody has committed, as a commit that nobody sees: in a git directory of our own that borrows the objects.

The person's repository is only read: no index, ref, object, hook or configuration of it is written (git may renew the
time of an object that it would write and finds there), and none of its configuration is obeyed. So no filter of it
runs: a file is taken as it lies on the disk, but for line ends, which git converts by the attributes alone. What its
index says is unchanged (by size, time and inode) is taken from there.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from appliance.git.bounds import MAX_CHANGE_BYTES, MAX_FILES
from appliance.git.hardened import git
from appliance.process import Completed

SECONDS = 120.0
HEAD_REF, BASE_REF = "refs/heads/review-appliance", "refs/review-appliance/base"
MAX_PATCH = 32 * 1024**2  # bytes
_ATTRIBUTES = "* !filter\n"  # last in the file that outranks all others: a filter is a program
_WHO = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "review-appliance"), ("EMAIL", "review-appliance@localhost"),
                            ("DATE", "1700000000 +0000"))}  # the same content is the same commit  # fmt: skip


class Unusable(ValueError):
    """What a person gave cannot be made a commit; the message says why and what to do."""


@dataclass(frozen=True)
class Snapshot:
    """A commit in `git_dir`, where HEAD_REF and BASE_REF name it and what it is compared with."""

    git_dir: Path
    head: str
    base: str


def root_of(path: Path) -> Path:
    """The work tree that `path` lies in, by where its `.git` is, whatever a configuration says. Raises Unusable."""
    path = path.resolve()
    for folder in (path, *path.parents):
        if os.path.lexists(folder / ".git"):
            return folder
    raise Unusable(f"{path} is in no work tree of git. Next: name the folder of a checkout.")


def uncommitted(root: Path, work: Path, base: str | None = None) -> Snapshot:
    """Staged, unstaged and untracked files of the work tree `root` that are not ignored, as a child of its HEAD.

    `base` is a commit to compare with, HEAD if it is None. Raises Unusable, git.GitError, OSError.
    """
    own = _Own.make(root, work)
    parent = own.head()
    _copy_index(own)
    gone, there = _sorted(root, own.changed())
    if len(there) > MAX_FILES or sum(size for _, size in there) > MAX_CHANGE_BYTES:
        raise Unusable(f"{root} has too much that is not committed. Next: name build products in .gitignore.")
    own.update(["--force-remove"], gone)
    own.update(["--add", "--replace"], [path for path, _ in there])
    return own.commit(parent, base or parent, "Uncommitted changes")


def patched(root: Path, work: Path, patch: bytes, base: str | None = None) -> Snapshot:
    """`patch` (of git diff, or of format-patch) on the commit `base`, HEAD if it is None.

    Raises Unusable, git.GitError.
    """
    if len(patch) > MAX_PATCH:
        raise Unusable(f"the patch has more than {MAX_PATCH // 1024**2} MiB. Next: split it.")
    if not patch.strip():
        raise Unusable("the patch is empty. Next: pipe one in, with `docker exec -i`: `git diff | docker exec -i …`.")
    own = _Own.make(root, work)
    on = base or own.head()
    if on is None:
        raise Unusable(f"{root} has no commit that a patch could be applied to. Next: make one, or use --uncommitted.")
    own.run(["read-tree", on])
    done = own.run(["apply", "--cached", "--whitespace=nowarn", "-"], input=patch, check=False)
    if not done.ok:
        said = "; ".join(line.removeprefix("error: ") for line in done.err.splitlines()[:3])
        raise Unusable(
            f"the patch does not apply to {on[:12]}: {said}. Next: name the commit that it was made on by --base, and "
            "make it at the root of the repository by `git diff --binary`."
        )
    return own.commit(on, on, "A patch")


@dataclass(frozen=True)
class _Own:
    """Our git directory beside the person's: `theirs` is that of the work tree, `common` that of the repository."""

    root: Path
    git_dir: Path
    theirs: Path
    common: Path

    @classmethod
    def make(cls, root: Path, work: Path) -> "_Own":
        theirs, common = (_asked(root, which) for which in ("--absolute-git-dir", "--git-common-dir"))
        objects = (common / "objects").resolve()
        if "\n" in str(objects):
            raise Unusable(f"{root} has a line end in its path. Next: rename the folder.")
        sha256 = _said(root, "rev-parse", "--show-object-format") == "sha256"
        git_dir = work / "snapshot.git"
        form = "sha256" if sha256 else "sha1"
        git(["init", "--quiet", "--bare", "--template=", f"--object-format={form}", str(git_dir)], timeout=SECONDS)
        (git_dir / "objects" / "info").mkdir(exist_ok=True)
        (git_dir / "objects" / "info" / "alternates").write_text(f"{objects}\n")
        (git_dir / "info").mkdir(exist_ok=True)
        for name in ("info/exclude", "info/attributes", "shallow"):
            if (common / name).is_file():
                shutil.copyfile(common / name, git_dir / name)
        with (git_dir / "info" / "attributes").open("a") as attributes:
            attributes.write(f"\n{_ATTRIBUTES}")
        return cls(root, git_dir, theirs, common)

    def run(self, args: list[str], *, input: bytes | None = None, check: bool = True) -> Completed:
        options = ["-c", "core.bare=false"]
        for key, allowed in (("core.autocrlf", ("true", "input")), ("core.filemode", ("false",))):
            said = _said(self.root, "config", "--get", key)
            options += ["-c", f"{key}={said}"] if said in allowed else []
        return git(
            [*options, *args], git_dir=self.git_dir, work_tree=self.root, cwd=self.root, timeout=SECONDS,
            input=input, check=check, env=_WHO,
        )  # fmt: skip

    def head(self) -> str | None:
        """HEAD of the work tree; None before the first commit."""
        return _said(self.root, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") or None

    def changed(self) -> Iterator[bytes]:
        """Paths that differ from the index, and untracked ones; a repository within is none of ours."""
        for args in (["ls-files", "-z", "--modified", "--deleted"],
                     ["ls-files", "-z", "--others", "--exclude-standard"]):  # fmt: skip
            done = self.run(args)
            if done.err.strip():  # a folder that it could not open would be left out in silence
                raise Unusable(f"{self.root} cannot be read: {done.err.strip()[:300]}. Next: make it readable.")
            yield from (path for path in dict.fromkeys(done.stdout.split(b"\0")) if path and not path.endswith(b"/"))

    def update(self, how: list[str], paths: list[bytes]) -> None:
        if not paths:
            return
        done = self.run(
            ["update-index", *how, "-z", "--stdin"], input=b"".join(path + b"\0" for path in paths), check=False
        )
        if not done.ok:
            said = " ".join(done.err.split())[:300]
            raise Unusable(f"{self.root} cannot be read: {said}. Next: make its files readable for uid {os.getuid()}.")

    def commit(self, parent: str | None, base: str | None, message: str) -> Snapshot:
        tree = self.run(["write-tree"]).out.strip()
        if parent is None:  # before the first commit: all of it is compared with nothing
            empty = self.run(["mktree"], input=b"").out.strip()
            parent = self.run(["commit-tree", empty, "-m", "Nothing"]).out.strip()
        head = self.run(["commit-tree", tree, "-p", parent, "-m", message]).out.strip()
        for ref, sha in ((HEAD_REF, head), (BASE_REF, base or parent)):
            self.run(["update-ref", ref, sha])
        return Snapshot(self.git_dir, head, base or parent)


def _said(root: Path, *args: str) -> str:
    done = git(list(args), cwd=root, timeout=SECONDS, check=False)
    return done.out.strip() if done.ok else ""


def _asked(root: Path, which: str) -> Path:
    said = _said(root, "rev-parse", which)
    if not said:
        raise Unusable(
            f"{root} is no repository that can be read here. Next: of a linked worktree or submodule, mount the "
            "repository that it belongs to as well, at the same path."
        )
    return (root / said).resolve()


def _copy_index(own: _Own) -> None:
    """With its times: by the index's own git tells a file that was changed in the same moment from one that was not."""
    for path in (own.theirs / "index", *own.theirs.glob("sharedindex.*")):
        if path.is_file():
            shutil.copy2(path, own.git_dir / path.name)


def _sorted(root: Path, paths: Iterator[bytes]) -> tuple[list[bytes], list[tuple[bytes, int]]]:
    """Those that are no files any more, and those that are, with their sizes. Nothing behind a link is a file here."""
    gone: list[bytes] = []
    there: list[tuple[bytes, int]] = []
    for path in paths:
        here = root / os.fsdecode(path)
        try:
            found = here.lstat()
            linked = any(parent.is_symlink() for parent in here.parents if parent.is_relative_to(root))
        except (FileNotFoundError, NotADirectoryError):
            gone.append(path)
            continue
        submodule = stat.S_ISDIR(found.st_mode) and os.path.lexists(here / ".git")
        if linked or not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode) or submodule):
            gone.append(path)
        else:
            there.append((path, 0 if submodule else found.st_size))
    return gone, there
