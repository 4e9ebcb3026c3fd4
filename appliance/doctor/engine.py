"""The engine: that it answers, what it is, and whether it is new enough."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from appliance.core.doctor import Line, fine, found
from appliance.doctor import compose
from appliance.doctor.state import LOW_BYTES, size

ENGINE_MINIMUM = (25, 0)
COMPOSE_MINIMUM = (2, 26)


def check(info: Mapping[str, Any], version: Mapping[str, Any]) -> Iterator[Line]:
    """`info` and `version` as the engine tells them."""
    kind = kind_of(info, version)
    if kind:
        yield found("engine", "engine-untried", kind=kind)
    if info.get("OSType") != "linux":
        yield found("engine", "engine-no-linux", kind=info.get("OSType") or "unknown")
        return
    told = str(version.get("Version") or "")
    if not _at_least(told, ENGINE_MINIMUM) and kind != "Podman":
        yield found("engine", "engine-too-old", version=told or "(unknown)", least=ENGINE_MINIMUM[0])
    else:
        cgroup = f"cgroup version {info.get('CgroupVersion')}"
        yield fine("engine", f"The engine answers: version {told}, kernel {info.get('KernelVersion')}, {cgroup}.")
    if not any(str(one).startswith("name=seccomp") for one in info.get("SecurityOptions") or ()):
        yield found("engine", "engine-no-seccomp")
    missing = [what for key, what in (("MemoryLimit", "memory"), ("PidsLimit", "processes")) if info.get(key) is False]
    if missing:
        yield found("engine", "engine-no-limits", what=" and ".join(missing))


def check_compose() -> Iterator[Line]:
    told, least = compose.version(), ".".join(map(str, COMPOSE_MINIMUM))
    if told is None:
        yield found("compose", "compose-missing", least=least)
    elif not _at_least(told, COMPOSE_MINIMUM):
        yield found("compose", "compose-too-old", version=told, least=least)
    else:
        yield fine("compose", f"Docker Compose {told}.")


def check_disk(info: Mapping[str, Any]) -> Iterator[Line]:
    root = str(info.get("DockerRootDir") or "")
    try:
        free = shutil.disk_usage(root).free if is_local(info) else None
    except OSError:
        free = None
    if free is None:
        yield found("engine-disk", "disk-unknown", where=root or "folder")
    elif free < LOW_BYTES:
        yield found("engine-disk", "disk-low", free=size(free), where=root)
    else:
        yield fine("engine-disk", f"{size(free)} are free at the engine's {root}.")


def kind_of(info: Mapping[str, Any], version: Mapping[str, Any]) -> str:
    """What kind of engine it is, if it is not Docker's own as root; empty if it is."""
    components = {str(one.get("Name")) for one in version.get("Components") or () if isinstance(one, Mapping)}
    if any("Podman" in name for name in components):
        return "Podman"
    system = str(info.get("OperatingSystem") or "")
    if "Docker Desktop" in system or "OrbStack" in system:
        return system
    rootless = any(str(one).startswith("name=rootless") for one in info.get("SecurityOptions") or ())
    return "rootless Docker" if rootless else ""


def is_local(info: Mapping[str, Any]) -> bool:
    """Whether the engine runs on this very kernel, so that files here tell about it."""
    here = os.uname()
    return (info.get("KernelVersion"), info.get("Name")) == (here.release, here.nodename)


def _at_least(version: str, least: tuple[int, int]) -> bool:
    """A version that cannot be read is none that is new enough."""
    found_numbers = re.match(r"v?(\d+)(?:\.(\d+))?", version)
    return found_numbers is not None and tuple(int(part or 0) for part in found_numbers.groups()) >= least
