"""A test that is skipped where it cannot run is a failure in continuous integration."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SKIPS = {
    "in the test": "import pytest\ndef test_one(): pytest.skip('no engine')\n",
    "by a mark": "import pytest\n@pytest.mark.skipif(True, reason='not root')\ndef test_one(): pass\n",
    "in a fixture": "import pytest\n@pytest.fixture\ndef it(): pytest.skip('no')\ndef test_one(it): pass\n",
    "as expected to fail": "import pytest\n@pytest.mark.xfail(reason='to be written')\ndef test_one(): assert 0\n",
    "as a module": "import pytest\npytest.skip('no compose', allow_module_level=True)\n",
}


@pytest.mark.parametrize("how", SKIPS)
@pytest.mark.parametrize("ci", [True, False])
def test_a_skip_is_a_failure_in_ci(how: str, ci: bool, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SKIPS[how])
    env = {name: value for name, value in os.environ.items() if name not in ("CI", "APPLIANCE_CI")}
    env |= {"PYTHONPATH": f"{HERE}:{HERE.parent}"} | ({"CI": "true"} if ci else {})
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "--rootdir", ".", "."]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert ("is a failure in CI" in done.stdout) is ci, done.stdout
    assert (done.returncode in (1, 2)) is ci, done.stdout  # 2: it could not even be collected
