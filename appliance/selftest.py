"""The self-test: the sandbox is tried out, nested as a review nests it, before a pull request can suffer from it.

A ladder that follows bwrap's own steps: the first rung that fails names the layer. An exit code is no proof (Codex goes
on without a fresh /proc and exits 0), so every rung prints a nonce, and the upper ones are judged by effects: which
processes are visible, what can be written, who can be reached.
"""

import errno
import os
import secrets
import shutil
import socket
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path

from appliance import codex_config, facts, jail, process
from appliance.core.faults import Fault, classify, named

RUNG_SECONDS = 15.0
CODEX_SECONDS = 60.0  # cold, from a slow disk, it takes a second or two
OLDEST_BWRAP = (0, 9)

_PROGRAMS = (("bwrap", "bwrap-missing"), ("socat", "socat-missing"), ("git", "git-missing"))


@dataclass(frozen=True)
class Step:
    """One rung: its name, whether it held, and how long it took in seconds."""

    name: str
    ok: bool
    seconds: float


@dataclass(frozen=True)
class Report:
    """What the self-test found; `fault` is the first failing step's, None if all held."""

    ok: bool
    seconds: float
    steps: tuple[Step, ...]
    fault: Fault | None

    def to_json(self) -> dict[str, object]:
        """As `appliance selftest --json` prints it (a contract: add, never rename)."""
        fault = self.fault and {
            "cause": self.fault.cause,
            "sentence": self.fault.sentence,
            "remedy": self.fault.remedy,
            "symptom": self.fault.symptom,
            "facts": dict(self.fault.facts),
        }
        steps = [{"name": step.name, "ok": step.ok, "seconds": round(step.seconds, 4)} for step in self.steps]
        return {"ok": self.ok, "seconds": round(self.seconds, 4), "steps": steps, "fault": fault}


def selftest(scratch: Path) -> Report:
    """Climb the whole ladder. `scratch` is a directory of this appliance's own, below the state volume.

    Takes about 0.2 s; leaves nothing behind. Never raises for a fault of the machine: that is what it returns.
    """
    return _climb(scratch, (_rung_user, _rung_proc, _rung_net, _rung_dev, *_REVIEW))


def nested_probe(scratch: Path) -> Fault | None:
    """Only the rungs in a review's own jail: after a failed run, was it the sandbox? None if it holds."""
    return _climb(scratch, _REVIEW).fault


@dataclass(frozen=True)
class Probe:
    """What one climb uses: its own directories, a nonce that nothing else prints, and what was learnt on the way."""

    tree: Path
    git_dir: Path
    objects: Path
    home: Path
    gate: Path
    nonce: str
    learnt: dict[str, object] = field(default_factory=dict)

    def policy(self) -> jail.JailPolicy:
        return jail.review_policy(
            tree=self.tree, git_dir=self.git_dir, objects=self.objects, codex_home=self.home, gate_socket=self.gate
        )


@dataclass(frozen=True)
class Failed:
    """A rung that did not hold: the raw text, and the exit code (None: it never ran)."""

    symptom: str
    code: int | None


Rung = Callable[[Probe], Failed | None]


def _climb(scratch: Path, rungs: Sequence[Rung]) -> Report:
    started = time.monotonic()
    steps: list[Step] = []

    def report(fault: Fault | None) -> Report:
        return Report(fault is None, time.monotonic() - started, tuple(steps), fault)

    fault = _preconditions()
    steps.append(Step("programs", fault is None, time.monotonic() - started))
    if fault is not None:
        return report(fault)
    denied = facts.pids_denied()
    try:
        with _probe(scratch) as probe:
            for rung in rungs:
                name = rung.__name__.removeprefix("_rung_").replace("_", "-")
                begun = time.monotonic()
                failed = _try(rung, probe)
                steps.append(Step(name, failed is None, time.monotonic() - begun))
                if failed is not None:
                    return report(classify(name, failed.symptom, failed.code, _facts(probe.learnt, denied)))
    except OSError as error:
        steps.append(Step("scratch", False, time.monotonic() - started))
        return report(classify("scratch", f"cannot prepare the self-test in {scratch}: {error}", None, facts.read()))
    return report(None)


def _try(rung: Rung, probe: Probe) -> Failed | None:
    try:
        return rung(probe)
    except (OSError, RuntimeError) as error:  # no process, or (RuntimeError) no thread left for it
        code = f" ({os.strerror(error.errno)})" if isinstance(error, OSError) and error.errno == errno.EAGAIN else ""
        return Failed(f"{type(error).__name__}: {error}{code}", None)


def _facts(learnt: Mapping[str, object], denied_before: int | None) -> dict[str, object]:
    found = {**facts.read(), **facts.versions(), **facts.calls(), **learnt}
    denied = facts.pids_denied()
    if denied is not None and denied_before is not None:
        found["pids_denied"] = denied - denied_before
    return found


def _preconditions() -> Fault | None:
    """What makes every rung senseless: root, or a program that is not there."""
    if os.getuid() == 0:
        return named("root-user", "uid 0", {**facts.read(), "detail": _root_detail()})
    for program, cause in _PROGRAMS:
        if shutil.which(program, path=jail.PATH) is None:
            return named(cause, f"{program} is not on {jail.PATH}", facts.read())
    try:
        jail.codex_package()
    except FileNotFoundError as error:
        return named("codex-missing", str(error), facts.read())
    version = facts.bwrap_version()
    if version is not None and tuple(int(part) for part in version.split(".")) < OLDEST_BWRAP:
        return named("bwrap-too-old", f"bubblewrap {version}", {**facts.read(), "bwrap_version": version})
    return None


def _root_detail() -> str:
    """Why a bwrap of root would fail here: without SYS_ADMIN (bit 21) it makes no user namespace of its own accord,
    and without SETFCAP (bit 31) the kernel refuses its uid map."""
    bounding = int(str(facts.read().get("cap_bnd", "0")), 16)
    if not bounding >> 21 & 1:
        return "root-without-userns"
    return "root-with-sys-admin" if bounding >> 31 & 1 else "root-without-setfcap"


# Rungs. Up to `dev` they stand in the container itself: what the jail needs, one layer more each time, so that the
# network's misleading text (its errno is stale) comes after the user namespace has been seen to work.


def _bare(probe: Probe, *options: str) -> Failed | None:
    line = ["bwrap", "--die-with-parent", "--unshare-user", "--ro-bind", "/", "/", *options]
    done = process.run([*line, "--", "/bin/sh", "-c", f"echo {probe.nonce}"], timeout=RUNG_SECONDS)
    return _unproven(done, probe.nonce)


def _rung_user(probe: Probe) -> Failed | None:
    return _bare(probe)


def _rung_proc(probe: Probe) -> Failed | None:
    return _bare(probe, "--unshare-pid", "--proc", "/proc")


def _rung_net(probe: Probe) -> Failed | None:
    return _bare(probe, "--unshare-pid", "--proc", "/proc", "--unshare-net")


def _rung_dev(probe: Probe) -> Failed | None:
    return _bare(probe, "--unshare-pid", "--proc", "/proc", "--unshare-net", "--dev", "/dev")


# What a command sees. Only what the shell itself can do, but for one readlink. `$$` is the pid of our own namespace;
# /proc/self/stat begins with the pid that the mounted /proc knows us by: they differ when it is another namespace's.
_LOOK = """
label=; read -r label </proc/self/attr/current
echo "label ${label}"
read -r pid rest </proc/self/stat
echo "pid $pid $$"
set -- /proc/[0-9]*; echo "visible $#"
echo "net $(readlink /proc/self/ns/net)"
for place in /checkout /codex-home /tmp; do true 2>/dev/null >$place/NONCE && echo "wrote $place"; done
[ -r /codex-home/config.toml ] && echo "reads /codex-home"
echo NONCE
"""
_CONNECT = f"bash -c ': </dev/tcp/127.0.0.1/{jail.RELAY_PORT}' 2>/dev/null"


def _rung_jail(probe: Probe) -> Failed | None:
    """The jail of a review: its own argv, its own environment."""
    done = process.run(jail.argv(probe.policy(), _look(probe.nonce)), timeout=RUNG_SECONDS)
    failed = _unproven(done, probe.nonce)
    if failed is not None:
        return failed
    seen = _seen(done.out)
    probe.learnt["jail_label"] = " ".join(seen.get("label", [])) or facts.ABSENT
    probe.learnt["jail_net"] = seen["net"][0]
    wrote = _lines(done.out, "wrote")
    if not (probe.home / probe.nonce).exists() or "/tmp" not in wrote:
        return Failed("Can't create file at /codex-home or /tmp in the jail", done.code)
    (probe.home / probe.nonce).unlink()
    if "/checkout" in wrote:
        return Failed("the jail let a command write to the checkout", done.code)
    if seen["net"][0] == str(Path("/proc/self/ns/net").readlink()):
        return Failed("the jail let a command share the container's network", done.code)
    return _stale_proc(seen, done, "the jail kept the /proc of the container")


def _rung_nested(probe: Probe) -> Failed | None:
    """A bwrap inside the jail, with what Codex asks of it: the rung that an AppArmor profile breaks alone."""
    inner = ("--new-session", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-user")
    more = ("--unshare-pid", "--unshare-ipc", "--unshare-net", "--proc", "/proc", "--cap-drop", "ALL")
    line = ["bwrap", *inner, *more, "--", *_look(probe.nonce)]
    done = process.run(jail.argv(probe.policy(), line), timeout=RUNG_SECONDS)
    failed = _unproven(done, probe.nonce)
    return failed or _stale_proc(_seen(done.out), done, "the nested bwrap kept the /proc of the jail")


def _rung_codex_sandbox(probe: Probe) -> Failed | None:
    """Codex's own sandbox in the jail, beside the relay, with git on the checkout.

    The connection through the relay is made twice: by the jail, which must reach the gate, and from the sandbox, which
    must not. So exactly one arrives.
    """
    sandbox = [jail.CODEX, "sandbox", "-P", codex_config.PROFILE, "-C", jail.CHECKOUT, "--"]
    look = f"{_CONNECT} && echo reached the gate\n{_script(probe.nonce)}\ngit log -1 --format='git %s'"
    outer = f'{_CONNECT} && echo control\nexec "$@"'
    command = ["/bin/sh", "-c", outer, "outer", *sandbox, "/bin/sh", "-c", look]
    with closing(socket.socket(socket.AF_UNIX)) as gate:
        probe.gate.unlink()
        gate.bind(str(probe.gate))
        gate.listen(8)
        gate.setblocking(False)
        done = process.run(jail.argv(probe.policy(), jail.with_relay(command)), timeout=CODEX_SECONDS)
        arrived = _arrived(gate)
    failed = _unproven(done, probe.nonce)
    if failed is not None:
        return failed
    if arrived == 0:
        return Failed(f"relay: no connection reached the gate's socket\n{done.err}", done.code)
    seen = _seen(done.out)
    if arrived > 1 or "reached" in seen or seen["net"][0] == probe.learnt.get("jail_net"):
        return Failed("the sandbox let a command reach the network of the jail", done.code)
    if "/checkout" in _lines(done.out, "wrote") or (probe.home / probe.nonce).exists():
        return Failed("the sandbox let a command write to the checkout or to CODEX_HOME", done.code)
    if "reads" in seen:
        return Failed("the sandbox let a command read CODEX_HOME", done.code)
    if seen.get("git") != [probe.nonce]:
        return Failed(f"git did not read the checkout in the sandbox\n{done.err}", done.code)
    return _stale_proc(seen, done, "the sandbox kept the /proc of the jail")


_REVIEW: tuple[Rung, ...] = (_rung_jail, _rung_nested, _rung_codex_sandbox)


def _script(nonce: str) -> str:
    return _LOOK.replace("NONCE", nonce).strip()


def _look(nonce: str) -> list[str]:
    return ["/bin/sh", "-c", _script(nonce)]


def _unproven(done: process.Completed, nonce: str) -> Failed | None:
    if done.timed_out:
        return Failed(f"{done.argv[0]} did not end within {done.seconds:.0f} s\n{done.err}", done.code)
    if done.code != 0 or nonce not in done.out.splitlines():
        return Failed(done.err.strip() or done.out.strip() or "it printed nothing", done.code)
    return None


def _stale_proc(seen: Mapping[str, list[str]], done: process.Completed, symptom: str) -> Failed | None:
    by_proc, by_kernel = seen["pid"]
    return None if by_proc == by_kernel else Failed(f"{symptom} ({seen['visible'][0]} processes visible)", done.code)


def _seen(out: str) -> dict[str, list[str]]:
    """The first word of each line against the rest of its words."""
    return {words[0]: words[1:] for words in map(str.split, out.splitlines()) if words}


def _lines(out: str, first: str) -> set[str]:
    return {line.removeprefix(f"{first} ") for line in out.splitlines() if line.startswith(f"{first} ")}


def _arrived(gate: socket.socket) -> int:
    count = 0
    while True:
        try:
            gate.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


@contextmanager
def _probe(scratch: Path) -> Iterator[Probe]:
    """Directories as a review has them, with one commit whose message is the nonce, in an object directory beside."""
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="selftest-", dir=scratch) as name:
        root = Path(name)
        nonce = f"nonce-{secrets.token_hex(8)}"
        probe = Probe(root / "tree", root / "git", root / "objects", root / "home", root / "gate.sock", nonce)
        for directory in (probe.tree, probe.git_dir / "objects" / "info", probe.git_dir / "refs", probe.home):
            directory.mkdir(parents=True, mode=0o700)
        (probe.git_dir / "objects" / "info" / "alternates").write_text(f"{probe.objects}\n")
        (probe.git_dir / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
        (probe.git_dir / "HEAD").write_text(f"{_commit(probe.objects, nonce)}\n")
        probe.gate.touch()
        codex_config.write_home(probe.home, model="none", effort="low", objects=probe.objects, schema=None)
        yield probe


def _commit(objects: Path, message: str) -> str:
    """Write a commit of git's built-in empty tree as a loose object, without starting git; returns its SHA."""
    who = "Appliance <appliance@localhost> 0 +0000"
    text = f"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor {who}\ncommitter {who}\n\n{message}\n".encode()
    raw = b"commit %d\0%s" % (len(text), text)
    sha = sha1(raw, usedforsecurity=False).hexdigest()
    path = objects / sha[:2] / sha[2:]
    path.parent.mkdir(parents=True)
    path.write_bytes(zlib.compress(raw))
    return sha
