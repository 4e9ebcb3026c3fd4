"""Which findings stand on lines of the diff, with which words, and what a pull request review says as a whole."""

import hashlib
from collections.abc import Collection
from typing import Literal

from appliance.core.findings import Finding, Review
from appliance.core.inert import inert
from appliance.core.pulls import Pull
from appliance.core.report import cut, marks
from appliance.core.suggestions import block
from appliance.core.verdict import Gate

MAX_INLINE = 50  # comments of one review; the rest stands in the summary
MAX_INLINE_TEXT = 60_000  # characters; GitHub refuses above 65,536
INSIDE = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})

ReviewEvents = Literal["comment", "request-changes", "approve"]
Event = Literal["COMMENT", "REQUEST_CHANGES", "APPROVE"]


def placed(review: Review, folded: Collection[Finding] = ()) -> list[Finding]:
    """Those that the diff shows, that are not `folded` and were not reported of an earlier head, gravest first, at most
    MAX_INLINE: what was reported before has its conversation already, or stands in the summary."""
    out = set(map(id, folded))
    again = {each.fingerprint for each in review.earlier if each.reported}
    found = sorted(review.result.findings, key=lambda finding: finding.priority)
    new = [it for it in found if it.anchor is not None and id(it) not in out and it.fingerprint not in again]
    return new[:MAX_INLINE]


def event_of(review: Review, gate: Gate, pull: Pull, me: str, setting: ReviewEvents) -> Event:
    """What the review does. Only a success of our own gate approves, and only for somebody of the repository.

    A forge lets nobody judge his own pull request; while it does not tell who we are (`me` is empty), any may be ours.
    With "approve" everything else asks for changes: an approval of an earlier head would stand on.
    """
    if setting == "comment" or not me or me.casefold() == pull.author.casefold() or review.rehearsal:
        return "COMMENT"
    if setting == "approve":
        if gate.state != "success":
            return "REQUEST_CHANGES"
        return "APPROVE" if pull.author_association in INSIDE else "COMMENT"
    return "REQUEST_CHANGES" if gate.state == "failure" else "COMMENT"


def text(finding: Finding, blocks: bool) -> str:
    """The comment on a line, without its tag."""
    head = f"**[P{finding.priority}] {inert(finding.title, one_line=True)}**"
    head += f"{' · blocks' if blocks else ''}{marks(finding)}"
    suggested = block(finding)
    said = cut(f"{head}\n\n{inert(finding.body)}", MAX_INLINE_TEXT - len(suggested))
    return f"{said}\n\n{suggested}" if suggested else said


def name_of(finding: Finding) -> str:
    """What a comment on a line is found by again."""
    parts = "\n".join((finding.path, finding.title)).encode("utf-8", "surrogatepass")
    return finding.fingerprint or hashlib.sha256(parts).hexdigest()[:32]


def whole(gate: Gate, count: int) -> str:
    """The body of a pull request review with `count` comments; the summary says the rest."""
    on_lines = f", {count} {'finding' if count == 1 else 'findings'} on lines of the diff" if count else ""
    return f"**Codex review**: {inert(gate.description, one_line=True)}{on_lines}. The summary stands in a comment."
