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
from typing import Any, NoReturn

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
EARLY_SECONDS = 3600.0  # longer than a review may last by default
TURN_SECONDS = 60.0


class LoginRefused(Exception):
    """The login is used up; a person has to log in again."""


@dataclass(frozen=True)
class Login:
    """The login below `home`, a directory that only this appliance writes."""

    home: Path
    token_url: str = TOKEN_URL
    clock: Callable[[], float] = time.time

    @property
    def _file(self) -> Path:
        return self.home / "auth.json"

    def exists(self) -> bool:
        return self._tokens() is not None

    def digest(self) -> str:
        """Changes with every new login; tells nothing of it."""
        tokens = self._tokens() or {}
        return hashlib.sha256(str(tokens.get("refresh_token")).encode()).hexdigest()[:16]

    def times(self) -> tuple[float | None, float | None]:
        """When it was last refreshed, and when its access token expires, in seconds of the epoch; None: not told."""
        try:
            whole = self._read()
            told = datetime.fromisoformat(str(whole.get("last_refresh")).replace("Z", "+00:00"))
            refreshed = told.replace(tzinfo=told.tzinfo or UTC).timestamp()
        except (OSError, ValueError):
            refreshed = None
        return refreshed, _expires_at(self._tokens() or {}) or None

    def headers(self) -> dict[str, str]:
        """What the model gate adds to a request; the access token is refreshed first if it expires soon.

        Raises LoginRefused if there is no login or the token endpoint refuses it; an endpoint that cannot be reached
        leaves the old token in use.
        """
        tokens = self._tokens()
        if tokens is None:
            raise LoginRefused("there is no login")
        if _expires_at(tokens) - self.clock() < EARLY_SECONDS:
            tokens = self._refreshed()
        headers = {"authorization": f"Bearer {tokens['access_token']}"}
        if tokens.get("account_id"):
            headers["chatgpt-account-id"] = str(tokens["account_id"])
        return headers

    def _refreshed(self) -> Mapping[str, Any]:
        with held(self.home / ".refresh.lock", timeout=TURN_SECONDS):
            whole = self._read()
            tokens: dict[str, Any] = whole.get("tokens") or {}
            if _expires_at(tokens) - self.clock() >= EARLY_SECONDS:
                return tokens  # another process was first
            try:
                answer = httpx.post(
                    self.token_url,
                    json={
                        "client_id": CLIENT_ID,
                        "grant_type": "refresh_token",
                        "refresh_token": tokens.get("refresh_token"),
                        "scope": "openid profile email",
                    },
                    timeout=20.0,
                )
                fresh = answer.json() if answer.status_code == 200 else {}
            except (httpx.HTTPError, ValueError) as error:
                log.warning("login.unrefreshed", error=type(error).__name__)
                return tokens
            if 400 <= answer.status_code < 500 and answer.status_code not in (408, 429):
                raise LoginRefused(_reason(answer))
            new = {name: fresh[name] for name in TOKENS if fresh.get(name)}
            if "access_token" not in new:
                log.warning("login.unrefreshed", status=answer.status_code)
                return tokens
            redaction.keep_secret(*map(str, new.values()))
            tokens |= new
            self._write(whole | {"tokens": tokens, "last_refresh": _iso(self.clock())})
            log.info("login.refreshed")
            return tokens

    def _tokens(self) -> Mapping[str, Any] | None:
        try:
            tokens = self._read().get("tokens")
        except (OSError, ValueError):
            return None
        if not isinstance(tokens, dict) or not tokens.get("access_token"):
            return None
        redaction.keep_secret(*(str(tokens[name]) for name in TOKENS if tokens.get(name)))
        return tokens

    def _read(self) -> dict[str, Any]:
        found = json.loads(self._file.read_text("utf-8"))
        if not isinstance(found, dict):
            raise ValueError("auth.json is no object")
        return found

    def _write(self, whole: Mapping[str, Any]) -> None:
        """Whole or not at all: a torn file would be a lost login, since the old refresh token is used up."""
        aside = self._file.with_name(".auth.json.new")
        aside.unlink(missing_ok=True)
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(whole, file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._file)


def become_codex_login(home: Path, codex: Path) -> NoReturn:
    """Turn this process into Codex's device-code login, which writes auth.json into `home`. Raises OSError."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    (home / "config.toml").write_text('cli_auth_credentials_store = "file"\n', encoding="utf-8")
    kept = ("PATH", "LANG", "TERM", "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    os.execve(codex, [str(codex), "login", "--device-auth"], env | {"CODEX_HOME": str(home), "HOME": str(home)})


def _expires_at(tokens: Mapping[str, Any]) -> float:
    """When the access token expires, in seconds of the epoch; 0 if it does not say."""
    try:
        payload = str(tokens["access_token"]).split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (KeyError, IndexError, ValueError, TypeError, binascii.Error):
        return 0.0


def _reason(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        return f"HTTP {answer.status_code}"
    return str(error.get("message") or error.get("code")) if isinstance(error, dict) else str(error)


def _iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))
