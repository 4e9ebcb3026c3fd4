"""Leaks made for real, and the battery let loose on each; run in the container with its Python.

    python inside_battery.py SCRATCH [NAME...]

SCRATCH is a directory below the state volume. Prints one JSON line for each leak, {"leak", "cause", "reached",
"problems", "missed"}: `missed` are the attacks that had to get through and did not. Uses no network and no model.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from appliance import battery, codex_config, jail, ladder, process

KEY = "sk-planted-key-that-nobody-may-ever-see"
AROUND = battery.Surroundings(Path("/var/lib/appliance"), Path("/run/appliance"), {"OPENAI_API_KEY": KEY})
Change = Callable[[list[str], ladder.Probe], list[str]]


@dataclass(frozen=True)
class Leak:
    """A hole in the jail (a change of bwrap's arguments) or in something else, and who has to find it."""

    found_by: Sequence[str]
    change: Change | None = None
    patches: Callable[[], Sequence[Any]] = tuple
    cause: str = "breach"
    slow: bool = False


def without(*options: str) -> Change:
    def change(argv: list[str], _: ladder.Probe) -> list[str]:
        assert all(option in argv for option in options)
        return [word for word in argv if word not in options]

    return change


def closing(argv: list[str]) -> int:
    """Where the jail's root is closed."""
    return max(at for at, word in enumerate(argv) if word == "--remount-ro" and argv[at + 1] == "/")


def left_out(at: Callable[[list[str]], int]) -> Change:
    """Without the option at that place and its one argument."""
    return lambda argv, _: [*argv[: at(argv)], *argv[at(argv) + 2 :]]


def more(*words: str) -> Change:
    """Mounted before the last of the jail's own, which closes its root."""

    def change(argv: list[str], probe: ladder.Probe) -> list[str]:
        at = closing(argv)
        return [*argv[:at], *(word.replace("PROBE", str(probe.tree.parent)) for word in words), *argv[at:]]

    return change


def writable(target: str) -> Change:
    def change(argv: list[str], _: ladder.Probe) -> list[str]:
        at = next(at for at, word in enumerate(argv) if word == "--ro-bind" and argv[at + 2] == target)
        return [*argv[:at], "--bind", *argv[at + 1 :]]

    return change


def both(*changes: Change) -> Change:
    def change(argv: list[str], probe: ladder.Probe) -> list[str]:
        for one in changes:
            argv = one(argv, probe)
        return argv

    return change


def profile(old: str, new: str) -> Callable[[], Sequence[Any]]:
    """Another configuration of Codex: its text with one part replaced."""
    real = codex_config.config

    def config(**given: Any) -> str:
        text = real(**given)
        assert old in text, text
        return text.replace(old, new)

    return lambda: [mock.patch.object(codex_config, "config", config)]


def environment_handed_on() -> Sequence[Any]:
    """Programs get the whole environment of the appliance."""
    real = process.run

    def run(argv: Sequence[str], **given: Any) -> process.Completed:
        return real(argv, **{**given, "env": {**os.environ, **(given["env"] or {})}})

    return [mock.patch.object(process, "run", run)]


def descriptor_handed_on() -> Sequence[Any]:
    """The state volume is open while the jail is started."""
    real = process.run

    def run(argv: Sequence[str], **given: Any) -> process.Completed:
        handle = os.open("/var/lib/appliance", os.O_RDONLY)
        try:
            return real(argv, **given, pass_fds=(handle,))
        finally:
            os.close(handle)

    return [mock.patch.object(process, "run", run)]


def key_in_codex_home() -> Sequence[Any]:
    real = codex_config.write_home

    def write_home(home: Path, **given: Any) -> None:
        real(home, **given)
        (home / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": KEY}))

    return [mock.patch.object(codex_config, "write_home", write_home)]


def sandbox_command(change: Callable[[list[str]], list[str]]) -> Callable[[], Sequence[Any]]:
    """Another command than the one that starts Codex's sandbox."""

    def patches() -> Sequence[Any]:
        real = json.dumps

        def dumps(value: Any, **given: Any) -> str:
            if isinstance(value, dict) and "inner" in value:
                value["inner"]["command"] = change(value["inner"]["command"])
            return real(value, **given)

        return [mock.patch.object(json, "dumps", dumps)]

    return patches


def hosts_file() -> Sequence[Any]:
    Path("/run/hosts").write_text("192.0.2.1 example.com\n")
    return []


def kernel_file() -> Sequence[Any]:
    Path("/run/pattern").write_text("core")
    return []


NO_NET = without("--unshare-net")
# Not ptrace: the container's own filter refuses it without a sandbox, too.
OF_THE_SANDBOX = (
    "sandbox/secrets", "sandbox/tcp", "sandbox/unix", "sandbox/namespaces", "sandbox/processes",
    "sandbox/environments", "sandbox/raw", "sandbox/listeners",
)  # fmt: skip
LEAKS: dict[str, Leak] = {
    "none": Leak((), cause=""),
    "the container's network": Leak(("jail/namespaces", "jail/tcp", "jail/unix", "jail/listeners"), NO_NET),
    "the container's processes": Leak(("jail/namespaces", "jail/processes"), without("--unshare-pid")),
    "the container's IPC": Leak(("jail/namespaces",), without("--unshare-ipc")),
    "the container's host name": Leak(("jail/namespaces",), without("--unshare-uts")),
    "an environment that is not cleared": Leak(("jail/environments",), without("--clearenv")),
    "the appliance's environment": Leak(("jail/environments",), patches=environment_handed_on),
    "an open descriptor": Leak(("jail/descriptors",), patches=descriptor_handed_on),
    "the whole root": Leak(("jail/mounts", "jail/secrets"), more("--ro-bind", "/", "/old")),
    "the state volume": Leak(("jail/mounts", "jail/secrets"), more("--ro-bind", "/var/lib/appliance", "/state")),
    "the state volume at its own place": Leak(
        ("jail/mounts", "jail/places"), more("--ro-bind", "/var/lib/appliance", "/var/lib/appliance")
    ),
    "another checkout": Leak(("jail/mounts", "jail/secrets"), more("--ro-bind", "PROBE/other-tree", "/other")),
    "the run directory": Leak(
        ("jail/mounts", "jail/places", "jail/secrets", "jail/unix"),
        more("--ro-bind", "/run/appliance", "/run/appliance"),
    ),
    "the container's /tmp": Leak(("jail/secrets",), more("--bind", "/tmp", "/tmp")),
    "all of /etc": Leak(("jail/mounts", "jail/places"), more("--ro-bind", "/etc", "/etc")),
    "a key in CODEX_HOME": Leak(("jail/secrets",), patches=key_in_codex_home),
    "a checkout that can be written": Leak(("jail/mounts", "jail/writing"), writable("/checkout")),
    "a .git that can be written": Leak(("jail/mounts", "jail/writing"), writable("/checkout/.git")),
    "a root that stays open": Leak(
        ("jail/mounts", "jail/writing"),
        left_out(closing),
    ),
    "a file of the kernel that can be written": Leak(
        ("jail/mounts", "jail/kernel-files"),
        more("--bind", "/run/pattern", "/proc/sys/kernel/core_pattern"),
        kernel_file,
    ),
    "names that can be asked for": Leak(
        ("jail/mounts", "jail/names", "jail/places"), more("--ro-bind", "/run/hosts", "/etc/hosts"), hosts_file
    ),
    "a capability": Leak(("jail/rights",), more("--cap-add", "CAP_SYS_ADMIN")),
    "another capability": Leak(("jail/rights",), more("--cap-add", "CAP_NET_RAW")),
    "any number of processes": Leak(
        ("jail/bounds", "jail/fork-bomb", "sandbox/bounds", "sandbox/fork-bomb"),
        patches=lambda: [mock.patch.object(jail, "BOUNDS", ("/usr/bin/env",))],
        slow=True,
    ),
    "a /tmp of any size": Leak(
        ("jail/bounds", "jail/full-tmp"), patches=lambda: [mock.patch.object(jail, "TMPFS_BYTES", 1 << 30)], slow=True
    ),
    "a CODEX_HOME of any size": Leak(
        ("jail/bounds", "jail/full-tmp"),
        patches=lambda: [mock.patch.object(jail, "CODEX_HOME_BYTES", 1 << 30)],
        slow=True,
    ),
    "a config.toml that can be written": Leak(("jail/mounts", "jail/writing"), writable("/codex-home/config.toml")),
    "a /dev that can be filled": Leak(("jail/mounts",), left_out(lambda argv: argv.index("--remount-ro"))),
    "CODEX_HOME in the sandbox": Leak(
        ("sandbox/secrets",), patches=profile('":minimal" = "read"', '":minimal" = "read"\n"/codex-home" = "read"')
    ),
    "a sandbox that writes": Leak(
        ("sandbox/writing",),
        writable("/checkout"),
        profile('"." = "read"', '"." = "write"'),
    ),
    "a sandbox that writes CODEX_HOME": Leak(
        ("sandbox/listeners",),
        patches=profile('":minimal" = "read"', '":minimal" = "read"\n"/codex-home" = "write"'),
    ),
    "a sandbox with a network": Leak(
        ("sandbox/tcp", "sandbox/raw", "sandbox/namespaces", "sandbox/listeners"),
        patches=profile('network]\n"enabled" = false', 'network]\n"enabled" = true'),
    ),
    "no sandbox": Leak(OF_THE_SANDBOX, patches=sandbox_command(lambda line: line[line.index("--") + 1 :])),
    "a /tmp that cannot be written": Leak(("jail/writing",), more("--remount-ro", "/tmp"), cause="battery-failed"),
    "no Python": Leak(
        ("jail/secrets", "sandbox/secrets"),
        more("--ro-bind", "/dev/null", "/usr/bin/python3.13"),
        cause="battery-failed",
    ),
    "no Codex": Leak(
        ("sandbox/secrets",),
        patches=sandbox_command(lambda line: ["/opt/codex/bin/no-such-program", *line[1:]]),
        cause="battery-failed",
    ),
}


@contextmanager
def made(leak: Leak) -> Iterator[None]:
    with ExitStack() as stack:
        if leak.change is not None:
            change, real = leak.change, ladder.Probe.jailed
            stack.enter_context(
                mock.patch.object(ladder.Probe, "jailed", lambda probe, command: _changed(change, real, probe, command))
            )
        for patch in leak.patches():
            stack.enter_context(patch)
        yield


def _changed(change: Change, real: Any, probe: ladder.Probe, command: list[str]) -> list[str]:
    argv: list[str] = real(probe, command)
    end = len(argv) - len(command)
    return [*change(argv[:end], probe), *command]


def main(scratch: Path, names: Sequence[str]) -> int:
    AROUND.run.mkdir(exist_ok=True)
    for name in names or LEAKS:
        leak = LEAKS[name]
        with made(leak), ladder.prepared(scratch) as probe:
            trials, fault = battery.attack(probe, AROUND, slow=leak.slow)
        ok = {trial.name for trial in trials if trial.ok}
        told = json.dumps(
            {
                "leak": name,
                "cause": fault.cause if fault else "",
                "expected": leak.cause,
                "sentence": fault.sentence if fault else "",
                "missed": [one for one in leak.found_by if one in ok],
                "failed": {trial.name: [*trial.reached, trial.problem] for trial in trials if not trial.ok},
                "symptom": fault.symptom if fault else "",
            }
        )
        assert KEY not in told, "a secret was printed"
        print(told, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
