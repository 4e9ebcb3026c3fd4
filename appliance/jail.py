"""The jail: our outer bwrap. One frozen policy becomes one argv.

What is inside: the system's programs read-only, the checkout read-only, a tmpfs with a size for each place that can be
written (CODEX_HOME, home, /tmp), a fresh /proc and /dev, and nothing else: no network, no token, no key, no other pull
request. Nothing of the container can be written: what fills up is the jail's own, and goes with it.

Three things are left out on purpose (all measured): `--disable-userns` and a bound /proc keep Codex's own sandbox from
starting, and `--hostname` needs a system call that the container's seccomp profile blocks.
"""

import contextlib
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = "/checkout"
CODEX_HOME = "/codex-home"
CODEX_PACKAGE = "/opt/codex"
CODEX = f"{CODEX_PACKAGE}/bin/codex"
DATABASES = "/opt/codex-databases"
GATE_SOCKET = "/run/gate.sock"
HOME = "/home/reviewer"
PATH = "/usr/bin:/bin"  # has the system's bwrap: Codex prefers it to its bundled one, which no AppArmor profile covers

RELAY_PORT = 8377
RELAY_TIMED_OUT = 97  # exit code of `with_relay` when the relay never came to listen

TMPFS_BYTES = 256 * 1024 * 1024
CODEX_HOME_BYTES = 64 * 1024 * 1024  # measured: 3 MB at the start of a review, and no more after 50 commands
# Codex's own databases, empty, as the image was built with them (docker/Dockerfile). A home without them gets them from
# Codex, by some seventy migrations: 40 of the 260 ms of CPU that a review of the rehearsal takes.
MADE_DATABASES = Path(sys.prefix, "share", "codex-home")
PROCESSES = 384  # and threads, at once; a review takes some 60, and the container has 1024 for two and itself

_SYMLINKS = (("usr/bin", "/bin"), ("usr/lib", "/lib"), ("usr/lib64", "/lib64"), ("usr/sbin", "/sbin"))
# No shadow, no hosts, no resolv.conf: names of users, the linker's cache, and Debian's alternatives (awk, pager).
_ETC = ("ld.so.cache", "passwd", "group", "nsswitch.conf", "localtime", "alternatives")

# Git on foreign content: nobody's configuration, no hooks, no helper programs, no prompts, no locks in a read-only
# directory. Of use for the jail and, through Codex's configuration, for every command of the model.
GIT_ENV: Mapping[str, str] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_COUNT": "5",
    "GIT_CONFIG_KEY_0": "core.hooksPath",
    "GIT_CONFIG_VALUE_0": "/dev/null",
    "GIT_CONFIG_KEY_1": "core.fsmonitor",
    "GIT_CONFIG_VALUE_1": "false",
    "GIT_CONFIG_KEY_2": "safe.directory",
    "GIT_CONFIG_VALUE_2": CHECKOUT,
    "GIT_CONFIG_KEY_3": "credential.helper",
    "GIT_CONFIG_VALUE_3": "",
    "GIT_CONFIG_KEY_4": "protocol.allow",
    "GIT_CONFIG_VALUE_4": "never",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
}


@dataclass(frozen=True)
class Bind:
    """`source` outside is seen as `target` inside, read-only."""

    source: Path
    target: str


@dataclass(frozen=True)
class JailPolicy:
    """What one jail shows beside the system: binds in mount order, the whole environment, the working directory."""

    binds: tuple[Bind, ...]
    env: Mapping[str, str]
    workdir: str


def codex_package() -> Path:
    """The directory of Codex's package, kept together: its bundled programs are found relative to the binary.

    Raises FileNotFoundError if Codex is not installed or cannot be executed.
    """
    try:
        from codex_cli_bin import bundled_package_dir  # its absence is a fault, not a traceback
    except ImportError as error:
        raise FileNotFoundError("the package openai-codex-cli-bin is not installed") from error
    package = Path(bundled_package_dir())
    binary = package / "bin" / "codex"
    if not os.access(binary, os.X_OK):
        raise FileNotFoundError(f"{binary} is missing or cannot be executed")
    return package


def review_policy(
    *, tree: Path, git_dir: Path, objects: Path | None, codex_home: Path, gate_socket: Path | None
) -> JailPolicy:
    """The jail of one review.

    `tree` is the checkout and `git_dir` its git directory; `objects` is the object directory that the checkout's
    alternates name, shown at its own absolute path; `codex_home` is written by `codex_config.write_home`: its files
    lie read-only in the jail's own CODEX_HOME, and what Codex adds to that is gone with the jail; `gate_socket` is the
    model gate's Unix socket. Makes the mount point `.git` in `tree` if it is not there. Raises FileNotFoundError
    without Codex or `codex_home`, and ValueError if `tree/.git` is anything but a directory.
    """
    _mount_point(tree / ".git")
    binds = [
        Bind(codex_package(), CODEX_PACKAGE),
        Bind(tree, CHECKOUT),
        Bind(git_dir, f"{CHECKOUT}/.git"),
        *(Bind(file, f"{CODEX_HOME}/{file.name}") for file in sorted(codex_home.iterdir())),
    ]
    if MADE_DATABASES.is_dir():
        binds.append(Bind(MADE_DATABASES, DATABASES))
    if objects is not None:
        binds.append(Bind(objects, str(objects)))
    if gate_socket is not None:
        binds.append(Bind(gate_socket, GATE_SOCKET))
    env = {
        "PATH": PATH,
        "HOME": HOME,
        "CODEX_HOME": CODEX_HOME,
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "GATE_TOKEN": "added-by-the-gate",  # Codex wants its env_key set; the key itself is never in the jail
        **GIT_ENV,
    }
    return JailPolicy(tuple(binds), env, CHECKOUT)


def argv(policy: JailPolicy, command: Sequence[str]) -> list[str]:
    """The bwrap command line that runs `command` (absolute or on PATH) in the jail of `policy`."""
    line = ["bwrap", *ISOLATION, "--clearenv"]
    for name, value in policy.env.items():
        line += ["--setenv", name, value]
    line += ["--ro-bind", "/usr", "/usr"]
    for target, link in _SYMLINKS:
        line += ["--symlink", target, link]
    for name in _ETC:
        line += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    line += ["--proc", "/proc", "--dev", "/dev"]
    for directory in ("/tmp", HOME, "/dev/shm"):
        line += ["--size", str(TMPFS_BYTES), "--tmpfs", directory]
    line += ["--size", str(CODEX_HOME_BYTES), "--tmpfs", CODEX_HOME]
    line += ["--remount-ro", "/dev"]  # a tmpfs without a size
    for bind in policy.binds:
        line += ["--ro-bind", str(bind.source), bind.target]
    return [*line, "--remount-ro", "/", "--chdir", policy.workdir, "--", *BOUNDS, *command]


ISOLATION = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-net",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",
)

# Before the command, in the jail: only there does the kernel count the processes of this jail alone. A lower limit of
# the container's stays. Who may not even set the limit does not run.
_BOUNDS = """
now=$(ulimit -p)
if [ "$now" = unlimited ] || [ "$now" -gt {processes} ]; then ulimit -p {processes} || exit {code}; fi
echo 1000 2>/dev/null >/proc/self/oom_score_adj
exec "$@"
"""
UNBOUNDED = 96  # exit code of a jail whose processes could not be bounded
BOUNDS = ("/bin/sh", "-c", _BOUNDS.format(processes=PROCESSES, code=UNBOUNDED).strip(), "bounds")

# The wait asks how many TCP sockets the jail's network has: none can be but the relay's, which counts once it listens.
# So no probe connection, which the gate would have to answer, and no /proc/net/tcp, for which the kernel walks the hash
# table of the whole machine (3.5 ms of CPU each time where it has 24 GB).
_RELAY = """
/usr/bin/socat TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr UNIX-CONNECT:{socket} </dev/null >/dev/null &
/usr/bin/cp {databases}/*.sqlite {home}/ 2>/dev/null
tries=0
listening() {{ while read -r line; do case $line in 'TCP: inuse '[1-9]*) return 0;; esac; done; return 1; }}
until listening </proc/net/sockstat; do
  tries=$((tries+1))
  if [ $tries -gt 1500 ] || ! kill -0 $! 2>/dev/null; then echo 'relay: socat does not listen' >&2; exit {code}; fi
  sleep 0.002
done
exec "$@"
"""


def with_relay(command: Sequence[str]) -> list[str]:
    """`command` beside a relay from 127.0.0.1:RELAY_PORT to the gate's socket; it keeps its standard input.

    While the relay starts, CODEX_HOME gets the databases that the image has for it.

    Exits with RELAY_TIMED_OUT, without running `command`, if the relay does not listen within 5 seconds.
    """
    script = _RELAY.format(
        port=RELAY_PORT, socket=GATE_SOCKET, code=RELAY_TIMED_OUT, databases=DATABASES, home=CODEX_HOME
    )
    return ["/bin/sh", "-c", script.strip(), "relay", *command]


def _mount_point(path: Path) -> None:
    """Make the directory on which the git directory is mounted; git itself never touches a `.git` in a tree."""
    with contextlib.suppress(FileExistsError):
        path.mkdir()
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise ValueError(f"{path} is not a directory, so the git directory cannot be mounted there")
