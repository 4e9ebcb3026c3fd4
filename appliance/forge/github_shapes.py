"""What is kept of GitHub's objects. Pure.

A pull request in a listing is some 20 kB of JSON, of which the appliance needs one. So an answer is cut down once, when
it comes, and the cut is what the ETag table stores: an unchanged cycle then reads kilobytes. The name of a shape is
part of the table's key: whoever changes what a shape keeps gives it a new name.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

from appliance.core.pulls import Pull
from appliance.core.verdict import Gate, GateState
from appliance.forge import Comment

T = TypeVar("T")
Row = dict[str, Any]
# What GitHub allows in a name; "." and ".." would lead elsewhere in an address.
PART = r"(?!\.\.?(?:[/#?]|$))[A-Za-z0-9_.-]+"
_NAME = re.compile(rf"{PART}/{PART}")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_STATES = frozenset(get_args(GateState))


class Misshapen(ValueError):
    """An answer without what GitHub documents; the message says where."""


@dataclass(frozen=True)
class Shape(Generic[T]):
    """`keep` cuts parsed JSON down to JSON again, or raises Misshapen."""

    name: str
    keep: Callable[[Any], T]


def _object(value: Any, where: str) -> Row:
    if not isinstance(value, dict):
        raise Misshapen(f"{where} is no object")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise Misshapen(f"{where} is no list")
    return value


def _text(row: Row, key: str, where: str, default: str | None = None) -> str:
    """A string; null and missing are the default, if there is one."""
    value = row.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str) or (default is None and not value):
        raise Misshapen(f"{where}.{key} is no text")
    return value


def _number(row: Row, key: str, where: str) -> int:
    value = row.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Misshapen(f"{where}.{key} is no number")
    return value


def _sha(row: Row, where: str) -> str:
    sha = _text(row, "sha", where)
    if not _SHA.fullmatch(sha):
        raise Misshapen(f"{where}.sha is no object id")
    return sha


def _labels(value: Any, where: str) -> list[str]:
    names = (label if isinstance(label, str) else _text(_object(label, where), "name", where, "") for label in value)
    return [name for name in names if name]


def author_of(entry: Row, where: str) -> str:
    """`user` is null for a deleted account."""
    user = entry.get("user")
    return "ghost" if user is None else _text(_object(user, f"{where}.user"), "login", f"{where}.user", "ghost")


def keep_pull(value: Any) -> Row:
    """The fields of `Pull`, and beside them `repository_url` (the base's page) and `comments` (None in a listing)."""
    entry = _object(value, "pull request")
    number = _number(entry, "number", "pull request")
    where = f"pull request {number}"
    head, base = _object(entry.get("head"), f"{where}.head"), _object(entry.get("base"), f"{where}.base")
    repository = _object(base.get("repo"), f"{where}.base.repo")
    state = _text(entry, "state", where)
    draft = entry.get("draft", False)
    comments = entry.get("comments")
    if state not in ("open", "closed") or not isinstance(draft, bool):
        raise Misshapen(f"{where} has the state {state!r}, draft {draft!r}")
    return {
        "number": number,
        "head_sha": _sha(head, f"{where}.head"),
        "head_ref": _text(head, "ref", f"{where}.head", ""),
        "base_ref": _text(base, "ref", f"{where}.base"),
        "base_sha": _sha(base, f"{where}.base"),
        "title": _text(entry, "title", where, ""),
        "body": _text(entry, "body", where, ""),
        "author": author_of(entry, where),
        "author_association": _text(entry, "author_association", where, "NONE"),
        "labels": _labels(_list(entry.get("labels") or [], f"{where}.labels"), f"{where}.labels"),
        "draft": draft,
        "open": state == "open",
        "updated_at": _text(entry, "updated_at", where, ""),
        "url": _text(entry, "html_url", where, ""),
        "clone_url": _text(repository, "clone_url", f"{where}.base.repo"),
        "repository_url": _text(repository, "html_url", f"{where}.base.repo", ""),
        "comments": comments if isinstance(comments, int) else None,
    }


def keep_comment(value: Any) -> Row:
    entry = _object(value, "comment")
    return {
        "id": str(_number(entry, "id", "comment")),
        "body": _text(entry, "body", "comment", ""),
        "url": _text(entry, "html_url", "comment", ""),
        "author": author_of(entry, "comment"),
        "created_at": _text(entry, "created_at", "comment", ""),
        "node_id": _text(entry, "node_id", "comment", ""),
    }


def keep_status(value: Any) -> Row:
    entry = _object(value, "status")
    number = entry.get("id")
    state = _text(entry, "state", "status")
    if state not in _STATES:
        raise Misshapen(f"status.state is {state!r}")
    return {
        "id": number if isinstance(number, int) else 0,
        "context": _text(entry, "context", "status"),
        "state": state,
        "description": _text(entry, "description", "status", ""),
        "created_at": _text(entry, "created_at", "status", ""),
    }


def keep_repository(value: Any) -> Row:
    entry = _object(value, "repository")
    name = _text(entry, "full_name", "repository")
    if not _NAME.fullmatch(name):
        raise Misshapen(f"repository.full_name is {name!r}")
    return {
        "name": name,
        "live": not (entry.get("archived") or entry.get("disabled")),
    }


def keep_check_run(value: Any) -> Row:
    """As a status: `state` is the conclusion of one that is completed, else its status."""
    entry = _object(value, "check run")
    status = _text(entry, "status", "check run")
    return {
        "context": _text(entry, "name", "check run"),
        "state": _text(entry, "conclusion", "check run") if status == "completed" else status,
    }


def keep_our_run(value: Any) -> Row:
    """A check run as its own App reads it back: `mark` is what it wrote as `external_id`, `notes` their count."""
    entry = _object(value, "check run")
    where = "check run"
    output, app = _object(entry.get("output"), f"{where}.output"), entry.get("app")
    status, count = _text(entry, "status", where), output.get("annotations_count")
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise Misshapen(f"{where}.output.annotations_count is no number")
    return {
        "id": _number(entry, "id", where),
        "name": _text(entry, "name", where),
        "app": 0 if app is None else _number(_object(app, f"{where}.app"), "id", f"{where}.app"),
        "status": status,
        "conclusion": _text(entry, "conclusion", where) if status == "completed" else "",
        "mark": _text(entry, "external_id", where, ""),
        "title": _text(output, "title", f"{where}.output", ""),
        "notes": count,
    }


def _counted(value: Any, field: str, keep: Callable[[Any], Row]) -> list[Row]:
    """One page of a list that tells how many there are in all."""
    entry = _object(value, field)
    total = entry.get("total_count")
    if not isinstance(total, int) or isinstance(total, bool):
        raise Misshapen(f"{field}.total_count is no number")
    return [{"total": total, "rows": [keep(one) for one in _list(entry.get(field), field)]}]


def _permission(value: Any) -> str:
    return _text(_object(value, "permission"), "permission", "permission")


def _tip(value: Any) -> str:
    return _sha(_object(_object(value, "branch").get("commit"), "branch.commit"), "branch.commit")


def _each(keep: Callable[[Any], Row], name: str) -> Callable[[Any], list[Row]]:
    return lambda value: [keep(entry) for entry in _list(value, f"the list of {name}")]


PULL = Shape("pull-1", keep_pull)
PULLS = Shape("pulls-1", _each(keep_pull, "pull requests"))
COMMENT = Shape("comment-2", keep_comment)
COMMENTS = Shape("comments-2", _each(keep_comment, "comments"))
WRITTEN = Shape("written-1", lambda _: None)  # the status code said that it is stored; nothing else is needed
STATUSES = Shape("statuses-1", _each(keep_status, "statuses"))
# The combined status holds the newest one of each context.
COMBINED = Shape("combined-1", lambda value: STATUSES.keep(_object(value, "combined status").get("statuses")))
# The same with how many there are.
COMBINED_COUNT = Shape("combined-count-1", lambda value: _counted(value, "statuses", keep_status))
CHECK_RUNS = Shape("check-runs-1", lambda value: _counted(value, "check_runs", keep_check_run))
OUR_RUN = Shape("our-run-1", keep_our_run)
OUR_RUNS = Shape("our-runs-1", lambda value: _counted(value, "check_runs", keep_our_run))
PERMISSION = Shape("permission-1", _permission)
BRANCH = Shape("branch-1", _tip)
USER = Shape("user-1", lambda value: _text(_object(value, "user"), "login", "user"))
REPOSITORIES = Shape("repositories-1", _each(keep_repository, "repositories"))
INSTALLED = Shape("installed-1", lambda value: REPOSITORIES.keep(_object(value, "installation").get("repositories")))


def pull_of(repository: str, row: Row) -> Pull:
    """`repository` is the name it was asked by, so that a renamed one keeps its attempts."""
    fields = {key: value for key, value in row.items() if key not in ("repository_url", "comments", "labels")}
    return Pull(target=f"{repository}#{row['number']}", repository=repository, labels=tuple(row["labels"]), **fields)


def comment_of(row: Row) -> Comment:
    return Comment(**row)


def gate_of(rows: list[Row], context: str) -> Gate | None:
    """The newest status of this context, which compares without case, or None.

    GitHub lists the newest first, with times to the second: so time, then id, then place.
    """
    ours = [(row["created_at"], row["id"], -place, row) for place, row in enumerate(rows) if _same(row, context)]
    if not ours:
        return None
    newest = max(ours, key=lambda each: each[:3])[3]
    return Gate(newest["state"], newest["description"])


def _same(row: Row, context: str) -> bool:
    return str(row["context"]).casefold() == context.casefold()
