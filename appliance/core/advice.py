"""What works and is still worth knowing: warnings, which stop nothing."""

import re
from collections.abc import Mapping

FIXED = (0, 12, 0)  # bwrap that has the fix of CVE-2026-87766
BACKPORTS: frozenset[str] = frozenset()  # older packages of distributions with that fix, as dpkg names their versions


def warnings(facts: Mapping[str, object]) -> tuple[str, ...]:
    """One line each, with its next step; from `bwrap_version` ("0.11.0") and `bwrap_package` (dpkg's version of it)."""
    version = str(facts.get("bwrap_version", ""))
    if not re.fullmatch(r"\d+(\.\d+)*", version) or facts.get("bwrap_package") in BACKPORTS:
        return ()
    if tuple(int(part) for part in version.split(".")) >= FIXED:
        return ()
    return (
        f"bubblewrap {version} may have CVE-2026-87766 (a symlink is followed while a jail is set up), which 0.12.0 "
        "does not. Next: rebuild the image, `docker compose build --pull --no-cache`, or see whether the "
        "distribution's package has the fix.",
    )
