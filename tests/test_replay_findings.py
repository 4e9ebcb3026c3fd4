"""Inputs that broke other reviewers, from a real repository through the real reviewer to findings on lines."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from gitrepo import Repo, feature_repo

from appliance import codex
from appliance import coverage as unread
from appliance.core import coverage
from appliance.core.earlier import History, Known
from appliance.core.ending import Run
from appliance.core.events import Stream
from appliance.core.findings import Coverage, Finding, Review
from appliance.core.inline import text
from appliance.core.outcomes import Ending, Outcome
from appliance.core.prompt import File, review_prompt
from appliance.core.pulls import Pull
from appliance.core.report import as_json, comment
from appliance.core.verdict import NOTHING_TO_REVIEW, gate_of
from appliance.gate import Upstream
from appliance.git import Mirrors, Slots
from appliance.meter import Meter
from appliance.reviewing import Reviewer

FINE = {"findings": [], "earlier": [], "summary": "s", "verdict": "correct", "reasoning": "r", "limits": "l"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 123456\n"


def finding(path: str, first: int, last: int = 0, **more: Any) -> dict[str, Any]:
    told = {"title": "Off by one", "body": "The last one is left out.", "priority": 1, "confidence": 0.9, "path": path}
    return told | {"line_start": first, "line_end": last or first, "side": "RIGHT", "suggestion": None} | more


@dataclass
class World:
    """A repository with a branch `feature`; `answers` are what the model says, one for each round."""

    path: Path
    answers: list[dict[str, Any]] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    looks: bool = True

    def __post_init__(self) -> None:
        self.repo: Repo = feature_repo(self.path / "repo")
        model = codex.Model("m", "low", Upstream("http://localhost/v1"))
        self.reviewer = Reviewer(
            Mirrors(self.path / "mirrors"), Slots(self.path / "slots"), self, model, lambda: None, 60.0, run=self.play
        )

    @contextmanager
    def new(self, prefix: str) -> Iterator[Path]:
        yield self.path

    def reserve(self, work: Path) -> None:
        """No room is needed."""

    def play(
        self,
        job: codex.Job,
        model: codex.Model,
        work: Path,
        prompt: str,
        timeout: float,
        stop: threading.Event | None,
        progress: codex.Progress,
        meter: Meter,
        memory: int | None,
    ) -> Run:
        """One round: a command that worked, if it `looks`, and the answer."""
        self.prompts.append(prompt)
        stream = Stream()
        events: list[dict[str, Any]] = [{"type": "thread.started", "thread_id": "t"}]
        command = {"id": "c", "type": "command_execution", "command": "git diff", "aggregated_output": "x"}
        if self.looks:
            events += [{"type": "item.completed", "item": command | {"exit_code": 0, "status": "completed"}}]
        said = json.dumps(self.answers.pop(0) if self.answers else FINE)
        usage = {"input_tokens": 10, "cached_input_tokens": 0, "output_tokens": 1, "reasoning_output_tokens": 0}
        events += [
            {"type": "item.completed", "item": {"id": "m", "type": "agent_message", "text": said}},
            {"type": "turn.completed", "usage": usage},
        ]
        for event in events:
            stream.add(json.dumps(event).encode())
        return Run(0, False, "", stream, ())

    def ending(self, *findings: dict[str, Any]) -> Ending:
        if findings:
            self.answers = [FINE | {"findings": list(findings), "verdict": "incorrect"}]
        head = self.repo.git("rev-parse", "feature")
        pull = Pull("ada/repo#1", "ada/repo", 1, head, "main", "")
        return self.reviewer.review(pull, self.repo.source())

    def review(self, *findings: dict[str, Any]) -> Review:
        ending = self.ending(*findings)
        assert ending.review is not None, ending
        return ending.review


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def listed(prompt: str) -> list[str]:
    """The lines of the changed files."""
    lines = prompt.split("## Changed files: ")[1].split("\n## ", maxsplit=1)[0].split("\n")[1:]
    return [line for line in lines if line.startswith("- ")]


def anchors(review: Review) -> list[tuple[str, int | None, int, str] | None]:
    found = [one.anchor for one in review.result.findings]
    return [(at.path, at.start_line, at.line, at.side) if at else None for at in found]


def shown(review: Review) -> str:
    return comment(review, gate_of(review, 1), 1, lambda *_: None)


def kinds(review: Review) -> dict[str, str]:
    return {one.path: one.kind for one in (*review.coverage.trimmed, *review.coverage.left_out)}


NAMES = {
    "R1 a tab": "a\tb.py",
    "R1 a newline": "a\nb.py",
    "R1 a quote": 'a"b.py',
    "R1 a backslash": "a\\b.py",
    "R2 Chinese": "评论.py",
    "R2 an emoji in a folder": "📦/é.py",
    "R4 brackets": "(auth)/x.ts",
    "R4 a route": "[id]/{slug}/page x.tsx",
    "R4 a pathspec": ":(exclude)x.py",
    "R4 stars": "a*b?.py",
    "R4 a leading dash": "-rf.py",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_file_is_listed_and_anchored_under_its_real_name(world: World, name: str) -> None:
    world.repo.commit(**{name: "one\ntwo\n"})
    review = world.review(finding(name, 2))
    assert json.dumps(name, ensure_ascii=False) in "\n".join(listed(world.prompts[0]))
    assert anchors(review) == [(name, None, 2, "RIGHT")]
    assert review.result.findings[0].path == name
    assert review.coverage == Coverage(reviewed=3)


def test_R1_a_name_that_is_no_utf8(world: World) -> None:
    world.repo.write(b"a\xff.py", "one\n")
    world.repo.commit()
    world.repo.write("fine.py", "one\n")
    world.repo.commit()
    found = anchors(world.review(finding("a\\xff.py", 1), finding("fine.py", 1)))
    assert found == [None, ("fine.py", None, 1, "RIGHT")], "no forge can be told its name"
    assert '"a\\\\xff.py"' in world.prompts[0]


def test_R2_a_name_as_git_quotes_it_is_the_real_one(world: World) -> None:
    world.repo.commit(**{"评论.py": "one\n"})
    review = world.review(finding('"b/\\350\\257\\204\\350\\256\\272.py"', 1))
    assert [one.path for one in review.result.findings] == ["评论.py"]


@pytest.mark.parametrize("edited", [False, True], ids=["R5 pure", "R5 with an edit"])
def test_a_rename_is_reviewed_under_the_new_name(world: World, edited: bool) -> None:
    lines = [f"line {number}\n" for number in range(40)]
    world.repo.git("checkout", "--quiet", "main")
    world.repo.commit(**{"old.py": "".join(lines)})
    world.repo.git("checkout", "--quiet", "-B", "feature")
    world.repo.git("mv", "old.py", "new.py")
    if edited:
        lines[20] = "another\n"
    world.repo.commit(**{"new.py": "".join(lines)})
    review = world.review(finding("old.py", 21))
    assert 'R "new.py"' in world.prompts[0] and '(from "old.py")' in world.prompts[0]
    assert [one.path for one in review.result.findings] == ["new.py"]
    assert anchors(review) == [("new.py", None, 21, "RIGHT") if edited else None]
    assert review.coverage.reviewed == 1


@pytest.mark.parametrize("side", ["LEFT", "RIGHT"], ids=["R6 said so", "R6 not said"])
def test_a_finding_on_lines_that_are_gone_stands_on_the_old_side(world: World, side: str) -> None:
    world.repo.git("checkout", "--quiet", "main")
    world.repo.commit(**{"a": "1\n2\n3\n4\n5\n6\n7\n8\n9\n"})
    world.repo.git("checkout", "--quiet", "-B", "feature")
    world.repo.commit(**{"a": "1\n2\n3\n7\n8\n9\n"})
    review = world.review(finding("a", 4, 6, side=side))
    assert anchors(review) == ([("a", 4, 6, "LEFT")] if side == "LEFT" else anchors(review))
    assert anchors(review)[0] is not None, "it stands somewhere in the hunk"


def test_R6_a_deleted_file(world: World) -> None:
    world.repo.git("rm", "--quiet", "b")
    world.repo.commit()
    assert anchors(world.review(finding("b", 1, side="LEFT"))) == [("b", None, 1, "LEFT")]
    assert 'D "b"' in world.prompts[0]


def test_R8_an_image_is_named_as_binary_and_nothing_of_it_is_sent(world: World) -> None:
    world.repo.write("logo.png", PNG)
    world.repo.commit()
    review = world.review(finding("logo.png", 1))
    assert kinds(review) == {"logo.png": "binary"}
    assert (anchors(review), review.coverage.reviewed) == ([None], 2)
    assert 'A "logo.png" binary' in world.prompts[0] and "PNG\r" not in world.prompts[0]
    assert "1 left out (1 binary)" in shown(review)


def test_R8_nothing_but_an_image_is_nothing_to_review(world: World) -> None:
    world.repo.git("reset", "--quiet", "--hard", "main")
    world.repo.write("logo.png", PNG)
    world.repo.commit()
    review = world.review()
    assert (world.prompts, gate_of(review, 1)) == ([], NOTHING_TO_REVIEW)
    assert kinds(review) == {"logo.png": "binary"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("evil.py", b"import os\n\0\nos.system('x')\n"),
        ("evil.JS", b"run()//" + bytes(5000) + b"\xff" * 5000),
        ("Makefile", b"all:\n\trm -rf /\n" * 20 + b"#\0\n"),
        ("sub/Makefile", b"all:\n\t@id\n#" + bytes(40) + b"\n\n"),
        ("Dockerfile.dev", b"FROM scratch\nRUN id\n#" + bytes(40) + b"\n"),
        ("Jenkinsfile", b"sh 'id' //" + bytes(40) + b"\n"),
        (".bashrc", b"id\n#" + bytes(40) + b"\n"),
        ("page.jsp", b"<html>" + bytes(40) + b"\n"),
        ("latin", b"echo caf\xe9\n" * 20 + b"\0"),
        ("run", b"#!/bin/sh\nx\n" + bytes(range(256)) * 40),
        ("wide.inf", "[run]\nopen=x\n".encode("utf-16")),
    ],
)
@pytest.mark.parametrize("before", [b"", b"x = 1\n", b"x\0= 1\n"], ids=["new", "of a text", "of another"])
@pytest.mark.parametrize("attributes", ["", "* binary linguist-generated\n"], ids=["", "marked"])
def test_R8_a_nul_byte_hides_no_text(name: str, content: bytes, before: bytes, attributes: str, world: World) -> None:
    if before:
        world.repo.git("checkout", "--quiet", "main")
        world.repo.write(name, before)
        world.repo.commit()
        world.repo.git("checkout", "--quiet", "-B", "feature")
        world.repo.commit(**{"a": "two\n"})
    if attributes:
        world.repo.write(".gitattributes", attributes)
    world.repo.write(name, content)
    world.repo.commit()
    review = world.review()
    assert kinds(review) == {name: "not-looked-at"}
    assert gate_of(review, 1).state == "error"
    world.repo.write(name, b"clean = 1\n")
    world.repo.commit()
    review = world.review()
    assert kinds(review) == ({name: "not-looked-at"} if b"\0" in before else {})
    assert gate_of(review, 1).state == ("error" if b"\0" in before else "success")


def test_R8_what_is_binary_is_so_whatever_it_is_called_and_too_much_of_it_is_not_believed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.bin", "b", "c.dat"):
        world.repo.write(name, PNG + name.encode())
    world.repo.commit()
    review = world.review()
    assert (set(kinds(review).values()), gate_of(review, 1).state) == ({"binary"}, "success")
    monkeypatch.setattr(unread, "MAX_BINARIES", 2)
    review = world.review()
    assert sorted(kinds(review).values()) == ["binary", "binary", "not-looked-at"]
    assert gate_of(review, 1).state == "error"


@pytest.mark.parametrize("changed", [False, True], ids=["R13 added", "R13 changed"])
def test_a_pointer_of_lfs_is_named_so_and_not_followed(world: World, changed: bool) -> None:
    if changed:
        world.repo.git("checkout", "--quiet", "main")
        world.repo.commit(**{"model.bin": POINTER.replace("a" * 64, "b" * 64)})
        world.repo.git("checkout", "--quiet", "-B", "feature")
        world.repo.commit(**{"c": "three\n"})
    attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
    world.repo.commit(**{".gitattributes": attributes, "model.bin": POINTER})
    review = world.review()
    assert kinds(review) == {"model.bin": "lfs"}
    assert "LFS pointer" in shown(review)
    assert gate_of(review, 1).state == "success"


def test_R13_what_only_looks_like_a_pointer_is_reviewed(world: World) -> None:
    world.repo.commit(**{"fake.py": "version = 1\noid = 2\nsize = 3\n"})
    assert kinds(world.review()) == {}


def test_R14_R15_three_hundred_files_come_from_git_and_no_forge_is_asked(world: World) -> None:
    for number in range(301):
        world.repo.write(f"dir{number % 7}/file{number}.py", f"x = {number}\n")
    world.repo.commit()
    review = world.review(finding("dir6/file300.py", 1) | {"path": "dir6/file300.py"})
    assert review.coverage.reviewed == 303
    assert f"## Changed files: {303}" in world.prompts[0]
    assert review.evidence.files_changed == 303


def test_R17_one_large_file_is_trimmed_and_named_and_the_rest_is_reviewed(world: World) -> None:
    world.repo.write("data.jsonl", b'{"a": "%s"}\n' % (b"x" * 1000) * 17_000)
    for number in range(27):
        world.repo.write(f"small{number}.py", f"x = {number}\n")
    world.repo.commit()
    review = world.review()
    assert len(world.prompts) == 1, "what is small has room beside it"
    assert kinds(review) == {"data.jsonl": "trimmed"}
    assert '"data.jsonl" +17000 -0 (its diff is large: read only the first 1000000 bytes)' in world.prompts[0]
    assert review.coverage.reviewed == 30
    assert "30 files reviewed, 1 of them trimmed" in shown(review)
    gate = gate_of(review, 1)
    assert (gate.state, gate.description.startswith("1 changed file is too large")) == ("error", True)


def test_R17_what_the_base_branch_calls_generated_is_left_out_and_no_file_says_so_itself(world: World) -> None:
    world.repo.git("checkout", "--quiet", "main")
    world.repo.commit(**{".review-appliance.toml": 'generated = ["*.pb.go"]\n'})
    world.repo.git("checkout", "--quiet", "-B", "feature")
    said = "// Code generated by protoc. DO NOT EDIT.\n"
    world.repo.commit(**{"a.pb.go": said, "b.go": said, ".gitattributes": "b.go linguist-generated\n"})
    review = world.review()
    assert kinds(review) == {"a.pb.go": "generated"}
    assert '"b.go"' in world.prompts[0] and 'A "a.pb.go"' not in world.prompts[0]
    assert review.coverage.reviewed == 2
    assert gate_of(review, 1).state == "success"


@pytest.mark.parametrize("excluded", [False, True], ids=["R18 empty", "R18 excluded"])
def test_nothing_to_review_is_no_plain_success(world: World, excluded: bool) -> None:
    world.repo.git("reset", "--quiet", "--hard", "main")
    if excluded:
        world.repo.git("checkout", "--quiet", "main")
        world.repo.commit(**{".review-appliance.toml": 'exclude = ["docs/"]\n'})
        world.repo.git("checkout", "--quiet", "-B", "feature")
        world.repo.commit(**{"docs/a.md": "x\n"})
    review = world.review()
    assert (world.prompts, gate_of(review, 1)) == ([], NOTHING_TO_REVIEW)
    assert kinds(review) == ({"docs/a.md": "rule"} if excluded else {})


PLACES = {
    "R19 line 9999": finding("a", 9999),
    "R19 outside every hunk": finding("a", 30),
    "R19 a file that is not changed": finding("b", 1),
    "R19 a file that is nowhere": finding("no/such.py", 3),
    "R19 above the tree": finding("../a", 1),
    "R19 the root": finding("/", 1),
}


@pytest.mark.parametrize("told", PLACES.values(), ids=PLACES)
def test_a_finding_that_stands_nowhere_is_kept(world: World, told: dict[str, Any]) -> None:
    world.repo.commit(**{"a": "ONE\n"})
    review = world.review(told, finding("a", 1, title="Another"))
    assert [one is None for one in anchors(review)] == [True, False]
    assert "Off by one" in shown(review)
    assert gate_of(review, 1).state == "failure"


def test_findings_of_one_title_on_the_same_lines_are_one(world: World) -> None:
    world.repo.commit(**{"a": "1\n2\n3\n"})
    given = [
        finding("a", 1, 2, priority=2),
        finding("a", 2, 3, priority=0, body="And more."),
        finding("a", 3, title="X"),
    ]
    review = world.review(*given)
    assert [(one.priority, one.title) for one in review.result.findings] == [(0, "Off by one"), (1, "X")]
    assert "And more." in review.result.findings[0].body and "left out" in review.result.findings[0].body


def test_a_fingerprint_stays_when_lines_move_are_indented_and_the_file_is_renamed(world: World) -> None:
    body = "def total(items):\n    return sum(items[:-1])\n"
    world.repo.git("checkout", "--quiet", "main")
    world.repo.commit(**{"old.py": "# one\n" * 30})
    world.repo.git("checkout", "--quiet", "-B", "feature")
    world.repo.commit(**{"old.py": "# one\n" * 30 + body})
    first = world.review(finding("old.py", 32)).result.findings[0].fingerprint
    world.repo.commit(**{"old.py": "# one\n" * 30 + "\n\n" + body.replace("    ", "\t")})
    assert world.review(finding("old.py", 34)).result.findings[0].fingerprint == first
    world.repo.git("mv", "old.py", "new.py")
    world.repo.commit()
    assert world.review(finding("new.py", 34)).result.findings[0].fingerprint == first
    assert world.review(finding("new.py", 34, title="Other")).result.findings[0].fingerprint != first


SUGGESTIONS = {
    "fits": ("x = 2", 1, 1, True),
    "deletes": ("", 1, 1, True),
    "two lines for one": ("x = 2\ny = 3\n", 1, 1, True),
    "the same": ("x = 1", 1, 1, False),
    "a fence": ("```\n@everyone\n```", 1, 1, True),
    "a control character": ("x\x1b[2J", 1, 1, False),
    "outside the diff": ("x = 2", 300, 300, False),
}


@pytest.mark.parametrize(("given", "first", "last", "fits"), SUGGESTIONS.values(), ids=SUGGESTIONS)
def test_a_suggestion_is_committable_only_where_it_fits(
    world: World, given: str, first: int, last: int, fits: bool
) -> None:
    world.repo.commit(**{"new.py": "x = 1\ny = 2\n"})
    one = world.review(finding("new.py", first, last, suggestion=given)).result.findings[0]
    assert one.committable is fits
    said = text(one, False)
    assert ("suggestion\n" in said) is fits
    assert said.count("```suggestion") <= 1


def test_a_change_larger_than_a_pass_is_read_in_several_and_merged(world: World) -> None:
    sources = ("core/plan.py", "core/gate.py", "web/page.py")
    tests = ("tests/core/test_plan.py", "tests/test_gate.py", "web/page.spec.py")
    for name in (*sources, *tests):
        world.repo.write(name, "x = 1\n" * 100)
    world.repo.commit()
    world.reviewer = replace(world.reviewer, diff_budget=1300)
    world.answers = [
        FINE,
        FINE | {"findings": [finding("web/page.py", 1)], "verdict": "incorrect"},
        FINE | {"verdict": "inconclusive"},
    ]
    review = world.ending().review
    assert review is not None
    portions = [{json.loads(line.split(" ")[2]) for line in listed(prompt)} for prompt in world.prompts]
    assert len(portions) == review.coverage.passes >= 3
    assert set.union(*portions) == {"a", "c", *sources, *tests}
    assert sum(map(len, portions)) == 8, "each once"
    for pair in ({"core/plan.py", "tests/core/test_plan.py"}, {"core/gate.py", "tests/test_gate.py"}):
        assert any(pair <= portion for portion in portions), "a source comes with its test"
    assert (review.result.verdict, len(review.result.findings)) == ("inconclusive", 1), "one pass could not judge"
    assert review.usage.input_tokens == 10 * len(portions)
    assert len(review.evidence.commands) == len(portions)
    assert f"in {len(portions)} passes" in shown(review)
    assert f"pass 1 of {len(portions)}" in world.prompts[0]
    told = as_json(review, gate_of(review, 1))["coverage"]
    assert told == {"reviewed": 8, "passes": len(portions), "trimmed": [], "left_out": []}


def test_each_pass_is_asked_of_the_earlier_findings_in_its_files_alone(world: World) -> None:
    for number in range(3):
        world.repo.write(f"file{number}/x.py", "x = 1\n" * 200)
    world.repo.git("mv", "b", "file1/b")
    world.repo.commit()
    paths = ("file0/x.py", "file1/x.py", "b", "reverted.py", "file2/x.py")
    known = tuple(
        Known(Finding(path, "b", 1, 0.9, path, 1, 1, fingerprint=path), "open", "a" * 40, "a" * 40) for path in paths
    )
    world.reviewer = replace(world.reviewer, diff_budget=1300, max_passes=2, history=lambda _: History(known))
    gone = {"state": "obsolete", "commit": None, "evidence": "It is gone."}
    world.answers = [FINE | {"earlier": [gone | {"id": f"E{number}"} for number in range(1, 6)]}] * 2
    review = world.ending().review
    assert review is not None and review.coverage.passes == 2
    ids = {each.finding.path: name for name, each in History(known).asked}
    asked = [{path for path, name in ids.items() if f"- {name} at " in prompt} for prompt in world.prompts]
    assert ["file1/b" in line for line in map(str, map(listed, world.prompts))] == [True, False], "b, before"
    assert asked == [{"file0/x.py", "b", "reverted.py"}, {"file1/x.py"}]
    assert {each.path: each.state for each in review.earlier} == {
        "file0/x.py": "obsolete",
        "reverted.py": "obsolete",
        "file1/x.py": "obsolete",
        "b": "obsolete",
        "file2/x.py": "open",
    }, "nobody saw the last"
    world.answers = [FINE, FINE | {"earlier": [gone | {"id": ids["b"]}]}]
    review = world.ending().review
    assert review is not None and {each.state for each in review.earlier} == {"open"}, "who was not asked says nothing"


def test_what_has_no_room_in_all_passes_is_named_and_no_success(world: World) -> None:
    for number in range(5):
        world.repo.write(f"file{number}/x.py", "x = 1\n" * 200)
    world.repo.commit()
    world.reviewer = replace(world.reviewer, diff_budget=1300, max_passes=2)
    review = world.review()
    left = [path for path, kind in kinds(review).items() if kind == "not-looked-at"]
    assert (len(left), review.coverage.passes) == (3, 2)
    assert gate_of(review, 1).description == "3 changed files could not be shown to the reviewer"
    assert "3 not looked at" in shown(review)


def test_a_pass_without_a_look_is_no_review(world: World) -> None:
    for number in range(3):
        world.repo.write(f"file{number}/x.py", "x = 1\n" * 200)
    world.repo.commit()
    world.reviewer = replace(world.reviewer, diff_budget=1300)
    real = world.play

    def blind(*given: Any) -> Run:
        world.looks = len(world.prompts) < 1
        return real(*given)

    world.reviewer = replace(world.reviewer, run=blind)
    ending = world.ending()
    assert (ending.outcome, ending.review) == (Outcome.MODEL_OUTPUT, None)


def test_a_finding_in_a_file_that_is_left_out_is_shown_and_does_not_block(world: World) -> None:
    world.repo.git("checkout", "--quiet", "main")
    world.repo.commit(**{".review-appliance.toml": 'exclude = ["vendor/"]\n'})
    world.repo.git("checkout", "--quiet", "-B", "feature")
    world.repo.commit(**{"vendor/x.py": "x\n", "a": "two\n"})
    review = world.review(finding("vendor/x.py", 1, priority=0))
    assert review.result.findings[0].advisory
    assert gate_of(review, 1).state == "success"
    assert "advisory" in shown(review)
    assert gate_of(world.review(finding("a", 1)), 1).state == "failure"


def test_no_file_of_a_change_is_lost_among_passes() -> None:
    files = [File(f"d{n % 5}/f{n}{'_test' if n % 3 == 0 else ''}.py", "A", 1, 0) for n in range(200)]
    sizes = {file.path: 1 + (n * 37) % 900 for n, file in enumerate(files)}
    for budget in (100, 500, 1000, 10**6):
        for most in (1, 3, 50):
            plan = coverage.passes(files, sizes, budget, most)
            seen: Sequence[str] = [file.path for portion in plan.portions for file in portion]
            assert sorted([*seen, *(file.path for file in plan.unseen)]) == sorted(file.path for file in files)
            assert len(plan.portions) <= most
            assert {file.path for file in plan.trimmed} <= {path for path, size in sizes.items() if size > budget}


@pytest.mark.parametrize("long", [False, True], ids=["many", "of long names"])
def test_R8_what_no_prompt_lists_is_not_called_reviewed(long: bool) -> None:
    name = "/".join(["\x01" * 250] * 15) if long else "d"
    files = [File(f"{name}/{n:04}.py", "A", 1, 0) for n in range(1700)]
    sizes = {file.path: 10 for file in files}
    plan = coverage.passes(files, sizes, 10**6, 3)
    told = []
    for portion in plan.portions:
        text = review_prompt(Pull("o/a#1", "o/a", 1, "a" * 40, "main", "b" * 40), "c" * 40, portion)
        assert " more: `git diff --name-status`" not in text
        told += [json.loads(line[4:].removesuffix(" +1 -0")) for line in text.split("\n") if line.startswith("- A ")]
    covered = coverage.covered(files, plan, 10**6, [])
    assert len(plan.portions) == 3
    assert sorted(told) == sorted({file.path for file in files} - {one.path for one in covered.left_out})
    assert covered.reviewed == len(told) > 0
