"""Small things that outlive a process."""

import json
from typing import Any

import sqlalchemy as sa

from appliance import redaction
from appliance.store.base import Base
from appliance.tables import meta


class Notes(Base):
    """JSON values by name."""

    def note(self, name: str) -> Any:
        """The JSON value noted under `name`, or None."""
        with self._engine.connect() as db:
            found = db.execute(sa.select(meta.c.value).where(meta.c.name == name)).scalar_one_or_none()
        return json.loads(found) if found is not None else None

    def set_note(self, name: str, value: Any) -> None:
        text = json.dumps(redaction.cleaned(value))
        with self._write() as db:
            if db.execute(meta.update().where(meta.c.name == name).values(value=text)).rowcount == 0:
                db.execute(meta.insert().values(name=name, value=text))
