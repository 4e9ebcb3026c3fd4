"""The self-test's judgement, its order, its facts and its report. The real jail is tried in the image."""

import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from appliance import calls, facts, jail, ladder, selftest
from appliance.core import advice
from appliance.core.faults import Fault
from appliance.failures import fault_of
from appliance.process import Completed

NONCE = "nonce-1234"


def completed(code: int = 0, out: str = NONCE, err: str = "", timed_out: bool = False) -> Completed:
    return Completed(("bwrap",), code, f"{out}\n".encode(), err.encode(), 1.0, timed_out)


# Nonce and exit code.


def test_a_rung_holds_only_with_nonce_and_exit_code() -> None:
    assert ladder.unproven(completed(), NONCE) is None
    for done in (
        completed(code=1),
        completed(out=""),
        completed(out=f"echo {NONCE}"),  # quoted, not printed
        completed(timed_out=True),
    ):
        assert ladder.unproven(done, NONCE) is not None


def test_the_symptom_is_what_the_program_wrote() -> None:
    failed = ladder.unproven(completed(1, "", "bwrap: setting up uid map: Permission denied\n"), NONCE)
    assert failed == ladder.Failed("bwrap: setting up uid map: Permission denied", 1)
    silent = ladder.unproven(completed(137, ""), NONCE)
    assert silent is not None
    assert "137" in silent.symptom
    hung = ladder.unproven(completed(-15, "", "Reading", timed_out=True), NONCE)
    assert hung is not None
    assert "did not end within" in hung.symptom
    assert "Reading" in hung.symptom


# Effects.

SANDBOXED = ladder.View(
    label="",
    pid_by_proc="2",
    pid_by_kernel="2",
    visible="2",
    net="net:[2]",
    net_around="net:[1]",
    wrote=frozenset({"/codex-home"}),  # a tmpfs of the sandbox's own
    read_home=False,
    reached_gate=False,
    changed_home=False,
    commit=NONCE,
)


def judge(seen: ladder.View, arrived: int = 1) -> str | None:
    failed = ladder.judge_sandbox(seen, arrived=arrived, commit=NONCE, stderr="fatal: no")
    return None if failed is None else failed.symptom


def test_a_sound_sandbox_is_accepted() -> None:
    assert judge(SANDBOXED) is None


def test_a_sandbox_that_degraded_without_a_word_is_found() -> None:
    assert "kept the /proc around it (7 processes" in str(judge(replace(SANDBOXED, pid_by_proc="9", visible="7")))
    assert "has no /proc" in str(judge(replace(SANDBOXED, pid_by_proc="")))


@pytest.mark.parametrize(
    ("seen", "arrived", "told"),
    [
        (SANDBOXED, 2, "reach the network"),
        (replace(SANDBOXED, reached_gate=True), 1, "reach the network"),
        (replace(SANDBOXED, net="net:[1]"), 1, "reach the network"),
        (replace(SANDBOXED, wrote=frozenset({"/checkout"})), 1, "write"),
        (replace(SANDBOXED, changed_home=True), 1, "write"),
        (replace(SANDBOXED, read_home=True), 1, "read CODEX_HOME"),
        (SANDBOXED, 0, "relay: "),
        (replace(SANDBOXED, commit=""), 1, "git did not read the checkout in the sandbox\nfatal: no"),
    ],
)
def test_a_sandbox_that_lets_through_is_found(seen: ladder.View, arrived: int, told: str) -> None:
    assert told in str(judge(seen, arrived))


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        (replace(SANDBOXED, wrote=frozenset({"/checkout", "/tmp"})), "write to the checkout"),
        (replace(SANDBOXED, net="net:[9]"), "share the container's network"),
        (replace(SANDBOXED, pid_by_proc="40"), "kept the /proc"),
    ],
)
def test_a_jail_that_lets_through_is_found(seen: ladder.View, told: str) -> None:
    assert ladder.judge_jail(SANDBOXED, "net:[9]") is None
    failed = ladder.judge_jail(seen, "net:[9]")
    assert failed is not None
    assert told in failed.symptom


def test_what_a_command_told_is_read() -> None:
    out = (
        "net-around=net:[1]\nlabel=bwrap//&unpriv_bwrap (enforce)\npid-by-proc=2\npid-by-kernel=2\nvisible=2\n"
        f"net=net:[2]\nwrote=/tmp\nwrote=/codex-home\nread-home=yes\nreached-gate=yes\n{NONCE}\ncommit={NONCE}\nchanged-home=yes\n"
    )
    assert ladder.view(out) == ladder.View(
        "bwrap//&unpriv_bwrap (enforce)", "2", "2", "2", "net:[2]", "net:[1]",
        frozenset({"/tmp", "/codex-home"}), True, True, True, NONCE,
    )  # fmt: skip
    assert ladder.view("") == ladder.View("", "", "", "", "", "", frozenset(), False, False, False, "")


# The climb.


def rung(held: bool, trail: list[str], name: str = "") -> ladder.Rung:
    def climb(probe: ladder.Probe) -> ladder.Failed | None:
        trail.append(name)
        return None if held else ladder.Failed("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", 1)

    return climb


def climb(scratch: Path, *rungs: tuple[str, ladder.Rung]) -> selftest.Report:
    return selftest.climb(scratch, rungs, preconditions=lambda: None)


def test_the_first_rung_that_fails_names_the_layer(tmp_path: Path) -> None:
    trail: list[str] = []
    names = [("user", True), ("proc", False), ("net", True)]
    report = climb(tmp_path, *((name, rung(held, trail, name)) for name, held in names))
    assert trail == ["user", "proc"]
    assert [(step.name, step.ok) for step in report.steps] == [("preconditions", True), ("user", True), ("proc", False)]
    assert report.fault is not None
    assert (report.fault.cause, report.fault.facts["step"]) == ("proc-masked", "proc")
    assert not report.ok


def test_a_ladder_that_holds_has_no_fault_and_leaves_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / "work"
    report = climb(scratch, ("user", rung(True, [])))
    assert (report.ok, report.fault) == (True, None)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(("refused", "warned"), [("EACCES", True), ("", False)])
def test_a_jail_that_cannot_be_looked_into_is_a_warning_and_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, warned: bool
) -> None:
    def looks(probe: ladder.Probe) -> ladder.Failed | None:
        probe.learnt.update(look_refused=refused)
        return None

    monkeypatch.setattr(ladder, "GROUND", ())
    monkeypatch.setattr(ladder, "REVIEW", (("codex-sandbox", looks),))
    monkeypatch.setattr(selftest, "ground", lambda: None)
    monkeypatch.setattr(facts, "bwrap_version", lambda: "0.11.0")
    report = selftest.selftest(tmp_path)
    assert report.ok
    assert ["refuses the appliance a look into its jails (EACCES)" in said for said in report.warnings] == (
        [True, False] if warned else [False]
    )
    assert all("Next: " in said for said in report.warnings)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (BlockingIOError(11, "Resource temporarily unavailable"), "pids-limit"),
        (RuntimeError("can't start new thread"), "pids-limit"),
        (PermissionError(13, "Permission denied"), "unknown"),
    ],
)
def test_a_program_that_cannot_even_start_is_a_fault(tmp_path: Path, error: Exception, cause: str) -> None:
    def fails(probe: ladder.Probe) -> ladder.Failed | None:
        raise error

    fault = climb(tmp_path, ("user", fails)).fault
    assert fault is not None
    assert fault.cause == cause
    assert str(error) in fault.symptom


def test_a_state_volume_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    report = climb(tmp_path / "file", ("user", rung(True, [])))
    assert report.fault is not None
    assert report.fault.cause == "state-unwritable"
    assert report.steps[-1].name == "scratch"


@pytest.mark.parametrize(
    ("error", "tmp", "cause", "told"),
    [
        (OSError(28, "No space left on device"), "writable", "disk-full", "docker system df"),
        (OSError(122, "Disk quota exceeded", "/var/lib/x"), "full", "disk-full", "docker system df"),
        (OSError(28, "No space left on device"), "full", "disk-full", "docker restart"),
        (OSError(28, "No space left on device", "/tmp/battery-x"), "writable", "disk-full", "docker restart"),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), "full", "disk-full", "tmpfs: /tmp"),
        (
            FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"),
            "absent",
            "no-tmp-dir",
            "tmpfs: /tmp",
        ),
    ],
)
def test_a_full_disk_is_told_from_a_full_tmp_and_from_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, tmp: str, cause: str, told: str
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(facts, "tmp", lambda *_: tmp)
    assert (fault_of(error).cause, told in fault_of(error).remedy) == (cause, True)
    found = climb(tmp_path, ("user", fails)).fault
    assert found is not None
    assert (found.cause, told in found.remedy) == (cause, True)


def test_facts_are_read_beside_a_failure(tmp_path: Path) -> None:
    fault = climb(tmp_path, ("proc", rung(False, []))).fault
    assert fault is not None
    assert {"uid", "seccomp", "label", "proc_masks", "call_clone", "step", "exit_code"} <= fault.facts.keys()


def test_the_whole_ladder_stands_in_bwraps_own_order() -> None:
    names = [name for name, _ in (*ladder.GROUND, *ladder.REVIEW)]
    assert names == ["user", "proc", "net", "dev", "jail", "nested", "codex-sandbox"]


def test_what_a_probe_prepares_is_as_a_review_has_it(tmp_path: Path) -> None:
    with ladder.prepared(tmp_path) as probe:
        line = probe.jailed(["true"])
        assert line[0] == "bwrap"
        assert str(probe.objects) in (probe.git_dir / "objects" / "info" / "alternates").read_text()
        assert (probe.home / "config.toml").is_file()
        with ladder.prepared(tmp_path) as other:
            assert other.nonce != probe.nonce
            assert other.tree != probe.tree


# What makes the ladder senseless.


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A well container's ground: not root, all programs there, no limit near."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("bwrap", "socat", "git"):
        (directory / name).write_text("#!/bin/sh\necho bubblewrap 0.12.0\n")
        (directory / name).chmod(0o755)
    monkeypatch.setattr(jail, "PATH", str(directory))
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setattr(os, "getuid", lambda: 10001)
    monkeypatch.setattr(facts, "pids_left", lambda: None)
    return directory


def ground() -> Fault:
    fault = selftest.ground()
    assert fault is not None
    return fault


def test_a_well_container_has_no_fault(programs: Path) -> None:
    assert selftest.ground() is None


def test_root_is_a_fault_before_anything_else(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    (programs / "bwrap").unlink()
    report = selftest.selftest(tmp_path)
    assert report.fault is not None
    assert report.fault.cause == "root-user"
    detail = report.fault.facts["detail"]
    assert detail in {"root-without-userns", "root-without-setfcap", "root"}
    assert report.fault.also == ((detail,) if detail != "root" else ())
    assert [step.name for step in report.steps] == ["preconditions"]
    assert selftest.nested_probe(tmp_path) is not None


@pytest.mark.parametrize("name", ["bwrap", "socat", "git"])
def test_a_missing_program_is_a_fault(programs: Path, name: str) -> None:
    (programs / name).unlink()
    assert ground().cause == f"{name}-missing"


def test_a_missing_codex_is_a_fault(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import codex_cli_bin

    monkeypatch.setattr(codex_cli_bin, "bundled_package_dir", lambda: tmp_path)
    assert ground().cause == "codex-missing"


@pytest.mark.parametrize(
    ("version", "cause"), [("0.8.0", "bwrap-too-old"), ("0.9.0", None), ("0.12.0", None), ("1.0", None)]
)
def test_an_old_bwrap_is_a_fault(programs: Path, version: str, cause: str | None) -> None:
    (programs / "bwrap").write_text(f"#!/bin/sh\necho bubblewrap {version}\n")
    fault = selftest.ground()
    assert (fault and fault.cause) == cause


def test_bwrap_is_asked_for_its_version_once_and_again_when_it_is_another(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [None, "bubblewrap 0.12.0", "bubblewrap 0.8.0"]
    monkeypatch.setattr(facts, "_first_line", lambda _: answers.pop(0))
    assert facts.bwrap_version() is None  # no process left for it: that is not kept
    assert [facts.bwrap_version() for _ in range(3)] == ["0.12.0"] * 3
    (programs / "bwrap").write_text("#!/bin/sh\necho another one\n")
    assert facts.bwrap_version() == "0.8.0"
    assert answers == []


def test_no_room_for_the_processes_of_a_review_is_a_fault(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "pids_left", lambda: 30)  # where Codex still ends with 0, and no command has run
    assert ground().cause == "pids-limit"
    monkeypatch.setattr(facts, "pids_left", lambda: 10_000)
    assert selftest.ground() is None


@pytest.mark.parametrize(
    ("error", "cause", "said"),
    [
        (OSError(28, "No space left on device"), "disk-full", "/tmp is full"),
        (OSError(122, "Disk quota exceeded"), "disk-full", "/tmp is full"),
        (FileNotFoundError(2, "No such file or directory", "/tmp/tmpx"), "no-tmp-dir", "no /tmp"),
        (OSError(30, "Read-only file system", "/tmp/tmpx"), "no-tmp-dir", "no /tmp"),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), "no-tmp-dir", "no /tmp"),
    ],
)
def test_no_room_or_place_in_tmp_is_a_fault_before_a_review_meets_it(
    programs: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, cause: str, said: str
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    assert (ground().cause, said in ground().sentence) == (cause, True)


# Facts.


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.parametrize("place", [lambda name: name, lambda name: f"pids/{name}"], ids=["v2", "v1"])
def test_both_cgroup_hierarchies_are_read(tmp_path: Path, place: Callable[[str], str]) -> None:
    base = "sys/fs/cgroup"
    write(tmp_path, f"{base}/{place('pids.max')}", "1024\n")
    write(tmp_path, f"{base}/{place('pids.current')}", "24\n")
    write(tmp_path, f"{base}/{place('pids.events')}", "max 3\n")
    found = facts.read(tmp_path)
    assert (found["pids_max"], found["pids_current"]) == ("1024", "24")
    assert facts.pids_left(tmp_path) == 1000
    assert facts.counters(tmp_path) == {"pids_denied": 3}


def test_no_limit_is_no_number(tmp_path: Path) -> None:
    write(tmp_path, "sys/fs/cgroup/pids.max", "max\n")
    write(tmp_path, "sys/fs/cgroup/pids.current", "24\n")
    assert facts.pids_left(tmp_path) is None
    assert facts.pids_left(tmp_path / "nothing") is None
    assert facts.counters(tmp_path / "nothing") == {}


def test_memory_kills_are_counted(tmp_path: Path) -> None:
    write(tmp_path, "sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert facts.read(tmp_path)["oom_kill"] == "2"
    assert facts.counters(tmp_path) == {"oom_kills": 2}
    assert facts.risen({"oom_kills": 2, "pids_denied": 0}, {"oom_kills": 3}) == {"oom_kills": 1}


def test_masks_are_the_mounts_below_proc(tmp_path: Path) -> None:
    lines = (
        "22 28 0:21 / /proc rw,nosuid - proc proc rw\n"
        "23 22 0:21 /bus /proc/bus ro - proc proc rw\n"
        "24 22 0:52 / /proc/acpi ro - tmpfs tmpfs ro\n"
        "25 28 0:53 / /processes ro - tmpfs tmpfs ro\n"
    )
    write(tmp_path, "proc/self/mountinfo", lines)
    assert facts.proc_masks(tmp_path) == "/proc/acpi /proc/bus"


def test_the_table_of_mounts_tells_of_root_and_proc(tmp_path: Path) -> None:
    table = tmp_path / "proc/self/mountinfo"
    assert facts.read(tmp_path)["proc_mount"] == "absent"
    lines = "21 20 0:40 / / ro,relatime - overlay overlay rw\n22 21 0:21 / /proc ro,nosuid shared:3 - proc proc rw\n"
    write(tmp_path, str(table.relative_to(tmp_path)), lines)
    assert facts.read(tmp_path)["proc_mount"] == "partial"  # ProcSubset=pid, and others that show a part
    write(tmp_path, "proc/sys/kernel/overflowuid", "65534\n")
    found = facts.read(tmp_path)
    assert (found["root_mount"], found["proc_mount"], found["proc_masks"], found["mounts"]) == ("overlay", "ro", "", 2)
    table.write_text("1 1 0:2 / / rw - rootfs rootfs rw\n")
    assert facts.read(tmp_path)["root_mount"] == "rootfs"
    table.write_text("30 29 0:5 / /dev rw - tmpfs tmpfs rw\n")  # in a chroot that is no mount point
    assert facts.read(tmp_path)["root_mount"] == "absent"


def test_places_are_looked_at(tmp_path: Path) -> None:
    found = facts.read(tmp_path)
    assert (found["tmp"], found["container"], found["userns"], found["proc_fresh"]) == (
        "absent",
        False,
        "absent",
        False,
    )
    assert found["dev_missing"] == "null zero full random urandom tty"
    write(tmp_path, ".dockerenv", "")
    (tmp_path / "tmp").mkdir()
    write(tmp_path, "dev/null", "")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/self").symlink_to(str(os.getpid()))
    found = facts.read(tmp_path)
    assert (found["tmp"], found["container"], found["proc_fresh"]) == ("writable", True, True)
    assert found["dev_missing"] == "zero full random urandom tty"


def test_a_full_tmp_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    whole = os.statvfs(tmp_path)
    full = os.statvfs_result([*whole[:4], 0, *whole[5:]])
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    assert facts.tmp(tmp_path) == "full"


@pytest.mark.parametrize(
    ("release", "version", "gvisor"),
    [
        ("4.4.0", "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016", True),
        ("4.4.0-22621-Microsoft", "Linux version 4.4.0-22621-Microsoft (Microsoft@Microsoft.com)", False),  # WSL 1
        ("6.12.0", "Linux version 6.12.0", False),
    ],
)
def test_gvisor_is_told_by_its_kernel(tmp_path: Path, release: str, version: str, gvisor: bool) -> None:
    write(tmp_path, "proc/sys/kernel/osrelease", f"{release}\n")
    write(tmp_path, "proc/version", f"{version}\n")
    assert facts.read(tmp_path)["gvisor"] is gvisor


def test_what_a_child_tells_of_a_fresh_user_namespace_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    told = "call_unshare=done\nuserns_label=unprivileged_userns (enforce)\ncall_pivot=EFAULT\nother=1\n"
    monkeypatch.setattr("appliance.calls.process.run", lambda *_, **__: completed(out=told))
    assert calls.in_a_namespace() == {
        "call_unshare": "done", "userns_label": "unprivileged_userns (enforce)", "call_pivot": "EFAULT",
    }  # fmt: skip

    def refused(*_: object, **__: object) -> Completed:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("appliance.calls.process.run", refused)
    assert calls.in_a_namespace() == {}


@pytest.mark.parametrize(
    ("version", "told"),
    [("0.8.0", True), ("0.11.1", True), ("0.12.0", False), ("1.0", False), ("", False), ("new", False)],
)
def test_a_bwrap_with_a_known_weakness_is_a_warning_and_no_fault(version: str, told: bool) -> None:
    found = advice.warnings({"bwrap_version": version, "bwrap_package": "x"})
    assert bool(found) is told
    assert all("CVE-2026-87766" in line and "Next: " in line for line in found)


def test_a_backport_of_the_fix_is_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "BACKPORTS", frozenset({"0.11.0-2+fixed"}))
    assert advice.warnings({"bwrap_version": "0.11.0", "bwrap_package": "0.11.0-2+fixed"}) == ()
    assert advice.warnings({"bwrap_version": "0.11.0", "bwrap_package": "0.11.0-2"}) != ()


def test_the_package_of_bwrap_is_read(tmp_path: Path) -> None:
    assert "bwrap_package" not in facts.bwrap_release(tmp_path)
    status = (
        "Package: bsdutils\nVersion: 1:2.41\n\nPackage: bubblewrap\nStatus: install ok installed\n"
        "Description: x\n y\nVersion: 0.12.0-1~deb13u1\n\nPackage: c\nVersion: 3\n"
    )
    write(tmp_path, "var/lib/dpkg/status", status)
    assert facts.bwrap_release(tmp_path)["bwrap_package"] == "0.12.0-1~deb13u1"


def test_an_absent_file_is_a_fact_and_an_unreadable_one_is_none(tmp_path: Path) -> None:
    found = facts.read(tmp_path)
    assert found["apparmor_restrict_unprivileged_userns"] == "absent"
    (tmp_path / "proc/sys/kernel/apparmor_restrict_unprivileged_userns").mkdir(parents=True)
    assert "apparmor_restrict_unprivileged_userns" not in facts.read(tmp_path)


def test_labels_are_read(tmp_path: Path) -> None:
    assert facts.label(tmp_path) == "absent"
    write(tmp_path, "proc/self/attr/current", "docker-default (enforce)\n")
    assert facts.label(tmp_path) == "docker-default (enforce)"
    write(tmp_path, "proc/self/attr/current", "system_u:system_r:container_t:s0:c1,c2\0")
    assert facts.label(tmp_path) == "system_u:system_r:container_t:s0:c1,c2"


def test_facts_of_this_machine_can_be_printed() -> None:
    found = facts.everything()
    assert found["uid"] == os.getuid()
    assert (found["proc_fresh"], found["userns"], found["gvisor"]) == (True, "present", False)
    assert found["call_netlink"] == "done"
    assert {"root_mount", "proc_mount", "mounts", "tmp", "dev_missing", "bwrap_mode", "call_unshare"} <= found.keys()
    assert {found["call_clone"], found["call_mount"], found["call_umount"]} <= {"EPERM", "EINVAL", "EFAULT", "ENOSYS"}
    json.dumps(found)


# The contract.


def test_the_report_keeps_its_contract() -> None:
    fault = Fault("proc-masked", "Masked.", "type `x`", "bwrap: no", {"uid": 10001}, ("gvisor",))
    steps = (selftest.Step("user", True, 0.00412345), selftest.Step("proc", False, 0.01))
    report = selftest.Report(False, 0.0142, steps, fault)
    assert json.loads(json.dumps(report.to_json())) == {
        "ok": False,
        "seconds": 0.0142,
        "steps": [{"name": "user", "ok": True, "seconds": 0.0041}, {"name": "proc", "ok": False, "seconds": 0.01}],
        "fault": {
            "cause": "proc-masked",
            "sentence": "Masked.",
            "remedy": "type `x`",
            "symptom": "bwrap: no",
            "also": ["gvisor"],
            "unsupported": False,
            "page": "docs/faults.md#proc-masked",
            "facts": {"uid": 10001},
        },
        "warnings": [],
    }
    assert selftest.Report(True, 0.2, (), None).to_json()["fault"] is None
