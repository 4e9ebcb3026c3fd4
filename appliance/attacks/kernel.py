"""Attacks by system call: other processes, mounts, rights, keys, namespaces."""

import ctypes
import errno
import json
import os
import platform
import resource
import signal
import stat
from collections.abc import Callable
from functools import partial

from appliance.attacks import files
from appliance.attacks.told import Plan, Told

REFUSED = {errno.EPERM, errno.EACCES, errno.ENOSYS}
NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME = (
    0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000, 0x80,
)  # fmt: skip
MS_RDONLY, MS_REMOUNT, MS_BIND, MNT_DETACH = 1, 32, 4096, 2
PTRACE_SEIZE = 0x4206
_BYTE = ctypes.create_string_buffer(1)
NUMBERS = {
    "x86_64": {
        "getpid": 39, "clone": 56, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "pidfd_getfd": 438,
        "mount": 165, "umount2": 166, "unshare": 272, "setns": 308, "add_key": 248, "request_key": 249, "keyctl": 250,
        "bpf": 321, "perf_event_open": 298, "open_by_handle_at": 304, "init_module": 175, "finit_module": 313,
        "kexec_load": 246, "reboot": 169, "swapon": 167, "settimeofday": 164, "capset": 126, "acct": 163,
        "syslog": 103, "io_uring_setup": 425, "fsopen": 430, "mount_setattr": 442, "iopl": 172,
    },
    "aarch64": {
        "getpid": 172, "clone": 220, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
        "pidfd_getfd": 438, "mount": 40, "umount2": 39, "unshare": 97, "setns": 268, "add_key": 217,
        "request_key": 218, "keyctl": 219,
        "bpf": 280, "perf_event_open": 241, "open_by_handle_at": 265, "init_module": 105, "finit_module": 273,
        "kexec_load": 104, "reboot": 142, "swapon": 224, "settimeofday": 170, "capset": 91, "acct": 89,
        "syslog": 116, "io_uring_setup": 425, "fsopen": 430, "mount_setattr": 442,
    },
}  # fmt: skip
# Each with arguments that do nothing where it is let through, also for root.
FORBIDDEN: dict[str, tuple[int, ...]] = {
    "bpf": (0, 0, 0),
    "perf_event_open": (0, 0, -1, -1, 0),
    "open_by_handle_at": (-1, 0, 0),
    "init_module": (0, 0, 0),
    "finit_module": (-1, 0, 0),
    "kexec_load": (0, 1 << 20, 0, 0),
    "reboot": (0, 0, 0, 0),
    "swapon": (0, 0),
    "settimeofday": (0, 0),
    "acct": (1,),
    "syslog": (10, 0, 0),
    "io_uring_setup": (0, 0),
    "fsopen": (0, 0),
    "mount_setattr": (-1, 0, 0, 0, 0),
    "iopl": (3,),
}


def processes(plan: Plan) -> Told:
    """Who can be seen: nobody that began before the jail did, nobody that carries the mark of the one around it."""
    told = Told(control=str(os.getpid()) in files.pids())
    told.reached += [
        f"process {pid} ({_read(f'/proc/{pid}/comm').strip()}), older than the jail" for pid in _older(plan)
    ]
    return told


def namespaces(plan: Plan) -> Told:
    """Each namespace must be another one than that around it."""
    told = Told(control=True)
    for name, outside in plan.around["namespaces"].items():
        mine = os.readlink(f"/proc/self/ns/{name}")
        told.control = told.control and mine.startswith(f"{name}:[") and outside.startswith(f"{name}:[")
        if mine == outside:
            told.reached.append(f"the {name} namespace around it")
    return told


def ptrace(plan: Plan) -> Told:
    """Take hold of others: in the sandbox of any other process, in the jail of any that is not the jail's own."""
    told = Told(control=_speaks())
    others = {1, os.getppid(), *map(int, files.pids())} - {os.getpid(), 0}
    for pid in sorted(others if plan.where == "sandbox" else map(int, _older(plan))):
        if _in_child(partial(_seized, pid)):
            told.reached.append(f"ptrace of process {pid}")
        for name in ("process_vm_readv", "process_vm_writev"):
            if _let_through(_call(name, pid, _span(ctypes.addressof(_BYTE)), 1, _span(0), 1, 0)):
                told.reached.append(f"{name} of process {pid}")
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            continue
        if _let_through(_call("pidfd_getfd", handle, 0, 0)):
            told.reached.append(f"a descriptor of process {pid}")
        os.close(handle)
    return told


def mounting(plan: Plan) -> Told:
    """Mount, unmount and make writable: as we are, and with all rights in a user namespace of our own."""
    told = Told()
    own = plan.around["writable"].encode()
    if _let_through(_call("mount", b"none", own, b"tmpfs", 0, 0)):
        told.reached.append("a mount without a namespace of its own")
    if _let_through(_call("umount2", b"/proc", MNT_DETACH)):
        told.reached.append("unmounting /proc")

    def inside() -> list[str]:
        got = []
        if _call("mount", b"none", own, b"tmpfs", 0, 0) == 0:
            got.append("own mount")
        for path in ("/", "/usr", "/checkout", "/checkout/.git"):
            if path in plan.around["locked"] and _remounted(path):
                got.append(f"{path} made writable")
        got += [f"unmounting {path}" for path in plan.around["locked"][1:] if _call("umount2", path.encode(), 2) == 0]
        if _opens_packet():
            got.append("packets of the network around, with the rights of a namespace of its own")
        try:
            os.mknod(f"{plan.around['writable']}/battery-device", 0o600 | stat.S_IFCHR, os.makedev(1, 1))
            got.append("making a device in a namespace of its own")
        except OSError:
            pass
        return got

    got = _in_child(inside, NEWUSER | NEWNS)
    told.reached += [one for one in got if one != "own mount"]
    # The control: nested sandboxes need it, so it works in the jail. Codex's sandbox may refuse it.
    told.control = _speaks() and ("own mount" in got or plan.where == "sandbox")
    told.note = ", ".join(got)
    return told


def rights(plan: Plan) -> Told:
    """Become root, gain capabilities, take back what was given up, run a setuid program."""
    told = Told()
    uid = os.getuid()
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(1 << 21, 1 << 21, 0, 0, 0, 0)
    nothing = (ctypes.c_uint32 * 6)()
    attempts: tuple[tuple[str, Callable[[], object]], ...] = (
        ("setuid(0)", lambda: os.setuid(0)),
        ("setresuid(0)", lambda: os.setresuid(0, 0, 0)),
        ("seteuid(1)", lambda: os.seteuid(1)),
        ("setgid(0)", lambda: os.setgid(0)),
        ("setgroups(0)", lambda: os.setgroups([0])),
        ("the capability SYS_ADMIN", lambda: _raising("capset", header, data)),
        ("own", lambda: _raising("capset", header, nothing)),  # the control: to give up is allowed
    )
    got = _in_child(lambda: [name for name, attempt in attempts if _done(attempt)])
    told.reached += [name for name in got if name != "own"]
    status = dict(line.split(":\t", 1) for line in _read("/proc/self/status").splitlines() if ":\t" in line)
    for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "CapInh"):
        if int(status.get(name, "1"), 16):
            told.reached.append(f"capabilities ({name} {status.get(name)})")
    if status.get("NoNewPrivs") != "1":
        told.reached.append("new privileges (NoNewPrivs is not set)")
    if status.get("Seccomp") != "2":
        told.reached.append("system calls without a filter")
    effective = _effective_uid_of("/usr/bin/su")
    if effective is not None and effective != uid:
        told.reached.append(f"a setuid program that runs as {effective}")
    told.note = f"su ran as {effective}"
    told.control = "own" in got
    return told


def keys(plan: Plan) -> Told:
    """The kernel's keyrings, which no namespace of ours separates."""
    told = Told(control=_speaks())
    attempts: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("keyctl", (0, -3, 1)),  # KEYCTL_GET_KEYRING_ID of the session's, made if missing
        ("add_key", (b"user", b"battery", b"x", 1, -3)),
        ("request_key", (b"user", b"battery", 0, 0)),
    )
    told.reached += [name for name, arguments in attempts if _let_through(_call(name, *arguments))]
    return told


def calls(plan: Plan) -> Told:
    """System calls that neither jail nor sandbox needs and that reach far: modules, kexec, BPF, the clock."""
    told = Told(control=_speaks())
    known = _numbers()
    told.reached += [
        f"the system call {name}"
        for name, arguments in FORBIDDEN.items()
        if name in known and _let_through(_call(name, *arguments))
    ]
    return told


def unsharing(plan: Plan) -> Told:
    """Namespaces without a user namespace of one's own, and entering those of others."""
    told = Told()
    kinds = {
        "mount": NEWNS, "pid": NEWPID, "net": NEWNET, "uts": NEWUTS, "ipc": NEWIPC, "cgroup": NEWCGROUP,
        "time": NEWTIME,
    }  # fmt: skip
    got = _in_child(lambda: [name for name, flag in (*kinds.items(), ("own", NEWUSER)) if _call("unshare", flag) == 0])
    told.reached += [f"a new {name} namespace without a user namespace" for name in got if name != "own"]
    for name in ("net", "mnt", "pid", "ipc", "uts"):
        for pid in files.pids():
            if pid == str(os.getpid()) or not _other(name, pid):
                continue
            try:
                handle = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
            except OSError:
                continue
            if _in_child(partial(_entered, handle)):
                told.reached.append(f"the {name} namespace of process {pid}")
            os.close(handle)
    told.control = _speaks() and ("own" in got or plan.where == "sandbox")
    return told


def _seized(pid: int) -> list[str]:
    """Not attached, for that would stop it; with the end of this process it is free again."""
    return ["done"] if _let_through(_call("ptrace", PTRACE_SEIZE, pid, 0, 0)) else []


def _span(address: int) -> ctypes.Array[ctypes.c_void_p]:
    """An `iovec` of one byte. At address 0 there is none, so that what is let through ends with EFAULT."""
    return (ctypes.c_void_p * 2)(address, 1)


def _entered(handle: int) -> list[str]:
    return ["done"] if _call("setns", handle, 0) == 0 else []


def _older(plan: Plan) -> list[str]:
    """The processes that began before the jail did: none of its own can have."""
    found = []
    for pid in files.pids():
        words = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if len(words) > 19 and int(words[19]) < plan.around["not_before"]:
            found.append(pid)
    return found


def bounds(plan: Plan) -> Told:
    """The limits of this jail: how many processes, whether that can be raised, how much fits into its own tmpfs."""
    told = Told()
    most, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if not 0 <= most <= hard <= plan.around["processes"]:
        told.reached.append(f"{'any number of' if most < 0 else most} processes")
    if _done(lambda: resource.setrlimit(resource.RLIMIT_NPROC, (hard + 1, hard + 1))):
        told.reached.append("raising its own limit of processes")
    for place, size in plan.around["sized"].items():
        room = os.statvfs(place)
        if room.f_blocks * room.f_frsize > size:
            told.reached.append(f"{room.f_blocks * room.f_frsize >> 20} MB in {place}")
    if _read("/proc/self/oom_score_adj").strip() != "1000":
        told.reached.append("being spared when the container runs out of memory")
    told.control = _in_child(_lowered) == ["done"]
    return told


def fork_bomb(plan: Plan) -> Told:
    """As many processes as can be had, until it is refused; a few more than that is too many."""
    children: list[int] = []
    told = Told()
    try:
        while len(children) <= plan.around["processes"]:
            child = os.fork()
            if child == 0:
                signal.pause()
            children.append(child)
        told.reached.append(f"{len(children)} processes")
    except BlockingIOError:
        told.control = bool(children)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)
    told.note = f"refused after {len(children)}"
    return told


def full_tmp(plan: Plan) -> Told:
    """As much as fits in each place that can be written, one after the other."""
    told = Told(control=True)
    for place, size in plan.around["sized"].items():
        written = _filled(f"{place}/battery-full", size)
        told.control = told.control and written > 0
        told.note += f"{place} full after {written >> 20} MB; "
        if written > size:
            told.reached.append(f"more than {size >> 20} MB in {place}")
    return told


def _filled(path: str, most: int) -> int:
    """How many bytes could be written before there was no room, or `most` and a bit more."""
    written = 0
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while written <= most:
            written += os.write(handle, bytes(1 << 20))
    except OSError as error:
        return written if error.errno == errno.ENOSPC else 0
    finally:
        os.close(handle)
        os.unlink(path)
    return written


def _lowered() -> list[str]:
    """The control: with a limit of one more process none can be started."""
    resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
    try:
        child = os.fork()
    except BlockingIOError:
        return ["done"]
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return []


def _other(name: str, pid: str) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}")
    except OSError:
        return False


def _call(name: str, *arguments: object) -> int:
    """The system call's result, or the error's number, negative."""
    number = _numbers().get(name)
    if number is None:
        return -errno.ENOSYS
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = libc.syscall(ctypes.c_long(number), *given)
    return result if result >= 0 else -ctypes.get_errno()


def _let_through(result: int) -> bool:
    """Whether a call was let through. Refused is refused by right: other errors come after the right was given."""
    return -result not in REFUSED


def _numbers() -> dict[str, int]:
    return NUMBERS.get(platform.machine(), {})


def _speaks() -> bool:
    """The control of what is allowed nowhere: a harmless call by the same way has the effect that it must."""
    return _call("getpid") == os.getpid()


def _remounted(path: str) -> bool:
    return _call("mount", 0, path.encode(), 0, MS_REMOUNT | MS_BIND, 0) == 0


def _opens_packet() -> bool:
    import socket

    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300).close()
    except OSError:
        return False
    return True


def _done(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, ValueError):  # (ValueError: Python's word for EPERM of setrlimit)
        return False
    return True


def _raising(name: str, *arguments: object) -> None:
    result = _call(name, *arguments)
    if result < 0:
        raise OSError(-result, name)


def _in_child(act: Callable[[], list[str]], flags: int = 0) -> list[str]:
    """What `act` says, run in a process of its own, since it may change that for good, with these new namespaces."""
    reader, writer = os.pipe()
    child = _call("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
    if child < 0:
        os.close(reader)
        os.close(writer)
        return []
    if child == 0:
        try:
            os.write(writer, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    found: list[str] = json.loads(told or b"[]")
    return found


def _effective_uid_of(program: str) -> int | None:
    """The uid with which a setuid program runs. Its output goes into a full pipe, so that it stays to be looked at."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 65536)
    except BlockingIOError:
        os.set_blocking(writer, True)
    child = os.fork()
    if child == 0:
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        try:
            os.execv(program, [program, "--help"])
        finally:
            os._exit(0)
    try:
        name = program.rpartition("/")[2]
        for _ in range(200):
            if _read(f"/proc/{child}/comm").strip() == name:
                lines = _read(f"/proc/{child}/status").splitlines()
                return next(int(line.split()[2]) for line in lines if line.startswith("Uid:"))
            if not os.path.exists(f"/proc/{child}/comm"):
                break
            signal.sigtimedwait([], 0.001)
        return None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


def _read(path: str) -> str:
    return files.content(path).decode("utf-8", "replace")
