"""Whether a review still is of what the forge has now. Asked before anything is written that goes by it."""

import threading
from dataclasses import dataclass

from appliance import instructions
from appliance.core.identity import Identity, Moved, Now, why_stale
from appliance.core.prompt import File
from appliance.core.pulls import Pull
from appliance.git import Mirror, Mirrors
from appliance.protocols import Forge
from appliance.store import StoredReview


@dataclass(frozen=True)
class Standing:
    """`block_priority` is the appliance's own; `base_drift` so many new commits of the base end a success, 0: none."""

    mirrors: Mirrors
    block_priority: int
    base_drift: int = 0
    stop: threading.Event | None = None

    @property
    def settings(self) -> str:
        """What of the appliance's own settings the answer depends on."""
        return f"P{self.block_priority} {self.base_drift}"

    def why_stale(self, forge: Forge, pull: Pull, stored: StoredReview, tip: str | None = None) -> str | None:
        """Why a review of `pull` no longer holds, or None while it does. `tip` of the base branch is asked for if None.

        Raises ForgeError and GitError: then it is unknown. Head and base branch are compared by the caller.
        """
        tip = tip or forge.base_tip(pull)
        if stored.identity.base_sha == tip and self._same_settings(stored):
            return None
        return why_stale(
            stored.identity,
            self._now(forge, pull, stored.identity, tip),
            success=stored.gate.state == "success",
            base_drift=self.base_drift,
        )

    def _same_settings(self, stored: StoredReview) -> bool:
        """Whether, with the rules of the same base commit, the digest is the same too, whatever priority these name."""
        held = stored.review.configuration if stored.review else None
        return held is not None and bool(stored.identity.digest) and held.block_priority == self.block_priority

    def _now(self, forge: Forge, pull: Pull, reviewed: Identity, tip: str) -> Now:
        source = forge.source(pull)
        mirror = self.mirrors.known(pull.repository, source, head_sha=pull.head_sha, base_sha=tip)
        if mirror is None or mirror.is_ancestor(tip, reviewed.base_sha or tip):
            # Not here yet; or older than what was reviewed: then the API lags behind, or the branch was set back.
            mirror = self.mirrors.fetch(
                pull.repository, source, head_sha=pull.head_sha, base_sha=reviewed.base_sha or None, stop=self.stop
            )
            tip = mirror.base_sha(source.base_ref)
        merge_base = mirror.merge_base(tip, pull.head_sha) or tip
        changes = mirror.changed_files(merge_base, pull.head_sha)
        files = [File(one.path, one.status, one.added, one.deleted, one.old_path) for one in changes]
        held = instructions.of_base(mirror, tip, files, self.block_priority).configuration
        return Now(held.digest, _moved(mirror, reviewed.merge_base, merge_base), mirror.gained(reviewed.base_sha, tip))


def _moved(mirror: Mirror, before: str, now: str) -> Moved | None:
    if before == now:
        return "same"
    found = mirror.is_ancestor(before, now) if before else None
    return None if found is None else "behind" if found else "apart"
