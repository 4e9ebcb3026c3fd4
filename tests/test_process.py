"""The one door for programs: whatever a program does, it ends in time, takes its children along, and is told of."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from appliance import process
from appliance.process import ProgramError, ProgramMissing, Stopped, run

QUICK = 5.0  # seconds in which all of this has to be over, on a busy machine too


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.5)


def sh(script: str, **options: object) -> process.Completed:
    return run(["/bin/sh", "-c", script], **{"timeout": 20.0} | options)  # type: ignore[arg-type]


def gone(pid: int, within: float = QUICK) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    return False


def pid_in(path: Path) -> int:
    deadline = time.monotonic() + QUICK
    while not (path.exists() and path.read_text().strip()):
        assert time.monotonic() < deadline, f"nothing in {path}"
        time.sleep(0.01)
    return int(path.read_text())


def from_then_on(path: Path) -> Callable[[int], AbstractContextManager[None]]:
    """A `watch` that lets the timeout strike only once the program has made this file, however busy the machine is."""

    @contextmanager
    def watch(_: int) -> Iterator[None]:
        pid_in(path)
        yield

    return watch


def test_what_a_program_did() -> None:
    done = sh("echo out; echo err >&2; exit 3")
    assert (done.code, done.out, done.err, done.ok, done.timed_out) == (3, "out\n", "err\n", False, False)
    assert done.argv == ("/bin/sh", "-c", "echo out; echo err >&2; exit 3")
    assert 0 < done.seconds < QUICK
    assert sh("true").ok
    assert sh("kill -9 $$").code == -9
    assert sh("printf '\\377'").out == "\N{REPLACEMENT CHARACTER}"


def test_the_environment_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "secret" not in run(["env"], timeout=5).out
    assert run(["/usr/bin/env"], timeout=5, env={"A": "b"}).out == "A=b\n"


def test_input_is_given_and_stdin_is_empty_without() -> None:
    assert run(["cat"], timeout=5, input=b"x" * 1_000_000).stdout == b"x" * 1_000_000
    assert run(["cat"], timeout=5).stdout == b""
    assert sh("exit 0", input=b"x" * 10_000_000).ok  # it reads none of it


def test_a_missing_program_is_told_from_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(ProgramMissing, match="no-such-program"):
        run(["no-such-program"], timeout=5)
    with pytest.raises(FileNotFoundError) as caught:
        run(["true"], timeout=5, cwd=tmp_path / "absent")
    assert not isinstance(caught.value, ProgramMissing)
    (tmp_path / "text").write_text("not a program")
    with pytest.raises(PermissionError):
        run([str(tmp_path / "text")], timeout=5)


def test_check_tells_command_code_and_the_end_of_the_output() -> None:
    with pytest.raises(ProgramError, match=r"^/bin/sh -c .* exited with 4: the end$") as caught:
        sh("echo the end >&2; exit 4", check=True)
    assert caught.value.completed.code == 4
    with pytest.raises(ProgramError, match="timed out"):
        sh("sleep 60", timeout=0.2, check=True)
    with pytest.raises(ProgramError) as long:
        sh("head -c 100000 /dev/zero | tr '\\0' x; exit 1", check=True)
    assert len(str(long.value)) < 3000


def test_a_timeout_is_kept_and_what_came_before_it_is_kept_too(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    started = time.monotonic()
    done = sh(f"echo before; echo $$ > {note}; sleep 60; echo after", timeout=0.3, watch=from_then_on(note))
    assert 0.3 <= time.monotonic() - started < QUICK
    assert (done.timed_out, done.ok, done.out) == (True, False, "before\n")


def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    started = time.monotonic()
    script = f"trap '' TERM; echo $$ > {note}; while :; do sleep 0.05; done"
    done = sh(script, timeout=0.3, watch=from_then_on(note))
    assert done.timed_out
    assert done.code == -9
    assert time.monotonic() - started < QUICK


@pytest.mark.parametrize("end", ["sleep 60", "exit 0", "exit 7"], ids=["timeout", "well", "badly"])
def test_the_children_go_with_it_however_it_ends(end: str, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"(trap '' TERM; sleep 61) >/dev/null 2>&1 & echo $! > {note}; {end}"
    done = sh(script, timeout=0.5, watch=from_then_on(note)) if end == "sleep 60" else sh(script)
    assert gone(pid_in(note))
    assert done.timed_out is (end == "sleep 60")


def test_a_grandchild_that_keeps_the_pipes_does_not_keep_us(tmp_path: Path) -> None:
    """One that left the group with setsid cannot be reached by its group; it must not hold us up for ever."""
    note = tmp_path / "pid"
    started = time.monotonic()
    done = sh(f"setsid sh -c 'echo $$ > {note}; exec sleep 62' & echo out; until [ -s {note} ]; do :; done")
    took = time.monotonic() - started
    os.kill(pid_in(note), 9)
    assert done.ok
    assert done.out == "out\n"
    assert took < QUICK


def test_stop_ends_it_at_once_and_says_so(tmp_path: Path) -> None:
    note, stop = tmp_path / "pid", threading.Event()

    def end() -> None:
        pid_in(note)
        stop.set()

    threading.Thread(target=end, daemon=True).start()
    started = time.monotonic()
    with pytest.raises(Stopped):
        sh(f"sleep 63 & echo $! > {note}; wait", stop=stop)
    assert time.monotonic() - started < QUICK
    assert gone(pid_in(note))


def test_a_signal_that_does_not_wake_the_wait_interrupts_it_all_the_same() -> None:
    """As one does that comes just before the wait begins: here it is delivered to another thread."""
    pids: list[int] = []

    def end() -> None:
        time.sleep(0.3)  # then it waits
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    @contextmanager
    def watch(pid: int) -> Iterator[None]:
        pids.append(pid)
        threading.Thread(target=end, daemon=True).start()
        yield

    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            sh("exec sleep 66", watch=watch)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - started < 15, "it waited for the timeout"
    assert gone(pids[0])


def test_an_error_of_ours_leaves_no_process_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note, stop = tmp_path / "pid", threading.Event()

    def interrupted() -> bool:
        if note.exists() and note.read_text().strip():
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(stop, "is_set", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sh(f"echo $$ > {note}; exec sleep 64", stop=stop)
    assert gone(pid_in(note))


def test_lines_come_while_it_runs(tmp_path: Path) -> None:
    """The second comes only once the first was taken."""
    lines, note = list[bytes](), tmp_path / "taken"

    def taker(line: bytes) -> None:
        lines.append(line)
        note.touch()

    done = sh(f"echo one; until [ -e {note} ]; do sleep 0.01; done; echo two; printf three", on_line=taker)
    assert lines == [b"one\n", b"two\n", b"three"]
    assert (done.out, done.timed_out) == ("one\ntwo\nthree", False)


@pytest.mark.parametrize("taker", [None, lambda _: None], ids=["chunks", "lines"])
def test_a_flood_costs_no_more_memory_than_the_limit(
    taker: Callable[[bytes], None] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MAX_OUTPUT", 256 * 1024)
    monkeypatch.setattr(process, "MAX_LINE", 256 * 1024)
    for made in ("yes", "tr '\\0' x < /dev/zero"):  # many lines, and one without an end
        done = sh(f"{made} | head -c 5000000; echo end >&2", on_line=taker)
        assert done.err == "end\n", "it was read to its end, so it did not block"
        assert len(done.stdout) <= 512 * 1024 + 65536


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_taker_that_fails_does_not_let_the_program_wait_for_it() -> None:
    def taker(_: bytes) -> None:
        raise BrokenPipeError("nobody reads the progress any more")

    assert not sh("yes", on_line=taker).timed_out


def test_many_at_once() -> None:
    found: list[str] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(run([sys.executable, "-c", f"print({n})"], timeout=30).out))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(f"{n}\n" for n in range(8))
