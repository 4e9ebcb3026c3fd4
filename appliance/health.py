"""The health file in the run directory, which `docker/health-probe` reads without loading anything.

It is replaced by rename, so a reader never sees half of it, and it stands for a while only: a process that hangs or has
died without a word turns unhealthy by itself. That while is measured in the machine's uptime, which no change of the
clock moves.
"""

from dataclasses import replace
from pathlib import Path

from appliance import redaction
from appliance.core import health as core
from appliance.core.health import Health
from appliance.flock import held

FILE = "health"
_NEW = ".health.new"
_LOCK = ".health.lock"
_LOCK_SECONDS = 10.0
_UPTIME = Path("/proc/uptime")


def write(run_dir: Path, health: Health, *, valid_for: float) -> None:
    """Replace the file; it is stale after `valid_for` seconds. While state and cause stay the same, so does `since`.

    Makes the directory. Raises OSError.
    """
    health = replace(health, message=redaction.redacted(health.message))
    run_dir.mkdir(parents=True, exist_ok=True)
    with held(run_dir / _LOCK, timeout=_LOCK_SECONDS):
        before = _load(run_dir)
        if before is not None and (before[0].state, before[0].cause) == (health.state, health.cause):
            health = replace(health, since=before[0].since)
        _store(run_dir, health, valid_for)


def heartbeat(run_dir: Path, valid_for: float) -> None:
    """Let the file stand for another `valid_for` seconds, and keep the rest. Without a file there is nothing to do.

    Read and written under one lock, since `docker exec … appliance cycle` writes too. Raises OSError.
    """
    if not run_dir.is_dir():
        return
    with held(run_dir / _LOCK, timeout=_LOCK_SECONDS):
        before = _load(run_dir)
        if before is not None:
            _store(run_dir, before[0], valid_for)


def read(run_dir: Path) -> Health | None:
    """What the file says; None if it is missing, torn or stale."""
    found = _load(run_dir)
    return found[0] if found is not None and found[1] >= _uptime() else None


def _load(run_dir: Path) -> tuple[Health, float] | None:
    try:
        return core.decode((run_dir / FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def _store(run_dir: Path, health: Health, valid_for: float) -> None:
    new = run_dir / _NEW
    new.unlink(missing_ok=True)  # left behind by a writer that was killed
    new.write_text(core.encode(health, _uptime() + valid_for), encoding="utf-8")
    new.chmod(0o644)
    new.replace(run_dir / FILE)


def _uptime() -> float:
    return float(_UPTIME.read_text(encoding="ascii").split()[0])
