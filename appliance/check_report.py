"""What a check run shows beside the gate: the review as a whole, and a note on each line that it is about."""

from appliance.core.findings import Finding, Review
from appliance.core.inert import plain
from appliance.core.report import comment
from appliance.core.workflow import LEVELS
from appliance.forge import Annotation, Report
from appliance.senders import Desk

_LEVELS = {"error": "failure", "warning": "warning", "notice": "notice"}


def report_of(desk: Desk) -> Report:
    """Of the desk's review: its comment without the marker, which would count as one of ours where it is copied to."""
    stored, review = desk.review
    folded = desk.folded(review)
    summary = comment(
        review,
        stored.gate,
        desk.block_priority,
        lambda path, first, last: desk.forge.permalink(desk.pull, path, first, last),
        folded=folded,
    )
    return Report(summary, annotations(review, folded), stored.comment_url or "")


def annotations(review: Review, folded: list[Finding]) -> tuple[Annotation, ...]:
    """Gravest first: of findings that stand on lines of the head, as the diff shows them. The others, those on deleted
    lines and those on no line at all, have theirs in the summary alone, and so have `folded` ones."""
    out = set(map(id, folded))
    found = sorted(review.result.findings, key=lambda finding: finding.priority)
    return tuple(made for it in found if id(it) not in out and (made := _annotation(it)) is not None)


def _annotation(finding: Finding) -> Annotation | None:
    at = finding.anchor
    if at is None or at.side != "RIGHT" or not _is_text(at.path):
        return None
    level = "notice" if finding.advisory else _LEVELS[LEVELS[finding.priority]]
    title = " ".join(plain(f"[P{finding.priority}] {finding.title}").split())
    first = at.start_line or at.line
    return Annotation(at.path, first, at.line, level, title, plain(finding.body))  # type: ignore[arg-type]


def _is_text(path: str) -> bool:
    """A path of other bytes than UTF-8 has no name in JSON."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
