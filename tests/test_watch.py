"""`review --watch`: follows what another process reviews, says what it came to, and touches nothing of it."""

# ruff: noqa: F811  (fixtures of another module)
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fake_github import FakeGitHub
from test_cli import Cli, Script, cli, one_line, script  # noqa: F401
from world import APP, SANDBOX, Scripted, failed, found, reviewed

from appliance import codex, wiring
from appliance.board import FOLDER, MAX_BYTES, Board, News, Unreadable
from appliance.commands import find, review_and_post
from appliance.core.findings import Configuration
from appliance.core.outcomes import Ending, Outcome
from appliance.core.pulls import Pull
from appliance.core.steps import Step
from appliance.flock import OwnerLocks
from appliance.reviewing import Reviewer
from appliance.settings import load
from appliance.store import open_store
from appliance.wiring import Appliance

TARGET = f"{APP}#1"
SECRET = "sk-ant-api03-" + "a1B2c3D4e5" * 9


@dataclass
class Held:
    """A reviewer that tells what it does, and ends when it may."""

    ending: Callable[[Pull], Ending]
    began: threading.Event = field(default_factory=threading.Event)
    may_end: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def held(script: Script, monkeypatch: pytest.MonkeyPatch) -> Held:
    held = Held(lambda pull: reviewed(pull, found(1), verdict="incorrect"))

    class Telling(Scripted):
        def review(self, pull: Pull, source: Any, *, progress: codex.Progress = lambda _: None, **how: Any) -> Ending:
            progress(Step("reviewing 1 changed file with m"))
            progress(Step(command=f"cat app.py {SECRET}\nx", tokens=1234))
            held.began.set()
            assert held.may_end.wait(60)
            ending = held.ending(pull)
            kept = Configuration(block_priority=1, digest="of this base commit")  # else it holds no longer
            return replace(ending, review=replace(ending.review, configuration=kept)) if ending.review else ending

    def reviewer(self: Appliance, *, rehearse: bool) -> Reviewer:
        return Telling(**vars(real(self, rehearse=rehearse)))

    real = Appliance.reviewer
    monkeypatch.setattr(Appliance, "reviewer", reviewer)
    return held


Reviewing = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def reviewing(held: Held, cli: Cli, fake_github: FakeGitHub, tmp_path: Path) -> Reviewing:
    """The loop, or a person with --post, makes a review meanwhile, in an appliance of its own."""
    given = {
        "APPLIANCE_STATE_DIR": str(tmp_path / "state"),
        "APPLIANCE_RUN_DIR": str(tmp_path / "run"),
        "APPLIANCE_GITHUB_URL": fake_github.url,
        "APPLIANCE_REPOSITORIES": APP,
        "GITHUB_TOKEN": fake_github.token,
        "OPENAI_API_KEY": "sk-very-secret",
    }

    def work(post: bool) -> None:
        with wiring.appliance(load(given, dotenv=None)) as parts:
            if post:
                forge, pull = find(parts, TARGET, None, None)
                review_and_post(parts, forge, pull, rehearse=False, progress=lambda _: None)
            else:
                parts.cycle().run()

    @contextmanager
    def begin(*, post: bool = False) -> Iterator[None]:
        thread = threading.Thread(target=work, args=[post])
        thread.start()
        try:
            assert held.began.wait(30)
            yield
        finally:
            held.may_end.set()
            thread.join(30)
        assert not thread.is_alive()

    return begin


def soon(held: Held) -> None:
    threading.Timer(0.7, held.may_end.set).start()


@pytest.mark.parametrize("post", [False, True], ids=["the loop", "--post"])
def test_a_running_review_is_followed_to_its_end_and_printed(
    post: bool,
    cli: Cli,
    held: Held,
    reviewing: Reviewing,
    fake_github: FakeGitHub,
    tmp_path: Path,
) -> None:
    with reviewing(post=post):
        soon(held)
        done = cli("review", TARGET.upper(), "--watch", "--fail-on", "P1", "--format", "json")
    assert done.exit_code == 3, done.stderr
    told = json.loads(done.stdout)
    assert told["findings"][0]["title"] == "Off by one"
    said = done.stderr
    assert f"… watching {TARGET}, head" in said and f": attempt 1 of 3 (pid {os.getpid()})" in said
    assert "… reviewing 1 changed file with m · $ cat app.py sk-a[redacted] x" in said and "· 1,234 tokens" in said
    assert SECRET not in said and len(said.splitlines()) == 2
    assert list((tmp_path / "run" / FOLDER).iterdir()) == []
    assert len(fake_github.comments(APP, 1)) == 1, "it was posted as if nobody had watched"
    number = json.loads(cli("history", "--json").stdout)["history"][0]["review"]
    assert json.loads(cli("show", str(number), "--format", "json").stdout) == told


def test_it_does_as_a_review_does_for_each_form(cli: Cli, held: Held, reviewing: Reviewing) -> None:
    with reviewing():
        soon(held)
        done = cli("review", TARGET, "--watch", "--format", "github", "--quiet")
    assert done.exit_code == 0 and done.stdout.startswith("::error file=app.py")
    assert done.stderr == ""


def test_one_that_came_to_nothing_is_told_and_is_no_success(cli: Cli, held: Held, reviewing: Reviewing) -> None:
    held.ending = lambda _: failed(Outcome.SANDBOX)
    with reviewing():
        soon(held)
        done = cli("review", TARGET, "--watch", "--fail-on", "P0")
    assert done.exit_code == 1 and not done.stdout
    assert one_line(done).startswith("sandbox: ")


def test_where_nothing_runs_that_is_said_with_what_comes_next(
    cli: Cli,
    script: Script,
    fake_github: FakeGitHub,
) -> None:
    done = cli("review", TARGET, "--watch")
    assert done.exit_code == 5 and "is not watched" in one_line(done)
    script.fault = SANDBOX
    cli("cycle")
    done = cli("review", TARGET, "--watch", "--fail-on", "P3")
    assert done.exit_code == 5 and not done.stdout, "what is not known is never taken for a clean review"
    assert f"It is waiting (apparmor: {SANDBOX.sentence}); next try 20" in one_line(done)
    script.fault = None
    fake_github.fail(method="POST", path="/issues/1/comments", status=502, times=99)
    cli("cycle")
    done = cli("review", TARGET, "--watch")
    assert done.exit_code == 5
    said = one_line(done)
    assert "its review waits to be posted" in said and "; posting the comment again at " in said and "502" in said
    assert "Next: `appliance show 1` prints the last one." in said


def test_the_status_says_why_a_letter_waits(cli: Cli, fake_github: FakeGitHub) -> None:
    fake_github.fail(method="POST", path="/issues/1/comments", status=502, times=99)
    cli("cycle")
    [letter] = json.loads(cli("status", "--json").stdout)["letters"]
    assert set(letter) == {"target", "kind", "tries", "next_try", "cause", "reason", "remedy", "said"}
    assert (letter["target"], letter["kind"], letter["tries"]) == (TARGET, "summary", 1), "what is behind it is no news"
    assert letter["cause"] == "forge-unreachable" and letter["next_try"] > "20" and letter["remedy"]
    assert letter["said"].startswith("posting the comment again at ") and "answered 502" in letter["said"]
    assert f"{TARGET}: {letter['said']}\n" in cli("status").stdout
    fake_github.clear()
    cli("cycle")
    assert json.loads(cli("status", "--json").stdout)["letters"] == []


def test_a_review_whose_process_is_gone_has_died(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def waits(_: float) -> None:
        raise AssertionError("it waits for the dead")

    monkeypatch.setattr("appliance.cli.watching.wait", waits)
    cli("cycle")
    store, dead = open_store(tmp_path / "state" / "appliance.db"), OwnerLocks(tmp_path / "state" / "locks")
    pull = Pull(TARGET, APP, 1, "a" * 40, "main", "b" * 40)
    assert store.begin_attempt(pull, dead.mine())
    dead._forget()
    done = cli("review", TARGET, "--watch", "--fail-on", "P0")
    assert done.exit_code == 1 and not done.stdout
    assert "died" in one_line(done)
    assert store.running(TARGET), "whoever looks on ends no attempt"
    store.close()


def test_a_ctrl_c_ends_the_watching_and_not_the_review(
    cli: Cli,
    held: Held,
    reviewing: Reviewing,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def pressed(_: float) -> None:
        raise KeyboardInterrupt

    with reviewing():
        with monkeypatch.context() as patch:
            patch.setattr("appliance.cli.watching.wait", pressed)
            done = cli("review", TARGET, "--watch")
        assert done.exit_code == 130 and "goes on" in one_line(done)
        assert json.loads(cli("status", "--json").stdout)["pulls"][0]["state"] == "reviewing"
    assert json.loads(cli("status", "--json").stdout)["pulls"][0]["state"] == "reviewed"


@pytest.mark.parametrize(
    "more", [["--uncommitted"], ["--patch", os.devnull], ["--post"], ["--base", "main"], ["--head", "x"]], ids=str
)
def test_what_begins_a_review_is_not_watched(more: list[str], cli: Cli) -> None:
    done = cli("review", TARGET, "--watch", *more)
    assert done.exit_code == 2 and "begins none" in one_line(done)


def test_a_path_alone_is_nothing_that_the_loop_reviews(cli: Cli, tmp_path: Path) -> None:
    done = cli("review", str(tmp_path), "--watch")
    assert done.exit_code == 2 and "path#branch" in one_line(done)


def test_a_board_that_cannot_be_read_is_unknown_news_and_the_review_is_printed(
    cli: Cli,
    held: Held,
    reviewing: Reviewing,
    tmp_path: Path,
) -> None:
    with reviewing():
        [file] = (tmp_path / "run" / FOLDER).iterdir()
        file.unlink()
        file.symlink_to("/etc/passwd")
        soon(held)
        done = cli("review", TARGET, "--watch")
    assert done.exit_code == 0 and "Off by one" in done.stdout
    assert "is unknown" in done.stderr and "root:" not in done.stderr


# ---- the board itself


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def news_of(run_dir: Path) -> Path:
    [file] = (run_dir / FOLDER).iterdir()
    return file


def test_what_is_shown_is_read_and_gone_at_the_end(run_dir: Path) -> None:
    shown = Board(run_dir, clock=lambda: 5.0)
    assert shown.read(TARGET) is None
    with shown.shown(TARGET, 7, "1-a", 2, 3) as tell:
        tell(Step("reviewing"))
        tell(Step(command="ls", tokens=3))
        tell(Step(tokens=9))
        found = shown.read(TARGET.upper())
        assert found == News(TARGET, 7, "1-a", os.getpid(), 2, 3, 5.0, "reviewing", 5.0, "ls", 9)
        assert news_of(run_dir).stat().st_mode & 0o077 == 0
        assert shown.read(f"{APP}#11") is None
    assert shown.read(TARGET) is None and list((run_dir / FOLDER).iterdir()) == []


def test_it_is_bounded_whatever_is_told(run_dir: Path) -> None:
    long = "\U0001f600\udcff" * 5000
    shown = Board(run_dir)
    with shown.shown(long, 2**40, "9" * 60, 100, 100) as tell:
        tell(Step(phase=long, command=long, tokens=2**40))
        assert news_of(run_dir).stat().st_size <= MAX_BYTES
        assert shown.read(long) is not None


def test_no_secret_is_on_the_board(run_dir: Path) -> None:
    with Board(run_dir).shown(TARGET, 7, "1-a", 1, 3) as tell:
        tell(Step(phase=f"refused ({SECRET})", command=f"curl -H {SECRET}"))
        assert SECRET not in news_of(run_dir).read_text()
        assert "curl -H" in news_of(run_dir).read_text()


GOOD = {"target": "t", "attempt": 1, "owner": "o", "pid": 1, "number": 1, "most": 3, "began": 1.0, "phase": "p",
        "phase_since": 1.0, "command": "", "tokens": 0}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 10_000,
        b" " * (MAX_BYTES + 1),
        json.dumps(GOOD | {"tokens": "many"}).encode(),
        json.dumps(GOOD | {"tokens": True}).encode(),
        json.dumps(GOOD | {"tokens": -1}).encode(),
        json.dumps(GOOD | {"pid": 10**400}).encode(),
        json.dumps(GOOD | {"began": float("nan")}).encode(),
        json.dumps({**GOOD, "phase": None}).encode(),
        json.dumps({name: value for name, value in GOOD.items() if name != "owner"}).encode(),
    ],
    ids=lambda content: content[:20].decode("latin1"),
)
def test_what_we_did_not_write_is_unreadable(content: bytes, run_dir: Path) -> None:
    shown = Board(run_dir)
    with shown.shown(TARGET, 7, "1-a", 1, 3):
        news_of(run_dir).write_bytes(content)
        with pytest.raises(Unreadable):
            shown.read(TARGET)


def made_a(kind: str, file: Path) -> None:
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        (file.parent.parent / "secret").write_text(json.dumps(GOOD))
        file.symlink_to(file.parent.parent / "secret")


@pytest.mark.parametrize("kind", ["fifo", "folder", "link"])
def test_only_a_file_is_read_and_none_is_followed(kind: str, run_dir: Path) -> None:
    shown = Board(run_dir)
    with shown.shown(TARGET, 7, "1-a", 1, 3):
        file = news_of(run_dir)
        file.unlink()
        made_a(kind, file)
        with pytest.raises(Unreadable):
            shown.read(TARGET)
    if kind == "link":
        assert json.loads((run_dir / "secret").read_text()) == GOOD


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_a_folder_that_is_none_of_ours_is_not_written_to(kind: str, run_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    if kind == "link":
        (run_dir / FOLDER).symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(run_dir / FOLDER)
    with Board(run_dir).shown(TARGET, 7, "1-a", 1, 3) as tell:
        tell(Step("reviewing"))
        with pytest.raises(Unreadable):
            Board(run_dir).read(TARGET)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_what_another_user_made_is_not_believed(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Board(run_dir)
    with shown.shown(TARGET, 7, "1-a", 1, 3):
        with monkeypatch.context() as patch:
            patch.setattr("os.geteuid", lambda: os.getuid() + 1)
            with pytest.raises(Unreadable, match="another user"):
                shown.read(TARGET)
        assert shown.read(TARGET)


def test_a_run_directory_that_cannot_be_written_ends_no_review(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with Board(tmp_path / "file").shown(TARGET, 7, "1-a", 1, 3) as tell:
        tell(Step("reviewing"))
    with Board(tmp_path / "missing").shown(TARGET, 7, "1-a", 1, 3) as tell:
        tell(Step("reviewing"))
    with Board(None).shown(TARGET, 7, "1-a", 1, 3) as tell:
        tell(Step("reviewing"))
    assert Board(None).read(TARGET) is None


def test_what_the_dead_left_is_swept_and_what_others_do_now_is_not(run_dir: Path) -> None:
    with Board(run_dir).shown(TARGET, 7, "dead", 1, 3):
        left = news_of(run_dir).read_bytes()
        name = news_of(run_dir).name
    (run_dir / FOLDER / name).write_bytes(left)
    mine = Board(run_dir, alive=lambda owner: owner != "dead")
    with mine.shown(f"{APP}#2", 8, "alive", 1, 3), mine.shown(f"{APP}#3", 9, "alive", 1, 3):
        assert mine.read(TARGET) is None
        assert mine.read(f"{APP}#2") and mine.read(f"{APP}#3")


def test_the_end_of_one_attempt_does_not_hide_the_next(run_dir: Path) -> None:
    shown = Board(run_dir)
    with shown.shown(TARGET, 7, "first", 1, 3):
        later = shown.shown(TARGET, 8, "second", 1, 3)
        later.__enter__()
    found = shown.read(TARGET)
    assert found and found.attempt == 8
