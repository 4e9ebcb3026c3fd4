"""Facts read beside a symptom: what of the kernel, the engine and the programs decides which cause it has.

Everything here is a read of a small file, but for `calls` and `versions`, which are made only when a step has failed.
A fact that cannot be read is left out; a file that the kernel does not have is the value "absent", which is a fact.
"""

import ctypes
import errno
import os
import platform
import re
import resource
import shutil
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

from appliance import jail, process

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
}
_STATUS = {
    "Seccomp": "seccomp",
    "NoNewPrivs": "no_new_privs",
    "CapBnd": "cap_bnd",
    "CapEff": "cap_eff",
    "CapPrm": "cap_prm",
}
# The unified hierarchy first, then version 1's, as the engine shows them inside a container.
_CGROUP = {
    "pids_max": ("pids.max", "pids/pids.max"),
    "pids_current": ("pids.current", "pids/pids.current"),
    "memory_max": ("memory.max", "memory/memory.limit_in_bytes"),
}


def read(root: Path = Path("/")) -> dict[str, object]:
    """All facts that are files, below `root`. Never raises."""
    facts: dict[str, object] = {"uid": os.getuid(), "gid": os.getgid()}
    for name, path in _SYSCTLS.items():
        _put(facts, name, _text(root / path[1:]))
    facts.update(_status(root))
    _put(facts, "label", label(root))
    _put(facts, "uid_map", _words(_text(root / "proc/self/uid_map")))
    masks = proc_masks(root)
    if masks is not None:
        facts["proc_masks"] = masks
    facts["nproc_limit"] = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    for name, places in _CGROUP.items():
        _put(facts, name, next(_found(root, places), None))
    _put(facts, "oom_kill", _counter(root, ("memory.events", "memory/memory.oom_control"), "oom_kill"))
    return facts


def label(root: Path = Path("/")) -> str | None:
    """The security label of this process: AppArmor's profile, SELinux's context, or "absent" without such a module."""
    text = _text(root / "proc/self/attr/current")
    return None if text is None else text.strip("\0") or ABSENT


def proc_masks(root: Path = Path("/")) -> str | None:
    """Mount points below /proc, blank between them; empty means that nothing of /proc is masked."""
    text = _text(root / "proc/self/mountinfo")
    if text is None:
        return None
    points = [line.split()[4] for line in text.splitlines() if len(line.split()) > 4]
    return " ".join(sorted({point for point in points if point.startswith("/proc/")}))


def pids_denied(root: Path = Path("/")) -> int | None:
    """How often the cgroup has refused a new process since the container started; None where that is not told."""
    count = _counter(root, ("pids.events", "pids/pids.events"), "max")
    return None if count is None else int(count)


def pids_left(root: Path = Path("/")) -> int | None:
    """How many processes and threads the cgroup still allows; None without a limit, or where that is not told."""
    limit, current = (next(_found(root, _CGROUP[name]), "") for name in ("pids_max", "pids_current"))
    return int(limit) - int(current) if limit.isdigit() and current.isdigit() else None


def versions() -> dict[str, object]:
    """Which programs would run, and their versions."""
    facts: dict[str, object] = {}
    _put(facts, "bwrap", shutil.which("bwrap", path=jail.PATH))
    _put(facts, "bwrap_version", bwrap_version())
    try:
        codex = jail.codex_package() / "bin" / "codex"
        _put(facts, "codex_version", _first_line([str(codex), "--version"]))
    except FileNotFoundError:
        facts["codex_version"] = ABSENT
    return facts


def bwrap_version() -> str | None:
    """As "0.12.0"; None if bwrap does not say."""
    line = _first_line(["bwrap", "--version"]) or ""
    found = re.search(r"\d+(\.\d+)+", line)
    return found.group() if found else None


def calls() -> dict[str, object]:
    """Seccomp or the kernel? System calls that never do anything, with the name of the error each gives.

    EPERM means that a filter forbids the call. Let through, they fail for their senseless arguments: `clone` with
    EINVAL, `mount` and `umount2` with EFAULT. There is no such call for `pivot_root` and `unshare`.
    """
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        return {}
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return {f"call_{name}": _error_of(libc, name, numbers[name], arguments) for name, arguments in _CALLS.items()}


_CLONE_FS, _CLONE_NEWUSER = 0x200, 0x10000000
_CALLS: Mapping[str, tuple[int, ...]] = {
    "clone": (_CLONE_NEWUSER | _CLONE_FS | signal.SIGCHLD, 0, 0, 0, 0),  # the kernel refuses this pair of flags
    "mount": (0, 0, 0, 0, 0),
    "umount": (0, 0),
}
_NUMBERS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {"clone": 56, "mount": 165, "umount": 166},
    "aarch64": {"clone": 220, "mount": 40, "umount": 39},
}


def _error_of(libc: ctypes.CDLL, name: str, number: int, arguments: tuple[int, ...]) -> str:
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments))
    if name == "clone" and result == 0:
        os._exit(0)  # a kernel that lets this pass has made a child of us: it ends here
    if name == "clone" and result > 0:
        os.waitpid(result, 0)
    return errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno())) if result < 0 else "done"


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
