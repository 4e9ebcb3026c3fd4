"""Proportions and means, with intervals of 95 %. Where nothing was counted there is no figure: None, never 0 or 1."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeVar

from appliance.core.findings import Usage

T = TypeVar("T")
Z = 1.959963984540054  # of the normal distribution, for 95 %
ROUNDS = 2000
SEED = 20261130  # fixed, so that the same results give the same figures
DEFINED = 0.95  # of the resamples that must have a figure, or the interval would tell of the lucky ones only


@dataclass(frozen=True)
class Interval:
    low: float
    high: float
    method: Literal["wilson", "bootstrap"]


@dataclass(frozen=True)
class Figure:
    """`value` None: there was nothing to count."""

    value: float | None
    interval: Interval | None = None


@dataclass(frozen=True)
class Prices:
    """Money for a million tokens: input, cached input, output."""

    input: float
    cached: float
    output: float

    def of(self, usage: Usage) -> float:
        """The input of a usage has its cached part in it, the output that of reasoning."""
        fresh = max(0, usage.input_tokens - usage.cached_input_tokens)
        cached = min(usage.cached_input_tokens, usage.input_tokens)
        return (fresh * self.input + cached * self.cached + usage.output_tokens * self.output) / 1e6


def ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def f1(true: int, false: int, missed: int) -> float | None:
    """None if nothing was found and nothing was there to find."""
    return ratio(2 * true, 2 * true + false + missed)


def mean(values: Sequence[float]) -> float | None:
    return ratio(sum(values), len(values))


def wilson(part: int, whole: int) -> Interval | None:
    """Wilson's score interval: it holds near 0 and 1 and for small numbers, and is never wider than 0 to 1."""
    if not whole:
        return None
    share, square = part / whole, Z * Z
    middle = (share + square / (2 * whole)) / (1 + square / whole)
    half = Z * math.sqrt(share * (1 - share) / whole + square / (4 * whole * whole)) / (1 + square / whole)
    # at the ends they are 0 and 1 by the formula; floating point misses that by a hair
    low = 0.0 if part == 0 else max(0.0, middle - half)
    high = 1.0 if part == whole else min(1.0, middle + half)
    return Interval(low, high, "wilson")


def bootstrap(cases: Sequence[T], figure: Callable[[Sequence[T]], float | None]) -> Interval | None:
    """The middle 95 % of `figure` over resamples of whole cases: what belongs to a case stays together.

    None for fewer than two cases, for these tell nothing of how cases differ, and where too many resamples have no
    figure. The same cases in the same order give the same interval.
    """
    if len(cases) < 2:
        return None
    random = Random(SEED)
    drawn = (figure(random.choices(cases, k=len(cases))) for _ in range(ROUNDS))
    values = sorted(value for value in drawn if value is not None)
    if len(values) < DEFINED * ROUNDS:
        return None
    last = len(values) - 1
    return Interval(values[round(0.025 * last)], values[round(0.975 * last)], "bootstrap")


def proportion(part: int, whole: int) -> Figure:
    return Figure(ratio(part, whole), wilson(part, whole))
