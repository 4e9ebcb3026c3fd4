"""What the cycle needs of a forge; `forge.github` and `forge.local` have it, and so have the fakes of the tests."""

from typing import Protocol

from appliance.core.pulls import Pull
from appliance.core.verdict import Gate
from appliance.forge import Comment, Source


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

    def post_comment(self, pull: Pull, body: str) -> Comment: ...

    def gate(self, pull: Pull) -> Gate | None:
        """The newest of our context on the head SHA; None if there is none."""
        ...

    def set_gate(self, pull: Pull, gate: Gate) -> None: ...

    def source(self, pull: Pull) -> Source: ...

    def permalink(self, pull: Pull, path: str, line_start: int, line_end: int) -> str | None: ...

    def close(self) -> None: ...
