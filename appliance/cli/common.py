"""What every command has: what it prints passes one door, its errors are one line, and it opens the state."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from appliance.core.faults import Fault
    from appliance.settings import Settings
    from appliance.wiring import Appliance

IN_IMAGE = Path("/usr/local/bin/health-probe")  # what only the image has
PRIORITIES = ("P0", "P1", "P2", "P3")


def echo(text: str, *, err: bool = False) -> None:
    """Print what others may have written: without secrets, and with nothing in it that acts on a terminal."""
    from appliance.redaction import say

    click.echo(say(text), err=err)


def echo_json(value: object) -> None:
    from appliance.redaction import cleaned

    click.echo(json.dumps(cleaned(value)))


class Failure(click.ClickException):
    """Something went wrong that is no usage error: one line with cause and next step, exit 1."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        echo(self.message, err=True)


class Misuse(Failure):
    """The person asked for what cannot be: exit 2."""

    exit_code = 2


def of_fault(fault: "Fault", *more: str) -> Failure:
    return Failure(" ".join(filter(None, (str(fault), *more))))


@contextmanager
def brief() -> "Iterator[None]":
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


class Command(click.Command):
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with brief():
            return super().make_context(*args, **extra)


class Group(click.Group):
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with brief():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with brief():
            return super().invoke(ctx)


class Number(click.IntRange):
    """A whole number that the database can hold."""

    name = "whole number"

    def __init__(self, least: int) -> None:
        super().__init__(least, 2**63 - 1)


class Priority(click.Choice[str]):
    """Click shows in lower case what may be written in either."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"{value!r} is not one of {', '.join(PRIORITIES)}"


HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


def load_settings() -> "Settings":
    from appliance.settings import SettingsError, load

    try:
        return load()
    except SettingsError as error:
        raise Misuse(f"settings: {error}\nNext: correct .env and run `docker compose up -d`.") from None


def in_container(settings: "Settings", *folders: str) -> None:
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
def opened(*, quiet: bool = True, usable: bool = False) -> "Iterator[Appliance]":
    """The appliance of this process, with what the edges raise turned into one line.

    `usable`: a state volume that cannot be used is a failure, not something to look at.
    """
    settings = load_settings()
    in_container(settings, "state_dir", "run_dir")
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
        raise of_fault(fault)
    try:
        with appliance(settings) as parts:
            if usable and parts.blocked:
                raise of_fault(parts.blocked)
            yield parts
    except ForgeError as error:
        raise Failure(f"{error.cause}: {full_stop(str(error))} Next: {error.remedy}") from None
    except GitError as error:
        raise Failure(f"{error.cause}: {error}") from None
    except (OSError, ValueError, SQLAlchemyError) as error:
        if fault := shortage_of(error):
            raise of_fault(fault) from None
        if is_damage(error):
            raise of_fault(fault_of(error)) from None
        raise Failure(
            f"state: {words(error)}. Next: check the volume at {settings.state_dir} and its free space."
        ) from None
