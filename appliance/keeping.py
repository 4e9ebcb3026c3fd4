"""From a finished review to the store, so that neither a crash nor a full disk costs a review that was paid for.

1. It is saved in the attempt's work directory, in room that was set aside before the review began.
2. It is stored, and the attempt ends, in one transaction of the database.
3. The directory is settled, and goes with the end of the attempt.

Whatever ends or fails in between: the next cycle finds a directory with a result, and takes it up from there.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import structlog

from appliance import redaction
from appliance.core.earlier import by_decisions
from appliance.core.findings import Review
from appliance.core.verdict import Gate, gate_of
from appliance.store import Store, load_review
from appliance.workdir import WorkDirs

log = structlog.get_logger()


@dataclass(frozen=True)
class Keeper:
    """Brings results to the store; `block_priority` is the number of the priority that blocks."""

    store: Store
    work: WorkDirs
    block_priority: int
    clock: Callable[[], float] = time.time

    def of(self, attempt: int, owner: str) -> "Kept":
        return Kept(self, attempt, owner)

    def reclaim(self) -> list[Path]:
        """Remove the work directories of the dead, after what they had found is stored; returns them.

        Raises SQLAlchemyError; then what was not stored is still there.
        """
        return self.work.reclaim(self._adopt)

    def _adopt(self, saved: Any) -> bool:
        try:
            attempt, owner, at = saved["attempt"], saved["owner"], saved["at"]
            review = load_review(saved["review"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is no review, or one of another version: {error!r}") from error
        review = by_decisions(review, self.store.known(review.target))
        became = self.store.adopt(attempt, owner, review, gate_of(review, self.block_priority), at)
        log.warning("result.adopted", target=review.target, head=review.head_sha, became=became)
        return became != "later"


@dataclass
class Kept:
    """The result of one attempt, which `owner` began."""

    keeper: Keeper
    attempt: int
    owner: str
    _gate: Gate | None = None

    def keep(self, review: Review, work: Path) -> None:
        """Store the review, which ends the attempt; `work` is its directory, lent by `WorkDirs.new`.

        Raises SQLAlchemyError: then the result waits in the directory for the next cycle.
        """
        directories, at = self.keeper.work, self.keeper.store.moment(review.target)
        saved = {"attempt": self.attempt, "owner": self.owner, "at": at, "review": asdict(redaction.review(review))}
        try:
            directories.save(work, saved)
        except OSError as error:  # the database may have room all the same
            log.warning("result.unsafe", target=review.target, error=str(error))
        self._store(review, at)
        with suppress(OSError):  # then the next cycle sees that it is stored
            directories.settle(work)

    def stored(self, review: Review) -> Gate:
        """The gate of the review, which is stored now if it was not: one that nobody paid for has no directory."""
        return self._gate or self._store(review, self.keeper.store.moment(review.target))

    def _store(self, review: Review, at: float) -> Gate:
        review = by_decisions(review, self.keeper.store.known(review.target))  # people may have decided meanwhile
        gate = gate_of(review, self.keeper.block_priority)
        self.keeper.store.finish(self.attempt, review, gate, at)
        self._gate = gate
        return gate
