"""Faults of what is written beside the first comment and the gate, of commands, drift and passes."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from appliance.trials.github import Trouble
from appliance.trials.model import Step
from appliance.trials.row import (
    BRANCHES,
    COMMENTS,
    COUNTS,
    EDITS,
    HIDES,
    LOST,
    PEOPLE,
    PULL,
    PULLS,
    REACTIONS,
    REPLIES,
    RESOLVES,
    REVIEWS,
    STATUS,
    THREADS,
    Row,
    bad,
    down,
    refusals,
    stored,
    writes,
    wrong,
)

EDIT = {"APPLIANCE_COMMENT_MODE": "edit"}
GOOD, BLOCKED = ("a good review",), ("a review that blocks",)
EDITED, PUSHED = (*GOOD, "a push"), (*BLOCKED, "a push")


def beside() -> Iterator[Row]:
    yield from _commands()
    yield from _summaries()
    yield from _conversations()
    yield from _drift()
    yield from _passes()


def _commands() -> Iterator[Row]:
    """What people ask for in comments, and who they are, while the forge works or not."""
    again = ("a maintainer comments /review",)
    explain = ("a maintainer comments /review explain 1",)
    pause, resume = ("a maintainer comments /review pause",), ("a maintainer comments /review resume",)
    stranger = ("a stranger comments /review",)
    yield Row("command:review", "on a green head", before=GOOD, then=again)
    yield Row("command:review", "and now it blocks", before=GOOD, then=again, script=("P1",))
    yield Row("command:review", "and the model fails", before=GOOD, then=again, script=("prose",), cycles=1, failed=1)
    yield Row("command:review", "and a push", before=GOOD, then=(*again, "a push"))
    yield Row("command:review", "and the database is lost", before=(*GOOD, *again, *GOOD, *GOOD, LOST))
    yield Row("command:stranger", "/review", before=GOOD, then=stranger)
    yield Row("command:stranger", "/review, twice", before=GOOD, then=stranger * 2)
    yield Row(
        "command:stranger",
        "/review pause, and a push",
        before=GOOD,
        then=("a stranger comments /review pause", "a push"),
    )
    yield Row("command:quote", "/review in a quote", before=GOOD, then=("a maintainer quotes /review",))
    yield Row("command:explain", "the first finding", before=BLOCKED, then=explain)
    yield Row("command:explain", "and there is none", before=GOOD, then=explain)
    yield Row("command:pause", "and a push", before=GOOD, then=(*pause, "a push"), cycles=3, end="pending")
    yield Row("command:pause", "before the first review", then=pause, cycles=3, end="pending")
    yield Row("command:pause", "and its end, and a push", before=GOOD, then=(*pause, *resume, "a push"), cycles=3)
    yield Row("command:pause", "a push, and its end", before=(*GOOD, *pause, "a push", "a good review"), then=resume)
    yield Row(
        "command:pause",
        "the database is lost, and a push",
        before=(*GOOD, *pause, "a good review", LOST, "a push"),
        end="pending",
    )
    asks = Trouble("GET", PEOPLE, times=3)
    yield Row("command:unknown", "502 for who it is", before=GOOD, then=again, faults=(asks,), cycles=3)
    for name, said in {"review": again, "stranger": stranger}.items():
        for what, fault in {**refusals("GET", PEOPLE), **wrong("GET", PEOPLE)}.items():
            source, heard = (
                f"command:{what}-permission",
                name == "stranger" or what in ("redirect", "stale", "empty", "short"),
            )
            yield Row(source, name, before=GOOD, then=said, faults=(fault,), cycles=3, heard=heard)
    for what, fault in wrong("GET", COMMENTS).items():
        heard = what == "redirect"
        source = f"command:{what}-comments"
        yield Row(source, "/review", before=GOOD, then=again, faults=(fault,), cycles=3, heard=heard)
    for name, said in {"/review": again, "by a stranger": stranger, "explain": explain}.items():
        yield from writes("command", "reaction", REACTIONS, "react", f" {name}", before=GOOD, then=said)
    yield from writes("command", "answer", COMMENTS, "comment", before=GOOD, then=explain)


def _summaries() -> Iterator[Row]:
    """The comment that is edited, and the older ones that are hidden."""
    yield Row("beside:edit", "a second head", before=EDITED, settings=EDIT)
    yield Row("beside:edit", "and now it blocks", before=EDITED, script=("P1",), settings=EDIT)
    yield Row("beside:edit", "asked again", before=GOOD, then=("a maintainer comments /review",), settings=EDIT)
    yield Row("beside:edit", "and the database is lost", before=(*EDITED, LOST), settings=EDIT)
    yield Row("beside:edit", "the database is lost after it", before=(*EDITED, *GOOD, LOST), settings=EDIT)
    yield Row(
        "beside:edit", "somebody deletes the comment", before=(*GOOD, "our comment is deleted", "a push"), settings=EDIT
    )
    yield Row(
        "beside:edit", "somebody copies the comment", before=(*GOOD, "our comment is copied", "a push"), settings=EDIT
    )
    yield Row(
        "beside:edit",
        "it is copied, and the database is lost",
        before=(*GOOD, "our comment is copied", LOST, "a push"),
        settings=EDIT,
    )
    yield from writes("beside", "edit", EDITS, "", method="PATCH", before=EDITED, settings=EDIT)
    for what, fault in wrong("GET", COMMENTS).items():
        yield Row(f"beside:{what}-comments", "edited", before=EDITED, faults=(fault,), settings=EDIT)

    yield Row("beside:hide", "a second head", before=EDITED)
    yield Row("beside:hide", "and a third", before=(*EDITED, *GOOD, "a force-push back"))
    yield from writes("beside", "hide", HIDES, "minimize", before=EDITED)


def _conversations() -> Iterator[Row]:
    """Those of findings that a later head resolves, or does not; and the reviews that they grow from."""
    yield Row("beside:resolve", "in the new commit", before=PUSHED, script=("resolved",))
    yield Row("beside:resolve", "obsolete", before=PUSHED, script=("obsolete",))
    for name in ("clean", "still open", "resolved, without evidence", "resolved in no commit", "P1"):
        yield Row("beside:resolve", f"not: {name}", before=PUSHED, script=(name,))
    yield Row(
        "beside:resolve",
        "bob talks of the same",
        before=(*BLOCKED, "bob talks of the same", "a push"),
        script=("resolved",),
    )
    yield Row("beside:resolve", "and the database is lost", before=(*PUSHED, LOST), script=("resolved",))
    yield Row("beside:resolve", "not, and the database is lost", before=(*PUSHED, LOST))
    yield Row("beside:resolve", "not, edited, and the database is lost", before=(*PUSHED, LOST), settings=EDIT)
    yield Row("beside:resolve", "and edited", before=PUSHED, script=("resolved",), settings=EDIT)
    for what in ("comment on a line not stored", "comment not stored", "comment refused", "gate not set"):
        unposted = (f"one that blocks, its {what}", "a push")
        for name in ("clean", "resolved"):
            yield Row("beside:unposted", f"{what}, a push, {name}", before=unposted, script=(name,))
    yield Row(
        "beside:unposted", "and the rules change", before=("one that blocks, its gate not set", "the rules change")
    )
    yield from writes("beside", "reply", REPLIES, "reply", before=PUSHED, script=("resolved",))
    yield from writes("beside", "resolve", RESOLVES, "resolve", before=PUSHED, script=("resolved",))
    reads = {"threads": ("POST", THREADS), "review-count": ("POST", COUNTS), "reviews": ("GET", REVIEWS)}
    for name, (method, route) in reads.items():
        for what, fault in {**wrong(method, route), **refusals(method, route)}.items():
            broken = () if name == "threads" else (stored(REVIEWS, 502),)
            script = "resolved" if name == "threads" else "P1"
            before = PUSHED if name == "threads" else ()
            faults = (*broken, replace(fault, times=2))
            given_up = ("reply", "resolve") if what in ("404", "406", "422") else ()
            how: dict[str, Any] = {"script": (script,), "cycles": 4, "given_up": given_up}
            yield Row(f"beside:{what}-{name}", "twice", before=before, faults=faults, **how)


def _drift() -> Iterator[Row]:
    """So many commits of the base branch end a success."""
    drifts = ("the base drifts",)
    for drift, name in ((1, "far enough"), (2, "not far enough")):
        happens = drifts if drift == 1 else ("the base goes on",)
        settings = {"APPLIANCE_BASE_DRIFT": str(drift)}
        yield Row("beside:drift", name, before=(*GOOD, *happens), settings=settings)
        yield Row(
            "beside:drift", f"{name}, and the database is lost", before=(*GOOD, *happens, LOST), settings=settings
        )
    not_far = {"APPLIANCE_BASE_DRIFT": "2"}
    yield Row("beside:drift", "not far enough, during the review", asked=("the base goes on",), settings=not_far)
    far = {"APPLIANCE_BASE_DRIFT": "1"}
    more: dict[str, Any]
    yield Row("beside:drift", "and now it blocks", before=(*GOOD, *drifts), script=("P1",), settings=far)
    yield Row("beside:drift", "of what blocks", before=(*BLOCKED, "the base goes on"), settings=far)
    yield Row(
        "beside:drift",
        "and the model fails",
        before=(*GOOD, *drifts),
        script=("prose",),
        cycles=1,
        failed=1,
        settings=far,
    )
    yield Row(
        "beside:drift",
        "and the old gate cannot be taken back",
        before=(*GOOD, *drifts),
        faults=(down("POST", STATUS),),
        settings=far,
    )
    for name, route in {"branches": BRANCHES, "pulls": PULLS, "pull": PULL}.items():
        for what, fault in {**wrong("GET", route), "502": down("GET", route)}.items():
            if name == "pulls" or what not in ("empty", "short"):
                source, heard = f"beside:{what}-{name}", name == "pull" or what == "redirect"
                more = {"settings": far, "heard": heard}
                yield Row(source, "the base drifts", before=GOOD, then=drifts, faults=(fault,), **more)


def _passes() -> Iterator[Row]:
    """A change that is too large for one."""
    script: tuple[Step, ...]
    parts = {"APPLIANCE_DIFF_BUDGET": "2500"}
    many = ("many files",)
    yield Row("beside:passes", "all are clean", before=many, settings=parts)
    for n in range(3):
        script = tuple("P1" if at == n else "clean" for at in range(4))
        yield Row("beside:passes", f"pass {n + 1} blocks", before=many, script=script, settings=parts)
        script = tuple("inconclusive" if at == n else "clean" for at in range(4))
        yield Row("beside:passes", f"pass {n + 1} is inconclusive", before=many, script=script, settings=parts)
        script = tuple(bad() if at == n else "clean" for at in range(3))
        yield Row(
            "beside:passes", f"pass {n + 1} fails", before=many, script=script, cycles=1, failed=1, settings=parts
        )
        script = tuple("blind" if at == n else "clean" for at in range(3))
        yield Row(
            "beside:passes", f"pass {n + 1} does not look", before=many, script=(*script, "clean"), settings=parts
        )
    yield Row("beside:passes", "there are not enough", before=many, settings={**parts, "APPLIANCE_MAX_PASSES": "2"})
    yield Row("beside:passes", "a file is too large", before=many, settings={"APPLIANCE_DIFF_BUDGET": "1500"})
    yield Row("beside:passes", "a push", before=many, asked=("a push",), settings=parts)
    yield Row("beside:passes", "killed once", before=many, then=("killed during the review",), cycles=1, settings=parts)
    before = (*BLOCKED, "many files")
    yield Row(
        "beside:passes", "the one that was asked resolves it", before=before, script=("resolved",), settings=parts
    )
    yield Row(
        "beside:passes",
        "the one that was asked says it is open",
        before=before,
        script=("still open", "resolved", "resolved"),
        settings=parts,
    )
