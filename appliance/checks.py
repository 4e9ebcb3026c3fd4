"""Looks at the checks of others, for pull requests that would be reviewed now, and not more often than is of use."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import structlog

from appliance import process
from appliance.core import readiness, verdict
from appliance.core.faults import Fault
from appliance.core.plan import Record
from appliance.core.pulls import Policy
from appliance.core.verdict import Gate
from appliance.failures import fault_of
from appliance.forge import ForgeError
from appliance.publishing import Seen
from appliance.store import Store

log = structlog.get_logger()

NOTE = "checks"
MOST = 50  # looks in one cycle; those beyond wait for the next


@dataclass
class Checks:
    """Those of one cycle. What was seen is noted with when to look again, so that a red check costs little."""

    store: Store
    policy: Policy
    clock: Callable[[], float]
    faults: list[Fault] = field(default_factory=list)
    _looks: int = 0

    def hold(self, seen: Seen, record: Record) -> Gate | None:
        """What keeps it waiting; None if all that is wanted is green. Unknown is not green."""
        pull, now = seen.pull, self.clock()
        noted: dict[str, Any] = self.store.note(NOTE) or {}
        before = noted.pop(pull.target, None)
        if before and before["head"] == pull.head_sha and before["seen"] <= now < before["again"]:
            return Gate("pending", before["gate"])
        if self._looks >= MOST:
            return verdict.checks_unknown()
        self._looks += 1
        first = record.standing.head_seen_at
        age = None if first is None else now - first
        gate = self._look(seen, age)
        if gate:
            again = readiness.next_look(gate, age, now)
            noted[pull.target] = {"head": pull.head_sha, "seen": now, "again": again, "gate": gate.description}
        if gate or before:
            self.store.set_note(NOTE, noted)
        return gate

    def _look(self, seen: Seen, age: float | None) -> Gate | None:
        try:
            found = seen.forge.checks(seen.pull)
        except ForgeError as error:
            log.warning("checks.unknown", target=seen.pull.target, error=str(error))
            self.faults.append(fault_of(error))
            return verdict.checks_unknown()
        except process.Stopped:
            return verdict.checks_unknown()
        return readiness.by_checks(self.policy.wait_for_checks, found.pending, found.failed, found.passed, age)

    def forget(self, listed: Iterable[str]) -> None:
        """What was noted of pull requests that are listed no more."""
        noted: dict[str, Any] = self.store.note(NOTE) or {}
        kept = {target: value for target, value in noted.items() if target in set(listed)}
        if kept != noted:
            self.store.set_note(NOTE, kept)
