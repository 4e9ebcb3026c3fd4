"""docker/seccomp.json, read: what it lets through was seen in a trace or has its reason, and nothing else.

tests/container/test_seccomp.py leaves each rule out of it and sees what fails.
"""

import json
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parent.parent
CLONE_NEWUSER = 0x10000000
NAMESPACE_FLAGS = 0x7E020000
UNIX, INET, INET6, NETLINK = 1, 2, 10, 16
# For what they reach in the kernel, or in another process; for the engine's default allows many of them.
CLOSED = """
    add_key bpf chroot fsconfig fsmount fsopen init_module io_uring_enter io_uring_setup kexec_load keyctl
    mount_setattr move_mount open_by_handle_at open_tree perf_event_open reboot request_key sethostname setns swapon
    umount userfaultfd vmsplice tee
    ptrace process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd name_to_handle_at fanotify_init
    fanotify_mark memfd_create memfd_secret execveat personality modify_ldt mknod mknodat
    mq_open mq_unlink shmget shmat semget msgget ipc io_setup io_submit adjtimex clock_adjtime clock_settime
    setuid setgid setreuid setresuid setgroups setfsuid chown fchown lchown fchownat syslog
    landlock_create_ruleset add_watch inotify_init1 timer_settime socketcall
"""


@pytest.fixture(scope="module")
def profile() -> dict[str, Any]:
    read: dict[str, Any] = json.loads((PROJECT / "docker/seccomp.json").read_text())
    return read


@pytest.fixture(scope="module")
def rules(profile: dict[str, Any]) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = profile["syscalls"]
    return listed


def args_of(rules: list[dict[str, Any]], call: str) -> list[list[dict[str, Any]]]:
    return [rule.get("args", []) for rule in rules if call in rule["names"] and rule["action"] == "SCMP_ACT_ALLOW"]


def equal(index: int, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": "SCMP_CMP_EQ"}


def test_every_call_was_seen_or_has_its_reason(rules: list[dict[str, Any]]) -> None:
    known = json.loads((PROJECT / "tests/data/syscalls.json").read_text())
    named = {name for rule in rules for name in rule["names"]}
    assert named == set(known["seen"]) | set(known["kept"])
    assert not set(known["seen"]) & set(known["kept"])
    assert not named & set(known["refused"])


def test_what_is_not_named_is_refused(profile: dict[str, Any], rules: list[dict[str, Any]]) -> None:
    assert (profile["defaultAction"], profile["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 1)
    assert {rule["action"] for rule in rules} == {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}
    assert not {name for rule in rules for name in rule["names"]} & set(CLOSED.split())


def test_some_are_refused_with_the_error_that_makes_callers_fall_back(rules: list[dict[str, Any]]) -> None:
    told = {rule["errnoRet"]: rule["names"] for rule in rules if rule["action"] == "SCMP_ACT_ERRNO"}
    assert told.keys() == {38, 95}
    assert told[38] == ["clone3", "timer_create"]
    assert all(name.endswith("xattr") for name in told[95])


def test_clone_passes_without_a_namespace_or_with_one_of_users(rules: list[dict[str, Any]]) -> None:
    masked = {"index": 0, "op": "SCMP_CMP_MASKED_EQ"}
    assert args_of(rules, "clone") == [
        [masked | {"value": NAMESPACE_FLAGS, "valueTwo": 0}],
        [masked | {"value": CLONE_NEWUSER, "valueTwo": CLONE_NEWUSER}],
    ]
    assert args_of(rules, "unshare") == [[equal(0, CLONE_NEWUSER)]]


def test_sockets_are_of_four_families(rules: list[dict[str, Any]]) -> None:
    families = [equal(0, UNIX)], [equal(0, INET)], [equal(0, INET6)], [equal(0, NETLINK), equal(2, 0)]
    assert args_of(rules, "socket") == list(families)


def test_each_rule_says_whom_it_serves(rules: list[dict[str, Any]]) -> None:
    assert all(len(rule["comment"]) > 20 for rule in rules)
    assert len({rule["comment"] for rule in rules}) == len(rules)
    assert all(rule["names"] == sorted(set(rule["names"])) for rule in rules)


def test_both_machines_that_codex_is_built_for_and_no_32_bits(profile: dict[str, Any]) -> None:
    assert profile["archMap"] == [
        {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
        {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
    ]
