"""A review as GitHub's workflow commands: annotations of a job, wherever a runner reads the output."""

from collections.abc import Iterator

from appliance.core.findings import Finding, Review
from appliance.core.inert import plain
from appliance.core.verdict import Gate

LEVELS = ("error", "error", "warning", "notice")  # of P0 to P3
_OF_GATE = {"success": "notice", "pending": "notice", "failure": "error", "error": "error"}


def workflow(review: Review, gate: Gate) -> str:
    """A line for each finding, and one for the gate, so that an empty list is never all there is."""
    return "\n".join([*map(_finding, review.result.findings), *_unseen(review), _gate(review, gate)])


def harmless(line: str) -> str:
    """What stands in such an output and is no command of ours: the runner takes `##[…]` for one wherever it is."""
    return plain(line).replace("##[", "## [").replace("::", ": :")


def _finding(finding: Finding) -> str:
    place = {"file": finding.path}
    if finding.side == "RIGHT":  # of deleted lines the head has no number
        place |= {"line": str(finding.line_start), "endLine": str(finding.line_end)}
    level = "notice" if finding.advisory else LEVELS[finding.priority]
    return _command(level, f"{finding.title}\n\n{finding.body}", place, f"[P{finding.priority}] {finding.title}")


def _unseen(review: Review) -> Iterator[str]:
    for each in (*review.coverage.trimmed, *review.coverage.left_out):
        yield _command("warning", each.why, {"file": each.path}, "Not reviewed")


def _gate(review: Review, gate: Gate) -> str:
    rehearsal = " (a rehearsal, written by the scripted model)" if review.rehearsal else ""
    return _command(_OF_GATE[gate.state], f"{gate.description}{rehearsal}", {}, "Codex review")


def _command(level: str, message: str, place: dict[str, str], title: str) -> str:
    given = {**place, "title": " ".join(title.split())}
    properties = ",".join(f"{name}={_property(value)}" for name, value in given.items())
    return f"::{level} {properties}::{_data(message)}"


def _data(text: str) -> str:
    """As GitHub's own toolkit writes a message (actions/toolkit, core/src/command.ts)."""
    text = plain(text).replace("##[", "## [")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
