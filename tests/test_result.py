"""The reviewer's answer against the schema, checked here since Codex does not (CODEX 1.9)."""

import json
from typing import Any

import jsonschema_rs
import pytest

from appliance.core.findings import EarlierAnswer, Finding, Result
from appliance.core.result import SCHEMA, InvalidResult, parse_result

FINDING: dict[str, Any] = {
    "title": "Off by one",
    "body": "The last is left out.",
    "priority": 1,
    "confidence": 0.9,
    "path": "src/a.py",
    "line_start": 3,
    "line_end": 4,
    "side": "RIGHT",
    "suggestion": None,
}
ANSWER: dict[str, Any] = {
    "findings": [FINDING],
    "summary": "s",
    "verdict": "incorrect",
    "reasoning": "r",
    "limits": "l",
    "earlier": [],
}


def answer(**change: Any) -> str:
    return json.dumps(ANSWER | change)


def with_finding(**change: Any) -> str:
    return answer(findings=[FINDING | change])


def test_a_good_answer() -> None:
    found = Finding("Off by one", "The last is left out.", 1, 0.9, "src/a.py", 3, 4)
    assert parse_result(answer()) == Result("incorrect", "s", "r", "l", (found,))
    assert parse_result(answer(findings=[])).findings == ()
    jsonschema_rs.validator_for(SCHEMA).validate(ANSWER)


def test_what_an_older_script_leaves_out_is_taken_as_nothing_said() -> None:
    without = {key: value for key, value in FINDING.items() if key not in ("side", "suggestion")}
    old = {key: value for key, value in ANSWER.items() if key != "earlier"} | {"findings": [without]}
    assert parse_result(json.dumps(old)) == parse_result(answer())


def test_a_finding_of_the_old_side_with_a_suggestion_and_an_answer_for_an_earlier_one() -> None:
    told = {"id": "E1", "state": "resolved", "commit": None, "evidence": "\ud800"}
    result = parse_result(answer(findings=[FINDING | {"side": "LEFT", "suggestion": "x = 1"}], earlier=[told]))
    assert (result.findings[0].side, result.findings[0].suggestion) == ("LEFT", "x = 1")
    assert result.earlier == (EarlierAnswer("E1", "resolved", "", "?"),)


BAD = {
    "nothing": "",
    "blank": " \n",
    "prose": "The change looks good to me. No findings.",
    "R41 fenced": f"```json\n{answer()}\n```",
    "R41 cut off": answer()[:-20],
    "two answers": answer() * 2,
    "a list": "[]",
    "null": "null",
    "a number": "3",
    "a text": '"correct"',
    "empty object": "{}",
    "brackets": "[" * 100_000,
    "objects": '{"a":' * 100_000,
    "digits": "1" * 5000,
    "no findings": json.dumps({key: value for key, value in ANSWER.items() if key != "findings"}),
    "findings null": answer(findings=None),
    "findings an object": answer(findings={}),
    "verdict of its own": answer(verdict="LGTM"),
    "verdict null": answer(verdict=None),
    "summary a number": answer(summary=3),
    "limits a mixed list": answer(limits=["a", 1]),
    "priority 4": with_finding(priority=4),
    "priority -1": with_finding(priority=-1),
    "priority a text": with_finding(priority="P1"),
    "priority true": with_finding(priority=True),
    "priority null": with_finding(priority=None),
    "priority 1.0": with_finding(priority=1.5),
    "confidence 2": with_finding(confidence=2),
    "confidence nan": with_finding(confidence=float("nan")),
    "confidence infinite": with_finding(confidence=float("inf")),
    "no title": with_finding(title=""),
    "no path": with_finding(path=""),
    "half a character": with_finding(path="x\ud800y"),
    "line a text": with_finding(line_start="3"),
    "one of two bad": answer(findings=[FINDING, {}]),
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_what_does_not_fit_is_refused_with_a_reason_and_never_read_as_no_findings(text: str) -> None:
    with pytest.raises(InvalidResult) as caught:
        parse_result(text)
    assert 10 < len(str(caught.value)) < 1000


STRICTER = {"no title", "no path", "half a character"}  # what a schema of the model's API cannot say


@pytest.mark.parametrize("name", [name for name in BAD if name not in STRICTER])
def test_the_schema_that_the_model_is_given_refuses_the_same(name: str) -> None:
    try:
        given = json.loads(BAD[name])
    except (ValueError, RecursionError):
        return
    assert not jsonschema_rs.validator_for(SCHEMA).is_valid(given)


@pytest.mark.parametrize(
    ("change", "path", "lines"),
    [
        ({"path": "/checkout/src/a.py"}, "src/a.py", (3, 4)),
        ({"path": "./src//a.py"}, "src/a.py", (3, 4)),
        ({"path": "/etc/passwd"}, "/etc/passwd", (3, 4)),
        ({"line_start": 9, "line_end": 4}, "src/a.py", (4, 9)),
        ({"line_start": 0, "line_end": -5}, "src/a.py", (1, 1)),
        ({"line_start": 10**40}, "src/a.py", (4, 10**40)),
    ],
)
def test_paths_and_lines_are_put_right(change: dict[str, Any], path: str, lines: tuple[int, int]) -> None:
    [found] = parse_result(with_finding(**change)).findings
    assert (found.path, (found.line_start, found.line_end)) == (path, lines)


def test_limits_may_be_a_list_of_sentences() -> None:
    assert parse_result(answer(limits=["a", "b"])).limits == "a; b"


def test_half_a_character_can_still_be_written_and_posted() -> None:
    bad = "x\ud800y"
    result = parse_result(answer(summary=bad, reasoning=bad, limits=bad, findings=[FINDING | {"body": bad}]))
    assert repr(result).encode("utf-8").count(b"x?y") == 4
