"""One fault of the table, and how the forge and the model are made to fail."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from appliance.trials.github import How, Trouble
from appliance.trials.model import Step

COMMENTS, STATUS_LIST, STATUS, PULLS, PULL = (
    r"/issues/\d+/comments$",
    r"/statuses$",
    r"/statuses/",
    "/pulls$",
    r"/pulls/\d+$",
)
REVIEWS, BRANCHES = r"/pulls/\d+/reviews$", "/branches/"
RUNS, NEW_RUN, RUN = r"/commits/\w+/check-runs$", r"app/check-runs$", r"/check-runs/\d+$"
EDITS, REPLIES, REACTIONS, PEOPLE = r"/issues/comments/\d+$", "/replies$", "/reactions$", "/collaborators/"
RESOLVES, HIDES, THREADS, COUNTS = "#resolveReviewThread$", "#minimizeComment$", "#reviewThreads$", "#reviews$"
LATER = (("retry-after", "90"),)
SPENT = (("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1200"))
SECONDARY = "You have exceeded a secondary rate limit."
LOST = "the database is lost"
READS_GO_WRONG: tuple[How, ...] = (
    *("empty", "short", "stale", "truncated", "cut off"),
    *("hang", "drop", "redirect", "elsewhere"),
)
WRITES_GO_WRONG: tuple[How, ...] = ("hang", "drop", "cut off", "truncated")


@dataclass(frozen=True)
class Row:
    """`source` is the row of REPLAY, the outcome, the model's or the forge's failure that it stands for.

    First `before` happens, with nothing wrong. Then the `faults` hold, the model plays `script`, what stands in `then`
    happens at once, what stands in `asked` while the model is asked, and `cycles` cycles run; `kill` is where the
    appliance dies on the way. `failed` attempts count afterwards. Then all is cured, and within some cycles
    everything has to be right. `end`: what the gate shows then, where no review says it; `gives_up`: so does it before
    a person asks for another try; `given_up`: the kinds of writes that are missing in the end, for the forge has
    refused them for good. Without `heard` the faults keep the appliance from hearing, until all is cured, that a review
    is to be made anew. `settings` by the name of their variable.
    `app`: the appliance works as a GitHub App, and its gate is a check run.
    `codex`: what it comes to is Codex's own doing, so it is tried with the real one. `fast`: with `--fast` too.
    """

    source: str
    name: str
    before: tuple[str, ...] = ()
    faults: tuple[Trouble, ...] = ()
    script: tuple[Step, ...] = ("clean",)
    then: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    cycles: int = 2
    kill: tuple[str, int] | None = None
    failed: int = 0
    end: str | None = None
    gives_up: bool = False
    given_up: tuple[str, ...] = ()
    heard: bool = True
    app: bool = False
    codex: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    fast: bool = False

    @property
    def title(self) -> str:
        return f"{self.source}: {self.name}"

    @property
    def group(self) -> str:
        return "REPLAY" if self.source[0] == "R" else self.source.partition(":")[0]

    @property
    def injected(self) -> str:
        """In words, for whoever looks at one that failed."""
        script = [step if isinstance(step, str) else "as model-failures.json says" for step in self.script]
        parts = {
            "before": ", ".join(self.before),
            "at the forge": "; ".join(map(str, self.faults)),
            "the model": ", ".join(script),
            "then": ", ".join(self.then),
            "during the review": ", ".join(self.asked),
            "killed": f"{self.kill[0]} write {self.kill[1]}" if self.kill else "",
        }
        return "; ".join(f"{name}: {what}" for name, what in parts.items() if what)


def refusals(method: str, route: str) -> dict[str, Trouble]:
    return {
        "500": Trouble(method, route, status=500),
        "502": Trouble(method, route),
        "403-secondary": Trouble(method, route, status=403, message=SECONDARY),
        "403-retry-after": Trouble(method, route, status=403, headers=LATER, message=SECONDARY),
        "403-primary": Trouble(method, route, status=403, headers=SPENT, message="API rate limit exceeded"),
        "429": Trouble(method, route, status=429, message="Too Many Requests"),
        "429-retry-after": Trouble(method, route, status=429, headers=LATER, message="Too Many Requests"),
        "403-permission": Trouble(
            method,
            route,
            status=403,
            headers=(("x-accepted-github-permissions", "issues=write"),),
            message="Resource not accessible by personal access token",
        ),
        "401": Trouble(method, route, status=401, message="Bad credentials"),
        "404": Trouble(method, route, status=404, message="Not Found"),
        "406": Trouble(method, route, status=406, message="too_large"),
        "422": Trouble(method, route, status=422, message="Validation Failed"),
    }


def wrong(method: str, route: str) -> dict[str, Trouble]:
    return {how.replace(" ", "-"): Trouble(method, route, how) for how in READS_GO_WRONG}


def writes(
    group: str, name: str, route: str, kind: str, more: str = "", *, method: str = "POST", **row: Any
) -> Iterator[Row]:
    """Each bad answer to one write, before and after it is stored. `kind` is given up when it is refused for good."""
    for what, fault in refusals(method, route).items():
        given_up = (kind,) if what in ("404", "406", "422") else ()
        yield Row(f"{group}:{what}-{name}", f"before it is stored{more}", faults=(fault,), given_up=given_up, **row)
    for status in (500, 502, 503):
        fault = Trouble(method, route, status=status, stored=True, times=1)
        yield Row(f"{group}:{status}-{name}", f"after it is stored{more}", faults=(fault,), **{"cycles": 3, **row})
    for how in WRITES_GO_WRONG:
        fault = Trouble(method, route, how, stored=True, times=1)
        source = f"{group}:{how}-{name}".replace(" ", "-")
        yield Row(source, f"after it is stored{more}", faults=(fault,), **{"cycles": 3, **row})


def down(method: str, route: str) -> Trouble:
    return Trouble(method, route)


def stored(route: str, status: int) -> Trouble:
    return Trouble("POST", route, status=status, stored=True, times=1)


def look() -> Step:
    return {"fn": "exec_command", "args": {"cmd": "true"}}


def status(status: int, code: str) -> Step:
    return {"status": status, "body": {"error": {"code": code, "message": "no", "type": code}}}


def context() -> Step:
    return status(400, "context_length_exceeded")


def bad() -> Step:
    return status(400, "bad")
