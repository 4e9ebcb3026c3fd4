"""From an answer of GitHub to a typed error with the next step."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from appliance.forge import ForgeError
from appliance.redaction import redacted

TOKEN_REMEDY = (
    "make a new token in GitHub under Settings, Developer settings, Personal access tokens, put it into GITHUB_TOKEN "
    "and restart the appliance."
)
APP_KEY_REMEDY = (
    "see the page of your App in GitHub (Settings, Developer settings, GitHub Apps): its App ID goes into "
    "APPLIANCE_GITHUB_APP_ID, a new private key that you generate there into APPLIANCE_GITHUB_APP_KEY; then restart "
    "the appliance."
)
APP_LOGIN_REMEDY = (
    "see that the App is still installed, and not suspended, on its installation's page (Settings, Applications, "
    "Installed GitHub Apps); the appliance tries again by itself."
)
REACH_REMEDY = "check the network, APPLIANCE_GITHUB_URL and https://www.githubstatus.com; the appliance tries again."
LIMIT_REMEDY = "nothing to do: the appliance waits and goes on by itself; a longer APPLIANCE_INTERVAL asks less often."
PERMISSIONS = "Metadata read, Contents read, Pull requests read and write, Commit statuses read and write"
APP_PERMISSIONS = (
    "Metadata read, Contents read, Pull requests read and write, Issues read and write, Checks read and write, "
    "Commit statuses read"
)

Signer = Literal["token", "app", "installation"]

_MESSAGE_LENGTH = 400
_PULL = re.compile(r"/pulls/[0-9]+\Z")
# Sentences of GitHub's 403 that no other token would change.
_REFUSALS = ("locked", "archived", "read-only", "blocked", "disabled")


@dataclass(frozen=True)
class Answer:
    """One HTTP answer: `headers` by lower-case name, `url` the one that was asked, `signer` as whom we asked."""

    method: str
    url: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    signer: Signer = "token"


def message_of(body: bytes) -> str:
    """What GitHub says in an error: `message` and the messages of `errors`, or the beginning of the text."""
    try:
        told = json.loads(body)
    except ValueError:
        return " ".join(body[:_MESSAGE_LENGTH].decode("utf-8", "replace").split())
    if not isinstance(told, dict):
        return ""
    parts = [str(told.get("message") or "")]
    errors = told.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict):
            parts.append(str(error.get("message") or " ".join(str(error.get(k, "")) for k in ("field", "code"))))
        else:
            parts.append(str(error))
    return "; ".join(part.strip() for part in parts if part.strip())[:_MESSAGE_LENGTH]


def give_app(permission: str) -> str:
    """The next step when an installation lacks a permission."""
    return (
        f"give the App the permission {permission} (its page, Permissions & events), and let an owner accept it where "
        f"it is installed; in all it needs {APP_PERMISSIONS}."
    )


def unreachable(message: str, *, remedy: str = REACH_REMEDY, retry_at: float | None = None) -> ForgeError:
    """The forge could not be asked, or what it answered cannot be trusted: unknown is not none."""
    return ForgeError("forge-unreachable", message, remedy=remedy, permanent=False, retry_at=retry_at)


def rate_limited(message: str, retry_at: float) -> ForgeError:
    return ForgeError("forge-rate-limited", message, remedy=LIMIT_REMEDY, permanent=False, retry_at=retry_at)


def refused(message: str, *, remedy: str) -> ForgeError:
    return ForgeError("forge-refused", message, remedy=remedy, permanent=True)


def error_of(answer: Answer) -> ForgeError:
    """The typed error of an answer that is neither a success nor a rate limit, without secrets in what GitHub says."""
    said = redacted(message_of(answer.body))
    message = f"GitHub answered {answer.status} to {answer.method} {answer.url}" + (f": {said}" if said else "")
    if answer.signer == "app" and answer.status in (401, 403, 404, 410):  # 404: the App was deleted
        return ForgeError(
            "forge-login", f"GitHub does not accept the App: {message}", remedy=APP_KEY_REMEDY, permanent=True
        )
    if answer.status == 401:
        remedy = f"GITHUB_TOKEN is not valid: {TOKEN_REMEDY}" if answer.signer == "token" else APP_LOGIN_REMEDY
        return ForgeError("forge-login", message, remedy=remedy, permanent=True)
    if answer.status == 403 and answer.signer == "installation" and "suspended" in said.casefold():
        return ForgeError("forge-login", message, remedy=APP_LOGIN_REMEDY, permanent=True)
    if answer.status == 403:
        return _forbidden(answer, said, message)
    if answer.status in (404, 410):
        access = (
            "GITHUB_TOKEN may see it"
            if answer.signer == "token"
            else "the App is installed for it (the installation's page, Repository access)"
        )
        return ForgeError(
            "forge-not-found",
            message,
            remedy=("check the number, " if _PULL.search(answer.url) else "check ")
            + f"the name in APPLIANCE_REPOSITORIES and that {access}: GitHub answers 404 for "
            "a private repository without access.",
            permanent=True,
        )
    if answer.status == 408 or answer.status >= 500:
        return unreachable(message)
    if 400 <= answer.status < 500:
        return refused(message, remedy="GitHub's own words say what it refuses; asking again will not help.")
    return unreachable(message)


def _forbidden(answer: Answer, said: str, message: str) -> ForgeError:
    needed = answer.headers.get("x-accepted-github-permissions", "").strip()
    if not needed and any(word in said.casefold() for word in _REFUSALS):
        return refused(
            message, remedy="the repository or the conversation takes no writes: unlock it, or leave it out."
        )
    if answer.signer == "installation":
        given = needed or "that is missing"
        message = f"{message} (needs the permission {needed})" if needed else message
        remedy = give_app(given)
    elif "x-github-sso" in answer.headers:  # its value is a link with a secret: never shown
        remedy = "authorise GITHUB_TOKEN for the organisation's single sign-on, in the list of your tokens."
    elif needed:
        remedy = f"give GITHUB_TOKEN the permission {needed}; in all it needs {PERMISSIONS}."
        message = f"{message} (needs the permission {needed})"
    else:
        remedy = (
            f"give GITHUB_TOKEN these permissions: {PERMISSIONS}. A fine-grained token must also be approved by the "
            "organisation before it may write."
        )
    return ForgeError("forge-permission", message, remedy=remedy, permanent=True)
