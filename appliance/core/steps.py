"""What a review does just now, as it is told to people who wait for it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

MOST = 200  # characters of a phase or a command that are shown


@dataclass(frozen=True)
class Step:
    """News of a running review; what is None has not changed. `command` is the newest of the agent, `tokens` are those
    that its requests have taken so far."""

    phase: str | None = None
    command: str | None = None
    tokens: int | None = None

    @property
    def said(self) -> str:
        """What is new, but for tokens; empty if that is all."""
        return self.phase or (f"$ {self.command}" if self.command else "")

    def after(self, before: "Step") -> "Step":
        """All that is known once this follows `before`. With a new phase the command of the old one is over."""
        command = before.command if self.command is None and self.phase is None else self.command
        tokens = before.tokens if self.tokens is None else self.tokens
        return Step(before.phase if self.phase is None else self.phase, command, tokens)

    def line(self) -> str:
        """All of it on one line."""
        tokens = f"{self.tokens:,} tokens" if self.tokens else ""
        command = f"$ {short(self.command)}" if self.command else ""
        return " · ".join(filter(None, (short(self.phase or ""), command, tokens)))


def clean(step: Step, say: Callable[[str], str]) -> Step:
    """The same with `say` done to its texts, each of one line, and then cut: what is cut first may show half a secret
    that is no longer known as one."""
    phase = None if step.phase is None else short(say(step.phase))
    command = None if step.command is None else short(say(step.command))
    return replace(step, phase=phase, command=command)


def short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MOST else f"{line[: MOST - 1]}…"
