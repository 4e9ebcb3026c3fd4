"""A real git repository for tests."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from appliance.forge import Source

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "HOME": "/nonexistent",
    "PATH": os.environ["PATH"],
}


class Repo:
    """A repository of a test, driven by plain git."""

    def __init__(self, path: Path, *init: str) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main", *init)

    def git(self, *args: str, env: Mapping[str, str] | None = None) -> str:
        return subprocess.run(
            ["git", *args], cwd=self.path, env=IDENTITY | dict(env or {}), check=True, capture_output=True, text=True
        ).stdout.strip()

    def write(self, name: str | bytes, content: str | bytes) -> None:
        path = self.path / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, message: str = "a change", **files: str) -> str:
        for name, content in files.items():
            self.write(name, content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def source(self, head: str = "refs/heads/feature", base: str = "refs/heads/main") -> Source:
        return Source(str(self.path), head, base)


def feature_repo(path: Path) -> Repo:
    """`main` and, checked out, a branch `feature` of one commit more."""
    repo = Repo(path)
    repo.commit("first", a="one\n", b="two\n")
    repo.git("checkout", "--quiet", "-b", "feature")
    repo.commit("second", a="ONE\n", c="three\n")
    return repo
