"""The scripted model, and the book of what it really said: the truth that a gate is held against.

A script is a list of steps, one for each request; the last repeats. A step is the name of an ANSWER, which looks first
and then says it, or an answer of the API as `model-failures.json` spells it.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import httpx

_RANGE = re.compile(r"git diff ([0-9a-f]{40}) ([0-9a-f]{40})")
_PART = re.compile(r"this is pass (\d+) of (\d+)\.")
_LISTED = re.compile(r"## Changed files: .*\n((?:- .*\n)*)")
_PATH = re.compile(r'- \S+ ("(?:[^"\\]|\\.)*")')
_EARLIER = re.compile(r"- (E\d+) at [0-9a-f]{40}: (\{.*\})")
TRIMMED = "its diff is large: read only the first"
SSE = {"content-type": "text/event-stream"}
Step = str | Mapping[str, Any]


def failures(now: float) -> dict[str, list[Mapping[str, Any]]]:
    """How the real API fails, by name; moments of a reset are an hour after `now`."""
    text = files("appliance.trials").joinpath("model-failures.json").read_text(encoding="utf-8")
    text = re.sub(r'("resets_at": |"x-codex-primary-reset-at": ")\d+', rf"\g<1>{int(now) + 3600}", text)
    found: dict[str, list[Mapping[str, Any]]] = json.loads(text)
    return found


def _finding(priority: int, path: str = "app.py", line: int = 2, title: str = "A defect") -> dict[str, Any]:
    told = {"title": title, "body": "What goes wrong.", "priority": priority, "confidence": 0.9, "path": path}
    return {**told, "line_start": line, "line_end": line, "side": "RIGHT", "suggestion": None}


def _result(verdict: str, *findings: dict[str, Any], **more: Any) -> dict[str, Any]:
    told = {"findings": list(findings), "earlier": [], "summary": "{token}", "verdict": verdict}
    return {**told, "reasoning": "It was read.", "limits": "Nothing was run.", **more}


@dataclass(frozen=True)
class Answer:
    """`truth`: what a gate may make of it, `success`, `failure` or `error`; empty if it is no review at all.

    `looks`: it runs a command first. `earlier`: what it says of each finding of an earlier head, with the commit
    (`{head}` is the head) and the evidence.
    """

    said: str | dict[str, Any]
    truth: str = ""
    looks: bool = True
    earlier: tuple[str, str, str] | None = None

    @property
    def blocks(self) -> frozenset[str]:
        """The titles of what it finds and must be fixed."""
        found = self.said["findings"] if isinstance(self.said, dict) and self.truth else []
        return frozenset(each["title"] for each in found if each["priority"] <= 1)

    def text(self, token: str, asked: Collection[str], head: str) -> str:
        said = self.said
        if isinstance(said, dict) and self.earlier:
            state, commit, evidence = self.earlier
            told = {"state": state, "commit": commit.replace("{head}", head), "evidence": evidence}
            said = said | {"earlier": [{"id": name, **told} for name in asked]}
        return (said if isinstance(said, str) else json.dumps(said)).replace("{token}", token)


_CUT = json.dumps(_result("correct"))
ANSWERS = {
    "clean": Answer(_result("correct"), "success"),
    "only notes": Answer(_result("correct", _finding(3), _finding(2)), "success"),
    "P0": Answer(_result("incorrect", _finding(0)), "failure"),
    "P1": Answer(_result("incorrect", _finding(1)), "failure"),
    "P1, verdict correct": Answer(_result("correct", _finding(1)), "failure"),
    "incorrect, no finding": Answer(_result("incorrect"), "failure"),
    "inconclusive": Answer(_result("inconclusive"), "error"),
    "line 9999": Answer(_result("incorrect", _finding(1, line=9999)), "failure"),
    "nine good anchors and a bad one": Answer(
        _result("incorrect", *[_finding(1, title=f"T{n}") for n in range(9)], _finding(1, "no/such.py", 7)), "failure"
    ),
    "70,000 characters": Answer(_result("incorrect", _finding(1), reasoning="long " * 14_000), "failure"),
    "a marker of its own": Answer(
        _result("incorrect", _finding(1), limits="<!-- review-appliance:v1 e30= " + "0" * 64 + " -->"), "failure"
    ),
    "prose": Answer("Looks good to me, {token}!"),
    "fenced": Answer("```json\n" + _CUT + "\n```"),
    "fenced, cut off": Answer("```json\n" + _CUT[: len(_CUT) // 2]),
    "cut off": Answer(_CUT[: len(_CUT) // 2]),
    "empty object": Answer("{}"),
    "null": Answer("null"),
    "a list": Answer("[]"),
    "findings null": Answer(_result("correct") | {"findings": None}),
    "findings missing": Answer({k: v for k, v in _result("correct").items() if k != "findings"}),
    "priority P9": Answer(_result("correct", _finding(9))),
    "priority as text": Answer(_result("incorrect", _finding(0) | {"priority": "P0"})),
    "verdict approve": Answer(_result("approve")),
    "two objects": Answer(_CUT + _CUT),
    "empty": Answer(""),
    "blind": Answer(_result("correct"), looks=False),
    "resolved": Answer(_result("correct"), "success", earlier=("resolved", "{head}", "The line is gone.")),
    "obsolete": Answer(_result("correct"), "success", earlier=("obsolete", "", "It is code of another kind now.")),
    "still open": Answer(_result("correct"), "success", earlier=("open", "", "It is there.")),
    "resolved, without evidence": Answer(_result("correct"), "success", earlier=("resolved", "{head}", " ")),
    "resolved in no commit": Answer(_result("correct"), "success", earlier=("resolved", "f" * 40, "It is gone.")),
    "unable to review": Answer(_result("correct", reasoning="I am unable to review: bwrap failed."), "success"),
}


@dataclass(frozen=True)
class Said:
    """A whole answer that went out: for which head and merge base, and whether a command had worked before it.

    `part` of `parts` passes, over `files` (`trimmed`: not the whole of each); `asked` are the titles of the findings of
    earlier heads that it was asked about.
    """

    at: int
    token: str
    answer: Answer
    head: str
    merge_base: str
    looked: bool
    part: int
    parts: int
    files: frozenset[str]
    trimmed: bool
    asked: frozenset[str]

    @property
    def valid(self) -> bool:
        return bool(self.answer.truth) and self.looked

    @property
    def resolves(self) -> frozenset[str]:
        """The titles of what it shows to be no more: with evidence, and a commit that there is."""
        state, commit, evidence = self.answer.earlier or ("open", "", "")
        shown = bool(evidence.strip()) and (state == "obsolete" or (state == "resolved" and commit == "{head}"))
        return self.asked - self.answer.blocks if shown else frozenset()


@dataclass
class Model(httpx.AsyncBaseTransport):
    """What the model gate sends its requests to.

    `script` holds for all; `by_base` for the merge bases that stand in it. `on_ask` is called when a review begins.
    `works`: whether commands of the agent do.
    """

    tick: Callable[[], int]
    script: Sequence[Step] = ("clean",)
    by_base: dict[str, str] = field(default_factory=dict)
    works: bool = True
    usage: int = 10
    book: list[Said] = field(default_factory=list)
    asked: int = 0
    on_ask: Callable[[], None] = lambda: None
    _next: int = 0

    def play(self, *script: Step) -> None:
        self.script, self._next = script, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raw = (await request.aread()).decode()
        body = json.loads(raw)
        self.asked += 1
        outputs = [item for item in body["input"] if str(item.get("type")).endswith("_output")]
        if not outputs:
            self.on_ask()
        found = _RANGE.search(raw)
        merge_base, head = found.groups() if found else ("", "")
        step: Step = self.by_base.get(merge_base) or self.script[min(self._next, len(self.script) - 1)]
        if isinstance(step, str):
            answer = ANSWERS[step]
            if answer.looks and not outputs:
                command = {"cmd": f"git diff {merge_base} {head}"}
                return _stream(_completed(_call("exec_command", command), self.usage))
            self._next += 1
            prompt = "\n".join(_texts(body["input"]))
            part = _PART.search(prompt)
            listed = _LISTED.search(prompt)
            earlier = {name: json.loads(told)["title"] for name, told in _EARLIER.findall(prompt)}
            said = Said(
                at=self.tick(),
                token=f"trial-{len(self.book)}-{head[:8]}",
                answer=answer,
                head=head,
                merge_base=merge_base,
                looked=self.works and bool(outputs),
                part=int(part[1]) if part else 1,
                parts=int(part[2]) if part else 1,
                files=frozenset(map(json.loads, _PATH.findall(listed[1] if listed else ""))),
                trimmed=TRIMMED in prompt,
                asked=frozenset(earlier.values()),
            )
            self.book.append(said)
            return _stream(_completed(_message(answer.text(said.token, earlier, head)), self.usage))
        self._next += 1
        return _wire(step, self.usage)


def _wire(step: Mapping[str, Any], usage: int) -> httpx.Response:
    """An answer as model-failures.json spells it: an error, a list of events, a text, or a call of a tool."""
    if step.get("refused"):
        raise httpx.ConnectError("connection refused")
    if "status" in step:
        headers = {"content-type": "application/json", **step.get("headers", {})}
        return httpx.Response(step["status"], headers=headers, stream=_Bytes(json.dumps(step["body"]).encode()))
    if "sse" in step:
        return _stream(step["sse"])
    if "fn" in step:
        return _stream(_completed(_call(step["fn"], step["args"]), usage))
    if "custom" in step:
        item = {"type": "custom_tool_call", "name": step["custom"], "input": step["input"], "call_id": "c1"}
        return _stream(_completed(item, usage))
    events = _completed(_message(step["text"]), usage)
    return _stream(events[:2], drop=True) if step.get("drop") else _stream(events)


def _texts(items: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for item in items:
        for part in item.get("content") or ():
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                yield part["text"]


class _Bytes(httpx.AsyncByteStream):
    def __init__(self, content: bytes, *, drop: bool = False) -> None:
        self._content, self._drop = content, drop

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content
        if self._drop:
            raise httpx.ReadError("the connection broke")


def _stream(events: Sequence[Mapping[str, Any]], *, drop: bool = False) -> httpx.Response:
    text = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
    return httpx.Response(200, headers=SSE, stream=_Bytes(text.encode(), drop=drop))


def _message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "id": "m1", "content": [{"type": "output_text", "text": text}]}


def _call(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function_call", "name": name, "arguments": json.dumps(arguments), "call_id": "c1"}


def _completed(item: Mapping[str, Any], tokens: int) -> list[dict[str, Any]]:
    usage = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}  # type: ignore[dict-item]
    return [
        {"type": "response.created", "response": {"id": "r1"}},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": "r1", "usage": usage}},
    ]
