"""Puts the parts together: from the settings to a cycle, a reviewer, a forge."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from sqlalchemy.exc import SQLAlchemyError

from appliance import battery, bounds, codex, keys, redaction, rehearsal, sample
from appliance.board import Board
from appliance.core.budget import day_fault
from appliance.core.faults import Fault, named
from appliance.core.health import Health, of_fault
from appliance.core.upstream import LOGIN_REMEDY
from appliance.cycle import Cycle
from appliance.delivery import Delivery
from appliance.facts import memory_limit
from appliance.failures import fault_of, shortage_of
from appliance.flock import held
from appliance.forge import ForgeError
from appliance.forge.github import GitHubForge
from appliance.forge.github_installations import GitHubInstallations
from appliance.forge.github_pace import SharedPace, SharedPause
from appliance.forge.local import LocalForge
from appliance.gate import Upstream
from appliance.git import Mirrors, Slots
from appliance.health import heartbeat, write
from appliance.keeping import Keeper
from appliance.login import CHATGPT_API, LOGIN_COMMAND, Login, LoginRefused, LoginUnreachable
from appliance.meter import Budgets
from appliance.owner import identity
from appliance.progress import Progress
from appliance.protocols import Forge
from appliance.reviewing import Reviewer
from appliance.selftest import Report, deep, nested_probe, selftest
from appliance.settings import OPENAI_API, REHEARSAL_MODEL, Settings
from appliance.standing import Standing
from appliance.store import Store, is_damage, open_store, words
from appliance.workdir import OwnerLocks, WorkDirs

log = structlog.get_logger()

HEALTH_VALID_SECONDS = 60.0
POSTING_SECONDS = 600.0  # for another process to post one review, limits of the forge included
NO_LOGIN = Fault("login", "There is neither a key nor a login for the model.", LOGIN_REMEDY)
NO_TOKEN = Fault(
    "forge-login",
    "APPLIANCE_REPOSITORIES is set, but GITHUB_TOKEN is not, and no GitHub App is.",
    "set GITHUB_TOKEN in .env, or APPLIANCE_GITHUB_APP_ID and APPLIANCE_GITHUB_APP_KEY_FILE, and run "
    "`docker compose up -d`.",
)

SIGNING_KEY = "signing.key"
ACCEPT_KEY = "accept-new-key"  # a file that a person makes in the state directory, once
KEY_NOTE = "signing-key"
KEY_REPLACED = Fault("state", "signing.key was replaced while the appliance runs.", "run `docker compose restart`.")


@dataclass
class Appliance:
    """The parts of one process.

    `blocked` is why the state volume cannot be used: then the state is a passing one in the run directory, nothing is
    reviewed, and gates are set only where there are none.
    """

    settings: Settings
    store: Store
    key: bytes
    owner: str
    locks: OwnerLocks
    work: WorkDirs
    stop: threading.Event
    blocked: Fault | None = None
    _forges: list[Forge] = field(default_factory=list)
    _fresh: bool = False
    _proven: bool = False
    _unsaid: Health | None = None

    def close(self) -> None:
        for forge in self._forges:
            forge.close()
        self.store.close()

    @property
    def login(self) -> Login:
        return Login(self.settings.state_dir / "login")

    @property
    def sample(self) -> Path:
        return self.settings.state_dir / "sample" / sample.SAMPLE_NAME

    def scratch_probe(self) -> Fault | None:
        with self.work.new("probe-") as scratch:
            return nested_probe(scratch)

    def selftest(self) -> Fault | None:
        """The self-test before reviews: the ladder each time, and the battery until it has held since the start.

        So a breach stops all reviews, is tried again each cycle, and is over when the attacks are held again.
        """
        if self.blocked:
            return self.blocked
        with self.work.new("selftest-") as scratch:
            if self._jail_held():
                report = selftest(scratch)
                if report.fault and report.fault.cause == "breach":
                    self.forget_battery()
            else:
                report = deep(scratch, surroundings(self.settings, self.app_tokens()))
                self.note_battery(report)
                for said in report.warnings:  # once a start: of each cycle they would be noise
                    log.warning("selftest.warning", said=said)
        return report.fault

    def note_battery(self, deep_report: Report) -> None:
        """Remember whether the attacks were held, and in which start of which container that was."""
        self._proven = deep_report.ok
        self.store.set_note("battery", _this_start() if deep_report.ok else None)

    def forget_battery(self) -> None:
        self.note_battery(Report(False, 0.0, (), None))

    def trust_nothing(self) -> None:
        """At the start of `serve`: what held before, in another image perhaps, proves nothing; with a full disk too."""
        self._fresh = True
        with suppress(SQLAlchemyError):
            self.forget_battery()

    def _jail_held(self) -> bool:
        here = _this_start()
        return here is not None and (self._proven or not self._fresh) and self.store.note("battery") == here

    def model(self, *, rehearse: bool) -> codex.Model:
        """The model that reviews; the rehearsal model only when asked for by name or when nothing is configured."""
        settings = self.settings
        if rehearse:
            return codex.Model(REHEARSAL_MODEL, "low", rehearsal.upstream(), rehearsal=True)
        if settings.openai_api_key:
            headers = {"authorization": f"Bearer {settings.openai_api_key.get_secret_value()}"}
            return codex.Model(
                settings.model, settings.reasoning_effort, Upstream(settings.model_url, headers, model=settings.model)
            )
        url = CHATGPT_API if settings.model_url == OPENAI_API else settings.model_url
        return codex.Model(
            settings.model, settings.reasoning_effort, Upstream(url, login=self.login, model=settings.model)
        )

    def reviewer(self, *, rehearse: bool) -> Reviewer:
        return Reviewer(
            mirrors=self.mirrors,
            slots=self.slots,
            work=self.work,
            model=self.model(rehearse=rehearse),
            probe=self.scratch_probe,
            timeout=self.settings.review_timeout,
            block_priority=self.settings.block_priority_number,
            budgets=self.budgets(rehearse=rehearse),
            diff_budget=self.settings.diff_budget,
            max_passes=self.settings.max_passes,
            memory=bounds.share(memory_limit(), self.settings.reviews_at_once),
            history=self.store.earlier_heads,
        )

    @property
    def mirrors(self) -> Mirrors:
        return Mirrors(self.settings.state_dir / "mirrors")

    @property
    def slots(self) -> Slots:
        return Slots(self.settings.state_dir / "slots")

    @property
    def board(self) -> Board:
        return Board(self.settings.run_dir, self.locks.alive)

    @property
    def standing(self) -> Standing:
        settings = self.settings
        return Standing(self.mirrors, settings.block_priority_number, settings.base_drift, self.stop)

    @property
    def keeper(self) -> Keeper:
        return Keeper(self.store, self.work, self.settings.block_priority_number)

    def budgets(self, *, rehearse: bool) -> Budgets:
        """What a review may use; the rehearsal costs nothing, so it has no limit and is not counted."""
        if rehearse:
            return Budgets()
        return Budgets(self.settings.tokens_per_review, self.settings.tokens_per_day, self.store)

    def day_fault(self) -> Fault | None:
        """That the token budget of the day is used up, if it is."""
        limit = self.settings.tokens_per_day
        return day_fault(limit) if self.store.spent().used_up(limit) else None

    def local(self, roots: Sequence[Path]) -> LocalForge:
        state = self.settings.state_dir
        return LocalForge(roots, state / "reviews", self.store, state)

    def github(self) -> GitHubForge | GitHubInstallations:
        """Raises ForgeError with neither a token nor an App."""
        settings = self.settings
        if settings.github_app_id and settings.github_app_key:
            return GitHubInstallations(
                api_url=settings.github_url,
                app_id=settings.github_app_id,
                key=settings.github_app_key.get_secret_value(),
                shared=self._shared,
                repositories=settings.repositories,
                context=settings.status_context,
                etags=self.store,
                api_version=settings.github_api_version,
                stop=self.stop,
            )
        if settings.github_token is None:
            raise ForgeError(NO_TOKEN.cause, "GITHUB_TOKEN is not set.", remedy=NO_TOKEN.remedy, permanent=True)
        token = settings.github_token.get_secret_value()
        pace, pause = self._shared(token)
        return GitHubForge(
            api_url=settings.github_url,
            token=token,
            pace=pace,
            pause=pause,
            repositories=settings.repositories,
            context=settings.status_context,
            etags=self.store,
            api_version=settings.github_api_version,
            stop=self.stop,
        )

    def _shared(self, login: str) -> tuple[SharedPace, SharedPause]:
        """Pace and pause of one login, which all processes of the state volume share."""
        settings = self.settings
        shared = settings.state_dir / "locks" / f"github-{keys.digest(settings.github_url, login)[:16]}"
        return SharedPace(shared.with_suffix(".pace")), SharedPause(shared.with_suffix(".pause"))

    def app_tokens(self) -> list[str]:
        """The tokens of the App's installations that are held now: secrets."""
        return [token for forge in self._forges if isinstance(forge, GitHubInstallations) for token in forge.tokens()]

    def forges(self) -> list[Forge]:
        """All that is configured; the sample when nothing is. Made once: a forge remembers what limits it."""
        if not self._forges:
            self._forges = self._make_forges()
        return self._forges

    def _make_forges(self) -> list[Forge]:
        settings = self.settings
        if settings.rehearsal:
            return [self.local([sample.make(self.sample)])]
        found: list[Forge] = []
        if settings.repositories and settings.signs_in:
            found.append(self.github())
        if settings.local_repositories:
            found.append(self.local([settings.local_repositories]))
        return found

    def key_fault(self) -> Fault | None:
        """That signing.key is no longer the one that this process signs with. Raises OSError."""
        if self.blocked:
            return None
        with suppress(FileNotFoundError):
            if (self.settings.state_dir / SIGNING_KEY).read_bytes() == self.key:
                return None
        return blocked(self.settings) or KEY_REPLACED

    @property
    def delivery(self) -> Delivery:
        lock = self.settings.state_dir / "locks" / "delivery"
        return Delivery(
            self.store,
            self.key,
            self.settings.block_priority_number,
            self.standing,
            events=self.settings.review_event,
            comments=self.settings.comment_mode,
            max_rounds=self.settings.max_rounds,
            keep=self.blocked is not None,
            alone=lambda: held(lock, timeout=POSTING_SECONDS, stop=self.stop),
            pause=self.stop.wait,
        )

    def no_login(self) -> Fault | None:
        """What is missing before any review can be asked for."""
        settings = self.settings
        if settings.rehearsal:
            return None
        if settings.repositories and not settings.signs_in:
            return NO_TOKEN
        return None if settings.openai_api_key else self.login_fault()

    def login_fault(self) -> Fault | None:
        """Why the ChatGPT login cannot be used, if it cannot."""
        if not self.login.exists():
            return NO_LOGIN
        try:
            self.login.headers()
        except LoginRefused as refused:
            return Fault("login", f"The ChatGPT login is used up: {refused}", LOGIN_REMEDY, str(refused))
        except LoginUnreachable as error:  # perhaps it passes: the model gate will say so of a request
            log.warning("login.unreachable", error=str(error))
        return None

    def credentials(self) -> str:
        settings = self.settings
        key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else self.login.digest()
        return keys.digest(key, settings.model_url, settings.model, settings.reasoning_effort)

    def show_health(self, fault: Fault | None, pulls: int, waits: str = "") -> None:
        """Write what the container's health is to say."""
        if fault:
            health = of_fault(fault, time.time())
        else:
            count = "1 pull request" if pulls == 1 else f"{pulls} pull requests"
            said = f"the sample is reviewed; {NEXT_STEPS}" if self.settings.rehearsal else f"watching {count}"
            said += f"; {waits}" if waits else ""
            health = Health("healthy", "", said, since=time.time())
        self.say(health)

    def say(self, health: Health) -> None:
        """Write the health. Where that cannot be, the log says so, and `beat` tries it again: no cycle ends by it."""
        self._unsaid = health
        self.beat()

    def beat(self) -> None:
        """Let what the health says stand for another while, or say what could not be written before."""
        run_dir, unsaid = self.settings.run_dir, self._unsaid
        try:
            if unsaid:
                write(run_dir, unsaid, valid_for=HEALTH_VALID_SECONDS)
            else:
                heartbeat(run_dir, HEALTH_VALID_SECONDS)
        except OSError as error:
            step = f"free space in {run_dir} (`docker compose restart` empties it); the next try is made by itself."
            sentence = f"The health cannot be written: {error}"
            log.error("health.unwritten", cause=fault_of(error).cause, sentence=sentence, next=step)
            return
        if self._unsaid is unsaid:
            self._unsaid = None

    def cycle(self, progress: Progress | None = None, *, by_hand: bool = False) -> Cycle:
        """A cycle over everything configured. Raises OSError and GitError if the sample cannot be made."""
        settings = self.settings
        return Cycle(
            store=self.store,
            forges=self.forges(),
            policy=settings.policy,
            delivery=self.delivery,
            reviewer=self.reviewer(rehearse=settings.rehearsal),
            keeper=self.keeper,
            selftest=self.selftest,
            owner=self.owner,
            alive=self.locks.alive,
            interval=settings.interval,
            reviews_at_once=settings.reviews_at_once,
            credentials=self.credentials(),
            standing=self.standing,
            tokens_per_day=0 if settings.rehearsal else settings.tokens_per_day,
            by_hand=by_hand,
            no_login=self.no_login(),
            stop=self.stop,
            on_health=self.show_health,
            progress=progress or Progress(),
            board=self.board,
        )


def surroundings(settings: Settings, tokens: Sequence[str] = ()) -> battery.Surroundings:
    """What no attack may reach, the real secrets among it; `tokens` are the App's that are held now."""
    given = {
        "GITHUB_TOKEN": settings.github_token,
        "APPLIANCE_GITHUB_APP_KEY": settings.github_app_key,
        "OPENAI_API_KEY": settings.openai_api_key,
    }
    found = {name: value.get_secret_value() for name, value in given.items() if value}
    if settings.github_app_key:
        lines = redaction.key_lines(settings.github_app_key.get_secret_value())
        found |= {f"line {number} of APPLIANCE_GITHUB_APP_KEY": line for number, line in enumerate(lines, 1)}
    found |= {f"the token of installation {number} of the App": token for number, token in enumerate(tokens, 1)}
    found |= battery.secrets_of_login(settings.state_dir / "login" / "auth.json")
    return battery.Surroundings(settings.state_dir, settings.run_dir, found)


def _this_start() -> list[str] | None:
    """This boot and this start of the container; None if either cannot be told, and unknown is never the same."""
    found = identity()
    return [found.boot_id, found.pid_ns] if found.boot_id and found.pid_ns else None


RUN_REMEDY = (
    "put the line `- /run:mode=1777,size=16m` back under `tmpfs` in compose.yaml and run "
    "`docker compose up -d --force-recreate`."
)
NEXT_STEPS = (
    "set GITHUB_TOKEN, APPLIANCE_REPOSITORIES and OPENAI_API_KEY in .env, then `docker compose up -d`; instead of the "
    f"token, a GitHub App (README.md, As a GitHub App), and instead of the key, a ChatGPT login: `{LOGIN_COMMAND}`"
)


READ_ONLY_REMEDY = (
    "put the line `- state:/var/lib/appliance` (without `:ro`) under `volumes` in compose.yaml and run "
    "`docker compose up -d --force-recreate`. If it stands there, the host's disk went read-only: see `sudo dmesg`."
)


def no_run_dir(settings: Settings) -> Fault | None:
    """Why the run directory cannot be used, if it cannot. Makes it."""
    run_dir = settings.run_dir
    said = f"{run_dir} may not be written"
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        if os.access(run_dir, os.W_OK | os.X_OK):
            return None
    except OSError as error:
        if full := shortage_of(error):
            return full
        said = str(error)
    if "run_dir" in settings.model_fields_set:
        return Fault("settings", f"APPLIANCE_RUN_DIR cannot be used: {said}", "take it out of .env.")
    return Fault("no-run-dir", f"The container has no /run that can be written: {said}", RUN_REMEDY)


def blocked(settings: Settings) -> Fault | None:
    """Why the state volume cannot be used, if it cannot."""
    if os.getuid() == 0:
        return named("root-user")  # root without capabilities may read nothing there, and its jails prove nothing
    if fault := no_run_dir(settings):
        return fault
    try:
        with _opened(settings, None):
            return None
    except keys.LostKey as error:
        accept = f"`docker exec review-appliance touch {settings.state_dir / ACCEPT_KEY}`"
        remedy = (
            "put the backup of signing.key back (README.md, Update, backup, removal). If there is none, accept "
            f"another: {accept}; what the database has is not reviewed again, but no comment so far counts as our own."
        )
        return Fault("state", str(error), remedy)
    except (OSError, ValueError, SQLAlchemyError) as error:
        if is_damage(error):
            return fault_of(error)
        said = words(error)[:300]
        remedy = f"make {settings.state_dir} writable for uid {os.getuid()} and see that it has free space."
        if mount := _read_only_mount(settings.state_dir):
            found = (
                f"{mount} is mounted read-only"
                if mount != Path("/")
                else f"no volume is mounted at {settings.state_dir}"
            )
            said, remedy = f"{found}: {said}", READ_ONLY_REMEDY
        if isinstance(error, ValueError):  # not the volume but what is in it; the message has its own next step
            said, _, remedy = said.partition("; ")
        return Fault("state", f"The state volume cannot be used: {said}", remedy, str(error))


def _read_only_mount(folder: Path) -> Path | None:
    """Where the file system that holds `folder` is mounted, if that is read-only. Never raises."""
    found = folder.absolute()
    try:
        while not os.path.lexists(found):
            found = found.parent
        if not os.statvfs(found).f_flag & os.ST_RDONLY:
            return None
        while not found.is_mount():
            found = found.parent
    except OSError:
        return None
    return found


@contextmanager
def appliance(settings: Settings) -> Iterator[Appliance]:
    """Open the state volume, or a passing state in the run directory while that cannot be used. Raises OSError."""
    fault = blocked(settings)
    if fault:
        settings = settings.model_copy(update={"state_dir": settings.run_dir / "state"})
    with _opened(settings, fault) as parts:
        yield parts


@contextmanager
def _opened(settings: Settings, fault: Fault | None) -> Iterator[Appliance]:
    state = settings.state_dir
    os.umask(0o077)  # what is written here is nobody else's
    for folder in (state, settings.run_dir):
        folder.mkdir(parents=True, exist_ok=True)
    store = open_store(state / "appliance.db")
    try:
        key = keys.signing_key(state / SIGNING_KEY, passing=True) if fault else _signing_key(state, store)
        locks = OwnerLocks(state / "locks")
        parts = Appliance(
            settings=settings,
            store=store,
            key=key,
            owner=locks.mine(),
            locks=locks,
            work=WorkDirs(state / "work"),
            stop=threading.Event(),
            blocked=fault,
        )
    except BaseException:
        store.close()
        raise
    try:
        yield parts
    finally:
        parts.close()


def _signing_key(state: Path, store: Store) -> bytes:
    """The key, if it is the one that signed what was posted, or if a person accepts another; made if none signed.

    Raises LostKey. A database from before this was noted takes the key that is there.
    """
    path, accept = state / SIGNING_KEY, state / ACCEPT_KEY
    accepted = accept.exists()  # looked at before the note: who takes the file away has written that
    noted, posted = store.note(KEY_NOTE), store.ever_posted()
    if posted and not accepted and not path.exists():
        raise keys.LostKey("signing.key is gone from the state volume: it signed the reviews that were posted so far.")
    key = keys.signing_key(path)
    digest = keys.digest(key.hex())
    if posted and not accepted and noted not in (None, digest):
        raise keys.LostKey("signing.key is not the one that signed the reviews that were posted so far.")
    if accepted:
        store.set_note(KEY_NOTE, digest)
        accept.unlink(missing_ok=True)
        log.warning("signing-key.accepted", text="no comment that another key signed counts as ours any more")
    elif noted != digest:
        with suppress(SQLAlchemyError):  # a full disk: it is noted once there is room
            store.set_note(KEY_NOTE, digest)
    return key
