"""Which finding means which golden: by file and lines, by a judge where one is asked, and each at most once."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from appliance.core.evaluation.case import Golden
from appliance.core.findings import Finding

Relation = Literal["overlaps", "same file", "anywhere", "elsewhere"]
Pair = tuple[int, int]  # number of the golden, number of the finding

TOLERANCE = 3  # lines; people and models put the same defect on the call, the condition or the declaration above it
MAX_SPARE = 50  # a finding so many lines longer than its golden points at nothing


def relation(finding: Finding, golden: Golden, renamed: Mapping[str, str], tolerance: int = TOLERANCE) -> Relation:
    """How a finding lies to a golden. `renamed` has the new path of each file that was renamed, by its old one.

    "overlaps": the same file, the same side, and lines that meet once the finding's are widened by `tolerance` at both
    ends. "anywhere": the golden does not say where it is.
    """
    if golden.path is None:
        return "anywhere"
    if renamed.get(finding.path, finding.path) != renamed.get(golden.path, golden.path):
        return "elsewhere"
    if golden.line_start is None or golden.line_end is None or getattr(finding, "side", "RIGHT") != golden.side:
        return "same file"
    spare = (finding.line_end - finding.line_start) - (golden.line_end - golden.line_start)
    meets = finding.line_start - tolerance <= golden.line_end and golden.line_start <= finding.line_end + tolerance
    return "overlaps" if meets and spare <= MAX_SPARE else "same file"


def to_judge(
    goldens: Sequence[Golden], findings: Sequence[Finding], renamed: Mapping[str, str], tolerance: int = TOLERANCE
) -> list[Pair]:
    """The pairs that a judge is asked of: all but those in different files."""
    return [
        (number, other)
        for number, golden in enumerate(goldens)
        for other, finding in enumerate(findings)
        if relation(finding, golden, renamed, tolerance) != "elsewhere"
    ]


def edges(
    goldens: Sequence[Golden],
    findings: Sequence[Finding],
    renamed: Mapping[str, str],
    judged: Mapping[Pair, bool | None],
    tolerance: int = TOLERANCE,
) -> set[Pair]:
    """The pairs that mean the same defect. What the judge says holds; where it said nothing usable, the lines do."""
    found = set()
    for number, golden in enumerate(goldens):
        for other, finding in enumerate(findings):
            how = relation(finding, golden, renamed, tolerance)
            if how == "elsewhere":
                continue
            said = judged.get((number, other))
            if said if said is not None else how == "overlaps":
                found.add((number, other))
    return found


@dataclass(frozen=True)
class Matching:
    """`matched` are pairs, each golden and each finding in at most one of them. `duplicates` are those of the `false`
    findings that mean a golden which another finding has already."""

    matched: tuple[Pair, ...]
    missed: tuple[int, ...]
    false: tuple[int, ...]
    duplicates: tuple[int, ...] = ()


def match(goldens: Sequence[Golden], findings: int, pairs: Collection[Pair]) -> Matching:
    """As many goldens as can be are matched, each with a finding of its own (Kuhn's augmenting paths).

    Where not all can be, the graver ones are: the sets of goldens that can be matched together form a matroid, so that
    taking them by priority gives both the largest number and the gravest.
    """
    likes: dict[int, list[int]] = {}
    for number, other in sorted(pairs):
        likes.setdefault(number, []).append(other)
    taken: dict[int, int] = {}  # finding: golden
    for number in sorted(likes, key=lambda one: (goldens[one].priority, one)):
        _augment(number, likes, taken)
    matched = tuple(sorted((number, other) for other, number in taken.items()))
    hit = {number for number, _ in matched}
    false = tuple(other for other in range(findings) if other not in taken)
    meant = {other for number, other in pairs if number in hit}
    return Matching(
        matched,
        tuple(number for number in range(len(goldens)) if number not in hit),
        false,
        tuple(other for other in false if other in meant),
    )


def _augment(start: int, likes: Mapping[int, Sequence[int]], taken: dict[int, int]) -> None:
    """Find a finding for the golden `start`, moving others to another of theirs where that frees one."""
    came_from: dict[int, int] = {}  # finding: the golden that wants it
    waiting = [start]
    while waiting:
        number = waiting.pop(0)
        for other in _new(likes[number], came_from):
            came_from[other] = number
            if other not in taken:
                _shift(other, start, came_from, taken)
                return
            waiting.append(taken[other])


def _new(liked: Iterable[int], seen: Mapping[int, int]) -> list[int]:
    return [other for other in liked if other not in seen]


def _shift(free: int, start: int, came_from: Mapping[int, int], taken: dict[int, int]) -> None:
    """Hand the findings along the path on, from its free end back to `start`."""
    had = {number: other for other, number in taken.items()}
    other = free
    while True:
        number = came_from[other]
        before = had.get(number)
        taken[other] = number
        if number == start or before is None:
            return
        other = before
