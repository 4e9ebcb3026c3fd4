"""The sandbox: what the self-test says."""

from collections.abc import Iterator
from pathlib import Path

from appliance.core.doctor import Line, fine, of_fault
from appliance.selftest import Report, selftest
from appliance.workdir import WorkDirs


def check(work: WorkDirs) -> Iterator[Line]:
    with work.new("doctor-") as scratch:
        yield _line(selftest(scratch))


def bare() -> Iterator[Line]:
    """Without settings and without a state volume."""
    return check(WorkDirs(Path("/run/appliance/work")))


def _line(report: Report) -> Line:
    if report.fault:
        return of_fault("sandbox", report.fault)
    return fine("sandbox", f"The sandbox works, nested as in a review ({len(report.steps)} steps).")
