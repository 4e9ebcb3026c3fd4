"""Text that somebody else wrote, made harmless: on a forge, where Markdown acts, and on a terminal, where control
characters do. The model's text is somebody else's, so are paths and commands.

What GitHub makes of a text was read from its parser (cmark-gfm, which the tests ask too) and its documentation. Where
a text would act, an invisible character behind its first one breaks it: it shows as it was, in code too.
"""

import re

MAX_LINE = 300
MAX_FENCE = 20
MAX_CODE = 300
_BREAK = "\N{ZERO WIDTH SPACE}"

# Control characters; those that turn the direction of a text, so that it reads otherwise than it is; and those that
# nobody sees, in which a text can hide from people and still be read by the next model. Not those that scripts and
# emoji need (zero width joiner and non-joiner, variation selectors).
_UNSEEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
)
_CONTROL = re.compile(f"[{_UNSEEN}]")
_CONTROL_OR_SPACE = re.compile(f"[{_UNSEEN}\t\n]")

# Commands to bots that look for words: bors, Jenkins' ghprb (which allows anything between them), Zuul. In code too.
_BOTS = (
    r"\bbo(?=rs\b)|\bo(?=k\W+to\W+test\b)|\bt(?=est\W+this\W+please\b)|\brete(?=st\W+this\b)"
    r"|\bad(?=d\W+to\W+whitelist\b)|\brech(?=eck\b)"
)
_IN_CODE = re.compile(rf"<!(?=--)|{_BOTS}", re.IGNORECASE)
_COMMAND = re.compile(r"^[ \t>*+-]*/(?=[a-z])", re.IGNORECASE | re.MULTILINE)
_ACTIVE = re.compile(
    r"<(?=[A-Za-z/!?])"  # HTML, and addresses in angle brackets
    r"|&(?=#?\w+;)"  # an entity becomes a live @ or # after all
    r"|!(?=\[)|\[(?=!)|\](?=[(\[:])"  # images, alerts; links, and the definitions of links and footnotes
    r"|@(?=[\w\\])|#(?=\d)|GH-(?=\d)"  # mentions; references, which also close what they name
    r"|:(?=//)|www(?=\.)"  # addresses become links by themselves, also behind `_` or `*`
    r"|(?<![A-Za-z])(?:mailto|xmpp):(?=\S)"
    r"|\\(?=(?:href|url|includegraphics|require|class|cssId|style|html\w+|def|newcommand)\b)"  # of formulas
    rf"|^[ \t>*+-]*/(?=[a-z])|{_BOTS}"  # commands to bots
    r"|^(?:[ \t]{0,3}(?:>|[*+-]|\d{1,9}[.)]))*[ \t]*#{1,5}(?=#?[ \t]|#?$)"  # headings, as our own are
    r"|^[ \t>]*[=_*-](?=[=_* \t-]*$)",  # lines below headings, and across the page
    re.IGNORECASE | re.MULTILINE,
)
# A fence of these kinds is no code: the forge runs it, or offers it as a change.
_LIVE_FENCE = re.compile(
    r"^([ \t>*+.)\d-]*(?:`{3,}|~{3,})[ \t]*)(?=(?:math|mermaid|geojson|topojson|stl|suggestion)\b)",
    re.IGNORECASE | re.MULTILINE,
)
# What stands where ours stands, and reads as ours does. What may go before it stays on its line: else each of many
# empty lines would be read again from every one before it, and a hundred thousand of them keep everybody busy.
_LIKE_OURS = re.compile(
    r"^(?:[^\w\n]|_)*(?:verdict|evidence|limits|rules|notes|rehearsal|codex review|earlier review|reviewed head"
    r"|left out by|this pull request changes)(?![a-z])"
    r"|^(?:[^\w\n]|_)*\[P[0-3]\]|verdict[\W_]{1,9}(?:correct|incorrect|inconclusive)",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)")
_ANY_FENCE = re.compile(r"^[ \t>*+.)\d-]*(?:`{3,}|~{3,})", re.MULTILINE)


def plain(text: str) -> str:
    """For terminals and logs: nothing in it moves the cursor, colours, turns or hides what is printed. Line ends and
    tabs stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def inert(text: str, *, one_line: bool = False) -> str:
    """The model's text with nothing in it that acts on the forge, swallows what follows, or deceives the eye.

    `one_line`: as part of a line, at most MAX_LINE characters.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if one_line:
        text = " ".join(text.split())[:MAX_LINE]
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
    text = _LIVE_FENCE.sub(lambda found: f"{found.group()}{_BREAK}", text)
    text = _ACTIVE.sub(lambda found: f"{found.group()}{_BREAK}", text)
    return text if one_line else _contained(text)


def code(text: str) -> str:
    """A code span that its content cannot leave, at most about MAX_CODE characters."""
    flat = _CONTROL_OR_SPACE.sub(_escaped, text)
    # cmark gives up on spans of more than 80 backticks (MAXBACKTICKS), and all in them would act.
    flat = re.sub(rf"`{{{MAX_FENCE},}}", lambda found: r"\x60" * len(found.group()), flat[:MAX_CODE])[:MAX_CODE]
    flat = _IN_CODE.sub(lambda found: f"{found.group()}{_BREAK}", flat)
    fence = "`" * (max((len(run) for run in re.findall(r"`+", flat)), default=0) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat.strip() else ""
    return f"{fence}{pad}{flat or '(nothing)'}{pad}{fence}"


def fence_around(text: str) -> str | None:
    """A fence of backticks that `text` cannot close, or None if it would have to be too long."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1) if longest < MAX_FENCE else None


def acts_in_code(text: str) -> bool:
    """Whether a text acts, hides or deceives even within a fence."""
    return any(pattern.search(text) for pattern in (_CONTROL, _IN_CODE, _COMMAND))


def fenced(text: str) -> str:
    """A block of code that its content cannot leave, and in which nothing acts."""
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))
    for pattern in (_IN_CODE, _COMMAND):
        text = pattern.sub(lambda found: f"{found.group()}{_BREAK}", text)
    text = re.sub(rf"`{{{MAX_FENCE},}}", lambda found: r"\x60" * len(found.group()), text)
    fence = fence_around(text)
    return f"{fence}\n{text}\n{fence}"


def _escaped(found: re.Match[str]) -> str:
    number = ord(found.group())
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def _contained(text: str) -> str:
    """A fence that is not closed swallows all that follows. Where that is not plain to see, or where the text looks
    like a part of our own, it is quoted: no block outlives the quotation that holds it (CommonMark 5.1)."""
    starts = [found.group() for found in _ANY_FENCE.finditer(text)]
    plain_fences = all(len(set(start)) == 1 and len(start) <= MAX_FENCE for start in starts)
    if plain_fences and not open_fence(text) and not _LIKE_OURS.search(text):
        return text
    return "\n".join(f"> {line}" for line in text.split("\n"))


def open_fence(text: str) -> str:
    """The fence at the beginning of a line that is open at the end of `text`, or nothing (CommonMark 4.5)."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found is None:
            continue
        marks, info = found.groups()
        if not fence:
            fence = marks if marks[0] == "~" or "`" not in info else ""
        elif marks.startswith(fence) and not info.strip():
            fence = ""
    return fence
