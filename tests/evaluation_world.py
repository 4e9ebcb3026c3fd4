"""Small data sets for the tests of `appliance evaluate`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gitrepo import Repo

GOLDEN = {"what": "The last one is left out.", "path": "app.py", "line_start": 2, "priority": 1, "kind": "off-by-one"}


def case(folder: Path, name: str, content: Mapping[str, str] | None = None, /, **told: Any) -> Path:
    """A case of files: `app.py` and `other.py`, of which the head changes the former."""
    path = folder / name
    for side, files in (
        ("base", {"app.py": "a\nb\nc\n", "other.py": "o\n"}),
        ("head", content or {"app.py": "a\nB\nc\n"}),
    ):
        for file, text in files.items():
            (path / side / file).parent.mkdir(parents=True, exist_ok=True)
            (path / side / file).write_text(text)
    (path / "case.json").write_text(json.dumps({"title": f"Change {name}", "goldens": [GOLDEN]} | told))
    return path


def bundled(folder: Path, name: str, /, **told: Any) -> Path:
    """The same as a bundle of `main` and `feature`."""
    repo = Repo(folder.parent / f"{name}-source")
    repo.commit("first", **{"app.py": "a\nb\nc\n"})
    repo.git("checkout", "--quiet", "-b", "feature")
    repo.commit("second", **{"app.py": "a\nB\nc\n"})
    path = folder / name
    path.mkdir(parents=True)
    repo.git("bundle", "create", "--quiet", str(path / "repo.bundle"), "--all")
    told = {"title": "t", "base": "main", "head": "feature", "goldens": [GOLDEN]} | told
    (path / "case.json").write_text(json.dumps(told))
    return path
