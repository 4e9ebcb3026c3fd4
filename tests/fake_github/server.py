"""HTTP: authentication, limits, ETags, pages, made failures, the record."""

import base64
import hashlib
import json
import re
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from . import api, apps, control, gitweb, graphql, render, reviews
from .fake import FakeGitHub
from .state import Exchange, Failure, Request, Response, Token

PREFIX = "/api/v3"
ROUTES = (apps, graphql, reviews)  # they add theirs when they are imported
_ROUTES_OF_APPS = re.compile(r"/app(/.*)?|/(repos/[^/]+/[^/]+|repositories/[0-9]+)/installation")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


class Handler(BaseHTTPRequestHandler):
    fake: FakeGitHub
    protocol_version = "HTTP/1.1"
    server_version = "fake-github"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        pass

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(self.fake.now() if timestamp is None else timestamp)

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def _serve(self) -> None:
        fake, request = self.fake, self._request()
        if request.path.startswith("/_fake/"):
            answer = control.answer(fake, request)
            self._send(answer, answer.body if answer.body is not None else dump(answer.payload))
            return
        failure = fake.failure_for(request)
        if failure and failure.delay:
            time.sleep(failure.delay)
        made = failure is not None and bool(
            failure.status or failure.empty or failure.short is not None or failure.truncate or failure.cut_off
        )
        answer = Response()
        if failure is None or failure.status is None or failure.store:
            answer = gitweb.answer(fake, request) if gitweb.PATH.fullmatch(request.path) else self._answer(request)
        if failure and failure.status is not None:
            answer = Response(failure.status, failure.body, dict(failure.headers))
        elif failure and made:
            _spoil(answer, failure)
        body = answer.body if answer.body is not None else dump(answer.payload)
        if failure and failure.truncate:
            body = body[: len(body) // 2]
        if failure and failure.disconnect:
            self._record(request, answer, b"", injected=True)
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        # Before the answer goes out: who has it may look at the record at once.
        self._record(request, answer, body, injected=made)
        self._send(answer, body, cut_off=failure is not None and failure.cut_off)

    def _answer(self, request: Request) -> Response:
        fake = self.fake
        authorization = self.headers.get("Authorization", "")
        if authorization:
            request.token = token_of(fake, authorization)
            if request.token is None and not _ROUTES_OF_APPS.fullmatch(request.path):  # those read their claim
                return Response(401, render.error("Bad credentials", 401))
            app = fake.apps.get(request.token.app) if request.token else None
            if app and request.token and request.token.owner in app.suspended:
                return Response(403, render.error("This installation has been suspended", 403))
        limits = {"X-RateLimit-Limit": str(fake.rate_limit), "X-RateLimit-Reset": str(int(fake.now()) + 3600)}
        if fake.rate_remaining <= 0 and request.path != "/rate_limit":
            message = "API rate limit exceeded for user ID 1."
            return Response(403, render.error(message, 403), {**limits, "X-RateLimit-Remaining": "0"})
        with fake.lock:
            answer = api.answer(fake, request)
            if request.method == "GET" and answer.status == 200:
                self._conditional(request, answer)
            if answer.status != 304 and request.path != "/rate_limit":
                fake.rate_remaining -= 1
            limits["X-RateLimit-Remaining"] = str(fake.rate_remaining)
        limits["X-RateLimit-Used"] = str(fake.rate_limit - fake.rate_remaining)
        answer.headers = {
            **limits,
            **_of_token(request.token),
            "X-RateLimit-Resource": "core",
            "X-GitHub-Media-Type": "github.v3",
            **answer.headers,
        }
        return answer

    def _conditional(self, request: Request, answer: Response) -> None:
        """ETag per token and Accept; rendered once per state."""
        key = (request.api, request.path, urlencode(request.query), self.headers.get("Authorization"))
        held = self.fake.rendered.get(key)
        if held and held[0] == self.fake.generation:
            answer.body = held[1]
        else:
            payload = answer.payload() if callable(answer.payload) else answer.payload
            answer.body = dump(payload)
            self.fake.rendered[key] = (self.fake.generation, answer.body)
        varies = f"{self.headers.get('Accept')}{self.headers.get('Authorization')}".encode()
        etag = f'W/"{hashlib.sha256(answer.body + varies).hexdigest()}"'
        answer.headers |= {"ETag": etag, "Cache-Control": "private, max-age=60, s-maxage=60"}
        answer.headers["Vary"] = "Accept, Authorization, Cookie, X-GitHub-OTP"
        if self.headers.get("If-None-Match", "").removeprefix("W/") == etag.removeprefix("W/"):
            answer.status, answer.body = 304, b""
            answer.headers.pop("Link", None)

    def _request(self) -> Request:
        parts = urlsplit(self.path)
        path, prefix = unquote(parts.path, errors="surrogateescape"), ""
        if path.startswith(PREFIX + "/"):
            path, prefix = path[len(PREFIX) :], PREFIX
        host = self.headers.get("Host") or "localhost"
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(
            method=self.command,
            path=path,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers=headers,
            body=self._body(),
            base=f"http://{host}",
            prefix=prefix,
        )

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(body)

    def _send(self, answer: Response, body: bytes, *, cut_off: bool = False) -> None:
        self.send_response(answer.status)
        headers = {"Content-Type": "application/json; charset=utf-8", **answer.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        if answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        if cut_off:
            body, self.close_connection = body[: len(body) // 2], True
        # One write: headers and body apart cost a delayed acknowledgement each.
        head = b"".join(self._headers_buffer) + b"\r\n"
        self._headers_buffer: list[bytes] = []
        try:
            self.wfile.write(head + (b"" if answer.status in (204, 304) else body))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _record(self, request: Request, answer: Response, body: bytes, *, injected: bool) -> None:
        hidden = {name: value for name, value in request.headers.items() if name != "authorization"}
        hidden["authorization"] = "present" if "authorization" in request.headers else "absent"
        exchange = Exchange(
            request.method,
            request.path,
            urlencode(request.query),
            hidden,
            request.body,
            answer.status,
            dict(answer.headers),
            body,
            injected,
            time.time(),
        )
        with self.fake.lock:
            self.fake.exchanges.append(exchange)


def _of_token(token: Token | None) -> dict[str, str]:
    """What GitHub tells of a token beside each answer."""
    if token is None:
        return {}
    told = {"X-OAuth-Scopes": ", ".join(token.scopes)} if token.classic else {}
    if token.expires is not None:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(token.expires))
        told["GitHub-Authentication-Token-Expiration"] = f"{moment} {token.expires_zone}"
    return told


def token_of(fake: FakeGitHub, authorization: str) -> Token | None:
    """The token of an Authorization header: Bearer, token, or Basic as git sends it; None if it is not valid."""
    kind, _, value = authorization.partition(" ")
    if kind.casefold() == "basic":
        try:
            value = base64.b64decode(value).decode().partition(":")[2]
        except ValueError:
            return None
    token = fake.tokens.get(value.strip())
    if token is not None and token.installation and token.expires is not None and token.expires <= fake.now():
        return None
    return token


def dump(payload: object) -> bytes:
    if callable(payload):
        payload = payload()
    if payload is None:
        return b""
    return payload.encode() if isinstance(payload, str) else json.dumps(payload).encode()


def _spoil(answer: Response, failure: Failure) -> None:
    """Cut the list in the answer, as a degraded backend does."""
    told = json.loads(answer.body if answer.body else dump(answer.payload) or b"null")
    if failure.empty or failure.short is not None:
        left = 0 if failure.empty else failure.short
        if isinstance(told, list):
            told = told[:left]
        elif isinstance(told, dict):
            told = {key: value[:left] if isinstance(value, list) else value for key, value in told.items()}
        answer.headers.pop("ETag", None)
        answer.headers.pop("Link", None)
    answer.status = 200 if answer.status == 304 else answer.status
    answer.body = json.dumps(told).encode()
