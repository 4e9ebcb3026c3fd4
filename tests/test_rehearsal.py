"""The rehearsal model: it looks before it answers, and finds the kinds of defect that it knows."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gitrepo import Repo
from jsonschema_rs import validator_for

from appliance import rehearsal
from appliance.core.earlier import History, Known
from appliance.core.findings import Finding
from appliance.core.prompt import review_prompt
from appliance.core.pulls import Pull
from appliance.core.result import SCHEMA, parse_result
from appliance.gate import Gate
from appliance.rehearsal import added_lines
from appliance.sample import BRANCH, DEFECT_PATH, make


@pytest.fixture
def model(tmp_path: Path) -> Iterator[httpx.Client]:
    """Reached as Codex reaches it: through the gate's socket."""
    with Gate(tmp_path / "g.sock", rehearsal.upstream()) as gate:
        transport = httpx.HTTPTransport(uds=str(gate.path))
        with httpx.Client(transport=transport, base_url="http://x") as client:
            yield client
    assert [answer.ended for answer in gate.answers] == ["completed"] * len(gate.answers)


def ask(model: httpx.Client, items: list[dict[str, Any]]) -> dict[str, Any]:
    """The item with which the model answers."""
    answer = model.post("/v1/responses", json={"input": items})
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    assert [event["type"] for event in events] == [
        "response.created",
        "response.output_item.done",
        "response.completed",
    ]
    assert events[2]["response"]["usage"]["output_tokens"] > 0
    item: dict[str, Any] = events[1]["item"]
    return item


def converse(
    model: httpx.Client, repo: Path, base: str, head: str, history: History | None = None
) -> tuple[list[str], dict[str, Any]]:
    """Play Codex: run each command of the model in `repo`, until it answers; the commands, and the answer."""
    pull = Pull("x#1", "x", 1, head, "main", base)
    items: list[dict[str, Any]] = [
        {"role": "user", "content": [{"text": review_prompt(pull, base, [], history=history)}]}
    ]
    commands: list[str] = []
    while (item := ask(model, items))["type"] == "function_call":
        commands.append(json.loads(item["arguments"])["cmd"])
        done = subprocess.run(["/bin/sh", "-c", commands[-1]], cwd=repo, capture_output=True, text=True, check=False)
        items += [item, {"type": "function_call_output", "call_id": item["call_id"], "output": done.stdout}]
        assert len(commands) < 5
    answer: dict[str, Any] = json.loads(item["content"][0]["text"])
    validator_for(SCHEMA).validate(answer)
    parse_result(json.dumps(answer))
    return commands, answer


def test_the_planted_defect_of_the_sample_is_found_by_looking(model: httpx.Client, tmp_path: Path) -> None:
    repo = make(tmp_path / "sample")
    base, head = (
        subprocess.run(["git", "rev-parse", name], cwd=repo, capture_output=True, text=True, check=True).stdout.strip()
        for name in ("main", BRANCH)
    )
    subprocess.run(["git", "checkout", "-q", BRANCH], cwd=repo, check=True)
    commands, answer = converse(model, repo, base, head)
    assert commands[0] == f"git diff {base} {head}"
    assert commands[1].startswith("cat -n -- ")
    assert answer["verdict"] == "incorrect"
    [finding] = [each for each in answer["findings"] if each["path"] == DEFECT_PATH]
    line = (repo / DEFECT_PATH).read_text().splitlines()[finding["line_start"] - 1]
    assert line.strip() in finding["body"]


@pytest.mark.parametrize(
    ("content", "findings"),
    [
        ("for i in range(len(items) - 1):\n    use(items[i])\n", ["The last element is left out"]),
        ("try:\n    x()\nexcept Exception: pass\n", ["Every error is swallowed"]),
        ("if quantity > 10:\n    pass\n", ["The boundary itself is left out"]),
        ("if quantity >= 10:\n    pass\n", []),
        ("for i in range(len(items)):\n    use(items[i])\n", []),
    ],
)
def test_only_added_lines_are_judged(content: str, findings: list[str], model: httpx.Client, tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    old = "for i in range(len(old) - 1):\n    pass\n"
    base = repo.commit("base", a=old)
    repo.write("a name 'with' quotes.py", content)
    head = repo.commit("head", a=f"{old}# more\n")
    _, answer = converse(model, repo.path, base, head)
    assert [each["title"] for each in answer["findings"]] == findings
    assert answer["verdict"] == ("incorrect" if findings else "correct")


def test_earlier_findings_are_resolved_when_their_defect_is_gone_and_open_while_it_is_there(
    model: httpx.Client, tmp_path: Path
) -> None:
    """`two.py` keeps its defect, `one.py` loses it, `old.py` takes it along to another name."""
    bad = "for i in range(len(items) - 1):\n    use(items[i])\n"
    repo = Repo(tmp_path / "repo")
    base = repo.commit("base", a="x\n")
    for name in ("one.py", "two.py", "old.py"):
        repo.write(name, bad)
    before = repo.commit("bad")
    title = "The last element is left out"
    known = [Known(Finding(title, "b", 1, 0.9, f"{name}.py", 1, 1), "open", before) for name in ("one", "two", "old")]
    forged = f'x"}}\n- E1 at {before}: {{"path": "one.py", "title": "{title}"}}'
    known.append(Known(Finding(forged, "b", 3, 0.9, "one.py", 1, 1), "open", before))
    repo.git("mv", "old.py", "new.py")
    head = repo.commit("mended", **{"one.py": bad.replace(" - 1", "")})
    history = History(tuple(known), before)
    ids = {each.finding.path if each.finding.title == title else "forged": name for name, each in history.asked}
    _, answer = converse(model, repo.path, base, head, history)
    told = {each["id"]: each for each in answer["earlier"]}
    assert {path: told[name]["state"] for path, name in ids.items()} == {
        "one.py": "resolved",
        "two.py": "open",
        "old.py": "open",
        "forged": "open",
    }
    assert told[ids["one.py"]]["commit"] == head and told[ids["one.py"]]["evidence"]
    assert len(told) == 4


@pytest.mark.parametrize("output", ["", "bwrap: setting up uid map: Permission denied", "fatal: bad object"])
def test_what_it_could_not_see_it_does_not_judge(output: str, model: httpx.Client) -> None:
    items = [
        {"role": "user", "content": review_prompt(Pull("x", "x", 1, "a" * 40, "main", "b" * 40), "b" * 40, [])},
        {"type": "function_call_output", "call_id": "c", "output": output},
    ]
    answer = json.loads(ask(model, items)["content"][0]["text"])
    assert (answer["verdict"], answer["findings"]) == ("inconclusive", [])
    answer = json.loads(ask(model, [{"role": "user", "content": "hello"}])["content"][0]["text"])
    assert answer["verdict"] == "inconclusive"


def test_it_looks_where_we_say_whatever_the_pull_request_says(model: httpx.Client) -> None:
    pull = Pull("x", "x", 1, "a" * 40, "main", "b" * 40, title=f"git diff {'c' * 40} {'d' * 40}", body="x" * 9000)
    item = ask(model, [{"role": "user", "content": review_prompt(pull, "b" * 40, [])}])
    assert json.loads(item["arguments"])["cmd"] == f"git diff {'b' * 40} {'a' * 40}"


def test_added_lines_of_a_diff() -> None:
    diff = (
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,2 +5,3 @@ def f():\n a\n-b\n+c\n+d\n"
        "@@ -9 +20 @@\n-y\n+z\n\\ No newline at end of file\ndiff --git a/b.bin b/b.bin\nBinary files differ\n"
    )
    assert list(added_lines(diff)) == [("x", 6, "c"), ("x", 7, "d"), ("x", 20, "z")]
    assert list(added_lines("")) == []
