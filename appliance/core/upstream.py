"""What the model's API answered, as facts: the outcome of an attempt is decided from these (CODEX section 7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from appliance.core.faults import Fault
from appliance.core.outcomes import Ending, Outcome

LOGIN_REMEDY = (
    "set a valid OPENAI_API_KEY in .env and run `docker compose up -d`; or log in to ChatGPT with "
    "`docker exec -it review-appliance appliance login`."
)


@dataclass(frozen=True)
class Answer:
    """One request to the model and its answer.

    `status` is None when no answer came; `code` and `message` are the error's, from the body or from
    `response.failed` in the stream; `ended` is how the stream ended; `resets_at` and `retry_at` are in seconds of the
    epoch.
    """

    status: int | None
    code: str = ""
    message: str = ""
    param: str = ""
    ended: Literal["completed", "failed", "incomplete", "dropped", "none"] = "none"
    resets_at: float | None = None
    retry_at: float | None = None

    @property
    def ok(self) -> bool:
        return self.status == 200 and self.ended == "completed"


_QUOTA = {"usage_limit_reached", "insufficient_quota", "usage_not_included", "billing_hard_limit_reached"}
_INPUT_TOO_LARGE = {"context_length_exceeded", "string_above_max_length"}
_BUSY = {"rate_limit_exceeded", "server_is_overloaded", "server_error", "slow_down"}
_OF_THE_INPUT = (400, 422)
_PASSING = (408, 425, 499)  # what a proxy answers when it was the slow one
_OUR_CONFIGURATION = {"model_not_found", "unsupported_value", "unsupported_parameter", "unknown_parameter"}


def ending_of(answers: Sequence[Answer]) -> Ending | None:
    """How the attempt ended, if the model's API ended it; None if the last answer was a good one or there was none."""
    if not answers or answers[-1].ok:
        return None
    last = answers[-1]
    said = last.message or (f"HTTP {last.status}" if last.status else "no answer")
    if last.code in _QUOTA or last.status == 402:
        return _quota(last, said)
    if last.code in _INPUT_TOO_LARGE or last.status == 413:
        return Ending(Outcome.CONTEXT, Outcome.CONTEXT.value)
    if last.code in _BUSY or last.status == 429 or last.status in _PASSING:
        return _unreachable(f"The model's API is busy: {said}", last)
    if last.status in (401, 403):
        return Ending(
            Outcome.LOGIN,
            "the model's API refused the key",
            fault=Fault("login", f"The model's API refused the key or login: {said}", LOGIN_REMEDY, said),
        )
    refused = last.status is not None and 400 <= last.status < 500 and last.status not in _OF_THE_INPUT
    if refused or last.code in _OUR_CONFIGURATION:
        remedy = "check APPLIANCE_MODEL, APPLIANCE_REASONING_EFFORT and APPLIANCE_MODEL_URL in .env."
        fault = Fault("model-refused", f"The model's API does not know what it was asked for: {said}", remedy, said)
        return Ending(Outcome.MODEL_REFUSED, said, fault=fault)
    if last.status in _OF_THE_INPUT or last.ended in ("failed", "incomplete"):
        return Ending(Outcome.TURN_FAILED, f"turn failed: {said}")
    if last.status is not None and 300 <= last.status < 400:
        remedy = "set APPLIANCE_MODEL_URL to the address that answers itself."
        return Ending(
            Outcome.MODEL_REFUSED, said, fault=Fault("model-refused", "The model's API redirects.", remedy, said)
        )
    return _unreachable(f"The model's API cannot be reached: {said}", last)


def _quota(last: Answer, said: str) -> Ending:
    fault = Fault("quota", f"The usage limit of the model is reached: {said}", "wait, or raise the plan's limit.", said)
    return Ending(Outcome.QUOTA, "usage limit", fault=fault, retry_at=last.resets_at or last.retry_at)


def _unreachable(sentence: str, last: Answer) -> Ending:
    remedy = "nothing if it passes by itself; else check APPLIANCE_MODEL_URL and this machine's network."
    fault = Fault("model-unreachable", sentence, remedy, last.message)
    return Ending(Outcome.MODEL_UNREACHABLE, sentence, fault=fault, retry_at=last.retry_at)
