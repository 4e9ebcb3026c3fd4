"""A model gate over a real Unix socket, in front of a real HTTP server on loopback: for the tests of the gate."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from model_failures import Wire, completed, message, sse

from appliance.core.findings import Usage
from appliance.gate import Gate, Upstream

KEY = "sk-very-secret"
GOOD = Wire(200, {"content-type": "text/event-stream"}, sse(completed(message("{}"))))
TOLD = Usage(1, 0, 1, 0)  # of GOOD


@dataclass
class Model:
    """A Responses API that answers with `answers` in turn, the last one for ever."""

    answers: list[Wire] = field(default_factory=lambda: [GOOD])
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    before: Callable[[BaseHTTPRequestHandler], bool] | None = None
    accept: Callable[[dict[str, str]], bool] = lambda _: True
    refusal: Wire = field(default_factory=lambda: Wire(401, {}, b"{}"))
    url: str = ""


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            model.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            if model.before is not None and model.before(self):
                self.close_connection = True
                return
            if not model.accept(model.requests[-1][1]):
                self.reply(model.refusal)
                return
            answer = model.answers.pop(0) if len(model.answers) > 1 else model.answers[0]
            self.reply(answer)

        def reply(self, answer: Wire) -> None:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(answer.body), answer.body) if answer.body else b"")
            if answer.drop:
                self.close_connection = True
                return
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    yield model
    server.shutdown()
    server.server_close()


@pytest.fixture
def gate(model: Model, tmp_path: Path) -> Iterator[Gate]:
    with Gate(tmp_path / "g.sock", Upstream(model.url, {"authorization": f"Bearer {KEY}"})) as gate:
        yield gate


@pytest.fixture
def jail(gate: Gate) -> Iterator[httpx.Client]:
    """What the jail can do: talk to the socket."""
    with client_of(gate) as client:
        yield client


def client_of(gate: Gate) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(gate.path))
    return httpx.Client(transport=transport, base_url="http://127.0.0.1:9", timeout=20)


def ask(client: httpx.Client, **more: Any) -> httpx.Response:
    return client.post("/v1/responses", json={"input": []}, **more)
