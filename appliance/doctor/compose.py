"""What the container should be given: compose.yaml as Compose itself reads it, and the seccomp rules it names."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from appliance import process
from appliance.core.doctor_host import Wanted, option, wanted_of

FILE = "compose.yaml"
SERVICE = "appliance"
LABEL = "com.docker.compose.project.config_files"
SECONDS = 60.0


class Unreadable(Exception):
    """What the container should be given is not known; the message says why, and holds no value of a setting."""


def version() -> str | None:
    """Compose's, as "2.26.1"; None if there is none."""
    done = _docker("compose", "version", "--short")
    found = re.search(r"\d+(\.\d+)+", done.out) if done is not None and done.ok else None
    return found.group() if found else None


def endpoint() -> str | None:
    """The address of the engine that Docker's command line would ask; None if it does not say."""
    done = _docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
    return (done.out.strip() or None) if done is not None and done.ok else None


def file_of(asked: Path | None, labels: Mapping[str, str]) -> Path:
    """The file that was asked for, else the one of this folder, else the one that the container was started from."""
    if asked is not None:
        return asked
    if Path(FILE).is_file() and "review-appliance" in Path(FILE).read_text(encoding="utf-8", errors="replace"):
        return Path(FILE)
    first = labels.get(LABEL, "").partition(",")[0]  # the others are somebody's own changes of it
    if not first:
        raise Unreadable(f"there is no {FILE} here, and the container does not say which one it was started from")
    return Path(first)


def wanted(file: Path) -> Wanted:
    """Raises Unreadable."""
    if not file.is_file():
        raise Unreadable(f"{file} is not there")
    # Its standard error may quote a line of .env: it is not shown.
    done = _docker("compose", "-f", str(file), "config", "--format", "json")
    if done is None:
        raise Unreadable("the `docker` command is not installed")
    if not done.ok:
        raise Unreadable(f"Compose does not take {file} (exit code {done.code})")
    try:
        service: Mapping[str, Any] = json.loads(done.out)["services"][SERVICE]
        rules = option("seccomp", service["security_opt"])
        if rules is None:
            raise Unreadable(f"{file} names no seccomp rules")
        return wanted_of(service, json.loads((file.parent / rules).read_text(encoding="utf-8")))
    except OSError as error:
        raise Unreadable(f"the seccomp rules cannot be read: {error}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise Unreadable(f"{file} is not the appliance's: {type(error).__name__}: {error}"[:200]) from None


def _docker(*args: str) -> process.Completed | None:
    """Docker's command line with the person's own environment: their context, their engine, their plugins."""
    try:
        return process.run(["docker", *args], timeout=SECONDS, env=dict(os.environ))
    except FileNotFoundError:
        return None
