"""What becomes of something that is to be written to a forge, and was not taken. Pure: `now` is an argument."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.core.moments import clock_time

FIRST_DELAY = 30.0  # seconds; the next cycle tries again
LONGEST_DELAY = 900.0
REFUSED_DELAY = 6 * 3600.0  # what was refused for good may be taken one day: a conversation is unlocked
MOST_TRIES = 24  # of what no review hangs on: some hours
# What a person mends without touching the pull request: then nothing is given up for it.
_OF_THE_TOKEN = frozenset({"forge-login", "forge-permission"})


@dataclass(frozen=True)
class Letter:
    """One write, which `key` names for ever. `review` is the one it belongs to and goes with, if any.

    `tries` that failed so far; `tried_at`: a try then may have landed, None if there is none. `error` is the fault of
    the last try as the store keeps it, empty if there is none.
    """

    id: int
    review: int | None
    target: str
    kind: str
    key: str
    payload: Mapping[str, Any]
    tries: int = 0
    next_try: float = 0.0
    tried_at: float | None = None
    error: Mapping[str, Any] | None = None


_NAMES = {
    "summary": "the comment",
    "inline": "the comments on lines",
    "gate": "the gate",
    "threads": "what it says in conversations",
}


def waiting(letters: Iterable[Letter]) -> list[Letter]:
    """Of what waits, oldest first, those that nothing else holds up: of a review one goes out after the other."""
    lanes: dict[str, Letter] = {}
    for letter in letters:
        lanes.setdefault(letter.key if letter.review is None else f"review {letter.review}", letter)
    return list(lanes.values())


def said(letter: Letter, now: float) -> str:
    """Why it waits, and until when."""
    name = _NAMES.get(letter.kind, "an answer")
    if not letter.error:
        return f"posting {name} with the next cycle"
    when = f"at {clock_time(letter.next_try, now)}" if letter.next_try > now else "with the next cycle"
    return f"posting {name} again {when}: {str(letter.error.get('sentence') or 'it failed').rstrip('.')}"


@dataclass(frozen=True)
class Again:
    """Try again at `at`, in seconds of the epoch. `landed`: it may be there already."""

    at: float
    landed: bool


@dataclass(frozen=True)
class Abandon:
    """It will never be taken."""


def after(cause: str, *, permanent: bool, vital: bool, tries: int, now: float) -> Again | Abandon:
    """What follows when try number `tries` failed.

    `vital` ones (the comment and the gate of a review) are never given up: what was paid for would be lost.
    """
    limited = cause == "forge-rate-limited"
    waits = permanent and cause in _OF_THE_TOKEN
    if not vital and ((permanent and not waits) or tries >= MOST_TRIES):
        return Abandon()
    wait = REFUSED_DELAY if permanent and not waits else min(FIRST_DELAY * 2.0 ** min(tries - 1, 20), LONGEST_DELAY)
    return Again(now + wait, landed=not permanent and not limited)
