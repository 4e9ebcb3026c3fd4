"""The budgets at the model gate, over real sockets."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import httpx
import pytest
from days import NOON
from model_failures import Wire, message, sse
from model_server import Model, ask, client_of
from sqlalchemy.exc import OperationalError

from appliance import codex, process
from appliance.core.moments import next_day
from appliance.core.outcomes import Ending, Outcome
from appliance.core.pulls import Pull
from appliance.core.upstream import ending_of
from appliance.failures import fault_of
from appliance.gate import Gate, Upstream
from appliance.meter import Budgets, Meter
from appliance.store import Store, open_store

SSE = {"content-type": "text/event-stream"}
Open = Callable[[Meter], Gate]


def stream(tokens: int | None, text: str = "x") -> Wire:
    """An answer that took so many tokens; None: it tells no usage."""
    end: dict[str, object] = {"id": "r1"}
    if tokens is not None:
        end["usage"] = {"input_tokens": tokens - 1, "output_tokens": 1}
    item = {"type": "response.output_item.done", "item": message(text)}
    return Wire(200, SSE, sse([item, {"type": "response.completed", "response": end}]))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(tmp_path / "appliance.db", lambda: NOON)
    yield made
    made.close()


@pytest.fixture
def opened(model: Model, tmp_path: Path) -> Iterator[Open]:
    gates: list[Gate] = []

    def make(meter: Meter) -> Gate:
        gates.append(Gate(tmp_path / f"{len(gates)}.sock", Upstream(model.url), meter).__enter__())
        return gates[-1]

    yield make
    for gate in gates:
        gate.__exit__()


def outcome(gate: Gate) -> Outcome | None:
    ending = ending_of(gate.answers)
    return ending.outcome if ending else None


def test_both_rounds_of_a_review_have_one_budget(model: Model, opened: Open) -> None:
    meter = Meter(Budgets(per_review=1000))
    model.answers = [stream(600)]
    first = opened(meter)
    with client_of(first) as client:
        assert ask(client).status_code == 200
    repair = opened(meter)
    with client_of(repair) as client:
        assert ask(client).status_code == 200
        refused = ask(client)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "review_budget")
    assert len(model.requests) == 2
    assert (outcome(first), outcome(repair)) == (None, Outcome.TOKEN_BUDGET)
    ending = ending_of(repair.answers)
    assert ending is not None
    assert ending.reason == "token budget of the review (1,000 tokens) is used up"
    assert ending.fault is None, "it is the pull request's"


def test_a_request_that_is_too_large_by_itself_is_not_sent(model: Model, opened: Open) -> None:
    gate = opened(Meter(Budgets(per_review=1000)))
    with client_of(gate) as client:
        assert client.post("/v1/responses", json={"input": "x" * 4000}).status_code == 400
        assert ask(client).status_code == 200, "a smaller one is"
    assert len(model.requests) == 1


def test_an_api_that_tells_no_usage_is_bounded_by_bytes(model: Model, opened: Open) -> None:
    model.answers = [stream(None, "y" * 1000)]
    gate = opened(Meter(Budgets(per_review=3000)))
    with client_of(gate) as client:
        said = [client.post("/v1/responses", json={"input": "x" * 2000}).status_code for _ in range(6)]
    assert 200 in said and said[-1] == 400
    assert len(model.requests) <= 4
    assert outcome(gate) is Outcome.TOKEN_BUDGET


def test_an_answer_without_an_end_is_cut_off(model: Model, opened: Open) -> None:
    sent = [0]

    def endless(handler: BaseHTTPRequestHandler) -> bool:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        try:
            for _ in range(100_000):
                handler.wfile.write(b'data: {"type": "response.output_text.delta", "delta": "a"}\n\n')
                sent[0] += 1
        except OSError:
            pass
        return True

    model.before = endless
    gate = opened(Meter(Budgets(per_review=1000)))
    with client_of(gate) as client:
        ask(client)
        assert ask(client).status_code == 400
    assert sent[0] < 100_000
    assert outcome(gate) is Outcome.TOKEN_BUDGET


def test_what_was_refused_by_the_api_or_never_sent_costs_nothing(model: Model, opened: Open, tmp_path: Path) -> None:
    meter = Meter(Budgets(per_review=1000))
    model.answers = [Wire(503, {}, b"{}")]
    with client_of(opened(meter)) as client:
        ask(client)
    with Gate(tmp_path / "down.sock", Upstream("http://127.0.0.1:1/v1"), meter) as gate, client_of(gate) as client:
        ask(client)
    assert meter.used == 0


def test_one_that_was_sent_and_not_answered_counts_by_its_size(model: Model, opened: Open) -> None:
    meter = Meter(Budgets(per_review=10_000))
    model.before = lambda _: True
    with client_of(opened(meter)) as client:
        client.post("/v1/responses", json={"input": "x" * 4000})
    assert 1000 < meter.used < 1100


def test_a_used_up_day_ends_the_review_uncounted(model: Model, opened: Open, store: Store) -> None:
    model.answers = [stream(600)]
    budgets = Budgets(per_day=1000, ledger=store)
    one, other = opened(Meter(budgets)), opened(Meter(budgets))
    begun = time.time()
    with client_of(one) as client, client_of(other) as another:
        assert [ask(client).status_code, ask(another).status_code] == [200, 200]
        assert [ask(client).status_code, ask(another).status_code] == [400, 400]
    assert len(model.requests) == 2
    for gate in (one, other):
        ending = ending_of(gate.answers)
        assert ending is not None
        assert ending.outcome is Outcome.DAY_BUDGET
        assert ending.retry_at in (next_day(begun), next_day(time.time())), "it may be midnight"
        assert ending.fault is not None
        assert ending.fault.cause == "token-budget"
    assert store.spent().tokens == 1200, "the last answers may go beyond"


def test_one_that_fits_into_no_day_is_the_pull_requests(model: Model, opened: Open, store: Store) -> None:
    gate = opened(Meter(Budgets(per_day=1000, ledger=store)))
    with client_of(gate) as client:
        client.post("/v1/responses", json={"input": "x" * 5000})
    assert outcome(gate) is Outcome.TOKEN_BUDGET
    assert not store.spent().used_up(1000)


def test_after_the_time_of_the_review_nothing_passes(model: Model, opened: Open) -> None:
    gate = opened(Meter(deadline=time.monotonic() - 1))
    with client_of(gate) as client:
        assert ask(client).json()["error"]["code"] == "time_budget"
    assert (model.requests, outcome(gate)) == ([], Outcome.TIMEOUT)


class Broken:
    def take(self, tokens: int, limit: int) -> str | None:
        raise OperationalError("UPDATE", {}, Exception("database or disk is full"))

    def settle(self, day: str, change: int) -> None: ...


def test_where_tokens_cannot_be_counted_nothing_passes(model: Model, opened: Open) -> None:
    gate = opened(Meter(Budgets(ledger=Broken())))
    with client_of(gate) as client:
        assert ask(client).status_code == 400
    assert model.requests == []
    assert isinstance(gate.broken, OperationalError), "and it is told as what it is: the workstation's"


@dataclass(frozen=True)
class Nowhere:
    tree: Path
    git_dir: Path
    objects: Path


@pytest.mark.parametrize("broken", [True, False])
def test_a_review_whose_tokens_cannot_be_counted_is_the_workstations_fault(
    broken: bool, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of a review but Codex itself, in whose place a request is sent to the gate."""
    path = tmp_path / "work" / "first" / "gate.sock"

    def ask_once(argv: Sequence[str], **_: object) -> process.Completed:
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://x") as client:
            ask(client)
        return process.Completed(tuple(argv), 1, b"", b"", 0.0)

    monkeypatch.setattr("appliance.codex.process.run", ask_once)
    model.answers = [Wire(401, {}, b"{}")]
    pull = Pull("o/n#1", "o/n", 1, "a" * 40, "main", "b" * 40)
    for folder in (tree := tmp_path / "tree", git_dir := tmp_path / "git", objects := tmp_path / "objects"):
        folder.mkdir()

    def review() -> Ending:
        return codex.review(
            codex.Job(pull, "b" * 40, "b" * 40, [], Nowhere(tree, git_dir, objects)),
            codex.Model("m", "low", Upstream(model.url)),
            tmp_path / "work",
            timeout=20,
            stop=None,
            probe=lambda: None,
            budgets=Budgets(ledger=Broken() if broken else None),
        )

    if broken:
        with pytest.raises(OperationalError):  # at the boundary of an attempt this is a full disk
            review()
        assert fault_of(OperationalError("UPDATE", {}, Exception("database or disk is full"))).cause == "disk-full"
    else:
        assert review().outcome is Outcome.LOGIN


def test_usage_of_several_at_once_is_all_counted(model: Model, opened: Open, store: Store) -> None:
    model.answers = [stream(100)]
    gate = opened(Meter(Budgets(ledger=store)))
    with client_of(gate) as client:
        threads = [threading.Thread(target=ask, args=(client,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert store.spent().tokens == 800
    assert json.dumps([answer.usage.input_tokens for answer in gate.answers if answer.usage]) == json.dumps([99] * 8)
