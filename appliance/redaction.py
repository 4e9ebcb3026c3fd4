"""What may be said: every text passes here on its way out, to log, health, store, forge and terminal.

Our own secrets are told to it where they are read. They are facts of the process, not of a caller: a way out that was
handed the wrong list would leak. It is the one list of them; the model gate takes out by it what comes back.
"""

import re
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any

from appliance.core.faults import Fault
from appliance.core.findings import EarlierFinding, Finding, NotSeen, Review
from appliance.core.inert import plain
from appliance.core.outcomes import Ending
from appliance.core.redact import encoded, forms, masked, redact

KEY_LINE = 16  # characters; a shorter line of a key tells too little of it, and might be a word
MAX_PASSING = 400  # values: a login has four, an App one for each owner, and its claims; all change with each refresh

_lasting: dict[str | bytes, tuple[str, ...]] = {}  # each with its spellings
_passing: dict[str | bytes, tuple[str, ...]] = {}  # the one that was told last is the last
_known: tuple[str, ...] = ()
_lock = threading.Lock()


def keep_secret(*values: str | bytes | None, passing: bool = False) -> None:
    """From now on none of `values` is said, in none of its spellings. Values too short to be told from words are
    not kept. `passing`: others will take their place, and then the oldest of these are forgotten."""
    global _known  # noqa: PLW0603  (replaced whole: whoever reads it needs no lock)
    with _lock:
        for value in values:
            if not value or value in _lasting:
                continue
            spelled = _passing.pop(value, ()) or _forms(value)
            if spelled:
                (_passing if passing else _lasting)[value] = spelled
        for value in list(_passing)[:-MAX_PASSING]:
            del _passing[value]
        # The longest first: one may be a part of another.
        spellings = {form for kept in (_lasting, _passing) for each in kept.values() for form in each}
        _known = tuple(sorted(spellings, key=len, reverse=True))


def keep_key(pem: str) -> None:
    """The same for a private key in PEM: also each of its lines, and its body in one."""
    body = key_lines(pem, shortest=1)
    keep_secret(pem, pem.strip(), "\n".join(body), "".join(body), *key_lines(pem))


def key_lines(pem: str, shortest: int = KEY_LINE) -> list[str]:
    """The lines of its body that are long enough to be told from words, however its line ends are written."""
    lines = [line.strip() for line in re.split(r"\\n|\\r|[\r\n]", pem)]
    return [line for line in lines if len(line) >= shortest and not line.startswith("-----")]


def known() -> tuple[str, ...]:
    """Our own secrets in all their spellings."""
    return _known


def _forms(value: str | bytes) -> tuple[str, ...]:
    return forms(value) if isinstance(value, str) else (value.hex(), *encoded(value))


def redacted(text: str) -> str:
    """`text` without secrets: ours by value, others by their shape."""
    return redact(text, _known)


def ours_out(text: str) -> str:
    """`text` without our own secrets, and else as it is: for what a program goes on reading."""
    return masked(text, _known)


def say(text: str) -> str:
    """The same for terminals and logs: without what acts on those, too."""
    return redacted(plain(text))


def cleaned(value: Any, clean: Callable[[str], str] = redacted) -> Any:
    """A JSON-like value with `clean` done to each text in it, keys included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {cleaned(key, clean): cleaned(one, clean) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(one, clean) for one in value]
    return value


def ending(ended: Ending) -> Ending:
    """How an attempt ended, without secrets in what it tells."""
    found = review(ended.review) if ended.review else None
    told = fault(ended.fault) if ended.fault else None
    return replace(ended, reason=redacted(ended.reason), review=found, fault=told)


def fault(told: Fault) -> Fault:
    return replace(
        told,
        sentence=redacted(told.sentence),
        remedy=redacted(told.remedy),
        symptom=redacted(told.symptom),
        facts=cleaned(told.facts),
    )


def review(found: Review) -> Review:
    """A review with no secret in the texts that the model wrote, commands included."""
    result, evidence, held = found.result, found.evidence, found.configuration
    return replace(
        found,
        result=replace(
            result,
            summary=redacted(result.summary),
            reasoning=redacted(result.reasoning),
            limits=redacted(result.limits),
            findings=tuple(_finding(one) for one in result.findings),
            earlier=tuple(
                replace(one, id=redacted(one.id), commit=redacted(one.commit), evidence=redacted(one.evidence))
                for one in result.earlier
            ),
        ),
        evidence=replace(
            evidence,
            commands=tuple(redacted(one) for one in evidence.commands),
            failed_commands=tuple(redacted(one) for one in evidence.failed_commands),
        ),
        configuration=replace(held, notes=tuple(redacted(one) for one in held.notes)),
        coverage=replace(
            found.coverage,
            trimmed=tuple(map(_not_seen, found.coverage.trimmed)),
            left_out=tuple(map(_not_seen, found.coverage.left_out)),
        ),
        earlier=tuple(map(_earlier, found.earlier)),
    )


def _finding(found: Finding) -> Finding:
    suggestion = found.suggestion
    if suggestion is not None and redacted(suggestion) != suggestion:
        suggestion = None  # what is left of it would be committed as it stands
    return replace(
        found,
        title=redacted(found.title),
        body=redacted(found.body),
        path=redacted(found.path),
        suggestion=suggestion,
        committable=found.committable and suggestion is not None,
        anchor=replace(found.anchor, path=redacted(found.anchor.path)) if found.anchor else None,
    )


def _not_seen(found: NotSeen) -> NotSeen:
    return replace(found, path=redacted(found.path), why=redacted(found.why))


def _earlier(found: EarlierFinding) -> EarlierFinding:
    return replace(
        found,
        path=redacted(found.path),
        title=redacted(found.title),
        commit=redacted(found.commit),
        evidence=redacted(found.evidence),
        reason=redacted(found.reason),
        who=redacted(found.who),
    )


def guard() -> None:
    """Let what nobody caught be printed as everything else is: a traceback shows the exception's message."""
    sys.excepthook = _crash
    threading.excepthook = lambda args: _crash(args.exc_type, args.exc_value, args.exc_traceback)


def _crash(kind: type[BaseException], error: BaseException | None, where: TracebackType | None) -> None:
    if issubclass(kind, SystemExit):
        return
    print(say("".join(traceback.format_exception(kind, error, where))), file=sys.stderr, end="", flush=True)
