"""What git knows of a pull request's earlier heads: which commits came since, and which lines they changed."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache

from appliance.core.earlier import History, Since
from appliance.core.pulls import Pull
from appliance.git import GitError, Mirror

MAX_COMMITS = 1000  # of one range; a commit beyond them resolves nothing

Histories = Callable[[Pull], History]


def no_history(_: Pull) -> History:
    return History()


def since(mirror: Mirror, history: History, head: str, merge_base: str) -> Mapping[str, Since]:
    """What came after each earlier head, by its SHA. What git cannot tell stays unknown; raises nothing of its own."""
    heads = {history.head_sha, *(each.head_sha for each in history.known if each.state == "open")} - {""}
    return {earlier: _since(mirror, earlier, head, merge_base) for earlier in sorted(heads)}


def _since(mirror: Mirror, earlier: str, head: str, merge_base: str) -> Since:
    rewritten, diff = True, None
    commits: tuple[str, ...] = ()
    with suppress(GitError):
        rewritten = mirror.is_ancestor(earlier, head) is not True
    with suppress(GitError):
        commits = mirror.commits(merge_base if rewritten else earlier, head, limit=MAX_COMMITS)
    if not rewritten:
        with suppress(GitError):
            diff = mirror.diff(mirror.changed_files(earlier, head))
    return Since(commits, rewritten, diff)


def lines_of(mirror: Mirror, head: str) -> Callable[[str], int]:
    """How many lines a file of `head` has by its path; 0 for what is none, or cannot be told."""

    @cache
    def lines(path: str) -> int:
        with suppress(GitError):
            entry = mirror.entries(head, [path]).get(path) if path and "\0" not in path else None
            if entry is not None and entry.regular:
                content = mirror.content(entry)
                return content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
        return 0

    return lines
