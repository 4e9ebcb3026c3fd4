"""A review in each form: what other programs read of it (SARIF's schema, GitHub's runner), and what a person sees."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from appliance.cli.printing import exit_by, print_review
from appliance.core.excerpt import excerpt
from appliance.core.findings import Coverage, Evidence, Finding, NotSeen, Result, Review, Usage
from appliance.core.report import as_json
from appliance.core.sarif import sarif
from appliance.core.verdict import Gate, gate_of
from appliance.core.workflow import harmless, workflow

PROJECT = Path(__file__).parent.parent
# One pattern in it (of languages, which we do not give) is no regular expression; this is that of the errata.
NO_PATTERN, PATTERN = "^[a-zA-Z]{2}|^[a-zA-Z]{2}-[a-zA-Z]{2}]?$", "^[a-zA-Z]{2}(-[a-zA-Z]{2})?$"
SARIF = json.loads((PROJECT / "tests/data/sarif-2.1.0-rtm.5.json").read_text().replace(NO_PATTERN, PATTERN))
OURS = json.loads((PROJECT / "docs/review.schema.json").read_text())
HEAD, BASE = "a" * 40, "b" * 40
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"

ODD = [
    "a.py",
    "with space/ü/ünï.py",
    "a:b/c%20d#e?f.py",
    "back\\slash.py",
    "line\nend,comma:colon.py",
    "/etc/passwd",
    "../../outside.py",
    "//host/share",
    "bad\\xff.py",
    "-dash",
    "<script>.js",
]


def finding(path: str = "app.py", **what: Any) -> Finding:
    return replace(Finding("Off by one", "The last one is left out.", 1, 0.9, path, 2, 3), **what)


def review(*findings: Finding, **what: Any) -> Review:
    made = Review(
        "octo/app#1",
        HEAD,
        "main",
        BASE,
        BASE,
        Result("incorrect" if findings else "correct", "It adds.", "It is wrong.", "Nothing.", findings),
        Usage(1000, 10, 20, 5),
        Evidence(("git diff",), (), 1),
        12.3,
        "gpt",
    )
    return replace(made, **what)


def log(made: Review, repository: str = "https://github.com/octo/app") -> Any:
    found = sarif(made, gate_of(made, 1), 1, version="1.2.3", repository=repository)
    jsonschema_rs.Draft4Validator(SARIF).validate(found)
    return found


# ---- SARIF


def test_the_schema_refuses_what_is_no_sarif() -> None:
    told = log(review(finding()))
    told["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.Draft4Validator(SARIF).validate(told)


@pytest.mark.parametrize("path", ODD)
def test_every_path_is_a_reference_below_the_root(path: str) -> None:
    run = log(review(finding(path)))["runs"][0]
    location = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location["uriBaseId"] == "%SRCROOT%"
    assert re.fullmatch(r"(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+", location["uri"])
    assert not location["uri"].startswith("/") and ".." not in location["uri"].split("/")
    assert run["artifacts"][location["index"]]["location"]["uri"] == location["uri"]


def test_rules_levels_and_fingerprints() -> None:
    several = [finding(priority=n, fingerprint=f"f{n}", title=f"T{n}") for n in range(4)]
    run = log(review(*several, finding(priority=0, advisory=True)))["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == ["codex-review/P0", "codex-review/P1", "codex-review/P2", "codex-review/P3"]
    assert [one["level"] for one in run["results"]] == ["error", "error", "warning", "note", "note"]
    assert [rules[one["ruleIndex"]] == one["ruleId"] for one in run["results"]] == [True] * 5
    assert [one.get("partialFingerprints") for one in run["results"]] == [
        *({"reviewAppliance/v1": f"f{n}"} for n in range(4)),
        None,
    ]
    assert [one["properties"]["blocks"] for one in run["results"]] == [True, True, False, False, False]
    assert run["versionControlProvenance"][0]["revisionId"] == HEAD
    assert run["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_a_suggestion_is_a_fix_of_whole_lines() -> None:
    changed, taken_out = log(review(finding(suggestion="x = 1\n"), finding(suggestion="")))["runs"][0]["results"]
    [replacement] = changed["fixes"][0]["artifactChanges"][0]["replacements"]
    assert replacement == {"deletedRegion": {"startLine": 2, "endLine": 3}, "insertedContent": {"text": "x = 1"}}
    [replacement] = taken_out["fixes"][0]["artifactChanges"][0]["replacements"]
    assert replacement["deletedRegion"] == {"startLine": 2, "startColumn": 1, "endLine": 4, "endColumn": 1}


def test_deleted_lines_are_no_lines_of_the_head() -> None:
    [result] = log(review(finding(side="LEFT", suggestion="x")))["runs"][0]["results"]
    assert "region" not in result["locations"][0]["physicalLocation"] and "fixes" not in result
    assert "deleted lines 2 to 3" in result["message"]["text"]


@pytest.mark.parametrize(
    "made",
    [
        review(result=Result("inconclusive", "s", "r", "l")),
        review(evidence=Evidence()),
        review(nothing_to_review=True),
        review(evidence=Evidence(("ls",), (), 2, 1)),
    ],
)
def test_what_judges_nothing_is_no_clean_run(made: Review) -> None:
    run = log(made)["runs"][0]
    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"] is False
    assert run["invocations"][0]["toolExecutionNotifications"][0]["level"] == "error"


def test_what_was_not_seen_is_named() -> None:
    seen = Coverage(1, (NotSeen("big.py", "trimmed", "too long"),), (NotSeen("a.bin", "binary", "binary"),))
    notes = log(review(coverage=seen))["runs"][0]["invocations"][0]["toolExecutionNotifications"]
    assert [note["message"]["text"] for note in notes] == [
        "1 changed file is too large to be reviewed whole; exclude or split",
        "Not reviewed: big.py: too long",
        "Not reviewed: a.bin: binary",
    ]


@pytest.mark.parametrize("repository", ["", "/a/b c", "https://x/y?z=[", "http://[", "ssh://x", "git@h:x"])
def test_any_repository(repository: str) -> None:
    run = log(review(finding()), repository)["runs"][0]
    assert ("versionControlProvenance" in run) == repository.startswith(("/", "https"))


def test_texts_act_on_no_page() -> None:
    [result] = log(review(finding(title="[x](http://evil)", body="<img src=x> @octo [a](1) \x1b[2J")))["runs"][0][
        "results"
    ]
    for text in result["message"].values():
        assert "](" not in text and "@octo" not in text and "<img" not in text and "\x1b" not in text


# ---- GitHub's workflow commands


def unescaped(line: str) -> tuple[str, dict[str, str], str]:
    """As GitHub's runner reads it (ActionCommand.cs)."""
    head, _, data = line.removeprefix("::").partition("::")
    name, _, rest = head.partition(" ")
    table = {"%25": "%", "%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}

    def plain(text: str) -> str:
        return re.sub("%25|%0D|%0A|%3A|%2C", lambda found: table[found.group()], text)

    return name, {key: plain(value) for key, _, value in (one.partition("=") for one in rest.split(","))}, plain(data)


@pytest.mark.parametrize("path", ODD)
def test_each_finding_is_one_command_that_the_runner_reads_back(path: str) -> None:
    made = review(finding(path, title="100%: a, b::c", body="one\ntwo\r\n::error::three ##[add-mask]x"))
    lines = workflow(made, gate_of(made, 1)).split("\n")
    assert len(lines) == 2
    name, properties, message = unescaped(lines[0])
    assert name == "error"
    assert properties == {"file": path, "line": "2", "endLine": "3", "title": "[P1] 100%: a, b::c"}
    assert message == "100%: a, b::c\n\none\ntwo\n::error::three ## [add-mask]x"
    assert unescaped(lines[1]) == ("error", {"title": "Codex review"}, "1 blocking finding (P1)")


def test_levels_follow_the_priorities_and_silence_is_never_all() -> None:
    made = review(*(finding(priority=n) for n in range(4)), finding(priority=0, advisory=True), finding(side="LEFT"))
    read = [unescaped(line) for line in workflow(made, gate_of(made, 1)).split("\n")]
    assert [name for name, _, _ in read] == ["error", "error", "warning", "notice", "notice", "error", "error"]
    assert "line" not in read[5][1]
    none = review(result=Result("inconclusive", "s", "r", "l"))
    assert workflow(none, gate_of(none, 1)) == "::error title=Codex review::the review is inconclusive"
    assert workflow(review(), gate_of(review(), 1)).startswith("::notice ")


@pytest.mark.parametrize("line", ["::add-mask::x", "a ##[stop-commands]x", "\x1b[2J::error::x", "  ::error::x"])
def test_progress_is_no_command(line: str) -> None:
    assert "::" not in harmless(line) and "##[" not in harmless(line) and "\x1b" not in harmless(line)


# ---- JSON


def test_the_json_is_what_its_schema_says_and_the_schema_has_every_name() -> None:
    made = review(finding(), finding(side="LEFT", suggestion="x"))
    told = as_json(made, gate_of(made, 1))
    jsonschema_rs.Draft202012Validator(OURS).validate(told)

    def same(value: Any, schema: Any, where: str) -> None:
        if isinstance(value, dict) and "properties" in schema:
            assert value.keys() == schema["properties"].keys(), where
            assert set(schema["required"]) <= value.keys(), where
            for name, each in value.items():
                same(each, schema["properties"][name], f"{where}.{name}")
        elif isinstance(value, list) and value and "items" in schema:
            same(value[0], schema["items"], f"{where}[]")

    same(told, OURS, "")
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.Draft202012Validator(OURS).validate(told | {"verdict": "fine"})


# ---- text


def printed(
    capsys: pytest.CaptureFixture[str],
    made: Review,
    form: str = "text",
    code: bytes | None = b"one\ntwo\nthree\nfour\n",
) -> str:
    print_review(
        made, gate_of(made, 1), form, block_priority=1, permalink=lambda *_: None, code=lambda _commit, _path: code
    )
    return capsys.readouterr().out


def test_text_shows_the_code_around_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(capsys, review(finding()))
    assert "[P1] Off by one" in said and "app.py:2-3 · blocks · confidence 0.90" in said
    assert "    1 one\n  > 2 two\n  > 3 three\n    4 four\n" in said
    assert "Codex review: 1 blocking finding (P1)" in said and "Verdict: incorrect" in said


@pytest.mark.parametrize("form", ["text", "markdown", "json", "sarif", "github"])
def test_no_form_says_a_secret_or_acts_on_a_terminal(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = f"\x1b[2J\x1b]0;x\x07 \u202e {SECRET} [bold]x[/bold]"
    made = review(finding(title=hostile, body=f"a\n\n{hostile}", path=f"a{hostile}", suggestion=hostile))
    made = replace(made, result=replace(made.result, summary=hostile, reasoning=hostile, limits=hostile))
    said = printed(capsys, replace(made, target=hostile), form, f"x\n{hostile}\ny\n".encode())
    assert SECRET not in said and "\x1b" not in said and "\u202e" not in said
    if form == "text":
        assert "[bold]" in said  # what is like markup is shown, not obeyed


def test_a_link_shows_where_it_leads(capsys: pytest.CaptureFixture[str]) -> None:
    assert "http://evil" in printed(capsys, review(finding(body="see [the docs](http://evil)")))


def test_lines_are_cut_at_the_width(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    said = printed(capsys, review(finding()), code=b"x" * 5000 + b"\n" + b"\ty" * 900 + b"\n" + b"z\n")
    assert max(map(len, said.splitlines())) <= 60
    assert "  > 2     y   y" in said


def test_a_secret_of_several_lines_leaves_no_code(capsys: pytest.CaptureFixture[str]) -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEowIBAAKCAQEA\n" * 3 + "-----END RSA PRIVATE KEY-----\n"
    said = printed(capsys, review(finding()), code=key.encode() + b"after\n")
    assert "MIIEowIBAAKCAQEA" not in said


@pytest.mark.parametrize(
    ("code", "first", "last", "numbers"),
    [
        (b"a\nb\nc", 1, 1, [1, 2, 3]),
        (b"a\nb\nc\n", 3, 9, [1, 2, 3]),
        (b"a\n", 2, 2, []),
        (b"", 1, 1, []),
        (b"a\0b\n", 1, 1, []),
        (b"x\n" * 100, 20, 60, [*range(17, 26), 0, *range(55, 64)]),
    ],
)
def test_an_excerpt(code: bytes, first: int, last: int, numbers: list[int]) -> None:
    assert [line.number for line in excerpt(code, first, last, 80)] == numbers


# ---- exit codes


@pytest.mark.parametrize(
    ("made", "fail_on", "code"),
    [
        (review(finding(priority=1)), None, 0),
        (review(finding(priority=1)), "P1", 3),
        (review(finding(priority=1)), "P0", 0),
        (review(result=Result("incorrect", "s", "r", "l")), "P0", 3),
        (review(result=Result("inconclusive", "s", "r", "l")), "P3", 4),
        (review(result=Result("inconclusive", "s", "r", "l")), None, 0),
        (review(nothing_to_review=True), "P1", 4),
        (review(), "P3", 0),
    ],
)
def test_fail_on_never_takes_what_nobody_judged_for_clean(made: Review, fail_on: str | None, code: int) -> None:
    try:
        exit_by(made, gate_of(made, 1), fail_on)
    except SystemExit as ended:
        assert ended.code == code
    else:
        assert code == 0


def test_a_gate_that_waits_is_no_judgement() -> None:
    with pytest.raises(SystemExit, match="4"):
        exit_by(review(), Gate("pending", "waiting"), "P1")
