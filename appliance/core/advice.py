"""What works and is still worth knowing: warnings, which stop nothing."""

import re
from collections.abc import Mapping

FIXED = (0, 12, 0)  # bwrap that has the fix of CVE-2026-87766
BACKPORTS: frozenset[str] = frozenset()  # older packages of distributions with that fix, as dpkg names their versions

UNWATCHED = (
    "The host refuses the appliance a look into its jails ({error}), so what a review puts into temporary files is not "
    "counted as memory, and a full CODEX_HOME is not named. Next: load the container's AppArmor profile as this "
    "version has it, `sudo apparmor_parser -r -W docker/apparmor/review-appliance`; a profile of your own needs its "
    "rules `ptrace (read, readby)` and `capability sys_ptrace`."
)


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


def of_watch(refused: str) -> tuple[str, ...]:
    """From the error with which a look into a jail is refused; "" if it is not."""
    return (UNWATCHED.format(error=refused),) if refused else ()
