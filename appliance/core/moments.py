"""Moments as people read them. Seconds of the epoch go in; a day is one of UTC."""

from datetime import UTC, datetime, timedelta

SOON = 20 * 3600.0


def clock_time(moment: float, now: float) -> str:
    """When, for people: the time of day in UTC, with the day if it is not soon."""
    form = "%H:%M UTC" if moment - now < SOON else "%Y-%m-%d %H:%M UTC"
    return datetime.fromtimestamp(moment, UTC).strftime(form)


def day_of(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d")


def midnight(now: float) -> float:
    """When the day of `now` began."""
    return datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0).timestamp()


def next_day(now: float) -> float:
    """The next midnight."""
    return (datetime.fromtimestamp(midnight(now), UTC) + timedelta(days=1)).timestamp()
