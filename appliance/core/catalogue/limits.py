"""Limits that are used up. Their counters decide against any text: a panic of Codex looks different each time."""

from appliance.core.catalogue.entry import RECREATE, Condition, Entry

_USERNS_LIMIT = (
    "on the host: `sudo sysctl -w user.max_user_namespaces=15000`, and the same line in a file in /etc/sysctl.d"
)
_SYSCTLS = "max_user_namespaces|max_net_namespaces|max_pid_namespaces|max_mnt_namespaces"
_ANY = (r"",)
_NOT_STALE = r"(?!(bwrap: )?loopback: Failed RTM_)"  # the error behind that one means nothing
_NESTED = "where it runs in a sandbox already, run it outside (32 namespaces deep is the kernel's limit)"

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "pids-limit",
        "The container's limit of processes is used up, so the sandbox cannot start its own.",
        f"raise `pids_limit` in compose.yaml (1024 is enough for the default settings; an `ulimits: nproc` counts as "
        f"well), then {RECREATE}.",
        texts=(
            r"Creating new namespace failed: Resource temporarily unavailable",
            r"Can't fork for pid 1",
            rf"{_NOT_STALE}.*Resource temporarily unavailable",
            r".*can't start new thread",
        ),
        shared=_ANY,
        must=(Condition("pids_denied", r"[1-9]\d*"),),
    ),
    Entry(
        "memory-limit",
        "The container's memory limit is used up: the kernel killed a program of the sandbox.",
        f"raise `mem_limit` in compose.yaml (4g is enough for the default settings), then {RECREATE}.",
        texts=(
            rf"{_NOT_STALE}.*Cannot allocate memory",
            r"it ended with (-9|137) and",
            rf"{_NOT_STALE}.*(memory allocation of \d+ bytes failed|Out of memory|out of memory)",
            r"Killed$",
        ),
        shared=_ANY,
        must=(Condition("oom_kills", r"[1-9]\d*"),),
    ),
    Entry(
        "userns-second",
        "The sandbox may not take its second user namespace (the unshare call).",
        "start the container with compose.yaml's `security_opt: seccomp=./docker/seccomp.json`: "
        f'{RECREATE}; if the text ends with "No space left on device", it is the kernel\'s limit: {_USERNS_LIMIT}.',
        texts=(r"unshare user ns: (Operation not permitted|No space left on device)",),
        confirm=(Condition("call_unshare", r"EPERM|ENOSPC"),),
    ),
    Entry(
        "userns-limit",
        "The kernel's limit of user namespaces is reached (their number, or 32 in one another).",
        f"{_USERNS_LIMIT}, or another of /proc/sys/user/max_*_namespaces that is as small; {_NESTED}.",
        texts=(
            r"Creat(e|ing) new namespace failed: nesting depth or /proc/sys/user/max_\*_namespaces exceeded",
            r"Creat(e|ing) new namespace failed: (?i:No space left on device)",
            r"unshare user ns: No space left on device",
        ),
        confirm=(Condition(f"call_unshare|{_SYSCTLS}", r"ENOSPC|0"),),
    ),
    Entry(
        "mount-max",
        "The kernel's limit of mounts is reached (the disk is not full).",
        "on the host: `sudo sysctl -w fs.mount-max=200000`, and the same line in a file in /etc/sysctl.d; see what "
        "mounts so much with `docker exec review-appliance sh -c 'wc -l </proc/self/mountinfo'`.",
        texts=(
            r".*Check that /proc/sys/fs/mount-max",
            r"(Failed to|Can't (bind )?mount|setting up newroot bind).*: No space left on device",
        ),
    ),
)
