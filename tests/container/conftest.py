"""Stacks of containers that leave nothing behind, and what they said when a test fails."""

import platform
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.client import DockerClient
from docker.errors import APIError, DockerException, ImageNotFound

from .machine import Machine
from .stack import FORGED, IMAGE, PROJECT, Stack

Start = Callable[..., Stack]
LIVE: list[Stack] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.container)
    items.sort(key=of_the_machine)  # what waits for the machine comes last


def of_the_machine(item: pytest.Item) -> bool:
    return item.path.name == "test_apparmor.py"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections += [(f"log of {stack.project}", last_words(stack)) for stack in LIVE]
    return report


def last_words(stack: Stack) -> str:
    try:
        return f"{stack.state}\n{stack.log[-8000:]}"
    except APIError as error:
        return f"no log: {error}"


@pytest.fixture(scope="session")
def engine() -> None:
    """An engine that answers and has the image; it is built if it is missing."""
    try:
        client = DockerClient.from_env()
        client.ping()
    except DockerException as error:
        pytest.skip(f"needs a Docker engine: {error}")
    try:
        client.images.get(IMAGE)
    except ImageNotFound:
        subprocess.run([str(PROJECT / "docker/up"), "--build"], check=True, timeout=900)
        client.images.get(IMAGE)
    finally:
        client.close()


@pytest.fixture(scope="session", autouse=True)
def machine(
    request: pytest.FixtureRequest, engine: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Machine | None]:
    """The virtual machine, started with the first container test if one asks for it: it takes minutes beside them."""
    if not any(of_the_machine(item) for item in request.session.items) or platform.machine() != "x86_64":
        yield None
        return
    machine = Machine(tmp_path_factory.mktemp("machine"))
    try:
        yield machine
    finally:
        machine.remove()


def _stacks(folder: Callable[[], Path]) -> Iterator[Start]:
    begun: list[Stack] = []

    def start(*options: str, fakes: bool = True, **environment: Any) -> Stack:
        given = {name: str(value) for name, value in environment.items()}
        stack = Stack(folder(), (FORGED if fakes else {}) | given, options, fakes)
        begun.append(stack)
        LIVE.append(stack)
        stack.up()
        return stack

    try:
        yield start
    finally:
        for stack in begun:
            LIVE.remove(stack)
            stack.down()


@pytest.fixture
def stacks(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Make a stack for one test: `stacks(*lines of the service's options, **environment)`; `start` starts it."""
    yield from _stacks(lambda: tmp_path_factory.mktemp("stack"))


@pytest.fixture(scope="module")
def module_stacks(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """The same for all tests of a module."""
    yield from _stacks(lambda: tmp_path_factory.mktemp("stack"))


@pytest.fixture
def stack(stacks: Start) -> Stack:
    """A stack of the usual kind, its appliance not yet started."""
    return stacks()
