"""The model gate with a ChatGPT login: it adds the access token, and renews it once if the API refuses it."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from issuer import ACCOUNT, NOW, Issuer, jwt
from model_failures import Wire
from model_server import GOOD, Model, ask, client_of

from appliance.core.outcomes import RULES, Outcome
from appliance.core.upstream import ending_of
from appliance.gate import Gate, Upstream
from appliance.login import Login

REFUSED = Wire(401, {"content-type": "application/json"}, b'{"error": {"code": "token_expired", "message": "m"}}')


@pytest.fixture
def login(tmp_path: Path, issuer: Issuer) -> Login:
    kept = {"access_token": jwt(NOW + 7200), "refresh_token": "rt-0", "account_id": ACCOUNT}
    (tmp_path / "auth.json").write_text(json.dumps({"tokens": kept}))
    return Login(tmp_path, issuer.url, lambda: NOW)


@pytest.fixture
def gate(model: Model, login: Login, tmp_path: Path) -> Iterator[Gate]:
    with Gate(tmp_path / "l.sock", Upstream(model.url, login=login)) as gate:
        yield gate


def sent(model: Model) -> list[str]:
    return [headers["authorization"] for _, headers, _ in model.requests]


def test_the_gate_alone_adds_token_and_account(model: Model, gate: Gate, jail: httpx.Client) -> None:
    assert ask(jail, headers={"authorization": "Bearer dummy", "chatgpt-account-id": "mine"}).status_code == 200
    [(_, headers, _)] = model.requests
    assert (headers["authorization"], headers["chatgpt-account-id"]) == (f"Bearer {jwt(NOW + 7200)}", ACCOUNT)


def test_a_401_in_the_middle_of_a_review_renews_the_token_once(
    model: Model, gate: Gate, jail: httpx.Client, issuer: Issuer
) -> None:
    model.answers = [GOOD, REFUSED, GOOD]
    assert [ask(jail).status_code for _ in range(3)] == [200, 200, 200]
    old, new = f"Bearer {jwt(NOW + 7200)}", f"Bearer {jwt(NOW + 864_000, 1)}"
    assert sent(model) == [old, old, new, new]
    assert issuer.used == ["rt-0"]
    assert [answer.ok for answer in gate.answers] == [True] * 3, "Codex never knew"


def test_a_401_that_stays_is_the_logins_fault(model: Model, gate: Gate, jail: httpx.Client, issuer: Issuer) -> None:
    model.answers = [REFUSED]
    assert ask(jail).status_code == 401
    assert len(model.requests) == 2, "once with the old one, once with the new one"
    ending = ending_of(gate.answers)
    assert ending is not None
    assert ending.outcome is Outcome.LOGIN


def test_a_login_that_is_used_up_ends_the_review_and_names_the_command(
    model: Model, gate: Gate, jail: httpx.Client, issuer: Issuer
) -> None:
    issuer.used.append("rt-0")
    model.answers = [REFUSED]
    assert ask(jail).status_code == 400, "so that Codex ends at once"
    ending = ending_of(gate.answers)
    assert ending is not None
    assert (ending.outcome, ending.fault is not None) == (Outcome.LOGIN, True)
    assert "already used" in str(ending.fault) and "appliance login" in str(ending.fault)


@pytest.mark.parametrize(
    ("status", "code"),
    [(200, ""), (401, "refresh_token_expired"), (401, "refresh_token_invalidated"), (401, "refresh_token_reused")],
    ids=["used", "expired", "invalidated", "reused"],
)
def test_R46_a_refresh_token_that_is_no_good_any_more_is_a_login_fault_that_names_the_command(
    status: int, code: str, model: Model, gate: Gate, jail: httpx.Client, issuer: Issuer
) -> None:
    issuer.used.append("rt-0")  # "Your refresh token was already used."
    issuer.status, issuer.code = status, code
    model.answers = [REFUSED]
    ask(jail)
    ending = ending_of(gate.answers)
    assert ending is not None and ending.fault is not None
    rule = RULES[ending.outcome]
    assert (ending.outcome, ending.fault.cause) == (Outcome.LOGIN, "login")
    assert (rule.counts, rule.stops, rule.unhealthy_after) == (False, True, 1)
    assert "docker exec -it review-appliance appliance login" in str(ending.fault)
    assert "rt-0" not in str(ending.fault)


def test_a_token_endpoint_that_is_away_is_not_the_logins_fault(
    model: Model, gate: Gate, jail: httpx.Client, issuer: Issuer
) -> None:
    issuer.status = 503
    model.answers = [REFUSED]
    ask(jail)
    ending = ending_of(gate.answers)
    assert ending is not None
    assert ending.outcome is Outcome.MODEL_UNREACHABLE


def test_reviews_at_once_renew_it_together(model: Model, login: Login, issuer: Issuer, tmp_path: Path) -> None:
    issuer.delay = 0.2
    upstream = Upstream(model.url, login=login)
    fresh = f"Bearer {jwt(NOW + 864_000, 1)}"
    model.accept = lambda headers: headers["authorization"] == fresh
    said: list[int] = []
    with (
        Gate(tmp_path / "a.sock", upstream) as one,
        Gate(tmp_path / "b.sock", upstream) as other,
        client_of(one) as first,
        client_of(other) as second,
    ):
        threads = [
            threading.Thread(target=lambda client=client: said.append(ask(client).status_code))
            for client in (first, second) * 4
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert said == [200] * 8
    assert issuer.used == ["rt-0"]


def test_a_token_that_the_api_repeats_goes_no_further(model: Model, gate: Gate, jail: httpx.Client) -> None:
    model.answers = [
        REFUSED,
        Wire(200, GOOD.headers, GOOD.body + f"{jwt(NOW + 864_000, 1)}{jwt(NOW + 7200)} {ACCOUNT}".encode()),
    ]
    answer = ask(jail)
    assert answer.content == GOOD.body + b"[redacted][redacted] [redacted]"
