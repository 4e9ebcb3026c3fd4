"""The sample: a small repository with one pull request that has a real, planted defect."""

import hashlib
import shutil
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from appliance.flock import held
from appliance.git import GitError, git

SAMPLE_NAME = "basket"
BRANCH = "volume-discount"
DEFECT_PATH = "basket/pricing.py"
DEFECT_LINE = 25
"""`quantity > pieces`, where the README and the comment say "from … on": 10 and 50 pieces get the wrong price, and no
test tries these."""

_MARK = "appliance-sample"
_SECONDS = 60.0
_PERSON = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Mara Lindqvist"), ("EMAIL", "mara@shop.example"))
}
_BASE = ("2026-10-05T09:12:00+0000", "Prices of the basket, with shipping\n")
_CHANGE = (
    "2026-10-07T14:30:00+0000",
    "Give a volume discount\n\nFrom 10 pieces of one article on, that line is 5 % cheaper; from 50 pieces on, 12 %.\n",
)


def make(path: Path) -> Path:
    """The sample repository at `path`, made if it is not there or not whole; the commits are the same everywhere.

    Built aside and put in place by one rename, processes take turns. Raises GitError, OSError, TimeoutError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(path.parent / f".{path.name}.lock", timeout=_SECONDS):
        if not _is_whole(path):
            aside = path.parent / f".{path.name}.new"
            shutil.rmtree(aside, ignore_errors=True)
            _build(aside)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            aside.rename(path)
    return path


def _is_whole(path: Path) -> bool:
    """True if the branches are the commits that were built, from the files of this version, with all their objects."""
    try:
        if (path / ".git" / _MARK).read_text() != _mark(path):
            return False
        git(["fsck", "--no-progress", "--no-dangling"], git_dir=path / ".git", timeout=_SECONDS)
    except (OSError, ValueError, GitError):
        return False
    return True


def _mark(path: Path) -> str:
    tips = git(["rev-parse", "refs/heads/main", f"refs/heads/{BRANCH}"], git_dir=path / ".git", timeout=_SECONDS).out
    digest = hashlib.sha256()
    for step in ("base", "change"):
        for name, content in _files(step):
            digest.update(f"{step}/{name}\0{len(content)}\0".encode() + content)
    return f"{digest.hexdigest()}\n{tips}"


def _build(path: Path) -> None:
    path.mkdir()
    git(["init", "--quiet", "--template=", "--initial-branch=main"], cwd=path, timeout=_SECONDS)
    _commit(path, "base", *_BASE)
    git(["checkout", "--quiet", "-b", BRANCH], cwd=path, timeout=_SECONDS)
    _commit(path, "change", *_CHANGE)
    git(["checkout", "--quiet", "main"], cwd=path, timeout=_SECONDS)
    (path / ".git" / _MARK).write_text(_mark(path))


def _commit(path: Path, step: str, date: str, message: str) -> None:
    for name, content in _files(step):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
        (path / name).chmod(0o644)  # the same tree whatever the umask
    git(["add", "--all"], cwd=path, timeout=_SECONDS)
    when = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    args = ["commit", "--quiet", "--no-verify", f"--message={message}"]
    git(args, cwd=path, timeout=_SECONDS, env=_PERSON | when)


def _files(step: str) -> list[tuple[str, bytes]]:
    """Name and content of each file; they are kept with `.in` behind the name, so that no tool takes them for ours."""
    return sorted(_walk(files("appliance") / "sample_files" / step, ""))


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".in"):
            yield prefix + entry.name.removesuffix(".in"), entry.read_bytes()
