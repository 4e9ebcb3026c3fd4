"""How the model's API fails: the cases of data/model-failures.json, each with what it has to come to."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.core.outcomes import Outcome

Step = Mapping[str, Any]
CASES: Mapping[str, Sequence[Step]] = json.loads(
    Path(__file__).with_name("data").joinpath("model-failures.json").read_text()
)
RESETS_AT, RESETS_LATER = 1_796_041_411.0, 1_796_050_000.0


@dataclass(frozen=True)
class Expected:
    """`status`, `code` and `ended` of the last answer, and the outcome of a run that ends with it."""

    status: int
    code: str
    ended: str
    outcome: Outcome
    resets_at: float | None = None
    waits: int | None = None  # seconds of Retry-After


U, C, T = Outcome.MODEL_UNREACHABLE, Outcome.CONTEXT, Outcome.TURN_FAILED
EXPECTED = {
    "e401": Expected(401, "invalid_api_key", "none", Outcome.LOGIN),
    "e403": Expected(403, "forbidden", "none", Outcome.LOGIN),
    "e404": Expected(404, "model_not_found", "none", Outcome.MODEL_REFUSED),
    "e400": Expected(400, "bad", "none", T),
    "e400ctx": Expected(400, "context_length_exceeded", "none", C),
    "e429": Expected(429, "rate_limit_exceeded", "none", U),
    "e429ra": Expected(429, "rate_limit_exceeded", "none", U, waits=2),
    "e429once": Expected(200, "", "completed", Outcome.MODEL_OUTPUT),
    "ra60": Expected(429, "rate_limit_exceeded", "none", U, waits=60),
    "ra300": Expected(429, "rate_limit_exceeded", "none", U, waits=300),
    "ra3600": Expected(429, "rate_limit_exceeded", "none", U, waits=3600),
    "usage": Expected(429, "usage_limit_reached", "none", Outcome.QUOTA, RESETS_AT),
    "usagemid": Expected(429, "usage_limit_reached", "none", Outcome.QUOTA, RESETS_LATER),
    "notincl": Expected(429, "usage_not_included", "none", Outcome.QUOTA),
    "quota429": Expected(429, "insufficient_quota", "none", Outcome.QUOTA),
    "e500": Expected(500, "server_error", "none", U),
    "e500once": Expected(200, "", "completed", Outcome.MODEL_OUTPUT),
    "e503": Expected(503, "server_is_overloaded", "none", U),
    "e503ra": Expected(503, "", "none", U, waits=3),
    "drop": Expected(200, "", "dropped", U),
    "droponce": Expected(200, "", "completed", Outcome.MODEL_OUTPUT),
    "stall": Expected(200, "", "dropped", U),
    "f_ctx": Expected(200, "context_length_exceeded", "failed", C),
    "f_rate": Expected(200, "rate_limit_exceeded", "failed", U),
    "f_over": Expected(200, "server_is_overloaded", "failed", U),
    "f_srv": Expected(200, "server_error", "failed", U),
    "f_quota": Expected(200, "insufficient_quota", "failed", Outcome.QUOTA),
    "f_inv": Expected(200, "invalid_prompt", "failed", T),
    "incomplete": Expected(200, "", "incomplete", T),
    "nomsg": Expected(200, "", "completed", Outcome.MODEL_OUTPUT),
    "badjson": Expected(200, "", "completed", Outcome.MODEL_OUTPUT),
    "badtool": Expected(200, "", "completed", Outcome.MODEL_OUTPUT),
    "escal": Expected(200, "", "completed", Outcome.MODEL_OUTPUT),
    "patch": Expected(200, "", "completed", Outcome.MODEL_OUTPUT),
    "e401mid": Expected(401, "", "none", Outcome.LOGIN),
}


@dataclass(frozen=True)
class Wire:
    """One answer as it goes over the wire; `drop`: the connection ends in the middle of the stream."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    drop: bool = False


def wire(step: Step) -> Wire:
    """What the step looks like on the wire. Steps: an error, a list of events, a text, or a call of a tool."""
    if "status" in step:
        headers = {"content-type": "application/json", **step.get("headers", {})}
        return Wire(step["status"], headers, json.dumps(step["body"]).encode())
    return Wire(200, {"content-type": "text/event-stream"}, sse(_events(step)), bool(step.get("drop")))


def sse(events: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events).encode()


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "id": "m1", "content": [{"type": "output_text", "text": text}]}


def completed(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": "r1", "usage": usage}},
    ]


def _events(step: Step) -> list[Any]:
    if "sse" in step:
        return list(step["sse"])
    if "fn" in step:
        call = {"type": "function_call", "name": step["fn"], "arguments": json.dumps(step["args"]), "call_id": "c1"}
        return completed(call)
    if "custom" in step:
        return completed({"type": "custom_tool_call", "name": step["custom"], "input": step["input"], "call_id": "c1"})
    events = completed(message(step["text"]))
    return events[:2] if step.get("drop") else events
