"""Git: a hardened door for it, one mirror per repository, kept checkouts."""

from appliance.git.bounds import LeftOut
from appliance.git.changes import ChangedFile
from appliance.git.errors import GitError, Superseded
from appliance.git.hardened import git
from appliance.git.mirror import Mirror, Mirrors
from appliance.git.names import check_ref, check_sha, directory_name
from appliance.git.slots import Slot, Slots

__all__ = [
    "ChangedFile",
    "GitError",
    "LeftOut",
    "Mirror",
    "Mirrors",
    "Slot",
    "Slots",
    "Superseded",
    "check_ref",
    "check_sha",
    "directory_name",
    "git",
]
