"""The two parts of a mirror on the disk.

In `base` lie the base branches and nothing else: its objects are shown in the jails. The heads of the pull requests
lie in the outer part, which borrows from `base` and is shown to nobody.
"""

import contextlib
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from appliance import process
from appliance.git.errors import GitError
from appliance.git.hardened import git

BASE = "base"
FETCH_SECONDS = 900.0
LOCAL_SECONDS = 120.0

# Attributes come from the repository under review: `-diff` would hide a change, `text`, `ident` or an encoding would
# show other bytes than the commit has. This file outranks every .gitattributes (gitattributes(5)).
ATTRIBUTES = "* !diff !text !eol !crlf !ident !filter !working-tree-encoding !merge !whitespace\n"


def ensure(mirror: Path, *, sha256: bool) -> None:
    """Make what is not there, and sweep up what is.

    One without `base`, as an earlier version made, would show all heads: it is made anew. Raises GitError, OSError.
    """
    if all((part / "HEAD").is_file() and (part / "objects").is_dir() for part in (mirror, mirror / BASE)):
        sweep(mirror)
        return
    discard(mirror)
    aside = mirror.with_name(f".new-{mirror.name}")  # only one process makes it: we hold the lock
    shutil.rmtree(aside, ignore_errors=True)
    form = "sha256" if sha256 else "sha1"
    for part in (aside, aside / BASE):
        git(["init", "--quiet", "--bare", "--template=", f"--object-format={form}", str(part)], timeout=LOCAL_SECONDS)
        (part / "info").mkdir(exist_ok=True)
        (part / "info" / "attributes").write_text(ATTRIBUTES)
    (aside / "objects" / "info").mkdir(exist_ok=True)
    (aside / "objects" / "info" / "alternates").write_text(f"../{BASE}/objects\n")  # git: relative to `objects`
    aside.rename(mirror)


def sweep(mirror: Path) -> None:
    """Remove what a git that was killed left behind; nobody writes here now, since we hold the lock."""
    for part in (mirror, mirror / BASE):
        for left in (*part.glob("*.lock"), *part.glob("refs/**/*.lock"), *part.glob("objects/pack/*tmp*")):
            left.unlink(missing_ok=True)


def discard(directory: Path) -> None:
    """Take `directory` out of the way at once, then delete it; links in it are not followed."""
    aside = directory.with_name(f".trash-{uuid.uuid4().hex}")
    with contextlib.suppress(FileNotFoundError):
        directory.rename(aside)
    try:
        shutil.rmtree(aside, ignore_errors=True)
    except RecursionError:  # up to Python 3.12 it goes down by recursion, and a thousand directories are too deep
        process.run(["rm", "-rf", "--", str(aside)], timeout=FETCH_SECONDS)


def show_base(mirror: Path, ref: str, tip: str) -> None:
    """Bring what is new of a base branch from the outer part to `base`. Raises GitError, OSError."""
    base = mirror / BASE
    if tip_of(base, ref) != tip:
        pack(mirror, [tip], base / "objects" / "pack")
        set_ref(base, ref, tip)
    share_shallow(mirror)


def share_shallow(mirror: Path) -> None:
    """Where the history of a shallow repository is cut off, both parts have to know. Raises OSError."""
    files = [part / "shallow" for part in (mirror, mirror / BASE)]
    cuts = [file.read_text() if file.exists() else "" for file in files]
    every = "".join(f"{line}\n" for line in sorted({*cuts[0].split(), *cuts[1].split()}))
    for file, cut in zip(files, cuts, strict=True):
        if every != cut:
            file.write_text(every)


def pack(mirror: Path, commits: Iterable[str], into: Path) -> None:
    """Put what `commits` reach and `base` lacks as one pack, if it is anything, into a directory. Raises GitError."""
    shown = git(["for-each-ref", "--format=^%(objectname)"], git_dir=mirror / BASE, timeout=LOCAL_SECONDS).out
    args = ["pack-objects", "--quiet", "--revs", "--non-empty", "--delta-base-offset", str(into / "pack")]
    stdin = "".join(f"{commit}\n" for commit in commits) + shown
    # Git writes first where its objects are: not among the mirror's, where the next fetch may sweep at any moment.
    env = {"GIT_OBJECT_DIRECTORY": str(into.parent), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(mirror / "objects")}
    git(args, git_dir=mirror, input=stdin.encode(), timeout=FETCH_SECONDS, env=env)


def tip_of(git_dir: Path, ref: str) -> str:
    """The commit of a ref that has to be there. Raises GitError."""
    args = ["rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}"]
    done = git(args, git_dir=git_dir, timeout=LOCAL_SECONDS, check=False)
    if not done.ok:
        raise GitError(
            "mirror-corrupt",
            "the kept copy of the repository lacks its base branch",
            remedy="nothing, it is fetched anew; check the disk if this comes back",
            permanent=False,
        )
    return done.out.strip()


def set_ref(git_dir: Path, ref: str, sha: str) -> None:
    git(["update-ref", ref, sha], git_dir=git_dir, timeout=LOCAL_SECONDS)
