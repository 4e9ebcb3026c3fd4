"""The reviews of several passes over one change as one review."""

from collections.abc import Sequence
from dataclasses import replace

from appliance.core.findings import EarlierAnswer, Evidence, Result, Review, Usage, Verdict

# A pass that could not judge is not made up for by another that could: what blocks, blocks by its findings.
_GRAVEST: tuple[Verdict, ...] = ("inconclusive", "incorrect", "correct")
_STATES = ("open", "resolved", "obsolete")


def merged(reviews: Sequence[Review]) -> Review:
    """One review of all of them, with the gravest verdict; no finding, command or limit of any is lost.

    A pass that says "incorrect" and names nothing is inconclusive: a note of another pass does not say why.

    Of an earlier finding, what a pass says that knows of it counts; one that says it is still open wins.
    """
    if len(reviews) == 1:
        return reviews[0]
    first = reviews[0]
    results = [review.result for review in reviews]
    return replace(
        first,
        result=Result(
            verdict=min(map(_verdict, results), key=_GRAVEST.index),
            summary=_joined([result.summary for result in results]),
            reasoning=_joined([result.reasoning for result in results]),
            limits=_joined([result.limits for result in results]),
            findings=tuple(finding for result in results for finding in result.findings),
            earlier=_earlier(results),
        ),
        usage=sum((review.usage for review in reviews), Usage()),
        evidence=Evidence(
            commands=tuple(command for review in reviews for command in review.evidence.commands),
            failed_commands=tuple(command for review in reviews for command in review.evidence.failed_commands),
            files_changed=sum(review.evidence.files_changed for review in reviews),
            files_left_out=sum(review.evidence.files_left_out for review in reviews),
        ),
        seconds=sum(review.seconds for review in reviews),
    )


def _verdict(result: Result) -> Verdict:
    return "inconclusive" if result.verdict == "incorrect" and not result.findings else result.verdict


def _joined(texts: Sequence[str]) -> str:
    return "\n\n".join(f"Pass {at}: {text}" for at, text in enumerate(texts, 1) if text.strip())


def _earlier(results: Sequence[Result]) -> tuple[EarlierAnswer, ...]:
    """A pass sees a part of the change: only what no pass calls open is answered otherwise."""
    found: dict[str, EarlierAnswer] = {}
    for answer in (answer for result in results for answer in result.earlier):
        before = found.get(answer.id)
        if before is None or _STATES.index(answer.state) < _STATES.index(before.state):
            found[answer.id] = answer
    return tuple(found.values())
