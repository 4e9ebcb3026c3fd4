"""The words of bwrap 0.1 to 0.12 and of Codex when a sandbox cannot start, as regular expressions of whole lines.

Not among them: `bwrap: execvp make: …` (the jail is up, the command is missing), and bwrap's complaints about its
arguments (then somebody else called it), but for those that Codex provokes in an old one.
"""

import re

from appliance.core.error_words import ERRORS

_BEGINS = (
    r"loopback: Failed|setting up [ug]id map|error writing to setgroups|Creat(?:ing|e) [\w -]+ failed|"
    r"open /proc/\S+ failed|[Cc]an't (?:open|set)\b|cannot open /proc|Cant read pid|"
    r"Can't (?:access|bind|chdir|chmod|create|find|fork|get|make|mkdir|mount|open|opendir|read|remount|reopen|send|"
    r"set|stat|write)\b|"
    r"Failed to|pivot_root|unmount old root|umount old root|chdir |fchdir |chroot |mounting proc|"
    r"setting up newroot bind|unshare (?:user|pid) ns|Setting (?:userns2|pidns) failed|"
    r"Joining (?:the )?specified user namespace failed|capget|capset failed|prctl|"
    r"(?:Dropping|Adding ambient) capability|[Uu]nable to|sysctl user\.|read eventfd|read signalfd|eventfd|pipe2|"
    r"fork\b|wait|init wait|setsid|creating |stat on /proc|Race condition binding|Write to info_fd|sigprocmask|poll|"
    r"single-pivot: |fsopen |fsconfig |fsmount |move_mount |Specified tmpfs size|clearenv failed|label_exec |"
    r"invalid label "
)
_ERRORS = "|".join(map(re.escape, ERRORS))
_HINT = r"\(Hint: [^()\n]{0,300}\)"
_WITH_ERROR = rf"(?:{_BEGINS})[^\n]{{0,300}}: (?:(?:(?i:{_ERRORS}))(?: {_HINT})?|Limit exceeded \(ENOSPC\)\. {_HINT})"
_USERNS = r"the kernel does not allow non-privileged user namespaces\."
_SENTENCES = (
    rf"No permissions to creat(?:e|ing)(?: a)? new namespace, likely because {_USERNS}"
    r"(?: On e\.g\. debian this can be enabled with 'sysctl kernel\.unprivileged_userns_clone=1'\."
    r"| See <https://deb\.li/bubblewrap> or <file:///usr/share/doc/bubblewrap/README\.Debian\.gz>\.)?"
    r"|Creating new namespace failed, likely because the kernel does not support user namespaces\."
    r"(?: {1,2}bwrap must be installed setuid on such systems\.)?"
    r"|Creating new namespace failed: nesting depth or /proc/sys/user/max_\*_namespaces exceeded \(ENOSPC\)"
    r"|Unexpected capabilities but not setuid, old file caps config\?"
    r"|setuid use of bubblewrap is not supported(?: in this build)?\.?"
    r"|Unexpected setuid user \d+, should be 0"
    r"|Unable to (?:re-)?set fsuid(?: \(was \d+\))?"
    r"|Can't parse (?:/proc/sys/kernel/overflow[ug]id|mountinfo line)"
    r"|(?:Can't (?:write to|read from) privileged_op_socket|Can't write to op_socket)"
    r"|creation of new user namespaces was not disabled as requested"
    r"|Joining the specified user namespace failed, it might not be a descendant of the current user namespace\."
    r"|Unable to set up system call filtering as requested: prctl\(PR_SET_SECCOMP\) reported EINVAL\. "
    r"\(Hint: this requires a kernel configured with CONFIG_SECCOMP and CONFIG_SECCOMP_FILTER\.\)"
    r"|Can't mount on symlink destination \S{1,300}"
    r"|Cannot create new cgroup namespace because the kernel does not support it"
    r"|Can't make symlink at [^\n]{1,300}: (?:existing destination is \S{1,300}"
    r"|destination exists and is not a symlink)"
    r"|Can't (?:bind mount|remount readonly on) [^\n]{1,300}: Unable to find \"[^\n]{1,300}\" in mount table"
    r"|Can't make overlay mount on [^\n]{1,300} with options [^\n]{1,300}: Overlay directories may not overlap"
    r"|Invalid size \d+ from unprivileged helper|Invalid string offset \d+ \(buffer size \d+\)"
    r"|(?:No pid returned on|Unexpected short read from pid) socket"
    r"|labeling not supported on this system"
)
# A distribution's own advice at the end, on the same line; who goes on otherwise only quotes it.
_ADVICE = (
    rf"No permissions to creat(?:e|ing)(?: a)? new namespace, likely because {_USERNS}"
    r" (?:On|See|To|Try|Please)\b(?!.*</)[^\n]{1,300}[.>]"
)
BWRAP = re.compile(rf"bwrap: (?:{_WITH_ERROR}|{_SENTENCES}|{_ADVICE})")
ENDS_WITH_ERROR = re.compile(rf"(?:bwrap: )?(?:{_WITH_ERROR})")
SENTENCE = re.compile(
    rf"(?:bwrap: )?(?:{_SENTENCES})|error building bubblewrap command: [^\n]{{1,300}}"
    r"|error (?:running landlock|applying (?:legacy )?Linux sandbox restrictions): \w+\([^\n]{1,300}\)"
    r"|bundled bubblewrap digest mismatch for \S{1,300}: expected sha256:\w{1,64}, got sha256:\w{1,64}"
)
# Before 0.2 bwrap did not say its name. Here only what nobody else says.
_OWN_WORDS = (
    r"loopback: Failed |setting up [ug]id map|Creating new namespace failed|No permissions to creat|pivot_root|"
    r"unmount old root|capset failed|Failed to make / slave|Can't mount proc on /|"
    r"Unexpected capabilities but not setuid|Dropping capability \d+ from bounds|unshare user ns"
)
# A report of a few words, as the title of an issue: without the error, so that it names no cause by itself.
_CUT_SHORT = (
    r"No permissions to creat(?:e|ing)(?: a)? new namespace|loopback: Failed RTM_NEW(?:ADDR|LINK)|"
    r"setting up [ug]id map|Creating new namespace failed|Failed to make / slave|Failed to mount tmpfs|pivot_root|"
    r"unshare user ns|capset failed|Can't (?:mount (?:proc|tmpfs|devpts|mqueue) on|find source path|"
    r"mkdir(?: parents for)?|create file at|chdir to|make symlink at) /[^\s:]{1,300}"
)
_BY_CODEX = r"Unknown option --[\w-]+|execvp (?:bwrap|(?:/\S{1,300}/)?codex-linux-sandbox): No such file or directory"
_SETUID = (
    r"The --[\w-]+ option is not permitted in setuid mode|--userns2? doesn't work in setuid mode|"
    r"--cap-add in setuid mode can be used only by root"
)
OTHER_BWRAP = re.compile(
    rf"(?:bwrap: )?(?={_OWN_WORDS})(?:{_WITH_ERROR}|{_SENTENCES})"
    rf"|bwrap: (?:{_CUT_SHORT}|{_BY_CODEX}|{_SETUID}|{_WITH_ERROR}\.)"
)
_PANIC = r"thread '[^']{0,60}' (?:\([^)]{0,60}\) )?panicked at "
CODEX = re.compile(
    rf"{_PANIC}(?:\S{{0,100}}/)?linux-sandbox/src/\S{{1,100}}"  # the reason is on the next line
    rf"|(?:{_PANIC}.{{0,200}})?"
    r"(?:bubblewrap is unavailable(?:: no system bwrap was found on PATH.{0,300})?"
    r"|error building bubblewrap command: .{1,300}"
    r"|error running landlock: \w+\(.{0,300}"
    r"|error applying (?:legacy )?Linux sandbox restrictions: .{1,300}"
    r"|error activating Linux proxy routing bridge: .{1,300}|failed to prepare host proxy routing bridge: .{1,300}"
    r"|bundled bubblewrap digest mismatch for .{1,600}, got sha256:\w{1,64}"
    r"|failed to [\w ]{1,60}\bbubblewrap\b.{0,300}|waitpid failed for bubblewrap .{1,200}"
    r"|permission profiles requiring direct runtime enforcement are incompatible with --use-legacy-landlock"
    r"|filesystem-restricted execution requires bubblewrap .{1,100}"
    r"|(?:\S*sh: )?(?:line )?(?:\d+: )?bwrap: (?:command )?not found)"
)
FIRST_WORDS = re.compile(
    rf"bwrap: |{_OWN_WORDS}|error building bubblewrap command:|error running landlock|bubblewrap is unavailable|"
    r"error a(?:pplying|ctivating) |failed to [\w ]{1,60}\bbubblewrap|failed to prepare host proxy|bundled bubblewrap |"
    r"waitpid failed for bubblewrap|permission profiles requiring|filesystem-restricted execution|thread '"
)
# What a launcher writes beside it. A line of the command's own would show that the jail was up.
BESIDE = re.compile(
    r"(?i)\[?(err(or|eur|ore|o)?|fehler|błąd|错误|エラー|warning|warn|note|info|debug|fatal|hint)\b|thread '|"
    r"stack backtrace|\*\*|[\"'},\]]+$|"
    r"\"?,\s*\"\w+\"|\", \w+: |failed to sync with dbus proxy|ldconfig failed|trace/breakpoint|"
    r"(process |command )?exit(ed)?( with)?( code| status)?[:=]? *\d+$|(output|stderr|stdout):$|wall time: |chunk id: |"
    r"original token count: |exec$|(exec )?\S{0,100}\b(ba)?sh -l?c .{1,600} exited \d+ in [\d.]+m?s:$|"
    r"bwrap: Only the last --[\w-]+ option will take effect$|.{0,300}\bfs sandbox helper failed with status .{1,60}:$|"
    r"[\u2718\u2717\u00d7] failed to apply patch$|at .{1,300}:\d+:\d+\)?$|"
    r"(subprocess\.)?CalledProcessError: Command .{1,600} (returned non-zero exit status \d+|died with .{1,60})\.$"
)
