"""A false name is worse than none: the text of a cause, with an error or a fact that is not its own."""

import pytest

from appliance.core.faults import classify, name_of


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
