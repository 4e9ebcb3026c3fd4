"""The fake GitHub, checked by those who never saw it: GitHub's description, githubkit, PyGithub, git."""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import github as pygithub
import githubkit
import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from fake_github import FakeGitHub, Token
from fake_github.clients import app_token
from fake_github.openapi import FILE, description, violations
from fake_github.remote import RemoteFakeGitHub

from appliance.forge.github_shapes import keep_comment, keep_pull, keep_repository, keep_status

APP = "octo/app"


@pytest.fixture
def github(fake_github: FakeGitHub) -> FakeGitHub:
    fake_github.add_repository(APP, {"app.py": "print(1)\n"})
    fake_github.add_pull(APP, "feature", files={"app.py": "print(2)\n"}, labels=["bug"], draft=True)
    return fake_github


@pytest.fixture
def http(github: FakeGitHub) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=github.url, headers={"Authorization": f"Bearer {github.token}"}) as client:
        yield client


# --- the judge ---


def test_the_description_judges(github: FakeGitHub, http: httpx.Client) -> None:
    for path in ("/repos/octo/app", "/repos/octo/app/pulls", "/repos/octo/app/pulls/1", "/user", "/user/repos"):
        http.get(path)
        exchange = github.exchanges[-1]
        assert violations([exchange]) == []
        value = json.loads(exchange.body)
        (value[0] if isinstance(value, list) else value)["id"] = "no number"
        assert violations([replace(exchange, body=json.dumps(value).encode())]), f"a wrong type passes in {path}"
        assert violations([replace(exchange, body=b"[")])
        assert violations([replace(exchange, status=418, body=b"{}")])
    assert violations([replace(github.exchanges[1], query="state=mad")])
    assert violations([replace(github.exchanges[1], query="unheard=of")])
    assert violations([replace(github.exchanges[0], path="/repos/octo/app/unheard-of")])


def test_the_description_judges_requests(github: FakeGitHub, http: httpx.Client) -> None:
    http.post("/repos/octo/app/issues/1/comments", json={"body": "x"})
    exchange = github.exchanges[-1]
    assert violations([exchange]) == []
    assert violations([replace(exchange, request_body=b'{"text": "x"}')])


def test_githubs_own_examples_are_read_by_the_client() -> None:
    document = json.loads(FILE.read_text())
    examples = document["components"]["examples"]
    read = 0
    for name, keep in (
        ("pull-request-simple-items", keep_pull),
        ("pull-request", keep_pull),
        ("issue-comment-items", keep_comment),
        ("issue-comment", keep_comment),
        ("status-items", keep_status),
        ("status", keep_status),
        ("full-repository-default-response", keep_repository),
    ):
        if name in examples:
            value = examples[name]["value"]
            for entry in value if isinstance(value, list) else [value]:
                keep(entry)
                read += 1
    assert read >= 5
    assert description()


# --- other people's clients ---


def test_githubkit_drives_it(github: FakeGitHub) -> None:
    github.add_pulls(APP, 40)
    with githubkit.GitHub(github.token, base_url=github.url, http_cache=False, auto_retry=False) as client:
        rest = client.rest
        assert rest.repos.get("octo", "app").parsed_data.full_name == APP
        listed = list(rest.paginate(rest.pulls.list, owner="octo", repo="app", state="open", per_page=20))
        assert len(listed) == 41
        pull = rest.pulls.get("octo", "app", 1).parsed_data
        assert (pull.draft, pull.comments, pull.head.ref) == (True, 0, "feature")
        comment = rest.issues.create_comment("octo", "app", 1, body="hello").parsed_data
        assert [each.id for each in rest.issues.list_comments("octo", "app", 1).parsed_data] == [comment.id]
        assert rest.issues.get_comment("octo", "app", comment.id).parsed_data.body == "hello"
        rest.repos.create_commit_status("octo", "app", pull.head.sha, state="pending", context="c", description="d")
        (status,) = rest.repos.list_commit_statuses_for_ref("octo", "app", pull.head.sha).parsed_data
        assert (status.state, status.context, status.description) == ("pending", "c", "d")
        assert rest.repos.get_combined_status_for_ref("octo", "app", pull.head.sha).parsed_data.total_count == 1
        assert rest.rate_limit.get().parsed_data.resources.core.remaining < 5000
        assert rest.users.get_authenticated().parsed_data.login == "review-bot"
        with pytest.raises(githubkit.exception.RequestFailed) as failed:
            rest.pulls.get("octo", "app", 99)
        assert failed.value.response.status_code == 404


def test_pygithub_drives_it(github: FakeGitHub) -> None:
    """It asserts that our addresses and Link headers lead back to us."""
    github.add_pulls(APP, 40)
    auth = pygithub.Auth.Token(github.token)
    with pygithub.Github(auth=auth, base_url=github.url, retry=None, seconds_between_writes=0) as client:
        repository = client.get_repo(APP)
        assert len(list(repository.get_pulls(state="open"))) == 41
        pull = repository.get_pull(1)
        assert [label.name for label in pull.labels] == ["bug"]
        comment = pull.create_issue_comment("hello")
        assert [each.body for each in pull.get_issue_comments()] == ["hello"]
        comment.edit("changed")
        assert pull.get_issue_comment(comment.id).body == "changed"
        comment.delete()
        assert repository.get_pull(1).comments == 0
        github.rename_repository(APP, "octo/renamed")
        assert client.get_repo(APP).full_name == "octo/renamed"


def test_githubkit_drives_reviews_and_checks(github: FakeGitHub) -> None:
    with githubkit.GitHub(github.token, base_url=github.url, http_cache=False, auto_retry=False) as client:
        rest = client.rest
        line = {"path": "app.py", "line": 1, "side": "RIGHT", "body": "inline"}
        review = rest.pulls.create_review("octo", "app", 1, event="COMMENT", body="all", comments=[line]).parsed_data
        head = github.repository(APP).pulls[1].head_sha
        assert (review.state, review.body, review.commit_id) == ("COMMENTED", "all", head)
        assert [each.id for each in rest.pulls.list_reviews("octo", "app", 1).parsed_data] == [review.id]
        (comment,) = rest.pulls.list_review_comments("octo", "app", 1).parsed_data
        assert (comment.path, comment.line, comment.side, comment.body) == ("app.py", 1, "RIGHT", "inline")
        (of_review,) = rest.pulls.list_comments_for_review("octo", "app", 1, review.id).parsed_data
        assert of_review.id == comment.id
        reply = rest.pulls.create_reply_for_review_comment("octo", "app", 1, comment.id, body="why").parsed_data
        assert (reply.in_reply_to_id, reply.body) == (comment.id, "why")
        told = rest.issues.create_comment("octo", "app", 1, body="hello").parsed_data
        assert rest.issues.update_comment("octo", "app", told.id, body="changed").parsed_data.body == "changed"
        reaction = rest.reactions.create_for_issue_comment("octo", "app", told.id, content="eyes").parsed_data
        (again,) = rest.reactions.list_for_issue_comment("octo", "app", told.id).parsed_data
        assert (again.id, again.content) == (reaction.id, "eyes")


def test_pygithub_drives_reviews(github: FakeGitHub) -> None:
    auth = pygithub.Auth.Token(github.token)
    with pygithub.Github(auth=auth, base_url=github.url, retry=None, seconds_between_writes=0) as client:
        pull = client.get_repo(APP).get_pull(1)
        line = pygithub.PullRequest.ReviewComment(path="app.py", line=1, side="RIGHT", body="inline")
        review = pull.create_review(body="all", event="COMMENT", comments=[line])
        assert [(each.id, each.state) for each in pull.get_reviews()] == [(review.id, "COMMENTED")]
        (comment,) = pull.get_review_comments()
        assert (comment.path, comment.line, comment.body) == ("app.py", 1, "inline")
        reply = pull.create_review_comment_reply(comment.id, "why")
        assert (reply.in_reply_to_id, reply.body) == (comment.id, "why")
        told = pull.create_issue_comment("hello")
        told.edit("changed")
        reaction = told.create_reaction("eyes")
        assert [(each.id, each.content) for each in told.get_reactions()] == [(reaction.id, "eyes")]


def test_githubkit_drives_check_runs_app_and_graphql(github: FakeGitHub) -> None:
    token = app_token(github, 7)
    head = github.repository(APP).pulls[1].head_sha
    note = {
        "path": "app.py",
        "start_line": 1,
        "end_line": 1,
        "annotation_level": "warning",
        "message": "odd",
    }
    with githubkit.GitHub(token, base_url=github.url, http_cache=False, auto_retry=False) as client:
        rest = client.rest
        run = rest.checks.create("octo", "app", name="review", head_sha=head, status="in_progress").parsed_data
        output = {"title": "t", "summary": "s", "annotations": [note]}
        done = rest.checks.update("octo", "app", run.id, status="completed", conclusion="success", output=output)
        assert (done.parsed_data.status, done.parsed_data.conclusion) == ("completed", "success")
        listed = rest.checks.list_for_ref("octo", "app", head).parsed_data
        assert [each.id for each in listed.check_runs] == [run.id]
        (seen,) = rest.checks.list_annotations("octo", "app", run.id).parsed_data
        assert (seen.path, seen.start_line, seen.message) == ("app.py", 1, "odd")
        owned = rest.apps.list_repos_accessible_to_installation().parsed_data
        assert [each.full_name for each in owned.repositories] == [APP]
    with githubkit.GitHub(github.token, base_url=github.url, http_cache=False, auto_retry=False) as client:
        line = {"path": "app.py", "line": 1, "side": "RIGHT", "body": "inline"}
        client.rest.pulls.create_review("octo", "app", 1, event="COMMENT", body="all", comments=[line])
        query = """query($owner: String!, $name: String!, $number: Int!) {
          repository(owner: $owner, name: $name) { pullRequest(number: $number) { reviewThreads(first: 10) {
            nodes { id isResolved comments(first: 10) { nodes { id body isMinimized } } } } } } }"""
        where = {"owner": "octo", "name": "app", "number": 1}

        def thread() -> Any:
            told = client.graphql.request(query, where)
            (one,) = told["repository"]["pullRequest"]["reviewThreads"]["nodes"]
            return one

        first = thread()
        comment = first["comments"]["nodes"][0]
        assert (first["isResolved"], comment["body"], comment["isMinimized"]) == (False, "inline", False)
        client.graphql.request(
            "mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { isResolved } } }",
            {"id": first["id"]},
        )
        client.graphql.request(
            "mutation($id: ID!) { minimizeComment(input: {subjectId: $id, classifier: OUTDATED})"
            " { minimizedComment { isMinimized } } }",
            {"id": comment["id"]},
        )
        assert thread()["isResolved"] is True
        assert thread()["comments"]["nodes"][0]["isMinimized"] is True


def test_other_clients_log_in_as_an_app(github: FakeGitHub) -> None:
    key = rsa.generate_private_key(65537, 2048)
    numbers = key.public_key().public_numbers()
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    github.add_app(7, numbers.n, exponent=numbers.e, installations={"octo": 70})
    integration = pygithub.GithubIntegration(auth=pygithub.Auth.AppAuth(7, pem), base_url=github.url, retry=None)
    assert [each.id for each in integration.get_installations()] == [70]
    assert integration.get_repo_installation("octo", "app").id == 70
    token = integration.get_access_token(70).token
    assert github.tokens[token].owner == "octo"
    assert [each.full_name for each in integration.get_repo_installation("octo", "app").get_repos()] == [APP]


# --- what the description does not have ---


def test_limits_of_statuses(github: FakeGitHub, http: httpx.Client) -> None:
    sha = github.repository(APP).pulls[1].head_sha

    def post(**payload: Any) -> httpx.Response:
        return http.post(f"/repos/octo/app/statuses/{sha}", json={"state": "success", "context": "c", **payload})

    assert post(description="x" * 140).status_code == 201
    assert post(description="x" * 141).status_code == 422
    assert post(state="done").status_code == 422
    for number in range(999):
        github.add_status(APP, sha, "success", ("c", "C")[number % 2])
    full = post()
    assert full.status_code == 422
    assert "maximum number of statuses" in full.text
    assert post(context="other").status_code == 201
    assert http.post(f"/repos/octo/app/statuses/{'0' * 40}", json={"state": "success"}).status_code == 422


def test_limits_of_comments(http: httpx.Client) -> None:
    for body, status in (("x" * 65_536, 201), ("x" * 65_537, 422), ("", 422)):
        assert http.post("/repos/octo/app/issues/1/comments", json={"body": body}).status_code == status
    assert http.post("/repos/octo/app/issues/9/comments", json={"body": "x"}).status_code == 404


def test_etags_are_free_and_move_with_the_state(github: FakeGitHub, http: httpx.Client) -> None:
    path = "/repos/octo/app/pulls"
    first = http.get(path)
    left = github.rate_remaining
    second = http.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (second.status_code, second.content, github.rate_remaining) == (304, b"", left)
    assert http.get(path, headers={"If-None-Match": first.headers["etag"], "Accept": "text/x"}).status_code == 200
    github.push(APP, "feature", {"x": "y"})
    third = http.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert third.status_code == 200
    assert third.headers["x-ratelimit-limit"] == "5000"
    assert "date" in third.headers


def test_pages_are_those_of_github(github: FakeGitHub, http: httpx.Client) -> None:
    github.add_pulls(APP, 200)
    first = http.get("/repos/octo/app/pulls", params={"per_page": 1000})
    assert len(first.json()) == 100
    number = github.repository(APP).id
    assert first.links["next"]["url"].startswith(f"{github.url}/repositories/{number}/pulls?")
    last = http.get(first.links["last"]["url"])
    assert len(last.json()) == 1
    assert set(last.links) == {"prev", "first"}
    assert len(http.get("/repos/octo/app/pulls").json()) == 30


def test_who_may_what(github: FakeGitHub, http: httpx.Client) -> None:
    github.add_repository("octo/secret", private=True)
    github.tokens |= {"narrow": Token("bot", sees=frozenset()), "reader": Token("bot", writes=False)}
    assert http.get("/repos/octo/secret").status_code == 200
    assert httpx.get(f"{github.url}/repos/octo/secret").status_code == 404
    assert httpx.get(f"{github.url}/repos/octo/app").status_code == 200

    def bearer(token: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {token}"}

    assert httpx.get(f"{github.url}/repos/octo/secret", headers=bearer("narrow")).status_code == 404
    assert httpx.get(f"{github.url}/user", headers=bearer("wrong")).status_code == 401
    comments = f"{github.url}/repos/octo/app/issues/1/comments"
    refused = httpx.post(comments, json={"body": "x"}, headers=bearer("reader"))
    assert refused.status_code == 403
    assert "pull_requests=write" in refused.headers["x-accepted-github-permissions"]
    assert httpx.post(comments, json={"body": "x"}).status_code == 401


def test_failures_come_in_turn(github: FakeGitHub, http: httpx.Client) -> None:
    path = "/repos/octo/app/pulls"
    github.fail(status=502, times=2, path="/pulls", skip=1)
    assert [http.get(path).status_code for _ in range(4)] == [200, 502, 502, 200]
    github.fail(empty=True)
    assert http.get(path).json() == []
    github.fail(truncate=True)
    with pytest.raises(ValueError, match=r"JSON|Unterminated|Expecting"):
        http.get(path).json()
    github.fail(cut_off=True)
    with pytest.raises(httpx.RemoteProtocolError):
        http.get(path)
    github.fail(disconnect=True)
    with pytest.raises(httpx.RemoteProtocolError):
        http.get(path)
    github.fail(method="POST", status=502, store=True)
    assert http.post("/repos/octo/app/issues/1/comments", json={"body": "x"}).status_code == 502
    assert len(github.comments(APP, 1)) == 1
    assert len(github.writes) == 1


# --- git ---


def git(*args: str, token: str | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
    if token:
        value = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        env |= {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "http.extraHeader",
            "GIT_CONFIG_VALUE_0": f"Authorization: Basic {value}",
        }
    return subprocess.run(["git", *args], env=env, cwd=cwd, capture_output=True, text=True, check=False)


def test_git_fetches_what_the_api_names(github: FakeGitHub, tmp_path: Path) -> None:
    pull = github.repository(APP).pulls[1]
    url, clone = f"{github.base}/octo/app.git", tmp_path / "clone"
    assert git("clone", "--quiet", "--filter=blob:none", url, str(clone)).returncode == 0
    assert git("fetch", "--quiet", "origin", "refs/pull/1/head", cwd=clone).returncode == 0
    assert git("rev-parse", "FETCH_HEAD", cwd=clone).stdout.strip() == pull.head_sha
    assert git("show", "FETCH_HEAD:app.py", cwd=clone).stdout == "print(2)\n"
    old, new = pull.head_sha, github.push(APP, "feature", {"app.py": "print(3)\n"}, base="main")
    assert git("fetch", "--quiet", "origin", old, new, cwd=clone).returncode == 0, "any commit, forced away or not"
    assert git("ls-remote", url, "refs/pull/1/head").stdout.split()[0] == new == pull.head_sha


def test_git_needs_the_token_for_a_private_repository(github: FakeGitHub) -> None:
    github.repository(APP).private = True
    url = f"{github.base}/octo/app.git"
    assert git("ls-remote", url).returncode != 0
    assert git("ls-remote", url, token="wrong").returncode != 0
    assert git("ls-remote", url, token=github.token).returncode == 0
    github.rename_repository(APP, "octo/renamed")
    assert git("ls-remote", url, token=github.token).returncode == 0, "the old name leads there"


def test_a_push_over_http_moves_the_pull_request(github: FakeGitHub, tmp_path: Path) -> None:
    url, clone = f"{github.base}/octo/app.git", tmp_path / "clone"
    assert git("clone", "--quiet", "--branch", "feature", url, str(clone)).returncode == 0
    who = ("-c", "user.name=x", "-c", "user.email=x@example.com")
    assert git(*who, "commit", "--quiet", "--allow-empty", "-m", "More", cwd=clone).returncode == 0
    assert git("push", "--quiet", "origin", "feature", cwd=clone).returncode != 0
    pushed = git("push", "--quiet", "origin", "feature", cwd=clone, token=github.token)
    assert pushed.returncode == 0, pushed.stderr
    assert github.repository(APP).pulls[1].head_sha == git("rev-parse", "HEAD", cwd=clone).stdout.strip()


def test_files_of_every_kind(github: FakeGitHub, tmp_path: Path) -> None:
    files = {
        'tab\t"quote"\nnewline \\ back': "odd",
        "评论.py": "x",
        "caf\udce9": "latin",
        "link": ("120000", b"/etc/passwd"),
        "run.sh": ("100755", b"#!/bin/sh\n"),
        "app.py": None,
    }
    sha = github.push(APP, "odd", files)
    listed = subprocess.run(
        ["git", "-C", str(github.repository(APP).path), "ls-tree", "-rz", sha], capture_output=True, check=True
    ).stdout
    names = {
        entry.split(b"\t", 1)[1].decode("utf-8", "surrogateescape"): entry[:6] for entry in listed.split(b"\0")[:-1]
    }
    assert names.keys() == (files.keys() - {"app.py"})
    assert (names["link"], names["run.sh"], names["评论.py"]) == (b"120000", b"100755", b"100644")


# --- as a program ---


def test_it_runs_as_a_program_and_is_driven_over_the_network(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parent)}
    # Isolated from the installed packages: in a container there may be no more than the standard library.
    command = [sys.executable, "-S", "-m", "fake_github", "--host", "127.0.0.1", "--port", "0", "--token", "t"]
    command += ["--repos", str(tmp_path / "repos")]
    for start in range(2):
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            port = process.stdout.readline().split("port ")[1].split(",")[0]
            remote = RemoteFakeGitHub(f"http://127.0.0.1:{port}")
            assert remote.get("health") == {"ok": True}
            if start == 0:
                remote.call("add_repository", name=APP, files={"a.txt": "a\n", "b.bin": b"\0\xff"})
            assert [each["name"] for each in remote.get("repositories")] == ["app"], "taken over from the directory"
            branch = f"feature{start}"
            pull = remote.call("add_pull", name=APP, head=branch, files={"a.txt": "b\n"}, draft=True)
            assert (pull["number"], pull["draft"]) == (1, True)
            remote.call("edit_pull", name=APP, number=1, draft=False)
            headers = {"Authorization": "Bearer t"}
            api = f"http://127.0.0.1:{port}/repos/octo/app"
            assert httpx.get(f"{api}/pulls/1").json()["draft"] is False
            remote.call("fail", status=502, method="POST", store=True)
            assert httpx.post(f"{api}/issues/1/comments", json={"body": "x"}, headers=headers).status_code == 502
            assert [comment["body"] for comment in remote.call("comments", name=APP, number=1)] == ["x"]
            assert [write["status"] for write in remote.get("writes")] == [502]
            assert remote.call("statuses", name=APP, sha=pull["head_sha"]) == []
            with pytest.raises(RuntimeError, match="no unheard"):
                remote.call("unheard")
            with pytest.raises(RuntimeError, match="KeyError"):
                remote.call("push", name="octo/none", branch="x", files={})
            remote.close()
        finally:
            process.terminate()
            assert process.wait(10) == 0
