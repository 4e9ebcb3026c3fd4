"""The container as the engine has it: that it runs, its health, and what is really in force of compose.yaml."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

from appliance import facts
from appliance.core.doctor import Line, fine, found, of_fault, of_json
from appliance.core.doctor_host import Given, apparmor, deviations, option
from appliance.core.faults import Fault, named
from appliance.doctor import compose
from appliance.doctor.engine import is_local

PROFILE = "review-appliance"
GVISOR = "runsc"
LABEL_FILE = "/proc/self/attr/current"
TOLD = "unhealthy: "  # what the probe says of a health that is known
MISSING = f"{TOLD}missing: "


def check_running(container: Any) -> Iterator[Line]:
    """`container` is the docker package's."""
    state, name = container.attrs["State"], container.name
    if not state["Running"] or state.get("Paused") or state.get("Restarting"):
        why = f": {state['Error']}" if state.get("Error") else ", out of memory" if state.get("OOMKilled") else ""
        yield found("running", "container-stopped", name=name, status=state["Status"], code=state["ExitCode"], why=why)
        return
    yield fine("running", f"The container {name} runs.")
    yield _health(state.get("Health") or {}, str(state.get("StartedAt") or ""))


def _health(health: Mapping[str, Any], started: str = "") -> Line:
    """`started`: when the container was; the engine keeps what the probe said before that."""
    status = str(health.get("Status") or "none")
    log = [one for one in health.get("Log") or [] if not _before(str(one.get("Start") or ""), started)]
    said = str(log[-1].get("Output") or "").strip() if log else ""
    if status == "healthy":
        return fine("container-health", said or "healthy")
    if said.startswith("starting") or (status != "unhealthy" and not said.startswith(TOLD)):
        return found("container-health", "container-health-unknown", said=said or status)
    if said.startswith(MISSING) and status == "starting":  # it has only just been started
        return found("container-health", "container-health-unknown", said=said)
    if not said:
        return found("container-health", "unexamined", why="the container is unhealthy and does not say why.")
    cause, _, rest = said.removeprefix(TOLD).partition(": ")
    sentence, _, remedy = rest.partition(" Next: ")
    fault = Fault(cause, sentence or said, remedy or "see `docker logs --tail 50 review-appliance`.")
    return of_fault("container-health", fault)


def _before(start: str, started: str) -> bool:
    try:
        return datetime.fromisoformat(start) < datetime.fromisoformat(started)
    except (ValueError, TypeError):  # not told, or one of them without its time zone
        return False


def check_image(client: Any, container: Any) -> Iterator[Line]:
    name = container.attrs["Config"]["Image"]
    try:
        now = client.images.get(name).id
    except ImageNotFound:
        yield found("image", "image-missing", image=name)
        return
    if now != container.attrs["Image"]:
        yield found("image", "image-outdated", image=name)
    else:
        yield fine("image", f"It runs the image that {name} is now.")


def check_options(container: Any, asked: Path | None) -> Iterator[Line]:
    """The options in force against compose.yaml's."""
    attrs = container.attrs
    runtime = str(attrs["HostConfig"].get("Runtime") or "")
    if GVISOR in runtime:
        yield of_fault("runtime", named("gvisor"))
    try:
        wanted = compose.wanted(compose.file_of(asked, attrs["Config"].get("Labels") or {}))
    except compose.Unreadable as why:
        yield found("container", "compose-file-unreadable", why=why)
        return
    given = option("seccomp", attrs["HostConfig"]["SecurityOpt"] or ())
    yield from deviations(wanted, Given(attrs, _parsed(given)))


def _parsed(text: str | None) -> Any:
    """The rules as JSON; the text itself, such as "unconfined", if they are none."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text


def check_apparmor(container: Any, info: Mapping[str, Any]) -> Iterator[Line]:
    """The kernel tells it inside the container, so that a profile that was unloaded meanwhile is seen."""
    on = any(str(one).startswith("name=apparmor") for one in info.get("SecurityOptions") or ())
    label, why = None, "the container does not run"
    if on and container.attrs["State"]["Running"]:
        done = container.exec_run(["cat", LABEL_FILE])
        said = done.output.decode("utf-8", "replace").strip("\0\n ")
        label, why = (said, "") if done.exit_code == 0 and said else (None, f"{LABEL_FILE} cannot be read in it")
    asked = option("apparmor", container.attrs["HostConfig"]["SecurityOpt"] or ())
    wanted = PROFILE if asked in (None, "", "unconfined") else asked
    restricted = is_local(info) and facts.read().get("apparmor_restrict_unprivileged_userns") == "1"
    yield apparmor(wanted, label, on, why, restricted=restricted)


def inside(container: Any, *options: str) -> Iterator[Line]:
    """What the doctor in the container says."""
    if not container.attrs["State"]["Running"]:
        return iter([found("inside", "unexamined", why="the container does not run, so nothing in it was looked at.")])
    command = ["appliance", "doctor", "--json", "--where", "container", *options]
    done = container.exec_run(command, demux=True)
    out, err = ((part or b"").decode("utf-8", "replace") for part in done.output)
    try:
        return iter(of_json(json.loads(out)))
    except ValueError:
        said = " ".join((err or out).split())[-300:]
        why = f"the doctor in the container ended with {done.exit_code}: {said}"
        return iter([found("inside", "unexamined", why=why)])
