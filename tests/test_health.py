"""The health file, and the real probe (dash) that reads it."""

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance import health
from appliance.core.faults import Fault
from appliance.core.health import MAX_MESSAGE, Health, decode, encode, line, of_fault

PROBE = Path(__file__).parent.parent / "docker" / "health-probe"
HEALTHY = Health("healthy", "", "12 pull requests seen", 1000.0)
FAULT = Fault("proc-masked", "Parts of /proc are masked.", "type `this`.")
BROKEN = of_fault(FAULT, 1000.5)
NOBODY = 65534 if os.getuid() == 0 else None  # whom the probe runs as where root would be refused nothing


def probe(run_dir: Path, program: Path = PROBE, user: int | None = None) -> tuple[int, str]:
    done = subprocess.run(
        [program, str(run_dir / "health")],
        check=False,
        capture_output=True,
        text=True,
        timeout=10,
        env={"PATH": "/nonexistent"},  # builtins only
        user=user,
    )
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1, "one line, whatever happens"
    return done.returncode, done.stdout.rstrip("\n")


@pytest.fixture
def outside() -> Iterator[tuple[Path, Path]]:
    """A folder that everybody may enter, and in it a copy of the probe: NOBODY may not see this repository."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder, Path(shutil.copy(PROBE, folder / "probe"))


def test_a_healthy_appliance(tmp_path: Path) -> None:
    health.write(tmp_path, HEALTHY, valid_for=60)
    assert probe(tmp_path) == (0, "healthy: 12 pull requests seen")
    assert health.read(tmp_path) == HEALTHY


def test_an_unhealthy_one_says_cause_and_next_step(tmp_path: Path) -> None:
    health.write(tmp_path, BROKEN, valid_for=60)
    told = "unhealthy: proc-masked: Parts of /proc are masked. Next: type `this`."
    assert probe(tmp_path) == (1, told)
    assert line(BROKEN) == told
    assert health.read(tmp_path) == BROKEN


def test_starting_is_not_healthy(tmp_path: Path) -> None:
    health.write(tmp_path, Health("starting", "", "first self-test", 1.0), valid_for=60)
    assert probe(tmp_path) == (1, "starting: first self-test")


def test_a_stale_file_is_unhealthy(tmp_path: Path) -> None:
    health.write(tmp_path, HEALTHY, valid_for=-5)
    code, told = probe(tmp_path)
    assert (code, told[:17]) == (1, "unhealthy: stale:")
    assert "Next: " in told
    assert health.read(tmp_path) is None


def test_a_heartbeat_keeps_everything_but_the_time(tmp_path: Path) -> None:
    health.heartbeat(tmp_path / "none", 60)
    health.heartbeat(tmp_path, 60)
    assert health.read(tmp_path) is None, "nothing to keep alive"
    health.write(tmp_path, BROKEN, valid_for=-5)
    health.heartbeat(tmp_path, 60)
    assert health.read(tmp_path) == BROKEN


@pytest.mark.parametrize("cut", range(len(encode(BROKEN, 5.0))))
def test_a_torn_file_is_unhealthy(tmp_path: Path, cut: int) -> None:
    text = encode(BROKEN, 10**9)
    (tmp_path / "health").write_text(text[:cut])
    if text[:cut] + "\n" == text:
        return  # the shell reads a last line without its end as well
    code, told = probe(tmp_path)
    assert (code, told[:16]) == (1, "unhealthy: torn:")
    assert decode(text[:cut]) is None


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b"healthy\nsoon\n1\n\nx\nend\n",
        b"healthy\n99999999999\n1\n\nx\nfin\n",
        b"\n" * 6,
        b"healthy\n-1\n1\n\nx\nend\n",
    ],
)
def test_nonsense_is_unhealthy(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "health").write_bytes(content)
    code, told = probe(tmp_path)
    assert (code, told[:10]) == (1, "unhealthy:")
    assert health.read(tmp_path) is None


def test_a_missing_file_is_unhealthy(tmp_path: Path) -> None:
    code, told = probe(tmp_path)
    assert (code, told[:19]) == (1, "unhealthy: missing:")
    assert "Next: " in told
    assert health.read(tmp_path) is None


def test_without_a_run_that_can_be_written_it_is_said(outside: tuple[Path, Path]) -> None:
    run, copy = outside
    run.chmod(0o555)
    code, told = probe(run / "appliance", copy, user=NOBODY)
    run.chmod(0o777)
    assert (code, told[:22]) == (1, "unhealthy: no-run-dir:")
    assert "/run:mode=1777,size=16m" in told
    assert probe(run / "appliance", copy, user=NOBODY)[1].startswith("unhealthy: missing:")


def test_an_unreadable_file_is_unhealthy(outside: tuple[Path, Path]) -> None:
    run_dir, copy = outside
    health.write(run_dir, HEALTHY, valid_for=60)
    (run_dir / "health").chmod(0)
    code, told = probe(run_dir, copy, user=NOBODY)
    assert (code, told[:22]) == (1, "unhealthy: unreadable:")


def test_a_directory_in_its_place_is_unhealthy(tmp_path: Path) -> None:
    (tmp_path / "health").mkdir()
    code, told = probe(tmp_path)
    assert (code, told[:10]) == (1, "unhealthy:")


def test_the_probe_finds_the_run_directory_of_the_settings(tmp_path: Path) -> None:
    health.write(tmp_path, HEALTHY, valid_for=60)
    environment = {"APPLIANCE_RUN_DIR": str(tmp_path)}
    assert subprocess.check_output([PROBE], env=environment, text=True) == "healthy: 12 pull requests seen\n"


def test_the_probe_says_that_the_run_directory_of_the_settings_cannot_be_used(outside: tuple[Path, Path]) -> None:
    top, copy = outside

    def told(run_dir: str) -> str:
        environment = {"APPLIANCE_RUN_DIR": run_dir}
        done = subprocess.run(
            [copy], check=False, env=environment, user=NOBODY, cwd=top, capture_output=True, text=True, timeout=10
        )
        assert (done.returncode, done.stderr, done.stdout.count("\n")) == (1, "", 1)
        return done.stdout

    top.chmod(0o555)
    for bad in ("/nope", "/nope/below", f"{top}/run", f"{top}/probe", f"{top}/probe/x", "rel", str(top)):
        assert told(bad).startswith(f"unhealthy: settings: APPLIANCE_RUN_DIR is {bad}, a folder that is not"), bad
    top.chmod(0o777)
    for good in (f"{top}/run", f"{top}/run/below", str(top)):
        assert told(good).startswith("unhealthy: missing: "), good


def test_since_is_kept_while_state_and_cause_stay(tmp_path: Path) -> None:
    for minute, now in enumerate(
        (HEALTHY, Health("healthy", "", "other words", 2000.0), BROKEN, of_fault(FAULT, 9999.0), HEALTHY)
    ):
        health.write(tmp_path, now, valid_for=60)
        found = health.read(tmp_path)
        assert found is not None
        assert found.since == (1000.0, 1000.0, 1000.5, 1000.5, 1000.0)[minute]
        assert found.message == now.message


def test_another_cause_begins_anew(tmp_path: Path) -> None:
    health.write(tmp_path, BROKEN, valid_for=60)
    health.write(tmp_path, Health("unhealthy", "login", "x", 2000.0), valid_for=60)
    found = health.read(tmp_path)
    assert found is not None
    assert found.since == 2000.0


@pytest.mark.parametrize(
    "message", ["two\nlines", "a\r\nb\x1b[31m\tc\x00d", " spaces  \u2028 ", "back\\slash %s $(id) `id`", "ü✓"]
)
def test_a_message_is_one_line_and_taken_literally(tmp_path: Path, message: str) -> None:
    health.write(tmp_path, Health("unhealthy", "x", message, 1.0), valid_for=60)
    found = health.read(tmp_path)
    assert found is not None
    assert found.message == " ".join("".join(c if c.isprintable() else " " for c in message).split())
    assert probe(tmp_path)[1] == f"unhealthy: x: {found.message}" == line(found)


def test_a_message_is_bounded(tmp_path: Path) -> None:
    health.write(tmp_path, Health("unhealthy", "x", "word " * 10_000, 1.0), valid_for=60)
    assert len(probe(tmp_path)[1]) < MAX_MESSAGE + 20


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            health.write(tmp_path, HEALTHY, valid_for=60)
            health.heartbeat(tmp_path, 60)

    health.write(tmp_path, HEALTHY, valid_for=60)
    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        assert all(health.read(tmp_path) == HEALTHY for _ in range(2000))
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_the_probe_starts_no_other_program() -> None:
    """Each would cost as much again: the aim is three times /bin/true."""
    text = PROBE.read_text()
    assert text.startswith("#!/bin/dash\n")
    code = "\n".join(line for line in text.splitlines() if not line.startswith(("#", "again=")))
    assert not re.search(r"\$\([^(]|`|\n *\(| & ", code), "a substitution or a subshell is a fork"
