"""A part of GitHub's GraphQL: reviews, threads, resolving, minimizing. Errors come with 200, as there."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import render
from .api import Refusal, _granted, _sees, route
from .fake import FakeGitHub
from .reviews import _seen, threads
from .state import Comment, LineComment, Pull, Repository, Request, Response, Review

_TOKEN = re.compile(r'\s*(?:#[^\n]*)?[\s,]*(\.\.\.|[_A-Za-z]\w*|-?\d+|"(?:[^"\\]|\\.)*"|[{}()\[\]:$!=@])')
MOST = 100  # of one page
Resolver = Callable[[dict[str, Any]], Any]


class Failed(Exception):
    """An error of one answer; `kind` is its type, `code` that of its extensions."""

    def __init__(self, message: str, kind: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.told = {
            "message": message,
            **({"type": kind} if kind else {}),
            **({"extensions": {"code": code}} if code else {}),
        }


@dataclass
class Field:
    name: str
    alias: str
    arguments: dict[str, Any]
    fields: "list[Field]" = field(default_factory=list)
    on: str | None = None  # the type that a fragment is for


@dataclass(frozen=True)
class Object:
    """`fields` by name: values, or functions of the arguments."""

    kind: str
    fields: dict[str, Any]


class Parser:
    def __init__(self, text: str, variables: dict[str, Any]) -> None:
        self.tokens, at = [], 0
        while match := _TOKEN.match(text, at):
            self.tokens.append(match[1])
            at = match.end()
        if text[at:].strip():
            raise Failed(f"Parse error on {text[at : at + 10]!r}")
        self.at, self.variables = 0, variables

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        token = self.peek()
        if not token or (wanted is not None and token != wanted):
            raise Failed(f"Parse error on {token!r}, expected {wanted!r}")
        self.at += 1
        return token

    def document(self) -> tuple[str, list[Field]]:
        kind = "query" if self.peek() == "{" else self.take()
        if self.peek() not in ("(", "{"):
            self.take()  # the operation's name
        if self.peek() == "(":
            self.declarations()
        return kind, self.selection()

    def declarations(self) -> None:
        self.take("(")
        while self.peek() != ")":
            self.take("$")
            name = self.take()
            self.take(":")
            kind = self.take()
            required = self.peek() == "!"
            if required:
                self.take()
                if self.variables.get(name) is None:
                    raise Failed(f"Variable ${name} of type {kind}! was provided invalid value")
        self.take(")")

    def selection(self) -> list[Field]:
        self.take("{")
        found = []
        while self.peek() != "}":
            found.append(self.field())
        self.take("}")
        return found

    def field(self) -> Field:
        name = self.take()
        if name == "...":
            self.take("on")
            return Field("", "", {}, on=self.take(), fields=self.selection())
        alias = name
        if self.peek() == ":":
            self.take()
            name = self.take()
        arguments: dict[str, Any] = {}
        if self.peek() == "(":
            self.take()
            while self.peek() != ")":
                key = self.take()
                self.take(":")
                arguments[key] = self.value()
            self.take()
        return Field(name, alias, arguments, self.selection() if self.peek() == "{" else [])

    def value(self) -> Any:
        token = self.take()
        if token == "$":
            return self.variables.get(self.take())
        if token == "{":
            found = {}
            while self.peek() != "}":
                key = self.take()
                self.take(":")
                found[key] = self.value()
            self.take()
            return found
        if token[0] in '"-0123456789':
            return json.loads(token)
        return {"true": True, "false": False, "null": None}.get(token, token)


def execute(value: Any, fields: list[Field]) -> Any:
    if isinstance(value, list):
        return [execute(each, fields) for each in value]
    if not isinstance(value, Object):
        return value
    told: dict[str, Any] = {}
    for one in fields:
        if one.on is not None:
            if one.on == value.kind:
                told |= execute(value, one.fields)
            continue
        if one.name == "__typename":
            told[one.alias] = value.kind
            continue
        if one.name not in value.fields:
            raise Failed(f"Field '{one.name}' doesn't exist on type '{value.kind}'", code="undefinedField")
        found = value.fields[one.name]
        told[one.alias] = execute(found(one.arguments) if callable(found) else found, one.fields)
    return told


@route("POST", "/graphql")
def query(fake: FakeGitHub, request: Request) -> Response:
    if request.token is None:
        raise Refusal(401, "This endpoint requires you to be authenticated.")
    told = json.loads(request.body)
    try:
        kind, fields = Parser(told["query"], told.get("variables") or {}).document()
        root = Mutation(fake, request).root() if kind == "mutation" else Query(fake, request).root()
        return Response(200, {"data": execute(root, fields)})
    except Failed as failed:
        return Response(200, {"data": None, "errors": [failed.told]})


@route("POST", "/api/graphql")
def enterprise(fake: FakeGitHub, request: Request) -> Response:
    return query(fake, request)


@dataclass(frozen=True)
class Query:
    fake: FakeGitHub
    request: Request

    def root(self) -> Object:
        assert self.request.token is not None
        login = self.request.token.login
        return Object(
            "Query",
            {
                "viewer": Object("User", {"login": login}),
                "repository": self.repository,
                "node": lambda arguments: self.node(arguments["id"]),
            },
        )

    def repository(self, arguments: dict[str, Any]) -> Object:
        name = f"{arguments['owner']}/{arguments['name']}".casefold()
        for one in self.fake.repositories.values():
            if name in (one.full_name.casefold(), *one.old_names) and _sees(self.request, one):
                found = one
                return Object("Repository", {"pullRequest": lambda it, at=found: self.pull(at, it["number"])})
        raise Failed(f"Could not resolve to a Repository with the name '{name}'.", "NOT_FOUND")

    def pull(self, repository: Repository, number: int) -> Object:
        pull = repository.pulls.get(number)
        if pull is None:
            raise Failed(f"Could not resolve to a PullRequest with the number of {number}.", "NOT_FOUND")
        return Object(
            "PullRequest",
            {
                "number": number,
                "reviews": lambda it: connection(_seen(self.request, pull), it, self.review),
                "reviewThreads": lambda it: connection(
                    threads(pull), it, lambda one: self.thread(repository, pull, *one)
                ),
            },
        )

    def review(self, it: Review) -> Object:
        return Object("PullRequestReview", {"id": render.node_id("PullRequestReview", it.id), "body": it.body})

    def thread(self, repository: Repository, pull: Pull, top: LineComment, comments: list[LineComment]) -> Object:
        return Object(
            "PullRequestReviewThread",
            {
                "id": render.node_id("PullRequestReviewThread", top.id),
                "isResolved": top.resolved,
                "path": top.path,
                "comments": lambda it: connection(comments, it, lambda one: self.comment(repository, pull, one)),
            },
        )

    def comment(self, repository: Repository, pull: Pull, it: LineComment) -> Object:
        return Object(
            "PullRequestReviewComment",
            {
                "id": render.node_id("PullRequestReviewComment", it.id),
                "fullDatabaseId": str(it.id),
                "body": it.body,
                "url": f"{self.request.base}/{repository.full_name}/pull/{pull.number}#discussion_r{it.id}",
                "createdAt": render.stamp(it.created_at),
                "isMinimized": it.minimized,
                "author": actor(it.author),
            },
        )

    def node(self, wanted: str) -> Object:
        for repository in self.fake.repositories.values():
            for pull in repository.pulls.values() if _sees(self.request, repository) else ():
                for top, comments in threads(pull):
                    if render.node_id("PullRequestReviewThread", top.id) == wanted:
                        return self.thread(repository, pull, top, comments)
        raise Failed(f"Could not resolve to a node with the global id of '{wanted}'.", "NOT_FOUND")


@dataclass(frozen=True)
class Mutation:
    fake: FakeGitHub
    request: Request

    def root(self) -> Object:
        fields: dict[str, Resolver] = {"resolveReviewThread": self.resolve, "minimizeComment": self.minimize}
        return Object("Mutation", fields)

    def _may(self) -> None:
        token = self.request.token
        if token is None or not token.writes or not _granted(self.request, "pull_requests=write"):
            raise Failed("Resource not accessible by personal access token", "FORBIDDEN")

    def resolve(self, arguments: dict[str, Any]) -> Object:
        wanted = arguments["input"]["threadId"]
        for repository in self.fake.repositories.values():
            for pull in repository.pulls.values() if _sees(self.request, repository) else ():
                for top, _ in threads(pull):
                    if render.node_id("PullRequestReviewThread", top.id) == wanted:
                        self._may()
                        top.resolved = True
                        self.fake.generation += 1
                        return Object("Payload", {"thread": Object("PullRequestReviewThread", {"isResolved": True})})
        raise Failed(f"Could not resolve to a node with the global id of '{wanted}'.", "NOT_FOUND")

    def minimize(self, arguments: dict[str, Any]) -> Object:
        wanted, why = arguments["input"]["subjectId"], arguments["input"]["classifier"]
        if why not in ("ABUSE", "DUPLICATE", "OFF_TOPIC", "OUTDATED", "RESOLVED", "SPAM"):
            raise Failed("Argument 'classifier' has an invalid value", code="argumentLiteralsIncompatible")
        for repository in self.fake.repositories.values():
            for pull in repository.pulls.values() if _sees(self.request, repository) else ():
                kinds: list[tuple[str, Sequence[Comment | Review | LineComment]]] = [
                    ("IssueComment", pull.comments),
                    ("PullRequestReview", pull.reviews),
                    ("PullRequestReviewComment", pull.line_comments),
                ]
                for kind, each in kinds:
                    for one in each:
                        if render.node_id(kind, one.id) == wanted:
                            self._may()
                            one.minimized = True
                            self.fake.generation += 1
                            return Object("Payload", {"minimizedComment": Object(kind, {"isMinimized": True})})
        raise Failed(f"Could not resolve to a node with the global id of '{wanted}'.", "NOT_FOUND")


def actor(login: str | None) -> Object | None:
    """An App's name has no "[bot]" here."""
    if login is None:
        return None
    return Object("Bot" if login.endswith("[bot]") else "User", {"login": login.removesuffix("[bot]")})


def connection(rows: Sequence[Any], arguments: dict[str, Any], show: Callable[[Any], Object]) -> Object:
    first, after = arguments.get("first"), arguments.get("after")
    start = int(after) if after else 0
    shown = rows[start : start + first] if first else []
    end = start + len(shown)

    def nodes(_: dict[str, Any]) -> list[Object]:
        if not first or not 1 <= first <= MOST:
            raise Failed(
                "You must provide a `first` or `last` value to properly paginate.", "MISSING_PAGINATION_BOUNDARIES"
            )
        return [show(one) for one in shown]

    info = Object("PageInfo", {"hasNextPage": end < len(rows), "endCursor": str(end) if shown else None})
    return Object("Connection", {"totalCount": len(rows), "pageInfo": info, "nodes": nodes})
