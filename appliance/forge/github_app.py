"""A GitHub App: who it is, where it is installed, and the tokens of its installations."""

import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from appliance import redaction
from appliance.forge import ForgeError
from appliance.forge.github_client import GitHubClient
from appliance.forge.github_login import InstallationLogin, ServerTime, moment
from appliance.forge.github_shapes import Misshapen, Row, Shape, _list, _number, _object, _text


@dataclass(frozen=True)
class Installation:
    """Where an account has installed the App. `permissions` as GitHub spells them; `page` is where they are accepted
    and repositories chosen."""

    id: int
    owner: str
    suspended: bool
    permissions: tuple[tuple[str, str], ...]
    page: str


class GitHubApp:
    """Thread-safe; every method raises ForgeError. `client` signs in as the App itself."""

    def __init__(self, client: GitHubClient, app_id: int, now: ServerTime) -> None:
        self.id = app_id
        self._client = client
        self._now = now
        self._lock = threading.Lock()
        self._told: Row | None = None
        self._numbers: dict[str, int] = {}  # of installations, by owner

    def close(self) -> None:
        self._client.close()

    def slug(self) -> str:
        return str(self._app()["slug"])

    def login(self, owner: str, repository: str = "") -> InstallationLogin:
        """That of the installation for this owner, of whom one repository may be known; nothing is asked yet."""
        name = f"App {self.id} for {owner.casefold()}"
        return InstallationLogin(name, lambda: self._token(owner, repository), self._now)

    def installations(self) -> list[Installation]:
        return [_installation(row) for row in self._client.pages("/app/installations?per_page=100", INSTALLATIONS)]

    def installation(self, owner: str, repository: str = "") -> Installation:
        """Raises ForgeError (forge-login) if there is none, or if it is suspended: nothing is given up for that."""
        found = next((one for one in self.installations() if one.owner.casefold() == owner.casefold()), None)
        found = found or (self._renamed(repository) if repository else None)
        if found is None:
            raise self._not_installed(owner)
        if found.suspended:
            raise suspended(self.slug(), owner, found.page)
        return found

    def _token(self, owner: str, repository: str) -> tuple[str, float]:
        """A new token of the installation for this owner, and its end."""
        key = owner.casefold()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self.installation(owner, repository).id
        try:
            told = self._client.write(f"/app/installations/{number}/access_tokens", {}, ACCESS)
        except ForgeError as error:
            if not error.permanent:
                raise
            del self._numbers[key]
            self.installation(owner, repository)  # says better what is wrong, if it was taken away or suspended
            raise
        redaction.keep_secret(told["token"], passing=True)
        return told["token"], told["ends"]

    def _renamed(self, repository: str) -> Installation | None:
        """An owner who was renamed is found by what the old name leads to."""
        answer = self._client.ask(f"/repos/{quote(repository)}/installation")
        if answer.status == 404:
            return None
        return _installation(self._client.kept(answer, INSTALLATION))

    def _not_installed(self, owner: str) -> ForgeError:
        told = self._app()
        return ForgeError(
            "forge-login",
            f"The GitHub App {told['slug']} is not installed for {owner}",
            remedy=f"install it for {owner}, with the repositories that are to be reviewed, at "
            f"{told['page']}/installations/new, or take {owner}'s out of APPLIANCE_REPOSITORIES.",
            permanent=True,
        )

    def _app(self) -> Row:
        with self._lock:
            if self._told is None:
                self._told = self._client.read("/app", APP)
            return self._told


def suspended(slug: str, owner: str, page: str) -> ForgeError:
    return ForgeError(
        "forge-login",
        f"The GitHub App {slug} is suspended for {owner}",
        remedy=f"an owner of {owner} ends that at {page} (Unsuspend); nothing is lost until then.",
        permanent=True,
    )


def _installation(row: Row) -> Installation:
    return Installation(row["id"], row["owner"], row["suspended"], tuple(map(tuple, row["permissions"])), row["page"])


def keep_app(value: Any) -> Row:
    entry = _object(value, "App")
    return {
        "id": _number(entry, "id", "App"),
        "slug": _text(entry, "slug", "App"),
        "page": _page(entry, "App"),
    }


def keep_installation(value: Any) -> Row:
    where = "installation"
    entry = _object(value, where)
    granted = _object(entry.get("permissions"), f"{where}.permissions")
    account = entry.get("account")  # GitHub may name none
    return {
        "id": _number(entry, "id", where),
        "owner": "" if account is None else _owner(_object(account, f"{where}.account"), f"{where}.account"),
        "suspended": entry.get("suspended_at") is not None,
        "permissions": [[str(name), str(level)] for name, level in sorted(granted.items())],
        "page": _page(entry, where),
    }


def _owner(account: Row, where: str) -> str:
    return _text(account, "login" if "login" in account else "slug", where)


def keep_access(value: Any) -> Row:
    entry = _object(value, "access token")
    token = _text(entry, "token", "access token")
    if not token or not all("!" <= char <= "~" for char in token):
        raise Misshapen("the access token is none")
    try:
        return {"token": token, "ends": moment(_text(entry, "expires_at", "access token"))}
    except ValueError:
        raise Misshapen("access token.expires_at is no moment") from None


def _page(entry: Row, where: str) -> str:
    """An address that people are sent to: a web page, or nothing."""
    page = _text(entry, "html_url", where, "")
    try:
        return page if httpx.URL(page).scheme in ("https", "http") else ""
    except httpx.InvalidURL:
        return ""


APP = Shape("app-1", keep_app)
INSTALLATION = Shape("installation-1", keep_installation)
INSTALLATIONS = Shape(
    "installations-1", lambda value: [keep_installation(one) for one in _list(value, "installations")]
)
ACCESS = Shape("access-1", keep_access)
