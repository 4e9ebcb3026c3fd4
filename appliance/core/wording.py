"""What bwrap and Codex say when a sandbox cannot start, found in what a command, a log or a terminal made of it.

`messages` undoes what lies between the program and us: colours, prefixes of loggers, JSON escapes, broken lines. Two
questions are answered from that: is this output nothing but a failed bwrap (`is_bwrap_failure`, for a command of the
agent), and is this text such a failure at all or does it only quote one (`is_jail_fault`)?
"""

import re
from collections.abc import Iterable
from itertools import product

from appliance.core.bwrap_words import BESIDE, BWRAP, CODEX, ENDS_WITH_ERROR, FIRST_WORDS, OTHER_BWRAP, SENTENCE
from appliance.core.error_words import in_english

MAX_TEXT = 20_000  # characters looked at; bwrap says one line
MAX_LINE = 4000  # characters of a line that may begin with somebody else's words
MAX_BREAKS = 6  # how often a line of bwrap may be broken: 250 characters on 40 columns


def messages(text: str) -> tuple[str, ...]:
    """The lines of `text` that are not empty, without what loggers put before them, bwrap's broken ones made whole.

    A line that is quoted (`> `, `+ `, `file:12:`, a sentence around it) is left as it is, so that it begins otherwise
    than bwrap's own.
    """
    return _joined(map(_clean, _plain(text[:MAX_TEXT]).splitlines()))


def _joined(cleaned: Iterable[str]) -> tuple[str, ...]:
    lines = [line for line in cleaned if line]
    found: list[str] = []
    while lines:
        message, used = _whole(lines[: MAX_BREAKS + 1])
        found.append(message)
        del lines[:used]
    return tuple(found)


def is_bwrap_failure(output: str) -> bool:
    """Whether `output`, all that a failed command wrote, is nothing but bwrap's own failure.

    A text that quotes such a line, or goes on after it, is not: repositories contain them, and their logs and test
    data do, so that nothing is taken off here but what the starter of bwrap puts before it. Only to be asked of a
    command that exited non-zero, and only a hint: `selftest.nested_probe` decides.
    """
    if len(output) > MAX_TEXT or len(output.splitlines()) > 3 * (1 + MAX_BREAKS):
        return False
    found = _joined(_off(_STARTED, _printable(line)) for line in _newlines(_COLOUR.sub("", output)).splitlines())
    return 0 < len(found) <= 3 and all(BWRAP.fullmatch(message) for message in found)


def is_jail_fault(text: str) -> bool:
    """Whether `text` is what a sandbox wrote that could not start: by bwrap or Codex, with nothing of others in it.

    Not: a sentence, a diff or a search result that quotes such a line; `bwrap: execvp make: …`, for then the jail is
    up and the command is missing; a warning after which it goes on; the output of what ended well.
    """
    found = messages(text)
    return any(map(_told, found)) and all(_told(message) or _beside(message) for message in found)


def _told(message: str) -> bool:
    return any(form.fullmatch(message) for form in (BWRAP, OTHER_BWRAP, CODEX))


def _beside(message: str) -> bool:
    return BESIDE.match(message) is not None and not _ENDED_WELL.search(message)


# ---- from what was printed to the line that the program wrote

_COLOUR = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-_])")
# What loggers and collectors of logs put before any line.
_STAMP = re.compile(
    r"""
      \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(\ ?(Z|UTC|[+-]\d\d:?\d\d))?\]?:?\s+        # ISO 8601
      ([\w.-]+\s(?=[\w./()-]+\[\d+\]:\s))?                                           # syslog, from Debian 12
    | [A-Z][a-z]{2}\s+\d{1,2}\s\d\d:\d\d:\d\d(\.\d+)?\s[\w.-]+\s(?=[\w./() -]+(\[\d+\])?:\s)       # syslog, journald
    | \[?\d\d:\d\d:\d\d([.,]\d+)?\]?:?\s+
    | std(err|out)\ [FP]\s+                                                       # Kubernetes
    | \[\s*\d+\.\d+\]\s+                                                                      # the kernel's
    | [\w.-]+\s+\|\s+                                                             # docker compose logs
    """,
    re.VERBOSE,
)
# What the program that started bwrap, or bwrap itself, puts before its line.
_STARTED = re.compile(
    r"""
      <\d>                                                                          # bwrap --level-prefix
    | [\w./-]+\[\d+\]:\s+                                                           # program[pid]:
    | [EWF]:\s+
    | Child\ process\ exited\ with\ code\ [1-9]\d*:\s+                                 # GLib's, in a launcher
    """,
    re.VERBOSE,
)
# What may stand there as well where somebody reports it. A mark of quotation is none of these.
_HANDED_ON = re.compile(
    rf"""
      {_STARTED.pattern}
    | \#\#\[error\]\s*                                                             # GitHub Actions
    | .*\bexit[\ _]code\b.*\sstderr:\s+(?=(<\d>)?bwrap:\ )                            # Codex's own errors
    | .*\b(output|stderr):\ \w+\ \{{\ text:\ "(?=(<\d>)?bwrap:\ )
    | [\w():./\ -]{{1,200}};\ stderr:\s+(?=(<\d>)?bwrap:\ )                          # who waited for it and lost it
    | ([\w\ ]{{1,60}}:\ )?((?i:fs|codex|host)\ )?(?i:sandbox)(\ [\w-]+){{0,3}}\ failed:\s+(?=(<\d>)?bwrap:\ )
    | ((?i:(host\ )?sandbox|codex(\ cli)?|exec|spawn|launch|bubblewrap)\ )?
      \[?(?i:error|err|fatal|panic|warn|warning|stderr|stdout|info|debug)\]?(:\s+|\s+(?=(<\d>)?bwrap:\ ))
    | (codex|codex-exec|codex-linux-sandbox|flatpak|srt|sandbox):\s+
    | (.*\s)?\(?[Ee]xit(ed)?(\ with)?(\ exit)?(\ code|\ status)?:?\s*\d+\)?[:,]?\s+"?(?=(<\d>)?bwrap:\ )
    | [\u2514\u2502\u23bf\u251c\u2570]\s*                                               # the trees of terminals
    | \{{?([^{{}}]*,\s*)?"(log|stderr|stdout|output|aggregated_output|formatted_output|message|msg|error|MESSAGE)":\s*"
    | "(?=(<\d>)?bwrap:\ )                                                                  # a string of JSON
    """,
    re.VERBOSE,
)
_AFTER = re.compile(r'("|",?|"\s*\}+|\\n"|"\s*,\s*"[\w.-]+"\s*:.*)\s*$')
# Of what ended well, such a line is output: of a program that shows a file.
_ENDED_WELL = re.compile(r'(?i)\bexit(ed)?( with)?[ _]?(code|status)?"?:?\s*0\b')
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")


def _plain(text: str) -> str:
    text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).replace("\u2019", "'")
    text = _newlines(_COLOUR.sub("", text))
    return text.replace("\\r\\n", "\n").replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')


def _newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else " " for char in line).strip()


def _clean(line: str) -> str:
    line = in_english(_off(_STAMP, _printable(line)))
    bare = _off(_HANDED_ON, line) if len(line) <= MAX_LINE else line
    if not FIRST_WORDS.match(bare):
        return line
    message = _AFTER.sub("", bare) if bare.count('"') % 2 else bare
    return line if _ENDED_WELL.search(line.replace(message, "", 1)) else message


def _off(before: re.Pattern[str], line: str) -> str:
    for _ in range(6):
        found = before.match(line)
        if found is None:
            break
        line = line[found.end() :].lstrip()
    return line


def _whole(lines: list[str]) -> tuple[str, int]:
    """The message that begins in the first of `lines`, and how many of them it takes."""
    best = lines[0], 1
    if not FIRST_WORDS.match(lines[0]):
        return best
    for count in range(1, len(lines) + 1):
        if count > 1 and FIRST_WORDS.match(lines[count - 1]):
            break
        for glue in product((" ", ""), repeat=count - 1):
            joined = lines[0] + "".join(map("".join, zip(glue, lines[1:count], strict=True)))
            joined = _AFTER.sub("", joined) if joined.count('"') % 2 else joined
            if ENDS_WITH_ERROR.fullmatch(joined) or (count == 1 and CODEX.fullmatch(joined)):
                return joined, count
            if SENTENCE.fullmatch(joined):
                best = joined, count
    return best
