"""The jail's own layout, Codex's demands on it, and what the appliance itself says of a probe."""

from appliance.core.catalogue.entry import RECREATE, REPORT, Condition, Entry

REPORT_DEEP = "report it with the output of `docker exec review-appliance appliance selftest --deep --json`"
_OURS = f"this is a fault of the appliance: {REPORT}."
_DEVICE = r"/oldroot/dev/\w+ on (/newroot)?/dev/\w+: "
# A path that fits, on a disk or in a process that is at its end, is not the layout's.
_FITS = (
    r"(?!.*: (No space left on device|(Disk q|Q)uota exceeded|Too many open files|No file descriptors available|"
    r"I(nput/output|/O) error|Stale file handle))"
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "codex-no-tmp",
        "Codex has no /tmp in the jail that it can write, so it cannot set up its sandbox.",
        f"the jail has to have a tmpfs at /tmp; {_OURS}",
        texts=(r"(thread .*)?error building bubblewrap command: .*(Read-only file system|ReadOnlyFilesystem)",),
    ),
    Entry(
        "codex-home-under-tmp",
        "CODEX_HOME lies below a directory for temporary files, where Codex places no helper for its sandbox.",
        f"CODEX_HOME has to lie elsewhere in the jail; {_OURS}",
        texts=(
            r".*Refusing to create helper binaries under temporary dir",
            r"execvp codex-linux-sandbox: No such file or directory",
        ),
    ),
    Entry(
        "codex-landlock",
        "Codex tried its legacy sandbox (Landlock), which this kernel or this container does not give it.",
        f"Codex's configuration must not ask for the legacy mode; {_OURS}",
        texts=(
            r"(thread .*)?error running landlock",
            r"(thread .*|error applying )?legacy Linux sandbox restrictions",
            r"permission profiles .* incompatible with --use-legacy-landlock",
            r"filesystem-restricted execution requires bubblewrap",
        ),
    ),
    Entry(
        "no-tmp-dir",
        "The container has no /tmp that can be written, where the root of a jail is set up.",
        f"start the container with compose.yaml's `tmpfs: /tmp`: {RECREATE}.",
        texts=(
            r"Failed to mount tmpfs: No such file or directory",
            r".*\bNo usable temporary directory",  # Python's words
            r".*\b(No such file or directory|Read-only file system|Permission denied): '/tmp/",
        ),
        confirm=(Condition("tmp", "absent|read-only"),),
    ),
    Entry(
        "dev-missing",
        "Device nodes such as /dev/null are missing, so the sandbox cannot have a /dev of its own.",
        f"the jail has to be made with `--dev /dev`; {_OURS}",
        texts=(
            rf"Can't bind mount {_DEVICE}.*No such file or directory",
            r"Can't open source /dev/\w+: No such file or directory",
        ),
        confirm=(Condition("dev_missing", r".+"),),
    ),
    Entry(
        "jail-layout",
        "The jail's layout does not fit this container: a path that it shows cannot be set up.",
        _OURS,
        texts=(
            rf"{_FITS}Can't mkdir",
            rf"{_FITS}Can't create (file|symlink|tmpfile|/)",
            rf"{_FITS}Can't make symlink at",
            rf"{_FITS}Can't find source path",
            rf"{_FITS}Can't chdir to",
            rf"{_FITS}Can't (access|chmod|stat|get type of (source|dest)|write data to file|reopen)",
            rf"{_FITS}Can't (open source (?!/dev/)|mount on symlink destination)",
            rf"Can't (bind mount (?!{_DEVICE})|remount readonly on).*: (No such|Not a dir|Is a dir|File exists)",
            rf"{_FITS}error building bubblewrap command: (?!.*(Read-only file system|ReadOnlyFilesystem))",
        ),
    ),
    Entry(
        "relay-failed",
        "The relay in the jail does not reach the model gate.",
        f"{REPORT}.",
        texts=(r"relay: ",),
    ),
    Entry(
        "breach",
        "A command in the jail or in Codex's sandbox reached what it must not, so no review is started in it.",
        "start the container as this version's compose.yaml does, with its own image and with docker/seccomp.json "
        f"unchanged (`git diff` in the checkout shows nothing): {RECREATE}; "
        f"if it comes again it is a fault of the appliance or of its Codex: {REPORT_DEEP}.",
        texts=(r"the (sandbox|jail) let a command",),
    ),
    Entry(
        "battery-failed",
        "The attacks that test the jail could not be made, so nothing proves that it holds.",
        f"try again, `docker exec review-appliance appliance selftest --deep`; if it fails again, {REPORT_DEEP}.",
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
        texts=(r"it did not end within",),
    ),
)
