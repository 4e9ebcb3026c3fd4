"""What a cycle shows on the forges: gates, and the reviews that wait to be posted."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from appliance import process
from appliance.core.faults import Fault
from appliance.core.plan import Action
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.delivery import REFUSED, Delivery, as_it_is
from appliance.failures import fault_of
from appliance.forge import ForgeError
from appliance.git import GitError
from appliance.progress import Progress
from appliance.protocols import Forge
from appliance.store import Store

log = structlog.get_logger()

PLACES = "gate-places"


@dataclass(frozen=True)
class Seen:
    """One listed pull request and its forge."""

    pull: Pull
    forge: Forge


@dataclass(frozen=True)
class Publisher:
    """Writes one thing at a time, each after a look. What a forge refuses is returned as faults, never raised."""

    store: Store
    delivery: Delivery
    forges: Sequence[Forge]
    stop: threading.Event
    progress: Progress
    by_hand: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def heed_places(self) -> None:
        """Forget what was shown in another place, as a status before there was an App: it is not there now."""
        noted: dict[str, str] = self.store.note(PLACES) or {}
        now = {forge.name: forge.gate_place for forge in self.forges}
        for forge in self.forges:
            before = noted.get(forge.name)
            if before != forge.gate_place and (before is not None or forge.check_runs):
                self.store.forget_gates_of(forge.name)
                self.store.set_note(REFUSED, {})
        if noted | now != noted:
            self.store.set_note(PLACES, noted | now)

    def show(self, listed: Mapping[str, Seen], actions: Sequence[Action]) -> list[Fault]:
        """Set the gates that changed; returns what the forge refused."""
        faults = []
        shown: dict[str, dict[tuple[str, str], Gate]] = {}
        for action in actions:
            if self.stop.is_set():
                break
            pull = action.pull
            if pull.repository not in shown:
                shown[pull.repository] = self.store.last_gates(pull.repository)
            if action.gate is None or shown[pull.repository].get((pull.target, pull.head_sha)) == action.gate:
                continue
            fault = self.set_gate(listed[pull.target], action.gate)
            faults += [fault] if fault else []
            self.progress.moved()
        return faults

    def set_gate(self, seen: Seen, gate: Gate) -> Fault | None:
        """Show a gate after a look that the pull request, and what a success is of, are still what they were."""
        try:
            with self._lock:
                now = as_it_is(seen.forge, seen.pull)
                if now.open and now.key == seen.pull.key and (gate.state != "success" or self._earned(seen)):
                    self.delivery.set_gate(seen.forge, seen.pull, gate)
        except (ForgeError, GitError) as error:
            log.warning("gate.failed", target=seen.pull.target, error=str(error))
            return fault_of(error)
        except process.Stopped:
            log.info("gate.stopped", target=seen.pull.target)
        return None

    def _earned(self, seen: Seen) -> bool:
        """Whether there is a review that gives success, and it still holds. Raises ForgeError and GitError."""
        stored = self.store.review_of(seen.pull)
        if stored is None or stored.gate.state != "success":
            return False
        return self.delivery.holds(seen.forge, seen.pull, stored)

    def deliver(self, listed: Mapping[str, Seen]) -> list[Fault]:
        """Send what waits in the outbox; what is stuck holds up no other pull request."""
        faults: list[Fault] = []
        limited: set[str] = set()
        for target in dict.fromkeys(letter.target for letter in self.store.letters()):
            seen = listed.get(target)
            if seen is None or self.stop.is_set() or _limit(seen) in limited:
                continue  # not listed now: the forge did not say that it is closed
            met = self._send(seen)
            faults += met
            if any(fault.cause == "forge-rate-limited" for fault in met):
                limited.add(_limit(seen))
            self.progress.moved()
        return faults

    def _send(self, seen: Seen) -> list[Fault]:
        try:
            with self._lock:
                return self.delivery.send(seen.forge, seen.pull, at_once=self.by_hand)
        except process.Stopped:
            log.info("delivery.stopped", target=seen.pull.target)
        except (ForgeError, GitError, TimeoutError) as error:
            log.warning("delivery.failed", target=seen.pull.target, error=str(error))
            return [fault_of(error)]
        return []

    def deliver_unlisted(self, listed: Mapping[str, Seen]) -> list[Fault]:
        """What is listed no more is asked for by name: closed, its reviews are abandoned; unknown, they wait."""
        gone: dict[str, Seen] = {}
        faults = []
        for target in dict.fromkeys(letter.target for letter in self.store.letters()):
            place = self.store.place(target)
            forge = next((forge for forge in self.forges if place and forge.name == place.forge), None)
            if target in listed or place is None or forge is None:
                continue
            try:
                gone[target] = Seen(forge.pull(place.repository, place.number), forge)
            except ForgeError as error:
                log.warning("delivery.failed", target=target, error=str(error))
                if error.cause != "forge-not-found":  # of a repository that is watched, its listing tells
                    faults.append(fault_of(error))
        return faults + self.deliver(gone)


def _limit(seen: Seen) -> str:
    """Whose limit holds: an App's installations have one for each owner."""
    owner = seen.pull.repository.partition("/")[0].casefold() if seen.forge.check_runs else ""
    return f"{seen.forge.name} {owner}"
