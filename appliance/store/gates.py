"""Gates as they were last set, so that one is written only on a change."""

import sqlalchemy as sa

from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.store.base import Base
from appliance.tables import gates, local_gates, pulls


class Gates(Base):
    """`last_*` is what a forge was told; `local_*` is the gate of a local repository itself."""

    def last_gate(self, pull: Pull) -> Gate | None:
        with self._engine.connect() as db:
            row = db.execute(
                sa.select(gates).where(gates.c.target == pull.target, gates.c.head_sha == pull.head_sha)
            ).one_or_none()
        return Gate(row.state, row.description) if row else None

    def last_gates(self, repository: str) -> dict[tuple[str, str], Gate]:
        """All gates last set in a repository, by target and head SHA."""
        query = sa.select(gates).join(pulls, pulls.c.target == gates.c.target).where(pulls.c.repository == repository)
        with self._engine.connect() as db:
            return {(row.target, row.head_sha): Gate(row.state, row.description) for row in db.execute(query)}

    def set_last_gate(self, pull: Pull, gate: Gate) -> None:
        values = {"state": gate.state, "description": gate.description, "set_at": self._clock()}
        with self._write() as db:
            one = (gates.c.target == pull.target) & (gates.c.head_sha == pull.head_sha)
            if db.execute(gates.update().where(one).values(values)).rowcount == 0:
                db.execute(gates.insert().values(target=pull.target, head_sha=pull.head_sha, **values))

    def local_gate(self, target: str, head_sha: str) -> Gate | None:
        with self._engine.connect() as db:
            row = db.execute(
                sa.select(local_gates).where(local_gates.c.target == target, local_gates.c.head_sha == head_sha)
            ).one_or_none()
        return Gate(row.state, row.description) if row else None

    def set_local_gate(self, target: str, head_sha: str, gate: Gate) -> None:
        values = {"state": gate.state, "description": gate.description}
        with self._write() as db:
            one = (local_gates.c.target == target) & (local_gates.c.head_sha == head_sha)
            if db.execute(local_gates.update().where(one).values(values)).rowcount == 0:
                db.execute(local_gates.insert().values(target=target, head_sha=head_sha, **values))
