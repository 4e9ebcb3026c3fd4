"""The sandbox: what the self-test says, and with `deep` what the attacks from inside come to."""

from collections.abc import Iterator
from pathlib import Path

from appliance.core.doctor import Line, fine, found, of_fault
from appliance.selftest import Report, deep, selftest
from appliance.wiring import Appliance, surroundings
from appliance.workdir import WorkDirs


def check(parts: Appliance) -> Iterator[Line]:
    with parts.work.new("doctor-") as scratch:
        yield from _lines(selftest(scratch), "")


def attacked(parts: Appliance) -> Iterator[Line]:
    """The same, and the battery of attacks; what it came to is what the next cycle goes by."""
    with parts.work.new("doctor-") as scratch:
        report = deep(scratch, surroundings(parts.settings, parts.app_tokens()))
    parts.note_battery(report)
    yield from _lines(report, ", and every attack was held")


def bare(work: Path = Path("/run/appliance/work")) -> Iterator[Line]:
    """Without settings and without a database: all that it takes is a folder to make `work` in."""
    try:
        with WorkDirs(work).new("doctor-") as scratch:
            report = selftest(scratch)
    except OSError:
        report = selftest(work / "doctor")  # cannot be made: the self-test says why, as for root
    yield from _lines(report, "")


def _lines(report: Report, more: str) -> Iterator[Line]:
    if report.fault:
        yield of_fault("sandbox", report.fault)
    else:
        yield fine("sandbox", f"The sandbox works, nested as in a review ({len(report.steps)} steps){more}.")
    for said in report.warnings:
        sentence, _, remedy = said.partition(" Next: ")
        yield found("sandbox", "sandbox-advice", said=sentence, remedy=remedy)
