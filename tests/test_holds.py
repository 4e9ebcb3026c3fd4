"""Back-off after a fault that is not any pull request's."""

import pytest

from appliance.core.faults import Fault
from appliance.core.holds import Held, first, held_by, hold_of, one_more_cycle, together, unhealthy
from appliance.core.moments import clock_time
from appliance.core.outcomes import Ending, Outcome
from appliance.core.plan import Hold
from appliance.core.verdict import WAITING, Gate

NOW = 1_796_000_000.0  # 2026-11-30 00:53 UTC
FAULT = Fault("quota", "The limit is reached.", "wait.")
RESET = NOW + 3600


def ending(outcome: Outcome = Outcome.MODEL_UNREACHABLE, retry_at: float | None = None) -> Ending:
    return Ending(outcome, "why", fault=FAULT, retry_at=retry_at)


def held(outcome: Outcome = Outcome.MODEL_UNREACHABLE, tries: int = 1, cycles: int = 1, until: float = NOW) -> Held:
    return Held(outcome, FAULT, until, tries, cycles, "key")


@pytest.mark.parametrize(
    ("tries", "interval", "jitter", "delay"),
    [
        (0, 300, 0.0, 300),
        (0, 300, 1.0, 240),  # below one interval: the next cycle tries again
        (1, 300, 0.0, 600),
        (2, 300, 0.5, 1080),
        (9, 300, 0.0, 1800),
        (10_000, 300, 0.0, 1800),
        (5, 7200, 0.0, 7200),  # never shorter than the interval that was asked for
    ],
)
def test_the_delay_doubles_up_to_a_limit(tries: int, interval: float, jitter: float, delay: float) -> None:
    before = held(tries=tries) if tries else None
    now_held = held_by(ending(), before, NOW, interval, jitter, "key")
    assert now_held.until == NOW + delay
    assert now_held.tries == tries + 1


@pytest.mark.parametrize(
    ("retry_at", "until"),
    [
        (RESET, RESET),
        (NOW + 31 * 86_400, NOW + 31 * 86_400),
        (NOW - 5, NOW + 300),  # over already: still never hot
        (NOW, NOW + 300),
        (0.0, NOW + 300),
        (-1e300, NOW + 300),
        (RESET * 1000, NOW + 300),  # milliseconds
        (1e300, NOW + 300),
        (float("inf"), NOW + 300),
        (float("nan"), NOW + 300),
    ],
)
def test_when_to_come_back_is_believed_if_it_can_be_true(retry_at: float, until: float) -> None:
    now_held = held_by(ending(Outcome.QUOTA, retry_at), None, NOW, 300, 0.0, "key")
    assert now_held.until == until
    assert hold_of(now_held, NOW) is not None  # and it can be written down for people


def test_another_fault_starts_a_new_count() -> None:
    after = held_by(ending(Outcome.QUOTA), held(tries=5, cycles=9), NOW, 300, 0.0, "key")
    assert (after.tries, after.cycles) == (1, 0)
    assert held_by(ending(), held(tries=5, cycles=9), NOW, 300, 0.0, "key").cycles == 9


@pytest.mark.parametrize(
    ("outcome", "shows_after"),
    [
        (Outcome.LOGIN, 1),
        (Outcome.MODEL_REFUSED, 1),
        (Outcome.MODEL_UNREACHABLE, 3),
        (Outcome.QUOTA, 3),  # no reset was named: a matter of billing, which does not pass by itself
    ],
)
def test_health_shows_it_after_so_many_cycles(outcome: Outcome, shows_after: int) -> None:
    now_held = held(outcome, cycles=0)
    shown = [unhealthy(now_held := one_more_cycle(now_held)) for _ in range(5)]
    assert shown.count(None) == shows_after - 1
    assert unhealthy(None) is None


def test_a_usage_limit_that_names_its_reset_is_waited_for_in_good_health() -> None:
    waiting = held_by(ending(Outcome.QUOTA, NOW + 3600), None, NOW, 300, 0.0, "key")
    for _ in range(5):
        waiting = one_more_cycle(waiting)
        assert unhealthy(waiting) is None


def test_what_the_plan_is_told() -> None:
    quota = hold_of(held(Outcome.QUOTA, until=RESET), NOW)
    assert quota == Hold("quota: The limit is reached.", RESET, Gate("pending", "usage limit, next try 01:53 UTC"))
    down = hold_of(held(until=RESET), NOW)
    assert down is not None
    assert down.gate == WAITING
    assert hold_of(held(until=NOW), NOW) is None
    assert hold_of(None, NOW) is None


def test_the_day_is_told_if_it_is_not_soon() -> None:
    assert clock_time(NOW + 60, NOW) == "00:54 UTC"
    assert clock_time(NOW + 2 * 86_400, NOW) == "2026-12-02 00:53 UTC"


def test_first() -> None:
    assert first([None, FAULT, Fault("b", "", "")]) == FAULT
    assert first([None]) is None
    assert first([]) is None


def test_of_several_faults_the_first_says_how_many_more_there_are() -> None:
    second, third = (Fault("forge-refused", f"{name} cannot be read.", "mend it.") for name in ("b", "c"))
    assert together([]) is None
    assert together([FAULT, FAULT]) == FAULT, "one that was met twice is one"
    told = together([FAULT, second, FAULT, third])
    assert told is not None
    assert told.told == "The limit is reached; and 2 more (`docker logs` has all). Next: wait."
    assert told.cause == "quota"
