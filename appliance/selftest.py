"""The self-test: the sandbox is tried out, nested as a review nests it, before a pull request can suffer from it.

A ladder that follows bwrap's own steps; the first rung that fails names the layer, and the facts beside it the cause.
"""

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from appliance import battery, facts, jail, ladder
from appliance.core.advice import of_watch, warnings
from appliance.core.battery import breach
from appliance.core.disk import shortage
from appliance.core.faults import Fault, classify, named

OLDEST_BWRAP = (0, 9)
TMP_BYTES = 64 * 1024  # in the container's /tmp: a review needs less than 16 KB there, and the battery no more
PIDS_OF_A_REVIEW = 48  # measured: 28 on 2 cores, before the commands of the model start any
PIDS_PER_CORE = 4  # Codex and ripgrep start threads by the number of cores

_PROGRAMS = (("bwrap", "bwrap-missing"), ("socat", "socat-missing"), ("git", "git-missing"))


@dataclass(frozen=True)
class Step:
    """One rung: its name, whether it held, and how long it took in seconds."""

    name: str
    ok: bool
    seconds: float


@dataclass(frozen=True)
class Report:
    """What the self-test found; `fault` is the first failing step's, None if all held. Of attacks all are made.

    `warnings` stop nothing.
    """

    ok: bool
    seconds: float
    steps: tuple[Step, ...]
    fault: Fault | None
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As `appliance selftest --json` prints it (a contract: add, never rename)."""
        fault = self.fault and {
            "cause": self.fault.cause,
            "sentence": self.fault.sentence,
            "remedy": self.fault.remedy,
            "symptom": self.fault.symptom,
            "also": list(self.fault.also),
            "unsupported": self.fault.unsupported,
            "page": self.fault.page,
            "facts": dict(self.fault.facts),
        }
        steps = [{"name": step.name, "ok": step.ok, "seconds": round(step.seconds, 4)} for step in self.steps]
        seconds = round(self.seconds, 4)
        return {"ok": self.ok, "seconds": seconds, "steps": steps, "fault": fault, "warnings": list(self.warnings)}


def selftest(scratch: Path) -> Report:
    """Climb the whole ladder. `scratch` is a directory of this appliance's own, below the state volume.

    Takes about 0.2 s; leaves nothing behind. Never raises for a fault of the machine: that is what it returns.
    """
    report = climb(scratch, (*ladder.GROUND, *ladder.REVIEW))
    if not warnings({"bwrap_version": facts.bwrap_version()}):  # then Debian's books need not be read
        return report
    return replace(report, warnings=report.warnings + warnings(facts.bwrap_release()))


def deep(scratch: Path, around: battery.Surroundings, *, slow: bool = False) -> Report:
    """Climb the ladder, and where it holds let the battery of attacks loose in the jail.

    Takes half a second, or with the `slow` ones one and a half. Never raises for a fault of the machine: a battery
    that could not be run is one.
    """
    report = selftest(scratch)
    if not report.ok:
        return report
    started = time.monotonic()
    before = facts.counters()
    try:
        with ladder.prepared(scratch) as probe:
            trials, fault = battery.attack(probe, around, slow=slow)
    except (OSError, RuntimeError) as error:  # no process, or (RuntimeError) no thread left for it
        trials, fault = (), _short(error) or named("battery-failed", f"{type(error).__name__}: {error}")
    if fault is not None and fault.cause == "battery-failed":
        fault = _better_known(fault, _facts({}, before))
    attacks = tuple(Step(trial.name, trial.ok, trial.seconds) for trial in trials)
    seconds = report.seconds + time.monotonic() - started
    return replace(report, ok=fault is None, seconds=seconds, steps=report.steps + attacks, fault=fault)


def _better_known(fault: Fault, found: Mapping[str, object]) -> Fault:
    """A battery that could not be run may have a cause that the catalogue knows, as any step of the ladder."""
    known = classify("battery", fault.symptom, None, found)
    return replace(fault, facts={**found, **fault.facts}) if known.cause == "unknown" else known


def nested_probe(scratch: Path) -> Fault | None:
    """Only the rungs in a review's own jail: after a failed run, was it the sandbox? None if it holds."""
    return climb(scratch, ladder.REVIEW).fault


def climb(
    scratch: Path,
    rungs: Sequence[tuple[str, ladder.Rung]],
    preconditions: Callable[[], Fault | None] | None = None,
) -> Report:
    """Climb `rungs` in order, up to the first that does not hold; `preconditions` None means the real ones."""
    started = time.monotonic()
    steps: list[Step] = []

    def report(fault: Fault | None) -> Report:
        return Report(fault is None, time.monotonic() - started, tuple(steps), fault)

    fault = (preconditions or ground)()
    steps.append(Step("preconditions", fault is None, time.monotonic() - started))
    if fault is not None:
        return report(fault)
    before = facts.counters()
    try:
        with ladder.prepared(scratch) as probe:
            for name, rung in rungs:
                begun = time.monotonic()
                failed = _try(rung, probe)
                steps.append(Step(name, failed is None, time.monotonic() - begun))
                if failed is not None:
                    return report(_named(name, failed, _facts(probe.learnt, before)))
            unwatched = of_watch(str(probe.learnt.get("look_refused", "")))
    except OSError as error:
        steps.append(Step("scratch", False, time.monotonic() - started))
        said = f"cannot prepare the self-test in {scratch}: {error}"
        return report(_short(error) or classify("scratch", said, None, facts.read()))
    return replace(report(None), warnings=unwatched)


def _named(step: str, failed: ladder.Failed, found: Mapping[str, object]) -> Fault:
    fault = classify(step, failed.symptom, failed.code, found)
    return breach(failed.symptom, fault) if fault.cause == "breach" else fault


def _try(rung: ladder.Rung, probe: ladder.Probe) -> ladder.Failed | None:
    try:
        return rung(probe)
    except (OSError, RuntimeError) as error:  # no process, or (RuntimeError) no thread left for it
        if _short(error):
            raise
        return ladder.Failed(f"{type(error).__name__}: {error}", None)


def _short(error: Exception) -> Fault | None:
    """What it is if it tells of a full disk, or of no /tmp; texts of bwrap that look so are none."""
    known = shortage(str(error), error.errno, facts.tmp()) if isinstance(error, OSError) else None
    return known and replace(known, facts=facts.read())


def _facts(learnt: Mapping[str, object], before: Mapping[str, int]) -> dict[str, object]:
    return {**facts.everything(), **learnt, **facts.risen(before, facts.counters())}


def ground() -> Fault | None:
    """What makes every rung senseless: root, a program that is not there, no room for the processes of a review or in
    the container's /tmp."""
    if os.getuid() == 0:
        found = _root_facts()
        detail = str(found["detail"])
        return named("root-user", "uid 0", found, *([detail] if detail != "root" else []))
    for program, cause in _PROGRAMS:
        if shutil.which(program, path=jail.PATH) is None:
            return named(cause, f"{program} is not on {jail.PATH}", facts.read())
    try:
        jail.codex_package()
    except FileNotFoundError as error:
        return named("codex-missing", str(error), facts.read())
    version = facts.bwrap_version()
    if version is not None and tuple(int(part) for part in version.split(".")) < OLDEST_BWRAP:
        return named("bwrap-too-old", f"bubblewrap {version}", {**facts.read(), "bwrap_version": version})
    # Short of processes Codex hangs, panics, or ends with 0 after a command that never ran: so it is not tried.
    left, needed = facts.pids_left(), PIDS_OF_A_REVIEW + PIDS_PER_CORE * (os.cpu_count() or 1)
    if left is not None and left < needed:
        return named("pids-limit", f"{left} processes are left, a review needs {needed}", facts.read())
    return no_room()


def no_room() -> Fault | None:
    """That what a review writes into the container's /tmp finds no room or no place there; None if it does."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(b"\0" * TMP_BYTES)
            file.flush()
    except OSError as error:
        where = error.filename or (tempfile.tempdir and f"{tempfile.tempdir}/")
        if short := _short(OSError(error.errno, error.strerror or str(error), where) if where else error):
            return short
        if error.errno in (errno.ENOENT, errno.EROFS, errno.EACCES):
            return named("no-tmp-dir", str(error), facts.read())
    return None


def _root_facts() -> dict[str, object]:
    """Also why a bwrap of root would fail here: without SYS_ADMIN (bit 21) it makes no user namespace of its own
    accord, and without SETFCAP (bit 31) the kernel refuses its uid map."""
    found = facts.read()
    bounding = int(str(found.get("cap_bnd", "0")), 16)
    if not bounding >> 21 & 1:
        detail = "root-without-userns"
    else:
        detail = "root" if bounding >> 31 & 1 else "root-without-setfcap"
    return {**found, "detail": detail}
