"""From runs to figures: precision, recall, F1, false alarms, cost and time."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from appliance.core.evaluation.case import Case
from appliance.core.evaluation.figures import Figure, Prices, bootstrap, f1, mean, proportion, ratio
from appliance.core.evaluation.matching import TOLERANCE, Matching, Pair, edges, match, to_judge
from appliance.core.evaluation.runs import Run
from appliance.core.findings import Usage

Judged = Mapping[Pair, bool | None]


@dataclass(frozen=True)
class Scored:
    """One run with what its findings mean. `undecided` are the pairs of which the judge said nothing usable."""

    case: Case
    run: Run
    matching: Matching
    undecided: tuple[Pair, ...] = ()

    @property
    def counted(self) -> bool:
        return self.run.state != "excluded"

    @property
    def alarm(self) -> bool:
        """Whether it speaks against the change: a finding, or a verdict that would keep it from being merged."""
        return bool(self.run.findings) or self.run.verdict == "incorrect"


def score(case: Case, run: Run, judged: Judged | None = None, tolerance: int = TOLERANCE) -> Scored:
    """`judged`: what the judge said of each pair it was asked of; None if there is no judge."""
    said = judged or {}
    pairs = edges(case.goldens, run.findings, run.renamed, said, tolerance)
    matching = match(case.goldens, len(run.findings), pairs)
    if judged is None or run.state != "reviewed":
        return Scored(case, run, matching)
    asked = to_judge(case.goldens, run.findings, run.renamed, tolerance)
    return Scored(case, run, matching, tuple(pair for pair in asked if said.get(pair) is None))


@dataclass(frozen=True)
class Counts:
    """`true` and `false` findings, `missed` goldens; `duplicates` are among the false ones."""

    true: int = 0
    false: int = 0
    missed: int = 0
    duplicates: int = 0


def counts(scored: Iterable[Scored]) -> Counts:
    """Of the runs that are counted."""
    found = [one.matching for one in scored if one.counted]
    return Counts(
        sum(len(one.matched) for one in found),
        sum(len(one.false) for one in found),
        sum(len(one.missed) for one in found),
        sum(len(one.duplicates) for one in found),
    )


@dataclass(frozen=True)
class Group:
    """Recall of one kind of defect, or of one language."""

    name: str
    found: int
    goldens: int


@dataclass(frozen=True)
class Summary:
    """What an evaluation came to. `not_run` are runs that were never begun. Cost and time are means over reviews, one
    run of a case each; `money` has no value without prices."""

    cases: int
    runs: int
    reviewed: int
    counts: Counts
    precision: Figure
    recall: Figure
    f1: Figure
    false_alarms: Figure
    clean_reviewed: int
    clean_alarms: int
    tokens: Figure
    money: Figure
    seconds: Figure
    usage: Usage
    kinds: tuple[Group, ...]
    languages: tuple[Group, ...]
    inconclusive: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the figures are of all that was asked for."""
        return bool(self.runs) and not (self.excluded or self.not_run or self.undecided)

    def to_json(self) -> dict[str, Any]:
        return {"complete": self.complete, **asdict(self)}


Runs = Sequence[Scored]  # all runs of one case
ByCase = Sequence[Runs]


def summarize(
    scored: Sequence[Scored], *, not_run: Sequence[tuple[str, int]] = (), prices: Prices | None = None
) -> Summary:
    """The figures of the runs that are counted; the others are named."""
    kept = sorted((one for one in scored if one.counted), key=lambda one: one.run.key)
    groups = [tuple(runs) for _, runs in groupby(kept, key=lambda one: one.run.case)]
    all_, reviewed = counts(kept), [one for one in kept if one.run.state == "reviewed"]
    clean = [one for one in reviewed if one.case.clean]
    alarms = sum(one.alarm for one in clean)
    repeated = any(len(runs) > 1 for runs in groups)

    def share(part: Callable[[Counts], int], whole: Callable[[Counts], int]) -> Figure:
        """Runs of one case are no independent trials: then whole cases are drawn again instead."""
        plain = proportion(part(all_), whole(all_))
        if not repeated:
            return plain
        return Figure(plain.value, bootstrap(groups, lambda drawn: _ratio(drawn, part, whole)))

    false_alarms = proportion(alarms, len(clean))
    if repeated:
        cleans = [runs for runs in groups if runs[0].case.clean]
        false_alarms = Figure(false_alarms.value, bootstrap(cleans, _alarms))
    return Summary(
        cases=len({*(one.run.case for one in scored), *(name for name, _ in not_run)}),
        runs=len(scored) + len(not_run),
        reviewed=len(reviewed),
        counts=all_,
        precision=share(lambda one: one.true, lambda one: one.true + one.false),
        recall=share(lambda one: one.true, lambda one: one.true + one.missed),
        f1=Figure(f1(all_.true, all_.false, all_.missed), bootstrap(groups, _f1)),
        false_alarms=false_alarms,
        clean_reviewed=len(clean),
        clean_alarms=alarms,
        tokens=_mean_of(groups, lambda one: one.run.usage.input_tokens + one.run.usage.output_tokens),
        money=_mean_of(groups, lambda one: prices.of(one.run.usage)) if prices else Figure(None),
        seconds=_mean_of(groups, lambda one: one.run.seconds),
        usage=sum((one.run.usage for one in reviewed), Usage()),
        kinds=_recalls(kept, lambda case, kind: kind or case.kind),
        languages=_recalls(kept, lambda case, _: case.language),
        inconclusive=tuple(_named(one) for one in reviewed if one.run.verdict == "inconclusive"),
        failed=tuple(
            f"{_named(one)}: {one.run.reason or one.run.outcome}" for one in kept if one.run.state == "failed"
        ),
        excluded=tuple(
            f"{_named(one)}: {_why(one.run)}" for one in sorted(scored, key=lambda one: one.run.key) if not one.counted
        ),
        not_run=tuple(f"{name} #{number}" for name, number in not_run),
        undecided=tuple(
            f"{_named(one)}: golden {golden + 1}, finding {finding + 1}"
            for one in kept
            for golden, finding in one.undecided
        ),
    )


def _why(run: Run) -> str:
    return run.outcome if run.reason in ("", run.outcome) else f"{run.outcome} ({run.reason})"


def _named(one: Scored) -> str:
    return f"{one.run.case} #{one.run.number}"


def _all(groups: ByCase) -> Counts:
    return counts(one for runs in groups for one in runs)


def _ratio(groups: ByCase, part: Callable[[Counts], int], whole: Callable[[Counts], int]) -> float | None:
    found = _all(groups)
    return ratio(part(found), whole(found))


def _f1(groups: ByCase) -> float | None:
    found = _all(groups)
    return f1(found.true, found.false, found.missed)


def _alarms(groups: ByCase) -> float | None:
    """Of the reviews of clean cases, how many raise an alarm."""
    reviewed = [one for runs in groups for one in runs if one.run.state == "reviewed"]
    return mean([float(one.alarm) for one in reviewed])


def _mean_of(groups: ByCase, value: Callable[[Scored], float]) -> Figure:
    """Over the reviews. What a run took that came to no review nobody told."""
    told = [values for runs in groups if (values := [value(one) for one in runs if one.run.state == "reviewed"])]

    def over(drawn: Sequence[Sequence[float]]) -> float | None:
        return mean([value for values in drawn for value in values])

    return Figure(over(told), bootstrap(told, over))


@dataclass
class _Recall:
    found: int = 0
    goldens: int = 0


def _recalls(scored: Iterable[Scored], name: Callable[[Case, str], str]) -> tuple[Group, ...]:
    found: dict[str, _Recall] = {}
    for one in scored:
        hit = {number for number, _ in one.matching.matched}
        for number, golden in enumerate(one.case.goldens):
            recall = found.setdefault(name(one.case, golden.kind) or "(not told)", _Recall())
            recall.goldens += 1
            recall.found += number in hit
    return tuple(Group(key, found[key].found, found[key].goldens) for key in sorted(found))
