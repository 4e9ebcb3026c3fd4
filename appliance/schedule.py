"""The loop: a cycle at start, and the next one an interval after the last one *ended*."""

import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from sqlalchemy.exc import SQLAlchemyError

from appliance import redaction, sample
from appliance.core.faults import Fault
from appliance.core.health import Health
from appliance.cycle import Result
from appliance.failures import LOST_WITH_IT, fault_of
from appliance.flock import held, try_lock
from appliance.login_made import sweep
from appliance.process import Stopped
from appliance.progress import Progress
from appliance.settings import Settings
from appliance.store import words
from appliance.wiring import NEXT_STEPS, Appliance, blocked

log = structlog.get_logger()

HEARTBEAT_SECONDS = 15
REST_SECONDS = 0.5
STUCK_MARGIN_SECONDS = 300.0  # beyond the review timeout, in which even fetching and posting should have moved
SHUTDOWN_SECONDS = 5.0  # Docker kills after 10, and a busy machine needs some of them
KEPT_SECONDS = 90 * 86_400.0  # an answer of the forge that is older belongs to what is watched no more
ONE_CYCLE_SECONDS = 24 * 3600.0
GONE = Fault(
    "state",
    "The database was deleted or replaced while the appliance runs.",
    f"run `docker compose restart`. Reviews are read back from the forge; lost are {LOST_WITH_IT}.",
)
_MARKER = re.compile(r"\n*<!-- .*? -->\s*$", re.DOTALL)  # hidden on a forge, noise in a log


def run_cycle(parts: Appliance, progress: Progress | None = None, *, by_hand: bool = False) -> Result:
    """One cycle, alone among all processes of this appliance; notes when it ended and when the next is due."""
    result = guarded(parts, lambda: _alone(parts, progress, by_hand=by_hand))
    now = time.time()
    note = {"last_ended": now, "next": now + parts.settings.interval, "failed": result.failed}
    try:
        parts.store.set_note("cycle", note)
    except SQLAlchemyError as error:
        log.error("cycle.unnoted", error=words(error))
    return result


def cycle_runs(parts: Appliance) -> bool:
    """Whether some process of this appliance runs a cycle now."""
    lock = try_lock(parts.settings.state_dir / "locks" / "cycle")
    if lock is not None:
        os.close(lock)
    return lock is None


def _alone(parts: Appliance, progress: Progress | None, *, by_hand: bool) -> Result:
    with held(parts.settings.state_dir / "locks" / "cycle", timeout=ONE_CYCLE_SECONDS, stop=parts.stop):
        if parts.store.gone():
            parts.show_health(GONE, 0)
            return Result(GONE, GONE, 0, 0)
        if lost := parts.key_fault():
            parts.show_health(lost, 0)
            return Result(lost, lost, 0, 0)
        sweep(parts.login.home)
        for removed in parts.keeper.reclaim():
            log.info("workdir.reclaimed", path=str(removed))
        for removed in (*parts.mirrors.tidy(time.time()), *parts.slots.tidy(time.time())):
            log.info("unused.removed", path=str(removed))
        parts.store.forget_answers_before(time.time() - KEPT_SECONDS)
        return parts.cycle(progress, by_hand=by_hand).run()


def guarded(parts: Appliance, cycle: Callable[[], Result]) -> Result:
    """The boundary of a cycle: whatever breaks in it is a fault of the appliance, shown, and the next cycle comes."""
    try:
        return cycle()
    except Stopped:
        return Result(None, None, 0, 0)
    except Exception as error:  # noqa: BLE001  (the one boundary)
        fault = fault_of(error)
    parts.show_health(fault, 0)
    return Result(fault, fault, 0, 0)


@dataclass
class Loop:
    """`appliance serve`."""

    parts: Appliance
    wanted: Settings
    progress: Progress = field(default_factory=Progress)
    mended: bool = False

    def run(self) -> bool:
        """Until SIGTERM or SIGINT; then reviews are ended, leases given back, and nothing is counted.

        Returns True if it ended because a state volume that could not be used can be used now.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.parts.stop.set())
        self.parts.trust_nothing()
        self.parts.say(Health("starting", "", "the first cycle runs", since=time.time()))
        # A thread for the cycle and one for the heartbeat, which must beat while a cycle runs.
        scheduler = BackgroundScheduler(
            timezone=UTC, executors={"default": ThreadPoolExecutor(1), "heartbeat": ThreadPoolExecutor(1)}
        )
        scheduler.add_job(
            self._beat, "interval", seconds=HEARTBEAT_SECONDS, executor="heartbeat", max_instances=1, coalesce=True
        )
        self._schedule(scheduler, 0.0)
        scheduler.start()
        rest(self.parts.stop)
        log.info("stopping")
        _within(SHUTDOWN_SECONDS, lambda: scheduler.shutdown(wait=True))
        log.info("stopped")
        return self.mended

    def _schedule(self, scheduler: BackgroundScheduler, seconds: float) -> None:
        scheduler.add_job(
            self._cycle,
            "date",
            run_date=datetime.now(UTC) + timedelta(seconds=seconds),
            args=[scheduler],
            id="cycle",
            replace_existing=True,
            max_instances=1,
            coalesce=True,
            misfire_grace_time=None,  # late, as after a suspend, is better than never
        )

    def _cycle(self, scheduler: BackgroundScheduler) -> None:
        settings = self.parts.settings
        if self._unusable() and blocked(self.wanted) is None:
            self.mended = True
            self.parts.stop.set()
            return
        try:
            result = run_cycle(self.parts, self.progress)
            told = result.unhealthy or result.fault  # the log says what the health says
            if told:
                log.error(
                    "cycle.failed", cause=told.cause, sentence=told.sentence, next=told.remedy, pulls=result.pulls
                )
            else:
                log.info("cycle.done", pulls=result.pulls, reviewed=result.reviewed)
            if settings.rehearsal and result.reviewed:
                self._tell_next_steps()
        finally:
            if not self.parts.stop.is_set():
                self._schedule(scheduler, settings.interval)

    def _unusable(self) -> bool:
        """Whether the parts are of a state that cannot be worked on as it was opened."""
        if self.parts.blocked:
            return True
        try:  # both gone: to begin as on an empty volume is for a person to say
            return not self.parts.store.gone() and self.parts.key_fault() is not None
        except OSError:  # the cycle meets it too, and says so
            return False

    def _tell_next_steps(self) -> None:
        forge = self.parts.local([self.parts.sample])
        for comment in forge.comments(forge.find(f"{self.parts.sample}#{sample.BRANCH}")):
            print(redaction.say(_MARKER.sub("", comment.body)), file=sys.stderr, flush=True)
        log.info("rehearsal.done", next=NEXT_STEPS)

    def _beat(self) -> None:
        settings = self.parts.settings
        quiet = time.monotonic() - self.progress.moved_at
        limit = settings.review_timeout + STUCK_MARGIN_SECONDS
        if self.progress.running and quiet > limit:
            sentence = f"The cycle has not moved for {quiet:.0f} s."
            self.parts.show_health(Fault("stuck", sentence, "run `docker compose restart`, and report it."), 0)
        else:
            self.parts.beat()


def rest(stop: threading.Event, seconds: float = math.inf) -> bool:
    """The main thread's wait for `stop`, at most so long; whether it is set.

    Not `stop.wait`: a signal that comes between the interpreter's last look and its sleep wakes nobody (seen, one stop
    in sixty under load), and a handler that sets the event while its own thread is about to wait for it never returns.
    """
    until = time.monotonic() + seconds
    while not stop.is_set() and time.monotonic() < until:
        time.sleep(min(REST_SECONDS, max(0.0, until - time.monotonic())))
    return stop.is_set()


def _within(seconds: float, what: object) -> None:
    """Wait for `what`, but no longer than `seconds`: Docker's patience is shorter than a hanging request."""
    assert callable(what)
    thread = threading.Thread(target=what, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        log.warning("stopping.hangs", seconds=seconds)
