"""What the real jail and the real sandbox let through, tried from inside the container; run there with its Python.

    python inside_selftest.py SCRATCH

Prints one JSON line for each trial, {"trial", "ok", "told"}, and exits 1 if one failed. SCRATCH is a directory below
the state volume. Uses no network and no model.
"""

import base64
import io
import json
import os
import socket
import sqlite3
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from appliance import jail, ladder, process, selftest


class Container:
    def __init__(self, probe: ladder.Probe) -> None:
        self.probe = probe

    def run(self, script: str) -> process.Completed:
        """`script` in the jail of a review."""
        return process.run(self.probe.jailed(["/bin/sh", "-c", script]), timeout=30)

    def sandboxed(self, script: str) -> process.Completed:
        """`script` in Codex's sandbox, in that jail."""
        line = [jail.CODEX, "sandbox", "-P", "reviewer", "-C", "/checkout", "--", "/bin/sh", "-c", script]
        return process.run(self.probe.jailed(line), timeout=60)


def the_self_test_holds(container: Container) -> object:
    report = selftest.selftest(container.probe.tree.parent / "again")
    return report.ok or report.to_json()


def the_environment_is_ours(container: Container) -> object:
    os.environ["GITHUB_TOKEN"] = os.environ["OPENAI_API_KEY"] = "secret"
    told = container.run("env; cat /proc/1/environ").out
    return "secret" not in told or told


def nothing_of_the_appliance_is_seen(container: Container) -> object:
    hidden = (
        "/etc/shadow /var/lib/appliance/appliance.db /run/appliance /run/secrets /sys /root /proc/1/root/etc/shadow"
    )
    told = container.run(f"ls -d {hidden} 2>/dev/null; ls /home /run /var/lib 2>/dev/null").out.split()
    return set(told) <= {"/home:", "reviewer", "/run:", "gate.sock", "/var/lib:", "appliance"} or told


def no_network_but_loopback(container: Container) -> object:
    told = container.run("cat /proc/net/dev /proc/net/route /proc/net/unix").out
    devices = [line.split(":")[0].strip() for line in told.splitlines() if ":" in line and "|" not in line]
    return (devices[:1] == ["lo"] and not [name for name in devices if name.startswith(("eth", "en", "wl"))]) or told


def what_is_shown_cannot_be_written(container: Container) -> object:
    places = f"/ /usr /etc /opt/codex /checkout /checkout/.git {container.probe.objects} /proc/sys/kernel/core_pattern"
    told = container.run(f"for p in {places}; do touch $p/x 2>/dev/null && echo $p; done; echo end").out.split()
    return told == ["end"] or told


def no_capability_and_no_new_privileges(container: Container) -> object:
    told = container.run("grep -E '^(CapEff|CapPrm|CapBnd|NoNewPrivs)' /proc/self/status; id -u").out.split()
    return (told[1::2][:3] == ["0" * 16] * 3 and told[-2:] == ["1", str(os.getuid())]) or told


def it_dies_with_us(container: Container) -> object:
    done = process.run(container.probe.jailed(["/bin/sleep", "4242"]), timeout=0.5)
    until = time.monotonic() + 20
    while left := [pid.name for pid in Path("/proc").glob("[0-9]*") if b"4242" in _cmdline(pid)]:
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    return (done.timed_out and not left) or left


def _cmdline(pid: Path) -> bytes:
    try:
        return (pid / "cmdline").read_bytes()
    except OSError:
        return b""


def the_relay_keeps_standard_input(container: Container) -> object:
    container.probe.gate.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as gate:
        gate.bind(str(container.probe.gate))
        gate.listen()
        done = process.run(container.probe.jailed(jail.with_relay(["cat"])), timeout=20, input=b"a prompt")
    return (done.code == 0 and done.out == "a prompt") or (done.code, done.out, done.err)


def the_command_waits_for_the_relay(container: Container) -> object:
    line = jail.with_relay(["cat", "/proc/net/tcp"])
    late = '/bin/sh -c \'sleep 0.3; exec "$0" "$@"\' /usr/bin/socat'
    line[2] = line[2].replace("/usr/bin/socat", late)
    done = process.run(container.probe.jailed(line), timeout=20)
    return f"0100007F:{jail.RELAY_PORT:04X} 00000000:0000 0A" in done.out or (done.code, done.out, done.err)


def a_relay_that_cannot_listen_is_told(container: Container) -> object:
    line = jail.with_relay(["/bin/echo", "ran"])
    line[2] = line[2].replace("/usr/bin/socat", "/usr/bin/no-such-program")
    done = process.run(container.probe.jailed(line), timeout=20)
    return (done.code == jail.RELAY_TIMED_OUT and done.out == "" and done.seconds < 6) or (done.code, done.err)


def the_databases_of_a_home_are_those_that_codex_makes(container: Container) -> object:
    """A Codex that would make others, or take them further, is one that the image was not built with."""
    runs = f"echo hello | {jail.CODEX} exec --ephemeral --skip-git-repo-check -c {ONE_REQUEST} - >/dev/null 2>&1"
    given, kept, made = (_databases(container, script) for script in ("", runs, f"rm /codex-home/*.sqlite; {runs}"))
    return (given == kept == made and "state" in str(given)) or (given, kept, made)


ONE_REQUEST = "model_providers.gate.request_max_retries=0"


def _databases(container: Container, script: str) -> dict[str, list[int]]:
    """Codex's databases in the jail after `script`, each with the migrations that made it."""
    shown = ["/bin/sh", "-c", f"{script}\ntar -C /codex-home -c --exclude ./tmp . | base64"]
    done = process.run(container.probe.jailed(jail.with_relay(shown)), timeout=30)
    told = {}
    packed = io.BytesIO(base64.b64decode(done.out))
    with tempfile.TemporaryDirectory() as name, tarfile.open(fileobj=packed) as archive:
        archive.extractall(name, filter="data")
        for path in sorted(Path(name).glob("*.sqlite")):
            with closing(sqlite3.connect(path)) as database:
                asked = "SELECT version FROM _sqlx_migrations ORDER BY 1"
                told[path.name] = [row[0] for row in database.execute(asked)]
    return told


def git_works_in_jail_and_sandbox(container: Container) -> object:
    script = "git log -1 --format=%s && git show --stat HEAD >/dev/null && git status --porcelain"
    told = [container.run(script), container.sandboxed(script)]
    return all(done.code == 0 and done.out.strip() == container.probe.nonce for done in told) or str(told)


def hooks_do_not_run(container: Container) -> object:
    hooks = container.probe.git_dir / "hooks"
    hooks.mkdir()
    (hooks / "reference-transaction").write_text("#!/bin/sh\necho hook ran >&2\n")
    (hooks / "reference-transaction").chmod(0o755)
    container_script = "cp -r /checkout/.git /tmp/g && git --git-dir=/tmp/g update-ref refs/heads/x HEAD; echo end $?"
    done = container.run(container_script)
    return ("end 0" in done.out and "hook ran" not in done.err) or done.err


def the_sandbox_has_no_socket_but_unix(container: Container) -> object:
    done = container.sandboxed("bash -c ': </dev/tcp/127.0.0.1/9' 2>&1; perl -e 1")
    return "Operation not permitted" in done.out or done.out


def the_sandbox_does_not_see_codex_home(container: Container) -> object:
    done = container.sandboxed("cat /codex-home/config.toml; cat /proc/1/environ | tr '\\0' '\\n'; env")
    return ("model_provider" not in done.out and "secret" not in done.out) or done.out


def what_the_home_was_given_cannot_be_changed(container: Container) -> object:
    script = """
    echo x >>/codex-home/config.toml; rm /codex-home/config.toml; mv /codex-home/config.toml /codex-home/moved
    echo mine >/codex-home/mine && cat /codex-home/mine; ls -A /codex-home
    """
    told = container.run(script).out.split()
    left = sorted(path.name for path in container.probe.home.iterdir())
    given = ["config.toml", "schema.json"]
    return (told, left) == (["mine", "config.toml", "mine", "schema.json"], given) or (told, left)


def the_ladder_finds_a_sandbox_that_writes_codex_home(container: Container) -> object:
    minimal = '":minimal" = "read"'
    config = (container.probe.home / "config.toml").read_text()
    (container.probe.home / "config.toml").write_text(config.replace(minimal, f'{minimal}\n"/codex-home" = "write"'))
    failed = ladder.codex_sandbox(container.probe)
    return (failed is not None and "write to the checkout or to CODEX_HOME" in failed.symptom) or failed


TRIALS: tuple[Callable[[Container], object], ...] = (
    the_self_test_holds,
    the_environment_is_ours,
    nothing_of_the_appliance_is_seen,
    no_network_but_loopback,
    what_is_shown_cannot_be_written,
    no_capability_and_no_new_privileges,
    it_dies_with_us,
    the_relay_keeps_standard_input,
    the_command_waits_for_the_relay,
    a_relay_that_cannot_listen_is_told,
    the_databases_of_a_home_are_those_that_codex_makes,
    git_works_in_jail_and_sandbox,
    hooks_do_not_run,
    the_sandbox_has_no_socket_but_unix,
    the_sandbox_does_not_see_codex_home,
    what_the_home_was_given_cannot_be_changed,
    the_ladder_finds_a_sandbox_that_writes_codex_home,
)


def main(scratch: Path) -> int:
    failed = 0
    for trial in TRIALS:
        with ladder.prepared(scratch) as probe:
            told = trial(Container(probe))
        failed += told is not True
        print(json.dumps({"trial": trial.__name__, "ok": told is True, "told": None if told is True else str(told)}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
