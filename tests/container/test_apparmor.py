"""AppArmor, in a kernel that has it: each fault that a host's profiles make, the incident, and each rule of ours.

The engine's own kernel may have no AppArmor, so all of it happens in the virtual machine of tests/vm.
"""

import platform
from typing import Any

import pytest

from appliance import bounds

from .machine import Machine
from .stack import PROJECT

PROFILE = (PROJECT / "docker/apparmor/review-appliance").read_text()
BODY = PROFILE[PROFILE.index("{\n") + 2 : PROFILE.rindex("}")]
RULES = [line.strip() for line in BODY.splitlines() if line.strip() and not line.strip().startswith("#")]
NO_RIGHTS = "CapBnd:\t0000000000000000"

UNWATCHED = {"a full jail": "0 MB", "said of it": ""}

# What is different without a rule: of what a process can do, or the cause of the self-test.
MISSED: dict[str, dict[str, str] | str] = {
    "userns,": "apparmor-userns-denied: bwrap: Creating new namespace failed: Permission denied",
    "mount,": "apparmor-docker-default: bwrap: Failed to make / slave: Permission denied",
    "umount,": "apparmor-docker-default: bwrap: unmount old root: Permission denied",
    "pivot_root,": "apparmor-docker-default: bwrap: pivot_root",
    "capability sys_admin,": "unknown: bwrap: No permissions to create",
    "capability net_admin,": "unknown: bwrap: loopback: Failed RTM_NEWADDR",
    "unix,": {"socket unix": "EACCES"},
    "network netlink raw,": {"socket netlink raw": "EACCES"},
    "network inet stream,": {"socket inet stream": "EACCES"},
    "network inet dgram,": {"socket inet dgram": "EACCES"},
    "network inet6 stream,": {"socket inet6 stream": "EACCES"},
    "network inet6 dgram,": {"socket inet6 dgram": "EACCES"},
    "ptrace (read, readby) peer=review-appliance,": UNWATCHED,
    "capability sys_ptrace,": UNWATCHED,
    "signal (send, receive) peer=review-appliance,": {"stop a process of its own": "EACCES"},
    "signal (receive) peer=unconfined,": {"be stopped from outside": "EACCES"},
    "deny @{PROC}/{bus,fs,irq,sys}/** wklx,": {
        "write /proc/sys/vm/drop_caches": "done",
        "write /proc/irq/default_smp_affinity": "done",
    },
    "deny @{PROC}/sysrq-trigger rwklx,": {"write /proc/sysrq-trigger": "done"},
    "deny @{PROC}/{kcore,keys,latency_stats,sched_debug,timer_list} rwklx,": {
        "read /proc/kcore": "EPERM",  # of the kernel, no longer of AppArmor: it asks for a capability
        "read /proc/keys": "done",
        "read /proc/timer_list": "done",
    },
    "deny @{PROC}/{acpi,asound,scsi}/** rwklx,": {"read /proc/acpi/wakeup": "done"},
    "deny /sys/{firmware,kernel/security}/** rwklx,": {
        "read /sys/kernel/security/apparmor/profiles": "done",
        "read /sys/firmware/acpi/tables/DSDT": "done",
    },
    "deny /**/sys/kernel/{core_pattern,modprobe,poweroff_cmd} wklx,": {
        "write /tmp/proc/sys/kernel/core_pattern": "done"
    },
}


@pytest.fixture(scope="module")
def trials(machine: Machine | None) -> dict[str, dict[str, Any]]:
    if platform.machine() != "x86_64":
        pytest.skip("the virtual machine of the tests is made for x86-64 alone")
    assert machine is not None
    return machine.trials()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("trial", "cause", "step", "label"),
    [
        ("an unconfined bwrap on Ubuntu", "apparmor-unprivileged-userns", "user", "unprivileged_userns (enforce)"),
        ("the engine's profile", "apparmor-docker-default", "user", "docker-default (enforce)"),
        ("a profile without userns", "apparmor-userns-denied", "user", "no-userns (enforce)"),
        ("bwrap-userns-restrict", "apparmor-bwrap-restrict", "nested", "unconfined"),
    ],
)
def test_a_hosts_profile_is_named(
    trials: dict[str, dict[str, Any]], trial: str, cause: str, step: str, label: str
) -> None:
    told = trials[trial]
    assert (told["ok"], told["step"]) == (False, step), told
    assert (told["fault"]["cause"], told["fault"]["facts"]["label"]) == (cause, label), told
    assert "docker/apparmor/review-appliance" in told["fault"]["remedy"]


@pytest.mark.timeout(900)
def test_under_our_profile_all_of_it_works_beside_the_hosts(trials: dict[str, dict[str, Any]]) -> None:
    """With Codex nested in the jail, and a whole review, attacks included."""
    told = trials["ours beside bwrap-userns-restrict"]
    assert told["ok"] and not any("refuses" in said for said in told["warnings"]), told
    rehearsal = trials["a rehearsal under ours"]
    assert rehearsal["code"] == 0 and "The chain works" in rehearsal["out"], rehearsal


@pytest.mark.timeout(900)
def test_a_profile_that_comes_while_it_runs_costs_nothing_and_heals(trials: dict[str, dict[str, Any]]) -> None:
    told = trials["the host's profile comes and goes while it runs"]
    assert [line.split(":")[0] for line in told["seen"]] == ["healthy", "unhealthy", "healthy"], told
    assert told["seen"][1].startswith("unhealthy: apparmor-bwrap-restrict: ")
    assert "Next: load the container's own AppArmor profile" in told["seen"][1]
    (_, before), (cause, during), (none, after) = told["attempts"]
    assert (cause, none) == ("apparmor-bwrap-restrict", "")
    assert before == during == after == [1], "none is counted but that of the review before"
    assert told["code"] == 0


@pytest.mark.timeout(900)
def test_what_it_allows_and_what_it_refuses(trials: dict[str, dict[str, Any]]) -> None:
    powers = trials["with every rule"]["powers"]
    refused = {name for name in powers if name.startswith(("write ", "read ")) or name == "socket inet raw"}
    assert len(refused) > 10
    assert {powers[name] for name in refused} <= {"EACCES", "ENOENT"}, powers
    assert powers.pop("capabilities in a jail") == NO_RIGHTS
    assert powers.pop("a full jail") == "140 MB", "50, the 64 of CODEX_HOME, and 30 of a sandbox"
    assert powers.pop("said of it") == bounds.HOME_USED_UP
    assert {powers[name] for name in powers if name not in refused} == {"done"}, powers


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_missed(trials: dict[str, dict[str, Any]], rule: str) -> None:
    told = trials[f"without: {rule}"]
    if rule == "file,":
        assert "Permission denied" in told["changed"]["start"], told
    elif rule == "capability setpcap,":
        assert told["changed"]["capabilities in a jail"] != NO_RIGHTS, told
    elif isinstance(missed := MISSED[rule], dict):
        assert told["changed"] == missed, told
        if missed is UNWATCHED:
            assert told["ok"] and "refuses the appliance a look" in told["warnings"][0], told
    else:
        fault = told["fault"]
        assert f"{fault['cause']}: {fault['symptom']}".startswith(missed), told
