"""A scripted Responses API for container tests: `python -m container.scripted_model [PORT]`.

It answers as the appliance's own rehearsal model does (which makes Codex run real commands), unless a rule says
otherwise. `POST /_control/rules` adds a rule, a JSON object; the first that fits a request holds for it:

| field  | meaning                                                                                       |
|--------|-----------------------------------------------------------------------------------------------|
| match  | a text that the request must contain, such as a head SHA; without it, all requests fit        |
| times  | for how many requests it holds; without it, for all                                           |
| hold   | true: the answer waits until it is released, and then goes on as the rule says                |
| status, body, headers | an HTTP answer instead of a stream                                             |
| usage  | so many input tokens are told of the answer                                                    |
| answer | `prose`: looks, then answers what is no JSON; `blind`: a fine review without having looked    |
| calls  | what it does, one after the other, before it answers: a text is a command, an object an item   |
| said   | its last message after that: a text as it is, an object as JSON                                |

`DELETE /_control/rules` forgets them all and releases what they hold. `GET /_control/requests` lists what came, in
order: the head it is about, the Authorization header, what commands returned, whether it is held back now.
`GET /_control/bodies` lists the whole requests, as texts.
`GET /_control/sent?needle=…` tells which of the needles came with anything but an Authorization header.
"""

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from appliance import rehearsal

_RANGE = re.compile(r"git diff [0-9a-f]{40} ([0-9a-f]{40})")
NO_INPUT = {
    "error": {
        "message": "Missing required parameter: 'model'.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "missing_required_parameter",
    }
}
BLIND = {"findings": [], "summary": "Fine.", "verdict": "correct", "reasoning": "It looks fine.", "limits": "none"}


@dataclass
class Rule:
    match: str = ""
    times: int | None = None
    hold: bool = False
    status: int | None = None
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    answer: str = ""
    usage: int | None = None
    calls: list[Any] = field(default_factory=list)
    said: Any = None

    def next(self, done: int) -> dict[str, Any]:
        """What it does after `done` calls were answered."""
        if done >= len(self.calls):
            return _message(self.said if isinstance(self.said, str) else json.dumps(self.said or BLIND))
        call = self.calls[done]
        made = {"type": "function_call", "name": "exec_command", "call_id": f"call_{done}"}
        return made | ({"arguments": json.dumps({"cmd": call})} if isinstance(call, str) else call)


@dataclass
class Seen:
    """One request. `outputs`: what the commands of before returned; `held`: the answer waits to be released."""

    head: str
    authorization: str
    outputs: list[str]
    held: bool = False


class Model:
    def __init__(self) -> None:
        self.rules: list[Rule] = []
        self.seen: list[Seen] = []
        self.bodies: list[str] = []
        self.released = asyncio.Event()
        self.sent = ""

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/_control/rules", self._add, methods=["POST"]),
                Route("/_control/rules", self._forget, methods=["DELETE"]),
                Route("/_control/requests", self._requests),
                Route("/_control/bodies", self._bodies),
                Route("/_control/sent", self._sent),
                Route("/v1/responses", self._respond, methods=["POST"]),
            ]
        )

    async def _add(self, request: Request) -> Response:
        self.released.clear()
        self.rules.append(Rule(**await request.json()))
        return JSONResponse({})

    async def _forget(self, _: Request) -> Response:
        self.rules.clear()
        self.released.set()
        return JSONResponse({})

    async def _requests(self, _: Request) -> Response:
        return JSONResponse([asdict(seen) for seen in self.seen])

    async def _bodies(self, _: Request) -> Response:
        return JSONResponse(self.bodies)

    async def _sent(self, request: Request) -> Response:
        return JSONResponse([needle for needle in request.query_params.getlist("needle") if needle in self.sent])

    async def _respond(self, request: Request) -> Response:
        raw = await request.body()
        others = [value for name, value in request.headers.items() if name != "authorization"]
        self.sent += "\n".join([str(request.url), *others, raw.decode()])
        body = json.loads(raw)
        found, items = _RANGE.search(raw.decode()), body.get("input", ())
        seen = Seen(
            head=found.group(1) if found else "",
            authorization=request.headers.get("authorization", ""),
            outputs=[str(item["output"]) for item in items if item.get("type") == "function_call_output"],
        )
        self.seen.append(seen)
        self.bodies.append(raw.decode("utf-8", "replace"))
        rule = self._rule(raw.decode())
        if rule.hold:
            seen.held = True
            await self._wait(request)
            seen.held = False
        if rule.status is not None:
            return JSONResponse(rule.body, rule.status, rule.headers)
        if "input" not in body:  # as the real one, which looks at the key first and then at what is asked
            return JSONResponse(NO_INPUT, 400)
        if rule.calls or rule.said is not None:
            return _stream(rule.next(sum(str(item.get("type")).endswith("_output") for item in items)))
        if rule.answer == "blind":
            return _stream(_message(json.dumps(BLIND)))
        if rule.answer == "prose" and seen.outputs:
            return _stream(_message("Looks good to me!"))
        return await _rehearsal(raw, rule.usage)

    def _rule(self, raw: str) -> Rule:
        for rule in self.rules:
            if rule.match in raw and rule.times != 0:
                if rule.times is not None:
                    rule.times -= 1
                return rule
        return Rule()

    async def _wait(self, request: Request) -> None:
        """Until it is released, or the other side is gone."""
        while not self.released.is_set() and not await request.is_disconnected():
            await asyncio.sleep(0.05)


async def _rehearsal(raw: bytes, usage: int | None) -> Response:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=rehearsal.app()), base_url="http://script"
    ) as client:
        answer = await client.post("/v1/responses", content=raw)
    content = answer.content
    if usage is not None:
        content = re.sub(rb'"input_tokens": \d+', b'"input_tokens": %d' % usage, content)
    return Response(content, answer.status_code, media_type="text/event-stream")


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "id": "msg_1", "content": content}


def _stream(item: Mapping[str, Any]) -> Response:
    """An answer of one item, as server-sent events."""
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 10, "output_tokens": 10, "total_tokens": 20, **details}
    events: list[Mapping[str, Any]] = [
        {"type": "response.created", "response": {"id": "resp_1"}},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
    ]
    lines = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Response(lines, media_type="text/event-stream")


def main() -> None:
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    uvicorn.run(Model().app(), host="0.0.0.0", port=port, log_level="warning")


if __name__ == "__main__":
    main()
