"""Budgets of tokens: of one review, and of a day across all repositories. Pure arithmetic; a day is one of UTC."""

from dataclasses import dataclass

from appliance.core.faults import Fault
from appliance.core.moments import day_of, next_day
from appliance.core.plan import Hold
from appliance.core.verdict import day_budget

REVIEW_REMEDY = "raise APPLIANCE_TOKENS_PER_REVIEW in .env and run `docker compose up -d`, or review less at once."
REMEDY = "wait until 00:00 UTC, or raise APPLIANCE_TOKENS_PER_DAY in .env and run `docker compose up -d`."


@dataclass(frozen=True)
class Spent:
    """What was used on `day` (such as 2026-11-30). `refused_under` is the highest limit that did not let a request
    through on that day, 0 if there was none: what is left may be too little for any request."""

    day: str
    tokens: int = 0
    refused_under: int = 0

    def used_up(self, limit: int) -> bool:
        """Whether nothing more may be asked on that day; a `limit` of 0 is none."""
        return limit > 0 and (self.tokens >= limit or self.refused_under >= limit)


def day_fault(limit: int) -> Fault:
    return Fault("token-budget", f"The token budget of the day ({limit:,} tokens) is used up.", REMEDY)


def hold_of(spent: Spent, limit: int, now: float) -> Hold | None:
    """Why no review starts today, if none does."""
    if spent.day != day_of(now) or not spent.used_up(limit):
        return None
    fault = day_fault(limit)
    return Hold(f"{fault.cause}: {fault.sentence}", next_day(now), day_budget("00:00 UTC"))
