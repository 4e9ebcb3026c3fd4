"""The hunks of a diff, side by side with its lines: where a comment can stand.

Names never come out of a patch, where git quotes them: whoever has the files of a diff (read with `-z`) has each one's
patch made from its two blobs. So all that is read here are numbers and first characters, and no name breaks it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from appliance.core.findings import Side

Lines = tuple[int, int]  # the first and the last, both within

# A line of a hunk begins with one of " +-\", so neither can be the content of a file.
_HUNK = re.compile(rb"^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@", re.MULTILINE)
_SECTION = re.compile(rb"^diff --git ", re.MULTILINE)


class BadPatch(ValueError):
    """A patch that is not what git writes, or only a part of it."""


@dataclass(frozen=True)
class Hunk:
    """Lines that a diff shows together: `left` of the old file, `right` of the new one, None where it shows none.

    `removed` are the ranges of old lines that are gone, `added` those of new ones; the others are context.
    """

    left: Lines | None
    right: Lines | None
    removed: tuple[Lines, ...] = ()
    added: tuple[Lines, ...] = ()

    def shown(self, side: Side) -> Lines | None:
        return self.left if side == "LEFT" else self.right

    def changed(self, side: Side) -> tuple[Lines, ...]:
        return self.removed if side == "LEFT" else self.added


@dataclass(frozen=True)
class FileDiff:
    """One changed file under its name in the head (in the base, if it is deleted). Without hunks nothing of it can be
    pointed at: a pure rename, a change of mode, a binary file, one that is too large. `same`: its content is what it
    was, so there is nothing to show."""

    path: str
    old_path: str | None = None
    hunks: tuple[Hunk, ...] = ()
    same: bool = False


@dataclass(frozen=True)
class Diff:
    """The files of a diff, as far as they were looked at."""

    files: tuple[FileDiff, ...] = ()
    _by_path: dict[str, FileDiff] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.files:
            if each.old_path:
                self._by_path.setdefault(each.old_path, each)
        self._by_path.update({each.path: each for each in self.files})

    def of(self, path: str) -> FileDiff | None:
        """The file of this name; if none has it now, the one that had it before."""
        return self._by_path.get(path)


def whole(lines: int, side: Side) -> tuple[Hunk, ...]:
    """The diff of a file that is new as a whole, or gone (LEFT)."""
    if lines <= 0:
        return ()
    every = (1, lines)
    return (Hunk(every, None, removed=(every,)) if side == "LEFT" else Hunk(None, every, added=(every,)),)


def hunks(patch: bytes) -> tuple[Hunk, ...]:
    """The hunks of one file's patch, as `git diff` prints it. Raises BadPatch."""
    return tuple(_hunk(patch, found) for found in _HUNK.finditer(patch))


def _hunk(patch: bytes, found: re.Match[bytes]) -> Hunk:
    numbers = [1 if number is None else int(number) for number in found.groups()]
    old, old_count, new, new_count = numbers
    begin = patch.find(b"\n", found.end()) + 1
    marks = _marks(patch, begin, old_count, new_count) if begin else []
    if (marks.count("-") + marks.count(" "), marks.count("+") + marks.count(" ")) != (old_count, new_count):
        raise BadPatch(f"a hunk is cut off: {found.group().decode()}")
    return Hunk(
        (old, old + old_count - 1) if old_count else None,
        (new, new + new_count - 1) if new_count else None,
        tuple(_ranges(old, (mark for mark in marks if mark != "+"), "-")),
        tuple(_ranges(new, (mark for mark in marks if mark != "-"), "+")),
    )


def _marks(patch: bytes, at: int, old: int, new: int) -> list[str]:
    """The first characters of the hunk's lines, until it has as many as its head says."""
    marks: list[str] = []
    while (old > 0 or new > 0) and at < len(patch):
        mark = chr(patch[at])
        if mark in "- ":
            old -= 1
        if mark in "+ ":
            new -= 1
        if mark in "+- ":
            marks.append(mark)
        elif mark != "\\":  # "\ No newline at end of file"
            raise BadPatch("a line of a hunk has no mark")
        end = patch.find(b"\n", at)
        at = len(patch) if end < 0 else end + 1
    return marks


def _ranges(first: int, marks: Iterable[str], wanted: str) -> Iterator[Lines]:
    begin = None
    at = first
    for mark in marks:
        if mark == wanted and begin is None:
            begin = at
        elif mark != wanted and begin is not None:
            yield begin, at - 1
            begin = None
        at += 1
    if begin is not None:
        yield begin, at - 1


def sizes(patch: bytes, sections: Sequence[int]) -> list[int]:
    """How many bytes each file has in the patch of many: `sections` says of each in how many parts git shows it (two
    for a file that becomes a link). Raises BadPatch if they are not as many as that."""
    starts = [found.start() for found in _SECTION.finditer(patch)]
    if len(starts) != sum(sections):
        raise BadPatch(f"the patch has {len(starts)} parts, expected were {sum(sections)}")
    ends = [*starts[1:], len(patch)]
    lengths = iter([end - start for start, end in zip(starts, ends, strict=True)])
    return [sum(next(lengths) for _ in range(count)) for count in sections]
