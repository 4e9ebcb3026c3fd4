"""The key that signs our markers."""

import multiprocessing
import os
from pathlib import Path

import pytest

from appliance.keys import KEY_BYTES, digest, signing_key


def test_it_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "signing.key"
    key = signing_key(path)
    assert len(key) == KEY_BYTES
    assert signing_key(path) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert signing_key(tmp_path / "other.key") != key
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other.key", "signing.key"]


@pytest.mark.parametrize("damaged", [b"", b"short", b"x" * 33])
def test_a_damaged_key_is_not_replaced(damaged: bytes, tmp_path: Path) -> None:
    path = tmp_path / "signing.key"
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="damaged"):
        signing_key(path)
    assert path.read_bytes() == damaged


def test_what_a_crash_left_behind_does_not_matter(tmp_path: Path) -> None:
    """In a container the next process has the same pid."""
    (tmp_path / f".signing.key.{os.getpid()}").write_bytes(b"half")
    assert len(signing_key(tmp_path / "signing.key")) == KEY_BYTES


def test_a_directory_that_takes_no_file_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        signing_key(tmp_path / "absent" / "signing.key")


def test_two_processes_get_the_same_key(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(signing_key, [tmp_path / "signing.key"] * 4)
    assert len(set(found)) == 1


def test_a_digest_tells_nothing_and_parts_do_not_run_together() -> None:
    assert digest("sk-secret", "u") != digest("sk-secretu", "")
    assert "secret" not in digest("sk-secret")
