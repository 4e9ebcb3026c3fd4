"""Data sets: what is read, what is refused and how that is said, and that bundles of others can do nothing."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from evaluation_world import GOLDEN, bundled, case
from fake_github import FakeGitHub
from gitrepo import Repo

from appliance.core.evaluation.benchmark import Told, cases_of, to_ask
from appliance.core.evaluation.case import BadCase, Golden
from appliance.core.prompt import review_prompt
from appliance.evaluation.dataset import BadDataset, chosen, load
from appliance.evaluation.prepare import Ready, prepare
from appliance.evaluation.running import _pull
from appliance.git import Mirrors


def ready(folder: Path, tmp_path: Path) -> list[Ready]:
    return prepare(load(str(folder)), tmp_path / "scratch", Mirrors(tmp_path / "mirrors"))


def refused(folder: Path, tmp_path: Path) -> str:
    with pytest.raises(BadDataset) as bad:
        ready(folder, tmp_path)
    return str(bad.value)


def test_cases_of_files_are_read_and_built(tmp_path: Path) -> None:
    case(tmp_path / "set", "one")
    case(tmp_path / "set", "two", goldens=[])
    (tmp_path / "set" / "README.md").write_text("not a case")
    (tmp_path / "set" / ".git").mkdir()
    one, two = ready(tmp_path / "set", tmp_path)
    assert (one.case.name, one.case.clean, two.case.clean) == ("one", False, True)
    assert one.head_sha != one.base_sha
    assert one.digest != two.digest


def test_the_same_files_give_the_same_commits_whatever_the_umask(tmp_path: Path) -> None:
    case(tmp_path / "set", "one")
    [first] = ready(tmp_path / "set", tmp_path / "a")
    before = os.umask(0o077)
    try:
        [second] = ready(tmp_path / "set", tmp_path / "b")
    finally:
        os.umask(before)
    assert (first.base_sha, first.head_sha, first.digest) == (second.base_sha, second.head_sha, second.digest)


def test_renames_and_deleted_files(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(20))
    path = case(tmp_path / "set", "one", {"new.py": text}, deleted=["app.py"], goldens=[GOLDEN | {"path": "new.py"}])
    (path / "base" / "app.py").write_text(text)
    [found] = ready(tmp_path / "set", tmp_path)
    assert found.renamed == {"app.py": "new.py"}


def test_a_name_that_ends_in_in_is_meant_without_that(tmp_path: Path) -> None:
    path = case(tmp_path / "set", "one", goldens=[GOLDEN | {"path": "test_it.py"}])
    (path / "head" / "test_it.py.in").write_text("x")
    ready(tmp_path / "set", tmp_path)


def test_a_bundle_is_unpacked(tmp_path: Path) -> None:
    bundled(tmp_path / "set", "one")
    [found] = ready(tmp_path / "set", tmp_path)
    assert len(found.head_sha) == 40


@pytest.mark.parametrize("kind", ["text", "cut", "part", "link", "commit", "option"])
def test_a_bad_bundle_is_refused(kind: str, tmp_path: Path) -> None:
    path = bundled(tmp_path / "set", "one", **({"head": "none"} if kind == "commit" else {}))
    bundle, source = path / "repo.bundle", tmp_path / "one-source"
    if kind == "text":
        bundle.write_text("# v2 git bundle\nnonsense\n")
    elif kind == "cut":
        bundle.write_bytes(bundle.read_bytes()[:-40])
    elif kind == "part":
        Repo.git(_at(source), "bundle", "create", "--quiet", str(bundle), "main..feature")
    elif kind == "link":
        bundle.rename(tmp_path / "elsewhere")
        bundle.symlink_to(tmp_path / "elsewhere")
    elif kind == "option":
        (path / "case.json").write_text(json.dumps({"title": "t", "base": "--all", "head": "main", "goldens": []}))
    said = refused(tmp_path / "set", tmp_path)
    assert said.startswith(str(path))
    assert ("It has to be whole" in said) == (kind in ("text", "part")), said


def _at(path: Path) -> Repo:
    repo = Repo.__new__(Repo)
    repo.path = path
    return repo


def test_no_hook_or_configuration_runs_for_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A template with a hook, and a configuration of the user's: neither is ours to run."""
    mark, home = tmp_path / "ran", tmp_path / "home"
    hook = home / "template" / "hooks" / "reference-transaction"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(f"[init]\n\ttemplateDir = {home}/template\n[core]\n\thooksPath = {hook.parent}\n")
    bundled(tmp_path / "set", "one")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(home / "template"))
    ready(tmp_path / "set", tmp_path)
    assert not mark.exists()


def test_a_repository_by_its_path(tmp_path: Path) -> None:
    bundled(tmp_path / "other", "one")
    path = tmp_path / "set" / "two"
    path.mkdir(parents=True)
    told = {"title": "t", "repository": "../../one-source", "base": "main", "head": "feature", "goldens": [GOLDEN]}
    (path / "case.json").write_text(json.dumps(told))
    [found] = ready(tmp_path / "set", tmp_path)
    assert found.source.url == str(tmp_path / "one-source")


def test_toml_is_read_as_json_is(tmp_path: Path) -> None:
    path = case(tmp_path / "set", "one")
    (path / "case.json").unlink()
    (path / "case.toml").write_text('title = "t"\n[[goldens]]\nwhat = "w"\npath = "app.py"\nline_start = 2\n')
    assert ready(tmp_path / "set", tmp_path)[0].case.goldens == (Golden("w", "app.py", 2, 2),)


def test_everything_that_is_wrong_is_said_at_once_with_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    case(folder, "good")
    case(folder, "typo", titel="t", goldens=[{"what": ""}])
    case(folder, "none")
    (folder / "none" / "case.json").unlink()
    (case(folder, "both") / "case.toml").write_text("")
    (case(folder, "torn") / "case.json").write_text("{")
    case(folder, "named", base="main")
    case(folder, "twice", repository="/x", base="a", head="b")
    (case(folder, "nothing", {"other.py": "o\n"}))
    (case(folder, "linked") / "head" / "passwd").symlink_to("/etc/passwd")
    case(folder, "gone", deleted=["never.py", "app.py"])
    said = refused(folder, tmp_path).splitlines()
    for name, words in {
        "typo": "titel: Extra inputs",
        "none": "it has no file that tell of a case",
        "both": "it has two files",
        "torn": "cannot be read",
        "named": "base and head name commits",
        "twice": "a case has one of",
        "nothing": "head/ changes nothing of base/",
        "linked": "head/passwd is neither file nor folder",
        "gone": "deleted: base/ has no never.py",
    }.items():
        assert any(line.startswith(str(folder / name)) and words in line for line in said), (name, said)
    assert any("deleted: head/ has app.py" in line for line in said)
    assert not any("/good" in line for line in said)


def test_what_only_git_can_see_is_said_too(tmp_path: Path) -> None:
    case(tmp_path / "set", "one", goldens=[GOLDEN | {"path": "nowhere.py"}])
    bundled(tmp_path / "set", "two", head="main")
    said = refused(tmp_path / "set", tmp_path)
    assert "a golden is in nowhere.py, which neither base nor head has" in said
    assert "base and head do not differ" in said


def test_no_data_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "there is no case in it" in refused(tmp_path / "empty", tmp_path)
    assert "no such folder or file" in refused(tmp_path / "nowhere", tmp_path)
    case(tmp_path / "set", "one")
    with pytest.raises(BadDataset, match="there is no case two; there are one"):
        chosen(load(str(tmp_path / "set")), ["one", "two"])


def test_the_reviewer_is_not_told_which_case_it_is(tmp_path: Path) -> None:
    case(tmp_path / "set", "python-off-by-one", title="Add totals", kind="secret-kind")
    [found] = ready(tmp_path / "set", tmp_path)
    prompt = review_prompt(_pull(found), found.base_sha, [])
    assert "Add totals" in prompt
    for told in ("off-by-one", "secret-kind", "The last one is left out"):
        assert told not in prompt


# --- lists of benchmarks

SHA = "a" * 40
OTHER = "b" * 40


def test_the_general_layout() -> None:
    [found] = cases_of(
        [
            {
                "repo": "octo/shop",
                "base": SHA,
                "head": OTHER,
                "title": "Add it",
                "comments": [{"path": "a.py", "line": 7, "text": "Wrong.", "priority": "P0", "kind": "race"}],
            }
        ]
    )
    assert (found.name, found.repository) == ("octo-shop-1", "https://github.com/octo/shop")
    assert (found.base, found.head, found.title) == (SHA, OTHER, "Add it")
    assert found.goldens == (Golden("Wrong.", "a.py", 7, 7, 0, "race"),)


def test_aacr_bench_calls_the_base_its_source() -> None:
    [found] = cases_of(
        [
            {
                "githubPrUrl": "https://github.com/octo/shop/pull/12",
                "source_commit": SHA,
                "target_commit": OTHER,
                "project_main_language": "Go",
                "comments": [
                    {"path": "a.go", "from_line": 3, "to_line": 5, "side": "right", "note": "Leak.", "category": "bug"},
                    {"path": "a.go", "from_line": None, "to_line": None, "side": "left", "note": "Gone."},
                ],
            }
        ]
    )
    assert (found.name, found.base, found.head, found.language) == ("octo-shop-12", SHA, OTHER, "Go")
    assert found.goldens == (Golden("Leak.", "a.go", 3, 5, 1, "bug"), Golden("Gone.", "a.go", side="LEFT"))
    assert [golden.located for golden in found.goldens] == [True, False]


def test_comments_without_a_place_have_their_severity() -> None:
    record: dict[str, Any] = {
        "url": "https://github.com/octo/shop/pull/3",
        "pr_title": "Add it",
        "comments": [{"comment": "Null.", "severity": "Critical"}, {"comment": "Typo.", "severity": "Low"}],
    }
    with pytest.raises(BadCase, match="record 1: it has no base and head; set GITHUB_TOKEN"):
        cases_of([record])
    [found] = cases_of([record | {"base": SHA, "head": OTHER}])
    assert [(one.what, one.priority, one.located) for one in found.goldens] == [
        ("Null.", 0, False),
        ("Typo.", 3, False),
    ]


def test_the_forge_is_asked_for_commits_that_a_list_does_not_name(tmp_path: Path) -> None:
    comments = [{"comment": "Null.", "severity": "High"}]
    records: list[dict[str, Any]] = [
        {"url": "https://github.com/octo/shop/pull/3", "pr_title": "Add it", "comments": comments},
        {"url": "https://github.com/octo/shop/pull/4", "base": SHA, "head": OTHER, "comments": comments},
        {"url": "https://elsewhere.example/octo/shop/pull/5", "base": SHA, "head": OTHER, "comments": comments},
    ]
    assert to_ask(records) == [("octo/shop", 3)]
    assert to_ask({}) == to_ask([1]) == []
    path = tmp_path / "list.json"
    path.write_text(json.dumps(records))
    first, *_ = load(str(path), lambda repository, number: Told(OTHER, SHA, f"{repository} {number}"))
    assert (first.case.base, first.case.head, first.case.body) == (OTHER, SHA, "octo/shop 3")
    with pytest.raises(BadDataset, match="record 1: it has no base and head"):
        load(str(path))


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({}, "a benchmark is a list"),
        ([], "with at least one"),
        ([1], "record 1: is no object"),
        ([{"base": SHA, "head": OTHER, "comments": []}], "it names no repository"),
        ([{"repo": "o/n", "base": SHA, "head": OTHER}], "comments is no list"),
        ([{"repo": "o/n", "base": SHA, "head": OTHER, "comments": [{"path": "a"}]}], "goldens.0.what"),
        ([{"repo": "o/n", "base": SHA, "head": OTHER, "comments": ["x"]}], "a comment is no object"),
        (
            [{"repo": "o/n", "name": "a", "base": SHA, "head": OTHER, "comments": []}] * 2,
            "the name a stands there twice",
        ),
    ],
)
def test_a_bad_list_is_refused(told: Any, said: str) -> None:
    with pytest.raises(BadCase) as bad:
        cases_of(told)
    assert said in str(bad.value)


def test_a_list_is_a_data_set(tmp_path: Path) -> None:
    bundled(tmp_path / "other", "one")
    record = {"repo": str(tmp_path / "one-source"), "base": "main", "head": "feature", "comments": []}
    path = tmp_path / "list.json"
    path.write_text(json.dumps([record]))
    [found] = ready(path, tmp_path)
    assert found.case.clean
    path.write_text("[")
    assert "cannot be read as JSON" in refused(path, tmp_path)
    path.write_text(json.dumps([record | {"repo": "https://example.org/o/n"}]))
    assert "base and head: a case by address names commits by all their digits" in refused(path, tmp_path)


def test_a_case_by_its_address_is_fetched_over_http(fake_github: FakeGitHub, tmp_path: Path) -> None:
    """As a public benchmark names it: commits by their digits."""
    fake_github.add_repository("octo/app", {"app.py": "print(1)\n"})
    pull = fake_github.add_pull("octo/app", "feature", files={"app.py": "print(2)\n"})
    address = f"{fake_github.base}/octo/app.git"
    comments = [{"path": "app.py", "from_line": 1, "to_line": 1, "note": "Two is wrong."}]
    record = {"repo": address, "source_commit": pull.base_sha, "target_commit": pull.head_sha, "comments": comments}
    path = tmp_path / "list.json"
    path.write_text(json.dumps([record]))
    [found] = ready(path, tmp_path)
    assert (found.source.url, found.base_sha, found.head_sha) == (address, pull.base_sha, pull.head_sha)
    path.write_text(json.dumps([record | {"target_commit": "c" * 40}]))
    assert refused(path, tmp_path).startswith("octo-app-1: ")
