"""What the model is told of its commands."""

import json
import time
from typing import Any

import pytest

from appliance.core.events import Command
from appliance.core.tools import tool_outputs

HEAD = "Chunk ID: 1a2b\nWall time: 0.0100 seconds\nProcess exited with code {}\nOriginal token count: 3\nOutput:\n"
BWRAP = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted\n"


def body(*outputs: Any) -> bytes:
    items: list[Any] = [{"role": "user", "content": "x"}, "text"]
    for number, output in enumerate(outputs):
        items.append({"type": "function_call", "call_id": f"c{number}", "name": "exec_command", "arguments": "ls"})
        items.append({"type": "function_call_output", "call_id": f"c{number}", "output": output})
    return json.dumps({"input": items}).encode()


def test_each_command_with_its_output() -> None:
    told = list(tool_outputs(body(HEAD.format(0) + "a\nOutput:\nb", [{"type": "x", "text": HEAD.format(1) + BWRAP}])))
    assert told == [Command("ls", "a\nOutput:\nb", 0, "completed"), Command("ls", BWRAP, 1, "failed")]


@pytest.mark.parametrize(
    "output",
    [
        "",
        None,
        3,
        "Process exited with code 1\n" + BWRAP,
        f"Process running with session ID 1\nOutput:\nProcess exited with code 1\nOutput:\n{BWRAP}",  # in the output
        HEAD.format("9" * 5000),
    ],
)
def test_what_does_not_say_how_it_ended_is_no_command(output: Any) -> None:
    assert list(tool_outputs(body(output))) == []


@pytest.mark.parametrize(
    "given", [b"", b"{}", b"[]", b'{"input": null}', b'{"input": "x"}', b"\xff", b"[" * 100_000, b'{"input": [[]]}']
)
def test_a_body_of_another_form_tells_nothing(given: bytes) -> None:
    assert list(tool_outputs(given)) == []


def test_an_output_of_any_size_is_read_in_no_time() -> None:
    for output in ("Process exited with code 0\n" * 100_000, "Process exited with code 0\n" + "x\n" * 100_000):
        started = time.thread_time()
        assert list(tool_outputs(body(output))) == []
        assert time.thread_time() - started < 2
