"""The one decision of a cycle."""

from dataclasses import replace

import pytest

from appliance.core.plan import REVIEWED, Action, GiveUp, Hold, Record, Review, Skip, Wait, plan
from appliance.core.pulls import Policy, Pull, not_ready
from appliance.core.verdict import WAITING, Gate, running, usage_limit

PULL = Pull("octo/app#1", "octo/app", 1, "a" * 40, "main", "b" * 40, author_association="MEMBER")
GREEN = Gate("success", "no blocking findings")
NOW = 1000.0


def decide(record: Record | None, hold: Hold | None = None, pull: Pull = PULL, policy: Policy | None = None) -> Action:
    records = {} if record is None else {pull.target: record}
    [action] = plan([pull], records, NOW, policy or Policy(), hold)
    return action


FAULT = Hold("apparmor: broken")
QUOTA = Hold("quota: reached", 2000.0, usage_limit("00:33 UTC"))


@pytest.mark.parametrize(
    ("record", "hold", "expected"),
    [
        (Record(), None, Review(PULL, 1, WAITING, running(1, 3))),
        (Record(attempts=2, reason="timeout"), None, Review(PULL, 3, WAITING, running(3, 3))),
        (Record(gate=GREEN), None, Skip(PULL, REVIEWED, GREEN)),
        (Record(gate=GREEN, attempts=3), None, Skip(PULL, REVIEWED, GREEN)),
        (Record(gate=GREEN), FAULT, Skip(PULL, REVIEWED, GREEN)),
        (Record(gate=GREEN, undelivered=True), None, Wait(PULL, "its review waits to be posted", None, None)),
        (Record(leased=True), None, Wait(PULL, "is being reviewed", None, None)),
        (Record(known=False), None, Wait(PULL, "the forge did not say whether it is reviewed", None, None)),
        (None, None, Wait(PULL, "the forge did not say whether it is reviewed", None, None)),
        (Record(known=False, attempts=3), None, Wait(PULL, "the forge did not say whether it is reviewed", None, None)),
        (Record(), FAULT, Wait(PULL, "apparmor: broken", None, WAITING)),
        (Record(), QUOTA, Wait(PULL, "quota: reached", 2000.0, Gate("pending", "usage limit, next try 00:33 UTC"))),
        (Record(), replace(QUOTA, until=NOW), Review(PULL, 1, WAITING, running(1, 3))),
        (
            Record(attempts=3, reason="timeout"),
            None,
            GiveUp(PULL, "review failed 3 times: timeout", 3, Gate("error", "review failed 3 times: timeout")),
        ),
        (
            Record(attempts=4, reason="timeout"),
            FAULT,
            GiveUp(PULL, "review failed 4 times: timeout", 4, Gate("error", "review failed 4 times: timeout")),
        ),
    ],
    ids=lambda value: "" if isinstance(value, Pull) else None,
)
def test_each_record_has_one_action(record: Record | None, hold: Hold | None, expected: Action) -> None:
    assert decide(record, hold) == expected


@pytest.mark.parametrize(
    ("change", "policy", "reason"),
    [
        ({"open": False}, Policy(), "closed"),
        ({"draft": True}, Policy(), "draft"),
        ({"author_association": "NONE"}, Policy(), "author association NONE"),
        ({"author": "ghost", "author_association": "NONE"}, Policy(), "author association NONE"),  # R35
        ({"author_association": ""}, Policy(), "author association "),
        ({"labels": ("WIP",)}, Policy(skip_labels=frozenset({"wip"})), "label wip"),
        ({}, Policy(require_label="Review"), "label Review is missing"),
        ({"labels": ("review",)}, Policy(require_label="Review"), None),
        ({"labels": ("other",)}, Policy(skip_labels=frozenset({"wip"})), None),
        ({}, Policy(author_associations=frozenset({"OWNER"})), "author association MEMBER"),
        ({}, Policy(), None),
    ],
)
def test_what_is_not_ready_is_skipped_and_shows_no_gate(
    change: dict[str, object], policy: Policy, reason: str | None
) -> None:
    pull = replace(PULL, **change)  # type: ignore[arg-type]
    assert not_ready(pull, policy) == reason
    action = decide(Record(gate=GREEN), pull=pull, policy=policy)
    assert action == (Skip(pull, reason, None) if reason else Skip(pull, REVIEWED, GREEN))


def test_what_ended_in_a_fault_of_its_own_goes_last_and_the_rest_keeps_its_order() -> None:
    pulls = [replace(PULL, target=f"octo/app#{number}", number=number) for number in (1, 2, 3, 4)]
    records = {pull.target: Record(faults=int(pull.number in (1, 3))) for pull in pulls}
    assert [action.pull.number for action in plan(pulls, records, NOW, Policy())] == [2, 4, 1, 3]


def test_it_asks_for_one_action_a_pull_request_and_none_for_none() -> None:
    assert plan([], {"octo/app#9": Record()}, NOW, Policy()) == []


@pytest.mark.parametrize(
    ("faults", "seconds", "waits"), [(1, 239, True), (1, 241, False), (3, 959, True), (3, 961, False)]
)
def test_one_whose_reviews_end_in_faults_waits_longer_each_time_and_alone(
    faults: int, seconds: float, waits: bool
) -> None:
    one, other = PULL, replace(PULL, target="octo/app#2", number=2)
    records = {one.target: Record(faults=faults, faulted_at=NOW - seconds), other.target: Record()}
    first, second = plan([one, other], records, NOW, Policy(interval=300))
    assert isinstance(first, Review) and first.pull == other
    assert isinstance(second, Wait if waits else Review)
    assert second.gate == WAITING
