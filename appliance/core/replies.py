"""What people decide of a finding in the conversation on its lines: that it is dismissed, or open again. Pure.

A decision is a line that begins with one of the words of `_DISMISSES`, as the first of the reply or of a paragraph: not
within a quote, a list, code or what nobody sees, not asked, and followed by nothing that could make it mean something
else. Whoever is not understood says it once more; what was understood wrongly would let a defect through.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from appliance.core.inert import plain

MAX_READ = 10_000  # characters of a reply
MAX_REASON = 300
OURS = re.compile(r"<!--\s*review-appliance:")  # signed by whomever: what looks like ours decides nothing


@dataclass(frozen=True)
class Decision:
    """`reason` is on one line, at most MAX_REASON characters; empty if none is given."""

    state: Literal["dismissed", "open"]
    reason: str = ""


@dataclass(frozen=True)
class Reply:
    """One comment of a conversation. `id` grows from one to the next; `ours`: signed by this appliance."""

    id: int
    author: str
    body: str
    ours: bool = False


_GAP = r"[ \t\xa0-]{1,3}"
_DISMISSES = (
    rf"won['\u2019\u02bc]?t{_GAP}fix|wontfix|false{_GAP}positive|not{_GAP}a{_GAP}bug|by{_GAP}design"
    rf"|works{_GAP}as{_GAP}intended"
)
_MARK = r"(?:\*{1,3}|_{1,3})?"
_LINE = re.compile(
    rf"[ ]{{0,3}}{_MARK}(?:(?P<dismisses>{_DISMISSES})|re-?open)(?P<after>(?![^\W_]|-).*)?$", re.IGNORECASE
)
# What may follow without a mark between: the thing itself, a place, a reason.
_GOES_ON = re.compile(
    r"(?:\s+(?:this|it|that|this\s+one|this\s+finding|here|again|imo|imho))?"
    r"(?:\s*$|\s*[.,:;!)(\u2026]|\s+[\u2013\u2014-]|\s+(?:because|since|as|due\s+to|per|see|in|for)\b)",
    re.IGNORECASE,
)
_SEPARATES = re.compile(r"[.,:;!()\u2026\u2013\u2014]+|\s-+\s|$")
_ENDS = re.compile(r"[.:;!?()\u2026\u2013\u2014\n]+|\s-+\s")
# What takes it back, in the next words or the next sentence; and what makes it depend on something, in the same one.
_TAKES_BACK = re.compile(
    r"\W*(?:(?:but|though|however|nope|(?:just\s+)?kidding|jk|never\s*mind|maybe|perhaps|probably"
    r"|on\s+second\s+thoughts?|no\s+way|hm+|(?:definitely|certainly|absolutely)\s+not"
    r"|not\s+(?:sure|really|quite)|i\s+(?:doubt|guess|wonder|disagree|don['\u2019]?t))\b|(?:no|wait|or)\b(?=\s*[,.!\u2026?]|\s+(?:wait|not|is|it)\b)"
    r"|(?:not|wrong|false)(?=\s*(?:[.,:!\n]|\Z))|actually\s+\w)",
    re.IGNORECASE,
)
_DEPENDS = re.compile(
    r"\W*(?:yet|unless|until|(?:only\s+)?if|when|or|except|once|provided|assuming|(?:as|so)\s+long\s+as|pending"
    r"|subject\s+to|to\s+be\s+(?:confirmed|checked|verified))\b",
    re.IGNORECASE,
)
_ONLY_SAID_SO = re.compile(r"\s*(?:why|who|how|when|where)\b", re.IGNORECASE)  # a question that asks nobody
_UNSEEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(pre|code|blockquote|del|s|strike|details|script|style)\b.*?(?:</\1\s*>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})(.*)")
_QUOTE = re.compile(r"[ ]{0,3}>")
_APART = re.compile(r"[ ]{0,3}(?:[-+*][ \t]|\d{1,9}[.)][ \t]|#{1,6}[ \t]|\|)|[ ]{4}|[ ]{0,3}\t")
_TICKS = re.compile(r"`+")


def read(body: str) -> Decision | None:
    """What a reply decides; None if nothing. One that says both keeps the finding open."""
    text = _without(body[:MAX_READ].replace("\r\n", "\n").replace("\r", "\n"))
    lines, shown = text.split("\n"), _no_code(text).split("\n")
    found: Decision | None = None
    for number, line in enumerate(shown):
        said = _LINE.fullmatch(line)
        if said is None or not _begins(shown, number):
            continue
        after = said["after"] or ""
        if said["dismisses"] is None:
            if not _asked(after):
                return Decision("open", _reason(lines, number, len(line) - len(after)))
        elif found is None and _means_it(after, "\n".join(shown[number + 1 :])):
            found = Decision("dismissed", _reason(lines, number, len(line) - len(after)))
    return found


def decided(replies: Sequence[Reply], last: int, may_write: Callable[[str], bool]) -> tuple[Reply, Decision] | None:
    """The newest decision of somebody who may write; None if there is none. `may_write` raises if it is unknown.

    `last` is the id of the reply that decided before, 0 for none: what stood before it decides no more, so that one
    that is deleted does not bring back what it had overruled.
    """
    for reply in sorted(replies, key=lambda one: -one.id):
        if reply.id < last:
            return None
        if reply.ours or OURS.search(reply.body) or not _is_person(reply.author):
            continue
        decision = read(reply.body)
        if decision and may_write(reply.author):
            return reply, decision
    return None


def _is_person(author: str) -> bool:
    name = author.casefold()
    return name not in ("", "ghost") and not name.endswith("[bot]")


def _without(text: str) -> str:
    """`text` with blanks for what is quoted, fenced, or not seen; lines stay where they are."""
    text = _UNSEEN.sub(lambda found: _blank(found.group()), text)
    lines: list[str] = []
    fence, quoted = "", False
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
            lines.append("")
        elif mark and (mark[1][0] == "~" or "`" not in mark[2]):
            fence = mark[1]
            lines.append("")
        elif _QUOTE.match(line) or (quoted and line.strip()):  # a line right below a quote belongs to it
            quoted = True
            lines.append("\0" if line.strip() else "")
            continue
        else:
            lines.append(line)
        quoted = False
    return "\n".join(lines)


def _no_code(text: str) -> str:
    """`text` with NULs for its spans of code, of the same length."""
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(text)]
    closers: dict[int, list[int]] = {}
    for index, (start, end) in enumerate(runs):
        closers.setdefault(end - start, []).append(index)
    out, index = list(text), 0
    while index < len(runs):
        start, end = runs[index]
        same = closers[end - start]
        while same and same[0] <= index:
            same.pop(0)
        if not same:
            index += 1
            continue
        last = runs[same[0]][1]
        out[start:last] = _blank(text[start:last], "\0")
        index = same[0] + 1
    return "".join(out)


def _blank(text: str, by: str = " ") -> str:
    return re.sub(r"[^\n]", by, text)


def _begins(lines: Sequence[str], number: int) -> bool:
    """Whether a line is the first of a paragraph, or what stands above it is a whole sentence."""
    if _APART.match(lines[number]):
        return False
    above = lines[number - 1].strip() if number else ""
    return not above or above[-1] in ".!"


def _means_it(after: str, below: str) -> bool:
    said = re.sub(r"[*_]", "", after)
    if not _GOES_ON.match(said) or _asked(said):
        return False
    mark = _SEPARATES.search(said)
    assert mark is not None, "the end is one"
    next_ = f"{said}\n{below}"[mark.end() :]
    same_sentence = mark.group() and not re.search(r"[.!\u2026]", mark.group())
    return not (_TAKES_BACK.match(next_) or (same_sentence and _DEPENDS.match(next_)))


def _asked(after: str) -> bool:
    """Whether the words themselves, or the sentence right behind them, are a question: "right?"."""
    first = re.match(r"[^.:;!?()\u2026\u2013\u2014\n]*\??", after)
    if first and first.group().endswith("?"):
        return True
    ends = _ENDS.search(after)
    if ends is None:
        return False
    next_ = re.match(r"[^.!?\n]*\??", after[ends.end() :])
    return bool(next_ and next_.group().endswith("?") and not _ONLY_SAID_SO.match(next_.group()))


def _reason(lines: Sequence[str], number: int, column: int) -> str:
    """What follows; where nothing does, what stands above."""
    rest = [lines[number][column:], *lines[number + 1 :]]
    for part in (rest, lines[:number]):
        flat = " ".join(" ".join(part).replace("\0", " ").split())
        flat = re.sub(r"^[\s*_.,:;!?)(\u2026\u2013\u2014-]+", "", flat)
        if flat:
            return plain(flat)[:MAX_REASON].strip()
    return ""
