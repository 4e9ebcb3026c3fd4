"""A small GitHub on the loopback: the routes that a cycle asks, and answers that go wrong where a row says so."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

REPOSITORY = "trial/app"
CONTEXT = "codex-review"
LOGIN = "trial-reviewer"
MAINTAINER = "maria"  # who alone has write access
MAX_STATUSES = 1000
MAX_NOTES = 50  # annotations of a check run in one write
APP_ID = 7  # of the rows that are of a GitHub App
CHANGED, CHANGED_LINES = "app.py", 2  # all that a pull request of the trials changes, and so where comments fit
HANG_SECONDS = 0.6  # longer than the client of a trial waits
Json = Any

How = Literal["empty", "short", "stale", "truncated", "cut off", "answer", "hang", "drop", "redirect", "elsewhere"]


@dataclass(frozen=True)
class Trouble:
    """What goes wrong with the requests of `method` whose path holds `route`: the first `skip` of them go well.
    Of GraphQL the path ends with `#` and what is asked for.

    `stored`: what was to be written is written all the same. `answer`: `status`, `headers` and `message`; `short`: a
    list without its last entry; `stale`: as it was when the trial began; `truncated`: half of the JSON, `cut off` under
    the length of the whole; `drop`: the connection ends without a word; `redirect` leads to where it is answered,
    `elsewhere` to another host. `times`: so often, 0 as long as the fault lasts.
    """

    method: str
    route: str
    how: How = "answer"
    status: int = 502
    headers: tuple[tuple[str, str], ...] = ()
    message: str = "made on purpose"
    stored: bool = False
    times: int = 0
    skip: int = 0

    def __str__(self) -> str:
        what = f"{self.status} {dict(self.headers) or ''}".strip() if self.how == "answer" else self.how
        when = "after it was stored" if self.stored else ""
        often = f"{self.times} times" if self.times else ""
        return " ".join(filter(None, (f"{self.method} {self.route}:", what, when, often)))


@dataclass
class Pull:
    number: int
    head: str
    base_ref: str
    base: str
    author: str | None = "mallory"
    state: str = "open"
    updated: int = 0
    comments: list[dict[str, Json]] = field(default_factory=list)
    reviews: list[dict[str, Json]] = field(default_factory=list)
    threads: list[dict[str, Json]] = field(default_factory=list)


@dataclass(frozen=True)
class Write:
    """One thing that the forge stored: `pulls` are (number, head, base branch) of those open at that moment."""

    at: int
    kind: str
    what: tuple[str, ...]
    pulls: tuple[tuple[int, str, str], ...]


@dataclass
class State:
    pulls: dict[int, Pull] = field(default_factory=dict)
    statuses: dict[str, list[dict[str, Json]]] = field(default_factory=dict)
    runs: list[dict[str, Json]] = field(default_factory=list)
    count: int = 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that hangs up is part of it


class GitHub:
    """A context manager: the server runs inside. `tick` counts the events of a trial, whoever makes them."""

    def __init__(self, tick: Callable[[], int], clock: Callable[[], float]) -> None:
        self.state = State()
        self.begun = State()
        self.faults: list[Trouble] = []
        self.writes: list[Write] = []
        self.refused: list[str] = []
        self.asked: list[str] = []
        self._met: dict[int, int] = {}
        self._tick, self.clock = tick, clock
        self.lock = threading.RLock()
        made = type("Answering", (_Handler,), {"github": self})
        self._server = _Server(("127.0.0.1", 0), made)

    def __enter__(self) -> "GitHub":
        threading.Thread(target=self._server.serve_forever, args=(0.02,), name="trial-github", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def begin(self, faults: tuple[Trouble, ...]) -> None:
        """From here on things go wrong; what there is now is what a stale answer tells."""
        with self.lock:
            self.begun, self.faults, self._met = deepcopy(self.state), list(faults), {}

    def heal(self) -> None:
        with self.lock:
            self.faults = []

    def changed(self, pull: Pull) -> None:
        pull.updated += 1

    def fault(self, method: str, path: str) -> Trouble | None:
        for number, fault in enumerate(self.faults):
            if fault.method == method and re.search(fault.route, path):
                met = self._met[number] = self._met.get(number, 0) + 1
                if met > fault.skip and (not fault.times or met <= fault.skip + fault.times):
                    return fault
        return None

    def note(self, kind: str, *what: str) -> None:
        opened = tuple((pull.number, pull.head, pull.base_ref) for pull in self.state.pulls.values() if _open(pull))
        self.writes.append(Write(self._tick(), kind, what, opened))


def _open(pull: Pull) -> bool:
    return pull.state == "open"


@dataclass
class Reply:
    status: int
    payload: Json = None
    headers: dict[str, str] = field(default_factory=dict)


class Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.reply = Reply(status, {"message": message})


def answered(github: GitHub, state: State, method: str, path: str, query: dict[str, str], body: Json) -> Reply:
    """What GitHub answers when nothing goes wrong."""
    inside = path.removeprefix(f"/repos/{REPOSITORY}").removeprefix("/repositories/1")
    for of, pattern, route in _ROUTES:
        match = re.fullmatch(pattern, inside)
        if match and of == method:
            try:
                return route(github, state, query, body, *match.groups())
            except Refusal as refusal:
                return refusal.reply
    github.refused.append(f"{method} {path}")
    return Reply(404, {"message": "Not Found"})


def _pull(state: State, number: str) -> Pull:
    if int(number) not in state.pulls:
        raise Refusal(404, "Not Found")
    return state.pulls[int(number)]


def _list(github: GitHub, rows: list[Json], path: str, query: dict[str, str]) -> Reply:
    """One page, with the way to the next."""
    size, page = min(int(query.get("per_page", "30")), 100), int(query.get("page", "1"))
    more = {}
    if page * size < len(rows):
        rest = "&".join(f"{key}={value}" for key, value in query.items() if key != "page")
        more = {"Link": f'<{github.url}/repositories/1{path}?{rest}&page={page + 1}>; rel="next"'}
    return Reply(200, rows[(page - 1) * size : page * size], more)


def _get_pulls(github: GitHub, state: State, query: dict[str, str], _: Json) -> Reply:
    rows = [_shown(github, pull) for pull in state.pulls.values() if _open(pull)]
    return _list(github, rows, "/pulls", query)


def _get_pull(github: GitHub, state: State, _: dict[str, str], __: Json, number: str) -> Reply:
    pull = _pull(state, number)
    return Reply(200, {**_shown(github, pull), "comments": len(pull.comments)})


def _get_comments(github: GitHub, state: State, query: dict[str, str], _: Json, number: str) -> Reply:
    return _list(github, _pull(state, number).comments, f"/issues/{number}/comments", query)


def _post_comment(github: GitHub, state: State, _: dict[str, str], body: Json, number: str) -> Reply:
    if len(body["body"]) > 65_536:
        raise Refusal(422, "Body is too long (maximum is 65536 characters)")
    pull = _pull(state, number)
    made = comment(github, state, body["body"], LOGIN)
    pull.comments.append(made)
    github.changed(pull)
    github.note("comment", number, body["body"])
    return Reply(201, made)


def _edit_comment(github: GitHub, state: State, _: dict[str, str], body: Json, number: str) -> Reply:
    for pull in state.pulls.values():
        for found in pull.comments:
            if found["id"] == int(number):
                found["body"] = body["body"]
                github.changed(pull)
                github.note("edit", str(pull.number), body["body"], found["user"]["login"])
                return Reply(200, found)
    raise Refusal(404, "Not Found")


def _get_comment(_: GitHub, state: State, __: dict[str, str], ___: Json, number: str) -> Reply:
    for pull in state.pulls.values():
        for found in pull.comments:
            if found["id"] == int(number):
                return Reply(200, found)
    raise Refusal(404, "Not Found")


def comment(github: GitHub, state: State, body: str, author: str) -> dict[str, Json]:
    state.count += 1
    return {
        "id": state.count,
        "node_id": f"C{state.count}",
        "body": body,
        "html_url": f"{github.url}/{REPOSITORY}/issues#comment-{state.count}",
        "user": {"login": author},
        "minimized": False,
        "reactions": [],
        "created_at": stamp(github.clock()),
        "updated_at": stamp(github.clock()),
    }


def _find(state: State, wanted: Callable[[dict[str, Json]], bool]) -> dict[str, Json] | None:
    return next((one for pull in state.pulls.values() for one in pull.comments if wanted(one)), None)


def _post_status(github: GitHub, state: State, _: dict[str, str], body: Json, sha: str) -> Reply:
    if len(body.get("description") or "") > 140:
        raise Refusal(422, "Validation Failed: description is too long (maximum is 140 characters)")
    rows = state.statuses.setdefault(sha, [])
    if len(rows) >= MAX_STATUSES:
        raise Refusal(422, "Validation Failed: This SHA and context has reached the maximum number of statuses.")
    state.count += 1
    made = {"id": state.count, "created_at": stamp(github.clock()), **body}
    rows.insert(0, made)
    github.note("status", sha, body["state"], body.get("description") or "")
    return Reply(201, made)


def _get_statuses(github: GitHub, state: State, query: dict[str, str], _: Json, sha: str) -> Reply:
    return _list(github, state.statuses.get(sha, []), f"/commits/{sha}/statuses", query)


def _get_combined(github: GitHub, state: State, _: dict[str, str], __: Json, sha: str) -> Reply:
    newest = {row["context"].casefold(): row for row in reversed(state.statuses.get(sha, []))}
    told = {"state": "pending", "total_count": len(newest), "statuses": list(newest.values())}
    return Reply(200, told)


def shown(state: State, sha: str) -> tuple[str, str]:
    """The gate of a commit as GitHub goes by it, in the words of a status: the newest check run, if there is one."""
    runs = [run for run in state.runs if run["head_sha"] == sha]
    if not runs:
        rows = state.statuses.get(sha, [])
        return (rows[0]["state"], rows[0].get("description") or "") if rows else ("none", "")
    newest, passes = max(runs, key=lambda run: int(run["id"])), ("success", "neutral", "skipped")
    title = newest["output"]["title"]
    if newest["status"] != "completed":
        return "pending", title
    if newest["conclusion"] in passes:
        return "success", title
    return ("error", title.removeprefix("error: ")) if title.startswith("error: ") else ("failure", title)


def _get_runs(github: GitHub, state: State, query: dict[str, str], _: Json, sha: str) -> Reply:
    rows = [run for run in reversed(state.runs) if run["head_sha"] == sha]
    if query.get("filter", "latest") == "latest":
        rows = rows[:1]
    page = _list(github, rows, f"/commits/{sha}/check-runs", query)
    return Reply(200, {"total_count": len(rows), "check_runs": page.payload}, page.headers)


def _post_run(github: GitHub, state: State, _: dict[str, str], body: Json) -> Reply:
    state.count += 1
    fresh: dict[str, Json] = {"id": state.count, "app": {"id": APP_ID}, "head_sha": body["head_sha"]}
    fresh |= {"status": "queued", "conclusion": None, "output": {"annotations_count": 0}}
    state.runs.append(fresh)
    _written(github, state, fresh, body)
    return Reply(201, fresh)


def _patch_run(github: GitHub, state: State, _: dict[str, str], body: Json, number: str) -> Reply:
    for run in state.runs:
        if run["id"] == int(number):
            _written(github, state, run, body)
            return Reply(200, run)
    raise Refusal(404, "Not Found")


def _written(github: GitHub, state: State, run: dict[str, Json], body: Json) -> None:
    """GitHub adds annotations to those that are there, and opens no run again that is completed."""
    notes = body["output"].get("annotations", [])
    if len(notes) > MAX_NOTES:
        raise Refusal(422, f"Invalid request. No more than {MAX_NOTES} items are allowed.")
    count = run["output"]["annotations_count"] + len(notes)
    run |= {key: body[key] for key in ("name", "external_id", "details_url") if key in body}
    run["output"] = {**body["output"], "annotations": None, "annotations_count": count}
    if run["status"] != "completed":
        run |= {"status": body["status"], "conclusion": body.get("conclusion")}
    github.note("status", run["head_sha"], *shown(state, run["head_sha"]))


def _get_ref(_: GitHub, state: State, __: dict[str, str], ___: Json, branch: str) -> Reply:
    for pull in state.pulls.values():
        if pull.base_ref == branch:
            name = f"refs/heads/{branch}"
            return Reply(200, {"ref": name, "name": branch, "object": {"sha": pull.base}, "commit": {"sha": pull.base}})
    raise Refusal(404, "Not Found")


def _get_reviews(github: GitHub, state: State, query: dict[str, str], _: Json, number: str) -> Reply:
    return _list(github, _pull(state, number).reviews, f"/pulls/{number}/reviews", query)


def _post_review(github: GitHub, state: State, _: dict[str, str], body: Json, number: str) -> Reply:
    pull = _pull(state, number)
    for each in body["comments"]:  # one bad anchor refuses the whole
        if each["path"] != CHANGED or not each.get("start_line", 1) <= each["line"] <= CHANGED_LINES:
            raise Refusal(422, "Unprocessable Entity: Line could not be resolved")
    state.count += 1
    made = {
        "id": state.count,
        "node_id": f"R{state.count}",
        "body": body["body"],
        "state": "COMMENTED" if body["event"] == "COMMENT" else body["event"],
        "commit_id": body["commit_id"],
        "html_url": f"{github.url}/{REPOSITORY}/pull/{number}#review-{state.count}",
        "user": {"login": LOGIN},
    }
    pull.reviews.append(made)
    for each in body["comments"]:
        first = comment(github, state, each["body"], LOGIN)
        pull.threads.append({"id": f"T{first['id']}", "path": each["path"], "resolved": False, "comments": [first]})
    github.changed(pull)
    github.note("review", number, body["body"], *(each["body"] for each in body["comments"]))
    return Reply(200, made)


def _post_reply(github: GitHub, state: State, _: dict[str, str], body: Json, number: str, first: str) -> Reply:
    for thread in _pull(state, number).threads:
        if thread["comments"][0]["id"] == int(first):
            made = comment(github, state, body["body"], LOGIN)
            thread["comments"].append(made)
            github.note("reply", number, body["body"])
            return Reply(201, made)
    raise Refusal(404, "Not Found")


def _graphql(github: GitHub, state: State, _: dict[str, str], body: Json) -> Reply:
    query, given = body["query"], body.get("variables") or {}
    if "resolveReviewThread" in query:
        found = [one for pull in state.pulls.values() for one in pull.threads if one["id"] == given["id"]]
        if not found:
            return _no_node(given["id"])
        found[0]["resolved"] = True
        github.note("resolve", given["id"])
        return Reply(200, {"data": {"resolveReviewThread": {"thread": {"isResolved": True}}}})
    if "minimizeComment" in query:
        hidden = _find(state, lambda one: one["node_id"] == given["id"])
        if hidden is None:
            return _no_node(given["id"])
        hidden["minimized"] = True
        github.note("minimize", given["id"])
        return Reply(200, {"data": {"minimizeComment": {"minimizedComment": {"isMinimized": True}}}})
    if "viewer" in query:
        return Reply(200, {"data": {"viewer": {"login": LOGIN}}})
    pull = _pull(state, str(given.get("number", 1)))
    if "reviewThreads" in query:
        told: Json = {"reviewThreads": _connection([_thread(one) for one in pull.threads])}
    else:
        told = {"reviews": {"totalCount": len(pull.reviews)}}
    return Reply(200, {"data": {"repository": {"pullRequest": told}}})


def _no_node(name: str) -> Reply:
    """What GraphQL refuses, it refuses with 200."""
    told = {"type": "NOT_FOUND", "message": f"Could not resolve to a node with the global id of '{name}'."}
    return Reply(200, {"data": None, "errors": [told]})


def _connection(nodes: list[Json]) -> Json:
    return {"totalCount": len(nodes), "pageInfo": {"hasNextPage": False, "endCursor": None}, "nodes": nodes}


def _thread(thread: dict[str, Json]) -> Json:
    told = [
        {
            "fullDatabaseId": str(one["id"]),
            "body": one["body"],
            "url": one["html_url"],
            "createdAt": one["created_at"],
            "author": {"__typename": "User", **one["user"]},
        }
        for one in thread["comments"]
    ]
    shown = {"id": thread["id"], "isResolved": thread["resolved"], "path": thread["path"]}
    return {**shown, "comments": _connection(told)}


def _react(github: GitHub, state: State, _: dict[str, str], body: Json, number: str) -> Reply:
    found = _find(state, lambda one: one["id"] == int(number))
    if found is None:
        raise Refusal(404, "Not Found")
    told = {"content": body["content"], "user": {"login": LOGIN}}
    for each in found["reactions"]:
        if (each["content"], each["user"]) == (told["content"], told["user"]):
            return Reply(200, each)
    state.count += 1
    found["reactions"].append({"id": state.count, **told})
    github.note("react", number, body["content"])
    return Reply(201, found["reactions"][-1])


def _permission(_: GitHub, __: State, ___: dict[str, str], ____: Json, user: str) -> Reply:
    held = "write" if user == MAINTAINER else "read"
    return Reply(200, {"permission": held, "role_name": held, "user": {"login": user}})


def _me(*_: object) -> Reply:
    return Reply(200, {"login": LOGIN, "id": 1})


Route = Callable[..., Reply]
_ROUTES: list[tuple[str, str, Route]] = [
    ("GET", "/pulls", _get_pulls),
    ("GET", r"/pulls/(\d+)", _get_pull),
    ("GET", r"/issues/(\d+)/comments", _get_comments),
    ("POST", r"/issues/(\d+)/comments", _post_comment),
    ("GET", r"/issues/comments/(\d+)", _get_comment),
    ("PATCH", r"/issues/comments/(\d+)", _edit_comment),
    ("POST", r"/statuses/([0-9a-f]{40})", _post_status),
    ("GET", r"/commits/([0-9a-f]{40})/statuses", _get_statuses),
    ("GET", r"/commits/([0-9a-f]{40})/status", _get_combined),
    ("GET", r"/commits/([0-9a-f]{40})/check-runs", _get_runs),
    ("POST", "/check-runs", _post_run),
    ("PATCH", r"/check-runs/(\d+)", _patch_run),
    ("GET", r"/pulls/(\d+)/reviews", _get_reviews),
    ("POST", r"/pulls/(\d+)/reviews", _post_review),
    ("POST", r"/pulls/(\d+)/comments/(\d+)/replies", _post_reply),
    ("POST", r"/issues/comments/(\d+)/reactions", _react),
    ("GET", r"/collaborators/([^/]+)/permission", _permission),
    ("POST", "/graphql", _graphql),
    ("GET", r"/(?:branches|git/ref/heads)/(.+)", _get_ref),
    ("GET", "/user", _me),
]


def stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _shown(github: GitHub, pull: Pull) -> dict[str, Json]:
    page = f"{github.url}/{REPOSITORY}"
    return {
        "number": pull.number,
        "id": pull.number,
        "node_id": f"P{pull.number}",
        "state": pull.state,
        "title": f"Change {pull.number}",
        "body": None,
        "draft": False,
        "labels": [],
        "user": {"login": pull.author} if pull.author else None,
        "author_association": "MEMBER",
        "created_at": "2026-11-01T00:00:00Z",
        "updated_at": stamp(1_790_000_000 + pull.updated),
        "html_url": f"{page}/pull/{pull.number}",
        "head": {"ref": f"feature-{pull.number}", "sha": pull.head, "repo": None},
        "base": {
            "ref": pull.base_ref,
            "sha": pull.base,
            "repo": {"id": 1, "full_name": REPOSITORY, "html_url": page, "clone_url": f"{page}.git"},
        },
    }


class _Handler(BaseHTTPRequestHandler):
    github: GitHub
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else None
        asked = parts.path + (f"#{_asked_for(body['query'])}" if body and parts.path == "/graphql" else "")
        with self.github.lock:
            self.github.asked.append(f"{self.command} {asked}")
            fault = self.github.fault(self.command, asked) if "redirected" not in query else None
            reply = self._reply(parts.path, query, body, fault)
        if fault and fault.how == "hang":
            time.sleep(HANG_SECONDS)
        if fault and fault.how in ("hang", "drop"):
            self.close_connection = True
            return
        self._send(reply, fault)

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET

    def _reply(self, path: str, query: dict[str, str], body: Json, fault: Trouble | None) -> Reply:
        github = self.github
        if fault and fault.how in ("redirect", "elsewhere"):
            host = github.url if fault.how == "redirect" else "http://127.0.0.2:9"
            rest = "&".join(f"{key}={value}" for key, value in {**query, "redirected": "1"}.items())
            return Reply(307, {"message": "Temporary Redirect"}, {"Location": f"{host}{path}?{rest}"})
        state = github.begun if fault and fault.how == "stale" else github.state
        if fault and not (fault.how in ("empty", "short", "stale", "truncated", "cut off") or fault.stored):
            reply = Reply(502)
        else:
            reply = answered(github, state, self.command, path, query, body)
        if fault and fault.how == "answer":
            now, told = github.clock(), dict(fault.headers)
            if "x-ratelimit-reset" in told:  # seconds from now
                told["x-ratelimit-reset"] = str(int(now + float(told["x-ratelimit-reset"])))
            reply = Reply(fault.status, {"message": fault.message}, told)
        if fault and fault.how in ("empty", "short"):
            reply.payload, reply.headers = _cut(reply.payload, fault.how), {}
        return reply

    def _send(self, reply: Reply, fault: Trouble | None) -> None:
        body = json.dumps(reply.payload).encode()
        headers = {"Content-Type": "application/json; charset=utf-8", **reply.headers}
        headers.setdefault("Date", formatdate(self.github.clock(), usegmt=True))
        status = reply.status
        if fault is None and self.command == "GET" and status == 200:
            headers["ETag"] = f'W/"{hashlib.sha256(body + repr(sorted(reply.headers.items())).encode()).hexdigest()}"'
            if self.headers.get("If-None-Match") == headers["ETag"]:
                status, body = 304, b""
        length = len(body)
        if fault and fault.how in ("truncated", "cut off"):
            body = body[: len(body) // 2]
            length = len(body) if fault.how == "truncated" else length
            self.close_connection = True
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items())]
        if status != 304:
            lines.append(f"Content-Length: {length}")
        try:
            self.wfile.write("\r\n".join([*lines, "", ""]).encode() + body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


def _asked_for(query: str) -> str:
    known = ("resolveReviewThread", "minimizeComment", "viewer", "reviewThreads", "reviews", "node")
    return next((name for name in known if name in query), "")


def _cut(payload: Json, how: str) -> Json:
    if isinstance(payload, list):
        return [] if how == "empty" else payload[:-1]
    if isinstance(payload, dict):
        return {key: _cut(value, how) for key, value in payload.items()}
    return payload
