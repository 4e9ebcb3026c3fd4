"""What keeps a pull request waiting that could be reviewed, and whose turn it is. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC

import pytest

from appliance.core.moments import midnight, next_day
from appliance.core.plan import Action, Hold, Record, Review, Skip, Wait, plan
from appliance.core.pulls import Policy, Pull
from appliance.core.readiness import LATER_SECONDS, LOOK_SECONDS, Standing, by_checks, next_look
from appliance.core.verdict import (
    MAX_DESCRIPTION,
    WAITING,
    Gate,
    author_limit,
    checks_failed,
    checks_pending,
    checks_unreported,
    paused,
)
from appliance.core.windows import parse

PULL = Pull("octo/app#1", "octo/app", 1, "a" * 40, "main", "b" * 40, author="Alice", author_association="MEMBER")
GREEN = Gate("success", "no blocking findings")
NOW = 1_796_000_000.0  # 2026-11-30 00:53:20 UTC, a Monday
NIGHT = parse("Mon-Fri 08:00-18:00", lambda _: UTC)[0]


def pull(number: int, author: str = "alice", *labels: str) -> Pull:
    return replace(PULL, target=f"octo/app#{number}", number=number, author=author, labels=labels)


def act(record: Record, policy: Policy, hold: Hold | None = None, now: float = NOW) -> Action:
    [action] = plan([PULL], {PULL.target: record}, now, policy, hold)
    return action


QUIET = Policy(quiet_period=120)
LIMITED = Policy(reviews_per_author=2)
OUTSIDE = Policy(schedule=NIGHT)


@pytest.mark.parametrize(
    ("standing", "policy", "until", "gate"),
    [
        (Standing(head_seen_at=NOW), QUIET, NOW + 120, "pushed to a moment ago, next try 00:55 UTC"),
        (Standing(head_seen_at=NOW - 119.9), QUIET, NOW + 0.1, "pushed to a moment ago, next try 00:53 UTC"),
        (Standing(author_reviews=2), LIMITED, next_day(NOW),
         "limit of 2 reviews a day for its author, next try 2026-12-01 00:00 UTC"),
        (Standing(author_reviews=9), LIMITED, next_day(NOW),
         "limit of 2 reviews a day for its author, next try 2026-12-01 00:00 UTC"),
        (Standing(), OUTSIDE, midnight(NOW) + 8 * 3600, "outside the review schedule, next try 08:00 UTC"),
        (Standing(asked=True), OUTSIDE, midnight(NOW) + 8 * 3600, "outside the review schedule, next try 08:00 UTC"),
        (Standing(paused_by="bob"), Policy(), None, "paused by @bob; the comment /review resume goes on"),
        (Standing(checks=checks_pending(["ci"])), Policy(), None, "waiting for checks: ci"),
    ],
)  # fmt: skip
def test_each_rule_makes_it_wait_and_is_no_verdict(
    standing: Standing, policy: Policy, until: float | None, gate: str
) -> None:
    action = act(Record(standing=standing), policy)
    assert isinstance(action, Wait)
    assert action.gate == Gate("pending", gate)
    assert action.until == (None if until is None else pytest.approx(until))
    assert action.reason


@pytest.mark.parametrize(
    ("standing", "policy"),
    [
        (Standing(), QUIET),  # unknown when it was pushed: nothing to wait for
        (Standing(head_seen_at=NOW - 120), QUIET),
        (Standing(head_seen_at=NOW + 0.5), QUIET),  # the clock was set back
        (Standing(head_seen_at=NOW + 86_400), QUIET),
        (Standing(head_seen_at=NOW), Policy()),
        (Standing(author_reviews=1), LIMITED),
        (Standing(author_reviews=1000), Policy()),
        (Standing(head_seen_at=NOW, asked=True), QUIET),
        (Standing(author_reviews=2, asked=True), LIMITED),
        (Standing(paused_by="bob", asked=True), Policy()),
        (Standing(checks=checks_pending(["ci"]), asked=True), Policy()),
    ],
)
def test_none_holds_up_what_it_is_not_for(standing: Standing, policy: Policy) -> None:
    assert isinstance(act(Record(standing=standing), policy), Review)


EVERY = Standing(head_seen_at=NOW, paused_by="bob", author_reviews=9, checks=checks_failed(["ci"]))
ALL = replace(QUIET, schedule=NIGHT, reviews_per_author=1)


def test_a_verdict_that_is_there_stays_whatever_the_rules_say() -> None:
    assert act(Record(gate=GREEN, standing=EVERY), ALL) == Skip(PULL, "reviewed", GREEN)


def test_a_fault_goes_before_the_rules_and_no_command_goes_past_it() -> None:
    hold = Hold("apparmor: broken")
    for asked in (False, True):
        action = act(Record(standing=replace(EVERY, asked=asked)), ALL, hold)
        assert (action.gate, getattr(action, "reason", "")) == (WAITING, "apparmor: broken")


def test_no_gate_is_longer_than_a_forge_takes_or_has_two_lines() -> None:
    for gate in (checks_failed(["x" * 200]), checks_pending(["a\nb"] * 99), paused("y" * 300), author_limit(1000, "z")):
        assert len(gate.description) <= MAX_DESCRIPTION
        assert "\n" not in gate.description and gate.state == "pending"


# ---- whose turn it is


def order(records: dict[str, Record], pulls: Sequence[Pull], policy: Policy | None = None) -> list[int]:
    return [action.pull.number for action in plan(pulls, records, NOW, policy or Policy())]


def test_the_label_first_then_who_waits_longest_and_what_ended_in_a_fault_last() -> None:
    pulls = [pull(1), pull(2), pull(3, "a", "URGENT"), pull(4), pull(5, "a", "urgent"), pull(6, "a", "urgent")]
    since = {1: 50.0, 2: 10.0, 3: 90.0, 4: None, 5: 80.0, 6: 1.0}
    records = {
        it.target: Record(faults=int(it.number == 6), standing=Standing(waiting_since=since[it.number])) for it in pulls
    }
    assert order(records, pulls, Policy(first_label="Urgent")) == [5, 3, 2, 1, 4, 6]
    assert order(records, pulls) == [2, 1, 5, 3, 4, 6]


def test_those_of_one_moment_keep_the_order_of_the_listing() -> None:
    pulls = [pull(3), pull(1), pull(2)]
    assert order({it.target: Record() for it in pulls}, pulls) == [3, 1, 2]


def test_one_cycle_begins_no_more_for_an_author_than_the_day_allows() -> None:
    pulls = [pull(1, "Alice"), pull(2, "alice"), pull(3, "ALICE"), pull(4, "bob"), pull(5, "ghost"), pull(6, "ghost")]
    records = {it.target: Record(standing=Standing(author_reviews=int(it.number < 4))) for it in pulls}
    actions = plan(pulls, records, NOW, replace(LIMITED, reviews_per_author=2))
    assert [isinstance(action, Review) for action in actions] == [True, False, False, True, True, True]
    actions = plan(pulls, records, NOW, replace(LIMITED, reviews_per_author=1))
    assert [isinstance(action, Review) for action in actions] == [False, False, False, True, True, False]


# ---- the checks of others


@pytest.mark.parametrize(
    ("wanted", "pending", "failed", "passed", "age", "gate"),
    [
        (["ci"], [], [], ["ci"], 1.0, None),
        (["CI"], [], [], ["ci"], 1.0, None),
        (["ci"], [], ["lint"], ["ci"], 1.0, None),
        (["ci"], [], [], [], 1.0, checks_pending(["ci"])),
        (["ci"], [], [], [], 1e9, checks_pending(["ci"])),
        (["ci"], ["ci"], [], [], 1.0, checks_pending(["ci"])),
        (["ci"], ["ci"], [], ["ci"], 1.0, checks_pending(["ci"])),
        (["ci"], [], ["ci"], [], 1.0, checks_failed(["ci"])),
        (["ci"], [], ["ci"], ["ci"], 1.0, checks_failed(["ci"])),
        (["ci", "lint"], ["ci"], ["lint"], [], 1.0, checks_failed(["lint"])),
        (["*"], [], [], ["ci"], 1.0, None),
        (["*"], ["lint"], [], ["ci"], 1.0, checks_pending(["lint"])),
        (["*"], [], ["lint"], ["ci"], 1.0, checks_failed(["lint"])),
        (["*"], [], [], [], 1.0, checks_unreported()),
        (["*"], [], [], [], None, checks_unreported()),
        (["*"], [], [], [], 600.0, None),
        (["*"], [], [], [], -5.0, None),
        (["*", "ci"], [], [], [], 600.0, checks_pending(["ci"])),
        (["*", "ci"], [], [], ["lint"], 600.0, checks_pending(["ci"])),
    ],
)
def test_checks(
    wanted: list[str], pending: list[str], failed: list[str], passed: list[str], age: float | None, gate: Gate | None
) -> None:
    assert by_checks(wanted, pending, failed, passed, age) == gate


@pytest.mark.parametrize(
    ("gate", "age", "seconds"),
    [
        (checks_pending(["ci"]), 10.0, LOOK_SECONDS),
        (checks_pending(["ci"]), 3600.0, LATER_SECONDS),
        (checks_pending(["ci"]), None, LATER_SECONDS),
        (checks_failed(["ci"]), 10.0, LATER_SECONDS),
    ],
)
def test_how_soon_checks_are_looked_at_again(gate: Gate, age: float | None, seconds: float) -> None:
    assert next_look(gate, age, NOW) == NOW + seconds
