"""Seccomp, the security module, or the kernel? System calls that never do anything, by the error that each gives.

Made only when a step has failed. EPERM means that a filter forbids the call; let through, it fails for its senseless
arguments. For `unshare` and `pivot_root` there are no such arguments, so they are made in a child that has no other
use: it takes a user namespace, reads under which label that put it, and ends.
"""

import ctypes
import errno
import os
import platform
import signal
import socket
import sys
from collections.abc import Mapping

from appliance import process

_CLONE_FS, _CLONE_NEWUSER = 0x200, 0x10000000
_CALLS: Mapping[str, tuple[int, ...]] = {
    "clone": (_CLONE_NEWUSER | _CLONE_FS | signal.SIGCHLD, 0, 0, 0, 0),  # the kernel refuses this pair: EINVAL
    "mount": (0, 0, 0, 0, 0),  # EFAULT
    "umount": (0, 0),  # EFAULT
}
_NUMBERS: Mapping[str, Mapping[str, int]] = {
    "x86_64": {"clone": 56, "mount": 165, "umount": 166, "pivot_root": 155},
    "aarch64": {"clone": 220, "mount": 40, "umount": 39, "pivot_root": 41},
}
# pivot_root looks for the right to mount before it looks at its arguments, so it needs a mount namespace of its own,
# and a clone takes both at once: this project's rules let `unshare` take nothing but a user namespace.
_CHILD = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def told(result):
    return "done" if result >= 0 else errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno()))
def call(number, *given):
    return libc.syscall(ctypes.c_long(number), *(ctypes.c_long(each) for each in given))
child = call(CLONE, 0x10000000 | 0x20000 | 17, 0, 0, 0, 0)
if child == 0:
    print("call_pivot=" + told(call(PIVOT_ROOT, 0, 0)), flush=True)
    os._exit(0)
if child > 0:
    os.waitpid(child, 0)
unshared = told(libc.unshare(0x10000000))
print("call_unshare=" + unshared)
if unshared == "done":
    try:
        print("userns_label=" + open("/proc/self/attr/current").read().strip("\\0\\n"))
    except OSError:
        pass
"""
_TOLD = ("call_unshare", "userns_label", "call_pivot")


def calls() -> dict[str, object]:
    """`call_clone`, `call_mount`, `call_umount`, `call_netlink`: the name of the error that each gives, or "done"."""
    facts: dict[str, object] = {"call_netlink": _netlink()}
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        return facts
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return facts | {f"call_{name}": _error_of(libc, name, numbers[name], given) for name, given in _CALLS.items()}


def in_a_namespace() -> dict[str, object]:
    """`call_unshare`, `call_pivot` and `userns_label` (the label in a fresh user namespace), as a child tells them.

    What it could not come to is left out.
    """
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        return {}
    script = _CHILD.replace("PIVOT_ROOT", str(numbers["pivot_root"])).replace("CLONE", str(numbers["clone"]))
    try:
        done = process.run([sys.executable, "-I", "-S", "-c", script], timeout=10)
    except (OSError, RuntimeError):  # no process and no thread left for it
        return {}
    pairs = (line.partition("=") for line in done.out.splitlines())
    return {name: value for name, _, value in pairs if name in _TOLD and value}


def _netlink() -> str:
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE).close()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    return "done"


def _error_of(libc: ctypes.CDLL, name: str, number: int, arguments: tuple[int, ...]) -> str:
    result = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments))
    if name == "clone" and result == 0:
        os._exit(0)  # a kernel that lets this pass has made a child of us: it ends here
    if name == "clone" and result > 0:
        os.waitpid(result, 0)
    return errno.errorcode.get(ctypes.get_errno(), str(ctypes.get_errno())) if result < 0 else "done"
