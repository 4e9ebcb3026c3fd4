"""Each cause that can be made where a Docker engine runs, made for real: real bwrap and Codex, real texts, real facts.

One container each, with one condition broken; where a jail can break it, by a bwrap around. Its options are those of
compose.yaml but for what is under test. `REAL` is held against the column *seen* of docs/faults.md.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .stack import IMAGE, PROJECT

Runs = Mapping[str, "Future[subprocess.CompletedProcess[str]]"]
PYTHON = "/opt/appliance/bin/python"
HERE = [PYTHON, "/trials/inside_faults.py"]
STATE = "/var/lib/appliance"
BWRAP = ["bwrap", "--die-with-parent", "--unshare-user", "--ro-bind", "/", "/"]
ROOT = ["user=0:0"]
AROUND = ["bwrap", "--unshare-user", "--unshare-pid", "--bind", "/", "/"]
PARTS = [word for name in ("usr", "opt", "trials") for word in ("--ro-bind", f"/{name}", f"/{name}")]
SYSTEM = [*PARTS, "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]
# A chroot whose directory is no mount point, as debootstrap and schroot make them.
CHROOT = (
    "mkdir -p /r/tmp /r/usr /r/opt /r/proc /r/dev /r/trials && cd /r && ln -s usr/bin usr/lib usr/lib64 . && "
    'for name in usr opt proc dev trials; do mount --rbind /$name /r/$name; done && exec "$@"'
)
# A /proc that is not the jail's must have no process of the jail's numbers, or bwrap finds another under its child's
# number now and then, and does not fail. So those around it are past 500 (but the first, which keeps the runtime's
# number, 7 or so), and those in it lie between.
OUTER = ["sh", "-c", 'i=0; while [ $i -lt 500 ]; do (:); i=$((i+1)); done; exec "$@"', "sh"]
INNER = ["sh", "-c", 'i=0; while [ $i -lt 100 ]; do (:); i=$((i+1)); done; exec "$@"', "sh"]
KILL_US = "x = b'x' * 300_000_000"
RULES: dict[str, Any] = json.loads((PROJECT / "docker/seccomp.json").read_text(encoding="utf-8"))
NEWUSER = 0x10000000


@dataclass(frozen=True)
class Made:
    """How a cause is made: the command in the container, and which of its options are others.

    `options`: `name=value` in place of compose.yaml's, `name=` without it. `seccomp`: the rules in place of ours.
    `selftest`: the command is the appliance's own self-test.
    """

    command: Sequence[str] = ()
    options: Sequence[str] = ()
    seccomp: dict[str, Any] | None = None
    selftest: bool = False
    told_by: str = "facts"
    more: Sequence[str] = field(default_factory=tuple)


def rules(without: str, *instead: dict[str, Any]) -> dict[str, Any]:
    """Our seccomp rules with no call of that name, and these in their place."""
    kept = [
        {**rule, "names": [name for name in rule["names"] if name != without]}
        for rule in RULES["syscalls"]
        if rule["names"] != [without]
    ]
    return {**RULES, "syscalls": [*kept, *instead]}


def rule(name: str, action: str, index: int, value: int, operator: str, **more: int) -> dict[str, Any]:
    args = {"index": index, "value": value, "op": f"SCMP_CMP_{operator}"}
    if "valueTwo" in more:
        args["valueTwo"] = more.pop("valueTwo")
    return {"names": [name], "action": f"SCMP_ACT_{action}", "args": [args], **more}


NO_NETLINK = rules("socket", rule("socket", "ALLOW", 0, 16, "NE"))
NO_SUCH_CLONE = rules(
    "clone",
    rule("clone", "ALLOW", 0, NEWUSER, "MASKED_EQ", valueTwo=0),
    rule("clone", "ERRNO", 0, NEWUSER, "MASKED_EQ", valueTwo=NEWUSER, errnoRet=38),
)


def hidden(path: str) -> list[str]:
    return ["--volume", f"/dev/null:{path}:ro"]


REAL = {
    # The image and its account.
    "root-without-userns": Made([*HERE, "bwrap", "--ro-bind", "/", "/"], ROOT),
    "root-without-setfcap": Made([*HERE, *BWRAP], ROOT),
    "stray-capabilities": Made(
        ["setpriv", "--reuid=10001", "--regid=10001", "--clear-groups", "--inh-caps=+kill", "--ambient-caps=+kill",
         *HERE, *BWRAP],
        [*ROOT, "cap_drop=", "seccomp=unconfined"],  # our rules let nobody become another
    ),
    "setuid-bwrap": Made(
        ["sh", "-c", 'chmod 4755 /usr/bin/bwrap; exec setpriv --reuid=10001 --regid=10001 --clear-groups "$@"', "sh",
         *HERE, *BWRAP],
        [*ROOT, "cap_drop=", "no-new-privileges=", "read_only=", "seccomp=unconfined"],
    ),
    "bwrap-missing": Made([*HERE, "--codex", "bwrap-missing", f"{STATE}/work"], told_by="text"),
    "socat-missing": Made(selftest=True, more=hidden("/usr/bin/socat")),
    "git-missing": Made(selftest=True, more=hidden("/usr/bin/git")),
    "codex-missing": Made(
        selftest=True, more=hidden("/opt/appliance/lib/python3.13/site-packages/codex_cli_bin/bin/codex")
    ),
    # Limits.
    "memory-limit": Made([*HERE, *BWRAP, "--", PYTHON, "-c", KILL_US], more=["--memory=96m", "--memory-swap=96m"]),
    "userns-limit": Made([*HERE, "--nested", "33", *BWRAP]),
    "mount-max": Made(
        ["bwrap", "--unshare-user", "--bind", "/", "/", "--cap-add", "CAP_SYS_ADMIN", *HERE, "--mounts", *BWRAP],
        told_by="text",
    ),
    "userns-second": Made([*HERE, *BWRAP, "--dev", "/dev"], seccomp=rules("unshare")),
    # The engine's seccomp rules.
    "seccomp-clone": Made([*HERE, *BWRAP], ["seccomp="]),
    "seccomp-mount": Made([*HERE, *BWRAP], seccomp=rules("mount")),
    "seccomp-pivot": Made([*HERE, *BWRAP], seccomp=rules("pivot_root")),
    "seccomp-umount": Made([*HERE, *BWRAP], seccomp=rules("umount2")),
    "no-net-namespace": Made([*HERE, *BWRAP, "--unshare-net"], seccomp=NO_NETLINK),
    "enosys": Made([*HERE, *BWRAP], seccomp=NO_SUCH_CLONE),
    # The container's /proc.
    "proc-masked": Made([*HERE, *BWRAP, "--unshare-pid", "--proc", "/proc"], ["systempaths="]),
    "proc-readonly": Made(
        ["bwrap", "--unshare-user", "--bind", "/", "/", "--dev", "/dev", "--ro-bind", "/proc", "/proc", *HERE, *BWRAP]
    ),
    "proc-stale": Made([*OUTER, *AROUND, "--dev", "/dev", *INNER, *HERE, *BWRAP]),
    "proc-missing": Made([*AROUND, "--dev", "/dev", "--tmpfs", "/proc", *HERE, *BWRAP]),
    # The kernel and the runtime.
    "chroot-or-rootfs": Made(
        ["sh", "-c", CHROOT, "sh", "chroot", "--userspec=10001:10001", "/r", *HERE, *BWRAP],
        [*ROOT, "cap_drop=", "read_only=", "seccomp=unconfined"], more=["--cap-add=SYS_ADMIN"],
    ),
    # The jail itself, and Codex in it.
    "jail-layout": Made([*HERE, *BWRAP, "--bind", "/no-such-directory", "/tmp/x"], told_by="text"),
    "codex-no-tmp": Made([*HERE, "--codex", "codex-no-tmp", f"{STATE}/work"], told_by="text"),
    "codex-landlock": Made([*HERE, "--codex", "codex-landlock", f"{STATE}/work"], told_by="text"),
    "no-tmp-dir": Made(
        ["bwrap", "--unshare-user", "--unshare-pid", *SYSTEM, "--proc", "/proc", "--dev", "/dev", *HERE, *BWRAP]
    ),
    "dev-missing": Made([*AROUND, "--proc", "/proc", "--tmpfs", "/dev", *HERE, *BWRAP, "--dev", "/dev"]),
    "relay-failed": Made(selftest=True, more=["--volume", "/bin/true:/usr/bin/socat:ro"]),
    "state-unwritable": Made(selftest=True, more=["--volume", f"/dev/null:{STATE}/work"]),
}  # fmt: skip
# Made for real by other tests: test_faults_at_start and test_battery.
ELSEWHERE = {"root-user", "pids-limit", "breach", "battery-failed"}


@pytest.fixture(scope="module")
def own() -> dict[str, Any]:
    """The service as compose.yaml describes it."""
    command = ["docker", "compose", "--env-file", "/dev/null", "-f", "compose.yaml", "config", "--format", "json"]
    told = subprocess.run(command, cwd=PROJECT, capture_output=True, check=True, timeout=60).stdout
    service: dict[str, Any] = json.loads(told)["services"]["appliance"]
    return service


def options(service: dict[str, Any], made: Made, folder: Path) -> list[str]:
    """What `docker run` is told to make compose.yaml's container, but for what `made` changes."""
    changed = dict(option.partition("=")[::2] for option in made.options)
    if made.seccomp is not None:
        (folder / "seccomp.json").write_text(json.dumps(made.seccomp))
        changed["seccomp"] = str(folder / "seccomp.json")
    line = ["--user", changed.get("user", service["user"])]
    line += [f"--cap-drop={name}" for name in service["cap_drop"] if "cap_drop" not in changed]
    for option in service["security_opt"]:
        name, _, value = option.partition(":" if option.startswith("no-new-privileges") else "=")
        value = changed.get(name, str(PROJECT / value) if name == "seccomp" else value)
        line += [f"--security-opt={name}={value}"] if value else []
    line += ["--read-only"] if service["read_only"] and "read_only" not in changed else []
    line += [f"--tmpfs={mount}" for mount in service["tmpfs"]]
    return [*line, f"--tmpfs={STATE}:mode=0700,uid=10001,gid=10001", "--init", "--network=none"]


@pytest.fixture(scope="module")
def runs(
    engine: None, own: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Runs]:
    """What each container wrote; some at a time, for most of the time an engine is busy with itself."""
    chosen = {item.callspec.params.get("cause") for item in request.session.items if hasattr(item, "callspec")}

    def run(made: Made) -> "subprocess.CompletedProcess[str]":
        trials = f"--volume={Path(__file__).parent}:/trials:ro"
        command = ["appliance", "selftest", "--json"] if made.selftest else list(made.command)
        folder = tmp_path_factory.mktemp("fault")
        line = ["docker", "run", "--rm", *options(own, made, folder), *made.more, trials, IMAGE, *command]
        return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)

    with ThreadPoolExecutor(3) as pool:
        yield {cause: pool.submit(run, made) for cause, made in REAL.items() if cause in chosen}


@pytest.mark.parametrize("cause", REAL)
def test_it_is_named_from_what_it_really_says(runs: Runs, cause: str) -> None:
    made, done = REAL[cause], runs[cause].result()
    assert done.stdout.startswith("{"), done
    told = json.loads(done.stdout)
    if made.selftest:
        assert told["fault"]["cause"] == cause, told
        return
    assert (told["cause"], told["also"]) == (cause, []), told
    assert told["facts"]["told_by"] == made.told_by, told
    if not told["symptom"].startswith("it "):  # what the self-test says is no text that others would report
        assert told["name_of"] == cause, told


def test_what_is_called_real_in_the_documentation_is_made_here() -> None:
    page = (PROJECT / "docs" / "faults.md").read_text(encoding="utf-8")
    section = page.partition("## The sandbox: what the self-test finds")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| <a id=")]
    seen = {
        cause: row.rstrip("|").rpartition(" | ")[2].strip()
        for row in rows
        for cause in re.findall(r'<a id="(.*?)">', row)
    }
    assert {cause for cause, how in seen.items() if how == "real"} == REAL.keys() | ELSEWHERE
    assert set(seen.values()) <= {"real", "vm", "text", ""}
