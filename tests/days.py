"""For tests of what is counted by the day (in UTC), which would meet the next one at midnight."""

import time

from appliance.core.moments import next_day

NOON = 1_796_040_000.0  # 2026-11-30 12:00 UTC


def enough_of_today(seconds: float) -> None:
    """Return with at least `seconds` left of the day: at once, or as the next one begins."""
    while (left := next_day(now := time.time()) - now) < seconds:
        time.sleep(left)
