"""What a person sets up: `login`, and the `settings` in force."""

import sys

import click

from appliance.cli.common import Failure, echo, in_container, load_settings, of_fault


@click.command()
def login() -> None:
    """Log in to ChatGPT, with a device code, for reviews without an API key. Needs `docker exec -it`."""
    settings = load_settings()
    in_container(settings, "state_dir")
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
            raise of_fault(fault) from None
        raise Failure(f"login: {error}") from None
    except KeyboardInterrupt:
        raise Failure("login: stopped, nothing was changed. Next: run it again when you like.") from None
    except OSError as error:
        if fault := shortage_of(error):
            raise of_fault(fault) from None
        raise Failure(f"login: {error}. Next: check the volume at {settings.state_dir} and its free space.") from None
    click.echo("Logged in. The next cycle uses it; `docker exec review-appliance appliance cycle` is one now.")


@click.command("settings")
def settings_command() -> None:
    """Print the effective settings, secrets hidden."""
    from appliance.settings import effective, unknown

    for name, value in effective(load_settings()).items():
        echo(f"{name}={value}")
    for line in unknown():
        echo(line, err=True)
