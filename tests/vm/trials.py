"""What is tried in the machine, by its root: the appliance's own self-test under one AppArmor profile after the other.

    python trials.py PROFILE        PROFILE: docker/apparmor/review-appliance

Prints one JSON line for each trial: {"trial", "seconds", …}. tests/container/test_apparmor.py says what
must stand there.
Each trial is a process of its own, forked from this one (Python alone takes seconds to start here), which goes under
the profile first and then gives up root, as the engine has it: no capability, no new privileges, uid 10001.
"""

import contextlib
import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from appliance import battery, bounds, cli, jail, ladder, process, selftest

UID = 10001
STATE = Path("/var/lib/appliance")
RUN = Path("/run/appliance")
OURS = "review-appliance"
RESTRICT = Path("/usr/share/apparmor/extra-profiles/bwrap-userns-restrict")
HEADER = "abi <abi/4.0>,\ninclude <tunables/global>\n"
ALL_BUT_NAMESPACES = "  capability,\n  network,\n  unix,\n  file,\n  umount,\n  pivot_root,\n  signal,\n  ptrace,\n"
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 4, 22, 24, 38
SECCOMP_MODE_FILTER = 2
OF_THE_WATCH = ("ptrace (read, readby) peer=review-appliance,", "capability sys_ptrace,")
# A jail that fills its /tmp and CODEX_HOME, and a sandbox in it a /tmp of its own; then it can be looked at.
FULL = """
head -c 50000000 /dev/zero >/tmp/full
head -c 70000000 /dev/zero >/codex-home/full
set -- --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --unshare-user --unshare-pid --unshare-net --cap-drop ALL
exec bwrap "$@" sh -c 'head -c 30000000 /dev/zero >/tmp/full; echo full; sleep 8'
"""
LIBC = ctypes.CDLL(None, use_errno=True)
FILTER = Path(__file__).with_name("filter.bpf")


class SockFprog(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def say(trial: str, started: float, **told: Any) -> None:
    line = json.dumps({"trial": trial, "seconds": round(time.monotonic() - started, 1), **told})
    os.write(1, f"{line}\n".encode())  # in one piece: there are two who write


# What the engine would mask, or make read-only, without systempaths=unconfined.
WRITE = (
    "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
    "/proc/irq/default_smp_affinity", "/tmp/proc/sys/kernel/core_pattern",
)  # fmt: skip
READ = (
    "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/acpi/wakeup", "/proc/scsi/scsi",
    "/sys/kernel/security/apparmor/profiles", "/sys/firmware/acpi/tables/DSDT",
)  # fmt: skip


# ---- profiles


def parser(*arguments: str, text: str = "") -> None:
    """Raises CalledProcessError if the parser does not take it."""
    subprocess.run(["apparmor_parser", *arguments], input=text, text=True, check=True, capture_output=True)


@contextlib.contextmanager
def loaded(text: str) -> Iterator[None]:
    """While it lasts the kernel has the profiles of `text`."""
    parser("-r", "-K", text=text)
    try:
        yield
    finally:
        parser("-R", text=text)


def restrict(mode: str = "-r") -> None:
    """Load Debian's bwrap-userns-restrict, or (`-R`) remove it."""
    parser(mode, "-K", str(RESTRICT))


def rules_of(text: str) -> list[str]:
    """Each rule of our profile, as it stands there."""
    body = text[text.index("{\n") + 2 : text.rindex("}")]
    return [line.strip() for line in body.splitlines() if line.strip() and not line.strip().startswith("#")]


def without(text: str, rule: str) -> str:
    """The profile without that rule, which stands in it once."""
    (line,) = (line for line in text.splitlines(keepends=True) if line.strip() == rule)
    return text.replace(line, "")


# ---- processes


def become(profile: str, uid: int) -> None:
    """As the engine does it: without a capability, as that user, under that profile ("": none), no new privileges."""
    for capability in range(64):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    LIBC.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    LIBC.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or /proc/self stays root's
    if profile:
        Path("/proc/self/attr/current").write_text(f"changeprofile {profile}")
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    filtered()
    os.environ.update(HOME=str(STATE), PATH="/usr/local/bin:/usr/bin:/bin")


def filtered() -> None:
    """The system calls that docker/seccomp.json lets through, as a program that filter.py made of it."""
    code = FILTER.read_bytes()
    program = SockFprog(len(code) // 8, code)
    if LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


def child(profile: str, act: Callable[[], Any], uid: int = UID) -> Any:
    """What `act` returned, in a process under `profile` ("": none); a string if it raised."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            become(profile, uid)
            said = json.dumps(act())
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is told, and the process ends here
            said = json.dumps(f"{type(error).__name__}: {error}")
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(told or b'"it ended and said nothing"')


def examined() -> dict[str, Any]:
    """The self-test; of its facts only what decides here."""
    report = selftest.selftest(STATE / "work" / f"vm-{os.getpid()}").to_json()
    fault: Any = report["fault"]
    steps: Any = report["steps"]
    if fault:
        wanted = ("label", "jail_label", "userns_label", "told_by")
        fault["facts"] = {name: fault["facts"][name] for name in wanted if name in fault["facts"]}
    told = {"ok": report["ok"], "step": steps[-1]["name"], "fault": fault, "warnings": report["warnings"]}
    return {**told, "seconds_of_it": report["seconds"]}


def appliance(*arguments: str, profile: str = "", log: Path, **environment: str) -> int:
    """Starts a command of the appliance, as the image's user; returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = 1
    try:
        become(profile, UID)
        os.environ.update(environment)
        cli.main(list(arguments), prog_name="appliance")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stdout.flush()
        os._exit(code)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# ---- trials


def causes() -> None:
    """Each fault that a host's AppArmor makes, by the profiles that make it."""

    def trial(name: str, profile: str = "") -> None:
        started = time.monotonic()
        say(name, started, **told(child(profile, examined)))

    userns = Path("/etc/apparmor.d/unprivileged_userns").read_text().replace("flags=(complain)", "flags=(enforce)")
    with loaded(userns):
        trial("an unconfined bwrap on Ubuntu", "unprivileged_userns")
    with loaded(f"{HEADER}profile docker-default flags=(attach_disconnected,mediate_deleted) {{\n"
                f"{ALL_BUT_NAMESPACES}  userns,\n  deny mount,\n}}\n"):  # fmt: skip
        trial("the engine's profile", "docker-default")
    with loaded(f"{HEADER}profile no-userns flags=(attach_disconnected,mediate_deleted) {{\n"
                f"{ALL_BUT_NAMESPACES}  mount,\n}}\n"):  # fmt: skip
        trial("a profile without userns", "no-userns")
    restrict()
    try:
        trial("bwrap-userns-restrict")
        trial("ours beside bwrap-userns-restrict", OURS)
        started = time.monotonic()
        log = Path("/tmp/rehearse.log")
        code = ended(appliance("rehearse", profile=OURS, log=log))
        say("a rehearsal under ours", started, code=code, out=log.read_text()[-1500:])
    finally:
        restrict("-R")


def incident() -> None:
    """A profile of the host comes and goes while the appliance runs, which it does without one."""
    started = time.monotonic()
    log = Path("/tmp/serve.log")
    serving = appliance("serve", log=log, APPLIANCE_INTERVAL="1")
    seen, attempts = [], []
    # A self-test that the change itself befalls may find neither the old nor the new: so the cause is waited for.
    for state, change in (("healthy", "-r"), ("unhealthy: apparmor-bwrap-restrict", "-R"), ("healthy", "")):
        seen.append(health(state))
        attempts.append(status() if seen[1:] else reviewed())  # healthy it is before the sample's review has ended
        if not seen[-1].startswith(f"{state}:"):
            break
        if change:
            restrict(change)
    os.kill(serving, signal.SIGTERM)
    code = ended(serving)
    told = {"seen": seen, "attempts": attempts, "code": code, "log": log.read_text()[-1500:]}
    say("the host's profile comes and goes while it runs", started, **told)


def health(state: str) -> str:
    """The probe's line, as soon as it begins with that; after four minutes whatever it is."""
    deadline = time.monotonic() + 240
    while True:
        done = subprocess.run(["/usr/local/bin/health-probe"], capture_output=True, text=True, check=False)
        if done.stdout.startswith(f"{state}:") or time.monotonic() > deadline:
            return done.stdout.strip()
        time.sleep(0.5)


def reviewed() -> Any:
    """The status, as soon as each pull request has its review; after four minutes whatever it is."""
    deadline = time.monotonic() + 240
    while True:
        told = status()
        if (told[1] and all(told[1])) or time.monotonic() > deadline:
            return told
        time.sleep(0.5)


def status() -> Any:
    """Cause of the health, and the attempts of each pull request: one for the review that it has."""
    log = Path("/tmp/status.json")
    ended(appliance("status", "--json", log=log))
    told = json.loads(log.read_text())
    return [told["health"]["cause"], [pull["attempts"] for pull in told["pulls"]]]


def rules(text: str) -> None:
    """Our profile without each of its rules in turn: what is no longer possible, or no longer refused."""
    with_all = {**powers(), **child(OURS, of_a_jail)}
    say("with every rule", time.monotonic(), powers=with_all)
    for rule in rules_of(text):
        started = time.monotonic()
        parser("-r", "-K", text=without(text, rule))
        try:
            got = powers()
            if rule in ("capability setpcap,", *OF_THE_WATCH):  # bwrap goes on without it
                got |= child(OURS, of_a_jail)
            changed = {name: got[name] for name in got if got[name] != with_all.get(name)}
            outcome = {} if changed and rule not in OF_THE_WATCH else told(child(OURS, examined))
        finally:
            parser("-r", "-K", text=text)
        say(f"without: {rule}", started, changed=changed, **outcome)


def powers() -> dict[str, str]:
    """What a process under our profile, of the image's user or of uid 0, can do and cannot."""
    user, root = child(OURS, of_the_user), child(OURS, of_uid_0, uid=0)
    if isinstance(user, str) or isinstance(root, str):
        return {"start": f"{user} {root}"}
    return {"start": "done", **user, **root, "be stopped from outside": stopped()}


def of_the_user() -> dict[str, str]:
    kinds = {
        "inet stream": (socket.AF_INET, socket.SOCK_STREAM),
        "inet dgram": (socket.AF_INET, socket.SOCK_DGRAM),
        "inet6 stream": (socket.AF_INET6, socket.SOCK_STREAM),
        "inet6 dgram": (socket.AF_INET6, socket.SOCK_DGRAM),
        "unix": (socket.AF_UNIX, socket.SOCK_STREAM),
        "netlink raw": (socket.AF_NETLINK, socket.SOCK_RAW),
        "inet raw": (socket.AF_INET, socket.SOCK_RAW),
    }
    got = {f"socket {name}": attempt(partial(socket.socket, *kind)) for name, kind in kinds.items()}
    return {**got, "stop a process of its own": attempt(stop_own)}


def of_a_jail() -> dict[str, str]:
    """Which capabilities a program in a jail could still be given, as a number, or why there is no jail; and what its
    watch sees of one that is full."""
    line = ["bwrap", *jail.ISOLATION, "--ro-bind", "/", "/", "--proc", "/proc", "grep", "CapBnd", "/proc/self/status"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    return {"capabilities in a jail": done.stdout.strip() or done.stderr.strip(), **of_a_full_jail()}


def of_a_full_jail() -> dict[str, str]:
    """How much of its memory is counted, temporary files included, and what the watch of a review says of it."""
    watch = bounds.Watch(None)
    counted: list[int] = []

    full = threading.Event()

    @contextlib.contextmanager
    def over(pid: int) -> Iterator[None]:
        full.wait(120)
        counted.append(bounds.usage(pid).memory >> 20)
        with watch.over(pid):
            yield

    with ladder.prepared(STATE / "work" / f"full-{os.getpid()}") as probe:
        process.run(probe.jailed(["sh", "-c", FULL]), timeout=150, watch=over, on_line=lambda _: full.set())
    return {"a full jail": f"{counted[0] // 10 * 10} MB", "said of it": watch.exceeded}


def stop_own() -> None:
    pid = os.fork()
    if pid == 0:
        time.sleep(2)
        os._exit(0)
    try:
        os.kill(pid, signal.SIGKILL)
    finally:
        os.waitpid(pid, 0)


def of_uid_0() -> dict[str, str]:
    """What an unmasked /proc would open to it. Nothing is written: to be let open it is enough."""
    write = {f"write {place}": attempt(partial(os.open, place, os.O_WRONLY)) for place in WRITE}
    read = {f"read {place}": attempt(partial(os.open, place, os.O_RDONLY)) for place in READ}
    return {**write, **read}


def stopped() -> str:
    pid = os.fork()
    if pid == 0:
        become(OURS, UID)
        time.sleep(3)
        os._exit(0)
    time.sleep(0.3)
    try:
        return attempt(lambda: os.kill(pid, signal.SIGTERM))
    finally:
        os.waitpid(pid, 0)


def attempt(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


def told(outcome: Any) -> dict[str, Any]:
    return outcome if isinstance(outcome, dict) else {"ok": False, "fault": None, "said": outcome}


def main(profile: Path) -> None:
    text = profile.read_text()
    ladder.RUNG_SECONDS = ladder.CODEX_SECONDS = battery.SECONDS = 300.0  # emulated, on a busy machine
    Path("/tmp/proc").mkdir()
    subprocess.run(["mount", "-t", "proc", "proc", "/tmp/proc"], check=True)
    for place in (STATE, RUN):
        place.mkdir(parents=True, exist_ok=True)
        os.chown(place, UID, UID)
    parser("-r", "-K", text=text)
    causes()
    beside = os.fork()
    if beside == 0:
        try:
            incident()
        except Exception as error:  # noqa: BLE001 - it is told
            say("the incident", 0.0, said=repr(error))
        os._exit(0)
    rules(text)
    os.waitpid(beside, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
