"""The gate as a check run, which only a GitHub App may write: with a report, and notes on lines.

GitHub lets nobody change a check run that is completed, and adds the notes of each write to those that are there
(docs.github.com/rest/checks/runs). So one that is completed is followed by a new one, of which GitHub shows the newest;
and the write that concludes one is the last, when all its notes have arrived.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any, get_args
from urllib.parse import quote

from appliance.core.pulls import Pull
from appliance.core.verdict import MAX_DESCRIPTION, Gate, GateState
from appliance.forge import Annotation, ForgeError, Report
from appliance.forge.github_client import GitHubClient
from appliance.forge.github_errors import unreachable
from appliance.forge.github_shapes import OUR_RUN, OUR_RUNS, Row

AT_ONCE = 50  # annotations in one write; GitHub answers 422 above
MAX_SUMMARY = 65_535  # GitHub speaks of characters; counted as bytes here, which is never more
MAX_MESSAGE = 65_535  # bytes of an annotation's message; GitHub allows 64 KB
MAX_TITLE = 255  # characters of an annotation's title
# `error` is a failure too, and its title says which it is: only `success`, `neutral` and `skipped` let a required check
# pass, and of those that block, every tool that reads check runs knows `failure`.
CONCLUSIONS = {"success": "success", "failure": "failure", "error": "failure"}
ERROR = "error: "
ARRIVING = "the findings are being posted"
_MARK = re.compile(rf"review-appliance:1:({'|'.join(get_args(GateState))}):([0-9a-f]{{16}})")


class GitHubChecks:
    """Check runs of the App `app_id`, named `context`. Thread-safe; every method raises ForgeError."""

    def __init__(self, client: GitHubClient, context: str, app_id: int, target_url: str | None) -> None:
        self._client = client
        self._context = context
        self._app_id = app_id
        self._target_url = target_url

    def gate(self, pull: Pull) -> Gate | None:
        """What the newest run says; None if there is none, or if it says nothing of ours: see `gate_of_run`.

        Before it says "none" it asks in another way too: an empty list may be a degraded answer.
        """
        found = self._newest(pull, "all")
        if found is None and self._newest(pull, "latest") is not None:
            raise unreachable(f"the check runs of {pull.target}: the listing came back short")
        return None if found is None else gate_of_run(found)

    def set_gate(self, pull: Pull, gate: Gate, report: Report | None) -> None:
        """Let the newest run say `gate`. What an earlier try has written is gone on with, so that it is there once.

        A refusal of the report is none of the gate: then it is written without.
        """
        try:
            self._write(pull, gate, report or Report(gate.description))
        except ForgeError as error:
            if report is None or error.cause != "forge-refused":
                raise
            self._write(pull, gate, Report(gate.description, url=report.url))

    def _write(self, pull: Pull, gate: Gate, report: Report) -> None:
        notes = [_note(one) for one in report.annotations]
        mark = _digest(gate, notes)
        newest = self._look(pull, gate)
        if gate.state == "success" and newest is not None and gate_of_run(newest) == gate:
            return  # anything else is written once more: the listing may be old, and a green one be there since
        number, there = (0, 0) if newest is None else _going_on(newest, mark)
        if number and self._went_on(pull, number, gate, mark, report, notes[there:]):
            return
        if not self._brought(pull, 0, gate, mark, report, notes):
            raise unreachable(f"GitHub took a check run of {pull.target}, and shows it otherwise than it was written")

    def _went_on(
        self, pull: Pull, number: int, gate: Gate, mark: str, report: Report, notes: Sequence[dict[str, Any]]
    ) -> bool:
        """False if that run takes nothing more: the listing was old, and it is completed or gone."""
        try:
            return self._brought(pull, number, gate, mark, report, notes)
        except ForgeError as error:
            if error.cause not in ("forge-refused", "forge-not-found"):
                raise
            return False

    def _brought(
        self, pull: Pull, number: int, gate: Gate, mark: str, report: Report, notes: Sequence[dict[str, Any]]
    ) -> bool:
        """Write into the run `number`, a new one for 0; whether it then is what it was to be. GitHub takes a write into
        one that is completed, and leaves it as green as it was."""
        while len(notes) > AT_ONCE:
            step = self._payload(pull, Gate("pending", ARRIVING), mark, report, notes[:AT_ONCE])
            number, notes = int(self._send(pull, number, step)["id"]), notes[AT_ONCE:]
        payload = self._payload(pull, gate, mark, report, notes)
        shown = self._send(pull, number, payload)
        return (shown["status"], shown["conclusion"]) == (payload["status"], payload.get("conclusion", ""))

    def _look(self, pull: Pull, gate: Gate) -> Row | None:
        """The newest run. While GitHub does not say, success waits; anything else is written as a new one all the
        same, for a green one may be what is there."""
        try:
            return self._newest(pull, "all")
        except ForgeError as error:
            if gate.state == "success" or error.permanent or error.cause == "forge-rate-limited":
                raise
        return None

    def _newest(self, pull: Pull, which: str) -> Row | None:
        """Of ours: one of the same name that another App, or an Action, has made says nothing."""
        asked = f"check_name={quote(self._context, safe='')}&app_id={self._app_id}&filter={which}&per_page=100"
        pages = self._client.pages(f"/repos/{pull.repository}/commits/{pull.head_sha}/check-runs?{asked}", OUR_RUNS)
        rows = {row["id"]: row for page in pages for row in page["rows"]}
        counted = max((page["total"] for page in pages), default=0)
        if len(rows) < counted:
            raise unreachable(f"the check runs of {pull.target}: the listing came back short, {len(rows)} of {counted}")
        ours = [row for row in rows.values() if row["app"] == self._app_id and row["name"] == self._context]
        return max(ours, key=lambda row: row["id"], default=None)

    def _send(self, pull: Pull, number: int, payload: dict[str, Any]) -> Row:
        path = f"/repos/{pull.repository}/check-runs"
        if number:
            return self._client.write(f"{path}/{number}", payload, OUR_RUN, method="PATCH")
        return self._client.write(path, {"head_sha": pull.head_sha, **payload}, OUR_RUN)

    def _payload(
        self, pull: Pull, gate: Gate, mark: str, report: Report, notes: Sequence[dict[str, Any]]
    ) -> dict[str, Any]:
        ends = gate.state != "pending"
        title = f"{ERROR if gate.state == 'error' else ''}{gate.description[:MAX_DESCRIPTION]}"
        url = report.url or self._target_url or pull.url
        return {
            "name": self._context,
            "external_id": _mark(gate.state, mark),
            **({"details_url": url} if url else {}),
            **({"status": "completed", "conclusion": CONCLUSIONS[gate.state]} if ends else {"status": "in_progress"}),
            "output": {
                "title": title,
                "summary": _within(report.summary, MAX_SUMMARY),
                **({"annotations": list(notes)} if notes else {}),
            },
        }


def gate_of_run(row: Row) -> Gate | None:
    """The gate that a run shows. None for one that says nothing that we have written, so that it is written anew:
    `queued`, as somebody who asks for another run leaves it; `stale`, as GitHub ends one that is pending for 14 days;
    `neutral` and `skipped`, which pass a required check and are never ours."""
    if row["status"] != "completed":
        return Gate("pending", row["title"]) if row["status"] == "in_progress" else None
    found = _MARK.fullmatch(row["mark"])
    marked = found.group(1) if found else ""
    if row["conclusion"] == "success":
        return Gate("success", row["title"])
    if row["conclusion"] != "failure":
        return None
    if marked == "error" and row["title"].startswith(ERROR):
        return Gate("error", row["title"].removeprefix(ERROR))
    return Gate("failure", row["title"])


def _going_on(newest: Row, mark: str) -> tuple[int, int]:
    """Which run is written on, 0 for a new one, and how many of the notes it has: those of an earlier try, in order.
    One with notes of another review is left as it is."""
    if newest["status"] == "completed":
        return 0, 0
    found = _MARK.fullmatch(newest["mark"])
    if newest["notes"] and (found is None or found.group(2) != mark):
        return 0, 0
    return newest["id"], newest["notes"]


def _mark(state: GateState, digest: str) -> str:
    """Not signed: nobody but the App can write into its check runs."""
    return f"review-appliance:1:{state}:{digest}"


def _digest(gate: Gate, notes: Sequence[dict[str, Any]]) -> str:
    return hashlib.sha256(json.dumps([gate.state, gate.description, *notes]).encode()).hexdigest()[:16]


def _note(one: Annotation) -> dict[str, Any]:
    title = one.title[:MAX_TITLE]
    return {
        "path": one.path,
        "start_line": one.line_start,
        "end_line": one.line_end,
        "annotation_level": one.level,
        **({"title": title} if title else {}),
        "message": _within(one.message, MAX_MESSAGE) or title or one.level,
    }


def _within(text: str, limit: int) -> str:
    """`text`, cut to `limit` bytes."""
    return text.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
