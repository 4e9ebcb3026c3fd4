"""Looking at what the appliance needs: `selftest` and `doctor`."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance.cli import common
from appliance.cli.common import echo, echo_json, in_container, load_settings, opened

if TYPE_CHECKING:
    from appliance.core.faults import Fault
    from appliance.selftest import Report


@click.command("selftest")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--deep", is_flag=True, help="Also attack the jail and the sandbox from inside.")
def selftest_command(as_json: bool, deep: bool) -> None:
    """Examine the sandbox, nested as in a review. Exit 1 with cause and remedy."""
    settings = load_settings()
    in_container(settings, "run_dir" if os.getuid() == 0 else "state_dir")
    from appliance.selftest import selftest
    from appliance.workdir import WorkDirs

    examine = _attacked if deep else selftest

    # As root the state volume is closed to us, and that it is root is what the self-test is to say.
    work = (settings.run_dir if os.getuid() == 0 else settings.state_dir) / "work"
    try:
        with WorkDirs(work).new("selftest-") as scratch:
            report = examine(scratch)
    except OSError:
        report = examine(work / "selftest")  # cannot be made: the self-test says so in its own form
    if as_json:
        echo_json(report.to_json())
    else:
        for step in report.steps:
            click.echo(f"{'ok  ' if step.ok else 'FAIL'} {step.name} ({step.seconds * 1000:.0f} ms)")
        for warning in report.warnings:
            click.echo(f"warning: {warning}")
        if report.ok:
            held = ", and every attack was held" if deep else ""
            click.echo(f"The sandbox works{held} ({report.seconds:.2f} s).")
        elif report.fault:
            _show_fault(report.fault)
    if not report.ok:
        sys.exit(1)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--deep", is_flag=True, help="Also attack the jail and the sandbox from inside, as `selftest --deep`.")
@click.option(
    "--where",
    type=click.Choice(["auto", "container", "host"]),
    default="auto",
    help="What to look at; on the host, the engine and the container first, then all that is in it.",
)
@click.option("--container", "name", default="review-appliance", help="On the host: the container's name.")
@click.option(
    "--compose-file",
    type=click.Path(path_type=Path),
    help="On the host: the file it should be started from (default: compose.yaml here, else the container's own).",
)
def doctor(as_json: bool, deep: bool, where: str, name: str, compose_file: Path | None) -> None:
    """Look at everything the appliance needs, and say what to type. Exit 1 if there is a fault. Mends nothing."""
    from appliance.core.doctor import shown, to_json, well
    from appliance.log import configure

    configure("text", quiet=True)
    if where == "container" or (where == "auto" and common.IN_IMAGE.exists()):
        from appliance.doctor.inside import examine

        lines = examine(deep=deep)
    else:
        from appliance.doctor import outside

        lines = outside.examine(name, compose_file, *(["--deep"] if deep else []))
    if as_json:
        echo_json(to_json(lines))
    else:
        echo("\n".join(shown(lines)))
    if not well(lines):
        sys.exit(1)


def _attacked(scratch: Path) -> "Report":
    """The deep self-test; what it came to is what the next cycle goes by."""
    from appliance.selftest import deep
    from appliance.wiring import surroundings

    report = deep(scratch, surroundings(load_settings()), slow=True)
    with opened() as parts:
        parts.note_battery(report)
    return report


def _show_fault(fault: "Fault") -> None:
    echo(str(fault), err=True)
    if fault.symptom:
        echo(f"What was seen: {fault.symptom}", err=True)
    echo(f"More of it: {fault.page}", err=True)
    for name, value in sorted(fault.facts.items()):
        echo(f"  {name} = {value}", err=True)
