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
from appliance.health import write
from appliance.log import configure
from appliance.schedule import HEARTBEAT_SECONDS, Loop, rest
from appliance.settings import SettingsError, load
from appliance.wiring import HEALTH_VALID_SECONDS, appliance

log = structlog.get_logger()


def serve_forever() -> None:
    """Run until SIGTERM, then exit 0. A fault that a restart cannot cure leaves the container up and unhealthy."""
    try:
        settings = load()
    except SettingsError as error:
        _stay(_run_dir(), Fault("settings", _one_line(error), "correct .env and run `docker compose up -d`."))
        return
    configure(settings.log_format)
    log.info("starting", version=__version__, rehearsal=settings.rehearsal)
    while True:
        with appliance(settings) as parts:
            again = Loop(parts, settings).run()
            if not again:
                sys.stderr.flush()
                os._exit(0)  # a thread that hangs in a request must not outlive Docker's patience


def _stay(run_dir: Path, fault: Fault) -> None:
    log.error("cannot.start", cause=fault.cause, sentence=fault.sentence, next=fault.remedy)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    health = of_fault(fault, time.time())
    while True:
        write(run_dir, health, valid_for=HEALTH_VALID_SECONDS)
        if rest(stop, HEARTBEAT_SECONDS):
            return


def _run_dir() -> Path:
    run_dir = Path(os.environ.get("APPLIANCE_RUN_DIR") or "/run/appliance")
    run_dir.mkdir(parents=True, exist_ok=True)
    return run_dir


def _one_line(error: Exception) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())[:500]
