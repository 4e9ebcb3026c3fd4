"""What the cycle needs of a forge; `forge.github` and `forge.local` have it, and so have the fakes of the tests."""

from collections.abc import Sequence
from typing import Protocol

from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.forge import (
    Checks,
    Comment,
    InlineComment,
    PostedReview,
    Reaction,
    Report,
    ReviewEvent,
    Source,
    Thread,
    ThreadComment,
)


class Forge(Protocol):
    """Every method raises ForgeError; an answer that cannot be trusted is one, for unknown is not "none"."""

    @property
    def name(self) -> str: ...

    def repositories(self) -> list[str]:
        """The watched ones, patterns expanded."""
        ...

    def pulls(self, repository: str) -> list[Pull]:
        """Every open pull request, drafts too."""
        ...

    def pull(self, repository: str, number: int) -> Pull:
        """One as it is now; a closed one too."""
        ...

    def comments(self, pull: Pull) -> list[Comment]:
        """All of them, oldest first."""
        ...

    def comment(self, pull: Pull, comment_id: str) -> Comment | None:
        """One of them, or None if it is gone."""
        ...

    def post_comment(self, pull: Pull, body: str) -> Comment: ...

    def edit_comment(self, pull: Pull, comment_id: str, body: str) -> Comment: ...

    def minimize(self, pull: Pull, comment: Comment | PostedReview) -> None:
        """Hide one of ours as outdated; a second time does nothing."""
        ...

    @property
    def inline(self) -> bool:
        """Whether there are reviews with comments on lines; without, `post_review` and `reply` are refused."""
        ...

    def reviews(self, pull: Pull) -> list[PostedReview]:
        """All of them, oldest first."""
        ...

    def post_review(
        self, pull: Pull, event: ReviewEvent, body: str, comments: Sequence[InlineComment] = ()
    ) -> PostedReview:
        """A review of the head. One comment that fits no hunk of the diff lets the whole be refused (permanent)."""
        ...

    def threads(self, pull: Pull) -> list[Thread]:
        """The conversations on lines, all comments of all of them."""
        ...

    def reply(self, pull: Pull, thread: Thread, body: str) -> ThreadComment: ...

    def resolve(self, pull: Pull, thread: Thread) -> None:
        """A second time does nothing."""
        ...

    def may_write(self, pull: Pull, user: str) -> bool:
        """Whether somebody may push to the repository; a deleted account and an App's bot may not."""
        ...

    def me(self) -> str:
        """The name under which our comments stand; empty if the forge does not tell."""
        ...

    def react(self, pull: Pull, comment_id: str, content: Reaction) -> None:
        """A second time does nothing."""
        ...

    def checks(self, pull: Pull) -> Checks:
        """Of others, on the head; never our own gate."""
        ...

    def base_tip(self, pull: Pull) -> str:
        """The SHA of the base branch now; what a listing says of it may be old."""
        ...

    def gate(self, pull: Pull) -> Gate | None:
        """The newest of our context on the head SHA; None if there is none."""
        ...

    @property
    def check_runs(self) -> bool:
        """Whether the gate is a check run, which shows a report; else `set_gate` passes the report over."""
        ...

    @property
    def gate_place(self) -> str:
        """Where gates are shown, in words that change when what was shown before is no gate of ours any more."""
        ...

    def set_gate(self, pull: Pull, gate: Gate, report: Report | None = None) -> None: ...

    def source(self, pull: Pull) -> Source: ...

    def permalink(self, pull: Pull, path: str, line_start: int, line_end: int) -> str | None: ...

    def close(self) -> None: ...
