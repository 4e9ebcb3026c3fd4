"""Where pull requests live: what every forge gives and takes.

The protocol itself stands beside its consumer, in `appliance.cycle`.
"""

from dataclasses import dataclass, field


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
