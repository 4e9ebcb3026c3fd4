"""GitHub Apps: their signed claims, the tokens of their installations, check runs."""

import base64
import hashlib
import json
from typing import Any

from . import render, repos
from .api import Refusal, _listing, _page, _payload, route
from .fake import FakeGitHub
from .state import App, CheckRun, Repository, Request, Response, Token

_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")  # RFC 8017: what says that SHA-256 follows
LONGEST = 600  # seconds that a claim may be valid
MOST_ANNOTATIONS = 50
DONE = ("action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out")


def claimed(fake: FakeGitHub, jwt: str) -> App | str:
    """The App that signed this, or GitHub's words for why it is none. RS256 with the standard library alone."""

    def part(text: str) -> bytes:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    try:
        head, claims, signature = jwt.split(".")
        told = json.loads(part(claims))
        app = fake.apps[int(told["iss"])]
        size = (app.modulus.bit_length() + 7) // 8
        opened = pow(int.from_bytes(part(signature)), app.exponent, app.modulus).to_bytes(size)
        digest = hashlib.sha256(f"{head}.{claims}".encode()).digest()
        wanted = b"\0\1" + b"\xff" * (size - 3 - len(_SHA256) - 32) + b"\0" + _SHA256 + digest
        if json.loads(part(head))["alg"] != "RS256" or opened != wanted:
            return "A JSON web token could not be decoded"
        issued, expires = told["iat"], told["exp"]
    except (KeyError, ValueError, TypeError):
        return "A JSON web token could not be decoded"
    if issued > fake.now():
        return "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
    if expires <= fake.now() or expires > fake.now() + LONGEST:
        return (
            "'Expiration time' claim ('exp') is too far in the future" if expires > fake.now() else "'exp' has passed"
        )
    return app


def _app(fake: FakeGitHub, request: Request) -> App:
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    found = claimed(fake, value.strip()) if kind.casefold() == "bearer" else "A JSON web token could not be decoded"
    if isinstance(found, str):
        raise Refusal(401, found)
    return found


@route("GET", "/app")
def get_app(fake: FakeGitHub, request: Request) -> Response:
    return Response(200, render.app(request, _app(fake, request)))


@route("GET", "/app/installations")
def installations(fake: FakeGitHub, request: Request) -> Response:
    app = _app(fake, request)
    rows = list(app.installations.items())
    return _listing(request, None, rows, lambda it: render.installation(request, app, *it))


@route("GET", "/repos/{owner}/{name}/installation")
def installation(fake: FakeGitHub, request: Request, owner: str, name: str) -> Response:
    app = _app(fake, request)
    repository = fake.repositories.get(f"{owner}/{name}".casefold())
    number = app.installations.get(repository.owner) if repository else None
    if repository is None or number is None:
        raise Refusal(404, "Not Found")
    return Response(200, render.installation(request, app, repository.owner, number))


@route("POST", "/app/installations/{number}/access_tokens")
def access_token(fake: FakeGitHub, request: Request, number: str) -> Response:
    app = _app(fake, request)
    owner = next((owner for owner, each in app.installations.items() if str(each) == number), None)
    if owner is None:
        raise Refusal(404, "Not Found")
    if owner in app.suspended:
        raise Refusal(403, "This installation has been suspended")
    app.issued += 1
    filling = hashlib.sha256(f"{app.id} {number} {app.issued}".encode()).hexdigest()
    token = f"ghs_{app.id}.{(filling * 8)[:500]}.{app.issued:04d}"  # some 520 characters, with dots, since 2026-04
    granted = {kind for kind, level in app.permissions.items() if level == "write"}
    lacks = frozenset({"statuses", "pull_requests", "issues", "contents", "checks", "administration"} - granted)
    expires = fake.now() + 3600
    fake.tokens[token] = Token(
        f"{app.slug}[bot]", installation=True, app=app.id, owner=owner, lacks=lacks - {"contents"}, expires=expires
    )
    told = {
        "token": token,
        "expires_at": render.stamp(expires),
        "permissions": app.permissions,
        "repository_selection": "selected",
    }
    return Response(201, told)


def _find(repository: Repository, number: str) -> CheckRun:
    for one in repository.check_runs:
        if str(one.id) == number:
            return one
    raise Refusal(404, "Not Found")


@route("GET", "/REPO/commits/{ref+}/check-runs")
def list_check_runs(fake: FakeGitHub, request: Request, repository: Repository, ref: str) -> Response:
    sha, query = repos.resolve(repository.path, ref), request.query
    if sha is None:
        raise Refusal(422, f"No commit found for SHA: {ref}")
    rows = [it for it in reversed(repository.check_runs) if it.sha == sha]
    rows = [it for it in rows if query.get("check_name", it.name) == it.name]
    rows = [it for it in rows if query.get("app_id", str(it.app)) == str(it.app)]
    if query.get("filter", "latest") == "latest":
        latest: dict[tuple[str, int], CheckRun] = {}
        for it in rows:
            latest.setdefault((it.name, it.app), it)
        rows = list(latest.values())
    page, headers = _page(request, rows, f"/repositories/{repository.id}/commits/{ref}/check-runs")
    shown = [render.check_run(request, repository, it, fake.apps.get(it.app)) for it in page]
    return Response(200, {"total_count": len(rows), "check_runs": shown}, headers)


@route("POST", "/REPO/check-runs")
def create_check_run(fake: FakeGitHub, request: Request, repository: Repository) -> Response:
    payload = _payload(request)
    sha = payload.get("head_sha", "")
    if request.token is None or not request.token.app:
        raise Refusal(403, "You must authenticate via a GitHub App.")
    if repos.resolve(repository.path, sha) is None:
        raise Refusal(422, f"No commit found for SHA: {sha}")
    run = CheckRun(next(fake._ids), sha, payload["name"], "queued", None, request.token.app, fake.now())
    _change(fake, run, payload)
    repository.check_runs.append(run)
    return Response(201, render.check_run(request, repository, run, fake.apps.get(run.app)))


@route("PATCH", "/REPO/check-runs/{number}")
def update_check_run(fake: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    run = _find(repository, number)
    if request.token is None or request.token.app != run.app:
        raise Refusal(403, "Invalid app_id `1` - check run can only be modified by the GitHub App that created it.")
    _change(fake, run, _payload(request))
    return Response(200, render.check_run(request, repository, run, fake.apps.get(run.app)))


@route("GET", "/REPO/check-runs/{number}")
def get_check_run(fake: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    run = _find(repository, number)
    return Response(200, render.check_run(request, repository, run, fake.apps.get(run.app)))


@route("GET", "/REPO/check-runs/{number}/annotations")
def list_annotations(_: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    run = _find(repository, number)
    return _listing(request, repository, run.annotations, lambda it: render.annotation(request, repository, run, it))


def _change(fake: FakeGitHub, run: CheckRun, payload: dict[str, Any]) -> None:
    output, conclusion = payload.get("output"), payload.get("conclusion")
    if payload.get("status") == "completed" and conclusion is None:
        raise Refusal(422, 'Invalid request.\n\nNo subschema in "anyOf" matched: conclusion is missing.')
    if conclusion is not None and conclusion not in DONE:
        raise Refusal(422, f"Invalid request.\n\n{conclusion} is not a member of conclusion.")
    if output is not None:
        annotations = output.get("annotations", [])
        if len(annotations) > MOST_ANNOTATIONS:
            raise Refusal(422, f"Invalid request.\n\nNo more than {MOST_ANNOTATIONS} items are allowed.")
        for one in annotations:
            if len(one.get("title", "")) > 255 or len(one["message"].encode()) > 65_536 or one["start_line"] < 1:
                raise Refusal(422, "Invalid request.\n\nAn annotation is not valid.")
        if len(output["summary"]) > 65_535:
            raise Refusal(422, "Invalid request.\n\nThe summary is too long.")
        run.title, run.summary = output["title"], output["summary"]
        run.annotations += annotations  # GitHub appends them
    run.details_url = payload.get("details_url", run.details_url)
    run.external_id = payload.get("external_id", run.external_id)
    if run.status == "completed":
        pass  # GitHub opens none again, and changes no conclusion
    elif conclusion is not None:
        run.status, run.conclusion, run.completed_at = "completed", conclusion, fake.now()
    elif "status" in payload:
        run.status, run.conclusion, run.completed_at = payload["status"], None, None
    fake.generation += 1
