"""The event stream of `codex exec --json` (CODEX section 3)."""

import json
import tracemalloc
from typing import Any

import pytest

from appliance.core.events import Command, Stream, parse
from appliance.core.findings import Usage
from appliance.core.wording import is_bwrap_failure


def line(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": kind, **fields}).encode() + b"\n"


def item(kind: str, state: str = "completed", **fields: Any) -> bytes:
    return line(f"item.{state}", item={"id": "item_1", "type": kind, **fields})


def command(command: str, output: str = "", exit_code: int | None = 0, status: str = "completed") -> bytes:
    return item("command_execution", command=command, aggregated_output=output, exit_code=exit_code, status=status)


USAGE = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3, "reasoning_output_tokens": 2}
GOOD = [
    line("thread.started", thread_id="x"),
    line("turn.started"),
    item("reasoning", text="think"),
    item("command_execution", "started", command="ls", aggregated_output="", exit_code=None, status="in_progress"),
    item("command_execution", "updated", command="ls", aggregated_output="a", exit_code=None, status="in_progress"),
    command("ls", "a\n"),
    item("agent_message", text="{}"),
    line("turn.completed", usage=USAGE),
]


def test_a_whole_run() -> None:
    stream = parse(GOOD)
    assert (stream.started, stream.completed, stream.failure, stream.malformed) == (True, True, None, [])
    assert stream.commands == [Command("ls", "a\n", 0, "completed")]
    assert stream.commands[0].ok
    assert (stream.last_message, stream.usage) == ("{}", Usage(10, 4, 3, 2))


def test_a_command_is_told_when_it_starts_and_counted_when_it_ends() -> None:
    stream = Stream()
    told = [stream.add(each) for each in GOOD]
    assert [each for each in told if each] == ["ls"]


@pytest.mark.parametrize(
    ("exit_code", "status", "ok"),
    [
        (0, "completed", True),
        (1, "completed", False),
        (1, "failed", False),
        (0, "failed", False),
        (None, "declined", False),
        (None, "completed", False),
        (0, "in_progress", False),
    ],
)
def test_only_a_completed_command_with_exit_code_0_succeeded(exit_code: int | None, status: str, ok: bool) -> None:
    assert parse([command("ls", "", exit_code, status)]).commands[0].ok is ok


def test_the_last_message_counts_since_messages_repeat_after_a_dropped_stream() -> None:
    messages = [item("agent_message", text=text) for text in ("first", "second")]
    assert parse([*messages, item("agent_message", "updated", text="half")]).last_message == "second"


def test_an_error_ends_nothing_since_it_is_also_printed_for_each_retry() -> None:
    stream = parse([line("error", message="Reconnecting... 1/5"), item("error", message="a warning"), *GOOD])
    assert stream.completed
    assert stream.warnings == ["Reconnecting... 1/5"]


def test_what_a_run_prints_does_not_fill_our_memory() -> None:
    """Codex tells up to 1 MiB of each command, and one review may run thousands."""
    long = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted\n" * 10_000
    tracemalloc.start()
    try:
        stream = parse(made for _ in range(100) for made in (command("x", long, 1, "failed"), b"?" * 10_000, b"?\n"))
        stream.add(line("error", message=long))
        assert tracemalloc.get_traced_memory()[0] < 8 * 1024**2
    finally:
        tracemalloc.stop()
    assert len(stream.commands) == 100, "each one counts"
    assert not any(is_bwrap_failure(one.output) for one in stream.commands), "cut off, it is still not only bwrap's"
    assert stream.malformed and stream.warnings


def test_a_failed_turn() -> None:
    stream = parse([line("turn.failed", error={"message": "boom"})])
    assert (stream.completed, stream.failure) == (False, "boom")
    assert parse([line("turn.failed", error={"message": "boom"}), *GOOD]).failure is None


def test_usage_adds_up_and_what_is_missing_is_0() -> None:
    assert parse(
        [line("turn.completed", usage=USAGE), line("turn.completed", usage={"output_tokens": None})]
    ).usage == (Usage(10, 4, 3, 2))


def test_kinds_of_later_versions_are_passed_over() -> None:
    assert parse([line("turn.paused", why="x"), item("hologram", x=1), b"\n", b"  \n"]).malformed == []


@pytest.mark.parametrize(
    "bad",
    [
        b"not json",
        b'{"type": "turn.comp',
        b"[]",
        b"null",
        b"3",
        b'"text"',
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        line("turn.completed"),
        line("turn.completed", usage=[]),
        line("turn.completed", usage={"input_tokens": "many"}),
        line("turn.completed", usage={"input_tokens": float("inf")}),
        line("turn.failed", error="text"),
        line("item.completed", item=None),
        line("item.completed", item={"type": "command_execution"}),
        line("item.completed", item={"type": "agent_message"}),
        line("error"),
    ],
)
def test_a_line_of_another_form_is_kept_as_malformed(bad: bytes) -> None:
    stream = parse([bad, *GOOD])
    assert len(stream.malformed) == 1
    assert len(stream.malformed[0]) <= 500
    assert stream.completed
