"""What mirrors and slots leave behind: copies that nobody uses any more, and the trash of a crash."""

import contextlib
import os
import shutil
from pathlib import Path

from appliance.flock import try_lock
from appliance.git.parts import discard

# Used is what was fetched or checked out for a review. What is not used for a month is watched no longer, or rests; it
# comes back with one fetch. Which repositories are watched says less: `appliance review` takes any other one too.
UNUSED_SECONDS = 30 * 86_400.0
_NEW, _TRASH = ".new-", ".trash-"


def touch(lock: int) -> None:
    """What this lock (its descriptor) guards is used now."""
    with contextlib.suppress(OSError):
        os.utime(lock)


def tidy(folder: Path, now: float) -> list[Path]:
    """Remove from `folder` what a crash left and what was not used for UNUSED_SECONDS before `now`; returns the latter.

    `NAME.lock` guards NAME and `NAME.git`, and tells by its time when they were last used. What is in use, or
    resists, is left. The locks stay: somebody may wait for one.
    """
    removed: list[Path] = []
    for trash in folder.glob(f"{_TRASH}*"):  # nobody looks into it; if somebody removes it too, one of us is done first
        shutil.rmtree(trash, ignore_errors=True)
    for lock in sorted(folder.glob("*.lock")):
        kept = [folder / lock.stem, folder / f"{lock.stem}.git"]
        begun = folder / f"{_NEW}{lock.stem}.git"
        if begun.exists() or any(each.exists() for each in kept):
            with contextlib.suppress(OSError):
                removed += _tidy_one(lock, begun, kept, now)
    return removed


def _tidy_one(lock: Path, begun: Path, kept: list[Path], now: float) -> list[Path]:
    descriptor = try_lock(lock)
    if descriptor is None:
        return []
    try:
        shutil.rmtree(begun, ignore_errors=True)
        if now - os.fstat(descriptor).st_mtime <= UNUSED_SECONDS:
            return []
        removed = [each for each in kept if each.exists()]
        for each in removed:
            discard(each)
        return removed
    finally:
        os.close(descriptor)
