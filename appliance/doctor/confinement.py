"""What confines this very process, as the kernel tells it: compose.yaml is not asked, but what it came to."""

import os
from collections.abc import Iterator, Mapping

from appliance import facts
from appliance.core.doctor import Line, fine, found

FILTERED = "2"  # Seccomp in /proc/self/status: a filter is in force


def check() -> Iterator[Line]:
    yield from judge(facts.read(), writable=not os.statvfs("/").f_flag & os.ST_RDONLY)


def judge(read: Mapping[str, object], *, writable: bool) -> Iterator[Line]:
    """From facts of /proc/self/status; `writable`: the root file system may be written."""
    missing = [name for name in ("seccomp", "no_new_privs", "cap_bnd", "cap_eff") if name not in read]
    if missing:
        yield found("confinement", "unexamined", why=f"/proc/self/status does not tell {', '.join(missing)}.")
        return
    broken = []
    if str(read["seccomp"]) != FILTERED:
        broken.append(found("confinement", "container-seccomp", what="no filter is in force"))
    if str(read["no_new_privs"]) != "1":
        broken.append(found("confinement", "container-new-privileges"))
    held = [name for name in ("cap_bnd", "cap_eff") if int(str(read[name]), 16)]
    if held:
        broken.append(found("confinement", "container-capabilities", what=f"{held[0]} is {read[held[0]]}"))
    if writable:
        broken.append(found("confinement", "container-root-writable"))
    yield from broken or [fine("confinement", "No capability, no way to gain one, a system call filter, a fixed root.")]
