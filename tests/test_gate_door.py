"""What the jail may try at the model gate's socket, byte by byte: none of it reaches the model's API."""

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from model_server import KEY, Model

from appliance.gate import MAX_CONNECTIONS, Gate

BODY = b'{"input": []}'
OPEN = b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s" % (len(BODY), BODY)
GOOD = OPEN.replace(b"host: x", b"host: x\r\nconnection: close")


def said(gate: Gate, raw: bytes, *, half_close: bool = False) -> bytes:
    """What the gate answers to these bytes, until it or we are done."""
    with socket.socket(socket.AF_UNIX) as jail:
        jail.settimeout(10)
        jail.connect(str(gate.path))
        jail.sendall(raw)
        if half_close:
            jail.shutdown(socket.SHUT_WR)
        return b"".join(received(jail))


def received(jail: socket.socket) -> Iterator[bytes]:
    try:
        while chunk := jail.recv(65_536):
            yield chunk
    except (ConnectionError, TimeoutError):
        return


def statuses(answer: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d+) ", answer)


def test_the_good_one_passes(model: Model, gate: Gate) -> None:
    assert statuses(said(gate, GOOD)) == [b"200"]
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"POST http://evil.example/v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
        b"POST http://127.0.0.1/v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 0\r\n\r\n",
        b"CONNECT api.openai.com:443 HTTP/1.1\r\nhost: api.openai.com:443\r\n\r\n",
        b"GET /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-version: 13\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 0\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\ncontent-length: 0\r\n\r\n",
        b"POST /v1/responses?api-version=1 HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
        b"POST /v1/responses/../files HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
        b"POST /v1/./responses HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
        b"post /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/responses#x HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
        b"POST \\v1\\responses HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
    ],
)
def test_what_is_http_and_not_that_request_is_403(raw: bytes, model: Model, gate: Gate) -> None:
    assert statuses(said(gate, raw, half_close=True)) == [b"403"]
    assert model.requests == []
    assert len(gate.refused) == 1, "and it is noted"


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01",  # TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /v1/responses\r\n\r\n",
        b"POST  /v1/responses HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/resp onses HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\n\r\n",  # no host
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nx: " + b"a" * 200_000,
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab",
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 50\r\n\r\nab",
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nx: a\x00b\r\n\r\n",
    ],
)
def test_what_is_no_whole_request_reaches_nobody(raw: bytes, model: Model, gate: Gate) -> None:
    answer = statuses(said(gate, raw, half_close=True))
    assert set(answer) <= {b"400", b"403", b"431"}
    assert model.requests == []
    assert gate.answers == []
    assert statuses(said(gate, GOOD)) == [b"200"], "and the gate still serves"


def test_of_requests_in_one_packet_each_is_looked_at(model: Model, gate: Gate) -> None:
    other = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nab"
    assert statuses(said(gate, OPEN + other + GOOD)) == [b"200", b"403", b"200"]
    assert [(path, body) for path, _, body in model.requests] == [("/v1/responses", BODY)] * 2


def test_a_request_in_the_body_of_another_is_a_body(model: Model, gate: Gate) -> None:
    """Length and chunks at once: the one that is sent on is made anew, with one length."""
    inner = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
    head = b"POST /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    head += b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n"
    answer = statuses(said(gate, head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(inner), inner)))
    assert answer in ([b"200"], [b"400"])
    assert [path for path, _, _ in model.requests] in ([], ["/v1/responses"])
    for _, headers, body in model.requests:
        assert ("transfer-encoding" in headers, body) == (False, inner)


def test_headers_of_the_jail_do_not_pass(model: Model, gate: Gate) -> None:
    more = b"authorization: Bearer mine\r\nAuthorization: Bearer other\r\napi-key: mine\r\nchatgpt-account-id: mine"
    more += b"\r\nopenai-organization: mine\r\nx-forwarded-host: evil.example\r\nexpect: 100-continue"
    said(gate, GOOD.replace(b"host: x", b"host: evil.example\r\n" + more))
    [(_, headers, _)] = model.requests
    assert headers["authorization"] == f"Bearer {KEY}"
    assert "evil" not in repr(headers) and "mine" not in repr(headers)


def test_the_jail_cannot_use_up_the_descriptors_of_the_appliance(model: Model, gate: Gate) -> None:
    """They are those of all reviews: one that has none left is a fault of the workstation."""
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with ExitStack() as stack:
        many = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(200)]
        for one in many:
            one.settimeout(10)
            one.connect(str(gate.path))
        refused = 0
        for one in many[MAX_CONNECTIONS:]:
            with suppress(ConnectionError):
                refused += one.recv(1) == b""
        ours = len(os.listdir("/proc/self/fd")) - before - len(many)  # noqa: PTH208
        assert ours <= MAX_CONNECTIONS + 2
        assert refused == len(many) - MAX_CONNECTIONS
    deadline = time.monotonic() + 10
    while statuses(said(gate, GOOD)) != [b"200"]:
        assert time.monotonic() < deadline, "with those gone it is open again"


def test_a_flood_of_other_requests_is_noted_up_to_a_limit(model: Model, gate: Gate) -> None:
    one = b"GET /%s HTTP/1.1\r\nhost: x\r\n\r\n" % (b"a" * 5000)
    for _ in range(3):
        said(gate, one * 50, half_close=True)
    assert 0 < len(gate.refused) <= 100
    assert max(map(len, gate.refused)) <= 200
