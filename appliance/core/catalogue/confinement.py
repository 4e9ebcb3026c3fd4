"""Security modules of the host: AppArmor, SELinux, and LXC's use of the former. Told by labels and sysctls."""

from appliance.core.catalogue.entry import (
    LOOPBACK,
    MOUNT_ACCES,
    NO_PERMISSIONS,
    PROFILE,
    RECREATE,
    UID_MAP_ACCES,
    UID_MAP_PERM,
    Condition,
    Entry,
)

# `name (enforce)`, `outer//&inner (mixed)`: a profile that is enforced. An SELinux context has colons in it.
_CONFINED = r"[^:]+ \((enforce|mixed|kill|prompt)\)"
_CONTEXT = r"\w+:\w+:\w+(:.*)?"
_NO_APPARMOR = (Condition("label", rf"absent|{_CONTEXT}"),)
_LXC = r"(.*//&:?)?(lx[cd]-|:lx[cd]-).*"
_NAMESPACE_ACCES = r"Creating new namespace failed: Permission denied"

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "apparmor-bwrap-restrict",
        "The host's AppArmor profile bwrap-userns-restrict lets the jail start but not the sandbox inside it.",
        f"{PROFILE}. Do not disable the host's profile: that leads to another restriction.",
        shared=(
            NO_PERMISSIONS,
            UID_MAP_PERM,
            UID_MAP_ACCES,
            LOOPBACK,
            r"Failed to make / slave: Operation not permitted",
            r"unshare user ns: Operation not permitted",
        ),
        must=(Condition("jail_label|label|userns_label", r".*unpriv_bwrap.*"),),
        never=_NO_APPARMOR,
    ),
    Entry(
        "apparmor-profile-clash",
        "Two AppArmor profiles of the host are named bwrap, and the one that restricts nothing hides the other.",
        "on the host: `grep -rn 'profile bwrap' /etc/apparmor.d`, keep one, then `sudo systemctl reload apparmor`; "
        f"or {PROFILE}.",
        shared=(UID_MAP_ACCES, UID_MAP_PERM, LOOPBACK, NO_PERMISSIONS),
        must=(Condition("jail_label|label|userns_label", r"(.*//&)?bwrap \(unconfined\)"),),
        never=_NO_APPARMOR,
    ),
    Entry(
        "apparmor-unconfined-restricted",
        "The host's AppArmor restricts user namespaces under profiles that are loaded as unconfined, too.",
        f"a profile in enforce mode is needed: {PROFILE}.",
        shared=(UID_MAP_ACCES, LOOPBACK, NO_PERMISSIONS),
        must=(Condition("apparmor_restrict_unprivileged_unconfined", "1"),),
        never=(*_NO_APPARMOR, Condition("label", rf"unconfined|{_CONFINED}")),
    ),
    Entry(
        "apparmor-unprivileged-userns",
        "The host's AppArmor forbids user namespaces to programs without a profile.",
        f"{PROFILE}.",
        texts=(UID_MAP_ACCES,),
        shared=(LOOPBACK, NO_PERMISSIONS, r"Failed to make / slave: Operation not permitted"),
        must=(
            Condition(
                "apparmor_restrict_unprivileged_userns label|label|userns_label",
                r"1 unconfined|(.*[ /&])?unprivileged_userns( \(.*)?",
            ),
        ),
        never=_NO_APPARMOR,
    ),
    Entry(
        "apparmor-userns-denied",
        "The AppArmor profile of the container does not allow user namespaces (it has no `userns,`).",
        f"use this project's profile, which has the line `userns,`: {PROFILE}.",
        texts=(_NAMESPACE_ACCES,),
        must=(Condition("label", _CONFINED),),
        never=_NO_APPARMOR,
    ),
    Entry(
        "apparmor-docker-default",
        "The AppArmor profile of the container (the engine's docker-default, as a rule) denies mounts.",
        f"{PROFILE}.",
        texts=(r"Failed to make / slave: Permission denied",),
        shared=MOUNT_ACCES,
        must=(Condition("label", _CONFINED),),
        never=(*_NO_APPARMOR, Condition("label", _LXC)),
    ),
    Entry(
        "lxc",
        "The container runs inside an LXC container, whose AppArmor profile denies nested jails.",
        "on the LXC host allow nesting, `pct set <id> --features nesting=1` (Proxmox) or `lxc config set <name> "
        "security.nesting true`, then restart the LXC container.",
        texts=(r"pivot_root(\(/newroot\))?: Permission denied",),
        shared=(*MOUNT_ACCES, _NAMESPACE_ACCES),
        must=(Condition("label", _LXC),),
        never=_NO_APPARMOR,
    ),
    Entry(
        "selinux",
        "SELinux of the host denies the container's jail its mounts or its user namespace.",
        "on the host load a policy that allows them, `sudo ausearch -m avc -ts recent | audit2allow -M jail` and "
        f"`sudo semodule -i jail.pp`; last resort: `security_opt: label=disable` in compose.yaml, then {RECREATE}.",
        texts=(r"Failed to mount tmpfs: Permission denied",),
        shared=(
            *MOUNT_ACCES,
            _NAMESPACE_ACCES,
            UID_MAP_ACCES,
            r"Can't (read|open|parse) /proc\S*: Permission denied",
        ),
        must=(Condition("label", r"\w+:\w+:(?!unconfined_t|spc_t)\w+(:.*)?"),),
    ),
)
