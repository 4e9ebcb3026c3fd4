"""The battery: attacks in the review's own jail, and in Codex's sandbox in it, with something to find if they get out.

What is planted outside for the time of it: canaries in the environment of this process, in a file of the state volume,
in another checkout, in the run directory and in /tmp, and listeners in the container's own network. The attackers
(`appliance.attacks`) come where a pull request's program would: from the checkout. `core.battery` judges.
"""

import json
import os
import secrets
import select
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from appliance import codex_config, jail, ladder, process
from appliance.attacks.told import digest
from appliance.core import battery as core
from appliance.core.battery import Trial
from appliance.core.faults import Fault

SECONDS = 60.0  # cold, on a busy machine; it takes one when warm
MIN_SECRET = 8  # characters; a shorter one would be found in any text
CANARY = "APPLIANCE_BATTERY_CANARY"  # in the environment of this process
HANDED = "APPLIANCE_BATTERY_HANDED"  # in that of bwrap, which clears it
PYTHON = ("/usr/bin/python3", "-I", "-S", "-B", "-c")
START = (
    "import sys; sys.path.insert(0, '/checkout'); from appliance.attacks.run import main; sys.exit(main(sys.argv[1:]))"
)
NAMESPACES = ("user", "pid", "ipc", "uts", "net", "mnt")
OF_THE_SANDBOX = ("user", "pid", "net", "mnt")  # what Codex gives a sandbox of its own

# Said here once more, and not taken from the jail's own list: what the two do not agree on is a breach.
ENVIRONMENT = {"PATH", "HOME", "CODEX_HOME", "TMPDIR", "LANG", "GATE_TOKEN", "PWD"}
ENVIRONMENT_OF_THE_SANDBOX = {"PATH", "HOME", "LANG", "PWD", "CODEX_SANDBOX_NETWORK_DISABLED", "CODEX_SANDBOX"}
SYSTEM_MOUNTS = {"/": "ro", "/usr": "ro", "/proc": "rw", "/dev": "ro", "/tmp": "rw", jail.HOME: "rw"}
ETC = ("ld.so.cache", "passwd", "group", "nsswitch.conf", "localtime", "alternatives")
PROCESSES = 384
SIZES = dict.fromkeys(("/tmp", "/dev/shm", jail.HOME), 256 * 1024 * 1024) | {jail.CODEX_HOME: 64 * 1024 * 1024}
OF_CODEX_HOME = ("config.toml", "schema.json", "battery")
READ_ONLY = ("/usr", "/usr/bin", "/etc", "/opt/codex", "/checkout", "/checkout/.git")
KEPT = ("/checkout/battery", "/checkout/.git/HEAD", "/checkout/.git/config", "/usr/bin/git", "/opt/codex/bin/codex")


@dataclass(frozen=True)
class Surroundings:
    """What must not be reached: the state volume, the run directory, and secrets by their names."""

    state: Path
    run: Path
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Planted:
    """What lies outside for the time of one battery: canaries by name, and listeners."""

    canaries: Mapping[str, str]
    tcp: tuple[socket.socket, ...]
    udp: tuple[socket.socket, ...]
    abstract: socket.socket
    path: socket.socket
    gate: socket.socket

    def heard(self) -> list[tuple[str, str]]:
        """Who came to a listener, as (round, where to). Only the jail could: the sandbox is inside of it."""
        outside = (*self.tcp, *self.udp, self.abstract, self.path)
        found = [("jail", f"a listener outside ({one.getsockname()!r})") for one in outside if _came(one)]
        at_the_gate = 0
        while _came(self.gate):
            self.gate.accept()[0].close()
            at_the_gate += 1
        if at_the_gate > 1:  # the jail's own control is one
            found.append(("sandbox", "the model gate"))
        return found


def attack(probe: ladder.Probe, around: Surroundings, *, slow: bool = False) -> tuple[tuple[Trial, ...], Fault | None]:
    """Run the battery in the jail of `probe`: its trials, and the fault that they show.

    Takes about half a second. `slow`: also what takes processes and memory for a moment. Raises OSError if what it
    needs cannot be planted, or no program be started.
    """
    made = core.attacks(slow=slow)
    nonces = {where: secrets.token_hex(16) for where in made}
    with _planted(probe, around) as planted:
        plan = _plan(probe, around, planted, nonces, made)
        command = jail.with_relay([*PYTHON, START, json.dumps(plan)])
        env = {"PATH": jail.PATH, "LANG": "C.UTF-8", HANDED: "what bwrap was started with"}
        done = process.run(probe.jailed(command), timeout=SECONDS, env=env)
        heard = planted.heard() + _left(probe, nonces)
    trials = core.judge(done.out, nonces, heard, -1 if done.timed_out else done.code, made)
    said = f"it did not end within {SECONDS:.0f} s\n{done.err}" if done.timed_out else done.err
    fault = core.fault_of(trials, said)
    return trials, fault and _without(fault, around.secrets)


def secrets_of_login(path: Path) -> dict[str, str]:
    """The tokens in a ChatGPT login, by name; none if there is no login."""
    try:
        tokens = json.loads(_text(path)).get("tokens")
    except (ValueError, AttributeError):
        return {}
    found = tokens.items() if isinstance(tokens, dict) else ()
    return {f"the ChatGPT login's {name}": value for name, value in found if isinstance(value, str) and value.isascii()}


def _plan(
    probe: ladder.Probe,
    around: Surroundings,
    planted: Planted,
    nonces: Mapping[str, str],
    made: Mapping[str, tuple[str, ...]],
) -> dict[str, object]:
    """Both rounds, the sandbox's within the jail's, whose attacker starts it."""
    salt = secrets.token_hex(8)
    outside = {name: planted.canaries[name] for name in planted.canaries if name not in ("home", "checkout")}
    outside |= {name: value for name, value in around.secrets.items() if len(value) >= MIN_SECRET}
    control = {"the control": planted.canaries["checkout"]}
    of_the_jail = {"a file of CODEX_HOME": planted.canaries["home"], "the jail's command line": nonces["jail"]}

    def needles(found: Mapping[str, str]) -> list[list[object]]:
        return [[name, len(value), digest(salt, value.encode())] for name, value in found.items()]

    def plan(where: str, found: Mapping[str, str], told: Mapping[str, object]) -> dict[str, object]:
        return {
            "where": where,
            "nonce": nonces[where],
            "salt": salt,
            "needles": needles({**found, **control}),
            "control": "the control",
            "around": {**_both(probe, around), **told},
            "attacks": made[where],
        }

    sandbox = plan("sandbox", {**outside, **of_the_jail}, _of_the_sandbox(probe))
    return {
        **plan("jail", outside, _of_the_jail(probe, planted)),
        "inner": {
            "command": [jail.CODEX, "sandbox", "-P", codex_config.PROFILE, "-C", jail.CHECKOUT, "--", *PYTHON, START],
            "plan": sandbox,
        },
    }


def _both(probe: ladder.Probe, around: Surroundings) -> dict[str, object]:
    return {
        "state": str(around.state),
        "shown": [str(probe.objects)],
        "hidden": [str(around.run), *(str(around.state / name) for name in ("appliance.db", "signing.key", "login"))],
        "addresses": _addresses(),
        "nameservers": _nameservers(),
        "processes": PROCESSES,
        "locked": ["/", "/usr", "/checkout", "/checkout/.git", "/proc"],
    }


def _of_the_jail(probe: ladder.Probe, planted: Planted) -> dict[str, object]:
    mounts = {**SYSTEM_MOUNTS, **{f"/etc/{name}": "ro" for name in ETC}, str(probe.objects): "ro"}
    mounts |= {"/checkout": "ro", "/checkout/.git": "ro", "/opt/codex": "ro", jail.GATE_SOCKET: "ro"}
    mounts |= {jail.DATABASES: "ro", jail.CODEX_HOME: "rw"}
    mounts |= {f"{jail.CODEX_HOME}/{name}": "ro" for name in OF_CODEX_HOME}
    return {
        "environment": sorted(ENVIRONMENT | jail.GIT_ENV.keys()),
        "mounts": mounts,
        "below": {"/usr": "ro", "/dev": "rw"},
        "read_only": [*READ_ONLY, "/", "/opt", "/run", "/var", "/home", str(probe.objects)],
        "looked_after": [],
        "kept": [*KEPT, "/etc/passwd", f"{jail.CODEX_HOME}/{codex_config.CONFIG}"],
        "writable": "/tmp",
        "sized": SIZES,
        "namespaces": {name: str(Path(f"/proc/self/ns/{name}").readlink()) for name in NAMESPACES},
        "not_before": int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")),
        "tcp": [one.getsockname()[:2] for one in planted.tcp],
        "udp": [one.getsockname()[:2] for one in planted.udp],
        "abstract": [planted.abstract.getsockname()[1:].decode()],
        "sockets": [planted.path.getsockname()],
        "allowed_socket": jail.GATE_SOCKET,
        "unix_only": False,
        "asks_names": True,
    }


def _of_the_sandbox(probe: ladder.Probe) -> dict[str, object]:
    """What lies in the jail around the sandbox; its listeners are added by the jail's attacker, which plants them."""
    return {
        "environment": sorted(ENVIRONMENT_OF_THE_SANDBOX | jail.GIT_ENV.keys()),
        "mounts": {},
        "below": {},
        "read_only": [*READ_ONLY, str(probe.objects)],
        "looked_after": [jail.CODEX_HOME],
        "kept": [*KEPT, f"{jail.CODEX_HOME}/{codex_config.CONFIG}"],
        "writable": "/dev/shm",
        "sized": {},  # Codex gives its own no size; what is in them is watched (bounds.py)
        "namespaces": dict.fromkeys(OF_THE_SANDBOX, ""),
        "not_before": 0,
        "tcp": [["127.0.0.1", jail.RELAY_PORT]],
        "udp": [],
        "abstract": [],
        "sockets": [jail.GATE_SOCKET],
        "allowed_socket": "",
        "unix_only": True,
        "asks_names": True,
    }


@contextmanager
def _planted(probe: ladder.Probe, around: Surroundings) -> Iterator[Planted]:
    """Plant the canaries and listeners, and the attackers in the checkout; all but the last is taken away again."""
    canaries = {
        "the environment of the appliance": secrets.token_hex(16),
        "a file of the state volume": secrets.token_hex(16),
        "another checkout": secrets.token_hex(16),
        "a file of the run directory": secrets.token_hex(16),
        "a file of the container's /tmp": secrets.token_hex(16),
        "home": secrets.token_hex(16),
        "checkout": secrets.token_hex(16),
    }
    shutil.copytree(Path(__file__).parent / "attacks", probe.tree / "appliance" / "attacks")
    (probe.tree / "appliance" / "__init__.py").touch()
    (probe.tree / "battery").write_text(canaries["checkout"])
    (probe.home / "battery").write_text(canaries["home"])
    beside = probe.tree.parent
    (beside / "canary").write_text(canaries["a file of the state volume"])
    (beside / "other-tree").mkdir()
    (beside / "other-tree" / "file").write_text(canaries["another checkout"])
    with ExitStack() as stack:
        around.run.mkdir(parents=True, exist_ok=True)  # `serve` makes it; a command may come without
        run = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="battery-", dir=around.run)))
        (run / "canary").write_text(canaries["a file of the run directory"])
        passing = stack.enter_context(tempfile.NamedTemporaryFile("w", prefix="battery-"))
        passing.write(canaries["a file of the container's /tmp"])
        passing.flush()
        os.environ[CANARY] = canaries["the environment of the appliance"]
        stack.callback(os.environ.pop, CANARY, None)

        def listens(family: int, kind: int, address: tuple[str, int] | str) -> socket.socket:
            one = stack.enter_context(socket.socket(family, kind))
            one.bind(address)
            if kind == socket.SOCK_STREAM:
                one.listen(16)
            one.setblocking(False)
            return one

        probe.gate.unlink(missing_ok=True)
        families = ((socket.AF_INET, "127.0.0.1"), *(((socket.AF_INET6, "::1"),) if _has_ipv6() else ()))
        yield Planted(
            canaries,
            tuple(listens(family, socket.SOCK_STREAM, (host, 0)) for family, host in families),
            tuple(listens(family, socket.SOCK_DGRAM, (host, 0)) for family, host in families),
            listens(socket.AF_UNIX, socket.SOCK_STREAM, f"\0battery-{secrets.token_hex(8)}"),
            listens(socket.AF_UNIX, socket.SOCK_STREAM, str(run / "socket")),
            listens(socket.AF_UNIX, socket.SOCK_STREAM, str(probe.gate)),
        )


def _left(probe: ladder.Probe, nonces: Mapping[str, str]) -> list[tuple[str, str]]:
    """What an attack left where it may not write, whatever it told. At CODEX_HOME the jail itself looks."""
    kept = {"/checkout": probe.tree, "/checkout/.git": probe.git_dir, "the objects": probe.objects}
    found = []
    for where, nonce in nonces.items():
        for name, path in kept.items():
            if any(nonce in one.name for one in path.iterdir()):
                found.append((where, f"a new file in {name}"))
    return found


def _came(one: socket.socket) -> bool:
    return bool(select.select([one], [], [], 0)[0])


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


def _addresses() -> list[list[object]]:
    """The engine's bridge (the gateway), and what the container is called there itself, with ports to try."""
    found: list[list[object]] = []
    for line in _text(Path("/proc/net/route")).splitlines()[1:]:
        gateway = line.split()[2]
        if gateway != "00000000":
            host = socket.inet_ntoa(bytes.fromhex(gateway)[::-1])
            found += [[host, port] for port in (22, 53, 80, 2375)]
    return found


def _nameservers() -> list[str]:
    lines = (line.split() for line in _text(Path("/etc/resolv.conf")).splitlines())
    return [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _without(fault: Fault, hidden: Mapping[str, str]) -> Fault:
    """The fault with no secret in its words, should a path contain one."""

    def clean(text: str) -> str:
        for name, value in hidden.items():
            text = text.replace(value, f"({name})") if len(value) >= MIN_SECRET else text
        return text

    return replace(fault, sentence=clean(fault.sentence), symptom=clean(fault.symptom))
