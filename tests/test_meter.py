"""What one attempt may use, and the day's tokens, shared by processes."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
from days import NOON

from appliance.core import budget
from appliance.core.budget import Spent
from appliance.core.moments import next_day
from appliance.core.plan import Hold
from appliance.core.verdict import Gate
from appliance.meter import Budgets, Meter, Ticket
from appliance.store import Store, open_store

MIDNIGHT = 1_796_083_200.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "appliance.db", lambda: NOON)


def asked(meter: Meter, size: int) -> Ticket:
    ticket = meter.ask(size)
    assert isinstance(ticket, Ticket), ticket
    return ticket


def test_without_limits_all_is_let_through_and_counted() -> None:
    meter = Meter()
    meter.settle(asked(meter, 4_000_000), 7)
    assert meter.used == 7


def test_a_review_is_refused_what_does_not_fit_by_its_size_alone() -> None:
    meter = Meter(Budgets(per_review=100))
    meter.settle(asked(meter, 200), 60)  # it is 50 tokens large, and took 60
    assert meter.ask(164) == "review"  # 41
    ticket = asked(meter, 160)
    assert (ticket.room, meter.used) == (0, 100)
    assert meter.ask(4) == "review", "what is under way is set aside"
    meter.settle(ticket, 300)  # what an answer takes is known only afterwards
    assert meter.ask(0) == "review"


def test_many_at_once_never_get_more_than_there_is() -> None:
    meter, got = Meter(Budgets(per_review=100)), []
    threads = [threading.Thread(target=lambda: got.append(meter.ask(40))) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(one, Ticket) for one in got) == 10
    assert meter.used == 100


def test_after_the_time_nothing_is_let_through() -> None:
    now = [10.0]
    meter = Meter(deadline=11.0, clock=lambda: now[0])
    asked(meter, 4)
    now[0] = 11.0
    assert meter.ask(4) == "time"


def test_the_day_counts_what_each_request_took(store: Store) -> None:
    meter = Meter(Budgets(per_day=1000, ledger=store))
    ticket = asked(meter, 400)
    assert store.spent() == Spent("2026-11-30", 100), "as long as nobody knows better"
    meter.settle(ticket, 250)
    assert store.spent().tokens == 250
    assert meter.ask(4 * 751) == "day"
    assert store.spent() == Spent("2026-11-30", 250, refused_under=1000)
    assert meter.used == 250


def test_what_fits_into_no_day_uses_up_none(store: Store) -> None:
    assert Meter(Budgets(per_day=1000, ledger=store)).ask(4004) == "large"
    assert store.spent() == Spent("2026-11-30")


@pytest.mark.parametrize(
    ("tokens", "refused_under", "limit", "used_up"),
    [
        (0, 0, 1, False),
        (1, 0, 1, True),
        (5, 0, 0, False),  # no limit
        (5, 9, 0, False),
        (5, 9, 9, True),
        (5, 9, 8, True),
        (5, 9, 10, False),  # raised since
    ],
)
def test_when_a_day_is_used_up(tokens: int, refused_under: int, limit: int, used_up: bool) -> None:
    assert Spent("2026-11-30", tokens, refused_under).used_up(limit) is used_up


def test_the_hold_of_a_used_up_day() -> None:
    spent = Spent("2026-11-30", 1000)
    hold = budget.hold_of(spent, 1000, NOON)
    reason = "token-budget: The token budget of the day (1,000 tokens) is used up."
    gate = Gate("pending", "token budget of the day is used up, next try 00:00 UTC")
    assert hold == Hold(reason, MIDNIGHT, gate)
    assert len(gate.description) <= 140
    assert budget.hold_of(spent, 1001, NOON) is None
    assert budget.hold_of(spent, 1000, MIDNIGHT) is None, "the day is over"
    assert (next_day(MIDNIGHT), next_day(MIDNIGHT - 0.5)) == (MIDNIGHT + 86_400, MIDNIGHT)


def test_the_next_day_begins_anew(tmp_path: Path) -> None:
    now = [MIDNIGHT - 1]
    store = open_store(tmp_path / "appliance.db", lambda: now[0])
    meter = Meter(Budgets(per_day=100, ledger=store))
    ticket = asked(meter, 400)
    assert meter.ask(4) == "day"
    now[0] = MIDNIGHT + 1
    asked(meter, 4)
    meter.settle(ticket, 90)  # of yesterday's
    assert store.spent() == Spent("2026-12-01", 1)
    now[0] = MIDNIGHT - 1
    assert store.spent() == Spent("2026-11-30", 90, 100)
    store.close()


SPENDER = """
import sys
from appliance.store import open_store
store = open_store(sys.argv[1], lambda: 1_796_040_000.0)
print(sum(store.take(7, 1000) is not None for _ in range(60)))
"""


def test_processes_share_a_day_to_the_last_token(tmp_path: Path) -> None:
    open_store(tmp_path / "appliance.db").close()
    command = [sys.executable, "-c", SPENDER.replace("sys.argv[1]", "__import__('pathlib').Path(sys.argv[1])")]
    running = [
        subprocess.Popen([*command, str(tmp_path / "appliance.db")], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    taken = [int(process.communicate(timeout=60)[0]) for process in running]
    assert sum(taken) == 1000 // 7
    with_restart = open_store(tmp_path / "appliance.db", lambda: NOON)
    assert with_restart.spent() == Spent("2026-11-30", 7 * (1000 // 7), 1000)
    with_restart.close()
