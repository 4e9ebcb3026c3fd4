"""The one door to the database: attempts, leases, results that wait to be posted, ETags, history.

The forge is the truth of what was reviewed; this holds what the forge cannot: a lost database loses only history.
"""

import time
from collections.abc import Callable
from pathlib import Path

from appliance.store.answers import Answers
from appliance.store.attempts import Tried
from appliance.store.bases import Bases
from appliance.store.commands import Commands
from appliance.store.findings import Decided, Findings, Revised
from appliance.store.gates import Gates
from appliance.store.history import History, Past
from appliance.store.notes import Notes
from appliance.store.opening import SCHEMA_REVISION, damage, is_damage, open_engine, words
from appliance.store.outbox import Outbox, key_of
from appliance.store.pulls import Place, PullRow, Pulls, PullState
from appliance.store.readiness import Readiness
from appliance.store.reviews import StoredReview, load_review
from appliance.store.spending import Spending

__all__ = [
    "SCHEMA_REVISION",
    "Decided",
    "Past",
    "Place",
    "PullRow",
    "PullState",
    "Revised",
    "Store",
    "StoredReview",
    "Tried",
    "damage",
    "is_damage",
    "key_of",
    "load_review",
    "open_store",
    "words",
]


class Store(History, Answers, Commands, Pulls, Readiness, Bases, Gates, Outbox, Notes, Spending, Findings):
    """All of it; open with `open_store`."""


def open_store(path: Path, clock: Callable[[], float] = time.time) -> Store:
    """Open the database at `path`, made or brought up to date if need be.

    Raises sqlalchemy.exc.SQLAlchemyError, and ValueError for one that a later version made.
    """
    return Store(open_engine(path), clock)
