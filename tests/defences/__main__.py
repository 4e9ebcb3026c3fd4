"""`python -m tests.defences [TEXT …]`: takes each defence out, and sees that its tests fail.

In a copy of the project, one defence at a time; with TEXT only those whose area or name holds it. Exit 1 if a test
passes although its defence is out, fails also with it, or could not even be collected. Those that need an image of
their own have it made from `review-appliance:local` (or APPLIANCE_TEST_IMAGE) by one more layer. Takes a few seconds
for each, and minutes for some of the container tests.

The defences stand in `*.toml` beside this file, one per area:

[[defence]]
name = "hooks of a repository never run"
file = "appliance/git/hardened.py"
old = '("core.hooksPath", "/dev/null"),'      # occurs exactly once in the file
new = ''
tests = ["tests/test_hostile_git.py::test_hooks_never_run"]
image = false                                 # true: the tests run against an image with this change
also = [{file = "…", old = "…", new = "…"}]   # further edits of the same defence
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
IMAGE = os.environ.get("APPLIANCE_TEST_IMAGE", "review-appliance:local")
PACKAGES = "/opt/appliance/lib/python3.13/site-packages"
TESTS_FAILED = 1  # pytest's exit code; others mean that it could not run them
INSTALLED = {"docker/health-probe": "/usr/local/bin/health-probe"}


@dataclass(frozen=True)
class Edit:
    """`old` is replaced by `new` in `file`, a path in the project."""

    file: str
    old: str
    new: str

    def apply(self, project: Path) -> None:
        """Raises ValueError if `old` does not occur exactly once."""
        path = project / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: occurs {text.count(self.old)} times, not once: {self.old!r}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True)
class Defence:
    """Without the `edits` undone each of `tests` must fail. `image`: they run against an image that has the edits."""

    area: str
    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    image: bool = False


def defences() -> Iterator[Defence]:
    """All of them, by area. Raises KeyError for a row that lacks something."""
    for path in sorted(HERE.glob("*.toml")):
        for row in tomllib.loads(path.read_text(encoding="utf-8")).get("defence", []):
            yield _defence(path.stem, row)


def _defence(area: str, row: dict[str, Any]) -> Defence:
    edits = tuple(Edit(one["file"], one["old"], one["new"]) for one in (row, *row.get("also", ())))
    return Defence(area, row["name"], edits, tuple(row["tests"]), row.get("image", False))


def main(words: Sequence[str]) -> int:
    chosen = [one for one in defences() if not words or any(word in f"{one.area}: {one.name}" for word in words)]
    shown = 0
    for defence in chosen:
        told = examine(defence)
        shown += not told
        print("NOT SHOWN" if told else "shown", f"{defence.area}: {defence.name}", told, flush=True)
    print(f"{shown} of {len(chosen)} defences shown")
    return 0 if chosen and shown == len(chosen) else 1


def examine(defence: Defence) -> str:
    """Why it is not shown that the tests need this defence; empty if it is."""
    with _copied() as copy:
        try:
            for edit in defence.edits:
                edit.apply(copy)
        except (OSError, ValueError) as error:
            return str(error)
        with _image(defence, copy) as image:
            told, failed = _run(defence.tests, copy, image)
    passing = set(defence.tests) - failed
    if told or passing:
        return told or f"still pass: {', '.join(sorted(passing))}"
    with _copied() as copy:  # the control: what fails anyway shows nothing
        told, failed = _run(defence.tests, copy, IMAGE)
    return told or (f"fail also with it: {', '.join(sorted(failed))}" if failed else "")


@contextmanager
def _copied() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="defence-") as name:
        _copy(Path(name))
        yield Path(name)


def _copy(to: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, to / name, follow_symlinks=False)


@contextmanager
def _image(defence: Defence, copy: Path) -> Iterator[str]:
    """The image to test: with the edits of what is installed in it, if the defence asks for that."""
    if not defence.image:
        yield IMAGE
        return
    tag = f"review-appliance-defence:{os.getpid()}"
    lines = [f"FROM {IMAGE}", "USER 0"]
    for edit in defence.edits:
        target = INSTALLED.get(edit.file, f"{PACKAGES}/{edit.file}" if edit.file.startswith("appliance/") else "")
        if not target:
            continue  # read from the project by whoever starts the container
        lines.append(f"COPY {edit.file} {target}")
        if target.endswith(".py"):  # its bytecode is never compared with the source
            compiled = Path(target).parent / "__pycache__" / f"{Path(target).stem}.cpython-313.pyc"
            lines.append(f"RUN rm -f {compiled}")
    lines.append("USER 10001:10001")
    build = ["docker", "build", "--quiet", "--tag", tag, "--file", "-", "."]
    subprocess.run(build, cwd=copy, input="\n".join(lines).encode(), stdout=subprocess.DEVNULL, check=True)
    try:
        yield tag
    finally:
        subprocess.run(["docker", "image", "rm", "--force", tag], stdout=subprocess.DEVNULL, check=False)


def _run(tests: Sequence[str], copy: Path, image: str) -> tuple[str, set[str]]:
    """Why they could not be run, if they could not, and which of them failed."""
    report = copy / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    env = {**os.environ, "PYTHONPATH": str(copy), "APPLIANCE_TEST_IMAGE": image, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, TESTS_FAILED):
        return f"pytest ended with {done.returncode}: {done.stdout.strip().splitlines()[-1:]}", set()
    cases = [case for case in ET.parse(report).iter("testcase") if _failed(case)]
    return "", {test for test in tests if any(_belongs(case, test) for case in cases)}


def _belongs(case: ET.Element, test: str) -> bool:
    """Whether a case of the report is of this test: the file, or the function with or without a parameter."""
    path, _, name = test.partition("::")
    module = path.removesuffix(".py").replace("/", ".")
    ran = case.get("name", "")
    here = case.get("classname", "") in (module, module.removeprefix("tests."))
    return here and (not name or name in (ran, ran.partition("[")[0]))


def _failed(case: ET.Element) -> bool:
    return case.find("failure") is not None or case.find("error") is not None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
