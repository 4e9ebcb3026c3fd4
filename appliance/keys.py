"""The key that signs our markers, and the digest that tells one login from another."""

import contextlib
import hashlib
import os
import secrets
import tempfile
from pathlib import Path

import structlog

from appliance import redaction

log = structlog.get_logger()

KEY_BYTES = 32


class LostKey(ValueError):
    """The key that signed the reviews so far is not there; the message says what is."""


def signing_key(path: Path, *, passing: bool = False) -> bytes:
    """The key at `path`, made on the first call. Raises OSError, and ValueError for a damaged one.

    It stands beside the database, not in it: a lost database must not make our own comments foreign. `passing`: it
    signs nothing, so that it was made is not told.
    """
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        _make(path)
        if not passing:
            log.info("signing-key.made", path=str(path), text="reviews signed with another key are not ours any more")
        key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise ValueError(f"{path} is damaged: {len(key)} bytes instead of {KEY_BYTES}; restore it from a backup")
    redaction.keep_secret(key)
    return key


def _make(path: Path) -> None:
    """Write a new key whole or not at all; of two processes the first wins."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # 0600; a pid would come again
    aside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(aside)
    finally:
        aside.unlink()


def digest(*parts: str) -> str:
    """A digest that changes when any of `parts` does, and tells none of them."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
