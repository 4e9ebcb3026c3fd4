"""What one attempt may use: tokens of the review, tokens of the day, and time. The model gate asks it before each
request and tells it afterwards what the request took."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Literal, Protocol

from appliance.core.answers import estimate

Reason = Literal["review", "large", "day", "time"]


class Ledger(Protocol):
    """Tokens of the day, shared by all processes."""

    def take(self, tokens: int, limit: int) -> str | None:
        """Count `tokens` as used and return the day; None if they do not fit into `limit` (0 is none)."""
        ...

    def settle(self, day: str, change: int) -> None:
        """Correct what was taken on `day`."""
        ...


@dataclass(frozen=True)
class Budgets:
    """Limits in tokens, input and output together; 0 is no limit. Without a `ledger` nothing is counted by day."""

    per_review: int = 0
    per_day: int = 0
    ledger: Ledger | None = None


@dataclass(frozen=True)
class Ticket:
    """What was set aside for one request. `room` is how many output tokens the review's budget leaves for it."""

    tokens: int
    day: str | None
    room: float


class Meter:
    """Counts one attempt, all its rounds together; safe to share among threads.

    What a request will take is known only afterwards. So its size is set aside before it is sent, and what the API
    then tells takes its place. A process that dies in between leaves what it set aside counted.
    """

    def __init__(
        self, budgets: Budgets | None = None, *, deadline: float = inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._budgets = budgets or Budgets()
        self._deadline = deadline
        self._clock = clock
        self._lock = threading.Lock()
        self._used = 0
        self._settled = 0

    @property
    def used(self) -> int:
        """Tokens so far, with those that are set aside."""
        return self._used

    @property
    def settled(self) -> int:
        """What the API told of the requests that have ended."""
        return self._settled

    @property
    def budgets(self) -> Budgets:
        return self._budgets

    def ask(self, size: int) -> Ticket | Reason:
        """Set aside what a request of `size` bytes takes, or say which budget does not allow it.

        Raises what the ledger raises.
        """
        if self._clock() >= self._deadline:
            return "time"
        tokens, limits = estimate(size), self._budgets
        with self._lock:
            left = limits.per_review - self._used if limits.per_review else inf
            if tokens > left or left <= 0:
                return "review"
            if 0 < limits.per_day < tokens:  # into no day: a matter of the pull request, and no day is used up by it
                return "large"
            self._used += tokens
        day = None
        try:
            day = limits.ledger.take(tokens, limits.per_day) if limits.ledger else None
        finally:
            if day is None and limits.ledger:
                self._add(-tokens)
        if day is None and limits.ledger:
            return "day"
        return Ticket(tokens, day, left - tokens)

    def settle(self, ticket: Ticket, tokens: int) -> None:
        """What the request really took. Raises what the ledger raises."""
        change = tokens - ticket.tokens
        self._add(change)
        with self._lock:
            self._settled += tokens
        if change and ticket.day is not None and self._budgets.ledger:
            self._budgets.ledger.settle(ticket.day, change)

    def _add(self, tokens: int) -> None:
        with self._lock:
            self._used += tokens
