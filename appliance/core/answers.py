"""From what the model's API sent to facts: status, code, limits, usage, and how a stream ended. Nothing is believed
to have a form that was not looked at: what comes here was written by another machine."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from appliance.core.findings import Usage
from appliance.core.upstream import Answer

MAX_SSE_LINE = 4 * 1024 * 1024
MAX_LIMITS = 40  # headers that are kept of one answer
BYTES_PER_TOKEN = 4  # of text and code, about; only for what no usage is told of
_BYTES_PER_EVENT = 400  # an event with one token in it, wrapped in JSON

_LIMIT_HEADER = re.compile(r"x-ratelimit-[a-z0-9-]+|x-codex-[a-z0-9-]+|retry-after(?:-ms)?")
_DURATION = re.compile(
    r"(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,9}(?:\.\d{1,9})?)s)?(?:(\d{1,9})ms)?"
)
_DATES = ("%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y")  # RFC 9110, 5.6.7
_ENDS = {"response.completed": "completed", "response.failed": "failed", "response.incomplete": "incomplete"}
_ITEM = b"response.output_item.done"  # the one event that has the whole of what was made


def estimate(size: int) -> int:
    """Tokens in `size` bytes that the API has not counted for us."""
    return -(-size // BYTES_PER_TOKEN)


def refusal(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Answer:
    """The facts of an answer other than 200; `headers` have names in small letters."""
    try:
        error = json.loads(body)["error"]
        if not isinstance(error, dict):
            error = {"message": str(error)}
    except (ValueError, KeyError, TypeError, RecursionError):
        error = {}
    return Answer(
        status,
        code=str(error.get("code") or error.get("type") or "")[:200],
        message=str(error.get("message") or "")[:1000],
        param=str(error.get("param") or "")[:200],
        resets_at=_resets_at(error, headers, now),
        retry_at=retry_at(headers, now),
        limits=limits_of(headers),
    )


def limits_of(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The headers that tell of limits, as they came."""
    found = [(name, headers[name][:200]) for name in headers if _LIMIT_HEADER.fullmatch(name)]
    return tuple(sorted(found)[:MAX_LIMITS])


def retry_at(headers: Mapping[str, str], now: float) -> float | None:
    """When to come back, in seconds of the epoch: Retry-After (seconds or a date), else when the limit is full again.

    None if nothing is said, or a moment that is over.
    """
    told = headers.get("retry-after", "")
    wait = _seconds(told)
    if wait is not None:
        return now + wait
    at = _date(told)
    if at is not None:
        return at if at > now else None
    millis = _seconds(headers.get("retry-after-ms", ""))
    if millis is not None:
        return now + millis / 1000
    waits = _reset_waits(headers)
    used_up = [wait for left, wait in waits if left == "0"]
    longest = max(used_up or [wait for _, wait in waits], default=0.0)
    return now + longest if longest > 0 else None


def retry_seconds(headers: Mapping[str, str]) -> int | None:
    """A Retry-After in seconds; None for a date, and for what is none."""
    return _seconds(headers.get("retry-after", ""))


def _reset_waits(headers: Mapping[str, str]) -> list[tuple[str, float]]:
    """What is left, and the seconds until it is full again, of each limit that the headers name."""
    found = []
    for name in ("requests", "tokens", "input-tokens", "output-tokens"):
        wait = _duration(headers.get(f"x-ratelimit-reset-{name}", ""))
        if wait is not None:
            found.append((headers.get(f"x-ratelimit-remaining-{name}", ""), wait))
    return found


def _duration(text: str) -> float | None:
    """Seconds of `6m0s`, `1.5s`, `12ms`, `60`."""
    if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", text):
        return float(text)
    found = _DURATION.fullmatch(text) if text and text.isascii() else None
    if not found:
        return None
    days, hours, minutes, seconds, millis = (float(part or 0) for part in found.groups())
    return days * 86_400 + hours * 3600 + minutes * 60 + seconds + millis / 1000


def _seconds(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _date(text: str) -> float | None:
    for form in _DATES:
        with suppress(ValueError):
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    return None


def _resets_at(error: Mapping[str, Any], headers: Mapping[str, str], now: float) -> float | None:
    at, after = _number(error.get("resets_at")), _number(error.get("resets_in_seconds"))
    if at is not None or after is not None:
        return at if at is not None else now + (after or 0)
    told = [moment for moment in (_window(headers, name, now) for name in ("primary", "secondary")) if moment]
    return max(told, default=None)


def _window(headers: Mapping[str, str], name: str, now: float) -> float | None:
    """When a window of a ChatGPT plan that is used up begins anew."""
    used = _duration(headers.get(f"x-codex-{name}-used-percent", ""))
    if used is None or used < 100:
        return None
    at = headers.get(f"x-codex-{name}-reset-at", "")
    if re.fullmatch(r"[0-9]{1,11}", at):
        return float(at)
    after = _seconds(headers.get(f"x-codex-{name}-reset-after-seconds", ""))
    return now + after if after is not None else None


def _number(value: object) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and abs(value) < 1e12 else None  # type: ignore[arg-type]


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def usage_of(told: object) -> Usage | None:
    """Tokens as `response.completed` tells them; None if it tells none, or what can be none."""
    usage = _object(told)
    read, written = _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))
    if read is None or written is None:
        return None
    return Usage(
        read,
        _count(_object(usage.get("input_tokens_details")).get("cached_tokens")) or 0,
        written,
        _count(_object(usage.get("output_tokens_details")).get("reasoning_tokens")) or 0,
    )


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12 else None


class SseWatch:
    """Reads a Responses stream as it passes: how it ended, its usage, and about how much was made if it tells none."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._headers = headers or {}
        self._rest = b""
        self._end: Mapping[str, Any] | None = None
        self._broken = ""
        self._bytes = self._lines = self._made = 0

    def feed(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()[-MAX_SSE_LINE:]
        for line in lines:
            if not line.startswith(b"data:"):
                continue
            self._lines += 1
            if _ITEM in line[:200]:
                self._made += len(line)
            for event in _ends(line):
                self._end = event

    def broke(self, why: str) -> None:
        self._broken = why

    @property
    def written(self) -> int:
        """Output tokens as the bytes that came let one think: an event is at least one of them."""
        return max(self._lines, estimate(self._made), self._bytes // _BYTES_PER_EVENT)

    def answer(self, now: float) -> Answer:
        limits = limits_of(self._headers)
        if self._end is None:
            said = self._broken or "the stream ended before the answer was complete"
            return Answer(200, message=said, ended="dropped", limits=limits)
        response = _object(self._end.get("response"))
        error = _object(response.get("error"))
        why = _object(response.get("incomplete_details")).get("reason") or ""
        ended = _ENDS[self._end["type"]]
        return Answer(
            200,
            code=str(error.get("code") or "")[:200],
            message=str(error.get("message") or why)[:1000],
            ended=ended,  # type: ignore[arg-type]
            resets_at=None if ended == "completed" else _resets_at(error, self._headers, now),
            retry_at=None if ended == "completed" else retry_at(self._headers, now),
            usage=usage_of(response.get("usage")),
            limits=limits,
        )


def _ends(line: bytes) -> Iterator[Mapping[str, Any]]:
    if any(kind.encode() in line for kind in _ENDS):
        with suppress(ValueError, RecursionError):
            event = json.loads(line[5:])
            if isinstance(event, dict) and event.get("type") in _ENDS:
                yield event
