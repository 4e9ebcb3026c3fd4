"""Faults: a named cause with what happened and what the person does next."""

import errno
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from appliance.core.catalogue import CATALOGUE, UNKNOWN, Condition, Entry

MAX_SYMPTOM = 2000  # characters kept of a program's raw text


@dataclass(frozen=True)
class Fault:
    """A fault that is not the pull request's.

    `cause` is a stable id; `sentence` says what is broken; `remedy` is what the person types; `symptom` is the raw
    text it was told by; `facts` is what was read beside it.
    """

    cause: str
    sentence: str
    remedy: str
    symptom: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.cause}: {self.told}"

    @property
    def told(self) -> str:
        """What is broken and the next step, as people read it."""
        return f"{full_stop(self.sentence)} Next: {self.remedy}"


def full_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def classify(step: str, symptom: str, code: int | None, facts: Mapping[str, object]) -> Fault:
    """Name the cause of a failed step of the self-test, from its text *and* from the facts read beside it.

    `step` is the self-test's name of it, `symptom` what the failed program wrote, `code` its exit code (None: it never
    ran), `facts` what `appliance.facts` read; a fact that could not be read is simply not there. Never fails: what
    the catalogue does not know is `unknown`, with text and facts kept. The fact `told_by` says whether facts
    confirmed the cause or the text alone names it.
    """
    proven = [entry for entry in CATALOGUE if _text(entry.texts + entry.shared, symptom) and _proven(entry, facts)]
    likely = [entry for entry in CATALOGUE if _text(entry.texts, symptom) and not _refuted(entry, facts)]
    entry = next(iter(proven + likely), UNKNOWN)
    told_by = "facts" if entry in proven else "nothing" if entry is UNKNOWN else "text"
    return _fault(entry, symptom, {**facts, "step": step, "exit_code": code, "told_by": told_by})


def named(cause: str, symptom: str = "", facts: Mapping[str, object] | None = None) -> Fault:
    """The fault of a cause that is certain without a text, as a program that is not there. Raises KeyError."""
    return _fault(_BY_CAUSE[cause], symptom, facts or {})


_BY_CAUSE = {entry.cause: entry for entry in (*CATALOGUE, UNKNOWN)}


def _fault(entry: Entry, symptom: str, facts: Mapping[str, object]) -> Fault:
    return Fault(entry.cause, entry.sentence, entry.remedy, symptom.strip()[:MAX_SYMPTOM], dict(facts))


def _text(patterns: tuple[str, ...], symptom: str) -> bool:
    return any(re.search(pattern, symptom) for pattern in patterns)


def _proven(entry: Entry, facts: Mapping[str, object]) -> bool:
    return bool(entry.must) and all(_holds(one, facts) for one in entry.must) and not _refuted(entry, facts)


def _refuted(entry: Entry, facts: Mapping[str, object]) -> bool:
    return any(_holds(one, facts) is False for one in entry.must) or any(_holds(one, facts) for one in entry.never)


def _holds(condition: Condition, facts: Mapping[str, object]) -> bool | None:
    """None: the fact was not read."""
    names = condition.fact.split()
    if any(name not in facts for name in names):
        return None
    text = " ".join(str(facts[name]) for name in names)
    return re.fullmatch(condition.pattern, text, re.DOTALL) is not None


# What bwrap says when it dies while it sets up: how each message begins (the strings of bwrap 0.12), then the system's
# word for the error, to the end of the line. Not `execvp` (the jail is up, the command is missing), and no complaint
# about arguments (then the agent called bwrap itself).
_BEGINS = (
    r"loopback: Failed|setting up [ug]id map|error writing to setgroups|Creating \w+( namespace)? failed|"
    r"open /proc/\S+ failed|can't (open|set)\b|"
    r"Can't (access|bind|chdir|chmod|create|find|fork|get|make|mkdir|mount|open|opendir|read|remount|set|stat)\b|"
    r"Failed to|pivot_root|unmount old root|umount old root|chdir |fchdir |mounting proc|"
    r"setting up newroot bind|unshare (user|pid) ns|Setting (userns2|pidns) failed|capget|capset failed|prctl|"
    r"read eventfd|read signalfd|fork\b|wait|creating "
)
_ERRORS = "|".join(re.escape(os.strerror(code)) for code in errno.errorcode)
_SENTENCES = (
    r"No permissions to creat(e|ing)( a)? new namespace, likely because [^\n]{0,300}"
    r"|Creating new namespace failed, likely because the kernel does not support user namespaces\.[^\n]{0,100}"
    r"|Creating new namespace failed: nesting depth or /proc/sys/user/max_\*_namespaces exceeded \(ENOSPC\)"
    r"|Unexpected capabilities but not setuid, old file caps config\?"
    r"|setuid use of bubblewrap is not supported( in this build)?"
    r"|Cannot create new cgroup namespace because the kernel does not support it"
)
_BWRAP_LINE = re.compile(
    r"(?:(?:Error: )?Child process exited with code \d+: )?(?:<\d>)?bwrap: "
    rf"(?:(?:{_BEGINS})[^\n]{{0,300}}: (?:{_ERRORS})(?: \(Hint: [^\n]{{0,300}}\))?"
    rf"|{_SENTENCES})"
)


def is_bwrap_failure(output: str) -> bool:
    """Whether `output`, all that a failed command wrote, is nothing but bwrap's own failure.

    A text that quotes such a line, or goes on after it, is not: repositories contain them. Only to be asked of a
    command that exited non-zero, and only a hint: `selftest.nested_probe` decides.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return 0 < len(lines) <= 3 and all(_BWRAP_LINE.fullmatch(line) for line in lines)
