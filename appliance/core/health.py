"""Health: what the container shows of itself, and the text of its file. Pure.

    starting → healthy ⇄ unhealthy

A fault of the host leaves the container running and unhealthy, for a restart cannot cure it.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from appliance.core.faults import Fault

State = Literal["starting", "healthy", "unhealthy"]

MAX_MESSAGE = 900  # characters; Docker keeps 4096 bytes of a probe's output
END = "end"  # the last line of the file: without it the file is torn


@dataclass(frozen=True)
class Health:
    """`cause` is empty unless unhealthy; `message` is what it says beside it; `since` is when the state and cause
    began, in seconds since the epoch."""

    state: State
    cause: str
    message: str
    since: float


def of_fault(fault: Fault, since: float) -> Health:
    """Unhealthy with the cause, what is broken, and the next step."""
    return Health("unhealthy", fault.cause, fault.told, since)


def line(health: Health) -> str:
    """The one line that the health check prints: `unhealthy: <cause>: <sentence> Next: <remedy>`."""
    return ": ".join(part for part in (health.state, _flat(health.cause), _flat(health.message)) if part)


def encode(health: Health, valid_until: float) -> str:
    """The file: one value a line, so that a shell can read it with no other program. `valid_until` is in seconds of
    the machine's uptime, rounded up."""
    values = (health.state, str(int(-(-valid_until // 1))), f"{health.since:.3f}", _flat(health.cause))
    return "\n".join((*values, _flat(health.message), END, ""))


def decode(text: str) -> tuple[Health, float] | None:
    """The health and its valid-until; None if the text is torn or not of this form."""
    lines = text.split("\n")
    if len(lines) != 7 or lines[5:] != [END, ""]:
        return None
    state, valid_until, since, cause, message = lines[:5]
    if state not in get_args(State):
        return None
    try:
        return Health(state, cause, message, float(since)), float(valid_until)  # type: ignore[arg-type]
    except ValueError:
        return None


def _flat(text: str) -> str:
    """One line of printable characters, of bounded length."""
    words = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return words if len(words) <= MAX_MESSAGE else f"{words[: MAX_MESSAGE - 1]}…"
