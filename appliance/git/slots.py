"""Kept checkouts: moving one to the next head takes a fraction of what making one does (docs/architecture.md)."""

import errno
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.flock import try_lock
from appliance.git import upkeep
from appliance.git.errors import MALFORMED, GitError, error_of
from appliance.git.hardened import git
from appliance.git.mirror import Mirror
from appliance.git.names import check_sha, directory_name
from appliance.git.parts import ATTRIBUTES, FETCH_SECONDS, LOCAL_SECONDS, discard

MAX_SLOTS = 64
LEFT_OUT = "appliance-left-out"  # a file in a slot that lacks files of its commit: it is not moved, but made anew

_CONFIG = """\
[core]
	repositoryformatversion = {version}
	filemode = true
	bare = false
	logAllRefUpdates = false
	symlinks = true
	hooksPath = /dev/null
	fsmonitor = false
	quotePath = false
	autocrlf = false
[gc]
	auto = 0
[submodule]
	recurse = false
"""
_SHA256 = """\
[extensions]
	objectFormat = sha256
"""


@dataclass(frozen=True)
class Slot:
    """A checkout of one head. `tree` has an empty `.git` directory, the place where the jail mounts `git_dir`.

    `git_dir` has the refs `head`, `base` and, if there is one, `merge-base`, and of objects what its head has beyond
    the base branches: theirs are in `objects`, which its objects/info/alternates names by absolute path. No other
    head's are in either.
    Nothing outside the jail may open files of `tree` by the names in it: symlinks are kept as they are. In the jail
    they lead at most to what the jail shows anyway.
    """

    tree: Path
    git_dir: Path
    objects: Path


class Slots:
    """The checkouts below `root`, a few per repository: as many as were ever in use at once."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def tidy(self, now: float) -> list[Path]:
        """Remove those that nobody uses any more, and what a crash left; returns the former."""
        return [removed for home in sorted(self._root.glob("*/")) for removed in upkeep.tidy(home, now)]

    @contextmanager
    def checkout(
        self,
        mirror: Mirror,
        repository: str,
        *,
        head_sha: str,
        base_sha: str,
        merge_base: str | None,
        leave_out: Sequence[bytes] = (),
        stop: threading.Event | None = None,
    ) -> Iterator[Slot]:
        """A checkout of `head_sha` that nobody else uses meanwhile, exactly as in the commit but for `leave_out`.

        These are paths as git knows them; to git in the slot their absence is no change. A free slot is moved; if all
        are in use, one more is made. A damaged one (a move that was cut off) is removed and made anew. Raises
        GitError, Stopped if `stop` was set.
        """
        refs = {"head": check_sha(head_sha), "base": check_sha(base_sha)}
        if merge_base is not None:
            refs["merge-base"] = check_sha(merge_base)
        home = self._root / directory_name(repository)
        number, lock = _take(home)
        upkeep.touch(lock)
        try:
            yield _ready(home / str(number), mirror, refs, leave_out, stop)
        finally:
            os.close(lock)


def _take(home: Path) -> tuple[int, int]:
    for number in range(MAX_SLOTS):
        lock = try_lock(home / f"{number}.lock")
        if lock is not None:
            return number, lock
    raise GitError(
        "git", f"{MAX_SLOTS} checkouts are in use", remedy="lower APPLIANCE_REVIEWS_AT_ONCE", permanent=False
    )


def _ready(
    home: Path, mirror: Mirror, refs: dict[str, str], leave_out: Sequence[bytes], stop: threading.Event | None
) -> Slot:
    slot = Slot(home / "tree", home / "git", mirror.objects)
    try:
        if not leave_out and _is_whole(slot):
            try:
                _move(slot, mirror, refs, stop)
                return slot
            except (GitError, OSError) as error:
                if _disk_is_full(error):  # making it anew needs more room, not less
                    raise
        discard(home)
        _make(slot, refs["head"])
        _move(slot, mirror, refs, stop, leave_out)
    except GitError as error:
        if error.cause == "mirror-corrupt":
            mirror.mark_suspect()
        raise
    except OSError as error:
        cause = "disk-full" if _disk_is_full(error) else "git"
        raise GitError(cause, str(error), remedy="check the volume of the state") from error
    return slot


def _is_whole(slot: Slot) -> bool:
    """Whether it can be moved. Git hands the mark of a file that is left out on to the next file of this name, and
    would not see then what happens to it."""
    there = slot.git_dir.is_dir() and slot.tree.is_dir() and not slot.tree.is_symlink()
    return there and not (slot.git_dir / LEFT_OUT).exists()


def _disk_is_full(error: GitError | OSError) -> bool:
    return error.cause == "disk-full" if isinstance(error, GitError) else error.errno in {errno.ENOSPC, errno.EDQUOT}


def _make(slot: Slot, head: str) -> None:
    sha256 = len(head) == 64
    (slot.tree / ".git").mkdir(parents=True)
    for part in ("objects/info", "refs/heads", "info"):
        (slot.git_dir / part).mkdir(parents=True)
    (slot.git_dir / "config").write_text(_CONFIG.format(version=int(sha256)) + (_SHA256 if sha256 else ""))
    (slot.git_dir / "info" / "attributes").write_text(ATTRIBUTES)
    (slot.git_dir / "HEAD").write_text(f"{head}\n")


def _move(
    slot: Slot,
    mirror: Mirror,
    refs: dict[str, str],
    stop: threading.Event | None,
    leave_out: Sequence[bytes] = (),
) -> None:
    _bring_objects(slot, mirror, refs)
    for stale in slot.git_dir.rglob("*.lock"):  # of a git that was killed: the slot is ours, so nobody holds it
        stale.unlink()
    (slot.tree / ".git").mkdir(exist_ok=True)
    shallow = mirror.path / "shallow"
    if shallow.exists():
        shutil.copyfile(shallow, slot.git_dir / "shallow")
    else:
        (slot.git_dir / "shallow").unlink(missing_ok=True)
    commands = ["option no-deref", f"update HEAD {refs['head']}"]
    commands += [f"update refs/heads/{name} {sha}" for name, sha in refs.items()]
    if "merge-base" not in refs:
        (slot.git_dir / "refs" / "heads" / "merge-base").unlink(missing_ok=True)
    stdin = "\n".join([*commands, ""]).encode()
    git(["update-ref", "--stdin"], git_dir=slot.git_dir, input=stdin, timeout=LOCAL_SECONDS)
    if leave_out:
        _leave_out(slot, refs["head"], leave_out)
    for args in (["reset", "--hard", "--quiet", refs["head"]], ["clean", "-ffdxq"]):
        git(args, git_dir=slot.git_dir, work_tree=slot.tree, cwd=slot.tree, timeout=FETCH_SECONDS, stop=stop)
    (slot.git_dir / "ORIG_HEAD").unlink(missing_ok=True)  # would name the head of another pull request
    _refuse_less_than(slot, refs["head"])


def _refuse_less_than(slot: Slot, head: str) -> None:
    """A tree with two entries of one name shows one of them, and the other would be reviewed by nobody."""
    args = ["diff-index", "--cached", "--quiet", head]
    same = git(args, git_dir=slot.git_dir, work_tree=slot.tree, cwd=slot.tree, timeout=LOCAL_SECONDS, check=False)
    if same.code == 1:
        raise GitError("malformed", MALFORMED, remedy="give each file of the branch a name of its own")
    if not same.ok:
        raise error_of(same, "diff-index")


def _bring_objects(slot: Slot, mirror: Mirror, refs: dict[str, str]) -> None:
    """Those of this head, and none of the head before."""
    objects = slot.git_dir / "objects"
    shutil.rmtree(objects)
    (objects / "info").mkdir(parents=True)
    (objects / "pack").mkdir()
    (objects / "info" / "alternates").write_text(f"{mirror.objects}\n")
    mirror.pack(refs.values(), objects / "pack")


def _leave_out(slot: Slot, head: str, paths: Sequence[bytes]) -> None:
    """In a slot with no files yet: mark `paths`, so that git neither writes them nor misses them."""
    (slot.git_dir / LEFT_OUT).touch()
    git(["read-tree", head], git_dir=slot.git_dir, timeout=LOCAL_SECONDS)
    args = ["update-index", "-z", "--skip-worktree", "--stdin"]
    git(
        args,
        git_dir=slot.git_dir,
        work_tree=slot.tree,
        cwd=slot.tree,
        input=b"".join(path + b"\0" for path in paths),
        timeout=LOCAL_SECONDS,
    )
