"""Commands in comments: what was read, and what was done of it, each once."""

from collections.abc import Sequence

import sqlalchemy as sa

from appliance.core.pulls import Pull
from appliance.core.slash import Asked, Command, Name
from appliance.store.pulls import version_of
from appliance.store.reviews import Reviews, StoredReview, stored_of
from appliance.tables import commands, pulls, reviews

AGAIN = " again"
IN_PART = "in part"
NOT_DONE = "not carried out: "
LASTING: tuple[Name, ...] = ("pause", "resume")


class Commands(Reviews):
    """Comments are read when the listing says that a pull request changed, and once more after that: the forge's time
    has whole seconds, and two comments may have the same."""

    def unread(self, listed: Sequence[Pull]) -> dict[str, bool]:
        """Whose comments are to be read, and whether that is the first time for this database."""
        query = sa.select(pulls.c.target, pulls.c.commands_read).where(pulls.c.open)
        with self._engine.connect() as db:
            read = {row.target: row.commands_read for row in db.execute(query)}
        return {
            pull.target: not read.get(pull.target)
            for pull in listed
            if read.get(pull.target) != version_of(pull) + AGAIN
        }

    def set_read(self, pull: Pull, *, whole: bool = True) -> None:
        """If not as a `whole`, they are read again, but not once more as for the first time."""
        version = version_of(pull)
        done = sa.case((pulls.c.commands_read == version, version + AGAIN), else_=version)
        with self._write() as db:
            db.execute(
                pulls.update().where(pulls.c.target == pull.target).values(commands_read=done if whole else IN_PART)
            )

    def commands_done(self, target: str) -> set[str]:
        """The ids of their comments."""
        with self._engine.connect() as db:
            return set(db.execute(sa.select(commands.c.comment_id).where(commands.c.target == target)).scalars())

    def carry_out(self, pull: Pull, asked: Asked, effect: str) -> bool:
        """Do it and note that it is done, in one step; False if it was done before. `effect` is "review", "pause",
        "resume" or nothing. A pause or its end changes nothing if one of a later comment was carried out before."""
        now = self._clock()
        with self._write() as db:
            row = (commands.c.target == pull.target) & (commands.c.comment_id == asked.id)
            if db.execute(sa.select(commands.c.comment_id).where(row)).first():
                return False
            if effect in LASTING and self._later(db, pull.target, asked.id):
                effect = ""
            db.execute(
                commands.insert().values(
                    target=pull.target,
                    comment_id=asked.id,
                    command=f"{'' if effect else NOT_DONE}{asked.command}",
                    author=asked.author,
                    done_at=now,
                )
            )
            one = pulls.update().where(pulls.c.target == pull.target)
            if effect == "pause":
                db.execute(one.values(paused_at=now, paused_by=asked.author))
            elif effect == "resume":
                db.execute(one.values(paused_at=None, paused_by=""))
            elif effect == "review":
                self._forget(db, pull.target)
                db.execute(one.values(asked_head=pull.head_sha))
        return True

    @staticmethod
    def _later(db: sa.Connection, target: str, comment: str) -> bool:
        lasting = commands.c.command.in_([str(Command(name)) for name in LASTING])
        done = sa.select(commands.c.comment_id).where((commands.c.target == target) & lasting)
        return any(_number(id_) > _number(comment) for id_ in db.execute(done).scalars())

    def last_review(self, pull: Pull) -> StoredReview | None:
        """The newest that is on record with its text, of whatever head, whether it still stands or not."""
        mine = (reviews.c.target == pull.target) & reviews.c.review.is_not(None)
        with self._engine.connect() as db:
            row = db.execute(sa.select(reviews).where(mine).order_by(reviews.c.id.desc()).limit(1)).first()
        return stored_of(row) if row else None


def _number(id_: str) -> int:
    return int(id_) if id_.isascii() and id_.isdigit() else 0
