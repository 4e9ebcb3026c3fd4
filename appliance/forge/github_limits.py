"""GitHub's limits: when to come back, and a pace for writes."""

import re
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime

from appliance.forge.github_errors import Answer, message_of, rate_limited

SHORT_WAIT = 5.0  # seconds a call may wait by itself; longer ones are the schedule's
FIRST_PAUSE = 60.0  # GitHub: "wait for at least one minute", then exponentially more
LONGEST_PAUSE = 2 * 3600.0  # the primary limit resets within the hour; a wild header must not stop us for days
WRITE_GAP = 1.0  # GitHub: at least one second between requests that write
MOST_WRITES = ((80, 60.0), (500, 3600.0))  # GitHub: what creates content, in so many seconds
# What GitHub says when it limits without a header. The last one is its answer to many failed logins.
_LIMIT_WORDS = ("rate limit", "abuse detection", "too many requests", "login attempts exceeded")


def pause_of(answer: Answer, earlier: int) -> float | None:
    """Seconds to keep away if this answer is a rate limit, else None.

    `earlier` is how many limits without any word of when to come back came in a row before.
    """
    if answer.status not in (403, 429):
        return None
    wait = retry_after(answer)
    spent = answer.headers.get("x-ratelimit-remaining", "").strip() == "0"
    if wait is None and spent:
        wait = until_reset(answer)
    if wait is None:
        if answer.status == 403 and not spent and not sounds_limited(answer):
            return None
        wait = FIRST_PAUSE * 2.0 ** min(earlier, 10)
    return min(max(wait, 1.0), LONGEST_PAUSE)


def told_when(answer: Answer) -> bool:
    """Whether the answer's own headers say when to come back."""
    return retry_after(answer) is not None or until_reset(answer) is not None


def retry_after(answer: Answer) -> float | None:
    """Seconds of the Retry-After header, which may also be a date."""
    value = answer.headers.get("retry-after", "").strip()
    if not value:
        return None
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        return float(value)
    then, now = epoch(value), epoch(answer.headers.get("date", ""))
    return max(then - now, 0.0) if then is not None and now is not None else None


def until_reset(answer: Answer) -> float | None:
    """Seconds to the reset by the *server's* clock: ours may be wrong."""
    now = epoch(answer.headers.get("date", ""))
    reset = answer.headers.get("x-ratelimit-reset", "").strip()
    return float(reset) - now if now is not None and re.fullmatch(r"[0-9]{1,15}", reset) else None


def sounds_limited(answer: Answer) -> bool:
    said = message_of(answer.body).casefold()
    return any(words in said for words in _LIMIT_WORDS)


def epoch(date: str) -> float | None:
    """An HTTP date in seconds of the epoch; None for what is none."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None


class Pause:
    """Until when nothing is asked. Thread-safe; `now` is seconds of the epoch."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = self._until = 0.0
        self.untold = 0

    def begin(self, now: float, seconds: float, *, told: bool) -> float:
        """Keep away for so long; returns until when."""
        with self._lock:
            self.untold = 0 if told else self.untold + 1
            self._since, self._until = now, max(self._until, now + seconds)
            return self._until

    def end(self) -> None:
        """The forge answered as usual."""
        with self._lock:
            self.untold = 0

    def until(self, now: float) -> float | None:
        """When to come back, or None if that is now. A clock that was set back ends the pause."""
        with self._lock:
            return self._until if self._since - 60 <= now < self._until else None


class WritePace:
    """One write at a time, at least WRITE_GAP seconds from the end of one to the start of the next, and no more than
    MOST_WRITES in any span of time. Status, comment, review, edit, reaction and mutation: all of them are writes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: deque[float] = deque(maxlen=max(most for most, _ in MOST_WRITES))

    @contextmanager
    def turn(self, clock: Callable[[], float], sleep: Callable[[float], None]) -> Iterator[None]:
        """Raises ForgeError (forge-rate-limited) rather than wait for longer than SHORT_WAIT."""
        with self._lock:
            now = clock()
            while self._ended and self._ended[-1] > now + WRITE_GAP:  # the clock was set back: its times mean nothing
                self._ended.pop()
            left = self._left(now)
            if left > SHORT_WAIT:
                raise rate_limited("GitHub allows no more writes for now: we keep to its 500 an hour", now + left)
            if left > 0:
                sleep(left)
            try:
                yield
            finally:
                self._ended.append(clock())

    def _left(self, now: float) -> float:
        """Seconds until the next write may begin."""
        until = self._ended[-1] + WRITE_GAP if self._ended else now
        for most, span in MOST_WRITES:
            if len(self._ended) >= most:
                until = max(until, self._ended[-most] + span)
        return until - now


PROCESS_PACE = WritePace()
