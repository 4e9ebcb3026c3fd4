"""Answers of the forge, by ETag."""

import sqlalchemy as sa

from appliance.forge import Cached
from appliance.store.base import Base
from appliance.tables import etags


class Answers(Base):
    """What `forge.github` asks of its ETag table."""

    def get(self, key: str) -> Cached | None:
        with self._engine.connect() as db:
            row = db.execute(sa.select(etags).where(etags.c.key == key)).one_or_none()
        return Cached(row.etag, row.link, row.body) if row else None

    def put(self, key: str, cached: Cached) -> None:
        values = {"etag": cached.etag, "link": cached.link, "body": cached.body, "stored_at": self._clock()}
        with self._write() as db:
            if db.execute(etags.update().where(etags.c.key == key).values(values)).rowcount == 0:
                db.execute(etags.insert().values(key=key, **values))

    def forget_answers_before(self, moment: float) -> None:
        with self._write() as db:
            db.execute(etags.delete().where(etags.c.stored_at < moment))
