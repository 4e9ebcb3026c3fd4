"""Fixtures, which conftest.py takes in as a plugin."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from . import FakeGitHub
from .openapi import violations


@pytest.fixture
def fake_github(tmp_path: Path) -> Iterator[FakeGitHub]:
    """A running fake. At the end of the test every exchange is held against GitHub's own description."""
    with FakeGitHub(tmp_path / "github") as github:
        yield github
        assert violations(github.exchanges) == []
