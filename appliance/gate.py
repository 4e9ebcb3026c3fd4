"""The model gate: a reverse proxy outside the jail, one Unix socket per attempt (DESIGN section 6).

The jail has no network and no key. What comes through this socket is let pass only if it is a request to the
Responses endpoint; the key is added here, and what the upstream answered is kept as facts.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import httpx
import structlog
import uvicorn
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from appliance import redaction
from appliance.core.answers import SseWatch, refusal, retry_seconds
from appliance.core.asked import objection
from appliance.core.budget import day_fault
from appliance.core.masking import CODING, MaskedStream
from appliance.core.moments import next_day
from appliance.core.upstream import Answer
from appliance.login import LoginRefused, LoginUnreachable
from appliance.meter import Meter, Reason, Ticket

log = structlog.get_logger()

CONNECT_SECONDS = 20.0
IDLE_SECONDS = 600.0  # between two bytes; the attempt's own timeout is the real bound
START_SECONDS = 10.0
FINISH_SECONDS = 1.0
MAX_BODY = 64 * 1024 * 1024
MAX_REFUSAL = 1024 * 1024  # bytes of an answer that is no stream; an error has some hundred
MAX_CONNECTIONS = 16  # at once; Codex has one or two, and the descriptors are those of the whole appliance
MAX_RETRY_AFTER = 5.0  # Codex honours any Retry-After without a cap (CODEX 1.4)
MAX_REFUSED = 100  # lines that are kept and logged of one attempt
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError, httpx.UnsupportedProtocol, httpx.InvalidURL)
PATHS = (b"/v1/responses", b"/responses")

_PASSED_UP = ("accept", "content-type", "user-agent", "openai-beta", "session_id", "conversation_id")
_PASSED_DOWN = ("content-type", "x-request-id", "openai-processing-ms")


class Credentials(Protocol):
    """A login whose token changes. Both raise LoginRefused and LoginUnreachable."""

    def headers(self) -> Mapping[str, str]: ...

    def renewed(self, refused: Mapping[str, str]) -> Mapping[str, str]:
        """What to send instead of `refused`, which the API answered with 401."""
        ...


@dataclass(frozen=True)
class Upstream:
    """The model's API at `base_url`; `headers` carry the key, or `login` is asked before each request.

    `model` is the only one that may be asked, if given. `transport` is the rehearsal model's.
    """

    base_url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    login: Credentials | None = None
    model: str = ""
    transport: httpx.AsyncBaseTransport | None = None


class Gate:
    """Let one attempt reach `upstream` through the Unix socket at `path`.

    Use it as a context manager; `answers` grows while it is open, and `last_request` is the body of the newest
    request, which holds the whole conversation. `meter` says what may still be used; `broken` is what it raised, and
    then it was not let through. Raises OSError if the socket cannot be made, and TimeoutError if the server does
    not come up.
    """

    def __init__(self, path: Path, upstream: Upstream, meter: Meter | None = None) -> None:
        self.path = path
        self.answers: list[Answer] = []
        self.refused: list[str] = []
        self.last_request = b""
        self.broken: Exception | None = None
        self._meter = meter or Meter()
        self._upstream = upstream
        redaction.keep_secret(*map(secret_of, upstream.headers.values()))
        self._client: httpx.AsyncClient | None = None
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._serve_quietly,
                uds=str(path),
                log_config=None,
                lifespan="off",
                interface="asgi3",
                http=_Door,
                ws="none",
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

    async def _serve_quietly(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that is under way when the attempt ends is no error, though uvicorn logs it as one."""
        with contextlib.suppress(asyncio.CancelledError, ClientDisconnect):
            await (await self._serve(Request(scope, receive)))(scope, receive, send)

    async def _serve(self, request: Request) -> Response:
        if not is_let_through(request.scope):
            return self._not_let_through(request.scope)
        body = bytearray()
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                self._note(Answer(413, message="the request is too large for the model gate"))
                return refused(400, "context_length_exceeded", "the request is too large for the model gate")
        self.last_request = bytes(body)
        why = objection(self.last_request, self._upstream.model)
        if why:
            log.warning("gate.refused", request="POST /v1/responses", why=why)
            self._note(Answer(None, message=redaction.ours_out(why), refused="asked"))
            return refused(400, "not_let_through", f"not let through by the model gate: {why}")
        try:
            asked = self._meter.ask(len(body))
        except (OSError, SQLAlchemyError) as error:  # unknown is not "enough"
            self.broken = error
            return refused(400, "budget_unknown", "the model gate cannot count tokens")
        if not isinstance(asked, Ticket):
            return self._out_of(asked)
        return await self._forward(self.last_request, request.headers, asked)

    def _out_of(self, reason: Reason) -> Response:
        """With a 400 Codex ends at once; 402, 403 and 413 it repeats (measured with 0.163)."""
        budgets, now = self._meter.budgets, time.time()
        said = {
            "review": f"token budget of the review ({budgets.per_review:,} tokens) is used up",
            "day": day_fault(budgets.per_day).sentence,
            "large": "one request alone is larger than the token budget of the day",
            "time": "the time of the review is over",
        }[reason]
        resets_at = next_day(now) if reason == "day" else None
        self._note(Answer(None, message=said, refused=reason, resets_at=resets_at))
        return refused(400, f"{reason}_budget", said)

    def _settle(self, ticket: Ticket, tokens: int) -> None:
        try:
            self._meter.settle(ticket, tokens)
        except (OSError, SQLAlchemyError) as error:  # what was set aside stays counted
            log.warning("gate.uncounted", tokens=tokens, error=str(error)[:200])

    def _not_let_through(self, scope: Scope) -> Response:
        if len(self.refused) < MAX_REFUSED:
            line = f"{scope['method']} {scope['raw_path'].decode('latin-1')}"
            line += f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
            line = ascii(line)[1:-1][:200]
            self.refused.append(line)
            log.warning("gate.refused", request=line)
        return refused(403, "forbidden", "not let through by the model gate")

    def _note(self, answer: Answer) -> None:
        """Keep the facts of one request."""
        self.answers.append(answer)
        told: dict[str, object] = dict(answer.limits) if not answer.ok else {}
        if answer.usage:
            told |= {"tokens_in": answer.usage.input_tokens, "tokens_out": answer.usage.output_tokens}
        write = log.debug if answer.ok else log.info
        write(
            "model.answered",
            status=answer.status,
            ended=answer.ended,
            code=answer.code,
            error=answer.message[:200],
            **told,
        )

    async def _forward(self, body: bytes, headers: Mapping[str, str], ticket: Ticket) -> Response:
        passed_up = {name: headers[name] for name in _PASSED_UP if name in headers}
        try:
            answer = await self._asked(body, passed_up)
        except LoginRefused as error:
            said = redaction.ours_out(f"The ChatGPT login is used up: {error}")
            self._note(Answer(401, code="login_used_up", message=said))
            self._settle(ticket, 0)
            return refused(400, "login_used_up", said)
        except LoginUnreachable as error:
            said = redaction.ours_out(str(error))
            self._note(Answer(None, message=said))
            self._settle(ticket, 0)
            return refused(502, "server_error", said)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # ValueError: a header that cannot be sent
            said = redaction.ours_out(f"{type(error).__name__}: {error}")[:500]
            self._note(Answer(None, message=said))
            if isinstance(error, _NOT_SENT):
                self._settle(ticket, 0)
            return refused(502, "server_error", said)
        passed = {name: redaction.ours_out(answer.headers[name]) for name in _PASSED_DOWN if name in answer.headers}
        if answer.status_code != 200:
            self._settle(ticket, 0)
            return await self._refusal(answer, passed)
        return StreamingResponse(self._stream(answer, ticket), 200, passed)

    async def _asked(self, body: bytes, passed_up: Mapping[str, str]) -> httpx.Response:
        """The API's answer; a login that it refuses is renewed once."""
        login = self._upstream.login
        if login is None:
            return await self._sent(body, {**passed_up, **self._upstream.headers})
        ours = await asyncio.to_thread(login.headers)
        answer = await self._sent(body, {**passed_up, **ours})
        if answer.status_code != 401:
            return answer
        await answer.aclose()
        ours = await asyncio.to_thread(login.renewed, ours)
        return await self._sent(body, {**passed_up, **ours})

    async def _sent(self, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        assert self._client is not None
        url = f"{self._upstream.base_url.rstrip('/')}/responses"
        request = self._client.build_request("POST", url, content=body, headers=headers)
        return await self._client.send(request, stream=True)

    async def _refusal(self, answer: httpx.Response, passed: dict[str, str]) -> Response:
        """An answer that is no stream: kept as facts, handed on with a capped Retry-After."""
        told = bytearray()
        try:
            async for chunk in answer.aiter_bytes():
                told += chunk
                if len(told) > MAX_REFUSAL:
                    told.clear()  # no error that we know; the status says enough
                    break
        except httpx.HTTPError:
            told.clear()
        finally:
            await answer.aclose()
        raw = redaction.ours_out(told.decode(CODING)).encode(CODING)
        self._note(refusal(answer.status_code, self._headers(answer), raw, time.time()))
        wait = retry_seconds(answer.headers)
        if wait is not None and wait <= MAX_RETRY_AFTER:
            passed["retry-after"] = str(wait)
        return Response(raw, answer.status_code, passed)

    def _headers(self, answer: httpx.Response) -> dict[str, str]:
        """Without our key, should the other side repeat it: they go into the log, the health, and the jail."""
        return {name.lower(): redaction.ours_out(value) for name, value in answer.headers.items()}

    async def _stream(self, answer: httpx.Response, ticket: Ticket) -> AsyncIterator[bytes]:
        """Hand on each chunk as it comes, and note how the stream ended; one that outgrows the budget is cut off."""
        watch, masked = SseWatch(self._headers(answer)), MaskedStream(redaction.known)
        try:
            async for chunk in answer.aiter_bytes():
                passed = masked.feed(chunk)
                watch.feed(passed)
                if passed:
                    yield passed
                if watch.written > ticket.room:
                    watch.broke("cut off: it outgrew the token budget of the review")
                    return
            rest = masked.end()
            watch.feed(rest)
            if rest:
                yield rest
        except httpx.HTTPError as error:
            watch.broke(f"{type(error).__name__}: {error}"[:500])
        finally:
            answered = watch.answer(time.time())
            told = answered.usage
            self._settle(ticket, told.input_tokens + told.output_tokens if told else ticket.tokens + watch.written)
            self._note(replace(answered, message=redaction.ours_out(answered.message)))
            await answer.aclose()


class _Door(H11Protocol):
    """The strict one of uvicorn's, whatever else is installed, and no more than MAX_CONNECTIONS at once.

    uvicorn's own limit answers 503 once a request has come; until then a connection costs nothing and stays.
    """

    _shut = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._shut = len(self.connections) >= MAX_CONNECTIONS
        if self._shut:
            transport.abort()
        else:
            super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._shut:
            super().connection_lost(exc)


def is_let_through(scope: Scope) -> bool:
    """Whether this is the one request that may pass, as it came over the wire: nothing is decoded or made canonical."""
    return (
        scope["method"] == "POST"
        and scope["raw_path"] in PATHS
        and not scope["query_string"]
        and not any(name == b"upgrade" for name, _ in scope["headers"])
    )


def refused(status: int, code: str, message: str) -> Response:
    """An answer of our own, in the form of the API's errors."""
    return JSONResponse({"error": {"message": message, "type": code, "code": code}}, status)


def secret_of(header: str) -> str:
    """The secret in a header's value: the last word, for `Bearer` goes before it."""
    return header.rsplit(maxsplit=1)[-1] if header.strip() else ""


class _Malformed(logging.Handler):
    """What is no HTTP at all uvicorn answers with 400; this says so in our log."""

    def emit(self, record: logging.LogRecord) -> None:
        log.warning("gate.refused", request=record.getMessage()[:200])


_uvicorn = logging.getLogger("uvicorn.error")
if not _uvicorn.handlers:
    _uvicorn.addHandler(_Malformed(logging.WARNING))
    _uvicorn.propagate = False
