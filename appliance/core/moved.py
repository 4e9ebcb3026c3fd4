"""Where lines of one commit are in another, told from the hunks between the two."""

from collections.abc import Sequence

from appliance.core.diff import Diff, FileDiff, Hunk, Lines


def unchanged(diff: Diff, path: str, lines: Lines) -> bool:
    """Whether these lines of the newer commit were there in the older one as they are.

    What cannot be told is no: a file that the diff names without a hunk is binary or too large, if it is not the same
    under another name.
    """
    file = next((each for each in diff.files if each.path == path), None)
    if file is None:
        return True
    if not file.hunks:
        return file.same
    return not any(_touches(hunk, lines) for hunk in file.hunks)


def _touches(hunk: Hunk, lines: Lines) -> bool:
    if any(_meet(lines, added) for added in hunk.added):
        return True
    # Lines that are gone stood between two that are there: the range lost something if it has both.
    kept = list(zip(_kept(hunk.left, hunk.removed), _kept(hunk.right, hunk.added), strict=True))
    for first, _ in hunk.removed:
        before = [new for old, new in kept if old < first]
        after = [new for old, new in kept if old > first]
        if before and after and lines[0] <= before[-1] and lines[1] >= after[0]:
            return True
    return False


def now_at(diff: Diff, path: str, lines: Lines) -> tuple[str, Lines] | None:
    """Where lines of the older commit are in the newer one; None if some of them changed, or it cannot be told."""
    file = next((each for each in diff.files if (each.old_path or each.path) == path), None)
    if file is None:
        return path, lines
    first, last = _line(file, lines[0]), _line(file, lines[1])
    gone = any(_meet(lines, removed) for hunk in file.hunks for removed in hunk.removed)
    return None if first is None or last is None or gone else (file.path, (first, last))


def _line(file: FileDiff, line: int) -> int | None:
    if not file.hunks:
        return line if file.same else None
    offset = 0
    for hunk in file.hunks:
        if hunk.left is None or hunk.right is None:  # the file is new, or gone
            return None
        if line < hunk.left[0]:
            break
        if line <= hunk.left[1]:
            kept = dict(zip(_kept(hunk.left, hunk.removed), _kept(hunk.right, hunk.added), strict=True))
            return kept.get(line)
        offset = hunk.right[1] - hunk.left[1]
    return line + offset


def _kept(shown: Lines | None, without: Sequence[Lines]) -> list[int]:
    if shown is None:
        return []
    return [line for line in range(shown[0], shown[1] + 1) if not any(a <= line <= b for a, b in without)]


def _meet(one: Lines, other: Lines) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]
