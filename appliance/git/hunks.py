"""The hunks of changed files, each made from its two blobs: no name, no attribute and no rename plays a part in it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from appliance.core.diff import BadPatch, Diff, FileDiff, Hunk, hunks, whole
from appliance.git.bounds import SUBMODULE
from appliance.git.changes import ChangedFile
from appliance.git.hardened import MAX_MEMORY, git
from appliance.git.names import check_sha
from appliance.process import Limits

SECONDS = 30.0
MAX_FILES = 200  # of one review that are looked into; each costs a git
MAX_PATCH = 4 * 1024**2  # bytes of a patch that is read line by line; forges show none of that size either


def diff(git_dir: Path, files: Sequence[ChangedFile]) -> Diff:
    """The diff of `files`; those that cannot be read have no hunks."""
    found = {file: tuple(_hunks(git_dir, file)) for file in files[:MAX_FILES]}
    return Diff(tuple(FileDiff(file.path, file.old_path, found.get(file, ()), _same(file)) for file in files))


def _same(file: ChangedFile) -> bool:
    """Whether only its name or mode is another."""
    return file.status in "MR" and bool(file.blob) and file.blob == file.old_blob and set(file.blob) != {"0"}


def _hunks(git_dir: Path, file: ChangedFile) -> Iterator[Hunk]:
    if SUBMODULE in (file.mode, file.old_mode):
        if file.status == "M":
            yield Hunk((1, 1), (1, 1), ((1, 1),), ((1, 1),))  # git shows its commit as a line
    elif file.added is None or file.deleted is None or file.status == "T":
        return
    elif file.status in "AD":
        yield from whole(file.added or file.deleted, "LEFT" if file.status == "D" else "RIGHT")
    elif file.added or file.deleted:
        args = ["diff", "--no-color", "--unified=3", check_sha(file.old_blob), check_sha(file.blob)]
        limits = Limits(MAX_MEMORY, output=MAX_PATCH)
        done = git(args, git_dir=git_dir, timeout=SECONDS, check=False, limits=limits)
        if not done.ok:
            return
        try:
            yield from hunks(done.stdout)
        except BadPatch:
            return
