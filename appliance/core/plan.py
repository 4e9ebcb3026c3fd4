"""The one place that decides what a cycle does with a pull request."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from appliance.core import readiness
from appliance.core.backoff import delay
from appliance.core.pulls import Policy, Pull, not_ready
from appliance.core.readiness import UNKNOWN, Standing
from appliance.core.verdict import WAITING, Gate, given_up, running


@dataclass(frozen=True)
class Record:
    """What is known of one pull request's present head and base.

    `known` is False when the forge could not be asked for our review: unknown is not "none". `gate` is what a review
    that exists, stored or posted, says; `unsure`: whether it still holds could not be told. `attempts` counts those
    used up, `reason` says why the last one failed.
    `leased`: somebody reviews it now. `undelivered`: its result waits to be posted.
    `faults`: its last so many reviews in a row ended in a fault of sandbox or workstation, the last at `faulted_at`;
    then others go first, and it waits longer each time. `standing` is what the rules of readiness ask for.
    """

    known: bool = True
    gate: Gate | None = None
    attempts: int = 0
    reason: str = ""
    leased: bool = False
    undelivered: bool = False
    unsure: bool = False
    faults: int = 0
    faulted_at: float = 0.0
    standing: Standing = UNKNOWN


@dataclass(frozen=True)
class Hold:
    """Why no review starts at all: a fault that is not any pull request's.

    `until` is in seconds of the epoch; `gate` is what those that wait show meanwhile.
    """

    reason: str
    until: float | None = None
    gate: Gate = WAITING


@dataclass(frozen=True)
class Review:
    pull: Pull
    attempt: int
    gate: Gate
    gate_while_running: Gate


@dataclass(frozen=True)
class Wait:
    pull: Pull
    reason: str
    until: float | None
    gate: Gate | None


@dataclass(frozen=True)
class Skip:
    """Nothing to do: not ready (`gate` is None: it shows none), or reviewed (`gate` is the review's)."""

    pull: Pull
    reason: str
    gate: Gate | None = None


@dataclass(frozen=True)
class GiveUp:
    pull: Pull
    reason: str
    attempts: int
    gate: Gate


Action = Review | Wait | Skip | GiveUp
REVIEWED = "reviewed"


def plan(
    pulls: Iterable[Pull],
    records: Mapping[str, Record],
    now: float,
    policy: Policy,
    hold: Hold | None = None,
) -> list[Action]:
    """One action per pull request, in the order in which they are to be carried out.

    `records` by target; `now` in seconds of the epoch. A pull request without a record is unknown, and waits.
    """
    begun: Counter[str] = Counter()  # reviews of this cycle, by author
    actions = []
    for pull in sorted(pulls, key=lambda pull: _turn(pull, records.get(pull.target, Record()), policy)):
        record = records.get(pull.target, Record(known=False))
        action = _action(pull, record, now, policy, hold, begun[readiness.author_of(pull)])
        if isinstance(action, Review):
            begun[readiness.author_of(pull)] += 1
        actions.append(action)
    return actions


def _turn(pull: Pull, record: Record, policy: Policy) -> tuple[bool, bool, float]:
    """Whose turn it is: a fault of its own last, the label first, then who has waited longest."""
    since = record.standing.waiting_since
    return record.faults > 0, not readiness.labelled(pull, policy), math.inf if since is None else since


def _action(pull: Pull, record: Record, now: float, policy: Policy, hold: Hold | None, begun: int) -> Action:
    reason = not_ready(pull, policy)
    if reason:
        return Skip(pull, reason)
    if record.gate is not None:
        if record.undelivered:
            return Wait(pull, "its review waits to be posted", None, None)
        if record.unsure:
            return Wait(pull, "whether its review still holds could not be told", None, None)
        return Skip(pull, REVIEWED, record.gate)
    if not record.known:
        return Wait(pull, "the forge did not say whether it is reviewed", None, None)
    if record.leased:
        return Wait(pull, "is being reviewed", None, None)
    if record.attempts >= policy.max_attempts:
        gate = given_up(record.attempts, record.reason)
        return GiveUp(pull, gate.description, record.attempts, gate)
    if hold and (hold.until is None or hold.until > now):
        return Wait(pull, hold.reason, hold.until, hold.gate)
    until = record.faulted_at + delay(record.faults, policy.interval, 1.0) if record.faults else now
    if until > now >= record.faulted_at:  # one of the future: the clock was set back since
        return Wait(pull, "its review ended in a fault that is not its own", until, WAITING)
    if held := readiness.held(record.standing, begun, now, policy):
        return Wait(pull, held.reason, held.until, held.gate)
    attempt = record.attempts + 1
    return Review(pull, attempt, WAITING, running(attempt, policy.max_attempts))
