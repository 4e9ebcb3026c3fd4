"""Secrets cut out of a text that people will read: those of known shapes, our own by value, and values that are named.

A last net, for texts that anybody may have written: what leaks here was in the repository or came from outside. It
keeps the first characters, so that the place is found, and leaves alone what only looks random: commits, UUIDs,
hashes in lock files, paths.
"""

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import quote, quote_plus

GONE = "[redacted]"
KEPT = 4  # characters of a secret that stay, and never more than a third of it
BEGINNING = 16  # characters of one of ours that tell it
MIN_KNOWN = 8  # characters; a shorter value would be found in any text


@dataclass(frozen=True)
class Shape:
    """A kind of secret. `pattern` finds it; of its group `secret` the first KEPT characters stay, with `whole` none."""

    name: str
    pattern: re.Pattern[str]
    whole: bool = False


def _shape(name: str, pattern: str, flags: int = 0, *, whole: bool = False) -> Shape:
    return Shape(name, re.compile(pattern if "(?P<secret>" in pattern else f"(?P<secret>{pattern})", flags), whole)


# Sources: what the issuers document of their formats; the same kinds as in gitleaks' and detect-secrets' tables. Those
# are made for files in a repository, not for sentences, and detect-secrets has had no release since May 2024.
SHAPES = (
    _shape(
        "private key",
        # Not across the beginning of another: else many of them without an end keep everybody busy.
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<secret>(?:(?!-----BEGIN )(?s:.)){1,9000}?)"
        r"(?=-----END [A-Z0-9 ]{0,40}PRIVATE KEY)",
        whole=True,
    ),
    _shape(
        "private key, cut off",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?P<secret>(?:(?:\s|\\[nr])+[A-Za-z0-9+/=]{16,})+)",
        whole=True,
    ),
    # GitHub: installation tokens are longer since 2026-04, and hold dots.
    _shape("GitHub", r"\bgh[a-z]_[A-Za-z0-9][A-Za-z0-9._-]{18,}[A-Za-z0-9_]|\bgithub_pat_[A-Za-z0-9_]{20,}"),
    _shape("GitLab", r"\bgl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[A-Za-z0-9_.-]{20,}"),
    _shape("OpenAI, Anthropic", r"\bsk-(?=[A-Za-z_-]{0,200}\d)[A-Za-z0-9_-]{20,}"),
    _shape("AWS", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    _shape("Google", r"\bAIza[A-Za-z0-9_-]{35}|\bya29\.[A-Za-z0-9_-]{20,}|\bGOCSPX-[A-Za-z0-9_-]{20,}"),
    _shape("Azure", r"\b(?:AccountKey|SharedAccessKey|sig)=(?P<secret>[A-Za-z0-9+/%]{30,}={0,2})"),
    _shape("Azure client secret", r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}"),
    _shape("Slack", r"\bxox[a-z]-[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{10,}"),
    _shape("Slack webhook", r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[A-Za-z0-9+/]{20,})"),
    _shape("Stripe", r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}|\bwhsec_[A-Za-z0-9+/=]{20,}"),
    _shape("npm", r"\bnpm_[A-Za-z0-9]{36}\b"),
    _shape("PyPI", r"\bpypi-Ag[A-Za-z0-9_-]{40,}"),
    _shape("Docker", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    _shape("Hugging Face", r"\bhf_[A-Za-z0-9]{30,}"),
    _shape("DigitalOcean", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    _shape("SendGrid", r"\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _shape("Shopify", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _shape("Telegram", r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    _shape("Vault", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    _shape("age", r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    _shape("JSON Web Token", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){1,3}"),
    _shape(
        "password in an address",
        r"\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@'\"<>`]{0,200}:(?P<secret>[^\s/@'\"<>`$]{3,200})@",
        re.I,
    ),
    _shape("bearer", r"\bbearer[ \t]+(?=[A-Za-z._~+/=-]{0,400}\d)(?P<secret>[A-Za-z0-9._~+/-]{16,}={0,2})", re.I),
    _shape("basic", r"\bbasic[ \t]+(?=[A-Za-z+/]{0,400}[\d=])(?P<secret>[A-Za-z0-9+/]{16,}={0,2})", re.I),
)

_NAME = (
    r"(?:pass(?:word|wd|phrase|code)|(?<![a-z])pwd|secret|token|api[-_. ]?key|access[-_. ]?key|account[-_. ]?key|"
    r"private[-_. ]?key|signing[-_. ]?key|encryption[-_. ]?key|master[-_. ]?key|credentials?|(?<![a-z])auth[-_. ]?key)"
)
# `password = "…"`, `"client_secret": "…"`, `DB_PASSWORD='…'`, `:token => "…"`, also with quotes escaped as in JSON.
_NAMED = re.compile(
    rf"{_NAME}[A-Za-z0-9_]{{0,30}}(?:\\?[\"'`])?\]?\s{{0,3}}(?:[:=]=?>?|:=|\bis\b)\s{{0,3}}[a-z]{{0,2}}"
    r"(?P<quote>\\?[\"'`])(?P<secret>[^\s\"'`\\]{6,400})(?P=quote)",
    re.IGNORECASE,
)
# `DB_PASSWORD=…` of a .env file, without quotes.
_DOTENV = re.compile(
    r"\b[A-Z0-9_]{0,40}(?:PASSWORD|PASSWD|PASSPHRASE|PWD|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?)"
    r"[A-Z0-9_]{0,40}=(?P<secret>[^\s\"'`\\<>(){},;]{6,400})"
)
_QUOTED = re.compile(r"(?P<quote>[\"'`])(?P<secret>[A-Za-z0-9+/_=-]{20,400})(?P=quote)")
_PLACEHOLDER = re.compile(
    r"[A-Za-z_][A-Za-z_.-]*"  # a word or a dotted name: `changeme`, `process.env.TOKEN`, `string`
    r"|.*(?:\{[\w.()\[\]]*\}|\$\{|\{\{|\$\(|%[({]|<[A-Za-z]).*"  # a template
    r"|.*(?:\.\.\.|…|\[redacted\]|\*\*\*).*"  # cut out already
    r"|\$[A-Za-z_]\w*|%\w+%"
    r"|\.{0,2}/(?:[\w.@-]+/)*[\w.@-]*|(?:[a-z0-9_.@-]+/)+[\w@-]*(?:\.[a-z0-9]{1,8})?"  # a path
    r"|[a-z][a-z0-9+.-]*://.*"
    r"|[\d.,:]+|0x[0-9a-fA-F]{1,16}|#[0-9a-fA-F]{3,8}"
    r"|x{4,}.*|(.)\1{5,}",
    re.DOTALL,
)
_HASH = re.compile(
    r"(?:sha\d{1,3}|md5|blake\w*|h1|b3)[-:=].*"  # integrity of npm, pip, Go and others
    r"|(?:0x)?(?:[0-9a-f]+|[0-9A-F]+)"  # SHAs
    r"|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|(?:[A-Z]?[a-z]+|[A-Z]+|\d+)(?:[-_/](?:[A-Z]?[a-z]+|[A-Z]+|\d+))+"  # words with dashes: BSD-3-Clause-Clear
)


def redact(text: str, known: Iterable[str] = ()) -> str:
    """`text` with every secret in it replaced. `known` are our own, in all their `forms`. To do it twice changes
    nothing more."""
    text = _without(text, tuple(known))
    for shape in SHAPES:
        text = shape.pattern.sub(_whole if shape.whole else _cut, text)
    text = _NAMED.sub(lambda found: _cut(found) if _is_value(found["secret"]) else found.group(), text)
    text = _DOTENV.sub(lambda found: _cut(found) if _is_value(found["secret"]) else found.group(), text)
    return _QUOTED.sub(lambda found: _cut(found) if _is_random(found["secret"]) else found.group(), text)


def masked(text: str, known: Iterable[str]) -> str:
    """`text` with nothing replaced but whole values of `known`: for what is not only read but acted on."""
    for value in known:
        text = text.replace(value, GONE)
    return text


def _without(text: str, known: tuple[str, ...]) -> str:
    """`text` without `known` and without beginnings of them: a message may have been cut before it came here."""
    alike: dict[str, list[str]] = {}
    for value in known:
        alike.setdefault(value[:BEGINNING], []).append(value)
    for begins, values in alike.items():
        at = text.find(begins)
        while at >= 0:
            end = at + max(_alike(text[at : at + len(value)], value) for value in values)
            text = f"{text[:at]}{GONE}{text[end:]}"
            at = text.find(begins, at + len(GONE))
    return text


def _alike(text: str, value: str) -> int:
    """How many characters they have in common at their beginning."""
    pairs = enumerate(zip(text, value, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(text), len(value)))


def forms(secret: str) -> tuple[str, ...]:
    """The spellings in which a secret of ours may come back: as it is, in JSON, for an address, in base64, in hex."""
    if len(secret) < MIN_KNOWN:
        return ()
    raw = secret.encode()
    quoted = json.dumps(secret)[1:-1]
    spelled = {
        secret,
        quoted,
        quoted.replace("/", "\\/"),
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        raw.hex(),
        raw.hex().upper(),
        *encoded(raw),
    }
    return tuple(sorted(spelled, key=len, reverse=True))


def encoded(raw: bytes) -> tuple[str, ...]:
    """The part of its base64 that is the same whatever stands before and behind, at each of the three alignments."""
    found = []
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw).decode()
        end = len(text) if (before + len(raw)) % 3 == 0 else len(text) - 4
        found.append(text[(0, 2, 3)[before] : end])
    return tuple(kept for text in found for kept in (text, text.translate({43: 45, 47: 95})) if len(kept) >= MIN_KNOWN)


def _cut(found: re.Match[str]) -> str:
    secret = found["secret"]
    if GONE in secret:
        return found.group()
    start, end = (at - found.start() for at in found.span("secret"))
    return f"{found.group()[:start]}{secret[: min(KEPT, len(secret) // 3)]}{GONE}{found.group()[end:]}"


def _whole(found: re.Match[str]) -> str:
    start, end = (at - found.start() for at in found.span("secret"))
    return f"{found.group()[:start]}{GONE}{found.group()[end:]}"


def _is_value(text: str) -> bool:
    """Whether what a name like `password` is set to may be one: no word, no template, no path."""
    return not _PLACEHOLDER.fullmatch(text) and len(_classes(text)) >= 2 and len(set(text)) >= 5


def _is_random(text: str) -> bool:
    """Whether a quoted text without a name is too disordered for an identifier, and is no hash."""
    if _HASH.fullmatch(text) or _PLACEHOLDER.fullmatch(text) or not _classes(text) >= {"A", "a", "0"}:
        return False
    kinds = [_class(char) for char in text]
    changes = sum(a != b for a, b in pairwise(kinds))
    return changes >= 0.42 * len(text) and kinds.count("0") >= 2 and _entropy(text) >= 3.5


def _class(char: str) -> str:
    return "0" if char.isdigit() else "a" if char.islower() else "A" if char.isupper() else "."


def _classes(text: str) -> set[str]:
    return {_class(char) for char in text}


def _entropy(text: str) -> float:
    """Shannon's, in bits for a character."""
    return -sum(count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())
