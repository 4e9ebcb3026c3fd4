"""`appliance evaluate` through the whole chain: jail, gate, the real Codex in its sandbox, the rehearsal model."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from evaluation_world import bundled
from testcontainers.compose import DockerCompose

from .test_inside import idle

CASES = ("python-moving-average", "go-transfer", "tempting-broad-except")


@pytest.fixture(scope="module")
def inside(engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCompose]:
    yield from idle(tmp_path_factory)


def evaluate(inside: DockerCompose, *args: str) -> tuple[str, str, int]:
    return inside.exec_in_container(["appliance", "evaluate", *args], "appliance")


def test_a_rehearsal_of_three_cases(inside: DockerCompose) -> None:
    """One that the script finds, one that it knows nothing of, one where it is wrong."""
    names = [word for name in CASES for word in ("--case", name)]
    out, err, code = evaluate(inside, "built-in", "--rehearse", "--json", "--output", "/tmp/out", *names)
    assert code == 0, err
    told = json.loads(out)
    assert told["rehearsal"] is True
    assert told["counts"] == {"true": 1, "false": 1, "missed": 2, "duplicates": 0}
    assert (told["precision"]["value"], told["recall"]["value"]) == (0.5, pytest.approx(1 / 3))
    assert told["false_alarms"]["value"] == 1.0
    assert told["tokens"]["value"] > 0
    assert all(one["seconds"] > 0 for one in told["results"])
    out, err, code = evaluate(inside, "built-in", "--rehearse", "--output", "/tmp/out", "--resume", *names)
    assert code == 0, err
    assert out.startswith("REHEARSAL: a scripted model")
    assert "reviewing" not in err, "nothing is reviewed twice"


def test_a_case_in_a_bundle(inside: DockerCompose, tmp_path: Path) -> None:
    bundled(tmp_path / "set", "one")
    archive = shutil.make_archive(str(tmp_path / "set"), "tar", tmp_path, "set")
    content = Path(archive).read_bytes().hex()
    opened = f"tarfile.open(fileobj=io.BytesIO(bytes.fromhex('{content}')))"
    put = f"import io, tarfile; {opened}.extractall('/tmp', filter='data')"
    _, err, code = inside.exec_in_container(["/opt/appliance/bin/python", "-c", put], "appliance")
    assert code == 0, err
    out, err, code = evaluate(inside, "/tmp/set", "--rehearse", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert (told["reviewed"], told["counts"]["missed"], told["complete"]) == (1, 1, True)
