"""`appliance gate-check`: no fault makes the gate lie; and the judge would see it if one did."""

import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from fake_github import FakeGitHub
from fake_github.clients import CONTEXT, Clock, MemoryEtags, forge_for
from model_failures import CASES, EXPECTED

from appliance import keeping, senders
from appliance.cli import main
from appliance.core.outcomes import RULES, Outcome, Rule
from appliance.core.verdict import Gate
from appliance.forge import ForgeError, github_checks
from appliance.forge.github import GitHubForge
from appliance.forge.github_limits import WritePace
from appliance.keeping import Keeper
from appliance.trials import github, oracle, origin, run
from appliance.trials.github import REPOSITORY, GitHub
from appliance.trials.model import ANSWERS, failures
from appliance.trials.oracle import COUNTS
from appliance.trials.row import Row
from appliance.trials.stage import WHAT_HAPPENS
from appliance.trials.table import rows

BROUGHT = github_checks.GitHubChecks._brought
ALL = rows(time.time())
GROUPS = {"outcome", "REPLAY", "model", "answer", "forge", "move", "command", "beside", "app"}
PLAIN = ("move", "command", "beside", "app")
FAST = [row for row in ALL if row.fast or (row.group in ("outcome", "REPLAY") and not row.kill)]
FAST += [row for row in ALL if row not in FAST and row.group in PLAIN and not row.kill and not row.faults]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> origin.Origin:
    return origin.make(tmp_path_factory.mktemp("trial") / "origin")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: a socket's has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="trial-") as name:
        yield Path(name)


def titled(title: str) -> Row:
    return next(row for row in ALL if row.title == title)


@pytest.mark.parametrize("row", FAST, ids=[row.title for row in FAST])
def test_no_fault_makes_the_gate_lie(row: Row, repository: origin.Origin, folder: Path) -> None:
    assert run.one(row, folder / "w", repository, real=False).wrong == ()


# ---- the judge can fail


def counts(title: str, repository: origin.Origin, folder: Path) -> set[str]:
    return {wrong.count for wrong in run.one(titled(title), folder / "w", repository, real=False).wrong}


def test_a_gate_that_always_says_success_is_seen(
    repository: origin.Origin, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "gate_of", lambda *_: Gate("success", "no blocking findings"))
    assert "false success" in counts("R40: P0", repository, folder)


def test_a_comment_that_is_not_looked_for_is_seen(
    repository: origin.Origin, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(senders, "_summary_in", lambda *_: None)
    assert "double post" in counts("R25: the comment is stored, then 502", repository, folder)


def test_a_sandbox_that_costs_an_attempt_is_seen(
    repository: origin.Origin, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RULES, Outcome.SANDBOX, Rule(counts=True, stops=True, unhealthy_after=1))
    assert "wrongly counted attempt" in counts("outcome:sandbox: dies during a review", repository, folder)


def test_a_result_that_is_dropped_is_seen(
    repository: origin.Origin, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Keeper, "_adopt", lambda *_: True)
    title = "outcome:reviewed: a clean change, killed before it is stored"
    assert "lost result" in counts(title, repository, folder)


def test_a_gate_that_is_never_set_is_seen(
    repository: origin.Origin, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GitHubForge, "set_gate", lambda *_: None)
    assert "stuck" in counts("R40: clean", repository, folder)


def test_a_check_run_that_lets_pass_what_blocks_is_seen(
    repository: origin.Origin, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(github_checks.CONCLUSIONS, "failure", "neutral")
    assert "false success" in counts("app:reviewed: with a finding that blocks", repository, folder)


def test_a_completed_check_run_that_is_taken_for_a_pending_one_is_seen(
    repository: origin.Origin, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github_checks, "_going_on", lambda newest, _: (newest["id"], newest["notes"]))
    monkeypatch.setattr(github_checks.GitHubChecks, "_brought", lambda *given: bool(BROUGHT(*given)) or True)
    assert "false success" in counts("app:rules: and now it blocks", repository, folder)


# ---- the table


def test_the_table_has_every_outcome_and_every_failure_of_the_model() -> None:
    sources = {row.source for row in ALL}
    assert {f"outcome:{outcome.value.replace(' ', '-')}" for outcome in Outcome} <= sources
    assert {f"model:{name}" for name in CASES} <= sources
    assert {f"answer:{name.replace(' ', '-')}" for name in ANSWERS} <= sources
    assert {row.group for row in ALL if row.fast} == {row.group for row in ALL} == GROUPS


def test_names_are_told_apart_and_the_readme_has_their_number() -> None:
    titles = [row.title for row in ALL]
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"`gate-check`, (\d+) faults", readme) == [str(len(titles))]
    assert len(set(titles)) == len(titles)


def test_what_happens_in_a_row_is_known() -> None:
    for row in ALL:
        assert {*row.before, *row.then, *row.asked} <= WHAT_HAPPENS, row.title
        assert {step for step in row.script if isinstance(step, str)} <= ANSWERS.keys(), row.title


def test_the_failures_of_the_model_are_those_of_the_tests() -> None:
    now = 1_800_000_000.0
    moments = re.compile(r'("resets_at": |"x-codex-primary-reset-at": ")\d+')
    same = moments.sub(rf"\g<1>{int(now) + 3600}", json.dumps(CASES))
    assert failures(now) == json.loads(same)


@pytest.mark.parametrize("name", EXPECTED)
def test_whether_a_failure_counts_is_what_its_outcome_says(name: str) -> None:
    row = next(row for row in ALL if row.source == f"model:{name}")
    assert bool(row.failed) == RULES[EXPECTED[name].outcome].counts


# ---- the command


def test_the_command_prints_the_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(main, ["gate-check", "--fast", "--only", "R40"])
    assert done.exit_code == 0, done.output
    last = done.output.splitlines()[-1]
    assert last == "4 faults: 0 false successes, 0 lost results, 0 double posts, 0 wrongly counted attempts"
    monkeypatch.setattr(keeping, "gate_of", lambda *_: Gate("success", "no blocking findings"))
    done = CliRunner().invoke(main, ["gate-check", "--fast", "--only", "R40: P0"])
    assert done.exit_code == 1
    assert "FAIL R40: P0" in done.output and 'again: appliance gate-check --only "R40: P0"' in done.output
    assert done.output.splitlines()[-1].startswith("1 faults: 1 false successes, ")
    done = CliRunner().invoke(main, ["gate-check", "--fast", "--json", "--only", "R40: P0"])
    told = json.loads(done.output.splitlines()[-1])
    assert (done.exit_code, told["ok"], told["false_successes"], told["real_codex"]) == (1, False, 1, False)
    assert told["failed"][0]["wrong"][0]["count"] in COUNTS


def test_the_command_lists_and_refuses_what_is_not_there() -> None:
    done = CliRunner().invoke(main, ["gate-check", "--list"])
    assert done.exit_code == 0
    assert "R25: the comment is stored, then 502" in done.output.splitlines()
    done = CliRunner().invoke(main, ["gate-check", "--only", "no such fault"])
    assert done.exit_code == 2 and "gate-check --list" in done.output


# ---- the small GitHub is one


@pytest.fixture(params=["fake", "trial"])
def forge(request: pytest.FixtureRequest, repository: origin.Origin) -> Iterator[GitHubForge]:
    """The client before the tests' fake, which others have proven, and before that of the trials."""
    clock = Clock()
    if request.param == "fake":
        with FakeGitHub() as fake:
            fake.add_repository(REPOSITORY, {"app.py": "1\n"})
            fake.add_pull(REPOSITORY, "feature-1", files={"app.py": "2\n"})
            for number in range(101):
                fake.add_comment(REPOSITORY, 1, f"Remark {number}.")
            made = forge_for(fake, REPOSITORY, clock=clock)
            yield made
            made.close()
        return
    counted = iter(range(1, 10_000))
    with GitHub(lambda: next(counted), clock) as trial:
        trial.state.pulls[1] = github.Pull(1, repository.head, "main", repository.main)
        for number in range(101):
            trial.state.pulls[1].comments.append(github.comment(trial, trial.state, f"Remark {number}.", "bob"))
        made = GitHubForge(
            api_url=trial.url,
            token="t" * 20,
            repositories=[REPOSITORY],
            context=CONTEXT,
            etags=MemoryEtags(),
            clock=clock,
            sleep=clock.sleep,
            pace=WritePace(),
        )
        yield made
        made.close()


def test_the_small_github_answers_as_the_tests_fake(forge: GitHubForge) -> None:
    [pull] = forge.pulls(REPOSITORY)
    now = forge.pull(REPOSITORY, 1)
    assert (now.target, now.base_ref, now.head_ref, now.open, now.draft) == (
        f"{REPOSITORY}#1",
        "main",
        "feature-1",
        True,
        False,
    )
    assert pull.key == now.key
    assert [comment.body for comment in forge.comments(pull)] == [f"Remark {number}." for number in range(101)]
    assert forge.comments(pull) == forge.comments(pull), "from the ETags"
    posted = forge.post_comment(pull, "Ours.")
    assert forge.comments(pull)[-1].body == "Ours." == posted.body
    edited = forge.edit_comment(pull, posted.id, "Ours, edited.")
    assert (edited.id, forge.comments(pull)[-1].body) == (posted.id, "Ours, edited.")
    assert forge.gate(pull) is None
    for gate in (Gate("pending", "waits"), Gate("success", "fine"), Gate("failure", "1 blocking finding (P1)")):
        forge.set_gate(pull, gate)
        assert forge.gate(pull) == gate
    assert forge.pull(REPOSITORY, 1).updated_at >= now.updated_at
    assert forge.base_tip(pull)
    causes = []
    for refused in (lambda: forge.pull(REPOSITORY, 9), lambda: forge.edit_comment(pull, "999999", "x")):
        with pytest.raises(ForgeError) as caught:
            refused()
        causes.append((caught.value.cause, caught.value.permanent))
    assert causes == [("forge-not-found", True)] * 2


def test_oracle_and_product_share_no_rule() -> None:
    """It would be blind to what it takes over."""
    taken = {
        name for name in vars(oracle) if getattr(vars(oracle)[name], "__module__", "").startswith("appliance.core")
    }
    assert taken == set()
