"""/proc as the engine shows it. Some texts are our own, for Codex goes on without a word."""

from appliance.core.catalogue.entry import RECREATE, Condition, Entry

_FRESH = f"give the container a /proc of its own, as the engine does when compose.yaml does not mount one: {RECREATE}."

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "proc-masked",
        "Parts of /proc are masked in the container, so the sandbox cannot have a /proc of its own.",
        "start the container with compose.yaml's `security_opt: systempaths=unconfined` (Compose 2.26 or newer): "
        f"{RECREATE}.",
        texts=(
            r"Can't mount proc on \S*/proc: Operation not permitted",
            r".*kept the /proc around it",
            r".*has no /proc:",
        ),
        confirm=(Condition("proc_masks", r".+"),),
    ),
    Entry(
        "proc-readonly",
        "The container's /proc is mounted read-only, so the uid map of a user namespace cannot be written.",
        _FRESH,
        texts=(r"(setting up [ug]id map|error writing to setgroups): Read-only file system",),
        confirm=(Condition("proc_mount", "ro"),),
    ),
    Entry(
        "proc-stale",
        "The container's /proc shows other processes than ours: it belongs to another pid namespace.",
        f"take `pid:` and any mount of /proc out of compose.yaml; {_FRESH}",
        texts=(r"open /proc/\S+ failed: No such file or directory",),
        shared=(r"setting up [ug]id map: No such file or directory",),
        confirm=(Condition("proc_fresh", "False"),),
    ),
    Entry(
        "proc-missing",
        "There is no /proc in the container, or only a part of it.",
        f"mount proc; {_FRESH}",
        texts=(
            r"Can't (read|parse) /proc/sys/kernel/overflow[ug]id: No such file or directory",
            r"[Cc]an't open /proc(/\S*)?: No such file or directory",
        ),
        never=(Condition("gvisor", "True"),),
        confirm=(Condition("proc_mount", "absent|partial"),),
    ),
)
