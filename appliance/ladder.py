"""The rungs of the self-test: one command each, judged by a nonce, by its exit code and by what it could do.

Up to `dev` they stand in the container itself and follow bwrap's own steps, one layer more each time, so that the
network's misleading text (its errno is stale) comes after a user namespace has been seen to work. From `jail` on they
run with the argv and the environment of a review.
"""

import secrets
import socket
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import sha1
from pathlib import Path

from appliance import bounds, codex_config, facts, jail, process
from appliance.core.result import SCHEMA

RUNG_SECONDS = 15.0
CODEX_SECONDS = 30.0  # cold, from a slow disk, it takes a second or two; short of threads it hangs for ever


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

    def jailed(self, command: list[str]) -> list[str]:
        """The argv of `command` in the jail that a review gets."""
        policy = jail.review_policy(
            tree=self.tree, git_dir=self.git_dir, objects=self.objects, codex_home=self.home, gate_socket=self.gate
        )
        return jail.argv(policy, command)


@dataclass(frozen=True)
class Failed:
    """A rung that did not hold: the raw text, and the exit code (None: it never ran)."""

    symptom: str
    code: int | None


Rung = Callable[[Probe], Failed | None]


@dataclass(frozen=True)
class View:
    """What a command in a jail or sandbox told of itself. A line that it could not print is an empty field.

    `pid_by_proc` and `pid_by_kernel` differ when the mounted /proc is another pid namespace's. `net_around` is the
    network namespace of the jail around a sandbox, told while both live: the kernel uses their numbers again.
    `changed_home` is what the jail saw of its CODEX_HOME after the sandbox in it, which has a tmpfs of its own there.
    """

    label: str
    pid_by_proc: str
    pid_by_kernel: str
    visible: str
    net: str
    net_around: str
    wrote: frozenset[str]
    read_home: bool
    reached_gate: bool
    changed_home: bool
    commit: str


# Only what the shell itself can do, but for one readlink. /proc/self/stat begins with the pid that the mounted /proc
# knows us by.
_LOOK = """
label=; read -r label </proc/self/attr/current
echo "label=$label"
pid=; read -r pid rest </proc/self/stat
echo "pid-by-proc=$pid"
echo "pid-by-kernel=$$"
set -- /proc/[0-9]*; echo "visible=$#"
echo "net=$(readlink /proc/self/ns/net)"
for place in /checkout /codex-home /tmp; do true 2>/dev/null >$place/NONCE && echo "wrote=$place"; done
[ -r /codex-home/config.toml ] && echo "read-home=yes"
echo NONCE
"""
_CONNECT = f"bash -c ': </dev/tcp/127.0.0.1/{jail.RELAY_PORT}' 2>/dev/null"


def view(out: str) -> View:
    """Read what `_LOOK` printed."""
    pairs = [(name, value) for name, _, value in (line.partition("=") for line in out.splitlines())]
    told = dict(pairs)
    return View(
        told.get("label", ""),
        told.get("pid-by-proc", ""),
        told.get("pid-by-kernel", ""),
        told.get("visible", ""),
        told.get("net", ""),
        told.get("net-around", ""),
        frozenset(value for name, value in pairs if name == "wrote"),
        "read-home" in told,
        "reached-gate" in told,
        "changed-home" in told,
        told.get("commit", ""),
    )


def user(probe: Probe) -> Failed | None:
    """A user namespace."""
    return _bare(probe)


def proc(probe: Probe) -> Failed | None:
    """A pid namespace with a /proc of its own."""
    return _bare(probe, "--unshare-pid", "--proc", "/proc")


def net(probe: Probe) -> Failed | None:
    """A network namespace."""
    return _bare(probe, "--unshare-pid", "--proc", "/proc", "--unshare-net")


def dev(probe: Probe) -> Failed | None:
    """A /dev, which makes bwrap take a second user namespace."""
    return _bare(probe, "--unshare-pid", "--proc", "/proc", "--unshare-net", "--dev", "/dev")


def outer_jail(probe: Probe) -> Failed | None:
    """The jail of a review."""
    done = process.run(probe.jailed(_look(probe)), timeout=RUNG_SECONDS)
    failed = unproven(done, probe.nonce)
    if failed is not None:
        return failed
    seen = view(done.out)
    probe.learnt.update(jail_label=seen.label or facts.ABSENT)
    if not {jail.CODEX_HOME, "/tmp"} <= seen.wrote:
        return Failed("Can't create file at /codex-home or /tmp in the jail", done.code)
    return judge_jail(seen, str(Path("/proc/self/ns/net").readlink()))


def nested(probe: Probe) -> Failed | None:
    """A bwrap inside the jail, with what Codex asks of it: the rung that an AppArmor profile breaks alone."""
    inner = ("--new-session", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--unshare-user")
    more = ("--unshare-pid", "--unshare-ipc", "--unshare-net", "--proc", "/proc", "--cap-drop", "ALL")
    done = process.run(probe.jailed(["bwrap", *inner, *more, "--", *_look(probe)]), timeout=RUNG_SECONDS)
    return unproven(done, probe.nonce) or _own_proc(view(done.out), "the nested bwrap")


def codex_sandbox(probe: Probe) -> Failed | None:
    """Codex's own sandbox in the jail, beside the relay, with git on the checkout.

    The connection through the relay is made twice: by the jail, which must reach the gate, and from the sandbox, which
    must not. So exactly one arrives. What the sandbox wrote to CODEX_HOME the jail would see. Meanwhile we try to look
    into the jail ourselves, as its watch has to.
    """
    look = f"{_CONNECT} && echo reached-gate=yes\n{_script(probe)}\ngit log -1 --format=commit=%s"
    sandbox = [jail.CODEX, "sandbox", "-P", codex_config.PROFILE, "-C", jail.CHECKOUT, "--", "/bin/sh", "-c", look]
    outer = f'{_CONNECT}\necho "net-around=$(readlink /proc/self/ns/net)"\n"$@"\ncode=$?\n{_changed(probe)}\nexit $code'
    command = ["/bin/sh", "-c", outer, "outer", *sandbox]
    sight = bounds.Sight()
    with _listening(probe.gate) as gate:
        done = process.run(probe.jailed(jail.with_relay(command)), timeout=CODEX_SECONDS, watch=sight.over)
        arrived = _arrived(gate)
    probe.learnt.update(look_refused=sight.refused)
    return unproven(done, probe.nonce) or judge_sandbox(
        view(done.out),
        arrived=arrived,
        commit=probe.nonce,
        stderr=done.err,
    )


GROUND: tuple[tuple[str, Rung], ...] = (("user", user), ("proc", proc), ("net", net), ("dev", dev))
REVIEW: tuple[tuple[str, Rung], ...] = (("jail", outer_jail), ("nested", nested), ("codex-sandbox", codex_sandbox))


def unproven(done: process.Completed, nonce: str) -> Failed | None:
    """Failed unless the program ended with 0 and printed the nonce on a line of its own."""
    if done.timed_out:
        return Failed(f"it did not end within {done.seconds:.0f} s\n{done.err}", done.code)
    if done.code == 0 and nonce in done.out.splitlines():
        return None
    how = f"it ended with {done.code} and did not print what it was told to"
    return Failed(done.err.strip() or how, done.code)


def judge_jail(seen: View, container_net: str) -> Failed | None:
    """What a command in the jail must not have been able to do."""
    if "/checkout" in seen.wrote:
        return Failed("the jail let a command write to the checkout", 0)
    if seen.net == container_net:
        return Failed("the jail let a command share the container's network", 0)
    return _own_proc(seen, "the jail")


def judge_sandbox(seen: View, *, arrived: int, commit: str, stderr: str) -> Failed | None:
    """What a command in Codex's sandbox must, and must not, have been able to do.

    `arrived` counts the connections at the gate, the jail's own among them.
    """
    failed = _own_proc(seen, "Codex's sandbox")
    if failed is not None:
        return failed
    if arrived == 0:
        return Failed(f"relay: no connection from the jail reached the gate\n{stderr}", 0)
    if arrived > 1 or seen.reached_gate or seen.net == seen.net_around:
        return Failed("the sandbox let a command reach the network of the jail", 0)
    if seen.changed_home or "/checkout" in seen.wrote:
        return Failed("the sandbox let a command write to the checkout or to CODEX_HOME", 0)
    if seen.read_home:
        return Failed("the sandbox let a command read CODEX_HOME", 0)
    if seen.commit != commit:
        return Failed(f"git did not read the checkout in the sandbox\n{stderr}", 0)
    return None


def _own_proc(seen: View, who: str) -> Failed | None:
    if not seen.pid_by_proc:
        return Failed(f"{who} has no /proc: it could not mount a fresh one", 0)
    if seen.pid_by_proc != seen.pid_by_kernel:
        return Failed(f"{who} kept the /proc around it ({seen.visible} processes visible)", 0)
    return None


def _bare(probe: Probe, *options: str) -> Failed | None:
    line = ["bwrap", "--die-with-parent", "--unshare-user", "--ro-bind", "/", "/", *options]
    done = process.run([*line, "--", "/bin/sh", "-c", f"echo {probe.nonce}"], timeout=RUNG_SECONDS)
    return unproven(done, probe.nonce)


def _script(probe: Probe) -> str:
    return _LOOK.replace("NONCE", probe.nonce).strip()


def _changed(probe: Probe) -> str:
    return f"[ -e {jail.CODEX_HOME}/{probe.nonce} ] && echo changed-home=yes"


def _look(probe: Probe) -> list[str]:
    return ["/bin/sh", "-c", _script(probe)]


@contextmanager
def _listening(path: Path) -> Iterator[socket.socket]:
    path.unlink(missing_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as gate:
        gate.bind(str(path))
        gate.listen(8)
        gate.setblocking(False)
        yield gate


def _arrived(gate: socket.socket) -> int:
    count = 0
    while True:
        try:
            gate.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


@contextmanager
def prepared(scratch: Path) -> Iterator[Probe]:
    """Directories as a review has them, with one commit whose message is the nonce, in an object directory beside.

    They lie below `scratch` and are gone afterwards. Raises OSError.
    """
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
        codex_config.write_home(probe.home, model="none", effort="low", objects=probe.objects, schema=SCHEMA)
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
