"""What an entry of the catalogue is, and the advice that several of them share.

Text alone proves little: under one AppArmor profile bwrap prints the very text of Docker's seccomp filter. So an
entry has two kinds of text. `texts` name the cause unless a fact that was read refutes it; `shared` are texts of other
causes as well, and name this one only if every fact it needs was read and holds.
"""

from dataclasses import dataclass

RECREATE = "`docker compose up -d --force-recreate`"
REBUILD = "rebuild the image: `docker compose build --pull --no-cache && docker compose up -d --force-recreate`"
SECCOMP = f"start the container with compose.yaml's `security_opt: seccomp=./docker/seccomp.json`: {RECREATE}."
PROFILE = (
    "load the container's own AppArmor profile on the host, "
    "`sudo apparmor_parser -r -W docker/apparmor/review-appliance`, then "
    "`APPLIANCE_APPARMOR=review-appliance docker compose up -d --force-recreate` (or run `docker/up`, which does both)"
)
REPORT = "report it with the output of `docker exec review-appliance appliance selftest --json`"

# Texts of more than one cause, without the leading `bwrap: `.
NO_PERMISSIONS = r"No permissions to creat(e|ing)( a)? new namespace"
LOOPBACK = r"loopback: Failed RTM_NEW(ADDR|LINK)"  # the errno behind it is stale and means nothing
UID_MAP_ACCES = r"setting up [ug]id map: Permission denied"
UID_MAP_PERM = r"setting up [ug]id map: Operation not permitted"
NAMESPACE_PERM = r"Creating new namespace failed: Operation not permitted"
MOUNT_ACCES = (
    r"Failed to (make / slave|make old root rprivate|mount tmpfs): Permission denied",
    r"setting up newroot bind: Permission denied",
    r"(pivot_root(\(/newroot\))?|u(n)?mount old root): Permission denied",
    r"Can't (bind )?mount .*: Permission denied",
    r"Can't remount readonly on .*: Permission denied",
)


def page_of(cause: str) -> str:
    """Where a cause is explained."""
    return f"docs/faults.md#{cause}"


@dataclass(frozen=True)
class Condition:
    """Holds when the whole text of the fact `fact` matches the regular expression `pattern`.

    `fact` may be several names with a blank between: then the text is theirs in that order, blanks between. After a
    `|` stand others that may hold instead; only the first one, if it was read and does not match, refutes.
    """

    fact: str
    pattern: str


@dataclass(frozen=True)
class Entry:
    """One cause. `texts` and `shared` are regular expressions, matched from the start of a message of the symptom.

    `must`: facts that have to hold; `never`: facts that refute; `confirm`: facts that make it certain beside `must`,
    and refute nothing. A fact that was not read neither proves nor refutes. `unsupported`: no setting of the
    container, of the image or of this host makes it work; it needs another kernel, runtime or host.
    """

    cause: str
    sentence: str
    remedy: str
    texts: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    must: tuple[Condition, ...] = ()
    never: tuple[Condition, ...] = ()
    confirm: tuple[Condition, ...] = ()
    unsupported: bool = False
