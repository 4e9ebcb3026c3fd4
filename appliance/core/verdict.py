"""From a review to the gate."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from appliance.core.findings import Finding, Review

MAX_DESCRIPTION = 140  # characters, GitHub's limit
MAX_TARGET = 70  # characters that are shown
GateState = Literal["pending", "success", "failure", "error"]


@dataclass(frozen=True)
class Gate:
    """A commit status: state and description (at most MAX_DESCRIPTION characters)."""

    state: GateState
    description: str


WAITING = Gate("pending", "waiting for the Codex review")
FAILED_CHECKS = "waiting for checks that failed"
NOTHING_TO_REVIEW = Gate("error", "nothing to review: the pull request changes no reviewable file")


def running(attempt: int, max_attempts: int) -> Gate:
    return Gate("pending", f"Codex review running (attempt {attempt} of {max_attempts})")


def given_up(attempts: int, reason: str) -> Gate:
    times = "once" if attempts == 1 else f"{attempts} times"
    return Gate("error", f"review failed {times}: {' '.join(reason.split())}"[:MAX_DESCRIPTION])


def usage_limit(until: str) -> Gate:
    return Gate("pending", f"usage limit, next try {until}")


def day_budget(until: str) -> Gate:
    return Gate("pending", f"token budget of the day is used up, next try {until}")


def beside(target: str) -> Gate:
    """For a commit that another pull request has too, into another branch: a status belongs to the commit."""
    short = target if len(target) <= MAX_TARGET else f"…{target[-MAX_TARGET:]}"
    return Gate("pending", f"{short} has this commit too, into another branch, and is not ready")


def paused(by: str) -> Gate:
    return _pending(f"paused by @{by}; the comment /review resume goes on")


def outside_schedule(until: str) -> Gate:
    return _pending("outside the review schedule" + (f", next try {until}" if until else ""))


def quiet(until: str) -> Gate:
    return _pending(f"pushed to a moment ago, next try {until}")


def author_limit(limit: int, until: str) -> Gate:
    return _pending(f"limit of {limit} reviews a day for its author, next try {until}")


def checks_pending(names: Iterable[str]) -> Gate:
    return _pending(f"waiting for checks: {', '.join(names)}")


def checks_failed(names: Iterable[str]) -> Gate:
    return _pending(f"{FAILED_CHECKS}: {', '.join(names)}")


def checks_unreported() -> Gate:
    return _pending("waiting for checks: none has reported yet")


def checks_unknown() -> Gate:
    return _pending("waiting for checks: the forge did not say how they stand")


def _pending(text: str) -> Gate:
    return Gate("pending", " ".join(text.split())[:MAX_DESCRIPTION])


def blocking(findings: Iterable[Finding], block_priority: int) -> list[Finding]:
    return [finding for finding in findings if finding.priority <= block_priority and not finding.advisory]


def blocks_at(review: Review, block_priority: int) -> int:
    """The priority that blocks: what held when the review was made, else the appliance's own now."""
    held = review.configuration.block_priority
    return block_priority if held is None else held


def gate_of(review: Review, block_priority: int) -> Gate:
    """What the gate shows for a finished review (DESIGN: success needs every condition). `block_priority` is for a
    review that does not say what held for it.

    A review without one successful command never gets here as a review; it is refused here once more, since this
    is the last place before the forge.
    """
    if review.nothing_to_review:
        return NOTHING_TO_REVIEW
    findings = review.result.findings
    blockers = blocking(findings, blocks_at(review, block_priority))
    if blockers:
        noun = "finding" if len(blockers) == 1 else "findings"
        priorities = ", ".join(f"P{priority}" for priority in sorted({finding.priority for finding in blockers}))
        return Gate("failure", f"{len(blockers)} blocking {noun} ({priorities})")
    if not review.evidence.commands:
        return Gate("error", "the reviewer ran no command, so nobody looked")
    if left_out := review.evidence.files_left_out:
        noun = "file" if left_out == 1 else "files"
        return Gate("error", f"{left_out} changed {noun} could not be shown to the reviewer")
    if trimmed := len(review.coverage.trimmed):
        noun = "file is" if trimmed == 1 else "files are"
        return Gate("error", f"{trimmed} changed {noun} too large to be reviewed whole; exclude or split")
    if review.result.verdict == "inconclusive":
        return Gate("error", "the review is inconclusive")
    dismissed = [each for each in review.earlier if each.state == "dismissed"]
    if review.result.verdict == "incorrect" and not findings and not any(each.reported for each in dismissed):
        return Gate("failure", "verdict incorrect, without a finding")
    notes = [f"{len(findings)} note{'s' if len(findings) > 1 else ''}"] if findings else []
    notes += [f"{len(dismissed)} dismissed"] if dismissed else []
    return Gate("success", f"no blocking findings ({', '.join(notes)})" if notes else "no blocking findings")
