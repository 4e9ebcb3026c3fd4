"""Reads in the conversations on lines what people decided of findings, and has it done. What is written goes through
the outbox; the gate is shown as any gate of a review that stands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from appliance import process
from appliance.core import marker as markers
from appliance.core.earlier import Known, by_decisions, gate_after
from appliance.core.faults import Fault
from appliance.core.inert import inert
from appliance.core.outbox import Letter
from appliance.core.pulls import Policy, Pull, not_ready
from appliance.core.replies import Decision, Reply, decided
from appliance.failures import fault_of
from appliance.forge import ForgeError, Thread, ThreadComment
from appliance.publishing import Seen
from appliance.store import Decided, Revised, Store, StoredReview

log = structlog.get_logger()

MOST_PEOPLE = 20  # asked for of one pull request in one cycle, whether they have write access


@dataclass
class Dismissals:
    """Those of one cycle. `key` signs what is ours; `block_priority` is the number of the priority that blocks."""

    store: Store
    policy: Policy
    key: bytes
    block_priority: int
    stopped: Callable[[], bool] = lambda: False
    moved: Callable[[], None] = lambda: None
    faults: list[Fault] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)

    def read(self, listed: Mapping[str, Seen]) -> None:
        """Read what is new, and do it; `changed` are then the targets that something was decided of, `faults` what kept
        conversations from being read."""
        pulls = [seen.pull for seen in listed.values() if seen.forge.inline and not not_ready(seen.pull, self.policy)]
        for pull in self.store.unread_threads(pulls):
            if self.stopped():
                break
            try:
                self._read_one(listed[pull.target])
            except ForgeError as error:
                log.warning("threads.unknown", target=pull.target, error=str(error))
                self.faults.append(fault_of(error))
            except process.Stopped:
                break
            self.moved()

    def _read_one(self, seen: Seen) -> None:
        pull = seen.pull
        known = {each.fingerprint: each for each in self.store.known(pull.target)}
        last = self.store.decided_in(pull.target)
        people = _People(seen)
        stored = self.store.review_of(pull)
        # What a review found is known here once it is posted as a whole; people may answer before.
        told = stored is None or all(one.id != stored.id for one in self.store.undelivered())
        for name, threads in self._of_findings(pull, seen.forge.threads(pull), seen.forge.me).items():
            if name not in known:
                continue
            replies = [self._reply(found) for thread in threads for found in thread.comments[1:]]
            try:
                found = decided(replies, last.get(name, 0), people.may_write)
            except ForgeError as error:  # no fault of the cycle: anybody could make it one
                log.warning("decision.unknown", target=pull.target, finding=name, error=str(error))
                told = False
                continue
            if found is not None:
                reply, decision = found
                thread = next(it for it in threads if any(_number(one.id) == reply.id for one in it.comments))
                told &= self._decide(pull, known[name], thread, reply, decision, last.get(name, 0))
        if told:
            self.store.set_threads_read(pull)

    def _of_findings(self, pull: Pull, threads: Sequence[Thread], me: Callable[[], str]) -> dict[str, list[Thread]]:
        """Our conversations by the fingerprint of their finding. Anybody can copy the tag of one into a conversation of
        his own, but only after us: whoever began the first one began them all, or who we are now, as an App after a
        token."""
        found: dict[str, list[Thread]] = {}
        for thread in sorted((it for it in threads if it.comments), key=lambda it: _number(it.comments[0].id)):
            tag = markers.read_tag(thread.comments[0].body, self.key)
            if tag is None or (tag.target, tag.kind) != (pull.target, "finding"):
                continue
            mine = found.setdefault(tag.id, [])
            author = thread.comments[0].author
            if not mine or author == mine[0].comments[0].author or author == me():
                mine.append(thread)
        return found

    def _reply(self, found: ThreadComment) -> Reply:
        ours = bool(markers.read(found.body, self.key) or markers.read_tag(found.body, self.key))
        return Reply(_number(found.id), found.author, found.body, ours)

    def _decide(self, pull: Pull, known: Known, thread: Thread, reply: Reply, decision: Decision, last: int) -> bool:
        """False if it is to be tried again."""
        who, reason = reply.author, decision.reason
        if decision.state == "dismissed":
            now = replace(known, state="dismissed", reason=reason, who=who)
        elif known.state == "dismissed":
            now = replace(known, state="open", reason="", who="")
        else:
            now = known
        if now == known and reply.id == last:
            return True
        stored = self.store.review_of(pull)
        revised = self._revised(stored, now) if stored is not None else None
        if stored is not None and revised is None and now.state == "open" != known.state:
            # Whether it blocks cannot be told: a lost database took the review's text with it, or this says that the
            # finding is resolved, or nothing of it.
            self.store.stale(stored.id, "a finding was opened again, of which the review says nothing")
            stored = None
        later = stored is None or stored.review is None
        letters = [] if now.state == known.state else _answers(pull, thread, reply, now, later)
        if not self.store.decide(pull.target, Decided(now, thread.id, reply.id), revised, letters):
            return False
        if now != known:
            self.changed.add(pull.target)
            log.info("finding.decided", target=pull.target, finding=now.fingerprint, state=now.state, by=who)
        return True

    def _revised(self, stored: StoredReview, now: Known) -> Revised | None:
        if stored.review is None:
            return None
        review = by_decisions(stored.review, [now])
        gate = gate_after(review, stored.gate, self.block_priority)
        return Revised(stored, review, gate) if (review, gate) != (stored.review, stored.gate) else None


@dataclass
class _People:
    """Who may write, each asked for once."""

    seen: Seen
    known: dict[str, bool] = field(default_factory=dict)

    def may_write(self, author: str) -> bool:
        """Raises ForgeError while it is unknown."""
        name = author.casefold()
        if name not in self.known:
            if len(self.known) >= MOST_PEOPLE:
                said = f"more than {MOST_PEOPLE} people decide about findings of {self.seen.pull.target}"
                raise ForgeError("forge-refused", said, remedy="delete the replies of some.", permanent=False)
            self.known[name] = self.seen.forge.may_write(self.seen.pull, author)
        return self.known[name]


def _answers(pull: Pull, thread: Thread, reply: Reply, now: Known, later: bool) -> list[Letter]:
    """What is written in the conversation. `later`: the gate follows with the next review alone."""
    who = inert(f"@{reply.author}", one_line=True)
    if now.state == "dismissed":
        said = f"Dismissed by {who}" + (f": {inert(now.reason, one_line=True)}" if now.reason else ".")
    else:
        said = f"Opened again by {who}."
    if later:
        said += "\n\nThe gate follows with the next review."
    where = {"thread": thread.id, "comment": thread.comments[0].id}
    key = f"{pull.target} decision {reply.id} {now.state}"
    letters = [Letter(0, None, pull.target, "reply", f"{key} reply", {**where, "body": said})]
    if now.state == "dismissed":
        letters.append(Letter(0, None, pull.target, "resolve", f"{key} resolve", where))
    return letters


def _number(id_: str) -> int:
    return int(id_) if id_.isascii() and id_.isdigit() else 0
