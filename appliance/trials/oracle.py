"""The judge. It knows what the model said and what the forge stored, and asks the product for nothing but its count
of attempts and what still waits."""

from collections import Counter
from dataclasses import dataclass

from appliance.trials.github import Write
from appliance.trials.model import Said
from appliance.trials.stage import Stage

COUNTS = ("false success", "lost result", "double post", "wrongly counted attempt", "stuck")
_WORST = ("failure", "error", "pending", "success")


@dataclass(frozen=True)
class Wrong:
    """`count` is one of COUNTS."""

    count: str
    what: str


def said_of(stage: Stage, head: str, base_ref: str, before: int | None = None) -> Said | None:
    """The newest review that the model really gave of a head towards a base, if any counts."""
    key = (head, stage.origin.merge_base(head, base_ref))
    of_it = [
        said
        for said in stage.model.book
        if said.valid and (said.head, said.merge_base) == key and (before is None or said.at < before)
    ]
    newest = of_it[-1] if of_it else None
    floor = stage.asked_again if before is None or before > stage.asked_again else 0
    return newest if newest and newest.at > floor else None


def right(stage: Stage, head: str, pulls: tuple[tuple[int, str, str], ...], before: int | None = None) -> str:
    """What the gate of this head may show at most: one status stands for all pull requests of it."""
    states = []
    for _, of, base_ref in pulls:
        if of == head:
            said = said_of(stage, head, base_ref, before)
            states.append(said.answer.truth if said else "pending")
    return min(states, key=_WORST.index, default="none")


def opened(stage: Stage) -> tuple[tuple[int, str, str], ...]:
    pulls = stage.github.state.pulls.values()
    return tuple((pull.number, pull.head, pull.base_ref) for pull in pulls if pull.state == "open")


def writes(stage: Stage) -> list[Wrong]:
    """What the forge should never have been told."""
    found = []
    last: dict[str, tuple[str, ...]] = {}
    for write in stage.github.writes:
        if write.kind == "status":
            found += _status(stage, write, last.get(write.what[0]))
            last[write.what[0]] = write.what
    for said in stage.model.book:
        posted = [w for w in stage.github.writes if w.kind in ("comment", "review") and said.token in w.what[1]]
        if len(posted) > 1:
            found.append(Wrong("double post", f"{said.token} was posted {len(posted)} times"))
    texts = Counter(write.what for write in stage.github.writes if write.kind in ("comment", "review", "reply"))
    found += [Wrong("double post", f"#{what[0]}: {what[1][:60]!r} twice") for what, n in texts.items() if n > 1]
    return found


def _status(stage: Stage, write: Write, before: tuple[str, ...] | None) -> list[Wrong]:
    sha, state, description = write.what
    found = []
    if state == "success" and (may := right(stage, sha, write.pulls, write.at)) != "success":
        found.append(Wrong("false success", f"`{description}` on {sha[:8]}, where the truth is {may}"))
    if write.what == before:
        found.append(Wrong("double post", f"the status `{state}: {description}` on {sha[:8]} twice in a row"))
    return found


def attempts(stage: Stage, failed: int) -> list[Wrong]:
    """`failed`: so many attempts of the first pull request count, beside those that were a review."""
    number, head, base_ref = next(iter(_first(stage)), (0, "", ""))
    if not number:
        return []
    said = said_of(stage, head, base_ref)
    expected = failed + (said is not None and said.at > stage.lost and said.token not in stage.kept())
    counted = stage.attempts(number)
    if counted == expected:
        return []
    return [Wrong("wrongly counted attempt", f"{counted} counted, {expected} are right")]


def _first(stage: Stage) -> list[tuple[int, str, str]]:
    return [pull for pull in opened(stage) if pull[0] == 1]


def results(stage: Stage) -> list[Wrong]:
    """What was paid for and is nowhere, or was paid for twice."""
    found = []
    waiting = [stored.review.result.summary for stored in stage.parts.store.undelivered() if stored.review]
    for number, head, base_ref in opened(stage):
        said = said_of(stage, head, base_ref)
        if said is None:
            continue
        of_it = [each for each in stage.model.book if (each.head, each.merge_base) == (said.head, said.merge_base)]
        paid = [each for each in of_it if each.valid and each.at > stage.asked_again]
        if len(paid) > 1:
            found.append(Wrong("lost result", f"#{number} was reviewed {len(paid)} times: the first result is lost"))
        shown = [comment["body"] for comment in stage.github.state.pulls[number].comments]
        if not any(said.token in body for body in shown):
            if said.token in waiting or said.token in stage.kept():
                found.append(Wrong("stuck", f"the result {said.token} still waits"))
            else:
                found.append(Wrong("lost result", f"{said.token} is neither posted nor kept"))
    return found


def standing(stage: Stage, expected: str | None) -> list[Wrong]:
    """What the gates show in the end; `expected` where the model has not said it."""
    found = []
    for number, head, _ in opened(stage):
        rows = stage.github.state.statuses.get(head, [])
        shown = rows[0]["state"] if rows else "none"
        may = right(stage, head, opened(stage))
        should = expected or may
        if shown == "success" and may != "success":
            found.append(Wrong("false success", f"#{number} ends with success, where the truth is {may}"))
        elif shown != should or should == "pending":
            text = rows[0]["description"] if rows else ""
            found.append(Wrong("stuck", f"#{number} ends with `{shown}: {text}`, where {should} is right"))
    return found
