"""The model gate: the real one, over a real Unix socket, in front of a real HTTP server on loopback."""

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest
from model_failures import CASES, EXPECTED, Wire, completed, message, sse, wire
from model_server import GOOD, KEY, TOLD, Model, ask, client_of

from appliance.core.answers import SseWatch, refusal
from appliance.core.findings import Usage
from appliance.core.outcomes import Outcome
from appliance.core.upstream import Answer, ending_of
from appliance.gate import MAX_REFUSAL, Gate, Upstream

NOW = 1_796_000_000.0


def test_a_refusal_without_end_is_read_up_to_a_limit(model: Model, gate: Gate, jail: httpx.Client) -> None:
    """It would fill the memory of the container, which all reviews share."""
    model.answers = [Wire(500, {"content-type": "text/plain"}, b"x" * (MAX_REFUSAL + 1)), GOOD]
    answer = ask(jail)
    assert (answer.status_code, answer.content) == (500, b"")
    assert gate.answers == [Answer(500)]
    assert ask(jail).status_code == 200


# ---- what passes, and what is added


def test_the_key_is_added_here_and_the_answer_comes_back(model: Model, gate: Gate, jail: httpx.Client) -> None:
    answer = ask(jail, headers={"authorization": "Bearer dummy", "x-evil": "1", "cookie": "a=b", "session_id": "s"})
    assert (answer.status_code, answer.content) == (200, GOOD.body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    [(path, headers, body)] = model.requests
    assert (path, json.loads(body)) == ("/v1/responses", {"input": []})
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["session_id"] == "s"
    assert {"x-evil", "cookie"}.isdisjoint(headers)
    assert gate.answers == [Answer(200, ended="completed", usage=TOLD)]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses"),
        ("GET", "/v1/models"),
        ("POST", "/v1/files"),
        ("POST", "/v1/responses/x/cancel"),
        ("POST", "/v1/responses?stream=1"),
        ("POST", "//v1/responses"),
        ("POST", "/v1//responses"),
        ("POST", "/v1/responses/"),
        ("POST", "/v1/%72esponses"),
        ("POST", "/v1%2fresponses"),
        ("POST", "/v1/responses%3Fx"),
        ("POST", "/v1/responses%00"),
        ("POST", "/V1/Responses"),
        ("POST", "/oauth/token"),
        ("POST", "/v1/responses;x=1"),
        ("POST", "/v2/responses"),
        ("DELETE", "/v1/responses/x"),
        ("PUT", "/v1/responses"),
        ("PATCH", "/v1/responses"),
        ("HEAD", "/v1/responses"),
        ("OPTIONS", "/v1/responses"),
        ("TRACE", "/v1/responses"),
        ("CONNECT", "/v1/responses"),
        ("PROPFIND", "/v1/responses"),
    ],
)
def test_nothing_else_passes(method: str, path: str, model: Model, gate: Gate, jail: httpx.Client) -> None:
    url = httpx.URL("http://127.0.0.1:9").copy_with(raw_path=path.encode())
    assert jail.request(method, url).status_code == 403
    assert model.requests == []
    assert gate.answers == []
    assert gate.refused == [f"{method} {path}"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example/v1/x?", "[", ""])
def test_the_host_that_is_asked_for_does_not_matter(host: str, model: Model, jail: httpx.Client) -> None:
    ask(jail, headers={"host": host})
    assert [path for path, _, _ in model.requests] in ([], ["/v1/responses"])


def test_a_redirect_is_not_followed_so_the_key_goes_nowhere_else(model: Model, gate: Gate, jail: httpx.Client) -> None:
    model.answers = [Wire(307, {"location": f"{model.url}/elsewhere"}, b"")]
    answer = ask(jail)
    assert answer.status_code == 307
    assert "location" not in answer.headers
    assert len(model.requests) == 1
    ending = ending_of(gate.answers)
    assert ending is not None
    assert ending.outcome is Outcome.MODEL_REFUSED


def test_the_socket_is_its_owners_and_goes_with_the_gate(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "g.sock"
    with Gate(path, Upstream(model.url)):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_no_repr_shows_the_key() -> None:
    assert KEY not in repr(Upstream("http://x/v1", {"authorization": KEY}))


def test_a_socket_that_cannot_be_made_is_an_oserror_and_soon(model: Model, tmp_path: Path) -> None:
    started = time.monotonic()
    for path in (tmp_path / "absent" / "g.sock", tmp_path / ("x" * 120)):
        with pytest.raises(OSError, match="gate did not start"), Gate(path, Upstream(model.url)):
            pass
    assert time.monotonic() - started < 5


# ---- streaming


def test_the_first_byte_arrives_before_the_last_is_sent(model: Model, jail: httpx.Client) -> None:
    seen, first, rest = threading.Event(), sse(completed(message("{}"))[:1]), sse(completed(message("{}"))[1:])
    waited: list[bool] = []

    def slowly(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.wfile.write(first)
        waited.append(seen.wait(10))
        handler.wfile.write(rest)
        return True

    model.before = slowly
    with jail.stream("POST", "/v1/responses", json={}) as answer:
        parts = answer.iter_raw()
        got = next(parts)
        seen.set()
        got += b"".join(parts)
    assert waited == [True]
    assert got == first + rest


def test_a_large_body_passes_both_ways_in_reasonable_time(model: Model, jail: httpx.Client) -> None:
    large = "x" * 20_000_000
    model.answers = [Wire(200, GOOD.headers, GOOD.body * 20_000)]
    started = time.process_time()
    answer = jail.post("/v1/responses", json={"input": large})
    assert len(answer.content) == len(GOOD.body) * 20_000
    assert len(model.requests[0][2]) > len(large)
    assert time.process_time() - started < 10


def test_one_that_is_too_large_is_the_inputs(
    model: Model, gate: Gate, jail: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.gate.MAX_BODY", 1000)
    refused = jail.post("/v1/responses", content=b"x" * 2000)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "context_length_exceeded")  # Codex ends
    assert model.requests == []
    ending = ending_of(gate.answers)
    assert ending is not None
    assert ending.outcome is Outcome.CONTEXT


def test_several_at_once(model: Model, gate: Gate, jail: httpx.Client) -> None:
    threads = [threading.Thread(target=ask, args=(jail,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gate.answers == [Answer(200, ended="completed", usage=TOLD)] * 8


def hung_up(client: httpx.Client) -> None:
    with suppress(httpx.HTTPError):
        ask(client)


def test_it_closes_while_an_answer_streams(model: Model, tmp_path: Path) -> None:
    """The review was stopped: nobody waits for the model."""
    release = threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> bool:
        release.wait(20)
        return True

    model.before = hang
    with Gate(tmp_path / "g.sock", Upstream(model.url)) as gate:
        client = client_of(gate)
        asking = threading.Thread(target=hung_up, args=(client,), daemon=True)
        asking.start()
        while not model.requests:
            time.sleep(0.01)
        started = time.monotonic()
    assert time.monotonic() - started < 15, "it waited for the answer"
    release.set()
    asking.join(5)
    client.close()


# ---- how it fails


@pytest.mark.parametrize("name", CASES)
def test_the_facts_of_each_way_to_fail(name: str, model: Model, gate: Gate, jail: httpx.Client) -> None:
    model.answers = [wire(step) for step in CASES[name]]
    answers: list[httpx.Response | None] = []
    for _ in CASES[name]:
        try:
            answers.append(ask(jail))
        except httpx.RemoteProtocolError:
            answers.append(None)
    expected, last = EXPECTED[name], gate.answers[-1]
    assert len(gate.answers) == len(CASES[name])
    assert (last.status, last.code, last.ended) == (expected.status, expected.code, expected.ended)
    assert last.resets_at == expected.resets_at
    if expected.waits is None:
        assert last.retry_at is None
    else:
        assert last.retry_at == pytest.approx(time.time() + expected.waits, abs=30)
    if answers[-1] is not None:
        assert answers[-1].status_code == expected.status
        short = str(expected.waits) if expected.waits and expected.waits <= 5 else None
        assert answers[-1].headers.get("retry-after") == short, "Codex honours it without a cap"


def test_a_model_that_is_down_is_said_at_once(tmp_path: Path) -> None:
    with Gate(tmp_path / "g.sock", Upstream("http://127.0.0.1:1/v1")) as gate, client_of(gate) as client:
        assert ask(client).status_code == 502
    assert gate.answers[0].status is None
    assert "ConnectError" in gate.answers[0].message


@pytest.mark.parametrize("url", ["http://[::1/v1", "nonsense", "ftp://x/v1"])
def test_an_address_that_is_none_is_no_fault_of_the_pull_request(url: str, tmp_path: Path) -> None:
    with Gate(tmp_path / "g.sock", Upstream(url)) as gate, client_of(gate) as client:
        assert ask(client).status_code == 502
    ending = ending_of(gate.answers)
    assert ending is not None
    assert ending.outcome is Outcome.MODEL_UNREACHABLE


def test_one_that_hangs_up_without_a_word(model: Model, gate: Gate, jail: httpx.Client) -> None:
    model.before = lambda _: True
    assert ask(jail).status_code == 502
    assert gate.answers[0].status is None


def test_a_key_that_the_model_repeats_goes_no_further(
    model: Model, gate: Gate, jail: httpx.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    """Into the log, the health, or the jail, where the agent could read it."""
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}.", "code": f"x {KEY}"}}).encode()
    headers = {"content-type": "application/json", "x-request-id": f"a-{KEY}", "x-ratelimit-limit-x": KEY}
    model.answers = [Wire(401, headers, body)]
    answer = ask(jail)
    assert KEY not in answer.text + repr(answer.headers)
    assert answer.json()["error"]["message"] == "Incorrect API key provided: [redacted]."
    assert KEY not in repr(gate.answers)
    ending = ending_of(gate.answers)
    assert ending is not None
    assert KEY not in repr(ending)
    assert KEY not in "".join(capsys.readouterr())


@pytest.mark.parametrize("cut", [1, 5, len(KEY) - 1])
def test_nor_does_one_that_a_stream_cuts_in_two(cut: int, model: Model, gate: Gate, jail: httpx.Client) -> None:
    events = completed(message(f"the key is {KEY}, and again {KEY}"))
    events.append({"type": "response.failed", "response": {"error": {"code": "x", "message": KEY}}})
    whole = sse(events)
    at = whole.index(KEY.encode()) + cut
    arrived = threading.Event()

    def in_two(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.wfile.write(whole[:at])
        arrived.wait(10)
        handler.wfile.write(whole[at:])
        return True

    model.before = in_two
    with jail.stream("POST", "/v1/responses", json={}) as answer:
        parts = answer.iter_raw()
        got = next(parts)
        arrived.set()
        got += b"".join(parts)
    assert got == whole.replace(KEY.encode(), b"[redacted]")
    assert KEY not in repr(gate.answers)


def test_what_is_recorded_of_each_request(model: Model, gate: Gate, jail: httpx.Client) -> None:
    usage = {
        "input_tokens": 1200,
        "input_tokens_details": {"cached_tokens": 1000},
        "output_tokens": 34,
        "output_tokens_details": {"reasoning_tokens": 12},
    }
    end = {"type": "response.completed", "response": {"id": "r", "usage": usage}}
    limits = {"X-RateLimit-Remaining-Tokens": "5", "x-codex-primary-used-percent": "42", "set-cookie": "a=b"}
    model.answers = [
        Wire(200, {"content-type": "text/event-stream", **limits}, sse([end])),
        Wire(429, {"retry-after": "60", **limits}, b'{"error": {"code": "c", "resets_at": 1796041411}}'),
    ]
    ask(jail)
    ask(jail)
    good, bad = gate.answers
    kept = (("x-codex-primary-used-percent", "42"), ("x-ratelimit-remaining-tokens", "5"))
    assert (good.status, good.usage, good.limits) == (200, Usage(1200, 1000, 34, 12), kept)
    assert (bad.status, bad.code, bad.resets_at) == (429, "c", 1796041411.0)
    assert bad.limits == (("retry-after", "60"), *kept)
    assert bad.retry_at == pytest.approx(time.time() + 60, abs=30)


@pytest.mark.parametrize("prefix", ["/openai/v1", "/a/b/c", ""])
def test_the_base_address_may_have_any_path(prefix: str, model: Model, tmp_path: Path) -> None:
    base = model.url.removesuffix("/v1") + prefix
    with Gate(tmp_path / "g.sock", Upstream(base, {"api-key": KEY})) as gate, client_of(gate) as client:
        assert ask(client).status_code == 200
    [(path, headers, _)] = model.requests
    assert (path, headers["api-key"]) == (f"{prefix}/responses", KEY)


BODIES = [b"", b"null", b"[]", b'"text"', b"{}", b'{"error": null}', b'{"error": "text"}', b'{"error": []}', b"\xff",
          b"<html>", b'{"error": {"message": {}, "code": []}}', b"[" * 100_000,
          b'{"error": {"resets_at": "soon", "resets_in_seconds": []}}']  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize(
    "wait", ["", "\xb2", "9" * 5000, "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", "٣", "1e3", "0x1"]
)
def test_a_refusal_of_any_form_is_a_fact(body: bytes, wait: str) -> None:
    fact = refusal(503, {"retry-after": wait}, body, NOW)
    assert fact.status == 503
    assert fact.retry_at is None
    assert fact.resets_at is None
    assert isinstance(fact.code, str)
    assert isinstance(fact.message, str)


def test_when_a_limit_ends() -> None:
    for error, at in (
        ({"resets_at": 5, "resets_in_seconds": 9}, 5.0),
        ({"resets_in_seconds": 9.5}, NOW + 9.5),
        ({"resets_at": True}, None),
        ({"resets_at": None}, None),
        ({"resets_at": 10**400}, None),
        ({"resets_at": float("inf")}, None),
    ):
        assert refusal(429, {}, json.dumps({"error": error}).encode(), NOW).resets_at == at
    assert refusal(429, {"retry-after": "7"}, b"", NOW).retry_at == NOW + 7


def watched(*chunks: bytes) -> Answer:
    watch = SseWatch()
    for chunk in chunks:
        watch.feed(chunk)
    return watch.answer(NOW)


def test_the_end_is_found_however_the_stream_is_cut() -> None:
    for size in (1, 7, 1000):
        body = GOOD.body.replace(b"\n", b"\r\n") if size == 7 else GOOD.body
        assert watched(*(body[i : i + size] for i in range(0, len(body), size))) == Answer(
            200, ended="completed", usage=TOLD
        )


@pytest.mark.parametrize(
    "data",
    [
        '{"type": "response.failed", "response": null}',
        '{"type": "response.failed", "response": []}',
        '{"type": "response.failed", "response": "x"}',
        '{"type": "response.failed", "response": {"error": "x"}}',
        '{"type": "response.failed", "response": {"error": []}}',
        '{"type": "response.failed"}',
        '{"type": "response.failed", "response": {"incomplete_details": "x"}}',
    ],
)
def test_an_end_of_another_form_is_an_end(data: str) -> None:
    assert watched(f"data: {data}\n\n".encode()).ended == "failed"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"data: response.completed\n\n",
        b'data: ["response.completed"]\n\n',
        b'data: "response.completed"\n\n',
        b'data: {"type": "response.output_text.delta", "delta": "response.completed"}\n\n',
        b'event: response.completed\n: {"type": "response.completed"}\n\n',
        b'data: {"type": "response.completed"}',  # cut off: without its line end it was not sent whole
        b"data: response.completed" + b"[" * 100_000 + b"\n\n",
        b"data: [DONE]\n\n",
    ],
)
def test_what_only_looks_like_an_end_is_a_dropped_stream(data: bytes) -> None:
    assert watched(data).ended == "dropped"


def test_a_line_without_an_end_costs_no_memory_without_an_end() -> None:
    watch = SseWatch()
    started = time.thread_time()
    for _ in range(100):
        watch.feed(b"x" * 1_000_000)
    watch.feed(b"\n" + GOOD.body)
    assert watch.answer(NOW).ended == "completed"
    assert time.thread_time() - started < 5
