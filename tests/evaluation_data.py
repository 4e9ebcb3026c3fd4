"""`python -m tests.evaluation_data FOLDER`: the built-in data set as bundles, as others bring theirs.

Each case gets `repo.bundle` and a `case.json` that names its commits. The same sources give the same commits.
"""

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from appliance.evaluation.dataset import BUILT_IN, BUNDLE, load
from appliance.evaluation.prepare import build
from appliance.git import git


def write(folder: Path) -> int:
    """How many cases were written. Raises OSError, GitError."""
    sources = load(BUILT_IN)
    for source in sources:
        assert source.folder is not None
        target = folder.resolve() / source.case.name
        target.mkdir(parents=True)
        with tempfile.TemporaryDirectory() as name:
            repository = Path(name)
            build(source.case, source.folder, repository)
            args = ["bundle", "create", "--quiet", str(target / BUNDLE), "--all"]
            git(args, cwd=repository, timeout=60)
        told = asdict(source.case) | {"base": "base", "head": "head"}
        for key in ("name", "repository", "deleted"):
            del told[key]
        (target / "case.json").write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    return len(sources)


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]))} cases")
