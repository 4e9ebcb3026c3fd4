"""What a test gives the client: ETags in memory, a clock that only sleeping moves, a forge in front of a fake."""

import threading
from typing import Any

from appliance.forge.github import Cached, GitHubForge
from appliance.forge.github_limits import WritePace

from .fake import FakeGitHub

CONTEXT = "codex-review"


class MemoryEtags(dict[str, Cached]):
    def put(self, key: str, cached: Cached) -> None:
        self[key] = cached


class Clock:
    """Seconds of the epoch; `sleep` only writes down how long and moves on."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now
        self.slept: list[float] = []
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.slept.append(seconds)
            self.now += seconds


def app_token(github: FakeGitHub, app_id: int, owner: str = "octo") -> str:
    """A token of an installation of this App, which is made if there is none, without its being asked for."""
    app = github.apps.get(app_id) or github.add_app(app_id, 0, installations={owner: app_id})
    token = f"ghs_{app_id}{'x' * 36}"
    github.add_token(token, f"{app.slug}[bot]", installation=True, app=app_id, owner=owner, lacks={"statuses"})
    return token


def forge_for(github: FakeGitHub, *repositories: str, clock: Clock | None = None, **options: Any) -> GitHubForge:
    """A forge with a pace of its own; with a `clock` it never really sleeps."""
    clock = clock or Clock()
    defaults: dict[str, Any] = {
        "api_url": github.url,
        "token": github.token,
        "repositories": repositories or ("octo/app",),
        "context": CONTEXT,
        "etags": MemoryEtags(),
        "clock": clock,
        "sleep": clock.sleep,
        "pace": WritePace(),
    }
    return GitHubForge(**{**defaults, **options})
