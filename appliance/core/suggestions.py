"""Replacements that the model proposes: offered as a change where they fit, shown as code where not."""

from collections.abc import Sequence

from appliance.core.findings import Finding, InlineAnchor
from appliance.core.inert import acts_in_code, fence_around, fenced

MAX_SUGGESTION = 10_000  # characters


def fits(finding: Finding, anchor: InlineAnchor | None, lines: Sequence[str]) -> bool:
    """Whether the suggestion can be committed as it stands: it replaces exactly the lines that the comment is on, by
    others, and is nothing but text. `lines` are those of the file in the head, without their ends."""
    given = finding.suggestion
    if given is None or anchor is None or anchor.side != "RIGHT" or len(given) > MAX_SUGGESTION:
        return False
    first, last = anchor.start_line or anchor.line, anchor.line
    present = lines[first - 1 : last]
    if (first, last) != (finding.line_start, finding.line_end) or len(present) != last - first + 1:
        return False
    if any("\r" in line or "\N{REPLACEMENT CHARACTER}" in line for line in present):
        return False  # its line ends or its encoding would not come back as they are
    return _new(given) != list(present) and fence_around(given) is not None and not acts_in_code(given)


def block(finding: Finding) -> str:
    """The suggestion in Markdown, or nothing: for a comment on its lines, if it is committable; else as code."""
    if finding.suggestion is None:
        return ""
    fence = fence_around(finding.suggestion)
    if finding.committable and fence is not None:
        return "\n".join([f"{fence}suggestion", *_new(finding.suggestion), fence])
    return as_code(finding)


def as_code(finding: Finding) -> str:
    """The suggestion as an ordinary block of code, for the body of a comment; nothing if there is none."""
    if finding.suggestion is None:
        return ""
    if not finding.suggestion:
        return "Suggested: delete these lines."
    return f"Suggested instead:\n\n{fenced(finding.suggestion.removesuffix(chr(10))[:MAX_SUGGESTION])}"


def _new(suggestion: str) -> list[str]:
    """The lines that it would put there; none if it only deletes."""
    return suggestion.removesuffix("\n").split("\n") if suggestion else []
