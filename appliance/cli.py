"""The commands. Imports are late: a command that needs little starts fast."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance import __version__

if TYPE_CHECKING:
    from appliance.core.faults import Fault
    from appliance.core.findings import Review
    from appliance.core.outcomes import Ending
    from appliance.selftest import Report
    from appliance.settings import Settings
    from appliance.wiring import Appliance

FOUND = 3  # exit code of `review --fail-on` when there is such a finding
STALE = (
    "The appliance does not report its health. Next: see `docker logs --tail 50 review-appliance`, then "
    "`docker restart review-appliance`."
)
NOT_SHOWN = "Cycle, tokens and pull requests are not shown: they stand in the state volume, which cannot be used."
IN_IMAGE = Path("/usr/local/bin/health-probe")  # what only the image has
PRIORITIES = ("P0", "P1", "P2", "P3")


def _echo(text: str, *, err: bool = False) -> None:
    """Print what others may have written: without secrets, and with nothing in it that acts on a terminal."""
    from appliance.redaction import say

    click.echo(say(text), err=err)


def _echo_json(value: object) -> None:
    from appliance.redaction import cleaned

    click.echo(json.dumps(cleaned(value)))


class Failure(click.ClickException):
    """Something went wrong that is no usage error: one line with cause and next step, exit 1."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        _echo(self.message, err=True)


class Misuse(Failure):
    """The person asked for what cannot be: exit 2."""

    exit_code = 2


def _of_fault(fault: "Fault", *more: str) -> Failure:
    return Failure(" ".join(filter(None, (str(fault), *more))))


@contextmanager
def _brief() -> "Iterator[None]":
    """A mistyped command is one line too, not the three that click has for it."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:  # the whole help, for who typed the bare name
        raise
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "appliance"
        said = " ".join(error.format_message().split()).rstrip(".")
        stop = "" if said.endswith("?") else "."
        raise Misuse(f"usage: {said}{stop} Next: `{path} --help` shows what can be typed.") from None


class _Command(click.Command):
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _brief():
            return super().make_context(*args, **extra)


class _Group(click.Group):
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _brief():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _brief():
            return super().invoke(ctx)


class _Priority(click.Choice[str]):
    """Click shows in lower case what may be written in either."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"{value!r} is not one of {', '.join(PRIORITIES)}"


HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


@click.group(cls=_Group, context_settings=HELP)
@click.version_option(__version__, prog_name="appliance")
def main() -> None:
    """Reviews pull requests with Codex, and never blames them for a fault that is not theirs."""
    _guard()


def _guard() -> None:
    from appliance.redaction import guard

    guard()


def _settings() -> "Settings":
    from appliance.settings import SettingsError, load

    try:
        return load()
    except SettingsError as error:
        raise Misuse(f"settings: {error}\nNext: correct .env and run `docker compose up -d`.") from None


def _in_container(settings: "Settings", *folders: str) -> None:
    """Refuse on a host what would make the container's `folders` there, unless its settings name others."""
    if IN_IMAGE.exists() or settings.model_fields_set.issuperset(folders):
        return
    name = click.get_current_context().info_name
    exec_ = "docker exec -it" if name == "login" else "docker exec"
    raise Failure(
        "container: this is not the appliance's container, and what the command works on is in there. Next: "
        f"`{exec_} review-appliance appliance {name}`, with the same options; `docker/up` starts it."
    )


@contextmanager
def _open(*, quiet: bool = True, usable: bool = False) -> "Iterator[Appliance]":
    """The appliance of this process, with what the edges raise turned into one line.

    `usable`: a state volume that cannot be used is a failure, not something to look at.
    """
    settings = _settings()
    _in_container(settings, "state_dir", "run_dir")
    from sqlalchemy.exc import SQLAlchemyError

    from appliance.core.faults import full_stop
    from appliance.failures import fault_of, shortage_of
    from appliance.forge import ForgeError
    from appliance.git import GitError
    from appliance.log import configure
    from appliance.store import is_damage, words
    from appliance.wiring import appliance, no_run_dir

    configure(settings.log_format, quiet=quiet)
    if fault := no_run_dir(settings):
        raise _of_fault(fault)
    try:
        with appliance(settings) as parts:
            if usable and parts.blocked:
                raise _of_fault(parts.blocked)
            yield parts
    except ForgeError as error:
        raise Failure(f"{error.cause}: {full_stop(str(error))} Next: {error.remedy}") from None
    except GitError as error:
        raise Failure(f"{error.cause}: {error}") from None
    except (OSError, ValueError, SQLAlchemyError) as error:
        if fault := shortage_of(error):
            raise _of_fault(fault) from None
        if is_damage(error):
            raise _of_fault(fault_of(error)) from None
        raise Failure(
            f"state: {words(error)}. Next: check the volume at {settings.state_dir} and its free space."
        ) from None


@main.command()
def serve() -> None:
    """Run the loop: the self-test and a cycle at start, then a cycle each interval."""
    from appliance.log import configure
    from appliance.serving import serve_forever
    from appliance.settings import SettingsError, load

    with suppress(SettingsError):  # bad ones leave it up and unhealthy
        _in_container(load(), "state_dir", "run_dir")
    configure("text")
    serve_forever()


@main.command()
def cycle() -> None:
    """Run one cycle now; what waits for a mend is tried at once. Exit 0, or 1 when it failed by a fault."""
    from appliance.schedule import cycle_runs, run_cycle

    with _open(quiet=False) as parts:
        if cycle_runs(parts):
            click.echo("… a cycle is running; waiting for its end", err=True)
        result = run_cycle(parts, by_hand=True)
    click.echo(f"{result.pulls} pull request{'' if result.pulls == 1 else 's'}, {result.reviewed} reviewed")
    if result.fault:
        raise _of_fault(result.fault, result.again)
    if result.again:
        _echo(result.again, err=True)


@main.command("selftest")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--deep", is_flag=True, help="Also attack the jail and the sandbox from inside.")
def selftest_command(as_json: bool, deep: bool) -> None:
    """Examine the sandbox, nested as in a review. Exit 1 with cause and remedy."""
    settings = _settings()
    _in_container(settings, "run_dir" if os.getuid() == 0 else "state_dir")
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
        _echo_json(report.to_json())
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


@main.command()
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
    if where == "container" or (where == "auto" and IN_IMAGE.exists()):
        from appliance.doctor.inside import examine

        lines = examine(deep=deep)
    else:
        from appliance.doctor import outside

        lines = outside.examine(name, compose_file, *(["--deep"] if deep else []))
    if as_json:
        _echo_json(to_json(lines))
    else:
        _echo("\n".join(shown(lines)))
    if not well(lines):
        sys.exit(1)


def _attacked(scratch: Path) -> "Report":
    """The deep self-test; what it came to is what the next cycle goes by."""
    from appliance.selftest import deep
    from appliance.wiring import surroundings

    report = deep(scratch, surroundings(_settings()), slow=True)
    with _open() as parts:
        parts.note_battery(report)
    return report


def _show_fault(fault: "Fault") -> None:
    _echo(str(fault), err=True)
    if fault.symptom:
        _echo(f"What was seen: {fault.symptom}", err=True)
    _echo(f"More of it: {fault.page}", err=True)
    for name, value in sorted(fault.facts.items()):
        _echo(f"  {name} = {value}", err=True)


@main.command()
def login() -> None:
    """Log in to ChatGPT, with a device code, for reviews without an API key. Needs `docker exec -it`."""
    settings = _settings()
    _in_container(settings, "state_dir")
    import signal

    from appliance.failures import shortage_of
    from appliance.jail import codex_package
    from appliance.login import Login
    from appliance.login_made import NoLogin, device_login

    if not sys.stdin.isatty():  # then a Ctrl-C ends `docker exec` and not this
        click.echo(
            "No terminal, so a Ctrl-C will not end this. Better: `docker exec -it review-appliance appliance login`."
        )
    for number in (signal.SIGTERM, signal.SIGHUP):  # a closed terminal leaves nothing behind either
        signal.signal(number, signal.default_int_handler)
    try:
        device_login(Login(settings.state_dir / "login"), codex_package() / "bin" / "codex", click.echo)
    except NoLogin as error:
        if fault := shortage_of(error):  # in Codex's words
            raise _of_fault(fault) from None
        raise Failure(f"login: {error}") from None
    except KeyboardInterrupt:
        raise Failure("login: stopped, nothing was changed. Next: run it again when you like.") from None
    except OSError as error:
        if fault := shortage_of(error):
            raise _of_fault(fault) from None
        raise Failure(f"login: {error}. Next: check the volume at {settings.state_dir} and its free space.") from None
    click.echo("Logged in. The next cycle uses it; `docker exec review-appliance appliance cycle` is one now.")


@main.command("settings")
def settings_command() -> None:
    """Print the effective settings, secrets hidden."""
    from appliance.settings import effective, unknown

    for name, value in effective(_settings()).items():
        _echo(f"{name}={value}")
    for line in unknown():
        _echo(line, err=True)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def status(as_json: bool) -> None:
    """Show health, cycle, and each pull request: head, state, attempts, next try."""
    with _open() as parts:
        blocked = parts.blocked
        shown = _unknown_status(parts, blocked) if blocked else _status(parts)
    if blocked:
        _echo(NOT_SHOWN, err=True)
    if as_json:
        _echo_json(shown)
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
        row = (pull["target"], pull["head"][:10], pull["state"], tries, pull["next_try"] or "", pull["reason"])
        table.add_row(*(_escaped(cell) for cell in row))
    console.print(table if shown["pulls"] else "no pull requests")


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(" ".join(text.splitlines()))  # a name may have line ends, and forge a row


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
            "since": _time(health.since) if health else None,
        },
        "cycle": {
            "last_ended": _time(last.get("last_ended")),
            "next": _time(last.get("next")),
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
                "next_try": _time(pull.next_try or (last.get("next") if pull.state == "waiting" else None)),
                "reason": pull.reason,
            }
            for pull in parts.store.states()
        ],
    }


def _unknown_status(parts: "Appliance", fault: "Fault") -> dict[str, Any]:
    """The same while the state cannot be used: the fault, and nothing of the passing state as if it were known."""
    from appliance.core.health import of_fault
    from appliance.health import read

    told = of_fault(fault, 0.0)
    said = read(parts.settings.run_dir)
    since = said.since if said and said.cause == fault.cause else None
    return {
        "health": {"state": told.state, "cause": told.cause, "message": told.message, "since": _time(since)},
        "cycle": {"last_ended": None, "next": None, "failed": True},
        "tokens": {"day": parts.store.spent().day, "used": None, "limit": parts.settings.tokens_per_day},
        "pulls": [],
    }


def _time(moment: float | None) -> str | None:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


@main.command()
@click.argument("target")
def retry(target: str) -> None:
    """Start over with TARGET: its attempts count no more, and it is reviewed again."""
    from appliance.forge.github import parse_target

    found = parse_target(target)
    name = f"{found[0]}#{found[1]}" if found else target
    with _open(usable=True) as parts:
        same = [row for row in parts.store.states() if row.target.casefold() == name.casefold()]
        if not same:
            raise Misuse(
                f"{name if name.strip() else 'An empty TARGET'} is not watched. Next: `appliance status` lists what is."
            )
        pull = same[0]
        parts.store.forget(pull.target)
        parts.store.set_note("held", None)
    if pull.state == "skipped":
        _echo(f"{pull.target} was not reviewed at the last look ({pull.reason}); it starts over once that has changed.")
    else:
        _echo(f"{pull.target} starts over with the next cycle; `appliance cycle` runs one now.")


@main.command()
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json"]), default="text")
def rehearse(form: str) -> None:
    """Review the sample with the rehearsal model: costs nothing, and shows that the whole chain works."""
    from appliance import sample
    from appliance.commands import review_once

    with _open(usable=True) as parts:
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


@main.command(cls=_Command, context_settings=HELP)
@click.version_option(__version__, prog_name="review-appliance")
@click.argument("target")
@click.option("--base", help="With a path: the branch or commit to compare with (default: the default branch).")
@click.option("--head", help="With a path: the branch or commit to review (default: HEAD).")
@click.option("--post", is_flag=True, help="Publish the review and set the gate, instead of only printing it.")
@click.option("--format", "form", type=click.Choice(["text", "markdown", "json"]), default="text")
@click.option(
    "--fail-on",
    type=_Priority(PRIORITIES, case_sensitive=False),
    metavar=f"[{'|'.join(PRIORITIES)}]",
    help=f"Exit {FOUND} on such a finding or a graver one.",
)
def review(target: str, base: str | None, head: str | None, post: bool, form: str, fail_on: str | None) -> None:
    """Review TARGET now: owner/name#12, a pull request's URL, path#branch, or a path with --base and --head."""
    from appliance.commands import BadTarget, Busy, find, review_and_post, review_once

    with _open(usable=True) as parts:
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
                raise _of_fault(fault)
        go = review_and_post if post else review_once
        try:
            ending = go(parts, forge, pull, rehearse=rehearse, progress=_progress())
        except Busy as error:
            raise Failure(str(error)) from None
        done = _reviewed(ending)
        _print_review(parts, forge, pull, done, form)
    if fail_on and any(finding.priority <= int(fail_on[1]) for finding in done.result.findings):
        sys.exit(FOUND)


def review_main() -> None:
    """`review TARGET`: the same as `appliance review TARGET`."""
    _guard()
    review.main(prog_name="review")


def _progress() -> Callable[[str], None]:
    return lambda what: _echo(f"… {' '.join(what.split())}", err=True)  # a command may have lines, and forge some


def _reviewed(ending: "Ending") -> "Review":
    from appliance.core.budget import REVIEW_REMEDY
    from appliance.core.faults import full_stop
    from appliance.core.outcomes import Outcome

    if ending.review is not None:
        return ending.review
    if ending.fault is not None:
        raise _of_fault(ending.fault)
    again = "try again, or see `docker logs review-appliance`."
    remedy = REVIEW_REMEDY if ending.outcome is Outcome.TOKEN_BUDGET else again
    raise Failure(f"{ending.outcome.value}: {full_stop(ending.reason)} Next: {remedy}")


def _print_review(parts: "Appliance", forge: Any, pull: Any, done: "Review", form: str) -> None:
    from appliance.core.report import as_json, comment
    from appliance.core.verdict import gate_of

    gate = gate_of(done, parts.settings.block_priority_number)
    if form == "json":
        _echo_json(as_json(done, gate))
        return
    text = comment(
        done,
        gate,
        parts.settings.block_priority_number,
        lambda path, first, last: forge.permalink(pull, path, first, last),
    )
    if form == "markdown":
        _echo(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    from appliance.redaction import say

    Console().print(Markdown(say(text)))


if __name__ == "__main__":
    main()
