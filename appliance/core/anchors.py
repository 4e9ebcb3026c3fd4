"""Where a finding stands in the diff. A forge takes a comment only on lines that its diff shows, and refuses a whole
review for one that is elsewhere: what fits nowhere stands in the body."""

import re
from collections.abc import Collection

from appliance.core.diff import Diff, FileDiff, Hunk, Lines
from appliance.core.findings import Finding, InlineAnchor, Side


def place(finding: Finding, diff: Diff) -> InlineAnchor | None:
    """The place of `finding`, or None if nothing of its lines is in one hunk of its file."""
    file = diff.of(finding.path)
    if file is None:
        return None
    wanted = (finding.line_start, finding.line_end)
    return _changed(file, wanted, finding.side) or _fallback(file, wanted, finding.side)


def real_name(path: str, names: Collection[str]) -> str:
    """The path that is meant: models also name files as `git diff` prints them, with `a/` or `b/`, or quoted."""
    for name in (path, unquoted := _unquoted(path), path[2:], unquoted[2:]):
        if name in names and (name in (path, unquoted) or path.lstrip('"')[:2] in ("a/", "b/")):
            return name
    return path


_ESCAPE = re.compile(rb'\\([0-7]{3}|[abfnrtv"\\])')
_ESCAPED = dict(zip(b'abfnrtv"\\', b'\a\b\f\n\r\t\v"\\', strict=True))


def _unquoted(path: str) -> str:
    """`"\\350\\257\\204.py"`, as git prints it, read back; anything else as it is."""
    if len(path) < 2 or path[0] != '"' or path[-1] != '"':
        return path

    def read(found: re.Match[bytes]) -> bytes:
        code = found.group(1)
        return bytes([int(code, 8) & 0xFF if len(code) == 3 else _ESCAPED[code[0]]])

    return _ESCAPE.sub(read, path[1:-1].encode("utf-8", "replace")).decode("utf-8", "backslashreplace")


def _changed(file: FileDiff, wanted: Lines, side: Side) -> InlineAnchor | None:
    """On lines of this side that changed; what of the range is outside of the hunk is cut off."""
    for hunk in file.hunks:
        part = _common(wanted, hunk.shown(side))
        if part and any(_common(part, changed) for changed in hunk.changed(side)):
            return _anchor(file, part, side)
    return None


def _fallback(file: FileDiff, wanted: Lines, side: Side) -> InlineAnchor | None:
    """Nothing that was added is meant: so lines that a hunk only takes away, by their old numbers; or lines beside a
    change, if one hunk shows all of them."""
    if side == "RIGHT":
        for hunk in file.hunks:
            if not hunk.added and (part := _common(wanted, hunk.left)) and _any(part, hunk):
                return _anchor(file, part, "LEFT")
    for hunk in file.hunks:
        if _common(wanted, hunk.shown(side)) == wanted:
            return _anchor(file, wanted, side)
    return None


def _any(part: Lines, hunk: Hunk) -> bool:
    return any(_common(part, removed) for removed in hunk.removed)


def _common(one: Lines, other: Lines | None) -> Lines | None:
    if other is None:
        return None
    first, last = max(one[0], other[0]), min(one[1], other[1])
    return (first, last) if first <= last else None


def _anchor(file: FileDiff, lines: Lines, side: Side) -> InlineAnchor:
    first, last = lines
    return InlineAnchor(file.path, last, side, *((first, side) if first < last else (None, None)))
