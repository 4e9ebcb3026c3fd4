"""The kernel of the engine's host: namespaces at all, and the settings that forbid them."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from appliance import facts
from appliance.core.doctor import Line, fine, found, of_fault
from appliance.core.faults import named

_LIMITS = ("max_pid_namespaces", "max_net_namespaces", "max_mnt_namespaces")
_NEEDED = ("osrelease", "max_user_namespaces", *_LIMITS)


def check(root: Path = Path("/")) -> Iterator[Line]:
    """Read below `root`, which is the host's."""
    yield from judge(facts.read(root), userns=os.path.lexists(root / "proc/self/ns/user"))


def judge(read: Mapping[str, object], *, userns: bool) -> Iterator[Line]:
    release = str(read.get("osrelease", ""))
    if not userns or _is_wsl1(release):
        yield of_fault("kernel", named("no-userns-kernel"))
        return
    broken = []
    if str(read.get("unprivileged_userns_clone")) == "0":
        broken.append(of_fault("kernel", named("userns-sysctl-off")))
    if str(read.get("max_user_namespaces")) == "0":
        broken.append(of_fault("kernel", named("userns-limit")))
    off = [name for name in _LIMITS if str(read.get(name)) == "0"]
    broken += [found("kernel", "namespaces-off", name=name, value=read[name]) for name in off]
    unread = [name for name in _NEEDED if name not in read]
    if unread and not broken:
        broken.append(found("kernel", "unexamined", why=f"{', '.join(unread)} cannot be read."))
    yield from broken or [fine("kernel", f"The kernel {release} lets programs make namespaces of their own.")]


def _is_wsl1(release: str) -> bool:
    """WSL 2 has a kernel of its own, with namespaces; WSL 1 says that it is 4.4."""
    return "microsoft" in release.casefold() and release.startswith("4.4.")
