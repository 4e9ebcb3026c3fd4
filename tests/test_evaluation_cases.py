"""The built-in data set: what it promises of itself holds, and its goldens are where its changes are."""

import ast
import json
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from evaluation_data import write

from appliance.core.evaluation.case import Case
from appliance.evaluation.dataset import BUILT_IN, Source, load, tree
from appliance.evaluation.prepare import build, prepare
from appliance.git import Mirrors
from appliance.rehearsal import DEFECTS, added_lines

DOCS = (Path(__file__).parents[1] / "docs" / "evaluation.md").read_text(encoding="utf-8")
SOURCES = load(BUILT_IN)
CASES = [source.case for source in SOURCES]
DEFECTIVE = [source for source in SOURCES if not source.case.clean]
each = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.case.name)


def diff_of(source: Source, folder: Path) -> str:
    assert source.folder is not None
    folder.mkdir()
    build(source.case, source.folder, folder)
    args = ["git", "diff", "--no-ext-diff", "-M", "base", "head"]
    return subprocess.run(args, cwd=folder, check=True, capture_output=True, text=True).stdout


def content(source: Source) -> dict[str, bytes]:
    """The files of the head."""
    assert source.folder is not None
    found = {path: data for path, data in tree(source.folder / "base") if path not in source.case.deleted}
    return found | dict(tree(source.folder / "head"))


def test_there_are_as_many_as_are_promised() -> None:
    clean = [case for case in CASES if case.clean]
    assert len(CASES) >= 24
    assert len(clean) >= 6
    assert sum(case.kind == "tempting" for case in clean) >= 2
    assert {"refactoring", "documentation", "fix", "dependency", "tests"} <= {case.kind for case in clean}
    assert {"Python", "TypeScript", "Go", "Rust", "Java", "C", "SQL", "Shell"} <= {case.language for case in CASES}
    assert len({golden.kind for case in CASES for golden in case.goldens}) >= 18
    assert any(len(case.goldens) > 1 for case in CASES)


def test_the_documentation_lists_each_case_with_what_it_is() -> None:
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", DOCS.partition("| case |")[2], re.MULTILINE))

    def row(case: Case) -> str:
        kinds = dict.fromkeys(golden.kind for golden in case.goldens) or [f"clean: {case.kind}"]
        return f"{case.language} | {', '.join(kinds)}"

    assert rows == {case.name: row(case) for case in CASES}


@pytest.mark.parametrize("source", DEFECTIVE, ids=lambda source: source.case.name)
def test_every_golden_lies_in_the_diff(source: Source, tmp_path: Path) -> None:
    added = {(path, line) for path, line, _ in added_lines(diff_of(source, tmp_path / "repo"))}
    for golden in source.case.goldens:
        assert golden.line_start is not None
        assert golden.line_end is not None
        assert golden.kind
        assert {(golden.path, line) for line in range(golden.line_start, golden.line_end + 1)} & added, golden


@pytest.mark.parametrize("source", DEFECTIVE, ids=lambda source: source.case.name)
def test_goldens_are_short_and_of_lines_that_are_there(source: Source) -> None:
    files = content(source)
    for golden in source.case.goldens:
        assert golden.path is not None
        assert golden.line_start is not None
        assert golden.line_end is not None
        lines = files[golden.path].decode().splitlines()[golden.line_start - 1 : golden.line_end]
        assert len(lines) == golden.line_end - golden.line_start + 1 <= 10
        assert all(line.strip() for line in (lines[0], lines[-1]))


@each
def test_its_code_can_be_parsed(source: Source) -> None:
    for path, data in content(source).items():
        text = data.decode()
        assert "@@" not in text or path.endswith(".patch")
        assert text.endswith("\n"), path
        if path.endswith(".py"):
            ast.parse(text)
        elif path.endswith(".json"):
            json.loads(text)
        elif path.endswith(".sh"):
            subprocess.run(["sh", "-n"], input=data, check=True)
        else:
            assert text.count("{") == text.count("}"), path
            assert text.count("(") == text.count(")"), path


@each
def test_what_the_author_says_does_not_tell_the_defect(source: Source) -> None:
    """The reviewer reads title and text, and the code: no name of a kind, and no mark."""
    told = f"{source.case.title}\n{source.case.body}\n{b''.join(content(source).values()).decode()}".casefold()
    for kind in {source.case.kind, *(golden.kind for golden in source.case.goldens)} - {
        "",
        "fix",
        "tests",
        "race",
        "timezone",
    }:
        assert kind.casefold() not in told or source.case.clean, kind
    assert not re.search(r"\b(?:bug|vulnerab|golden|planted|fixme|todo)", told)


def test_they_are_ready_and_the_same_everywhere(tmp_path: Path) -> None:
    """As files and as bundles: the same commits, so the same results."""
    assert write(tmp_path / "set") == len(CASES)
    of_files = prepare(SOURCES, tmp_path / "a", Mirrors(tmp_path / "am"))
    of_bundles = prepare(load(str(tmp_path / "set")), tmp_path / "b", Mirrors(tmp_path / "bm"))
    assert [(one.case.name, one.base_sha, one.head_sha) for one in of_files] == [
        (one.case.name, one.base_sha, one.head_sha) for one in of_bundles
    ]
    assert [one.case.goldens for one in of_files] == [one.case.goldens for one in of_bundles]
    renamed = {one.case.name: one.renamed for one in of_files if one.renamed}
    assert renamed == {"clean-python-rename": {"shop/basket.py": "shop/cart.py"}}


def test_of_the_rehearsal_models_kinds_there_are_some_found_and_some_that_tempt_it(tmp_path: Path) -> None:
    """So that a rehearsal shows true, false and missed findings; it is a script, and no measure of a reviewer."""
    found = Counter[str]()
    for source in SOURCES:
        for _, _, text in added_lines(diff_of(source, tmp_path / source.case.name)):
            found[source.case.name] += sum(bool(defect.pattern.search(text)) for defect in DEFECTS)
    assert +found == {"python-moving-average": 1, "python-upload-retry": 1, "tempting-broad-except": 1}
