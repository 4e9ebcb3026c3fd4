"""Lists of public benchmarks as cases (docs/evaluation.md): pull requests with the comments that a review should make.

Three layouts are known, told by their keys; one list may mix them:

| keys | whose |
|---|---|
| repo, base, head, comments (path, line or line_start and line_end, text) | the general one; write it for any other |
| githubPrUrl, source_commit, target_commit, comments (path, from_line, to_line, side, note) | AACR-Bench |
| url, pr_title, comments (comment, severity) | Martian's code-review-benchmark; GitHub is asked for base and head |
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appliance.core.evaluation.case import BadCase, Case, case_of

GITHUB = "https://github.com/"
_PULL = re.compile(r"(https?://[^/\s]+/[^/\s]+/[^/\s]+)/(?:pull|merge_requests|-/merge_requests)/(\d+)/?\S*")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_PRIORITIES = {"critical": 0, "high": 1, "medium": 2, "low": 3}
MAX_TITLE = 300
MAX_BODY = 20_000
NEXT = (
    "set GITHUB_TOKEN, by which GitHub is asked, or add base and head: base.sha and head.sha of GET "
    "/repos/OWNER/NAME/pulls/N"
)


@dataclass(frozen=True)
class Told:
    """What the forge says of a pull request."""

    base: str
    head: str
    body: str = ""


Pulls = Mapping[tuple[str, int], Told]  # by owner/name and number
NONE: Pulls = {}


def to_ask(told: object) -> list[tuple[str, int]]:
    """The pull requests on GitHub whose commits the list does not name."""
    records = [record for record in told if isinstance(record, Mapping)] if isinstance(told, list) else []
    return sorted({found for record in records if not _commits(record) and (found := _pull(record))})


def cases_of(told: object, pulls: Pulls = NONE) -> list[Case]:
    """The cases of a list; `pulls` has what it does not say itself.

    Raises BadCase with every problem, each with the number of its record from 1.
    """
    if not isinstance(told, list) or not told:
        raise BadCase("a benchmark is a list of records, with at least one")
    cases: list[Case] = []
    problems: list[str] = []
    for number, record in enumerate(told, 1):
        try:
            cases.append(_case(record, number, pulls))
        except BadCase as bad:
            problems += [f"record {number}: {problem}" for problem in bad.problems]
    twice = {case.name for case in cases if sum(other.name == case.name for other in cases) > 1}
    problems += [f"the name {name} stands there twice" for name in sorted(twice)]
    if problems:
        raise BadCase(*problems)
    return cases


def _case(record: object, number: int, pulls: Pulls) -> Case:
    if not isinstance(record, Mapping):
        raise BadCase("is no object")
    pull = _PULL.fullmatch(_address(record))
    repository = str(record.get("repo") or record.get("repository") or (pull[1] if pull else ""))
    asked = _pull(record)
    told = pulls.get(asked) if asked else None
    base, head = _commits(record) or ((told.base, told.head) if told else ("", ""))
    problems = [] if repository else ["it names no repository: add repo"]
    problems += [] if base and head else [f"it has no base and head; {NEXT}"]
    if problems:
        raise BadCase(*problems)
    comments = record.get("comments")
    if not isinstance(comments, list):
        raise BadCase("comments is no list; for a clean change write an empty one")
    title = str(record.get("title") or record.get("pr_title") or (f"Pull request {pull[2]}" if pull else "A change"))
    name = str(record.get("name") or record.get("id") or _named(repository, pull[2] if pull else str(number)))
    return case_of(
        name,
        {
            "title": title[:MAX_TITLE],
            "body": str(record.get("body") or (told.body if told else ""))[:MAX_BODY],
            "language": str(record.get("language") or record.get("project_main_language") or ""),
            "kind": str(record.get("kind") or ""),
            "repository": f"{GITHUB}{repository}" if _NAME.fullmatch(repository) else repository,
            "base": base,
            "head": head,
            "goldens": list(_goldens(comments)),
        },
    )


def _address(record: Mapping[str, Any]) -> str:
    """The one whose commits are meant: a list may name a copy, and where the copy is from."""
    return str(record.get("githubPrUrl") or record.get("url") or "")


def _pull(record: Mapping[str, Any]) -> tuple[str, int] | None:
    found = _PULL.fullmatch(_address(record))
    return (found[1].removeprefix(GITHUB), int(found[2])) if found and found[1].startswith(GITHUB) else None


def _commits(record: Mapping[str, Any]) -> tuple[str, str] | None:
    """Base and head. AACR-Bench calls what is merged *into* the source, and what is reviewed the target."""
    base = _first(record, "base", "base_commit", "source_commit")
    head = _first(record, "head", "head_commit", "target_commit")
    return (base, head) if base and head else None


def _first(record: Mapping[str, Any], *keys: str) -> str:
    return next((str(record[key]) for key in keys if record.get(key)), "")


def _named(repository: str, number: str) -> str:
    owner_and_name = re.sub(
        r"[^A-Za-z0-9._-]+", "-", "-".join(repository.rstrip("/").removesuffix(".git").split("/")[-2:])
    ).strip("-._")
    return f"{owner_and_name[-80:].strip('-._')}-{number}"


def _goldens(comments: list[Any]) -> Iterator[dict[str, Any]]:
    for comment in comments:
        if not isinstance(comment, Mapping):
            raise BadCase("a comment is no object")
        first = (
            comment.get("line_start") or comment.get("from_line") or comment.get("start_line") or comment.get("line")
        )
        last = comment.get("line_end") or comment.get("to_line") or comment.get("end_line") or comment.get("line")
        severity = str(comment.get("severity") or "").casefold()
        golden = {
            "what": str(
                comment.get("text") or comment.get("note") or comment.get("comment") or comment.get("what") or ""
            ),
            "path": comment.get("path") or None,
            "line_start": first,
            "line_end": last if first else None,
            "priority": comment.get("priority", _PRIORITIES.get(severity, 1)),
            "kind": str(comment.get("kind") or comment.get("category") or ""),
            "side": "LEFT" if str(comment.get("side") or "").casefold() == "left" else "RIGHT",
        }
        yield {key: value for key, value in golden.items() if value is not None}
