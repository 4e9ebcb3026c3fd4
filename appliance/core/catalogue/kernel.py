"""The kernel and the runtime below the container: what they lack or were told to refuse."""

from appliance.core.catalogue.entry import (
    LOOPBACK,
    NO_PERMISSIONS,
    Condition,
    Entry,
)

_GVISOR = Condition("gvisor", "True")

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "userns-sysctl-off",
        "The host's kernel allows user namespaces to root alone (kernel.unprivileged_userns_clone is 0).",
        "on the host: `sudo sysctl -w kernel.unprivileged_userns_clone=1`, and the same line in a file in "
        "/etc/sysctl.d.",
        shared=(NO_PERMISSIONS,),
        must=(Condition("unprivileged_userns_clone", "0"),),
    ),
    Entry(
        "gvisor",
        "The container runs under gVisor, which cannot give the jail a network namespace of its own.",
        "run it with runc: `runtime: runc` in compose.yaml, then `docker compose up -d --force-recreate`; where the "
        "host allows gVisor only, it needs another host.",
        shared=(
            LOOPBACK,
            r"pivot_root(\(/newroot\))?: Operation not permitted",
            r"Can't (read|parse) /proc/sys/kernel/overflow[ug]id: No such file or directory",
        ),
        must=(_GVISOR,),
        unsupported=True,
    ),
    Entry(
        "no-userns-kernel",
        "The kernel has no user namespaces (WSL 1, some NAS systems, a kernel built without CONFIG_USER_NS).",
        "run it on another kernel: on Windows `wsl --set-version <distribution> 2`, else another host.",
        texts=(r"Creating new namespace failed, likely because the kernel does not support user namespaces",),
        must=(Condition("userns|osrelease", r"absent|4\.4\.0-\d+-Microsoft"),),  # the latter is WSL 1
        unsupported=True,
    ),
    Entry(
        "enosys",
        "The kernel, or a filter in front of it, does not have the call that makes namespaces.",
        "run it on a newer kernel (`uname -r` tells this one's), or without the filter that answers so.",
        texts=(r"Creating new namespace failed: Function not implemented",),
        must=(Condition("call_clone", "ENOSYS"),),
        unsupported=True,
    ),
    Entry(
        "chroot-or-rootfs",
        "The root directory is a chroot or the initial ramfs, in which no jail can change its root.",
        "start it with Docker on a system that was booted the usual way (`docker compose up -d`), not in a chroot or "
        "from an initial ramfs.",
        texts=(r"(pivot_root(\(/newroot\))?|Failed to make / slave): Invalid argument",),
        shared=(NO_PERMISSIONS,),
        must=(Condition("root_mount", r"absent|rootfs|ramfs"),),
        unsupported=True,
    ),
)
