"""A cycle in a small world: a fake GitHub over HTTP, real SQLite, a self-test and a reviewer that a test scripts."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fake_github import FakeGitHub
from fake_github.clients import CONTEXT, Clock, app_token, forge_for
from fake_github.state import Status

from appliance import codex, instructions
from appliance.core.faults import Fault
from appliance.core.findings import Evidence, Finding, Result, Review, Verdict
from appliance.core.inline import ReviewEvents
from appliance.core.marker import Marker, read
from appliance.core.outcomes import Ending, Outcome
from appliance.core.prompt import File
from appliance.core.pulls import Policy, Pull
from appliance.core.report import CommentMode
from appliance.core.slash import OURS
from appliance.core.steps import Step
from appliance.cycle import Cycle
from appliance.cycle import Result as CycleResult
from appliance.delivery import Delivery
from appliance.forge import Source
from appliance.forge.github import GitHubForge
from appliance.gate import Upstream
from appliance.git import Mirrors, Slots
from appliance.keeping import Keeper
from appliance.protocols import Forge
from appliance.reviewing import Keep, Reviewer
from appliance.standing import Standing
from appliance.store import PullRow, Store, StoredReview, open_store
from appliance.workdir import WorkDirs

APP = "octo/app"
KEY = b"k" * 32
INTERVAL = 300.0
SANDBOX = Fault("apparmor", "AppArmor forbids user namespaces.", "load the profile.", "bwrap: setting up uid map")
Script = Callable[[Pull, threading.Event], Ending]


def found(priority: int, title: str = "Off by one") -> Finding:
    return Finding(title, "The last one is left out.", priority, 0.9, "app.py", 1, 1)


def reviewed(pull: Pull, *findings: Finding, verdict: Verdict = "correct") -> Ending:
    """The ending of a good review."""
    review = Review(
        target=pull.target,
        head_sha=pull.head_sha,
        base_ref=pull.base_ref,
        base_sha=pull.base_sha,
        merge_base=pull.base_sha,
        result=Result(verdict, "s", "r", "l", findings),
        evidence=Evidence(("git diff",), (), 1),
        model="m",
    )
    return Ending(Outcome.REVIEWED, "reviewed", review=review)


def earnest(world: "World", pull: Pull, *findings: Finding) -> Ending:
    """The ending of a good review with the identity that the real reviewer would give it."""
    source = world.forge.source(pull)
    mirror = Mirrors(world.path / "mirrors").fetch(pull.repository, source, head_sha=pull.head_sha)
    merge_base = mirror.merge_base(mirror.base, pull.head_sha) or mirror.base
    changes = mirror.changed_files(merge_base, pull.head_sha)
    files = [File(one.path, one.status, one.added, one.deleted, one.old_path) for one in changes]
    held = instructions.of_base(mirror, mirror.base, files, world.block_priority).configuration
    ending = reviewed(replace(pull, base_sha=mirror.base), *findings)
    assert ending.review
    return replace(ending, review=replace(ending.review, merge_base=merge_base, configuration=held))


def failed(outcome: Outcome, retry_at: float | None = None) -> Ending:
    fault = Fault(outcome.value, f"It is the {outcome.value}.", "do something.")
    return Ending(outcome, outcome.value, fault=fault, retry_at=retry_at)


@dataclass(frozen=True)
class Scripted(Reviewer):
    """A reviewer that does what `script` says; `asked` are the pull requests it was given."""

    script: Script = lambda pull, _: reviewed(pull)
    asked: list[Pull] = field(default_factory=list)

    def review(
        self,
        pull: Pull,
        source: Source,
        *,
        stop: threading.Event | None = None,
        progress: codex.Progress = lambda _: None,
        base_sha: str | None = None,
        keep: Keep = lambda _review, _work: None,
    ) -> Ending:
        assert stop is not None
        self.asked.append(pull)
        progress(Step("reviewing"))
        return self.script(pull, stop)


@dataclass(frozen=True)
class Unmoved(Standing):
    """Says what a test has it say of whether a review still holds."""

    reason: Callable[[Pull], str | None] = lambda _: None

    def why_stale(self, forge: Forge, pull: Pull, stored: StoredReview, tip: str | None = None) -> str | None:
        return self.reason(pull)


class Ticks(Clock):
    """The world's clock, which moves on while a forge waits."""

    def __init__(self, world: "World") -> None:
        super().__init__()
        self.world = world

    def __call__(self) -> float:
        return self.world.clock()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.world.now += seconds


@dataclass
class World:
    """What outlives a cycle. `run` is one; change the fields in between."""

    github: FakeGitHub
    path: Path
    selftest: Fault | None = None
    script: Script = lambda pull, _: reviewed(pull)
    policy: Policy = field(default_factory=Policy)
    at_once: int = 1
    owner: str = "me"
    credentials: str = "key"
    no_login: Fault | None = None
    tokens_per_day: int = 0
    by_hand: bool = False
    stale: Callable[[Pull], str | None] = lambda _: None
    in_earnest: bool = False
    block_priority: int = 1
    base_drift: int = 0
    events: ReviewEvents = "comment"
    comments: CommentMode = "new"
    max_rounds: int = 0
    app: int = 0
    now: float = 1_796_000_000.0
    stop: threading.Event = field(default_factory=threading.Event)
    asked: list[Pull] = field(default_factory=list)
    health: list[Fault | None] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = self._open()
        self.forge = self.forge_of()

    def _open(self) -> Store:
        return open_store(self.path / "appliance.db", self.clock)

    def clock(self) -> float:
        self.now += 0.001  # two moments are never the same
        return self.now

    def close(self) -> None:
        self.forge.close()
        self.store.close()
        assert self.unsigned() == [], "what has no signature of ours could be taken for a person's command"

    def unsigned(self) -> list[str]:
        """The texts that were written to the forge without a signature of ours: by nobody, if not by a test."""
        written = [json.loads(it.request_body) for it in self.github.writes if it.request_body.startswith(b"{")]
        said = [one for each in written for one in (each, *each.get("comments", ())) if isinstance(one, dict)]
        texts = [str(one["body"]) for one in said if one.get("body")]
        return [text for text in texts if not OURS.search(text)]

    def forge_of(self, *repositories: str) -> GitHubForge:
        ticks = Ticks(self)
        as_app: dict[str, Any] = {}
        if self.app:
            as_app = {"token": app_token(self.github, self.app), "app_id": self.app}
        given = {"etags": self.store, "stop": self.stop, "sleep": ticks.sleep, **as_app}
        return forge_for(self.github, *repositories, clock=ticks, **given)

    def restart(self, *, lose_database: bool = False) -> None:
        """As another process finds it."""
        self.close()
        if lose_database:
            for file in self.path.glob("appliance.db*"):
                file.unlink()
        self.stop = threading.Event()
        self.owner += "'"
        self.store, self.forge = self._open(), None  # type: ignore[assignment]
        self.forge = self.forge_of()

    def reviewer(self) -> Reviewer:
        return Scripted(**vars(self.real_reviewer()), script=self.script, asked=self.asked)

    @property
    def work(self) -> WorkDirs:
        return WorkDirs(self.path / "work")

    @property
    def standing(self) -> Standing:
        """Scripted, or `in_earnest` the real one: then a script must review with `earnest`."""
        if self.in_earnest:
            return Standing(Mirrors(self.path / "mirrors"), self.block_priority, self.base_drift, self.stop)
        return Unmoved(Mirrors(self.path / "mirrors"), 1, 0, self.stop, self.stale)

    @property
    def delivery(self) -> Delivery:
        return Delivery(
            self.store, KEY, 1, self.standing, self.events, self.comments, self.max_rounds, clock=self.clock
        )

    @property
    def keeper(self) -> Keeper:
        return Keeper(self.store, self.work, self.block_priority, self.clock)

    def real_reviewer(self) -> Reviewer:
        return Reviewer(
            mirrors=Mirrors(self.path / "mirrors"),
            slots=Slots(self.path / "slots"),
            work=self.work,
            model=codex.Model("m", "high", Upstream("http://127.0.0.1:1/v1")),
            probe=lambda: None,
            timeout=60,
            history=self.store.earlier_heads,
        )

    def cycle(self, reviewer: Reviewer | None = None) -> Cycle:
        return Cycle(
            store=self.store,
            forges=[self.forge],
            policy=self.policy,
            delivery=self.delivery,
            reviewer=reviewer or self.reviewer(),
            keeper=self.keeper,
            selftest=lambda: self.selftest,
            owner=self.owner,
            alive=lambda owner: owner == self.owner,
            interval=INTERVAL,
            reviews_at_once=self.at_once,
            credentials=self.credentials,
            standing=self.standing,
            no_login=self.no_login,
            tokens_per_day=self.tokens_per_day,
            by_hand=self.by_hand,
            stop=self.stop,
            on_health=self._on_health,
            clock=self.clock,
            jitter=lambda: 0.0,
        )

    def _on_health(self, fault: Fault | None, pulls: int, waits: str) -> None:
        self.health.append(fault)
        self.waits.append(waits)

    def run(self) -> CycleResult:
        """One cycle, and the time to the next one."""
        result = self.cycle().run()
        self.now += INTERVAL + 1
        return result

    # ---- what there is to see

    def pull(self, number: int = 1) -> Pull:
        return self.forge.pull(APP, number)

    def status(self, number: int = 1) -> PullRow:
        return next(row for row in self.store.states() if row.target == f"{APP}#{number}")

    def attempts(self, number: int = 1) -> int:
        pull = self.pull(number)
        return self.store.records([pull])[pull.target].attempts

    def statuses(self, number: int = 1, sha: str | None = None) -> list[Status]:
        """Newest first."""
        head = sha or self.github.repository(APP).pulls[number].head_sha
        return self.github.statuses(APP, head, CONTEXT)

    def run_gates(self, number: int = 1) -> list[str]:
        """What the check runs of the head say, newest first."""
        head = self.github.repository(APP).pulls[number].head_sha
        return [f"{it.conclusion or it.status}: {it.title}" for it in self.github.check_runs(APP, head, CONTEXT)]

    def gate(self, number: int = 1, sha: str | None = None) -> str:
        found = self.statuses(number, sha)
        return f"{found[0].state}: {found[0].description}" if found else ""

    def markers(self, number: int = 1) -> list[Marker]:
        """Those of our comments, oldest first."""
        read_ = [read(comment.body, KEY) for comment in self.github.comments(APP, number)]
        return [marker for marker in read_ if marker]

    @property
    def writes(self) -> list[str]:
        return [f"{it.method} {it.path}" for it in self.github.writes]
