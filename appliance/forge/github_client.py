"""HTTP towards GitHub: ETags, pages, redirects, limits, errors."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import httpx

from appliance import __version__, redaction
from appliance.forge import Cached, ForgeError
from appliance.forge.github_errors import Answer, error_of, rate_limited, unreachable
from appliance.forge.github_graphql import graphql_error, graphql_unavailable, graphql_url
from appliance.forge.github_limits import PROCESS_PACE, SHORT_WAIT, Pause, WritePace, pause_of, retry_after, told_when
from appliance.forge.github_login import Login, TokenLogin
from appliance.forge.github_shapes import Misshapen, Shape
from appliance.process import Stopped

T = TypeVar("T")
ACCEPT = "application/vnd.github+json"
TIMEOUT = httpx.Timeout(15.0, connect=5.0)  # seconds of silence
LONGEST_ANSWER = 60.0  # seconds for a whole answer: a server that drips would never be silent
MAX_BODY = 64 * 1024 * 1024
MAX_HOPS = 5
MAX_PAGES = 1000
RETRY_WAITS = (0.3, 1.0)  # seconds before the second and the third try of a read
_PASSING = frozenset({502, 503, 504})
_REDIRECTS = frozenset({301, 302, 307, 308})
_NEXT = re.compile(r'<([^<>]*)>[^<]*?;\s*rel="?next"?', re.IGNORECASE)
_BROKEN = (httpx.NetworkError, httpx.RemoteProtocolError)


class Etags(Protocol):
    """Where answers are kept; the key is a digest over address, form and login."""

    def get(self, key: str) -> Cached | None: ...

    def put(self, key: str, cached: Cached) -> None: ...


class GitHubClient:
    """One API, one `login`, or one `token`, which is a login. Thread-safe.

    Every call raises ForgeError, or Stopped once `stop` is set. `clock` gives seconds of the epoch; `sleep` waits, and
    is `stop.wait` unless a test brings its own.
    """

    def __init__(
        self,
        *,
        api_url: str,
        token: str = "",
        login: Login | None = None,
        etags: Etags,
        api_version: str,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] | None = None,
        pace: WritePace = PROCESS_PACE,
        pause: Pause | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.login = login or TokenLogin(token)
        self.api_url = httpx.URL(api_url.rstrip("/"))
        self._etags = etags
        self._version = api_version
        self._stop = stop or threading.Event()
        self._clock = clock
        self._sleep = sleep or self._stop.wait
        self._pace = pace
        self._pause = pause or Pause()
        headers = {
            "Accept": ACCEPT,
            "X-GitHub-Api-Version": api_version,
            "User-Agent": f"review-appliance/{__version__}",
        }
        self._http = httpx.Client(headers=headers, timeout=TIMEOUT, follow_redirects=False, transport=transport)

    def __repr__(self) -> str:
        return f"GitHubClient({self.api_url})"

    def close(self) -> None:
        self._http.close()

    def read(self, path: str, shape: Shape[T]) -> T:
        """One object. `path` begins with a slash and is below the API's base."""
        return self._cut(f"{self.api_url}{path}", shape)[0]

    def pages(self, path: str, shape: Shape[list[T]]) -> list[T]:
        """All pages of a list; the Link header's `next` is followed as it stands, within the API's own origin."""
        url: str | None = f"{self.api_url}{path}"
        seen: set[str] = set()
        rows: list[T] = []
        while url is not None:
            if url in seen or len(seen) >= MAX_PAGES:
                raise unreachable(f"the pages of {path} lead back to {url}")
            seen.add(url)
            page, link = self._cut(url, shape)
            rows += page
            following = _NEXT.search(link or "")
            url = self._own(url, following.group(1)) if following else None
        return rows

    def write(self, path: str, payload: Mapping[str, Any], shape: Shape[T], method: str = "POST") -> T:
        """POST or PATCH, once. A failure that is not permanent may have landed: look before writing again."""
        url, content = f"{self.api_url}{path}", json.dumps(payload).encode()
        with self._pace.turn(self._clock, self._wait):
            answer = self._ask(method, url, content=content)
        if answer.status not in (200, 201):
            raise error_of(answer)
        return self._keep(answer, shape)

    def kept(self, answer: Answer, shape: Shape[T]) -> T:
        """What is kept of the bare answer to a GET."""
        if answer.status != 200:
            raise error_of(answer)
        return self._keep(answer, shape)

    def query(self, text: str, variables: Mapping[str, Any], shape: Shape[T]) -> T:
        """The `data` of a GraphQL query: it reads, and is tried again as other reads are."""
        return self._data(self._graphql(text, variables, safe=True), shape)

    def mutate(self, text: str, variables: Mapping[str, Any], shape: Shape[T]) -> T:
        """The `data` of a GraphQL mutation: a write, once, as `write`."""
        with self._pace.turn(self._clock, self._wait):
            answer = self._graphql(text, variables, safe=False)
        return self._data(answer, shape)

    def _graphql(self, text: str, variables: Mapping[str, Any], *, safe: bool) -> Answer:
        content = json.dumps({"query": text, "variables": variables}).encode()
        return self._ask("POST", graphql_url(self.api_url), content=content, safe=safe)

    def _data(self, answer: Answer, shape: Shape[T]) -> T:
        """GraphQL says with 200 what it refuses: whatever has `errors` is none, however much data it has."""
        if answer.status != 200:
            raise graphql_unavailable(answer)
        error = graphql_error(answer, self._clock())
        if error is not None:
            raise error
        return self._keep(answer, shape)

    def ask(self, path: str, payload: dict[str, str] | None = None) -> Answer:
        """The bare answer to a GET, or to a POST of `payload`, refusals too: for who examines GitHub itself.

        Limits, redirects and broken connections are as everywhere.
        """
        url = f"{self.api_url}{path}"
        if payload is None:
            return self._ask("GET", url)
        with self._pace.turn(self._clock, self._wait):
            return self._ask("POST", url, content=json.dumps(payload).encode())

    def _cut(self, url: str, shape: Shape[T]) -> tuple[T, str | None]:
        """What is kept of one answer, and its Link header."""
        parts = (url, ACCEPT, self._version, self.login.name, shape.name)
        key = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        cached = self._etags.get(key)
        try:
            known: T | None = json.loads(cached.body) if cached else None
        except ValueError:  # a torn row costs one full answer
            cached = known = None
        answer = self._ask("GET", url, etag=cached.etag if cached else None)
        if answer.status == 304 and cached and known is not None:
            return known, cached.link
        if answer.status != 200:
            raise error_of(answer)
        fresh = self._keep(answer, shape)
        link, etag = answer.headers.get("link"), answer.headers.get("etag")
        if etag:  # only what was understood is kept: else a bad answer would be served again with every 304
            self._etags.put(key, Cached(etag, link, json.dumps(fresh, separators=(",", ":")).encode()))
        return fresh, link

    def _keep(self, answer: Answer, shape: Shape[T]) -> T:
        try:
            return shape.keep(json.loads(answer.body))
        except (ValueError, RecursionError) as error:  # Misshapen is a ValueError, as broken JSON and UTF-8 are
            what = str(error) if isinstance(error, Misshapen) else "it is no JSON, or is cut off"
            raise unreachable(f"GitHub's answer to {answer.method} {answer.url} makes no sense: {what}") from error

    def _ask(
        self, method: str, url: str, *, etag: str | None = None, content: bytes | None = None, safe: bool | None = None
    ) -> Answer:
        """One question: short limits are waited for, reads (`safe`) are tried again, redirects are followed."""
        hops = limits = breaks = renewals = 0
        safe = method == "GET" if safe is None else safe
        while True:
            self._heed_pause()
            secret = self.login.secret()
            try:
                answer = self._exchange(method, url, secret, etag, content)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if not safe or not isinstance(error, _BROKEN) or breaks >= len(RETRY_WAITS):
                    raise self._broken(method, url, error, safe) from None  # its request holds the token
                self._wait(RETRY_WAITS[breaks])
                breaks += 1
                continue
            self.login.heard(answer)
            limited = pause_of(answer, self._pause.untold)
            if limited is not None:
                until = self._pause.begin(self._clock(), limited, told=told_when(answer))
                limits += 1
                if limits > 2 or limited > SHORT_WAIT:
                    raise rate_limited(f"GitHub limits our requests: {error_of(answer)}", until)
            elif answer.status == 401 and not renewals and self.login.renew(secret):
                renewals += 1
            elif answer.status in _REDIRECTS and hops < MAX_HOPS:
                url, hops = self._own(url, answer.headers.get("location", "")), hops + 1
            elif answer.status in _PASSING and safe and breaks < len(RETRY_WAITS):
                self._passing(answer, RETRY_WAITS[breaks])
                breaks += 1
            else:
                if answer.status < 400:
                    self._pause.end()
                return answer

    def _exchange(self, method: str, url: str, secret: str, etag: str | None, content: bytes | None) -> Answer:
        headers = {"If-None-Match": etag} if etag else {}
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        if content is not None:
            headers["Content-Type"] = "application/json"
        deadline = time.monotonic() + LONGEST_ANSWER
        body = bytearray()
        with self._http.stream(method, url, headers=headers, content=content) as response:
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > MAX_BODY or time.monotonic() > deadline:
                    raise httpx.ReadTimeout("the answer does not end")
                if method == "GET" and self._stop.is_set():
                    raise Stopped("the appliance stops")
            received = {name.lower(): value for name, value in response.headers.items()}
            return Answer(method, url, response.status_code, received, bytes(body), self.login.signer)

    def _own(self, url: str, target: str) -> str:
        """`target` as seen from `url`, if it stays at the API's origin: the token goes nowhere else."""
        try:
            there = httpx.URL(url).join(target)
        except httpx.InvalidURL:
            there = httpx.URL("")
        if not target or _origin(there) != _origin(self.api_url):
            elsewhere = f"{there.scheme}://{there.host}" if there.host else repr(redaction.redacted(target))
            raise unreachable(
                f"GitHub leads from {url} to {elsewhere}, which is not {self.api_url.host}",
                remedy="set APPLIANCE_GITHUB_URL to the address the API really has; the token is sent nowhere else.",
            )
        return str(there)

    def _heed_pause(self) -> None:
        if self._stop.is_set():
            raise Stopped("the appliance stops")
        now = self._clock()
        until = self._pause.until(now)
        if until is None:
            return
        if until - now > SHORT_WAIT:
            raise rate_limited("GitHub limits our requests, and the time it set is not over", until)
        self._wait(until - now)

    def _passing(self, answer: Answer, wait: float) -> None:
        """Wait before a 502, 503 or 504 is asked again, unless the server wants us away for longer."""
        asked = retry_after(answer)
        if asked is not None and asked > SHORT_WAIT:
            raise unreachable(str(error_of(answer)), retry_at=self._clock() + asked)
        self._wait(max(wait, asked or 0.0))

    def _wait(self, seconds: float) -> None:
        self._sleep(seconds)
        if self._stop.is_set():
            raise Stopped("the appliance stops")

    def _broken(self, method: str, url: str, error: Exception, safe: bool) -> ForgeError:
        said = redaction.redacted(str(error)) or type(error).__name__
        landed = "" if safe else "; whether it was written is not known"
        return unreachable(f"{method} {url} failed: {said}{landed}")


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"https": 443, "http": 80}.get(url.scheme)
