"""The ChatGPT login: kept by one owner, refreshed in turns, never a token too many."""

import errno
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from issuer import NOW, Issuer, jwt

from appliance.login import Login, LoginRefused, LoginUnreachable


def login(home: Path, issuer: Issuer, expires: float) -> Login:
    home.mkdir(exist_ok=True)
    tokens = {"id_token": "id", "access_token": jwt(expires), "refresh_token": "rt-0", "account_id": "acct-1"}
    (home / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": None, "tokens": tokens, "kept": 1}))
    return Login(home, issuer.url, lambda: NOW)


def test_a_token_that_lasts_is_used_as_it_is(tmp_path: Path, issuer: Issuer) -> None:
    headers = login(tmp_path, issuer, NOW + 7200).headers()
    assert headers == {"authorization": f"Bearer {jwt(NOW + 7200)}", "chatgpt-account-id": "acct-1"}
    assert issuer.used == []


def test_one_that_expires_soon_is_refreshed_and_kept_whole(tmp_path: Path, issuer: Issuer) -> None:
    headers = login(tmp_path, issuer, NOW + 60).headers()
    assert headers["authorization"] == f"Bearer {jwt(NOW + 864_000, 1)}"
    kept = json.loads((tmp_path / "auth.json").read_text())
    assert (kept["tokens"]["refresh_token"], kept["kept"]) == ("rt-1", 1)
    assert stat.S_IMODE((tmp_path / "auth.json").stat().st_mode) == 0o600


def test_two_at_once_use_the_refresh_token_once(tmp_path: Path, issuer: Issuer) -> None:
    issuer.delay = 0.2
    login(tmp_path, issuer, NOW)
    readers = [Login(tmp_path, issuer.url, lambda: NOW) for _ in range(8)]
    told: list[str] = []
    threads = [threading.Thread(target=lambda one=one: told.append(one.headers()["authorization"])) for one in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert issuer.used == ["rt-0"]
    assert told == [f"Bearer {jwt(NOW + 864_000, 1)}"] * 8
    assert len(issuer.asked) == 1


def test_a_used_refresh_token_asks_for_a_new_login(tmp_path: Path, issuer: Issuer) -> None:
    issuer.used.append("rt-0")
    with pytest.raises(LoginRefused, match="already used"):
        login(tmp_path, issuer, NOW).headers()


@pytest.mark.parametrize("status", [500, 503, 429, 403, 404])
def test_an_endpoint_in_trouble_leaves_a_token_in_use_as_long_as_it_lasts(
    tmp_path: Path, issuer: Issuer, status: int
) -> None:
    issuer.status = status
    one = login(tmp_path, issuer, NOW + 60)
    assert one.headers()["authorization"] == f"Bearer {jwt(NOW + 60)}"
    assert tokens(tmp_path)["refresh_token"] == "rt-0"
    with pytest.raises(LoginUnreachable, match=str(status)):
        login(tmp_path, issuer, NOW - 1).headers()
    issuer.status = 200
    assert one.headers()["authorization"] == f"Bearer {jwt(NOW + 864_000, 1)}"


def test_an_endpoint_that_is_away_is_no_used_up_login(tmp_path: Path, issuer: Issuer) -> None:
    one = login(tmp_path, issuer, NOW - 1)
    away = Login(tmp_path, "http://127.0.0.1:1/oauth/token", lambda: NOW)
    with pytest.raises(LoginUnreachable):
        away.headers()
    assert one.headers()["authorization"] == f"Bearer {jwt(NOW + 864_000, 1)}"


def test_what_the_endpoint_has_refused_is_not_asked_again_until_there_is_another_login(
    tmp_path: Path, issuer: Issuer
) -> None:
    issuer.used.append("rt-0")
    one = login(tmp_path, issuer, NOW)
    for _ in range(3):
        with pytest.raises(LoginRefused, match="already used"):
            one.headers()
    assert len(issuer.asked) == 1
    login(tmp_path, issuer, NOW + 86_400).headers()


def test_a_token_that_tells_no_end_is_used_until_it_is_refused(tmp_path: Path, issuer: Issuer) -> None:
    one = login(tmp_path, issuer, NOW)
    whole = json.loads((tmp_path / "auth.json").read_text())
    whole["tokens"]["access_token"] = "opaque-token"
    (tmp_path / "auth.json").write_text(json.dumps(whole))
    refused = one.headers()
    assert (refused["authorization"], issuer.asked) == ("Bearer opaque-token", [])
    assert one.renewed(refused)["authorization"] == f"Bearer {jwt(NOW + 864_000, 1)}"


def test_a_token_that_was_renewed_meanwhile_is_not_renewed_again(tmp_path: Path, issuer: Issuer) -> None:
    one = login(tmp_path, issuer, NOW + 7200)
    refused = one.headers()
    fresh = one.renewed(refused)
    assert one.renewed(refused) == fresh
    assert issuer.used == ["rt-0"]


def test_a_refresh_keeps_the_digest_and_a_new_login_has_another(tmp_path: Path, issuer: Issuer) -> None:
    one = login(tmp_path / "a", issuer, NOW + 60)
    made = tmp_path / "made.json"
    digests = []
    for _ in range(2):
        made.write_text(
            json.dumps({"tokens": {"access_token": jwt(NOW + 60), "refresh_token": f"rt-{len(issuer.used)}"}})
        )
        one.adopt(made)
        digests.append(one.digest())
        one.headers()
        assert one.digest() == digests[-1]
        issuer.used.clear()
    assert digests[0] != digests[1]
    assert "rt-" not in one.digest()


REFRESHER = """
import json, sys
from pathlib import Path
from appliance.login import Login
one = Login(Path(sys.argv[1]), sys.argv[2], lambda: 1_800_000_000.0)
print(json.dumps([one.headers()["authorization"], one.renewed({"authorization": "Bearer old"})["authorization"]]))
"""


def test_of_several_processes_exactly_one_refreshes(tmp_path: Path, issuer: Issuer) -> None:
    issuer.delay = 0.3  # long enough for all of them to want it
    login(tmp_path, issuer, NOW)
    command = [sys.executable, "-c", REFRESHER, str(tmp_path), issuer.url]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(5)]
    told = [json.loads(process.communicate(timeout=60)[0].splitlines()[-1]) for process in running]
    assert issuer.used == ["rt-0"]
    assert told == [[f"Bearer {jwt(NOW + 864_000, 1)}"] * 2] * 5
    assert tokens(tmp_path)["refresh_token"] == "rt-1"


# ---- a crash, or a full disk, at each moment


def test_a_full_disk_spends_no_refresh_token(tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    one = login(tmp_path, issuer, NOW + 60)
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert one.headers()["authorization"] == f"Bearer {jwt(NOW + 60)}"
    assert issuer.asked == []
    monkeypatch.undo()
    assert one.headers()["authorization"] == f"Bearer {jwt(NOW + 864_000, 1)}"


@pytest.mark.parametrize("call", ["replace", "fsync"])
def test_what_was_written_before_a_crash_is_not_lost(
    tmp_path: Path, issuer: Issuer, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new token is in a file aside, whole; the next one to refresh finds it."""

    class Crash(BaseException):
        pass

    def crash(*_: Any) -> None:
        raise Crash

    one = login(tmp_path, issuer, NOW + 60)
    with monkeypatch.context() as patch:
        patch.setattr(*(Path, "replace", crash) if call == "replace" else (os, "fsync", crash))
        with pytest.raises(Crash):
            one.headers()
    assert tokens(tmp_path)["refresh_token"] == "rt-0"
    assert one.headers()["authorization"] == f"Bearer {jwt(NOW + 864_000, 1)}"
    assert (issuer.used, tokens(tmp_path)["refresh_token"]) == (["rt-0"], "rt-1")


@pytest.mark.parametrize("left", [b"", b"\0" * 65_536, b'{"tokens": {"access_token": "a', b"[]", b'{"tokens": {}}'])
def test_what_a_crash_left_half_written_is_thrown_away(tmp_path: Path, issuer: Issuer, left: bytes) -> None:
    one = login(tmp_path, issuer, NOW + 60)
    (tmp_path / ".auth.json.new").write_bytes(left)
    assert one.headers()["authorization"] == f"Bearer {jwt(NOW + 864_000, 1)}"
    assert not (tmp_path / ".auth.json.new").exists()


def test_what_an_older_login_left_aside_is_not_taken_for_this_one(tmp_path: Path, issuer: Issuer) -> None:
    one = login(tmp_path, issuer, NOW + 60)
    other = {"tokens": {"access_token": jwt(NOW + 9e6), "refresh_token": "x"}, "appliance": {"replaces": "0" * 16}}
    (tmp_path / ".auth.json.new").write_text(json.dumps(other))
    assert one.headers()["authorization"] == f"Bearer {jwt(NOW + 864_000, 1)}"


def test_no_secret_of_it_is_in_the_log_or_in_an_error(
    tmp_path: Path, issuer: Issuer, capsys: pytest.CaptureFixture[str]
) -> None:
    issuer.status, issuer.code = 401, "refresh_token_expired"
    with pytest.raises(LoginRefused) as refused:
        login(tmp_path, issuer, NOW).headers()
    issuer.status = 500
    with pytest.raises(LoginUnreachable) as away:
        login(tmp_path, issuer, NOW).headers()
    shown = "".join(capsys.readouterr()) + repr(refused.value) + repr(away.value)
    assert "rt-0" not in shown and jwt(NOW) not in shown


def tokens(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / "auth.json").read_text())["tokens"]
    return found


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tokens": null}', '{"tokens": {}}'])
def test_a_file_without_tokens_is_no_login(tmp_path: Path, text: str) -> None:
    (tmp_path / "auth.json").write_text(text)
    assert not Login(tmp_path).exists()
    with pytest.raises(LoginRefused):
        Login(tmp_path).headers()
    assert not Login(tmp_path / "nowhere").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["auth.json"]
