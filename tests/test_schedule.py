"""The loop: the next cycle an interval after the last one ended, whatever became of that one."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sqlalchemy.exc import DatabaseError, OperationalError
from structlog.testing import capture_logs

from appliance import health, schedule, wiring
from appliance.core.faults import Fault, named
from appliance.core.health import Health
from appliance.core.identity import Identity
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.cycle import Result
from appliance.forge import ForgeError
from appliance.forge.local import LocalForge
from appliance.git import GitError
from appliance.process import Stopped
from appliance.progress import Progress
from appliance.schedule import Loop, run_cycle
from appliance.settings import Settings, load
from appliance.store import open_store
from appliance.wiring import Appliance, appliance

INTERVAL = 0.3
GOOD = Result(None, None, 2, 1)
FAULT = Fault("apparmor", "It forbids.", "load the profile.")


@pytest.fixture(autouse=True)
def _signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Appliance]:
    monkeypatch.setattr("appliance.wiring.blocked", lambda _: None)  # whoever runs the tests, root too
    given = {"APPLIANCE_STATE_DIR": str(tmp_path / "state"), "APPLIANCE_RUN_DIR": str(tmp_path / "run")}
    with appliance(load(given, None).model_copy(update={"interval": INTERVAL})) as parts:
        yield parts


@dataclass
class Cycles:
    """Stands in for the cycles; `what` is done in each, in turn, the last one for ever."""

    parts: Appliance
    what: list[Callable[[], Result]]
    times: list[tuple[float, float]] = field(default_factory=list)
    running: int = 0
    most: int = 0
    progress: Progress | None = None

    def __call__(self, progress: Progress | None = None) -> "Cycles":
        self.progress = progress
        return self

    def run(self) -> Result:
        self.running += 1
        self.most = max(self.most, self.running)
        started = time.monotonic()
        try:
            return (self.what.pop(0) if len(self.what) > 1 else self.what[0])()
        finally:
            self.running -= 1
            self.times.append((started, time.monotonic()))


def looped(parts: Appliance, cycles: Cycles, monkeypatch: pytest.MonkeyPatch, *, until: int) -> Loop:
    """Run the loop until so many cycles have ended, and end it with a SIGTERM."""
    monkeypatch.setattr(Appliance, "cycle", lambda _, progress=None, **_how: cycles(progress))
    loop = Loop(parts, parts.settings)

    def end() -> None:
        deadline = time.monotonic() + 20
        while len(cycles.times) < until and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()
    loop.run()
    return loop


def shown_when(parts: Appliance, state: str, after: float = 0.0) -> Health | None:
    """The health in the file when it has this state, `after` seconds from now or later; the last if it never has."""
    begun = time.monotonic()
    while time.monotonic() - begun < after + 20:
        found = health.read(parts.settings.run_dir)
        if found is not None and found.state == state and time.monotonic() - begun >= after:
            break
        time.sleep(0.02)
    return found


def raising(error: Exception) -> Callable[[], Result]:
    def run() -> Result:
        raise error

    return run


def slowly() -> Result:
    time.sleep(0.5)
    return GOOD


def test_the_next_one_begins_an_interval_after_the_last_one_ended(
    parts: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles = Cycles(parts, [slowly])
    looped(parts, cycles, monkeypatch, until=3)
    assert len(cycles.times) >= 3
    pauses = [after[0] - before[1] for before, after in zip(cycles.times, cycles.times[1:], strict=False)]
    assert all(pause >= INTERVAL - 0.01 for pause in pauses), pauses
    assert cycles.most == 1


def test_the_first_one_begins_at_once(parts: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    hourly = replace(parts, settings=parts.settings.model_copy(update={"interval": 3600.0}))
    cycles = Cycles(hourly, [lambda: GOOD])
    looped(hourly, cycles, monkeypatch, until=1)
    assert len(cycles.times) == 1


ERRORS = [
    (RuntimeError("a bug"), "defect"),
    (RuntimeError("can't start new thread"), "pids-limit"),
    (OSError(28, "No space left on device"), "disk-full"),
    (OSError(5, "Input/output error"), "workstation"),
    (OperationalError("x", {}, Exception("database or disk is full")), "disk-full"),
    (OperationalError("x", {}, Exception("database is locked")), "workstation"),
    (DatabaseError("x", {}, Exception("database disk image is malformed")), "state"),
    (GitError("disk-full", "the disk is full", remedy="free space", permanent=False), "disk-full"),
    (ForgeError("forge-login", "no token", remedy="set it.", permanent=True), "forge-login"),
]


@pytest.mark.parametrize(("error", "cause"), ERRORS, ids=[cause for _, cause in ERRORS])
def test_one_that_breaks_shows_its_cause_and_the_next_one_mends_it(
    error: Exception, cause: str, parts: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Health | None] = []

    def well() -> Result:
        shown.append(health.read(parts.settings.run_dir))
        parts.show_health(None, 2)
        return GOOD

    cycles = Cycles(parts, [raising(error), well])
    looped(parts, cycles, monkeypatch, until=2)
    assert shown[0] is not None
    assert (shown[0].state, shown[0].cause) == ("unhealthy", cause)
    assert shown[0].message.count("Next: ") == 1
    after = health.read(parts.settings.run_dir)
    assert after is not None
    assert after.state == "healthy"


def test_one_that_cannot_even_be_made_shows_its_cause_and_the_loop_goes_on(
    parts: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(cycles: Cycles, progress: Progress | None = None) -> Cycles:
        cycles.times.append((0, 0))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Cycles, "__call__", make)
    cycles = Cycles(parts, [])
    looped(parts, cycles, monkeypatch, until=2)
    assert len(cycles.times) >= 2
    shown = health.read(parts.settings.run_dir)
    assert shown is not None
    assert shown.cause == "disk-full"


def test_when_it_ended_and_when_the_next_is_due_is_noted(parts: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    for result, failed in ((GOOD, False), (Result(FAULT, None, 1, 0), True)):
        cycles = Cycles(parts, [lambda result=result: result])  # type: ignore[misc]
        monkeypatch.setattr(Appliance, "cycle", lambda _, progress=None, cycles=cycles, **_how: cycles(progress))
        assert run_cycle(parts) == result
        noted = parts.store.note("cycle")
        assert noted["failed"] is failed
        assert noted["next"] - noted["last_ended"] == pytest.approx(INTERVAL)
        assert noted["last_ended"] == pytest.approx(time.time(), abs=5)


def test_two_processes_never_run_a_cycle_at_once(parts: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    cycles = Cycles(parts, [slowly])
    monkeypatch.setattr(Appliance, "cycle", lambda _, progress=None, **_how: cycles(progress))
    threads = [threading.Thread(target=run_cycle, args=(parts,)) for _ in range(2)]  # the lock is of the open file
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(cycles.times), cycles.most) == (2, 1)


def test_forges_are_made_once_and_closed_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forge remembers until when it is limited: a new one for each cycle would ask again each time."""
    monkeypatch.setattr("appliance.wiring.blocked", lambda _: None)
    closed: list[str] = []
    monkeypatch.setattr(LocalForge, "close", lambda forge: closed.append(forge.name))
    folder = tmp_path / "repositories"
    folder.mkdir()
    given = {
        "APPLIANCE_STATE_DIR": str(tmp_path / "state"),
        "APPLIANCE_RUN_DIR": str(tmp_path / "run"),
        "APPLIANCE_LOCAL_REPOSITORIES": str(folder),
    }
    with appliance(load(given, None)) as parts:
        assert parts.cycle().forges is parts.cycle().forges
        assert closed == []
    assert closed == ["local"]


def test_a_stop_during_a_cycle_ends_the_loop_soon_and_is_no_fault(
    parts: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until_stopped() -> Result:
        parts.show_health(None, 1)
        cycles.times.append((0, 0))  # under way: now comes the SIGTERM
        assert parts.stop.wait(20)
        raise Stopped("stopped")

    cycles = Cycles(parts, [until_stopped])
    with capture_logs() as logs:
        looped(parts, cycles, monkeypatch, until=1)
    assert [line["event"] for line in logs if "hangs" in line["event"]] == []
    shown = health.read(parts.settings.run_dir)
    assert shown is not None
    assert shown.state == "healthy"


def test_a_cycle_that_does_not_stop_is_not_waited_for_longer_than_docker_does(
    parts: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert schedule.SHUTDOWN_SECONDS < 10
    monkeypatch.setattr(schedule, "SHUTDOWN_SECONDS", 0.3)
    release = threading.Event()

    def hang() -> Result:
        cycles.times.append((0, 0))
        release.wait(20)
        return GOOD

    cycles = Cycles(parts, [hang])
    with capture_logs() as logs:
        looped(parts, cycles, monkeypatch, until=1)
    assert "stopping.hangs" in [line["event"] for line in logs]
    assert cycles.running == 1, "it is under way still"
    release.set()


def test_a_sigterm_that_does_not_wake_the_main_thread_ends_it_all_the_same(
    parts: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that comes just before the sleep: here it is delivered to another thread."""
    monkeypatch.setattr(Appliance, "cycle", lambda _, progress=None, **_how: Cycles(parts, [lambda: GOOD])(progress))

    before = signal.getsignal(signal.SIGTERM)

    def end() -> None:
        while signal.getsignal(signal.SIGTERM) == before:  # it would end the tests
            time.sleep(0.01)
        time.sleep(0.5)
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    threading.Thread(target=end, daemon=True).start()
    rescue = threading.Timer(15, parts.stop.set)
    rescue.start()
    Loop(parts, parts.settings).run()
    rescued = rescue.finished.is_set()
    rescue.cancel()
    assert not rescued


def test_r52_the_heart_beats_while_a_cycle_runs_and_tells_of_a_stuck_one(
    parts: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "HEARTBEAT_SECONDS", 0.1)
    monkeypatch.setattr(wiring, "HEALTH_VALID_SECONDS", 1.0)
    shown: list[Health | None] = []

    def stuck() -> Result:
        shown.append(shown_when(parts, "starting", after=1.5))  # longer than the file stands by itself
        assert cycles.progress is not None
        cycles.progress.running = True
        cycles.progress.moved_at -= parts.settings.review_timeout + schedule.STUCK_MARGIN_SECONDS + 1
        shown.append(shown_when(parts, "unhealthy"))
        return GOOD

    cycles = Cycles(parts, [stuck, lambda: GOOD])
    looped(parts, cycles, monkeypatch, until=1)
    assert [found and (found.state, found.cause) for found in shown] == [("starting", ""), ("unhealthy", "stuck")]


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_a_database_that_is_gone_is_said_before_the_next_cycle(
    replaced: bool, parts: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    cycles = Cycles(parts, [lambda: GOOD])
    monkeypatch.setattr(Appliance, "cycle", lambda _, progress=None, **_how: cycles(progress))
    assert run_cycle(parts) == GOOD
    for file in parts.settings.state_dir.glob("appliance.db*"):
        file.unlink()
    if replaced:
        open_store(parts.settings.state_dir / "appliance.db").close()  # as any command does
    found = run_cycle(parts).unhealthy
    assert found is not None
    assert (found.cause, len(cycles.times)) == ("state", 1)
    assert "docker compose restart" in found.remedy
    shown = health.read(parts.settings.run_dir)
    assert shown is not None
    assert shown.cause == "state"


LOST = {"gone": lambda key: key.unlink(), "another": lambda key: key.write_bytes(b"another key of 32 bytes, as made")}


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr("os.getuid", lambda: 10001)  # root's volume is closed, whatever is in it
    given = {"APPLIANCE_STATE_DIR": str(tmp_path / "state"), "APPLIANCE_RUN_DIR": str(tmp_path / "run")}
    return load(given, None).model_copy(update={"interval": INTERVAL})


def posted(parts: Appliance) -> None:
    pull = Pull(target="o/r#1", repository="o/r", number=1, head_sha="a" * 40, base_ref="main", base_sha="b" * 40)
    parts.store.seen_one("github", pull)
    parts.store.learn(pull, Identity(*pull.key, "b", "m", "d"), Gate("success", "No findings"), "1", "https://x")


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_a_lost_signing_key_is_a_fault_until_it_is_back(
    lose: Callable[[Path], None], volume: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, ours = volume.state_dir / "signing.key", b""
    with appliance(volume) as parts:
        cycles = Cycles(parts, [lambda: GOOD])
        monkeypatch.setattr(Appliance, "cycle", lambda _, progress=None, **_how: cycles(progress))
        posted(parts)
        ours = key.read_bytes()
        assert run_cycle(parts) == GOOD
        lose(key)
        left = key.read_bytes() if key.exists() else None
        found = run_cycle(parts).unhealthy
        assert found is not None and (found.cause, len(cycles.times)) == ("state", 1)
        assert "signing.key is" in found.sentence and "accept-new-key" in found.remedy
        shown = health.read(volume.run_dir)
        assert shown is not None and (shown.state, shown.cause) == ("unhealthy", "state")
    for _ in range(2):  # a restart, and every command: nothing is made or taken in its place
        with appliance(volume) as parts:
            assert parts.blocked is not None and parts.blocked.sentence == found.sentence
    assert (key.read_bytes() if key.exists() else None) == left
    key.write_bytes(ours)
    with appliance(volume) as parts:
        assert (parts.blocked, parts.key) == (None, ours)


@pytest.mark.parametrize("lose", LOST.values(), ids=LOST)
def test_another_signing_key_is_taken_when_a_person_accepts_it_and_once_only(
    lose: Callable[[Path], None], volume: Settings
) -> None:
    key, accept = volume.state_dir / "signing.key", volume.state_dir / wiring.ACCEPT_KEY
    with appliance(volume) as parts:
        posted(parts)
        before = parts.key
        lose(key)
        accept.touch()
        rescue = threading.Timer(20, parts.stop.set)
        rescue.start()
        assert Loop(parts, volume).run(), "the loop opens it anew by itself"
        rescue.cancel()
    with appliance(volume) as parts:
        assert (parts.blocked, parts.key == before, parts.key) == (None, False, key.read_bytes())
    assert not accept.exists()
    lose(key)
    key.unlink(missing_ok=True)
    with appliance(volume) as parts:
        assert parts.blocked is not None


def test_a_volume_that_does_not_know_its_key_yet_takes_the_one_there(volume: Settings) -> None:
    """One of an earlier version, and a new one that a backup is put back to before anything was posted."""
    with appliance(volume) as parts:
        posted(parts)
        parts.store.set_note(wiring.KEY_NOTE, None)
    with appliance(volume) as parts:
        assert parts.blocked is None
        assert parts.store.note(wiring.KEY_NOTE)


def test_a_backup_of_the_key_may_be_put_back_while_nothing_was_posted(volume: Settings) -> None:
    with appliance(volume):
        pass
    LOST["another"](volume.state_dir / "signing.key")
    with appliance(volume) as parts:
        assert (parts.blocked, parts.key) == (None, b"another key of 32 bytes, as made")


def test_the_key_of_a_passing_state_is_not_told_of(volume: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.wiring.blocked", lambda _: FAULT)
    with capture_logs() as logs, appliance(volume):
        pass
    assert [line["event"] for line in logs] == []


def test_a_database_that_is_none_is_not_said_to_lack_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getuid", lambda: 10001)
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "appliance.db").write_bytes(b"garbage" * 1000)
    given = {"APPLIANCE_STATE_DIR": str(tmp_path / "state"), "APPLIANCE_RUN_DIR": str(tmp_path / "run")}
    found = wiring.blocked(load(given, None))
    assert found is not None
    assert found.cause == "state"
    assert "rm -f /var/lib/appliance/appliance.db*" in found.remedy
    for remedy in (found.remedy, schedule.GONE.remedy):
        assert "today's count of tokens" in remedy and "only" not in remedy


@pytest.mark.parametrize("volume_is_there", [True, False])
def test_a_read_only_state_is_not_said_to_lack_rights_or_space(
    volume_is_there: bool, volume: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = volume.state_dir
    state.mkdir()
    real = os.statvfs(state)
    read_only = SimpleNamespace(f_flag=real.f_flag | os.ST_RDONLY)

    def refuse(_: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(state))

    monkeypatch.setattr("appliance.wiring.open_store", refuse)
    found = wiring.blocked(volume)
    assert found is not None and "writable for uid 10001" in found.remedy, "where it is not read-only"
    monkeypatch.setattr("os.statvfs", lambda _: read_only)
    monkeypatch.setattr(Path, "is_mount", lambda path: path in ({state, Path("/")} if volume_is_there else {Path("/")}))
    found = wiring.blocked(volume)
    assert found is not None and found.cause == "state"
    assert (
        f"{state} is mounted read-only" if volume_is_there else f"no volume is mounted at {state}"
    ) in found.sentence
    assert "- state:/var/lib/appliance" in found.remedy and "compose.yaml" in found.remedy
    assert "uid" not in found.remedy and "space" not in found.remedy


def test_a_run_directory_that_cannot_be_made_is_no_fault_of_the_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getuid", lambda: 10001)
    (tmp_path / "file").write_text("")
    settings = load({"APPLIANCE_STATE_DIR": str(tmp_path / "state")}, None)
    unset = settings.model_copy()
    object.__setattr__(unset, "run_dir", tmp_path / "file" / "appliance")  # as the default, set by nobody
    found = wiring.blocked(unset)
    assert found is not None
    assert found.cause == "no-run-dir"
    assert "/run:mode=1777,size=16m" in found.remedy
    found = wiring.blocked(load({"APPLIANCE_RUN_DIR": str(tmp_path / "file" / "x")}, None))
    assert found is not None
    assert (found.cause, found.sentence[:29]) == ("settings", "APPLIANCE_RUN_DIR cannot be u"), found


def test_a_health_that_cannot_be_written_is_logged_and_the_loop_goes_on_and_says_it_later(
    parts: Appliance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "HEARTBEAT_SECONDS", 0.1)
    store = health._store
    full = [True]

    def fill(*given: object) -> None:
        if full[0]:
            raise OSError(28, "No space left on device")
        store(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(health, "_store", fill)

    def blind() -> Result:
        parts.show_health(None, 2)
        return GOOD

    def again() -> Result:
        assert health.read(parts.settings.run_dir) is None
        full[0] = False
        assert shown_when(parts, "healthy"), "the heart beats meanwhile"
        return GOOD

    cycles = Cycles(parts, [blind, again, lambda: GOOD])
    with capture_logs() as logs:  # not what is printed: where that goes was decided by whoever configured the log first
        looped(parts, cycles, monkeypatch, until=2)
    found = health.read(parts.settings.run_dir)
    assert found is not None
    assert found.state == "healthy"
    told = [line for line in logs if line["event"] == "health.unwritten"]
    assert told and {line["cause"] for line in told} == {"disk-full"}
    assert all("docker compose restart" in line["next"] for line in told)
    assert "cycle.failed" not in [line["event"] for line in logs]


# ---- the whole program


def serve(tmp_path: Path, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "appliance.cli", "serve"],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(schedule.__file__).parents[1]),
            "APPLIANCE_STATE_DIR": str(tmp_path / "state"),
            "APPLIANCE_RUN_DIR": str(tmp_path / "run"),
            **environment,
        },
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    started = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        _, told = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert time.monotonic() - started < 10, told
    return process.returncode, told


def shown_by(run_dir: Path, wanted: str) -> Health:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = health.read(run_dir)
        if found is not None and found.state == wanted:
            return found
        time.sleep(0.05)
    raise AssertionError(f"never {wanted}: {health.read(run_dir)}")


def test_bad_settings_leave_the_container_up_and_saying_why(tmp_path: Path) -> None:
    process = serve(tmp_path, APPLIANCE_INTERVAL="soon", GITHUB_TOKEN="ghp_ secret")
    found = shown_by(tmp_path / "run", "unhealthy")
    assert found.cause == "settings"
    assert "APPLIANCE_INTERVAL" in found.message
    assert "GITHUB_TOKEN" in found.message
    assert process.poll() is None
    code, told = ended(process)
    assert code == 0
    assert "Traceback" not in told
    assert "secret" not in told + found.message


def test_a_state_volume_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    process = serve(tmp_path)
    found = shown_by(tmp_path / "run", "unhealthy")
    assert found.cause in ("state", "root-user")
    assert process.poll() is None
    assert ended(process)[0] == 0


def test_sigterm_ends_it_with_exit_code_0_whatever_it_does(tmp_path: Path) -> None:
    local = tmp_path / "repositories"
    local.mkdir()
    process = serve(tmp_path, APPLIANCE_LOCAL_REPOSITORIES=str(local), APPLIANCE_INTERVAL="1")
    found = shown_by(tmp_path / "run", "unhealthy")
    assert found.cause, "there is no key, and here no jail of ours either"
    code, told = ended(process)
    assert code == 0
    assert "Traceback" not in told
    assert "stopped" in told


def test_a_health_that_cannot_be_written_ends_no_container_that_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from appliance import serving

    tried = []

    def full(*_: object, **__: object) -> None:
        tried.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(serving, "write", full)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(serving, "rest", lambda *_: len(tried) == 2)
    serving._stay(tmp_path, named("root-user"))
    assert len(tried) == 2
