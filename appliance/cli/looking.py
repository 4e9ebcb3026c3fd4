"""Looking at what the appliance does: `status`."""

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.common import echo, echo_json, opened

if TYPE_CHECKING:
    from appliance.core.faults import Fault
    from appliance.wiring import Appliance

STALE = (
    "The appliance does not report its health. Next: see `docker logs --tail 50 review-appliance`, then "
    "`docker restart review-appliance`."
)
NOT_SHOWN = "Cycle, tokens and pull requests are not shown: they stand in the state volume, which cannot be used."


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(as_json: bool) -> None:
    """Show health, cycle, and each pull request: head, state, attempts, next try."""
    with opened() as parts:
        blocked = parts.blocked
        shown = _unknown_status(parts, blocked) if blocked else _status(parts)
    if blocked:
        echo(NOT_SHOWN, err=True)
    if as_json:
        echo_json(shown)
        return
    from rich.console import Console
    from rich.table import Table

    from appliance.redaction import cleaned, say

    shown = cleaned(shown, say)
    health, last = shown["health"], shown["cycle"]
    # Into a pipe, and `docker exec` without -t is one, each row is a line, however long.
    console = Console(soft_wrap=True, width=None if sys.stdout.isatty() else 1000)
    console.print(
        f"{health['state']}{': ' + health['cause'] if health['cause'] else ''}: {health['message']}", markup=False
    )
    if blocked:
        return
    console.print(
        f"last cycle ended {last['last_ended'] or 'never'}{' (failed)' if last['failed'] else ''},"
        f" next {last['next'] or 'soon'}",
        markup=False,
    )
    tokens = shown["tokens"]
    limit = f" of {tokens['limit']:,}" if tokens["limit"] else ""
    console.print(f"tokens used on {tokens['day']} (UTC): {tokens['used']:,}{limit}", markup=False, highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in ("pull request", "head", "state", "attempts", "next try", "reason"):
        table.add_column(column, overflow="fold")
    for pull in shown["pulls"]:
        tries = f"{pull['attempts']} of {pull['max_attempts']}"
        reason = pull["reason"] + dismissed_text(pull["dismissed"])
        row = (pull["target"], pull["head"][:10], pull["state"], tries, pull["next_try"] or "", reason)
        table.add_row(*(escaped(cell) for cell in row))
    console.print(table if shown["pulls"] else "no pull requests")
    for letter in shown["letters"]:
        console.print(escaped(f"{letter['target']}: {letter['said']}"), highlight=False)


def letters_of(parts: "Appliance", target: str | None = None) -> list[dict[str, Any]]:
    """What waits to be posted of `target`, or of all, and why."""
    from appliance.core.outbox import said, waiting

    now = time.time()
    return [
        {
            "target": letter.target,
            "kind": letter.kind,
            "tries": letter.tries,
            "next_try": time_text(letter.next_try),
            "cause": str(letter.error.get("cause", "")) if letter.error else "",
            "reason": str(letter.error.get("sentence", "")) if letter.error else "",
            "remedy": str(letter.error.get("remedy", "")) if letter.error else "",
            "said": said(letter, now),
        }
        for letter in waiting(parts.store.letters(target))
    ]


def escaped(text: str) -> str:
    from rich.markup import escape

    return escape(" ".join(text.splitlines()))  # a name may have line ends, and forge a row


def dismissed_text(dismissed: Sequence[Mapping[str, str]]) -> str:
    """What is said behind the reason, of findings that people dismissed."""
    said = [f"; {one['title']}: dismissed by {one['who']}" + f": {one['reason']}".rstrip(": ") for one in dismissed]
    return "".join(said)


def _status(parts: "Appliance") -> dict[str, Any]:
    from appliance.health import read

    health = read(parts.settings.run_dir)
    last = parts.store.note("cycle") or {}
    spent = parts.store.spent()
    return {
        "health": {
            "state": health.state if health else "unhealthy",
            "cause": health.cause if health else "stale",
            "message": health.message if health else STALE,
            "since": time_text(health.since) if health else None,
        },
        "cycle": {
            "last_ended": time_text(last.get("last_ended")),
            "next": time_text(last.get("next")),
            "failed": bool(last.get("failed")),
        },
        "tokens": {"day": spent.day, "used": spent.tokens, "limit": parts.settings.tokens_per_day},
        "pulls": [
            {
                "target": pull.target,
                "head": pull.head,
                "state": pull.state,
                "attempts": pull.attempts,
                "max_attempts": parts.settings.max_attempts,
                "next_try": time_text(pull.next_try or (last.get("next") if pull.state == "waiting" else None)),
                "reason": pull.reason,
                "dismissed": pull.dismissed,
            }
            for pull in parts.store.states()
        ],
        "letters": letters_of(parts),
    }


def _unknown_status(parts: "Appliance", fault: "Fault") -> dict[str, Any]:
    """The same while the state cannot be used: the fault, and nothing of the passing state as if it were known."""
    from appliance.core.health import of_fault
    from appliance.health import read

    told = of_fault(fault, 0.0)
    said = read(parts.settings.run_dir)
    since = said.since if said and said.cause == fault.cause else None
    return {
        "health": {"state": told.state, "cause": told.cause, "message": told.message, "since": time_text(since)},
        "cycle": {"last_ended": None, "next": None, "failed": True},
        "tokens": {"day": parts.store.spent().day, "used": None, "limit": parts.settings.tokens_per_day},
        "pulls": [],
        "letters": [],
    }


def time_text(moment: float | None) -> str | None:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None
