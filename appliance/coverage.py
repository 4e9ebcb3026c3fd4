"""Which of the changed files nobody can read as they are, and why."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.coverage import NOT_LOOKED_AT, is_text
from appliance.core.findings import NotSeen
from appliance.core.instructions import Effective
from appliance.git import LeftOut, Mirror
from appliance.git.bounds import SUBMODULE
from appliance.git.changes import ChangedFile
from appliance.git.mirror import Entry

# The whole of one, as git-lfs writes it: what only begins so can be a script, which nobody is to take for a pointer.
POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:ext-\d-[\w.-]+ sha256:[0-9a-f]{64}\n){0,10}"
    rb"oid sha256:[0-9a-f]{64}\nsize \d+\n?"
)
POINTER_LINES = 13  # at most; three, and one more for each extension
MAX_POINTER = 1024  # bytes
MAX_POINTERS = 200  # files that are looked into; more in one change are named as what they are by git: text

MAX_BINARIES = 1000  # files that git calls binary and that are looked into; further ones are not known to be so
MAX_BINARY_BYTES = 1024**3  # of all of them


def unread(
    mirror: Mirror, changes: Sequence[ChangedFile], held: Effective, left_out: Sequence[LeftOut]
) -> list[NotSeen]:
    """What is left out of a review of `changes`: by the base branch's rules, for its kind, or for its size.

    Only the base branch says that a file is generated; what a file says of itself is not looked at. A text that git
    takes for binary, for a NUL byte in it, is not looked at, which is no success. Raises GitError.
    """
    found = {file.path: NotSeen(file.path, "rule", "left out by the base branch's rules") for file in held.left_out}
    found |= {file.path: NotSeen(file.path, "generated", "the base branch says so") for file in held.generated}
    found |= {one.path: NotSeen(one.path, "too-large", one.why) for one in left_out if one.path not in found}
    pointers = 0
    binaries = _Binaries(mirror)
    for file in changes:
        if file.path in found:
            continue
        if SUBMODULE in (file.mode, file.old_mode):
            found[file.path] = NotSeen(file.path, "submodule", "its commit is named, its files are not here")
        elif file.added is None:
            found[file.path] = binaries.named(file)
        elif file.status != "D" and 0 < file.added <= POINTER_LINES and pointers < MAX_POINTERS:
            pointers += 1
            content = mirror.content(Entry(file.mode, file.blob, 0))
            if len(content) <= MAX_POINTER and POINTER.fullmatch(content):
                found[file.path] = NotSeen(file.path, "lfs", "LFS pointer")
    return list(found.values())


@dataclass
class _Binaries:
    """Those of one change, each looked into. Nothing of an attribute is in that: git is told to ask for none."""

    mirror: Mirror
    files: int = 0
    size: int = 0

    def named(self, file: ChangedFile) -> NotSeen:
        if file.status == "D" or file.blob == file.old_blob:
            return NotSeen(file.path, "binary", "binary")
        if self.files >= MAX_BINARIES or self.size >= MAX_BINARY_BYTES:
            return NotSeen(file.path, NOT_LOOKED_AT, "more binary files than are looked into")
        content = self.mirror.content(Entry(file.mode, file.blob, 0))
        self.files += 1
        self.size += len(content)
        if is_text(file.path, content):
            return NotSeen(file.path, NOT_LOOKED_AT, "a text that git takes for binary: it has NUL bytes")
        return NotSeen(file.path, "binary", "binary")
