"""The code around a finding, as a terminal can show it."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.inert import plain

AROUND = 3
AT_MOST = 12  # of the finding's own lines: of more the first and last are shown
TAB = 4


@dataclass(frozen=True)
class Shown:
    """One line; `number` 0 stands for lines that are left out. `marked`: it is the finding's."""

    number: int
    text: str
    marked: bool


def excerpt(code: bytes, first: int, last: int, width: int) -> list[Shown]:
    """Lines `first` to `last` of a file and what is around them, each at most `width` characters; [] if there is none.

    Nothing in it acts on a terminal, and bytes that are no UTF-8 are shown as such.
    """
    lines = code.decode("utf-8", "backslashreplace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if b"\0" in code or not 0 < first <= len(lines):
        return []
    last = min(max(first, last), len(lines))
    numbers: Sequence[int] = range(max(1, first - AROUND), min(len(lines), last + AROUND) + 1)
    if last - first >= AT_MOST:
        half = AT_MOST // 2
        numbers = [*range(numbers[0], first + half), 0, *range(last - half + 1, numbers[-1] + 1)]
    return [
        Shown(number, _cut(lines[number - 1], width) if number else "…", first <= number <= last) for number in numbers
    ]


def _cut(line: str, width: int) -> str:
    text = plain(line.removesuffix("\r").expandtabs(TAB)).rstrip()
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"
