"""What GitHub lets our token do, told by GitHub itself: nothing here can write, and nothing is guessed.

GitHub asks who writes before it looks at what is written. So a write that it must refuse for what is in it (422) shows
the right to write, and its 403 or 404 shows that there is none: a status on the commit 000…, which no repository can
have; a comment, or a pull request, of nothing at all.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from appliance.core.doctor_forge import Branch, Budget, Protection, Required, TokenFacts
from appliance.forge import ForgeError
from appliance.forge.github_client import GitHubClient
from appliance.forge.github_errors import PERMISSIONS, Answer, error_of, give_app, unreachable
from appliance.forge.github_limits import epoch
from appliance.forge.github_shapes import PULLS
from appliance.git import git
from appliance.git.names import check_url

NO_COMMIT = "0" * 40  # git's own word for "none"
REMOTE_SECONDS = 60.0
SHOWN = 100  # rules of a branch that are read


@dataclass(frozen=True)
class Repository:
    """What of a repository is needed to examine it. `url` is where git finds it."""

    name: str
    url: str
    default_branch: str
    private: bool
    archived: bool


class GitHubRights:
    """One API, one token. Every method raises ForgeError for what could not be asked.

    `authorization` gives git's header for an address, or None; `clock` is in seconds of the epoch.
    """

    def __init__(
        self, client: GitHubClient, authorization: Callable[[str], str | None], clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._authorization = authorization
        self._clock = clock

    def token(self) -> TokenFacts:
        """What GitHub tells beside an answer that costs nothing: its clock, the token's expiry, the hour's budget."""
        before = self._clock()
        answer = self._client.ask("/rate_limit")
        after = self._clock()
        if answer.status not in (200, 404):  # a server without limits has no such address
            raise error_of(answer)
        return TokenFacts(
            asked=before,
            answered=after,
            date=epoch(answer.headers.get("date", "")),
            expires=answer.headers.get("github-authentication-token-expiration", ""),
            scopes=answer.headers.get("x-oauth-scopes"),
            budget=_budget(answer),
        )

    def repository(self, name: str) -> Repository:
        told = self._object(self._client.ask(f"/repos/{name}"))
        url, branch = told.get("clone_url"), told.get("default_branch")
        if not isinstance(url, str) or not isinstance(branch, str):
            raise unreachable(f"GitHub's answer about {name} makes no sense: it has no clone address or branch")
        return Repository(name, url, branch, bool(told.get("private")), bool(told.get("archived")))

    def read_contents(self, repository: Repository) -> None:
        """Ask git for the tip of the repository. Raises GitError too."""
        header = self._authorization(repository.url)
        git(
            ["ls-remote", "--quiet", "--end-of-options", repository.url, "HEAD"],
            authorization=None if header is None else (repository.url, header),
            protocols=(check_url(repository.url),),
            timeout=REMOTE_SECONDS,
        )

    def any_pull(self, name: str) -> int | None:
        """The number of some pull request, open or not; None if there has never been one."""
        answer = self._client.ask(f"/repos/{name}/pulls?state=all&per_page=1")
        if answer.status != 200:
            raise error_of(answer)
        rows = PULLS.keep(_json(answer))
        return int(rows[0]["number"]) if rows else None

    def may_set_statuses(self, name: str, context: str) -> ForgeError | None:
        """None if it may; else why not."""
        payload = {"state": "pending", "context": context, "description": "appliance doctor"}
        return self._refusal(self._client.ask(f"/repos/{name}/statuses/{NO_COMMIT}", payload))

    def may_comment(self, name: str, pull: int | None) -> ForgeError | None:
        """None if it may; else why not. Without a pull request: whether it may write pull requests."""
        path = f"/repos/{name}/pulls" if pull is None else f"/repos/{name}/issues/{pull}/comments"
        return self._refusal(self._client.ask(path, {}))

    def branch(self, name: str, branch: str) -> Branch:
        """What the branch requires, as far as GitHub tells. What it does not tell is None: unknown is not "nothing"."""
        place = f"/repos/{name}"
        quoted = quote(branch, safe="")
        rules = self._client.ask(f"{place}/rules/branches/{quoted}?per_page={SHOWN}")
        shown = self._client.ask(f"{place}/branches/{quoted}")
        told = _ruled(rules)
        protection = _protection(shown)
        if protection is None or (protection.on and not protection.checks):
            asked = _policy(self._client.ask(f"{place}/branches/{quoted}/protection/required_status_checks"))
            protection = asked or (protection if protection is None else Protection(True, None))
        return Branch(branch, told, protection)

    def _refusal(self, answer: Answer) -> ForgeError | None:
        """What the answer to a write that cannot be carried out says about the right to write."""
        if answer.status == 422:
            return None
        if answer.status < 400:
            raise unreachable(
                f"GitHub answered {answer.status} to {answer.method} {answer.url}, which it has to refuse",
                remedy="report this with the name of the server: the doctor must never write.",
            )
        error = error_of(answer)
        if error.cause == "forge-not-found":  # it was there when it was read: so it is the right to write
            remedy = (
                f"give GITHUB_TOKEN these permissions: {PERMISSIONS}; a classic token needs the scope repo."
                if answer.signer == "token"
                else give_app("that is missing")
            )
            return ForgeError("forge-permission", str(error), remedy=remedy, permanent=True)
        if error.permanent:
            return error
        raise error

    def _object(self, answer: Answer) -> Mapping[str, Any]:
        if answer.status != 200:
            raise error_of(answer)
        told = _json(answer)
        if not isinstance(told, dict):
            raise unreachable(f"GitHub's answer to {answer.url} is no object")
        return told


def _json(answer: Answer) -> Any:
    try:
        return json.loads(answer.body)
    except ValueError:
        raise unreachable(f"GitHub's answer to {answer.url} is no JSON, or is cut off") from None


def _budget(answer: Answer) -> Budget | None:
    """The budget of what the appliance asks ("core"); None if it is not told."""
    told = _json(answer) if answer.status == 200 else None
    core = _of(_of(told, "resources"), "core")
    limit, remaining, reset = (_of(core, name) for name in ("limit", "remaining", "reset"))
    if not all(isinstance(number, int) for number in (limit, remaining, reset)):
        return None
    return Budget(limit, remaining, float(reset))


def _ruled(answer: Answer) -> tuple[Required, ...] | None:
    """The checks that the branch's rulesets require; None if it was not told."""
    told = _json(answer) if answer.status == 200 else None
    if not isinstance(told, list) or len(told) >= SHOWN:
        return None
    found: list[Required] = []
    for rule in told:
        if not isinstance(rule, dict):
            return None
        if rule.get("type") != "required_status_checks":
            continue
        checks = _of(rule.get("parameters"), "required_status_checks")
        if not isinstance(checks, list):
            return None
        found += [Required(str(_of(one, "context")), _of(one, "integration_id")) for one in checks]
    return tuple(found)


def _protection(answer: Answer) -> Protection | None:
    """What the branch itself tells of its classic protection; None if it was not told."""
    told = _json(answer) if answer.status == 200 else None
    protection = _of(told, "protection")
    if _of(told, "protected") is False or _of(protection, "enabled") is False:
        return Protection(False, ())
    if _of(protection, "enabled") is not True:
        return None
    return Protection(True, _checks(_of(protection, "required_status_checks")))


def _policy(answer: Answer) -> Protection | None:
    return Protection(True, _checks(_json(answer))) if answer.status == 200 else None


def _checks(told: Any) -> tuple[Required, ...] | None:
    checks, contexts = _of(told, "checks"), _of(told, "contexts")
    if isinstance(checks, list) and checks:
        return tuple(Required(str(_of(one, "context")), _of(one, "app_id")) for one in checks)
    return tuple(Required(str(one)) for one in contexts) if isinstance(contexts, list) else None


def _of(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
