"""A ChatGPT login in the state volume: made by Codex's own device-code login, kept and refreshed here alone.

The refresh token can be used once, and of two that use it one is logged out: so there is one owner, never a copy of
the host's login, and refreshes take turns across processes (CODEX section 6). No token of it enters a jail: the model
gate adds the access token, as it does an API key. Client id and token endpoint are those of Codex 0.163.
"""

import base64
import binascii
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import structlog

from appliance import redaction
from appliance.flock import held

log = structlog.get_logger()

LOGIN_COMMAND = "docker exec -it review-appliance appliance login"
CHATGPT_API = "https://chatgpt.com/backend-api/codex"
TOKEN_URL = "https://auth.openai.com/oauth/token"
CLIENT_ID = "app_EMoamEEZ73f0CkXaXp7hrann"
TOKENS = ("id_token", "access_token", "refresh_token")
EARLY_SECONDS = 300.0
TURN_SECONDS = 60.0
ASK_SECONDS = 20.0
ROOM = 64 * 1024  # bytes; several times what a login takes
USED_UP = {"refresh_token_reused", "refresh_token_expired", "refresh_token_invalidated", "invalid_grant"}


class LoginRefused(Exception):
    """The login is used up; a person has to log in again."""


class LoginUnreachable(Exception):
    """The login may be good, but its token has run out and the token endpoint gives no new one just now."""


@dataclass(frozen=True)
class Login:
    """The login below `home`, a directory that only this appliance writes."""

    home: Path
    token_url: str = TOKEN_URL
    clock: Callable[[], float] = time.time

    @property
    def _file(self) -> Path:
        return self.home / "auth.json"

    @property
    def _aside(self) -> Path:
        return self.home / ".auth.json.new"

    def exists(self) -> bool:
        return self._tokens() is not None

    def digest(self) -> str:
        """Changes with every new login, not with a refresh; tells nothing of it."""
        try:
            whole = self._read()
        except (OSError, ValueError):
            return ""
        return str(_ours(whole).get("login") or _digest(_tokens_of(whole)))

    def times(self) -> tuple[float | None, float | None]:
        """When it was last refreshed, and when its access token expires, in seconds of the epoch; None: not told."""
        try:
            whole = self._read()
            told = datetime.fromisoformat(str(whole.get("last_refresh")).replace("Z", "+00:00"))
            refreshed = told.replace(tzinfo=told.tzinfo or UTC).timestamp()
        except (OSError, ValueError):
            refreshed = None
        return refreshed, _expires_at(self._tokens() or {})

    def headers(self) -> dict[str, str]:
        """What the model gate adds to a request; the access token is refreshed first if it expires soon.

        Raises LoginRefused if there is no login or the token endpoint says that it is used up, LoginUnreachable if
        the token has expired and the endpoint gives no other. Until then the old token stays in use.
        """
        tokens = self._tokens()
        if tokens is None:
            raise LoginRefused("there is no login")
        expires = _expires_at(tokens)
        if expires is not None and expires - self.clock() < EARLY_SECONDS:
            try:
                tokens = self._refreshed(tokens)
            except LoginUnreachable:
                if expires <= self.clock():
                    raise
        return _headers(tokens)

    def renewed(self, refused: Mapping[str, str]) -> dict[str, str]:
        """What to add instead of `refused`, which the API answered with 401. Raises LoginRefused, LoginUnreachable."""
        tokens = self._tokens()
        if tokens is None:
            raise LoginRefused("there is no login")
        if _headers(tokens) == refused:
            tokens = self._refreshed(tokens)
        return _headers(tokens)

    def adopt(self, made: Path) -> None:
        """Take over the auth.json that Codex wrote as `made`, whole or not at all.

        Raises LoginRefused if there is no login in it, OSError.
        """
        try:
            whole = json.loads(made.read_text("utf-8"))
        except (OSError, ValueError):
            whole = None
        if not isinstance(whole, dict) or not _tokens_of(whole).get("access_token"):
            raise LoginRefused("Codex wrote no login")
        with held(self.home / ".refresh.lock", timeout=TURN_SECONDS):
            self._write(whole | {"appliance": {"login": os.urandom(8).hex()}}, self._room())

    # ---- refreshing

    def _refreshed(self, old: Mapping[str, Any]) -> Mapping[str, Any]:
        """Other tokens than `old`: from the endpoint, or from another process that was first."""
        try:
            with held(self.home / ".refresh.lock", timeout=TURN_SECONDS):
                self._recover()
                whole = self._read()
                tokens = _tokens_of(whole)
                if tokens.get("access_token") != old.get("access_token"):
                    return tokens
                if _ours(whole).get("refused"):
                    raise LoginRefused(str(_ours(whole)["refused"]))
                return self._redeemed(whole, tokens)
        except (OSError, ValueError) as error:
            log.warning("login.unrefreshed", error=str(error)[:200])
            raise LoginUnreachable(f"the login could not be refreshed: {error}") from error

    def _redeemed(self, whole: Mapping[str, Any], tokens: Mapping[str, Any]) -> Mapping[str, Any]:
        room = self._room()  # before the refresh token is spent: then a full disk costs no login
        try:
            fresh = self._ask(str(tokens.get("refresh_token")))
        except (LoginRefused, LoginUnreachable) as error:
            os.close(room)
            self._aside.unlink(missing_ok=True)
            if isinstance(error, LoginRefused):  # and it is not asked again, until there is another login
                self._write({**whole, "appliance": {**_ours(whole), "refused": str(error)}}, self._room())
            raise
        tokens = {**tokens, **fresh}
        ours = _ours(whole) | {"replaces": _digest(_tokens_of(whole))}
        self._write({**whole, "tokens": tokens, "last_refresh": _iso(self.clock()), "appliance": ours}, room)
        log.info("login.refreshed")
        return tokens

    def _ask(self, refresh_token: str) -> dict[str, Any]:
        """The new tokens. Raises LoginRefused, LoginUnreachable."""
        asked = {
            "client_id": CLIENT_ID,
            "grant_type": "refresh_token",
            "refresh_token": refresh_token,
            "scope": "openid profile email",
        }
        try:
            answer = httpx.post(self.token_url, json=asked, timeout=ASK_SECONDS)
            told = answer.json()
        except httpx.HTTPError as error:
            log.warning("login.unrefreshed", error=type(error).__name__)
            raise LoginUnreachable(f"the token endpoint cannot be reached: {type(error).__name__}") from error
        except ValueError:
            told = None
        told = told if isinstance(told, dict) else {}
        fresh = {name: told[name] for name in TOKENS if told.get(name)}
        redaction.keep_secret(*map(str, fresh.values()), passing=True)
        if answer.status_code == 200 and "access_token" in fresh:
            return fresh
        code, said = _error(told)
        refused = 400 <= answer.status_code < 500 and code in USED_UP
        if refused or answer.status_code in (400, 401):
            raise LoginRefused(redaction.redacted(said or f"HTTP {answer.status_code}"))
        log.warning("login.unrefreshed", status=answer.status_code, code=code)
        raise LoginUnreachable(f"the token endpoint answered HTTP {answer.status_code}")

    # ---- the file

    def _tokens(self) -> Mapping[str, Any] | None:
        try:
            tokens = _tokens_of(self._read())
        except (OSError, ValueError):
            return None
        if not tokens.get("access_token"):
            return None
        told = (str(tokens[name]) for name in (*TOKENS, "account_id") if tokens.get(name))
        redaction.keep_secret(*told, passing=True)
        return tokens

    def _read(self) -> dict[str, Any]:
        found = json.loads(self._file.read_text("utf-8"))
        if not isinstance(found, dict):
            raise ValueError("auth.json is no object")
        return found

    def _room(self) -> int:
        """A file aside, with room for a login on the disk. Raises OSError."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._aside.unlink(missing_ok=True)
        room = os.open(self._aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(room, 0, ROOM)
        except OSError:
            os.close(room)
            self._aside.unlink(missing_ok=True)
            raise
        return room

    def _write(self, whole: Mapping[str, Any], room: int) -> None:
        """Whole or not at all: a torn file would be a lost login, since the old refresh token is used up."""
        with os.fdopen(room, "w", encoding="utf-8") as file:
            json.dump(whole, file)
            file.flush()
            file.truncate()
            os.fsync(file.fileno())
        self._aside.replace(self._file)
        self._settle()

    def _settle(self) -> None:
        """The rename is on the disk too."""
        folder = os.open(self.home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _recover(self) -> None:
        """Take over what a process wrote that died before the rename: its refresh token is the one that is good."""
        try:
            aside = json.loads(self._aside.read_text("utf-8"))
        except (OSError, ValueError):
            return
        if not isinstance(aside, dict) or not _tokens_of(aside).get("access_token"):
            return
        if _ours(aside).get("replaces") == _digest(_tokens_of(self._read())):
            self._aside.replace(self._file)
            self._settle()
            log.warning("login.recovered")


def _headers(tokens: Mapping[str, Any]) -> dict[str, str]:
    headers = {"authorization": f"Bearer {tokens['access_token']}"}
    if tokens.get("account_id"):
        headers["chatgpt-account-id"] = str(tokens["account_id"])
    return headers


def _tokens_of(whole: Mapping[str, Any]) -> Mapping[str, Any]:
    tokens = whole.get("tokens")
    return tokens if isinstance(tokens, dict) else {}


def _ours(whole: Mapping[str, Any]) -> dict[str, Any]:
    """What this appliance notes in the file beside what Codex wrote."""
    ours = whole.get("appliance")
    return ours if isinstance(ours, dict) else {}


def _digest(tokens: Mapping[str, Any]) -> str:
    return hashlib.sha256(str(tokens.get("refresh_token")).encode()).hexdigest()[:16]


def _expires_at(tokens: Mapping[str, Any]) -> float | None:
    """When the access token expires, in seconds of the epoch; None if it does not say."""
    try:
        payload = str(tokens["access_token"]).split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (KeyError, IndexError, ValueError, TypeError, binascii.Error):
        return None


def _error(told: Mapping[str, Any]) -> tuple[str, str]:
    """Code and words of a refusal, in either of the forms of OpenAI's and OAuth's (RFC 6749, 5.2)."""
    error = told.get("error")
    if isinstance(error, dict):
        return str(error.get("code") or ""), str(error.get("message") or error.get("code") or "")[:300]
    return str(error or ""), str(told.get("error_description") or error or "")[:300]


def _iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
