"""What became of one run of one case, as a line of the results file."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from appliance.core.findings import Finding, Usage
from appliance.core.outcomes import RULES, Ending, Outcome

State = Literal["reviewed", "failed", "excluded"]

_FINDING = {one.name for one in fields(Finding)}
_USAGE = {one.name for one in fields(Usage)}


@dataclass(frozen=True)
class Run:
    """`number` counts the repetitions from 1, `digest` is that of the case. `renamed` has the new path of each file
    that the change renames, by its old one.

    "failed": the reviewer itself came to no review, so its goldens are missed. "excluded": something else kept it from
    one (a fault, a limit), and that says nothing of the reviewer.
    """

    case: str
    number: int
    digest: str
    state: State
    outcome: str
    reason: str = ""
    verdict: str = ""
    findings: tuple[Finding, ...] = ()
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int]:
        return self.case, self.number

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def state_of(ending: Ending) -> State:
    """An outcome that would cost a pull request an attempt is the reviewer's own; any other is nobody's miss."""
    if ending.review is not None:
        return "excluded" if ending.review.nothing_to_review else "reviewed"
    if ending.outcome is Outcome.REVIEWED or not RULES[ending.outcome].counts:
        return "excluded"
    return "failed"


def run_of(case: str, number: int, digest: str, ending: Ending, renamed: Mapping[str, str]) -> Run:
    review = ending.review
    told = Run(case, number, digest, state_of(ending), ending.outcome.value, ending.reason[:500], renamed=dict(renamed))
    if review is None:
        return told
    return replace(
        told,
        reason=told.reason if told.state == "excluded" else "",
        verdict=review.result.verdict,
        findings=review.result.findings,
        usage=review.usage,
        seconds=review.seconds,
    )


def read_run(told: Mapping[str, Any]) -> Run:
    """The run that a line tells of. Raises KeyError, TypeError and ValueError for what is none."""
    findings = tuple(Finding(**{key: one[key] for key in one if key in _FINDING}) for one in told["findings"])
    usage = Usage(**{key: told["usage"][key] for key in told["usage"] if key in _USAGE})
    if told["state"] not in ("reviewed", "failed", "excluded"):
        raise ValueError(f"unknown state {told['state']!r}")
    plain = {one.name: told[one.name] for one in fields(Run) if one.name not in ("findings", "usage")}
    return Run(**plain, findings=findings, usage=usage)
