"""GitHub's own description as the judge of every exchange with the fake.

What is looser here than the description, and why:
- `user` of a pull request and `repo` of its head may be null: a deleted account, a deleted fork (the description of the
  single pull request forgets both; that of the list forgets the second).
- The account of an installation is a user *or* an enterprise, as its own schema and every other path say: that of
  `/app/installations` alone wants both at once.
- `/repositories/{id}/…` is `/repos/{owner}/{repo}/…`: GitHub's Link headers and redirects use it, no path describes it.
- Redirects, 304, 401, 403, 404, 422 and 429 may come from any path: the description lists them for a few. Their bodies
  must still be errors as it describes them; a 304 has none.
- UNDESCRIBED paths are outside the cut of 35 paths: their answers are checked as lists of its `repository`.
"""

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import jsonschema_rs

from .state import Exchange

FILE = Path(__file__).parent.parent / "data" / "github-openapi.min.json"
UNDESCRIBED = ("/user/repos", "/orgs/{owner}/repos", "/users/{owner}/repos")
_ANYWHERE = (301, 302, 307, 308, 401, 403, 404, 422, 429)
_URN = "urn:github"
Operation = dict[str, Any]


def _translate(node: Any) -> Any:
    """OpenAPI 3.0's schema as JSON Schema: `nullable` becomes a type of its own."""
    if isinstance(node, list):
        return [_translate(each) for each in node]
    if not isinstance(node, dict):
        return node
    # A property may itself be called "nullable": only a boolean is the keyword.
    schema = {key: _translate(value) for key, value in node.items() if not (key == "nullable" and value is True)}
    if node.get("nullable") is not True:
        return schema
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
        return schema
    return {"anyOf": [schema, {"type": "null"}]}


def _loosen(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for name in ("pull-request", "pull-request-simple"):
        properties = schemas[name]["properties"]
        properties["user"] = {"anyOf": [properties["user"], {"type": "null"}]}
        head = properties["head"]["properties"]
        for field in ("repo", "user"):
            head[field] = {"anyOf": [head[field], {"type": "null"}]}
    installed = document["paths"]["/app/installations"]["get"]["responses"]["200"]["content"]["application/json"]
    installed["schema"]["items"] = {"$ref": "#/components/schemas/installation"}


class Description:
    """GitHub's description; `violations(exchange)` is empty for an exchange that fits it."""

    def __init__(self, file: Path = FILE) -> None:
        self._document = _translate(json.loads(file.read_text()))
        _loosen(self._document)
        self._registry = jsonschema_rs.Registry([(_URN, self._document)])
        self._validators: dict[str, Any] = {}
        self._paths = [(_expression(path, item), path, item) for path, item in self._document["paths"].items()]

    def violations(self, exchange: Exchange) -> list[str]:
        path = re.sub(r"^/repositories/\d+", "/repos/owner/name", exchange.path)
        where = f"{exchange.method} {exchange.path} {exchange.status}"
        if exchange.status == 304:
            return [f"{where}: a 304 has no body"] if exchange.body else []
        found = self._operation(exchange.method, path)
        if found is None:
            if not any(_expression(each, {}).fullmatch(path) for each in UNDESCRIBED) and exchange.status < 400:
                return [f"{where}: a path that GitHub does not describe"]
            if exchange.status != 200:
                fits = exchange.status in _ANYWHERE
                return self._error(where, exchange.body) if fits else [f"{where}: a status that is not described"]
            reference = {"type": "array", "items": {"$ref": f"{_URN}#/components/schemas/repository"}}
            return self._check(where, reference, exchange.body)
        pointer, operation = found
        return [
            *(self._request(where, pointer, operation, exchange) if exchange.status < 400 else ()),
            *self._query(where, operation, exchange.query),
            *self._response(where, pointer, operation, exchange),
        ]

    def _operation(self, method: str, path: str) -> tuple[str, Operation] | None:
        # The most literal path wins: /issues/comments/{id} before /issues/{number}/comments; of two, the longer one.
        fitting = [(template, item) for pattern, template, item in self._paths if pattern.fullmatch(path)]
        for template, item in sorted(fitting, key=lambda each: (each[0].count("{"), -len(each[0]))):
            if method.lower() in item:
                escaped = template.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")
                return f"{_URN}#/paths/{escaped}/{method.lower()}", item[method.lower()]
        return None

    def _request(self, where: str, pointer: str, operation: Operation, exchange: Exchange) -> list[str]:
        if "requestBody" not in operation:
            return [f"{where}: a body that nobody asked for"] if exchange.request_body else []
        reference = {"$ref": f"{pointer}/requestBody/content/application~1json/schema"}
        return self._check(f"{where} (request)", reference, exchange.request_body)

    def _query(self, where: str, operation: Operation, query: str) -> list[str]:
        known = {each["name"]: each["schema"] for each in map(self._resolve, operation.get("parameters", []))}
        problems = []
        for name, value in parse_qsl(query, keep_blank_values=True):
            schema = known.get(name)
            if schema is None:
                problems.append(f"{where}: no query parameter {name}")
            elif (schema.get("type") == "integer" and not value.isdigit()) or value not in schema.get("enum", [value]):
                problems.append(f"{where}: {name}={value} is not allowed")
        return problems

    def _response(self, where: str, pointer: str, operation: Operation, exchange: Exchange) -> list[str]:
        described = operation["responses"].get(str(exchange.status))
        if described is None:
            fits = exchange.status in _ANYWHERE
            return self._error(where, exchange.body) if fits else [f"{where}: a status that is not described"]
        content = self._resolve(described).get("content")
        if not content:
            return [f"{where}: no body is described"] if exchange.body else []
        shared = described.get("$ref")
        pointer = f"{_URN}{shared}" if shared else f"{pointer}/responses/{exchange.status}"
        kind = next(iter(content)).replace("/", "~1")
        return self._check(where, {"$ref": f"{pointer}/content/{kind}/schema"}, exchange.body)

    def _error(self, where: str, body: bytes) -> list[str]:
        names = ("basic-error", "validation-error")
        return self._check(where, {"anyOf": [{"$ref": f"{_URN}#/components/schemas/{name}"} for name in names]}, body)

    def _check(self, where: str, schema: dict[str, Any], body: bytes) -> list[str]:
        key = json.dumps(schema)
        if key not in self._validators:
            self._validators[key] = jsonschema_rs.Draft202012Validator(
                schema, registry=self._registry, validate_formats=True
            )
        try:
            value = json.loads(body)
        except ValueError:
            return [f"{where}: no JSON"]
        return [
            f"{where}: {_place(error)}: {error.message[:300]}" for error in self._validators[key].iter_errors(value)
        ]

    def _resolve(self, node: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in node:
            target = self._document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node


def _place(error: jsonschema_rs.ValidationError) -> str:
    return "/".join(map(str, error.instance_path)) or "(top)"


def _expression(path: str, item: dict[str, Any]) -> re.Pattern[str]:
    """The path as a regular expression; parameters marked as multi-segment may hold slashes."""
    marked = {
        parameter.get("name")
        for operation in item.values()
        if isinstance(operation, dict)
        for parameter in operation.get("parameters", [])
        if parameter.get("x-multi-segment")
    }
    wide = marked | {"path", "ref", "basehead", "branch"}
    parts = (
        (".+" if part[1:-1] in wide else "[^/]+") if part.startswith("{") else re.escape(part)
        for part in re.split(r"(\{\w+\})", path)
    )
    return re.compile("".join(parts))


@cache
def description() -> Description:
    return Description()


def violations(exchanges: Iterable[Exchange]) -> list[str]:
    """What does not fit, of all exchanges that are the fake's own doing: no made failures, no git, no GraphQL."""
    return [
        problem
        for exchange in exchanges
        if not exchange.injected and ".git/" not in exchange.path and not exchange.path.endswith("/graphql")
        for problem in description().violations(exchange)
    ]
