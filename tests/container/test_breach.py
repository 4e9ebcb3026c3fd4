"""A jail that leaks, end to end: nothing is reviewed, nothing counted, and it goes on by itself when it is mended."""

from collections.abc import Iterator

import pytest

from .conftest import Start
from .stack import KEY, TOKEN, Stack, changed_image

WAITING = ("pending", "waiting for the Codex review")
# The state volume, at a place of its own: the ladder does not see it, only the battery does.
MENDED = "/run/mended"
ARGV = 'line += ["--proc", "/proc", "--dev", "/dev"]'
LEAK = f'{ARGV}\n    line += [] if os.path.exists("{MENDED}") else ["--ro-bind", "/var/lib/appliance", "/state"]'


@pytest.fixture
def leaky(stacks: Start) -> Iterator[Stack]:
    """A stack whose jails show the state volume until a file says that they are mended."""
    with changed_image("appliance/jail.py", ARGV, LEAK) as image:
        stack = stacks()
        stack.image = image
        yield stack
        stack.compose("rm", "--stop", "--force", "appliance")  # or the image could not be removed


def test_a_leak_stops_all_reviews_until_it_is_mended(leaky: Stack) -> None:
    pull = leaky.pull()
    leaky.start()
    line = leaky.wait_health("unhealthy", "unhealthy: breach: ")
    assert "a file of the state volume in /state/" in line
    leaky.wait_gate(pull["head_sha"], *WAITING)
    leaky.cycles(2)
    done = leaky.exec("appliance", "cycle")
    assert done.code == 1 and "breach: " in done.err
    once = leaky.exec("review", "octo/shop#1")
    assert once.code == 1 and "breach: " in once.err
    deep = leaky.exec("appliance", "selftest", "--deep", "--json")
    assert (deep.code, deep.json["ok"], deep.json["fault"]["cause"]) == (1, False, "breach")
    assert {"jail/secrets", "jail/mounts"} <= {step["name"] for step in deep.json["steps"] if not step["ok"]}
    assert leaky.exec("appliance", "selftest").code == 0, "the ladder alone sees nothing of it"
    assert leaky.row(1)["attempts"] == 0
    assert leaky.model.requests == [] and leaky.comments(1) == []
    assert leaky.statuses(pull["head_sha"]) == [WAITING]
    assert leaky.status()["cycle"]["failed"] is True
    told = leaky.log + deep.out + deep.err + line
    assert KEY not in told and TOKEN not in told

    leaky.exec("touch", MENDED)
    leaky.wait_gate(pull["head_sha"], "failure")
    leaky.wait_health("healthy")
    assert leaky.row(1)["attempts"] == 1
