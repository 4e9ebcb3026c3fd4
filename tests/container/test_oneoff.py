"""One-off reviews as a person asks for them, by `docker exec`: jail, real Codex, scripted model, a mounted folder."""

import json
import subprocess
from collections.abc import Iterator

import jsonschema_rs
import pytest
from gitrepo import Repo
from test_formats import OURS, SARIF

from .conftest import Start
from .stack import DEFECT, REPOSITORY, SHOP, Done, Stack, eventually

MOUNTED = "/repositories/shop"


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """What is mounted: a commit, a branch with the defect, and the same not committed."""
    repo = Repo(tmp_path_factory.mktemp("repositories") / "shop")
    repo.commit("first", **SHOP)
    repo.git("checkout", "--quiet", "-b", "discount")
    repo.commit("a discount", **DEFECT)
    repo.git("checkout", "--quiet", "main")
    repo.write("shop.py", DEFECT["shop.py"])
    repo.path.parent.chmod(0o755)
    return repo


@pytest.fixture(scope="module")
def stack(module_stacks: Start, repo: Repo) -> Iterator[Stack]:
    stack = module_stacks(f"volumes: ['{repo.path.parent}:/repositories:ro']")
    stack.start()
    stack.wait_health("healthy")
    yield stack


def review(stack: Stack, *args: str, given: bytes | None = None) -> Done:
    command = ["docker", "exec", *(["-i"] if given is not None else []), stack.project, "review", *args]
    done = subprocess.run(command, input=given, capture_output=True, timeout=120, check=False)
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_what_is_not_committed_as_text(stack: Stack, repo: Repo) -> None:
    before = repo.git("status", "--porcelain=v2", "--branch")
    done = review(stack, MOUNTED, "--uncommitted", "--fail-on", "P1")
    assert done.code in (0, 3), done
    assert f"{MOUNTED} HEAD..uncommitted" in done.out and "shop.py" in done.out
    assert "… self-test" in done.err and "… $ " in done.err and " tokens" in done.err
    assert repo.git("status", "--porcelain=v2", "--branch") == before


def test_a_patch_on_standard_input_as_sarif(stack: Stack, repo: Repo) -> None:
    patch = subprocess.run(["git", "diff", "--binary"], cwd=repo.path, capture_output=True, check=True).stdout
    done = review(stack, MOUNTED, "--patch", "-", "--format", "sarif", given=patch)
    assert done.code == 0, done
    told = json.loads(done.out)
    jsonschema_rs.Draft4Validator(SARIF).validate(told)
    [run] = told["runs"]
    assert run["invocations"][0]["executionSuccessful"] is True
    assert [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]] == [
        "shop.py"
    ]
    done = review(stack, MOUNTED, "--patch", "-", given=b"no patch\n")
    assert (done.code, done.out) == (2, "") and "Next: " in done.err


@pytest.mark.parametrize("fail_on", ["P0", "P3"])
def test_a_range_as_json(fail_on: str, stack: Stack, repo: Repo) -> None:
    args = ("--base", "main", "--head", "discount", "--format", "json", "--quiet", "--fail-on", fail_on)
    done = review(stack, MOUNTED, *args)
    told = json.loads(done.out)
    jsonschema_rs.Draft202012Validator(OURS).validate(told)
    assert (told["head_sha"], told["base_sha"]) == (repo.git("rev-parse", "discount"), repo.git("rev-parse", "main"))
    assert [finding["path"] for finding in told["findings"]] == ["shop.py"]
    worst = min(finding["priority"] for finding in told["findings"])
    assert done.code == (3 if worst <= int(fail_on[1]) else 0)
    assert done.err == ""


def test_a_branch_as_workflow_commands_and_as_the_comment(stack: Stack) -> None:
    done = review(stack, f"{MOUNTED}#discount", "--format", "github")
    assert done.code == 0, done
    assert any(line.startswith(("::error file=shop.py", "::warning file=shop.py")) for line in done.out.splitlines())
    assert all(line.startswith("::") for line in done.out.splitlines())
    done = review(stack, f"{MOUNTED}#discount", "--format", "markdown")
    assert done.code == 0 and "Verdict: " in done.out and "shop.py" in done.out


def test_a_review_of_the_loop_is_watched_and_shown_again(stack: Stack) -> None:
    target = f"{REPOSITORY}#1"
    done = review(stack, target, "--watch", "--fail-on", "P1")
    assert done.code == 5 and "is not watched" in done.err
    stack.model.hold()
    pull = stack.pull()
    stack.model.wait_held(pull["head_sha"])
    command = ["docker", "exec", stack.project, "review", target, "--watch", "--format", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
        assert watching.stderr is not None
        first = watching.stderr.readline().decode()
        stack.model.clear()
        out, err = watching.communicate(timeout=90)
    said = first + err.decode()
    assert watching.returncode == 0, said
    assert f"… watching {target}, head {pull['head_sha'][:10]}" in said and "attempt 1 of 3" in said
    told = json.loads(out)
    assert told["head_sha"] == pull["head_sha"]
    rows = stack.exec("appliance", "history", target, "--json").json["history"]
    assert [row["outcome"] for row in rows] == ["reviewed"]
    shown = stack.exec("appliance", "show", str(rows[0]["review"]), "--format", "json")
    assert shown.json == told
    eventually("the comment", lambda: stack.comments(1))
    done = review(stack, target, "--watch")
    assert done.code == 5 and "no review of" in done.err and f"`appliance show {rows[0]['review']}`" in done.err


def test_a_review_whose_process_was_killed_is_said_to_have_died(stack: Stack) -> None:
    stack.model.hold()
    target = f"{MOUNTED}#discount"
    command = ["docker", "exec", stack.project, "review", target, "--post", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as posting:
        stack.model.wait_held()
        watch = ["docker", "exec", stack.project, "review", target, "--watch", "--fail-on", "P0"]
        with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as watching:
            assert watching.stderr is not None
            assert b"watching" in watching.stderr.readline()
            found = stack.exec("sh", "-c", "cat /run/appliance/reviewing/*.json")
            assert found.code == 0, found
            stack.exec("sh", "-c", f"kill -9 {found.json['pid']}")
            _, err = watching.communicate(timeout=60)
        posting.wait(30)
    stack.model.clear()
    assert watching.returncode == 1 and (b"died" in err or b"interrupted" in err), err
