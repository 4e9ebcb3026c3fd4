"""A Codex that is itself taken over: not the commands of the model, but the program around its sandbox."""

from collections.abc import Iterator

import pytest

from .conftest import Start
from .stack import Stack, changed_image, eventually
from .test_bounds import used

# In place of Codex, for the pull request that has the file: it fills each place that it finds, CODEX_HOME to nine
# tenths, and waits for a signal to fill the rest.
TAKEN_OVER = """
import os, signal, sys, time

def fill(place, share=1.0):
    try:
        handle = os.open(place + "/fill", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        room = os.statvfs(place)
        left = min(int(room.f_bavail * room.f_frsize * share), 1 << 30)
        while left > 0:
            left -= os.write(handle, bytes(min(left, 1 << 20)))
    except OSError:
        pass

if os.path.exists("/checkout/greedy.md"):
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    with open("/proc/self/comm", "w") as name:
        name.write("taken-over")
    points = [line.split()[4] for line in open("/proc/self/mountinfo")]
    for place in ["/run", "/var", *points]:
        fill(place, 0.9 if place == "/codex-home" else 1.0)
    signal.sigwait([signal.SIGUSR1])
    fill("/codex-home")
    THEN
os.execv(sys.argv[1], sys.argv[1:])
"""
CODEX = '    jail.CODEX,\n    "exec",\n'
GO_ON = 'for c in /proc/[0-9]*/comm; do [ "$(cat $c)" = taken-over ] && kill -USR1 $(basename ${c%/comm}); done; true'
LOOK = "while sleep 0.05; do echo $(du -sk /tmp /var/lib/appliance | cut -f 1); done >/run/used"
EXCEEDED = "the review used up the 64 MB of CODEX_HOME"
FILLED = 750 << 20  # the three other places of the jail have 256 MB each


@pytest.fixture(params=["time.sleep(600)", "pass"], ids=["and stays", "and lets Codex run"])
def stack(request: pytest.FixtureRequest, stacks: Start) -> Iterator[Stack]:
    """A stack whose Codex is taken over by the pull request `greedy`."""
    program = TAKEN_OVER.replace("THEN", request.param)
    taken = CODEX.replace("    jail", f'    "/usr/bin/python3",\n    "-c",\n    {program!r},\n    jail')
    with changed_image("appliance/codex.py", CODEX, taken) as image:
        stack = stacks(APPLIANCE_MAX_ATTEMPTS=1)
        stack.image = image
        yield stack
        stack.compose("rm", "--stop", "--force", "appliance")  # or the image could not be removed


def test_a_codex_that_fills_all_it_can_write_ends_alone(stack: Stack) -> None:
    """The review beside it ends well while every place is full, and the container's own places keep their room."""
    greedy, other = stack.pull("greedy"), stack.pull("other")
    stack.model.hold(other["head_sha"])
    stack.start()
    stack.docker_exec(["-d"], "sh", "-c", LOOK)
    stack.model.wait_held(other["head_sha"])
    eventually("every place filled", lambda: used(stack, "memory") > FILLED)
    stack.model.clear()
    stack.wait_gate(other["head_sha"], "failure")
    running = ("pending", "Codex review running (attempt 1 of 1)")
    assert stack.gate(greedy["head_sha"]) == running, "it holds all that it took"
    assert stack.exec("sh", "-c", GO_ON).code == 0
    stack.wait_gate(greedy["head_sha"], "error", f"review failed once: turn failed: {EXCEEDED}")
    assert (stack.row(1)["attempts"], stack.row(1)["state"]) == (1, "given-up")
    looks = [[int(size) for size in line.split()] for line in stack.exec("cat", "/run/used").out.splitlines()]
    assert len(looks) > 20
    assert max(tmp for tmp, _ in looks) < 16 << 10, "KB of /tmp"
    assert max(state for _, state in looks) < 16 << 10, "KB of the state volume"
    eventually("memory given back", lambda: used(stack, "memory") < 500 << 20)
    assert len(stack.comments(2)) == 1
    after = stack.pull("after")
    stack.wait_gate(after["head_sha"], "failure")
    stack.wait_health("healthy")
    assert stack.container.attrs["RestartCount"] == 0
