"""The boundary of a check: one that breaks is a line like any other, and never an "ok"."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from appliance.core.doctor import Line, found, of_fault
from appliance.failures import fault_of

Check = Callable[[], Iterable[Line]]


def guarded(name: str, check: Check, subject: str = "") -> list[Line]:
    """The lines of `check`, up to where it broke, if it did; one that finds nothing to say has broken too."""
    lines: list[Line] = []
    try:
        for line in check():
            lines.append(line)
    except Exception as error:  # noqa: BLE001  the boundary of one check: the others are made all the same
        fault = fault_of(error)
        known = of_fault(name, fault, subject)
        why = replace(known, id="unexamined", sentence=f"It could not be examined: {known.sentence}")
        lines.append(why if fault.cause in ("defect", "workstation") else known)
    return lines or [found(name, "unexamined", subject, why="the check says nothing.")]
