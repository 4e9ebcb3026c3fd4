"""The forge: the token and its rights, the clock, the budget, and whether the gate is a required check."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from appliance.core import doctor_forge as judge
from appliance.core.doctor import Line, fine, found, of_fault
from appliance.core.pulls import Pull
from appliance.doctor.guard import guarded
from appliance.failures import fault_of
from appliance.forge import ForgeError
from appliance.forge.github import GitHubForge
from appliance.forge.github_installations import GitHubInstallations
from appliance.forge.github_rights import GitHubRights, Repository
from appliance.forge.local import LocalForge
from appliance.wiring import NO_TOKEN, Appliance

MOST_REPOSITORIES = 20  # each costs about ten requests and two seconds
MOST_BRANCHES = 5  # of a repository: its default branch, and bases of open pull requests


def check(parts: Appliance) -> Iterator[Line]:
    settings = parts.settings
    if settings.rehearsal:
        yield fine("forge", "No repository is configured: the appliance reviews its own sample.")
    if settings.local_repositories:
        local = parts.local([settings.local_repositories])
        yield from guarded("local", lambda: _local(local, str(settings.local_repositories)))
    if not settings.repositories:
        return
    if not settings.signs_in:
        yield of_fault("token", NO_TOKEN)
        return
    github = parts.github()
    try:
        if isinstance(github, GitHubInstallations):
            yield from of_app(github, settings.status_context)
        elif settings.github_token:
            yield from of_github(github, settings.github_token.get_secret_value(), settings.status_context)
    finally:
        github.close()


def _local(local: LocalForge, folder: str) -> Iterator[Line]:
    """How many can be read, and each that cannot."""
    names = local.repositories()
    refused = []
    for name in names:
        try:
            local.pulls(name)
        except ForgeError as error:
            refused.append(of_fault("local", fault_of(error), name))
    count = len(names) - len(refused)
    if count or not refused:
        yield fine("local", f"{count} {'repository' if count == 1 else 'repositories'} in {folder}.")
    yield from refused


def of_github(github: GitHubForge, token: str, context: str) -> Iterator[Line]:
    """All that concerns GitHub; `context` is that of our commit status."""
    rights = github.rights()
    try:
        facts = rights.token()
    except ForgeError as error:  # nothing of the rest could be asked either
        yield of_fault("token", fault_of(error))
        return
    yield judge.token(facts, judge.kind_of(token, facts.scopes))
    yield judge.clock(facts)
    yield from _examined(github, rights, facts, context)


def of_app(apps: GitHubInstallations, context: str) -> Iterator[Line]:
    """The same for a GitHub App: which it is, and all of each installation whose repositories are watched."""
    try:
        yield judge.app(apps.app.slug(), apps.app.id, [one.owner for one in apps.app.installations()])
    except ForgeError as error:  # nothing of the rest could be asked either
        yield of_fault("app", fault_of(error))
        return
    for at, (owner, known) in enumerate(apps.owners().items()):
        github = apps.of(known or f"{owner}/*")
        rights = github.rights()
        try:
            installation = apps.app.installation(owner, known)
            facts = rights.token()
        except ForgeError as error:
            yield of_fault("app", fault_of(error), owner)
            continue
        yield judge.permissions(dict(installation.permissions), installation.page, owner)
        if at == 0:
            yield judge.clock(facts)
        yield from _examined(github, rights, facts, context, apps.app.id)


def _examined(
    github: GitHubForge, rights: GitHubRights, facts: judge.TokenFacts, context: str, app_id: int | None = None
) -> Iterator[Line]:
    """The repositories of one login, and whether its budget is enough for them."""
    names: Sequence[str] = []
    try:
        names = github.repositories()
    except ForgeError as error:
        yield of_fault("repositories", fault_of(error))
    pulls = 0
    for name in names[:MOST_REPOSITORIES]:
        examined = Examined(github, rights, name, context, app_id)
        yield from guarded("repository", examined.lines, name)
        pulls += len(examined.pulls)
    if len(names) > MOST_REPOSITORIES:
        yield found("repositories", "repositories-left-out", examined=MOST_REPOSITORIES, all=len(names))
    yield judge.budget(facts, len(names), pulls)


class Examined:
    """One repository; `pulls` are the open ones, once `lines` has been gone through."""

    def __init__(
        self, github: GitHubForge, rights: GitHubRights, name: str, context: str, app_id: int | None = None
    ) -> None:
        self._github, self._rights, self._name, self._context = github, rights, name, context
        self._app_id = app_id
        self.pulls: list[Pull] = []

    def lines(self) -> Iterator[Line]:
        """Raises ForgeError if the repository is not to be seen at all."""
        repository = self._rights.repository(self._name)
        yield from self._guarded("contents", lambda: self._contents(repository))
        yield from self._guarded("pulls", self._pulls)
        yield from self._guarded("comment", lambda: self._writes("comment", self._comment))
        if not self._github.check_runs:  # an App's right to these is among its permissions
            yield from self._guarded("status", lambda: self._writes("status", self._status))
        for branch in self._branches(repository):
            yield from self._guarded("required", lambda branch=branch: self._required(branch))  # type: ignore[misc]

    def _guarded(self, check: str, made: Callable[[], Iterable[Line]]) -> list[Line]:
        return guarded(check, made, self._name)

    def _contents(self, repository: Repository) -> Iterator[Line]:
        self._rights.read_contents(repository)
        yield fine("contents", "The token may fetch its contents.", self._name)

    def _pulls(self) -> Iterator[Line]:
        self.pulls = self._github.pulls(self._name)
        yield fine("pulls", f"The token may read its pull requests ({len(self.pulls)} open).", self._name)

    def _comment(self) -> ForgeError | None:
        number = self.pulls[0].number if self.pulls else self._rights.any_pull(self._name)
        return self._rights.may_comment(self._name, number)

    def _status(self) -> ForgeError | None:
        return self._rights.may_set_statuses(self._name, self._context)

    def _writes(self, check: str, ask: Callable[[], ForgeError | None]) -> Iterator[Line]:
        refused = ask()
        what = {"comment": "write comments", "status": "set commit statuses"}[check]
        if refused is None:
            yield fine(check, f"The token may {what}.", self._name)
        else:
            yield of_fault(check, fault_of(refused), self._name)

    def _branches(self, repository: Repository) -> list[str]:
        bases = [repository.default_branch, *sorted({pull.base_ref for pull in self.pulls})]
        return list(dict.fromkeys(bases))[:MOST_BRANCHES]

    def _required(self, branch: str) -> Iterator[Line]:
        yield judge.required(self._rights.branch(self._name, branch), self._context, self._name, self._app_id)
