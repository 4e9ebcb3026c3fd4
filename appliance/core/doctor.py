"""What the doctor says: one line for each thing it looked at.

A line that is no "ok" has the cause's stable id, a sentence, and what the person types. What cannot work here at all
(`unsupported`: this host, this kernel, this engine) is told apart from what does not work now.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from appliance.core.doctor_causes import CAUSES, State
from appliance.core.faults import Fault

Place = Literal["container", "host"]
_BY_ID = {cause.id: cause for cause in CAUSES}


@dataclass(frozen=True)
class Line:
    """What one look at one thing found.

    `check` names what was looked at and `subject` which one (a repository, a branch; empty if there is only one);
    `id` is the cause, or the check's own name if all is well. `remedy` is what the person types, empty if all is well.
    """

    check: str
    state: State
    id: str
    sentence: str
    remedy: str = ""
    subject: str = ""
    unsupported: bool = False
    place: Place = "container"


def fine(check: str, sentence: str, subject: str = "") -> Line:
    return Line(check, "ok", check, sentence, subject=subject)


def found(check: str, cause: str, subject: str = "", /, **values: object) -> Line:
    """The line of a cause in the table. Raises KeyError for one that is not in it."""
    entry = _BY_ID[cause]
    told = (entry.sentence.format(**values), entry.remedy.format(**values))
    return Line(check, entry.state, entry.id, *told, subject=subject, unsupported=entry.unsupported)


def of_fault(check: str, fault: Fault, subject: str = "", state: State = "fault") -> Line:
    """A fault that another part of the appliance has named."""
    return Line(
        check,
        state,
        fault.cause,
        fault.told.partition(" Next: ")[0],
        fault.remedy,
        subject,
        unsupported=fault.unsupported,
    )


def well(lines: Iterable[Line]) -> bool:
    """No line is a fault."""
    return all(line.state != "fault" for line in lines)


def to_json(lines: Iterable[Line]) -> dict[str, Any]:
    """As `appliance doctor --json` prints it (a contract: add, never rename)."""
    lines = list(lines)
    shown = [
        {
            "id": line.id,
            "check": line.check,
            "subject": line.subject,
            "place": line.place,
            "state": line.state,
            "sentence": line.sentence,
            "remedy": line.remedy,
            "unsupported": line.unsupported,
        }
        for line in lines
    ]
    return {"ok": well(lines), "lines": shown}


def of_json(told: Any) -> list[Line]:
    """The lines that another doctor printed. Raises ValueError if that is not what it printed."""
    if not isinstance(told, Mapping) or not isinstance(told.get("lines"), list) or not told["lines"]:
        raise ValueError("it printed no lines")
    return [_line(one) for one in told["lines"]]


def _line(told: Any) -> Line:
    if not isinstance(told, Mapping) or told.get("state") not in get_args(State):
        raise ValueError("a line has no state")
    check, cause, sentence, remedy, subject = (
        str(told.get(name, "")) for name in ("check", "id", "sentence", "remedy", "subject")
    )
    return Line(check, told["state"], cause, sentence, remedy, subject, told.get("unsupported") is True)


def shown(lines: Iterable[Line]) -> Iterator[str]:
    """As people read it: state, id and subject, the sentence, and the next step below it, a line each."""
    lines = list(map(_flat, lines))
    told: dict[tuple[str, str, str], str] = {}
    for line in lines:
        about = f" {line.subject}" if line.subject else ""
        same = _fault_of(line)
        if line.state != "ok" and same in told:  # one fault shows in several places
            yield f"{'FAULT' if line.state == 'fault' else line.state:8}{line.id}{about}: as above ({line.check})."
            continue
        told[same] = line.check
        yield f"{'FAULT' if line.state == 'fault' else line.state:8}{line.id}{about}: {line.sentence}"
        if line.unsupported:
            yield "        This is not supported here: it cannot work on this host as it is."
        if line.remedy:
            yield f"        Next: {line.remedy}"
    yield _sum(lines)


def _flat(line: Line) -> Line:
    """A name of somebody else's may have line ends in it, and none makes a line of ours."""
    sentence, remedy, subject = (" ".join(text.splitlines()) for text in (line.sentence, line.remedy, line.subject))
    return replace(line, sentence=sentence, remedy=remedy, subject=subject)


def _fault_of(line: Line) -> tuple[str, str, str]:
    """The same of two lines that tell of one fault."""
    return line.id, line.sentence, line.remedy


def _sum(lines: list[Line]) -> str:
    told = ({_fault_of(line) for line in lines if line.state == state} for state in ("fault", "warning"))
    faults, warnings = map(len, told)
    if not faults and not warnings:
        return f"All is well: {len(lines)} things were looked at."
    return f"{_count(faults, 'fault')}, {_count(warnings, 'warning')}, {_count(len(lines), 'line')} in all."


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
