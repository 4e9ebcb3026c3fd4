"""The model gate: a reverse proxy outside the jail, one Unix socket per attempt (DESIGN section 6).

The jail has no network and no key. What comes through this socket is let pass only if it is a request to the
Responses endpoint; the key is added here, and what the upstream answered is kept as facts.
"""

import asyncio
import contextlib
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from appliance.core.upstream import Answer

log = structlog.get_logger()

CONNECT_SECONDS = 20.0
IDLE_SECONDS = 600.0  # between two bytes; the attempt's own timeout is the real bound
START_SECONDS = 10.0
FINISH_SECONDS = 1.0
MAX_BODY = 64 * 1024 * 1024
MAX_SSE_LINE = 4 * 1024 * 1024
MAX_RETRY_AFTER = 5.0  # Codex honours any Retry-After without a cap (CODEX 1.4)

MIN_SECRET = 8  # characters; a shorter one would be found in any text

_PASSED_UP = ("accept", "content-type", "user-agent", "openai-beta", "session_id", "conversation_id")
_PASSED_DOWN = ("content-type", "x-request-id", "openai-processing-ms")


@dataclass(frozen=True)
class Upstream:
    """The model's API: `base_url` ends in `/v1`; `headers` carry the key. `transport` is the rehearsal model's."""

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    transport: httpx.AsyncBaseTransport | None = None


class Gate:
    """Let one attempt reach `upstream` through the Unix socket at `path`.

    Use it as a context manager; `answers` grows while it is open, and `last_request` is the body of the newest
    request, which holds the whole conversation. Raises OSError if the socket cannot be made, and
    TimeoutError if the server does not come up.
    """

    def __init__(self, path: Path, upstream: Upstream) -> None:
        self.path = path
        self.answers: list[Answer] = []
        self.refused: list[str] = []
        self.last_request = b""
        self._upstream = upstream
        self._client: httpx.AsyncClient | None = None
        self._server = uvicorn.Server(
            uvicorn.Config(
                _ends_quietly(
                    Starlette(
                        routes=[Route("/{path:path}", self._serve, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])]
                    )
                ),
                uds=str(path),
                log_config=None,
                lifespan="off",
                access_log=False,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._run, name="model-gate", daemon=True)
        self._end: Callable[[], object] = lambda: None
        self._failure: BaseException | None = None

    def __enter__(self) -> "Gate":
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if self._failure is not None:
                raise OSError(f"the model gate did not start: {self._failure}")
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise TimeoutError("the model gate did not start")
            time.sleep(0.002)
        self.path.chmod(0o600)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(RuntimeError):  # its loop has ended already
            self._end()
        self._thread.join(START_SECONDS)
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except (OSError, SystemExit) as error:
            self._failure = error

    async def _main(self) -> None:
        timeout = httpx.Timeout(IDLE_SECONDS, connect=CONNECT_SECONDS)
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._end = lambda: loop.call_soon_threadsafe(ended.set)
        async with httpx.AsyncClient(transport=self._upstream.transport, timeout=timeout) as client:
            self._client = client
            serving = asyncio.create_task(self._server.serve())
            waiting = asyncio.create_task(ended.wait())
            await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
            await self._finish()
            waiting.cancel()
            serving.cancel()  # uvicorn's own way out looks ten times a second, and then waits as long again

    async def _finish(self) -> None:
        """Take nothing more, and let what is under way note how it ended: Codex is gone, so it ends by itself."""
        for server in getattr(self._server, "servers", ()):
            server.close()
        deadline = time.monotonic() + FINISH_SECONDS
        while self._server.server_state.tasks and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    async def _serve(self, request: Request) -> Response:
        if request.method != "POST" or request.url.path not in ("/v1/responses", "/responses") or request.url.query:
            line = f"{request.method} {request.url.path}"[:200]
            self.refused.append(line)
            log.warning("gate.refused", request=line)
            return JSONResponse({"error": {"message": "not let through by the model gate"}}, 403)
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                self.answers.append(Answer(413, message="the request is too large for the model gate"))
                return JSONResponse({"error": {"message": "request too large"}}, 413)
        self.last_request = bytes(body)
        return await self._forward(self.last_request, request.headers)

    async def _forward(self, body: bytes, headers: Mapping[str, str]) -> Response:
        assert self._client is not None
        sent = {name: headers[name] for name in _PASSED_UP if name in headers} | dict(self._upstream.headers)
        url = f"{self._upstream.base_url.rstrip('/')}/responses"
        try:
            request = self._client.build_request("POST", url, content=body, headers=sent)
            answer = await self._client.send(request, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # ValueError: a header that cannot be sent
            said = self._redacted(f"{type(error).__name__}: {error}")[:500]
            self.answers.append(Answer(None, message=said))
            return JSONResponse({"error": {"message": said, "type": "server_error"}}, 502)
        passed = {name: answer.headers[name] for name in _PASSED_DOWN if name in answer.headers}
        if answer.status_code != 200:
            return await self._refusal(answer, passed)
        return StreamingResponse(self._stream(answer), 200, passed)

    async def _refusal(self, answer: httpx.Response, passed: dict[str, str]) -> Response:
        """An answer that is no stream: kept as facts, handed on with a capped Retry-After."""
        try:
            raw = await answer.aread()
        except httpx.HTTPError:
            raw = b""
        finally:
            await answer.aclose()
        raw = self._redacted(raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        self.answers.append(refusal(answer.status_code, answer.headers, raw, time.time()))
        wait = _seconds(answer.headers.get("retry-after", ""))
        if wait is not None and wait <= MAX_RETRY_AFTER:
            passed["retry-after"] = str(wait)
        return Response(raw, answer.status_code, passed)

    def _redacted(self, text: str) -> str:
        """Without our key, should the other side repeat it: it goes into the log, the health, and the jail."""
        for value in self._upstream.headers.values():
            secret = value.split()[-1] if value.split() else ""
            if len(secret) >= MIN_SECRET:
                text = text.replace(secret, "***")
        return text

    async def _stream(self, answer: httpx.Response) -> AsyncIterator[bytes]:
        """Hand on each chunk as it comes, and note how the stream ended."""
        watch = SseWatch()
        try:
            async for chunk in answer.aiter_bytes():
                watch.feed(chunk)
                yield chunk
        except httpx.HTTPError as error:
            watch.broke(f"{type(error).__name__}: {error}"[:500])
        finally:
            answered = watch.answer(time.time())
            self.answers.append(replace(answered, message=self._redacted(answered.message)))
            await answer.aclose()


def _ends_quietly(app: ASGIApp) -> ASGIApp:
    """A request that is under way when the attempt ends is no error, though uvicorn logs it as one."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await app(scope, receive, send)

    return serve


def refusal(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Answer:
    """The facts of an answer other than 200."""
    try:
        error = json.loads(body)["error"]
        if not isinstance(error, dict):
            error = {"message": str(error)}
    except (ValueError, KeyError, TypeError, RecursionError):
        error = {}
    wait = _seconds(headers.get("retry-after", ""))
    return Answer(
        status,
        code=str(error.get("code") or error.get("type") or ""),
        message=str(error.get("message") or "")[:1000],
        param=str(error.get("param") or ""),
        resets_at=_resets_at(error, now),
        retry_at=now + wait if wait is not None else None,
    )


def _seconds(text: str) -> int | None:
    """A Retry-After in seconds; None for a date, and for what is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _resets_at(error: Mapping[str, Any], now: float) -> float | None:
    at, after = _number(error.get("resets_at")), _number(error.get("resets_in_seconds"))
    return at if at is not None else now + after if after is not None else None


def _number(value: object) -> float | None:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if plain and abs(value) < 1e12 else None  # type: ignore[arg-type]


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


_ENDS = {"response.completed": "completed", "response.failed": "failed", "response.incomplete": "incomplete"}


class SseWatch:
    """Reads the ends of a Responses stream as it passes: completed, failed, incomplete, or none of them."""

    def __init__(self) -> None:
        self._rest = b""
        self._end: dict[str, Any] | None = None
        self._broken = ""

    def feed(self, chunk: bytes) -> None:
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()[-MAX_SSE_LINE:]
        for line in lines:
            if line.startswith(b"data:") and any(kind.encode() in line for kind in _ENDS):
                with contextlib.suppress(ValueError, RecursionError):
                    event = json.loads(line[5:])
                    if isinstance(event, dict) and event.get("type") in _ENDS:
                        self._end = event

    def broke(self, why: str) -> None:
        self._broken = why

    def answer(self, now: float) -> Answer:
        if self._end is None:
            return Answer(
                200, message=self._broken or "the stream ended before the answer was complete", ended="dropped"
            )
        kind = _ENDS[self._end["type"]]
        response = _object(self._end.get("response"))
        error = _object(response.get("error"))
        why = _object(response.get("incomplete_details")).get("reason") or ""
        return Answer(
            200,
            code=str(error.get("code") or ""),
            message=str(error.get("message") or why)[:1000],
            ended=kind,  # type: ignore[arg-type]
            resets_at=_resets_at(error, now),
        )
