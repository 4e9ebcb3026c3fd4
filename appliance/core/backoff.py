"""How long to wait before something that failed is tried again. Pure arithmetic."""

MAX_DELAY = 1800.0


def delay(tries: int, interval: float, jitter: float) -> float:
    """Seconds until the next try after `tries` failures in a row; `jitter` (0.0 to 1.0) shrinks it by up to a fifth.

    The first delay is at most one interval, so that the next cycle tries again; then it doubles, up to MAX_DELAY or
    one interval, whichever is more.
    """
    return min(interval * 2.0 ** min(tries - 1, 20), max(MAX_DELAY, interval)) * (1 - 0.2 * jitter)
