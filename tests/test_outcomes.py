"""What counts as an attempt (DESIGN section 4)."""

import pytest

from appliance.core.outcomes import RULES, Outcome, Rule, Tally, tally

R, O, T, I, S, W, L, Q, U, F, P = (  # noqa: E741
    Outcome.REVIEWED,
    Outcome.MODEL_OUTPUT,
    Outcome.TIMEOUT,
    Outcome.INTERRUPTED,
    Outcome.SANDBOX,
    Outcome.WORKSTATION,
    Outcome.LOGIN,
    Outcome.QUOTA,
    Outcome.MODEL_UNREACHABLE,
    Outcome.FORGE_UNREACHABLE,
    Outcome.SUPERSEDED,
)

TABLE = {
    Outcome.REVIEWED: Rule(counts=True),
    Outcome.MODEL_OUTPUT: Rule(counts=True),
    Outcome.TIMEOUT: Rule(counts=True),
    Outcome.CONTEXT: Rule(counts=True),
    Outcome.TURN_FAILED: Rule(counts=True),
    Outcome.TOKEN_BUDGET: Rule(counts=True),
    Outcome.SANDBOX: Rule(stops=True, unhealthy_after=1),
    Outcome.WORKSTATION: Rule(stops=True, unhealthy_after=1),
    Outcome.LOGIN: Rule(stops=True, unhealthy_after=1, backs_off=True),
    Outcome.QUOTA: Rule(stops=True, backs_off=True),
    Outcome.DAY_BUDGET: Rule(stops=True, as_set=True),
    Outcome.MODEL_REFUSED: Rule(stops=True, unhealthy_after=1, backs_off=True),
    Outcome.MODEL_UNREACHABLE: Rule(stops=True, unhealthy_after=3, backs_off=True),
    Outcome.FORGE_UNREACHABLE: Rule(unhealthy_after=3),
    Outcome.SUPERSEDED: Rule(),
    Outcome.INTERRUPTED: Rule(),
}


def test_the_table_of_the_design() -> None:
    assert TABLE == RULES
    assert set(RULES) == set(Outcome)


@pytest.mark.parametrize(
    ("endings", "attempts"),
    [
        ([], 0),
        ([R], 1),
        ([T, O, T], 3),
        ([S, W, L, Q, U, F, P] * 5, 0),
        ([T, S, T], 2),
        ([I], 0),
        ([I, I], 0),
        ([I, I, I], 1),
        ([I] * 5, 1),
        ([I] * 6, 2),
        ([I, I, T, I, I], 1),
        ([I, I, S, I, I], 0),  # a fault in between is no third interruption in a row
        ([I, I, I, T], 2),
    ],
)
def test_only_what_is_the_pull_requests_counts(endings: list[Outcome], attempts: int) -> None:
    assert tally((outcome, "why") for outcome in endings).attempts == attempts


def test_the_reason_is_that_of_the_last_attempt_that_counted() -> None:
    assert tally([(T, "timeout"), (O, "no valid review"), (S, "sandbox")]) == Tally(2, "no valid review")
    assert tally([(T, "timeout"), (I, ""), (I, ""), (I, "")]) == Tally(2, "interrupted 3 times in a row")
