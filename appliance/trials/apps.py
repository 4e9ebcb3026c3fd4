"""Faults of check runs: the appliance works as a GitHub App."""

from collections.abc import Iterator

from appliance.trials.github import Trouble
from appliance.trials.row import NEW_RUN, READS_GO_WRONG, RUN, RUNS, WRITES_GO_WRONG, Row, down, refusals


def apps() -> Iterator[Row]:
    """The same as a GitHub App: the gate is a check run."""
    yield Row("app:reviewed", "a clean change", app=True)
    yield Row("app:reviewed", "with a finding that blocks", script=("P1",), app=True)
    yield Row("app:reviewed", "every time prose", script=("prose",), cycles=4, failed=3, gives_up=True, app=True)
    yield Row("app:reviewed", "an empty change", before=("an empty change",), end="error", failed=1, app=True)
    again = ("a good review", "the database is lost")
    for how in READS_GO_WRONG:
        reads = (Trouble("GET", RUNS, how),)
        name = f"app:{how}-check-runs".replace(" ", "-")
        yield Row(name, "database lost", before=again, faults=reads, app=True)
        yield Row(name, "a new head", before=("a good review", "a push"), faults=reads, script=("P1",), app=True)
        asked = ("a person asks again",)
        yield Row(
            name,
            "a green head is asked for again",
            before=again[:1],
            then=asked,
            faults=reads,
            script=("P1",),
            app=True,
        )
    for what, fault in refusals("GET", RUNS).items():
        yield Row(f"app:{what}-check-runs", "a new head", before=("a good review", "a push"), faults=(fault,), app=True)
    for name, method, route in (("new-run", "POST", NEW_RUN), ("run", "PATCH", RUN)):
        for what, fault in refusals(method, route).items():
            yield Row(f"app:{what}-{name}", "before it is stored", faults=(fault,), script=("P1",), app=True)
        for script in ("clean", "P1"):
            for skip in range(2):
                for status in (500, 502, 503):
                    late = Trouble(method, route, status=status, stored=True, times=1, skip=skip)
                    title = f"after storing, write {skip + 1}, {script}"
                    yield Row(f"app:{status}-{name}", title, faults=(late,), script=(script,), cycles=3, app=True)
                for how in WRITES_GO_WRONG:
                    late = Trouble(method, route, how, stored=True, times=1, skip=skip)
                    title = f"after storing, write {skip + 1}, {script}"
                    name_ = f"app:{how}-{name}".replace(" ", "-")
                    yield Row(name_, title, faults=(late,), script=(script,), cycles=3, app=True)
    both = ("the same head into another base",)
    blocks = ("towards release it is a P1",)
    yield Row("app:two-bases", "one blocks", before=(*both, *blocks), app=True)
    yield Row("app:two-bases", "the other comes later", before=("a good review", *both, *blocks), app=True)
    yield Row(
        "app:push", "back and forth", before=("a good review", "a push", *again[:1], "a force-push back"), app=True
    )
    refused = (down("PATCH", RUN), down("POST", NEW_RUN))
    yield Row("app:push", "and the gate cannot be set", asked=("a push",), faults=refused, app=True)
    ruled = ("a good review", "the rules change")
    yield Row("app:rules", "and now it blocks", before=ruled, script=("P1",), app=True)
    yield Row("app:rules", "and the old gate cannot be taken back", before=ruled, faults=refused, app=True)
