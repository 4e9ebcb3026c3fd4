"""Where pull requests live: what every forge gives and takes.

The protocol itself stands beside its consumer, in `appliance.cycle`.
"""

from dataclasses import dataclass, field
from typing import Literal

Side = Literal["LEFT", "RIGHT"]
ReviewEvent = Literal["COMMENT", "REQUEST_CHANGES", "APPROVE"]
Reaction = Literal["+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"]


class ForgeError(Exception):
    """The forge did not do what was asked; the message says what and the next step.

    `permanent`: asking again cannot help until a person acts. `cause` is the id of the fault: `forge-login`,
    `forge-permission`, `forge-not-found`, `forge-rate-limited`, `forge-unreachable`, `forge-refused`.
    `retry_at` is when the forge says to come back (seconds of the epoch), or None.
    """

    def __init__(
        self, cause: str, message: str, *, remedy: str, permanent: bool, retry_at: float | None = None
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.remedy = remedy
        self.permanent = permanent
        self.retry_at = retry_at


@dataclass(frozen=True)
class Comment:
    """A comment on a pull request."""

    id: str
    body: str
    url: str
    author: str = ""  # "ghost" for a deleted account; an App's ends in "[bot]"
    created_at: str = ""  # the forge's own text, ISO 8601 in UTC
    node_id: str = ""  # what `minimize` needs; empty where nothing can be minimized


@dataclass(frozen=True)
class InlineComment:
    """A comment on lines of the diff between the merge base and the head.

    LEFT are lines of the merge base, RIGHT those of the head; `start_line` is the first of several, before `line`.
    """

    path: str
    line: int
    side: Side
    body: str
    start_line: int | None = None
    start_side: Side | None = None


@dataclass(frozen=True)
class PostedReview:
    """A pull request review. After a force-push GitHub may give an old one another `commit_id`."""

    id: str
    body: str
    url: str
    state: str  # COMMENTED, CHANGES_REQUESTED, APPROVED, DISMISSED, PENDING
    commit_id: str
    author: str = ""
    node_id: str = ""


@dataclass(frozen=True)
class ThreadComment:
    """One comment of a thread."""

    id: str
    author: str
    body: str
    url: str
    created_at: str


@dataclass(frozen=True)
class Thread:
    """A conversation on lines of the diff; `comments` oldest first."""

    id: str
    resolved: bool
    path: str
    comments: tuple[ThreadComment, ...]


@dataclass(frozen=True)
class Checks:
    """Check runs and statuses of others on a head, by name, each in one place only: failed before pending before
    passed, if there are several of one name."""

    pending: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Annotation:
    """A note of a check run on lines of a file at the head."""

    path: str
    line_start: int
    line_end: int
    level: Literal["notice", "warning", "failure"]
    title: str
    message: str


@dataclass(frozen=True)
class Report:
    """What a check run shows beside its conclusion; `summary` is Markdown, `url` where its link leads."""

    summary: str
    annotations: tuple[Annotation, ...] = ()
    url: str = ""


@dataclass(frozen=True)
class Source:
    """Where git finds a pull request: the *base* repository, since the head's may be gone.

    `authorization` is the value of an HTTP Authorization header for exactly this address, or None; it never stands
    in an argv. `head_ref` and `base_ref` are full ref names there.
    """

    url: str
    head_ref: str
    base_ref: str
    authorization: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Cached:
    """An answer of a forge as it is kept: its ETag, its Link header, and what was kept of its body."""

    etag: str
    link: str | None
    body: bytes
