"""A review that takes all it can get: it ends, and nothing else suffers from it."""

import pytest

from .conftest import Start
from .stack import Stack, eventually

BOMB = "python3 -c 'import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.1)'"
# Half a gigabyte a second, so that it is seen in time.
FLOOD = 'python3 -c \'import time\nf = open("/dev/shm/x", "wb")\nwhile f.write(bytes(1 << 22)): time.sleep(0.008)\''
# Empty files take no room of a tmpfs, but a kilobyte of the kernel's memory each, which counts as the container's.
# Links, for one is a single call: Codex ends a command, and on a busy machine that came before half a million files.
FILES = 'python3 -c \'import itertools, os\nfor n in itertools.count(): os.symlink("x", f"/dev/shm/{n}")\''
# As fast as it goes: the kernel sees it first, and has to choose well.
GREED = "python3 -c 'a = []\nwhile True: a.append(b\"x\" * (1 << 26))'; exit 1"

PROCESSES = "the review used up its 384 processes"
MEMORY = "the review used more than its 768 MB of memory"


def used(stack: Stack, name: str) -> int:
    """A counter of the container's cgroup, of either hierarchy."""
    places = {
        "pids": "/sys/fs/cgroup/pids.current /sys/fs/cgroup/pids/pids.current",
        "memory": "/sys/fs/cgroup/memory.current /sys/fs/cgroup/memory/memory.usage_in_bytes",
    }[name]
    return int(stack.exec("sh", "-c", f"cat {places} 2>/dev/null").out.split()[0])


@pytest.mark.parametrize(
    ("command", "reason"), [(BOMB, PROCESSES), (FLOOD, MEMORY), (FILES, MEMORY), (GREED, "")],
    ids=["fork bomb", "flood of tmpfs", "flood of empty files", "greed"],
)  # fmt: skip
def test_a_review_that_takes_all_ends_alone(stacks: Start, command: str, reason: str) -> None:
    """Two reviews at once, one of which runs `command`: it ends, which counts; the other goes on, and so does all."""
    stack = stacks("mem_limit: 2g", APPLIANCE_MAX_ATTEMPTS=1)
    greedy, other = stack.pull("greedy"), stack.pull("other")
    stack.model.rule(match=greedy["head_sha"], calls=[command])
    stack.model.hold(other["head_sha"])
    stack.start()
    stack.model.wait_held(other["head_sha"])
    if reason:
        stack.wait_gate(greedy["head_sha"], "error", f"review failed once: turn failed: {reason}")
    else:
        stack.wait_log("review.failed")
    assert [seen["head"] for seen in stack.model.requests if seen["held"]] == [other["head_sha"]]
    eventually("processes given back", lambda: used(stack, "pids") < 100)
    eventually("memory given back", lambda: used(stack, "memory") < 700 << 20)
    stack.model.clear()
    stack.wait_gate(other["head_sha"], "failure")
    stack.wait_health("healthy")
    assert stack.row(2)["attempts"] == 1
    assert len(stack.comments(2)) == 1
    if reason:
        assert (stack.row(1)["attempts"], stack.row(1)["state"]) == (1, "given-up")
    assert stack.container.attrs["RestartCount"] == 0
    assert stack.exec("appliance", "selftest").code == 0
