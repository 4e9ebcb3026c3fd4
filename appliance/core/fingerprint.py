"""What tells that two findings are the same: path, code and title, not line numbers."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import replace

from appliance.core.findings import Finding

ENOUGH = 24  # letters and digits; a lone `}` or `return None` is found anywhere
MAX_AROUND = 3  # lines on each side that are added to have so many
MAX_LINES = 40  # of a range that count
MAX_BODY = 20_000


def fingerprint(path: str, code: str, title: str) -> str:
    """The same for a finding that moved, was re-indented, or told with other punctuation. `path` is that in the base,
    so that a rename changes nothing."""
    said = [path, re.sub(r"\s+", "", code), words(title)]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


SHORT = 6  # characters


def short(fingerprint: str) -> str:
    """What people call a finding: the beginning of its fingerprint, with the number that tells alike ones apart."""
    begin, _, number = fingerprint.partition("-")
    return f"{begin[:SHORT]}-{number}" if number else begin[:SHORT]


def around(lines: Sequence[str], first: int, last: int) -> str:
    """The code of these lines (from 1), with as many beside them as it takes to know them again."""
    begin, end = first - 1, min(last, first - 1 + MAX_LINES)
    if not 0 <= begin < len(lines):
        return ""
    kept = [line for line in lines[begin:end] if line.strip()]
    for step in range(1, MAX_AROUND + 1):
        if sum(map(str.isalnum, "".join(kept))) >= ENOUGH:
            break
        before = [lines[begin - step]] if begin - step >= 0 else []
        after = [lines[end + step - 1]] if end + step <= len(lines) else []
        kept = [*before, *kept, *after]
    return "\n".join(kept)


def words(title: str) -> str:
    return " ".join(re.findall(r"\w+", title.casefold()))


def merged(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Each defect once: the same title on lines that overlap is one finding, as grave as the gravest of them, with what
    any of them says. What remains alike (the same code twice in a file) is told apart by its place."""
    kept: list[Finding] = []
    for finding in findings:
        for at, other in enumerate(kept):
            if _same(finding, other):
                kept[at] = _one(other, finding)
                break
        else:
            kept.append(finding)
    return _told_apart(kept)


def _same(one: Finding, other: Finding) -> bool:
    return (
        (one.path, one.side, words(one.title)) == (other.path, other.side, words(other.title))
        and one.line_start <= other.line_end
        and other.line_start <= one.line_end
    )


def _one(first: Finding, second: Finding) -> Finding:
    """The graver, then the earlier, with the other's words behind its own."""
    best, other = (second, first) if second.priority < first.priority else (first, second)
    more = other.body.strip()
    body = best.body if more in best.body or len(best.body) > MAX_BODY else f"{best.body}\n\n{more}"
    return replace(
        best,
        body=body,
        confidence=max(first.confidence, second.confidence),
        advisory=first.advisory and second.advisory,
    )


def _told_apart(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    seen: dict[str, int] = {}
    apart: dict[int, str] = {}
    for at in sorted(range(len(findings)), key=lambda at: (findings[at].line_start, at)):
        name = findings[at].fingerprint
        seen[name] = seen.get(name, 0) + 1
        apart[at] = name if seen[name] == 1 or not name else f"{name}-{seen[name]}"
    return tuple(replace(finding, fingerprint=apart[at]) for at, finding in enumerate(findings))
