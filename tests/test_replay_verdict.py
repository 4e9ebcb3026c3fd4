"""Rows of the replay list that concern what an answer is worth: R40 and R41, from Codex's events to the gate."""

import json
from dataclasses import replace

import pytest
from test_ending import LOOK, reviewed
from test_result import FINDING, answer
from world import found
from world import reviewed as good

from appliance.core.ending import Invalid, judge
from appliance.core.findings import Result
from appliance.core.pulls import Pull
from appliance.core.verdict import gate_of

PULL = Pull("octo/app#1", "octo/app", 1, "a" * 40, "main", "b" * 40)


def gate(result: Result) -> str:
    review = good(PULL, found(3)).review
    assert review is not None
    return gate_of(replace(review, result=result), 1).state


def finding(priority: int) -> dict[str, object]:
    return FINDING | {"priority": priority}


@pytest.mark.parametrize(
    ("findings", "verdict", "state"),
    [
        ([], "correct", "success"),
        ([finding(3)], "correct", "success"),
        ([finding(3), finding(2)], "correct", "success"),
        ([finding(0)], "incorrect", "failure"),
        ([finding(0)], "correct", "failure"),
        ([finding(3), finding(1)], "correct", "failure"),
        ([], "incorrect", "failure"),
        ([], "inconclusive", "error"),
        ([finding(3)], "inconclusive", "error"),
    ],
)
def test_R40_the_gate_follows_from_the_gravest_finding(
    findings: list[dict[str, object]], verdict: str, state: str
) -> None:
    judged = judge([reviewed(LOOK, text=answer(findings=findings, verdict=verdict))])
    assert isinstance(judged, Result)
    assert gate(judged) == state


WHOLE = answer(findings=[], verdict="correct")


@pytest.mark.parametrize(
    "text",
    ["I found no issues; this looks good to me.", "", " ", "null", "[]", "{}", '"correct"', "no findings",
     json.dumps({"findings": []}), json.dumps({"verdict": "correct"}), answer(findings=None), answer(verdict="")],
)  # fmt: skip
def test_R40_prose_and_half_an_answer_are_a_fault(text: str) -> None:
    assert isinstance(judge([reviewed(LOOK, text=text)]), Invalid)


CUTS = [int(len(WHOLE) * part / 8) for part in range(1, 8)] + [len(WHOLE) - 1]


@pytest.mark.parametrize("at", CUTS)
@pytest.mark.parametrize("fence", ["```json\n", "```\n", "~~~json\n", "Here it is:\n\n```json\n", ""])
def test_R41_json_that_is_cut_off_is_a_fault_and_never_no_findings(fence: str, at: int) -> None:
    assert isinstance(judge([reviewed(LOOK, text=fence + WHOLE[:at])]), Invalid)
    assert isinstance(judge([reviewed(LOOK, text=f"{fence}{WHOLE[:at]}\n```")]), Invalid)


def test_R41_a_whole_answer_after_which_another_begins_is_not_the_one_before() -> None:
    judged = judge([reviewed(LOOK, text=f"```json\n{WHOLE}\n```\n\n```json\n{answer()[:-20]}")])
    assert not (isinstance(judged, Result) and gate(judged) == "success")
