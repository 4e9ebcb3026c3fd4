"""The rehearsal model: a scripted model that speaks the Responses API.

It makes Codex run real commands in its sandbox and answers from what they returned, so a rehearsal shows that the
whole chain works: jail, relay, gate, Codex, sandbox, schema. It judges nothing but the kinds of defect listed here,
and is never used once a forge is configured.
"""

import json
import re
import shlex
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from appliance.gate import Upstream
from appliance.settings import REHEARSAL_MODEL

_RANGE = re.compile(r"git diff ([0-9a-f]{40,64}) ([0-9a-f]{40,64})")
# What stands in it is a JSON string on one line: no author and no model can write a line of this form.
_EARLIER = re.compile(r"^- (E\d{1,3}) at [0-9a-f]{40,64}: (\{.*\})$", re.MULTILINE)
_HUNK = re.compile(r"^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


@dataclass(frozen=True)
class Defect:
    """A kind of defect that one added line shows."""

    pattern: re.Pattern[str]
    title: str
    body: str
    priority: int


DEFECTS = (
    Defect(
        re.compile(r"range\(\s*len\(\s*\w+\s*\)\s*-\s*1\s*\)"),
        "The last element is left out",
        "The loop ends one element early, so the last element is never taken into account: with one element nothing "
        "happens at all.",
        1,
    ),
    Defect(
        re.compile(r"\bif\s+quantity\s*>(?!=)"),
        "The boundary itself is left out",
        "The comparison is strict, so a value exactly at the boundary is treated as below it, although the boundary "
        "is meant to belong to the range above.",
        1,
    ),
    Defect(
        re.compile(r"except\s*(?:Exception|BaseException)?\s*:\s*(?:pass\s*)?(?:#.*)?$"),
        "Every error is swallowed",
        "The handler takes every exception and goes on, so a failure looks like success to the caller.",
        2,
    ),
)


def upstream() -> Upstream:
    """The way to the rehearsal model for the model gate: in this process, without a key and without a network."""
    return Upstream("http://rehearsal/v1", transport=httpx.ASGITransport(app=app()))


def app() -> Starlette:
    return Starlette(routes=[Route("/v1/responses", _respond, methods=["POST"])])


async def _respond(request: Request) -> Response:
    body = await request.json()
    events = list(_events(_next(body), body))
    text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Response(text, media_type="text/event-stream")


def _next(body: Mapping[str, Any]) -> dict[str, Any]:
    """The next step of the conversation: look at the diff, read each changed file, then answer."""
    outputs = [_text(item.get("output")) for item in body["input"] if item.get("type") == "function_call_output"]
    found = _RANGE.search(_prompt(body["input"]))
    if found is None:
        return _answer("inconclusive", "The prompt names no range of commits.", [])
    merge_base, head = found.groups()
    if not outputs:
        return _command(f"git diff {merge_base} {head}")
    added = list(added_lines(outputs[0]))
    if not added:
        return _answer("inconclusive", "The diff could not be read, or it is empty.", [])
    findings = [finding for path, line, text in added for finding in _judge(path, line, text)]
    if len(outputs) == 1:  # like a reviewer, look at the whole file before judging
        return _command(f"cat -n -- {shlex.quote(findings[0]['path'] if findings else added[0][0])}")
    files = sorted({path for path, _, _ in added})
    summary = f"The change adds {len(added)} lines in {', '.join(files)}."
    earlier = [_became(name, told, added, findings, head) for name, told in _asked(_prompt(body["input"]))]
    return _answer("incorrect" if findings else "correct", summary, findings, earlier)


def _asked(prompt: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The earlier findings that it is asked of, by their ids."""
    for name, told in _EARLIER.findall(prompt):
        yield name, json.loads(told)


def _became(
    name: str,
    told: Mapping[str, Any],
    added: list[tuple[str, int, str]],
    findings: list[dict[str, Any]],
    head: str,
) -> dict[str, Any]:
    """Open while the diff shows it; of another kind than those that are known here, nobody can say."""
    path, title = told["path"], told["title"]
    renamed = path not in {path for path, _, _ in added}
    there = any(each["title"] == title and (renamed or each["path"] == path) for each in findings)
    if there or title not in {defect.title for defect in DEFECTS}:
        evidence = "An added line shows it still." if there else "It is of no kind that this script knows."
        return {"id": name, "state": "open", "commit": None, "evidence": evidence}
    evidence = f"None of the lines that the diff adds to {path} shows it."
    return {"id": name, "state": "resolved", "commit": head, "evidence": evidence}


def added_lines(diff: str) -> Iterator[tuple[str, int, str]]:
    """Path, line number on the new side and text of each added line of a unified diff."""
    path, line = "", 0
    for row in diff.splitlines():
        if row.startswith("+++ "):
            path = row[4:].removeprefix("b/")
        elif hunk := _HUNK.match(row):
            line = int(hunk.group(1))
        elif path and line and row.startswith("+"):
            yield path, line, row[1:]
            line += 1
        elif path and line and row.startswith(" "):
            line += 1


def _judge(path: str, line: int, text: str) -> Iterator[dict[str, Any]]:
    for defect in DEFECTS:
        if defect.pattern.search(text):
            yield {
                "title": defect.title,
                "body": f"{defect.body} The line: `{text.strip()[:200]}`",
                "priority": defect.priority,
                "confidence": 0.9,
                "path": path,
                "line_start": line,
                "line_end": line,
                "side": "RIGHT",
                "suggestion": None,
            }


def _answer(
    verdict: str, summary: str, findings: list[dict[str, Any]], earlier: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    result = {
        "findings": findings,
        "summary": summary,
        "verdict": verdict,
        "reasoning": f"{len(findings)} of the kinds of defect that this script knows were found in the added lines.",
        "earlier": list(earlier),
        "limits": "A rehearsal: only the added lines were compared with a few known kinds of defect; nothing was run.",
    }
    content = [{"type": "output_text", "text": json.dumps(result)}]
    return {"type": "message", "role": "assistant", "id": f"msg_{uuid.uuid4().hex[:8]}", "content": content}


def _command(command: str) -> dict[str, Any]:
    return {
        "type": "function_call",
        "name": "exec_command",
        "arguments": json.dumps({"cmd": command}),
        "call_id": f"call_{uuid.uuid4().hex[:8]}",
    }


def _events(item: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    response = f"resp_{uuid.uuid4().hex[:8]}"
    tokens_in, tokens_out = len(json.dumps(body)) // 4, len(json.dumps(item)) // 4
    usage = {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens_in + tokens_out,
    }
    yield {"type": "response.created", "response": {"id": response, "model": REHEARSAL_MODEL}}
    yield {"type": "response.output_item.done", "item": item}
    yield {"type": "response.completed", "response": {"id": response, "usage": usage}}


def _prompt(items: list[Mapping[str, Any]]) -> str:
    return "\n".join(_text(item.get("content")) for item in items if item.get("role") == "user")


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return ""
