"""GitHub as a GitHub App sees it: one forge over its installations, each with a token and limits of its own."""

import threading
import time
from collections.abc import Callable, Sequence

import httpx

from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.forge import (
    Checks,
    Comment,
    ForgeError,
    InlineComment,
    PostedReview,
    Reaction,
    Report,
    ReviewEvent,
    Source,
    Thread,
    ThreadComment,
)
from appliance.forge.github import GitHubForge, check_patterns, gate_place
from appliance.forge.github_app import GitHubApp
from appliance.forge.github_client import Etags, GitHubClient
from appliance.forge.github_errors import unreachable
from appliance.forge.github_limits import Pause, WritePace
from appliance.forge.github_login import AppLogin, InstallationLogin, ServerTime

Shared = Callable[[str], tuple[WritePace, Pause]]


def unshared(_: str) -> tuple[WritePace, Pause]:
    """Pace and pause of this process alone."""
    return WritePace(), Pause()


class GitHubInstallations:
    """A GitHub App as a forge. Thread-safe; every method raises ForgeError.

    As GitHubForge, with `app_id` and `key` (a PEM) in place of a token; `shared` gives pace and pause by the name of a
    login. Each owner's repositories are reached by the installation of that owner, which is looked for when it is
    needed: where the App is not installed, the others go on.
    """

    name = "github"
    inline = True
    check_runs = True

    def __init__(
        self,
        *,
        api_url: str,
        app_id: int,
        key: str,
        repositories: Sequence[str],
        context: str,
        etags: Etags,
        api_version: str = "2022-11-28",
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], object] | None = None,
        shared: Shared = unshared,
        target_url: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        check_patterns(repositories)
        self._patterns = tuple(dict.fromkeys(repositories))
        self._lock = threading.Lock()
        self._forges: dict[str, GitHubForge] = {}
        self._logins: dict[str, InstallationLogin] = {}
        now = ServerTime(clock)
        login = AppLogin(app_id, key, now)
        pace, pause = shared(login.name)

        def client() -> GitHubClient:
            return GitHubClient(
                api_url=api_url,
                login=login,
                etags=etags,
                api_version=api_version,
                stop=stop,
                clock=clock,
                sleep=sleep,
                pace=pace,
                pause=pause,
                transport=transport,
            )

        self.app = GitHubApp(client(), app_id, now)

        def forge(login: InstallationLogin, patterns: Sequence[str]) -> GitHubForge:
            pace, pause = shared(login.name)
            return GitHubForge(
                api_url=api_url,
                login=login,
                repositories=patterns,
                context=context,
                etags=etags,
                api_version=api_version,
                stop=stop,
                clock=clock,
                sleep=sleep,
                pace=pace,
                pause=pause,
                target_url=target_url,
                app_id=app_id,
                transport=transport,
            )

        self._forge = forge
        self.gate_place = gate_place(context, app_id)

    def __repr__(self) -> str:
        return f"GitHubInstallations(App {self.app.id}, {', '.join(self._patterns)})"

    def close(self) -> None:
        self.app.close()
        for forge in self._forges.values():
            forge.close()

    def of(self, repository: str) -> GitHubForge:
        """The forge of the installation for the owner of this repository (or `owner/*`)."""
        owner = repository.partition("/")[0]
        with self._lock:
            found = self._forges.get(owner.casefold())
            if found is None:
                ours = [one for one in self._patterns if one.split("/")[0].casefold() == owner.casefold()]
                known = next((one for one in (repository, *ours) if not one.endswith("/*")), "")
                login = self._logins[owner.casefold()] = self.app.login(owner, known)
                found = self._forges[owner.casefold()] = self._forge(login, ours)
            return found

    def owners(self) -> dict[str, str]:
        """Whose repositories are watched, each with one that is named, if any is."""
        found: dict[str, str] = {}
        for pattern in self._patterns:
            owner, name = pattern.split("/")
            spelled = next((one for one in found if one.casefold() == owner.casefold()), owner)
            found[spelled] = found.get(spelled) or ("" if name == "*" else pattern)
        return found

    def tokens(self) -> list[str]:
        """The tokens that are held now: secrets."""
        with self._lock:
            return [held for login in self._logins.values() if (held := login.held())]

    def repositories(self) -> list[str]:
        """The watched repositories, `owner/*` expanded to all that the installation sees.

        An owner who cannot be asked stays as `owner/*`, whose listing says why: the others go on.
        """
        found: dict[str, str] = {}
        for pattern in self._patterns:
            try:
                names = self.of(pattern).expanded(pattern)
            except ForgeError:
                names = [pattern]
            found |= {name.casefold(): name for name in names if name.casefold() not in found}
        return list(found.values())

    def me(self) -> str:
        return f"{self.app.slug()}[bot]"

    def pulls(self, repository: str) -> list[Pull]:
        """Of `owner/*`, which stands for repositories that could not be told, it raises why: unknown is not "none"."""
        if repository.endswith("/*"):
            self.of(repository).expanded(repository)
            raise unreachable(f"the repositories of {repository} were not told a moment ago; the next cycle has them")
        return self.of(repository).pulls(repository)

    def pull(self, repository: str, number: int) -> Pull:
        return self.of(repository).pull(repository, number)

    def comments(self, pull: Pull) -> list[Comment]:
        return self.of(pull.repository).comments(pull)

    def comment(self, pull: Pull, comment_id: str) -> Comment | None:
        return self.of(pull.repository).comment(pull, comment_id)

    def post_comment(self, pull: Pull, body: str) -> Comment:
        return self.of(pull.repository).post_comment(pull, body)

    def edit_comment(self, pull: Pull, comment_id: str, body: str) -> Comment:
        return self.of(pull.repository).edit_comment(pull, comment_id, body)

    def minimize(self, pull: Pull, comment: Comment | PostedReview) -> None:
        self.of(pull.repository).minimize(pull, comment)

    def reviews(self, pull: Pull) -> list[PostedReview]:
        return self.of(pull.repository).reviews(pull)

    def post_review(
        self, pull: Pull, event: ReviewEvent, body: str, comments: Sequence[InlineComment] = ()
    ) -> PostedReview:
        return self.of(pull.repository).post_review(pull, event, body, comments)

    def threads(self, pull: Pull) -> list[Thread]:
        return self.of(pull.repository).threads(pull)

    def reply(self, pull: Pull, thread: Thread, body: str) -> ThreadComment:
        return self.of(pull.repository).reply(pull, thread, body)

    def resolve(self, pull: Pull, thread: Thread) -> None:
        self.of(pull.repository).resolve(pull, thread)

    def may_write(self, pull: Pull, user: str) -> bool:
        return self.of(pull.repository).may_write(pull, user)

    def react(self, pull: Pull, comment_id: str, content: Reaction) -> None:
        self.of(pull.repository).react(pull, comment_id, content)

    def checks(self, pull: Pull) -> Checks:
        return self.of(pull.repository).checks(pull)

    def base_tip(self, pull: Pull) -> str:
        return self.of(pull.repository).base_tip(pull)

    def gate(self, pull: Pull) -> Gate | None:
        return self.of(pull.repository).gate(pull)

    def set_gate(self, pull: Pull, gate: Gate, report: Report | None = None) -> None:
        self.of(pull.repository).set_gate(pull, gate, report)

    def source(self, pull: Pull) -> Source:
        return self.of(pull.repository).source(pull)

    def permalink(self, pull: Pull, path: str, line_start: int, line_end: int) -> str | None:
        return self.of(pull.repository).permalink(pull, path, line_start, line_end)
