"""Pull requests as the cycle sees them."""

from dataclasses import dataclass

from appliance.core.windows import ALWAYS, Schedule


@dataclass(frozen=True)
class Pull:
    """One pull request, as its forge lists it.

    `target` is what people type: `owner/name#12`, or `path#branch` for a local repository.
    `base_sha` is what the forge says of the base branch; it may lag behind (GitHub's does).
    `author` is "ghost" for a deleted account. `updated_at` is the forge's own text: it is compared, never parsed.
    """

    target: str
    repository: str
    number: int
    head_sha: str
    base_ref: str
    base_sha: str
    title: str = ""
    body: str = ""
    author: str = "ghost"
    author_association: str = "NONE"
    labels: tuple[str, ...] = ()
    draft: bool = False
    open: bool = True
    updated_at: str = ""
    url: str = ""
    clone_url: str = ""
    head_ref: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Head SHA and base branch: another pair is another review."""
        return self.head_sha, self.base_ref


@dataclass(frozen=True)
class Policy:
    """Which pull requests are ready, how often one may be tried, and the seconds between two cycles.

    Below them what makes a ready one wait (`core.readiness`): seconds after a push, the hours in which reviews begin,
    reviews per author and day (0 is any number), the checks of others that are to be green, by name or `*`. A pull
    request with the label `first_label` goes first.
    """

    author_associations: frozenset[str] = frozenset({"OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"})
    skip_labels: frozenset[str] = frozenset()
    require_label: str | None = None
    max_attempts: int = 3
    interval: float = 300.0
    quiet_period: float = 0.0
    schedule: Schedule = ALWAYS
    first_label: str | None = None
    reviews_per_author: int = 0
    wait_for_checks: tuple[str, ...] = ()


def not_ready(pull: Pull, policy: Policy) -> str | None:
    """Why this pull request is not to be reviewed, or None if it is ready.

    Labels compare without case, as GitHub's do.
    """
    labels = {label.casefold() for label in pull.labels}
    skipped = sorted(labels & {label.casefold() for label in policy.skip_labels})
    if not pull.open:
        return "closed"
    if pull.draft:
        return "draft"
    if pull.author_association not in policy.author_associations:
        return f"author association {pull.author_association}"
    if skipped:
        return f"label {skipped[0]}"
    if policy.require_label and policy.require_label.casefold() not in labels:
        return f"label {policy.require_label} is missing"
    return None
