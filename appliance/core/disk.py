"""A disk that is full is one cause, whoever met it and in whatever words."""

import errno
import re

from appliance.core.faults import Fault, named

FREE = (
    "free disk space for Docker's volumes (`docker system df`). The next try goes on by itself; "
    "`docker exec review-appliance appliance cycle` is one at once."
)
FREE_TMP = (
    "empty it with `docker restart review-appliance`: it is a tmpfs of the container. If it fills again, give "
    "compose.yaml's `tmpfs: /tmp` a larger size and run `docker compose up -d --force-recreate`. The next try goes on "
    "by itself; `docker exec review-appliance appliance cycle` is one at once."
)
FREE_RUN = (
    "empty it with `docker restart review-appliance`: it is a tmpfs of the container, and a few KB of it are used. If "
    "it fills again, report it."
)
NO_TMP = "No usable temporary directory"  # Python's words, whether it is missing, read-only or full

_WORDS = re.compile(r"No space left on device|Disk quota exceeded|disk is full")  # the system's, and SQLite's
_NUMBERS = {errno.ENOSPC, errno.EDQUOT}


def shortage(said: str, number: int | None = None, tmp: object = None) -> Fault | None:
    """What it is if an error tells of a full disk, or of no /tmp; None if it tells of something else.

    `said` is its text, `number` its errno, `tmp` the fact of that name (`appliance.facts`).
    """
    if NO_TMP in said and tmp != "full":
        return named("no-tmp-dir", said, {} if tmp is None else {"tmp": tmp})
    if NO_TMP not in said and number not in _NUMBERS and not _WORDS.search(said):
        return None
    if "'/run/" in said:
        return Fault("disk-full", "The container's /run is full.", FREE_RUN, said)
    elsewhere = "'/" in said and "'/tmp" not in said
    if "'/tmp" in said or (tmp == "full" and not elsewhere):
        return Fault("disk-full", "The container's /tmp is full.", FREE_TMP, said)
    return Fault("disk-full", "The disk is full.", FREE, said)
