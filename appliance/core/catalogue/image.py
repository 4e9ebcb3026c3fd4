"""Programs of the image, the account they run under, and the rights they were given."""

from appliance.core.catalogue.entry import (
    NAMESPACE_PERM,
    REBUILD,
    RECREATE,
    UID_MAP_PERM,
    Condition,
    Entry,
)

_AS_THE_IMAGES_USER = f'start it as compose.yaml does, with `user: "10001:10001"` and no other user: {RECREATE}.'
_ROOT = Condition("uid", "0")
# By version, from 0.2 to 0.12. Another word is a slip of whoever called it, not an old bwrap.
_NEW_OPTIONS = (
    "as-pid-1|cap-add|cap-drop|userns-block-fd|((ro|dev)-)?bind-try|json-status-fd|pidns|userns2?|chmod|clearenv|perms|"
    "add-seccomp-fd|assert-userns-disabled|disable-userns|size|argv0|(ro-)?bind-fd|level-prefix|overlay(-src)?|"
    "(ro|tmp)-overlay|not-a-security-boundary"
)

ENTRIES: tuple[Entry, ...] = (
    # Decided before any program runs, so it has no text.
    Entry(
        "root-user",
        "The container runs as root (uid 0); a jail made by root is not the jail of a review.",
        _AS_THE_IMAGES_USER,
    ),
    Entry(
        "root-without-userns",
        "The container runs as root without SYS_ADMIN, and bwrap makes no user namespace of its own accord for root.",
        _AS_THE_IMAGES_USER,
        texts=(NAMESPACE_PERM,),
        must=(_ROOT, Condition("cap_bnd", r"[0-9a-f]*[014589cd][0-9a-f]{5}")),  # bit 21, SYS_ADMIN, is not set
    ),
    Entry(
        "root-without-setfcap",
        "The container runs as root without SETFCAP, and the kernel (from 5.12) then refuses root's uid map.",
        _AS_THE_IMAGES_USER,
        shared=(UID_MAP_PERM,),
        must=(_ROOT,),
        never=(Condition("cap_bnd", r"[0-9a-f]*[89a-f][0-9a-f]{7}"),),  # bit 31, SETFCAP, is set
    ),
    Entry(
        "stray-capabilities",
        "The program bwrap was given capabilities (of its file, or ambient ones), with which it refuses to work.",
        f"take them away: `cap_drop: [ALL]` and no `cap_add` in compose.yaml, then {RECREATE}; in an image of your "
        "own `setcap -r /usr/bin/bwrap`.",
        texts=(r"Unexpected capabilities but not setuid, old file caps config\?",),
        confirm=(Condition("uid cap_prm|bwrap_caps", r"[1-9]\d* .*[1-9a-f].*|present"),),
    ),
    Entry(
        "setuid-bwrap",
        "The program bwrap is installed setuid, which this jail cannot be made with.",
        f"in an image of your own `RUN chmod u-s /usr/bin/bwrap`, or {REBUILD}.",
        texts=(
            r"capset failed",
            r"setuid use of bubblewrap is not supported",
            r"Unexpected setuid user \d+",
            r"[Uu]nable to (re-)?set fsuid",
            r"unable to drop root uid",
            r"prctl\(PR_SET_KEEPCAPS\) failed",
            r"Dropping capability \d+ from bounds",
            r"The --\S+ option is not permitted in setuid mode",
            r"--userns2? doesn't work in setuid mode",
            r"--cap-add in setuid mode",
        ),
        shared=(NAMESPACE_PERM,),
        must=(Condition("bwrap_mode", r"[4-7]\d\d\d"),),
    ),
    Entry(
        "bwrap-missing",
        "The program bwrap (bubblewrap) is missing, so no jail can be made.",
        f"{REBUILD}.",
        texts=(
            r"(thread .*)?bubblewrap is unavailable(: no system bwrap was found|$)",
            r"execvp bwrap: No such file or directory",
            r"(.*: )?bwrap: (command )?not found",
            r'.*exec: "?bwrap"?: executable file not found',
        ),
    ),
    Entry("codex-missing", "The Codex program is missing or cannot be executed.", f"{REBUILD}."),
    Entry("socat-missing", "The program socat is missing, so the jail has no way to the model.", f"{REBUILD}."),
    Entry("git-missing", "The program git is missing, so no change can be read.", f"{REBUILD}."),
    Entry(
        "bwrap-too-old",
        "The bwrap in the image is too old: Codex's sandbox needs 0.9 or newer.",
        f"{REBUILD}; it needs Debian 13 or another system with bubblewrap 0.9 or newer.",
        texts=(rf"(?<=bwrap: )Unknown option --({_NEW_OPTIONS})\s*$",),
        never=(Condition("bwrap_version", r"(0\.(9|\d{2,})|[1-9]\d*)(\..*)?"),),
        confirm=(Condition("bwrap_version", r"0\.[0-8](\..*)?"),),
    ),
)
