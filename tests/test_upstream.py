"""What the model's API answered, as facts, and what follows."""

import pytest

from appliance.core.outcomes import Outcome
from appliance.core.upstream import Answer, ending_of


@pytest.mark.parametrize(
    "answers", [[], [Answer(200, ended="completed")], [Answer(500), Answer(200, ended="completed")]]
)
def test_the_api_ended_nothing(answers: list[Answer]) -> None:
    assert ending_of(answers) is None


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        (Answer(401, "token_expired"), Outcome.LOGIN),
        (Answer(403, "insufficient_quota"), Outcome.QUOTA),  # the code is more precise than the status
        (Answer(402), Outcome.QUOTA),
        (Answer(400), Outcome.TURN_FAILED),
        (Answer(422), Outcome.TURN_FAILED),
        (Answer(405), Outcome.MODEL_REFUSED),
        (Answer(407), Outcome.MODEL_REFUSED),  # a proxy's: not the pull request's
        (Answer(408), Outcome.MODEL_UNREACHABLE),
        (Answer(413), Outcome.CONTEXT),
        (Answer(400, "string_above_max_length"), Outcome.CONTEXT),
        (Answer(400, "unsupported_value", param="reasoning.effort"), Outcome.MODEL_REFUSED),
        (Answer(400, "unsupported_parameter"), Outcome.MODEL_REFUSED),
        (Answer(429, "anything"), Outcome.MODEL_UNREACHABLE),
        (Answer(301), Outcome.MODEL_REFUSED),
        (Answer(502), Outcome.MODEL_UNREACHABLE),
        (Answer(204), Outcome.MODEL_UNREACHABLE),
        (Answer(200), Outcome.MODEL_UNREACHABLE),
        (Answer(None), Outcome.MODEL_UNREACHABLE),
        (Answer(200, "invalid_prompt", ended="failed"), Outcome.TURN_FAILED),
        (Answer(200, ended="incomplete"), Outcome.TURN_FAILED),
    ],
)
def test_the_last_answer_decides(last: Answer, outcome: Outcome) -> None:
    ending = ending_of([Answer(401), last])
    assert ending is not None
    assert ending.outcome is outcome
    if ending.fault:
        assert ending.fault.remedy
        assert str(ending.fault).startswith(f"{ending.fault.cause}: ")


@pytest.mark.parametrize(
    ("last", "retry_at"),
    [
        (Answer(429, "usage_limit_reached", resets_at=50.0, retry_at=9.0), 50.0),
        (Answer(429, "usage_limit_reached", retry_at=9.0), 9.0),
        (Answer(429, "usage_limit_reached"), None),
        (Answer(503, retry_at=9.0), 9.0),
    ],
)
def test_when_to_come_back(last: Answer, retry_at: float | None) -> None:
    ending = ending_of([last])
    assert ending is not None
    assert ending.retry_at == retry_at


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(500, message="boom"), "The model's API failed: HTTP 500: boom"),
        (Answer(502), "The model's API failed: HTTP 502"),
        (Answer(429, message="slow down"), "The model's API is busy: HTTP 429: slow down"),
        (Answer(None, message="no route to host"), "The model's API cannot be reached: no route to host"),
    ],
)
def test_an_api_that_answered_is_told_with_the_code_of_its_answer(answer: Answer, said: str) -> None:
    ended = ending_of([answer])
    assert ended is not None and ended.fault is not None
    assert (ended.reason, ended.fault.sentence) == (said, said)
