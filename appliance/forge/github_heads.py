"""What GitHub tells of a head, its base branch and the people around them."""

from typing import Any
from urllib.parse import quote

from appliance.core.pulls import Pull
from appliance.forge import Checks, ForgeError, Reaction
from appliance.forge.github_client import GitHubClient
from appliance.forge.github_errors import unreachable
from appliance.forge.github_graphql import VIEWER
from appliance.forge.github_review_shapes import VIEWER_KEPT
from appliance.forge.github_shapes import (
    BRANCH,
    CHECK_RUNS,
    COMBINED_COUNT,
    PERMISSION,
    USER,
    WRITTEN,
    Row,
)

WRITES = frozenset({"write", "maintain", "admin"})
NOBODY = frozenset({"", "ghost"})  # a deleted account
PASSED = frozenset({"success", "neutral", "skipped"})  # GitHub's: these let a required check pass


class GitHubHeads:
    """Of one API. Thread-safe; every method raises ForgeError. `context` is that of our own gate."""

    def __init__(self, client: GitHubClient, context: str) -> None:
        self._client = client
        self._context = context.casefold()
        self._me: str | None = None

    def me(self) -> str:
        """An App's installation is no user: GraphQL knows its name. Empty for a token that is told neither."""
        if self._me is None:
            try:
                self._me = self._client.read("/user", USER)
            except ForgeError as error:
                if error.cause not in ("forge-permission", "forge-not-found"):
                    raise
                self._me = self._viewer()
        return self._me

    def _viewer(self) -> str:
        try:
            return self._client.query(VIEWER, {}, VIEWER_KEPT)
        except ForgeError as error:
            if not error.permanent:
                raise
            return ""

    def may_write(self, pull: Pull, user: str) -> bool:
        if user in NOBODY or user.endswith("[bot]"):  # an App has no such permission; GitHub answers 404
            return False
        path = f"/repos/{pull.repository}/collaborators/{quote(user, safe='')}/permission"
        return self._client.read(path, PERMISSION) in WRITES

    def react(self, pull: Pull, comment_id: str, content: Reaction) -> None:
        """GitHub answers 200 for one that is there, 201 for a new one."""
        path = f"/repos/{pull.repository}/issues/comments/{quote(comment_id, safe='')}/reactions"
        self._client.write(path, {"content": content}, WRITTEN)

    def base_tip(self, pull: Pull) -> str:
        return self._client.read(f"/repos/{pull.repository}/branches/{quote(pull.base_ref, safe='')}", BRANCH)

    def checks(self, pull: Pull) -> Checks:
        """Raises ForgeError when a listing has fewer than its own count."""
        commit = f"/repos/{pull.repository}/commits/{pull.head_sha}"
        worst: dict[str, str] = {}
        for path, shape in (
            (f"{commit}/check-runs?per_page=100", CHECK_RUNS),
            (f"{commit}/status?per_page=100", COMBINED_COUNT),
        ):
            pages = self._client.pages(path, shape)
            rows: list[Row] = [row for page in pages for row in page["rows"]]
            counted = max((page["total"] for page in pages), default=0)
            if len(rows) < counted:
                raise unreachable(f"the checks of {pull.target}: the listing came back short, {len(rows)} of {counted}")
            for row in rows:
                name, kind = row["context"], _kind(row["state"])
                if name.casefold() != self._context and _RANK[kind] > _RANK.get(worst.get(name, ""), 0):
                    worst[name] = kind
        by_kind: dict[str, Any] = {kind: tuple(sorted(n for n, k in worst.items() if k == kind)) for kind in _RANK}
        return Checks(**by_kind)


_RANK = {"passed": 1, "pending": 2, "failed": 3}
_PENDING = frozenset({"pending", "queued", "in_progress", "waiting", "requested"})


def _kind(state: str) -> str:
    """Whatever has no known good end has failed: unknown is not "passed"."""
    return "passed" if state in PASSED else "pending" if state in _PENDING else "failed"
