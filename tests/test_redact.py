"""Secrets of every known shape go, and what only looks like one stays."""

import base64
import random
import string
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from appliance.core.redact import GONE, forms, redact

PROJECT = Path(__file__).parent.parent
dice = random.Random(7)


def any_of(alphabet: str, count: int) -> str:
    """Random, with a digit and both cases where the alphabet has them."""
    kinds = [next(char for char in alphabet if char in kind) for kind in KINDS if set(kind) & set(alphabet)]
    return "".join([*dice.choices(alphabet, k=count - len(kinds)), *kinds])


WORDS = string.ascii_letters + string.digits
URLSAFE = WORDS + "_-"
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
KINDS = (string.digits, string.ascii_uppercase, string.ascii_lowercase)
JWT = f"eyJ{any_of(WORDS, 20)}.eyJ{any_of(URLSAFE, 60)}.{any_of(URLSAFE, 43)}"
PEM_BODY = "\n".join(any_of(WORDS + "+/", 64) for _ in range(12))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----"
# What is to go, and a text that it stands in.
SECRETS = {
    "GitHub classic": f"ghp_{any_of(WORDS, 36)}",
    "GitHub OAuth": f"gho_{any_of(WORDS, 36)}",
    "GitHub App user": f"ghu_{any_of(WORDS, 36)}",
    "GitHub App installation, long and with dots": f"ghs_{any_of(WORDS, 200)}.{any_of(URLSAFE, 290)}",
    "GitHub refresh": f"ghr_{any_of(WORDS, 76)}",
    "GitHub fine-grained": f"github_pat_{any_of(WORDS, 22)}_{any_of(WORDS, 59)}",
    "GitLab": f"glpat-{any_of(URLSAFE, 20)}",
    "OpenAI": f"sk-{any_of(WORDS, 48)}",
    "OpenAI project": f"sk-proj-{any_of(URLSAFE, 100)}",
    "OpenAI service account": f"sk-svcacct-{any_of(URLSAFE, 100)}",
    "Anthropic": f"sk-ant-api03-{any_of(URLSAFE, 95)}",
    "AWS": f"AKIA{any_of(UPPER, 16)}",
    "AWS, passing": f"ASIA{any_of(UPPER, 16)}",
    "Google": f"AIza{any_of(URLSAFE, 35)}",
    "Google OAuth": f"ya29.{any_of(URLSAFE, 60)}",
    "Slack": f"xoxb-{any_of(string.digits, 12)}-{any_of(string.digits, 12)}-{any_of(WORDS, 24)}",
    "Slack app": f"xapp-1-{any_of(UPPER, 10)}-{any_of(string.digits, 12)}-{any_of(HEX, 64)}",
    "Stripe": f"sk_live_{any_of(WORDS, 24)}",
    "Stripe, restricted": f"rk_live_{any_of(WORDS, 24)}",
    "npm": f"npm_{any_of(WORDS, 36)}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{any_of(URLSAFE, 120)}",
    "Docker": f"dckr_pat_{any_of(URLSAFE, 27)}",
    "Hugging Face": f"hf_{any_of(WORDS, 34)}",
    "DigitalOcean": f"dop_v1_{any_of(HEX, 64)}",
    "SendGrid": f"SG.{any_of(URLSAFE, 22)}.{any_of(URLSAFE, 43)}",
    "Shopify": f"shpat_{any_of(HEX, 32)}",
    "Telegram": f"{any_of(string.digits, 10)}:AA{any_of(URLSAFE, 33)}",
    "Vault": f"hvs.{any_of(URLSAFE, 90)}",
    "age": f"AGE-SECRET-KEY-1{any_of(UPPER, 58)}",
    "JWT": JWT,
}


@pytest.mark.parametrize("text", ["{}", "The key `{}` is in the file.", '"{}"', "KEY={}\n", "({})", "a {}, b", "x:{}."])
@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_of_a_known_shape_goes_and_its_beginning_stays(name: str, text: str) -> None:
    secret = SECRETS[name]
    told = redact(text.format(secret))
    assert secret[:4] + GONE in told
    for start in range(4, len(secret) - 12, 8):
        assert secret[start : start + 12] not in told
    assert redact(told) == told


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        (PEM, PEM_BODY[70:100]),
        (PEM.replace("\n", "\\n"), PEM_BODY[70:100]),
        (PEM.replace("RSA ", ""), PEM_BODY[70:100]),
        (PEM.replace("\n", "\n+ "), PEM_BODY[70:100]),
        (PEM.partition("-----END")[0] + "and no end", PEM_BODY[70:100]),
        ("https://bob:correct-horse@example.com/x", "correct-horse"),
        ("postgresql+psycopg://app:S3cr3t@db:5432/app", "S3cr3t"),
        ("git clone https://x-access-token:abc123def456@github.com/o/r", "abc123def456"),
        ("Authorization: Bearer abcdef1234567890ABCDEF", "1234567890ABC"),
        ("authorization: basic dXNlcjpwYXNzd29yZDEyMw==", "pwYXNzd29y"),
        ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=" + "aB3+" * 21 + "aA==;", "aB3+aB3+aB3"),
        ("https://a.blob.core.windows.net/c?sv=1&sig=" + "aB3%2F" * 8, "aB3%2FaB3%2F"),
        ("https://hooks.slack.com/services/T0000/B0000/abcdefghijklmnop", "abcdefghijkl"),
        ('{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\n' + "aB3d" * 16, "aB3daB3d"),
    ],
)  # fmt: skip
def test_keys_passwords_in_addresses_and_headers_go(text: str, gone: str) -> None:
    assert gone in text
    told = redact(text)
    assert gone not in told and GONE in told
    assert redact(told) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('password = "hunter2-and-more"', 'password = "hunt[redacted]"'),
        ("DB_PASSWORD: 'S3cret!S3cret!'", "DB_PASSWORD: 'S3cr[redacted]'"),
        ('"client_secret": "aX9-kk21mmZZ"', '"client_secret": "aX9-[redacted]"'),
        ('{\\"api_key\\": \\"aX9-kk21mmZZ\\"}', '{\\"api_key\\": \\"aX9-[redacted]\\"}'),
        (':secret_token => "aX9kk21mmZZq"', ':secret_token => "aX9k[redacted]"'),
        ('apiKey := "aX9kk21mmZZq"', 'apiKey := "aX9k[redacted]"'),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPx", "AWS_SECRET_ACCESS_KEY=wJal[redacted]"),
        ("the token is `aX9kk21mmZZq`", "the token is `aX9k[redacted]`"),
        ('settings["password"] = "aX9kk21mmZZq"', 'settings["password"] = "aX9k[redacted]"'),
        ('password = "hunter2x"', 'password = "hu[redacted]"'),
        ('salt = "q8Zt2Kf9Lw3Xv7Rb1Nc5"', 'salt = "q8Zt[redacted]"'),
    ],
)
def test_what_a_configuration_sets_goes_and_its_place_can_be_found(text: str, told: str) -> None:
    assert redact(text) == told
    assert redact(told) == told


ORDINARY = [
    "Commit 1494f30a9e22fea6350e7d7f4df803cdccd9b06f9 moves it; see 9b06f94.",
    '"1494f30a9e22fea6350e7d7f4df803cdccd9b06f94"',
    "`d07f2961c2069edbf89210677c92ba7d7e346102533bf24d4eaed6af8ba0fa81c2`",
    '"id": "3f2504e0-4f89-41d3-9a0c-0305e82c3301"',
    "--hash=sha256:aa5fbabc4a95f0a4a1b7d0b4e1a43fcdbe0d2c6b4e4a5ef8a2e9a8d7c1f1b3c2",
    '"integrity": "sha512-nM1k3Y8JcM1Q2c8gq6VtXc0JmWnZyC2YkT0fQ8v3l1kqR9w4l5o2P7s8t9u0v1w2x3y4z5A6B7C8D9E0F1G2H3=="',
    "golang.org/x/net v0.17.0 h1:pVaXccu2ozPjCXewfr1S7xza/zcXTity9cCdXQYSjIM=",
    "token = lexer.next_token()",
    'token = "identifier"',
    "password = getpass()",
    'password: str = Field(default="")',
    'api_key = os.environ["OPENAI_API_KEY"]',
    'password = "${DB_PASSWORD}"',
    "password: '{{ vault_password }}'",
    'secret = "<your-secret-here>"',
    "GITHUB_TOKEN=github_pat_…",
    "OPENAI_API_KEY=sk-…",
    'private_key = "/etc/ssl/private/server2.key"',
    'token_url = "https://auth.example.com/oauth2/token"',
    'secrets_url: f"{self.url}/secrets1"',
    "`getUserAccountFromDatabaseWithRetry3` in `src/app/UserAccount2Service.java`",
    '"BSD-3-Clause-No-Nuclear-License-2014"',
    "Bearer authentication is checked in middleware_of_the_second_kind.",
    "basic internationalization",
    "sk-learn, sk-learn-contrib-something-very-long",
    "The header `-----BEGIN RSA PRIVATE KEY-----` is looked for.",
    "see https://example.com:8080/a?b=c@d and git@github.com:octo/shop.git",
    "https://example.com/a:b@c",
    "version 1.2.3-rc4+build5, 10.0.0.1:8080, 0xdeadbeef, #a1b2c3, UTF-8, ISO-8859-1",
    "for (let i = 0; i < tokens.length; i++) { token = tokens[i] }",
    '"aaaaaaaaaaaaaaaaaaaaaaaa" and "========================"',
    'const ALPHABET = "abcdefghijklmnopqrstuvwxyz"',
    "iVBORw0KGgo is how a PNG begins",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_what_an_ordinary_review_says_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "LICENSE", "requirements-dev.lock", "compose.yaml"])
def test_whole_files_of_ordinary_text_stay(name: str) -> None:
    text = (PROJECT / name).read_text(encoding="utf-8")
    assert redact(text) == text


OURS = "gate-Key_that+looks/like no shape%at all"


@pytest.mark.parametrize("before", ["", "x", "xy", "x-access-token:"])
def test_our_own_go_in_every_spelling(before: str) -> None:
    both = f"{before}{OURS}:after".encode()
    spelled = [
        OURS,
        quote(OURS),
        quote(OURS, safe=""),
        OURS.encode().hex(),
        base64.b64encode(both).decode(),
        base64.urlsafe_b64encode(both).decode(),
    ]
    for text in spelled:
        told = redact(f"it says {text}, twice {text}", forms(OURS))
        assert told.count(GONE) == 2
        for start in range(0, len(OURS) - 10, 5):
            piece = OURS[start : start + 10]
            assert piece not in told and piece.encode().hex() not in told
        assert len(told) < 120  # no more than the ends of a base64 are left


@pytest.mark.parametrize("kept", [16, 20, len(OURS) - 1])
def test_the_beginning_of_one_of_ours_goes_too(kept: int) -> None:
    """A message that was cut in the middle of it."""
    assert redact(f"says {OURS[:kept]}", forms(OURS)) == f"says {GONE}"
    assert redact(f"says {OURS[:kept]}… and {OURS}", forms(OURS)) == f"says {GONE}… and {GONE}"
    assert redact(OURS[:8], forms(OURS)) == OURS[:8]


def test_two_that_begin_alike_both_go() -> None:
    one, two = "sk-proj-of-the-same-place-0001", "sk-proj-of-the-same-place-0002"
    for known in ((*forms(one), *forms(two)), (*forms(two), *forms(one))):
        assert redact(f"{one} {two} {two.encode().hex()}", known) == f"{GONE} {GONE} {GONE}"


def test_a_value_too_short_to_be_told_from_words_is_none() -> None:
    assert forms("test") == ()
    assert redact("a test", forms("test")) == "a test"


@pytest.mark.parametrize(
    "piece", ["-----BEGIN PRIVATE KEY-----", "eyJ", "password=", "a://b:", "bearer ", "sk-", "'", "SG.", "aB3-"]
)
def test_no_text_takes_long(piece: str) -> None:  # fmt: skip
    began = time.process_time()
    redact(piece * (65_000 // len(piece)))
    redact(piece + "a" * 65_000)
    redact(piece + "aB3-" * 16_000)
    assert time.process_time() - began < 10


def test_many_keys_that_never_end_take_no_longer_than_other_text() -> None:
    """While one is searched nothing else runs, and a summary may have a megabyte."""
    began = time.process_time()
    redact("-----BEGIN PRIVATE KEY-----" * 32_000)
    assert time.process_time() - began < 4  # a second; each searched up to 9,000 characters, ten
