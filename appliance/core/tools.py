"""What the model is told of its commands, read from a request to the Responses API."""

import json
import re
from collections.abc import Iterator

from appliance.core.events import Command

_EXITED = re.compile(r"^Process exited with code (-?\d{1,9})$", re.MULTILINE)


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
            # What Codex says stands before the output: in the output anything may stand.
            head, mark, output = _text(item.get("output")).partition("Output:\n")
            found = _EXITED.search(head)
            if mark and found:
                code = int(found[1])
                status = "completed" if code == 0 else "failed"
                yield Command(str(call.get("arguments") or ""), output, code, status)


def _text(output: object) -> str:
    if isinstance(output, list):
        return "\n".join(str(part.get("text", "")) for part in output if isinstance(part, dict))
    return str(output or "")
