"""Reads the event stream of `codex exec --json` (CODEX section 3: measured with 0.163)."""

import json
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from appliance.core.findings import Usage
from appliance.core.wording import MAX_TEXT

MAX_KEPT = MAX_TEXT + 1  # characters of a command's output: from there on it is not only bwrap's, whatever else it is
MAX_LINES = 100  # of warnings, and of lines of no known form


@dataclass(frozen=True)
class Command:
    """One command of the agent. `output` is the beginning of its stdout and stderr, mixed: at most MAX_KEPT."""

    command: str
    output: str
    exit_code: int | None
    status: str

    @property
    def typed(self) -> str:
        """What the agent typed, without the shell that Codex starts around it."""
        try:
            words = shlex.split(self.command)
        except ValueError:
            return self.command
        return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else self.command

    @property
    def ok(self) -> bool:
        return self.status == "completed" and self.exit_code == 0


@dataclass
class Stream:
    """What a run told. Fill it line by line with `add`."""

    started: bool = False
    completed: bool = False
    failure: str | None = None
    warnings: list[str] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    last_message: str = ""
    usage: Usage = field(default_factory=Usage)
    malformed: list[str] = field(default_factory=list)

    def add(self, line: bytes) -> str | None:
        """Take one line; returns the command that starts with it, if one does, for showing progress.

        A line that is no event of the known form is kept in `malformed`: the run that printed it is not trusted.
        """
        if not line.strip():
            return None
        try:
            event = json.loads(line)
            return self._take(event["type"], event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            if len(self.malformed) < MAX_LINES:
                self.malformed.append(line[:500].decode("utf-8", "replace"))
            return None

    def _take(self, kind: str, event: dict[str, object]) -> str | None:
        if kind == "thread.started":
            self.started = True
        elif kind == "turn.completed":
            self.completed, self.failure = True, None
            self.usage = self.usage + _usage(event["usage"])
        elif kind == "turn.failed":
            self.failure = _message(event["error"])
        elif kind == "error":
            message = str(event["message"])  # also printed for each retry, so it ends nothing
            if len(self.warnings) < MAX_LINES:
                self.warnings.append(message[:MAX_KEPT])
        elif kind in ("item.started", "item.completed"):
            return self._item(kind, event["item"])
        return None

    def _item(self, kind: str, item: object) -> str | None:
        if not isinstance(item, dict):
            raise TypeError("item")
        if item["type"] == "command_execution":
            if kind == "item.started":
                return Command(str(item["command"]), "", None, "in_progress").typed
            code = item.get("exit_code")
            self.commands.append(
                Command(
                    str(item["command"]),
                    str(item.get("aggregated_output") or "")[:MAX_KEPT],
                    code if isinstance(code, int) else None,
                    str(item["status"]),
                )
            )
        elif item["type"] == "agent_message" and kind == "item.completed":
            self.last_message = str(item["text"])  # after a dropped stream messages repeat: the last one counts
        return None


def parse(lines: Iterable[bytes]) -> Stream:
    stream = Stream()
    for line in lines:
        stream.add(line)
    return stream


def _message(error: object) -> str:
    if not isinstance(error, dict):
        raise TypeError("error")
    return str(error["message"])


def _usage(usage: object) -> Usage:
    if not isinstance(usage, dict):
        raise TypeError("usage")
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
    return Usage(*(int(usage.get(name) or 0) for name in names))
