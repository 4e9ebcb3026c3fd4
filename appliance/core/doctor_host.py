"""Judging a container as the engine describes it, against what compose.yaml says it should be given."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from appliance.core.doctor import Line, fine, found, of_fault
from appliance.core.faults import named

STATE = "/var/lib/appliance"
SOCKETS = ("docker.sock", "containerd.sock", "podman.sock", "crio.sock", "docker_engine")
# Folders of the host that no review needs, and that lead to everything else.
_NEVER = frozenset(
    {"/", "/boot", "/dev", "/etc", "/home", "/proc", "/root", "/run", "/sys", "/usr", "/var", "/var/run"}
)
# SHA-256 of docker/seccomp.json as JSON, keys sorted and without spaces: the file itself may have been replaced, and
# then what is in force agrees with it.
OUR_RULES = "8e15ecef256aa596a01b4d57fde28fa040da90afc8404233099341d3c5c79e6c"
_UNITS = {"k": 1024, "m": 1024**2, "g": 1024**3}


@dataclass(frozen=True)
class Wanted:
    """What compose.yaml gives the container and a person may change there; the rest is the same for everybody.

    `seccomp` is the profile as parsed JSON; `apparmor` the profile's name.
    """

    user: str
    seccomp: Any
    apparmor: str
    tmpfs: Mapping[str, str]
    pids: int
    memory: int
    init: bool


@dataclass(frozen=True)
class Given:
    """What the engine says of the container: its inspection, and its `seccomp=` option as parsed JSON or text."""

    inspected: Mapping[str, Any]
    seccomp: Any

    @property
    def host(self) -> Mapping[str, Any]:
        told: Mapping[str, Any] = self.inspected["HostConfig"]
        return told

    @property
    def options(self) -> list[str]:
        return list(self.host["SecurityOpt"] or ())

    @property
    def mounts(self) -> list[Mapping[str, Any]]:
        return list(self.inspected["Mounts"] or ())


def wanted_of(service: Mapping[str, Any], seccomp: Any) -> Wanted:
    """From the service as `docker compose config` prints it. Raises KeyError or ValueError for one that is not ours."""
    options = dict(_pair(one) for one in service["security_opt"])
    return Wanted(
        user=str(service["user"]),
        seccomp=seccomp,
        apparmor=options.get("apparmor", "unconfined"),
        tmpfs=dict(_mount(one) for one in service["tmpfs"]),
        pids=int(service["pids_limit"]),
        memory=int(service["mem_limit"]),
        init=service["init"] is True,
    )


def option(name: str, options: Sequence[str]) -> str | None:
    """The value of one `--security-opt`, None if it is not among them."""
    return next((value for key, value in map(_pair, options) if key == name), None)


def deviations(wanted: Wanted, given: Given) -> list[Line]:
    """A line for each that is not as it should be, or one that all are. Raises KeyError for what is not told."""
    lines = [line for rule in RULES for line in rule(wanted, given)]
    return lines or [fine("container", "Its security options in force are those of compose.yaml.")]


def _privileged(_: Wanted, given: Given) -> Iterator[Line]:
    if given.host["Privileged"] is not False:
        yield found("privileged", "container-privileged")


def _capabilities(_: Wanted, given: Given) -> Iterator[Line]:
    dropped = frozenset(map(_capability, given.host["CapDrop"] or ()))
    added = sorted(map(_capability, given.host["CapAdd"] or ()))
    what = [f"{name} was added" for name in added] + ([] if "ALL" in dropped else ["not all were dropped"])
    if what:
        yield found("capabilities", "container-capabilities", what=", ".join(what))


def _seccomp(wanted: Wanted, given: Given) -> Iterator[Line]:
    if given.host["Privileged"] is True:
        what = "a privileged container has none"
    elif given.seccomp is None:
        what = "the engine's default rules are in force"
    elif isinstance(given.seccomp, str):
        what = f"it is {given.seccomp[:60]!r}"
    elif given.seccomp == wanted.seccomp:
        return
    else:
        what = _difference(wanted.seccomp, given.seccomp)
    yield found("seccomp", "container-seccomp", what=what)


def _our_rules(wanted: Wanted, _: Given) -> Iterator[Line]:
    text = json.dumps(wanted.seccomp, sort_keys=True, separators=(",", ":"))
    if sha256(text.encode()).hexdigest() != OUR_RULES:
        default = wanted.seccomp.get("defaultAction") if isinstance(wanted.seccomp, Mapping) else None
        what = f"{default} by default, {len(_allowed(wanted.seccomp))} system calls allowed by name"
        yield found("seccomp", "seccomp-file-changed", what=what)


def _difference(wanted: Any, given: Any) -> str:
    ours, theirs = _allowed(wanted), _allowed(given)
    words = [f"{word} {', '.join(sorted(names)[:8])}" for word, names in (
        ("it allows", theirs - ours), ("it does not allow", ours - theirs)) if names]  # fmt: skip
    return "; ".join(words) or "the same calls under other conditions"


def _allowed(profile: Any) -> frozenset[str]:
    rules = profile.get("syscalls") if isinstance(profile, Mapping) else None
    return frozenset(
        str(name) for rule in rules or () if rule.get("action") == "SCMP_ACT_ALLOW" for name in rule.get("names") or ()
    )


def _new_privileges(_: Wanted, given: Given) -> Iterator[Line]:
    if option("no-new-privileges", given.options) not in ("", "true"):
        yield found("new-privileges", "container-new-privileges")


def _systempaths(_: Wanted, given: Given) -> Iterator[Line]:
    masked = [*(given.host["MaskedPaths"] or ()), *(given.host["ReadonlyPaths"] or ())]
    if masked:
        more = f" and {len(masked) - 3} more" if len(masked) > 3 else ""
        yield found("systempaths", "container-systempaths", what=", ".join(masked[:3]) + more)


def _root(_: Wanted, given: Given) -> Iterator[Line]:
    if given.host["ReadonlyRootfs"] is not True:
        yield found("root", "container-root-writable")


def _user(wanted: Wanted, given: Given) -> Iterator[Line]:
    user = given.inspected["Config"]["User"]
    if user != wanted.user:
        yield found("user", "container-user", user=user or "root", wanted=wanted.user)


def _tmpfs(wanted: Wanted, given: Given) -> Iterator[Line]:
    mounts = dict(given.host["Tmpfs"] or {})
    if {path: _words(text) for path, text in mounts.items()} != {p: _words(t) for p, t in wanted.tmpfs.items()}:
        yield found("tmpfs", "container-tmpfs", what=_told(mounts) or "none", wanted=_told(wanted.tmpfs))


def _limits(wanted: Wanted, given: Given) -> Iterator[Line]:
    for what, key, least in (("processes", "PidsLimit", wanted.pids), ("memory", "Memory", wanted.memory)):
        value = given.host[key]
        if value is None or value <= 0:
            yield found("limits", "container-unlimited", what=what)
        elif value != least:
            yield found("limits", "container-limits", what=what, value=value, wanted=least)


def _socket(_: Wanted, given: Given) -> Iterator[Line]:
    for place in _places(given):
        if place.endswith(SOCKETS):
            yield found("engine-socket", "container-engine-socket", what=place)
            return


def _mounts(_: Wanted, given: Given) -> Iterator[Line]:
    for place in sorted(_NEVER & {(one.get("Source") or "") for one in given.mounts if one.get("Type") == "bind"}):
        yield found("mounts", "container-mounts", what=place)


def _state(_: Wanted, given: Given) -> Iterator[Line]:
    if not any(one.get("Destination") == STATE and one.get("RW") for one in given.mounts):
        yield found("state", "container-state")


def _namespaces(_: Wanted, given: Given) -> Iterator[Line]:
    kinds = {"NetworkMode": "network", "PidMode": "processes", "IpcMode": "shared memory", "UTSMode": "host name"}
    for key, what in (kinds | {"UsernsMode": "user ids"}).items():
        mode = str(given.host[key] or "")
        if mode == "host":
            yield found("namespaces", "container-host-namespace", what=what)
        elif mode.startswith("container:"):
            yield found("namespaces", "container-host-namespace", what=f"{what} (those of another container)")


def _devices(_: Wanted, given: Given) -> Iterator[Line]:
    devices = [str(one.get("PathOnHost")) for one in given.host["Devices"] or ()]
    devices += [str(one.get("Driver") or one.get("Capabilities")) for one in given.host["DeviceRequests"] or ()]
    devices += list(given.host["DeviceCgroupRules"] or ())
    if devices:
        yield found("devices", "container-devices", what=", ".join(devices))


def _ports(_: Wanted, given: Given) -> Iterator[Line]:
    ports = sorted(given.host["PortBindings"] or {})
    if ports or given.host["PublishAllPorts"]:
        yield found("ports", "container-ports", what=", ".join(ports) or "all")


def _init(wanted: Wanted, given: Given) -> Iterator[Line]:
    if wanted.init and given.host["Init"] is not True:
        yield found("init", "container-init")


RULES: tuple[Callable[[Wanted, Given], Iterator[Line]], ...] = (
    _privileged, _capabilities, _seccomp, _our_rules, _new_privileges, _systempaths, _root, _user, _tmpfs, _limits,
    _socket, _mounts, _state, _namespaces, _devices, _ports, _init,
)  # fmt: skip


def apparmor(wanted: str, label: str | None, on: bool, why: str, *, restricted: bool = False) -> Line:
    """Which profile is in force.

    `on`: the engine's host has AppArmor; `label` as the kernel tells it inside, None if it cannot be told, and then
    `why`; `wanted` is the profile's name. `restricted`: the kernel forbids user namespaces to whom no profile confines.
    """
    if not on:
        return fine("apparmor", "The engine's host has no AppArmor.")
    if label is None:
        return found("apparmor", "apparmor-unknown", why=why)
    name, _, mode = label.partition(" ")
    if label == "unconfined" and restricted:
        return of_fault("apparmor", named("apparmor-unprivileged-userns"))
    if label == "unconfined":
        return found("apparmor", "container-apparmor-unconfined", wanted=wanted)
    if name != wanted:
        return found("apparmor", "container-apparmor", label=label, wanted=wanted)
    if mode != "(enforce)":
        return found("apparmor", "container-apparmor-complain", label=label, wanted=wanted)
    return fine("apparmor", f"The AppArmor profile {wanted} is in force.")


def _places(given: Given) -> Iterator[str]:
    for one in given.mounts:
        yield str(one.get("Source") or "")
        yield str(one.get("Destination") or "")


def _capability(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def _pair(text: str) -> tuple[str, str]:
    """`name=value`, or, as older engines have it, `name:value`."""
    for sign in ("=", ":"):
        name, found_sign, value = text.partition(sign)
        if found_sign and name in ("no-new-privileges", "seccomp", "apparmor", "systempaths", "label"):
            return name, value
    return text, ""


def _mount(text: str) -> tuple[str, str]:
    path, _, options = text.partition(":")
    return path, options


def _words(options: str) -> dict[str, object]:
    """Options of a tmpfs, sizes in bytes."""
    pairs = (word.partition("=") for word in options.split(",") if word)
    return {name: _size(value) if name == "size" else value for name, _, value in pairs}


def _size(text: str) -> object:
    digits, unit = text[:-1], text[-1:].lower()
    if text.isdigit():
        return int(text)
    return int(digits) * _UNITS[unit] if digits.isdigit() and unit in _UNITS else text


def _told(mounts: Mapping[str, str]) -> str:
    return ", ".join(f"{path} {options}".strip() for path, options in sorted(mounts.items()))
