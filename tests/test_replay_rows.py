"""Each row of the replay list has a test whose name or id is the row.

The rows come from public reports of reviewers and their parts; a row that is named here and has no test is a promise
that nobody holds.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROWS = tuple(
    f"R{row}"
    for row in (1, 2, 4, 5, 6, 8, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 24, 25, 26, 28, 29, 31, 32, 33, 35, 37, 39,
                40, 41, 44, 45, 46, 48, 49, 52, 54)
)  # fmt: skip
_NAME = re.compile(r"(?<![a-z0-9])r([0-9]+)(?![a-z0-9])", re.IGNORECASE)


def rows_of(tree: ast.Module) -> Iterator[str]:
    """The rows in the names of tests and in what stands beside them as ids."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield from _NAME.findall(node.name.replace("_", " "))
            for decorator in node.decorator_list:
                yield from _ids(decorator)


def _ids(decorator: ast.expr) -> Iterator[str]:
    """What begins with a row among `ids=[…]`, `id=…` and the first texts of the cases themselves."""
    for node in ast.walk(decorator):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found = re.match(r"r([0-9]+)(?![a-z0-9])", node.value, re.IGNORECASE)
            if found:
                yield found.group(1)


def all_tested() -> set[str]:
    files = [*TESTS.glob("test_*.py"), *(TESTS / "container").glob("test_*.py")]
    return {f"R{row}" for file in files for row in rows_of(ast.parse(file.read_text(encoding="utf-8")))}


TESTED = all_tested()


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_the_replay_list_has_its_test(row: str) -> None:
    assert row in TESTED


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def test_R14_a(): ...", {"14"}),
        ("def test_r1_r2_names(): ...", {"1", "2"}),
        ("def test_scenario_7_r18_x(): ...", {"18"}),
        ("def test_for14(): ...", set()),
        ("def helper_R14(): ...", set()),
        ("@p('a', [1, 2], ids=['R4-x', 'other'])\ndef test_a(a): ...", {"4"}),
        ("@p('a', [q(1, id='r5')])\ndef test_a(a): ...", {"5"}),
        ("x = 'R6'", set()),
    ],
)
def test_how_a_row_is_found(source: str, found: set[str]) -> None:
    assert set(rows_of(ast.parse(source))) == found
