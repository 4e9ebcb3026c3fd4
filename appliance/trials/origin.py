"""The repository of the trials: made once, read by all."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from appliance.git import git

SECONDS = 60.0
_PERSON = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Trial"), ("EMAIL", "trial@example.com"), ("DATE", "2026-11-01T00:00:00+0000"))
}


@dataclass(frozen=True)
class Origin:
    """`head` is a change on `main`, `pushed` one more on top, `empty` none at all, `advanced` what `main` becomes,
    `ruled` the same with rules for reviews. `large` is `head` with more files, each of some thousand bytes.

    `release` left `main` one commit earlier, so that `head` is another change towards it.
    """

    path: Path
    main: str
    release: str
    advanced: str
    head: str
    pushed: str
    empty: str
    root: str
    ruled: str
    large: str
    changed: Mapping[tuple[str, str], frozenset[str]]  # the paths of each change, by head and merge base

    def merge_base(self, head: str, base_ref: str) -> str:
        return self.root if base_ref == "release" else self.main


def make(path: Path) -> Origin:
    """Raises GitError, OSError."""
    path.mkdir(parents=True)
    git(["init", "--quiet", "--template=", "--initial-branch=main"], cwd=path, timeout=SECONDS)
    git(["config", "uploadpack.allowAnySHA1InWant", "true"], cwd=path, timeout=SECONDS)
    root = _commit(path, "Begin", {"app.py": "def total(items):\n    return sum(items)\n"})
    git(["branch", "release"], cwd=path, timeout=SECONDS)
    main = _commit(path, "Say what it is", {"README.md": "Sums.\n"})
    git(["checkout", "--quiet", "-b", "feature"], cwd=path, timeout=SECONDS)
    head = _commit(path, "Count", {"app.py": "def total(items):\n    return sum(items) + 1\n"})
    pushed = _commit(path, "Count right", {"app.py": "def total(items):\n    return sum(items) + len(items)\n"})
    git(["checkout", "--quiet", "-b", "empty", main], cwd=path, timeout=SECONDS)
    empty = _commit(path, "Nothing", {})
    git(["checkout", "--quiet", "release"], cwd=path, timeout=SECONDS)
    release = _commit(path, "Release", {"VERSION": "1\n"})
    git(["checkout", "--quiet", "main"], cwd=path, timeout=SECONDS)
    advanced = _commit(path, "Go on", {"NEWS": "More.\n"})
    git(["checkout", "--quiet", "-b", "ruled"], cwd=path, timeout=SECONDS)
    ruled = _commit(path, "Rules", {"AGENTS.md": "# Code review rules\nSums are whole numbers.\n"})
    git(["checkout", "--quiet", "-b", "large", head], cwd=path, timeout=SECONDS)
    large = _commit(path, "Much", {f"part{n}.py": f"# {'part ' * 400}\nPART = {n}\n" for n in range(3)})
    changed = {(of, base): _changed(path, of, base) for of in (head, pushed, empty, large) for base in (main, root)}
    return Origin(path, main, release, advanced, head, pushed, empty, root, ruled, large, changed)


def _changed(path: Path, head: str, base: str) -> frozenset[str]:
    return frozenset(git(["diff", "--name-only", base, head], cwd=path, timeout=SECONDS).out.split())


def _commit(path: Path, message: str, files: dict[str, str]) -> str:
    for name, content in files.items():
        (path / name).write_text(content, encoding="utf-8")
    git(["add", "--all"], cwd=path, timeout=SECONDS)
    args = ["commit", "--quiet", "--no-verify", "--allow-empty", f"--message={message}"]
    git(args, cwd=path, timeout=SECONDS, env=_PERSON)
    return git(["rev-parse", "HEAD"], cwd=path, timeout=SECONDS).out.strip()
