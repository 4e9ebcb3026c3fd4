"""From structure to outcome: every case of CODEX section 7, and the words of a message decide nothing."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from model_failures import CASES, EXPECTED, RESETS_AT, wire
from test_events import GOOD, command, item, line
from test_result import answer

from appliance.core.answers import SseWatch, refusal
from appliance.core.ending import Invalid, Run, judge
from appliance.core.events import Command, parse
from appliance.core.findings import Result
from appliance.core.outcomes import RULES, Ending, Outcome
from appliance.core.upstream import Answer

NOW = 1_796_000_000.0
BWRAP = "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted\n"
QUOTED = "bwrap: No permissions to create new namespace"
LOOK = command("git diff a b", "+x")
DONE = line("turn.completed", usage={})
FAILED = [line("error", message="m"), line("turn.failed", error={"message": "m"})]
OK = Answer(200, ended="completed")


def run(
    *lines: bytes, code: int = 0, answers: Sequence[Answer] = (OK,), stderr: str = "", timed_out: bool = False
) -> Run:
    return Run(code, timed_out, stderr, parse([line("thread.started"), *lines]), tuple(answers))


def reviewed(*lines: bytes, text: str | None = None) -> Run:
    said = answer() if text is None else text
    return run(*lines, item("agent_message", text=said), DONE)


def ending(*runs: Run) -> Ending:
    judged = judge(runs)
    assert isinstance(judged, Ending), judged
    return judged


def facts(name: str) -> list[Answer]:
    """What the gate would note of each answer of a case."""
    found = []
    for step in map(wire, CASES[name]):
        if step.status != 200:
            headers = {key.lower(): value for key, value in step.headers.items()}
            found.append(refusal(step.status, headers, step.body, NOW))
            continue
        watch = SseWatch()
        watch.feed(step.body)
        found.append(watch.answer(NOW))
    return found


def test_the_table_has_every_case() -> None:
    assert EXPECTED.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_each_way_the_model_fails_has_its_outcome(name: str) -> None:
    expected, answers = EXPECTED[name], facts(name)
    if expected.ended == "completed":  # Codex ends well (exit 0): only the answer tells that there is no review
        text = CASES[name][-1].get("text", "")
        ran = [command("echo hi", "hi")] if name in ("escal", "patch") else []
        judged = judge([run(*ran, item("agent_message", text=text), DONE, answers=answers)])
        assert isinstance(judged, Invalid)
        return
    got = ending(run(*FAILED, code=1, answers=answers))
    assert got.outcome is expected.outcome
    assert got.retry_at == (expected.resets_at or (NOW + expected.waits if expected.waits else None))
    assert (got.fault is None) == RULES[got.outcome].counts, "what does not count is a fault with a remedy"


TEXTS = [
    *(answer.message for name in CASES for answer in facts(name)),
    "You've hit your usage limit. Try again at 14:05.",
    "401 Unauthorized: invalid_api_key",
    "context_length_exceeded",
    "bwrap: setting up uid map: Permission denied",
    "",
]


@pytest.mark.parametrize("name", CASES)
def test_the_words_of_a_message_decide_nothing(name: str) -> None:
    """Each case with the words of every other one, in the answer, in the event, and on stderr."""
    if EXPECTED[name].ended == "completed":
        return
    *before, last = facts(name)
    for text in TEXTS:
        said = [line("error", message=text), line("turn.failed", error={"message": text})]
        got = ending(run(*said, code=1, answers=[*before, replace(last, message=text)], stderr=text))
        assert got.outcome is EXPECTED[name].outcome, text
        assert got.retry_at == ending(run(*FAILED, code=1, answers=[*before, last])).retry_at


SECTION_7 = {
    "403 country": (Answer(403, "unsupported_country_region_territory"), Outcome.MODEL_REFUSED),
    "403 no such model for this key": (Answer(403, "model_not_found"), Outcome.MODEL_REFUSED),
    "402": (Answer(402), Outcome.QUOTA),
    "413": (Answer(413), Outcome.CONTEXT),
    "429 billing_not_active": (Answer(429, "billing_not_active"), Outcome.QUOTA),
    "529": (Answer(529), Outcome.MODEL_UNREACHABLE),
    "307": (Answer(307), Outcome.MODEL_REFUSED),
    "401": (Answer(401), Outcome.LOGIN),
    "403": (Answer(403), Outcome.LOGIN),
    "400": (Answer(400, "bad"), Outcome.TURN_FAILED),
    "404": (Answer(404), Outcome.MODEL_REFUSED),
    "429": (Answer(429), Outcome.MODEL_UNREACHABLE),
    "429 usage_limit_reached": (Answer(429, "usage_limit_reached", resets_at=RESETS_AT), Outcome.QUOTA),
    "insufficient_quota": (Answer(429, "insufficient_quota"), Outcome.QUOTA),
    "500": (Answer(500), Outcome.MODEL_UNREACHABLE),
    "503 server_is_overloaded": (Answer(503, "server_is_overloaded"), Outcome.MODEL_UNREACHABLE),
    "stream dropped": (Answer(200, ended="dropped"), Outcome.MODEL_UNREACHABLE),
    "context exceeded": (Answer(400, "context_length_exceeded"), Outcome.CONTEXT),
    "refused, DNS": (Answer(None, message="ConnectError"), Outcome.MODEL_UNREACHABLE),
}


@pytest.mark.parametrize(("last", "outcome"), SECTION_7.values(), ids=SECTION_7.keys())
def test_codex_section_7(last: Answer, outcome: Outcome) -> None:
    misleading = line("turn.failed", error={"message": "You've hit your usage limit. 401 bwrap: sandbox timeout"})
    assert ending(run(misleading, code=1, answers=[OK, last])).outcome is outcome


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        # before the turn: stderr, no JSON
        (Run(1, False, "Not inside a trusted directory", parse([]), ()), Outcome.WORKSTATION),
        (Run(1, False, "Error: config.toml: unknown field", parse([]), ()), Outcome.WORKSTATION),
        (Run(2, False, "error: unexpected argument", parse([]), ()), Outcome.WORKSTATION),
        (Run(127, False, "", parse([]), ()), Outcome.WORKSTATION),
        # the jail itself
        (Run(1, False, "bwrap: setting up uid map: Permission denied\n", parse([]), ()), Outcome.SANDBOX),
        # a failed turn that no answer of the API explains is the input's
        (run(*FAILED, code=1), Outcome.TURN_FAILED),
        (run(*FAILED, code=1, answers=[]), Outcome.TURN_FAILED),
        # out of memory
        (run(LOOK, code=-9), Outcome.INTERRUPTED),
        (run(LOOK, code=137), Outcome.INTERRUPTED),
        # no end at all
        (run(LOOK, code=0), Outcome.WORKSTATION),
        (run(LOOK, code=1), Outcome.WORKSTATION),
        (run(LOOK, DONE, code=1), Outcome.WORKSTATION),
        (run(LOOK, b"thread 'main' panicked\n", DONE), Outcome.WORKSTATION),
        # time
        (run(LOOK, code=-15, timed_out=True), Outcome.TIMEOUT),
        (run(LOOK, code=-15, timed_out=True, answers=[OK, Answer(200, ended="dropped")]), Outcome.TIMEOUT),
        (run(code=-15, timed_out=True, answers=[]), Outcome.MODEL_UNREACHABLE),
        (run(code=-15, timed_out=True, answers=[Answer(429, "usage_limit_reached")]), Outcome.QUOTA),
        (run(code=-15, timed_out=True, answers=[Answer(401)]), Outcome.LOGIN),
    ],
)
def test_how_a_run_ended(given: Run, outcome: Outcome) -> None:
    assert ending(given).outcome is outcome


def test_a_review() -> None:
    result = judge([reviewed(LOOK)])
    assert isinstance(result, Result)
    assert result.verdict == "incorrect"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (reviewed(), "no command succeeded"),
        (reviewed(command("ls", "no", 1, "failed")), "no command succeeded"),
        (reviewed(command("ls", "", None, "declined")), "no command succeeded"),
        (reviewed(LOOK, text=""), "there was no answer"),
        (reviewed(LOOK, text="Looks good to me"), "not JSON"),  # R40 prose only
        (reviewed(LOOK, text=f"```json\n{answer()}\n```"), "not JSON"),  # R41
        (reviewed(LOOK, text=answer()[:-9]), "not JSON"),  # R41
        (reviewed(LOOK, text='{"findings": []}'), "schema"),
    ],
)
def test_what_ended_well_and_is_no_review_is_said_why(given: Run, reason: str) -> None:
    judged = judge([given])
    assert isinstance(judged, Invalid)
    assert reason in judged.reason


def test_in_the_repair_round_the_look_of_the_first_counts() -> None:
    assert isinstance(judge([reviewed(LOOK, text="prose"), reviewed()]), Result)
    assert isinstance(judge([reviewed(text="prose"), reviewed()]), Invalid)


def test_a_retried_request_that_went_well_in_the_end_is_no_fault() -> None:
    answers = [Answer(500), Answer(200, ended="dropped"), OK]
    said = [line("error", message="Reconnecting... 1/5"), LOOK, item("agent_message", text=answer()), DONE]
    assert isinstance(judge([run(*said, answers=answers)]), Result)


def broken(text: str = BWRAP, said: str = "ls", exit_code: int = 1) -> bytes:
    return command(said, text, exit_code, "failed")


@pytest.mark.parametrize(
    "lines",
    [
        [broken(), broken(said="cat a")],
        [LOOK, broken()],  # it died in between
        [LOOK, broken(), command("grep x a", "", 1, "failed")],
    ],
)
def test_r45_a_failed_bwrap_is_a_sandbox_fault_whatever_the_agent_then_says(lines: list[bytes]) -> None:
    for text in ("I was unable to review.", answer(), json.dumps({"verdict": "critical"})):
        got = ending(reviewed(*lines, text=text))
        assert got.outcome is Outcome.SANDBOX
        assert got.fault is not None
        assert got.fault.remedy
        assert "bwrap: loopback" in got.fault.symptom
    assert ending(run(*lines, *FAILED, code=1)).outcome is Outcome.SANDBOX


@pytest.mark.parametrize(
    "lines",
    [
        [command("cat sandbox/README", QUOTED)],
        [LOOK, command("cat sandbox/README; false", f"text\n{QUOTED}\nmore", 1, "failed")],
        [LOOK, command("bwrap --bind / / true", BWRAP, 1, "failed")],  # the agent's own
        [broken(said="./tests/run.sh"), LOOK],  # a script that writes those words: the sandbox works afterwards
    ],
)
def test_r44_a_text_that_quotes_bwrap_is_no_sandbox_fault(lines: list[bytes]) -> None:
    quoting = answer(summary=QUOTED, reasoning=BWRAP)
    assert isinstance(judge([reviewed(*lines, text=quoting)]), Result)


def test_a_log_of_the_jail_that_mentions_bwrap_after_the_start_is_no_jail_fault() -> None:
    assert ending(run(*FAILED, code=1, stderr=BWRAP)).outcome is Outcome.TURN_FAILED


EXCEEDED = "the review used up its 384 processes"


@pytest.mark.parametrize(
    "given",
    [
        Run(-9, False, "", parse([]), (), exceeded=EXCEEDED),
        Run(101, False, "thread panicked", parse([line("thread.started")]), (OK,), exceeded=EXCEEDED),
        replace(reviewed(broken()), exceeded=EXCEEDED),
    ],
    ids=["killed by the watch", "Codex did not bear it", "the sandbox did not bear it"],
)
def test_who_uses_up_its_own_jail_fails_by_its_own_doing(given: Run) -> None:
    told = ending(given)
    assert (told.outcome, told.reason, told.fault) == (Outcome.TURN_FAILED, f"turn failed: {EXCEEDED}", None)


def test_who_came_near_its_bounds_and_reviewed_all_the_same_has_reviewed() -> None:
    given = replace(reviewed(LOOK, text=answer()), exceeded=EXCEEDED)
    assert isinstance(judge([given]), Result)


def test_reasons_are_short_enough_to_store() -> None:
    long = line("turn.failed", error={"message": "x" * 10_000})
    assert len(ending(run(long, code=1)).reason) <= 300
    assert len(ending(Run(1, False, "y" * 50_000, parse([]), ())).fault.__str__()) < 1000


def test_good_is_good() -> None:
    assert isinstance(judge([Run(0, False, "", parse(GOOD), (OK,))]), Invalid)  # its answer is `{}`


def test_a_sandbox_that_fails_in_a_review_is_named_by_its_text_until_facts_are_read() -> None:
    masked = "bwrap: Can't mount proc on /newroot/proc: Operation not permitted"
    fault = ending(reviewed(LOOK, broken(masked), text="I was unable to review.")).fault
    assert fault is not None
    assert (fault.cause, fault.facts) == ("proc-masked", {"step": "review", "exit_code": 1, "told_by": "text"})
    jail = ending(Run(1, False, f"{masked}\n", parse([]), ())).fault
    assert jail is not None
    assert jail.cause == "proc-masked"


def test_r45_with_no_event_for_the_command_what_the_model_was_told_says_that_the_sandbox_is_dead() -> None:
    """With only the inner bwrap dead, Codex 0.163 has no event at all for the command."""
    silent = replace(reviewed(text="I was unable to review."), told=(Command("ls", BWRAP, 1, "failed"),))
    assert ending(silent).outcome is Outcome.SANDBOX
    worked = (Command("./run.sh", BWRAP, 1, "failed"), Command("ls", "a", 0, "completed"))
    assert isinstance(judge([replace(reviewed(LOOK), told=worked)]), Result)
