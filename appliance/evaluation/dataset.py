"""Reads a data set: a folder of cases, or a benchmark's list. All that is wrong with it is said at once, before
anything is paid."""

import json
import stat
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from appliance.core.evaluation.benchmark import Told, cases_of, to_ask
from appliance.core.evaluation.case import BadCase, Case, case_of

BUILT_IN = "built-in"
BUNDLE = "repo.bundle"
FILES = ("case.toml", "case.json")
MAX_CASE = 256 * 1024  # bytes of the file that tells of a case
MAX_LIST = 256 * 1024 * 1024  # of a benchmark's list
MAX_FILE = 4 * 1024 * 1024
MAX_FILES = 5000
SUFFIX = ".in"
Ask = Callable[[str, int], Told]  # of owner/name and number


class BadDataset(ValueError):
    """A data set that cannot be used; the message has a line for each problem, with the file it is in."""


@dataclass(frozen=True)
class Source:
    """A case and where it stands: a folder of a data set, or None for one of a list."""

    case: Case
    folder: Path | None = None


def load(name: str, ask: Ask | None = None) -> list[Source]:
    """The cases of a data set by its path, in the order of their names. Raises BadDataset, OSError.

    `ask` tells of a pull request whose commits a list does not name; what it raises goes on.
    """
    if name == BUILT_IN and not Path(name).exists():
        with as_file(files("appliance") / "evaluation_cases") as folder:  # a folder already: nothing is unpacked
            return _folder(folder)
    path = Path(name)
    if path.is_dir():
        return _folder(path)
    if path.is_file():
        return _list(path, ask)
    raise BadDataset(f"{name}: there is no such folder or file")


def _list(path: Path, ask: Ask | None) -> list[Source]:
    try:
        told = json.loads(_text(path, MAX_LIST))
    except (ValueError, RecursionError) as error:
        raise BadDataset(f"{path}: cannot be read as JSON: {error}") from None
    pulls = {asked: ask(*asked) for asked in to_ask(told)} if ask else {}
    try:
        return [Source(case) for case in cases_of(told, pulls)]
    except BadCase as bad:
        raise BadDataset("\n".join(f"{path}: {problem}" for problem in bad.problems)) from None


def _folder(folder: Path) -> list[Source]:
    found: list[Source] = []
    problems: list[str] = []
    for child in sorted(folder.iterdir()):
        if child.name.startswith((".", "_")) or not child.is_dir():
            continue
        try:
            found.append(_case(child))
        except BadCase as bad:
            problems += bad.problems
    if problems:
        raise BadDataset("\n".join(problems))
    if not found:
        raise BadDataset(f"{folder}: there is no case in it, that is no folder with a {FILES[0]}")
    return found


def _case(folder: Path) -> Source:
    there = [folder / name for name in FILES if (folder / name).is_file()]
    if len(there) != 1:
        raise BadCase(
            f"{folder}: it has {'two files' if there else 'no file'} that tell of a case ({' or '.join(FILES)})"
        )
    [path] = there
    try:
        text = _text(path, MAX_CASE)
        case = case_of(folder.name, tomllib.loads(text) if path.suffix == ".toml" else json.loads(text))
    except BadCase as bad:
        raise BadCase(*(f"{path}: {problem}" for problem in bad.problems)) from None
    except (ValueError, RecursionError) as error:
        raise BadCase(f"{path}: cannot be read: {error}") from None
    problems = [f"{path}: {problem}" for problem in _sources(folder, case)]
    if problems:
        raise BadCase(*problems)
    return Source(case, folder)


def _sources(folder: Path, case: Case) -> Iterator[str]:
    """What is wrong with where the repository of a case comes from."""
    ways = [BUNDLE] * (folder / BUNDLE).exists() + ["base/ and head/"] * (folder / "base").exists()
    ways += ["repository"] * bool(case.repository)
    if len(ways) != 1:
        yield f"a case has one of {BUNDLE}, base/ and head/, repository; this has {' and '.join(ways) or 'none'}"
        return
    if ways == ["base/ and head/"]:
        if case.base or case.head:
            yield "base and head name commits of a repository; with base/ and head/ leave them out"
        try:
            had, has = (dict(tree(folder / side)) for side in ("base", "head"))
        except BadCase as bad:
            yield from bad.problems
            return
        yield from (f"deleted: base/ has no {path}" for path in case.deleted if path not in had)
        yield from (f"deleted: head/ has {path}" for path in case.deleted if path in has)
        if not case.deleted and all(had.get(path) == content for path, content in has.items()):
            yield "head/ changes nothing of base/"
    else:
        yield from (f"{name} is missing: a commit or ref" for name in ("base", "head") if not getattr(case, name))
        yield from (
            f"{name}: {getattr(case, name)!r} is no commit or ref"
            for name in ("base", "head")
            if getattr(case, name).startswith("-") or not getattr(case, name).isprintable()
        )
        yield from (["deleted goes with base/ and head/"] if case.deleted else [])


def tree(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Path and content of each file below `folder`, in order. One whose name ends in `.in` is meant without that: so
    no tool takes sources of a case for the project's own. A link is not followed. Raises BadCase, OSError."""
    if not folder.is_dir() or folder.is_symlink():
        raise BadCase(f"{folder.name}/ is no folder")
    seen: set[str] = set()
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        name = path.relative_to(folder).as_posix()
        if stat.S_ISDIR(mode):
            continue
        if not stat.S_ISREG(mode):
            raise BadCase(f"{folder.name}/{name} is neither file nor folder")
        if path.stat().st_size > MAX_FILE or len(seen) >= MAX_FILES:
            raise BadCase(f"{folder.name}/{name}: at most {MAX_FILES} files of {MAX_FILE // 1024**2} MiB; use a bundle")
        real = name.removesuffix(SUFFIX)
        if real in seen or ".git" in real.split("/"):
            raise BadCase(f"{folder.name}/{name}: cannot be a file of the repository")
        seen.add(real)
        yield real, path.read_bytes()


def _text(path: Path, limit: int) -> str:
    """Raises ValueError for what is too large or no UTF-8."""
    with path.open("rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"it is larger than {limit // 1024} KiB")
    return content.decode("utf-8")


def chosen(sources: Sequence[Source], names: Sequence[str]) -> list[Source]:
    """Those of these names, all without any. Raises BadDataset for a name that no case has."""
    known = {source.case.name for source in sources}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise BadDataset(f"there is no case {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return [source for source in sources if not names or source.case.name in names]
