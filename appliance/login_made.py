"""Making a ChatGPT login: Codex's own device-code login, in a home of its own until it is whole."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from appliance import process
from appliance.flock import try_lock
from appliance.login import Login, LoginRefused

MAX_SECONDS = 16 * 60.0  # Codex itself gives up after 15 minutes
NEXT = "check the network (HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE in .env), then run `appliance login` again."


class NoLogin(Exception):
    """No login was made, and an old one is as it was. The message is one line, with the next step."""


def device_login(login: Login, codex: Path, say: Callable[[str], None], issuer: str | None = None) -> None:
    """Let a person log in; `say` gets what Codex says to them, line by line.

    Codex logs out as it begins, and a refresh that is under way would overwrite what it writes. So it works in a
    folder of its own, and only what is whole is taken over. `issuer` is the address of another one than OpenAI's.
    Raises NoLogin, OSError.
    """
    login.home.mkdir(parents=True, exist_ok=True, mode=0o700)
    alone = try_lock(login.home / ".making.lock")
    if alone is None:
        raise NoLogin("another `appliance login` is under way. Next: finish or stop that one.")
    try:
        _remove_left(login.home)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=login.home, ignore_cleanup_errors=True) as home:
            _run_codex(codex, Path(home), say, issuer)
            login.adopt(Path(home) / "auth.json")
    except LoginRefused as refused:
        raise NoLogin(f"{refused}. Next: {NEXT}") from None
    finally:
        os.close(alone)


def sweep(home: Path) -> None:
    """Remove what a login left behind that was killed, and its Codex perhaps not: it may have finished since."""
    if any(home.glob(".new-*")) and (alone := try_lock(home / ".making.lock")) is not None:
        try:
            _remove_left(home)
        finally:
            os.close(alone)


def _remove_left(home: Path) -> None:
    for left in home.glob(".new-*"):
        shutil.rmtree(left, ignore_errors=True)


def _run_codex(codex: Path, home: Path, say: Callable[[str], None], issuer: str | None) -> None:
    (home / "config.toml").write_text('cli_auth_credentials_store = "file"\n', encoding="utf-8")
    kept = ("PATH", "LANG", "TERM", "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    other = ["--experimental_issuer", issuer] if issuer else []
    done = process.run(
        [str(codex), "login", "--device-auth", *other],
        timeout=MAX_SECONDS,
        env=env | {"CODEX_HOME": str(home), "HOME": str(home)},
        on_line=lambda line: say(line.decode("utf-8", "replace").rstrip("\n")),
    )
    if not done.ok:
        said = [line for line in done.err.splitlines() if line.strip() and not line.startswith("WARNING")]
        why = said[-1].strip()[:300] if said else f"it ended with {done.code}"
        raise NoLogin(f"Codex could not log in: {why.rstrip('.')}. Next: {NEXT}")
