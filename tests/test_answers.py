"""When to come back, as the headers tell it; and what a stream told of its usage."""

import json

import pytest

from appliance.core.answers import SseWatch, estimate, refusal, retry_at
from appliance.core.findings import Usage

NOW = 1_796_000_000.0  # 2026-11-30 00:53:20 UTC


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "Mon, 30 Nov 2026 01:53:20 GMT"}, 3600),
        ({"retry-after": "Monday, 30-Nov-26 01:53:20 GMT"}, 3600),
        ({"retry-after": "Mon Nov 30 01:53:20 2026"}, 3600),
        ({"retry-after": "Sun, 29 Nov 2026 01:53:20 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"x-ratelimit-reset-requests": "1s"}, 1),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-reset-tokens": "60"}, 60),
        ({"x-ratelimit-reset-tokens": "1d"}, 86_400),
        ({"x-ratelimit-reset-tokens": ""}, None),
        ({"x-ratelimit-reset-tokens": "0s"}, None),
        ({"x-ratelimit-reset-tokens": "-5s"}, None),
        ({"x-ratelimit-reset-tokens": "9" * 5000}, None),
        ({"x-ratelimit-reset-tokens": "later"}, None),
        # the one that is used up counts; if none is, the longest
        (
            {
                "x-ratelimit-remaining-requests": "9",
                "x-ratelimit-reset-requests": "1h",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "6s",
            },
            6,
        ),
        ({"x-ratelimit-reset-requests": "1h", "x-ratelimit-reset-tokens": "6s"}, 3600),
        ({"retry-after": "2", "x-ratelimit-reset-tokens": "6m0s"}, 2),
        ({}, None),
    ],
)
def test_when_to_come_back(headers: dict[str, str], wait: float | None) -> None:
    at = retry_at(headers, NOW)
    assert at == (None if wait is None else pytest.approx(NOW + wait))


@pytest.mark.parametrize(
    ("headers", "at"),
    [
        ({"x-codex-primary-used-percent": "100", "x-codex-primary-reset-at": "1796041411"}, 1796041411.0),
        ({"x-codex-primary-used-percent": "100.0", "x-codex-primary-reset-after-seconds": "60"}, NOW + 60),
        (
            {
                "x-codex-primary-used-percent": "100",
                "x-codex-primary-reset-at": "1796041411",
                "x-codex-secondary-used-percent": "100",
                "x-codex-secondary-reset-at": "1796500000",
            },
            1796500000.0,
        ),
        ({"x-codex-primary-used-percent": "42", "x-codex-primary-reset-at": "1796041411"}, None),
        ({"x-codex-primary-used-percent": "full", "x-codex-primary-reset-at": "1796041411"}, None),
        ({"x-codex-primary-used-percent": "100", "x-codex-primary-reset-at": "soon"}, None),
    ],
)
def test_a_plan_that_is_used_up_tells_its_reset_in_headers_too(headers: dict[str, str], at: float | None) -> None:
    limit = b'{"error": {"type": "usage_limit_reached", "message": "m"}}'
    assert refusal(429, headers, limit, NOW).resets_at == at
    told = b'{"error": {"type": "usage_limit_reached", "resets_in_seconds": 5}}'
    assert refusal(429, headers, told, NOW).resets_at == NOW + 5, "the body goes first"


@pytest.mark.parametrize(
    "usage",
    [None, [], {}, {"input_tokens": 5}, {"input_tokens": "5", "output_tokens": 5}, {"input_tokens": True},
     {"input_tokens": -1, "output_tokens": 5}, {"input_tokens": 10**30, "output_tokens": 5}],
)  # fmt: skip
def test_a_usage_that_can_be_none_is_none(usage: object) -> None:
    watch = SseWatch()
    watch.feed(b"data: " + json.dumps({"type": "response.completed", "response": {"usage": usage}}).encode() + b"\n\n")
    answer = watch.answer(NOW)
    assert (answer.ended, answer.usage) == ("completed", None)


def test_details_of_a_usage_may_be_missing() -> None:
    watch = SseWatch()
    usage = {"input_tokens": 5, "output_tokens": 6, "input_tokens_details": None}
    watch.feed(b"data: " + json.dumps({"type": "response.completed", "response": {"usage": usage}}).encode() + b"\n\n")
    assert watch.answer(NOW).usage == Usage(5, 0, 6, 0)


def test_what_was_made_is_estimated_where_no_usage_is_told() -> None:
    watch = SseWatch()
    item = json.dumps({"type": "response.output_item.done", "item": {"text": "word " * 1000}})
    watch.feed(f"data: {item}\n\n".encode())
    assert 1000 < watch.written < 2000
    deltas = SseWatch()
    deltas.feed(b'data: {"type": "response.output_text.delta", "delta": "a"}\n\n' * 500)
    assert deltas.written == 500, "an event is at least a token"
    shapeless = SseWatch()
    shapeless.feed(b"x" * 1_000_000)
    assert shapeless.written > 1000, "and what has no form costs something too"
    assert (estimate(0), estimate(1), estimate(8)) == (0, 1, 2)
