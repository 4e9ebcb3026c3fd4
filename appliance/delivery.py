"""Sends what waits in the outbox, and shows gates. Only the sending is ever retried, never the review.

Whatever ends this process between two statements: a letter is stored with what it is for, noted as tried before it is
sent, and as sent after. One that may have landed is looked for before it is sent once more.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from appliance import redaction
from appliance.check_report import report_of
from appliance.core import marker as markers
from appliance.core.faults import Fault
from appliance.core.inline import ReviewEvents
from appliance.core.outbox import REFUSED_DELAY, Abandon, Letter, after
from appliance.core.pulls import Pull
from appliance.core.report import CommentMode
from appliance.core.verdict import MAX_DESCRIPTION, Gate, beside
from appliance.failures import fault_of
from appliance.forge import ForgeError, Report
from appliance.git import GitError
from appliance.protocols import Forge
from appliance.senders import KINDS, Desk, Sent
from appliance.standing import Standing
from appliance.store import Store, StoredReview

log = structlog.get_logger()

LANDING_SECONDS = 10.0  # so long what was sent, and whose answer nobody heard, may still appear
REFUSED = "refused-gates"


@dataclass(frozen=True)
class Delivery:
    """`key` signs our markers; `block_priority` is the number of the priority that blocks.

    `keep`: a gate that is there is left alone, since this process cannot read which reviews are ours. `alone` keeps
    other processes from posting meanwhile: the loop would post what `review --post` has just stored. `pause` waits for
    so many seconds, or until the appliance stops.
    """

    store: Store
    key: bytes
    block_priority: int
    standing: Standing
    events: ReviewEvents = "comment"
    comments: CommentMode = "new"
    max_rounds: int = 0
    keep: bool = False
    alone: Callable[[], AbstractContextManager[object]] = nullcontext
    pause: Callable[[float], object] = lambda _seconds: None
    clock: Callable[[], float] = time.time

    def deliver(self, forge: Forge, stored: StoredReview, pull: Pull) -> bool:
        """Post one stored review of `pull` now; False if the pull request moved on and the review is abandoned.

        Raises ForgeError; what could not be sent waits in the outbox.
        """
        with self.alone():
            faults = self._send(forge, pull, at_once=True) if self._waits(stored) else []
            if self._waits(stored):
                raise _error_of(faults)
        standing = self.store.review_of(pull)  # another process may have been first: the loop, or `review --post`
        return standing is not None and standing.id == stored.id

    def _waits(self, stored: StoredReview) -> bool:
        return any(waiting.id == stored.id for waiting in self.store.undelivered())

    def send(self, forge: Forge, pull: Pull, *, at_once: bool = False) -> list[Fault]:
        """Send what waits of one pull request, each after a look; returns what keeps it from being sent.

        Of each review one after the other; what is stuck holds up no other review, and nothing that has none.
        `at_once`: what failed is tried again before its time.
        """
        with self.alone():
            return self._send(forge, pull, at_once=at_once)

    def _send(self, forge: Forge, pull: Pull, *, at_once: bool) -> list[Fault]:
        faults: list[Fault] = []
        stuck: set[str] = set()
        for letter in self.store.letters(pull.target):
            lane = letter.key if letter.review is None else f"review {letter.review}"
            if lane in stuck:
                continue
            # Longer than any wait: the clock was set back since.
            if 0 < letter.next_try - self.clock() <= REFUSED_DELAY and not at_once:
                fault = Fault(**letter.error) if letter.error else None
                stuck.add(lane)
            else:
                fault, gone_on = self._try(forge, pull, letter)
                if not gone_on:
                    stuck.add(lane)
            faults += [fault] if fault else []
            if fault and fault.cause == "forge-rate-limited":
                break  # all writes to this forge wait
        return faults

    def _try(self, forge: Forge, pull: Pull, letter: Letter) -> tuple[Fault | None, bool]:
        """What kept the letter from being sent, and whether those behind it may go.

        A look that fails is no try of the letter: nothing was written.
        """
        try:
            desk = self._desk(forge, pull, letter)
            if desk is None:
                return None, False
        except (ForgeError, GitError) as error:
            log.warning("delivery.failed", target=letter.target, kind=letter.kind, error=str(error))
            return fault_of(error), False
        try:
            sent = self._found(desk, letter)
            if sent is None:
                self.store.try_letter(letter)
                sent = KINDS[letter.kind].send(desk, letter)
        except ForgeError as error:
            return self._refused(letter, error)
        self._note_sent(desk, letter, sent)
        return None, True

    def _desk(self, forge: Forge, pull: Pull, letter: Letter) -> Desk | None:
        """What the letter is sent with, after a look that its review still holds; None if it does not."""
        now = as_it_is(forge, pull)
        stored = None
        if letter.review is not None:
            stored = self.store.review(letter.review)
            if stored is None or not self._still(forge, now, stored):
                return None
        return self._desk_of(forge, now, stored, lambda gate: self.set_gate(forge, now, gate, letter))

    def _desk_of(self, forge: Forge, pull: Pull, stored: StoredReview | None, show: Callable[[Gate], None]) -> Desk:
        return Desk(
            forge=forge,
            pull=pull,
            store=self.store,
            key=self.key,
            block_priority=self.block_priority,
            events=self.events,
            comments=self.comments,
            max_rounds=self.max_rounds,
            show=show,
            stored=stored,
        )

    def _found(self, desk: Desk, letter: Letter) -> Sent | None:
        """What is there of it, if an earlier try landed; one of a moment ago is given time to."""
        landed = KINDS[letter.kind].landed
        if letter.tried_at is None or landed is None:
            return None
        found = landed(desk, letter)
        left = letter.tried_at + LANDING_SECONDS - self.clock()
        if found is None and left > 0:
            self.pause(min(left, LANDING_SECONDS))
            found = landed(desk, letter)
        return found

    def _refused(self, letter: Letter, error: ForgeError) -> tuple[Fault, bool]:
        fault = fault_of(error)
        told = {"cause": fault.cause, "sentence": fault.sentence, "remedy": fault.remedy, "facts": dict(fault.facts)}
        then = after(
            error.cause,
            permanent=error.permanent,
            vital=KINDS[letter.kind].vital,
            tries=letter.tries + 1,
            now=self.clock(),
        )
        log.warning("delivery.failed", target=letter.target, kind=letter.kind, error=str(error))
        if isinstance(then, Abandon):
            self.store.abandon_letter(letter, told)
            return fault, True
        self.store.letter_refused(letter, told, then.at, landed=then.landed)
        return fault, False

    def _note_sent(self, desk: Desk, letter: Letter, sent: Sent) -> None:
        if letter.kind != "gate":
            self.store.letter_sent(letter, sent.id, sent.url)
            return
        stored, review = desk.review
        self.store.note_findings(review)
        self.store.delivered(stored.id, stored.comment_id or "", stored.comment_url or "")
        log.info("review.posted", target=stored.target, gate=stored.gate.description, url=stored.comment_url)

    def _still(self, forge: Forge, pull: Pull, stored: StoredReview) -> bool:
        """Whether the pull request is still what was reviewed: looked at before each write. If not, it is abandoned.

        Raises ForgeError, and GitError: while it is unknown, nothing is written.
        """
        if not pull.open or pull.key != (stored.head_sha, stored.base_ref):
            self.store.abandon(stored.id)
            log.info("delivery.abandoned", target=stored.target, head=stored.head_sha)
            return False
        return self.holds(forge, pull, stored)

    def holds(self, forge: Forge, pull: Pull, stored: StoredReview) -> bool:
        """Whether a review of this head and base branch holds with the base as it is; if not, it is to be made anew.

        Raises ForgeError and GitError: then it is unknown.
        """
        reason = self.standing.why_stale(forge, pull, stored)
        if reason:
            self.store.stale(stored.id, reason)
            log.info("review.stale", target=stored.target, head=stored.head_sha, reason=reason)
        return not reason

    def set_gate(self, forge: Forge, pull: Pull, gate: Gate, letter: Letter | None = None) -> None:
        """Show `gate`, if it is not what was last shown. Raises ForgeError.

        A status belongs to the commit, and another pull request may have the same, into another base: green is shown
        if it is for all of them, else the worst; and what overwrote theirs is told to the next cycle.
        What the database does not know, the forge is asked for: a lost database writes nothing twice. While the forge
        does not say, green waits; anything else is written all the same, for a green one may be what is there.
        The gate of a review, which `letter` is for, waits until it is known what became of its last try.
        """
        gate = Gate(gate.state, redaction.say(gate.description)[:MAX_DESCRIPTION])
        if gate.state == "success":
            gate = self.store.beside(pull) or gate
        shown = self.store.last_gate(pull)
        if gate.state == "success" and shown != gate and not self.keep:
            gate = self._unseen_beside(forge, pull) or gate
        if shown is None:
            try:
                shown = forge.gate(pull)
            except ForgeError as error:
                log.info("gate.unknown", target=pull.target, error=str(error))
                if self.keep:
                    return
                tried = letter is not None and letter.tried_at is not None
                if (gate.state == "success" or tried) and not error.permanent:
                    raise
        if self.keep and shown is not None:
            return
        if shown != gate:
            self.store.forget_gates_beside(pull)  # before: killed in between, the next cycle looks once more
            self.store.forget_gate(pull)  # if its end is not heard of, the forge is asked what it shows
            report = self._report(forge, pull, gate)
            if letter is None:
                self._write_gate(forge, pull, gate, report)
            else:  # it has a next try of its own
                forge.set_gate(pull, gate, report)
            log.info("gate.set", target=pull.target, state=gate.state, description=gate.description)
        self.store.set_last_gate(pull, gate)

    def _report(self, forge: Forge, pull: Pull, gate: Gate) -> Report | None:
        """What a check run says beside its gate, if that is a review's own: not what stands for another's."""
        stored = self.store.review_of(pull) if forge.check_runs else None
        if stored is None or gate.state != stored.gate.state:
            return None
        if redaction.say(stored.gate.description)[:MAX_DESCRIPTION] != gate.description:  # it is another's
            return None
        if stored.review is None:
            return Report(gate.description, url=stored.comment_url or "")
        return report_of(self._desk_of(forge, pull, stored, lambda _: None))

    def _unseen_beside(self, forge: Forge, pull: Pull) -> Gate | None:
        """Pending if this commit has become the head of a pull request into another branch since they were last listed:
        no cycle has looked at that one. Raises ForgeError."""
        same = [found for found in forge.pulls(pull.repository) if found.head_sha == pull.head_sha]
        unseen = self.store.unseen([found for found in same if found.base_ref != pull.base_ref])
        return beside(unseen[0].target) if unseen else None

    def _write_gate(self, forge: Forge, pull: Pull, gate: Gate, report: Report | None) -> None:
        """One that the forge has refused for good, as the 1,001st status of a commit, is not tried in each cycle."""
        noted: dict[str, Any] = self.store.note(REFUSED) or {}
        where, now = f"{pull.target} {pull.head_sha}", self.clock()
        refused = {name: one for name, one in noted.items() if now - REFUSED_DELAY < one["at"] <= now}
        if where in refused:
            raise _error_of([Fault(**refused[where]["fault"])])
        try:
            forge.set_gate(pull, gate, report)
        except ForgeError as error:
            if error.permanent and error.cause == "forge-refused":
                fault = Fault(error.cause, str(error), error.remedy, facts={"permanent": True})
                self.store.set_note(REFUSED, refused | {where: {"at": now, "fault": asdict(redaction.fault(fault))}})
            raise

    def learn(self, forge: Forge, pull: Pull) -> Fault | None:
        """Take over what the forge has of ours for this head and base; a fault if it could not be asked.

        Markers of reviews that a person has asked to do again do not count. The newest by its own time holds, not the
        last comment: anyone can post a copy of an older one.
        """
        try:
            comments = forge.comments(pull)
        except ForgeError as error:
            log.warning("comments.unknown", target=pull.target, error=str(error))
            return fault_of(error)
        after = self.store.again_after(pull.target)
        read = [(mark, found) for found in comments for mark in markers.read_all(found.body, self.key)]
        of_it = [(mark, found) for mark, found in read if mark.is_of(pull) and mark.at > after]
        if of_it:
            mark, found = max(of_it, key=lambda one: (one[0].at, one[0].revision))
            self.store.learn(pull, mark.identity, mark.gate, found.id, found.url)
        ours = [mark for mark, _ in read if mark.target == pull.target]
        if ours:
            self.store.adopt_marker(max(ours, key=lambda mark: (mark.at, mark.revision)))
        self.store.set_looked_at(pull)
        return None


def as_it_is(forge: Forge, pull: Pull) -> Pull:
    """`pull` as the forge has it now. Raises ForgeError, also for an answer from before `pull`: a backend that lags
    behind would have what was reviewed since thrown away."""
    now = forge.pull(pull.repository, pull.number)
    if now.updated_at < pull.updated_at:
        said = f"{pull.target} came back as it was at {now.updated_at}, after it was listed as of {pull.updated_at}"
        raise ForgeError("forge-unreachable", said, remedy="nothing: the next cycle looks again.", permanent=False)
    return now


def _error_of(faults: Sequence[Fault]) -> ForgeError:
    """What a person is told who waits for a review to be posted."""
    if not faults:
        remedy = "nothing to do: the loop posts it; see `appliance status`."
        return ForgeError("forge-unreachable", "the review waits to be posted", remedy=remedy, permanent=False)
    first = faults[0]
    permanent = bool(first.facts.get("permanent"))
    return ForgeError(first.cause, first.sentence, remedy=first.remedy, permanent=permanent)
