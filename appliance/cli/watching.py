"""`review TARGET --watch`: follows a review that another process makes, and prints what it came to.

Nothing of the review is touched. That it runs, and how it ended, is what the database says; how far it is, the board.
"""

import re
from pathlib import Path
from time import sleep as wait
from typing import TYPE_CHECKING

from appliance.cli.common import Failure, Misuse
from appliance.cli.past import print_stored
from appliance.cli.printing import exit_by
from appliance.cli.telling import Teller
from appliance.core.steps import Step

if TYPE_CHECKING:
    from appliance.store import Tried
    from appliance.wiring import Appliance

POLL_SECONDS = 0.5
NOT_RUNNING = 5  # exit code: there is nothing to watch, so nothing is known of a result


class NotRunning(Failure):
    exit_code = NOT_RUNNING


class Left(Failure):
    """As a shell tells that a Ctrl-C ended something."""

    exit_code = 130


def watch(parts: "Appliance", target: str, form: str, fail_on: str | None, *, quiet: bool) -> None:
    """Follow the review of `target` that runs now to its end, then print it. Raises Failure."""
    name = _named(target)
    begun = parts.store.running(name)
    if begun is None:
        raise NotRunning(_nothing(parts, name))
    try:
        with Teller(form, quiet=quiet) as teller:
            ended = _follow(parts, begun, teller)
    except KeyboardInterrupt:
        raise Left(
            f"watch: left; the review of {begun.target} goes on. Next: the same command watches again."
        ) from None
    if ended is None or ended.outcome is None:
        raise Failure(
            f"watch: the review of {begun.target} died: the process that made it is gone. Next: the loop begins it "
            "again in a cycle; `appliance status` shows when."
        )
    stored = parts.store.any_review(ended.review) if ended.review is not None else None
    if stored is None or stored.review is None:
        from appliance.core.faults import full_stop

        raise Failure(
            f"{ended.outcome.value}: {full_stop(ended.reason or 'the review came to nothing')} Next: "
            "`appliance status` shows when it is tried again."
        )
    print_stored(parts, stored, form)
    exit_by(stored.review, stored.gate, fail_on)


def _named(target: str) -> str:
    """The name under which the loop has it. Raises Misuse for what the loop does not review."""
    from appliance.forge.github import parse_target

    named = parse_target(target)
    if named and not Path(target).exists():
        return f"{named[0]}#{named[1]}"
    for mark in reversed(list(re.finditer("#", target))):
        folder = Path(target[: mark.start()])
        if folder.is_dir():
            return f"{folder.resolve()}#{target[mark.end() :]}"
    if "#" in target:
        return target  # of a folder that is gone, its review may still run
    raise Misuse(
        "--watch follows a review of the loop or of --post. Next: name it as `appliance status` does, owner/name#12 or "
        "path#branch."
    )


def _follow(parts: "Appliance", begun: "Tried", teller: Teller) -> "Tried | None":
    """The attempt once it has ended; None if its process died over it."""
    from appliance.core.moments import clock_time

    began, alive = clock_time(begun.started_at, begun.started_at), True
    teller.note(f"watching {begun.target}, head {begun.head_sha[:10]}, since {began}{_attempt(parts, begun)}")
    while True:
        now = parts.store.tried(begun.id)
        if now is None or now.outcome is not None or not alive:
            return now
        teller(_news(parts, begun))
        alive = parts.locks.alive(begun.owner)  # if not, one more look: the end may have been its last act
        if alive:
            wait(POLL_SECONDS)


def _attempt(parts: "Appliance", begun: "Tried") -> str:
    from appliance.board import Unreadable

    try:
        news = parts.board.read(begun.target)
    except Unreadable:
        return ""
    if news is None or news.attempt != begun.id:
        return ""
    return f": attempt {news.number} of {news.most} (pid {news.pid})"


def _news(parts: "Appliance", begun: "Tried") -> Step:
    from appliance.board import Unreadable

    try:
        news = parts.board.read(begun.target)
    except Unreadable as error:
        return Step(f"reviewing; how far it is, is unknown: {error}")
    if news is None or (news.attempt, news.owner) != (begun.id, begun.owner):  # not shown yet, or an earlier one's
        return Step("reviewing")
    return news.step


def _nothing(parts: "Appliance", name: str) -> str:
    """That nothing runs, what the plan has for it, and what a person can do."""
    from appliance.cli.looking import letters_of, time_text

    said = f"watch: no review of {name} runs now."
    row = next((row for row in parts.store.states() if row.target.casefold() == name.casefold()), None)
    if row is None:
        return f"{said} It is not watched. Next: `appliance status` lists what is; `review {name}` reviews it now."
    done = next((past.review for past in parts.store.history(row.target) if past.review is not None), None)
    told = [f"It is {row.state}{f' ({row.reason})' if row.reason else ''}"]
    if row.state == "waiting":
        last = parts.store.note("cycle") or {}
        told.append(f"next try {time_text(row.next_try or last.get('next')) or 'soon'}")
    told += [letter["said"] for letter in letters_of(parts, row.target)]
    then = f"`appliance show {done}` prints the last one." if done else "`appliance status` shows when it begins."
    return f"{said} {'; '.join(told)}. Next: {then}"
