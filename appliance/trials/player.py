"""Stands in for Codex: asks the real model gate as Codex does and leaves the events that it prints (0.163, measured).

A trial that tells of Codex itself uses the real one, in its jail; this one is for the rest, and for `--fast`.
"""

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from appliance import codex
from appliance.core.ending import Run
from appliance.core.events import Stream
from appliance.core.tools import tool_outputs
from appliance.gate import Gate
from appliance.meter import Meter

DEAD = "bwrap: setting up uid map: Permission denied\n"
ROUNDS = 8
TRIES = 3


class Killed(BaseException):
    """The appliance ends here, as by SIGKILL. Only a trial raises it."""


@dataclass
class Player:
    """`how`: what becomes of it besides: `dead commands`, `not started`, `timed out`, `out of memory`, `killed`."""

    how: str = ""

    def __call__(
        self,
        job: codex.Job,
        model: codex.Model,
        work: Path,
        prompt: str,
        timeout: float,
        stop: threading.Event | None,
        progress: codex.Progress,
        meter: Meter,
        memory: int | None,
    ) -> Run:
        work.mkdir(parents=True)
        stream = Stream()
        if self.how == "not started":
            return Run(1, False, "error loading configuration", stream, ())
        _say(stream, "thread.started", thread_id="t1")
        with Gate(work / "g.sock", model.upstream, meter) as gate:
            transport = httpx.HTTPTransport(uds=str(gate.path))
            with httpx.Client(transport=transport, base_url="http://gate", timeout=30) as client:
                code = self._converse(client, stream, prompt)
            answers, last = tuple(gate.answers), gate.last_request
        if gate.broken is not None:
            raise gate.broken
        if self.how == "killed":
            raise Killed("during the review")
        if self.how in ("timed out", "out of memory"):
            stream.completed = False
            return Run(-9, self.how == "timed out", "", stream, answers, tuple(tool_outputs(last)))
        return Run(code, False, "", stream, answers, tuple(tool_outputs(last)))

    def _converse(self, client: httpx.Client, stream: Stream, prompt: str) -> int:
        items: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "input_text", "text": prompt}]}]
        for _ in range(ROUNDS):
            events, error = _ask(client, items)
            if error:
                _say(stream, "turn.failed", error={"message": error})
                return 1
            made = [event["item"] for event in events if event["type"] == "response.output_item.done"]
            calls = [item for item in made if item["type"] != "message"]
            for item in made:
                if item["type"] == "message":
                    text = "".join(part["text"] for part in item["content"])
                    _say(stream, "item.completed", item={"id": "m", "type": "agent_message", "text": text})
            if not calls:
                break
            for call in calls:
                items += [call, self._called(stream, call)]
        usage = {"input_tokens": 1, "cached_input_tokens": 0, "output_tokens": 1, "reasoning_output_tokens": 0}
        _say(stream, "turn.completed", usage=usage)
        return 0

    def _called(self, stream: Stream, call: Mapping[str, Any]) -> dict[str, Any]:
        """What the model is told of a call; a command is an event beside it."""
        kind = "custom_tool_call_output" if call["type"] == "custom_tool_call" else "function_call_output"
        told = {"type": kind, "call_id": call["call_id"]}
        arguments = json.loads(call.get("arguments") or "{}")
        if call.get("name") != "exec_command" or "sandbox_permissions" in arguments:
            return {**told, "output": "unsupported call"}
        dead = self.how == "dead commands"
        output, code = (DEAD, 1) if dead else ("diff --git a/app.py b/app.py\n", 0)
        command = {"id": "c", "type": "command_execution", "command": f"/bin/sh -c {json.dumps(arguments['cmd'])}"}
        status = "failed" if dead else "completed"
        _say(
            stream, "item.completed", item={**command, "aggregated_output": output, "exit_code": code, "status": status}
        )
        return {**told, "output": f"Process exited with code {code}\nOutput:\n{output}"}


def _ask(client: httpx.Client, items: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """The events of one answer, and why it is none. What may pass is asked again, as Codex does."""
    error = ""
    for _ in range(TRIES):
        events: list[dict[str, Any]] = []
        try:
            answer = client.post("/v1/responses", json={"model": "trial", "input": items, "stream": True})
            if answer.status_code != 200:
                error = f"unexpected status {answer.status_code}"
                if answer.status_code < 500 and "retry-after" not in answer.headers:
                    return [], error
                continue
            lines = answer.text.splitlines()
            events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        except httpx.HTTPError as broke:
            error = f"stream disconnected before completion: {broke}"
            continue
        last = events[-1]["type"] if events else ""
        if last == "response.completed":
            return events, ""
        if last in ("response.failed", "response.incomplete"):
            return [], last
        error = "stream disconnected before completion"
    return [], error


def _say(stream: Stream, kind: str, **more: Any) -> None:
    stream.add(json.dumps({"type": kind, **more}).encode())
