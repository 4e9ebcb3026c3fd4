"""What became of an attempt, and what follows from it (DESIGN section 4)."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from appliance.core.faults import Fault
from appliance.core.findings import Review


class Outcome(StrEnum):
    REVIEWED = "reviewed"
    MODEL_OUTPUT = "model-output"
    TIMEOUT = "timeout"
    CONTEXT = "context too large"
    TURN_FAILED = "turn failed"
    TOKEN_BUDGET = "token budget"
    SANDBOX = "sandbox"
    WORKSTATION = "workstation"
    LOGIN = "login"
    QUOTA = "quota"
    DAY_BUDGET = "day budget"
    MODEL_REFUSED = "model-refused"
    MODEL_UNREACHABLE = "model-unreachable"
    FORGE_UNREACHABLE = "forge-unreachable"
    SUPERSEDED = "superseded"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Rule:
    """`counts`: it uses up an attempt. `stops`: no further review starts in this cycle.

    `unhealthy_after`: this many cycles in a row that end so turn the container unhealthy; 0 is never.
    `backs_off`: all reviews wait, longer each time, since the next would end so too. After one of FAULTS_OF_A_REVIEW
    its own pull request alone waits (`plan`), so that one that breaks the reviewer holds up no other.
    `as_set`: it is what a setting asks for, so nothing is broken, and the cycle has not failed by it.
    """

    counts: bool = False
    stops: bool = False
    unhealthy_after: int = 0
    backs_off: bool = False
    as_set: bool = False


RULES: dict[Outcome, Rule] = {
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

INTERRUPTIONS_THAT_COUNT = 3
FAULTS_OF_A_REVIEW = frozenset({Outcome.SANDBOX, Outcome.WORKSTATION})


@dataclass(frozen=True)
class Ending:
    """How an attempt ended.

    `retry_at` is in seconds of the epoch; `fault` is set for what is not the pull request's. `selftest_sees`: the
    self-test before the next cycle finds this fault or its cure, so nothing need be remembered of it.
    """

    outcome: Outcome
    reason: str
    review: Review | None = None
    fault: Fault | None = None
    retry_at: float | None = None
    selftest_sees: bool = False

    @property
    def backs_off(self) -> bool:
        return self.fault is not None and RULES[self.outcome].backs_off

    @property
    def lasts(self) -> bool:
        """Whether it is remembered with its pull request, since no self-test will tell of it."""
        return self.fault is not None and self.outcome in FAULTS_OF_A_REVIEW and not self.selftest_sees


@dataclass(frozen=True)
class Tally:
    """Attempts used up, and why the last of them failed."""

    attempts: int = 0
    reason: str = ""


def tally(endings: Iterable[tuple[Outcome, str]]) -> Tally:
    """Count the attempts of one head and base, given in their order as (outcome, reason).

    Only what is the pull request's counts; but the third interruption in a row does, so that a pull request that
    kills the appliance cannot do so for ever.
    """
    attempts, reason, interruptions = 0, "", 0
    for outcome, why in endings:
        if outcome is Outcome.INTERRUPTED:
            interruptions += 1
            if interruptions % INTERRUPTIONS_THAT_COUNT == 0:
                attempts, reason = attempts + 1, f"interrupted {INTERRUPTIONS_THAT_COUNT} times in a row"
            continue
        interruptions = 0
        if RULES[outcome].counts:
            attempts, reason = attempts + 1, why
    return Tally(attempts, reason)
