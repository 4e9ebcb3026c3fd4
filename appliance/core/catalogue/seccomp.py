"""Seccomp, the engine's filter. A call that never does anything tells it from the kernel (`appliance.calls`)."""

from appliance.core.catalogue.entry import NO_PERMISSIONS, SECCOMP, Condition, Entry

_NO_FILTER = (Condition("seccomp", "0"),)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "seccomp-clone",
        "The container's seccomp filter forbids user namespaces, so neither the jail nor Codex's sandbox can start.",
        SECCOMP,
        texts=(NO_PERMISSIONS,),
        must=(Condition("call_clone", "EPERM"),),
        never=_NO_FILTER,
    ),
    Entry(
        "seccomp-mount",
        "The container's seccomp filter forbids mount, so no jail can be set up.",
        SECCOMP,
        texts=(r"Failed to make / slave: Operation not permitted",),
        must=(Condition("call_mount", "EPERM"),),
        never=_NO_FILTER,
    ),
    Entry(
        "seccomp-pivot",
        "The container's seccomp filter forbids pivot_root, so no jail can be set up.",
        SECCOMP,
        texts=(r"pivot_root(\(/newroot\))?: Operation not permitted",),
        must=(Condition("call_pivot", "EPERM"),),
        never=(*_NO_FILTER, Condition("gvisor", "True")),
    ),
    Entry(
        "seccomp-umount",
        "The container's seccomp filter forbids umount2, so no jail can be set up.",
        SECCOMP,
        texts=(r"un?mount old root: Operation not permitted",),
        must=(Condition("call_umount", "EPERM"),),
        never=_NO_FILTER,
    ),
    Entry(
        "no-net-namespace",
        "The loopback device of the jail's network cannot be set up: netlink sockets are not allowed.",
        f"a seccomp filter has to let `socket(AF_NETLINK)` pass, as this project's does: {SECCOMP}",
        texts=(
            r"loopback: Failed to look up lo",
            r"loopback: Failed to (create|bind) NETLINK_ROUTE socket",
        ),
        confirm=(Condition("call_netlink", r"E\w+"),),
    ),
)
