"""One round of attacks: prints a line of JSON for each. In the jail it then starts the round in Codex's sandbox."""

import json
import os
import select
import socket
import sys
import time
from collections.abc import Mapping
from typing import Any

from appliance.attacks import files, kernel, net
from appliance.attacks.told import Attack, Plan, Told

ATTACKS: Mapping[str, Attack] = {
    "secrets": files.secrets,
    "environments": files.environments,
    "places": files.places,
    "mounts": files.mounts,
    "writing": files.writing,
    "kernel-files": files.kernel_files,
    "devices": files.devices,
    "descriptors": files.descriptors,
    "processes": kernel.processes,
    "namespaces": kernel.namespaces,
    "ptrace": kernel.ptrace,
    "mounting": kernel.mounting,
    "rights": kernel.rights,
    "keys": kernel.keys,
    "calls": kernel.calls,
    "unsharing": kernel.unsharing,
    "bounds": kernel.bounds,
    "tcp": net.tcp,
    "udp": net.udp,
    "names": net.names,
    "interfaces": net.interfaces,
    "unix": net.unix,
    "raw": net.raw,
    "fork-bomb": kernel.fork_bomb,
    "full-tmp": kernel.full_tmp,
}


def main(argv: list[str]) -> int:
    """`argv[0]` is the plan as JSON, with the names of its attacks; `inner`, if it has one, is the next round's."""
    given = json.loads(argv[0])
    inner = given.pop("inner", None)
    names = given.pop("attacks")
    plan = Plan.read(given)
    for name in names:
        begun = time.monotonic()
        try:
            told = ATTACKS[name](plan)
        except OSError as error:
            told = Told(note=f"{type(error).__name__}: {error}")
        _print(plan, name, told, time.monotonic() - begun)
    _print(plan, "end", Told(control=True, note=str(len(names))), 0.0)
    return _inner(inner) if inner else 0


def _print(plan: Plan, name: str, told: Told, seconds: float) -> None:
    line = {
        "nonce": plan.nonce,
        "where": plan.where,
        "attack": name,
        "control": told.control,
        "reached": told.reached[:20],
        "note": told.note,
        "seconds": seconds,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def _inner(inner: dict[str, Any]) -> int:
    """Plant what the sandbox must not reach, sockets in the jail's network and this process; then attack from there.

    Afterwards look what came, and what was left where the sandbox has something of its own.
    """
    plan = inner["plan"]
    around = plan["around"]
    with (
        socket.socket(socket.AF_INET) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        for one in (tcp, udp):
            one.bind(("127.0.0.1", 0))
        abstract.bind(f"\0around-{plan['nonce']}")
        for listener in (tcp, abstract):
            listener.listen()
        around["tcp"] += [["127.0.0.1", tcp.getsockname()[1]]]
        around["udp"] += [["127.0.0.1", udp.getsockname()[1]]]
        around["abstract"] += [f"around-{plan['nonce']}"]
        around["not_before"] = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
        around["namespaces"] = {name: os.readlink(f"/proc/self/ns/{name}") for name in around["namespaces"]}
        child = os.spawnv(os.P_WAIT, inner["command"][0], [*inner["command"], json.dumps(plan)])
        heard = [name for name, one in (("tcp", tcp), ("udp", udp), ("unix", abstract)) if _hears(one)]
        left = [place for place in around["looked_after"] if any(plan["nonce"] in name for name in os.listdir(place))]
        own = Plan.read({name: value for name, value in plan.items() if name != "attacks"})
        reached = [f"a listener in the jail ({name})" for name in heard]
        _print(own, "heard", Told(True, reached + [f"a new file in {place}" for place in left]), 0.0)
    return child


def _hears(one: socket.socket) -> bool:
    """Whether anybody came to a listener, or sent a datagram."""
    return bool(select.select([one], [], [], 0)[0])
