"""What the fake GitHub knows: repositories, pull requests, comments, statuses, tokens, and what went over the wire."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Comment:
    id: int
    body: str
    author: str | None
    created_at: float
    updated_at: float
    minimized: bool = False
    reactions: list["Reaction"] = field(default_factory=list)


@dataclass
class Reaction:
    id: int
    content: str
    author: str
    created_at: float


@dataclass
class Review:
    """`state` as REST spells it: PENDING, COMMENTED, CHANGES_REQUESTED, APPROVED, DISMISSED."""

    id: int
    body: str
    state: str
    author: str | None
    commit_id: str
    submitted_at: float
    minimized: bool = False


@dataclass
class LineComment:
    """A comment on lines; without `reply_to` it begins a thread, and `resolved` is that thread's."""

    id: int
    review: int
    path: str
    line: int
    side: str
    start_line: int | None
    start_side: str | None
    body: str
    author: str | None
    commit_id: str
    created_at: float
    reply_to: int | None = None
    resolved: bool = False
    minimized: bool = False


@dataclass
class CheckRun:
    id: int
    sha: str
    name: str
    status: str
    conclusion: str | None
    app: int
    started_at: float
    completed_at: float | None = None
    external_id: str = ""
    details_url: str | None = None
    title: str | None = None
    summary: str | None = None
    annotations: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class App:
    """A GitHub App: its RSA key as numbers, and its installations by owner. `permissions` as GitHub spells them."""

    id: int
    slug: str
    modulus: int
    exponent: int
    installations: dict[str, int]
    permissions: dict[str, str]
    issued: int = 0
    suspended: set[str] = field(default_factory=set)  # owners


@dataclass
class Status:
    id: int
    sha: str
    state: str
    context: str
    description: str | None
    target_url: str | None
    author: str
    created_at: float


@dataclass
class Pull:
    """`author` None: the account was deleted. `head_repository` None: the fork was."""

    id: int
    number: int
    head: str
    base: str
    head_sha: str
    base_sha: str
    title: str
    body: str | None
    author: str | None
    author_association: str
    created_at: float
    updated_at: float
    labels: list[str] = field(default_factory=list)
    draft: bool = False
    state: str = "open"
    head_repository: bool = True
    comments: list[Comment] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    line_comments: list[LineComment] = field(default_factory=list)


@dataclass(frozen=True)
class Required:
    """A required status check; `source` is the id of the App that alone may set it."""

    context: str
    source: int | None = None


@dataclass
class Repository:
    id: int
    owner: str
    name: str
    path: Path
    created_at: float
    private: bool = False
    archived: bool = False
    disabled: bool = False
    organization: bool = False
    default_branch: str = "main"
    pulls: dict[int, Pull] = field(default_factory=dict)
    statuses: list[Status] = field(default_factory=list)
    check_runs: list[CheckRun] = field(default_factory=list)
    permissions: dict[str, str] = field(default_factory=dict)  # of people, by login: admin, write, read, none
    old_names: set[str] = field(default_factory=set)
    rules: dict[str, list[Required]] = field(default_factory=dict)  # by branch: what its rulesets require
    protection: dict[str, list[Required]] = field(default_factory=dict)  # the same of classic branch protection

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


@dataclass(frozen=True)
class Token:
    """`sees`: full names, or None for all. `writes`: may comment and set statuses. `installation`: an App's.

    `lacks`: fine-grained permissions that it was not given, such as `statuses` or `contents` (it may neither read nor
    write these in a private repository). `administers`: has "Administration: read". `classic`: what it may not do is
    answered with 404, and `scopes` are told. `expires`: seconds of the epoch; `expires_zone` as GitHub spells it.
    """

    login: str
    sees: frozenset[str] | None = None
    writes: bool = True
    installation: bool = False
    lacks: frozenset[str] = frozenset()
    administers: bool = False
    app: int = 0  # of an installation's: the App's id
    owner: str = ""  # of an installation's: whose repositories it is for
    classic: bool = False
    scopes: tuple[str, ...] = ("repo",)
    expires: float | None = None
    expires_zone: str = "UTC"


@dataclass
class Failure:
    """Something that goes wrong with the next `times` requests that match, after `skip` of them went well.

    `method` and `path` (a regular expression that is searched) choose the requests. `status`, `headers` and `body`
    replace the answer; with `store` the request is carried out first ("stored, then 502"). `empty` and `short` (how
    many entries are left) cut a list; `truncate` cuts the body in half under a right Content-Length, `cut_off` under
    the old one; `disconnect` closes without a word; `delay` is in seconds and may stand alone.
    """

    method: str | None = None
    path: str = ""
    times: int = 1
    skip: int = 0
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    store: bool = False
    empty: bool = False
    short: int | None = None
    truncate: bool = False
    cut_off: bool = False
    disconnect: bool = False
    delay: float = 0.0


@dataclass(frozen=True)
class Exchange:
    """One request and its answer. `injected`: the answer is a made failure, so no proof of the fake."""

    method: str
    path: str
    query: str
    request_headers: dict[str, str]
    request_body: bytes
    status: int
    headers: dict[str, str]
    body: bytes
    injected: bool
    at: float


@dataclass
class Request:
    """What a route is given. `base` is how the client reaches us, without a path; `prefix` is `/api/v3` or nothing."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    base: str
    prefix: str = ""
    token: Token | None = None

    @property
    def api(self) -> str:
        return f"{self.base}{self.prefix}"


@dataclass
class Response:
    """`payload` becomes JSON; `link_path` is where the Link header's pages are, if this is a list."""

    status: int = 200
    payload: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
