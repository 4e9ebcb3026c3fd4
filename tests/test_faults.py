"""Faults are named from text and facts; a text that only quotes bwrap is no fault."""

import json
import re

import pytest

from appliance.core.catalogue import CATALOGUE, UNKNOWN
from appliance.core.faults import MAX_SYMPTOM, classify, is_bwrap_failure, named

DEBIAN = (
    "bwrap: No permissions to create a new namespace, likely because the kernel does not allow non-privileged user "
    "namespaces. See <https://deb.li/bubblewrap> or <file:///usr/share/doc/bubblewrap/README.Debian.gz>."
)
UPSTREAM = (
    "bwrap: No permissions to creating new namespace, likely because the kernel does not allow non-privileged user "
    "namespaces. On e.g. debian this can be enabled with 'sysctl kernel.unprivileged_userns_clone=1'."
)
UID_MAP = "bwrap: setting up uid map: Permission denied"
UID_MAP_EPERM = "bwrap: setting up uid map: Operation not permitted"
LOOPBACK = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted"

# What `appliance.facts` reads in a well container on a kernel without AppArmor.
PLAIN: dict[str, object] = {
    "uid": 10001,
    "seccomp": "2",
    "label": "absent",
    "jail_label": "absent",
    "apparmor_restrict_unprivileged_userns": "absent",
    "unprivileged_userns_clone": "absent",
    "proc_masks": "",
    "pids_denied": 0,
    "call_clone": "EINVAL",
    "call_mount": "EFAULT",
    "call_umount": "EFAULT",
}
UBUNTU = {**PLAIN, "label": "unconfined", "apparmor_restrict_unprivileged_userns": "1"}

# Texts of public reports and of measurements, with no fact beside them.
REPORTED = [
    ("apparmor-unprivileged-userns", UID_MAP),
    ("seccomp-clone", UPSTREAM),
    ("seccomp-clone", DEBIAN),
    ("seccomp-mount", "bwrap: Failed to make / slave: Operation not permitted"),
    ("proc-masked", "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"),
    ("proc-masked", "bwrap: Can't mount proc on /proc: Operation not permitted"),
    ("seccomp-pivot", "bwrap: pivot_root: Operation not permitted"),
    ("seccomp-umount", "bwrap: unmount old root: Operation not permitted"),
    ("userns-second", "bwrap: unshare user ns: Operation not permitted"),
    (
        "userns-limit",
        "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
    ),
    ("userns-limit", "bwrap: Creating new namespace failed: No space left on device"),
    ("bwrap-too-old", "bwrap: Unknown option --argv0"),
    (
        "bwrap-missing",
        "thread 'main' (...) panicked at linux-sandbox/src/launcher.rs:43:13:\nbubblewrap is unavailable: no system "
        "bwrap was found on PATH and no bundled codex-resources/bwrap binary was found next to the Codex executable",
    ),
    ("pids-limit", "bwrap: Creating new namespace failed: Resource temporarily unavailable"),
    ("pids-limit", "bwrap: Can't fork for pid 1: Resource temporarily unavailable"),
    ("jail-layout", "bwrap: Can't mkdir /w/.git: Permission denied"),
    ("jail-layout", "bwrap: Can't create file at /var/www/x/.codex: Permission denied"),
    ("unknown", "bwrap: loopback: Failed RTM_NEWADDR: No child processes"),
    ("unknown", "bwrap: something that nobody has seen yet"),
]


@pytest.mark.parametrize(("cause", "text"), REPORTED)
def test_reported_texts_without_facts(cause: str, text: str) -> None:
    fault = classify("nested", text, 1, {})
    assert fault.cause == cause
    assert fault.facts["told_by"] == ("nothing" if cause == "unknown" else "text")


@pytest.mark.parametrize(
    ("cause", "text", "facts"),
    [
        # One text, four causes: only the facts tell.
        ("seccomp-clone", DEBIAN, PLAIN | {"call_clone": "EPERM"}),
        ("apparmor-bwrap-restrict", DEBIAN, UBUNTU | {"jail_label": "bwrap//&unpriv_bwrap (enforce)"}),
        ("apparmor-unprivileged-userns", DEBIAN, UBUNTU),
        ("unknown", DEBIAN, PLAIN),
        # Seccomp forbids the call, whatever AppArmor would have said after it.
        ("seccomp-clone", DEBIAN, UBUNTU | {"call_clone": "EPERM", "label": "docker-default (enforce)"}),
        ("seccomp-clone", DEBIAN, UBUNTU | {"call_clone": "EPERM"}),
        # The network's misleading text.
        ("apparmor-bwrap-restrict", LOOPBACK, UBUNTU | {"jail_label": "bwrap//&unpriv_bwrap (enforce)"}),
        ("apparmor-unprivileged-userns", LOOPBACK, UBUNTU),
        ("unknown", LOOPBACK, PLAIN),
        ("apparmor-bwrap-restrict", UID_MAP_EPERM, UBUNTU | {"jail_label": "unpriv_bwrap (enforce)"}),
        ("unknown", UID_MAP_EPERM, UBUNTU),
        ("apparmor-unprivileged-userns", UID_MAP, UBUNTU),
        ("apparmor-unprivileged-userns", UID_MAP, PLAIN | {"label": "unprivileged_userns (enforce)"}),
        ("unknown", UID_MAP, UBUNTU | {"label": "review-appliance (enforce)"}),
        ("unknown", UID_MAP, PLAIN),
        ("unknown", UID_MAP, UBUNTU | {"apparmor_restrict_unprivileged_userns": "0"}),
        ("seccomp-mount", "bwrap: Failed to make / slave: Operation not permitted", PLAIN | {"call_mount": "EPERM"}),
        ("unknown", "bwrap: Failed to make / slave: Operation not permitted", PLAIN),
        ("unknown", "bwrap: Failed to make / slave: Permission denied", PLAIN | {"call_mount": "EPERM"}),
        ("unknown", "bwrap: pivot_root: Operation not permitted", PLAIN | {"seccomp": "0"}),
        # A refused process decides against any text: a panic of Codex looks different each time.
        ("pids-limit", "thread 'main' panicked at somewhere", PLAIN | {"pids_denied": 3}),
        ("pids-limit", "it did not end within 30 s", PLAIN | {"pids_denied": 1}),
        ("probe-timeout", "it did not end within 30 s", PLAIN),
        ("proc-masked", "Codex's sandbox kept the /proc around it (7 processes visible)", PLAIN),
        ("proc-masked", "Codex's sandbox has no /proc: it could not mount a fresh one", PLAIN),
        ("breach", "the sandbox let a command read CODEX_HOME", PLAIN),
        ("relay-failed", "relay: socat does not listen", PLAIN),
    ],
)  # fmt: skip
def test_facts_tell_causes_with_one_text_apart(cause: str, text: str, facts: dict[str, object]) -> None:
    assert classify("nested", text, 1, facts).cause == cause


def test_what_is_unknown_keeps_text_and_facts() -> None:
    fault = classify("codex-sandbox", "  what is this\nsecond line\n", 101, PLAIN)
    assert fault.cause == "unknown"
    assert fault.symptom == "what is this\nsecond line"
    assert fault.facts == {**PLAIN, "step": "codex-sandbox", "exit_code": 101, "told_by": "nothing"}
    assert "appliance selftest --json" in fault.remedy
    json.dumps(dict(fault.facts))


def test_a_symptom_is_bounded() -> None:
    assert len(classify("jail", "x" * 100_000, 1, {}).symptom) == MAX_SYMPTOM


def test_a_cause_that_needs_no_text_is_named() -> None:
    fault = named("root-user", "uid 0", {"uid": 0})
    assert (fault.cause, fault.symptom, fault.facts, fault.also) == ("root-user", "uid 0", {"uid": 0}, ())
    assert str(fault).startswith("root-user: The container runs as root")
    with pytest.raises(KeyError):
        named("no-such-cause")


def test_every_entry_can_be_read_and_acted_upon() -> None:
    entries = (*CATALOGUE, UNKNOWN)
    assert len({entry.cause for entry in entries}) == len(entries)
    for entry in entries:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", entry.cause)
        assert entry.sentence[0].isupper()
        assert entry.sentence.endswith(".")
        assert "`" in entry.remedy, f"{entry.cause}: nothing to type"
        assert "\n" not in entry.sentence + entry.remedy
        for pattern in entry.texts + entry.shared + tuple(one.pattern for one in entry.must + entry.never):
            re.compile(pattern)
        assert not entry.shared or entry.must or entry.confirm, f"{entry.cause}: a shared text needs facts"


def test_advice_that_does_harm_is_never_given() -> None:
    advice = " ".join(entry.remedy for entry in CATALOGUE)
    for wrong in (
        r"(?<!un)privileged", "SYS_ADMIN", "seccomp=unconfined", "apparmor=unconfined", "aa-disable",
        "restrict_unprivileged_userns=0", "passwd", "df -h /$", "no-new-privileges", "yama",
    ):  # fmt: skip
        assert not re.search(wrong, advice), wrong
    assert "disk" not in named("userns-limit").remedy  # its text says that no space is left, and means no disk


def test_a_fact_that_was_not_read_neither_proves_nor_refutes() -> None:
    facts = {key: value for key, value in UBUNTU.items() if key != "label"}
    assert classify("nested", LOOPBACK, 1, facts).cause == "unknown"
    assert classify("nested", UID_MAP, 1, facts).cause == "apparmor-unprivileged-userns"


@pytest.mark.parametrize("text", [UID_MAP, LOOPBACK, DEBIAN])
@pytest.mark.parametrize(
    ("cause", "facts"),
    [
        ("apparmor-unprivileged-userns", UBUNTU),
        ("apparmor-bwrap-restrict", UBUNTU | {"jail_label": "bwrap//&unpriv_bwrap (enforce)"}),
        ("unknown", UBUNTU | {"label": "review-appliance (enforce)"}),
    ],
    ids=["R54-absent", "R54-bwrap-userns-restrict", "R54-ours"],
)
def test_R54_which_profile_stands_in_the_way_is_told_by_the_facts(
    cause: str, facts: dict[str, object], text: str
) -> None:
    found = classify("nested", text, 1, facts)
    assert found.cause == cause, "under our own profile it is none of AppArmor's"
    assert found.remedy


BWRAP_FAILED = [
    UID_MAP,
    UID_MAP + "\n",
    f"Child process exited with code 1: {UID_MAP}",
    f"<3>{UID_MAP}",
    "Child process exited with code 1: <3>bwrap: Can't mount proc on /newroot/proc: Operation not permitted",
    DEBIAN,
    UPSTREAM,
    LOOPBACK,
    "bwrap: Failed to make / slave: Permission denied",
    "bwrap: pivot_root: Invalid argument",
    "bwrap: unmount old root: Operation not permitted",
    "bwrap: unshare user ns: Operation not permitted",
    "bwrap: Creating new namespace failed: Resource temporarily unavailable",
    "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
    "bwrap: Creating new namespace failed, likely because the kernel does not support user namespaces.  bwrap must be "
    "installed setuid on such systems.",
    "bwrap: Can't fork for pid 1: Resource temporarily unavailable",
    "bwrap: open /proc/3/ns/ns failed: No such file or directory",
    "bwrap: Can't read /proc/sys/kernel/overflowuid: No such file or directory",
    "bwrap: Can't bind mount /oldroot/dev/null on /newroot/dev/null: Unable to mount source on destination: No such "
    "file or directory",
    "bwrap: Unexpected capabilities but not setuid, old file caps config?",
    "bwrap: capset failed: Operation not permitted",
]
NOT_BWRAP = [
    "",
    "\n",
    "The new README says to look for `bwrap: setting up uid map: Permission denied` and then load the profile. LGTM.",
    "npm error ENOENT: @bubblewrap/cli not found; run bubblewrap init --manifest",
    "bwrap: execvp make: No such file or directory",
    "codex-linux-sandbox: bwrap could not mount /proc; retrying with --no-proc",
    "bwrap: Unknown option --argv0",
    "bwrap: --bind takes two arguments",
    "bwrap: No command specified",
    "usage: bwrap [OPTIONS...] [--] COMMAND [ARGS...]",
    f"{UID_MAP} is what the README quotes",
    f"{UID_MAP}. LGTM",
    f"> {UID_MAP}",
    f"FAULTS.md:12:{UID_MAP}",
    f"12: {UID_MAP}",
    f"$ review\n{UID_MAP}",
    f"{UID_MAP}\nLoad the profile then.",
    f"# Faults\n\n{UID_MAP}\n",
    f"make: *** [Makefile:2: test] Error 1\n{UID_MAP}",
    f"{UID_MAP}\n" * 20,
    "bwrap: I have seen this in the log: Permission denied",
]


@pytest.mark.parametrize("output", BWRAP_FAILED)
def test_only_a_failed_bwrap_is_a_jail_fault_own_lines(output: str) -> None:
    assert is_bwrap_failure(output)


@pytest.mark.parametrize("output", NOT_BWRAP)
def test_only_a_failed_bwrap_is_a_jail_fault_quotes(output: str) -> None:
    assert not is_bwrap_failure(output)


def test_a_long_text_is_judged_quickly() -> None:
    assert not is_bwrap_failure("bwrap: Can't mount " + ": Permission" * 100_000)
