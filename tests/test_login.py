"""The ChatGPT login: kept by one owner, refreshed in turns, never a token too many."""

import base64
import json
import stat
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from appliance.login import Login, LoginRefused

NOW = 1_800_000_000.0


def jwt(expires: float, number: int = 0) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    return f"{part({'alg': 'none'})}.{part({'exp': expires, 'n': number})}.{part('sig')}"


class TokenEndpoint:
    """A token endpoint as OpenAI's: each refresh token can be used once."""

    def __init__(self) -> None:
        self.used: list[str] = []
        self.status = 200
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer.lock:
                    status, answer = outer.answer(str(asked["refresh_token"]))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/oauth/token"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, token: str) -> tuple[int, dict[str, Any]]:
        if self.status != 200:
            return self.status, {"error": {"message": "no"}}
        if token in self.used:
            return 401, {"error": {"message": "Your refresh token was already used.", "code": "refresh_token_reused"}}
        self.used.append(token)
        number = len(self.used)
        return 200, {"access_token": jwt(NOW + 864_000, number), "id_token": "id", "refresh_token": f"rt-{number}"}


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    made = TokenEndpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


def login(home: Path, endpoint: TokenEndpoint, expires: float) -> Login:
    home.mkdir(exist_ok=True)
    tokens = {"id_token": "id", "access_token": jwt(expires), "refresh_token": "rt-0", "account_id": "acct-1"}
    (home / "auth.json").write_text(json.dumps({"OPENAI_API_KEY": None, "tokens": tokens, "kept": 1}))
    return Login(home, endpoint.url, lambda: NOW)


def test_a_token_that_lasts_is_used_as_it_is(tmp_path: Path, endpoint: TokenEndpoint) -> None:
    headers = login(tmp_path, endpoint, NOW + 7200).headers()
    assert headers == {"authorization": f"Bearer {jwt(NOW + 7200)}", "chatgpt-account-id": "acct-1"}
    assert endpoint.used == []


def test_one_that_expires_soon_is_refreshed_and_kept_whole(tmp_path: Path, endpoint: TokenEndpoint) -> None:
    headers = login(tmp_path, endpoint, NOW + 60).headers()
    assert headers["authorization"] == f"Bearer {jwt(NOW + 864_000, 1)}"
    kept = json.loads((tmp_path / "auth.json").read_text())
    assert (kept["tokens"]["refresh_token"], kept["kept"]) == ("rt-1", 1)
    assert stat.S_IMODE((tmp_path / "auth.json").stat().st_mode) == 0o600


def test_two_at_once_use_the_refresh_token_once(tmp_path: Path, endpoint: TokenEndpoint) -> None:
    login(tmp_path, endpoint, NOW)
    readers = [Login(tmp_path, endpoint.url, lambda: NOW) for _ in range(8)]
    told: list[str] = []
    threads = [threading.Thread(target=lambda one=one: told.append(one.headers()["authorization"])) for one in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert endpoint.used == ["rt-0"]
    assert len(set(told)) == 1


def test_a_used_refresh_token_asks_for_a_new_login(tmp_path: Path, endpoint: TokenEndpoint) -> None:
    endpoint.used.append("rt-0")
    with pytest.raises(LoginRefused, match="already used"):
        login(tmp_path, endpoint, NOW).headers()


@pytest.mark.parametrize("status", [500, 503, 429])
def test_an_endpoint_in_trouble_leaves_the_old_token_in_use(
    tmp_path: Path, endpoint: TokenEndpoint, status: int
) -> None:
    endpoint.status = status
    assert login(tmp_path, endpoint, NOW).headers()["authorization"] == f"Bearer {jwt(NOW)}"
    assert json.loads((tmp_path / "auth.json").read_text())["tokens"]["refresh_token"] == "rt-0"


def test_a_new_login_has_another_digest(tmp_path: Path, endpoint: TokenEndpoint) -> None:
    one = login(tmp_path, endpoint, NOW)
    before = one.digest()
    one.headers()
    assert one.digest() != before
    assert "rt-" not in one.digest()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"tokens": null}', '{"tokens": {}}'])
def test_a_file_without_tokens_is_no_login(tmp_path: Path, text: str) -> None:
    (tmp_path / "auth.json").write_text(text)
    assert not Login(tmp_path).exists()
    with pytest.raises(LoginRefused):
        Login(tmp_path).headers()
    assert not Login(tmp_path / "nowhere").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["auth.json"]
