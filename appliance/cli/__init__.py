"""The commands, a module for those that belong together. Imports are late: one that needs little starts fast.

To add one: a `click.command` in the module of its kind or one of its own, and its name in COMMANDS.
"""

import click

from appliance import __version__
from appliance.cli.common import HELP, Group
from appliance.cli.evaluating import evaluate
from appliance.cli.examining import doctor, selftest_command
from appliance.cli.looking import status
from appliance.cli.loop import cycle, retry, serve
from appliance.cli.past import history, show
from appliance.cli.reviews import rehearse, review
from appliance.cli.setup import login, settings_command
from appliance.cli.trials import gate_check

COMMANDS = (
    serve,
    cycle,
    selftest_command,
    doctor,
    login,
    settings_command,
    status,
    retry,
    rehearse,
    review,
    evaluate,
    gate_check,
    history,
    show,
)


@click.group(cls=Group, context_settings=HELP)
@click.version_option(__version__, prog_name="appliance")
def main() -> None:
    """Reviews pull requests with Codex, and never blames them for a fault that is not theirs."""
    _guard()


def _guard() -> None:
    from appliance.redaction import guard

    guard()


def review_main() -> None:
    """`review TARGET`: the same as `appliance review TARGET`."""
    _guard()
    review.main(prog_name="review")


for _command in COMMANDS:
    main.add_command(_command)
