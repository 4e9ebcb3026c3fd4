"""Reviews that a person asks for: `review` and `rehearse`."""

from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from appliance import __version__
from appliance.cli.common import HELP, Command, Failure, Misuse, of_fault, opened
from appliance.cli.printing import exit_by, fail_on_option, form_option, page_of, print_review
from appliance.cli.telling import Teller

if TYPE_CHECKING:
    from appliance.core.findings import Review
    from appliance.core.outcomes import Ending
    from appliance.core.pulls import Pull
    from appliance.core.verdict import Gate
    from appliance.wiring import Appliance

MAX_SHOWN = 4 * 1024**2  # bytes of a file that code is shown of


@click.command()
@form_option
def rehearse(form: str) -> None:
    """Review the sample with the rehearsal model: costs nothing, and shows that the whole chain works."""
    from appliance import sample
    from appliance.commands import review_once

    with opened(usable=True) as parts:
        forge = parts.local([sample.make(parts.sample)])
        pull = forge.find(f"{parts.sample}#{sample.BRANCH}")
        with Teller() as teller:
            ending = review_once(parts, forge, pull, rehearse=True, progress=teller)
        _print_review(parts, forge, pull, _reviewed(ending), form)
        found = _reviewed(ending).result.findings
    if not any(finding.path == sample.DEFECT_PATH for finding in found):
        raise Failure(
            "rehearsal: the planted defect was not found. Next: report this with `docker logs review-appliance`."
        )
    if form in ("text", "markdown"):
        click.echo("\nThe chain works: jail, gate, Codex, sandbox and schema. This was a rehearsal, not a real review.")


@click.command(cls=Command, context_settings=HELP)
@click.version_option(__version__, prog_name="review-appliance")
@click.argument("target")
@click.option("--base", help="With a path: the branch or commit to compare with (default: the default branch).")
@click.option("--head", help="With a path: the branch or commit to review (default: HEAD).")
@click.option("--uncommitted", is_flag=True, help="With a path: what is not committed, against HEAD or --base.")
@click.option(
    "--patch",
    type=click.File("rb"),
    help="With a path: this patch on HEAD or --base; `-` is standard input (`docker exec -i`).",
)
@click.option("--watch", is_flag=True, help="Follow the review of TARGET that the loop or --post makes now.")
@click.option("--quiet", is_flag=True, help="Tell no progress on stderr.")
@click.option("--post", is_flag=True, help="Publish the review and set the gate, instead of only printing it.")
@form_option
@fail_on_option
def review(
    target: str,
    base: str | None,
    head: str | None,
    uncommitted: bool,
    patch: IO[bytes] | None,
    watch: bool,
    quiet: bool,
    post: bool,
    form: str,
    fail_on: str | None,
) -> None:
    """Review TARGET now: owner/name#12, a pull request's URL, path#branch, or a path with --base and --head."""
    from appliance.commands import BadTarget, Busy, find, review_and_post, review_once, unseen

    if (uncommitted or patch) and (head or post or (uncommitted and patch)):
        raise Misuse("--uncommitted and --patch go with a path and --base alone. Next: leave out the other options.")
    if watch:
        if base or head or uncommitted or patch or post:
            raise Misuse(
                "--watch follows a review that runs already, and begins none. Next: leave out --base, --head, "
                "--uncommitted, --patch and --post."
            )
        from appliance.cli.watching import watch as follow

        with opened(usable=True) as parts:
            follow(parts, target, form, fail_on, quiet=quiet)
        return
    given = _patch(patch) if patch else None
    with ExitStack() as stack:
        parts = stack.enter_context(opened(usable=True))
        try:
            if uncommitted or given is not None:
                forge, pull = stack.enter_context(unseen(parts, target, base, given))
            else:
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
            with Teller(form, quiet=quiet) as teller:
                ending = go(parts, forge, pull, rehearse=rehearse, progress=teller)
        except Busy as error:
            raise Failure(str(error)) from None
        done = _reviewed(ending)
        gate = _print_review(parts, forge, pull, done, form)
    exit_by(done, gate, fail_on)


def _patch(file: IO[bytes]) -> bytes:
    from appliance.git.snapshot import MAX_PATCH

    if file.isatty():
        raise Misuse(
            "--patch reads standard input. Next: `git diff | docker exec -i review-appliance review … --patch -`."
        )
    return file.read(MAX_PATCH + 1)


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


def _print_review(parts: "Appliance", forge: Any, pull: "Pull", done: "Review", form: str) -> "Gate":
    from appliance.core.verdict import gate_of

    priority = parts.settings.block_priority_number
    gate = gate_of(done, priority)
    print_review(
        done,
        gate,
        form,
        block_priority=priority,
        permalink=lambda path, first, last: forge.permalink(pull, path, first, last),
        code=lambda commit, path: parts.mirrors.file(pull.repository, commit, path, limit=MAX_SHOWN),
        repository=page_of(pull.url, pull.repository),
    )
    return gate
