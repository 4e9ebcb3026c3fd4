"""Runs the rows and tells what became of them."""

import logging
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import structlog

from appliance.selftest import nested_probe
from appliance.trials import oracle, origin
from appliance.trials.oracle import COUNTS, Wrong
from appliance.trials.origin import Origin
from appliance.trials.row import Row
from appliance.trials.stage import Stage, cure

CYCLE = 301.0  # seconds from one cycle to the next, by the trial's clock
HEALING = 8 * 3600.0  # the same once all is cured: longer than any wait, and a midnight comes
HEALS = 6
AT_ONCE = 2
AT_A_TIME = 4  # rows that a process is given in one go
COLUMNS = {count: len(count) + 3 for count in COUNTS}


@dataclass(frozen=True)
class Tried:
    """What became of one row; nothing in `wrong` is what must be."""

    row: Row
    wrong: tuple[Wrong, ...]
    seconds: float


def tried(rows: Sequence[Row], *, real: bool, progress: Callable[[Tried], None] = lambda _: None) -> list[Tried]:
    """Each row in a world of its own below a temporary directory. `real`: Codex itself where a row is about it.

    In processes of their own, for a row is mostly Python's work; begun anew each (spawned), for one that is forked
    inherits locks which threads of this one may hold.
    """
    root = Path(tempfile.mkdtemp(prefix="gate-check-"))
    try:
        repository = origin.make(root / "origin")
        if len(rows) == 1:
            return [one(rows[0], root / "0", repository, real=real)]
        with ProcessPoolExecutor(AT_ONCE, mp_context=get_context("spawn"), initializer=_begin) as pool:
            found = []
            ones = partial(one, repository=repository, real=real)
            for done in pool.map(ones, rows, (root / str(n) for n in range(len(rows))), chunksize=AT_A_TIME):
                progress(done)
                found.append(done)
            return found
    finally:
        shutil.rmtree(root, ignore_errors=True)


def one(row: Row, folder: Path, repository: Origin, *, real: bool) -> Tried:
    """One row, in the directory `folder`, which is made and removed."""
    started = time.monotonic()
    with Stage(folder, repository, real and row.codex, row.settings, app=row.app) as stage:
        wrong = tuple(dict.fromkeys(_played(row, stage)))
    shutil.rmtree(folder, ignore_errors=True)
    return Tried(row, wrong, time.monotonic() - started)


def _played(row: Row, stage: Stage) -> Iterator[Wrong]:
    for what in row.before:
        stage.do(what)
    stage.model.play(*row.script)
    stage.github.begin(row.faults)
    for what in row.then:
        stage.do(what)
    stage.model.on_ask = _once(stage, row.asked)
    stage.line.kill, stage.line.writes = row.kill, 0
    for _ in range(row.cycles):
        stage.run(CYCLE)
    yield from oracle.attempts(stage, row.failed, heard=row.heard)
    cure(stage)
    failed = row.failed
    if row.gives_up:
        stage.run(CYCLE)
        yield from oracle.standing(stage, "error")
        stage.do("a person asks again")
        failed = 0
    wrong: list[Wrong] = []
    for _ in range(HEALS):
        stage.run(HEALING)
        wrong = [
            *oracle.results(stage),
            *oracle.standing(stage, row.end),
            *oracle.surroundings(stage, row.given_up),
        ]
        if not wrong:
            break
    yield from wrong
    if row.end is None:
        yield from oracle.attempts(stage, failed)
    yield from oracle.writes(stage)
    yield from (Wrong("stuck", f"a cycle broke: {said}") for said in stage.crashes)


def _once(stage: Stage, happens: Sequence[str]) -> Callable[[], None]:
    left = list(happens)

    def asked() -> None:
        while left:
            stage.do(left.pop(0))

    return asked


def _begin() -> None:
    """In each process: Ctrl-C is the one's that waits for it, and lets the rows that run end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _silent()


def _silent() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.disable(logging.CRITICAL)


@contextmanager
def silence() -> Iterator[None]:
    """What the product logs of faults that were made on purpose would bury what they came to."""
    before = structlog.get_config()
    _silent()
    try:
        yield
    finally:
        structlog.configure(**before)
        logging.disable(logging.NOTSET)


def codex_works() -> tuple[bool, str]:
    """Whether Codex can run in its jail here, and what is said of it."""
    with tempfile.TemporaryDirectory(prefix="gate-check-probe-") as scratch:
        fault = nested_probe(Path(scratch))
    if fault:
        return False, f"recorded events of Codex, for its sandbox does not work here: {fault.cause}"
    return True, "the real Codex in its jail"


def sums(found: Sequence[Tried]) -> dict[str, int]:
    """How many rows ended in each of COUNTS."""
    met = Counter(count for one in found for count in {wrong.count for wrong in one.wrong})
    return {count: met[count] for count in COUNTS}


@dataclass(frozen=True)
class Report:
    """What `appliance gate-check` prints. `codex`: whether the real one took part; `how` says it in words."""

    found: tuple[Tried, ...]
    codex: bool
    how: str
    seconds: float

    @property
    def ok(self) -> bool:
        return not any(one.wrong for one in self.found)

    def lines(self) -> Iterator[str]:
        groups: dict[str, list[Tried]] = {}
        for one in self.found:
            groups.setdefault(one.row.group, []).append(one)
        yield f"{'':10} {'faults':>8}" + "".join(f"{name:>{width}}" for name, width in COLUMNS.items())
        for name, ones in groups.items():
            met = sums(ones)
            yield f"{name:10} {len(ones):8}" + "".join(f"{met[count]:{width}}" for count, width in COLUMNS.items())
        yield f"The model's failures: {self.how}. {self.seconds:.0f} s."
        for one in self.found:
            if one.wrong:
                yield f"FAIL {one.row.title}"
                yield f"     {one.row.injected}"
                yield from (f"     {wrong.count}: {wrong.what}" for wrong in one.wrong)
                yield f'     again: appliance gate-check --only "{one.row.title}"'
        met = sums(self.found)
        stuck = f", {met['stuck']} stuck" if met["stuck"] else ""
        yield (
            f"{len(self.found)} faults: {met['false success']} false successes, {met['lost result']} lost results, "
            f"{met['double post']} double posts, {met['wrongly counted attempt']} wrongly counted attempts{stuck}"
        )

    def to_json(self) -> dict[str, Any]:
        met = sums(self.found)
        return {
            "ok": self.ok,
            "faults": len(self.found),
            "false_successes": met["false success"],
            "lost_results": met["lost result"],
            "double_posts": met["double post"],
            "wrongly_counted_attempts": met["wrongly counted attempt"],
            "stuck": met["stuck"],
            "real_codex": self.codex,
            "seconds": round(self.seconds, 1),
            "failed": [
                {
                    "name": one.row.title,
                    "injected": one.row.injected,
                    "wrong": [{"count": wrong.count, "what": wrong.what} for wrong in one.wrong],
                }
                for one in self.found
                if one.wrong
            ],
        }
