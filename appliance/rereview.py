"""What git knows of a pull request's earlier heads: which commits came since, and which lines they changed."""

from collections.abc import Callable, Mapping
from contextlib import suppress

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
