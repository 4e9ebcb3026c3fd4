"""An evaluation as people read it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from appliance.core.evaluation.figures import Figure, Prices
from appliance.core.evaluation.score import Scored, Summary

MAX_TITLE = 70


@dataclass(frozen=True)
class Heading:
    """What was evaluated. `judge` is the model that was asked, empty for none; `asked` how often, `tokens` for it."""

    dataset: str
    model: str
    effort: str
    rehearsal: bool = False
    judge: str = ""
    asked: int = 0
    tokens: int = 0
    tolerance: int = 3


def lines(heading: Heading, scored: Sequence[Scored], summary: Summary, prices: Prices | None) -> Iterator[str]:
    if heading.rehearsal:
        yield "REHEARSAL: a scripted model that knows three kinds of defect. The figures tell that the harness works,"
        yield "and nothing of how good a reviewer is."
    yield f"data set {heading.dataset}, model {heading.model}, effort {heading.effort}, {_judge(heading)}"
    yield ""
    for one in sorted(scored, key=lambda one: one.run.key):
        yield from _case(one, prices)
    yield ""
    yield from _figures(summary, prices)
    yield from _groups(summary)
    yield from _named(summary)
    yield _end(summary)


def _judge(heading: Heading) -> str:
    if not heading.judge:
        return f"no judge: a finding means a golden if their lines meet (within {heading.tolerance})"
    return f"judge {heading.judge}: asked {heading.asked} times, {heading.tokens:,} tokens (in no figure below)"


def _case(one: Scored, prices: Prices | None) -> Iterator[str]:
    run, found = one.run, one.matching
    name = run.case if run.number == 1 else f"{run.case} #{run.number}"
    if run.state != "reviewed":
        yield f"  {name}: {run.state}, {run.reason or run.outcome}"
        return
    tokens = run.usage.input_tokens + run.usage.output_tokens
    money = f", {prices.of(run.usage):.4f} money" if prices else ""
    kind = "clean, " if one.case.clean else ""
    yield (
        f"  {name}: {kind}{len(found.matched)} found, {len(found.missed)} missed, {len(found.false)} false;"
        f" {run.seconds:.1f} s, {tokens:,} tokens{money}"
    )
    for number in found.missed:
        golden = one.case.goldens[number]
        yield f"      missed {golden.path or '(no place)'}:{golden.line_start or '?'} {_cut(golden.what)}"
    for number in found.false:
        finding = run.findings[number]
        which = "again" if number in found.duplicates else "false"
        yield f"      {which}  {finding.path}:{finding.line_start} P{finding.priority} {_cut(finding.title)}"


def _cut(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= MAX_TITLE else f"{said[:MAX_TITLE]}…"


def _figures(summary: Summary, prices: Prices | None) -> Iterator[str]:
    found = summary.counts
    yield f"precision     {_share(summary.precision)}  {found.true} of {found.true + found.false} findings"
    if found.duplicates:
        yield f"              of the {found.false} others {found.duplicates} name a defect that another finding has"
    yield f"recall        {_share(summary.recall)}  {found.true} of {found.true + found.missed} goldens"
    yield f"F1            {_share(summary.f1)}"
    yield (
        f"false alarms  {_share(summary.false_alarms)}  {summary.clean_alarms} of {summary.clean_reviewed}"
        " reviews of clean cases"
    )
    yield f"tokens        {_number(summary.tokens, ',.0f')} a review"
    if prices:
        yield f"money         {_number(summary.money, '.4f')} a review, in the unit of the prices"
    yield f"seconds       {_number(summary.seconds, '.1f')} a review"
    yield "Intervals hold 95 %: Wilson's for shares, a bootstrap over cases for the rest and where cases are repeated."


def _share(figure: Figure) -> str:
    return _number(figure, ".2f")


def _number(figure: Figure, form: str) -> str:
    if figure.value is None:
        return "none"
    if figure.interval is None:
        return f"{figure.value:{form}} [no interval]"
    return f"{figure.value:{form}} [{figure.interval.low:{form}}, {figure.interval.high:{form}}]"


def _groups(summary: Summary) -> Iterator[str]:
    for title, groups in (("kind", summary.kinds), ("language", summary.languages)):
        if groups:
            yield f"recall by {title}: " + ", ".join(f"{one.name} {one.found}/{one.goldens}" for one in groups)


def _named(summary: Summary) -> Iterator[str]:
    table = (
        ("inconclusive", summary.inconclusive, "counted with the findings they have"),
        ("failed", summary.failed, "the reviewer came to no review, so all their goldens are missed"),
        ("excluded", summary.excluded, "in no figure: nothing of the reviewer's"),
        ("not run", summary.not_run, "in no figure"),
        ("undecided", summary.undecided, "the judge said nothing usable, so that lines decided"),
    )
    for title, names, meaning in table:
        if names:
            yield f"{title} ({len(names)}; {meaning}):"
            yield from (f"  {name}" for name in names)


def _end(summary: Summary) -> str:
    if summary.complete:
        return f"complete: {summary.runs} runs of {summary.cases} cases"
    counted = summary.reviewed + len(summary.failed)
    undecided = f", {len(summary.undecided)} pairs undecided" if summary.undecided else ""
    return f"INCOMPLETE: {counted} of {summary.runs} runs are counted{undecided}"


def cases_json(scored: Sequence[Scored]) -> list[dict[str, object]]:
    """Each run for a program; numbers of goldens and findings count from 0, in the case's and the review's order."""
    return [
        {
            "case": one.run.case,
            "number": one.run.number,
            "clean": one.case.clean,
            "state": one.run.state,
            "outcome": one.run.outcome,
            "reason": one.run.reason,
            "verdict": one.run.verdict,
            "findings": len(one.run.findings),
            "matched": [list(pair) for pair in one.matching.matched],
            "missed": list(one.matching.missed),
            "false": list(one.matching.false),
            "duplicates": list(one.matching.duplicates),
            "undecided": [list(pair) for pair in one.undecided],
            "usage": vars(one.run.usage),
            "seconds": one.run.seconds,
        }
        for one in sorted(scored, key=lambda one: one.run.key)
    ]
