"""Attacks on what can be read and written: secrets, other checkouts, the database, the system."""

import os
import stat
from collections.abc import Iterator

from appliance.attacks.told import Plan, Told

MAX_FILES = 4000  # a jail shows some thirty beside the system
MAX_BYTES = 4 * 1024 * 1024
SYSTEM = ("/usr", "/opt/codex", "/proc", "/sys", "/bin", "/lib", "/lib64", "/sbin")
HIDDEN = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/secrets",
    "/run/appliance",
    "/etc/shadow",
    "/etc/gshadow",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/root",
    "/sys/kernel",
    "/sys/fs/cgroup",
    "/proc/1/root/var/lib/appliance/appliance.db",
)
KERNEL_READ = ("/proc/kcore", "/proc/kmsg", "/proc/kpagecount", "/proc/vmallocinfo", "/sys/firmware/acpi/tables/DSDT")
KERNEL_WRITE = (
    "/proc/sysrq-trigger",
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hostname",
    "/proc/sys/vm/drop_caches",
    "/proc/sys/fs/binfmt_misc/register",
    "/sys/kernel/uevent_helper",
    "/sys/fs/cgroup/cgroup.procs",
)
DEVICES = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)}  # null zero full random urandom tty ptmx


def secrets(plan: Plan) -> Told:
    """Read all that can be read, beside the image's own programs, and look for what was planted and for real keys."""
    told = Told()
    read = 0
    for path in _files("/"):
        read += 1
        if read > MAX_FILES:
            told.reached.append(f"more than {MAX_FILES} files, the last of them {path}")
            break
        _note(plan, told, path, content(path))
    told.note = f"{read} files"
    return told


def environments(plan: Plan) -> Told:
    """Look into the environment, the command line and the memory's map of every process that can be seen."""
    told = Told()
    for pid in pids():
        for name in ("environ", "cmdline"):
            _note(plan, told, f"/proc/{pid}/{name}", content(f"/proc/{pid}/{name}"))
    allowed = set(plan.around["environment"])
    told.reached += [f"the variable {name}" for name in sorted(os.environ) if name not in allowed]
    own = content("/proc/self/environ")
    for name in plan.found(own + b"".join(b"\n" + value.encode() for value in os.environ.values())):
        told.reached.append(f"{name} in its own environment")
    # The control: what this very process was started with stands in its command line.
    told.control = plan.nonce.encode() in content("/proc/self/cmdline")
    return told


def places(plan: Plan) -> Told:
    """The places of other things: the state volume beside what is shown of it, sockets and files of the container."""
    told = Told(control=_there("/usr/bin/git"))
    told.reached += [path for path in (*HIDDEN, *plan.around["hidden"]) if _there(path)]
    shown = set(plan.around["shown"])
    state = plan.around["state"]
    for root, directories, files in os.walk(state):
        for name in (*directories, *files):
            path = f"{root}/{name}"
            if not any(_leads_to(path, one) for one in shown):
                told.reached.append(path)
        directories[:] = [name for name in directories if f"{root}/{name}" not in shown]
        if len(told.reached) > 20:
            break
    return told


def mounts(plan: Plan) -> Told:
    """Everything that is mounted, against what a review's jail shows."""
    told = Told()
    for line in content("/proc/self/mountinfo").decode("utf-8", "replace").splitlines():
        words = line.split()
        point, options = words[4], words[5].split(",")
        told.control = told.control or point == "/proc"
        expected = plan.around["mounts"].get(point) or _below(point, plan.around["below"])
        if expected is None:
            told.reached.append(f"a mount at {point}")
        elif expected == "ro" and "ro" not in options:
            told.reached.append(f"{point}, mounted so that it can be written")
        if "nosuid" not in options:
            told.reached.append(f"{point}, mounted so that setuid programs work")
    return told


def writing(plan: Plan) -> Told:
    """Make, change, rename and remove files where nothing may be changed."""
    told = Told()
    name = f"battery-{plan.nonce}"
    for place in plan.around["read_only"]:
        made = f"{place}/{name}"
        if _makes(made):
            told.reached.append(f"a new file in {place}")
        for what, attempt in (
            ("a new directory", lambda made=made: os.mkdir(f"{made}-d")),
            ("a new link", lambda made=made: os.symlink("/etc/passwd", f"{made}-l")),
        ):
            if _works(attempt):
                told.reached.append(f"{what} in {place}")
    for place in plan.around["looked_after"]:  # the sandbox has something of its own there: the other side looks
        _makes(f"{place}/{name}")
    for path in plan.around["kept"]:
        if _works(lambda path=path: os.close(os.open(path, os.O_WRONLY | os.O_APPEND))):
            told.reached.append(f"{path}, to write")
        if _works(lambda path=path: os.rename(path, f"{path}-moved")):
            told.reached.append(f"{path}, to rename")
        if _works(lambda path=path: os.chmod(path, 0o777)):
            told.reached.append(f"{path}, to change its mode")
    own = f"{plan.around['writable']}/{name}"
    told.control = _makes(own) and content(own) == b"x" and _works(lambda: os.unlink(own))
    return told


def kernel_files(plan: Plan) -> Told:
    """The kernel's own files, which nothing masks here: only their modes keep them."""
    told = Told(control=bool(content("/proc/self/status")))
    for path in KERNEL_READ:
        if _works(lambda path=path: os.close(os.open(path, os.O_RDONLY))):
            told.reached.append(f"{path}, to read")
    for path in KERNEL_WRITE:
        if _works(lambda path=path: os.close(os.open(path, os.O_WRONLY))):
            told.reached.append(f"{path}, to write")
    return told


def devices(plan: Plan) -> Told:
    """Device nodes: those that are there, and making one."""
    told = Told()
    for root, _, names in os.walk("/dev"):
        for name in names:
            mode = _lstat(f"{root}/{name}")
            if mode is None or not (stat.S_ISCHR(mode.st_mode) or stat.S_ISBLK(mode.st_mode)):
                continue
            number = (os.major(mode.st_rdev), os.minor(mode.st_rdev))
            told.control = told.control or number == (1, 3)
            if stat.S_ISBLK(mode.st_mode) or not (number in DEVICES or root == "/dev/pts"):
                told.reached.append(f"the device {root}/{name}")
    for kind, number in ((stat.S_IFCHR, (1, 1)), (stat.S_IFBLK, (254, 0)), (stat.S_IFCHR, (10, 200))):
        path = f"{plan.around['writable']}/battery-device"
        if _works(lambda kind=kind, number=number, path=path: os.mknod(path, 0o600 | kind, os.makedev(*number))):
            told.reached.append(f"making the device {number[0]}:{number[1]}")
    return told


def descriptors(plan: Plan) -> Told:
    """What was left open for us: files, sockets, directories of the container."""
    told = Told()
    own = os.open("/dev/null", os.O_RDONLY)
    listed = [int(name) for name in os.listdir("/proc/self/fd")]
    told.control = own in listed
    for number in listed:
        if number in (0, 1, 2, own) or not _works(lambda number=number: os.fstat(number)):
            continue  # the listing's own is closed by now
        told.reached.append(f"an open descriptor of {os.readlink(f'/proc/self/fd/{number}')}")
    os.close(own)
    return told


def pids() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def _files(top: str) -> Iterator[str]:
    for root, directories, names in os.walk(top):
        directories[:] = [name for name in directories if os.path.join(root, name) not in SYSTEM]
        yield from (os.path.join(root, name) for name in names)


def content(path: str) -> bytes:
    """As much of a file as is looked at; nothing if it cannot be read, or is no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW)
    except OSError:
        return b""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return b""
        found = b""
        while len(found) < MAX_BYTES and (more := os.read(handle, 1 << 20)):
            found += more
        return found
    except OSError:
        return b""
    finally:
        os.close(handle)


def _note(plan: Plan, told: Told, path: str, data: bytes) -> None:
    for name in plan.found(data):
        if name == plan.control:
            told.control = True
        else:
            told.reached.append(f"{name} in {path}")


def _there(path: str) -> bool:
    return _lstat(path) is not None


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _leads_to(path: str, shown: str) -> bool:
    return shown == path or shown.startswith(f"{path}/")


def _below(point: str, tops: dict[str, str]) -> str | None:
    return next((mode for top, mode in tops.items() if point.startswith(f"{top}/")), None)


def _makes(path: str) -> bool:
    def make() -> None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(handle, b"x")
        os.close(handle)

    return _works(make)


def _works(attempt: object) -> bool:
    assert callable(attempt)
    try:
        attempt()
    except OSError:
        return False
    return True
