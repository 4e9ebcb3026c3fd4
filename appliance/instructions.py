"""Reads what a repository says of its reviews: from its base branch, as it was fetched, and from nowhere else."""

from collections.abc import Sequence

from appliance.core.instructions import CONFIG, MAX_NESTED, MAX_READ, Effective, Found, effective, places
from appliance.core.prompt import File
from appliance.git import Mirror
from appliance.git.mirror import Entry

_KINDS = {"120000": "it is a symlink", "160000": "it is a submodule", "040000": "it is a folder"}


def of_base(mirror: Mirror, base_sha: str, files: Sequence[File], block_priority: int) -> Effective:
    """What holds for a review of `files` against the commit `base_sha`; `block_priority` is the appliance's own.

    Raises GitError.
    """
    paths, unseen = places(files)
    entries = mirror.entries(base_sha, paths)
    read = (CONFIG, *[path for path in entries if path != CONFIG][: MAX_NESTED + 1])
    found = {path: _found(mirror, entry) if path in read else Found() for path, entry in entries.items()}
    return effective(found, files, block_priority, unseen)


def _found(mirror: Mirror, entry: Entry) -> Found:
    if not entry.regular:
        return Found(problem=_KINDS.get(entry.mode, f"it has the mode {entry.mode}"))
    if entry.size > MAX_READ:
        return Found(problem=f"it has {entry.size} bytes, more than {MAX_READ}")
    return Found(mirror.content(entry))
