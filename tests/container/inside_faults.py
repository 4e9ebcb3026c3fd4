"""Runs a command that a broken condition makes fail, and says which cause the appliance names from that.

    python inside_faults.py COMMAND…                 a bwrap; a command that prints a nonce is put behind it
    python inside_faults.py --codex NAME SCRATCH     Codex's sandbox in the jail of a review that lacks one thing
    python inside_faults.py --nested DEPTH COMMAND…  as the first, in that many user namespaces, one in another
    python inside_faults.py --mounts COMMAND…        as the first, beside as many mounts as the kernel gives (100,000)

Prints one JSON object: the fault as the self-test would report it, and `name_of` for the text alone with the facts.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from appliance import facts, jail, ladder, process
from appliance.core.faults import classify, name_of

NONCE = "nonce-inside"
SECONDS = 10.0


def without_tmp(line: list[str]) -> list[str]:
    at = line.index("/tmp", line.index("--tmpfs"))
    assert line[at - 3] == "--size", line
    return [*line[: at - 3], "--dir", "/tmp", *line[at + 1 :]]


def without_bwrap(line: list[str]) -> list[str]:
    at = line.index("--chdir") - 2  # before the root is made read-only
    assert line[at : at + 2] == ["--remount-ro", "/"], line
    hidden = ["--ro-bind", "/dev/null", "/usr/bin/bwrap", "--tmpfs", f"{jail.CODEX_PACKAGE}/codex-resources"]
    return [*line[:at], *hidden, *line[at:]]


def legacy(line: list[str]) -> list[str]:
    at = line.index("sandbox", line.index(jail.CODEX))
    return [*line[: at + 1], "-c", "features.use_legacy_landlock=true", *line[at + 1 :]]


CODEX: dict[str, Callable[[list[str]], list[str]]] = {
    "codex-no-tmp": without_tmp,
    "bwrap-missing": without_bwrap,
    "codex-landlock": legacy,
}


def codex(name: str, scratch: Path) -> process.Completed:
    with ladder.prepared(scratch) as probe:
        sandbox = [jail.CODEX, "sandbox", "-P", "reviewer", "-C", jail.CHECKOUT, "--", "/bin/echo", NONCE]
        return process.run(CODEX[name](probe.jailed(sandbox)), timeout=30)


def nest(depth: int) -> None:
    """Enter `depth` user namespaces, each in the one before."""
    libc, uid, gid = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    for _ in range(depth):
        if libc.unshare(0x10000000) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def fill_mounts() -> None:
    """Twice as many mounts each time, until the kernel's limit. Needs SYS_ADMIN, and gives it up afterwards."""
    libc = ctypes.CDLL(None, use_errno=True)
    bind_all, clear_ambient = 4096 | 16384, (47, 4)
    Path("/tmp/full").mkdir()
    if libc.mount(b"full", b"/tmp/full", b"tmpfs", 0, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    Path("/tmp/full/again").mkdir()
    while libc.mount(b"/tmp/full", b"/tmp/full/again", None, bind_all, None) == 0:
        pass
    libc.prctl(*clear_ambient, 0, 0, 0)


def main(given: Sequence[str]) -> None:
    before = facts.counters()
    if given[0] == "--codex":
        done = codex(given[1], Path(given[2]))
    else:
        if given[0] == "--nested":
            nest(int(given[1]))
            given = given[2:]
        if given[0] == "--mounts":
            fill_mounts()
            given = given[1:]
        done = process.run([*given, "--", "/bin/echo", NONCE], timeout=SECONDS, input=b"")  # without a /dev/null
    failed = ladder.unproven(done, NONCE)
    if failed is None:
        sys.exit(f"it works: {given}")
    read = {**facts.everything(), **facts.risen(before, facts.counters())}
    fault = classify("here", failed.symptom, failed.code, read)
    told = {"cause": fault.cause, "also": fault.also, "symptom": fault.symptom, "facts": dict(fault.facts)}
    print(json.dumps({**told, "name_of": name_of(failed.symptom, read)}))


if __name__ == "__main__":
    main(sys.argv[1:])
