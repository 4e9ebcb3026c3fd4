"""A review in each form that `--format` has, and what it means for the exit code."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from appliance import __version__
from appliance.cli.common import PRIORITIES, Priority, echo, echo_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from appliance.core.findings import Finding, Review
    from appliance.core.report import Permalink
    from appliance.core.verdict import Gate

FOUND = 3  # exit code of `--fail-on` when there is such a finding
NOT_JUDGED = 4  # … and when the review judges nothing: that is not "nothing found"
FORMS = ("text", "markdown", "json", "sarif", "github")
NARROWEST = 20

form_option = click.option("--format", "form", type=click.Choice(FORMS), default="text", help="How it is printed.")
fail_on_option = click.option(
    "--fail-on",
    type=Priority(PRIORITIES, case_sensitive=False),
    metavar=f"[{'|'.join(PRIORITIES)}]",
    help=f"Exit {FOUND} on such a finding or a graver one, {NOT_JUDGED} if the review judges nothing.",
)


def print_review(
    review: "Review",
    gate: "Gate",
    form: str,
    *,
    block_priority: int,
    permalink: "Permalink",
    code: Callable[[str, str], bytes | None],
    repository: str = "",
) -> None:
    """`code` gives a file of a commit, None if it is not at hand; `repository` is a page's address or a path."""
    from appliance import redaction

    review = redaction.review(review)  # before anything is escaped: behind `%20` no secret is known by its shape
    if form == "json":
        from appliance.core.report import as_json

        echo_json(as_json(review, gate))
    elif form == "sarif":
        from appliance.core.sarif import sarif

        echo_json(sarif(review, gate, block_priority, version=__version__, repository=repository))
    elif form == "github":
        from appliance.core.workflow import workflow

        echo(workflow(review, gate))
    elif form == "markdown":
        from appliance.core.report import comment

        echo(comment(review, gate, block_priority, permalink))
    else:
        _print_text(review, gate, block_priority, code)


def page_of(url: str, repository: str) -> str:
    """The address of the repository's page, from that of its pull request; a local one's path."""
    return url.partition("/pull/")[0] if "/pull/" in url else repository


def exit_by(review: "Review", gate: "Gate", fail_on: str | None) -> None:
    """Exit as `--fail-on` asks for, if it does."""
    if fail_on is None:
        return
    findings = review.result.findings
    unnamed = review.result.verdict == "incorrect" and not findings
    if unnamed or any(finding.priority <= int(fail_on[1]) for finding in findings):
        sys.exit(FOUND)
    if gate.state not in ("success", "failure"):
        sys.exit(NOT_JUDGED)


def _print_text(review: "Review", gate: "Gate", block_priority: int, code: Callable[[str, str], bytes | None]) -> None:
    from rich.console import Console, Group, RenderableType
    from rich.markdown import Markdown
    from rich.padding import Padding
    from rich.text import Text

    from appliance.core.verdict import blocking, blocks_at
    from appliance.redaction import say

    console = Console(highlight=False)
    width = max(NARROWEST, console.width - 2)

    def line(text: str, style: str = "") -> Text:
        return Text(" ".join(say(text).split()), style=style)

    def prose(text: str) -> RenderableType:
        return Padding(Markdown(say(text), hyperlinks=False), (0, 0, 0, 2))

    def shown(finding: "Finding", blocks: bool) -> RenderableType:
        head = line(f"[P{finding.priority}] {finding.title}", "bold red" if blocks else "bold yellow")
        marks = [
            *(["blocks"] if blocks else []),
            *(["advisory"] if finding.advisory else []),
            f"confidence {finding.confidence:.2f}",
        ]
        lines = f"{finding.line_start}" + (f"-{finding.line_end}" if finding.line_end > finding.line_start else "")
        deleted = " (deleted lines)" if finding.side == "LEFT" else ""
        place = line(f"{finding.path}:{lines}{deleted} · {' · '.join(marks)}", "dim")
        parts: list[RenderableType] = [head, place]
        if source := code(review.head_sha if finding.side == "RIGHT" else review.merge_base, finding.path):
            parts += _code(source, finding, width)
        parts += [prose(finding.body)]
        if finding.suggestion is not None:
            parts.append(line("  The reviewer suggests:", "dim"))
            parts += [Text(f"  + {each}", "green", no_wrap=True) for each in say(finding.suggestion).splitlines()]
        return Group(*parts, Text(""))

    colour = {"success": "bold green", "failure": "bold red"}.get(gate.state, "bold yellow")
    console.print(line(f"Codex review: {gate.description}", colour))
    if review.rehearsal:
        console.print(line("Rehearsal: written by the scripted model of the appliance, not by Codex's model."))
    console.print(line(review.target))
    console.print(line(f"head {review.head_sha}, base {review.base_ref} at {review.base_sha}", "dim"))
    console.print(prose(review.result.summary))
    console.print()
    findings = sorted(review.result.findings, key=lambda finding: finding.priority)
    blockers = set(map(id, blocking(findings, blocks_at(review, block_priority))))
    for finding in findings:
        console.print(shown(finding, id(finding) in blockers and not finding.advisory))
    if not findings and not review.nothing_to_review:
        console.print("No findings.\n")
    for earlier in review.earlier:
        by = f" by {earlier.who}" if earlier.state == "dismissed" else ""
        why = f": {earlier.reason}" if earlier.reason else ""
        told = f"[P{earlier.priority}] {earlier.title} ({earlier.path}){why}"
        console.print(line(f"Earlier: {earlier.state}{by}: {told}"))
    unseen = [*review.coverage.trimmed, *review.coverage.left_out]
    for each in unseen:
        console.print(line(f"Not reviewed: {each.path}: {each.why or each.kind}"))
    console.print(line(f"Verdict: {review.result.verdict}", "bold"))
    console.print(prose(review.result.reasoning))
    for note in review.configuration.notes:
        console.print(line(f"Note: {note}"))
    console.print(line(f"Limits: {review.result.limits or 'none named'}"))
    usage, ran = review.usage, len(review.evidence.commands)
    console.print(
        line(
            f"{ran} command{'' if ran == 1 else 's'} ran · {review.model} · {usage.input_tokens:,} tokens"
            f" in ({usage.cached_input_tokens:,} cached), {usage.output_tokens:,} out · {review.seconds:.0f} s",
            "dim",
        )
    )


def _code(source: bytes, finding: "Finding", width: int) -> "list[RenderableType]":
    from rich.text import Text

    from appliance.core.excerpt import excerpt
    from appliance.redaction import redacted

    text = source.decode("utf-8", "surrogateescape")
    clean = redacted(text)
    if clean.count("\n") != text.count("\n"):  # a secret of several lines was cut out, and the numbers are wrong
        return []
    digits = len(str(finding.line_end + 3))
    found = excerpt(clean.encode("utf-8", "surrogateescape"), finding.line_start, finding.line_end, width - digits - 5)
    return [
        Text(
            f"  {'>' if each.marked else ' '} {each.number or '':>{digits}} {each.text}".rstrip(),
            "bold" if each.marked else "",
            no_wrap=True,
            overflow="crop",
        )
        for each in found
    ]
