"""docker/seccomp.json is minimal: each of its rules is left out in turn, and something named fails.

That it is sufficient is shown by every other test in this folder, which all run under it.
"""

import json
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from .stack import IMAGE, PROJECT, Done

PYTHON = "/opt/appliance/bin/python"
PROFILE: dict[str, Any] = json.loads((PROJECT / "docker/seccomp.json").read_text())
SELFTEST = ("appliance", "selftest", "--json")


@dataclass(frozen=True)
class Loss:
    """Without the rule whose comment begins with `rule`, `command` prints what `told` matches."""

    rule: str
    told: str
    command: tuple[str, ...] = SELFTEST


def cause(name: str, symptom: str = "") -> str:
    """The self-test's fault, as it is printed: cause before symptom."""
    return rf'"cause": "{name}".*"symptom": "[^"]*{symptom}'


# The engine's runtime or its init fails, in whatever words this version has.
NOT_STARTED = r"^exit (2|12[5-7]|13[49])\n|exec /sbin/docker-init: |\[FATAL tini "

ANY = "[a-z-]+"

LOSSES = (
    Loss("Every program: to start", NOT_STARTED),
    Loss("Every program: to look at files", NOT_STARTED),
    Loss("Python, SQLite, git, bwrap: to write", cause("jail-layout", "bwrap: Can't create file")),
    Loss("Every program: to print", NOT_STARTED),
    Loss("Python, Codex, git, shells: processes", NOT_STARTED),
    Loss("Every program: signals", NOT_STARTED),
    Loss("Every program: the time", r"sleep: .*Operation not permitted", ("sleep", "0.01")),
    Loss("Every program: who it is", cause(ANY, "bwrap: setting up uid map: Invalid argument")),
    Loss("bwrap and Codex: to give up", cause(ANY, "bwrap: capget failed: Operation not permitted")),
    Loss("Git, Codex, socat", cause("no-net-namespace", "bwrap: loopback: Failed to bind NETLINK_ROUTE socket")),
    Loss("Unix sockets", cause(ANY, "PermissionError: ")),
    Loss("IPv4", cause("relay-failed", r".*E socket\(2, 1, 6\): Operation not permitted")),
    Loss("IPv6", r"socket: Operation not permitted", ("bash", "-c", ": </dev/tcp/::1/9")),
    Loss("Netlink", cause("no-net-namespace", "bwrap: loopback: Failed to create NETLINK_ROUTE socket")),
    Loss("The older names", NOT_STARTED),
    Loss("Threads and processes", NOT_STARTED),
    Loss("ENOSYS", cause(ANY, "RuntimeError: can't start new thread")),
    Loss("ENOTSUP", r"ls: /etc/passwd: Operation not permitted", ("ls", "-l", "/etc/passwd")),
    Loss("Beyond the engine's default, 1 of 5", cause("seccomp-clone")),
    Loss("Beyond the engine's default, 2 of 5", cause("userns-second")),
    Loss("Beyond the engine's default, 3 of 5", cause("seccomp-mount")),
    Loss("Beyond the engine's default, 4 of 5", cause("seccomp-umount")),
    Loss("Beyond the engine's default, 5 of 5", cause("seccomp-pivot")),
)


def here(rule: dict[str, Any]) -> bool:
    """Whether the rule is of use on this machine."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    return machine in rule.get("includes", {}).get("arches", [machine])


RULES = {rule["comment"]: rule for rule in PROFILE["syscalls"] if here(rule)}


@cache
def options() -> list[str]:
    """What compose.yaml gives the container, as `docker run` wants it, but for the seccomp rules."""
    command = ["docker", "compose", "--env-file", "/dev/null", "-f", "compose.yaml", "config", "--format", "json"]
    told = subprocess.run(command, cwd=PROJECT, capture_output=True, check=True, timeout=60).stdout
    service = json.loads(told)["services"]["appliance"]
    assert service["init"] and service["read_only"] and service["cap_drop"] == ["ALL"]
    given = ["--init", "--read-only", "--cap-drop", "ALL", "--user", service["user"], "--network", "none"]
    for option in service["security_opt"]:
        given += [] if option.startswith("seccomp=") else ["--security-opt", option]
    for mount in (*service["tmpfs"], "/var/lib/appliance:mode=0700,uid=10001,gid=10001"):
        given += ["--tmpfs", mount]
    return given


def run(folder: Path, profile: dict[str, Any], command: Sequence[str]) -> Done:
    rules = folder / "seccomp.json"
    rules.write_text(json.dumps(profile))
    line = ["docker", "run", "--rm", *options(), "--security-opt", f"seccomp={rules}", IMAGE, *command]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


def everything(done: Done) -> str:
    return f"exit {done.code}\n{done.out}{done.err}"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("comment", RULES)
def test_left_out_it_is_missed(comment: str, tmp_path: Path) -> None:
    (loss,) = (loss for loss in LOSSES if comment.startswith(loss.rule))
    without = {**PROFILE, "syscalls": [rule for rule in PROFILE["syscalls"] if rule["comment"] != comment]}
    done = run(tmp_path, without, loss.command)
    assert re.search(loss.told, everything(done), re.DOTALL), done


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("command", sorted({loss.command for loss in LOSSES}), ids=" ".join)
def test_with_all_rules_nothing_is_missed(command: Sequence[str], tmp_path: Path) -> None:
    done = run(tmp_path, PROFILE, command)
    told = [loss.told for loss in LOSSES if loss.command == command]
    assert not [text for text in told if re.search(text, everything(done), re.DOTALL)], done
    assert done.code == 0 or command[0] == "bash", done  # nothing listens where bash connects to


@pytest.mark.usefixtures("engine")
def test_a_rehearsal_passes_under_it(tmp_path: Path) -> None:
    done = run(tmp_path, PROFILE, ["appliance", "rehearse"])
    assert done.code == 0 and "The chain works" in done.out, done


# Each would do or say something else without a filter: succeed, or fail for its arguments.
PROBES = """
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
column = ["x86_64", "aarch64"].index(platform.machine())
calls = {
    "ptrace": ((101, 117), (0, 0, 0, 0)), "process_vm_readv": ((310, 270), (0, 0, 0, 0, 0, 0)),
    "kcmp": ((312, 272), (0, 0, 0, 0, 0)), "pidfd_getfd": ((438, 438), (-1, 0, 0)),
    "memfd_create": ((319, 279), (b"x", 0)), "memfd_secret": ((447, 447), (0,)), "keyctl": ((250, 219), (0, 0, 0)),
    "userfaultfd": ((323, 282), (1,)), "io_uring_setup": ((425, 425), (0, 0)), "bpf": ((321, 280), (0, 0, 0)),
    "shmget": ((29, 194), (0, 1, 0o1600)), "mq_open": ((240, 180), (0, 0, 0, 0)), "io_setup": ((206, 0), (0, 0)),
    "personality": ((135, 92), (-1,)), "setuid": ((105, 146), (10001,)), "chown": ((94, 54), (0, 0, 0, 0, 0)),
    "inotify_init1": ((294, 26), (0,)), "name_to_handle_at": ((303, 264), (0, 0, 0, 0, 0)),
    "landlock_create_ruleset": ((444, 444), (0, 0, 1)), "setns": ((308, 268), (-1, 0)),
    "open_tree": ((428, 428), (-100, b"/", 1)), "fsopen": ((430, 430), (0, 0)), "adjtimex": ((159, 171), (0,)),
    "clone": ((56, 220), (0x00020000 | 17, 0, 0, 0, 0)), "unshare": ((272, 97), (0x20000,)),
}
for name, (numbers, arguments) in calls.items():
    got = libc.syscall(ctypes.c_long(numbers[column]), *(
        argument if isinstance(argument, bytes) else ctypes.c_long(argument) for argument in arguments))
    print(name, errno.errorcode.get(ctypes.get_errno()) if got < 0 else "done")
"""


@pytest.mark.usefixtures("engine")
def test_what_reaches_into_the_kernel_is_refused(tmp_path: Path) -> None:
    open_to_all = {"defaultAction": "SCMP_ACT_ALLOW", "archMap": PROFILE["archMap"], "syscalls": []}
    told, control = ([*run(tmp_path, one, [PYTHON, "-c", PROBES]).out.splitlines()] for one in (PROFILE, open_to_all))
    assert [line for line in told if not line.endswith(" EPERM")] == []
    assert len(told) == 25
    assert len([line for line in control if not line.endswith(" EPERM")]) > 20, control


SOCKETS = """
import socket
asked = {"unix": (1, 1, 0), "inet": (2, 1, 0), "inet6": (10, 1, 0), "route": (16, 3, 0),
         "audit": (16, 3, 9), "uevent": (16, 2, 15), "packet": (17, 3, 0), "bluetooth": (31, 3, 0), "alg": (38, 5, 0),
         "vsock": (40, 1, 0)}
for name, kind in asked.items():
    try:
        socket.socket(*kind)
    except OSError as error:
        print(name, error.errno)
"""


@pytest.mark.usefixtures("engine")
def test_no_socket_but_of_four_families(tmp_path: Path) -> None:
    done = run(tmp_path, PROFILE, [PYTHON, "-c", SOCKETS])
    assert done.out.split("\n")[:-1] == ["audit 1", "uevent 1", "packet 1", "bluetooth 1", "alg 1", "vsock 1"], done


INT_80 = r"""
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))() > 0, flush=True)
"""


@pytest.mark.usefixtures("engine")
def test_no_call_of_32_bits(tmp_path: Path) -> None:
    if platform.machine() == "x86_64":
        done = run(tmp_path, PROFILE, [PYTHON, "-c", INT_80])
        assert (done.code, done.out) == (128 + 31, ""), done  # SIGSYS
