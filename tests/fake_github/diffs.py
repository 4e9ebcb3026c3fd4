"""Which lines of a pull request can be commented on: those in the hunks of git's own diff."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import repos

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
# By path, then by (side, line): the hunk it is in and its place there. A line of context stands on both sides.
Places = dict[str, dict[tuple[str, int], tuple[int, int]]]


def places(repository: Path, base: str, head: str) -> Places:
    """`base` and `head` are commits; the diff is from their merge base, with renames and three lines around."""
    text = repos.git(repository, "-c", "core.quotePath=false", "diff", "-M", "-U3", "--no-ext-diff", f"{base}...{head}")
    found: Places = {}
    lines: dict[tuple[str, int], tuple[int, int]] = {}
    old = new = hunk = 0
    left = right = 0
    inside = False
    name = ""
    for place, line in enumerate(text.split("\n")):
        if line.startswith("diff --git "):
            inside, name = False, ""
        elif not inside and line.startswith("--- "):
            name = _name(line)
        elif not inside and line.startswith("+++ "):
            name = _name(line) or name  # a deleted file has its old name
            lines = found.setdefault(name, {})
        elif match := _HUNK.match(line):
            old, new, hunk, inside = int(match[1]), int(match[2]), hunk + 1, True
            left, right = old, new
        elif inside and line[:1] in (" ", "-", "+"):
            if line[0] != "+":
                lines["LEFT", left] = (hunk, place)
                left += 1
            if line[0] != "-":
                lines["RIGHT", right] = (hunk, place)
                right += 1
    return found


def _name(line: str) -> str:
    told = line[4:].rstrip("\t")
    if told.startswith('"'):
        told = ast.literal_eval("b" + told.encode("unicode_escape").decode().replace("\\\\", "\\")).decode(
            "utf-8", "surrogateescape"
        )
    return "" if told == "/dev/null" else told[2:]


def problem(found: Places, comment: Mapping[str, Any]) -> str | None:
    """GitHub's words for a comment that stands nowhere; None if it fits."""
    lines = found.get(comment.get("path", ""))
    if lines is None:
        return "Path could not be resolved"
    side, line = comment.get("side", "RIGHT"), comment.get("line")
    end = lines.get((side, line)) if isinstance(line, int) else None
    if end is None:
        return "Line could not be resolved"
    if comment.get("start_line") is None:
        return None
    start = lines.get((comment.get("start_side", side), comment["start_line"]))
    if start is None:
        return "Start line could not be resolved"
    if start[0] != end[0]:
        return "Pull request review thread start line must be part of the same hunk as the line."
    if start[1] >= end[1]:
        return "Pull request review thread start line must precede the end line."
    return None
