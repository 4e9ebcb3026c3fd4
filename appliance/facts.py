"""Facts read beside a symptom: what of the kernel, the engine and the programs decides which cause it has.

Everything here is a look at a small file, but for `versions` and what `appliance.calls` tries out, which are made only
when a step has failed. A fact that cannot be read is left out; a file that the kernel does not have is the value
"absent", which is a fact.
"""

import errno
import os
import re
import resource
import shutil
import stat
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from appliance import calls, jail, process

ABSENT = "absent"

_SYSCTLS = {
    "apparmor_restrict_unprivileged_userns": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "apparmor_restrict_unprivileged_unconfined": "/proc/sys/kernel/apparmor_restrict_unprivileged_unconfined",
    "unprivileged_userns_clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "osrelease": "/proc/sys/kernel/osrelease",
    "max_user_namespaces": "/proc/sys/user/max_user_namespaces",
    "max_pid_namespaces": "/proc/sys/user/max_pid_namespaces",
    "max_net_namespaces": "/proc/sys/user/max_net_namespaces",
    "max_mnt_namespaces": "/proc/sys/user/max_mnt_namespaces",
    "mount_max": "/proc/sys/fs/mount-max",
}
_STATUS = {
    "Seccomp": "seccomp",
    "NoNewPrivs": "no_new_privs",
    "CapBnd": "cap_bnd",
    "CapEff": "cap_eff",
    "CapPrm": "cap_prm",
    "CapAmb": "cap_amb",
}
# The unified hierarchy first, then version 1's, as the engine shows them inside a container.
_CGROUP = {
    "pids_max": ("pids.max", "pids/pids.max"),
    "pids_current": ("pids.current", "pids/pids.current"),
    "memory_max": ("memory.max", "memory/memory.limit_in_bytes"),
}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")  # those that a jail's /dev is made of
_COUNTERS = {
    "pids_denied": (("pids.events", "pids/pids.events"), "max"),
    "oom_kills": (("memory.events", "memory/memory.oom_control"), "oom_kill"),
}


def everything() -> dict[str, object]:
    """All that can be told of this machine without a test of the sandbox. Takes about 0.1 s; never raises."""
    return {**read(), **versions(), **calls.calls(), **calls.in_a_namespace()}


def read(root: Path = Path("/")) -> dict[str, object]:
    """All facts that are files, below `root`. Never raises."""
    facts: dict[str, object] = {"uid": os.getuid(), "gid": os.getgid(), "codex_home": jail.CODEX_HOME}
    for name, path in _SYSCTLS.items():
        _put(facts, name, _text(root / path[1:]))
    facts.update(_status(root))
    _put(facts, "label", label(root))
    _put(facts, "uid_map", _words(_text(root / "proc/self/uid_map")))
    facts.update(_mounts(root))
    facts.update(_places(root))
    version = _text(root / "proc/version") or ""
    # Fixed in its sources: a kernel that never was, built on that day.
    facts["gvisor"] = str(facts.get("osrelease", "")).startswith("4.4.0") and "Sun Jan 10 15:06:54 PST 2016" in version
    facts["nproc_limit"] = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    for name, places in _CGROUP.items():
        _put(facts, name, next(_found(root, places), None))
    _put(facts, "oom_kill", _counter(root, *_COUNTERS["oom_kills"]))
    return facts


def label(root: Path = Path("/")) -> str | None:
    """The security label of this process: AppArmor's profile, SELinux's context, or "absent" without such a module."""
    text = _text(root / "proc/self/attr/current")
    return None if text is None else text.strip("\0") or ABSENT


def proc_masks(root: Path = Path("/")) -> str | None:
    """Mount points below /proc, blank between them; empty means that nothing of /proc is masked."""
    masks = _mounts(root).get("proc_masks")
    return None if masks is None else str(masks)


def _mounts(root: Path) -> dict[str, object]:
    """What the table of mounts tells of /, of /proc and of its own length."""
    text = _text(root / "proc/self/mountinfo")
    if text is None:
        return {}
    if text == ABSENT:
        return {"proc_mount": ABSENT}
    # Fields: id, parent, device, root, mount point, options, optional ones up to "-", type, source, options.
    lines = [line.split() for line in text.splitlines() if " - " in line]
    table = {words[4]: (words[words.index("-") + 1], words[5]) for words in lines}  # of two in one place the upper
    kind, _ = table.get("/", (ABSENT, ""))
    _, options = table.get("/proc", ("", ABSENT))
    whole = _text(root / "proc/sys/kernel/overflowuid") != ABSENT
    return {
        "root_mount": kind,
        "proc_mount": (ABSENT if options == ABSENT else options.split(",")[0]) if whole else "partial",
        "proc_masks": " ".join(sorted(point for point in table if point.startswith("/proc/"))),
        "mounts": len(lines),
    }


def _places(root: Path) -> dict[str, object]:
    # `lexists`: an AppArmor profile may refuse to follow a link that is there (seen: /proc/self/ns/user), and
    # Path.exists would raise.
    try:
        fresh = (root / "proc/self").readlink().name == str(os.getpid())
    except OSError:
        fresh = False
    return {
        "container": any(os.path.lexists(root / mark) for mark in (".dockerenv", "run/.containerenv")),
        "userns": "present" if os.path.lexists(root / "proc/self/ns/user") else ABSENT,
        "proc_fresh": fresh,
        "dev_missing": " ".join(name for name in _DEVICES if not os.path.lexists(root / "dev" / name)),
        "tmp": tmp(root),
    }


def tmp(root: Path = Path("/")) -> str:
    """What can be done with /tmp: "writable", "full", "read-only" or "absent". Never raises."""
    path = root / "tmp"
    try:
        if not path.is_dir():
            return ABSENT
        room = os.statvfs(path)
    except OSError:
        return "read-only"
    if not os.access(path, os.W_OK):
        return "read-only"
    return "full" if room.f_bavail == 0 or (room.f_files > 0 and room.f_favail == 0) else "writable"


def _rights(program: str) -> Iterator[tuple[str, object]]:
    try:
        yield "bwrap_mode", f"{stat.S_IMODE(Path(program).stat().st_mode):o}"
        yield "bwrap_caps", "present" if "security.capability" in os.listxattr(program) else ABSENT
    except OSError:
        return


def counters(root: Path = Path("/")) -> dict[str, int]:
    """How often, since the container started, its cgroup has refused a process and the kernel killed one for memory.

    What is not told is left out.
    """
    told = {name: _counter(root, *where) for name, where in _COUNTERS.items()}
    return {name: int(count) for name, count in told.items() if count is not None}


def risen(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, object]:
    """By how much each counter that both have has risen."""
    return {name: after[name] - before[name] for name in before.keys() & after.keys()}


def pids_left(root: Path = Path("/")) -> int | None:
    """How many processes and threads the cgroup still allows; None without a limit, or where that is not told."""
    limit, current = (next(_found(root, _CGROUP[name]), "") for name in ("pids_max", "pids_current"))
    return int(limit) - int(current) if limit.isdigit() and current.isdigit() else None


def memory_limit(root: Path = Path("/")) -> int:
    """How many bytes of memory this container may use: the cgroup's limit, or what the machine has if that is less."""
    told = re.search(r"MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo") or "")
    machine = int(told[1]) * 1024 if told else 1 << 62
    limit = next(_found(root, _CGROUP["memory_max"]), "")
    return min(int(limit), machine) if limit.isdigit() else machine


def memory_now(root: Path = Path("/")) -> int | None:
    """Bytes that the cgroup uses now and cannot let go of: anonymous memory and tmpfs. None where that is not told."""
    for place, names in (("memory.stat", ("anon", "shmem")), ("memory/memory.stat", ("total_rss", "total_shmem"))):
        told = [_counter(root, (place,), name) for name in names]
        if None not in told:
            return sum(int(one) for one in told if one)
    return None


def kernel_memory_now(root: Path = Path("/")) -> int | None:
    """Bytes that the kernel has now for the cgroup: what it knows of files, above all. None where that is not told."""
    told = _counter(root, ("memory.stat",), "slab") or next(_found(root, ("memory/memory.kmem.usage_in_bytes",)), "")
    return int(told) if told.isdigit() else None


def tasks_now(root: Path = Path("/")) -> int | None:
    """Processes and threads that the cgroup has now; None where that is not told."""
    current = next(_found(root, _CGROUP["pids_current"]), "")
    return int(current) if current.isdigit() else None


def versions() -> dict[str, object]:
    """Which programs would run, and their versions."""
    facts: dict[str, object] = {}
    bwrap = shutil.which("bwrap", path=jail.PATH)
    if bwrap is not None:
        facts.update(_rights(bwrap))
    _put(facts, "bwrap", bwrap)
    facts.update(bwrap_release())
    try:
        codex = jail.codex_package() / "bin" / "codex"
        _put(facts, "codex_version", _first_line([str(codex), "--version"]))
    except FileNotFoundError:
        facts["codex_version"] = ABSENT
    return facts


def bwrap_release(root: Path = Path("/")) -> dict[str, object]:
    """`bwrap_version`, as bwrap tells it, and `bwrap_package`, as Debian does; what is not told is left out."""
    facts: dict[str, object] = {}
    _put(facts, "bwrap_version", bwrap_version())
    packages = _text(root / "var/lib/dpkg/status") or ""
    found = re.search(r"^Package: bubblewrap\n(?:.+\n)*?Version: (\S+)$", packages, re.MULTILINE)
    _put(facts, "bwrap_package", found and found[1])
    return facts


def bwrap_version() -> str | None:
    """As "0.12.0"; None if bwrap does not say. A program that is still the same is asked once."""
    path = shutil.which("bwrap")
    try:
        now = Path(path or "").stat()
        return _version_of(str(path), now.st_ino, now.st_size, now.st_mtime_ns)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=8)
def _version_of(path: str, *_: int) -> str:
    """Raises ValueError if it does not say: that is not kept."""
    found = re.search(r"\d+(\.\d+)+", _first_line([path, "--version"]) or "")
    if found is None:
        raise ValueError(f"{path} does not say its version")
    return found.group()


def _first_line(argv: list[str]) -> str | None:
    try:
        lines = process.run(argv, timeout=10).out.splitlines()
    except (OSError, RuntimeError):  # missing, or no process and no thread left for it
        return None
    return lines[0].strip() if lines else None


def _status(root: Path) -> Iterator[tuple[str, str]]:
    for line in (_text(root / "proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name in _STATUS:
            yield _STATUS[name], value.strip()


def _found(root: Path, places: tuple[str, ...]) -> Iterator[str]:
    for place in places:
        text = _text(root / "sys/fs/cgroup" / place)
        if text is not None and text != ABSENT:
            yield text


def _counter(root: Path, places: tuple[str, ...], name: str) -> str | None:
    lines = (line.split() for text in _found(root, places) for line in text.splitlines())
    return next((words[1] for words in lines if len(words) == 2 and words[0] == name), None)


def _text(path: Path) -> str | None:
    """The stripped text; "absent" if the kernel has no such file or no such module; None if it cannot be told."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError as error:
        return ABSENT if error.errno in {errno.ENOENT, errno.EINVAL} else None


def _words(text: str | None) -> str | None:
    return None if text is None else " ".join(text.split())


def _put(facts: dict[str, object], name: str, value: object | None) -> None:
    if value is not None:
        facts[name] = value
