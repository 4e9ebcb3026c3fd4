"""What a request to the model may ask for: nothing that makes the provider's servers reach out for it.

Hosted tools (a web search, a remote MCP server) and addresses of pictures or files are fetched by the provider, so they
would be a way out for whoever has taken over Codex in its jail; what is kept at the provider is not in the request, so
no budget can see its size.
"""

import json
from collections.abc import Iterator
from typing import Any

OUR_TOOLS = {"function", "custom", "local_shell", "namespace"}  # run by Codex itself
KEPT_THERE = ("previous_response_id", "conversation", "prompt", "background")
FETCHED = ("image_url", "file_url", "file_id")
MAX_DEPTH = 200
MAX_VALUES = 4_000_000  # of which each takes some hundred bytes of memory, however few of the request


class _Twice(ValueError):
    pass


def objection(body: bytes, model: str = "") -> str:
    """Why a request with this body is not sent; empty if it may be. `model` is the only one to be asked, if given."""
    if sum(body.count(mark) for mark in (b"[", b"{", b",")) > MAX_VALUES:
        return "it has too many values"
    try:
        asked = json.loads(body, object_pairs_hook=_once)
    except _Twice as error:  # of two readers each might take another
        return f"the key {error} stands there twice"
    except (ValueError, RecursionError):
        return "it is no JSON"
    if not isinstance(asked, dict):
        return "it is no JSON object"
    if model and asked.get("model", model) != model:
        return f"another model: {str(asked['model'])[:80]}"
    kept = next((name for name in KEPT_THERE if asked.get(name)), None)
    if kept:
        return f"{kept}, which is kept by the provider"
    tools, inputs = asked.get("tools") or [], asked.get("input") or []
    return next(_hosted(tools, MAX_DEPTH), "") or next(_fetched(inputs, MAX_DEPTH), "")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Twice(next(name for name in names if names.count(name) > 1)[:80])
    return found


def _hosted(tools: Any, depth: int) -> Iterator[str]:
    """Each tool that is not run by Codex itself."""
    for tool in tools if isinstance(tools, list) else [tools]:
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind not in OUR_TOOLS:
            yield f"a tool that the provider runs: {str(kind)[:80]}"
        elif kind == "namespace" and not depth:
            yield "tools nested too deeply"
        elif kind == "namespace":
            yield from _hosted(tool.get("tools") or [], depth - 1)


def _fetched(value: Any, depth: int) -> Iterator[str]:
    """Each part of the input that the provider would fetch from somewhere."""
    if not depth:
        yield "it is nested too deeply"
    elif isinstance(value, dict):
        for name, part in value.items():
            if name in FETCHED and part is not None and not _is_data(part):
                yield f"{name}, which the provider fetches"
            if name == "tools":  # an item of a search for tools brings some of its own
                yield from _hosted(part or [], depth - 1)
            yield from _fetched(part, depth - 1)
        if value.get("type") in ("item_reference", "mcp_call", "mcp_approval_response"):
            yield f"{value['type']}, which is kept by the provider"
    elif isinstance(value, list):
        for part in value:
            yield from _fetched(part, depth - 1)


def _is_data(part: Any) -> bool:
    """Whether the picture itself stands there, in either form: a text, or an object with a `url`."""
    told = part.get("url") if isinstance(part, dict) else part
    return isinstance(told, str) and told.startswith("data:")
