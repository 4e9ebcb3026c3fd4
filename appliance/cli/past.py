"""Looking back: `history`, and `show` of one review."""

import sys
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.common import Failure, Misuse, Number, echo_json, opened
from appliance.cli.looking import dismissed_text, escaped, time_text
from appliance.cli.printing import exit_by, fail_on_option, form_option, page_of, print_review

if TYPE_CHECKING:
    from appliance.store import StoredReview
    from appliance.wiring import Appliance

MAX_SHOWN = 4 * 1024**2  # bytes of a file that code is shown of


@click.command()
@click.argument("target", required=False)
@click.option("--limit", type=Number(0), default=20, help="How many at most, 0 is all (default: 20).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def history(target: str | None, limit: int, as_json: bool) -> None:
    """Show what was tried, the newest first, of TARGET or of all: outcome, findings, tokens, comment."""
    from appliance.forge.github import parse_target

    named = parse_target(target) if target else None
    wanted = f"{named[0]}#{named[1]}" if named else target
    with opened(usable=True) as parts:
        rows = [vars(past) | {"at": time_text(past.at)} for past in parts.store.history(wanted, limit)]
    if wanted is not None and not rows:
        raise Misuse(f"{wanted or 'An empty TARGET'} was never reviewed. Next: `appliance history` lists what was.")
    if as_json:
        echo_json({"history": rows})
        return
    from rich.console import Console
    from rich.table import Table

    from appliance.redaction import cleaned, say

    table = Table(box=None, pad_edge=False)
    for column in ("review", "when", "target", "head", "outcome", "counts", "findings", "tokens", "seconds", "comment"):
        table.add_column(column, overflow="fold")
    for row in cleaned(rows, say):
        table.add_row(*(escaped(cell) for cell in _cells(row)))
    # Into a pipe, and `docker exec` without -t is one, each row is a line, however long.
    Console(soft_wrap=True, width=None if sys.stdout.isatty() else 1000).print(table if rows else "no reviews yet")


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    outcome = row["reason"] if row["outcome"] == "reviewed" else f"{row['outcome']}: {row['reason']}".rstrip(": ")
    outcome += dismissed_text(row["dismissed"])
    numbers = ("" if row[name] is None else f"{row[name]:,.0f}" for name in ("findings", "tokens", "seconds"))
    return (
        str(row["review"] or ""),
        row["at"] or "",
        row["target"],
        row["head_sha"][:10],
        outcome,
        "yes" if row["counts"] else "no",
        *numbers,
        row["comment_url"] or "",
    )


@click.command()
@click.argument("review", type=Number(1))
@form_option
@fail_on_option
def show(review: int, form: str, fail_on: str | None) -> None:
    """Print a review again, by its number in `appliance history`."""
    with opened(usable=True) as parts:
        stored = parts.store.any_review(review)
        if stored is None:
            raise Misuse(f"There is no review {review}. Next: `appliance history` lists those that there are.")
        if stored.review is None:
            where = stored.comment_url or "there"
            raise Failure(
                f"history: review {review} was learnt from the forge, so its text is not here. Next: read it "
                f"at {where}, or `appliance retry {stored.target}` for another."
            )
        print_stored(parts, stored, form)
    exit_by(stored.review, stored.gate, fail_on)


def print_stored(parts: "Appliance", stored: "StoredReview", form: str) -> None:
    """A review of which the text is stored."""
    assert stored.review is not None
    place = parts.store.place(stored.target)
    repository = place.repository if place else ""
    url = (stored.comment_url or "") if place and place.forge == "github" else ""
    print_review(
        stored.review,
        stored.gate,
        form,
        block_priority=parts.settings.block_priority_number,
        permalink=lambda *_: None,
        code=lambda commit, path: parts.mirrors.file(repository, commit, path, limit=MAX_SHOWN),
        repository=page_of(url, repository),
    )
