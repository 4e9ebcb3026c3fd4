"""One trial's world: the product as `wiring` puts it together, over a forge, a model and a clock of the trial's own."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

import httpx

from appliance import codex
from appliance.core.faults import Fault
from appliance.core.pulls import Pull
from appliance.cycle import Cycle
from appliance.flock import OwnerLocks
from appliance.forge import Source
from appliance.forge.github import GitHubForge
from appliance.forge.github_limits import WritePace
from appliance.gate import Upstream
from appliance.login import LoginRefused
from appliance.settings import Settings
from appliance.store import open_store
from appliance.trials import github
from appliance.trials.github import APP_ID, CONTEXT, REPOSITORY, GitHub
from appliance.trials.model import Model
from appliance.trials.origin import Origin
from appliance.trials.player import Killed, Player
from appliance.wiring import Appliance
from appliance.workdir import WorkDirs

TOKEN = "ghp_" + "t" * 36
APP_TOKEN = "ghs_" + "t" * 36
KEY = b"trial" * 8
DEAD_SANDBOX = Fault(
    "apparmor-docker-default", "AppArmor forbids user namespaces.", "load the profile.", "bwrap: setting up uid map"
)
PATIENCE = 0.25  # seconds that the client of a trial waits for an answer


class Line(httpx.HTTPTransport):
    """The client's connection. `kill` is `before` or `after`, and which write from now on the appliance dies at."""

    def __init__(self) -> None:
        super().__init__()
        self.kill: tuple[str, int] | None = None
        self.writes = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), PATIENCE)
        reads = request.method == "GET" or (
            request.url.path.endswith("/graphql") and b"mutation" not in request.content
        )
        writes = not reads
        self.writes += writes
        due = self.kill if self.kill and writes and self.kill[1] == self.writes else None
        if due and due[0] == "before":
            self.kill = None
            raise Killed("before a write")
        response = super().handle_request(request)
        if due:
            self.kill = None
            response.close()
            raise Killed("after a write")
        return response


class Forge(GitHubForge):
    """The product's own, which finds the repository on the disk: git over HTTP is not what is tried here."""

    origin: Path

    def source(self, pull: Pull) -> Source:
        super().source(pull)
        return Source(str(self.origin), pull.head_sha, pull.base_sha)


class UsedUp:
    """A ChatGPT login whose refresh token was used by somebody else."""

    def headers(self) -> Mapping[str, str]:
        raise LoginRefused("refresh token was already used")

    def renewed(self, refused: Mapping[str, str]) -> Mapping[str, str]:
        raise LoginRefused("refresh token was already used")


class Stage:
    """`run` is one cycle and the time to the next; what happens in between, `do` does by its name."""

    def __init__(
        self, folder: Path, origin: Origin, real: bool, settings: Mapping[str, str], *, app: bool = False
    ) -> None:
        self.app = app
        self.folder, self.origin, self.real = folder, origin, real
        self.now = time.time()
        self.tick = count(1).__next__
        self.github = GitHub(self.tick, lambda: self.now)
        self.model = Model(self.tick)
        self.player = Player()
        self.selftest: Fault | None = None
        self.probe: Fault | None = None
        self.login: UsedUp | None = None
        self.full_disk = False
        self.asked_again = 0  # the tick of the newest request to review again
        self.lost = 0  # the tick at which the database was
        self.crashes: list[str] = []
        self.kills = 0
        self.store_kill = False
        self.edits = settings.get("APPLIANCE_COMMENT_MODE") == "edit"
        self._settings = Settings(
            **{  # type: ignore[arg-type]
                "GITHUB_TOKEN": TOKEN,
                "APPLIANCE_REPOSITORIES": REPOSITORY,
                "APPLIANCE_GITHUB_URL": "http://127.0.0.1",
                "OPENAI_API_KEY": "sk-" + "t" * 40,
                "APPLIANCE_STATE_DIR": str(folder / "state"),
                "APPLIANCE_RUN_DIR": str(folder / "run"),
                **settings,
            }
        )
        (folder / "state").mkdir(parents=True)
        self._starts = 0

    def __enter__(self) -> "Stage":
        self.github.__enter__()
        self.add(1, self.origin.head, "main")
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.parts.close()
        self.github.__exit__()

    def clock(self) -> float:
        self.now += 0.001  # two moments are never the same
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    # ---- the product

    def _start(self) -> None:
        state = self.folder / "state"
        self._starts += 1
        store = open_store(state / "appliance.db", self.clock)
        stop = threading.Event()
        self.line = Line()
        forge = Forge(
            api_url=self.github.url,
            token=APP_TOKEN if self.app else TOKEN,
            app_id=APP_ID if self.app else None,
            repositories=[REPOSITORY],
            context=CONTEXT,
            etags=store,
            stop=stop,
            clock=self.clock,
            sleep=self.sleep,
            pace=WritePace(),
            transport=self.line,
        )
        forge.origin = self.origin.path
        self.parts = Appliance(
            settings=self._settings,
            store=store,
            key=KEY,
            owner=f"trial-{self._starts}",
            locks=OwnerLocks(state / "locks"),
            work=WorkDirs(state / "work"),
            stop=stop,
            _forges=[forge],
        )
        finish = store.finish

        def finishing(*args: object, **named: object) -> int:
            if self.store_kill:
                self.store_kill = False
                raise Killed("before the review is stored")
            if self.full_disk:
                raise _full()
            return finish(*args, **named)  # type: ignore[arg-type]

        store.finish = finishing  # type: ignore[method-assign]

    def restart(self) -> None:
        """As another process finds it."""
        self.parts.close()
        self._start()

    def _cycle(self) -> Cycle:
        made = self.parts.cycle()
        upstream = Upstream("http://model/v1", login=self.login, transport=self.model)
        keeper = replace(made.keeper, clock=self.clock)
        reviewer = replace(
            made.reviewer,
            model=codex.Model("trial", "low", upstream),
            probe=lambda: self.probe,
            run=None if self.real else self.player,
        )
        return replace(
            made,
            delivery=replace(made.delivery, clock=self.clock, pause=self.sleep),
            reviewer=reviewer,
            keeper=keeper,
            selftest=lambda: self.selftest,
            alive=lambda owner: owner == self.parts.owner,
            clock=self.clock,
            jitter=lambda: 0.0,
            on_health=lambda *_: None,
        )

    def run(self, after: float) -> None:
        """One cycle as the loop runs it, and so many seconds until the next. Whoever is killed is started again."""
        try:
            self.parts.keeper.reclaim()
            self._cycle().run()
        except Killed:
            self.kills += 1
            self.restart()
        except Exception as error:  # noqa: BLE001  (as `schedule.guarded`: the next cycle comes; the oracle is told)
            self.crashes.append(f"{type(error).__name__}: {error}"[:200])
        self.now += after

    def attempts(self, number: int = 1) -> int:
        """As the plan counts them, for the present head and base, once the next cycle has looked who was killed."""
        self.parts.store.reclaim(lambda owner: owner == self.parts.owner)
        shown = self.github.state.pulls[number]
        target = f"{REPOSITORY}#{number}"
        pull = Pull(target, REPOSITORY, number, shown.head, shown.base_ref, shown.base)
        return self.parts.store.records([pull])[target].attempts

    def kept(self) -> str:
        """What lies in the work directories and waits for the next cycle."""
        found = (self.folder / "state" / "work").glob("*/*.json")
        return "".join(path.read_text(encoding="utf-8") for path in found)

    # ---- what happens

    def add(self, number: int, head: str, base_ref: str, author: str | None = "mallory") -> None:
        base = {"main": self.origin.main, "release": self.origin.release}[base_ref]
        self.github.state.pulls[number] = github.Pull(number, head, base_ref, base, author)

    def do(self, what: str) -> None:
        _DOES[what](self)

    def _change(self, **fields: str) -> None:
        with self.github.lock:
            pull = self.github.state.pulls[1]
            for name, value in fields.items():
                setattr(pull, name, value)
            self.github.changed(pull)

    def lose_database(self) -> None:
        self.parts.close()
        for file in (self.folder / "state").glob("appliance.db*"):
            file.unlink()
        self.lost = self.tick()
        self._start()

    def retry(self) -> None:
        self.asked_again = self.tick()
        self.parts.store.forget(f"{REPOSITORY}#1")

    def new_rules(self) -> None:
        """The base branch says something else of its reviews: what the model said before counts no more."""
        self._change(base=self.origin.ruled)
        self.asked_again = self.tick()

    def blocking_review(self) -> None:
        self.model.play("P1")
        self.run(301)
        self.model.play("clean")

    def unposted(self, route: str, skip: int = 0, status: int = 502) -> None:
        """A review that blocks, which the forge takes in part or not at all: what it found holds all the same."""
        self.github.begin((github.Trouble("POST", route, status=status, skip=skip),))
        self.blocking_review()
        self.github.heal()

    def base_drifts(self) -> None:
        """So many commits of the base that what the model said before counts no more."""
        self._change(base=self.origin.advanced)
        self.asked_again = self.tick()

    def delete_comment(self) -> None:
        """Somebody deletes our newest comment."""
        with self.github.lock:
            pull = self.github.state.pulls[1]
            ours = [one for one in pull.comments if one["user"]["login"] == github.LOGIN]
            pull.comments.remove(ours[-1])
            self.github.changed(pull)

    def chatter(self) -> None:
        with self.github.lock:
            state = self.github.state
            pull = state.pulls[1]
            pull.comments[:0] = [github.comment(self.github, state, f"Remark {n}.", "bob") for n in range(100)]
            self.github.changed(pull)

    def says(self, text: str, author: str) -> None:
        with self.github.lock:
            state = self.github.state
            pull = state.pulls[1]
            pull.comments.append(github.comment(self.github, state, text, author))
            self.github.changed(pull)

    def thread_of_bob(self) -> None:
        """Somebody else's conversation on the line, which quotes a finding of ours with its tag."""
        with self.github.lock:
            state = self.github.state
            pull = state.pulls[1]
            said = pull.threads[0]["comments"][0]["body"] if pull.threads else "A defect"
            first = github.comment(self.github, state, said.partition("<!--")[0], "bob")
            pull.threads.append(
                {"id": f"T{first['id']}", "path": github.CHANGED, "resolved": False, "comments": [first]}
            )
            self.github.changed(pull)

    def command(self, text: str) -> None:
        """Somebody who may asks for another review, or for something else."""
        self.says(text, github.MAINTAINER)
        if text == "/review":
            self.asked_again = self.tick()

    def copy_marker(self) -> None:
        """Somebody posts our newest comment again, and one with a signature that is none."""
        with self.github.lock:
            state = self.github.state
            pull = state.pulls[1]
            ours = [each["body"] for each in pull.comments][-1:]
            forged = "<!-- review-appliance:v1 e30= " + "0" * 64 + " -->"
            for body in (*ours, forged):
                pull.comments.append(github.comment(self.github, state, body, "mallory"))
            self.github.changed(pull)


def _full() -> Exception:
    from sqlalchemy.exc import OperationalError

    return OperationalError("INSERT", {}, Exception("database or disk is full"))


def _set(name: str, value: object) -> Callable[[Stage], None]:
    return lambda stage: setattr(stage, name, value)


def _plays(how: str) -> Callable[[Stage], None]:
    def does(stage: Stage) -> None:
        stage.player.how = how
        stage.model.works = how != "dead commands"

    return does


_DOES: dict[str, Callable[[Stage], None]] = {
    "a good review": lambda stage: stage.run(301),
    "a review that blocks": Stage.blocking_review,
    "one that blocks, its comment on a line not stored": lambda stage: stage.unposted(r"/pulls/\d+/reviews$"),
    "one that blocks, its comment not stored": lambda stage: stage.unposted(r"/issues/\d+/comments$"),
    "one that blocks, its comment refused": lambda stage: stage.unposted(r"/issues/\d+/comments$", status=422),
    "one that blocks, its gate not set": lambda stage: stage.unposted("/statuses/", skip=2),
    "a restart": Stage.restart,
    "the database is lost": Stage.lose_database,
    "a person asks again": Stage.retry,
    "100 other comments": Stage.chatter,
    "our comment is copied": Stage.copy_marker,
    "many files": lambda stage: stage._change(head=stage.origin.large),
    "the base drifts": Stage.base_drifts,
    "our comment is deleted": Stage.delete_comment,
    "bob talks of the same": Stage.thread_of_bob,
    "a maintainer comments /review pause": lambda stage: stage.command("/review pause"),
    "a maintainer comments /review resume": lambda stage: stage.command("/review resume"),
    "a stranger comments /review pause": lambda stage: stage.says("/review pause", "mallory"),
    "a push": lambda stage: stage._change(head=stage.origin.pushed),
    "a force-push back": lambda stage: stage._change(head=stage.origin.head),
    "another base": lambda stage: stage._change(base_ref="release", base=stage.origin.release),
    "the base goes on": lambda stage: stage._change(base=stage.origin.advanced),
    "the rules change": Stage.new_rules,
    "closed": lambda stage: stage._change(state="closed"),
    "open again": lambda stage: stage._change(state="open"),
    "a maintainer comments /review": lambda stage: stage.command("/review"),
    "a maintainer comments /review explain 1": lambda stage: stage.command("/review explain 1"),
    "a stranger comments /review": lambda stage: stage.says("/review", "mallory"),
    "a maintainer quotes /review": lambda stage: stage.says("> /review\n\nis a command.", github.MAINTAINER),
    "an empty change": lambda stage: stage._change(head=stage.origin.empty),
    "the author is gone": lambda stage: stage.add(1, stage.origin.head, "main", None),
    "the same head into another base": lambda stage: stage.add(2, stage.origin.head, "release"),
    "towards release it is a P1": lambda stage: stage.model.by_base.update({stage.origin.root: "P1"}),
    "the self-test fails": _set("selftest", DEAD_SANDBOX),
    "the sandbox dies": _set("probe", DEAD_SANDBOX),
    "the login is used up": _set("login", UsedUp()),
    "the disk is full": _set("full_disk", True),
    "each request takes 150,000 tokens": lambda stage: setattr(stage.model, "usage", 150_000),
    "commands fail in bwrap": _plays("dead commands"),
    "Codex does not start": _plays("not started"),
    "Codex takes too long": _plays("timed out"),
    "Codex is killed": _plays("out of memory"),
    "killed during the review": _plays("killed"),
    "killed before the review is stored": _set("store_kill", True),
}
WHAT_HAPPENS = frozenset(_DOES)


def cure(stage: Stage) -> None:
    """Whatever was wrong is no more; what was done to the pull request stays."""
    stage.github.heal()
    stage.line.kill = None
    stage.selftest = stage.probe = stage.login = None
    stage.full_disk = stage.store_kill = False
    stage.player.how, stage.model.works, stage.model.usage = "", True, 10
    stage.model.on_ask = lambda: None
    stage.model.play("clean")
