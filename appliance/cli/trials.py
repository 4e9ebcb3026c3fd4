"""`gate-check`: faults made on purpose, and whether the gate lied."""

import sys
import time

import click

from appliance.cli.common import Misuse, echo, echo_json


@click.command("gate-check")
@click.option("--only", metavar="TEXT", default="", help="Only the faults whose name holds TEXT.")
@click.option("--list", "listing", is_flag=True, help="Print the names of the faults and what is done; run nothing.")
@click.option("--fast", is_flag=True, help="A part of them, and Codex's events as recorded in place of the real one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def gate_check(only: str, listing: bool, fast: bool, as_json: bool) -> None:
    """Make faults on purpose, in a world of its own, and count false successes. Exit 0 if there is none, else 1."""
    from appliance.trials import run
    from appliance.trials.table import rows

    chosen = [row for row in rows(time.time()) if only in row.title and (row.fast or only or not fast)]
    if not chosen:
        raise Misuse(f"No fault's name holds {only!r}. Next: `appliance gate-check --list` names them.")
    if listing:
        for row in chosen:
            echo(f"{row.title}\n    {row.injected}")
        return
    started = time.monotonic()
    shows = sys.stderr.isatty() and not as_json
    with run.silence():
        codex, why = (False, "--fast: recorded events of Codex") if fast else run.codex_works()
        found = run.tried(
            chosen,
            real=codex,
            progress=lambda one: click.echo(f"\r{one.row.title[:100]:100}", nl=False, err=True) if shows else None,
        )
    if shows:
        click.echo(f"\r{'':100}\r", nl=False, err=True)
    report = run.Report(tuple(found), codex, why, time.monotonic() - started)
    if as_json:
        echo_json(report.to_json())
    else:
        echo("\n".join(report.lines()))
    if not report.ok:
        sys.exit(1)
