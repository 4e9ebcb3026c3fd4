"""A stored review as it is after people decided about its findings: pure, and in the database."""

from dataclasses import replace
from pathlib import Path

import pytest

from appliance.core.earlier import Known, State, by_decisions, dismiss, gate_after, reopen
from appliance.core.findings import EarlierFinding, Evidence, Finding, NotSeen, Result, Review
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate, gate_of
from appliance.store import Decided, Revised, Store, open_store

HEAD = "a" * 40
ONE = Finding("One", "It breaks.", 1, 0.9, "a.py", 1, 2, fingerprint="f1", suggestion="x", committable=True)
TWO = Finding("Two", "It breaks.", 2, 0.9, "a.py", 5, 5, fingerprint="f2")
FAILURE = Gate("failure", "1 blocking finding (P1)")


def review(*findings: Finding, earlier: tuple[EarlierFinding, ...] = (), verdict: str = "incorrect") -> Review:
    result = Result(verdict, "s", "r", "l", findings)  # type: ignore[arg-type]
    return Review("o/r#1", HEAD, "main", "b", "b", result, evidence=Evidence(("git diff",)), earlier=earlier)


def known(finding: Finding = ONE, state: State = "dismissed", who: str = "alice", reason: str = "legacy") -> Known:
    return Known(finding, state, HEAD, HEAD, reason=reason, who=who)


def test_dismissed_it_stands_among_the_earlier_ones_with_who_and_why() -> None:
    after = dismiss(review(ONE, TWO), known())
    assert after.result.findings == (TWO,)
    [told] = after.earlier
    assert (told.state, told.who, told.reason, told.reported) == ("dismissed", "alice", "legacy", True)
    assert gate_of(after, 1) == Gate("success", "no blocking findings (1 note, 1 dismissed)")


def test_opened_again_the_gate_is_what_it_was() -> None:
    before = review(TWO, ONE)
    after = reopen(dismiss(before, known()), known(state="open"))
    assert gate_of(after, 1) == gate_of(before, 1) == FAILURE
    back = next(each for each in after.result.findings if each.title == "One")
    assert (back.carried, back.suggestion, back.anchor) == (False, None, None)
    assert [(each.state, each.reported) for each in after.earlier] == [("open", True)]


def test_what_was_not_dismissed_is_not_opened_again() -> None:
    assert reopen(review(TWO), known(state="open")) == review(TWO)


def test_a_carried_one_was_not_reported_and_does_not_become_so() -> None:
    told = EarlierFinding("E1", "f1", 1, "a.py", "One", HEAD, "open")
    once = dismiss(review(replace(ONE, carried=True), earlier=(told,)), known())
    again = dismiss(once, known(reason="other"))
    for after in (once, again):
        assert [each.reported for each in after.earlier] == [False]
        assert gate_of(after, 1) == Gate("failure", "verdict incorrect, without a finding")
    assert again.earlier[0].reason == "other"
    assert gate_of(dismiss(review(replace(ONE, carried=True), verdict="correct"), known()), 1).state == "success"
    back = reopen(again, known(state="open"))
    assert [each.carried for each in back.result.findings] == [True]


@pytest.mark.parametrize("verdict", ["correct", "incorrect"])
def test_a_review_follows_what_was_decided_and_twice_is_once(verdict: str) -> None:
    before = review(ONE, TWO, verdict=verdict)
    after = by_decisions(before, [known(), known(TWO, "open")])
    assert after == dismiss(before, known())
    assert by_decisions(after, [known()]) == after
    assert gate_of(by_decisions(after, [known(state="open")]), 1) == FAILURE
    assert by_decisions(before, [known(replace(ONE, fingerprint="f9"))]) == before


@pytest.mark.parametrize("state", ["resolved", "obsolete"])
def test_what_is_gone_in_a_review_stays_gone_there(state: State) -> None:
    told = EarlierFinding("E1", "f1", 1, "a.py", "One", HEAD, state, "c" * 40, "gone")
    assert by_decisions(review(earlier=(told,)), [known()]) == review(earlier=(told,))


def test_where_nobody_judged_no_decision_makes_a_success() -> None:
    for was in (Gate("error", "the reviewer ran no command, so nobody looked"), Gate("pending", "x")):
        assert gate_after(dismiss(review(ONE, verdict="correct"), known()), was, 1) == was
    blind = replace(review(ONE, verdict="correct"), evidence=Evidence())
    trimmed = replace(review(ONE), coverage=replace(review().coverage, trimmed=(NotSeen("a.py", "trimmed"),)))
    for each in (blind, trimmed, review(ONE, verdict="inconclusive"), replace(review(ONE), nothing_to_review=True)):
        assert gate_after(dismiss(each, known()), FAILURE, 1).state == "error"


# ---- in the database


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "a.db")


def stored(store: Store, *findings: Finding) -> Revised:
    made = store.finish(None, review(*findings), FAILURE)
    found = store.review(made)
    assert found and found.review
    store.note_findings(found.review)
    after = dismiss(found.review, known())
    return Revised(found, after, gate_of(after, 1))


def test_a_decision_is_one_step_with_the_review_that_follows_it(store: Store) -> None:
    revised = stored(store, ONE)
    assert store.decide("o/r#1", Decided(known(), "T", 7), revised)
    after = store.review(revised.stored.id)
    assert after and (after.gate.state, after.revision) == ("success", 1)
    assert [each.state for each in store.known("o/r#1")] == ["dismissed"]
    assert store.decided_in("o/r#1") == {"f1": 7}
    letters = [letter.key for letter in store.letters() if letter.kind == "revise"]
    assert letters == [f"review {revised.stored.id} revision 1"]


def test_a_review_that_is_no_longer_what_it_was_is_not_written_over(store: Store) -> None:
    revised = stored(store, ONE)
    assert store.decide("o/r#1", Decided(known(), "T", 7), revised)
    assert not store.decide("o/r#1", Decided(known(state="open"), "T", 9), revised)
    assert store.decided_in("o/r#1") == {"f1": 7}
    store.abandon(revised.stored.id)
    gone = replace(revised, stored=replace(revised.stored, revision=1))
    assert not store.decide("o/r#1", Decided(known(state="open"), "T", 9), gone)
    assert [each.state for each in store.known("o/r#1")] == ["dismissed"]


def test_a_review_that_is_delivered_opens_nothing_again(store: Store) -> None:
    stored(store, ONE)
    store.decide("o/r#1", Decided(known(), "T", 7))
    store.note_findings(review(ONE))
    gone = EarlierFinding("E1", "f1", 1, "a.py", "One", HEAD, "resolved", "c" * 40, "gone")
    store.note_findings(review(earlier=(gone,)))
    [after] = store.known("o/r#1")
    assert (after.state, after.who, after.reason) == ("dismissed", "alice", "legacy")
    [told] = store.earlier_heads(Pull("o/r#1", "o/r", 1, HEAD, "main", "b")).dismissed
    assert told.fingerprint == "f1"


def test_a_review_of_before_dismisses_nothing_that_is_open_again(store: Store) -> None:
    revised = stored(store, ONE)
    store.decide("o/r#1", Decided(known(state="open", who="", reason=""), "T", 9))
    store.note_findings(revised.review)
    assert [each.state for each in store.known("o/r#1")] == ["open"]


def open_now(store: Store) -> set[str]:
    history = store.earlier_heads(Pull("o/r#1", "o/r", 1, "d" * 40, "main", "b"))
    return {each.fingerprint for each in history.known if each.state == "open"}


def test_what_a_review_found_that_was_never_posted_is_open(store: Store) -> None:
    gone = EarlierFinding("E1", "f1", 1, "a.py", "One", HEAD, "resolved", "c" * 40, "gone")
    store.note_findings(review(ONE))
    store.abandon(store.finish(None, review(TWO, earlier=(gone,)), FAILURE))
    assert open_now(store) == {"f1", "f2"}, "nobody was told that f1 is no more"


def test_what_a_later_review_showed_to_be_no_more_stays_so(store: Store) -> None:
    store.abandon(store.finish(None, review(ONE), FAILURE))
    assert open_now(store) == {"f1"}
    gone = EarlierFinding("E1", "f1", 1, "a.py", "One", HEAD, "resolved", "c" * 40, "gone")
    later = review(earlier=(gone,), verdict="correct")
    store.note_findings(later)
    store.delivered(store.finish(None, later, Gate("success", "no blocking findings")), "1", "")
    assert open_now(store) == set()
