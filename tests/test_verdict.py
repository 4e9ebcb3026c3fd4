"""The gate is honest: success needs every condition (DESIGN section 7)."""

from dataclasses import replace

import pytest

from appliance.core.findings import Evidence, Finding, Result, Review, Verdict
from appliance.core.verdict import WAITING, Gate, gate_of, given_up, running

P1 = 1


def finding(priority: int) -> Finding:
    return Finding("title", "body", priority, 0.9, "a.py", 1, 2)


def review(verdict: Verdict = "correct", *priorities: int, looked: bool = True) -> Review:
    return Review(
        target="octo/app#1",
        head_sha="a" * 40,
        base_ref="main",
        base_sha="b" * 40,
        merge_base="c" * 40,
        result=Result(verdict, "summary", "reasoning", "limits", tuple(finding(each) for each in priorities)),
        evidence=Evidence(("git diff",) if looked else ()),
    )


@pytest.mark.parametrize(
    ("given", "block", "expected"),
    [
        # R40: no findings, only P3, a P0
        (review(), P1, Gate("success", "no blocking findings")),
        (review("correct", 3), P1, Gate("success", "no blocking findings (1 note)")),
        (review("correct", 2, 3), P1, Gate("success", "no blocking findings (2 notes)")),
        (review("incorrect", 0), P1, Gate("failure", "1 blocking finding (P0)")),
        (review("incorrect", 1), P1, Gate("failure", "1 blocking finding (P1)")),
        (review("incorrect", 1, 0, 1, 3), P1, Gate("failure", "3 blocking findings (P0, P1)")),
        (review("correct", 1), P1, Gate("failure", "1 blocking finding (P1)")),  # the finding outweighs the verdict
        (review("correct", 1), 0, Gate("success", "no blocking findings (1 note)")),
        (review("correct", 3), 3, Gate("failure", "1 blocking finding (P3)")),
        (review("incorrect"), P1, Gate("failure", "verdict incorrect, without a finding")),
        (review("incorrect", 2), P1, Gate("success", "no blocking findings (1 note)")),
        (review("inconclusive"), P1, Gate("error", "the review is inconclusive")),
        (review("inconclusive", 3), P1, Gate("error", "the review is inconclusive")),
        (review("inconclusive", 0), P1, Gate("failure", "1 blocking finding (P0)")),
        (review(looked=False), P1, Gate("error", "the reviewer ran no command, so nobody looked")),
        # R18
        (
            replace(review(), nothing_to_review=True),
            P1,
            Gate("error", "nothing to review: the pull request changes no reviewable file"),
        ),
    ],
)
def test_gate_of(given: Review, block: int, expected: Gate) -> None:
    assert gate_of(given, block) == expected


def test_the_exact_texts() -> None:
    assert Gate("pending", "waiting for the Codex review") == WAITING
    assert running(1, 3) == Gate("pending", "Codex review running (attempt 1 of 3)")
    assert given_up(3, "timeout") == Gate("error", "review failed 3 times: timeout")
    assert given_up(1, "timeout").description == "review failed once: timeout"


def test_a_reason_of_any_length_and_form_is_one_line_of_at_most_140_characters() -> None:
    described = given_up(3, "turn failed:\n\n  many\twords " + "x" * 500).description
    assert described.startswith("review failed 3 times: turn failed: many words xxx")
    assert len(described) <= 140
    assert "\n" not in described
