"""The faults, one row each."""

from collections.abc import Iterator
from dataclasses import replace

from appliance.trials.apps import apps
from appliance.trials.beside import beside
from appliance.trials.github import How, Trouble
from appliance.trials.model import ANSWERS, Step, failures
from appliance.trials.row import (
    BRANCHES,
    COMMENTS,
    PULL,
    PULLS,
    READS_GO_WRONG,
    REVIEWS,
    SECONDARY,
    STATUS,
    STATUS_LIST,
    WRITES_GO_WRONG,
    Row,
    bad,
    context,
    down,
    look,
    refusals,
    status,
    stored,
)

PART = 12  # with --fast: each so manyth, and the first of each outcome and each row of REPLAY


def rows(now: float) -> list[Row]:
    """All of them; `now` is when they run, for what the model's API says of a time."""
    made = [*_outcomes(), *_replayed(), *_models(now), *_answers(), *_forges(), *_moves(), *beside(), *apps()]
    every = [*made, *_killed(made)]
    shown = ("REPLAY", "outcome", "move")
    besides = ("command", "beside", "app")
    firsts = {
        row.source: n
        for n, row in reversed(list(enumerate(every)))
        if row.group in shown or (row.group in besides and not row.faults)
    }
    chosen = {*firsts.values(), *range(0, len(every), PART)}
    return [replace(row, fast=n in chosen) for n, row in enumerate(every)]


def _outcomes() -> Iterator[Row]:
    """DESIGN section 4. What counts is said here once more, by hand."""
    refused: Step = {"refused": True}
    yield Row("outcome:reviewed", "a clean change")
    yield Row("outcome:reviewed", "with a finding that blocks", script=("P1",))
    yield Row("outcome:model-output", "prose, once", script=("prose",), cycles=1, failed=1)
    yield Row("outcome:model-output", "prose, every time", script=("prose",), cycles=4, failed=3, gives_up=True)
    yield Row("outcome:timeout", "out of time", then=("Codex takes too long",), script=(look(),), cycles=1, failed=1)
    yield Row("outcome:context-too-large", "too large", script=(context(),), cycles=1, failed=1)
    yield Row("outcome:turn-failed", "the input is refused", script=(bad(),), cycles=1, failed=1)
    limit = {"APPLIANCE_TOKENS_PER_REVIEW": "200000"}
    big = ("each request takes 150,000 tokens",)
    yield Row("outcome:token-budget", "of the review", then=big, script=(look(),), cycles=1, failed=1, settings=limit)
    day = {"APPLIANCE_TOKENS_PER_DAY": "200000"}
    yield Row("outcome:day-budget", "of the day", then=big, script=(look(),), settings=day)
    yield Row("outcome:sandbox", "the self-test fails", then=("the self-test fails",))
    yield Row("outcome:sandbox", "dies during a review", then=("commands fail in bwrap", "the sandbox dies"))
    yield Row("outcome:sandbox", "dies, and is well again at once", then=("commands fail in bwrap",), cycles=1)
    yield Row("outcome:sandbox", "and the model says that all is well", then=("commands fail in bwrap",))
    yield Row("outcome:workstation", "Codex does not start", then=("Codex does not start",))
    yield Row("outcome:workstation", "the disk is full as the review ends", then=("the disk is full",), cycles=1)
    yield Row("outcome:login", "the key is refused", script=(status(401, "invalid_api_key"),), cycles=3)
    yield Row("outcome:quota", "usage limit without a reset", script=(status(429, "insufficient_quota"),), cycles=3)
    yield Row("outcome:model-refused", "no such model", script=(status(404, "model_not_found"),), cycles=3)
    yield Row("outcome:model-unreachable", "connection refused", script=(refused,), cycles=4)
    yield Row("outcome:forge-unreachable", "before anything is known", faults=(down("GET", "."),), cycles=3)
    yield Row("outcome:superseded", "a push during the review", asked=("a push",), cycles=1)
    yield Row("outcome:superseded", "closed during the review", asked=("closed",), cycles=1)
    yield Row("outcome:interrupted", "killed once", then=("killed during the review",), script=(look(),), cycles=1)
    yield Row("outcome:interrupted", "killed twice", then=("killed during the review",), script=(look(),), cycles=2)
    killed = ("killed during the review",)
    yield Row("outcome:interrupted", "killed three times", then=killed, script=(look(),), cycles=3, failed=1)
    yield Row("outcome:interrupted", "out of memory", then=("Codex is killed",), script=(look(),), cycles=1)


def _replayed() -> Iterator[Row]:
    what: How
    how: How
    yield Row("R18", "an empty diff", before=("an empty change",), end="error", failed=1)
    yield Row("R19", "a finding on line 9999", script=("line 9999",))
    yield Row("R21", "nine good anchors and a bad one", script=("nine good anchors and a bad one",))
    yield Row("R22", "a review of 70,000 characters", script=("70,000 characters",))
    full = Trouble(
        "POST", STATUS, status=422, message="This SHA and context has reached the maximum number of statuses."
    )
    yield Row("R24", "422 for the number of statuses", faults=(full,), cycles=3)
    yield Row("R24", "thirty cycles without a change", cycles=30)
    for code in (500, 502, 503, 504):
        yield Row("R25", f"the comment is stored, then {code}", faults=(stored(COMMENTS, code),))
    yield Row("R25", "stored, then cut off", faults=(Trouble("POST", COMMENTS, "cut off", stored=True, times=1),))
    yield Row("R25", "stored, then no answer", faults=(Trouble("POST", COMMENTS, "hang", stored=True, times=1),))
    yield Row("R25", "stored, then the line breaks", faults=(Trouble("POST", COMMENTS, "drop", stored=True, times=1),))
    once = stored(REVIEWS, 502)
    yield Row("R25", "the comments on lines are stored, then 502", faults=(once,), script=("P1",))
    for what in ("empty", "short", "truncated", "stale", "hang"):
        lists = Trouble("GET", REVIEWS, what, times=2)
        yield Row("R28", f"so, and the list of reviews: {what}", faults=(once, lists), script=("P1",), cycles=3)
    counts = Trouble("POST", "/graphql", times=2)
    yield Row("R28", "so, and their count is 502", faults=(once, counts), script=("P1",), cycles=3)
    twice = Trouble("POST", COMMENTS, status=403, message=SECONDARY, times=2)
    yield Row("R26", "403 secondary limit twice, without Retry-After", faults=(twice,), cycles=3)
    again = ("a good review", "the database is lost")
    for how in ("empty", "short"):
        lists = Trouble("GET", COMMENTS, how)
        yield Row("R28", f"{how} comments, the database is lost", before=again, faults=(lists,), cycles=3)
    yield Row("R28", "502 for the comments", before=again, faults=(down("GET", COMMENTS),), cycles=3)
    yield Row("R28", "empty statuses", before=again, faults=(Trouble("GET", STATUS_LIST, "empty"),))
    yield Row("R29", "101 comments, the marker on page 2", before=("a good review", "100 other comments", *again[1:]))
    yield Row("R31", "a push while Codex runs", asked=("a push",))
    yield Row("R32", "another base, same head", before=("a good review", "another base"))
    yield Row("R32", "another base while Codex runs", asked=("another base",))
    yield Row("R33", "the base goes on", before=("a good review", "the base goes on"))
    yield Row("R35", "the author is gone", before=("the author is gone",))
    yield Row("R37", "asked again on a green head", before=("a good review",), then=("a person asks again",))
    yield Row("R37", "and now it blocks", before=("a good review",), then=("a person asks again",), script=("P1",))
    yield Row("R39", "the model fails every time", script=("cut off",), cycles=5, failed=3, gives_up=True)
    for name in ("clean", "only notes", "P0"):
        yield Row("R40", name, script=(name,))
    yield Row("R40", "prose only", script=("prose",), cycles=1, failed=1)
    yield Row("R41", "fenced JSON, cut off", script=("fenced, cut off",), cycles=1, failed=1)
    yield Row("R45", "every command fails in bwrap", then=("commands fail in bwrap",), script=("unable to review",))
    yield Row("R46", "the refresh token was used", then=("the login is used up",), cycles=3)


def _models(now: float) -> Iterator[Row]:
    """What the real API answered when it failed, and whether that is the pull request's."""
    counted = {"e400", "e400ctx", "e429once", "e500once", "droponce", "f_ctx", "f_inv", "incomplete"}
    counted |= {"nomsg", "badjson", "badtool", "escal", "patch"}
    for name, script in failures(now).items():
        steps = tuple({key: value for key, value in step.items() if key != "stall"} for step in script)
        yield Row(f"model:{name}", "once", script=steps, cycles=1, failed=int(name in counted), codex=True)


def _answers() -> Iterator[Row]:
    """What the model may say, sound or not."""
    for name, answer in ANSWERS.items():
        valid = bool(answer.truth) and answer.looks
        yield Row("answer:" + name.replace(" ", "-"), "said", script=(name,), cycles=1, failed=int(not valid))


def _forges() -> Iterator[Row]:
    """Each kind of bad answer to each thing that a cycle asks or writes."""
    reviewed = ("a good review", "the database is lost")
    reads = {"comments": COMMENTS, "statuses": STATUS_LIST, "pulls": PULLS, "pull": PULL, "branches": BRANCHES}
    for name, route in reads.items():
        for how in READS_GO_WRONG:
            if name in ("pull", "branches") and how in ("empty", "short"):
                continue
            fault = Trouble("GET", route, how)
            yield Row(f"forge:{how}-{name}".replace(" ", "-"), "database lost", before=reviewed, faults=(fault,))
            yield Row(
                f"forge:{how}-{name}".replace(" ", "-"),
                "a new head",
                before=("a good review", "a push"),
                faults=(fault,),
            )
        for what, fault in refusals("GET", route).items():
            yield Row(f"forge:{what}-{name}", "a new head", before=("a good review", "a push"), faults=(fault,))
    for name, route in {"comment": COMMENTS, "status": STATUS, "review": REVIEWS}.items():
        script = ("P1",) if name == "review" else ("clean",)  # a finding stands on its line
        for what, fault in refusals("POST", route).items():
            yield Row(f"forge:{what}-{name}", "before it is stored", faults=(fault,), script=script)
        skips = range(3) if name == "status" else range(1)
        for code in (500, 502, 503):
            for skip in skips:
                late = replace(stored(route, code), skip=skip)
                yield Row(
                    f"forge:{code}-{name}",
                    f"after storing, write {skip + 1}",
                    faults=(late,),
                    script=script,
                    cycles=3,
                )
        for how in WRITES_GO_WRONG:
            for skip in skips:
                late = Trouble("POST", route, how, stored=True, times=1, skip=skip)
                yield Row(
                    f"forge:{how}-{name}".replace(" ", "-"),
                    f"after storing, write {skip + 1}",
                    faults=(late,),
                    script=script,
                    cycles=3,
                )
    yield Row(
        "forge:copied-marker",
        "and the database is lost",
        before=("a good review", "our comment is copied", "the database is lost"),
    )
    yield Row(
        "forge:copied-marker",
        "and a new head",
        before=("a good review", "our comment is copied", "a push"),
        script=("P1",),
    )


def _moves() -> Iterator[Row]:
    """What happens to the pull request, while the forge works or not."""
    both = ("the same head into another base",)
    blocks = ("towards release it is a P1",)
    yield Row("move:two-bases", "both are clean", before=both)
    yield Row("move:two-bases", "one blocks", before=(*both, *blocks))
    yield Row("move:two-bases", "the other comes later", before=("a good review", *both, *blocks))
    yield Row("move:two-bases", "the other comes during the review", asked=both, then=blocks)
    yield Row(
        "move:two-bases", "and the model fails for one", before=("a good review", *both), script=("prose",), cycles=1
    )
    yield Row("move:push", "back and forth", before=("a good review", "a push", "a good review", "a force-push back"))
    yield Row("move:push", "and the gate cannot be set", asked=("a push",), faults=(down("POST", STATUS),))
    ruled = ("a good review", "the rules change")
    yield Row("move:rules", "the rules of the base change", before=ruled)
    yield Row("move:rules", "and now it blocks", before=ruled, script=("P1",))
    yield Row("move:rules", "and the old gate cannot be taken back", before=ruled, faults=(down("POST", STATUS),))
    yield Row("move:rules", "and the database is lost", before=(*ruled, "the database is lost"))
    yield Row(
        "move:base",
        "and the old gate cannot be taken back",
        before=("a good review", "another base"),
        faults=(down("POST", STATUS),),
    )
    yield Row("move:base", "towards release it blocks", before=("a good review", "another base", *blocks))
    yield Row(
        "move:base",
        "another base, and the comments are stale",
        before=("a good review",),
        then=("another base",),
        faults=(Trouble("GET", COMMENTS, "stale"),),
    )
    yield Row(
        "move:base",
        "another base, and the pull request is stale",
        before=("a good review",),
        then=("another base",),
        faults=(Trouble("GET", PULL, "stale"),),
    )
    yield Row("move:closed", "and opened again", before=("a good review", "closed", "a good review", "open again"))


def _killed(made: list[Row]) -> Iterator[Row]:
    """The same, and the appliance dies on the way."""
    chosen = {
        "outcome:reviewed: a clean change",
        "outcome:reviewed: with a finding that blocks",
        "R25: the comment is stored, then 502",
        "R26: 403 secondary limit twice, without Retry-After",
        "R31: a push while Codex runs",
        "R32: another base, same head",
        "R37: and now it blocks",
        "move:two-bases: one blocks",
        "command:review: and now it blocks",
        "beside:edit: and now it blocks",
        "app:reviewed: with a finding that blocks",
        "beside:hide: a second head",
        "beside:resolve: in the new commit",
        "beside:drift: and now it blocks",
        "beside:passes: all are clean",
    }
    numbers = {"beside:resolve: in the new commit": 7}
    for row in made:
        if row.title in chosen:
            yield replace(
                row,
                name=f"{row.name}, killed before it is stored",
                then=(*row.then, "killed before the review is stored"),
                cycles=row.cycles + 1,
            )
            for when in ("before", "after"):
                for number in range(1, numbers.get(row.title, 4) + 1):
                    yield replace(
                        row,
                        name=f"{row.name}, killed {when} write {number}",
                        kill=(when, number),
                        cycles=row.cycles + 1,
                    )
