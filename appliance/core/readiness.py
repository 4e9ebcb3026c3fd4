"""What keeps a pull request that could be reviewed waiting: rules that a person set. None of them is ever a verdict."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core import verdict
from appliance.core.moments import clock_time, next_day
from appliance.core.pulls import Policy, Pull
from appliance.core.verdict import Gate

ALL = "*"
APPEAR_SECONDS = 600.0  # so long after a push a check may still be on its way to its first report
LOOK_SECONDS = 60.0  # between two looks at the checks of one head
LATER_SECONDS = 600.0  # the same, of what will not be green soon: it failed, or has been running for long
SOON_GREEN = 3600.0  # after the push


@dataclass(frozen=True)
class Standing:
    """What is known of a pull request's present head, beside its reviews.

    `waiting_since` is when it began to wait for a review, `head_seen_at` when its head was first listed: both by our
    own clock, None if unknown. `asked`: somebody who may asked for this head by `/review`. `paused_by` is empty if it
    is not paused. `author_reviews` is how many reviews of its author's began today. `checks` is why those of others
    keep it waiting, None if they do not.
    """

    waiting_since: float | None = None
    head_seen_at: float | None = None
    asked: bool = False
    paused_by: str = ""
    author_reviews: int = 0
    checks: Gate | None = None


UNKNOWN = Standing()


@dataclass(frozen=True)
class Held:
    """Why it waits, until when if that is known, and what its gate shows."""

    reason: str
    until: float | None
    gate: Gate


def labelled(pull: Pull, policy: Policy) -> bool:
    """Whether it has the label for those that go first."""
    first = policy.first_label
    return first is not None and first.casefold() in {label.casefold() for label in pull.labels}


def author_of(pull: Pull) -> str:
    """By whom reviews are counted; all deleted accounts are one."""
    return pull.author.casefold()


def held(standing: Standing, planned: int, now: float, policy: Policy) -> Held | None:
    """What keeps it waiting, or None. `planned` counts the reviews of its author's that this cycle begins before.

    `/review` goes before all but the schedule: a person wants this one now, but not at night.
    """
    if not policy.schedule.open(now):
        until = policy.schedule.opens(now)
        gate = verdict.outside_schedule(clock_time(until, now) if until else "")
        return Held("outside the schedule", until, gate)
    if standing.asked:
        return None
    if standing.paused_by:
        gate = verdict.paused(standing.paused_by)
        return Held(gate.description, None, gate)
    seen = standing.head_seen_at
    # A head that was first seen in the future: the clock was set back, and nobody knows how long ago that was.
    if seen is not None and seen <= now < seen + policy.quiet_period:
        until = seen + policy.quiet_period
        return Held("quiet period after a push", until, verdict.quiet(clock_time(until, now)))
    limit = policy.reviews_per_author
    if limit and standing.author_reviews + planned >= limit:
        until = next_day(now)
        said = f"its author's limit of {limit} reviews a day is used up"
        return Held(said, until, verdict.author_limit(limit, clock_time(until, now)))
    if standing.checks:
        return Held(standing.checks.description, None, standing.checks)
    return None


def by_checks(
    wanted: Sequence[str], pending: Sequence[str], failed: Sequence[str], passed: Sequence[str], age: float | None
) -> Gate | None:
    """What the gate says while the wanted checks are not green, None if they are. `age`: seconds since the push.

    A check that has not reported is not green. With `*` those that have reported are wanted; as long as none has, some
    may be on their way, and after APPEAR_SECONDS there are none.
    """
    red, green = ({name.casefold() for name in names} for names in (failed, passed))
    running = {name.casefold() for name in pending}
    if ALL in wanted:
        if not (red or green or running) and (age is None or 0 <= age < APPEAR_SECONDS):
            return verdict.checks_unreported()
        wanted = [*wanted, *failed, *pending]
    names = [name for name in dict.fromkeys(wanted) if name != ALL]
    if bad := [name for name in names if name.casefold() in red]:
        return verdict.checks_failed(bad)
    missing = [name for name in names if name.casefold() in running or name.casefold() not in green]
    return verdict.checks_pending(missing) if missing else None


def next_look(gate: Gate, age: float | None, now: float) -> float:
    """When the checks of a head that wait are looked at again, at the earliest."""
    failed = gate.description.startswith(verdict.FAILED_CHECKS)
    soon = not failed and age is not None and 0 <= age < SOON_GREEN
    return now + (LOOK_SECONDS if soon else LATER_SECONDS)
