"""Tips of base branches as they were last looked at, and which pull requests' reviews were held against them."""

from collections.abc import Sequence

import sqlalchemy as sa

from appliance.core.pulls import Pull
from appliance.store.base import Base
from appliance.tables import bases, pulls


class Bases(Base):
    """`checked` is any text that changes when a review must be held against the base branch anew."""

    def base_tip(self, pull: Pull, since: float) -> str | None:
        """The tip of the pull request's base branch, if it was looked at after `since` (seconds of the epoch)."""
        looked = bases.c.looked_at.between(since, self._clock())  # in the future: the clock was set back since
        of_it = (bases.c.repository == pull.repository, bases.c.base_ref == pull.base_ref, looked)
        with self._engine.connect() as db:
            return db.execute(sa.select(bases.c.tip).where(*of_it)).scalar_one_or_none()

    def set_base_tip(self, pull: Pull, tip: str) -> None:
        of_it = (bases.c.repository == pull.repository, bases.c.base_ref == pull.base_ref)
        values = {"tip": tip, "looked_at": self._clock()}
        with self._write() as db:
            if db.execute(bases.update().where(*of_it).values(values)).rowcount == 0:
                db.execute(bases.insert().values(repository=pull.repository, base_ref=pull.base_ref, **values))

    def bases_checked(self, listed: Sequence[Pull]) -> dict[str, str]:
        """What was last noted of each, by target; "" where nothing was."""
        query = sa.select(pulls.c.target, pulls.c.base_checked).where(
            pulls.c.target.in_([pull.target for pull in listed])
        )
        with self._engine.connect() as db:
            return {row.target: row.base_checked for row in db.execute(query)}

    def set_base_checked(self, pull: Pull, checked: str) -> None:
        with self._write() as db:
            db.execute(pulls.update().where(pulls.c.target == pull.target).values(base_checked=checked))
