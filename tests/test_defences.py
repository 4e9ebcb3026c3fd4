"""The table of defences is up to date: what is to be taken out is there, and so are the tests that must fail then.

That they do fail is shown by `python -m tests.defences`, which takes long and is no part of a usual run.
"""

import ast
import re
from pathlib import Path

import pytest
from defences import __main__ as runner
from defences.__main__ import PROJECT, Defence, Edit, defences

ALL = list(defences())


@pytest.mark.parametrize("defence", ALL, ids=lambda defence: f"{defence.area}: {defence.name}")
def test_what_is_taken_out_is_there(defence: Defence) -> None:
    assert defence.tests
    for edit in defence.edits:
        assert edit.old != edit.new
        assert (PROJECT / edit.file).read_text(encoding="utf-8").count(edit.old) == 1, edit
    for test in defence.tests:
        path, _, name = test.partition("::")
        nodes = ast.walk(ast.parse((PROJECT / path).read_text(encoding="utf-8")))
        functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        assert re.sub(r"\[.*", "", name) in functions | {""}, test


def test_names_are_told_apart() -> None:
    names = [(one.area, one.name) for one in ALL]
    assert len(set(names)) == len(names)


CASES = {
    "fails": ("assert add(1, 1) == 2", ""),
    "fails anyway": ("assert add(1, 1) == 9", "fail also with it"),
    "passes": ("assert add(0, 0) == 0", "still pass"),
    "cannot be collected": ("1 +", "pytest ended with "),
}


@pytest.mark.parametrize("how", CASES)
def test_the_runner_tells_a_test_that_needs_its_defence(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, told = CASES[how]
    project = tmp_path / "project"
    project.mkdir()
    (project / "sums.py").write_text("def add(a: int, b: int) -> int:\n    return a + b\n")
    (project / "test_sums.py").write_text(f"from sums import add\n\n\ndef test_add():\n    {body}\n")

    def copy(to: Path) -> None:
        for path in project.iterdir():
            (to / path.name).write_bytes(path.read_bytes())

    monkeypatch.setattr(runner, "_copy", copy)
    taken_out = Edit("sums.py", "a + b", "a * b * 3")
    said = runner.examine(Defence("sums", "adds", (taken_out,), ("test_sums.py::test_add",)))
    assert said.startswith(told) and bool(said) == bool(told)
    gone = Defence("sums", "adds", (Edit("sums.py", "a - b", ""),), ("test_sums.py::test_add",))
    assert "occurs 0 times" in runner.examine(gone)
