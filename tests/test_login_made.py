"""Making a login with the real Codex, against a stand-in of OpenAI's login."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from issuer import ACCOUNT, NOW, Issuer, jwt

import appliance
from appliance.flock import try_lock
from appliance.jail import codex_package
from appliance.login import Login
from appliance.login_made import NoLogin, device_login, sweep

CODEX = codex_package() / "bin" / "codex"


def made(home: Path, issuer: Issuer) -> tuple[Login, str]:
    login, said = Login(home, issuer.url, lambda: NOW), list[str]()
    device_login(login, CODEX, said.append, issuer.base)
    return login, "\n".join(said)


def test_what_codex_writes_is_what_we_read(tmp_path: Path, issuer: Issuer) -> None:
    issuer.pending = 1
    home = tmp_path / "login"
    login, said = made(home, issuer)
    assert f"{issuer.base}/codex/device" in said and "ABCD-1234" in said, "what the person has to do"
    assert login.headers() == {"authorization": f"Bearer {jwt(NOW + 864_000)}", "chatgpt-account-id": ACCOUNT}
    assert login.renewed(login.headers())["authorization"] == f"Bearer {jwt(NOW + 864_000, 1)}", "it can be refreshed"
    refreshed, expires = login.times()
    assert (refreshed is not None, expires) == (True, NOW + 864_000)
    assert stat.S_IMODE((home / "auth.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert not_empty(home) == ["auth.json"], "and there is no copy of it"


def not_empty(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_dir() or path.stat().st_size)


@pytest.mark.parametrize("trouble", ["refused", "away", "not enabled"])
def test_one_that_fails_says_why_in_one_line_and_leaves_the_old_one(
    tmp_path: Path, issuer: Issuer, trouble: str
) -> None:
    login, _ = made(tmp_path, issuer)
    before = (tmp_path / "auth.json").read_bytes()
    issuer.status = {"refused": 500, "away": 200, "not enabled": 404}[trouble]
    base = "http://127.0.0.1:1" if trouble == "away" else issuer.base
    with pytest.raises(NoLogin) as failed:
        device_login(login, CODEX, lambda _: None, base)
    said = str(failed.value)
    assert said.startswith("Codex could not log in: ") and "Next: " in said and "\n" not in said
    assert (tmp_path / "auth.json").read_bytes() == before
    assert not_empty(tmp_path) == ["auth.json"]


def test_two_at_once_do_not_mix(tmp_path: Path, issuer: Issuer) -> None:
    lock = try_lock(tmp_path / ".making.lock")
    assert lock is not None
    with pytest.raises(NoLogin, match="another"):
        made(tmp_path, issuer)
    os.close(lock)
    made(tmp_path, issuer)


def test_what_a_killed_one_left_is_swept(tmp_path: Path, issuer: Issuer) -> None:
    left = tmp_path / ".new-abc"
    left.mkdir()
    (left / "auth.json").write_text("{}")
    made(tmp_path, issuer)
    assert not_empty(tmp_path) == ["auth.json"]
    left.mkdir()
    lock = try_lock(tmp_path / ".making.lock")
    assert lock is not None
    sweep(tmp_path)
    assert left.is_dir(), "one that is under way is left alone"
    os.close(lock)
    sweep(tmp_path)  # as each cycle does
    assert not left.exists()
    sweep(tmp_path / "nowhere")


PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests in the background had it ignored
from appliance import cli, login_made
real = login_made.device_login
login_made.device_login = lambda login, codex, say: real(login, codex, say, sys.argv[1])
cli.main(["login"])
"""


def program(home: Path, issuer: str, **more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-u", "-c", PROGRAM, issuer],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(appliance.__file__).parents[1]),
            "APPLIANCE_STATE_DIR": str(home),
            **more,
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped_in_the_middle_it_leaves_no_half_login(tmp_path: Path, issuer: Issuer, number: signal.Signals) -> None:
    issuer.pending, issuer.delay = 10_000, 0.05  # the person never types the code
    process = program(tmp_path, issuer.base)
    assert process.stdout is not None
    assert "docker exec -it review-appliance appliance login" in process.stdout.readline(), "it has no terminal here"
    next(line for line in process.stdout if "ABCD-1234" in line)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (1, "login: stopped, nothing was changed. Next: run it again when you like.\n")
    assert "Traceback" not in out
    assert not_empty(tmp_path / "login") == []
    asked = len(issuer.asked)
    time.sleep(0.3)
    assert len(issuer.asked) <= asked + 1, "and Codex is gone"


def test_without_a_network_the_command_is_one_line_with_cause_and_next_step(tmp_path: Path) -> None:
    process = program(tmp_path, "https://auth.openai.example", HTTPS_PROXY="http://127.0.0.1:1")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.startswith("login: Codex could not log in: ") and err.count("\n") == 1
    assert "Next: check the network" in err


def test_a_refresh_that_is_under_way_does_not_overwrite_a_new_login(tmp_path: Path, issuer: Issuer) -> None:
    login, _ = made(tmp_path, issuer)
    old = login.headers()
    issuer.delay = 0.5
    refreshing = threading.Thread(target=login.renewed, args=(old,))
    refreshing.start()
    time.sleep(0.1)
    fresh = tmp_path / "made.json"
    fresh.write_text(json.dumps({"tokens": {"access_token": jwt(NOW + 5e6), "refresh_token": "another"}}))
    login.adopt(fresh)
    refreshing.join(20)
    assert login.headers()["authorization"] == f"Bearer {jwt(NOW + 5e6)}"
