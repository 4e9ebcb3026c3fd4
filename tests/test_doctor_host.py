"""The doctor on the host, judged on descriptions: what the engine, the kernel and a container tell of themselves."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from appliance.core import doctor_host
from appliance.core.doctor import Line
from appliance.core.doctor_host import Given, Wanted, apparmor, deviations, wanted_of
from appliance.doctor import compose, container, engine, kernel, outside

PROJECT = Path(__file__).parent.parent
RULES = json.loads((PROJECT / "docker/seccomp.json").read_text())
SERVICE: dict[str, Any] = {  # as `docker compose config` prints compose.yaml
    "user": "10001:10001",
    "cap_drop": ["ALL"],
    "security_opt": [
        "no-new-privileges:true", "seccomp=./docker/seccomp.json", "systempaths=unconfined", "apparmor=unconfined",
    ],
    "read_only": True,
    "tmpfs": ["/tmp:mode=1777,size=512m", "/run:mode=1777,size=16m"],
    "init": True,
    "pids_limit": 1024,
    "mem_limit": "4294967296",
}  # fmt: skip
HOST: dict[str, Any] = {  # as the engine describes the container that Compose makes of it
    "NetworkMode": "review-appliance_default", "PidMode": "", "IpcMode": "private", "UTSMode": "", "UsernsMode": "",
    "Privileged": False, "CapAdd": None, "CapDrop": ["ALL"], "ReadonlyRootfs": True, "PidsLimit": 1024,
    "SecurityOpt": ["no-new-privileges:true", f"seccomp={json.dumps(RULES)}", "apparmor=unconfined"],
    "Memory": 4294967296, "Tmpfs": {"/run": "mode=1777,size=16m", "/tmp": "mode=1777,size=512m"},
    "MaskedPaths": [], "ReadonlyPaths": [], "Init": True, "Devices": None, "DeviceRequests": None,
    "DeviceCgroupRules": None, "PortBindings": {}, "PublishAllPorts": False, "Runtime": "runc",
}  # fmt: skip
MOUNT = {"Type": "volume", "Source": "/x/_data", "Destination": "/var/lib/appliance", "RW": True}
BIND = {"Type": "bind", "Source": "/", "Destination": "/host", "RW": True}
CAPS = ["CAP_AUDIT_WRITE", "CAP_NET_RAW"]


def wanted() -> Wanted:
    return wanted_of(SERVICE, RULES)


def given(mounts: list[dict[str, Any]] | None = None, user: str = "10001:10001", **host: Any) -> Given:
    inspected: dict[str, Any] = {
        "HostConfig": HOST | host,
        "Config": {"User": user},
        "Mounts": [MOUNT] if mounts is None else mounts,
    }
    text = doctor_host.option("seccomp", inspected["HostConfig"]["SecurityOpt"] or ())
    return Given(inspected, container._parsed(text))


def without(*names: str) -> list[str]:
    return [one for one in HOST["SecurityOpt"] if not one.startswith(names)]


def test_a_container_as_compose_makes_it_is_fine() -> None:
    assert [line.id for line in deviations(wanted(), given())] == ["container"]


def test_a_raised_tmpfs_in_other_units_is_the_same() -> None:
    same = {"/run": "size=16777216,mode=1777", "/tmp": "size=524288k,mode=1777"}
    assert [line.id for line in deviations(wanted(), given(Tmpfs=same))] == ["container"]


@pytest.mark.parametrize(
    ("change", "cause", "words"),
    [
        ({"Privileged": True}, "container-privileged", "privileged"),
        ({"CapAdd": ["SYS_ADMIN"]}, "container-capabilities", "SYS_ADMIN was added"),
        ({"CapDrop": None}, "container-capabilities", "not all were dropped"),
        ({"CapDrop": CAPS}, "container-capabilities", "not all were dropped"),
        ({"SecurityOpt": without("seccomp")}, "container-seccomp", "default rules"),
        ({"SecurityOpt": [*without("seccomp"), "seccomp=unconfined"]}, "container-seccomp", "unconfined"),
        ({"SecurityOpt": without("no-new")}, "container-new-privileges", "setuid"),
        ({"SecurityOpt": [*without("no-new"), "no-new-privileges=false"]}, "container-new-privileges", "setuid"),
        ({"SecurityOpt": None}, "container-new-privileges", "setuid"),
        ({"MaskedPaths": ["/proc/kcore"]}, "container-systempaths", "/proc/kcore"),
        ({"ReadonlyPaths": ["/proc/bus"]}, "container-systempaths", "/proc/bus"),
        ({"ReadonlyRootfs": False}, "container-root-writable", "written"),
        ({"user": ""}, "container-user", "as root"),
        ({"Tmpfs": None}, "container-tmpfs", "none"),
        ({"Tmpfs": HOST["Tmpfs"] | {"/etc": ""}}, "container-tmpfs", "/etc"),
        ({"PidsLimit": None}, "container-unlimited", "processes"),
        ({"PidsLimit": -1}, "container-unlimited", "processes"),
        ({"Memory": 0}, "container-unlimited", "memory"),
        ({"Memory": 8 << 30}, "container-limits", "memory"),
        ({"mounts": [MOUNT, BIND | {"Source": "/run/docker.sock"}]}, "container-engine-socket", "/run/docker.sock"),
        ({"mounts": [MOUNT, BIND]}, "container-mounts", "/ of the host"),
        ({"mounts": []}, "container-state", "lost"),
        ({"mounts": [MOUNT | {"RW": False}]}, "container-state", "lost"),
        ({"NetworkMode": "host"}, "container-host-namespace", "network"),
        ({"NetworkMode": "container:abc"}, "container-host-namespace", "another container"),
        ({"PidMode": "host"}, "container-host-namespace", "processes"),
        ({"IpcMode": "host"}, "container-host-namespace", "shared memory"),
        ({"UTSMode": "host"}, "container-host-namespace", "host name"),
        ({"UsernsMode": "host"}, "container-host-namespace", "user ids"),
        ({"Devices": [{"PathOnHost": "/dev/kvm"}]}, "container-devices", "/dev/kvm"),
        ({"DeviceRequests": [{"Driver": "nvidia"}]}, "container-devices", "nvidia"),
        ({"DeviceCgroupRules": ["a *:* rwm"]}, "container-devices", "rwm"),
        ({"PortBindings": {"80/tcp": [{}]}}, "container-ports", "80/tcp"),
        ({"Init": None}, "container-init", "init"),
    ],
)
def test_each_deviation_is_named(change: dict[str, Any], cause: str, words: str) -> None:
    found = {line.id: line for line in deviations(wanted(), given(**change))}
    assert cause in found
    assert words in found[cause].sentence and found[cause].remedy
    assert "container" not in found


def test_seccomp_rules_are_compared_by_what_they_hold() -> None:
    def told(profile: Mapping[str, Any]) -> Line:
        options = [*without("seccomp"), f"seccomp={json.dumps(profile)}"]
        return deviations(wanted(), given(SecurityOpt=options))[0]

    assert told(dict(reversed(RULES.items()))).id == "container", "the order of keys means nothing"
    more = RULES | {"syscalls": [*RULES["syscalls"], {"names": ["bpf"], "action": "SCMP_ACT_ALLOW"}]}
    assert (told(more).id, "it allows bpf" in told(more).sentence) == ("container-seccomp", True)
    less = RULES | {"syscalls": [rule for rule in RULES["syscalls"] if rule["names"] != ["pivot_root"]]}
    assert "does not allow pivot_root" in told(less).sentence
    softer = RULES | {"defaultAction": "SCMP_ACT_LOG"}
    assert "other conditions" in told(softer).sentence


@pytest.mark.parametrize("rules", [{"defaultAction": "SCMP_ACT_ALLOW"}, RULES | {"defaultErrnoRet": 38}, [], None])
def test_a_seccomp_file_that_was_replaced_is_seen_though_it_is_in_force(rules: Any) -> None:
    options = [*without("seccomp"), f"seccomp={json.dumps(rules)}"]
    found = deviations(wanted_of(SERVICE, rules), given(SecurityOpt=options))
    assert "seccomp-file-changed" in [line.id for line in found]


@pytest.mark.parametrize("key", sorted(set(HOST) - {"Runtime"}))
def test_what_the_engine_does_not_tell_is_never_fine(key: str) -> None:
    inspected = {"HostConfig": {k: v for k, v in HOST.items() if k != key}, "Config": {"User": ""}, "Mounts": []}
    with pytest.raises(KeyError):
        deviations(wanted(), Given(inspected, RULES))


# --- AppArmor


@pytest.mark.parametrize(
    ("label", "on", "cause"),
    [
        ("review-appliance (enforce)", True, "apparmor"),
        ("review-appliance (complain)", True, "container-apparmor-complain"),
        ("unconfined", True, "container-apparmor-unconfined"),
        ("docker-default (enforce)", True, "container-apparmor"),
        ("review-appliance//null-bwrap (enforce)", True, "container-apparmor"),
        (None, True, "apparmor-unknown"),
        (None, False, "apparmor"),
    ],
)
def test_apparmor(label: str | None, on: bool, cause: str) -> None:
    assert apparmor("review-appliance", label, on, "why").id == cause


def test_without_a_profile_where_the_kernel_asks_for_one_it_is_a_fault() -> None:
    line = apparmor("review-appliance", "unconfined", True, "", restricted=True)
    assert (line.id, line.state) == ("apparmor-unprivileged-userns", "fault")
    assert apparmor("review-appliance", "review-appliance (enforce)", True, "", restricted=True).state == "ok"


def test_without_the_docker_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker.client", None)
    (line,) = outside.examine()
    assert (line.id, line.place) == ("docker-package-missing", "host")
    assert "pipx run" in line.remedy


# --- its health


@pytest.mark.parametrize(
    ("status", "said", "cause", "state"),
    [
        ("healthy", "healthy: watching", "container-health", "ok"),
        ("unhealthy", "unhealthy: login: No key. Next: set it.", "login", "fault"),
        ("unhealthy", "starting: the first cycle runs", "container-health-unknown", "warning"),
        ("starting", "unhealthy: login: No key. Next: set it.", "login", "fault"),
        ("starting", "unhealthy: missing: Not told yet. Next: wait.", "container-health-unknown", "warning"),
        ("starting", "", "container-health-unknown", "warning"),
        ("none", "", "container-health-unknown", "warning"),
        ("unhealthy", "", "unexamined", "fault"),
    ],
)
def test_the_containers_health(status: str, said: str, cause: str, state: str) -> None:
    line = container._health({"Status": status, "Log": [{"Output": said}]})
    assert (line.id, line.state) == (cause, state)
    assert state != "fault" or line.remedy


def test_what_the_probe_said_before_a_restart_is_not_its_health() -> None:
    said = {"Start": "2026-11-30T21:13:37.123456789+01:00", "Output": "unhealthy: login: No key. Next: set it."}
    health = {"Status": "starting", "Log": [said]}
    assert container._health(health, "2026-11-30T20:13:38.5Z").id == "container-health-unknown"
    assert container._health(health, "2026-11-30T20:13:36.5Z").id == "login"


# --- the engine

INFO = {
    "OSType": "linux", "SecurityOptions": ["name=seccomp,profile=builtin", "name=cgroupns"], "CgroupVersion": "2",
    "MemoryLimit": True, "PidsLimit": True, "OperatingSystem": "Debian", "KernelVersion": "6.12", "Name": "box",
}  # fmt: skip
VERSION = {"Version": "27.5.1", "Components": [{"Name": "Engine"}]}


@pytest.mark.parametrize(
    ("info", "version", "causes", "unsupported"),
    [
        ({}, {}, ["engine"], False),
        ({}, {"Version": "25.0.0"}, ["engine"], False),
        ({}, {"Version": "24.0.9"}, ["engine-too-old"], True),
        ({}, {"Version": "dev"}, ["engine-too-old"], True),
        ({"OSType": "windows"}, {}, ["engine-no-linux"], True),
        ({"SecurityOptions": ["name=cgroupns"]}, {}, ["engine", "engine-no-seccomp"], True),
        ({"PidsLimit": False}, {}, ["engine", "engine-no-limits"], True),
        ({"SecurityOptions": ["name=seccomp,x", "name=rootless"]}, {}, ["engine-untried", "engine"], False),
        ({"OperatingSystem": "Docker Desktop"}, {}, ["engine-untried", "engine"], False),
        ({}, {"Version": "5.4.0", "Components": [{"Name": "Podman Engine"}]}, ["engine-untried", "engine"], False),
    ],
)
def test_the_engine(info: dict[str, Any], version: dict[str, Any], causes: list[str], unsupported: bool) -> None:
    found = list(engine.check(INFO | info, VERSION | version))
    assert [line.id for line in found] == causes
    assert any(line.unsupported for line in found) == unsupported


@pytest.mark.parametrize(
    ("said", "cause"), [("2.26.1-4", "compose"), ("v2.40.0", "compose"), ("2.5.0", "compose-too-old"), ("", "")]
)
def test_compose(said: str, cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho '{said}'\n" if said else "#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (line,) = engine.check_compose()
    assert line.id == (cause or "compose-missing")
    assert line.unsupported == (cause == "compose-too-old")


def test_without_dockers_command_there_is_no_compose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert [line.id for line in engine.check_compose()] == ["compose-missing"]
    assert compose.endpoint() is None


def test_a_compose_file_that_is_not_read_tells_no_line_of_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 'line 3: GITHUB_TOKEN=ghp_secret' >&2\nexit 15\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(compose.Unreadable) as caught:
        compose.wanted(PROJECT / "compose.yaml")
    assert "ghp_secret" not in str(caught.value) and "15" in str(caught.value)


def test_which_compose_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {compose.LABEL: f"{PROJECT}/compose.yaml,/tmp/mine.yaml"}
    monkeypatch.chdir(tmp_path)
    assert compose.file_of(None, labels) == PROJECT / "compose.yaml"
    assert compose.file_of(Path("other.yaml"), labels) == Path("other.yaml")
    with pytest.raises(compose.Unreadable):
        compose.file_of(None, {})
    (tmp_path / "compose.yaml").write_text("name: something else\n")
    assert compose.file_of(None, labels) == PROJECT / "compose.yaml", "another project's is none of ours"
    monkeypatch.chdir(PROJECT)
    assert compose.file_of(None, {}) == Path("compose.yaml")


# --- the kernel

GOOD = dict.fromkeys(kernel._NEEDED, "15000") | {"osrelease": "6.12.1"}


@pytest.mark.parametrize(
    ("read", "userns", "causes", "unsupported"),
    [
        ({}, True, ["kernel"], False),
        ({"unprivileged_userns_clone": "1"}, True, ["kernel"], False),
        ({"unprivileged_userns_clone": "absent"}, True, ["kernel"], False),
        ({"unprivileged_userns_clone": "0"}, True, ["userns-sysctl-off"], False),
        ({"max_user_namespaces": "0"}, True, ["userns-limit"], False),
        ({"max_net_namespaces": "0"}, True, ["namespaces-off"], False),
        ({}, False, ["no-userns-kernel"], True),
        ({"osrelease": "4.4.0-19041-Microsoft"}, True, ["no-userns-kernel"], True),
        ({"osrelease": "5.15.90.1-microsoft-standard-WSL2"}, True, ["kernel"], False),
    ],
)
def test_the_kernel(read: dict[str, str], userns: bool, causes: list[str], unsupported: bool) -> None:
    found = list(kernel.judge(GOOD | read, userns=userns))
    assert [line.id for line in found] == causes
    assert any(line.unsupported for line in found) == unsupported


def test_a_kernel_that_tells_nothing_is_not_fine() -> None:
    assert [line.id for line in kernel.judge({}, userns=True)] == ["unexamined"]
    assert [line.id for line in kernel.check(Path("/nonexistent"))] == ["no-userns-kernel"]
