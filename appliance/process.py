"""The one door through which every program runs."""

import contextlib
import errno
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

POLL_SECONDS = 0.1
SIGNAL_SECONDS = 0.5  # a signal that comes between the interpreter's last look and its sleep does not end the sleep
GRACE_SECONDS = 2.0
MAX_OUTPUT = 64 * 1024 * 1024
MAX_LINE = 16 * 1024 * 1024


class Stopped(Exception):
    """The run was ended because the appliance stops or the work was superseded."""


class ProgramMissing(FileNotFoundError):
    """The program to run is not installed."""


@dataclass(frozen=True)
class Completed:
    """What a program did. `code` is negative for a signal, as in `subprocess`."""

    argv: tuple[str, ...]
    code: int
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool = False
    flooded: bool = False

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.timed_out and not self.flooded

    @property
    def out(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def err(self) -> str:
        return self.stderr.decode("utf-8", "replace")


class ProgramError(Exception):
    """A program failed; the message shows command, code and the end of its output."""

    def __init__(self, completed: Completed) -> None:
        self.completed = completed
        how = "timed out" if completed.timed_out else f"exited with {completed.code}"
        tail = (completed.err or completed.out).strip()[-2000:]
        super().__init__(f"{' '.join(completed.argv[:6])} {how}: {tail}")


@dataclass(frozen=True)
class Limits:
    """What a program may take, in bytes; None is any amount.

    `memory` of its own, for it and each of its children (RLIMIT_DATA: files that it maps do not count); `file` the size
    of a file that it writes (EFBIG beyond); `output` on stdout, beyond which we end it (`flooded`).
    """

    memory: int | None = None
    file: int | None = None
    output: int | None = None


NO_LIMITS = Limits()


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    input: bytes | None = None,
    stop: threading.Event | None = None,
    on_line: Callable[[bytes], None] | None = None,
    watch: Callable[[int], AbstractContextManager[None]] | None = None,
    pass_fds: Sequence[int] = (),
    check: bool = False,
    limits: Limits = NO_LIMITS,
) -> Completed:
    """Run `argv` in a process group of its own and return what it did.

    `timeout` is in seconds; at its end, or when `stop` is set, the whole group gets SIGTERM and, GRACE_SECONDS later,
    SIGKILL. `env` replaces the environment (None: nothing but PATH and LANG). `on_line` gets each line of stdout as
    it comes. `watch` is entered with the process's pid and left when it has ended. `limits` bound the program and each
    that it starts. Raises ProgramMissing (a FileNotFoundError), Stopped if `stop` was set, ProgramError if `check` is
    true and the program failed.
    """
    started = time.monotonic()
    environ = dict(env) if env is not None else {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8"}
    try:
        process = subprocess.Popen(
            _bounded(argv, limits, environ),
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            cwd=cwd,
            start_new_session=True,
            pass_fds=pass_fds,
        )
    except FileNotFoundError as error:
        if isinstance(error, ProgramMissing) or (cwd is not None and not cwd.is_dir()):
            raise
        raise ProgramMissing(error.errno, "not installed", argv[0]) from error
    out: list[bytes] = []
    err: list[bytes] = []
    flooded = threading.Event()
    threads = [
        threading.Thread(
            target=_drain,
            args=(process.stdout, out, on_line),
            kwargs={"most": limits.output, "over": flooded},
            daemon=True,
        ),
        threading.Thread(target=_drain, args=(process.stderr, err, None), daemon=True),
    ]
    if input is not None:
        threads.append(threading.Thread(target=_feed, args=(process.stdin, input), daemon=True))
    timed_out = stopped = False
    polled = stop is not None or limits.output is not None
    try:
        for thread in threads:
            thread.start()  # may fail where no more tasks are allowed: the program must not outlive that
        deadline = started + timeout
        with watch(process.pid) if watch else contextlib.nullcontext():
            while True:
                left = max(0.0, deadline - time.monotonic())
                if _ended_within(process, min(POLL_SECONDS if polled else SIGNAL_SECONDS, left)):
                    break
                stopped = stop is not None and stop.is_set()
                timed_out = not stopped and time.monotonic() >= deadline
                if stopped or timed_out or flooded.is_set():
                    break
    finally:
        kill_group(process)
    for thread in threads:
        if thread.ident is not None:
            thread.join(GRACE_SECONDS)
    completed = Completed(
        tuple(argv),
        process.returncode,
        b"".join(out),
        b"".join(err),
        time.monotonic() - started,
        timed_out,
        flooded.is_set(),
    )
    if stopped:
        raise Stopped(f"{argv[0]} was stopped")
    if check and not completed.ok:
        raise ProgramError(completed)
    return completed


def _bounded(argv: Sequence[str], limits: Limits, env: Mapping[str, str]) -> list[str]:
    """`argv` held to `limits` from its first instruction; no Python runs between fork and exec, where threads may hang.

    Ignored, SIGXFSZ becomes an error of the write, which the program names. Both helpers are of every Debian.
    """
    bounds = [("--data", limits.memory), ("--fsize", limits.file)]
    given = [f"{option}={value}" for option, value in bounds if value is not None]
    if not given:
        return list(argv)
    if shutil.which(argv[0], path=env.get("PATH")) is None:
        raise ProgramMissing(errno.ENOENT, "not installed", argv[0])
    ignored = ["env", "--ignore-signal=XFSZ"] if limits.file is not None else []
    return [*ignored, "prlimit", *given, "--", *argv]


def _ended_within(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Wait for the end and know it at once: `Popen.wait` with a timeout looks only every 50 ms."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:  # no pidfd on this kernel, or none left: then with a delay
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    else:
        try:
            ready = select.poll()
            ready.register(descriptor, select.POLLIN)
            ready.poll(seconds * 1000)
        finally:
            os.close(descriptor)
    return process.poll() is not None


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """End what is left of the group: SIGTERM, a grace, SIGKILL."""
    if process.poll() is None:
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_SECONDS)
    _signal_group(process.pid, signal.SIGKILL)  # children that outlived the leader
    process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _drain(
    stream: IO[bytes] | None,
    into: list[bytes],
    on_line: Callable[[bytes], None] | None,
    *,
    most: int | None = None,
    over: threading.Event | None = None,
) -> None:
    assert stream is not None
    size = total = 0
    read = (lambda: stream.readline(MAX_LINE)) if on_line else (lambda: stream.read1(65536))  # type: ignore[attr-defined]
    try:
        for line in iter(read, b""):
            if size < MAX_OUTPUT:  # a program that floods us costs no more memory than this
                into.append(line)
                size += len(line)
            total += len(line)
            if most is not None and over is not None and total > most:
                over.set()
            if on_line:
                on_line(line)
    finally:
        stream.close()  # where `on_line` failed nobody reads on: the program must not wait for us until its timeout


def _feed(stream: IO[bytes] | None, data: bytes) -> None:
    assert stream is not None
    with contextlib.suppress(BrokenPipeError):  # the program ended without reading it all
        stream.write(data)
        stream.close()
