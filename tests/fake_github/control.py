"""The control API, for tests that reach the fake over the network only: `/_fake/…`, without authentication."""

import base64
import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from .fake import FakeGitHub
from .state import Exchange, Request, Response

# What POST /_fake/<name> calls, with the JSON object of its body as arguments.
CALLS = (
    "add_repository",
    "rename_repository",
    "push",
    "delete_branch",
    "add_pull",
    "add_pulls",
    "edit_pull",
    "comments",
    "add_comment",
    "edit_comment",
    "delete_comment",
    "reviews",
    "line_comments",
    "add_review",
    "add_reply",
    "set_permission",
    "check_runs",
    "add_check_run",
    "add_app",
    "statuses",
    "add_status",
    "add_token",
    "require_check",
    "adjust",
    "fail",
    "secondary_limit",
    "clear",
)


def answer(fake: FakeGitHub, request: Request) -> Response:
    name = request.path.removeprefix("/_fake/")
    try:
        if request.method == "GET":
            return Response(200, _get(fake, name))
        arguments = json.loads(request.body or b"{}")
        if name not in CALLS:
            return Response(404, {"error": f"no {name}; there are: {', '.join(CALLS)}"})
        if "files" in arguments and arguments["files"] is not None:
            arguments["files"] = {path: _content(value) for path, value in arguments["files"].items()}
        return Response(200, {"result": plain(getattr(fake, name)(**arguments))})
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        return Response(400, {"error": f"{type(error).__name__}: {error}"})


def _get(fake: FakeGitHub, name: str) -> Any:
    if name == "health":
        return {"ok": True}
    if name in ("writes", "exchanges", "failures"):
        return [plain(exchange) for exchange in getattr(fake, name)]
    if name == "repositories":
        return [plain(repository) for repository in fake.repositories.values()]
    raise KeyError(name)


def _content(value: Any) -> Any:
    """A file's content in JSON: text, null for "deleted", or {"base64": …, "mode": "100644"}."""
    if isinstance(value, dict):
        return value.get("mode", "100644"), base64.b64decode(value["base64"])
    return value


def plain(value: Any) -> Any:
    """The value as JSON; the body of an exchange as text."""
    if isinstance(value, Exchange):
        return {key: plain(each) for key, each in vars(value).items()}
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(each) for each in value]
    return value
