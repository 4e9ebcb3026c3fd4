"""How much of a pull request is taken in. What is beyond is left out of the checkout, or refuses it as too large.

The bounds hold for what the pull request brings. What its base has is the repository's own affair.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGSEGV

from appliance.git.changes import ChangedFile
from appliance.git.errors import MALFORMED, GitError, error_of
from appliance.git.hardened import MAX_MEMORY, git
from appliance.git.names import check_sha
from appliance.process import MAX_OUTPUT, Limits

SECONDS = 120.0
# A tree that names one subtree again and again has millions of paths in a few objects. Chromium has 450,000 files.
MAX_FILES = 500_000
# GitHub takes no larger file (docs.github.com, "About large files"), so there this leaves out nothing.
MAX_FILE_BYTES = 100 * 1024**2
MAX_CHANGE_BYTES = 4 * 1024**3  # all changed files together, as they would lie on the disk, once for each slot
# New objects of a head, as packed; GitHub takes no larger push.
MAX_FETCH_BYTES = 2 * 1024**3
MAX_NAME_BYTES = 255  # NAME_MAX of Linux
MAX_PATH_BYTES = 4000  # PATH_MAX is 4096, and the checkout has a path of its own in the jail
MAX_DEPTH = 100  # directories in each other; what walks a tree by recursion fails at a thousand
MAX_LINK_BYTES = 4095
MAX_TREE_PATH_BYTES = 8192  # so that git itself, which goes down by recursion, does not die of a stack overflow

# Git checks none of them out (verify_path in read-cache.c), and other commands take such a path for another one.
REFUSED_NAMES = frozenset({b"", b".", b"..", b".git"})

LINK, SUBMODULE = "120000", "160000"


@dataclass(frozen=True)
class LeftOut:
    """A changed file that is not checked out, and why; `raw` is its path as git knows it."""

    path: str
    raw: bytes
    why: str


def check_tree(git_dir: Path, commit: str) -> None:
    """Raise GitError `too-large` if the tree of `commit` has more than MAX_FILES paths, before anything compares them.

    The listing is cut off as soon as it is too long: a tree may have more paths than there are atoms.
    """
    args = ["ls-tree", "-r", "-z", "--name-only", check_sha(commit)]
    limits = Limits(MAX_MEMORY, output=MAX_OUTPUT)
    done = git(args, git_dir=git_dir, timeout=SECONDS, check=False, limits=limits)
    if done.flooded or done.stdout.count(b"\0") > MAX_FILES:
        raise too_large(f"the head has more than {MAX_FILES:,} files")
    if done.code == -SIGSEGV or max(map(len, done.stdout.split(b"\0"))) > MAX_TREE_PATH_BYTES:
        raise too_large("the head's directories are nested too deeply")
    if not done.ok:
        raise error_of(done, "ls-tree")


def left_out(git_dir: Path, files: Sequence[ChangedFile]) -> tuple[LeftOut, ...]:
    """Which of the changed files cannot or shall not lie in a checkout.

    Raises GitError: `too-large` if the others together are more than MAX_CHANGE_BYTES, `malformed` if git would refuse
    a name, or if an entry is of another type than its tree says.
    """
    if any(name.lower() in REFUSED_NAMES for file in files for name in file.raw.split(b"/")):
        raise GitError("malformed", MALFORMED, remedy="take `.git` and `..` out of its paths")
    there = [file for file in files if file.status != "D" and file.mode != SUBMODULE]
    total, found = 0, []
    for file, size in zip(there, _sizes(git_dir, there), strict=True):
        why = _why(file, size)
        if why:
            found.append(LeftOut(file.path, file.raw, why))
        else:
            total += size
    if total > MAX_CHANGE_BYTES:
        raise too_large(f"the changed files have more than {MAX_CHANGE_BYTES // 1024**3} GiB")
    return tuple(found)


def sizes(git_dir: Path, files: Sequence[ChangedFile]) -> dict[str, int]:
    """How many bytes the diff of each file has at most, by path: of what is new or gone its size, of what was changed
    that of both versions. None of a binary file's is shown. Raises GitError."""
    text = [file for file in files if file.added is not None and file.mode != SUBMODULE]
    new = [file for file in text if file.status != "D"]
    old = [
        replace(file, blob=file.old_blob)
        for file in text
        if file.status != "A" and file.old_blob and file.old_mode != SUBMODULE
    ]
    new_size = dict(zip((file.path for file in new), _sizes(git_dir, new), strict=True))
    old_size = dict(zip((file.path for file in old), _sizes(git_dir, old), strict=True))
    return {file.path: new_size.get(file.path, 0) + old_size.get(file.path, 0) for file in text}


def too_large(sentence: str) -> GitError:
    return GitError("too-large", sentence, remedy="split the pull request")


def _why(file: ChangedFile, size: int) -> str:
    names = file.raw.split(b"/")
    if max(map(len, names)) > MAX_NAME_BYTES or len(file.raw) > MAX_PATH_BYTES:
        return "its name is too long"
    if len(names) > MAX_DEPTH:
        return "its directories are nested too deeply"
    if file.mode == LINK and not 0 < size <= MAX_LINK_BYTES:
        return "a link that cannot be made"
    return f"it has more than {MAX_FILE_BYTES // 1024**2} MiB" if size > MAX_FILE_BYTES else ""


def _sizes(git_dir: Path, files: Iterable[ChangedFile]) -> Iterator[int]:
    stdin = "".join(f"{check_sha(file.blob)}\n" for file in files).encode()
    args = ["cat-file", "--buffer", "--batch-check=%(objectname) %(objecttype) %(objectsize)"]
    for line in git(args, git_dir=git_dir, input=stdin, timeout=SECONDS).out.splitlines():
        words = line.split(" ")
        if words[1:] == ["missing"]:
            raise GitError(
                "mirror-corrupt",
                "the kept copy of the repository lacks a file",
                remedy="nothing, it is fetched anew; check the disk if this comes back",
                permanent=False,
            )
        if words[1] != "blob":
            raise GitError("malformed", f"a file of the head is a {words[1]}", remedy="commit it anew")
        yield int(words[2])
