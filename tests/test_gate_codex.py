"""The real Codex before the model gate: what it does when the gate refuses."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from model_failures import Wire, completed, message, sse
from model_server import KEY, Model

from appliance import codex_config, jail
from appliance.core.ending import Run, judge
from appliance.core.events import parse
from appliance.core.outcomes import Ending, Outcome
from appliance.core.prompt import MAX_FILES, File, review_prompt
from appliance.core.pulls import Pull
from appliance.core.upstream import Answer
from appliance.gate import Gate, Upstream
from appliance.meter import Budgets, Meter

SSE = {"content-type": "text/event-stream"}
CALL = {"type": "function_call", "name": "exec_command", "arguments": '{"cmd": "true"}', "call_id": "c1"}


@contextmanager
def relay(socket: Path) -> Iterator[int]:
    """The jail's relay, on a port that is free."""
    command = ["socat", "-d", "-d", "TCP-LISTEN:0,bind=127.0.0.1,fork,reuseaddr", f"UNIX-CONNECT:{socket}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = next(line for line in process.stderr if "listening on" in line)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        try:
            yield int(said.rsplit(":", 1)[1])
        finally:
            process.terminate()


@dataclass
class Ran:
    ending: Ending
    answers: list[Answer]
    seconds: float
    output: str


def ran(tmp_path: Path, upstream: Upstream, meter: Meter | None = None, prompt: str = "Say hello.") -> Ran:
    """One `codex exec` behind the gate, with the configuration of a review, but without the jail."""
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    with Gate(tmp_path / "g.sock", upstream, meter) as gate, relay(gate.path) as port:
        config = codex_config.config(model="gpt-5.5", effort="low", objects=None)
        (home / "config.toml").write_text(config.replace(f":{jail.RELAY_PORT}/", f":{port}/"))
        started = time.monotonic()
        binary = jail.codex_package() / "bin" / "codex"
        done = subprocess.run(
            [binary, "exec", "--strict-config", "--ephemeral", "--json", "--skip-git-repo-check", "-C", work, "-"],
            input=prompt.encode("utf-8", "backslashreplace"),
            env={"PATH": os.environ["PATH"], "CODEX_HOME": str(home), "HOME": str(home), "GATE_TOKEN": "none"},
            capture_output=True,
            timeout=60,
            check=False,
        )
        seconds = time.monotonic() - started
    run = Run(
        done.returncode, False, done.stderr.decode(), parse(done.stdout.splitlines(keepends=True)), tuple(gate.answers)
    )
    judged = judge([run])
    assert isinstance(judged, Ending), judged
    return Ran(judged, gate.answers, seconds, (done.stdout + done.stderr).decode())


def test_a_budget_that_is_used_up_ends_codex_at_once(model: Model, tmp_path: Path) -> None:
    """With another status (402, 403, 413) it asks twice more."""
    usage = {"input_tokens": 90_000, "output_tokens": 20_000}
    first = [*completed(CALL)[:2], {"type": "response.completed", "response": {"id": "r1", "usage": usage}}]
    model.answers = [Wire(200, SSE, sse(first)), Wire(200, SSE, sse(completed(message("{}"))))]
    done = ran(tmp_path, Upstream(model.url), Meter(Budgets(per_review=100_000)))
    assert done.ending.outcome is Outcome.TOKEN_BUDGET
    assert len(model.requests) == 1
    assert [answer.refused for answer in done.answers] == ["", "review"], "it did not ask again"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Wire(401, {}, b'{"error": {"code": "invalid_api_key", "message": "no: sk-very-secret"}}'), Outcome.LOGIN),
        (Wire(429, {}, b'{"error": {"type": "usage_limit_reached", "resets_at": 1796041411}}'), Outcome.QUOTA),
        (Wire(503, {"retry-after": "3600"}, b"<html>"), Outcome.MODEL_UNREACHABLE),
        (Wire(400, {}, b'{"error": {"code": "context_length_exceeded", "message": "m"}}'), Outcome.CONTEXT),
    ],
)
def test_each_outcome_with_the_real_codex(answer: Wire, outcome: Outcome, model: Model, tmp_path: Path) -> None:
    model.answers = [answer]
    done = ran(tmp_path, Upstream(model.url, {"authorization": f"Bearer {KEY}"}))
    assert done.ending.outcome is outcome
    assert done.seconds < 30, "an hour of Retry-After is not waited for"
    assert KEY not in done.output


def test_codex_takes_the_longest_prompt_that_an_author_can_make(model: Model, tmp_path: Path) -> None:
    """One that it refuses (of 1,048,577 characters) ends with no event: a fault of the workstation, for ever."""
    pull = Pull("o/a#1", "o/a", 1, "a" * 40, "main", "b" * 40)
    files = [File("/".join([f"{number:03}\x01" * 60] * 16), "A", 1, 0) for number in range(MAX_FILES)]
    model.answers = [Wire(400, {}, b'{"error": {"code": "context_length_exceeded", "message": "m"}}')]
    done = ran(tmp_path, Upstream(model.url), prompt=review_prompt(pull, "c" * 40, files))
    assert done.ending.outcome is Outcome.CONTEXT and len(model.requests) == 1
