"""The files that differ between two commits."""

from collections.abc import Iterator
from dataclasses import dataclass

ARGS = ("diff", "--raw", "--numstat", "-z", "-M", "--no-abbrev", "--no-color")


@dataclass(frozen=True)
class ChangedFile:
    """One file of a diff, under its name in the head.

    `status` is git's letter: A, M, D, R, C or T (another type: a symlink became a file). `added` and `deleted` count
    lines, None for a binary file. `mode` is git's six octal digits in the head (`120000` a symlink, `160000` a
    submodule; of the base for a deleted file), `blob` the object there. Bytes of a path that are not UTF-8 stand as
    `\\xff` in `path`, which is for people; `raw` is the path as git knows it. `old_mode` and `old_blob` are those in
    the base, empty for a new file.
    """

    path: str
    old_path: str | None
    status: str
    added: int | None
    deleted: int | None
    mode: str = ""
    blob: str = ""
    raw: bytes = b""
    old_mode: str = ""
    old_blob: str = ""


def text_of(path: bytes) -> str:
    """A path as people read it."""
    return path.decode("utf-8", "backslashreplace")


def parse(raw: bytes) -> tuple[ChangedFile, ...]:
    """The output of `git diff` with ARGS: first all raw records, then all numstat records, in the same order."""
    fields = iter(raw.split(b"\0"))
    records: list[tuple[str, tuple[str, str], tuple[str, str], bytes | None, bytes]] = []
    field = next(fields, b"")
    while field.startswith(b":"):
        old_mode, mode, old_blob, blob, status = field[1:].decode().split(" ")
        old = next(fields) if status[0] in "RC" else None
        was, now = (old_mode, old_blob), (mode, blob)
        records.append(
            (status[0], ("", "") if status[0] == "A" else was, was if status[0] == "D" else now, old, next(fields))
        )
        field = next(fields, b"")
    counts = dict(_counts(field, fields))
    return tuple(
        ChangedFile(
            path=text_of(path),
            old_path=None if old is None else text_of(old),
            status=status,
            added=counts.get(path, (None, None))[0],
            deleted=counts.get(path, (None, None))[1],
            mode=now[0],
            blob=now[1],
            raw=path,
            old_mode=was[0],
            old_blob=was[1],
        )
        for status, was, now, old, path in records
    )


def _counts(field: bytes, fields: Iterator[bytes]) -> Iterator[tuple[bytes, tuple[int | None, int | None]]]:
    while field:
        added, deleted, path = field.split(b"\t", 2)
        if not path:  # a rename: the two names follow in fields of their own
            next(fields)
            path = next(fields)
        yield path, (_count(added), _count(deleted))
        field = next(fields, b"")


def _count(field: bytes) -> int | None:
    return None if field == b"-" else int(field)
