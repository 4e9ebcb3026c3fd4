"""The doctor on the host: engine, kernel, container, and then the doctor in the container."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from appliance.core.doctor import Line, found
from appliance.doctor import compose
from appliance.doctor.guard import guarded

CONTAINER = "review-appliance"
SECONDS = 300  # for one answer of the engine: the doctor in the container may ask GitHub many things


def examine(name: str = CONTAINER, file: Path | None = None, *options: str) -> list[Line]:
    """Every line; the last ones are those of the doctor in the container `name`, which is given `options`."""
    try:
        from docker.client import DockerClient
    except ImportError:
        return [replace(found("engine", "docker-package-missing"), place="host")]
    from docker.errors import DockerException

    try:
        client = DockerClient(base_url=compose.endpoint(), timeout=SECONDS)
    except DockerException as error:
        return [_unreachable(error)]
    try:
        return list(_lines(client, name, file, options))
    except DockerException as error:
        return [_unreachable(error)]
    finally:
        client.close()


def _lines(client: Any, name: str, file: Path | None, options: tuple[str, ...]) -> Iterator[Line]:
    from docker.errors import NotFound

    from appliance.doctor import container as of_container
    from appliance.doctor import engine, kernel

    info, version = client.info(), client.version()
    on_host = guarded("engine", lambda: engine.check(info, version))
    on_host += guarded("compose", engine.check_compose)
    if engine.is_local(info):
        on_host += guarded("kernel", kernel.check)
    on_host += guarded("engine-disk", lambda: engine.check_disk(info))
    try:
        container = client.containers.get(name)
    except NotFound:
        container = None
        on_host.append(found("running", "container-missing", name=name))
    if container is not None:
        on_host += guarded("running", lambda: of_container.check_running(container))
        on_host += guarded("image", lambda: of_container.check_image(client, container))
        on_host += guarded("container", lambda: of_container.check_options(container, file))
        on_host += guarded("apparmor", lambda: of_container.check_apparmor(container, info))
    yield from (replace(line, place="host") for line in on_host)
    if container is not None:
        yield from guarded("inside", lambda: of_container.inside(container, *options))


def _unreachable(error: Exception) -> Line:
    return replace(found("engine", "engine-unreachable", why=" ".join(str(error).split())[:300]), place="host")
