"""Brings the findings of a review to the diff: real names, anchors, fingerprints, suggestions that fit, each once."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from appliance.core.anchors import place, real_name
from appliance.core.diff import Diff
from appliance.core.findings import Finding
from appliance.core.fingerprint import around, fingerprint, merged
from appliance.core.instructions import left_out_by
from appliance.core.suggestions import fits
from appliance.git import Mirror
from appliance.git.changes import ChangedFile
from appliance.git.mirror import Entry

MAX_READ = 2 * 1024**2  # bytes of a file that are looked into for the code at a finding


def placed(
    mirror: Mirror,
    changes: Sequence[ChangedFile],
    findings: Sequence[Finding],
    exclude: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> tuple[Finding, ...]:
    """`findings` as they stand in the diff of `changes`, no more than given and none lost.

    What is in a file that the base branch leaves out (one of `left_out`, or an unchanged one that `exclude` names) is
    advisory: its maintainers said that it does not count. Raises GitError.
    """
    by_name = {file.old_path: file for file in changes if file.old_path} | {file.path: file for file in changes}
    named = [_named(finding, by_name) for finding in findings]
    diff = mirror.diff([by_name[path] for path in dict.fromkeys(one.path for one in named) if path in by_name])

    @lru_cache(maxsize=4)
    def lines(blob: str) -> Sequence[str]:
        text = mirror.content(Entry(mode="", blob=blob, size=0))[:MAX_READ].decode("utf-8", "replace")
        return text.removesuffix("\n").split("\n")

    def one(finding: Finding) -> Finding:
        file = by_name.get(finding.path)
        out = finding.path in left_out if file else left_out_by(exclude, finding.path)
        finding = replace(finding, advisory=finding.advisory or out)
        return _placed(finding, file, diff, _lines_of(file, finding, lines) if file else ())

    return merged([one(finding) for finding in named])


def _named(finding: Finding, by_name: dict[str, ChangedFile]) -> Finding:
    path = real_name(finding.path, by_name)
    return replace(finding, path=by_name[path].path if path in by_name else path)


def _lines_of(file: ChangedFile, finding: Finding, lines: Callable[[str], Sequence[str]]) -> Sequence[str]:
    blob = file.old_blob if finding.side == "LEFT" or file.status == "D" else file.blob
    readable = file.added is not None and set(blob) != {"0"} and blob
    return lines(blob) if readable else ()


def _placed(finding: Finding, file: ChangedFile | None, diff: Diff, lines: Sequence[str]) -> Finding:
    # A forge cannot be told a name that is no UTF-8: it would refuse the comments on all other lines with it.
    sayable = file is None or not file.raw or file.path.encode("utf-8", "replace") == file.raw
    anchor = place(finding, diff) if sayable else None
    code = around(lines, finding.line_start, finding.line_end)
    name = (file.old_path if file else None) or finding.path
    return replace(
        finding,
        anchor=anchor,
        committable=fits(finding, anchor, lines),
        fingerprint=fingerprint(name, code, finding.title),
    )
