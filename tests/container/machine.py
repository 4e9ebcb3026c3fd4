"""The virtual machine of tests/vm: a kernel with AppArmor, the appliance's image as its disk, all in one container.

It is emulated and takes minutes, of which it may use what the other tests leave: so it is started with the first of
them and asked last.
"""

import json
import os
import shutil
import subprocess
import uuid
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from .stack import IMAGE, PROJECT

MINUTES = 14  # from when it is asked: before, it has what the other tests leave
FEW_SHARES, SHARES = "256", "1024"


class Machine:
    """Runs from when it is made; `trials` waits for its end, `remove` leaves nothing of it."""

    def __init__(self, folder: Path) -> None:
        self._name = f"appliance-test-vm-{uuid.uuid4().hex[:8]}"
        self._folder = folder
        self._pool = ThreadPoolExecutor(1)
        self._console: Future[str] = self._pool.submit(self._run)

    def trials(self) -> dict[str, dict[str, Any]]:
        """What tests/vm/trials.py printed, by name; AssertionError with the console if it broke off."""
        self._engine("update", "--cpu-shares", SHARES, self._name)  # now it is waited for
        console = self._console.result(timeout=MINUTES * 60)
        told = [json.loads(line) for line in console.splitlines() if line.startswith('{"trial"')]
        assert "@@end 0" in console, console[-4000:]
        return {one.pop("trial"): one for one in told}

    def remove(self) -> None:
        while not self._console.done():  # its image may still be built
            self._engine("rm", "--force", self._name)
            wait([self._console], timeout=2)
        self._pool.shutdown()
        self._engine("rmi", "--force", self._name)

    def _engine(self, *args: str) -> None:
        subprocess.run(["docker", *args], capture_output=True, timeout=60, check=False)

    def _run(self) -> str:
        for file in (*(PROJECT / "tests/vm").glob("*.py"), PROJECT / "docker/seccomp.json"):
            shutil.copy(file, self._folder)
        shutil.copy(PROJECT / "docker/apparmor/review-appliance", self._folder)
        through = [f"--build-arg={name}" for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY") if name in os.environ]
        build = ["docker", "build", "--quiet", "--tag", self._name, "--build-arg", f"APPLIANCE={IMAGE}", *through]
        made = subprocess.run([*build, str(PROJECT / "tests/vm")], capture_output=True, text=True, check=False)
        if made.returncode:
            return made.stderr
        # Few shares: what others start at the same time comes first.
        run = ["docker", "run", "--rm", "--name", self._name, "--network", "none", "--cpu-shares", FEW_SHARES]
        booted = subprocess.run(
            [*run, "--volume", f"{self._folder}:/trials:ro", self._name],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return booted.stdout.decode("utf-8", "replace").replace("\r", "") + booted.stderr.decode("utf-8", "replace")
