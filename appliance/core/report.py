"""A review as Markdown: what people read on the forge and on the terminal (DESIGN section 2, scenario 7)."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Literal

from appliance.core.findings import Configuration, Coverage, EarlierFinding, Finding, Review
from appliance.core.fingerprint import short
from appliance.core.inert import MAX_FENCE, code, inert, open_fence
from appliance.core.marker import Dismissed, Marker
from appliance.core.suggestions import as_code
from appliance.core.verdict import Gate, blocking, blocks_at

MAX_COMMENT = 65_000  # GitHub refuses a body of more than 65,536 characters
# Of each text, and of each list, that stands outside the findings: what is cut are findings, never the verdict. The
# lesser ones where names that an author chose, and long texts, would leave no room for findings.
_TEXTS = (8000, 4000, 2000, 1000)
CUT = "\n\n_(cut: the review is longer than a comment may be)_\n"
MAX_NAMED = 10
SHOWN_PRIORITY = 1  # what is as grave is shown in every round
MAX_UNSEEN = 50  # files that the comment names as not reviewed; JSON has all
_GAP = "\n\n"
CommentMode = Literal["new", "edit"]
Permalink = Callable[[str, int, int], str | None]


def comment(
    review: Review,
    gate: Gate,
    block_priority: int,
    permalink: Permalink,
    marker: str = "",
    earlier: Marker | None = None,
    inlined: Sequence[Finding] = (),
    folded: Sequence[Finding] = (),
    history: Sequence[str] = (),
) -> str:
    """The whole comment, at most MAX_COMMENT characters; when it must be cut, verdict and marker stay.

    `earlier` is the marker of the review that this one supersedes. `inlined` are findings that stand on lines of the
    diff: here they are only named, behind the others. `folded` ones are shown to who opens them. `history` is of older
    heads, a line each, the newest first.
    """
    parts = [
        *_findings(review, block_priority, permalink, inlined, folded),
        *_dismissed(review),
        *_earlier(review, earlier),
    ]
    middle = _GAP.join(parts)
    for most in _TEXTS:
        top, end = _GAP.join(_top(review, gate, most)), _GAP.join(_conclusion(review, most))
        room = MAX_COMMENT - len(top) - len(end) - len(marker) - 4 * len(_GAP)
        if room >= min(len(middle), MAX_COMMENT // 3):
            break
    told = _history(history, room - min(len(middle), MAX_COMMENT // 3))
    return _GAP.join(part for part in (top, cut(middle, room - len(told)), end, told, marker) if part)


def _history(lines: Sequence[str], room: int) -> str:
    """What an edited comment keeps of older heads: as many as there is room for."""
    kept = list(_within(lines, room - 100))
    said = "\n".join(kept)
    return f"<details><summary>Earlier heads: {len(kept)}</summary>\n\n{said}\n\n</details>" if kept else ""


def _within(lines: Sequence[str], room: int) -> Iterator[str]:
    """The first of `lines`, as far as they fit."""
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return
        yield line


def to_fold(review: Review, block_priority: int) -> list[Finding]:
    """After many rounds: what is neither P0 nor P1 and blocks nothing."""
    blockers = set(map(id, blocking(review.result.findings, blocks_at(review, block_priority))))
    return [it for it in review.result.findings if it.priority > SHOWN_PRIORITY and id(it) not in blockers]


def cut(text: str, room: int) -> str:
    if len(text) <= room:
        return text
    kept = text[: max(0, room - len(CUT) - MAX_FENCE - 1)]
    fence = open_fence(kept)
    return (f"{kept}\n{fence}" if fence else kept) + CUT


def _top(review: Review, gate: Gate, most: int) -> list[str]:
    rehearsal = ["> **Rehearsal**: written by the scripted model of the appliance, not by Codex's model."]
    return [
        f"## Codex review: {gate.description}",
        *(rehearsal if review.rehearsal else []),
        f"Reviewed head `{review.head_sha}` against base {code(review.base_ref)} at `{review.base_sha}`"
        f" (merge base `{review.merge_base}`).",
        *_changed(review.configuration),
        _text(review.result.summary, most),
    ]


def _changed(held: Configuration) -> list[str]:
    if not held.changed:
        return []
    return [f"This pull request changes the instructions: {_names(held.changed)}; they take effect only once merged."]


def _names(paths: Sequence[str], count: int | None = None) -> str:
    """The first MAX_NAMED of `paths`, and how many more there are of `count` in all."""
    more = (len(paths) if count is None else count) - len(paths[:MAX_NAMED])
    return ", ".join(code(path) for path in paths[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _findings(
    review: Review,
    block_priority: int,
    permalink: Permalink,
    inlined: Sequence[Finding] = (),
    folded: Sequence[Finding] = (),
) -> list[str]:
    findings = sorted(review.result.findings, key=lambda finding: finding.priority)
    if not findings:
        return [] if review.nothing_to_review else ["No findings."]
    blockers = set(map(id, blocking(findings, blocks_at(review, block_priority))))
    apart = set(map(id, (*inlined, *folded)))
    here = [finding for finding in findings if id(finding) not in apart]
    shown = [*(_finding(it, id(it) in blockers, permalink) for it in here), *_on_lines(inlined, blockers)]
    return [*shown, *_folded([it for it in findings if id(it) in set(map(id, folded))], permalink)]


def _folded(findings: Sequence[Finding], permalink: Permalink) -> list[str]:
    if not findings:
        return []
    said = _GAP.join(_finding(finding, False, permalink) for finding in findings)
    title = f"{_count(len(findings), 'finding')} of lower priority, folded after so many rounds"
    return [f"<details><summary>{title}</summary>\n\n{said}\n\n</details>"]


def _on_lines(findings: Sequence[Finding], blockers: Collection[int]) -> list[str]:
    lines = [
        f"- [P{finding.priority}] {inert(finding.title, one_line=True)} ({code(_place(finding))})"
        + (" · blocks" if id(finding) in blockers else "")
        + marks(finding)
        for finding in findings
    ]
    return ["### On lines of the diff\n\n" + "\n".join(lines)] if lines else []


def _place(finding: Finding) -> str:
    last = "" if finding.line_start == finding.line_end else f"-{finding.line_end}"
    return f"{finding.path}:{finding.line_start}{last}"


def _finding(finding: Finding, blocks: bool, permalink: Permalink) -> str:
    # An address of old lines would show others.
    url = permalink(finding.path, finding.line_start, finding.line_end) if finding.side == "RIGHT" else None
    place = code(f"{_place(finding)}{' (deleted)' if finding.side == 'LEFT' else ''}")
    suggested = as_code(finding)
    where = f"[{place}]({url})" if url else place
    return (
        f"### [P{finding.priority}] {inert(finding.title, one_line=True)}\n\n"
        f"{where}{' · blocks' if blocks else ''}{marks(finding)} · confidence {finding.confidence:.2f}"
        f"\n\n{inert(finding.body)}{f'{_GAP}{suggested}' if suggested else ''}"
    )


def marks(finding: Finding) -> str:
    """What is to be said of a finding beside its title, and the name by which `/review explain` takes it."""
    carried = " · carried over, still open" if finding.carried else ""
    name = f" · {code(short(finding.fingerprint))}" if finding.fingerprint else ""
    return (" · advisory" if finding.advisory else "") + carried + name


def _earlier(review: Review, earlier: Marker | None) -> list[str]:
    told = [_became(each) for each in review.earlier if each.state != "dismissed"]
    if earlier is None:
        return ["### Earlier review\n\n" + "\n".join(told)] if told else []
    known = {(each.path[:200], each.title[:120]) for each in review.earlier}
    now = {(finding.path, _words(finding.title)) for finding in review.result.findings}
    lines = [
        f"- [P{priority}] {inert(title, one_line=True)} ({code(path)}): "
        + ("reported again" if (path, _words(title)) in now else "not reported any more")
        for priority, path, title in earlier.findings
        if (path, title) not in known
    ]
    lines = [*told, *lines]
    head = f"### Earlier review\n\nThis review supersedes the one of head `{earlier.head_sha}`"
    return [head + (". Of its findings:" if lines else ", which had no findings.") + "".join(f"\n{x}" for x in lines)]


def _dismissed(review: Review) -> list[str]:
    told = [_became(each) for each in review.earlier if each.state == "dismissed"]
    return ["### Dismissed\n\n" + "\n".join(told)] if told else []


def _became(each: EarlierFinding) -> str:
    """What became of one earlier finding; what people and models wrote of it is inert."""
    became = {
        "open": "still open, reported again" if each.reported else "still open",
        "resolved": f"resolved in `{each.commit[:12]}`",
        "obsolete": "obsolete",
        "dismissed": f"dismissed by {code(each.who)}",
    }[each.state]
    why = inert(each.reason if each.state == "dismissed" else each.evidence, one_line=True)
    name = f"{each.id} " if each.id else ""
    said = f": {why}" if why else ""
    return f"- {name}[P{each.priority}] {inert(each.title, one_line=True)} ({code(each.path)}): {became}{said}"


def _conclusion(review: Review, most: int) -> list[str]:
    evidence, usage = review.evidence, review.usage
    looked = [
        f"{_count(evidence.files_changed, 'file')} changed",
        f"{_count(len(evidence.commands), 'command')} ran in the sandbox",
        *([f"{_count(len(evidence.failed_commands), 'command')} failed"] if evidence.failed_commands else []),
    ]
    commands = "\n".join(_within([f"- {code(command)}" for command in evidence.commands[:20]], most))
    return [
        f"**Verdict: {review.result.verdict}**\n\n{_text(review.result.reasoning, most)}",
        f"**Evidence**: {', '.join(looked)}.",
        *_coverage(review, most),
        *([f"<details><summary>Commands</summary>\n\n{commands}\n\n</details>"] if commands else []),
        *_rules(review.configuration),
        f"**Limits**\n\n{_limits(review, most) or 'none named'}",
        f"<sub>{inert(review.model, one_line=True)} · {usage.input_tokens:,} tokens in"
        f" ({usage.cached_input_tokens:,} cached), {usage.output_tokens:,} out · {review.seconds:.0f} s</sub>",
    ]


_KINDS = {
    "rule": "by the base branch's rules",
    "generated": "generated, as the base branch says",
    "binary": "binary",
    "lfs": "LFS pointer",
    "submodule": "submodule",
    "too-large": "not checked out",
    "not-looked-at": "not looked at",
}


def _coverage(review: Review, most: int) -> list[str]:
    """How many files were reviewed, trimmed and left out, and which."""
    told = review.coverage
    if told == Coverage():  # of a version that did not count them
        return []
    kinds = Counter(_KINDS.get(one.kind, one.kind) for one in told.left_out)
    parts = [
        f"{_count(told.reviewed, 'file')} reviewed",
        *([f"{len(told.trimmed)} of them trimmed"] if told.trimmed else []),
        *([f"{len(told.left_out)} left out ({_counts(kinds)})"] if told.left_out else []),
    ]
    passes = f" in {told.passes} passes" if told.passes > 1 else ""
    lines = [f"- {code(one.path)}: {inert(one.why, one_line=True)}" for one in (*told.trimmed, *told.left_out)]
    named = list(_within(lines[:MAX_UNSEEN], most))
    more = [f"- and {len(lines) - len(named)} more"] if len(lines) > len(named) else []
    unseen = "\n".join([*named, *more])
    return [
        f"**Coverage**: {', '.join(parts)}{passes}.",
        *([f"<details><summary>Not, or not wholly, reviewed</summary>\n\n{unseen}\n\n</details>"] if lines else []),
    ]


def _counts(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _rules(held: Configuration) -> list[str]:
    """Which of the base branch's rules held, and what of them could not be used."""
    used = [f"**Rules** of the base branch: {_names(held.rules)} (digest `{held.digest}`)."] if held.rules else []
    notes = "\n".join(f"- {inert(note, one_line=True)}" for note in held.notes[:MAX_NAMED])
    return [*used, *([f"**Notes**\n\n{notes}"] if notes else [])]


def _limits(review: Review, most: int) -> str:
    held = review.configuration
    out = f"Left out by the base branch's rules: {_count(held.files_excluded, 'file')}: "
    excluded = out + f"{_names(held.excluded, held.files_excluded)}." if held.files_excluded else ""
    return _GAP.join(part for part in (excluded, _text(review.result.limits, most)) if part)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _text(text: str, most: int) -> str:
    return cut(inert(text), most)


def _words(title: str) -> str:
    return " ".join(re.findall(r"\w+", title.casefold()))


def marker_findings(findings: Sequence[Finding], at_most: int) -> tuple[tuple[int, str, str], ...]:
    worst = sorted(findings, key=lambda finding: finding.priority)[:at_most]
    return tuple((finding.priority, finding.path[:200], finding.title[:120]) for finding in worst)


def marker_fingerprints(findings: Sequence[Finding], at_most: int) -> tuple[str, ...]:
    """Those of `marker_findings`, in the same order."""
    return tuple(finding.fingerprint for finding in sorted(findings, key=lambda one: one.priority)[:at_most])


def marker_advisory(findings: Sequence[Finding], at_most: int) -> tuple[bool, ...]:
    """Which of `marker_findings` block nothing, in the same order; empty if all may."""
    told = tuple(finding.advisory for finding in sorted(findings, key=lambda one: one.priority)[:at_most])
    return told if any(told) else ()


def marker_dismissed(review: Review, at_most: int) -> tuple[Dismissed, ...]:
    """What a marker says of the dismissed findings of a review, the last decided first."""
    mine = [each for each in reversed(review.earlier) if each.state == "dismissed"][:at_most]
    return tuple(
        Dismissed(it.fingerprint, it.priority, it.path[:200], it.title[:120], it.who[:100], it.reason[:200])
        for it in mine
    )


def as_json(review: Review, gate: Gate) -> dict[str, object]:
    """The documented JSON of `review --format json` (docs/json.md); names are never changed, only added to."""
    held = review.configuration
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
        "earlier": [asdict(each) for each in review.earlier],
        "usage": asdict(review.usage),
        "seconds": round(review.seconds, 3),
        "model": review.model,
        "rehearsal": review.rehearsal,
        "configuration": {
            "block_priority": None if held.block_priority is None else f"P{held.block_priority}",
            "exclude": list(held.exclude),
            "files_excluded": held.files_excluded,
            "rules": list(held.rules),
            "digest": held.digest,
            "changed_instructions": list(held.changed),
            "notes": list(held.notes),
        },
        "coverage": {
            "reviewed": review.coverage.reviewed,
            "passes": review.coverage.passes,
            "trimmed": [asdict(one) for one in review.coverage.trimmed],
            "left_out": [asdict(one) for one in review.coverage.left_out],
        },
    }
