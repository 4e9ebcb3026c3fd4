"""The documentation is true: what the code has stands in it, what it links to is there, its JSON is the contract's."""

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote

import click
import pytest

from appliance import cli, settings
from appliance.core import battery, catalogue, doctor, verdict
from appliance.core.faults import Fault
from appliance.core.findings import (
    Configuration,
    Coverage,
    Evidence,
    Finding,
    InlineAnchor,
    NotSeen,
    Result,
    Review,
    Usage,
    Verdict,
)
from appliance.core.outcomes import Outcome
from appliance.core.report import as_json
from appliance.selftest import Report, Step

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text(encoding="utf-8")
PAGES = {path: path.read_text(encoding="utf-8") for path in [PROJECT / "README.md", *(PROJECT / "docs").glob("*.md")]}
FAULTS = PAGES[PROJECT / "docs" / "faults.md"]
JSON = PAGES[PROJECT / "docs" / "json.md"]
ALL = "\n".join(PAGES.values())


# --- what the code has


@pytest.mark.parametrize("name", settings.names().values())
def test_every_setting_is_in_the_readmes_table(name: str) -> None:
    assert re.search(rf"^\| `{name}` \|", README, re.MULTILINE)


def test_the_readmes_table_of_settings_has_no_other_and_the_real_defaults() -> None:
    section = README.partition("\n## Settings\n")[2].partition("\n## ")[0]
    told = dict(re.findall(r"^\| `([A-Z_]+)` \| (.*?) ?\| ", section, re.MULTILINE))
    effective = settings.effective(settings.load({}, dotenv=None))
    assert set(told) == set(effective)
    for name, default in told.items():
        if default not in {"GitHub's public API", "OpenAI's public API"}:
            assert default.strip("`") == effective[name], name


def commands() -> Iterator[tuple[str, click.Command]]:
    yield from cli.main.commands.items()


@pytest.mark.parametrize("name", sorted(cli.main.commands))
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"`appliance {name}" in README


def test_every_option_is_in_the_readme() -> None:
    options = {
        option
        for _, command in (("", cli.main), *commands())
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }
    assert {option for option in options if option not in README} == set()


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_is_in_the_readmes_table(outcome: Outcome) -> None:
    section = README.partition("\n## How attempts are counted\n")[2].partition("\n## ")[0]
    assert f"`{outcome.value}`" in section


def causes_in_code() -> set[str]:
    """Every cause that stands in the code as the first argument of what makes a fault, and those of the probe."""
    makers = {"Fault", "ForgeError", "GitError", "Entry", "Cause", "_Words", "_workstation", "named"}
    found = {entry.cause for entry in (*catalogue.CATALOGUE, catalogue.UNKNOWN)}
    for path in (PROJECT / "appliance").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name in makers and node.args:
                    either = node.args[0]
                    parts = (either.body, either.orelse) if isinstance(either, ast.IfExp) else (either,)
                    found |= {str(part.value) for part in parts if isinstance(part, ast.Constant)}
    found |= set(re.findall(r'unhealthy "([a-z]+):', (PROJECT / "docker" / "health-probe").read_text()))
    return found - {"superseded", "too-large", "malformed"}  # these are endings of an attempt, and no faults


def test_the_causes_are_found_in_the_code() -> None:
    assert {"login", "quota", "disk-full", "forge-not-found", "codex-start", "stale", "proc-masked"} <= causes_in_code()


@pytest.mark.parametrize("cause", sorted(causes_in_code()))
def test_every_cause_has_its_row_in_the_table_of_faults(cause: str) -> None:
    rows = [line.split(" | ")[0] for line in FAULTS.splitlines() if line.startswith("| ")]
    assert any(f"`{cause}`" in row for row in rows)


def test_the_readme_leads_to_every_cause_that_makes_a_person_act() -> None:
    section = README.partition("\n## Health, and what each cause means\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z-]+)(?:-…)?`", section))
    assert named - {"unhealthy", "healthy", "starting"} - {"health-probe"}
    for cause in (
        "login",
        "model-refused",
        "forge-login",
        "proc-masked",
        "disk-full",
        "state",
        "settings",
        "stale",
        "quota",
    ):
        assert cause in named


def gates() -> Iterator[verdict.Gate]:
    """Each text that a gate can have, made by the functions that make it."""
    finding = Finding("t", "b", 1, 0.9, "a.py", 1, 1)
    note = Finding("t", "b", 2, 0.9, "a.py", 1, 1)
    worst = Finding("t", "b", 0, 0.9, "a.py", 1, 1)
    looked = Evidence(commands=("git diff",), files_changed=1)

    def reviewed(said: Verdict, *found: Finding, evidence: Evidence = looked, nothing: bool = False) -> verdict.Gate:
        result = Result(said, "", "", "", found)
        review = Review("o/n#1", "a", "main", "b", "c", result, evidence=evidence, nothing_to_review=nothing)
        return verdict.gate_of(review, 1)

    yield verdict.WAITING
    yield verdict.running(1, 3)
    yield verdict.beside("owner/name#13")
    yield verdict.usage_limit("18:00 UTC")
    yield verdict.day_budget("00:00 UTC")
    yield verdict.outside_schedule("08:00 UTC")
    yield verdict.paused("alice")
    yield verdict.quiet("18:00 UTC")
    yield verdict.author_limit(10, "00:00 UTC")
    yield verdict.checks_pending(["build", "lint"])
    yield verdict.checks_failed(["build"])
    yield verdict.checks_unreported()
    yield verdict.checks_unknown()
    yield verdict.given_up(1, "token budget of the review (10,000,000 tokens) is used up")
    yield verdict.given_up(3, "timeout")
    yield verdict.given_up(1, "…")
    yield reviewed("correct")
    yield reviewed("correct", note, note)
    yield reviewed("incorrect", finding)
    yield reviewed("incorrect", worst, finding, finding)
    yield reviewed("incorrect")
    yield reviewed("inconclusive")
    yield reviewed("inconclusive", nothing=True)
    yield reviewed("correct", evidence=Evidence())
    for trimmed in (1, 2):
        seen = Coverage(3, (NotSeen("a", "trimmed", "too large"),) * trimmed)
        result = Result("correct", "", "", "")
        yield verdict.gate_of(Review("o/n#1", "a", "main", "b", "c", result, evidence=looked, coverage=seen), 1)


@pytest.mark.parametrize("gate", list(gates()), ids=lambda gate: gate.description)
def test_every_text_of_the_gate_is_in_the_readme_beside_its_state(gate: verdict.Gate) -> None:
    rows = [line for line in README.splitlines() if line.startswith(f"| {gate.state} |")]
    assert any(f"`{gate.description}`" in row for row in rows)


ATTACKS = {*battery.COMMON, *battery.ATTACKS["jail"], *battery.SLOW["jail"], *battery.SLOW["sandbox"], "listeners"}


def test_the_table_of_attacks_has_each_and_no_other() -> None:
    section = PAGES[PROJECT / "docs" / "security.md"].partition("\n| attack |")[2].partition("\n\n")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`([a-z-]+)`", "".join(rows))) == ATTACKS


# --- what it says


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL)
    yield from re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        target, _, anchor = link.partition("#")
        if "://" in target:
            continue
        path = (page.parent / unquote(target)).resolve() if target else page
        assert path.exists(), link
        if anchor:
            heads = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", head.casefold()).replace(" ", "-") for head in heads}, link


def test_files_that_are_named_are_there() -> None:
    rooms = "appliance|docker|tests|docs|core|git|forge|migrations"
    named = re.findall(rf"`((?:{rooms})/[\w./-]*(?:\.(?:py|md|json|yaml)|/|(?<=docker/)\w+))`", ALL)
    assert named
    for name in named:
        assert (PROJECT / name).exists() or (PROJECT / "appliance" / name).exists(), name


def test_every_module_has_its_place_in_the_table_of_rooms() -> None:
    rooms = PAGES[PROJECT / "docs" / "architecture.md"].partition("\n## The rooms\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"[`/](\w+\.py)`", "\n".join(line for line in rooms.splitlines() if line.startswith("|"))))
    modules = [*(PROJECT / "appliance").glob("*.py"), *(PROJECT / "appliance" / "core").glob("*.py")]
    assert {path.name for path in modules if path.name != "__init__.py"} == named


def test_lines_are_readable() -> None:
    for page, text in PAGES.items():
        fenced = False
        for line in text.splitlines():
            fenced ^= line.startswith("```")
            if not fenced and not line.startswith(("|", "    ")):
                assert len(line) <= 120, (page.name, line)


def example(name: str) -> Any:
    found = re.search(rf"<!-- example: {name} -->\n```json\n(.*?)```", JSON, re.DOTALL)
    assert found, name
    return json.loads(found[1])


def keys(value: Any) -> Any:
    """The keys of all objects, with lists as what their elements have."""
    if isinstance(value, dict):
        return {key: keys(each) for key, each in value.items()}
    if isinstance(value, list):
        return [keys(value[0])] if value else []
    return type(value).__name__


def test_the_example_of_the_self_test_has_the_keys_of_the_contract() -> None:
    told = example("selftest")
    assert set(told) == {"ok", "seconds", "steps", "fault", "warnings"}
    assert all(set(step) == {"name", "ok", "seconds"} for step in told["steps"])
    assert set(told["fault"]) == {*("cause", "sentence", "remedy", "symptom", "facts", "also", "unsupported", "page")}
    entry = next(entry for entry in catalogue.CATALOGUE if entry.cause == told["fault"]["cause"])
    assert (told["fault"]["sentence"], told["fault"]["remedy"]) == (entry.sentence, entry.remedy)
    good = Report(True, 0.2, (Step("user", True, 0.1),), None).to_json()
    assert set(good) == set(told)
    assert keys(good["steps"]) == keys(told["steps"])


def test_the_example_of_status_has_the_keys_of_the_contract() -> None:
    told = example("status")
    assert set(told) == {"health", "cycle", "tokens", "pulls", "letters"}
    for letter in told["letters"]:
        assert set(letter) == {"target", "kind", "tries", "next_try", "cause", "reason", "remedy", "said"}
    assert set(told["tokens"]) == {"day", "used", "limit"}
    assert set(told["health"]) == {"state", "cause", "message", "since"}
    assert set(told["cycle"]) == {"last_ended", "next", "failed"}
    for pull in told["pulls"]:
        assert set(pull) == {"target", "head", "state", "attempts", "max_attempts", "next_try", "reason", "dismissed"}
        assert pull["state"] in {"waiting", "reviewing", "reviewed", "given-up", "skipped"}


def test_the_example_of_a_review_is_what_the_code_prints() -> None:
    told = example("review")
    contract = {"target", "head_sha", "base_sha", "merge_base", "verdict", "gate", "findings", "summary", "reasoning"}
    contract |= {"limits", "usage", "seconds"}
    assert contract <= set(told)
    result = Result(
        "incorrect", "s", "r", "l", (Finding("t", "b", 1, 0.9, "p", 1, 1, anchor=InlineAnchor("p", 1, "RIGHT")),)
    )
    review = Review("t", "h", "main", "b", "m", result, Usage(), Evidence(("git diff",), (), 1), 0.5, "model")
    review = replace(review, configuration=Configuration(block_priority=1))
    assert keys(as_json(review, verdict.gate_of(review, 1))) == keys(told)
    assert set(told["findings"][0]) == {field.name for field in fields(Finding)}
    assert told["verdict"] in get_args(Verdict)


def test_the_example_of_the_doctor_is_what_the_code_prints() -> None:
    told = example("doctor")
    fault = Fault("forge-permission", "", "")
    printed = doctor.to_json([doctor.fine("sandbox", ""), doctor.of_fault("status", fault, "octo/shop")])
    assert keys(told) == keys(printed)
    required = doctor.found("required", "gate-not-required", "octo/shop", branch="main", context="codex-review")
    assert told["lines"][2] == doctor.to_json([required])["lines"][0]
    assert {line["state"] for line in told["lines"]} == {"ok", "warning", "fault"}
    assert told["ok"] is False


def test_the_command_for_the_host_is_one_that_the_package_has() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "pipx run --spec '.[host]' appliance doctor" in README
    assert any(one.startswith("docker>") for one in project["optional-dependencies"]["host"])
    assert project["scripts"]["appliance"] == "appliance.cli:main"


def test_every_check_of_the_doctor_is_in_the_table_of_its_fields() -> None:
    made = set()
    for path in [*(PROJECT / "appliance/doctor").glob("*.py"), *(PROJECT / "appliance/core").glob("doctor_*.py")]:
        text = path.read_text(encoding="utf-8")
        made |= set(re.findall(r'(?:fine|found|guarded|of_fault)\(\s*"([a-z-]+)"', text))
    row = next(line for line in JSON.splitlines() if line.startswith("| `lines[].check`"))
    assert {name for name in made if f"`{name}`" not in row} == set()


@pytest.mark.parametrize("name", ["selftest", "doctor", "status", "review"])
def test_every_field_of_the_examples_is_explained(name: str) -> None:
    def flat(value: Any, prefix: str = "") -> Iterator[str]:
        if isinstance(value, dict) and prefix not in ("fault.facts", "usage"):
            for key, each in value.items():
                yield from flat(each, f"{prefix}.{key}" if prefix else key)
        elif isinstance(value, list) and value:
            yield from flat(value[0], f"{prefix}[]")
        else:
            yield prefix

    explained = " ".join(line.split(" | ")[0] for line in JSON.splitlines() if line.startswith("| `"))
    assert {field for field in flat(example(name)) if f"`{field}`" not in explained} == set()


# --- what must not be in it


def test_lock_files_name_no_index() -> None:
    """Where packages come from is for each machine to say: the locks hold versions and hashes alone."""
    for path in PROJECT.glob("requirements*.lock"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert "://" not in line, f"{path.name}: {line}"
            assert not line.startswith(("--index", "--extra-index", "--find-links", "-i ", "-f ")), line


def test_no_file_names_the_host_of_a_package_index() -> None:
    hosts = [
        ".".join(parts) for parts in (("pypi", "org"), ("files", "pythonhosted", "org"), ("registry", "npmjs", "org"))
    ]
    for path in tracked():
        text = path.read_bytes()
        assert not [host for host in hosts if host.encode() in text], path


def tracked() -> Iterator[Path]:
    """The files of the project; without git (an archive of it) all but the usual by-products."""
    by_products = {".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache", "__pycache__", "build"}
    for path in PROJECT.rglob("*"):
        if path.is_file() and not by_products & set(path.relative_to(PROJECT).parts) and path.name != ".env":
            yield path


def test_the_changelog_has_this_version() -> None:
    from appliance import __version__

    changelog = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)
