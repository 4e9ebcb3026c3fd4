"""What confines this very process, as the kernel tells it: compose.yaml is not asked, but what it came to."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from appliance import facts
from appliance.core.doctor import Line, fine, found
from appliance.core.doctor_host import SOCKETS

FILTERED = "2"  # Seccomp in /proc/self/status: a filter is in force
# The kernel's own number of the first namespace of processes (PROC_PID_INIT_INO), and a setting that it shows in the
# first namespace of the network alone (net_core_table).
FIRST_PIDS = "pid:[4026531836]"
FIRST_NET = "proc/sys/net/core/netdev_max_backlog"


def check() -> Iterator[Line]:
    writable = not os.statvfs("/").f_flag & os.ST_RDONLY
    yield from judge(facts.read(), writable=writable, shared=tuple(shared()))


def shared(root: Path = Path("/")) -> Iterator[Line]:
    """What of the host can be seen from inside to be shared: the engine's socket, processes, network."""
    mounts = (root / "proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    sockets = [
        words[4]
        for words in map(str.split, mounts.splitlines())
        if words[3].endswith(SOCKETS) or words[4].endswith(SOCKETS)
    ]
    if sockets:
        yield found("engine-socket", "container-engine-socket", what=sockets[0])
    if str((root / "proc/self/ns/pid").readlink()) == FIRST_PIDS:
        yield found("namespaces", "container-host-namespace", what="processes")
    if (root / FIRST_NET).exists():
        yield found("namespaces", "container-host-namespace", what="network")


def judge(read: Mapping[str, object], *, writable: bool, shared: tuple[Line, ...] = ()) -> Iterator[Line]:
    """From facts of /proc/self/status; `writable`: the root file system may be written; `shared` with the host."""
    yield from shared
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
    well = (
        "No capability, no way to gain one, a system call filter, a fixed root. What else the container was given, the "
        "doctor on the host looks at."
    )
    yield from broken or ([] if shared else [fine("confinement", well)])
