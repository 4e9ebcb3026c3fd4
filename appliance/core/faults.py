"""Faults: a named cause with what happened and what the person does next."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from appliance.core.catalogue import CATALOGUE, UNKNOWN, Condition, Entry
from appliance.core.catalogue.entry import page_of
from appliance.core.wording import is_bwrap_failure, is_jail_fault, messages

__all__ = ["Fault", "beside", "classify", "cured", "full_stop", "is_bwrap_failure", "name_of", "named"]

MAX_SYMPTOM = 2000  # characters kept of a program's raw text
MAX_ALSO_TOLD = 3  # of the other causes that fit, as people read it; `also` has all


@dataclass(frozen=True)
class Fault:
    """A fault that is not the pull request's.

    `cause` is a stable id; `sentence` says what is broken; `remedy` is what the person types; `symptom` is the raw
    text it was told by; `facts` is what was read beside it. `also`: further causes that fit, the likelier first.
    `unsupported`: it cannot work on this host at all, as against not now.
    """

    cause: str
    sentence: str
    remedy: str
    symptom: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    unsupported: bool = False

    def __str__(self) -> str:
        return f"{self.cause}: {self.told}"

    @property
    def page(self) -> str:
        """Where it is explained."""
        return page_of(self.cause)

    @property
    def told(self) -> str:
        """What is broken, what else it may be, and the next step, as people read it."""
        others = ", ".join(self.also[:MAX_ALSO_TOLD])
        also = f" It may also be: {others} (see docs/faults.md)." if others else ""
        return f"{full_stop(self.sentence)}{also} Next: {self.remedy}"


def full_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def classify(step: str, symptom: str, code: int | None, facts: Mapping[str, object]) -> Fault:
    """Name the cause of a failed step of the self-test, from its text *and* from the facts read beside it.

    `step` is the self-test's name of it, `symptom` what the failed program wrote, `code` its exit code (None: it never
    ran), `facts` what `appliance.facts` read; a fact that could not be read is simply not there. Never fails: what
    the catalogue does not know is `unknown`, with text and facts kept. The fact `told_by` says whether facts
    confirmed the cause or the text alone names it. Whoever does not know that a program failed asks `name_of`.
    """
    said = messages(symptom) or ("",)
    proven = [entry for entry in CATALOGUE if _text(entry.texts + entry.shared, said) and _proven(entry, facts)]
    likely = [entry for entry in CATALOGUE if _text(entry.texts, said) and not _refuted(entry, facts)]
    possible = [entry for entry in CATALOGUE if _text(entry.shared, said) and _possible(entry, facts)]
    entry = next(iter(proven + likely), UNKNOWN)
    told_by = "facts" if entry in proven else "nothing" if entry is UNKNOWN else "text"
    others = proven + likely + ([] if proven else possible)
    also = tuple(dict.fromkeys(other.cause for other in others if other is not entry))
    return _fault(entry, symptom, {**facts, "step": step, "exit_code": code, "told_by": told_by}, also)


def name_of(text: str, facts: Mapping[str, object] | None = None) -> str | None:
    """The cause that `text` shows, or None if it is no fault of a jail: a quotation, a missing command, other programs.

    `text` is anything that somebody was shown: a command's output, a log, a report. `facts` as for `classify`; none
    are needed. `unknown` means that a jail did fail, for a reason that text and facts do not tell.
    """
    return classify("report", text, None, facts or {}).cause if is_jail_fault(text) else None


# What stays as it is while a container lives. Sysctls, masks, limits and the labels of a jail may have changed since.
_LASTING = (
    "uid", "gid", "cap_prm", "cap_eff", "cap_bnd", "cap_amb", "no_new_privs", "seccomp", "label", "container", "gvisor",
    "osrelease", "userns", "root_mount", "bwrap_mode", "bwrap_caps", "bwrap_version", "codex_version", "tmp",
    "call_clone", "call_mount", "call_umount", "call_pivot", "call_netlink", "pids_denied", "oom_kills",
)  # fmt: skip


def cured(fault: Fault, facts: Mapping[str, object]) -> Fault:
    """`fault`, seen during a review and gone when it was probed: named from its text and from what lasts of `facts`.

    What may have changed in between (a sysctl, a mask, a profile) neither proves nor refutes; all facts are kept.
    """
    lasting = {name: value for name, value in facts.items() if name in _LASTING}
    again = classify("review", fault.symptom, _code(fault), lasting)
    sentence = f"{full_stop(again.sentence)} It was so during a review; the self-test after it found nothing."
    return replace(again, sentence=sentence, facts={**facts, **again.facts})


def beside(found: Fault, seen: Fault) -> Fault:
    """`found` by a probe, after `seen` in a review: if that is another cause, by its text and the same facts, it is
    named too."""
    other = classify("review", seen.symptom, _code(seen), found.facts)
    if other.cause in (UNKNOWN.cause, found.cause, *found.also):
        return found
    return replace(found, also=(*found.also, other.cause))


def _code(fault: Fault) -> int | None:
    code = fault.facts.get("exit_code")
    return code if isinstance(code, int) else None


def named(cause: str, symptom: str = "", facts: Mapping[str, object] | None = None, *also: str) -> Fault:
    """The fault of a cause that is certain without a text, as a program that is not there. Raises KeyError."""
    return _fault(_BY_CAUSE[cause], symptom, facts or {}, also)


_BY_CAUSE = {entry.cause: entry for entry in (*CATALOGUE, UNKNOWN)}


def _fault(entry: Entry, symptom: str, facts: Mapping[str, object], also: tuple[str, ...]) -> Fault:
    text = symptom.strip()[:MAX_SYMPTOM]
    return Fault(entry.cause, entry.sentence, entry.remedy, text, dict(facts), also, entry.unsupported)


def _text(patterns: tuple[str, ...], said: Iterable[str]) -> bool:
    return any(re.match(rf"(?:bwrap: )?(?:{pattern})", message) for message in said for pattern in patterns)


def _proven(entry: Entry, facts: Mapping[str, object]) -> bool:
    needed = entry.must + entry.confirm
    return bool(needed) and all(_holds(one, facts) for one in needed) and not _refuted(entry, facts)


def _possible(entry: Entry, facts: Mapping[str, object]) -> bool:
    """Not disproven; but what fits any text is not worth naming without its facts."""
    return (
        "" not in entry.shared
        and not _refuted(entry, facts)
        and all(_holds(one, facts) is not False for one in entry.confirm)
    )


def _refuted(entry: Entry, facts: Mapping[str, object]) -> bool:
    return any(_holds(one, facts) is False for one in entry.must) or any(_holds(one, facts) for one in entry.never)


def _holds(condition: Condition, facts: Mapping[str, object]) -> bool | None:
    """None: the fact was not read."""
    either = [_matches(names, condition.pattern, facts) for names in condition.fact.split("|")]
    return True if True in either else either[0]


def _matches(names: str, pattern: str, facts: Mapping[str, object]) -> bool | None:
    if any(name not in facts for name in names.split()):
        return None
    text = " ".join(str(facts[name]) for name in names.split())
    return re.fullmatch(pattern, text, re.DOTALL) is not None
