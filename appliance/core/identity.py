"""What a verdict is about, and whether it still is about that."""

from dataclasses import dataclass
from typing import Literal

# Of the merge base now to the one that was reviewed: "behind": it was left behind, so the change has become smaller.
Moved = Literal["same", "behind", "apart"]


@dataclass(frozen=True)
class Identity:
    """Head, base branch, where they parted, and what held for the review.

    `digest` is of the effective configuration: the appliance's settings and the rules of the base branch
    (`instructions.effective`). Empty ones are of a review that did not keep them: unknown, and equal to nothing.
    """

    head_sha: str
    base_ref: str
    base_sha: str
    merge_base: str
    digest: str


@dataclass(frozen=True)
class Now:
    """How things stand with the base branch as it is now.

    `drift` counts the commits that the base branch has and had not when it was reviewed; None: that cannot be told,
    for it was rewritten. `moved` tells of the merge base; None: that cannot be told.
    """

    digest: str
    moved: Moved | None
    drift: int | None


def why_stale(reviewed: Identity, now: Now, *, success: bool, base_drift: int) -> str | None:
    """Why the verdict no longer holds for this head and base branch, or None while it does.

    The base branch may go on: what it gained is not this pull request's. With `base_drift` above 0 a success holds
    until so many commits came in. Whatever makes the change larger than what was reviewed, or changes what is asked
    of a review, ends it.
    """
    if not reviewed.digest or reviewed.digest != now.digest:
        return "the rules of its review changed"
    if not reviewed.merge_base or now.moved not in ("same", "behind"):
        return "the base branch was rewritten"
    if success and base_drift and (now.drift is None or now.drift >= base_drift):
        gained = "was rewritten" if now.drift is None else f"has {now.drift} new commit{'s' if now.drift > 1 else ''}"
        return f"the base branch {gained} since its review"
    return None
