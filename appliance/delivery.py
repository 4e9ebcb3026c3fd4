"""Posts stored reviews: the comment, then the gate. Only the posting is ever retried, never the review."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import structlog

from appliance import redaction
from appliance.core import marker as markers
from appliance.core.faults import Fault
from appliance.core.marker import Marker
from appliance.core.pulls import Pull
from appliance.core.report import comment as render
from appliance.core.report import marker_findings
from appliance.core.verdict import MAX_DESCRIPTION, Gate
from appliance.failures import fault_of
from appliance.forge import Comment, ForgeError
from appliance.protocols import Forge
from appliance.standing import Standing
from appliance.store import Store, StoredReview

log = structlog.get_logger()

LANDING_SECONDS = 10.0  # so long a comment that was sent, and whose answer nobody heard, may still appear
POSTING = "posting"


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
    keep: bool = False
    alone: Callable[[], AbstractContextManager[object]] = nullcontext
    pause: Callable[[float], object] = lambda _seconds: None
    clock: Callable[[], float] = time.time

    def deliver(self, forge: Forge, stored: StoredReview, pull: Pull) -> bool:
        """Post one stored review of `pull`; False if the pull request moved on and the review is abandoned.

        Raises ForgeError; the review stays stored, and the next call looks for its marker before it posts again,
        since a write that failed may have landed.
        """
        with self.alone():
            if all(waiting.id != stored.id for waiting in self.store.undelivered()):
                standing = self.store.review_of(pull)  # another process was first: the loop, or `review --post`
                return standing is not None and standing.id == stored.id
            return self._deliver(forge, stored, pull)

    def _deliver(self, forge: Forge, stored: StoredReview, pull: Pull) -> bool:
        pull = forge.pull(pull.repository, pull.number)
        if not self._still(forge, pull, stored):
            return False
        posted = self._post(forge, stored, pull)
        if not self._still(forge, forge.pull(pull.repository, pull.number), stored):
            return False
        self.set_gate(forge, pull, stored.gate)
        self.store.delivered(stored.id, posted.id, posted.url)
        log.info("review.posted", target=stored.target, gate=stored.gate.description, url=posted.url)
        return True

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

    def _post(self, forge: Forge, stored: StoredReview, pull: Pull) -> Comment:
        assert stored.review is not None
        ours = self._ours(forge, pull)
        if not _landed(ours, stored, pull) and self._let_land(stored):
            ours = self._ours(forge, pull)
        if found := _landed(ours, stored, pull):
            return found
        earlier = [mark for _, mark in ours if mark.target == pull.target and not mark.is_of(pull)]
        body = self.body(stored, pull, forge, max(earlier, key=lambda mark: mark.at, default=None))
        self.store.set_note(POSTING, {"review": stored.id, "at": self.clock()})
        try:
            posted = forge.post_comment(pull, body)
        except ForgeError as error:
            if error.permanent:  # refused: it will not appear
                self.store.set_note(POSTING, None)
            raise
        self.store.set_note(POSTING, None)
        return posted

    def _let_land(self, stored: StoredReview) -> bool:
        """If this comment was sent a moment ago, by a process that was killed or heard no answer: wait for it."""
        sent = self.store.note(POSTING)
        left = sent["at"] + LANDING_SECONDS - self.clock() if sent and sent["review"] == stored.id else 0.0
        if left <= 0:
            return False
        self.pause(min(left, LANDING_SECONDS))
        return True

    def _ours(self, forge: Forge, pull: Pull) -> list[tuple[Comment, Marker]]:
        return [(found, mark) for found in forge.comments(pull) if (mark := markers.read(found.body, self.key))]

    def body(self, stored: StoredReview, pull: Pull, forge: Forge, earlier: Marker | None) -> str:
        """The comment of a stored review, marker included."""
        assert stored.review is not None
        review = redaction.review(stored.review)  # one of an earlier version may know less of secrets
        marker = Marker(
            target=stored.target,
            head_sha=stored.head_sha,
            base_ref=stored.base_ref,
            base_sha=review.base_sha,
            merge_base=review.merge_base,
            gate_state=stored.gate.state,
            gate_description=stored.gate.description,
            at=stored.created_at,
            findings=marker_findings(review.result.findings, markers.MAX_FINDINGS),
            digest=review.configuration.digest,
        )
        return render(
            review,
            stored.gate,
            self.block_priority,
            lambda path, first, last: forge.permalink(pull, path, first, last),
            markers.render(marker, self.key),
            earlier,
        )

    def set_gate(self, forge: Forge, pull: Pull, gate: Gate) -> None:
        """Show `gate`, if it is not what was last shown. Raises ForgeError.

        A status belongs to the commit, and another pull request may have the same, into another base: green is shown
        if it is for all of them, else the worst; and what overwrote theirs is told to the next cycle.
        What the database does not know, the forge is asked for: a lost database writes nothing twice. A forge that
        does not say is written to all the same: the plan wants this gate shown, whatever is there.
        """
        gate = Gate(gate.state, redaction.say(gate.description)[:MAX_DESCRIPTION])
        if gate.state == "success":
            gate = self.store.beside(pull) or gate
        shown = self.store.last_gate(pull)
        if shown is None:
            try:
                shown = forge.gate(pull)
            except ForgeError as error:
                log.info("gate.unknown", target=pull.target, error=str(error))
                if self.keep:
                    return
        if self.keep and shown is not None:
            return
        if shown != gate:
            if gate.state != "success":  # before: killed in between, the next cycle looks once more
                self.store.forget_gates_beside(pull)
            forge.set_gate(pull, gate)
            log.info("gate.set", target=pull.target, state=gate.state, description=gate.description)
        self.store.set_last_gate(pull, gate)

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
        read = [(markers.read(found.body, self.key), found) for found in comments]
        of_it = [(mark, found) for mark, found in read if mark and mark.is_of(pull) and mark.at > after]
        if of_it:
            mark, found = max(of_it, key=lambda one: one[0].at)
            self.store.learn(pull, mark.identity, mark.gate, found.id, found.url)
        self.store.set_looked_at(pull)
        return None


def _landed(ours: Sequence[tuple[Comment, Marker]], stored: StoredReview, pull: Pull) -> Comment | None:
    """The comment of this very review, if it is there."""
    return next((it for it, mark in ours if mark.is_of(pull) and mark.at == stored.created_at), None)
