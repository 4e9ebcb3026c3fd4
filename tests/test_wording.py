"""What bwrap and Codex say in other words, and what surrounds it: texts that nobody showed the catalogue before."""

import json

import pytest
from test_faults import DEBIAN, LOOPBACK, UID_MAP

from appliance.core.error_words import ERRORS, in_english
from appliance.core.faults import classify, is_bwrap_failure, name_of

PROC = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
PANIC = "thread 'main' (2) panicked at linux-sandbox/src/linux_run_main.rs:300:9:"
RAN = "Chunk ID: 0a1b2c\nWall time: 0.0100 seconds\nProcess exited with code 1\nOriginal token count: 9\nOutput:\n"

AROUND = {
    "rsyslog": f"2026-11-30T10:11:12.123456+00:00 host review[9]: {PROC}",
    "escaped characters": json.dumps(PROC).replace("'", r"\u0027"),
    "escaped in a record": json.dumps({"level": "error", "stderr": f"{PROC}\n"}).replace("'", r"\u0027"),
    "escaped colours": rf"\u001b[31m{PROC}\u001b[0m",
    "a typesetter's apostrophe": PROC.replace("'", "\u2019"),
    "a full stop": f"{PROC}.",
    "another option's warning": f"bwrap: Only the last --chdir option will take effect\n{PROC}",
    "Codex's tool": f"{RAN}{PROC}",
    "Codex's words to people": f"exec\n/bin/bash -lc 'ls -l' in /w exited 1 in 3ms:\n{PROC}",
    "Codex's helper for files": f"cannot read `/w/a.png`: fs sandbox helper failed with status exit status: 1:\n{PROC}",
    "Codex's screen": f"\u2718 Failed to apply patch\n  \u2514 {PROC}",
    "Node": f"Error: Command failed: bwrap --ro-bind / / true\n{PROC}\n    at spawn (node:internal/errors:984:15)",
    "Python": f"subprocess.CalledProcessError: Command '['x']' returned non-zero exit status 1.\n{PROC}",
    "who waited for it": f"agent closed the stream (EOF); stderr: {PROC}",
    "a probe's word": f"codex sandbox linux probe failed: {PROC}",
    "a helper's word": f"cannot start a thread: fs sandbox helper failed: {PROC}",
    "a program's name": f"Codex CLI error: {PROC}",
    "the middle of a record": json.dumps({"level": "warn", "msg": PROC, "id": "00", "ts": "2026-11-30T10:11:12Z"}),
    "a heading": f"STDERR:\n{PROC}\n\nExit code: 1",
    "flatpak in German": f"{PROC}\nFehler: ldconfig ist fehlgeschlagen, Exit-Status 256",
    "another language": PROC.replace("Operation not permitted", "Die Operation ist nicht erlaubt"),
}  # fmt: skip


@pytest.mark.parametrize("text", AROUND.values(), ids=AROUND)
def test_what_surrounds_it_hides_no_cause(text: str) -> None:
    assert name_of(text) == "proc-masked"


ENDED_WELL = {
    "Codex's tool": RAN.replace("code 1", "code 0") + UID_MAP,
    "Codex's words to people": f"exec\n/bin/bash -lc 'cat a' in /w exited 0 in 3ms:\n{UID_MAP}",
    "a status after it": f"{UID_MAP}\nexit status 0",
    "on its line": f"exited with code 0: {UID_MAP}",
    "a record": json.dumps({"exit_code": 0, "stderr": f"{UID_MAP}\n"}),
    "the middle of a record": json.dumps({"msg": UID_MAP, "exit_code": 0, "ts": "2026"}),
    "a record that ends so": json.dumps({"stdout": f"{UID_MAP}\n", "exit_code": 0, "status": "completed"}),
}


@pytest.mark.parametrize("text", ENDED_WELL.values(), ids=ENDED_WELL)
def test_the_output_of_what_ended_well_is_no_fault(text: str) -> None:
    assert name_of(text) is None
    assert not is_bwrap_failure(text)


@pytest.mark.parametrize(
    "text",
    [
        f"ok 3 - {UID_MAP}", f"  \u2713 {UID_MAP} (3 ms)", f"<system-err>{UID_MAP}</system-err>", f"1,{UID_MAP},1",
        f"Every command failed: {UID_MAP}", f"`git diff` failed: {UID_MAP}",
        f"{DEBIAN} PASSED", f"{DEBIAN} is what it says", f"{DEBIAN[:-1]}</code>", f"E   AssertionError: {UID_MAP}",
        f"ffb6bf7a (A 2026-11-30 10:00:00 +0000 12) {UID_MAP}", "bwrap: setting up uid map: say which file",
        f"2026-11-30 10:00:00 INFO test_bwrap: parsed {UID_MAP}", "bwrap: Can't mount proc is a matter of masks.",
        f"{PANIC}\nFailed to execvp make: No such file or directory (os error 2)",
        "thread 'main' panicked at src/main.rs:3:9:\nindex out of bounds",
        "bwrap: Only the last --chdir option will take effect",
        "bwrap: Can't make symlink at /lib: existing destination is usr/lib32\nMove it then.",
    ],
)  # fmt: skip
def test_more_that_only_quotes_such_a_line(text: str) -> None:
    assert name_of(text) is None
    assert not is_bwrap_failure(text)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"id": 1, "cause": "x", "stderr": UID_MAP}), json.dumps({"stderr": f"{UID_MAP}\n"}),
        json.dumps(f"{UID_MAP}\n"), f"2026-11-30 16:25:39,123 ERROR {UID_MAP}", f"app-1  | {UID_MAP}",
        f"Nov 30 16:25:39 host codex[1]: {UID_MAP}", f"\u2514 {UID_MAP}", f"error: {UID_MAP}", rf"{UID_MAP}\n",
    ],
)  # fmt: skip
def test_a_record_or_a_log_that_a_command_shows_is_not_its_own_sandbox(text: str) -> None:
    """A person who reports such a text means it; of a command of the agent it is what lies in the repository."""
    assert name_of(text) == "apparmor-unprivileged-userns"
    assert not is_bwrap_failure(text)


# Of bwrap's sources, 0.1 to 0.12 and what comes after it, and of Codex's.
SAID = [
    ("bwrap: Can't make symlink at /lib: existing destination is usr/lib32", "jail-layout"),
    ("bwrap: Can't make symlink at /lib: destination exists and is not a symlink", "jail-layout"),
    ('bwrap: Can\'t remount readonly on /newroot/a: Unable to find "/newroot/a" in mount table', "unknown"),
    ("bwrap: Can't make overlay mount on /newroot/a with options lowerdir=/b: Overlay directories may not overlap",
     "unknown"),
    ("bwrap: Specified tmpfs size too large (9 > 8): Success", "unknown"),
    ("bwrap: single-pivot: functional probe open_tree: Operation not permitted", "unknown"),
    ("bwrap: fsopen tmpfs for /: Operation not permitted", "unknown"),
    ("bwrap: loopback: Failed RTM_NEWADDR: Success", "unknown"),
    ("bwrap: Creating newroot failed: Value too large for data type", "unknown"),  # musl's words
    ("bwrap: Can't mount proc on /newroot/proc: No file descriptors available", "unknown"),
    ("bwrap: Creating new namespace failed: Out of memory", "memory-limit"),
    ("bwrap: Can't create file at /w/.git: Symbolic link loop", "jail-layout"),
]  # fmt: skip
SAID_TO_PEOPLE = [
    ("bwrap: The --size option is not permitted in setuid mode", "setuid-bwrap"),
    ("bwrap: --userns doesn't work in setuid mode", "setuid-bwrap"),
    ("bwrap: Unknown option --disable-userns", "bwrap-too-old"),
    ("bwrap: Unknown option --frobnicate", "unknown"),
    ("bwrap: execvp /home/u/.codex/tmp/arg0/codex-arg0x/codex-linux-sandbox: No such file or directory", "unknown"),
    ("bwrap: loopback: Failed RTM_NEWADDR", "unknown"),  # cut short, as a title is
    ("bwrap: Can't mount proc on /newroot/proc", "unknown"),
    ("bwrap: Can't find source path /private/tmp", "jail-layout"),
    (PANIC, "unknown"),
    (f"{PANIC}\nbubblewrap is unavailable", "bwrap-missing"),
    (f"{PANIC}\nerror applying Linux sandbox restrictions: SeccompBackend(Prctl(Os {{ code: 22 }}))", "unknown"),
    ("error applying legacy Linux sandbox restrictions:\nSandbox(LandlockRestrict)", "codex-landlock"),
    (f"{PANIC}\nfailed to fork for bubblewrap: Resource temporarily unavailable (os error 11)", "pids-limit"),
    (f"{PANIC}\nfailed to exec system bubblewrap /usr/bin/bwrap: Permission denied (os error 13)", "unknown"),
    (f"{PANIC}\nerror activating Linux proxy routing bridge: Operation not permitted (os error 1)", "unknown"),
    ("exit=101\nbundled bubblewrap digest mismatch for /opt/bwrap:\n  expected sha256:90604f, got sha256:067a12",
     "unknown"),
    ('error building bubblewrap command: Io(Os { code: 30, kind: ReadOnlyFilesystem, message: "Read-only file '
     'system" })', "codex-no-tmp"),
    ("error building bubblewrap command: No space left on device (os error 28)", "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cause"), SAID)
def test_what_bwrap_says_in_other_words(text: str, cause: str) -> None:
    assert name_of(text) == cause
    assert is_bwrap_failure(text)


@pytest.mark.parametrize(("text", "cause"), SAID_TO_PEOPLE)
def test_what_is_reported_in_other_words(text: str, cause: str) -> None:
    assert name_of(text) == cause
    assert classify("nested", text, 1, {}).cause == cause
    assert not is_bwrap_failure(text)


# A false name is worse than none: the text of a cause, and an error or a fact that is not its own.


@pytest.mark.parametrize("error", ERRORS)
def test_the_error_behind_the_loopback_names_nothing(error: str) -> None:
    assert name_of(f"bwrap: loopback: Failed RTM_NEWADDR: {error}") == "unknown"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        # Codex hides a path by binding /dev/null over it; the device is there.
        ("Can't bind mount /oldroot/dev/null on /newroot/w/.codex: Unable to mount source on destination: Not a "
         "directory", "jail-layout"),
        ("Can't bind mount /oldroot/dev/null on /newroot/w/.env: Unable to mount source on destination: No such file "
         "or directory", "jail-layout"),
        ("Can't bind mount /oldroot/dev/null on /newroot/dev/null: Unable to mount source on destination: Permission "
         "denied", "unknown"),
        # A path that fits: the disk, the quota or the process is at its end.
        ("Can't mkdir /w/.codex: No space left on device", "unknown"),
        ("Can't create file at /w/.git: Disk quota exceeded", "unknown"),
        ("Can't create file at /w/.git: Too many open files", "unknown"),
        ("Can't find source path /mnt/x: Input/output error", "unknown"),
    ],
)  # fmt: skip
def test_another_error_is_another_cause(text: str, cause: str) -> None:
    assert name_of(f"bwrap: {text}") == cause


@pytest.mark.parametrize(
    ("cause", "text", "facts", "other"),
    [
        ("enosys", "Creating new namespace failed: Function not implemented", {"call_clone": "ENOSYS"},
         {"call_clone": "EINVAL"}),
        ("chroot-or-rootfs", "pivot_root: Invalid argument", {"root_mount": "rootfs"}, {"root_mount": "overlay"}),
        ("no-userns-kernel", "Creating new namespace failed, likely because the kernel does not support user "
         "namespaces.  bwrap must be installed setuid on such systems.",
         {"userns": "present", "osrelease": "4.4.0-19041-Microsoft"},
         {"userns": "present", "osrelease": "6.8.0-45-generic"}),
        ("bwrap-too-old", "Unknown option --argv0", {"bwrap_version": "0.8.0"}, {"bwrap_version": "0.11.0"}),
        ("bwrap-too-old", "Unknown option --argv0", {"bwrap_version": "0.4.1"}, {"bwrap_version": "1.0"}),
    ],
)  # fmt: skip
def test_a_fact_that_contradicts_the_text_leaves_no_name(
    cause: str, text: str, facts: dict[str, object], other: dict[str, object]
) -> None:
    assert name_of(f"bwrap: {text}") == cause
    assert name_of(f"bwrap: {text}", facts) == cause
    assert classify("user", f"bwrap: {text}", 1, facts).facts["told_by"] == "facts"
    assert name_of(f"bwrap: {text}", other) == "unknown"


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ({}, "unknown"),  # AppArmor's text, too
        ({"uid": 10001}, "unknown"),
        ({"uid": 0}, "root-without-setfcap"),
        ({"uid": 0, "cap_bnd": "0000000000200000"}, "root-without-setfcap"),
        ({"uid": 0, "cap_bnd": "00000000a80425fb"}, "unknown"),
    ],
)
def test_only_root_lacks_setfcap(facts: dict[str, object], cause: str) -> None:
    told = classify("user", "bwrap: setting up uid map: Operation not permitted", 1, facts)
    assert told.cause == cause
    assert facts or "apparmor-bwrap-restrict" in told.also


@pytest.mark.parametrize("limit", ["max_user_namespaces", "max_net_namespaces", "max_pid_namespaces"])
def test_any_limit_of_namespaces_confirms_that_one_is_reached(limit: str) -> None:
    told = classify("net", "bwrap: Creating new namespace failed: No space left on device", 1, {limit: "0"})
    assert (told.cause, told.facts["told_by"]) == ("userns-limit", "facts")
    assert "max_*_namespaces" in told.remedy


def test_other_languages_are_read_at_the_end_of_a_line_alone() -> None:
    assert in_english("x: Keine Berechtigung") == "x: Permission denied"
    assert in_english("x: Keine Berechtigung hier") == "x: Keine Berechtigung hier"
    assert in_english("Keine Berechtigung: ") == "Keine Berechtigung: "
    assert name_of(LOOPBACK.replace("Operation not permitted", "Operación no permitida")) == "unknown"


@pytest.mark.parametrize(
    "unit",
    ["failed to a ", "exec bash -lc a exited ", "at 1:1", r"\u0027", "error applying Linux sandbox restrictions: a("],
)
def test_no_other_text_keeps_it_busy(unit: str) -> None:
    """Minutes, where a pattern backtracks; a text of this length takes half a second at most."""
    name_of(unit * 20_000)
    name_of(f"{unit}\n" * 300)
