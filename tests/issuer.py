"""A stand-in for OpenAI's login: device codes, and a token endpoint where each refresh token can be used once."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

NOW = 1_800_000_000.0
ACCOUNT = "account-0001"


def jwt(expires: float, number: int = 0) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    claims = {
        "exp": int(expires),
        "n": number,
        "email": "a@b.example",
        "https://api.openai.com/auth": {"chatgpt_account_id": ACCOUNT, "chatgpt_plan_type": "plus"},
    }
    return f"{part({'alg': 'none', 'typ': 'JWT'})}.{part(claims)}.{part('sig')}"


class Issuer:
    """`used` are the refresh tokens that were redeemed. `lifetime` is that of an access token, in seconds."""

    def __init__(self) -> None:
        self.used: list[str] = []
        self.asked: list[str] = []
        self.status = 200
        self.code = ""
        self.delay = 0.0
        self.lifetime = 864_000.0
        self.pending = 0  # polls before the person has typed the code
        self.lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None: ...

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.asked.append(self.path)
                time.sleep(outer.delay)
                with outer.lock:
                    status, answer = outer.answer(self.path, raw)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        self.url = f"{self.base}/oauth/token"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def answer(self, path: str, raw: bytes) -> tuple[int, dict[str, Any]]:
        if self.status != 200:
            return self.status, {"error": {"message": "no", "code": self.code}} if self.code else {}
        if path.endswith("/deviceauth/usercode"):
            return 200, {"device_auth_id": "d1", "user_code": "ABCD-1234", "interval": "0"}
        if path.endswith("/deviceauth/token"):
            self.pending -= 1
            code = {"authorization_code": "ac", "code_challenge": "cc", "code_verifier": "cv"}
            return (403, {}) if self.pending >= 0 else (200, code)
        asked = json.loads(raw) if raw.startswith(b"{") else {k: v[0] for k, v in parse_qs(raw.decode()).items()}
        if asked["grant_type"] == "authorization_code":
            return 200, self.tokens("rt-0", 0)
        return self.refreshed(str(asked["refresh_token"]))

    def refreshed(self, token: str) -> tuple[int, dict[str, Any]]:
        if token in self.used:
            return 401, {"error": {"message": "Your refresh token was already used.", "code": "refresh_token_reused"}}
        self.used.append(token)
        return 200, self.tokens(f"rt-{len(self.used)}", len(self.used))

    def tokens(self, refresh: str, number: int) -> dict[str, Any]:
        expires = NOW + self.lifetime
        return {"id_token": jwt(expires, number), "access_token": jwt(expires, number), "refresh_token": refresh}


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    yield made
    made.server.shutdown()
    made.server.server_close()
