"""`appliance serve`: the loop, or, where it cannot run, a container that stays up and says why."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import structlog

from appliance import __version__
from appliance.core.faults import Fault
from appliance.core.health import of_fault
from appliance.flock import try_lock
from appliance.health import write
from appliance.log import configure
from appliance.schedule import HEARTBEAT_SECONDS, Loop, rest
from appliance.settings import SettingsError, load, unknown
from appliance.wiring import HEALTH_VALID_SECONDS, appliance, no_run_dir

log = structlog.get_logger()

SHOWN_CHARACTERS = 500


def serve_forever() -> None:
    """Run until SIGTERM, then exit 0. A fault that a restart cannot cure leaves the container up and unhealthy."""
    for line in unknown():
        log.warning("setting.unknown", text=line)
    try:
        settings = load()
    except SettingsError as error:
        for line in str(error).splitlines():
            log.error("setting.bad", text=line)
        _stay(_run_dir(), Fault("settings", _some(error), "correct .env and run `docker compose up -d`."))
        return
    if fault := no_run_dir(settings):
        _stay(None, fault)  # the health probe finds it by itself
        return
    configure(settings.log_format)
    alone = try_lock(settings.run_dir / "serve.lock")
    if alone is None:
        log.error("cannot.start", sentence="It runs already.", next="`appliance cycle` runs one cycle now.")
        sys.exit(1)
    log.info("starting", version=__version__, rehearsal=settings.rehearsal)
    while True:
        with appliance(settings) as parts:
            again = Loop(parts, settings).run()
            if not again:
                sys.stderr.flush()
                os._exit(0)  # a thread that hangs in a request must not outlive Docker's patience


def _stay(run_dir: Path | None, fault: Fault) -> None:
    log.error("cannot.start", cause=fault.cause, sentence=fault.sentence, next=fault.remedy)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    health = of_fault(fault, time.time())
    while True:
        try:
            if run_dir is not None:
                write(run_dir, health, valid_for=HEALTH_VALID_SECONDS)
        except OSError as error:  # the log has the fault already; a container that goes on restarting would tell less
            log.error("health.unwritten", sentence=str(error), next="free space in /run: `docker compose restart`.")
        if rest(stop, HEARTBEAT_SECONDS):
            return


def _run_dir() -> Path | None:
    """Where the health goes while the settings cannot be read; None if nothing can be written there."""
    run_dir = Path(os.environ.get("APPLIANCE_RUN_DIR") or "/run/appliance")
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return run_dir


def _some(error: SettingsError) -> str:
    """As many problems as fit into the health's line; the log has them all."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    fitting = max(n for n in range(1, len(lines) + 1) if n == 1 or len("; ".join(lines[:n])) <= SHOWN_CHARACTERS)
    more = len(lines) - fitting
    return "; ".join(lines[:fitting])[:SHOWN_CHARACTERS] + (
        f"; and {more} more (`docker logs` has all)" if more else ""
    )
