"""The model: the login and its age, and whether the API answers through the gate, at the cost of no token."""

import time
from collections.abc import Iterator

import httpx

from appliance.core.doctor import Line, fine, found, of_fault
from appliance.core.doctor_forge import day, duration
from appliance.core.upstream import Answer, ending_of
from appliance.gate import Gate
from appliance.wiring import Appliance

NOTHING = b"{}"  # no model and no input: whatever reads it has to refuse it before a model runs
ASK_SECONDS = 40.0


def check(parts: Appliance) -> Iterator[Line]:
    if parts.settings.rehearsal:
        yield fine("login", "The rehearsal needs neither key nor login.")
        yield fine("model", "The rehearsal's scripted model answers.")
        return
    fault = None if parts.settings.openai_api_key else parts.login_fault()
    if fault:
        yield of_fault("login", fault)
        return
    yield fine("login", "The key of the model is set." if parts.settings.openai_api_key else _age(parts))
    yield judge(_ask(parts))


def _age(parts: Appliance) -> str:
    refreshed, expires = parts.login.times()
    since = "" if refreshed is None else f", refreshed {duration(time.time() - refreshed)} ago"
    until = "" if expires is None else f", its access token lasts until {day(expires)}"
    return f"There is a ChatGPT login{since}{until}; it is refreshed by itself."


def _ask(parts: Appliance) -> Answer | None:
    """What the API answered through the gate to a request of nothing; None if the gate kept no answer."""
    upstream = parts.model(rehearse=False).upstream
    with parts.work.new("doctor-") as folder, Gate(folder / "gate.sock", upstream) as gate:
        transport = httpx.HTTPTransport(uds=str(gate.path))
        with httpx.Client(transport=transport, base_url="http://gate", timeout=ASK_SECONDS) as client:
            client.post("/v1/responses", content=NOTHING, headers={"content-type": "application/json"})
        return gate.answers[-1] if gate.answers else None


def judge(answer: Answer | None) -> Line:
    """What the answer to a request of nothing means."""
    if answer is None:
        return found("model", "model-unsure", said="nothing")
    ending = ending_of([answer])
    if ending is not None and ending.fault is not None:
        return of_fault("model", ending.fault)
    if answer.status in (400, 422):
        return fine("model", f"The model's API is reached through the gate and lets us in (HTTP {answer.status}).")
    return found("model", "model-unsure", said=f"HTTP {answer.status}")
