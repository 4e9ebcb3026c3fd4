"""The loop: `serve`, one `cycle` by hand, and `retry`."""

from contextlib import suppress

import click

from appliance.cli.common import Misuse, echo, in_container, of_fault, opened


@click.command()
def serve() -> None:
    """Run the loop: the self-test and a cycle at start, then a cycle each interval."""
    from appliance.log import configure
    from appliance.serving import serve_forever
    from appliance.settings import SettingsError, load

    with suppress(SettingsError):  # bad ones leave it up and unhealthy
        in_container(load(), "state_dir", "run_dir")
    configure("text")
    serve_forever()


@click.command()
def cycle() -> None:
    """Run one cycle now; what waits for a mend is tried at once. Exit 0, or 1 when it failed by a fault."""
    from appliance.schedule import cycle_runs, run_cycle

    with opened(quiet=False) as parts:
        if cycle_runs(parts):
            click.echo("… a cycle is running; waiting for its end", err=True)
        result = run_cycle(parts, by_hand=True)
    click.echo(f"{result.pulls} pull request{'' if result.pulls == 1 else 's'}, {result.reviewed} reviewed")
    if result.fault:
        raise of_fault(result.fault, result.again)
    if result.again:
        echo(result.again, err=True)


@click.command()
@click.argument("target")
def retry(target: str) -> None:
    """Start over with TARGET: its attempts count no more, and it is reviewed again."""
    from appliance.forge.github import parse_target

    found = parse_target(target)
    name = f"{found[0]}#{found[1]}" if found else target
    with opened(usable=True) as parts:
        same = [row for row in parts.store.states() if row.target.casefold() == name.casefold()]
        if not same:
            raise Misuse(
                f"{name if name.strip() else 'An empty TARGET'} is not watched. Next: `appliance status` lists what is."
            )
        pull = same[0]
        parts.store.forget(pull.target)
        parts.store.set_note("held", None)
    if pull.state == "skipped":
        echo(f"{pull.target} was not reviewed at the last look ({pull.reason}); it starts over once that has changed.")
    else:
        echo(f"{pull.target} starts over with the next cycle; `appliance cycle` runs one now.")
