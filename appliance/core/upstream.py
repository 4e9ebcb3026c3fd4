"""What the model's API answered, as facts: the outcome of an attempt is decided from these (CODEX section 7)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from appliance.core.budget import REMEDY
from appliance.core.faults import Fault
from appliance.core.findings import Usage
from appliance.core.outcomes import Ending, Outcome

LOGIN_REMEDY = (
    "set a valid OPENAI_API_KEY in .env and run `docker compose up -d`; or log in to ChatGPT with "
    "`docker exec -it review-appliance appliance login`."
)
REPORT = "see `docker logs review-appliance`, and report this with it."
Refused = Literal["", "review", "large", "day", "time", "asked"]


@dataclass(frozen=True)
class Answer:
    """One request to the model and its answer.

    `status` is None when no answer came; `code` and `message` are the error's, from the body or from `response.failed`
    in the stream; `ended` is how the stream ended; `resets_at` and `retry_at` are in seconds of the epoch; `limits` are
    the headers that tell of rate limits; `usage` is None if none was told. `refused` says which of the attempt's
    budgets (tokens of the review or of the day, time) the model gate refused it for, without asking; or `asked`: for
    what it asked for.
    """

    status: int | None
    code: str = ""
    message: str = ""
    param: str = ""
    ended: Literal["completed", "failed", "incomplete", "dropped", "none"] = "none"
    resets_at: float | None = None
    retry_at: float | None = None
    usage: Usage | None = None
    limits: tuple[tuple[str, str], ...] = ()
    refused: Refused = ""

    @property
    def ok(self) -> bool:
        return self.status == 200 and self.ended == "completed"

    @property
    def said(self) -> str:
        return self.message or (f"HTTP {self.status}" if self.status else "no answer")


# The API's codes, whatever the status: one line for each meaning.
_QUOTA = {
    "usage_limit_reached",
    "insufficient_quota",
    "usage_not_included",
    "billing_hard_limit_reached",
    "billing_not_active",
}
_INPUT_TOO_LARGE = {"context_length_exceeded", "string_above_max_length", "request_too_large"}
_BUSY = {"rate_limit_exceeded", "server_is_overloaded", "server_error", "slow_down"}
_OUR_CONFIGURATION = {"model_not_found", "unsupported_value", "unsupported_parameter", "unknown_parameter"}
_PLACE = {"unsupported_country_region_territory"}
_OF_THE_INPUT = (400, 422)
_PASSING = (408, 425, 499)  # what a proxy answers when it was the slow one


def ending_of(answers: Sequence[Answer]) -> Ending | None:
    """How the attempt ended, if the model's API ended it; None if the last answer was a good one or there was none."""
    if not answers or answers[-1].ok:
        return None
    last = answers[-1]
    return next(ending(last) for applies, ending in _RULES if applies(last))


def _login(last: Answer) -> Ending:
    fault = Fault("login", f"The model's API refused the key or login: {last.said}", LOGIN_REMEDY, last.said)
    return Ending(Outcome.LOGIN, "the model's API refused the key", fault=fault)


def _day_budget(last: Answer) -> Ending:
    fault = Fault("token-budget", last.message, REMEDY)
    return Ending(Outcome.DAY_BUDGET, "token budget of the day", fault=fault, retry_at=last.resets_at)


def _asked(last: Answer) -> Ending:
    """Codex asked for what our configuration lets it not have: another version than the one measured, or taken over."""
    fault = Fault("model-request", f"Codex asked the model for what the gate does not send: {last.said}.", REPORT, "")
    return Ending(Outcome.WORKSTATION, "the model gate refused what Codex asked for", fault=fault)


def _quota(last: Answer) -> Ending:
    fault = Fault(
        "quota", f"The usage limit of the model is reached: {last.said}", "wait, or raise the plan's limit.", last.said
    )
    return Ending(Outcome.QUOTA, "usage limit", fault=fault, retry_at=last.resets_at or last.retry_at)


def _refused(sentence: str, remedy: str) -> Callable[[Answer], Ending]:
    def ending(last: Answer) -> Ending:
        fault = Fault("model-refused", sentence.format(said=last.said), remedy, last.said)
        return Ending(Outcome.MODEL_REFUSED, last.said, fault=fault)

    return ending


def _unreachable(sentence: str) -> Callable[[Answer], Ending]:
    def ending(last: Answer) -> Ending:
        told = last.status is not None and last.message  # "boom" alone would not say that an API answered
        said = f"{sentence}: " + (f"HTTP {last.status}: {last.message}" if told else last.said)
        remedy = "nothing if it passes by itself; else check APPLIANCE_MODEL_URL and this machine's network."
        fault = Fault("model-unreachable", said, remedy, last.message)
        return Ending(Outcome.MODEL_UNREACHABLE, said, fault=fault, retry_at=last.retry_at)

    return ending


def _is(codes: set[str], *statuses: int) -> Callable[[Answer], bool]:
    return lambda last: last.code in codes or last.status in statuses


# In this order: a code says more than a status, which is shared.
_RULES: tuple[tuple[Callable[[Answer], bool], Callable[[Answer], Ending]], ...] = (
    (lambda last: last.refused == "time", lambda _: Ending(Outcome.TIMEOUT, Outcome.TIMEOUT.value)),
    (lambda last: last.refused in ("review", "large"), lambda last: Ending(Outcome.TOKEN_BUDGET, last.message)),
    (lambda last: last.refused == "day", _day_budget),
    (lambda last: last.refused == "asked", _asked),
    (_is(_QUOTA, 402), _quota),
    (_is(_INPUT_TOO_LARGE, 413), lambda _: Ending(Outcome.CONTEXT, Outcome.CONTEXT.value)),
    (_is(_BUSY, 429, *_PASSING), _unreachable("The model's API is busy")),
    (
        _is(_PLACE),
        _refused(
            "The model's API is not offered where this machine's requests come from: {said}",
            "check the machine's proxy or VPN, or set APPLIANCE_MODEL_URL to an API that is offered there.",
        ),
    ),
    (
        lambda last: last.code in _OUR_CONFIGURATION or _other_refusal(last.status),
        _refused(
            "The model's API does not know what it was asked for: {said}",
            "check APPLIANCE_MODEL, APPLIANCE_REASONING_EFFORT and APPLIANCE_MODEL_URL in .env.",
        ),
    ),
    (_is(set(), 401, 403), _login),
    (
        lambda last: last.status in _OF_THE_INPUT or last.ended in ("failed", "incomplete"),
        lambda last: Ending(Outcome.TURN_FAILED, f"turn failed: {last.said}"),
    ),
    (
        lambda last: last.status is not None and 300 <= last.status < 400,
        _refused("The model's API redirects.", "set APPLIANCE_MODEL_URL to the address that answers itself."),
    ),
    (lambda last: (last.status or 0) >= 500, _unreachable("The model's API failed")),
    (lambda _: True, _unreachable("The model's API cannot be reached")),
)


def _other_refusal(status: int | None) -> bool:
    return status is not None and 400 <= status < 500 and status not in (*_OF_THE_INPUT, 401, 403)
