"""The key that signs our markers, and the digest that tells one login from another."""

import hashlib
import os
import secrets
from pathlib import Path

KEY_BYTES = 32


def signing_key(path: Path) -> bytes:
    """The key at `path`, made on the first call. Raises OSError, and ValueError for a damaged one.

    It stands beside the database, not in it: a lost database must not make our own comments foreign.
    """
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        _make(path)
        key = path.read_bytes()
    if len(key) != KEY_BYTES:
        raise ValueError(f"{path} is damaged: {len(key)} bytes instead of {KEY_BYTES}; restore it from a backup")
    return key


def _make(path: Path) -> None:
    """Write a new key whole or not at all; of two processes the first wins."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    try:
        path.hardlink_to(aside)
    except FileExistsError:
        pass
    finally:
        aside.unlink()


def digest(*parts: str) -> str:
    """A digest that changes when any of `parts` does, and tells none of them."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
