"""How a client signs in to GitHub: with a token, as a GitHub App, or as one of the App's installations."""

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from appliance import redaction
from appliance.forge import ForgeError
from appliance.forge.github_errors import TOKEN_REMEDY, Answer, Signer
from appliance.forge.github_limits import epoch

BACK = 60.0  # seconds that a claim is dated back: GitHub's advice, for clocks that differ
CLAIM_SECONDS = 480.0  # of a claim from now; GitHub takes at most 600
CLAIM_KEPT = 240.0  # seconds for which one claim is used again
MOVED = 5.0  # seconds by which a clock must have been wrong for a refused claim to be made anew
REFRESH_BEFORE = 300.0  # seconds before the end of an installation's token, which lives for an hour
YOUNG = 60.0  # seconds; a token that is refused so soon is not replaced by another: it is not its age


class Login(Protocol):
    """Thread-safe. `signer` is what it signs in as; `name` is what answers are kept under, and outlives a token."""

    signer: Signer
    name: str

    def secret(self) -> str:
        """What goes into the Authorization header; empty for nobody. Raises ForgeError."""
        ...

    def heard(self, answer: Answer) -> None:
        """Every answer comes by here."""
        ...

    def renew(self, refused: str) -> bool:
        """After a 401 for `refused`: whether there is another now. Raises ForgeError."""
        ...


class TokenLogin:
    """One token, which nobody can renew but a person."""

    signer: Signer = "token"

    def __init__(self, token: str) -> None:
        token = token.strip()
        if not token.isascii() or not token.isprintable() or " " in token:
            remedy = f"GITHUB_TOKEN holds characters that no token has: {TOKEN_REMEDY}"
            raise ForgeError("forge-login", "GITHUB_TOKEN is not a token", remedy=remedy, permanent=True)
        redaction.keep_secret(token)
        self.name = self._token = token

    def secret(self) -> str:
        return self._token

    def heard(self, answer: Answer) -> None:
        pass

    def renew(self, refused: str) -> bool:
        return False


class ServerTime:
    """GitHub's clock, as its answers tell it; ours until the first of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ahead = 0.0

    def __call__(self) -> float:
        return self._clock() + self._ahead

    def heard(self, answer: Answer) -> None:
        told = epoch(answer.headers.get("date", ""))
        if told is not None:
            self._ahead = told - self._clock()


class AppLogin:
    """The App itself, which signs a claim with its private key (RS256). `key` is a PEM."""

    signer: Signer = "app"

    def __init__(self, app_id: int, key: str, now: ServerTime) -> None:
        redaction.keep_key(key)
        self.name = f"App {app_id}"
        self._issuer = str(app_id)
        self._key = key
        self._now = now
        self._lock = threading.Lock()
        self._claim, self._made_at = "", 0.0

    def __repr__(self) -> str:
        return f"AppLogin({self.name})"

    def secret(self) -> str:
        with self._lock:
            now = self._now()
            if not self._claim or not self._made_at <= now < self._made_at + CLAIM_KEPT:
                self._claim, self._made_at = self._signed(now), now
            return self._claim

    def heard(self, answer: Answer) -> None:
        self._now.heard(answer)

    def renew(self, refused: str) -> bool:
        """Another claim helps if the one that was refused was made by a clock that was wrong."""
        with self._lock:
            if refused != self._claim:
                return True
            if abs(self._now() - self._made_at) < MOVED:
                return False
            self._claim = ""
            return True

    def _signed(self, now: float) -> str:
        import jwt  # late: cryptography costs 30 ms and 8 MB, which nobody with a token should pay

        claims = {"iat": int(now - BACK), "exp": int(now + CLAIM_SECONDS), "iss": self._issuer}
        claim = jwt.encode(claims, self._key, algorithm="RS256")
        redaction.keep_secret(claim, passing=True)
        return claim


Make = Callable[[], tuple[str, float]]


class InstallationLogin:
    """The App where one account has installed it. `make` asks for a token and returns it with its end, in seconds of
    the epoch by GitHub's clock; one thread at a time asks."""

    signer: Signer = "installation"

    def __init__(self, name: str, make: Make, now: ServerTime) -> None:
        self.name = name
        self._make = make
        self._now = now
        self._lock = threading.Lock()
        self._token, self._ends, self._made_at = "", 0.0, 0.0

    def __repr__(self) -> str:
        return f"InstallationLogin({self.name})"

    def secret(self) -> str:
        with self._lock:
            left = self._ends - self._now()
            if not self._token or left <= REFRESH_BEFORE:
                try:
                    self._renew()
                except ForgeError as error:
                    if error.permanent or not self._token or left <= 0:
                        raise
            return self._token

    def held(self) -> str:
        """The token that there is, if any."""
        return self._token

    def heard(self, answer: Answer) -> None:
        self._now.heard(answer)

    def renew(self, refused: str) -> bool:
        with self._lock:
            if refused == self._token:
                if abs(self._now() - self._made_at) < YOUNG:
                    return False
                self._renew()
            return True

    def _renew(self) -> None:
        self._token, self._ends = self._make()
        self._made_at = self._now()


def moment(text: str) -> float:
    """`2026-12-01T10:00:00Z` in seconds of the epoch. Raises ValueError."""
    return datetime.fromisoformat(text).timestamp()
