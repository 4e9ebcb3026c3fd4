"""One cycle: self-test, collect, plan, gates, reviews, delivery. It carries out what `core` decides."""

import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import cached_property

import structlog
from sqlalchemy.exc import SQLAlchemyError

from appliance import process
from appliance.board import Board
from appliance.checks import Checks
from appliance.core import budget, holds
from appliance.core.faults import Fault, full_stop
from appliance.core.holds import Held
from appliance.core.moments import clock_time
from appliance.core.outcomes import RULES, Ending, Outcome
from appliance.core.plan import REVIEWED, Action, GiveUp, Hold, Record, Review, Skip, Wait, plan
from appliance.core.pulls import Policy, Pull, not_ready
from appliance.core.steps import Step
from appliance.delivery import Delivery, as_it_is
from appliance.dismissals import Dismissals
from appliance.failures import fault_of
from appliance.forge import ForgeError
from appliance.git import GitError
from appliance.keeping import Keeper, Kept
from appliance.memory import Memory
from appliance.progress import Progress
from appliance.protocols import Forge
from appliance.publishing import Publisher, Seen
from appliance.reviewing import Reviewer, workstation_ending
from appliance.slash import Slash
from appliance.standing import Standing
from appliance.store import PullState, Store

log = structlog.get_logger()

WATCH_SECONDS = 30.0
FORGE_CYCLES_UNTIL_UNHEALTHY = 3
BASE_LOOK_SECONDS = 3600.0


@dataclass(frozen=True)
class Result:
    """What a cycle came to. `fault` is the first that was met, `unhealthy` the one that the health shows.

    `again` tells when reviews that all wait are tried again, and how a person has them tried sooner.
    """

    fault: Fault | None
    unhealthy: Fault | None
    pulls: int
    reviewed: int
    again: str = ""

    @property
    def failed(self) -> bool:
        return self.fault is not None


@dataclass
class Running:
    """A review under way: its own stop, and whether that was because the pull request moved on."""

    seen: Seen
    stop: threading.Event = field(default_factory=threading.Event)
    superseded: bool = False


@dataclass(frozen=True)
class Cycle:
    """Everything a cycle works with. `selftest` and `reviewer` can be replaced by a test.

    What the reviewer gives to the keeper is stored while its work directory is still there.

    `credentials` is a digest of key and model: a fault of the login is forgotten when it changes. `no_login` is the
    fault of having none at all. `tokens_per_day` is the budget of the day, 0 for none. `on_health` is told what the
    health is to show, as soon as it is known.

    `by_hand`: a person runs it, who may have mended what made reviews wait. They are tried once, and wait on if it is
    not so; only a wait whose end the model's API named, and a budget, stay.
    """

    store: Store
    forges: Sequence[Forge]
    policy: Policy
    delivery: Delivery
    reviewer: Reviewer
    keeper: Keeper
    selftest: Callable[[], Fault | None]
    owner: str
    alive: Callable[[str], bool]
    interval: float
    reviews_at_once: int
    credentials: str
    standing: Standing
    no_login: Fault | None = None
    tokens_per_day: int = 0
    by_hand: bool = False
    stop: threading.Event = field(default_factory=threading.Event)
    on_health: Callable[[Fault | None, int, str], None] = lambda _fault, _pulls, _waiting: None
    progress: Progress = field(default_factory=Progress)
    board: Board = field(default_factory=lambda: Board(None))
    clock: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random

    @cached_property
    def _memory(self) -> Memory:
        return Memory(self.store, self.interval, self.credentials, self.clock, self.jitter)

    @cached_property
    def _publisher(self) -> Publisher:
        return Publisher(self.store, self.delivery, self.forges, self.stop, self.progress, self.by_hand)

    def run(self) -> Result:
        """One cycle, to its end. A fault ends reviews, never the cycle: gates are still set and results delivered."""
        self.progress.running = True
        self.progress.moved()
        try:
            return self._run()
        finally:
            self.progress.running = False

    def _run(self) -> Result:
        fault = self.selftest()
        if fault:
            log.error("selftest.failed", cause=fault.cause, sentence=fault.sentence, next=fault.remedy)
        # One cycle at a time: what this process still holds from an earlier one is held by nobody.
        for target in self.store.reclaim(lambda owner: owner != self.owner and self.alive(owner)):
            log.warning("attempt.interrupted", target=target)
        earlier_streak = self._memory.forge_cycles()
        self._publisher.heed_places()
        listed, moved, forge_faults = self._collect()
        heads = {target: seen.pull.head_sha for target, seen in listed.items()}
        held = self._memory.held()
        shown = holds.first([self._unhealthy(fault, forge_faults, held, earlier_streak), *self._memory.lasting(heads)])
        self.on_health(shown, len(listed), self._waits(self._lifted(held), forge_faults))
        forge_faults += self._commands(listed)
        forge_faults += self._publisher.deliver(listed) + self._publisher.deliver_unlisted(listed)
        planned, unasked = self._plan(listed, moved, fault, self._lifted(held))
        forge_faults += unasked
        forge_faults += self._publisher.show(listed, planned)
        ended = self._review([action for action in planned if isinstance(action, Review)], listed)
        held = self._memory.remember(held, ended)
        met = [ending.fault for ending in ended if ending.fault and not RULES[ending.outcome].as_set]
        forge_faults += [found for found in met if found.cause.startswith("forge-")]
        self._memory.set_forge_cycles(earlier_streak + 1 if forge_faults else 0)
        lasting = self._memory.lasting(heads)
        at_once = [ending.fault for ending in ended if RULES[ending.outcome].unhealthy_after == 1]
        away, waits = holds.together(forge_faults), held.fault if held else None
        told = holds.first([fault, *met, away, waits, self.no_login, *lasting])
        result = Result(
            fault=told,
            unhealthy=holds.first([self._unhealthy(fault, forge_faults, held, earlier_streak), *at_once, *lasting]),
            pulls=len(listed),
            reviewed=sum(ending.outcome is Outcome.REVIEWED for ending in ended),
            again=self._again(told, held),
        )
        self.on_health(result.unhealthy, result.pulls, self._waits(held, forge_faults))
        return result

    # ---- collecting

    def _collect(self) -> tuple[dict[str, Seen], set[str], list[Fault]]:
        """All listed pull requests by target, the repositories where something changed, and what kept one from being
        listed."""
        listed: dict[str, Seen] = {}
        moved = set()
        faults = []
        watched: dict[str, list[str] | None] = {}
        for forge in self.forges:
            watched[forge.name] = None  # unknown is not "none"
            try:
                names = watched[forge.name] = forge.repositories()
            except ForgeError as error:
                faults.append(fault_of(error))
                continue
            for name in names:
                if self.stop.is_set():
                    break
                try:
                    pulls = forge.pulls(name)
                except ForgeError as error:
                    log.warning("collect.failed", repository=name, error=str(error))
                    faults.append(fault_of(error))
                    continue
                if self.store.seen(forge.name, name, pulls):
                    moved.add(name)
                listed |= {pull.target: Seen(pull, forge) for pull in pulls}
                self.progress.moved()
        self.store.forget_unwatched(watched)
        if self.policy.wait_for_checks and not faults:
            Checks(self.store, self.policy, self.clock).forget(listed)
        return listed, moved, faults

    def _commands(self, listed: Mapping[str, Seen]) -> list[Fault]:
        """Carry out what people ask for in comments; the answers go out with the next delivery."""
        if self.delivery.keep:  # which comments are ours cannot be told
            return []
        slash = Slash(
            self.store,
            self.policy,
            self.delivery.key,
            self.delivery.block_priority,
            self.stop.is_set,
            self.progress.moved,
        )
        return slash.read(listed)

    # ---- deciding

    def _plan(
        self, listed: Mapping[str, Seen], moved: Collection[str], fault: Fault | None, held: Held | None
    ) -> tuple[list[Action], list[Fault]]:
        """What is to be done, and what kept a forge from saying whether something is reviewed."""
        pulls = [seen.pull for seen in listed.values()]
        learnt, faults = self._learn(listed)
        faults += self._decisions(listed)
        unsure, more = self._held_against_base(listed, moved)
        faults += more
        records = self._with_readiness(pulls, self.store.records(pulls))
        records |= {
            target: replace(records[target], known=False) for target, found in learnt.items() if not found.known
        }
        records |= {target: replace(records[target], unsure=True) for target in unsure}
        due = {target: replace(record, faulted_at=0.0) for target, record in records.items()}
        actions, more = self._planned(listed, due if self.by_hand else records, self._hold(fault, held))
        faults += more
        self._note_states(actions, records)
        return actions, faults

    def _learn(self, listed: Mapping[str, Seen]) -> tuple[dict[str, Record], list[Fault]]:
        """Ask the forges for reviews of ours that the database does not have, where something changed since."""
        pulls = [seen.pull for seen in listed.values() if not not_ready(seen.pull, self.policy)]
        unsure = self.store.unsure(pulls)
        unknown = set()
        faults: list[Fault] = []
        for pull in unsure:
            fault = None if self.stop.is_set() else self.delivery.learn(listed[pull.target].forge, pull)
            if fault or self.stop.is_set():
                unknown.add(pull.target)
            faults += [fault] if fault else []
            self.progress.moved()
        learnt = self.store.records(unsure)
        return {target: replace(record, known=target not in unknown) for target, record in learnt.items()}, faults

    def _decisions(self, listed: Mapping[str, Seen]) -> list[Fault]:
        """Do what people decided of findings, and say so; the gates that change are shown with the others."""
        if self.delivery.keep:  # which conversations are ours cannot be told
            return []
        dismissals = Dismissals(
            self.store,
            self.policy,
            self.delivery.key,
            self.delivery.block_priority,
            self.stop.is_set,
            self.progress.moved,
        )
        dismissals.read(listed)
        return dismissals.faults + self._publisher.deliver({it: listed[it] for it in dismissals.changed})

    def _held_against_base(self, listed: Mapping[str, Seen], moved: Collection[str]) -> tuple[set[str], list[Fault]]:
        """End reviews that hold no longer with the base branch as it is; returns where that could not be told, and why.

        A branch is asked for when its repository's listing changed, when something is to be held against it, and after
        BASE_LOOK_SECONDS: a listing does not tell of a push to a base branch.
        """
        reviewed = self.store.records([seen.pull for seen in listed.values() if not not_ready(seen.pull, self.policy)])
        standing = [listed[target] for target, record in reviewed.items() if record.gate and not record.undelivered]
        groups: dict[tuple[str, str], list[Seen]] = {}
        for seen in standing:
            groups.setdefault((seen.pull.repository, seen.pull.base_ref), []).append(seen)
        checked = self.store.bases_checked([seen.pull for seen in standing])
        unsure: set[str] = set()
        faults: list[Fault] = []
        for (repository, _), group in groups.items():
            one = group[0]
            since = self.clock() - BASE_LOOK_SECONDS
            tip = None if repository in moved else self.store.base_tip(one.pull, since)
            if tip and all(checked[seen.pull.target] == self._against(seen.pull, tip) for seen in group):
                continue
            try:
                tip = one.forge.base_tip(one.pull)
                self.store.set_base_tip(one.pull, tip)
            except (ForgeError, process.Stopped) as error:
                unsure |= {seen.pull.target for seen in group}
                faults += [fault_of(error)] if isinstance(error, ForgeError) else []
                continue
            for seen in group:
                if checked[seen.pull.target] == self._against(seen.pull, tip):
                    continue
                fault = self._hold_against(seen, tip)
                if fault is not None or self.stop.is_set():
                    unsure.add(seen.pull.target)
                faults += [fault] if fault else []
                self.progress.moved()
        return unsure, faults

    def _against(self, pull: Pull, tip: str) -> str:
        """With which of these a review was held against its base; when one differs, it is held anew."""
        return f"{pull.head_sha} {pull.base_ref} {pull.base_sha} {tip} {self.standing.settings}"

    def _hold_against(self, seen: Seen, tip: str) -> Fault | None:
        """Hold one review against its base branch; a fault if that could not be done."""
        pull, stored = seen.pull, self.store.review_of(seen.pull)
        if stored is None:
            return None
        try:
            reason = self.standing.why_stale(seen.forge, pull, stored, tip)
        except (ForgeError, GitError) as error:
            log.warning("review.unsure", target=pull.target, error=str(error))
            return fault_of(error)
        except process.Stopped:
            return None
        if reason:
            self.store.stale(stored.id, reason)
            log.info("review.stale", target=pull.target, head=pull.head_sha, reason=reason)
        else:
            self.store.set_base_checked(pull, self._against(pull, tip))
        return None

    def _planned(
        self, listed: Mapping[str, Seen], records: Mapping[str, Record], hold: Hold | None
    ) -> tuple[list[Action], list[Fault]]:
        """The plan, after a look at the checks of what would be reviewed now: who waits for them makes room."""
        known, checks, looked = dict(records), Checks(self.store, self.policy, self.clock), set[str]()
        now, pulls = self.clock(), [seen.pull for seen in listed.values()]
        while True:
            actions = plan(pulls, known, now, self.policy, hold)
            next_ = [it.pull.target for it in actions if isinstance(it, Review) and it.pull.target not in looked]
            if not self.policy.wait_for_checks or not next_:
                return actions, checks.faults
            looked.update(next_)
            for target in next_:
                record, seen = known[target], listed[target]
                if not record.standing.asked and seen.forge.inline:  # a local folder has no checks
                    gate = checks.hold(seen, record)
                    known[target] = replace(record, standing=replace(record.standing, checks=gate))
                self.progress.moved()

    def _with_readiness(self, pulls: Sequence[Pull], records: Mapping[str, Record]) -> dict[str, Record]:
        """The records with what the rules of readiness ask for."""
        found = self.store.standings(pulls)
        return {target: replace(record, standing=found[target]) for target, record in records.items()}

    def _hold(self, fault: Fault | None, held: Held | None) -> Hold | None:
        stopping = fault or self.no_login
        if stopping:
            return Hold(f"{stopping.cause}: {stopping.sentence}")
        return self._waiting(held)

    def _lifted(self, held: Held | None) -> Held | None:
        return holds.lifted(held, self.clock()) if self.by_hand else held

    def _again(self, fault: Fault | None, held: Held | None) -> str:
        if held is not None and fault == held.fault:
            return holds.again(held, self.clock())
        waits = fault is None and budget.hold_of(self.store.spent(), self.tokens_per_day, self.clock())
        return str(budget.day_fault(self.tokens_per_day)) if waits else ""

    def _waiting(self, held: Held | None) -> Hold | None:
        """What passes by itself and holds up all reviews: of two the one that lasts longer."""
        now = self.clock()
        both = (holds.hold_of(held, now), budget.hold_of(self.store.spent(), self.tokens_per_day, now))
        return max((hold for hold in both if hold), key=lambda hold: hold.until or now, default=None)

    def _note_states(self, actions: Sequence[Action], records: Mapping[str, Record]) -> None:
        self.store.set_states([_state(action, records[action.pull.target]) for action in actions])

    def _waits(self, held: Held | None, forge_faults: Sequence[Fault]) -> str:
        """What goes wrong although the appliance is well: a usage limit, a model or forge that is away for a moment."""
        away = holds.together(forge_faults)
        told = [f"{away.cause}: {full_stop(away.sentence)}"] if away else []
        hold = self._waiting(held)
        if hold is not None and hold.until is not None:
            told.append(f"{full_stop(hold.reason)} Next try {clock_time(hold.until, self.clock())}.")
        return " ".join(told)

    # ---- reviewing

    def _review(self, actions: Sequence[Review], listed: Mapping[str, Seen]) -> list[Ending]:
        """Review up to `reviews_at_once` at a time; after an ending that stops the cycle no further one starts."""
        waiting = list(actions)
        watched_at = time.monotonic()
        running: dict[Future[Ending], Running] = {}
        ended: list[Ending] = []
        with ThreadPoolExecutor(self.reviews_at_once, thread_name_prefix="review") as pool:
            while waiting or running:
                stopping = self.stop.is_set() or any(RULES[ending.outcome].stops for ending in ended)
                stopping = stopping or not self.policy.schedule.open(self.clock())  # it has closed meanwhile
                while waiting and len(running) < self.reviews_at_once and not stopping:
                    action = waiting.pop(0)
                    run = Running(listed[action.pull.target])
                    running[pool.submit(self._attempt, action, run)] = run
                if not running:
                    break
                done, _ = wait(running, timeout=self._watch_seconds(), return_when=FIRST_COMPLETED)
                for future in done:
                    ending = future.result()
                    self._memory.note_fault(running.pop(future).seen.pull, ending)
                    ended.append(ending)
                if time.monotonic() - watched_at >= self._watch_seconds() and not self.stop.is_set():
                    self._watch(running.values())
                    watched_at = time.monotonic()
        return ended

    def _watch_seconds(self) -> float:
        return 0.2 if self.stop.is_set() else min(WATCH_SECONDS, self.interval)

    def _watch(self, running: Iterable[Running]) -> None:
        """End reviews of what has moved on meanwhile. A forge that does not answer ends nothing."""
        for run in running:
            try:
                now = as_it_is(run.seen.forge, run.seen.pull)
            except (ForgeError, process.Stopped):
                continue
            if not now.open or now.key != run.seen.pull.key:
                run.superseded = True
                run.stop.set()

    def _attempt(self, action: Review, run: Running) -> Ending:
        """One attempt, from the lease to the delivery. What goes wrong in the review is how it ended."""
        pull = run.seen.pull
        attempt = self.store.begin_attempt(pull, self.owner)
        if attempt is None:
            return Ending(Outcome.SUPERSEDED, "somebody else reviews it")
        log.info("review.start", target=pull.target, head=pull.head_sha, attempt=action.attempt)
        kept = self.keeper.of(attempt, self.owner)
        ending = self._guarded(action, run, kept)
        self.progress.moved()
        if ending.review is not None:
            gate = kept.stored(ending.review)
            log.info(
                "review.done",
                target=pull.target,
                verdict=ending.review.result.verdict,
                gate=gate.description,
                findings=len(ending.review.result.findings),
                seconds=round(ending.review.seconds, 1),
                rehearsal=ending.review.rehearsal,
            )
            unposted = self._publisher.deliver({pull.target: run.seen})
            ending = replace(ending, fault=holds.first(unposted))
        else:
            self.store.end_attempt(attempt, ending.outcome, ending.reason)
            log.warning(
                "review.failed",
                target=pull.target,
                outcome=ending.outcome.value,
                reason=ending.reason,
                counts=RULES[ending.outcome].counts,
                **({"cause": ending.fault.cause, "next": ending.fault.remedy} if ending.fault else {}),
            )
        if not self.stop.is_set():
            self._settle(run.seen, ending)
        return ending

    def _guarded(self, action: Review, run: Running, kept: Kept) -> Ending:
        pull = run.seen.pull
        try:
            threading.Thread(target=_hand_on, args=(self.stop, run.stop), daemon=True).start()
            tries = (action.attempt, self.policy.max_attempts)
            with self.board.shown(pull.target, kept.attempt, kept.owner, *tries) as shown:
                self._publisher.set_gate(run.seen, action.gate_while_running)
                return self.reviewer.review(
                    pull,
                    run.seen.forge.source(pull),
                    stop=run.stop,
                    progress=lambda step: self._moved(step, shown),
                    keep=kept.keep,
                )
        except process.Stopped:
            if run.superseded:
                return Ending(Outcome.SUPERSEDED, "the pull request moved on")
            return Ending(Outcome.INTERRUPTED, "the appliance was stopped")
        except ForgeError as error:
            return Ending(Outcome.FORGE_UNREACHABLE, str(error)[:300], fault=fault_of(error))
        except SQLAlchemyError as error:
            # A result that could not be stored waits in its directory; the next cycle takes it up or fails as this did.
            return replace(workstation_ending(error), selftest_sees=True)
        except Exception as error:  # noqa: BLE001  (the one boundary: a defect of ours must not look like the pull's)
            return workstation_ending(error)
        finally:
            run.stop.set()

    def _moved(self, step: Step, shown: Callable[[Step], None]) -> None:
        self.progress.moved()
        shown(step)
        if step.said:
            log.debug("review.progress", at=step.said)

    def _settle(self, seen: Seen, ending: Ending) -> None:
        """After an attempt: what the plan now says of this pull request is what its gate shows."""
        held = self._memory.held()
        held = self._memory.after(ending, held) if ending.backs_off else self._lifted(held)
        records = self._with_readiness([seen.pull], self.store.records([seen.pull]))
        rule = RULES[ending.outcome]
        fault = ending.fault if rule.stops and not ending.backs_off and not rule.as_set else None
        actions = plan([seen.pull], records, self.clock(), self.policy, self._hold(fault, held))
        self._note_states(actions, records)
        for action in actions:
            if action.gate is not None and self.store.last_gate(seen.pull) != action.gate:
                self._publisher.set_gate(seen, action.gate)

    def _unhealthy(
        self, fault: Fault | None, forge_faults: Sequence[Fault], held: Held | None, earlier_streak: int
    ) -> Fault | None:
        """The fault that the health shows: what a person must mend at once, the rest after some cycles in a row."""
        lasting = earlier_streak + 1 >= FORGE_CYCLES_UNTIL_UNHEALTHY
        told = [found for found in forge_faults if lasting or found.facts.get("permanent")]
        return holds.first([fault, self.no_login, holds.unhealthy(held), holds.together(told)])


def _state(action: Action, record: Record) -> PullState:
    """The line of `appliance status` for one action."""
    reason, until = "", None
    match action:
        case Review():
            state, reason = "waiting", "next in line"
        case Wait():
            state, reason, until = "waiting", action.reason, action.until
        case GiveUp():
            state = "given-up"
            reason = f"{action.reason}; `appliance retry {action.pull.target}` starts over"
        case Skip(reason=why, gate=None):
            state, reason = "skipped", why
        case Skip(gate=gate):
            state, reason = REVIEWED, gate.description if gate else ""
    return PullState(action.pull.target, state, record.attempts, reason, until)


def _hand_on(from_: threading.Event, to: threading.Event) -> None:
    """Set `to` when `from_` is set; ends when `to` is."""
    while not to.wait(0.1):
        if from_.is_set():
            to.set()
