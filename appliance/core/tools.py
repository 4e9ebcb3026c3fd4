"""What the model is told of its commands, read from a request to the Responses API."""

import json
import re
from collections.abc import Iterator

from appliance.core.events import Command

_REPORT = re.compile(r"Process exited with code (-?\d+)\n(?:.*\n)*?Output:\n(.*)", re.DOTALL)


def tool_outputs(body: bytes) -> Iterator[Command]:
    """The commands of the model in one request, with their outputs; nothing for a body of another form."""
    try:
        items = [item for item in json.loads(body)["input"] if isinstance(item, dict)]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    calls = {item.get("call_id"): item for item in items if item.get("type") == "function_call"}
    for item in items:
        call = calls.get(item.get("call_id"))
        if item.get("type") == "function_call_output" and call is not None:
            found = _REPORT.search(_text(item.get("output")))
            if found:
                code = int(found[1])
                status = "completed" if code == 0 else "failed"
                yield Command(str(call.get("arguments") or ""), found[2], code, status)


def _text(output: object) -> str:
    if isinstance(output, list):
        return "\n".join(str(part.get("text", "")) for part in output if isinstance(part, dict))
    return str(output or "")
