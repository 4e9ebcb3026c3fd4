"""The commands as people and scripts call them: exit codes, one-line errors, JSON contracts (DESIGN section 12)."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from days import enough_of_today
from fake_github import FakeGitHub
from gitrepo import Repo
from issuer import Issuer, jwt
from sqlalchemy.exc import OperationalError
from world import APP, SANDBOX, Scripted, failed, found, reviewed

import appliance
from appliance import health, wiring
from appliance.cli import main
from appliance.cli.reviews import review
from appliance.core.earlier import Known
from appliance.core.faults import Fault
from appliance.core.findings import Configuration, EarlierFinding
from appliance.core.health import Health
from appliance.core.identity import Identity
from appliance.core.outcomes import Ending, Outcome
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.doctor import forge as doctor_forge
from appliance.forge.github_limits import PROCESS_PACE
from appliance.git.errors import error_of
from appliance.login import Login
from appliance.login_made import NoLogin
from appliance.process import Completed
from appliance.reviewing import Reviewer
from appliance.sample import DEFECT_PATH
from appliance.settings import load
from appliance.store import Decided, open_store
from appliance.wiring import Appliance

KEY = "sk-very-secret"
Cli = Callable[..., Result]


class Script:
    """What the self-test finds, and how each review ends."""

    fault: Fault | None = None
    ending: Callable[[Pull], Ending] = staticmethod(lambda pull: reviewed(pull, found(1), verdict="incorrect"))
    during: Callable[[], object] = staticmethod(lambda: None)
    rehearsed: list[bool]

    def __init__(self) -> None:
        self.rehearsed = []


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    script = Script()
    real = Appliance.reviewer

    def play(pull: Pull, _: threading.Event) -> Ending:
        script.during()
        ending = script.ending(pull)
        held = Configuration(block_priority=1, digest="of this base commit")
        return replace(ending, review=replace(ending.review, configuration=held)) if ending.review else ending

    def reviewer(self: Appliance, *, rehearse: bool) -> Reviewer:
        script.rehearsed.append(rehearse)
        return Scripted(**vars(real(self, rehearse=rehearse)), script=play)

    monkeypatch.setattr("appliance.wiring.blocked", lambda _: None)  # whoever runs the tests, root too
    monkeypatch.setattr(Appliance, "selftest", lambda _: script.fault)
    monkeypatch.setattr(Appliance, "reviewer", reviewer)
    return script


@pytest.fixture
def cli(tmp_path: Path, fake_github: FakeGitHub, script: Script, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("appliance.forge.github_limits.WRITE_GAP", 0.0)
    monkeypatch.setattr(PROCESS_PACE, "_ended", deque(maxlen=500))  # the tests before this one wrote too
    base = {
        "APPLIANCE_STATE_DIR": str(tmp_path / "state"),
        "APPLIANCE_RUN_DIR": str(tmp_path / "run"),
        "APPLIANCE_GITHUB_URL": fake_github.url,
        "APPLIANCE_REPOSITORIES": APP,
        "GITHUB_TOKEN": fake_github.token,
        "OPENAI_API_KEY": KEY,
    }
    old = os.umask(0o022)

    def call(*args: str, **environment: str) -> Result:
        done = CliRunner().invoke(main, args, env=base | environment)
        assert KEY not in done.output, "a secret"
        assert "Traceback" not in done.output
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    yield call
    os.umask(old)


def program(*args: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """The real program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "appliance.cli", *args],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(appliance.__file__).parents[1]), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
    )


def one_line(done: Result) -> str:
    """The error: one line, with a cause and a next step."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("…") and "[warning" not in line]
    assert len(lines) == 1, done.stderr
    assert "Next: " in lines[0]
    return lines[0]


# ---- usage


@pytest.mark.parametrize(
    "args",
    [
        ["nonsense"],
        ["--nonsense"],
        ["cycle", "extra"],
        ["review"],
        ["retry"],
        ["review", "x", "--format", "xml"],
        ["review", "x", "--fail-on", "P4"],
        ["rehearse", "--format", "xml"],
    ],
)
def test_a_usage_error_is_exit_code_2(args: list[str]) -> None:
    done = program(*args)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, "each error is one line"
    assert done.stderr.startswith("usage: ") and " Next: `appliance" in done.stderr.replace(
        "python -m appliance.cli", "appliance"
    )


def test_the_short_names_usage_error_is_one_line_too_and_a_bare_name_shows_the_help() -> None:
    done = CliRunner().invoke(review, ["--nonsense"], prog_name="review")
    assert (done.exit_code, done.stderr.count("\n"), "`review --help`" in done.stderr) == (2, 1, True)
    assert "Usage: " in program().stderr + program().stdout and "P0|P1|P2|P3" in program("review", "--help").stdout
    assert "'P4' is not one of P0, P1, P2, P3. Next: " in program("review", "x", "--fail-on", "P4").stderr


def test_every_command_has_help() -> None:
    told = program("--help").stdout
    for name in ("serve", "cycle", "review", "selftest", "settings", "status", "retry", "rehearse"):
        assert re.search(rf"^  {name}\s+\S", told, re.MULTILINE), name
        assert main.commands[name].help
    assert program("--version").stdout.startswith("appliance, version ")
    assert review.name == "review"


def test_bad_settings_are_told_all_at_once_by_every_command_that_needs_them() -> None:
    for command in (["status"], ["cycle"], ["settings"], ["selftest"], ["retry", "x"], ["review", "x"], ["rehearse"]):
        done = program(*command, APPLIANCE_INTERVAL="soon", GITHUB_TOKEN="ghp_ secret")
        assert done.returncode == 2, command
        assert "APPLIANCE_INTERVAL: " in done.stderr
        assert "GITHUB_TOKEN: " in done.stderr
        assert "Next: " in done.stderr
        assert "secret" not in done.stderr + done.stdout
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "command", ["status", "cycle", "login", "serve", "selftest", "retry x", "review x", "rehearse"]
)
def test_outside_of_the_container_nothing_is_made_and_it_is_said_how_to_get_in(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("appliance.cli.common.IN_IMAGE", tmp_path / "none")
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: pytest.fail("a folder was made"))
    monkeypatch.setattr("appliance.serving.serve_forever", lambda: pytest.fail("it was started"))
    for folder in ("", "APPLIANCE_RUN_DIR" if command != "selftest" else ""):
        env = {"APPLIANCE_STATE_DIR": None, "APPLIANCE_RUN_DIR": None} | ({folder: str(tmp_path)} if folder else {})
        done = CliRunner().invoke(main, command.split(), env=env)
        name = command.split(maxsplit=1)[0]
        assert done.exit_code == 1
        assert f"review-appliance appliance {name}`" in one_line(done)
        assert ("exec -it" in done.stderr) == (name == "login")


# ---- settings, selftest


def test_settings_are_printed_with_secrets_hidden(cli: Cli) -> None:
    done = cli("settings", APPLIANCE_INTERVAL="4")
    assert done.exit_code == 0
    shown = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert shown["APPLIANCE_INTERVAL"] == "4"
    assert shown["OPENAI_API_KEY"] == shown["GITHUB_TOKEN"] == "(set, hidden)"


def test_the_selftests_json_is_the_contract(tmp_path: Path) -> None:
    """For real: here it may hold or not, but what it prints has a form, and the exit code says which."""
    places = {"APPLIANCE_STATE_DIR": str(tmp_path / "state"), "APPLIANCE_RUN_DIR": str(tmp_path / "run")}
    done = program("selftest", "--json", **places)
    told = json.loads(done.stdout)
    assert done.returncode == (0 if told["ok"] else 1)
    assert {"ok", "seconds", "steps", "fault"} <= told.keys()
    assert all({"name", "ok", "seconds"} <= step.keys() for step in told["steps"])
    assert told["ok"] == (told["fault"] is None)
    if told["fault"]:
        assert {"cause", "sentence", "remedy", "symptom", "facts"} <= told["fault"].keys()
        text = program("selftest", **places)
        assert text.returncode == 1
        assert f"{told['fault']['cause']}: " in text.stderr
        assert "Next: " in text.stderr


def test_a_selftest_without_a_place_to_work_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    done = program("selftest", APPLIANCE_STATE_DIR=str(tmp_path / "state"))
    assert done.returncode == 1
    assert "Next: " in done.stderr.splitlines()[0]
    assert "Traceback" not in done.stderr


# ---- cycle, status, retry


def test_a_cycle_that_went_well_is_exit_code_0(cli: Cli, fake_github: FakeGitHub) -> None:
    done = cli("cycle")
    assert (done.exit_code, done.stdout) == (0, "1 pull request, 1 reviewed\n")
    assert len(fake_github.comments(APP, 1)) == 1
    assert cli("cycle").stdout == "1 pull request, 0 reviewed\n"


def test_a_cycle_that_failed_by_a_fault_is_exit_code_1_with_cause_and_next_step(cli: Cli, script: Script) -> None:
    script.fault = SANDBOX
    done = cli("cycle")
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == str(SANDBOX)
    assert json.loads(cli("status", "--json").stdout)["cycle"]["failed"] is True
    script.fault = None
    assert cli("cycle").exit_code == 0
    assert json.loads(cli("status", "--json").stdout)["cycle"]["failed"] is False


STATES = {"waiting", "reviewing", "reviewed", "given-up", "skipped"}


def states(cli: Cli) -> dict[str, dict[str, Any]]:
    told = json.loads(cli("status", "--json").stdout)
    assert {"health", "cycle", "pulls"} <= told.keys()
    assert {"state", "cause", "message", "since"} <= told["health"].keys()
    assert {"last_ended", "next", "failed"} <= told["cycle"].keys()
    for pull in told["pulls"]:
        assert {"target", "head", "state", "attempts", "max_attempts", "next_try", "reason"} <= pull.keys()
        assert pull["state"] in STATES
    return {pull["target"]: pull for pull in told["pulls"]}


def test_the_status_json_is_the_contract_in_every_state(
    cli: Cli, script: Script, fake_github: FakeGitHub, tmp_path: Path
) -> None:
    assert states(cli) == {}
    fake_github.add_pull(APP, "draft", files={"a": "1\n"}, draft=True)
    script.fault = SANDBOX
    cli("cycle")
    found_states = states(cli)
    assert {name: pull["state"] for name, pull in found_states.items()} == {
        f"{APP}#1": "waiting",
        f"{APP}#2": "skipped",
    }
    assert found_states[f"{APP}#1"]["reason"] == f"apparmor: {SANDBOX.sentence}"
    assert found_states[f"{APP}#1"]["head"] == fake_github.repository(APP).pulls[1].head_sha
    script.fault = None
    seen: list[str] = []
    script.during = lambda: seen.append(states(cli)[f"{APP}#1"]["state"])
    script.ending = lambda _: Ending(Outcome.TIMEOUT, "timeout")
    for _ in range(3):
        cli("cycle")
    assert seen == ["reviewing"] * 3
    given_up = states(cli)[f"{APP}#1"]
    assert (given_up["state"], given_up["attempts"], given_up["max_attempts"]) == ("given-up", 3, 3)
    script.ending = reviewed
    cli("retry", f"{APP}#1")
    cli("cycle")
    assert states(cli)[f"{APP}#1"]["state"] == "reviewed"


def test_status_tells_health_as_the_container_shows_it(cli: Cli, tmp_path: Path) -> None:
    told = json.loads(cli("status", "--json").stdout)["health"]
    assert (told["state"], told["cause"]) == ("unhealthy", "stale")
    health.write(tmp_path / "run", Health("unhealthy", "apparmor", "It forbids. Next: load.", 5.0), valid_for=60)
    told = json.loads(cli("status", "--json").stdout)["health"]
    assert told == {"state": "unhealthy", "cause": "apparmor", "message": "It forbids. Next: load.",
                    "since": "1970-01-01T00:00:05Z"}  # fmt: skip


def test_status_as_text_shows_it_all_and_takes_hostile_names(cli: Cli, script: Script) -> None:
    script.ending = lambda _: Ending(Outcome.MODEL_OUTPUT, "no valid review: [red]x[/] [/nothing]")
    for _ in range(3):
        cli("cycle")
    done = cli("status")
    assert done.exit_code == 0
    assert f"{APP}#1" in done.stdout
    assert "given-up" in done.stdout
    assert "[red]x[/] [/nothing]" in " ".join(done.stdout.split())


def test_a_name_with_a_line_end_forges_no_row_of_the_status(cli: Cli, repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "repositories"
    folder.mkdir()
    head = repo.git("rev-parse", "feature")[:10]
    repo.path.rename(folder / "shop\nx#forged  0123456789  reviewed  1 of 3")
    given = {"APPLIANCE_LOCAL_REPOSITORIES": str(folder), "APPLIANCE_REPOSITORIES": "", "GITHUB_TOKEN": ""}
    assert cli("cycle", **given).exit_code == 0
    [row] = [line for line in cli("status", **given).stdout.splitlines() if "forged" in line]
    assert row.startswith(f"{folder}/shop x#forged  0123456789  reviewed  1 of 3#feature  {head}")


def test_a_retry_takes_the_target_in_each_form(cli: Cli, script: Script, fake_github: FakeGitHub) -> None:
    script.ending = lambda _: Ending(Outcome.TIMEOUT, "timeout")
    cli("cycle")
    for name in (
        f"{APP}#1",
        "Octo/App#1",
        f"{fake_github.base}/octo/app/pull/1",
        f"{fake_github.base}/octo/app/pull/1/files",
    ):
        done = cli("retry", name)
        assert (done.exit_code, done.stdout.split(" ")[0]) == (0, f"{APP}#1")
    assert states(cli)[f"{APP}#1"]["state"] == "waiting"
    for name in (f"{APP}#2", "nonsense", "", "octo/app"):
        done = cli("retry", name)
        assert done.exit_code == 2
        assert f"{name or 'An empty TARGET'} is not watched" in one_line(done)


def test_a_retry_of_what_is_not_reviewed_promises_no_review(cli: Cli, script: Script, fake_github: FakeGitHub) -> None:
    fake_github.add_pull(APP, "draft", files={"a": "1\n"}, draft=True)
    cli("cycle")
    done = cli("retry", f"{APP}#2")
    assert (done.exit_code, "draft" in done.stdout, "next cycle" in done.stdout) == (0, True, False)
    assert "starts over with the next cycle" in cli("retry", f"{APP}#1").stdout


def test_a_retry_ends_the_wait_for_a_model(cli: Cli, script: Script) -> None:
    script.ending = lambda _: failed(Outcome.QUOTA, time.time() + 3600)
    cli("cycle")
    script.ending = reviewed
    done = cli("cycle")
    assert done.exit_code == 1, "it waits"
    assert "It is not asked again until " in one_line(done)
    assert one_line(done).endswith("`appliance retry TARGET` asks with the next cycle.")
    cli("retry", f"{APP}#1")
    assert cli("cycle").exit_code == 0


@pytest.mark.parametrize("outcome", [Outcome.LOGIN, Outcome.MODEL_REFUSED, Outcome.QUOTA, Outcome.WORKSTATION])
def test_a_cycle_by_hand_tries_what_waited_for_a_mend(outcome: Outcome, cli: Cli, script: Script) -> None:
    script.ending = lambda _: failed(outcome)
    cli("cycle")
    script.ending = reviewed
    done = cli("cycle")
    assert (done.exit_code, done.stdout) == (0, "1 pull request, 1 reviewed\n")


def test_a_cycle_by_hand_says_that_the_budget_of_the_day_is_used_up(cli: Cli, tmp_path: Path) -> None:
    enough_of_today(60)
    assert cli("status").exit_code == 0
    store = open_store(tmp_path / "state" / "appliance.db")
    store.take(1500, 0)
    store.close()
    done = cli("cycle", APPLIANCE_TOKENS_PER_DAY="1000")
    assert (done.exit_code, done.stdout) == (0, "1 pull request, 0 reviewed\n")
    assert done.stderr.splitlines()[-1].startswith("token-budget: The token budget of the day (1,000 tokens) is used")


# ---- review


CONTRACT = ["target", "head_sha", "base_sha", "merge_base", "verdict", "gate", "findings", "summary", "reasoning",
            "limits", "usage", "seconds"]  # fmt: skip


def test_the_reviews_json_is_the_contract_and_the_only_thing_on_stdout(cli: Cli, fake_github: FakeGitHub) -> None:
    done = cli("review", f"{APP}#1", "--format", "json")
    assert done.exit_code == 0, "findings are no failure"
    told = json.loads(done.stdout)
    assert set(CONTRACT) <= told.keys()
    assert (told["target"], told["verdict"], told["gate"]) == (f"{APP}#1", "incorrect", "failure")
    assert [each["priority"] for each in told["findings"]] == [1]
    assert done.stderr.startswith("… self-test"), "progress is on stderr"
    assert fake_github.writes == []


def test_text_and_markdown(cli: Cli) -> None:
    for form in ("text", "markdown"):
        told = cli("review", f"{APP}#1", "--format", form).stdout
        assert "[P1] Off by one" in told
        assert "Verdict: incorrect" in told
        assert "review-appliance:v1" not in told


@pytest.mark.parametrize(("fail_on", "code"), [(None, 0), ("P0", 0), ("P1", 3), ("p2", 3), ("P3", 3)])
def test_fail_on_is_exit_code_3(fail_on: str | None, code: int, cli: Cli) -> None:
    done = cli("review", f"{APP}#1", *(["--fail-on", fail_on] if fail_on else []))
    assert done.exit_code == code
    assert "Off by one" in done.stdout


def test_posted_it_is_stored_and_shown_as_the_loop_would(cli: Cli, fake_github: FakeGitHub) -> None:
    seen: list[str | None] = []
    sha = fake_github.repository(APP).pulls[1].head_sha
    Script.during = staticmethod(lambda: seen.append(fake_github.statuses(APP, sha)[0].description))
    try:
        assert cli("review", f"{APP}#1", "--post").exit_code == 0
    finally:
        Script.during = staticmethod(lambda: None)
    assert seen == ["Codex review running (attempt 1 of 3)"]
    assert fake_github.statuses(APP, sha)[0].description == "1 blocking finding (P1)"
    assert len(fake_github.comments(APP, 1)) == 1
    fake_github.clear()
    assert cli("cycle").stdout == "1 pull request, 0 reviewed\n"
    assert fake_github.writes == []


@pytest.mark.parametrize("outcome", [Outcome.SANDBOX, Outcome.LOGIN, Outcome.QUOTA, Outcome.MODEL_UNREACHABLE])
def test_a_review_that_failed_by_a_fault_is_exit_code_1_and_no_attempt(
    outcome: Outcome, cli: Cli, script: Script, fake_github: FakeGitHub
) -> None:
    script.ending = lambda _: failed(outcome)
    for post in ([], ["--post"]):
        done = cli("review", f"{APP}#1", *post)
        assert done.exit_code == 1
        assert one_line(done).startswith(f"{outcome.value}: ")
        assert done.stdout == ""
    sha = fake_github.repository(APP).pulls[1].head_sha
    assert fake_github.statuses(APP, sha)[0].description == "waiting for the Codex review"
    cli("cycle")
    assert (states(cli)[f"{APP}#1"]["state"], states(cli)[f"{APP}#1"]["attempts"]) == ("waiting", 0)


def test_a_forge_that_takes_no_gate_is_no_interruption_of_which_the_third_counts(
    cli: Cli, script: Script, fake_github: FakeGitHub
) -> None:
    fake_github.fail(method="POST", path="/statuses/", status=500, times=3)
    for _ in range(3):
        assert cli("review", f"{APP}#1", "--post").exit_code == 1
    script.ending = lambda _: Ending(Outcome.TIMEOUT, "timeout")
    cli("cycle")
    assert states(cli)[f"{APP}#1"]["attempts"] == 1


def test_a_review_without_a_sandbox_is_none(cli: Cli, script: Script) -> None:
    script.fault = SANDBOX
    done = cli("review", f"{APP}#1")
    assert (done.exit_code, one_line(done)) == (1, str(SANDBOX))
    assert script.rehearsed == []


def test_a_review_without_a_login_is_none_and_never_a_rehearsal(cli: Cli, script: Script) -> None:
    done = cli("review", f"{APP}#1", OPENAI_API_KEY="")
    assert done.exit_code == 1
    assert one_line(done).startswith("login: ")
    assert script.rehearsed == []


@pytest.mark.parametrize(("trouble", "reviewed"), [("used up", False), ("away", True)])
def test_a_login_that_is_used_up_is_told_and_one_that_cannot_be_asked_for_is_not_called_so(
    trouble: str, reviewed: bool, cli: Cli, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes of the second the model gate says, of a request."""
    home = tmp_path / "state" / "login"
    home.mkdir(parents=True)
    kept = {"access_token": jwt(1.0), "refresh_token": "rt-0"}
    (home / "auth.json").write_text(json.dumps({"tokens": kept}))
    monkeypatch.setattr("appliance.wiring.Login", partial(Login, token_url=issuer.url))
    if trouble == "used up":
        issuer.used.append("rt-0")
    else:
        issuer.status = 503
    done = cli("review", f"{APP}#1", OPENAI_API_KEY="")
    assert done.exit_code == (0 if reviewed else 1)
    if not reviewed:
        assert one_line(done).startswith("login: The ChatGPT login is used up: Your refresh token was already used")
        assert "appliance login" in one_line(done)
        assert cli("cycle", OPENAI_API_KEY="").exit_code == 1
        assert json.loads(cli("status", "--json", OPENAI_API_KEY="").stdout)["health"]["cause"] == "login"
        assert len(issuer.asked) == 1, "and the endpoint is not asked again"


def test_a_review_above_its_own_budget_names_the_setting(cli: Cli, script: Script) -> None:
    said = "token budget of the review (1,000 tokens) is used up"
    script.ending = lambda _: Ending(Outcome.TOKEN_BUDGET, said)
    done = cli("review", f"{APP}#1")
    assert done.exit_code == 1
    assert one_line(done).startswith(f"token budget: {said}. Next: raise APPLIANCE_TOKENS_PER_REVIEW in .env")


def test_a_review_on_a_day_whose_tokens_are_used_up_is_none(
    cli: Cli, script: Script, fake_github: FakeGitHub, tmp_path: Path
) -> None:
    enough_of_today(60)
    store = open_store(tmp_path / "state" / "appliance.db") if cli("status") else None
    assert store is not None
    store.take(1500, 0)
    store.close()
    done = cli("review", f"{APP}#1", APPLIANCE_TOKENS_PER_DAY="1000")
    assert done.exit_code == 1
    assert one_line(done).startswith("token-budget: The token budget of the day (1,000 tokens) is used up. Next: wait")
    assert cli("review", f"{APP}#1", "--post", APPLIANCE_TOKENS_PER_DAY="1000").exit_code == 1
    sha = fake_github.repository(APP).pulls[1].head_sha
    said = "token budget of the day is used up, next try 00:00 UTC"
    assert fake_github.statuses(APP, sha)[0].description == said
    assert script.rehearsed == []
    told = json.loads(cli("status", "--json", APPLIANCE_TOKENS_PER_DAY="1000").stdout)
    assert (told["tokens"]["used"], told["tokens"]["limit"]) == (1500, 1000)
    assert "(UTC): 1,500 of 1,000" in cli("status", APPLIANCE_TOKENS_PER_DAY="1000").stdout
    assert "(UTC): 1,500\n" in cli("status").stdout
    assert cli("review", f"{APP}#1").exit_code == 0


def test_one_that_is_being_reviewed_is_said_so(cli: Cli, script: Script) -> None:
    told: list[Result] = []
    script.during = lambda: told.append(cli("review", f"{APP}#1", "--post")) if not told else None
    cli("cycle")
    assert told[0].exit_code == 1, "nothing was mistyped"
    assert "is being reviewed now" in one_line(told[0])


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = Repo(tmp_path / "a repo")
    repo.commit("first", a="1\n")
    repo.git("checkout", "--quiet", "-b", "feature")
    repo.commit("second", a="2\n")
    return repo


def test_a_path_is_reviewed_against_its_default_branch_or_what_is_named(cli: Cli, repo: Repo) -> None:
    for args in ([], ["--base", "main"], ["--base", "main", "--head", "feature"], ["--base", "HEAD~1"]):
        told = json.loads(cli("review", str(repo.path), *args, "--format", "json").stdout)
        assert told["head_sha"] == repo.git("rev-parse", "feature")
        assert told["base_sha"] == repo.git("rev-parse", "main")
    told = json.loads(cli("review", f"{repo.path}#feature", "--format", "json").stdout)
    assert told["target"] == f"{repo.path}#feature"


def test_a_branch_of_a_path_with_a_number_sign_is_reviewed_as_status_names_it(
    cli: Cli, repo: Repo, tmp_path: Path
) -> None:
    folder = tmp_path / "repositories"
    folder.mkdir()
    name = f"{repo.path.rename(folder / 'hash#tag')}#feature"
    given = {"APPLIANCE_LOCAL_REPOSITORIES": str(folder)}
    for post in ([], ["--post"]):
        done = cli("review", name, *post, **given)
        assert done.exit_code == 0, done.stderr
    assert name in [pull["target"] for pull in json.loads(cli("status", "--json", **given).stdout)["pulls"]]


FORMS_OF_A_REPOSITORY = {
    "normal": [],
    "without a worktree": ["--no-checkout"],
    "bare": ["--bare"],
    "its .git elsewhere": ["--separate-git-dir={place}/.gits/shop"],
}


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "elsewhere"])
@pytest.mark.parametrize("form", FORMS_OF_A_REPOSITORY)
def test_a_branch_of_a_local_repository_is_reviewed_and_posted(
    form: str, watched: bool, cli: Cli, repo: Repo, tmp_path: Path
) -> None:
    repo.git("checkout", "--quiet", "main")
    place = tmp_path / ("repositories" if watched else "elsewhere")
    for folder in (tmp_path / "repositories", place):
        folder.mkdir(exist_ok=True)
    (place / ".gits").mkdir()
    how = [word.format(place=place) for word in FORMS_OF_A_REPOSITORY[form]]
    repo.git("clone", "--quiet", *how, ".", str(place / "shop"))
    repo.git("push", "--quiet", str(place / "shop"), "feature")
    name = f"{place / 'shop'}#feature"
    given = {"APPLIANCE_LOCAL_REPOSITORIES": str(tmp_path / "repositories")}
    assert cli("review", name, **given).exit_code == 0
    done = cli("review", name, "--post", **given)
    assert done.exit_code == 0, done.stderr
    [stored] = (tmp_path / "state" / "reviews").rglob("*.md")
    assert "Off by one" in stored.read_text()
    if watched:
        pulls = json.loads(cli("status", "--json", **given).stdout)["pulls"]
        assert [pull["target"] for pull in pulls] == [name]
        assert cli("cycle", **given).exit_code == 0
        assert len(list((tmp_path / "state" / "reviews").rglob("*.md"))) == 1


def test_a_review_of_a_repository_elsewhere_that_could_not_be_posted_is_posted_by_the_next_cycle(
    cli: Cli, repo: Repo, tmp_path: Path
) -> None:
    (tmp_path / "repositories").mkdir()
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "reviews").write_text("a file")
    given = {"APPLIANCE_LOCAL_REPOSITORIES": str(tmp_path / "repositories")}
    assert cli("review", f"{repo.path}#feature", "--post", **given).exit_code == 1
    (tmp_path / "state" / "reviews").unlink()
    assert cli("cycle", **given).exit_code == 0
    assert len(list((tmp_path / "state" / "reviews").rglob("*.md"))) == 1


@pytest.mark.parametrize("place", ["a watched folder", "elsewhere", "a link in a watched folder"])
def test_what_borrows_of_the_appliance_is_not_reviewed_by_name(
    place: str, cli: Cli, script: Script, repo: Repo, tmp_path: Path
) -> None:
    """Neither posted nor printed, and before tokens are spent."""
    folder = tmp_path / "repositories"
    folder.mkdir()
    secret = repo.path.rename(tmp_path / "state") if place == "elsewhere" else repo.path
    shop = (tmp_path if place == "elsewhere" else folder) / "shop"
    if place.startswith("a link"):
        shop.symlink_to(secret)
    else:
        shop.mkdir()
        (shop / ".git").write_text(f"gitdir: {secret}/.git\n")
    for post in ([], ["--post"]):
        done = cli("review", f"{shop}#feature", *post, APPLIANCE_LOCAL_REPOSITORIES=str(folder))
        assert done.exit_code == 1
        assert "outside of the folders that are watched" in one_line(done)
    assert script.rehearsed == []


def test_a_range_of_what_borrows_of_the_appliance_is_not_reviewed(
    cli: Cli, script: Script, repo: Repo, tmp_path: Path
) -> None:
    secret = repo.path.rename(tmp_path / "state")
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / ".git").write_text(f"gitdir: {secret}/.git\n")
    for how in (["--base", "main", "--head", "feature"], ["--uncommitted"]):
        done = cli("review", str(shop), *how)
        assert done.exit_code == 1
        assert "takes its objects from" in one_line(done) and "second" not in done.output
    assert script.rehearsed == []


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """Makes folders that we may not read, also as root."""
    real = os.scandir
    closed: set[str] = set()

    def scandir(path: Any = ".") -> Any:
        if os.fspath(path) in closed:
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    yield lambda path: closed.add(str(path))
    closed.clear()


def test_what_cannot_be_read_in_a_watched_folder_is_a_fault_in_each_place(
    cli: Cli, unread: Callable[[Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "repositories"
    for name in ("good", "noread", "lost+found", "group/broken", "group/nolink", "worktree"):
        (folder / name).mkdir(parents=True)
    Repo(folder / "good" / "repo").commit("first", a="1\n")
    for name in ("noread", "lost+found"):
        unread(folder / name)
    (folder / "worktree" / ".git").write_text("gitdir: /nowhere/.git/worktrees/x\n")
    (folder / "group" / "broken" / ".git").write_text("gitdir: /nowhere/.git/worktrees/y\n")
    (folder / "group" / "nolink" / ".git").symlink_to("/nowhere")
    (folder / "state").symlink_to(tmp_path / "state")
    given = {"APPLIANCE_LOCAL_REPOSITORIES": str(folder), "APPLIANCE_REPOSITORIES": "", "GITHUB_TOKEN": ""}
    names = [str(folder / name) for name in ("group/broken", "group/nolink", "noread", "state", "worktree")]
    done = cli("cycle", **given)
    assert done.exit_code == 1
    assert f"{names[0]} cannot be read" in done.stderr
    assert "; and 4 more (`docker logs` has all). Next: " in done.stderr.splitlines()[-1]
    health = json.loads(cli("status", "--json", **given).stdout)["health"]
    assert (health["state"], health["cause"]) == ("unhealthy", "forge-refused")
    assert "; and 4 more (`docker logs` has all). Next: " in health["message"]
    places = {"APPLIANCE_STATE_DIR": str(tmp_path / "state"), "APPLIANCE_RUN_DIR": str(tmp_path / "run")}
    with wiring.appliance(load(given | places, dotenv=None)) as parts:
        lines = list(doctor_forge.check(parts))
    assert sorted(line.subject for line in lines if line.state == "fault") == names
    assert [line.sentence for line in lines if line.state == "ok"] == [f"1 repository in {folder}."]
    assert all(line.remedy.endswith(".") for line in lines if line.state == "fault")
    done = cli("review", f"{folder}/noread#feature", **given)
    assert f"{folder}/noread cannot be read: " in one_line(done)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ([""], 2, "TARGET is empty. Next: write it as owner/name#12"),
        ([" "], 2, "TARGET is empty"),
        (["nonsense"], 2, "no such pull request or path"),
        (["/nowhere"], 2, "no such pull request or path"),
        (["{repo}", "--base", "nope"], 2, "has no commit nope"),
        (["{repo}", "--base", "--upload-pack=x"], 2, "has no commit"),
        (["{repo}", "--head", "$(touch x)"], 2, "has no commit"),
        (["{repo}", "--base", "main", "--head", ""], 2, "--head is empty. Next: name a branch"),
        (["{repo}", "--base", " "], 2, "--base is empty. Next: name a branch"),
        (["octo/app#1", "--base", ""], 2, "--base is empty"),
        (["{repo}#feature", "--head", "x"], 2, "leave out --head"),
        (["{repo}#nope"], 2, "names no branch of a repository here. Next: write it as path#branch"),
        (["{repo}#feature", "--base", "nope"], 2, "has no branch nope. Next: name one of its branches by --base."),
        (["{repo}", "--base", "main", "--post"], 2, "--post"),
        (["octo/app#1", "--base", "main"], 2, "--base and --head go with a path"),
        (["octo/app#99"], 1, "forge-not-found: "),
        (["octo/app#99"], 1, "Next: check the number, the name in APPLIANCE_REPOSITORIES and"),
        (["octo/gone#1"], 1, "forge-not-found: "),
        (["https://other.example/octo/app/pull/1"], 2, "is on other.example"),
    ],
)
def test_what_cannot_be_reviewed_is_one_line(args: list[str], code: int, said: str, cli: Cli, repo: Repo) -> None:
    done = cli("review", *(arg.replace("{repo}", str(repo.path)) for arg in args))
    assert done.exit_code == code, done.output
    assert said in one_line(done)


def test_a_path_without_a_default_branch_or_a_repository(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert cli("review", str(tmp_path / "plain")).exit_code in (1, 2)
    odd = Repo(tmp_path / "odd")
    odd.commit("x", a="1")
    odd.git("branch", "-m", "trunk")
    done = cli("review", str(odd.path))
    assert (done.exit_code, "neither main nor master" in one_line(done)) == (2, True)


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ({"status": 401}, "forge-login"),
        ({"status": 500, "times": 99}, "forge-unreachable"),
        ({"status": 200, "truncate": True, "times": 99}, "forge-unreachable"),
    ],
    ids=str,
)
def test_what_the_forge_refuses_is_one_line(how: dict[str, Any], cause: str, cli: Cli, fake_github: FakeGitHub) -> None:
    fake_github.fail(path="/pulls/1", **how)
    done = cli("review", f"{APP}#1")
    assert done.exit_code == 1
    assert one_line(done).startswith(f"{cause}: ")


# ---- a full disk

FULL = OSError(28, "No space left on device")
FULL_DATABASE = OperationalError("UPDATE", {}, Exception("database or disk is full"))
FULL_GIT = Completed(
    ("git",), 128, b"", b"error: failed to write new configuration file /x/.git/config.lock", 1.0, False
)


def fails(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("command", "where", "error"),
    [
        (["review", f"{APP}#1"], "appliance.commands.find", FULL_DATABASE),
        (["retry", f"{APP}#1"], "appliance.store.Store.states", FULL_DATABASE),
        (["status"], "appliance.store.Store.states", FULL),
        (["rehearse"], "appliance.sample.make", error_of(FULL_GIT, "init")),
        (["login"], "appliance.login_made.device_login", FULL),
        (["login"], "appliance.login_made.device_login", NoLogin("Codex could not log in: No space left on device.")),
    ],
)
def test_a_full_disk_is_the_same_cause_in_every_command(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: list[str], where: str, error: Exception
) -> None:
    monkeypatch.setattr(where, fails(error))
    done = cli(*command)
    assert done.exit_code == 1
    assert one_line(done).startswith("disk-full: ")


def test_a_full_state_volume_is_no_fault_of_the_sandbox(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.selftest.ground", lambda: None)
    monkeypatch.setattr("appliance.workdir.WorkDirs.new", fails(FULL))
    monkeypatch.setattr("appliance.ladder.prepared", fails(FULL))
    done = cli("selftest")
    assert done.exit_code == 1
    assert "disk-full: The disk is full. Next: free disk space" in done.stderr


# ---- rehearse


def test_a_rehearsal_finds_the_planted_defect_or_fails(cli: Cli, script: Script) -> None:
    script.ending = lambda pull: reviewed(pull, replace(found(1), path=DEFECT_PATH))
    done = cli("rehearse")
    assert done.exit_code == 0
    assert "The chain works" in done.stdout
    assert json.loads(cli("rehearse", "--format", "json").stdout)["findings"]
    script.ending = lambda pull: reviewed(pull, found(1))
    done = cli("rehearse")
    assert done.exit_code == 1
    assert "the planted defect was not found" in one_line(done)
    assert set(script.rehearsed) == {True}


# ---- the state volume


def test_a_status_that_cannot_be_known_is_not_told_as_a_fact(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is overwritten while the loop runs: what a passing state has is no status."""
    cli("cycle")
    assert json.loads(cli("status", "--json").stdout)["health"]["state"] == "healthy"
    monkeypatch.undo()
    monkeypatch.setattr("os.getuid", lambda: 10001)
    for path in (tmp_path / "state").glob("appliance.db*"):
        path.unlink()
    (tmp_path / "state" / "appliance.db").write_bytes(b"garbage" * 1000)
    done = cli("status", "--json")
    told = json.loads(done.stdout)
    assert (done.exit_code, told["health"]["state"], told["health"]["cause"]) == (0, "unhealthy", "state")
    assert "The database is damaged" in told["health"]["message"] and "Next: " in told["health"]["message"]
    assert (told["cycle"], told["pulls"]) == ({"last_ended": None, "next": None, "failed": True}, [])
    assert (told["tokens"]["used"], "limit" in told["tokens"], "day" in told["tokens"]) == (None, True, True)
    assert "are not shown" in done.stderr
    done = cli("status")
    assert done.stdout.startswith("unhealthy: state: The database is damaged")
    assert "never" not in done.stdout and "tokens used" not in done.stdout and "no pull requests" not in done.stdout
    assert "are not shown" in done.stderr


def test_a_state_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    for command in (["retry", "x"], ["review", "x"], ["rehearse"]):
        done = program(*command, APPLIANCE_STATE_DIR=str(tmp_path / "state"), APPLIANCE_RUN_DIR=str(tmp_path / "run"))
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1), done.stderr
        assert "Next: " in done.stderr


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    """`appliance settings | head -1`."""
    script = f"{sys.executable} -m appliance.cli settings | true"
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(appliance.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert "Traceback" not in done.stderr


# ---- what nobody has committed


def test_uncommitted_changes_and_patches_are_reviewed(
    cli: Cli, script: Script, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Pull] = []

    def note(pull: Pull) -> Ending:
        asked.append(pull)
        return reviewed(pull, found(2))

    script.ending = note
    repo.write("new.py", "print(3)\n")
    done = cli("review", str(repo.path), "--uncommitted", "--format", "json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["head_sha"] == asked[0].head_sha
    assert asked[0].base_sha == repo.git("rev-parse", "HEAD")
    patch = repo.path.parent / "patch"
    patch.write_text(repo.git("diff", "main", "feature") + "\n")
    repo.git("add", "new.py")
    done = cli("review", str(repo.path), "--patch", str(patch), "--base", "main", "--fail-on", "P2")
    assert done.exit_code == 3, done.stderr
    assert asked[1].base_sha == repo.git("rev-parse", "main")
    for args in (["--uncommitted", "--post"], ["--uncommitted", "--patch", str(patch)], ["--patch", os.devnull]):
        done = cli("review", str(repo.path), *args)
        assert done.exit_code == 2, args
        one_line(done)
    assert cli("review", str(repo.path.parent), "--uncommitted").exit_code == 2
    assert cli("review", f"{APP}#1", "--uncommitted").exit_code == 2


def test_quiet_tells_no_progress_and_a_job_obeys_none(cli: Cli, script: Script) -> None:
    assert cli("review", f"{APP}#1", "--quiet").stderr == ""
    assert "… self-test" in cli("review", f"{APP}#1", "--format", "github").stderr


# ---- looking back


def test_the_history_has_what_counted_and_what_did_not_and_a_review_is_shown_again(cli: Cli, script: Script) -> None:
    assert cli("history").stdout.strip() == "no reviews yet"
    script.ending = lambda pull: failed(Outcome.SANDBOX)
    assert cli("review", f"{APP}#1", "--post").exit_code == 1
    script.ending = lambda pull: reviewed(pull, found(1), verdict="incorrect")
    assert cli("review", f"{APP}#1", "--post").exit_code == 0
    rows = json.loads(cli("history", "--json").stdout)["history"]
    assert [(row["outcome"], row["counts"], row["findings"]) for row in rows] == [
        ("reviewed", True, 1),
        ("sandbox", False, None),
    ]
    assert set(rows[0]) == {
        "at", "target", "head_sha", "review", "outcome", "reason", "counts", "findings", "tokens", "seconds",
        "comment_url", "dismissed",
    }  # fmt: skip
    assert len(json.loads(cli("history", f"{APP.upper()}#1", "--limit", "1", "--json").stdout)["history"]) == 1
    said = cli("history").stdout
    assert "1 blocking finding (P1)" in said and "sandbox" in said
    number = str(rows[0]["review"])
    assert json.loads(cli("show", number, "--format", "json").stdout)["findings"][0]["title"] == "Off by one"
    assert "Off by one" in cli("show", number).stdout
    assert cli("show", number, "--format", "sarif", "--fail-on", "P1").exit_code == 3
    huge = "9" * 24  # more than a database holds, and than a pull request's number can be
    refused = [["show", "99"], ["history", "octo/other#9"], ["show", "x"], ["show", huge]]
    for args in (*refused, ["history", "--limit", huge], ["history", f"{APP}#{huge}"], ["review", f"{APP}#{huge}"]):
        done = cli(*args)
        assert done.exit_code == 2
        one_line(done)


def test_who_dismissed_a_finding_and_why_is_shown(cli: Cli, script: Script, tmp_path: Path) -> None:
    told = EarlierFinding("", "f1", 1, "app.py", "Off by one", "a" * 40, "dismissed", reason="le\x1bgacy", who="alice")

    def ending(pull: Pull) -> Ending:
        done = reviewed(pull)
        assert done.review
        return replace(done, review=replace(done.review, earlier=(told,)))

    script.ending = ending
    assert cli("review", f"{APP}#1", "--post").exit_code == 0
    store = open_store(tmp_path / "state" / "appliance.db")
    finding = replace(found(1), fingerprint="f1")
    known = Known(finding, "dismissed", "a" * 40, reason=told.reason, who="alice")
    store.decide(f"{APP}#1", Decided(known, "T", 7))
    store.close()
    one = {"path": "app.py", "title": "Off by one", "who": "alice", "reason": "le\x1bgacy"}
    [row] = json.loads(cli("history", "--json").stdout)["history"]
    [pull] = json.loads(cli("status", "--json").stdout)["pulls"]
    assert (row["dismissed"], pull["dismissed"]) == ([one], [one])
    assert (row["reason"], row["findings"]) == ("no blocking findings (1 dismissed)", 0)
    for shown in (cli("history"), cli("status")):
        assert "Off by one: dismissed by alice: le\ufffdgacy" in shown.stdout
    said = cli("show", str(row["review"])).stdout
    assert "Earlier: dismissed by alice: [P1] Off by one (app.py): le\ufffdgacy" in said
    assert json.loads(cli("show", str(row["review"]), "--format", "json").stdout)["earlier"][0]["who"] == "alice"


def test_a_review_that_only_the_forge_has_is_said_to_be_one(cli: Cli, tmp_path: Path) -> None:
    assert cli("history").exit_code == 0
    store = open_store(tmp_path / "state" / "appliance.db")
    pull = Pull(f"{APP}#1", APP, 1, "a" * 40, "main", "b" * 40)
    identity = Identity("a" * 40, "main", "b" * 40, "b" * 40, "")
    store.learn(pull, identity, Gate("success", "no blocking findings"), "7", "https://forge/c/7")
    store.close()
    row = json.loads(cli("history", "--json").stdout)["history"][0]
    assert row["findings"] is None and row["comment_url"] == "https://forge/c/7"
    done = cli("show", str(row["review"]), "--format", "sarif")
    assert done.exit_code == 1 and not done.stdout
    assert "https://forge/c/7" in one_line(done)
