"""Reviews with comments on lines, and the threads that grow from them.

Reviews are listed by REST, which has ETags; but it tells no count, so GraphQL's count says whether all came. What a
thread is and whether it is resolved, only GraphQL knows.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from appliance.core.pulls import Pull
from appliance.forge import Comment, ForgeError, InlineComment, PostedReview, ReviewEvent, Thread, ThreadComment
from appliance.forge.github_client import MAX_PAGES, GitHubClient
from appliance.forge.github_errors import refused, unreachable
from appliance.forge.github_graphql import MINIMIZE, RESOLVE, REVIEW_COUNT, THREAD, THREADS
from appliance.forge.github_review_shapes import (
    MINIMIZED,
    REPLY,
    RESOLVED,
    REVIEW,
    REVIEW_COUNT_KEPT,
    REVIEWS,
    THREAD_KEPT,
    THREADS_KEPT,
    review_of,
    thread_comment_of,
)
from appliance.forge.github_shapes import Row

MAX_BODY = 65_536  # characters, of a comment as of a review
DEFECT = "this is a defect of the appliance: please report it."
STEADY = 3600.0  # seconds; a degraded backend does not give one and the same wrong answer for so long


class Steady:
    """Whether a listing has fallen short by the same count for STEADY seconds: then GitHub counts what it shows to
    nobody, and no later answer will say more."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[tuple[int, frozenset[str]], float]] = {}

    def ends(self, what: str, counted: int, listed: frozenset[str]) -> bool:
        now, found = self._clock(), (counted, listed)
        with self._lock:
            before = self._seen.get(what)
            if before is None or before[0] != found:
                self._seen[what] = before = (found, now)
        return now - before[1] >= STEADY


class GitHubReviews:
    """Of one API. Thread-safe; every method raises ForgeError."""

    def __init__(self, client: GitHubClient, steady: Steady) -> None:
        self._client = client
        self._steady = steady

    def reviews(self, pull: Pull) -> list[PostedReview]:
        """All, oldest first; raises ForgeError when there are fewer than GitHub counts, as for comments."""
        counted = self._client.query(REVIEW_COUNT, _where(pull), REVIEW_COUNT_KEPT)
        path = f"/repos/{pull.repository}/pulls/{pull.number}/reviews?per_page=100"
        rows = {row["id"]: row for row in self._client.pages(path, REVIEWS)}
        if len(rows) < counted:
            counted = self._client.query(REVIEW_COUNT, _where(pull), REVIEW_COUNT_KEPT)
            if len(rows) < counted and not self._steady.ends(f"{pull.target} reviews", counted, frozenset(rows)):
                raise _short(f"the reviews of {pull.target}", len(rows), counted)
        return [review_of(row) for row in rows.values()]

    def post(self, pull: Pull, event: ReviewEvent, body: str, comments: Sequence[InlineComment]) -> PostedReview:
        """Write a review, once. After a failure that is not permanent it may be there: look for the marker."""
        for text in (body, *(comment.body for comment in comments)):
            if len(text) > MAX_BODY:
                raise refused(f"a text of {len(text)} characters is above GitHub's {MAX_BODY}", remedy=DEFECT)
        payload = {
            "commit_id": pull.head_sha,
            "event": event,  # without it the review stays pending, which nobody but us would see
            "body": body,
            "comments": [_inline(comment) for comment in comments],
        }
        row = self._client.write(f"/repos/{pull.repository}/pulls/{pull.number}/reviews", payload, REVIEW)
        return review_of(row)

    def threads(self, pull: Pull) -> list[Thread]:
        """All, with all their comments; raises ForgeError when fewer came than GitHub counts."""
        found: dict[str, Row] = {}
        variables = {**_where(pull), "after": None}
        for _ in range(MAX_PAGES):
            page = self._client.query(THREADS, variables, THREADS_KEPT)
            found |= {row["id"]: row for row in page["rows"]}
            if page["after"] is None:
                break
            variables["after"] = page["after"]
        else:
            raise unreachable(f"the threads of {pull.target} do not end")
        if len(found) < page["total"]:
            raise _short(f"the threads of {pull.target}", len(found), page["total"])
        return [self._thread(pull, row) for row in found.values()]

    def _thread(self, pull: Pull, row: Row) -> Thread:
        comments = {one["id"]: one for one in row["comments"]}
        after, total = row["after"], row["total"]
        for _ in range(MAX_PAGES):
            if after is None:
                break
            page = self._client.query(THREAD, {"id": row["id"], "after": after}, THREAD_KEPT)
            comments |= {one["id"]: one for one in page["comments"]}
            after, total = page["after"], page["total"]
        else:
            raise unreachable(f"a thread of {pull.target} does not end")
        if len(comments) < total:
            raise _short(f"a thread of {pull.target}", len(comments), total)
        told = tuple(thread_comment_of(one) for one in comments.values())
        return Thread(row["id"], row["resolved"], row["path"], told)

    def reply(self, pull: Pull, thread: Thread, body: str) -> ThreadComment:
        """Answer in a thread, once. After a failure that is not permanent it may be there."""
        if not thread.comments:
            raise refused(f"a thread of {pull.target} without a comment cannot be answered", remedy=DEFECT)
        path = f"/repos/{pull.repository}/pulls/{pull.number}/comments/{thread.comments[0].id}/replies"
        return thread_comment_of(self._client.write(path, {"body": body}, REPLY))

    def resolve(self, pull: Pull, thread: Thread) -> None:
        if not self._client.mutate(RESOLVE, {"id": thread.id}, RESOLVED):
            raise unreachable(f"GitHub did not resolve a thread of {pull.target}, and does not say why")

    def minimize(self, pull: Pull, comment: Comment | PostedReview) -> None:
        if not comment.node_id:
            raise refused(f"a comment on {pull.target} has no id for GraphQL, so it cannot be hidden", remedy=DEFECT)
        if not self._client.mutate(MINIMIZE, {"id": comment.node_id}, MINIMIZED):
            raise unreachable(f"GitHub did not hide a comment on {pull.target}, and does not say why")


def _where(pull: Pull) -> dict[str, Any]:
    owner, _, name = pull.repository.partition("/")
    return {"owner": owner, "name": name, "number": pull.number}


def _inline(comment: InlineComment) -> dict[str, Any]:
    told: dict[str, Any] = {"path": comment.path, "line": comment.line, "side": comment.side, "body": comment.body}
    if comment.start_line is not None:
        told |= {"start_line": comment.start_line, "start_side": comment.start_side or comment.side}
    return told


def _short(what: str, came: int, counted: int) -> ForgeError:
    return unreachable(
        f"{what}: the listing came back short, {came} of {counted}",
        remedy="nothing to do: nothing is written while it is unknown what is there; see the next cycle.",
    )
