"""The schema that the reviewer's answer must fit, and the local check of it.

Codex sends the schema to the model and checks nothing: prose comes back with exit code 0 (CODEX 1.9).
"""

import json
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from appliance.core.findings import EarlierAnswer, EarlierState, Finding, Result, Side

CHECKOUT = "/checkout/"

SCHEMA: dict[str, object] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["findings", "earlier", "summary", "verdict", "reasoning", "limits"],
    "properties": {
        "findings": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": [
                    *("title", "body", "priority", "confidence", "path", "line_start", "line_end"),
                    *("side", "suggestion"),
                ],
                "properties": {
                    "title": {"type": "string"},
                    "body": {"type": "string"},
                    "priority": {"type": "integer", "minimum": 0, "maximum": 3},
                    "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                    "path": {"type": "string"},
                    "line_start": {"type": "integer"},
                    "line_end": {"type": "integer"},
                    "side": {"type": "string", "enum": ["RIGHT", "LEFT"]},
                    "suggestion": {"type": ["string", "null"]},
                },
            },
        },
        "earlier": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["id", "state", "commit", "evidence"],
                "properties": {
                    "id": {"type": "string"},
                    "state": {"type": "string", "enum": ["open", "resolved", "obsolete"]},
                    "commit": {"type": ["string", "null"]},
                    "evidence": {"type": "string"},
                },
            },
        },
        "summary": {"type": "string"},
        "verdict": {"type": "string", "enum": ["correct", "incorrect", "inconclusive"]},
        "reasoning": {"type": "string"},
        "limits": {"type": "string"},
    },
}


class InvalidResult(ValueError):
    """The answer is not a review; the message says why, in words that the model can act on."""


def _joined(value: object) -> object:
    """A list of limits says the same as their sentences in one text."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return "; ".join(value)
    return value


class _Finding(BaseModel):
    model_config = ConfigDict(strict=True)
    title: str = Field(min_length=1)
    body: str
    priority: int = Field(ge=0, le=3)
    confidence: float = Field(ge=0, le=1)
    path: str = Field(min_length=1)
    line_start: int
    line_end: int
    side: Side = "RIGHT"
    suggestion: str | None = None


class _Earlier(BaseModel):
    model_config = ConfigDict(strict=True)
    id: str
    state: EarlierState
    commit: str | None = None
    evidence: str = ""


class _Result(BaseModel):
    model_config = ConfigDict(strict=True)
    findings: list[_Finding]
    earlier: list[_Earlier] = []
    summary: str
    verdict: Literal["correct", "incorrect", "inconclusive"]
    reasoning: str
    limits: Annotated[str, BeforeValidator(_joined)]


def parse_result(text: str) -> Result:
    """The review in the reviewer's last message. Raises InvalidResult."""
    if not text.strip():
        raise InvalidResult("there was no answer")
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError) as error:  # a hundred thousand brackets are the model's fault, not ours
        raise InvalidResult(f"the answer is not JSON: {error}") from None
    try:
        checked = _Result.model_validate(answer)
    except ValidationError as error:
        problems = [f"{'.'.join(str(part) for part in e['loc']) or 'answer'}: {e['msg']}" for e in error.errors()[:5]]
        raise InvalidResult(f"the answer does not fit the schema: {'; '.join(problems)}") from None
    return Result(
        verdict=checked.verdict,
        summary=_storable(checked.summary),
        reasoning=_storable(checked.reasoning),
        limits=_storable(checked.limits),
        findings=tuple(_finding(finding) for finding in checked.findings),
        earlier=tuple(
            EarlierAnswer(each.id, each.state, _storable(each.commit or ""), _storable(each.evidence))
            for each in checked.earlier
        ),
    )


def _finding(found: _Finding) -> Finding:
    first, last = sorted((max(1, found.line_start), max(1, found.line_end)))
    body, path = _storable(found.body), _relative(_storable(found.path))
    return Finding(
        title=_storable(found.title),
        body=body,
        priority=found.priority,
        confidence=found.confidence,
        path=path,
        line_start=first,
        line_end=last,
        side=found.side,
        suggestion=_as_given(found.suggestion),
    )


def _as_given(suggestion: str | None) -> str | None:
    """A change is committed as it stands, or not proposed at all."""
    return suggestion if suggestion is None or _storable(suggestion) == suggestion else None


def _storable(text: str) -> str:
    """JSON may spell half a character (`\\ud800`); no file, terminal or forge takes one."""
    return text.encode("utf-8", "replace").decode()


def _relative(path: str) -> str:
    """The path in the repository; the agent sees the checkout at /checkout and may name files by that."""
    path = path.removeprefix(CHECKOUT)
    return str(PurePosixPath(path)) if not path.startswith("/") else path
