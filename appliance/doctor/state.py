"""The state volume: it can be used, it is ours, and there is room in it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from appliance import wiring
from appliance.core.disk import FREE_RUN
from appliance.core.doctor import Line, fine, found, of_fault
from appliance.core.faults import Fault
from appliance.failures import damaged, shortage_of
from appliance.settings import Settings
from appliance.store import damage

LOW_BYTES = 2 * 1024**3
LOW_PASSING_BYTES = 16 * 1024**2  # of a tmpfs, or a tenth of it if that is less
TMP = Path("/tmp")
TRIED_BYTES = 256 * 1024  # what is written to see that something can be


def check(settings: Settings) -> Iterator[Line]:
    """Raises OSError (a full disk, a volume that is read-only): its line says so."""
    folder = settings.state_dir
    # Looked at first: opening the state would make a new key, which is what must not happen unseen.
    if _is_there(folder / "appliance.db") and not _is_there(folder / "signing.key"):
        yield found("state", "signing-key-missing")
        return
    fault = wiring.blocked(settings)
    if fault:
        yield of_fault("state", fault)
        return
    said = damage(folder / "appliance.db")
    if said:
        yield of_fault("state", damaged(said))
        return
    _write(folder)
    yield fine("state", f"{folder} can be written, the database is sound, and the signing key is whole.")
    free = shutil.disk_usage(folder).free
    if free < LOW_BYTES:
        yield found("disk", "disk-low", free=size(free), where=folder)
    else:
        yield fine("disk", f"{size(free)} are free at {folder}.")
    yield from _passing(settings.run_dir)


def _passing(run_dir: Path) -> Iterator[Line]:
    """The container's tmpfs mounts. That /tmp is full or not there is the self-test's to say."""
    try:
        _write(run_dir)
    except OSError as error:
        if shortage_of(error) is None:
            raise
        yield of_fault("disk", Fault("disk-full", f"{run_dir} is full, so the health goes stale.", FREE_RUN))
        run_dir = TMP
    for folder in filter(Path.is_dir, dict.fromkeys((run_dir, TMP))):
        room = shutil.disk_usage(folder)
        if room.free < min(LOW_PASSING_BYTES, room.total // 10):
            yield found("disk", "tmpfs-low", free=size(room.free), where=folder)
        else:
            yield fine("disk", f"{size(room.free)} are free at {folder}.")


def _is_there(path: Path) -> bool:
    """False too where the folder may not be searched: opening the state says so then."""
    return os.path.exists(path)  # noqa: PTH110  (Path.exists raises there)


def _write(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"\0" * TRIED_BYTES)
        file.flush()
        os.fsync(file.fileno())


def size(count: int) -> str:
    """Bytes as people read them."""
    return f"{count / 1024**3:.1f} GB" if count >= 1024**3 // 10 else f"{count / 1024**2:.0f} MB"
