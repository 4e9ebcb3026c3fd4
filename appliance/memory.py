"""What outlives a cycle: the fault that holds up all reviews, those of single pull requests, the forges' bad days."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from appliance.core import holds
from appliance.core.faults import Fault
from appliance.core.holds import Held
from appliance.core.outcomes import RULES, Ending, Outcome
from appliance.core.pulls import Pull
from appliance.store import Store


@dataclass(frozen=True)
class Memory:
    """Kept in the store's notes. `credentials` is a digest of key and model: with others a hold is forgotten."""

    store: Store
    interval: float
    credentials: str
    clock: Callable[[], float]
    jitter: Callable[[], float]

    def note_fault(self, pull: Pull, ending: Ending) -> None:
        """Remember a fault that only this pull request's review has shown, until a review of it ends otherwise."""
        noted: dict[str, Any] = self.store.note("pull_faults") or {}
        before = noted.pop(pull.target, None)
        if ending.lasts and ending.fault:
            noted[pull.target] = {"head": pull.head_sha, "fault": asdict(ending.fault)}
        elif before is None:
            return
        self.store.set_note("pull_faults", noted)

    def lasting(self, heads: Mapping[str, str]) -> list[Fault]:
        """The faults of pull requests that still wait for another try; `heads` are the listed ones by target."""
        noted: dict[str, Any] = self.store.note("pull_faults") or {}
        return [Fault(**one["fault"]) for target, one in noted.items() if heads.get(target) == one["head"]]

    def held(self) -> Held | None:
        noted = self.store.note("held")
        if not noted or noted["credentials"] != self.credentials:
            return None
        return Held(**(noted | {"outcome": Outcome(noted["outcome"]), "fault": Fault(**noted["fault"])}))

    def after(self, ending: Ending, before: Held | None) -> Held:
        """The hold that `ending` makes of `before`."""
        return holds.held_by(ending, before, self.clock(), self.interval, self.jitter(), self.credentials)

    def remember(self, held: Held | None, ended: Sequence[Ending]) -> Held | None:
        """Forget the hold when the model worked, renew it when it did not, and count the cycles that it lasts.

        With no pull request to try it on, a hold that may have passed by itself is forgotten too.
        """
        failed = [ending for ending in ended if ending.backs_off]
        worked = [ending for ending in ended if RULES[ending.outcome].counts and not _nothing(ending)]
        if failed:
            held = self.after(failed[0], held)
        elif worked or (held and not ended and held.until <= self.clock() and holds.may_pass(held)):
            held = None
        if held:
            held = holds.one_more_cycle(held)
        self.store.set_note("held", asdict(held) if held else None)
        return held

    def forge_cycles(self) -> int:
        """How many cycles in a row a forge has refused something."""
        found: int = self.store.note("forge_cycles") or 0
        return found

    def set_forge_cycles(self, count: int) -> None:
        self.store.set_note("forge_cycles", count)


def _nothing(ending: Ending) -> bool:
    return ending.review is not None and ending.review.nothing_to_review
