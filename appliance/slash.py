"""Carries out the commands that people write in comments. What is answered goes through the outbox."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from appliance import process, redaction
from appliance.core import marker as markers
from appliance.core import slash
from appliance.core.faults import Fault
from appliance.core.inert import code
from appliance.core.pulls import Policy, not_ready
from appliance.core.report import cut
from appliance.core.slash import Asked, Said
from appliance.failures import fault_of
from appliance.forge import Comment, ForgeError
from appliance.publishing import Seen
from appliance.store import Store

log = structlog.get_logger()

MAX_ANSWER = 60_000  # characters; GitHub refuses above 65,536, and our tag comes behind
MOST_PEOPLE = 20  # asked for of one pull request in one cycle, whether they have write access
MOST_REFUSALS = 3  # that one person is shown; the rest is only noted


@dataclass
class Slash:
    """Those of one cycle. `key` signs what is ours; `block_priority` is the number of the priority that blocks."""

    store: Store
    policy: Policy
    key: bytes
    block_priority: int
    stopped: Callable[[], bool] = lambda: False
    moved: Callable[[], None] = lambda: None
    faults: list[Fault] = field(default_factory=list)

    def read(self, listed: Mapping[str, Seen]) -> list[Fault]:
        """Read and carry out what is new; returns what kept comments from being read.

        Only of what is ready: a command for a draft waits until it is none.
        """
        pulls = [seen.pull for seen in listed.values() if seen.forge.inline and not not_ready(seen.pull, self.policy)]
        for target, first in self.store.unread(pulls).items():
            if self.stopped():
                break
            try:
                self._read_one(listed[target], first=first)
            except ForgeError as error:
                log.warning("commands.unknown", target=target, error=str(error))
                self.faults.append(fault_of(error))
            except process.Stopped:
                break
            self.moved()
        return self.faults

    def _read_one(self, seen: Seen, *, first: bool) -> None:
        pull = seen.pull
        comments = seen.forge.comments(pull)
        if not any(slash.read(found.body) for found in comments):
            self.store.set_read(pull)
            return
        said = [self._said(found) for found in comments]
        marks = [mark for found in comments if (mark := markers.read(found.body, self.key))]
        reviewed_at = max((mark.at for mark in marks if mark.target == pull.target), default=0.0)
        done = self.store.commands_done(pull.target)
        asked = slash.due(said, done, first=first, reviewed_at=reviewed_at)
        do, only_note = slash.to_do(asked)
        for one in only_note:
            self.store.carry_out(pull, one, "")
        self.store.set_read(pull, whole=self._do(seen, do))

    def _said(self, found: Comment) -> Said:
        ours = bool(markers.read(found.body, self.key) or markers.read_tag(found.body, self.key))
        return Said(found.id, found.author, found.body, ours, _seconds(found.created_at))

    def _do(self, seen: Seen, asked: Sequence[Asked]) -> bool:
        """Carry them out in their order; False if it is not known of somebody whether they may.

        Theirs then wait, and nobody else's: anybody can be somebody of whom the forge does not tell. A pause, or its
        end, that is carried out late changes nothing that was asked for after it.
        """
        allowed: dict[str, bool | None] = {}
        refused: dict[str, int] = {}
        for one in asked:
            name = one.author.casefold()
            if name not in allowed:
                if len(allowed) >= MOST_PEOPLE:
                    return False
                try:
                    allowed[name] = seen.forge.may_write(seen.pull, one.author)
                except ForgeError as error:  # no fault of the cycle: anybody could make it one
                    log.warning("command.unknown", target=seen.pull.target, author=one.author, error=str(error))
                    if error.cause == "forge-rate-limited":
                        return False
                    allowed[name] = None
            may = allowed[name]
            if may is None:
                continue
            if may:
                self._carry_out(seen, one)
                continue
            refused[name] = refused.get(name, 0) + 1
            if refused[name] <= MOST_REFUSALS:
                self._answer(seen, one, "confused", slash.NOT_ALLOWED, once_for=name)
            self._note(seen, one, "")
        return None not in allowed.values()

    def _carry_out(self, seen: Seen, one: Asked) -> None:
        """First what is written, which happens once by its key: whatever ends this process, all of it is done."""
        name = one.command.name
        if name == "unknown":
            self._answer(seen, one, "confused", slash.UNKNOWN)
        elif name == "explain":
            self._explain(seen, one)
        else:
            self._answer(seen, one, "eyes")
        self._note(seen, one, name)

    def _explain(self, seen: Seen, one: Asked) -> None:
        stored = self.store.last_review(seen.pull)
        findings = stored.review.result.findings if stored and stored.review else None
        found = slash.by_name(findings or (), one.command.argument)
        known = {each.fingerprint: each for each in self.store.known(seen.pull.target)} if found is None else {}
        earlier = slash.called(known, one.command.argument)
        if earlier:
            self._answer(seen, one, "eyes", slash.earlier_explanation(known[earlier]))
        elif found is None or stored is None or stored.review is None:
            self._answer(seen, one, "confused", slash.no_such_finding(one.command.argument, findings))
        else:
            review = redaction.review(stored.review)  # one of an earlier version may know less of secrets
            found = slash.by_name(review.result.findings, one.command.argument) or found
            self._answer(seen, one, "eyes", slash.explanation(review, found, self.block_priority))

    def _note(self, seen: Seen, one: Asked, effect: str) -> None:
        if self.store.carry_out(seen.pull, one, effect):
            log.info(
                "command", target=seen.pull.target, author=one.author, command=str(one.command), effect=effect or "none"
            )

    def _answer(self, seen: Seen, one: Asked, reaction: str, text: str = "", once_for: str = "") -> None:
        """React, and reply if there is a `text`: once to each person, if `once_for` names them."""
        target = seen.pull.target
        self.store.add_letter(
            target, "react", f"{target} command {one.id} {reaction}", {"comment": one.id, "content": reaction}
        )
        if text:
            key = f"{target} refused {once_for}" if once_for else f"{target} command {one.id} reply"
            self.store.add_letter(
                target, "comment", key, {"body": cut(f"> {code(str(one.command))}\n\n{text}", MAX_ANSWER)}
            )


def _seconds(moment: str) -> float:
    """Of the epoch; 0.0 for what is no time."""
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0
