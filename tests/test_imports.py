"""The direction of imports: what decides knows nothing of what does (DESIGN section 9)."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import appliance

ROOT = Path(appliance.__file__).parent
# Each layer may import those below it and its own; within a layer there is no circle (the last test).
LAYERS: tuple[tuple[str, ...], ...] = (
    ("cli",),
    ("doctor",),
    ("serving", "schedule", "commands", "evaluation", "trials"),
    ("wiring",),
    ("cycle", "rehearsal"),
    ("publishing", "memory", "checks", "slash", "dismissals"),
    ("delivery", "senders", "check_report"),
    ("reviewing", "keeping", "standing"),
    ("instructions", "placing", "coverage", "rereview"),
    ("selftest", "battery", "ladder", "codex", "sample", "failures"),
    ("store", "forge", "git", "gate", "meter", "keys", "login", "login_made", "protocols", "tables", "migrations",
     "settings", "health", "workdir", "flock", "owner", "facts", "bounds", "calls", "codex_config", "progress",
     "board"),
    ("jail", "log"),
    ("process", "redaction"),
    ("core",),
    ("attacks",),
)  # fmt: skip
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# What the core may use: it has no clock, no environment, no files and no network of its own.
PURE = {
    "base64", "binascii", "collections", "contextlib", "dataclasses", "datetime", "enum", "errno", "hashlib", "hmac",
    "itertools", "json", "math", "re", "shlex", "typing", "urllib", "pydantic", "pathspec", "tomllib",
}  # fmt: skip
PURE_NAMES = {"os": {"strerror"}, "pathlib": {"PurePosixPath"}, "random": {"Random"}}  # of these modules only these
MODULES = sorted(path for path in ROOT.rglob("*.py") if "__pycache__" not in path.parts)


def name_of(path: Path) -> str:
    return ".".join(["appliance", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each imported module, wherever in the file, and the names that are taken from it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = tuple(alias.name for alias in node.names)
            yield str(node.module), names
            if node.module == "appliance":
                yield from ((f"appliance.{name}", ()) for name in names if name in LEVEL)


def test_every_part_has_its_layer() -> None:
    parts = {part_of(name_of(path)) for path in MODULES} - {""}
    assert parts == LEVEL.keys()


@pytest.mark.parametrize("path", MODULES, ids=[name_of(path) for path in MODULES])
def test_imports_go_down_only(path: Path) -> None:
    mine = part_of(name_of(path))
    for module, _ in imports(path):
        if module.startswith("appliance."):
            assert LEVEL[part_of(module)] >= LEVEL.get(mine, -1), f"{name_of(path)} imports {module}"


CORE = [path for path in MODULES if part_of(name_of(path)) == "core"]


@pytest.mark.parametrize("path", CORE, ids=[path.stem for path in CORE])
def test_the_core_is_pure(path: Path) -> None:
    for module, names in imports(path):
        if module.startswith("appliance"):
            assert part_of(module) == "core", module
        elif module.split(".")[0] in PURE_NAMES:
            used = set(names) or {
                node.attr
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == module
            }
            assert used <= PURE_NAMES[module], f"{module}: {used}"
        else:
            assert module.split(".")[0] in PURE, module


@pytest.mark.parametrize("path", CORE, ids=[path.stem for path in CORE])
def test_the_core_asks_no_clock_and_opens_nothing(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "print", "input", "exec", "eval", "__import__"), node.lineno
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("now", "today", "utcnow", "read_text", "write_text"), node.lineno


def test_only_the_one_door_starts_programs() -> None:
    users = {name_of(path) for path in MODULES for module, _ in imports(path) if module == "subprocess"}
    assert users == {"appliance.process"}


def test_only_the_settings_read_the_environment() -> None:
    readers = set()
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv"):
                readers.add(name_of(path))
    # What programs get of it (PATH, proxies); and where the health is to be told that the settings are bad.
    assert readers <= {
        "appliance.settings",
        "appliance.process",
        "appliance.git.hardened",
        "appliance.login_made",
        "appliance.serving",
        "appliance.battery",  # plants a canary there
        "appliance.attacks.files",  # looks for it
        "appliance.doctor.compose",  # Docker's command line on the host: the person's own context and engine
    }


def test_help_loads_none_of_the_heavy_parts() -> None:
    heavy = {"sqlalchemy", "alembic", "httpx", "pydantic", "apscheduler", "uvicorn", "starlette", "rich"}
    code = f"import sys, appliance.cli; print(sorted({heavy!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    assert done.stdout.strip() == "[]"


def test_no_circles() -> None:
    """Each module can be the first one that is loaded."""
    names = [name_of(path) for path in MODULES if part_of(name_of(path)) != "migrations"]
    code = (
        "import importlib, sys\n"
        f"for name in {names!r}:\n"
        "    for loaded in [each for each in sys.modules if each.split('.')[0] == 'appliance']:\n"
        "        del sys.modules[loaded]\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=False)
    assert done.returncode == 0, done.stderr
