"""Gates as they were last set, so that one is written only on a change."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from appliance.core.pulls import Pull
from appliance.core.verdict import WAITING, Gate, beside
from appliance.store.base import Base, standing
from appliance.tables import gates, local_gates, pulls, reviews

_WORST = ("failure", "error", "pending")


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

    def beside(self, pull: Pull) -> Gate | None:
        """The worst gate of the other open pull requests of this very commit; None if a success is for all of them.

        One that is not ready, or not reviewed yet, holds it up just so: it would be green at the moment when it becomes
        ready. One into the same branch is the same change, and what was reviewed here is reviewed there.
        """
        with self._engine.connect() as db:
            found = []
            for row in db.execute(_others(pull)).all():
                of_it = (reviews.c.head_sha == row.head_sha, reviews.c.base_ref == row.base_ref)
                done = standing(reviews, [row.target]).where(*of_it, reviews.c.abandoned_at.is_(None))
                review = db.execute(done.order_by(reviews.c.id.desc())).first()
                if review is not None:
                    found.append(Gate(review.gate_state, review.gate_description))
                elif row.base_ref == pull.base_ref:
                    continue
                elif row.state == "skipped":  # it shows nothing itself
                    found.append(beside(row.target))
                else:
                    one = sa.select(gates).where(gates.c.target == row.target, gates.c.head_sha == row.head_sha)
                    told = db.execute(one).one_or_none()
                    # A green one without a review is of another base, or of a review that is to be done again.
                    found.append(Gate(told.state, told.description) if told and told.state in _WORST else WAITING)
        red = [gate for gate in found if gate.state in _WORST]
        return min(red, key=lambda gate: _WORST.index(gate.state), default=None)

    def unseen(self, listed: Sequence[Pull]) -> list[Pull]:
        """Those that no cycle has looked at with this head and base branch."""
        query = sa.select(pulls).where(pulls.c.target.in_([pull.target for pull in listed]), pulls.c.open)
        with self._engine.connect() as db:
            known = {(row.target, row.head_sha, row.base_ref) for row in db.execute(query)}
        return [pull for pull in listed if (pull.target, *pull.key) not in known]

    def forget_gate(self, pull: Pull) -> None:
        """What was last shown of it may not be what the forge shows."""
        with self._write() as db:
            db.execute(gates.delete().where(gates.c.target == pull.target, gates.c.head_sha == pull.head_sha))

    def forget_gates_beside(self, pull: Pull) -> None:
        """What the other pull requests of this commit were last shown as is no longer what the forge shows."""
        others = [
            gates.c.target.in_(_others(pull).with_only_columns(pulls.c.target)),
            gates.c.head_sha == pull.head_sha,
        ]
        with self._write() as db:
            db.execute(gates.delete().where(*others))

    def forget_gates_of(self, forge: str) -> None:
        """All that this forge was told: none of it is where its gates are now."""
        of_it = sa.select(pulls.c.target).where(pulls.c.forge == forge)
        with self._write() as db:
            db.execute(gates.delete().where(gates.c.target.in_(of_it)))

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


def _others(pull: Pull) -> sa.Select[Any]:
    of_it = (pulls.c.repository == pull.repository, pulls.c.head_sha == pull.head_sha, pulls.c.open)
    return sa.select(pulls).where(*of_it, pulls.c.target != pull.target).order_by(pulls.c.number)
