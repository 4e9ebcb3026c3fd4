"""The fake GitHub as a test sees it."""

import itertools
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from . import repos
from .state import (
    App,
    CheckRun,
    Comment,
    Exchange,
    Failure,
    LineComment,
    Pull,
    Repository,
    Request,
    Required,
    Review,
    Status,
    Token,
)

SECONDARY_LIMIT = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


class FakeGitHub:
    """GitHub's REST API and smart HTTP over real bare repositories, on a port of this machine.

    `url` is the API's base, to be given as APPLIANCE_GITHUB_URL; with `prefix="/api/v3"` it looks like an Enterprise
    Server's (both are always served). Everything that goes over the wire is in `exchanges`. Existing repositories below
    `root` (`owner/name.git`) are taken over. Thread-safe: state changes under one lock.
    """

    def __init__(
        self,
        root: Path | None = None,
        *,
        token: str = "fake-token",
        host: str = "127.0.0.1",
        port: int = 0,
        prefix: str = "",
    ) -> None:
        self._own_root = root is None
        self.root = Path(tempfile.mkdtemp(prefix="fake-github-")) if root is None else root
        self.token = token
        self.tokens: dict[str, Token] = {token: Token("review-bot")}
        self.apps: dict[int, App] = {}
        self.gone: set[str] = set()  # people whose accounts were deleted
        self.repositories: dict[str, Repository] = {}
        self.exchanges: list[Exchange] = []
        self.failures: list[Failure] = []
        self.rate_limit = 5000
        self.rate_remaining = 5000
        self.clock_offset = 0.0  # seconds its clock is ahead of ours
        self.lock = threading.RLock()
        self.generation = 0  # moves with every change: rendered answers hold for one
        self.rendered: dict[tuple[Any, ...], tuple[int, bytes]] = {}
        self._ids = itertools.count(1_000_001)
        self._address = (host, port)
        self._prefix = prefix
        self._server: ThreadingHTTPServer | None = None
        for path in sorted(self.root.glob("*/*.git")):
            self._adopt(f"{path.parent.name}/{path.name.removesuffix('.git')}", path)

    # --- running ---

    def start(self) -> "FakeGitHub":
        from .server import Handler, Server

        self._server = Server(self._address, type("BoundHandler", (Handler,), {"fake": self}))
        self._address = (self._address[0], int(self._server.server_address[1]))
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def stop(self) -> None:
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        if self._own_root:
            shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self) -> "FakeGitHub":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """0 before the start, unless one was asked for."""
        return self._address[1]

    @property
    def base(self) -> str:
        return f"http://{self._address[0]}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.base}{self._prefix}"

    def now(self) -> float:
        return time.time() + self.clock_offset

    # --- repositories ---

    def add_repository(
        self,
        name: str,
        files: Mapping[str, repos.Content] | None = None,
        *,
        private: bool = False,
        archived: bool = False,
        disabled: bool = False,
        organization: bool = False,
        default_branch: str = "main",
    ) -> Repository:
        """A repository `owner/name` with one commit of `files` on its default branch."""
        with self.lock:
            path = self.root / f"{name}.git"
            repos.create(path, default_branch)
            repository = self._adopt(name, path)
            repository.private, repository.organization = private, organization
            repository.archived, repository.disabled = archived, disabled
            repository.default_branch = default_branch
            self.push(name, default_branch, files or {"README.md": f"# {name}\n"}, message="Begin")
            return repository

    def _adopt(self, name: str, path: Path) -> Repository:
        owner, _, short = name.partition("/")
        repos.configure(path)
        repository = Repository(next(self._ids), owner, short, path, self.now())
        self.repositories[name.casefold()] = repository
        self.generation += 1
        return repository

    def repository(self, name: str) -> Repository:
        return self.repositories[name.casefold()]

    def rename_repository(self, name: str, new_name: str) -> None:
        """The old name answers with redirects from now on."""
        with self.lock:
            repository = self.repositories.pop(name.casefold())
            repository.old_names.add(name.casefold())
            repository.owner, _, repository.name = new_name.partition("/")
            self.repositories[new_name.casefold()] = repository
            self.generation += 1

    def push(
        self,
        name: str,
        branch: str,
        files: Mapping[str, repos.Content],
        *,
        base: str | None = None,
        message: str = "Change",
    ) -> str:
        """One commit on `branch`, and its SHA. With `base` (a branch or SHA) the branch is forced to stand on that."""
        return self._push(name, branch, files, base, message)[f"refs/heads/{branch}"]

    def _push(
        self, name: str, branch: str, files: Mapping[str, repos.Content], base: str | None, message: str
    ) -> dict[str, str]:
        """Returns all refs: what a process was needed for is not asked twice."""
        with self.lock:
            repository = self.repository(name)
            start = repos.resolve(repository.path, base) if base else None
            if base and not start:
                raise ValueError(f"no {base} in {name}")
            refs = repos.commit(repository.path, branch, files, start=start, message=message, at=self.now())
            self.sync(name, refs)
            return refs

    def delete_branch(self, name: str, branch: str) -> None:
        with self.lock:
            repos.git(self.repository(name).path, "update-ref", "-d", f"refs/heads/{branch}")
            self.sync(name)

    def sync(self, name: str, refs: Mapping[str, str] | None = None) -> None:
        """Take over what git has: heads of open pull requests, and their refs/pull/N/head.

        The base SHA moves only with the head, as GitHub's does.
        """
        repository = self.repository(name)
        refs = repos.refs(repository.path) if refs is None else refs
        wanted: dict[str, str] = {}
        for pull in repository.pulls.values():
            head = refs.get(f"refs/heads/{pull.head}")
            if pull.state == "open" and head and head != pull.head_sha:
                pull.head_sha, pull.updated_at = head, max(self.now(), pull.updated_at)
                pull.base_sha = refs.get(f"refs/heads/{pull.base}", pull.base_sha)
            if refs.get(f"refs/pull/{pull.number}/head") != pull.head_sha:
                wanted[f"refs/pull/{pull.number}/head"] = pull.head_sha
        if wanted:
            repos.update_refs(repository.path, wanted)
        self.generation += 1

    # --- pull requests ---

    def add_pull(
        self,
        name: str,
        head: str,
        base: str = "main",
        *,
        files: Mapping[str, repos.Content] | None = None,
        title: str = "Change something",
        body: str | None = None,
        author: str | None = "alice",
        author_association: str = "MEMBER",
        labels: Sequence[str] = (),
        draft: bool = False,
        head_repository: bool = True,
    ) -> Pull:
        """A pull request of branch `head`; with `files` the branch is made first, on top of `base`."""
        with self.lock:
            repository = self.repository(name)
            refs = repos.refs(repository.path) if files is None else self._push(name, head, files, base, "Change")
            now = self.now()
            pull = Pull(
                id=next(self._ids),
                number=max(repository.pulls, default=0) + 1,
                head=head,
                base=base,
                head_sha=refs[f"refs/heads/{head}"],
                base_sha=refs[f"refs/heads/{base}"],
                title=title,
                body=body,
                author=author,
                author_association=author_association,
                created_at=now,
                updated_at=now,
                labels=list(labels),
                draft=draft,
                head_repository=head_repository,
            )
            repository.pulls[pull.number] = pull
            self.sync(name, refs)
            return pull

    def add_pulls(self, name: str, count: int) -> None:
        """Many pull requests of one and the same commit, quickly: for listings."""
        with self.lock:
            sha = self.push(name, "bulk", {"bulk.txt": "bulk\n"}, base="main")
            for _ in range(count):
                repository = self.repository(name)
                number, now = max(repository.pulls, default=0) + 1, self.now()
                repository.pulls[number] = Pull(
                    next(self._ids),
                    number,
                    "bulk",
                    "main",
                    sha,
                    sha,
                    f"Pull {number}",
                    None,
                    "alice",
                    "MEMBER",
                    now,
                    now,
                )
            self.sync(name)

    def edit_pull(self, name: str, number: int, **changes: Any) -> Pull:
        """Change fields: `state`, `base`, `draft`, `labels`, `title`, `body`, `author`, `head_repository`, …"""
        with self.lock:
            repository = self.repository(name)
            pull = repository.pulls[number]
            for field, value in changes.items():
                if field not in Pull.__dataclass_fields__:
                    raise ValueError(f"a pull request has no {field}")
                setattr(pull, field, value)
            if "base" in changes:
                pull.base_sha = repos.refs(repository.path)[f"refs/heads/{pull.base}"]
            pull.updated_at = max(self.now(), pull.updated_at + 1)
            self.sync(name)
            return pull

    # --- comments and statuses ---

    def comments(self, name: str, number: int) -> list[Comment]:
        return list(self.repository(name).pulls[number].comments)

    def add_comment(self, name: str, number: int, body: str, author: str | None = "alice") -> Comment:
        with self.lock:
            pull, now = self.repository(name).pulls[number], self.now()
            comment = Comment(next(self._ids), body, author, now, now)
            pull.comments.append(comment)
            pull.updated_at = max(now, pull.updated_at)
            self.generation += 1
            return comment

    def edit_comment(self, name: str, comment_id: int, body: str) -> None:
        with self.lock:
            for pull in self.repository(name).pulls.values():
                for comment in pull.comments:
                    if comment.id == comment_id:
                        comment.body, comment.updated_at = body, self.now()
            self.generation += 1

    def delete_comment(self, name: str, comment_id: int) -> None:
        with self.lock:
            for pull in self.repository(name).pulls.values():
                pull.comments = [comment for comment in pull.comments if comment.id != comment_id]
            self.generation += 1

    # --- reviews, threads, check runs ---

    def reviews(self, name: str, number: int) -> list[Review]:
        return list(self.repository(name).pulls[number].reviews)

    def line_comments(self, name: str, number: int) -> list[LineComment]:
        return list(self.repository(name).pulls[number].line_comments)

    def add_review(
        self,
        name: str,
        number: int,
        state: str,
        body: str,
        author: str | None = "alice",
        commit: str | None = None,
        comments: Sequence[Mapping[str, Any]] = (),
    ) -> Review:
        """A review with `comments` as the API takes them; each begins a thread. Nothing is examined."""
        with self.lock:
            pull, now = self.repository(name).pulls[number], self.now()
            review = Review(next(self._ids), body, state, author, commit or pull.head_sha, now)
            pull.reviews.append(review)
            for it in comments:
                side = it.get("side", "RIGHT")
                start = it.get("start_line")
                pull.line_comments.append(
                    LineComment(
                        next(self._ids),
                        review.id,
                        it["path"],
                        it["line"],
                        side,
                        start,
                        it.get("start_side", side) if start is not None else None,
                        it["body"],
                        author,
                        review.commit_id,
                        now,
                    )
                )
            pull.updated_at = max(now, pull.updated_at)
            self.generation += 1
            return review

    def add_reply(
        self, name: str, number: int, comment_id: int, body: str, author: str | None = "alice"
    ) -> LineComment:
        """An answer in the thread that begins with this comment. GitHub makes a review of its own of each."""
        with self.lock:
            pull = self.repository(name).pulls[number]
            top = next(it for it in pull.line_comments if it.id == comment_id)
            review = self.add_review(name, number, "COMMENTED", "", author)
            made = replace(
                top,
                id=next(self._ids),
                review=review.id,
                body=body,
                author=author,
                created_at=self.now(),
                reply_to=top.id,
            )
            pull.line_comments.append(made)
            self.generation += 1
            return made

    def set_permission(self, name: str, login: str, role: str) -> None:
        """`role`: admin, maintain, write, triage, read or none."""
        with self.lock:
            self.repository(name).permissions[login] = role
            self.generation += 1

    def check_runs(self, name: str, sha: str, check: str | None = None) -> list[CheckRun]:
        """Newest first."""
        found = [run for run in reversed(self.repository(name).check_runs) if run.sha == sha]
        return [run for run in found if check is None or run.name == check]

    def add_check_run(
        self,
        name: str,
        sha: str,
        check: str,
        status: str = "completed",
        conclusion: str | None = "success",
        app: int = 7,
    ) -> CheckRun:
        with self.lock:
            done = self.now() if status == "completed" else None
            run = CheckRun(
                next(self._ids), sha, check, status, conclusion if done else None, app, self.now(), completed_at=done
            )
            self.repository(name).check_runs.append(run)
            self.generation += 1
            return run

    def add_app(
        self,
        app_id: int,
        modulus: int,
        exponent: int = 65537,
        *,
        slug: str = "review-appliance",
        installations: Mapping[str, int] | None = None,
        permissions: Mapping[str, str] | None = None,
    ) -> App:
        """An App with this public key. `installations`: its installations by owner."""
        granted = permissions or {
            "metadata": "read",
            "contents": "read",
            "pull_requests": "write",
            "checks": "write",
        }
        with self.lock:
            app = App(app_id, slug, modulus, exponent, dict(installations or {}), dict(granted))
            self.apps[app_id] = app
            self.generation += 1
            return app

    def statuses(self, name: str, sha: str, context: str | None = None) -> list[Status]:
        """Newest first, as GitHub lists them."""
        found = [status for status in reversed(self.repository(name).statuses) if status.sha == sha]
        return [it for it in found if context is None or it.context.casefold() == context.casefold()]

    def add_status(
        self,
        name: str,
        sha: str,
        state: str,
        context: str,
        description: str | None = None,
        target_url: str | None = None,
        author: str = "review-bot",
    ) -> Status:
        with self.lock:
            status = Status(next(self._ids), sha, state, context, description, target_url, author, self.now())
            self.repository(name).statuses.append(status)
            self.generation += 1
            return status

    # --- who may what, and what a branch requires ---

    def add_token(self, token: str, login: str = "review-bot", **rights: Any) -> None:
        """A token with the rights of `Token`, or other rights for one that is there."""
        with self.lock:
            self.tokens[token] = Token(login, **{**rights, "lacks": frozenset(rights.get("lacks", ()))})
            self.generation += 1

    def require(
        self, name: str, *contexts: str, branch: str = "main", by: str = "rules", source: int | None = None
    ) -> None:
        """Let a branch require these checks, and no others, `by` "rules" (a ruleset) or "protection"."""
        with self.lock:
            required: dict[str, list[Required]] = getattr(self.repository(name), by)
            required[branch] = [Required(context, source) for context in contexts]
            self.generation += 1

    def require_check(self, name: str, contexts: Sequence[str], **how: Any) -> None:
        """`require` for those who can send only JSON."""
        self.require(name, *contexts, **how)

    def adjust(self, *, clock_offset: float | None = None, rate_remaining: int | None = None) -> None:
        """Set its clock ahead of ours, or what is left of the hour's requests."""
        with self.lock:
            self.clock_offset = self.clock_offset if clock_offset is None else clock_offset
            self.rate_remaining = self.rate_remaining if rate_remaining is None else rate_remaining
            self.generation += 1

    # --- what goes wrong, and what was said ---

    def fail(self, **how: Any) -> Failure:
        """The next matching requests go wrong: see `Failure` for the ways."""
        failure = Failure(**how)
        re.compile(failure.path)
        with self.lock:
            self.failures.append(failure)
        return failure

    def secondary_limit(self, *, times: int = 1, **how: Any) -> Failure:
        """A 403 of the secondary limit, with no word of when to come back unless `headers` says it."""
        return self.fail(status=403, body={"message": SECONDARY_LIMIT}, times=times, **how)

    def failure_for(self, request: Request) -> Failure | None:
        """The failure that this request meets, if any; it is used up by that."""
        with self.lock:
            for failure in self.failures:
                fits = failure.method in (None, request.method) and re.search(
                    failure.path, f"{request.path}?{'&'.join(f'{k}={v}' for k, v in request.query.items())}"
                )
                if fits and failure.times > 0:
                    if failure.skip > 0:
                        failure.skip -= 1
                        continue
                    failure.times -= 1
                    return failure
        return None

    def clear(self) -> None:
        """Forget exchanges and failures."""
        with self.lock:
            self.exchanges.clear()
            self.failures.clear()

    @property
    def writes(self) -> list[Exchange]:
        """What changed something: everything but GET and GraphQL's queries, and not git."""
        said = [it for it in self.exchanges if it.method not in ("GET", "HEAD") and ".git/" not in it.path]
        return [it for it in said if not (it.path.endswith("/graphql") and b"mutation" not in it.request_body[:40])]
