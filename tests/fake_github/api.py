"""The REST API: routes, rights, and the limits that GitHub's description does not have."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from . import render, repos
from .fake import FakeGitHub
from .state import Comment, Pull, Repository, Request, Response

T = TypeVar("T")
MAX_BODY = 65_536
MAX_DESCRIPTION = 140
MAX_STATUSES = 1000
STATES = ("error", "failure", "pending", "success")
NEEDS = {
    "/issues": "issues=write; pull_requests=write",
    "/statuses": "statuses=write",
    "/pulls": "pull_requests=write",
    "/check-runs": "checks=write",
}
READS = {"/pulls": "pull_requests=read", "/commits": "statuses=read", "/branches": "contents=read"}
Route = Callable[..., Response]
_ROUTES: list[tuple[str, re.Pattern[str], Route]] = []


class Refusal(Exception):
    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(message)
        self.response = Response(status, render.error(message, status, **more), headers or {})


def route(method: str, pattern: str) -> Callable[[Route], Route]:
    """`{x}` is one segment, `{x+}` may hold slashes."""
    expression = re.sub(r"\{(\w+)\+\}", r"(?P<\1>.+)", pattern)
    expression = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", expression)

    def keep(function: Route) -> Route:
        _ROUTES.append((method, re.compile(expression), function))
        return function

    return keep


def answer(fake: FakeGitHub, request: Request) -> Response:
    try:
        return _answer(fake, request)
    except Refusal as refusal:
        return refusal.response


def _answer(fake: FakeGitHub, request: Request) -> Response:
    inside = re.fullmatch(r"/(?:repos/([^/]+/[^/]+)|repositories/(\d+))(/.*)?", request.path)
    if inside:
        name, number, rest = inside.groups()
        if rest == "/installation":  # the App itself asks, and no token of a repository
            from .apps import installation

            moved = next((it for it in fake.repositories.values() if name and name.casefold() in it.old_names), None)
            if moved and str(name).casefold() not in fake.repositories:
                where = f"{request.api}/repositories/{moved.id}/installation"
                raise Refusal(301, "Moved Permanently", {"Location": where}, url=where)
            known = next((it.full_name for it in fake.repositories.values() if number == str(it.id)), name)
            return installation(fake, request, *str(known).split("/"))
        repository = _find(fake, request, name, number, rest or "")
        if request.method == "GET":
            _may_read(request, repository, rest or "")
        else:
            _is_there(repository, rest or "")
            _may_write(request, rest or "")
        for method, pattern, function in _ROUTES:
            match = pattern.fullmatch(f"/REPO{rest or ''}")
            if match and method == request.method:
                return function(fake, request, repository, **match.groupdict())
    for method, pattern, function in _ROUTES:
        match = pattern.fullmatch(request.path)
        if match and method == request.method:
            return function(fake, request, **match.groupdict())
    raise Refusal(404, "Not Found")


def _find(fake: FakeGitHub, request: Request, name: str | None, number: str | None, rest: str) -> Repository:
    for repository in fake.repositories.values():
        if name is not None and name.casefold() in repository.old_names and name.casefold() not in fake.repositories:
            query = f"?{urlencode(request.query)}" if request.query else ""
            where = f"{request.api}/repositories/{repository.id}{rest}{query}"
            status, message = (301, "Moved Permanently") if request.method == "GET" else (307, "Temporary Redirect")
            raise Refusal(status, message, {"Location": where}, url=where)
        if number == str(repository.id) or (name is not None and repository.full_name.casefold() == name.casefold()):
            if _sees(request, repository):
                return repository
            break
    raise Refusal(404, "Not Found")


def _sees(request: Request, repository: Repository) -> bool:
    if request.token is not None and request.token.owner and request.token.owner != repository.owner:
        return not repository.private
    if not repository.private:
        return True
    return request.token is not None and (request.token.sees is None or repository.full_name in request.token.sees)


def _may_write(request: Request, rest: str) -> None:
    if request.token is None:
        raise Refusal(401, "Requires authentication")
    needed = next((needed for part, needed in NEEDS.items() if rest.startswith(part)), "contents=write")
    if not request.token.writes or not _granted(request, needed):
        raise _forbidden(request, needed)


def _may_read(request: Request, repository: Repository, rest: str) -> None:
    """What is public may be read by everybody; the rest needs the permission."""
    needed = next((needed for part, needed in READS.items() if rest.startswith(part)), None)
    if rest.endswith("/protection/required_status_checks"):
        if request.token is None or not request.token.administers:
            raise _forbidden(request, "administration=read")
    elif needed and repository.private and not _granted(request, needed):
        raise _forbidden(request, needed)


def _granted(request: Request, needed: str) -> bool:
    """Whether the token has one of the permissions in `needed`, as X-Accepted-GitHub-Permissions spells them."""
    lacks = request.token.lacks if request.token else frozenset()
    return any(one.strip().partition("=")[0] not in lacks for one in needed.split(";"))


def _forbidden(request: Request, needed: str) -> "Refusal":
    """A classic token is told nothing; a fine-grained one the permission that it lacks."""
    if request.token is not None and request.token.installation:
        return Refusal(403, "Resource not accessible by integration", {"X-Accepted-GitHub-Permissions": needed})
    if request.token is None or request.token.classic:
        return Refusal(404, "Not Found")
    headers = {"X-Accepted-GitHub-Permissions": needed}
    return Refusal(403, "Resource not accessible by personal access token", headers)


def _is_there(repository: Repository, rest: str) -> None:
    """GitHub looks for what is written to before it asks who writes."""
    found = re.match(r"/(?:issues|pulls)/(\d+)(?:/|$)", rest)
    if found:
        _pull(repository, found[1])


def _pull(repository: Repository, number: str) -> Pull:
    pull = repository.pulls.get(int(number)) if number.isdigit() else None
    if pull is None:
        raise Refusal(404, "Not Found")
    return pull


def _payload(request: Request) -> dict[str, Any]:
    try:
        payload = json.loads(request.body)
    except ValueError:
        payload = None
    if not isinstance(payload, dict):
        raise Refusal(400, "Problems parsing JSON")
    return payload


def _invalid(resource: str, field: str, message: str, code: str = "custom") -> Refusal:
    problem = {"resource": resource, "code": code, "field": field, "message": message}
    return Refusal(422, "Validation Failed", errors=[problem])


def _page(request: Request, rows: Sequence[T], path: str | None = None) -> tuple[Sequence[T], dict[str, str]]:
    """One page of `rows`, and the Link header that leads to the others, at `path` if it is not the request's own."""

    def number(name: str, default: int) -> int:
        value = request.query.get(name, "")
        return max(int(value), 1) if value.isdigit() else default

    size, at = min(number("per_page", 30), 100), number("page", 1)
    last = max((len(rows) + size - 1) // size, 1)
    pages = {"prev": at - 1, "next": at + 1, "last": last, "first": 1}
    if at <= 1:
        del pages["prev"], pages["first"]
    if at >= last:
        del pages["next"], pages["last"]
    links = [
        f'<{request.api}{path or request.path}?{urlencode({**request.query, "page": str(page)})}>; rel="{rel}"'
        for rel, page in pages.items()
    ]
    return rows[(at - 1) * size : at * size], {"Link": ", ".join(links)} if links else {}


def _listing(request: Request, repository: Repository | None, rows: Sequence[T], show: Callable[[T], Any]) -> Response:
    path = request.path
    if repository is not None:  # GitHub's own links name the repository by its id
        path = re.sub(r"^/(repos/[^/]+/[^/]+|repositories/\d+)", f"/repositories/{repository.id}", path)
    page, headers = _page(request, rows, path)
    return Response(200, lambda: [show(row) for row in page], headers)


@route("GET", "/REPO")
def get_repository(_: FakeGitHub, request: Request, repository: Repository) -> Response:
    return Response(200, lambda: render.repository(request, repository, full=True))


@route("GET", "/REPO/pulls")
def list_pulls(_: FakeGitHub, request: Request, repository: Repository) -> Response:
    state = request.query.get("state", "open")
    rows = [pull for pull in reversed(repository.pulls.values()) if state in ("all", pull.state)]
    return _listing(request, repository, rows, lambda pull: render.pull(request, repository, pull))


@route("GET", "/REPO/pulls/{number}")
def get_pull(_: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    pull = _pull(repository, number)
    return Response(200, lambda: render.pull(request, repository, pull, full=True))


@route("GET", "/REPO/issues/{number}/comments")
def list_comments(_: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    pull = _pull(repository, number)
    return _listing(request, repository, pull.comments, lambda it: render.comment(request, repository, pull.number, it))


@route("POST", "/REPO/issues/{number}/comments")
def create_comment(fake: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    pull, body = _pull(repository, number), _comment_body(request)
    assert request.token is not None
    comment = fake.add_comment(repository.full_name, pull.number, body, request.token.login)
    shown = render.comment(request, repository, pull.number, comment)
    return Response(201, shown, {"Location": shown["url"]})


def _comment_body(request: Request) -> str:
    body = _payload(request).get("body")
    if not isinstance(body, str) or not body.strip():
        raise _invalid("IssueComment", "body", "body can't be blank", "missing_field")
    if len(body) > MAX_BODY:
        raise _invalid("IssueComment", "body", f"body is too long (maximum is {MAX_BODY} characters)")
    return body


def _comment(repository: Repository, number: str) -> tuple[Pull, Comment]:
    for pull in repository.pulls.values():
        for comment in pull.comments:
            if str(comment.id) == number:
                return pull, comment
    raise Refusal(404, "Not Found")


@route("GET", "/REPO/issues/comments/{number}")
def get_comment(_: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    pull, comment = _comment(repository, number)
    return Response(200, render.comment(request, repository, pull.number, comment))


@route("PATCH", "/REPO/issues/comments/{number}")
def edit_comment(fake: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    pull, comment = _comment(repository, number)
    fake.edit_comment(repository.full_name, comment.id, _comment_body(request))
    return Response(200, render.comment(request, repository, pull.number, comment))


@route("DELETE", "/REPO/issues/comments/{number}")
def delete_comment(fake: FakeGitHub, _: Request, repository: Repository, number: str) -> Response:
    fake.delete_comment(repository.full_name, _comment(repository, number)[1].id)
    return Response(204)


@route("POST", "/REPO/statuses/{sha}")
def create_status(fake: FakeGitHub, request: Request, repository: Repository, sha: str) -> Response:
    payload = _payload(request)
    description, context = payload.get("description"), payload.get("context", "default")
    if not re.fullmatch(r"[0-9a-f]{40}", sha) or repos.resolve(repository.path, sha) is None:
        raise Refusal(422, f"No commit found for SHA: {sha}")
    if payload.get("state") not in STATES:
        raise _invalid("Status", "state", "state is not included in the list")
    if description is not None and len(description) > MAX_DESCRIPTION:
        raise _invalid("Status", "description", f"description is too long (maximum is {MAX_DESCRIPTION} characters)")
    if len(fake.statuses(repository.full_name, sha, context)) >= MAX_STATUSES:
        raise _invalid("Status", "context", "This SHA and context has reached the maximum number of statuses.")
    assert request.token is not None
    status = fake.add_status(
        repository.full_name,
        sha,
        payload["state"],
        context,
        description,
        payload.get("target_url"),
        request.token.login,
    )
    shown = render.status(request, repository, status)
    return Response(201, shown, {"Location": shown["url"]})


@route("GET", "/REPO/commits/{ref+}/statuses")
def list_statuses(fake: FakeGitHub, request: Request, repository: Repository, ref: str) -> Response:
    sha = repos.resolve(repository.path, ref) or ""
    rows = fake.statuses(repository.full_name, sha)
    return _listing(request, repository, rows, lambda it: render.status(request, repository, it))


@route("GET", "/REPO/commits/{ref+}/status")
def combined_status(fake: FakeGitHub, request: Request, repository: Repository, ref: str) -> Response:
    sha = repos.resolve(repository.path, ref)
    if sha is None:
        raise Refusal(404, "Not Found")
    latest = {it.context.casefold(): it for it in reversed(fake.statuses(repository.full_name, sha))}
    page, headers = _page(request, list(latest.values()))
    shown = render.combined(request, repository, sha, list(latest.values()), list(page))
    return Response(200, shown, headers)


@route("POST", "/REPO/pulls")
def create_pull(_: FakeGitHub, request: Request, __: Repository) -> Response:
    """Only its refusals: nobody here opens pull requests."""
    missing = [name for name in ("head", "base") if name not in _payload(request)]
    said = ", ".join(f'"{name}"' for name in missing) or "everything"
    raise Refusal(422, f"Invalid request.\n\n{said} wasn't supplied.")


@route("GET", "/REPO/rules/branches/{branch+}")
def list_rules(_: FakeGitHub, request: Request, repository: Repository, branch: str) -> Response:
    required = repository.rules.get(branch, [])
    return _listing(request, repository, [required] if required else [], lambda it: render.rule(repository, it))


@route("GET", "/REPO/branches/{branch+}/protection/required_status_checks")
def required_checks(_: FakeGitHub, request: Request, repository: Repository, branch: str) -> Response:
    required = repository.protection.get(branch)
    if required is None:
        raise Refusal(404, "Branch not protected")
    return Response(200, render.status_check_policy(request, repository, branch, required))


@route("GET", "/REPO/branches/{branch+}")
def get_branch(_: FakeGitHub, request: Request, repository: Repository, branch: str) -> Response:
    sha = repos.refs(repository.path).get(f"refs/heads/{branch}")
    if sha is None:
        raise Refusal(404, "Branch not found")
    return Response(200, render.branch(request, repository, branch, sha))


@route("GET", "/user")
def get_user(_: FakeGitHub, request: Request) -> Response:
    return Response(200, render.me(request, _signed_in(request)))


@route("GET", "/user/repos")
def own_repositories(fake: FakeGitHub, request: Request) -> Response:
    _signed_in(request)
    seen = [it for it in fake.repositories.values() if _sees(request, it)]
    return _listing(request, None, seen, lambda it: render.repository(request, it))


def _signed_in(request: Request) -> str:
    if request.token is None:
        raise Refusal(401, "Requires authentication")
    if request.token.installation:
        raise Refusal(403, "Resource not accessible by integration")
    return request.token.login


@route("GET", "/orgs/{owner}/repos")
def organization_repositories(fake: FakeGitHub, request: Request, owner: str) -> Response:
    rows = [it for it in fake.repositories.values() if it.organization and it.owner.casefold() == owner.casefold()]
    if not rows:
        raise Refusal(404, "Not Found")
    seen = [it for it in rows if _sees(request, it)]
    return _listing(request, None, seen, lambda it: render.repository(request, it))


@route("GET", "/users/{owner}/repos")
def user_repositories(fake: FakeGitHub, request: Request, owner: str) -> Response:
    rows = [it for it in fake.repositories.values() if it.owner.casefold() == owner.casefold()]
    if not rows:
        raise Refusal(404, "Not Found")
    public = [it for it in rows if not it.private]  # whoever asks
    return _listing(request, None, public, lambda it: render.repository(request, it))


@route("GET", "/installation/repositories")
def installed(fake: FakeGitHub, request: Request) -> Response:
    if request.token is None or not request.token.installation:
        raise Refusal(403, "You must authenticate with an installation access token in order to list repositories")
    sees = request.token.sees
    rows = [it for it in fake.repositories.values() if sees is None or it.full_name in sees]
    rows = [it for it in rows if request.token.owner in ("", it.owner)]
    page, headers = _page(request, rows)
    shown = [render.repository(request, it) for it in page]
    return Response(200, {"total_count": len(rows), "repository_selection": "selected", "repositories": shown}, headers)


@route("GET", "/rate_limit")
def rate_limit(fake: FakeGitHub, _: Request) -> Response:
    return Response(200, render.rate(fake.rate_remaining, fake.rate_limit, fake.now() + 3600))


@route("GET", "/meta")
def meta(_: FakeGitHub, __: Request) -> Response:
    return Response(200, {"verifiable_password_authentication": False})
