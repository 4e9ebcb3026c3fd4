"""Makes the repository of each case ready: built from its files, unpacked from its bundle, or fetched.

A bundle is as foreign as a pull request: git runs hardened and bounded on it, and nothing of it is checked out here.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from appliance.core.evaluation.case import Case, digest
from appliance.evaluation.dataset import BUNDLE, BadDataset, Source, tree
from appliance.forge import Source as GitSource
from appliance.git import GitError, Mirror, Mirrors, git
from appliance.git.bounds import MAX_FETCH_BYTES
from appliance.git.hardened import MAX_MEMORY
from appliance.git.names import is_sha
from appliance.process import Limits

SECONDS = 120.0
_LIMITS = Limits(MAX_MEMORY, file=MAX_FETCH_BYTES)
_DATES = ("2026-03-02T09:00:00+0000", "2026-03-03T14:00:00+0000")
_PERSON = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Kim Aster"), ("EMAIL", "kim@case.example"))
}


@dataclass(frozen=True)
class Ready:
    """A case whose commits are at hand. `renamed` has the new path of each renamed file by its old one."""

    case: Case
    digest: str
    source: GitSource
    base_sha: str
    head_sha: str
    renamed: Mapping[str, str] = field(default_factory=dict)


def prepare(sources: Sequence[Source], scratch: Path, mirrors: Mirrors) -> list[Ready]:
    """All of them, or BadDataset with a line for each that cannot be used. Raises OSError, process.Stopped."""
    ready: list[Ready] = []
    problems: list[str] = []
    for source in sources:
        where = source.folder or source.case.name
        try:
            ready.append(_ready(source, scratch, mirrors))
        except GitError as error:
            problems.append(f"{where}: {error.sentence}")
        except BadDataset as bad:
            problems += [f"{where}: {line}" for line in str(bad).splitlines()]
    if problems:
        raise BadDataset("\n".join(problems))
    return ready


def _ready(source: Source, scratch: Path, mirrors: Mirrors) -> Ready:
    case = source.case
    if case.repository.startswith(("https://", "http://")):
        names = [name for name in ("base", "head") if not is_sha(getattr(case, name))]
        if names:
            raise BadDataset(f"{' and '.join(names)}: a case by address names commits by all their digits")
        url, base, head = case.repository, case.base, case.head
    else:
        path = _repository(source, scratch / "repositories" / case.name)
        url, base, head = str(path), *(_commit(path, name) for name in (case.base or "base", case.head or "head"))
    git_source = GitSource(url, head, base)
    mirror = mirrors.fetch(f"evaluation/{case.name}", git_source, head_sha=head, base_sha=base)
    changes = mirror.changed_files(mirror.merge_base(base, head) or base, head)
    if not changes:
        raise BadDataset("base and head do not differ")
    _check_paths(case, mirror, base, head)
    renamed = {one.old_path: one.path for one in changes if one.status == "R" and one.old_path}
    return Ready(case, digest(case, f"{base} {head}".encode()), git_source, base, head, renamed)


def _check_paths(case: Case, mirror: Mirror, base: str, head: str) -> None:
    """A golden in a file that nobody has could never be found, and would count against every reviewer."""
    paths = [golden.path for golden in case.goldens if golden.path]
    there = mirror.entries(head, paths).keys() | mirror.entries(base, paths).keys()
    missing = sorted({path for path in paths if path not in there})
    if missing:
        raise BadDataset("\n".join(f"a golden is in {path}, which neither base nor head has" for path in missing))


def _repository(source: Source, path: Path) -> Path:
    """Where git finds the case's commits; made at `path` if the case brings them."""
    case, folder = source.case, source.folder
    if case.repository:
        given = ((folder or Path()) / case.repository).resolve()
        if not given.is_dir() or not git(["rev-parse", "--git-dir"], cwd=given, timeout=SECONDS, check=False).ok:
            raise BadDataset(f"repository: {given} is no git repository")
        return given
    assert folder is not None
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    if (folder / BUNDLE).exists():
        unbundle(folder / BUNDLE, path)
    else:
        build(case, folder, path)
    return path


def unbundle(bundle: Path, path: Path) -> None:
    """Unpack a bundle into a bare repository at `path`. Raises GitError, BadDataset."""
    if bundle.is_symlink() or not bundle.is_file():
        raise BadDataset(f"{bundle.name} is no file")
    git(["init", "--quiet", "--bare", "--template=", str(path)], timeout=SECONDS)
    name = str(bundle.resolve())
    checked = git(["bundle", "verify", "--quiet", name], git_dir=path, timeout=SECONDS, check=False, limits=_LIMITS)
    if not checked.ok:
        said = " ".join(checked.err.split())[:300]
        raise BadDataset(f"{bundle.name} cannot be used: {said}. It has to be whole: `git bundle create … --all`")
    args = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--end-of-options", name]
    git([*args, "+refs/*:refs/*"], git_dir=path, protocols=("file",), timeout=SECONDS, limits=_LIMITS)


def build(case: Case, folder: Path, path: Path) -> None:
    """Commits `base` and `head` from the files of a case; the same files give the same commits. Raises GitError."""
    base = dict(tree(folder / "base"))
    head = {name: content for name, content in base.items() if name not in case.deleted}
    head |= dict(tree(folder / "head"))
    git(["init", "--quiet", "--template=", "--initial-branch=base"], cwd=path, timeout=SECONDS)
    _commit_files(path, base, "As it was", _DATES[0])
    git(["checkout", "--quiet", "-b", "head"], cwd=path, timeout=SECONDS)
    _commit_files(path, head, f"{case.title}\n\n{case.body}".strip(), _DATES[1])


def _commit_files(path: Path, content: Mapping[str, bytes], message: str, date: str) -> None:
    for child in path.iterdir():
        if child.name != ".git":
            shutil.rmtree(child) if child.is_dir() else child.unlink()
    for name, data in content.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(0o644)  # the same tree whatever the umask
    git(["add", "--all", "--force"], cwd=path, timeout=SECONDS)
    when = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    args = ["commit", "--quiet", "--no-verify", "--allow-empty", "--file=-"]
    git(args, cwd=path, timeout=SECONDS, input=f"{message}\n".encode(), env=_PERSON | when)


def _commit(path: Path, name: str) -> str:
    args = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"]
    found = git(args, cwd=path, timeout=SECONDS, check=False)
    if not found.ok:
        raise BadDataset(f"there is no commit {name} in its repository")
    return found.out.split()[-1]
