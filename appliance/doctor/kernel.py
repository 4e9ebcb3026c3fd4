"""The kernel of the engine's host: namespaces at all, and the settings that forbid them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from appliance import facts
from appliance.core.doctor import Line, fine, found

_LIMITS = ("max_user_namespaces", "max_pid_namespaces", "max_net_namespaces", "max_mnt_namespaces")


def check(root: Path = Path("/")) -> Iterator[Line]:
    """Read below `root`, which is the host's."""
    yield from judge(facts.read(root), userns=(root / "proc/self/ns/user").exists())


def judge(read: Mapping[str, object], *, userns: bool) -> Iterator[Line]:
    release = str(read.get("osrelease", ""))
    if "microsoft" in release.casefold() and "wsl2" not in release.casefold() and release.startswith("4.4."):
        yield found("kernel", "wsl1")
        return
    if not userns:
        yield found("kernel", "kernel-without-userns")
        return
    broken = [found("kernel", "userns-off")] if str(read.get("unprivileged_userns_clone")) == "0" else []
    off = [name for name in _LIMITS if str(read.get(name)) == "0"]
    broken += [found("kernel", "namespaces-off", name=name, value=read[name]) for name in off]
    unread = [name for name in ("osrelease", *_LIMITS) if name not in read]
    if unread and not broken:
        broken.append(found("kernel", "unexamined", why=f"{', '.join(unread)} cannot be read."))
    yield from broken or [fine("kernel", f"The kernel {release} lets programs make namespaces of their own.")]
