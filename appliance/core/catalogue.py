"""The catalogue of faults: each cause with its texts, the facts that prove or refute it, and what the person does.

Data only; `core.faults.classify` reads it. To add a cause, add an entry. The order matters where two entries fit
equally well: the more specific one stands first.

Text alone proves little: under one AppArmor profile bwrap prints the very text of Docker's seccomp filter. So an
entry has two kinds of text. `texts` name the cause unless a fact that was read refutes it; `shared` are texts of other
causes as well, and name this one only if every fact it needs was read and holds.
"""

from dataclasses import dataclass

RECREATE = "`docker compose up -d --force-recreate`"
REBUILD = "rebuild the image: `docker compose build --pull --no-cache && docker compose up -d --force-recreate`"
PROFILE = (
    "load the container's own AppArmor profile on the host, "
    "`sudo apparmor_parser -r -W docker/apparmor/review-appliance`, then "
    "`APPLIANCE_APPARMOR=review-appliance docker compose up -d --force-recreate` (or run `docker/up`, which does both)"
)
REPORT = "report it with the output of `docker exec review-appliance appliance selftest --json`"


@dataclass(frozen=True)
class Condition:
    """Holds when the whole text of the fact `fact` matches the regular expression `pattern`.

    `fact` may be several names with a blank between: then the text is theirs in that order, blanks between.
    """

    fact: str
    pattern: str


@dataclass(frozen=True)
class Entry:
    """One cause. `texts` and `shared` are regular expressions, searched in the symptom.

    `must`: facts that have to hold; `never`: facts that refute. A fact that was not read neither proves nor refutes.
    """

    cause: str
    sentence: str
    remedy: str
    texts: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    must: tuple[Condition, ...] = ()
    never: tuple[Condition, ...] = ()


_NO_PERMISSIONS = r"No permissions to creat(e|ing)( a)? new namespace"
_LOOPBACK = r"loopback: Failed RTM_NEWADDR"  # the errno behind it is stale and means nothing
_UID_MAP_ACCES = r"setting up uid map: Permission denied"
_UID_MAP_PERM = r"setting up uid map: Operation not permitted"

CATALOGUE: tuple[Entry, ...] = (
    # The account it runs under: decided before any program runs, so it has no text.
    Entry(
        "root-user",
        "The container runs as root (uid 0); a jail made by root is not the jail of a review.",
        f'start it as compose.yaml does, with `user: "10001:10001"` and no other user: {RECREATE}.',
    ),
    # Programs of the image.
    Entry(
        "bwrap-missing",
        "The program bwrap (bubblewrap) is missing, so no jail can be made.",
        f"{REBUILD}.",
        texts=(r"bubblewrap is unavailable: no system bwrap was found",),
    ),
    Entry("codex-missing", "The Codex program is missing or cannot be executed.", f"{REBUILD}."),
    Entry("socat-missing", "The program socat is missing, so the jail has no way to the model.", f"{REBUILD}."),
    Entry("git-missing", "The program git is missing, so no change can be read.", f"{REBUILD}."),
    Entry(
        "bwrap-too-old",
        "The bwrap in the image is older than 0.9, which breaks Codex's sandbox.",
        f"{REBUILD}; it needs Debian 13 or another system with bubblewrap 0.9 or newer.",
        texts=(r"bwrap: Unknown option",),
    ),
    # Facts of a limit decide against any text: a panic of Codex looks different each time.
    Entry(
        "pids-limit",
        "The container's limit of processes is used up, so the sandbox cannot start its own.",
        f"raise `pids_limit` in compose.yaml (1024 is enough for the default settings), then {RECREATE}.",
        texts=(
            r"Creating new namespace failed: Resource temporarily unavailable",
            r"Can't fork for pid 1",
            r"Resource temporarily unavailable",
            r"can't start new thread",
        ),
        shared=(r"",),
        must=(Condition("pids_denied", r"[1-9]\d*"),),
    ),
    Entry(
        "userns-limit",
        "The kernel's limit of user namespaces is reached (the disk is not full).",
        "on the host: `sudo sysctl -w user.max_user_namespaces=15000`, and the same line in a file in /etc/sysctl.d.",
        texts=(
            r"nesting depth or /proc/sys/user/max_\*_namespaces exceeded",
            r"Creating new namespace failed: No space left on device",
            r"unshare user ns: No space left on device",
        ),
    ),
    # Seccomp: the engine's filter. A call that never does anything tells it from the kernel (facts.py).
    Entry(
        "seccomp-clone",
        "The container's seccomp filter forbids user namespaces, so neither the jail nor Codex's sandbox can start.",
        f"start the container with compose.yaml's `security_opt: seccomp=./docker/seccomp.json`: {RECREATE}.",
        texts=(_NO_PERMISSIONS,),
        must=(Condition("call_clone", "EPERM"),),
        never=(Condition("seccomp", "0"),),
    ),
    Entry(
        "seccomp-mount",
        "The container's seccomp filter forbids mount, so no jail can be set up.",
        f"start the container with compose.yaml's `security_opt: seccomp=./docker/seccomp.json`: {RECREATE}.",
        texts=(r"Failed to make / slave: Operation not permitted",),
        must=(Condition("call_mount", "EPERM"),),
        never=(Condition("seccomp", "0"),),
    ),
    Entry(
        "seccomp-pivot",
        "The container's seccomp filter forbids pivot_root, so no jail can be set up.",
        f"start the container with compose.yaml's `security_opt: seccomp=./docker/seccomp.json`: {RECREATE}.",
        texts=(r"pivot_root: Operation not permitted",),
        never=(Condition("seccomp", "0"),),
    ),
    Entry(
        "seccomp-umount",
        "The container's seccomp filter forbids umount2, so no jail can be set up.",
        f"start the container with compose.yaml's `security_opt: seccomp=./docker/seccomp.json`: {RECREATE}.",
        texts=(r"unmount old root: Operation not permitted",),
        must=(Condition("call_umount", "EPERM"),),
        never=(Condition("seccomp", "0"),),
    ),
    Entry(
        "userns-second",
        "The sandbox may not take its second user namespace (the unshare call).",
        f"start the container with compose.yaml's `security_opt: seccomp=./docker/seccomp.json`: {RECREATE}.",
        texts=(r"unshare user ns: Operation not permitted",),
    ),
    # /proc: the engine's masks. The last texts are our own, for Codex goes on without a word.
    Entry(
        "proc-masked",
        "Parts of /proc are masked in the container, so the sandbox cannot have a /proc of its own.",
        "start the container with compose.yaml's `security_opt: systempaths=unconfined` (Compose 2.26 or newer): "
        f"{RECREATE}.",
        texts=(r"Can't mount proc on \S*/proc: Operation not permitted", r"kept the /proc around it", r"has no /proc:"),
    ),
    # AppArmor of the host.
    Entry(
        "apparmor-bwrap-restrict",
        "The host's AppArmor profile bwrap-userns-restrict lets the jail start but not the sandbox inside it.",
        f"{PROFILE}. Do not disable the host's profile: that leads to another restriction.",
        shared=(_NO_PERMISSIONS, _UID_MAP_PERM, _LOOPBACK),
        must=(Condition("jail_label", r".*unpriv_bwrap.*"),),
    ),
    Entry(
        "apparmor-unprivileged-userns",
        "The host's AppArmor forbids user namespaces to programs without a profile.",
        f"{PROFILE}.",
        texts=(_UID_MAP_ACCES,),
        shared=(_LOOPBACK, _NO_PERMISSIONS),
        must=(
            Condition("apparmor_restrict_unprivileged_userns label", r"1 unconfined|\w+ unprivileged_userns( \(.*)?"),
        ),
    ),
    # Ours.
    Entry(
        "jail-layout",
        "The jail's layout does not fit this container: a path that it shows cannot be set up.",
        f"this is a fault of the appliance: {REPORT}.",
        texts=(r"Can't mkdir", r"Can't create file at", r"Can't find source path", r"Can't chdir to"),
    ),
    Entry(
        "relay-failed",
        "The relay in the jail does not reach the model gate.",
        f"{REPORT}.",
        texts=(r"relay: ",),
    ),
    Entry(
        "sandbox-open",
        "The sandbox starts but lets a command do what it must not, so no review is started in it.",
        f"this is a fault of the appliance or of its Codex: {REPORT}.",
        texts=(r"the (sandbox|jail) let a command",),
    ),
    Entry(
        "state-unwritable",
        "The state volume /var/lib/appliance cannot be written.",
        "see that the volume has free space and belongs to uid 10001: "
        "`docker exec review-appliance sh -c 'df -h /var/lib/appliance; ls -ldn /var/lib/appliance'`.",
        texts=(r"cannot prepare the self-test",),
    ),
    Entry(
        "probe-timeout",
        "A probe of the sandbox did not end in time.",
        "see what the machine is busy with (`docker stats review-appliance`), "
        "then try again: `docker exec review-appliance appliance selftest`.",
        texts=(r"did not end within",),
    ),
)

UNKNOWN = Entry(
    "unknown",
    "The sandbox does not work, for a reason that is not in the catalogue.",
    f"{REPORT}.",
)
