"""Reviews that a person asks for: `review` and `rehearse`."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance import __version__
from appliance.cli.common import HELP, PRIORITIES, Command, Failure, Misuse, Priority, echo, echo_json, of_fault, opened

if TYPE_CHECKING:
    from appliance.core.findings import Review
    from appliance.core.outcomes import Ending
    from appliance.wiring import Appliance

FOUND = 3  # exit code of `review --fail-on` when there is such a finding


@click.command()
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json"]), default="text")
def rehearse(form: str) -> None:
    """Review the sample with the rehearsal model: costs nothing, and shows that the whole chain works."""
    from appliance import sample
    from appliance.commands import review_once

    with opened(usable=True) as parts:
        forge = parts.local([sample.make(parts.sample)])
        pull = forge.find(f"{parts.sample}#{sample.BRANCH}")
        ending = review_once(parts, forge, pull, rehearse=True, progress=_progress())
        _print_review(parts, forge, pull, _reviewed(ending), form)
        found = _reviewed(ending).result.findings
    if not any(finding.path == sample.DEFECT_PATH for finding in found):
        raise Failure(
            "rehearsal: the planted defect was not found. Next: report this with `docker logs review-appliance`."
        )
    if form != "json":
        click.echo("\nThe chain works: jail, gate, Codex, sandbox and schema. This was a rehearsal, not a real review.")


@click.command(cls=Command, context_settings=HELP)
@click.version_option(__version__, prog_name="review-appliance")
@click.argument("target")
@click.option("--base", help="With a path: the branch or commit to compare with (default: the default branch).")
@click.option("--head", help="With a path: the branch or commit to review (default: HEAD).")
@click.option("--post", is_flag=True, help="Publish the review and set the gate, instead of only printing it.")
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json"]), default="text")
@click.option(
    "--fail-on",
    type=Priority(PRIORITIES, case_sensitive=False),
    metavar=f"[{'|'.join(PRIORITIES)}]",
    help=f"Exit {FOUND} on such a finding or a graver one.",
)
def review(target: str, base: str | None, head: str | None, post: bool, form: str, fail_on: str | None) -> None:
    """Review TARGET now: owner/name#12, a pull request's URL, path#branch, or a path with --base and --head."""
    from appliance.commands import BadTarget, Busy, find, review_and_post, review_once

    with opened(usable=True) as parts:
        try:
            forge, pull = find(parts, target, base, head)
        except BadTarget as error:
            raise Misuse(str(error)) from None
        if post and (base or head):
            raise Misuse("--post publishes a pull request's review, without --base or --head. Next: leave out either.")
        rehearse = parts.settings.rehearsal and Path(pull.repository) == parts.sample
        if not rehearse and parts.settings.openai_api_key is None:
            fault = parts.login_fault()
            if fault:
                raise of_fault(fault)
        go = review_and_post if post else review_once
        try:
            ending = go(parts, forge, pull, rehearse=rehearse, progress=_progress())
        except Busy as error:
            raise Failure(str(error)) from None
        done = _reviewed(ending)
        _print_review(parts, forge, pull, done, form)
    if fail_on and any(finding.priority <= int(fail_on[1]) for finding in done.result.findings):
        sys.exit(FOUND)


def _progress() -> Callable[[str], None]:
    return lambda what: echo(f"… {' '.join(what.split())}", err=True)  # a command may have lines, and forge some


def _reviewed(ending: "Ending") -> "Review":
    from appliance.core.budget import REVIEW_REMEDY
    from appliance.core.faults import full_stop
    from appliance.core.outcomes import Outcome

    if ending.review is not None:
        return ending.review
    if ending.fault is not None:
        raise of_fault(ending.fault)
    again = "try again, or see `docker logs review-appliance`."
    remedy = REVIEW_REMEDY if ending.outcome is Outcome.TOKEN_BUDGET else again
    raise Failure(f"{ending.outcome.value}: {full_stop(ending.reason)} Next: {remedy}")


def _print_review(parts: "Appliance", forge: Any, pull: Any, done: "Review", form: str) -> None:
    from appliance.core.report import as_json, comment
    from appliance.core.verdict import gate_of

    gate = gate_of(done, parts.settings.block_priority_number)
    if form == "json":
        echo_json(as_json(done, gate))
        return
    text = comment(
        done,
        gate,
        parts.settings.block_priority_number,
        lambda path, first, last: forge.permalink(pull, path, first, last),
    )
    if form == "markdown":
        echo(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    from appliance.redaction import say

    Console().print(Markdown(say(text)))
