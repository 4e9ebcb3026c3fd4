"""Every way out says no secret: log, health, store, forge, terminal, what nobody caught."""

import base64
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import structlog
from pydantic import SecretStr
from test_report import FINDING, review

from appliance import health, keys, log, redaction, settings
from appliance.cli import common
from appliance.cli.telling import Teller
from appliance.core.faults import Fault
from appliance.core.findings import Coverage, EarlierAnswer, EarlierFinding, Evidence, NotSeen
from appliance.core.health import Health
from appliance.core.outcomes import Ending, Outcome
from appliance.core.pulls import Pull
from appliance.core.steps import Step
from appliance.core.verdict import MAX_DESCRIPTION, Gate
from appliance.delivery import Delivery
from appliance.failures import fault_of
from appliance.forge import ForgeError
from appliance.forge.github_login import InstallationLogin, ServerTime
from appliance.git import Mirrors
from appliance.login import Login
from appliance.settings import SettingsError
from appliance.standing import Standing
from appliance.store import open_store

OURS = "only-this-process-knows-it"
THEIRS = "ghp_Planted0Token0That0Nobody0May0Ever0See0"
BOTH = f"{OURS} {THEIRS} \x1b[31m"
PULL = Pull("octo/app#1", "octo/app", 1, "a" * 40, "main", "b" * 40)


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    redaction.keep_secret(OURS)
    yield
    redaction._lasting.clear()
    redaction._passing.clear()
    redaction._known = ()
    structlog.reset_defaults()
    root = logging.getLogger()
    root.handlers[:] = [other for other in root.handlers if not isinstance(other.formatter, log._Sayable)]
    sys.excepthook, threading.excepthook = sys.__excepthook__, threading.__excepthook__


def clean(text: str) -> bool:
    return OURS not in text and THEIRS not in text and "[redacted]" in text


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_log(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    log.configure(form)  # type: ignore[arg-type]
    structlog.get_logger().warning(
        "event", plain=BOTH, nested={"a": [BOTH], BOTH: 1}, error=ValueError(BOTH), path=Path(OURS), number=3
    )
    try:
        raise ValueError(BOTH)
    except ValueError:
        structlog.get_logger().exception("crashed")
    logging.getLogger("of.a.library").error("it says %s", BOTH)
    told = capfd.readouterr().err
    assert clean(told) and "\x1b" not in told and "number" in told and "of.a.library" in told


def test_the_health(tmp_path: Path) -> None:
    health.write(tmp_path, Health("unhealthy", "defect", BOTH, 0.0), valid_for=60)
    assert clean((tmp_path / "health").read_text())


def test_the_store(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    try:
        attempt = store.begin_attempt(PULL, "me")
        assert attempt is not None
        store.end_attempt(attempt, Outcome.TURN_FAILED, BOTH)
        found = review(replace(FINDING, title=BOTH, body=BOTH, path=BOTH), summary=BOTH, reasoning=BOTH, limits=BOTH)
        store.finish(None, replace(found, evidence=Evidence((BOTH,), (BOTH,), 1)), Gate("failure", "x"))
        store.set_note("held", {"fault": asdict(Fault("a", BOTH, BOTH, BOTH, {"said": BOTH}))})
        (stored,) = store.undelivered()
        assert stored.review is not None
        texts = json.dumps([asdict(stored.review), store.note("held"), store.records([PULL])[PULL.target].reason])
        assert texts.count("[redacted]") == 2 * 13
    finally:
        store.close()
    for file in tmp_path.glob("a.db*"):
        assert OURS.encode() not in file.read_bytes() and THEIRS.encode() not in file.read_bytes()


def test_the_gate(tmp_path: Path) -> None:
    class Forge:
        shown: Gate | None = None
        check_runs = False

        def gate(self, _: Pull) -> Gate | None:
            return None

        def set_gate(self, _: Pull, gate: Gate, report: object = None) -> None:
            self.shown = gate

    forge, store = Forge(), open_store(tmp_path / "a.db")
    try:
        delivery = Delivery(store, b"k", 1, Standing(Mirrors(tmp_path), 1))
        delivery.set_gate(forge, PULL, Gate("error", f"{BOTH} {'password=`hunter2x` ' * 9}"))  # type: ignore[arg-type]
    finally:
        store.close()
    assert forge.shown is not None and clean(forge.shown.description) and "\x1b" not in forge.shown.description
    assert len(forge.shown.description) == MAX_DESCRIPTION


def test_how_an_attempt_ended() -> None:
    given = Ending(Outcome.WORKSTATION, BOTH, fault=Fault("defect", BOTH, BOTH, BOTH, {"said": [BOTH]}))
    assert clean(repr(redaction.ending(given)))
    error = ForgeError("forge-refused", f"GitHub says {BOTH}", remedy=f"ask {BOTH}", permanent=True)
    assert clean(repr(fault_of(error)))
    assert clean(repr(fault_of(RuntimeError(BOTH))))


def test_every_text_of_a_review() -> None:
    seen, answer = NotSeen(BOTH, "binary", BOTH), EarlierAnswer(BOTH, "open", BOTH, BOTH)
    before = EarlierFinding("E1", "f", 1, BOTH, BOTH, commit=BOTH, evidence=BOTH, reason=BOTH)
    found = replace(FINDING, title=BOTH, body=BOTH, path=BOTH, suggestion=BOTH)
    given = replace(review(found), coverage=Coverage(1, (seen,), (seen,)), earlier=(before,))
    given = replace(given, result=replace(given.result, summary=BOTH, reasoning=BOTH, limits=BOTH, earlier=(answer,)))
    said = redaction.review(given)
    assert clean(repr(said))
    assert said.result.findings[0].suggestion is None  # part of it would be committed as if it were the whole
    kept = review(replace(FINDING, suggestion="x = 1"))
    assert redaction.review(kept) == kept


def test_what_a_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    common.Failure(BOTH).show()
    common.echo_json({"a": BOTH})
    teller = Teller()
    teller(Step(phase=f"reading {BOTH}\n… posting"))
    teller(Step(command=f"cat {BOTH}\n… posting"))
    said = capsys.readouterr()
    assert clean(said.out) and clean(said.err)
    assert "\x1b" not in said.err + said.out and len(said.err.splitlines()) == 3


@pytest.mark.parametrize("thread", [False, True])
def test_what_nobody_caught(thread: bool) -> None:
    code = (
        "import sys, threading; from appliance import redaction as r\n"
        "r.keep_secret(sys.argv[1]); r.guard()\n"
        "def crash(): raise ValueError(' '.join(sys.argv[1:]) + chr(27))\n"
        + ("t = threading.Thread(target=crash); t.start(); t.join()" if thread else "crash()")
    )
    done = subprocess.run([sys.executable, "-c", code, OURS, THEIRS], capture_output=True, text=True, check=False)
    assert "ValueError" in done.stderr and clean(done.stderr) and "\x1b" not in done.stderr


def test_the_settings_tell_it_what_is_secret() -> None:
    fields = settings.Settings.model_fields
    kinds = {name: fields[field].annotation for field, name in settings.names().items()}
    assert {name for name, kind in kinds.items() if "SecretStr" in str(kind)} == set(settings.SECRETS)
    loaded = settings.load({"GITHUB_TOKEN": "a-token-of-no-shape", "OPENAI_API_KEY": "a-key-of-no-shape"}, dotenv=None)
    assert loaded.github_token == SecretStr("a-token-of-no-shape")
    assert redaction.say("a-token-of-no-shape a-key-of-no-shape") == "[redacted] [redacted]"


def test_a_secret_given_in_place_of_its_file_is_not_said() -> None:
    with pytest.raises(SettingsError) as caught:
        settings.load({"OPENAI_API_KEY_FILE": "a-key-of-no-shape"}, dotenv=None)
    assert "a-key-of-no-shape" not in redaction.say(str(caught.value))
    with pytest.raises(SettingsError, match="/run/secrets/key"):
        settings.load({"OPENAI_API_KEY_FILE": "/run/secrets/key"}, dotenv=None)
    assert redaction.say("/run/secrets/key") == "/run/secrets/key"


def test_the_signing_key_and_the_login_tell_it_too(tmp_path: Path) -> None:
    key = keys.signing_key(tmp_path / "signing.key")
    assert redaction.say(f"key {key.hex()}") == "key [redacted]"
    tokens = {"access_token": "an-access-token", "refresh_token": "a-refresh-token", "id_token": "an-identity"}
    (tmp_path / "auth.json").write_text(json.dumps({"tokens": tokens}))
    assert Login(tmp_path).exists()
    assert redaction.say(" ".join(tokens.values())) == "[redacted] [redacted] [redacted]"


def test_its_memory_is_bounded_and_what_lasts_is_never_forgotten() -> None:
    for number in range(500):
        redaction.keep_secret(f"{number:03}-refreshed-token", "the-account", passing=True)
    assert len(redaction._passing) == redaction.MAX_PASSING
    assert redaction.say("499-refreshed-token the-account") == "[redacted] [redacted]"
    assert redaction.say("000-refreshed-token") == "000-refreshed-token"
    assert redaction.say(OURS) == "[redacted]", "the key is told once, at the start"


def test_what_lasts_is_not_made_passing_by_being_used() -> None:
    """The model gate tells each header that it sends, a lasting key's too."""
    redaction.keep_secret(OURS, passing=True)
    assert list(redaction._passing) == []


def test_what_a_program_goes_on_reading_has_only_our_own_cut_out() -> None:
    assert redaction.ours_out(f"{OURS} {THEIRS}") == f"[redacted] {THEIRS}"
    assert redaction.known() == redaction._known != ()


def test_no_token_that_is_held_is_ever_said_however_many_owners_there_are() -> None:
    def made(n: int) -> InstallationLogin:
        def make() -> tuple[str, float]:
            token = f"ghs_4711.{n:04d}" + "q7Zk9" * 100 + f".{n:04d}"
            redaction.keep_secret(token, passing=True)  # as GitHubApp does
            return token, 3600.0

        return InstallationLogin(f"App for {n}", make, ServerTime(lambda: 0.0))

    logins = [made(n) for n in range(60)]
    for one in logins:
        one.secret()
    for one in logins:
        token = one.secret()
        header = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        assert token not in redaction.redacted(f"said {token} so"), "plain"
        assert header not in redaction.redacted(f"said {header} so"), "as git has it"
