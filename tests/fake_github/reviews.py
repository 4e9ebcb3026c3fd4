"""Routes of reviews, their comments and reactions."""

from typing import Any

from . import diffs, render, repos
from .api import MAX_BODY, Refusal, _comment, _comment_body, _listing, _payload, _pull, route
from .fake import FakeGitHub
from .state import LineComment, Pull, Reaction, Repository, Request, Response, Review

EVENTS = {"COMMENT": "COMMENTED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "APPROVE": "APPROVED", None: "PENDING"}
OWN = {"APPROVE": "approve", "REQUEST_CHANGES": "request changes on"}
REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


def _refused(*errors: str) -> Refusal:
    return Refusal(422, "Unprocessable Entity", errors=list(errors))


def _seen(request: Request, pull: Pull) -> list[Review]:
    """A pending review is shown to nobody but its author."""
    login = request.token.login if request.token else None
    return [it for it in pull.reviews if it.state != "PENDING" or it.author == login]


@route("GET", "/REPO/pulls/{number}/reviews")
def list_reviews(_: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    pull = _pull(repository, number)
    return _listing(request, repository, _seen(request, pull), lambda it: render.review(request, repository, pull, it))


@route("GET", "/REPO/pulls/{number}/reviews/{review}")
def get_review(_: FakeGitHub, request: Request, repository: Repository, number: str, review: str) -> Response:
    pull = _pull(repository, number)
    for it in _seen(request, pull):
        if str(it.id) == review:
            return Response(200, render.review(request, repository, pull, it))
    raise Refusal(404, "Not Found")


@route("POST", "/REPO/pulls/{number}/reviews")
def create_review(fake: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    pull, payload = _pull(repository, number), _payload(request)
    assert request.token is not None
    event, body, login = payload.get("event"), payload.get("body") or "", request.token.login
    comments: list[dict[str, Any]] = payload.get("comments") or []
    if event not in EVENTS:
        raise _refused("Variable $event of type PullRequestReviewEvent was provided invalid value")
    if event in OWN and pull.author == login:
        raise _refused(f"Can not {OWN[event]} your own pull request")
    if event in ("COMMENT", "REQUEST_CHANGES") and not body.strip():
        raise _refused("Body can't be blank")
    if any(len(text) > MAX_BODY for text in (body, *(it["body"] for it in comments))):
        raise _refused(f"Body is too long (maximum is {MAX_BODY} characters)")
    if any(not it["body"].strip() for it in comments):
        raise _refused("Pull request review comment body can't be blank")
    if any(it.state == "PENDING" and it.author == login for it in pull.reviews):
        raise _refused("User can only have one pending review per pull request")
    commit = payload.get("commit_id") or pull.head_sha
    if repos.resolve(repository.path, commit) is None:
        raise _refused("The commit is not part of the pull request")
    found = diffs.places(repository.path, pull.base_sha, commit)
    problems = [said for it in comments if (said := diffs.problem(found, it))]
    if problems:  # of one, or of all: nothing is stored
        raise _refused(*dict.fromkeys(problems))
    review = fake.add_review(repository.full_name, pull.number, EVENTS[event], body, login, commit, comments)
    return Response(200, render.review(request, repository, pull, review))


@route("GET", "/REPO/pulls/{number}/comments")
def list_line_comments(_: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    pull = _pull(repository, number)
    shown = {it.id for it in pull.reviews if it.state != "PENDING"}
    rows = [it for it in pull.line_comments if it.review in shown]
    return _listing(request, repository, rows, lambda it: render.line_comment(request, repository, pull, it))


@route("GET", "/REPO/pulls/{number}/reviews/{review}/comments")
def comments_of_review(_: FakeGitHub, request: Request, repository: Repository, number: str, review: str) -> Response:
    pull = _pull(repository, number)
    rows = [it for it in pull.line_comments if str(it.review) == review]
    return _listing(request, repository, rows, lambda it: render.line_comment(request, repository, pull, it))


@route("POST", "/REPO/pulls/{number}/comments/{comment}/replies")
def reply(fake: FakeGitHub, request: Request, repository: Repository, number: str, comment: str) -> Response:
    pull, body = _pull(repository, number), _comment_body(request)
    assert request.token is not None
    top = next((it for it in pull.line_comments if str(it.id) == comment), None)
    if top is None:
        raise Refusal(404, "Not Found")
    if top.reply_to is not None:
        raise Refusal(422, "Validation Failed", errors=[{"code": "custom", "message": "in_reply_to is a reply itself"}])
    made = fake.add_reply(repository.full_name, pull.number, top.id, body, request.token.login)
    shown = render.line_comment(request, repository, pull, made)
    return Response(201, shown, {"Location": shown["url"]})


@route("GET", "/REPO/issues/comments/{number}/reactions")
def list_reactions(_: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    rows = _comment(repository, number)[1].reactions
    return _listing(request, repository, rows, lambda it: render.reaction(request, it))


@route("POST", "/REPO/issues/comments/{number}/reactions")
def react(fake: FakeGitHub, request: Request, repository: Repository, number: str) -> Response:
    comment, content = _comment(repository, number)[1], _payload(request).get("content")
    assert request.token is not None
    if content not in REACTIONS:
        raise Refusal(422, "Validation Failed", errors=[{"code": "invalid", "field": "content", "message": "is bad"}])
    for one in comment.reactions:
        if (one.content, one.author) == (content, request.token.login):
            return Response(200, render.reaction(request, one))
    made = Reaction(next(fake._ids), content, request.token.login, fake.now())
    comment.reactions.append(made)
    fake.generation += 1
    return Response(201, render.reaction(request, made))


@route("GET", "/REPO/collaborators/{user}/permission")
def permission(fake: FakeGitHub, request: Request, repository: Repository, user: str) -> Response:
    if request.token is None:
        raise Refusal(401, "Requires authentication")
    if not request.token.writes and not request.token.administers:
        raise Refusal(403, "Must have push access to view collaborator permission.")
    if user.endswith("[bot]") or user in fake.gone:
        raise Refusal(404, f"{user} is not a user")
    role = repository.permissions.get(user, "admin" if user == repository.owner else "none")
    if role == "none" and not repository.private:
        role = "read"
    return Response(200, render.permission(request, user, role))


def threads(pull: Pull) -> list[tuple[LineComment, list[LineComment]]]:
    """Each thread's first comment, and all of its comments, oldest first."""
    shown = {it.id for it in pull.reviews if it.state != "PENDING"}
    tops = [it for it in pull.line_comments if it.reply_to is None and it.review in shown]
    return [(top, [top, *(it for it in pull.line_comments if it.reply_to == top.id)]) for top in tops]
