"""What a finding means, and the figures of many: matching, counts, intervals."""

import json
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import pytest

from appliance.core.evaluation.case import BadCase, Case, Golden, case_of, digest, golden_digest
from appliance.core.evaluation.figures import Prices, bootstrap, f1, mean, proportion, wilson
from appliance.core.evaluation.matching import MAX_SPARE, edges, match, relation, to_judge
from appliance.core.evaluation.runs import Run, read_run, run_of, state_of
from appliance.core.evaluation.score import Counts, Scored, counts, score, summarize
from appliance.core.evaluation.shown import Heading, lines
from appliance.core.findings import Finding, Result, Review, Usage
from appliance.core.outcomes import RULES, Ending, Outcome


def golden(first: int, last: int | None = None, *, path: str | None = "a.py", priority: int = 1, **more: Any) -> Golden:
    return Golden("It is wrong.", path, first, first if last is None else last, priority, **more)


def finding(first: int, last: int | None = None, *, path: str = "a.py") -> Finding:
    return Finding("Wrong", "It is wrong.", 1, 0.9, path, first, first if last is None else last)


# --- which finding means which golden


@pytest.mark.parametrize(
    ("found", "known", "expected"),
    [
        (finding(10), golden(10), "overlaps"),
        (finding(8, 12), golden(10), "overlaps"),
        (finding(10), golden(8, 12), "overlaps"),
        (finding(7), golden(10), "overlaps"),
        (finding(13), golden(10), "overlaps"),
        (finding(6), golden(10), "same file"),
        (finding(14), golden(10), "same file"),
        (finding(10, path="b.py"), golden(10), "elsewhere"),
        (finding(10, path="old.py"), golden(10, path="new.py"), "overlaps"),
        (finding(10, path="new.py"), golden(10, path="old.py"), "overlaps"),
        (finding(1, 1 + MAX_SPARE), golden(10), "overlaps"),
        (finding(1, 2 + MAX_SPARE), golden(10), "same file"),
        (finding(10), golden(10, side="LEFT"), "same file"),
        (finding(10), Golden("It is wrong."), "anywhere"),
        (finding(10), Golden("It is wrong.", "a.py"), "same file"),
        (finding(10), Golden("It is wrong.", "b.py"), "elsewhere"),
    ],
)
def test_how_a_finding_lies_to_a_golden(found: Finding, known: Golden, expected: str) -> None:
    assert relation(found, known, {"old.py": "new.py"}) == expected


def test_the_tolerance_is_that_of_the_caller() -> None:
    assert relation(finding(10), golden(11), {}, 0) == "same file"
    assert relation(finding(10), golden(15), {}, 5) == "overlaps"


def test_without_a_judge_lines_decide() -> None:
    goldens, findings = [golden(10), golden(50), Golden("somewhere")], [finding(11), finding(52), finding(90)]
    assert edges(goldens, findings, {}, {}) == {(0, 0), (1, 1)}


def test_a_judge_is_asked_of_all_but_other_files_and_holds_above_lines() -> None:
    goldens, findings = [golden(10), Golden("somewhere")], [finding(10), finding(90), finding(10, path="b.py")]
    assert to_judge(goldens, findings, {}) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    judged = {(0, 0): False, (0, 1): True, (1, 2): True}
    assert edges(goldens, findings, {}, judged) == {(0, 1), (1, 2)}
    assert edges(goldens, findings, {}, {(0, 0): None}) == {(0, 0)}, "nothing usable: the lines decide"
    assert edges(goldens, findings, {}, {(0, 2): True}) == {(0, 0)}, "nobody makes two files one"


def test_the_most_goldens_are_matched_where_taking_the_first_would_lose_one() -> None:
    known = [golden(10), golden(12)]
    found = match(known, 2, {(0, 0), (0, 1), (1, 0)})
    assert found.matched == ((0, 1), (1, 0))
    assert (found.missed, found.false, found.duplicates) == ((), (), ())


def test_matching_is_as_large_as_the_largest_there_is() -> None:
    """All graphs of three goldens and three findings, against trying every assignment."""
    known = [golden(1, priority=priority) for priority in (2, 0, 1)]
    cells = list(product(range(3), range(3)))
    for mask in range(1 << len(cells)):
        pairs = {cell for bit, cell in enumerate(cells) if mask >> bit & 1}
        found = match(known, 3, pairs)
        assert set(found.matched) <= pairs
        assert len({a for a, _ in found.matched}) == len({b for _, b in found.matched}) == len(found.matched)
        assert set(found.missed) == {0, 1, 2} - {a for a, _ in found.matched}
        assert set(found.false) == {0, 1, 2} - {b for _, b in found.matched}
        every = [{(a, b) for a, b in enumerate(order) if (a, b) in pairs} for order in permutations(range(3))]
        assert len(found.matched) == max(map(len, every))
        largest = [sorted(known[a].priority for a, _ in one) for one in every if len(one) == len(found.matched)]
        assert sorted(known[a].priority for a, _ in found.matched) == min(largest), "the gravest of the largest"


def test_a_second_finding_of_one_defect_is_false_and_told_apart() -> None:
    found = match([golden(10)], 3, {(0, 0), (0, 1)})
    assert (len(found.matched), found.false, found.duplicates) == (1, (1, 2), (1,))


# --- figures


def test_wilson_agrees_with_the_published_numbers() -> None:
    """Newcombe 1998, table I, method 3: 81 of 263, 15 of 148, 0 of 20, 1 of 29."""
    for part, whole, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        found = wilson(part, whole)
        assert found is not None
        assert (round(found.low, 4), round(found.high, 4)) == (low, high)
    nearly = wilson(1, 29)
    assert nearly is not None
    assert (round(nearly.low, 4), round(nearly.high, 4)) == (0.0061, 0.1718)


@pytest.mark.parametrize("whole", [1, 3, 20, 1000])
def test_wilson_stays_between_0_and_1_and_holds_the_share(whole: int) -> None:
    for part in {0, 1, whole // 2, whole}:
        found = wilson(part, whole)
        assert found is not None
        assert 0.0 <= found.low <= part / whole <= found.high <= 1.0


def test_of_nothing_there_is_no_figure() -> None:
    assert wilson(0, 0) is None
    assert proportion(0, 0).value is None
    assert f1(0, 0, 0) is None
    assert mean([]) is None
    assert bootstrap([], mean) is None
    assert f1(0, 1, 0) == f1(0, 0, 1) == 0.0


def test_the_bootstrap_is_the_same_each_time_and_about_right() -> None:
    values = [float(one % 10) for one in range(100)]
    found = bootstrap(values, mean)
    assert found is not None
    assert found == bootstrap(values, mean)
    assert found.low < 4.5 < found.high
    error = (8.25 / 100) ** 0.5  # of the mean; the interval is about 2 * 1.96 of it
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.15)


def test_one_case_tells_nothing_of_how_cases_differ() -> None:
    assert bootstrap([4.0], mean) is None
    found = bootstrap([4.0, 4.0], mean)
    assert found is not None
    assert (found.low, found.high) == (4.0, 4.0)


def test_an_interval_of_lucky_resamples_is_none() -> None:
    assert bootstrap([1, 0], lambda drawn: mean([1.0] * sum(drawn))) is None  # a quarter of them has no figure


def test_money_counts_cached_input_once() -> None:
    prices = Prices(input=2.0, cached=0.5, output=10.0)
    assert prices.of(Usage(1_000_000, 400_000, 100_000, 50_000)) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 1.0)
    assert prices.of(Usage()) == 0.0
    assert prices.of(Usage(10, 20, 0, 0)) == pytest.approx(10 * 0.5 / 1e6), (
        "more cached than input: never below nothing"
    )


# --- cases


GOOD: dict[str, Any] = {
    "title": "t",
    "goldens": [{"what": "w", "path": "a.py", "line_start": 3, "priority": "P0", "kind": "race"}],
}


def test_a_case_is_read() -> None:
    found = case_of("one", GOOD)
    assert found.goldens == (Golden("w", "a.py", 3, 3, 0, "race"),)
    assert not found.clean
    assert case_of("two", {"title": "t", "goldens": []}).clean


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"title": "t"}, "goldens: Field required"),
        (None, "valid dictionary"),
        (GOOD | {"titel": "t"}, "titel: Extra inputs"),
        (GOOD | {"title": ""}, "title: String should have at least 1"),
        (GOOD | {"deleted": ["../x"]}, "'../x' is no path inside the repository"),
        (GOOD | {"goldens": [{"what": "w", "path": "/etc/passwd"}]}, "goldens.0.path: is no path inside"),
        (GOOD | {"goldens": [{"what": "w", "path": ".git/config"}]}, "goldens.0.path: is no path inside"),
        (GOOD | {"goldens": [{"what": "w", "path": "a", "line_start": 0}]}, "goldens.0.line_start"),
        (GOOD | {"goldens": [{"what": "w", "path": "a", "line_start": 3, "line_end": 2}]}, "line_end is before"),
        (GOOD | {"goldens": [{"what": "w", "path": "a", "line_end": 2}]}, "line_end without line_start"),
        (GOOD | {"goldens": [{"what": "w", "line_start": 2}]}, "line_start without path"),
        (GOOD | {"goldens": [{"what": "w", "priority": 4}]}, "goldens.0.priority"),
        (GOOD | {"goldens": [{"what": "w", "priority": True}]}, "goldens.0.priority"),
    ],
)
def test_a_bad_case_says_what_is_wrong(told: object, said: str) -> None:
    with pytest.raises(BadCase) as bad:
        case_of("one", told)
    assert said in str(bad.value)


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(BadCase) as bad:
        case_of("a b/..", {"goldens": [{"what": ""}, {"priority": 9}]})
    assert len(bad.value.problems) == 5


def test_the_digest_changes_with_what_the_reviewer_sees() -> None:
    case = case_of("one", GOOD)
    assert (
        len({digest(case), digest(case, b"x"), digest(replace(case, title="u")), digest(replace(case, body="b"))}) == 4
    )
    assert digest(case) == digest(replace(case, goldens=(), kind="k")), "the reviewer sees none of it"
    golden = case.goldens[0]
    assert golden_digest(golden) != golden_digest(replace(golden, what="v"))
    assert digest(case) == digest(case_of("one", GOOD))


# --- runs


def ending(*found: Finding, outcome: Outcome = Outcome.REVIEWED, nothing: bool = False) -> Ending:
    if outcome is not Outcome.REVIEWED:
        return Ending(outcome, "why")
    result = Result("incorrect" if found else "correct", "s", "r", "l", found)
    usage = Usage(1000, 400, 100, 50)
    review = Review("t", "h", "main", "b", "m", result, usage, seconds=2.0, nothing_to_review=nothing)
    return Ending(outcome, "reviewed", review=review)


def test_a_run_survives_its_line() -> None:
    run = run_of("one", 2, "d", ending(finding(3)), {"a": "b"})
    line = json.loads(json.dumps(run.to_json()))
    assert read_run(line) == run
    line["findings"][0]["from_a_later_version"] = 1
    assert read_run(line) == run
    del line["digest"]
    with pytest.raises(KeyError):
        read_run(line)


@pytest.mark.parametrize("outcome", [one for one in Outcome if one is not Outcome.REVIEWED])
def test_only_what_is_the_reviewers_own_is_a_failure(outcome: Outcome) -> None:
    expected = "failed" if RULES[outcome].counts else "excluded"
    assert state_of(ending(outcome=outcome)) == expected
    own = {Outcome.MODEL_OUTPUT, Outcome.TIMEOUT, Outcome.CONTEXT, Outcome.TURN_FAILED, Outcome.TOKEN_BUDGET}
    assert (expected == "failed") == (outcome in own)


def test_a_review_of_nothing_and_one_that_is_not_there_are_excluded() -> None:
    assert state_of(ending(nothing=True)) == "excluded"
    assert state_of(Ending(Outcome.REVIEWED, "reviewed")) == "excluded"


def scored(
    case: Case, how: Ending, number: int = 1, judged: dict[tuple[int, int], bool | None] | None = None
) -> Scored:
    return score(case, run_of(case.name, number, "d", how, {}), judged)


DEFECT = Case("defect", "t", language="Go", kind="race", goldens=(golden(10), golden(50, kind="leak")))
CLEAN = Case("clean", "t")


def test_what_is_excluded_is_in_no_figure_and_named() -> None:
    for outcome in (Outcome.SANDBOX, Outcome.QUOTA, Outcome.LOGIN, Outcome.WORKSTATION, Outcome.MODEL_UNREACHABLE):
        found = summarize([scored(DEFECT, ending(finding(10))), scored(CLEAN, ending(outcome=outcome))])
        assert found.counts == Counts(1, 0, 1)
        assert (found.clean_reviewed, found.false_alarms.value) == (0, None)
        assert found.excluded == (f"clean #1: {outcome.value} (why)",)
        assert not found.complete
        alone = summarize([scored(DEFECT, ending(outcome=outcome))])
        assert (alone.recall.value, alone.precision.value, alone.f1.value) == (None, None, None)


def test_what_the_reviewer_fails_at_is_missed_and_named() -> None:
    found = summarize([scored(DEFECT, ending(outcome=Outcome.TIMEOUT)), scored(CLEAN, ending(outcome=Outcome.TIMEOUT))])
    assert found.counts == Counts(0, 0, 2)
    assert found.recall.value == 0.0
    assert found.precision.value is None, "nothing was found, so nothing of it was right or wrong"
    assert found.false_alarms.value is None
    assert found.seconds.value is None
    assert found.failed == ("clean #1: why", "defect #1: why")
    assert found.complete, "nobody else's fault kept it from being measured"


def test_clean_cases_have_a_rate_of_false_alarms() -> None:
    other = replace(CLEAN, name="other")
    found = summarize([scored(CLEAN, ending()), scored(other, ending(finding(1), finding(2)))])
    assert (found.clean_reviewed, found.clean_alarms, found.false_alarms.value) == (2, 1, 0.5)
    assert found.counts == Counts(0, 2, 0)
    assert (found.precision.value, found.recall.value, found.f1.value) == (0.0, None, 0.0)
    assert found.complete


def test_a_verdict_against_a_clean_change_is_a_false_alarm_without_a_finding_too() -> None:
    run = run_of("clean", 1, "d", ending(), {})
    found = summarize([score(CLEAN, replace(run, verdict="incorrect"))])
    assert (found.clean_alarms, found.false_alarms.value, found.counts.false) == (1, 1.0, 0)
    assert summarize([score(CLEAN, replace(run, verdict="inconclusive"))]).clean_alarms == 0


def test_nothing_that_was_right_to_find_and_nothing_found_has_no_figure() -> None:
    found = summarize([scored(CLEAN, ending())])
    assert (found.precision.value, found.recall.value, found.f1.value) == (None, None, None)
    assert found.false_alarms.value == 0.0


def test_the_figures_of_a_mixed_lot() -> None:
    other = replace(DEFECT, name="other")
    found = summarize(
        [scored(DEFECT, ending(finding(9), finding(11), finding(90))), scored(other, ending(finding(50)))],
        prices=Prices(1.0, 0.5, 10.0),
    )
    assert found.counts == Counts(true=2, false=2, missed=2, duplicates=1)
    assert (found.precision.value, found.recall.value, found.f1.value) == (0.5, 0.5, 0.5)
    assert found.tokens.value == 1100
    assert found.money.value == pytest.approx((600 + 200 + 1000) / 1e6)
    assert found.seconds.value == 2.0
    assert found.precision.interval is not None
    assert found.precision.interval.method == "wilson"
    assert [(one.name, one.found, one.goldens) for one in found.kinds] == [("leak", 1, 2), ("race", 1, 2)]
    assert [(one.name, one.found, one.goldens) for one in found.languages] == [("Go", 2, 4)]
    assert found.usage == Usage(2000, 800, 200, 100)
    assert (found.cases, found.runs, found.reviewed) == (2, 2, 2)


def test_repetitions_of_a_case_are_drawn_together() -> None:
    """Ten runs of two cases say no more of the next case than two."""
    other = replace(DEFECT, name="other")
    runs = [scored(DEFECT, ending(finding(10), finding(50)), number) for number in range(1, 11)]
    runs += [scored(other, ending(), number) for number in range(1, 11)]
    found = summarize(runs)
    assert found.recall.value == 0.5
    assert found.recall.interval is not None
    assert (found.recall.interval.method, found.recall.interval.low, found.recall.interval.high) == (
        "bootstrap",
        0.0,
        1.0,
    )


def test_a_run_that_was_not_begun_makes_it_incomplete() -> None:
    found = summarize([scored(CLEAN, ending())], not_run=[("defect", 1)])
    assert (found.cases, found.runs, found.not_run, found.complete) == (2, 2, ("defect #1",), False)
    assert not summarize([]).complete, "nothing at all is not everything"


def test_a_pair_without_a_judgement_is_named() -> None:
    one = scored(DEFECT, ending(finding(10)), judged={(0, 0): None, (1, 0): False})
    assert counts([one]) == Counts(1, 0, 1)
    found = summarize([one])
    assert found.undecided == ("defect #1: golden 1, finding 1",)
    assert not found.complete
    unasked = scored(DEFECT, ending(finding(10)), judged={(0, 0): True})
    assert summarize([unasked]).undecided == ("defect #1: golden 2, finding 1",)


# --- as people read it


def shown(*of: Scored, rehearsal: bool = False, prices: Prices | None = None, judge: str = "") -> str:
    heading = Heading("set", "model", "high", rehearsal, judge, 3, 1234)
    return "\n".join(lines(heading, of, summarize(of, prices=prices), prices))


def test_what_is_shown() -> None:
    text = shown(scored(DEFECT, ending(finding(10), finding(11))), scored(CLEAN, ending()))
    assert "precision     0.50 [0.09, 0.91]  1 of 2 findings" in text
    assert "of the 1 others 1 name a defect that another finding has" in text
    assert "recall        0.50 [0.09, 0.91]  1 of 2 goldens" in text
    assert "false alarms  0.00 [0.00, 0.79]  0 of 1 reviews of clean cases" in text
    assert "  clean: clean, 0 found, 0 missed, 0 false; 2.0 s, 1,100 tokens" in text
    assert "      missed a.py:50 It is wrong." in text
    assert "      again  a.py:11 P1 Wrong" in text
    assert "no judge: a finding means a golden if their lines meet (within 3)" in text
    assert text.endswith("complete: 2 runs of 2 cases")
    assert "REHEARSAL" not in text
    assert "money" not in text


def test_what_has_no_figure_is_shown_as_none() -> None:
    text = shown(scored(DEFECT, ending(outcome=Outcome.QUOTA)))
    for name in ("precision ", "recall ", "F1 ", "false alarms ", "tokens ", "seconds "):
        line = next(line for line in text.splitlines() if line.startswith(name))
        assert line.split()[-1] == "none" or " none" in line, line
    assert text.endswith("INCOMPLETE: 0 of 1 runs are counted")
    assert "excluded (1; in no figure: nothing of the reviewer's):\n  defect #1: quota (why)" in text


def test_a_rehearsal_says_so_first() -> None:
    assert shown(scored(CLEAN, ending()), rehearsal=True).startswith("REHEARSAL: a scripted model")


def test_money_and_judge_are_shown_where_there_are_any() -> None:
    text = shown(scored(CLEAN, ending()), prices=Prices(1, 1, 1), judge="gpt-x")
    assert "0.0011 money" in text
    assert "judge gpt-x: asked 3 times, 1,234 tokens (in no figure below)" in text


def test_a_summary_is_json() -> None:
    told = json.loads(json.dumps(summarize([scored(DEFECT, ending(finding(10)))]).to_json()))
    assert told["complete"] is True
    assert told["precision"] == {
        "value": 1.0,
        "interval": {"low": pytest.approx(0.2065, abs=1e-4), "high": 1.0, "method": "wilson"},
    }
    assert told["false_alarms"] == {"value": None, "interval": None}


def test_an_unknown_state_is_no_run() -> None:
    line = Run("a", 1, "d", "reviewed", "reviewed").to_json()
    with pytest.raises(ValueError, match="unknown state"):
        read_run(line | {"state": "fine"})
