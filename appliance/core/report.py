"""A review as Markdown: what people read on the forge and on the terminal (DESIGN section 2, scenario 7)."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict

from appliance.core.findings import Finding, Review
from appliance.core.marker import Marker
from appliance.core.verdict import Gate, blocking

MAX_COMMENT = 65_000  # GitHub refuses a body of more than 65,536 characters
CUT = "\n\n_(cut: the review is longer than a comment may be)_\n"
_GAP = "\n\n"
Permalink = Callable[[str, int, int], str | None]


def comment(
    review: Review,
    gate: Gate,
    block_priority: int,
    permalink: Permalink,
    marker: str = "",
    earlier: Marker | None = None,
) -> str:
    """The whole comment, at most MAX_COMMENT characters; when it must be cut, verdict and marker stay.

    `earlier` is the marker of the review that this one supersedes.
    """
    parts = [*_findings(review, block_priority, permalink), *_earlier(review, earlier)]
    top, middle, end = ("\n\n".join(part) for part in (_top(review, gate), parts, _conclusion(review)))
    room = MAX_COMMENT - len(marker) - 4
    middle_room = room - len(top) - len(end) - 4
    if middle_room < len(CUT):  # an outsized summary or reasoning: cut at the end, keep the marker
        return f"{_cut(f'{top}{_GAP}{middle}{_GAP}{end}', room)}{_GAP}{marker}"
    return _GAP.join(part for part in (top, _cut(middle, middle_room), end, marker) if part)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - len(CUT)] + CUT


def _top(review: Review, gate: Gate) -> list[str]:
    rehearsal = ["> **Rehearsal**: written by the scripted model of the appliance, not by Codex's model."]
    return [
        f"## Codex review: {gate.description}",
        *(rehearsal if review.rehearsal else []),
        f"Reviewed head `{review.head_sha}` against base `{review.base_ref}` at `{review.base_sha}`"
        f" (merge base `{review.merge_base}`).",
        inert(review.result.summary),
    ]


def _findings(review: Review, block_priority: int, permalink: Permalink) -> list[str]:
    findings = sorted(review.result.findings, key=lambda finding: finding.priority)
    if not findings:
        return [] if review.nothing_to_review else ["No findings."]
    blockers = set(map(id, blocking(findings, block_priority)))
    return [_finding(finding, id(finding) in blockers, permalink) for finding in findings]


def _finding(finding: Finding, blocks: bool, permalink: Permalink) -> str:
    url = permalink(finding.path, finding.line_start, finding.line_end)
    lines = (
        str(finding.line_start)
        if finding.line_start == finding.line_end
        else f"{finding.line_start}-{finding.line_end}"
    )
    place = code(f"{finding.path}:{lines}")
    where = f"[{place}]({url})" if url else place
    return (
        f"### [P{finding.priority}] {inert(finding.title, one_line=True)}\n\n"
        f"{where}{' · blocks' if blocks else ''} · confidence {finding.confidence:.2f}\n\n{inert(finding.body)}"
    )


def _earlier(review: Review, earlier: Marker | None) -> list[str]:
    if earlier is None:
        return []
    now = {(finding.path, _words(finding.title)) for finding in review.result.findings}
    lines = [
        f"- [P{priority}] {inert(title, one_line=True)} ({code(path)}): "
        + ("reported again" if (path, _words(title)) in now else "not reported any more")
        for priority, path, title in earlier.findings
    ]
    head = f"### Earlier review\n\nThis review supersedes the one of head `{earlier.head_sha}`"
    return [head + (". Of its findings:" if lines else ", which had no findings.") + "".join(f"\n{x}" for x in lines)]


def _conclusion(review: Review) -> list[str]:
    evidence, usage = review.evidence, review.usage
    looked = [
        f"{evidence.files_changed} files changed",
        f"{len(evidence.commands)} commands ran in the sandbox",
        *([f"{len(evidence.failed_commands)} commands failed"] if evidence.failed_commands else []),
    ]
    commands = "\n".join(f"- {code(command)}" for command in evidence.commands[:20])
    return [
        f"**Verdict: {review.result.verdict}**\n\n{inert(review.result.reasoning)}",
        f"**Evidence**: {', '.join(looked)}.",
        *([f"<details><summary>Commands</summary>\n\n{commands}\n\n</details>"] if commands else []),
        f"**Limits**: {inert(review.result.limits) or 'none named'}",
        f"<sub>{inert(review.model, one_line=True)} · {usage.input_tokens:,} tokens in"
        f" ({usage.cached_input_tokens:,} cached), {usage.output_tokens:,} out · {review.seconds:.0f} s</sub>",
    ]


def code(text: str) -> str:
    """A code span that its content cannot leave."""
    flat = re.sub(r"[\x00-\x1f\x7f]", lambda m: f"\\x{ord(m.group()):02x}", text)[:300]
    fence = "`" * (max((len(run) for run in re.findall(r"`+", flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


_CLOSING = re.compile(r"\b(close[sd]?|fix(?:e[sd])?|resolve[sd]?)(\s*:?\s+)(?=[\w./-]*#\d|https?://)", re.IGNORECASE)


def inert(text: str, *, one_line: bool = False) -> str:
    """The model's text with nothing in it that acts on the forge: no mention, HTML, image, or closing keyword.

    Text in code spans and fences acts on nothing, but a fence that is not closed would swallow what follows.
    """
    text = text.replace("\r\n", "\n")
    if one_line:
        text = " ".join(text.split())
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", "\N{REPLACEMENT CHARACTER}", text)
    text = text.replace("<", "&lt;")
    text = text.replace("![", "!\N{ZERO WIDTH SPACE}[")
    text = re.sub(r"@(?=[A-Za-z0-9])", "@\N{ZERO WIDTH SPACE}", text)
    text = _CLOSING.sub(lambda m: f"{m.group(1)}{m.group(2)}\N{ZERO WIDTH SPACE}", text)
    text = re.sub(r"(?<![\w&])#(?=\d)", "#\N{ZERO WIDTH SPACE}", text)
    if len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE)) % 2:
        text += "\n```"
    return text.strip()


def _words(title: str) -> str:
    return " ".join(re.findall(r"\w+", title.casefold()))


def marker_findings(findings: Sequence[Finding], at_most: int) -> tuple[tuple[int, str, str], ...]:
    worst = sorted(findings, key=lambda finding: finding.priority)[:at_most]
    return tuple((finding.priority, finding.path[:200], finding.title[:120]) for finding in worst)


def as_json(review: Review, gate: Gate) -> dict[str, object]:
    """The documented JSON of `review --format json` (docs/json.md); names are never changed, only added to."""
    return {
        "target": review.target,
        "head_sha": review.head_sha,
        "base_sha": review.base_sha,
        "merge_base": review.merge_base,
        "verdict": review.result.verdict,
        "gate": gate.state,
        "gate_description": gate.description,
        "findings": [asdict(finding) for finding in review.result.findings],
        "summary": review.result.summary,
        "reasoning": review.result.reasoning,
        "limits": review.result.limits,
        "usage": asdict(review.usage),
        "seconds": round(review.seconds, 3),
        "model": review.model,
        "rehearsal": review.rehearsal,
    }
