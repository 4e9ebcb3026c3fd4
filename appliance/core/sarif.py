"""A review as SARIF 2.1.0, for code scanning and for editors."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from appliance.core.findings import Finding, Review
from appliance.core.inert import inert, plain
from appliance.core.verdict import Gate, blocking, blocks_at

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
# The ids of the rules are what others suppress and filter by: never renamed.
RULES = (
    ("P0", "error", "A defect that breaks everything or everybody."),
    ("P1", "error", "A defect to be mended before this is merged."),
    ("P2", "warning", "A defect to be mended, though not at once."),
    ("P3", "note", "A lesser one."),
)
FINGERPRINT = "reviewAppliance/v1"


def sarif(review: Review, gate: Gate, block_priority: int, *, version: str, repository: str = "") -> dict[str, Any]:
    """The log of one run. `repository` is the address of the repository's page, or the path of a local one.

    A review that judges nothing (its gate is `error`) is an execution that did not succeed: no findings in it is not
    "nothing found".
    """
    findings = review.result.findings
    blockers = set(map(id, blocking(findings, blocks_at(review, block_priority))))
    paths = list(dict.fromkeys(_uri(finding.path) for finding in findings))
    run: dict[str, Any] = {
        "tool": {"driver": _driver(version)},
        "automationDetails": {"id": f"review-appliance/{plain(review.target)}"},
        "invocations": [_invocation(review, gate)],
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
        "artifacts": [{"location": {"uri": path, "uriBaseId": ROOT}} for path in paths],
        "results": [_result(finding, id(finding) in blockers, paths) for finding in findings],
        "properties": {
            "verdict": review.result.verdict,
            "gate": gate.state,
            "gateDescription": gate.description,
            "summary": review.result.summary,
            "limits": review.result.limits,
            "model": review.model,
            "rehearsal": review.rehearsal,
        },
    }
    if address := _address(repository):
        run["versionControlProvenance"] = [
            {"repositoryUri": address, "revisionId": review.head_sha, "mappedTo": {"uriBaseId": ROOT}}
        ]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _driver(version: str) -> dict[str, Any]:
    rules = [
        {
            "id": f"codex-review/{name}",
            "name": f"Priority{name[1]}",
            "shortDescription": {"text": f"{name}: {text}"},
            "fullDescription": {"text": f"{text} Found by a language model that read the change and its surroundings."},
            "help": {"text": "The finding says what is wrong and when. A model wrote it: judge it first."},
            "defaultConfiguration": {"level": level},
            "properties": {"problem.severity": "recommendation" if level == "note" else level, "tags": ["review"]},
        }
        for name, level, text in RULES
    ]
    return {"name": "review-appliance", "version": version, "semanticVersion": version, "rules": rules}


def _invocation(review: Review, gate: Gate) -> dict[str, Any]:
    succeeded = gate.state in ("success", "failure")
    told: list[tuple[str, str]] = [] if succeeded else [("error", gate.description)]
    told += [("warning", f"Not reviewed: {plain(each.path)}: {plain(each.why)}") for each in _unseen(review)]
    if review.rehearsal:
        told.append(("warning", "A rehearsal: written by the scripted model of the appliance."))
    return {
        "executionSuccessful": succeeded,
        "toolExecutionNotifications": [{"level": level, "message": {"text": text}} for level, text in told],
    }


def _unseen(review: Review) -> Sequence[Any]:
    return [*review.coverage.trimmed, *review.coverage.left_out]


def _result(finding: Finding, blocks: bool, paths: Sequence[str]) -> dict[str, Any]:
    name, level, _ = RULES[finding.priority]
    uri = _uri(finding.path)
    artifact = {"uri": uri, "uriBaseId": ROOT, "index": paths.index(uri)}
    place: dict[str, Any] = {"artifactLocation": artifact}
    title, deleted = inert(finding.title, one_line=True), ""
    if finding.side == "RIGHT":
        place["region"] = {"startLine": max(1, finding.line_start), "endLine": max(1, finding.line_end)}
    else:  # lines that the head no longer has: a region would point at others
        deleted = f" (in deleted lines {finding.line_start} to {finding.line_end})"
    body = inert(finding.body)
    found: dict[str, Any] = {
        "ruleId": f"codex-review/{name}",
        "ruleIndex": finding.priority,
        "level": "note" if finding.advisory else level,
        "message": {"text": f"{title}{deleted}\n\n{body}", "markdown": f"**{title}**{deleted}\n\n{body}"},
        "locations": [{"physicalLocation": place}],
        "properties": {
            "priority": name,
            "confidence": finding.confidence,
            "blocks": blocks and not finding.advisory,
            "side": finding.side,
        },
    }
    if finding.fingerprint:
        found["partialFingerprints"] = {FINGERPRINT: finding.fingerprint}
    if finding.suggestion is not None and finding.side == "RIGHT":
        found["fixes"] = [_fix(finding, artifact)]
    return found


def _fix(finding: Finding, artifact: dict[str, Any]) -> dict[str, Any]:
    """Whole lines in place of whole lines; where nothing takes their place their last line end goes, too."""
    text = (finding.suggestion or "").removesuffix("\n")
    first, last = max(1, finding.line_start), max(1, finding.line_end)
    region = {"startLine": first, "endLine": last}
    if not text:
        region = {"startLine": first, "startColumn": 1, "endLine": last + 1, "endColumn": 1}
    replacement = {"deletedRegion": region, "insertedContent": {"text": text}}
    return {
        "description": {"text": "What the reviewer suggests."},
        "artifactChanges": [{"artifactLocation": artifact, "replacements": [replacement]}],
    }


def _uri(path: str) -> str:
    """A path of the repository as a reference below its root; it can neither leave that nor name a host."""
    parts = [part for part in path.split("/") if part not in ("", ".", "..")]
    return "/".join(quote(part, safe="", errors="replace") for part in parts)


def _address(repository: str) -> str:
    if repository.startswith("/"):
        return f"file://{quote(repository, errors='replace')}"
    try:
        known = urlsplit(repository).scheme in ("https", "http")
    except ValueError:
        return ""
    return quote(repository, safe=":/%", errors="replace") if known else ""
