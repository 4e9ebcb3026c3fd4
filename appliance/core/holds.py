"""Back-off after a fault that is not any pull request's: pure arithmetic over what is remembered between cycles."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from appliance.core.backoff import delay
from appliance.core.faults import Fault
from appliance.core.moments import clock_time
from appliance.core.outcomes import RULES, Ending, Outcome
from appliance.core.plan import Hold
from appliance.core.verdict import WAITING, usage_limit

MAX_TOLD = 32 * 86_400.0  # no limit lasts longer than a month: an API that says so means milliseconds
QUOTA_CYCLES = 3


@dataclass(frozen=True)
class Held:
    """The fault that keeps reviews from starting, as it is remembered.

    `tries` counts the reviews that ended so, `cycles` the cycles in a row that it held up; `until` is in seconds of
    the epoch, `told` if the other side named it; `credentials` tells with which key and model it happened: with others
    it is forgotten.
    """

    outcome: Outcome
    fault: Fault
    until: float
    tries: int
    cycles: int
    credentials: str
    told: bool = False


def held_by(ending: Ending, before: Held | None, now: float, interval: float, jitter: float, credentials: str) -> Held:
    """What to remember of `ending`, whose rule backs off.

    What the API said of when to come back goes before our own back-off, if it can be true.
    """
    assert ending.fault is not None
    again = before is not None and before.outcome is ending.outcome
    tries = before.tries + 1 if before and again else 1
    told = ending.retry_at if ending.retry_at and now < ending.retry_at <= now + MAX_TOLD else None
    until = told or now + delay(tries, interval, jitter)
    cycles = before.cycles if before and again else 0
    return Held(ending.outcome, ending.fault, until, tries, cycles, credentials, told is not None)


def one_more_cycle(held: Held) -> Held:
    return replace(held, cycles=held.cycles + 1)


def unhealthy(held: Held | None) -> Fault | None:
    """The fault, if it has held up enough cycles to show in the container's health."""
    if held is None:
        return None
    after = RULES[held.outcome].unhealthy_after
    if held.outcome is Outcome.QUOTA and not held.told:
        after = QUOTA_CYCLES  # a limit without a reset is a matter of billing: it does not pass by itself
    return held.fault if after and held.cycles >= after else None


def may_pass(held: Held) -> bool:
    """Whether it can have passed without a person's doing."""
    return held.outcome not in (Outcome.LOGIN, Outcome.MODEL_REFUSED)


def lifted(held: Held | None, now: float) -> Held | None:
    """For a cycle that a person runs, who may have mended it: the wait is over, unless the other side named its end."""
    if held is None or held.told:
        return held
    return replace(held, until=min(held.until, now))


def again(held: Held, now: float) -> str:
    """When it is tried again, and how a person has it tried at once."""
    when = clock_time(held.until, now)
    if held.told:
        return f"It is not asked again until {when}; `appliance retry TARGET` asks with the next cycle."
    if held.until <= now:
        return "The next cycle tries again; `appliance cycle` is one now."
    return f"It is tried again at {when}; `appliance cycle` tries at once."


def hold_of(held: Held | None, now: float) -> Hold | None:
    """What the plan is told, while the back-off lasts; longer than any limit it does not: the clock was set back."""
    if held is None or not now < held.until <= now + MAX_TOLD:
        return None
    until = clock_time(held.until, now)
    gate = usage_limit(until) if held.outcome is Outcome.QUOTA else WAITING
    return Hold(f"{held.fault.cause}: {held.fault.sentence}", held.until, gate)


def first(faults: Iterable[Fault | None]) -> Fault | None:
    return next((fault for fault in faults if fault is not None), None)


def together(faults: Sequence[Fault]) -> Fault | None:
    """The first, which says how many others there are: health and cycle have one line."""
    if not faults:
        return None
    more = len({(fault.cause, fault.sentence) for fault in faults}) - 1
    if not more:
        return faults[0]
    sentence = f"{faults[0].sentence.removesuffix('.')}; and {more} more (`docker logs` has all)."
    return replace(faults[0], sentence=sentence)
