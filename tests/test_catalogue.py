"""The whole catalogue: public reports, a case of our own per cause, two causes at once, and what is no fault."""

import json
import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from test_faults import DEBIAN, LOOPBACK, PLAIN, UBUNTU, UID_MAP, UID_MAP_EPERM, UPSTREAM

from appliance.core.catalogue import CATALOGUE, Entry
from appliance.core.faults import beside, classify, cured, is_bwrap_failure, name_of, named

DATA = Path(__file__).parent / "data"
FAULTS = (Path(__file__).parent.parent / "docs" / "faults.md").read_text(encoding="utf-8")
NO_FAULT = "not-a-jail-fault"


def lines(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


# The facts of these files have the names that `appliance.facts` gives them.
CASES = [(it["cause"], it["stderr"], it.get("facts", {}), it["id"]) for it in lines("fault-cases.jsonl")]
REPORTS = [(it["cause"], it["text"], it.get("facts", {}), it["source"]) for it in lines("fault-reports.jsonl")]


@pytest.mark.parametrize(("cause", "text", "facts", "source"), CASES + REPORTS, ids=lambda value: str(value)[-40:])
def test_a_public_report_gets_its_cause(cause: str, text: str, facts: dict[str, object], source: object) -> None:
    if cause == NO_FAULT:
        assert name_of(text, facts) is None
        assert classify("nested", text, 1, facts).cause == "unknown"
        assert not is_bwrap_failure(text)
    else:
        assert name_of(text, facts) == cause
        assert classify("nested", text, 1, facts).cause == cause


def test_the_reports_are_of_many_and_both_kinds() -> None:
    assert len({source for _, _, _, source in REPORTS}) >= 40
    assert len([cause for cause, *_ in CASES + REPORTS if cause == NO_FAULT]) >= 8


# One case of our own per cause, with all the facts that decide read. The text is bwrap's unless it is said whose.
HOST = {**PLAIN, "root_mount": "overlay", "gvisor": False, "userns": "present", "call_unshare": "done"}
APPARMOR = {**HOST, **UBUNTU}
ROOT = {**HOST, "uid": 0}
OWN: dict[str, tuple[str, dict[str, object]]] = {
    "root-without-userns": ("Creating new namespace failed: Operation not permitted", {**ROOT, "cap_bnd": "0" * 16}),
    "root-without-setfcap": (
        "setting up uid map: Operation not permitted",
        {**ROOT, "cap_bnd": "0000000000200000"},
    ),
    "stray-capabilities": (
        "Unexpected capabilities but not setuid, old file caps config?",
        {**HOST, "cap_prm": "0000000000001000"},
    ),
    "setuid-bwrap": ("capset failed: Operation not permitted", {**HOST, "bwrap_mode": "4755"}),
    "bwrap-missing": ("execvp bwrap: No such file or directory", HOST),
    "bwrap-too-old": ("Unknown option --perms", {**HOST, "bwrap_version": "0.4.1"}),
    "pids-limit": ("Can't fork for pid 1: Resource temporarily unavailable", {**HOST, "pids_denied": 2}),
    "memory-limit": ("", {**HOST, "oom_kills": 1}),
    "userns-second": ("unshare user ns: Operation not permitted", {**HOST, "call_unshare": "EPERM"}),
    "userns-limit": (
        "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
        {**HOST, "call_unshare": "ENOSPC"},
    ),
    "mount-max": (
        "Failed to make / slave: Limit exceeded (ENOSPC). (Hint: Check that /proc/sys/fs/mount-max is sufficient, "
        "typically 100000)",
        HOST,
    ),
    "seccomp-clone": (DEBIAN, {**HOST, "call_clone": "EPERM"}),
    "seccomp-mount": ("Failed to make / slave: Operation not permitted", {**HOST, "call_mount": "EPERM"}),
    "seccomp-pivot": ("pivot_root: Operation not permitted", {**HOST, "call_pivot": "EPERM"}),
    "seccomp-umount": ("unmount old root: Operation not permitted", {**HOST, "call_umount": "EPERM"}),
    "no-net-namespace": (
        "loopback: Failed to create NETLINK_ROUTE socket: Operation not permitted",
        {**HOST, "call_netlink": "EPERM"},
    ),
    "proc-masked": ("Can't mount proc on /newroot/proc: Operation not permitted", {**HOST, "proc_masks": "/proc/bus"}),
    "proc-readonly": ("setting up uid map: Read-only file system", {**HOST, "proc_mount": "ro"}),
    "proc-stale": ("open /proc/3/ns/ns failed: No such file or directory", {**HOST, "proc_fresh": False}),
    "proc-missing": ("Can't open /proc: No such file or directory", {**HOST, "proc_mount": "absent"}),
    "userns-sysctl-off": (UPSTREAM, {**HOST, "unprivileged_userns_clone": "0"}),
    "gvisor": ("loopback: Failed RTM_NEWLINK: Success", {**HOST, "gvisor": True}),
    "no-userns-kernel": (
        "Creating new namespace failed, likely because the kernel does not support user namespaces.  bwrap must be "
        "installed setuid on such systems.",
        {**HOST, "userns": "absent"},
    ),
    "enosys": ("Creating new namespace failed: Function not implemented", {**HOST, "call_clone": "ENOSYS"}),
    "chroot-or-rootfs": (DEBIAN, {**HOST, "root_mount": "absent"}),
    "apparmor-bwrap-restrict": (DEBIAN, {**APPARMOR, "jail_label": "bwrap//&unpriv_bwrap (enforce)"}),
    "apparmor-profile-clash": (UID_MAP, {**APPARMOR, "label": "bwrap (unconfined)"}),
    "apparmor-unconfined-restricted": (
        UID_MAP,
        {**APPARMOR, "label": "my-own (unconfined)", "apparmor_restrict_unprivileged_unconfined": "1"},
    ),
    "apparmor-unprivileged-userns": (UID_MAP, APPARMOR),
    "apparmor-userns-denied": (
        "Creating new namespace failed: Permission denied",
        {**APPARMOR, "label": "my-own (enforce)"},
    ),
    "apparmor-docker-default": (
        "Failed to make / slave: Permission denied",
        {**APPARMOR, "label": "docker-default (enforce)"},
    ),
    "lxc": ("pivot_root: Permission denied", {**APPARMOR, "label": "lxc-container-default-cgns (enforce)"}),
    "selinux": (
        "Failed to mount tmpfs: Permission denied",
        {**HOST, "label": "system_u:system_r:container_t:s0:c1,c2"},
    ),
    "codex-no-tmp": ("error building bubblewrap command: Read-only file system (os error 30)", HOST),
    "codex-home-under-tmp": ("execvp codex-linux-sandbox: No such file or directory", HOST),
    "codex-landlock": ("error applying legacy Linux sandbox restrictions: Sandbox(LandlockRestrict)", HOST),
    "no-tmp-dir": ("Failed to mount tmpfs: No such file or directory", {**HOST, "tmp": "absent"}),
    "dev-missing": (
        "Can't bind mount /oldroot/dev/null on /newroot/dev/null: No such file or directory",
        {**HOST, "dev_missing": "null zero"},
    ),
    "jail-layout": ("Can't chdir to /checkout: No such file or directory", HOST),
    "relay-failed": ("relay: socat does not listen", HOST),
    "breach": ("the sandbox let a command read CODEX_HOME", HOST),
    "state-unwritable": ("cannot prepare the self-test in /x: [Errno 30] Read-only file system: '/x'", HOST),
    "probe-timeout": ("it did not end within 15 s", HOST),
    "unknown": ("something that nobody has seen yet: Operation not permitted", HOST),
}
WITHOUT_TEXT = {
    "root-user",
    "codex-missing",
    "socat-missing",
    "git-missing",
    "battery-failed",
}  # certain before any program runs


@pytest.mark.parametrize("cause", OWN)
def test_each_cause_is_told_from_its_text_and_facts(cause: str) -> None:
    text, facts = OWN[cause]
    fault = classify("nested", text if ": " in text[:8] else f"bwrap: {text}", 1, facts)
    assert fault.cause == cause
    assert fault.facts["told_by"] in {"facts", "text", "nothing"}


def test_each_cause_has_a_case() -> None:
    assert {entry.cause for entry in CATALOGUE} == OWN.keys() - {"unknown"} | WITHOUT_TEXT


CERTAIN = [entry.cause for entry in CATALOGUE if entry.must or entry.confirm]


@pytest.mark.parametrize("cause", CERTAIN)
def test_where_facts_can_confirm_a_cause_they_do(cause: str) -> None:
    text, facts = OWN[cause]
    assert classify("nested", f"bwrap: {text.removeprefix('bwrap: ')}", 1, facts).facts["told_by"] == "facts"


# Facts decide between causes of one text; a text alone never does where facts were read.


@pytest.mark.parametrize("text", [DEBIAN, UPSTREAM, LOOPBACK, UID_MAP, UID_MAP_EPERM])
def test_a_text_of_several_causes_is_unknown_where_the_facts_fit_none(text: str) -> None:
    told = classify("nested", text, 1, HOST)
    assert (told.cause, told.facts["told_by"]) == ("unknown", "nothing")


@pytest.mark.parametrize(
    ("text", "facts", "cause"),
    [
        (DEBIAN, {"call_clone": "EPERM"}, "seccomp-clone"),
        (DEBIAN, {"unprivileged_userns_clone": "0"}, "userns-sysctl-off"),
        (DEBIAN, {"root_mount": "absent"}, "chroot-or-rootfs"),
        (DEBIAN, {"label": "unconfined", "apparmor_restrict_unprivileged_userns": "1"}, "apparmor-unprivileged-userns"),
        (DEBIAN, {"label": "unconfined", "jail_label": "bwrap//&unpriv_bwrap (enforce)"}, "apparmor-bwrap-restrict"),
        (LOOPBACK, {"gvisor": True}, "gvisor"),
        (LOOPBACK, {"label": "unconfined", "userns_label": "unprivileged_userns (enforce)"},
         "apparmor-unprivileged-userns"),
        (UID_MAP_EPERM, {"uid": 0, "cap_bnd": "0" * 16}, "root-without-setfcap"),
        (UID_MAP_EPERM, {"label": "x//&unpriv_bwrap (enforce)"}, "apparmor-bwrap-restrict"),
        ("bwrap: Creating new namespace failed: Operation not permitted", {"uid": 0, "cap_bnd": "0" * 16},
         "root-without-userns"),
        ("bwrap: Creating new namespace failed: Operation not permitted", {"bwrap_mode": "4755"}, "setuid-bwrap"),
        ("bwrap: pivot_root: Permission denied", {"label": "lxc-container-default-cgns (enforce)"}, "lxc"),
        ("bwrap: pivot_root: Permission denied", {"label": "docker-default (enforce)"}, "apparmor-docker-default"),
        ("bwrap: pivot_root: Permission denied", {"label": "system_u:system_r:container_t:s0"}, "selinux"),
        ("bwrap: Failed to mount tmpfs: Permission denied", {"label": "docker-default (enforce)"},
         "apparmor-docker-default"),
        ("bwrap: Creating new namespace failed: Permission denied", {"label": "system_u:system_r:container_t:s0"},
         "selinux"),
        ("bwrap: pivot_root: Operation not permitted", {"gvisor": True}, "gvisor"),
    ],
)  # fmt: skip
def test_one_text_and_other_facts_is_another_cause(text: str, facts: dict[str, object], cause: str) -> None:
    told = classify("nested", text, 1, {**HOST, "label": "unconfined", "jail_label": "unconfined", **facts})
    assert (told.cause, told.facts["told_by"]) == (cause, "facts")


def test_two_causes_that_fit_are_both_named_the_likelier_first() -> None:
    told = classify("user", DEBIAN, 1, {**APPARMOR, "call_clone": "EPERM"})
    assert (told.cause, told.also) == ("seccomp-clone", ("apparmor-unprivileged-userns",))
    assert "It may also be: apparmor-unprivileged-userns" in told.told
    assert "seccomp.json" in told.told
    second = classify("dev", "bwrap: unshare user ns: No space left on device", 1, {})
    assert (second.cause, second.also[:1]) == ("userns-second", ("userns-limit",))
    assert "disk" not in second.told


def test_with_no_facts_at_all_the_likelier_is_first_and_the_others_are_named() -> None:
    told = classify("user", DEBIAN, 1, {})
    assert told.cause == "seccomp-clone"
    assert {"userns-sysctl-off", "apparmor-bwrap-restrict", "apparmor-unprivileged-userns"} <= set(told.also)
    told = classify("net", LOOPBACK, 1, {})
    assert told.cause == "unknown"
    assert {"gvisor", "apparmor-bwrap-restrict", "apparmor-unprivileged-userns"} <= set(told.also)


def test_what_the_facts_refute_is_not_named_beside() -> None:
    assert classify("user", DEBIAN, 1, {**HOST, "call_clone": "EPERM"}).also == ()
    assert classify("net", LOOPBACK, 1, HOST).also == ()


def test_unsupported_is_what_no_setting_here_can_cure() -> None:
    unsupported = {entry.cause for entry in CATALOGUE if entry.unsupported}
    assert unsupported == {"gvisor", "no-userns-kernel", "enosys", "chroot-or-rootfs"}
    assert named("gvisor").unsupported
    assert not named("seccomp-clone").unsupported


# During a review: what was seen then, what is found or read afterwards.

SEEN = classify("review", UID_MAP, 1, {})


def test_a_fault_that_is_gone_is_named_from_its_text_and_from_the_facts_that_last() -> None:
    well_again = {**UBUNTU, "apparmor_restrict_unprivileged_userns": "0", "userns_label": "unconfined"}
    told = cured(SEEN, well_again)
    assert told.cause == "apparmor-unprivileged-userns"  # the profile or the sysctl may have been another one then
    assert told.facts["apparmor_restrict_unprivileged_userns"] == "0"
    assert told.facts["exit_code"] == 1
    assert "during a review" in told.told
    assert "review-appliance" in told.remedy


@pytest.mark.parametrize(
    ("text", "facts", "cause"),
    [
        (UID_MAP, HOST, "unknown"),  # no security module, then as now
        (DEBIAN, {**UBUNTU, "call_clone": "EPERM"}, "seccomp-clone"),
        (DEBIAN, HOST, "unknown"),
        ("thread 'main' panicked at x.rs:1:1", {**HOST, "pids_denied": 4}, "pids-limit"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", HOST, "proc-masked"),
    ],
)
def test_facts_that_last_decide_after_a_review_too(text: str, facts: dict[str, object], cause: str) -> None:
    assert cured(classify("review", text, 1, {}), facts).cause == cause


def test_what_the_probe_finds_is_first_and_another_cause_of_the_review_beside_it() -> None:
    found = classify(
        "proc", "bwrap: Can't mount proc on /proc: Operation not permitted", 1, {"proc_masks": "/proc/bus"}
    )
    both = beside(found, SEEN)
    assert (both.cause, both.also) == ("proc-masked", ("apparmor-unprivileged-userns",))
    assert beside(found, classify("review", LOOPBACK, 1, {})) == found
    assert beside(found, found) == found
    without = replace(found, facts={**found.facts, "label": "absent"})
    assert beside(without, SEEN) == without, "the facts of the probe refute it"


# What lies between bwrap and us.

READ_FROM = {
    "colours": f"\x1b[1;31m{UID_MAP}\x1b[0m",
    "carriage returns": f"{UID_MAP}\r\n",
    "level prefix": f"<3>{UID_MAP}",
    "pressure-vessel": f"pressure-vessel-wrap[252]: E: Child process exited with code 1: <3>{UID_MAP}",
    "error": f"error: {UID_MAP}",
    "exit code": f"exec failed (exit code: 1): {UID_MAP}",
    "docker logs -t": f"2026-11-30T16:25:39.123456789Z {UID_MAP}",
    "log line": f"2026-11-30 16:25:39,123 ERROR {UID_MAP}",
    "journald": f"Nov 30 16:25:39 host review-appliance[123]: {UID_MAP}",
    "compose": f"review-appliance  | {UID_MAP}",
    "kubernetes": f"2026-11-30T16:25:39.123456789Z stderr F {UID_MAP}",
    "github actions": f"2026-11-30T16:25:39.1234567Z ##[error]{UID_MAP}",
    "Codex's error": f"exec error: sandbox denied exec error, exit code: 1, stdout: , stderr: {UID_MAP}",
    "Codex's debug": f'Denied {{ output: Output {{ stderr: Stream {{ text: "{UID_MAP}\\n", lines: None }} }} }}',
    "kernel time": f"[12345.678901] {UID_MAP}",
    "json-file": json.dumps({"log": f"{UID_MAP}\n", "stream": "stderr", "time": "2026-11-30T16:25:39.1Z"}),
    "json": json.dumps({"exit_code": 1, "stderr": f"{UID_MAP}\n"}),
    "json string": json.dumps(f"{UID_MAP}\n"),
    "escaped end": f"{UID_MAP}\\n",
    "broken between words": "bwrap: setting up uid\nmap: Permission denied",
    "broken and indented": "  \u2514 bwrap: setting up uid map:\n    Permission denied",
    "broken in a word": "bwrap: setting up uid map: Permis\nsion denied",
    "broken and escaped": r"bwrap: setting up uid map:\nPermission denied",
    "Codex's panic around it": f"thread 'main' panicked at x.rs:1:1:\n{UID_MAP}\nnote: run with `RUST_BACKTRACE=1`",
    "what the model is told": f"Wall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n{UID_MAP}",
    "flatpak's end": f"{UID_MAP}\nerror: Failed to sync with dbus proxy",
    "before 0.2": UID_MAP.removeprefix("bwrap: "),
}  # fmt: skip


@pytest.mark.parametrize("text", READ_FROM.values(), ids=READ_FROM)
def test_what_lies_between_bwrap_and_us_hides_no_cause(text: str) -> None:
    assert name_of(text) == "apparmor-unprivileged-userns"
    assert classify("nested", text, 1, {}).cause == "apparmor-unprivileged-userns"


@pytest.mark.parametrize("width", [40, 60, 72, 80, 100])
@pytest.mark.parametrize("text", [DEBIAN, UPSTREAM])
def test_a_long_message_on_a_narrow_terminal(text: str, width: int) -> None:
    hard = "\n".join(text[at : at + width] for at in range(0, len(text), width))
    for broken in ("\n".join(textwrap.wrap(text, width)), hard):
        assert name_of(broken) == "seccomp-clone"
        assert is_bwrap_failure(broken)


OTHER_VERSIONS = [
    ("pivot_root: Invalid argument", "chroot-or-rootfs"),  # 0.1
    ("bwrap: mounting proc: Operation not permitted", "unknown"),
    ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "proc-masked"),  # to 0.8
    ("bwrap: pivot_root(/newroot): Operation not permitted", "seccomp-pivot"),  # from 0.3
    ("bwrap: umount old root: Operation not permitted", "seccomp-umount"),
    ("bwrap: Can't mkdir parents for /newroot/x: Permission denied", "jail-layout"),
    ("bwrap: Can't bind mount /oldroot/x on /newroot/x: realpath(destination): No such file or directory",
     "jail-layout"),  # from 0.6
    ("bwrap: Can't bind mount /oldroot/dev/null on /newroot/dev/null: No such file or directory", "dev-missing"),
    ("bwrap: Can't open source /dev/null: No such file or directory", "dev-missing"),  # 0.12
    ("bwrap: Can't open source /checkout: Permission denied", "jail-layout"),
    ("bwrap: Can't mount on symlink destination /newroot/x", "jail-layout"),
    ("bwrap: setuid use of bubblewrap is not supported", "setuid-bwrap"),
    ("bwrap: Failed to make / slave: Invalid argument", "chroot-or-rootfs"),
    ("bwrap: Can't parse /proc/sys/kernel/overflowuid", "unknown"),
    ("bwrap: setting up gid map: Permission denied", "apparmor-unprivileged-userns"),
    ("bwrap: Setting userns2 failed: Operation not permitted", "unknown"),
    ("bwrap: creation of new user namespaces was not disabled as requested", "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cause"), OTHER_VERSIONS)
def test_other_versions_of_bwrap_speak_otherwise(text: str, cause: str) -> None:
    assert name_of(text) == cause


QUOTED = [
    f"> {UID_MAP}", f"+{UID_MAP}", f"+ {UID_MAP}", f"-{UID_MAP}", f"# {UID_MAP}", f"* {UID_MAP}", f"// {UID_MAP}",
    f"`{UID_MAP}`", f"```\n{UID_MAP}\n```", f"| {UID_MAP} | load the profile |", f"'{UID_MAP}'",
    f"docs/faults.md:12:{UID_MAP}", f"12:{UID_MAP}", f"$ codex exec\n{UID_MAP}", f'print("{UID_MAP}")',
    f"diff --git a/x b/x\n@@ -1 +1 @@\n+{UID_MAP}", f"FAILED tests/test_x.py\n{UID_MAP}",
    f"make: *** [Makefile:2: test] Error 1\n{UID_MAP}", f"I saw:\n\n{UID_MAP}\n\nand stopped.",
    f"{UID_MAP} is what the README quotes", f"{UID_MAP} (see the README)", f"{UID_MAP}\nLoad the profile then.",
    f"If you see {UID_MAP}, load the profile.", json.dumps({"summary": UID_MAP, "verdict": "incorrect"}),
    f"The review says: {UID_MAP}", f"I saw on stderr: {UID_MAP}", f"The README has this text: {UID_MAP}",
    f"A known error: {UID_MAP}", "> bwrap: setting up uid\n> map: Permission denied",
    "bwrap: execvp make: No such file or directory",
    "bwrap: --bind takes two arguments", "bwrap: I have seen this in the log: Permission denied",
    "Failed to start: Permission denied", "mount: /proc: Operation not permitted.", "",
]  # fmt: skip


@pytest.mark.parametrize("text", QUOTED)
def test_what_only_quotes_such_a_line_is_no_fault(text: str) -> None:
    assert name_of(text) is None
    assert not is_bwrap_failure(text)


@pytest.mark.parametrize(
    "unit", ["bwrap: Can't mount x\ny\ny\ny\ny\ny\ny\n", "exit code stderr: ", "exit_code ", '"a": ', "{", "<3>"]
)
def test_no_text_keeps_it_busy(unit: str) -> None:
    """Minutes, where a pattern backtracks; a text of this length takes half a second at most."""
    name_of(unit * 20_000)
    is_bwrap_failure(unit * 20_000)


# The pages.


@pytest.mark.parametrize("entry", CATALOGUE, ids=lambda entry: entry.cause)
def test_each_cause_can_be_linked_to(entry: Entry) -> None:
    page, _, anchor = named(entry.cause).page.partition("#")
    assert page == "docs/faults.md"
    assert len(re.findall(rf'<a id="{anchor}"></a>', FAULTS)) == 1
