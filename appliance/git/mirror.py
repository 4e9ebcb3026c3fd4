"""One bare copy per repository, shared by all its reviews; a slot gets the objects of its own head from there."""

import contextlib
import errno
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from appliance.core.diff import Diff
from appliance.flock import held
from appliance.forge import Source
from appliance.git import bounds, hunks, parts, upkeep
from appliance.git.changes import ARGS, ChangedFile, parse
from appliance.git.errors import GitError, Superseded, error_of
from appliance.git.hardened import MAX_MEMORY, UPLOAD_PACK, git
from appliance.git.names import check_ref, check_sha, check_url, directory_name, is_sha
from appliance.git.parts import FETCH_SECONDS, LOCAL_SECONDS, discard
from appliance.process import MAX_OUTPUT, Completed, Limits

MAX_PACKS = 50
MAX_ARGUMENTS = 200
MAX_ARGUMENTS_BYTES = 1024 * 1024  # of all together
SUSPECT = "appliance-suspect"  # a file in a mirror whose objects turned out to be damaged: the next fetch starts anew


@dataclass(frozen=True)
class Entry:
    """What stands at a path of a commit: `mode` is git's six octal digits, `size` in bytes."""

    mode: str
    blob: str
    size: int

    @property
    def regular(self) -> bool:
        return self.mode in ("100644", "100755")


def _portions(paths: Iterable[str]) -> Iterator[Sequence[str]]:
    """As many at once as fit into an argv (2 MB), whatever their lengths: as text one may have 32 kB."""
    portion: list[str] = []
    room = MAX_ARGUMENTS_BYTES
    for path in paths:
        size = len(os.fsencode(path))
        if portion and (len(portion) == MAX_ARGUMENTS or size > room):
            yield portion
            portion, room = [], MAX_ARGUMENTS_BYTES
        portion.append(path)
        room -= size
    if portion:
        yield portion


@dataclass(frozen=True)
class Mirror:
    """A kept copy of a repository that has a head, and the base branch as it was when it was fetched."""

    path: Path
    base_ref: str
    base: str

    @property
    def objects(self) -> Path:
        """Those of the base branches, and no head's."""
        return self.path / parts.BASE / "objects"

    def pack(self, commits: Iterable[str], into: Path) -> None:
        """Put what `commits` reach and `objects` lacks as one pack into the directory `into`. Raises GitError."""
        try:
            parts.pack(self.path, commits, into)
        except GitError as error:
            raise self._suspect(error) from error.__cause__

    def base_sha(self, ref: str) -> str:
        """Tip of the base branch (short or full name) as this fetch found it; raises GitError for any other ref."""
        if self.base_ref not in {ref, f"refs/heads/{ref}"}:
            raise GitError("bad-name", f"{ref!r} was not fetched", remedy="fetch it first")
        return self.base

    def merge_base(self, a: str, b: str) -> str | None:
        """The best common ancestor of two commits, or None for unrelated histories. Raises GitError."""
        completed = self._git(["merge-base", check_sha(a), check_sha(b)], check=False)
        if completed.code == 1 and not completed.stderr:
            return None
        if not completed.ok:
            raise self._suspect(error_of(completed, "merge-base"))
        return completed.out.split()[0]

    def is_ancestor(self, a: str, b: str) -> bool | None:
        """Whether `b` has the commit `a` in its history; None if one of them is not here. Raises GitError."""
        completed = self._git(["merge-base", "--is-ancestor", check_sha(a), check_sha(b)], check=False)
        return {0: True, 1: False}.get(completed.code)

    def gained(self, before: str, now: str) -> int | None:
        """How many commits a branch gained from `before` to `now`; None if it was rewritten, or that cannot be told."""
        if not before or not self.is_ancestor(before, now):
            return None
        completed = self._git(["rev-list", "--count", f"{check_sha(before)}..{check_sha(now)}"], check=False)
        return int(completed.out) if completed.ok else None

    def commits(self, before: str, now: str, *, limit: int) -> tuple[str, ...]:
        """The newest `limit` commits that `now` has and `before` has not, the newest first. Raises GitError."""
        args = ["rev-list", f"--max-count={limit}", f"{check_sha(before)}..{check_sha(now)}", "--"]
        return tuple(self._git(args).out.split())

    def changed_files(self, base: str, head: str) -> tuple[ChangedFile, ...]:
        """The files that differ from `base` to `head`, in git's order; renames as renames. Raises GitError.

        Submodules are named, never entered. For the changes of a pull request `base` is the merge base. What is too
        much to be listed or compared in LOCAL_SECONDS is `too-large`.
        """
        try:
            bounds.check_tree(self.path, head)
        except GitError as error:
            raise self._suspect(error) from error.__cause__
        args = [*ARGS, "--ignore-submodules=none", "--submodule=short", check_sha(base), check_sha(head), "--"]
        completed = self._git(args, check=False)
        if completed.timed_out or len(completed.stdout) >= MAX_OUTPUT:
            raise bounds.too_large("the pull request changes more than can be compared")
        if not completed.ok:
            raise self._suspect(error_of(completed, "diff"))
        return parse(completed.stdout)

    def left_out(self, files: Sequence[ChangedFile]) -> tuple[bounds.LeftOut, ...]:
        """Which of `files` a checkout leaves out (`bounds.left_out`). Raises GitError."""
        try:
            return bounds.left_out(self.path, files)
        except GitError as error:
            raise self._suspect(error) from error.__cause__

    def diff(self, files: Sequence[ChangedFile]) -> Diff:
        """The hunks of these files; what cannot be read has none. Raises GitError."""
        return hunks.diff(self.path, files)

    def sizes(self, files: Sequence[ChangedFile]) -> dict[str, int]:
        """How large the diffs of `files` are (`hunks.sizes`). Raises GitError."""
        try:
            return hunks.sizes(self.path, files, bounds.sizes(self.path, files))
        except GitError as error:
            raise self._suspect(error) from error.__cause__

    def read(self, commit: str, path: str, *, limit: int) -> bytes | None:
        """The first `limit` bytes of a regular file at `commit`, or None if there is none (a symlink is none)."""
        entry = self.entries(commit, [path]).get(path)
        return self.content(entry)[:limit] if entry and entry.regular else None

    def entries(self, commit: str, paths: Sequence[str]) -> dict[str, Entry]:
        """What `commit` has at those of `paths` where it has something, by path. Raises GitError."""
        found = {}
        for some in _portions(paths):
            listing = self._git(["ls-tree", "-z", "-l", check_sha(commit), "--", *some]).stdout
            for line in listing.split(b"\0")[:-1]:
                told, _, raw = line.partition(b"\t")
                mode, _, blob, size = told.split()
                found[raw.decode("utf-8", "backslashreplace")] = Entry(
                    mode.decode(), blob.decode(), int(size) if size.isdigit() else 0
                )
        return {path: found[path] for path in paths if path in found}

    def content(self, entry: Entry) -> bytes:
        """The whole of a file; look at its size first. Raises GitError."""
        return self._git(["cat-file", "blob", entry.blob]).stdout

    def _git(self, args: list[str], *, check: bool = True) -> Completed:
        try:
            return git(args, git_dir=self.path, timeout=LOCAL_SECONDS, check=check)
        except GitError as error:
            raise self._suspect(error) from error.__cause__

    def _suspect(self, error: GitError) -> GitError:
        """`error`; if it tells of damage, the next fetch makes the mirror anew."""
        if error.cause == "mirror-corrupt":
            self.mark_suspect()
        return error

    def mark_suspect(self) -> None:
        with contextlib.suppress(OSError):
            (self.path / SUSPECT).touch()


class Mirrors:
    """The mirrors below `root`, one directory each."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def tidy(self, now: float) -> list[Path]:
        """Remove those that nobody uses any more, and what a crash left; returns the former."""
        return upkeep.tidy(self._root, now)

    def known(self, repository: str, source: Source, *, head_sha: str, base_sha: str) -> Mirror | None:
        """The mirror, without asking the forge, if both commits are in it; `base_sha` is the tip of the base branch."""
        mirror = self._root / f"{directory_name(repository)}.git"
        if not mirror.is_dir() or (mirror / SUSPECT).exists():
            return None
        if not all(_has(mirror, check_sha(sha)) for sha in (head_sha, base_sha)):
            return None
        return Mirror(mirror, source.base_ref, base_sha)

    def file(self, repository: str, commit: str, path: str, *, limit: int) -> bytes | None:
        """A regular file of a commit that was fetched before, for showing it; None if it is not at hand or larger."""
        mirror = self._root / f"{directory_name(repository)}.git"
        try:
            if not mirror.is_dir() or not _has(mirror, check_sha(commit)):
                return None
            found = Mirror(mirror, "", "")  # what is missing here is no damage: nobody fetches for a look
            entry = found.entries(commit, [path]).get(path) if "\0" not in path else None
            return found.content(entry) if entry and entry.regular and entry.size <= limit else None
        except (GitError, OSError):
            return None

    def fetch(
        self,
        repository: str,
        source: Source,
        *,
        head_sha: str,
        base_sha: str | None = None,
        stop: threading.Event | None = None,
    ) -> Mirror:
        """Bring `head_sha` and the base branch as it is now into the repository's mirror.

        Two refs are fetched, never the whole repository; a ref may also be a SHA. The base branch is always asked
        for, since what the forge said of it (`base_sha`) may be days old; that commit is brought too if it can be had.
        Processes take turns. A damaged mirror is thrown away and fetched anew, once. Raises Superseded if the head
        has moved on or a branch is gone, GitError otherwise, Stopped if `stop` was set.
        """
        for sha in (head_sha, base_sha or head_sha):
            check_sha(sha)
        for ref in (source.head_ref, source.base_ref):
            if not is_sha(ref):
                check_ref(ref)
        check_url(source.url)
        name = directory_name(repository)
        mirror = self._root / f"{name}.git"
        try:
            with held(self._root / f"{name}.lock", timeout=FETCH_SECONDS, stop=stop) as lock:
                upkeep.touch(lock)
                if (mirror / SUSPECT).exists():
                    discard(mirror)
                return _fetch_or_remake(mirror, source, head_sha, base_sha, stop)
        except TimeoutError as error:
            raise GitError("git", str(error), remedy="nothing, the next cycle tries again", permanent=False) from error
        except OSError as error:
            cause = "disk-full" if error.errno in {errno.ENOSPC, errno.EDQUOT} else "git"
            raise GitError(cause, str(error), remedy="check the volume of the state") from error


def _fetch_or_remake(
    mirror: Path, source: Source, head_sha: str, base_sha: str | None, stop: threading.Event | None
) -> Mirror:
    try:
        return _fetch(mirror, source, head_sha, base_sha, stop)
    except GitError as error:
        if error.cause != "mirror-corrupt":
            raise
    discard(mirror)
    try:
        return _fetch(mirror, source, head_sha, base_sha, stop)
    except GitError as error:
        if error.cause != "mirror-corrupt":
            raise
        sentence = f"the repository itself seems damaged: {error.sentence}"
        remedy = "run `git fsck` in it, or ask the forge's support"
        raise GitError("forge-refused", sentence, remedy=remedy, permanent=False) from error


def _fetch(mirror: Path, source: Source, head_sha: str, base_sha: str | None, stop: threading.Event | None) -> Mirror:
    parts.ensure(mirror, sha256=len(head_sha) == 64)
    head, base = _private("head", source.head_ref), _private("base", source.base_ref)
    wanted_base = f"+{source.base_ref}:{base}"
    if not (mirror / parts.BASE / base).is_file():  # the repository's own, however large it is
        _run_fetch(mirror / parts.BASE, source, [wanted_base], stop, Limits())
        parts.share_shallow(mirror)
        parts.set_ref(mirror, base, parts.tip_of(mirror / parts.BASE, base))
    try:
        _run_fetch(mirror, source, [f"+{source.head_ref}:{head}", wanted_base], stop)
    except Superseded as error:
        # the forge has no refs/pull/N/head any more, or never had one; the commit itself may still be there
        if source.head_ref not in error.sentence:
            raise
        _run_fetch(mirror, source, [f"+{head_sha}:{head}", wanted_base], stop)
    tip, base_tip = _tips(mirror, head, base)
    if tip != head_sha and not _ref_lags(mirror, source, tip, head_sha, head, stop):
        raise Superseded(f"{source.head_ref} is at {tip[:12]}, no longer at {head_sha[:12]}")
    if base_sha is not None and base_sha != base_tip and not _has(mirror, base_sha):
        with contextlib.suppress(Superseded):  # the base branch was rewritten, and the old commit is gone
            _run_fetch(mirror, source, [base_sha], stop)
    parts.show_base(mirror, base, base_tip)
    _tidy(mirror, ["-a", "-l", "-k"], stop)  # git before 2.41 fails with --geometric where objects are borrowed
    _tidy(mirror / parts.BASE, ["--geometric=2"], stop)
    return Mirror(mirror, source.base_ref, base_tip)


def _private(kind: str, ref: str) -> str:
    """Where a ref of the forge is kept: one place each, so that they never grow beyond the number of branches."""
    return f"refs/appliance/{kind}/{hashlib.sha256(ref.encode()).hexdigest()[:20]}"


def _run_fetch(
    mirror: Path, source: Source, refspecs: list[str], stop: threading.Event | None, limits: Limits | None = None
) -> None:
    protocol = check_url(source.url)
    args = [
        "fetch",
        "--quiet",
        "--no-tags",
        "--no-write-fetch-head",
        "--no-auto-maintenance",
        "--no-recurse-submodules",
    ]
    if protocol == "file":
        args += [f"--upload-pack={UPLOAD_PACK}", "--update-shallow"]
    args += ["--end-of-options", source.url, *refspecs]
    authorization = None if source.authorization is None else (source.url, source.authorization)
    done = git(
        args,
        git_dir=mirror,
        authorization=authorization,
        protocols=(protocol,),
        timeout=FETCH_SECONDS,
        stop=stop,
        check=False,
        limits=limits or Limits(MAX_MEMORY, file=bounds.MAX_FETCH_BYTES),
    )
    # A pack that cannot be read is no failure for git: it fetches again what it misses, and complains ever after.
    complaint = error_of(done, "fetch")
    if complaint.cause == "too-large" and not done.ok:
        parts.sweep(mirror)  # up to MAX_FETCH_BYTES that nobody will ever read
    if not done.ok or (complaint.cause == "mirror-corrupt" and str(mirror) in done.err):
        raise complaint


def _has(mirror: Path, sha: str) -> bool:
    return git(["cat-file", "-e", f"{sha}^{{commit}}"], git_dir=mirror, timeout=LOCAL_SECONDS, check=False).ok


def _tips(mirror: Path, head: str, base: str) -> tuple[str, str]:
    out = git(["rev-parse", f"{head}^{{commit}}", f"{base}^{{commit}}"], git_dir=mirror, timeout=LOCAL_SECONDS).out
    head_tip, base_tip = out.split()
    return head_tip, base_tip


def _ref_lags(mirror: Path, source: Source, tip: str, head_sha: str, head: str, stop: threading.Event | None) -> bool:
    """True if the forge's API is ahead of its ref: the head is a descendant of what the ref still names."""
    try:
        _run_fetch(mirror, source, [f"+{head_sha}:{head}"], stop)
    except Superseded:
        return False
    ancestor = ["merge-base", "--is-ancestor", tip, head_sha]
    return git(ancestor, git_dir=mirror, timeout=LOCAL_SECONDS, check=False).ok


def _tidy(mirror: Path, how: Sequence[str], stop: threading.Event | None) -> None:
    """Each fetch leaves a pack; many packs make every lookup slow. Nothing that a checkout needs is dropped."""
    with os.scandir(mirror / "objects" / "pack") as entries:
        packs = sum(entry.name.endswith(".pack") for entry in entries)
    if packs > MAX_PACKS:
        args = ["repack", "--quiet", "-d", *how, "--no-write-bitmap-index"]
        git(args, git_dir=mirror, timeout=FETCH_SECONDS, stop=stop, check=False)
