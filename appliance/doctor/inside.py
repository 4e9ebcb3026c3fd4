"""The doctor in the container: settings, state, sandbox, the loop, the forge, the model."""

import os
from collections.abc import Iterator
from dataclasses import replace

from appliance.core.doctor import Line, fine, found, of_fault
from appliance.core.faults import Fault, full_stop
from appliance.doctor import confinement, forge, loop, model, sandbox, state
from appliance.doctor.guard import guarded
from appliance.settings import Settings, SettingsError, load, unknown
from appliance.wiring import appliance, no_run_dir

WITHOUT_RUN = "the loop, the forge and the model are looked at only where the appliance can run."


def examine(*, deep: bool = False) -> list[Line]:
    """Every line; none is left out without a word. `deep`: attack the sandbox from inside too.

    Writes nothing but a scratch directory, what the attacks came to, and, if due, a refreshed login.
    """
    lines = guarded("confinement", confinement.check)
    try:
        settings = load()
    except SettingsError as error:
        return [*_bad(error), *lines, *guarded("sandbox", sandbox.bare)]
    lines += guarded("settings", lambda: _settings(settings))
    lines += guarded("state", lambda: state.check(settings))
    if os.getuid() == 0:  # the state is closed to root, and the rest of what it would find is not true
        return lines + guarded("sandbox", sandbox.bare)
    if fault := no_run_dir(settings):
        bare = guarded("sandbox", lambda: sandbox.bare(settings.state_dir / "work"))
        return [*lines, *bare, replace(found("appliance", "unexamined", why=WITHOUT_RUN), remedy=fault.remedy)]
    return lines + guarded("appliance", lambda: _parts(settings, deep=deep))


def _parts(settings: Settings, *, deep: bool) -> Iterator[Line]:
    with appliance(settings) as parts:
        yield from guarded("sandbox", lambda: (sandbox.attacked if deep else sandbox.check)(parts))
        yield from guarded("loop", lambda: loop.check(parts))
        yield from guarded("forge", lambda: forge.check(parts))
        yield from guarded("model", lambda: model.check(parts))


def _settings(settings: Settings) -> Iterator[Line]:
    odd = unknown()
    for said in odd:
        yield found("settings", "setting-unknown", said=full_stop(said))
    if not odd:
        watched = "the sample only" if settings.rehearsal else "what is configured"
        yield fine("settings", f"Every setting is good; {watched} is watched.")


def _bad(error: SettingsError) -> Iterator[Line]:
    for said in str(error).splitlines():
        yield of_fault("settings", Fault("settings", said, "correct .env and run `docker compose up -d`."))
