"""The hunks of changed files, each made from its two blobs: no name, no attribute and no rename plays a part in it."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from appliance.core.diff import BadPatch, Diff, FileDiff, Hunk, hunks, whole
from appliance.git.bounds import SUBMODULE
from appliance.git.changes import ChangedFile
from appliance.git.hardened import MAX_MEMORY, git
from appliance.git.names import check_sha
from appliance.process import Completed, Limits

SECONDS = 30.0
MAX_FILES = 200  # of one review that are looked into; each costs a git
LINE_BYTES = 200  # of a changed line with those around it, where nobody counted
WORTH_MEASURING = 4000  # bytes of both versions together; less than that is no matter
MAX_MEASURED = 256 * 1024**2  # bytes of both versions of all files of which the diff is measured
MAX_PATCH = 4 * 1024**2  # bytes of a patch that is read line by line; forges show none of that size either


def diff(git_dir: Path, files: Sequence[ChangedFile]) -> Diff:
    """The diff of `files`; those that cannot be read have no hunks."""
    found = {file: tuple(_hunks(git_dir, file)) for file in files[:MAX_FILES]}
    return Diff(tuple(FileDiff(file.path, file.old_path, found.get(file, ()), _same(file)) for file in files))


def sizes(git_dir: Path, files: Sequence[ChangedFile], most: Mapping[str, int]) -> dict[str, int]:
    """How many bytes the diffs of `files` have, by path, for those of `most`, which says how many they have at most.

    Measured, for lines can be of any length. Each costs a git, so of very many or very large files those are measured
    that have the largest, and the others are told by the number of their lines.
    """
    changed = [file for file in files if file.path in most and file.status not in "ADT"]
    about = {file.path: ((file.added or 0) + (file.deleted or 0)) * LINE_BYTES for file in changed}
    found = {**most, **{path: min(most[path], size) for path, size in about.items()}}
    room = MAX_MEASURED
    unsure = [file for file in changed if about[file.path] and most[file.path] > WORTH_MEASURING]
    for file in sorted(unsure, key=lambda file: -most[file.path])[:MAX_FILES]:
        room -= most[file.path]
        if room >= 0:
            done = _patch(git_dir, file)
            found[file.path] = min(most[file.path], len(done.stdout)) if done.ok else most[file.path]
    return found


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
        done = _patch(git_dir, file)
        if not done.ok:
            return
        try:
            yield from hunks(done.stdout)
        except BadPatch:
            return


def _patch(git_dir: Path, file: ChangedFile) -> Completed:
    """Cut off where it is larger than MAX_PATCH; not `ok` then."""
    args = ["diff", "--no-color", "--unified=3", check_sha(file.old_blob), check_sha(file.blob)]
    limits = Limits(MAX_MEMORY, output=MAX_PATCH)
    return git(args, git_dir=git_dir, timeout=SECONDS, check=False, limits=limits)
