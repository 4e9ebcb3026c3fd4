"""GitHub as a forge."""

import base64
import re
import threading
import time
from collections.abc import Callable, Sequence
from urllib.parse import quote

import httpx

from appliance import redaction
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.forge import (
    Cached,
    Checks,
    Comment,
    ForgeError,
    InlineComment,
    PostedReview,
    Reaction,
    Report,
    ReviewEvent,
    Source,
    Thread,
    ThreadComment,
)
from appliance.forge.github_checks import GitHubChecks
from appliance.forge.github_client import Etags, GitHubClient
from appliance.forge.github_errors import refused, unreachable
from appliance.forge.github_heads import GitHubHeads
from appliance.forge.github_limits import PROCESS_PACE, Pause, WritePace
from appliance.forge.github_login import Login
from appliance.forge.github_reviews import DEFECT, GitHubReviews, Steady
from appliance.forge.github_rights import GitHubRights
from appliance.forge.github_shapes import (
    COMBINED,
    COMMENT,
    COMMENTS,
    INSTALLED,
    PART,
    PULL,
    PULLS,
    REPOSITORIES,
    STATUSES,
    WRITTEN,
    Row,
    comment_of,
    gate_of,
    pull_of,
)

__all__ = ["Cached", "Etags", "GitHubForge", "parse_target"]

MAX_COMMENT = 65_536  # characters; GitHub answers 422 above
MAX_DESCRIPTION = 140
_PATTERN = re.compile(rf"({PART})/({PART}|\*)")
_TARGET = re.compile(rf"({PART}/{PART})#([1-9][0-9]{{0,17}})")
# A part that is empty, "." or "..", which a browser resolves to somewhere else; the same percent-encoded, for servers
# that decode once more; control characters.
_NOT_PLAIN = re.compile(r"(?:^|[/\\])\.{0,2}(?=[/\\]|\Z)|%(?:2[5ef]|5c|[01][0-9a-f]|7f)|[\x00-\x1f\x7f]", re.IGNORECASE)
_PULL_URL = re.compile(rf"https?://[^/\s?#]+/({PART}/{PART})/pull/([1-9][0-9]{{0,17}})(?:[/?#]\S*)?")


def parse_target(text: str) -> tuple[str, int] | None:
    """`owner/name#12` or the address of a pull request's page, as repository and number; None for anything else."""
    text = text.strip()
    match = _TARGET.fullmatch(text) or _PULL_URL.fullmatch(text)
    return (match.group(1), int(match.group(2))) if match else None


def gate_place(context: str, app_id: int | None) -> str:
    return f"statuses {context}" if app_id is None else f"check runs of App {app_id}: {context}"


def check_patterns(repositories: Sequence[str]) -> None:
    wrong = [pattern for pattern in repositories if not _PATTERN.fullmatch(pattern)]
    if wrong:
        raise ValueError(f"not owner/name or owner/*: {', '.join(wrong)}")


def _check_length(body: str) -> None:
    if len(body) > MAX_COMMENT:
        raise refused(f"a comment of {len(body)} characters is above GitHub's {MAX_COMMENT}", remedy=DEFECT)


def _url(text: str) -> httpx.URL:
    """The address, or an empty one for what is none."""
    try:
        return httpx.URL(text)
    except httpx.InvalidURL:
        return httpx.URL("")


class GitHubForge:
    """GitHub or a GitHub Enterprise Server. Thread-safe; every method raises ForgeError.

    `repositories` holds `owner/name` and `owner/*` (ValueError for anything else); `context` is that of our commit
    status; `target_url` is where its link leads, if anywhere. With `app_id`, the token is one of an installation of
    that GitHub App, and the gate is a check run.
    """

    name = "github"
    inline = True

    def __init__(
        self,
        *,
        api_url: str,
        token: str = "",
        login: Login | None = None,
        repositories: Sequence[str],
        context: str,
        etags: Etags,
        api_version: str = "2022-11-28",
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] | None = None,
        pace: WritePace = PROCESS_PACE,
        pause: Pause | None = None,
        target_url: str | None = None,
        app_id: int | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        check_patterns(repositories)
        self._client = GitHubClient(
            api_url=api_url,
            token=token,
            login=login,
            etags=etags,
            api_version=api_version,
            stop=stop,
            clock=clock,
            sleep=sleep,
            pace=pace,
            pause=pause,
            transport=transport,
        )
        self._patterns = tuple(dict.fromkeys(repositories))
        self._context = context
        self._target_url = target_url
        self._clock = clock
        self._steady = Steady(clock)
        self._reviews = GitHubReviews(self._client, self._steady)
        self._heads = GitHubHeads(self._client, context)
        self.gate_place = gate_place(context, app_id)
        self._checks = None if app_id is None else GitHubChecks(self._client, context, app_id, target_url)
        self._pages: dict[str, str] = {}  # a repository's page in the browser, as the API names it

    def __repr__(self) -> str:
        return f"GitHubForge({self._client.api_url}, {', '.join(self._patterns)})"

    def close(self) -> None:
        self._client.close()

    def rights(self) -> GitHubRights:
        """What GitHub says of our token, for `appliance doctor`."""
        return GitHubRights(self._client, self._authorization, self._clock)

    def repositories(self) -> list[str]:
        """The watched repositories, `owner/*` expanded to all the token sees that are neither archived nor disabled."""
        names: dict[str, str] = {}
        for pattern in self._patterns:
            for found in self.expanded(pattern):
                names.setdefault(found.casefold(), found)
        return list(names.values())

    def expanded(self, pattern: str) -> list[str]:
        owner, name = pattern.split("/")
        return self._owned(owner) if name == "*" else [pattern]

    def pulls(self, repository: str) -> list[Pull]:
        """Every open pull request, drafts too, by number."""
        rows = self._client.pages(f"/repos/{repository}/pulls?state=open&per_page=100", PULLS)
        found = {row["number"]: row for row in rows}  # one that moved to the next page meanwhile comes twice
        return [self._pull(repository, found[number]) for number in sorted(found)]

    def pull(self, repository: str, number: int) -> Pull:
        """One pull request as it is now, closed ones too."""
        return self._pull(repository, self._client.read(f"/repos/{repository}/pulls/{number}", PULL))

    def comments(self, pull: Pull) -> list[Comment]:
        """All comments, oldest first. Raises ForgeError when there are fewer than the pull request counts.

        The count is asked first, so that a comment that comes in between is no alarm; it is asked once more before
        the alarm, for one that was deleted in between. The alarm ends when count and listing have not moved for
        STEADY seconds: then GitHub counts comments that it shows to nobody, and no later answer will say more.
        """
        path = f"/repos/{pull.repository}/pulls/{pull.number}"
        counted = self._client.read(path, PULL)["comments"]
        listing = f"/repos/{pull.repository}/issues/{pull.number}/comments?per_page=100"
        rows = {row["id"]: row for row in self._client.pages(listing, COMMENTS)}
        if counted is not None and len(rows) < counted:
            counted = self._client.read(path, PULL)["comments"]
            if (
                counted is not None
                and len(rows) < counted
                and not self._steady.ends(pull.target, counted, frozenset(rows))
            ):
                raise unreachable(
                    f"the comments of {pull.target}: the listing came back short, {len(rows)} of {counted}",
                    remedy="nothing to do: nothing is reviewed while it is unknown what is there; see the next cycle.",
                )
        return [comment_of(row) for row in rows.values()]

    def comment(self, pull: Pull, comment_id: str) -> Comment | None:
        """One comment, or None if GitHub says it is gone while the pull request is still to be seen."""
        try:
            return comment_of(
                self._client.read(f"/repos/{pull.repository}/issues/comments/{quote(comment_id, safe='')}", COMMENT)
            )
        except ForgeError as error:
            if error.cause != "forge-not-found":
                raise
        self.pull(pull.repository, pull.number)  # a 404 also means "no access": then this raises
        return None

    def post_comment(self, pull: Pull, body: str) -> Comment:
        """Write a comment, once. After a failure that is not permanent it may be there: look for the marker."""
        _check_length(body)
        path = f"/repos/{pull.repository}/issues/{pull.number}/comments"
        return comment_of(self._client.write(path, {"body": body}, COMMENT))

    def edit_comment(self, pull: Pull, comment_id: str, body: str) -> Comment:
        """Give a comment another body. After a failure that is not permanent it may have it."""
        _check_length(body)
        path = f"/repos/{pull.repository}/issues/comments/{quote(comment_id, safe='')}"
        return comment_of(self._client.write(path, {"body": body}, COMMENT, method="PATCH"))

    def minimize(self, pull: Pull, comment: Comment | PostedReview) -> None:
        self._reviews.minimize(pull, comment)

    def reviews(self, pull: Pull) -> list[PostedReview]:
        return self._reviews.reviews(pull)

    def post_review(
        self, pull: Pull, event: ReviewEvent, body: str, comments: Sequence[InlineComment] = ()
    ) -> PostedReview:
        return self._reviews.post(pull, event, body, comments)

    def threads(self, pull: Pull) -> list[Thread]:
        return self._reviews.threads(pull)

    def reply(self, pull: Pull, thread: Thread, body: str) -> ThreadComment:
        return self._reviews.reply(pull, thread, body)

    def resolve(self, pull: Pull, thread: Thread) -> None:
        self._reviews.resolve(pull, thread)

    def may_write(self, pull: Pull, user: str) -> bool:
        return self._heads.may_write(pull, user)

    def me(self) -> str:
        return self._heads.me()

    def react(self, pull: Pull, comment_id: str, content: Reaction) -> None:
        self._heads.react(pull, comment_id, content)

    def checks(self, pull: Pull) -> Checks:
        return self._heads.checks(pull)

    def base_tip(self, pull: Pull) -> str:
        return self._heads.base_tip(pull)

    @property
    def check_runs(self) -> bool:
        return self._checks is not None

    def gate(self, pull: Pull) -> Gate | None:
        """The newest status, or check run, of our context on the head SHA, or None if there is none.

        Before it says "none" it asks for the combined status too: an empty list may be a degraded answer.
        """
        if self._checks is not None:
            return self._checks.gate(pull)
        commit = f"/repos/{pull.repository}/commits/{pull.head_sha}"
        gate = gate_of(self._client.pages(f"{commit}/statuses?per_page=100", STATUSES), self._context)
        if gate is not None:
            return gate
        try:
            combined = self._client.pages(f"{commit}/status?per_page=100", COMBINED)
        except ForgeError as error:
            if error.cause != "forge-not-found":
                raise
            return None  # a server without it: the list itself was answered
        if gate_of(combined, self._context) is not None:
            raise unreachable(f"the statuses of {pull.target}: the listing came back short")
        return None

    def set_gate(self, pull: Pull, gate: Gate, report: Report | None = None) -> None:
        """Write our status, or check run, on the head SHA, once. The base repository is the one that counts."""
        if self._checks is not None:
            self._checks.set_gate(pull, gate, report)
            return
        payload = {
            "state": gate.state,
            "context": self._context,
            "description": gate.description[:MAX_DESCRIPTION],
            **({"target_url": self._target_url} if self._target_url else {}),
        }
        self._client.write(f"/repos/{pull.repository}/statuses/{pull.head_sha}", payload, WRITTEN)

    def source(self, pull: Pull) -> Source:
        """Where git finds it: refs/pull/N/head in the base repository, for the head's may be gone."""
        if _url(pull.clone_url).scheme not in ("https", "http", "git"):
            raise unreachable(
                f"{pull.target} has a clone address of no known kind: {redaction.redacted(pull.clone_url)}"
            )
        return Source(
            url=pull.clone_url,
            head_ref=f"refs/pull/{pull.number}/head",
            base_ref=f"refs/heads/{pull.base_ref}",
            authorization=self._authorization(pull.clone_url),
        )

    def permalink(self, pull: Pull, path: str, line_start: int, line_end: int) -> str | None:
        """The lines at the head SHA in the browser; None while the repository's page is not known.

        None, too, for a path that leads or might lead out of the repository: it is the model's.
        """
        if _NOT_PLAIN.search(path):
            return None
        page = self._pages.get(pull.repository.casefold())
        if page is None:
            page, pull_part, _ = pull.url.rpartition(f"/pull/{pull.number}")
            if not pull_part:
                return None
        lines = f"#L{line_start}" if line_start > 0 else ""
        if lines and line_end > line_start:
            lines += f"-L{line_end}"
        # A path may hold bytes that are no UTF-8: git gives them as surrogates, the browser wants the bytes.
        return f"{page}/blob/{pull.head_sha}/{quote(path, errors='surrogateescape')}{lines}"

    def _pull(self, repository: str, row: Row) -> Pull:
        if row["repository_url"]:
            self._pages[repository.casefold()] = row["repository_url"].rstrip("/")
        return pull_of(repository, row)

    def _authorization(self, clone_url: str) -> str | None:
        """The token, as git's Basic authentication wants it, if the address is the API's own host."""
        api, clone = self._client.api_url, _url(clone_url)
        hosts = {api.host}
        if api.host == "api.github.com" or api.host.endswith(".ghe.com"):
            hosts.add(api.host.removeprefix("api."))
        if clone.host not in hosts or clone.userinfo or clone.scheme not in ("https", api.scheme):
            return None
        secret = self._client.login.secret()
        return "Basic " + base64.b64encode(f"x-access-token:{secret}".encode()).decode() if secret else None

    def _owned(self, owner: str) -> list[str]:
        """All live repositories of an owner that the token sees, private ones too, sorted.

        No single address has them all: an App's installation has its own; an organisation lists what its members see;
        a user's list holds only public ones, so the token's own list comes to it.
        """
        listings = (
            [[("/installation/repositories?per_page=100", INSTALLED)]]
            if self._client.login.signer == "installation" or self._client.login.secret().startswith("ghs_")
            else [
                [
                    (f"/orgs/{owner}/repos?per_page=100", REPOSITORIES),
                    (f"/users/{owner}/repos?per_page=100", REPOSITORIES),
                ],
                [
                    ("/user/repos?affiliation=owner,collaborator,organization_member&per_page=100", REPOSITORIES),
                    ("/installation/repositories?per_page=100", INSTALLED),
                ],
            ]
        )
        rows: list[Row] = []
        failures: list[ForgeError] = []
        for alternatives in listings:
            for path, shape in alternatives:
                try:
                    rows += self._client.pages(path, shape)
                except ForgeError as error:
                    if error.cause not in ("forge-not-found", "forge-permission"):
                        raise
                    failures.append(error)
                else:
                    break
        if len(failures) == sum(map(len, listings)):
            raise failures[0]
        prefix = f"{owner.casefold()}/"
        names = {row["name"] for row in rows if row["live"] and row["name"].casefold().startswith(prefix)}
        return sorted(names, key=str.casefold)
