"""A GitHub App for tests: its key, the fake that knows it, and the forge that signs in as it."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fake_github import FakeGitHub
from fake_github.clients import CONTEXT, Clock, MemoryEtags
from fake_github.state import App

from appliance.forge.github_installations import GitHubInstallations

ID = 4711
GRANTED = {
    "metadata": "read",
    "contents": "read",
    "pull_requests": "write",
    "issues": "write",
    "checks": "write",
    "statuses": "write",
}


@cache
def key(number: int = 0) -> RSAPrivateKey:
    """One of some keys; they are slow to make."""
    return generate_private_key(65537, 2048)


def pem(number: int = 0) -> str:
    """As GitHub hands it out: PKCS#1."""
    return key(number).private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()


def add_app(
    github: FakeGitHub, app_id: int = ID, number: int = 0, permissions: Mapping[str, str] = GRANTED, **owners: int
) -> App:
    """An App with the key of this number, installed for these owners."""
    modulus = key(number).public_key().public_numbers().n
    return github.add_app(app_id, modulus, installations=owners or {"octo": 77}, permissions=permissions)


def as_app(github: FakeGitHub, *repositories: str, clock: Clock | None = None, **options: Any) -> GitHubInstallations:
    """A forge that signs in as the App; with a `clock` it never really sleeps."""
    clock = clock or Clock(github.now())
    defaults: dict[str, Any] = {
        "api_url": github.url,
        "app_id": ID,
        "key": pem(),
        "repositories": repositories or ("octo/app",),
        "context": CONTEXT,
        "etags": MemoryEtags(),
        "clock": clock,
        "sleep": clock.sleep,
    }
    return GitHubInstallations(**{**defaults, **options})
