"""A folder of git repositories as a forge: every branch beside the default one is a pull request."""

import ast
import contextlib
import os
import re
import stat
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.forge import (
    Checks,
    Comment,
    ForgeError,
    InlineComment,
    PostedReview,
    Reaction,
    Report,
    ReviewEvent,
    Source,
    Thread,
    ThreadComment,
)
from appliance.git import GitError, directory_name, git

_NOBODYS = ("lost+found",)  # of a filesystem, and root's alone
_OWN = {"mirror-corrupt": "it is damaged", "forge-not-found": "it is no git repository"}
NOTES = "refs/notes/codex-review"
SECONDS = 60.0
_NOTE_AUTHOR = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "review-appliance"), ("EMAIL", "review-appliance@localhost"))
}
_FIELDS = ("refname", "symref", "objectname", "authorname", "contents:subject", "contents:body")
# A stored review says how long its text is, so that no text can end it early or pretend to be another.
_HEADER = re.compile(rb"<!-- review-appliance comment ([0-9]+), written ([0-9.]+), ([0-9]+) bytes -->\n")


class LocalRows(Protocol):
    """Where the gate of a local pull request is kept."""

    def local_gate(self, target: str, head_sha: str) -> Gate | None: ...

    def set_local_gate(self, target: str, head_sha: str, gate: Gate) -> None: ...


class NoSuchBranch(ForgeError):
    """What a person has named is no branch of a repository."""

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__("forge-not-found", message, remedy=remedy, permanent=True)


class LocalForge:
    """The repositories in `roots`: a root itself, its children, and their children.

    Reviews are written as Markdown below `reviews_dir`, and as a git note where the repository can be written to.
    `state` is the appliance's own: a repository elsewhere, which a person has named, takes no objects from there.
    Without it there are no repositories elsewhere.
    """

    name = "local"
    inline = False
    check_runs = False
    gate_place = "local"

    def __init__(
        self, roots: Sequence[Path] | Path, reviews_dir: Path, rows: LocalRows, state: Path | None = None
    ) -> None:
        self._roots = (roots,) if isinstance(roots, Path) else tuple(roots)
        self._state = state
        self._reviews = reviews_dir
        self._rows = rows
        self._seen: dict[tuple[str, int], Pull] = {}

    def repositories(self) -> list[str]:
        """The paths of the repositories there are, and of what cannot be read, for which `pulls` says why.

        Raises ForgeError if a root is no folder that we may read.
        """
        found: dict[str, None] = {}
        for root in self._roots:
            try:
                found |= dict.fromkeys(map(str, self._search(root.resolve(strict=True))))
            except (OSError, RuntimeError) as error:
                raise ForgeError(
                    "forge-not-found",
                    f"the folder {root} cannot be read: {error}",
                    remedy="mount the folder of repositories there, readable for the user of the container.",
                    permanent=True,
                ) from error
        return list(found)

    def _search(self, root: Path) -> Iterator[Path]:
        if _is_repository(root):
            yield root
            return
        for child in _folders(root):
            if self._is_listed(child):
                yield _shown(child)
            else:
                yield from (_shown(path) for path in _folders(child) if self._is_listed(path))

    def _is_listed(self, path: Path) -> bool:
        return _is_repository(path) or self._unknown(path) is not None

    def _unknown(self, path: Path) -> ForgeError | None:
        """Why it is not known whether something is to be reviewed in `path`, if it is not."""
        if (unreadable := _unreadable(path)) is not None:
            return unreadable
        return None if self._is_below(path.resolve()) else _outside(f"{path} leads to {path.resolve()}")

    def pulls(self, repository: str) -> list[Pull]:
        """Every branch that has commits which the default branch lacks; none without any.

        Raises ForgeError, also for a repository that takes objects from outside the folders: from the appliance's own
        state it would be given what others keep secret.
        """
        if (unknown := self._unknown(Path(repository))) is not None and not _is_repository(Path(repository)):
            raise unknown
        self._refuse_borrowed(repository, watched=True)
        return self._pulls(repository)

    def _pulls(self, repository: str) -> list[Pull]:
        if not _branches(repository):
            return []
        base_ref, base_sha = _default_branch(repository)
        pulls = [
            _pull(repository, branch, base_ref, base_sha)
            for branch in _branches(repository, f"--no-merged={base_sha}")
            if branch["refname"] != f"refs/heads/{base_ref}"
        ]
        self._seen |= {(repository, pull.number): pull for pull in pulls}
        return pulls

    def pull(self, repository: str, number: int) -> Pull:
        """The pull request as it is now, closed if its branch is gone or merged; raises ForgeError if it never was.

        It was listed or found before, so that one outside of the folders is one that a person has named.
        """
        self._refuse_borrowed(repository, watched=self._is_below(Path(repository)))
        for pull in self._pulls(repository):
            if pull.number == number:
                return pull
        base_ref, base_sha = _default_branch(repository)
        for branch in _branches(repository):
            pull = _pull(repository, branch, base_ref, base_sha)
            if pull.number == number:
                return replace(pull, open=False)
        if (seen := self._seen.get((repository, number))) is not None:
            return replace(seen, open=False)
        raise ForgeError(
            "forge-not-found",
            f"{repository} has no branch with the number {number}",
            remedy="list its branches with `git branch`.",
            permanent=True,
        )

    def find(self, target: str, base: str | None = None) -> Pull:
        """The pull request that a person names `path#branch`; `base` is another branch than the default one.

        Both may hold a `#`: the longest part that is a repository with such a branch wins. A branch that is merged
        is found as closed. Raises ForgeError, NoSuchBranch if there is none of that name.
        """
        for cut in sorted((match.start() for match in re.finditer("#", target)), reverse=True):
            path, name = Path(target[:cut]), target[cut + 1 :]
            if not (path.is_dir() and _is_repository(path)):
                if path.is_dir() and (unreadable := _unreadable(path)) is not None:
                    raise unreadable
                continue
            repository = str(path.resolve())
            # a link in a watched folder, which others may write to, makes no folder a named one
            self._refuse_borrowed(repository, watched=any(map(self._is_below, (path.absolute(), path.resolve()))))
            base_ref, base_sha = _default_branch(repository, base)
            for branch in _branches(repository):
                if branch["refname"] == f"refs/heads/{name}":
                    pull = _pull(repository, branch, base_ref, base_sha)
                    return replace(pull, open=not _is_ancestor(repository, pull.head_sha, base_sha))
        raise NoSuchBranch(
            f"{target} names no branch of a repository here",
            remedy="write it as path#branch, such as /repositories/shop#feature.",
        )

    def comments(self, pull: Pull) -> list[Comment]:
        """Our reviews of this branch, all heads, oldest first; raises ForgeError if a stored one was changed."""
        try:
            files = sorted(self._folder(pull).glob("*.md"))
            stored = [(written, path, number, body) for path in files for number, written, body in _read(path)]
        except OSError as error:
            raise self._unreadable(error) from error
        return [_comment(path, number, body) for _, path, number, body in sorted(stored)]

    def comment(self, pull: Pull, comment_id: str) -> Comment | None:
        """One stored review, or None if there is none of this id; raises ForgeError."""
        return next((comment for comment in self.comments(pull) if comment.id == comment_id), None)

    def post_comment(self, pull: Pull, body: str) -> Comment:
        """Store a review of the pull request's head, behind those that are there; raises ForgeError."""
        path = self._folder(pull) / f"{pull.head_sha}.md"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            stored = list(_read(path)) if path.exists() else []
            number = len(stored) + 1
            before = path.read_bytes() if stored else b""
            aside = path.with_suffix(".part")
            aside.write_bytes(before + _stored(number, time.time(), body))
            aside.replace(path)
        except OSError as error:
            raise self._unreadable(error) from error
        _note(pull, "\n\n---\n\n".join([*(text for _, _, text in stored), body]))
        return _comment(path, number, body.encode("utf-8", "replace").decode())

    def edit_comment(self, pull: Pull, comment_id: str, body: str) -> Comment:
        """Give a stored review another text; raises ForgeError."""
        name, _, number = comment_id.rpartition("-")
        path = self._folder(pull) / f"{name}.md"
        try:
            stored = list(_read(path)) if path.exists() else []
            if not any(str(each) == number for each, _, _ in stored):
                raise ForgeError(
                    "forge-not-found",
                    f"there is no stored review {comment_id} of {pull.target}",
                    remedy="nothing to do: the next review is stored anew.",
                    permanent=True,
                )
            edited = [(each, at, body if str(each) == number else text) for each, at, text in stored]
            aside = path.with_suffix(".part")
            aside.write_bytes(b"".join(_stored(*one) for one in edited))
            aside.replace(path)
        except OSError as error:
            raise self._unreadable(error) from error
        _note(replace(pull, head_sha=name), "\n\n---\n\n".join(text for _, _, text in edited))
        return _comment(path, int(number), body.encode("utf-8", "replace").decode())

    def minimize(self, pull: Pull, comment: Comment | PostedReview) -> None:
        """Nothing is hidden in a file."""

    def reviews(self, pull: Pull) -> list[PostedReview]:
        return []

    def post_review(
        self, pull: Pull, event: ReviewEvent, body: str, comments: Sequence[InlineComment] = ()
    ) -> PostedReview:
        raise _no_lines(pull)

    def threads(self, pull: Pull) -> list[Thread]:
        return []

    def reply(self, pull: Pull, thread: Thread, body: str) -> ThreadComment:
        raise _no_lines(pull)

    def resolve(self, pull: Pull, thread: Thread) -> None:
        """There are no threads."""

    def may_write(self, pull: Pull, user: str) -> bool:
        """Whoever can put a branch here owns the folder."""
        return True

    def me(self) -> str:
        return ""

    def react(self, pull: Pull, comment_id: str, content: Reaction) -> None:
        """Nobody would see it."""

    def checks(self, pull: Pull) -> Checks:
        return Checks()

    def base_tip(self, pull: Pull) -> str:
        return _default_branch(pull.repository, pull.base_ref)[1]

    def gate(self, pull: Pull) -> Gate | None:
        return self._rows.local_gate(pull.target, pull.head_sha)

    def set_gate(self, pull: Pull, gate: Gate, report: Report | None = None) -> None:
        self._rows.set_local_gate(pull.target, pull.head_sha, gate)

    def source(self, pull: Pull) -> Source:
        return Source(pull.repository, f"refs/heads/{pull.head_ref}", f"refs/heads/{pull.base_ref}")

    def permalink(self, pull: Pull, path: str, line_start: int, line_end: int) -> str | None:
        """None: a local file has no address."""
        return None

    def close(self) -> None:
        """Nothing is open."""

    def refuse_borrowed(self, repository: str) -> None:
        """Raises ForgeError if a repository that a person names takes objects from the appliance's own state."""
        self._refuse_borrowed(repository, watched=False)

    def _refuse_borrowed(self, repository: str, *, watched: bool) -> None:
        """`watched`: it lies in a folder that others may write to, and takes objects from such folders alone."""
        for path in map(Path.resolve, _sources(repository)):
            if self._is_below(path):
                continue
            if watched or self._state is None or path.is_relative_to(self._state.resolve()):
                raise _outside(f"{repository} takes its objects from {path}")

    def _is_below(self, path: Path) -> bool:
        """Whether it lies in a watched folder, as it is written."""
        path = Path(os.path.normpath(path))
        return any(path.is_relative_to(root) for known in self._roots for root in (known.absolute(), known.resolve()))

    def _folder(self, pull: Pull) -> Path:
        branch = quote(pull.head_ref, safe="")
        if len(branch) > 150:
            branch = directory_name(pull.head_ref)
        return self._reviews / directory_name(pull.repository) / branch

    def _unreadable(self, error: OSError) -> ForgeError:
        return ForgeError(
            "forge-refused",
            f"the stored reviews cannot be read or written: {error}",
            remedy=f"check space and rights of {self._reviews}.",
            permanent=True,
        )


def _outside(what: str) -> ForgeError:
    return ForgeError(
        "forge-refused",
        f"{what}, outside of the folders that are watched",
        remedy="take the link out (`.git`, `commondir` or `info/alternates`), or watch that folder too.",
        permanent=True,
    )


def _folders(path: Path) -> list[Path]:
    """What may be a folder: also a link that cannot be followed for want of rights, but not one to nothing."""
    entries = sorted(child for child in path.iterdir() if not child.name.startswith(".") and child.name not in _NOBODYS)
    return [child for child in entries if _may_be_folder(child)]


def _may_be_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return True


def _shown(path: Path) -> Path:
    """A repository by where it lies; what is none by the name that is to be mended."""
    return path.resolve() if _is_repository(path) else path


def _unreadable(path: Path) -> ForgeError | None:
    """Why it cannot be told whether `path` is a repository, or of which one it is a worktree, if it cannot."""
    try:
        os.scandir(path).close()
        (path / ".git").lstat()
    except FileNotFoundError:
        return None  # no .git, or gone meanwhile
    except OSError as error:
        return _closed(path, error)
    try:
        if not stat.S_ISREG((path / ".git").stat().st_mode):
            return None
        (path / (path / ".git").read_text(errors="replace")[:4096].partition("gitdir:")[2].strip()).stat()
    except (OSError, ValueError) as error:
        return _closed(path, error)
    return None


def _closed(path: Path, error: Exception) -> ForgeError:
    return ForgeError(
        "forge-refused",
        f"{path} cannot be read: {error}",
        remedy="make it readable for the user of the container, mount what it leads to, or take it out.",
        permanent=True,
    )


def _is_repository(path: Path) -> bool:
    """True for a repository, bare or not. A linked worktree is none: its repository has the same branches."""
    try:
        dot_git = path / ".git"
        if dot_git.is_file():
            return "/worktrees/" not in dot_git.read_text(errors="replace")[:4096]
        return dot_git.is_dir() or all((path / part).exists() for part in ("HEAD", "objects", "refs"))
    except OSError:
        return False


def _git_dir(repository: str) -> Path:
    dot_git = Path(repository, ".git")
    return dot_git if dot_git.exists() else Path(repository)


def _sources(repository: str) -> Iterator[Path]:
    """Every directory from which git would read objects of this repository, and what is a link in those."""
    objects = _path(repository, "--git-path", "objects")
    yield from (_path(repository, "--git-dir"), _path(repository, "--git-common-dir"), objects)
    told = [line.partition("alternate: ") for line in _git(repository, "count-objects", "-v").split("\n")]
    yield from (Path(_unquoted(path)) for before, mark, path in told if mark and not before)
    for folder in (objects, objects / "pack"):
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            yield from (Path(entry.path) for entry in entries if entry.is_symlink())


def _unquoted(path: str) -> str:
    """A path as git prints it, in quotes if it has control characters; these escapes are Python's, too."""
    return str(ast.literal_eval(path)) if path.startswith('"') else path


def _path(repository: str, *which: str) -> Path:
    """One at a time: a path may have line ends in it."""
    return Path(_git(repository, "rev-parse", "--path-format=absolute", *which).removesuffix("\n"))


def _git(repository: str, *args: str) -> str:
    try:
        out = git(args, git_dir=_git_dir(repository), timeout=SECONDS).stdout
    except GitError as error:
        raise ForgeError(
            "forge-not-found" if error.cause == "forge-not-found" else "forge-refused",
            f"{repository} cannot be read: {_own_words(error)}",
            remedy="run `git fsck` in it, restore what is damaged (clone, backup), or take it out of the folder.",
            permanent=True,
        ) from error
    return out.decode("utf-8", "replace")


def _own_words(error: GitError) -> str:
    """What git's failure means of a person's own repository: no kept copy, which would be fetched anew."""
    what = _OWN.get(error.cause, error.brief)
    return f"{what}{error.sentence.removeprefix(error.brief)}"


def _default_branch(repository: str, name: str | None = None) -> tuple[str, str]:
    """Name and tip of the branch that pull requests go into; `name` asks for a certain one.

    In a bare repository HEAD names it. Where people work, HEAD is the branch they happen to be on, so that the
    remote's default comes first, then main and master.
    """
    form = "--format=%(refname) %(objectname) %(symref)"
    listing = _git(repository, "for-each-ref", form, "refs/heads", "refs/remotes/origin/HEAD")
    rows = [line.split(" ") for line in listing.split("\n") if line]
    tips = {ref.removeprefix("refs/heads/"): sha for ref, sha, _ in rows if ref.startswith("refs/heads/")}
    if name is not None:
        candidates = [name]
    else:
        head = git(["symbolic-ref", "--quiet", "HEAD"], git_dir=_git_dir(repository), timeout=SECONDS, check=False).out
        on_head = [head.strip().removeprefix("refs/heads/")]
        remote = [symref.removeprefix("refs/remotes/origin/") for ref, _, symref in rows if ref.endswith("origin/HEAD")]
        usual = [*remote, "main", "master"]
        candidates = [*on_head, *usual] if _git_dir(repository) == Path(repository) else [*usual, *on_head]
    for candidate in candidates:
        if candidate in tips:
            return candidate, tips[candidate]
    if name is not None and tips:
        raise NoSuchBranch(f"{repository} has no branch {name}", remedy="name one of its branches by --base.")
    raise ForgeError(
        "forge-not-found",
        f"{repository} has no commits yet" if not tips else f"{repository} has no branch main or master",
        remedy="make a first commit." if not tips else "let HEAD name the default branch.",
        permanent=True,
    )


def _branches(repository: str, *args: str) -> list[dict[str, str]]:
    """The branches, as one dict of _FIELDS each; aliases of other branches are left out."""
    form = "".join(f"%({field})%00" for field in _FIELDS)
    values = _git(repository, "for-each-ref", f"--format={form}", *args, "refs/heads").split("\0")
    count = len(_FIELDS)
    rows = [dict(zip(_FIELDS, values[i : i + count], strict=True)) for i in range(0, len(values) - 1, count)]
    for row in rows:
        row["refname"] = row["refname"].lstrip("\n")  # the end of the row before
    return [row for row in rows if not row["symref"]]


def _pull(repository: str, branch: dict[str, str], base_ref: str, base_sha: str) -> Pull:
    name = branch["refname"].removeprefix("refs/heads/")
    return Pull(
        target=f"{repository}#{name}",
        repository=repository,
        number=zlib.crc32(name.encode("utf-8", "replace")),
        head_sha=branch["objectname"],
        base_ref=base_ref,
        base_sha=base_sha,
        title=branch["contents:subject"],
        body=branch["contents:body"].strip(),
        author=branch["authorname"] or "ghost",
        author_association="OWNER",  # whoever can put a branch here owns the folder
        updated_at=branch["objectname"],
        clone_url=repository,
        head_ref=name,
    )


def _is_ancestor(repository: str, ancestor: str, descendant: str) -> bool:
    args = ["merge-base", "--is-ancestor", ancestor, descendant]
    return git(args, git_dir=_git_dir(repository), timeout=SECONDS, check=False).ok


def _read(path: Path) -> Iterator[tuple[int, float, str]]:
    """Number, time and text of each review in a file."""
    data = path.read_bytes()
    at = 0
    while at < len(data):
        header = _HEADER.match(data, at)
        end = header.end() + int(header[3]) if header else len(data)
        if header is None or data[end : end + 1] != b"\n":
            raise ForgeError(
                "forge-refused",
                f"the stored review {path} was changed by hand",
                remedy=f"restore it, or delete {path} to have the pull request reviewed anew.",
                permanent=True,
            )
        yield int(header[1]), float(header[2]), data[header.end() : end].decode("utf-8", "replace")
        at = end + 1


def _stored(number: int, written: float, body: str) -> bytes:
    data = body.encode("utf-8", "replace")
    return (
        f"<!-- review-appliance comment {number}, written {written:.6f}, {len(data)} bytes -->\n".encode()
        + data
        + b"\n"
    )


def _no_lines(pull: Pull) -> ForgeError:
    return ForgeError(
        "forge-refused",
        f"{pull.target} is a local branch: no comments stand on its lines",
        remedy="this is a defect of the appliance: please report it.",
        permanent=True,
    )


def _comment(path: Path, number: int, body: str) -> Comment:
    return Comment(f"{path.stem}-{number}", body, str(path))


def _note(pull: Pull, text: str) -> None:
    """The reviews of the head as its git note. A courtesy: the file is what counts, so a refusal is no fault."""
    git_dir = _git_dir(pull.repository)
    if not (os.access(git_dir, os.W_OK) and os.access(git_dir / "objects", os.W_OK)):
        return
    shared = _shared(git_dir)
    data = text.encode("utf-8", "replace")
    blob = git([*shared, "hash-object", "-w", "--stdin"], git_dir=git_dir, input=data, timeout=SECONDS, check=False)
    if blob.ok:
        # -C takes the text as it is, where -F would cut empty lines out of it
        args = ["notes", f"--ref={NOTES}", "add", "--force", "-C", blob.out.strip(), pull.head_sha]
        git([*shared, *args], git_dir=git_dir, timeout=SECONDS, check=False, env=_NOTE_AUTHOR)


def _shared(git_dir: Path) -> list[str]:
    """What we add to somebody's repository is as open as its own objects are, whatever our umask.

    Otherwise its owner could neither read the note nor, in a directory that we made first, write objects any more.
    """
    mode = ((git_dir / "objects").stat().st_mode & 0o666) | 0o600
    return ["-c", f"core.sharedRepository=0{mode:o}"]
