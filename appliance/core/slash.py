"""What people ask for in comments: `/review` and what may follow it. Pure.

A command is the first line of a comment that is not empty, as it stands: not in a quote, a list or a block of code, and
nothing after it in the comment is one.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from appliance.core.earlier import Known
from appliance.core.findings import Finding, Review
from appliance.core.fingerprint import short
from appliance.core.inert import code, inert
from appliance.core.verdict import blocking, blocks_at

WORD = "/review"
KNOWN = "`/review`, `/review pause`, `/review resume`, `/review explain FINDING`"
OURS = re.compile(r"<!--\s*review-appliance:")  # signed by whomever: what looks like ours gives no orders
MAX_ARGUMENT = 100
SHORTEST = 4  # characters of a fingerprint
Name = Literal["review", "pause", "resume", "explain", "unknown"]


@dataclass(frozen=True)
class Command:
    """`argument` is the finding to be explained."""

    name: Name
    argument: str = ""

    def __str__(self) -> str:
        rest = {"review": "", "unknown": "…"}.get(self.name, self.name)
        return " ".join(filter(None, (WORD, rest, self.argument)))


@dataclass(frozen=True)
class Said:
    """One comment. `ours`: signed by this appliance. `at` is in seconds of the epoch, 0.0 if the forge does not say."""

    id: str
    author: str
    body: str
    ours: bool = False
    at: float = 0.0


@dataclass(frozen=True)
class Asked:
    """A command that was not carried out yet. `old`: another life of this appliance's has most likely done so."""

    id: str
    author: str
    command: Command
    old: bool = False


def read(body: str) -> Command | None:
    """The command of a comment; None if it has none. What begins as ours and is none of ours is `unknown`."""
    line = next((line.rstrip() for line in re.split(r"\r\n|\r|\n", body) if line.strip()), "")
    words = line.split()
    if not line.startswith("/") or words[0].casefold() != WORD:
        return None
    match words[1:]:
        case [] if words[0] == WORD:
            return Command("review")
        case ["pause"] if words[0] == WORD:
            return Command("pause")
        case ["resume"] if words[0] == WORD:
            return Command("resume")
        case ["explain"] if words[0] == WORD:
            return Command("explain")
        case ["explain", which] if words[0] == WORD and len(which) <= MAX_ARGUMENT:
            return Command("explain", which)
    return Command("unknown")


def due(comments: Sequence[Said], done: Collection[str], *, first: bool, reviewed_at: float = 0.0) -> list[Asked]:
    """The commands in `comments` (oldest first) that are to be looked at, in their order.

    None of our own: by our signature, which all that we write has, or by what looks like it. The name tells nothing: a
    personal token's is that of a person, who commands too. None of a bot, ourselves as an App among them, or a deleted
    account, which are nobody who could have write access. `first`: this database has not read these comments before.
    Then what is older than our own newest comment, or than our newest review (`reviewed_at`), is `old`.
    """
    last = max((index for index, said in enumerate(comments) if said.ours), default=-1) if first else -1
    found = []
    for index, said in enumerate(comments):
        if said.ours or said.id in done or not _person(said.author) or OURS.search(said.body):
            continue
        command = read(said.body)
        if command:
            old = first and (index <= last or 0.0 < said.at <= reviewed_at)
            found.append(Asked(said.id, said.author, command, old))
    return found


def _person(author: str) -> bool:
    name = author.casefold()
    return name not in ("", "ghost") and not name.endswith("[bot]")


def to_do(asked: Sequence[Asked]) -> tuple[list[Asked], list[Asked]]:
    """Those to be carried out, and those that are only noted.

    Of the old ones a pause that nothing has ended is carried out once more: it is the only one with a lasting effect.
    """
    state = [it for it in asked if it.old and it.command.name in ("pause", "resume")][-1:]
    again = {it.id for it in state if it.command.name == "pause"}
    do = [it for it in asked if not it.old or it.id in again]
    return do, [it for it in asked if it.old and it.id not in again]


# ---- what is answered

UNKNOWN = f"That is no command of this appliance. It knows {KNOWN}; each has to be the first line of its comment."
ON_RECORD = "<sub>This is what the review has on record; no model was asked again.</sub>"
NOT_ALLOWED = "Commands are carried out for people with write access to this repository."


def by_name(findings: Sequence[Finding], name: str) -> Finding | None:
    """The finding by the name that it has in the comment, or more of its fingerprint; by its place among those of the
    review (`2`, `#2`). None if there is none, or more than one."""
    number = name.removeprefix("#")
    listed = in_order(findings)
    if number.isascii() and number.isdigit() and len(number) < SHORTEST:
        index = int(number)
        return listed[index - 1] if 1 <= index <= len(listed) else None
    prints = {it.fingerprint: it for it in listed if it.fingerprint}
    found = called(prints, name)
    return prints[found] if found else None


def called(fingerprints: Collection[str], name: str) -> str | None:
    """The one of `fingerprints` that is meant by `name`, its short one or a longer beginning; None if not just one."""
    said = name.casefold().removeprefix("#")
    found = [it for it in fingerprints if short(it).casefold() == said]
    found = found or [it for it in fingerprints if it.casefold().startswith(said)]
    return found[0] if len(found) == 1 and len(said) >= SHORTEST else None


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """As a comment shows them: the gravest first."""
    return sorted(findings, key=lambda finding: finding.priority)


def explanation(review: Review, finding: Finding, block_priority: int) -> str:
    """What is stored of a finding, as Markdown. No model is asked for it."""
    blocks = finding in blocking([finding], blocks_at(review, block_priority)) and not finding.advisory
    lines = f"{finding.path}:{finding.line_start}" + (
        f"-{finding.line_end}" if finding.line_end != finding.line_start else ""
    )
    commands = review.evidence.commands[:10]
    parts = [
        f"### [P{finding.priority}] {inert(finding.title, one_line=True)}",
        f"{name_of(finding, '')}{code(lines)} at head `{review.head_sha}` · {'blocks' if blocks else 'does not block'}"
        f" · confidence {finding.confidence:.2f}",
        inert(finding.body),
        *([f"**Proposed instead**\n\n{code(finding.suggestion)}"] if finding.suggestion else []),
        f"**Why the review came to its verdict ({review.result.verdict})**\n\n{inert(review.result.reasoning)}",
        *(["**What was looked at**\n\n" + "\n".join(f"- {code(it)}" for it in commands)] if commands else []),
        ON_RECORD,
    ]
    return "\n\n".join(parts)


def name_of(finding: Finding, place: str) -> str:
    """As it stands before a title; `place` for one of an earlier version, which has no fingerprint."""
    name = short(finding.fingerprint) or place
    return f"{code(name)} · " if name else ""


def earlier_explanation(known: Known) -> str:
    """What is on record of a finding that the last review has no more, and what became of it."""
    one = known.finding
    became = {"resolved": f"resolved in `{known.commit}`", "dismissed": f"dismissed by {code(known.who)}"}
    why = known.reason if known.state == "dismissed" else known.evidence
    parts = [
        f"### [P{one.priority}] {inert(one.title, one_line=True)}",
        f"{name_of(one, '')}{code(one.path)} at head `{known.head_sha}` · {became.get(known.state, known.state)}",
        inert(one.body),
        *([f"**Why**\n\n{inert(why)}"] if why else []),
        ON_RECORD,
    ]
    return "\n\n".join(part for part in parts if part)


def no_such_finding(name: str, findings: Sequence[Finding] | None) -> str:
    if findings is None:
        return "No review of this pull request is on record here, so there is no finding to explain."
    if not findings:
        return "The last review has no findings."
    listed = in_order(findings)
    rows = [
        f"- {name_of(it, str(number))}[P{it.priority}] {inert(it.title, one_line=True)}"
        for number, it in enumerate(listed[:50], 1)
    ]
    if not name:
        example = short(listed[0].fingerprint) or "1"
        return f"Say which one, as in `/review explain {example}`. The last review has:\n\n" + "\n".join(rows)
    return f"The last review has no finding {code(name)}. It has:\n\n" + "\n".join(rows)
