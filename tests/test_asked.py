"""What Codex, taken over in its jail, may make the provider do: nothing but think."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from model_server import Model, client_of

from appliance.core.asked import MAX_DEPTH, MAX_VALUES, objection
from appliance.core.outcomes import Outcome
from appliance.core.upstream import ending_of
from appliance.gate import Gate, Upstream

USUAL: dict[str, Any] = {
    "model": "gpt-5.5",
    "stream": True,
    "store": False,
    "tools": [
        {"type": "function", "name": "exec_command", "parameters": {"properties": {"url": {"type": "string"}}}},
        {"type": "custom", "name": "apply_patch"},
        {"type": "namespace", "tools": [{"type": "function", "name": "f"}]},
    ],
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": '{"image_url": "http://x"}'}]},
        {"type": "function_call", "name": "f", "arguments": '{"url": "http://x"}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": [
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
        {"type": "reasoning", "encrypted_content": "x", "summary": []},
    ],
}  # fmt: skip


def changed(**keys: Any) -> bytes:
    return json.dumps(USUAL | keys).encode()


def content(**part: Any) -> list[Any]:
    return [{"type": "message", "role": "user", "content": [part]}]


def test_what_codex_asks_for_is_let_through() -> None:
    assert objection(changed()) == ""
    assert objection(changed(), "gpt-5.5") == ""
    assert objection(b"{}", "gpt-5.5") == ""


HOSTED = ["web_search", "web_search_preview", "mcp", "file_search", "code_interpreter", "computer_use_preview",
          "image_generation", "shell", "tool_search", "", None, 5]  # fmt: skip
REFUSED = [
    *(changed(tools=[*USUAL["tools"], {"type": kind, "server_url": "https://evil.example"}]) for kind in HOSTED),
    changed(tools=[{"type": "namespace", "tools": [{"type": "web_search"}]}]),
    changed(tools={"type": "web_search"}),
    changed(tools=["web_search"]),
    changed(model="gpt-6-pro"),
    changed(model=["gpt-5.5"]),
    changed(previous_response_id="resp_1"),
    changed(conversation={"id": "c"}),
    changed(prompt={"id": "p"}),
    changed(background=True),
    changed(input=content(type="input_image", image_url="https://evil.example/?secret")),
    changed(input=content(type="input_image", image_url="HTTPS://evil.example")),
    changed(input=content(type="image_url", image_url={"url": "https://evil.example"})),
    changed(input=content(type="input_image", image_url={"url": "data:,x", "image_url": "http://x"})),
    changed(input=content(type="input_file", file_url="https://evil.example")),
    changed(input=content(type="input_file", file_id="file-1")),
    changed(input=[{"type": "item_reference", "id": "x"}]),
    changed(input={"content": {"image_url": "http://x"}}),
    # Python takes the last of two; another reader may take the first.
    b'{"tools": [{"type": "web_search"}], "tools": []}',
    b'{"input": [{"image_url": "http://x", "image_url": "data:,"}]}',
    b'{"tools": [{"type": "mcp", "\\u0074ype": "function"}]}',
    b"[]",
    b"null",
    b"",
    b"input=x",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"input": ' + b"[" * 500 + b"]" * 500 + b"}",
]


@pytest.mark.parametrize("body", REFUSED, ids=range(len(REFUSED)))
def test_what_would_reach_out_or_is_kept_elsewhere_is_not(body: bytes) -> None:
    why = objection(body, "gpt-5.5")
    assert why
    assert len(why) < 200


def test_the_gate_sends_none_of_it_and_says_so(model: Model, tmp_path: Path) -> None:
    with Gate(tmp_path / "g.sock", Upstream(model.url, model="gpt-5.5")) as gate, client_of(gate) as client:
        for body in REFUSED:
            assert client.post("/v1/responses", content=body).status_code == 400
        assert client.post("/v1/responses", content=changed()).status_code == 200
    assert len(model.requests) == 1
    ending = ending_of(gate.answers[:-1])
    assert ending is not None
    assert ending.fault is not None
    assert (ending.outcome, ending.fault.cause) == (Outcome.WORKSTATION, "model-request"), (
        "ours, not the pull request's"
    )


def test_what_is_too_deep_to_be_looked_at_is_not_let_through() -> None:
    tools: list[dict[str, Any]] = [{"type": "web_search"}]
    for depth in range(MAX_DEPTH + 50):
        assert objection(changed(tools=tools)), f"in {depth} namespaces"
        tools = [{"type": "namespace", "name": "n", "tools": tools}]


def test_tools_that_an_item_brings_are_looked_at_too() -> None:
    def found(kind: str) -> bytes:
        item = {"type": "tool_search_output", "call_id": "c1", "tools": [{"type": kind, "name": "f"}]}
        return changed(input=[item])

    assert objection(found("function")) == ""
    assert "mcp" in objection(found("mcp"))


def test_a_request_of_many_small_values_is_not_even_read() -> None:
    begun = time.thread_time()
    assert objection(b'{"input": [' + b"[]," * MAX_VALUES + b"[]]}") == "it has too many values"
    assert time.thread_time() - begun < 1


def test_looking_at_a_large_request_takes_no_time(jail: httpx.Client) -> None:
    body = changed(input=content(type="input_text", text="x = 1\n" * 300_000))
    started = time.thread_time()
    assert objection(body) == ""
    assert time.thread_time() - started < 1
