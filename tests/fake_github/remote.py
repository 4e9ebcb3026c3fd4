"""A fake GitHub in another process or container, driven through its control API."""

import base64
from typing import Any

import httpx


class RemoteFakeGitHub:
    """`call(name, …)` does what the method of that name does on FakeGitHub, and gives back its result as JSON."""

    def __init__(self, base: str) -> None:
        self._http = httpx.Client(base_url=base.rstrip("/"), timeout=30)

    def call(self, method: str, /, **arguments: Any) -> Any:
        files = arguments.get("files")
        if files:
            arguments["files"] = {path: _plain(content) for path, content in files.items()}
        return self._result(self._http.post(f"/_fake/{method}", json=arguments))

    def get(self, name: str) -> Any:
        """`writes`, `exchanges`, `failures`, `repositories` or `health`."""
        return self._result(self._http.get(f"/_fake/{name}"))

    def close(self) -> None:
        self._http.close()

    @staticmethod
    def _result(response: httpx.Response) -> Any:
        told = response.json()
        if response.status_code != 200:
            raise RuntimeError(told["error"])
        return told["result"] if isinstance(told, dict) and "result" in told else told


def _plain(content: Any) -> Any:
    if isinstance(content, tuple):
        return {"mode": content[0], "base64": base64.b64encode(content[1]).decode()}
    return {"base64": base64.b64encode(content).decode()} if isinstance(content, bytes) else content
