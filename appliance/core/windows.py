"""The hours in which reviews begin, by the clock on somebody's wall. Zones are given: to read one is to open a file."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = 24 * 60  # minutes
MINUTE = 60.0
AHEAD = 15  # days: a window of one night a week may fall on the hour that a change of the clock leaves out
_WINDOW = re.compile(
    r"(?:(?P<days>[a-z]{3}(?:\s*[-,]\s*[a-z]{3})*)\s+)?"
    r"(?P<start>\d{1,2}:\d{2})\s*-\s*(?P<end>\d{1,2}:\d{2})(?:\s+(?P<zone>[a-z0-9_+/-]+))?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Window:
    """Minutes of the day from `start` up to `end`; over midnight if `end` is not later. `days`: Monday is 0.

    A night belongs to the day on which it begins.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: tzinfo

    def holds(self, moment: datetime) -> bool:
        here = moment.astimezone(self.zone)
        minute, today = here.hour * 60 + here.minute, here.weekday()
        if self.start < self.end:
            return today in self.days and self.start <= minute < self.end
        return (today in self.days and minute >= self.start) or ((today - 1) % 7 in self.days and minute < self.end)

    def starts(self, moment: datetime) -> Iterator[float]:
        """When it begins in the next days. The hour that comes twice is there twice."""
        first = moment.astimezone(self.zone).date()
        for day in (first + timedelta(days=ahead) for ahead in range(AHEAD)):
            if day.weekday() in self.days:
                yield from (self._at(day, fold) for fold in (0, 1))

    def _at(self, day: date, fold: int) -> float:
        return datetime.combine(day, time(*divmod(self.start, 60)), self.zone).replace(fold=fold).timestamp()


@dataclass(frozen=True)
class Schedule:
    """Open while one of the windows is; without any, always."""

    windows: tuple[Window, ...] = ()

    def open(self, now: float) -> bool:
        moment = datetime.fromtimestamp(now, UTC)
        return not self.windows or any(window.holds(moment) for window in self.windows)

    def opens(self, now: float) -> float | None:
        """When it opens next, if it is closed; None if that is never."""
        moment = datetime.fromtimestamp(now, UTC)
        starts = (start for window in self.windows for start in window.starts(moment))
        found = min((start for start in starts if start > now and self.open(start)), default=None)
        while found is not None and found - MINUTE > now and self.open(found - MINUTE):
            found -= MINUTE  # the clock went forward over its beginning: it opens when the clock has
        return found


ALWAYS = Schedule()


def parse(text: str, zone: Callable[[str], tzinfo]) -> tuple[Schedule, tuple[str, ...]]:
    """The schedule that `text` names, and the parts of it that are no window. `zone` raises LookupError."""
    windows, bad = [], []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        try:
            windows.append(_window(part, zone))
        except LookupError:
            bad.append(part)
    return Schedule(tuple(windows)), tuple(bad)


def _window(text: str, zone: Callable[[str], tzinfo]) -> Window:
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise LookupError(text)
    start, end = _minutes(found["start"]), _minutes(found["end"])
    if start in (end, DAY):
        raise LookupError(text)
    return Window(_days(found["days"]), start, end, zone(found["zone"]) if found["zone"] else UTC)


def _minutes(text: str) -> int:
    hour, minute = map(int, text.split(":"))
    if minute > 59 or hour * 60 + minute > DAY:
        raise LookupError(text)
    return hour * 60 + minute


def _days(text: str | None) -> frozenset[int]:
    """`Mon-Fri,Sun`; all of them if none is named. `Sat-Mon` goes over the end of the week."""
    if text is None:
        return frozenset(range(7))
    found: set[int] = set()
    for part in text.casefold().split(","):
        ends = [_day(name.strip()) for name in part.split("-")]
        if len(ends) > 2:
            raise LookupError(part)
        first, last = ends[0], ends[-1]
        found |= {(first + ahead) % 7 for ahead in range((last - first) % 7 + 1)}
    return frozenset(found)


def _day(name: str) -> int:
    if name not in DAYS:
        raise LookupError(name)
    return DAYS.index(name)
