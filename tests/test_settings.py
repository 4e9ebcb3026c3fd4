"""Every setting has its effect, is refused when bad, and hides what is secret (DESIGN section 12)."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from apps import ID, key, pem
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from fake_github import FakeGitHub, Token
from pydantic import SecretStr

from appliance import redaction
from appliance.core.pulls import Policy
from appliance.core.verdict import WAITING
from appliance.forge import ForgeError
from appliance.settings import Settings, SettingsError, effective, load, names, unknown
from appliance.wiring import Appliance, appliance, surroundings

ROOT = Path(__file__).parents[1]
CONTRACT = {
    "GITHUB_TOKEN": "(set, hidden)",
    "APPLIANCE_GITHUB_APP_ID": "",
    "APPLIANCE_GITHUB_APP_KEY": "",
    "APPLIANCE_GITHUB_URL": "https://api.github.com",
    "APPLIANCE_REPOSITORIES": "",
    "APPLIANCE_LOCAL_REPOSITORIES": "",
    "OPENAI_API_KEY": "(set, hidden)",
    "APPLIANCE_MODEL_URL": "https://api.openai.com/v1",
    "APPLIANCE_MODEL": "gpt-5.5",
    "APPLIANCE_REASONING_EFFORT": "high",
    "APPLIANCE_JUDGE_MODEL": "",
    "APPLIANCE_INTERVAL": "300",
    "APPLIANCE_REVIEW_TIMEOUT": "1800",
    "APPLIANCE_MAX_ATTEMPTS": "3",
    "APPLIANCE_REVIEWS_AT_ONCE": "2",
    "APPLIANCE_BLOCK_PRIORITY": "P1",
    "APPLIANCE_STATUS_CONTEXT": "codex-review",
    "APPLIANCE_AUTHOR_ASSOCIATIONS": "OWNER,MEMBER,COLLABORATOR,CONTRIBUTOR",
    "APPLIANCE_REVIEW_EVENT": "comment",
    "APPLIANCE_COMMENT_MODE": "new",
    "APPLIANCE_MAX_ROUNDS": "5",
    "APPLIANCE_SKIP_LABELS": "",
    "APPLIANCE_REQUIRE_LABEL": "",
    "APPLIANCE_FIRST_LABEL": "",
    "APPLIANCE_WAIT_FOR_CHECKS": "",
    "APPLIANCE_QUIET_PERIOD": "0",
    "APPLIANCE_SCHEDULE": "",
    "APPLIANCE_REVIEWS_PER_AUTHOR": "0",
}
SECRETS = ("GITHUB_TOKEN", "APPLIANCE_GITHUB_APP_KEY", "OPENAI_API_KEY")
SUNDAY_NIGHT = 1_795_917_600.0  # 2026-11-29 02:00 UTC


def settings(**environment: str) -> Settings:
    return load(environment, None)


def refused(environment: Mapping[str, str], dotenv: Path | None = None) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(environment, dotenv)
    return str(caught.value).splitlines()


def test_names_and_defaults_are_the_contract() -> None:
    shown = effective(settings(GITHUB_TOKEN="t", OPENAI_API_KEY="k"))
    assert {name: shown.get(name) for name in CONTRACT} == CONTRACT
    unset = effective(settings())
    assert all(unset[name] == "" for name in SECRETS)
    assert Settings(**{}).policy == Policy()


# ---- the effect of each


@pytest.fixture
def parts(tmp_path: Path, fake_github: FakeGitHub) -> Iterator[Callable[..., Appliance]]:
    """Wires an appliance with the given settings, in front of a fake GitHub."""
    fake_github.tokens = {"one": Token("bot"), "two": Token("bot", sees=frozenset({"octo/lib"}))}
    for name in ("octo/app", "octo/lib"):
        fake_github.add_repository(name, private=True)
        fake_github.add_pull(name, "feature", files={"a": "1\n"})
    open_parts: list[Any] = []

    def wire(**environment: str) -> Appliance:
        base = {
            "APPLIANCE_STATE_DIR": str(tmp_path / "state"),
            "APPLIANCE_RUN_DIR": str(tmp_path / "run"),
            "APPLIANCE_GITHUB_URL": fake_github.url,
            "APPLIANCE_REPOSITORIES": "octo/app",
            "GITHUB_TOKEN": "one",
            "OPENAI_API_KEY": "key",
        }
        manager = appliance(load(base | environment, None))
        open_parts.append(manager)
        return manager.__enter__()

    yield wire
    for manager in open_parts:
        manager.__exit__(None, None, None)


def sees(wired: Appliance, _: FakeGitHub) -> list[str]:
    found = []
    for name in ("octo/app", "octo/lib"):
        with suppress(ForgeError):
            wired.github().pulls(name)
            found.append(name)
    return found


def used_context(wired: Appliance, github: FakeGitHub) -> str:
    forge = wired.github()
    forge.set_gate(forge.pulls("octo/app")[0], WAITING)
    return github.repository("octo/app").statuses[-1].context


def blocks(wired: Appliance, _: FakeGitHub) -> list[int]:
    return [wired.cycle().keeper.block_priority, wired.delivery.block_priority]


def kinds(wired: Appliance, _: FakeGitHub) -> list[str]:
    return [forge.name for forge in wired.forges()]


def where(wired: Appliance, _: FakeGitHub) -> list[str]:
    return [name for forge in wired.forges() for name in forge.repositories()]


HALVES = {"APPLIANCE_GITHUB_APP_ID": {"APPLIANCE_GITHUB_APP_KEY": pem()},
          "APPLIANCE_GITHUB_APP_KEY": {"APPLIANCE_GITHUB_APP_ID": "77"}}  # fmt: skip
EFFECTS: dict[str, tuple[str, Callable[[Appliance, FakeGitHub], object], object, object]] = {
    "GITHUB_TOKEN": ("two", sees, ["octo/app", "octo/lib"], ["octo/lib"]),
    "APPLIANCE_GITHUB_APP_ID": ("4711", lambda it, _: repr(it.github()), "GitHubForge({url}, octo/app)",
                                "GitHubInstallations(App 4711, octo/app)"),
    "APPLIANCE_GITHUB_APP_KEY": (pem(), lambda it, _: it.settings.github_app_key, None, SecretStr(pem())),
    "APPLIANCE_GITHUB_URL": ("https://ghe.example/api/v3", lambda it, _: "ghe." in repr(it.github()), False, True),
    "APPLIANCE_REPOSITORIES": ("octo/*", where, ["octo/app"], ["octo/app", "octo/lib"]),
    "APPLIANCE_LOCAL_REPOSITORIES": ("/srv", kinds, ["github"], ["github", "local"]),
    "OPENAI_API_KEY": ("other", lambda it, _: it.model(rehearse=False).upstream.headers["authorization"],
                       "Bearer key", "Bearer other"),
    "APPLIANCE_MODEL_URL": ("http://model/v1/", lambda it, _: it.model(rehearse=False).upstream.base_url,
                            "https://api.openai.com/v1", "http://model/v1"),
    "APPLIANCE_MODEL": ("o9", lambda it, _: it.model(rehearse=False).name, "gpt-5.5", "o9"),
    "APPLIANCE_REASONING_EFFORT": ("low", lambda it, _: it.model(rehearse=False).effort, "high", "low"),
    "APPLIANCE_JUDGE_MODEL": ("o9", lambda it, _: it.settings.judge_model, None, "o9"),
    "APPLIANCE_INTERVAL": ("4", lambda it, _: it.cycle().interval, 300, 4),
    "APPLIANCE_REVIEW_TIMEOUT": ("60", lambda it, _: it.reviewer(rehearse=False).timeout, 1800, 60),
    "APPLIANCE_MAX_ATTEMPTS": ("5", lambda it, _: it.cycle().policy.max_attempts, 3, 5),
    "APPLIANCE_REVIEWS_AT_ONCE": ("7", lambda it, _: it.cycle().reviews_at_once, 2, 7),
    "APPLIANCE_BLOCK_PRIORITY": ("p2", blocks, [1, 1], [2, 2]),
    "APPLIANCE_STATUS_CONTEXT": ("ci/codex", used_context, "codex-review", "ci/codex"),
    "APPLIANCE_AUTHOR_ASSOCIATIONS": ("owner, None", lambda it, _: it.cycle().policy.author_associations,
                                      Policy().author_associations, frozenset({"OWNER", "NONE"})),
    "APPLIANCE_COMMENT_MODE": ("edit", lambda it, _: it.delivery.comments, "new", "edit"),
    "APPLIANCE_MAX_ROUNDS": ("0", lambda it, _: it.delivery.max_rounds, 5, 0),
    "APPLIANCE_REVIEW_EVENT": ("approve", lambda it, _: it.delivery.events, "comment", "approve"),
    "APPLIANCE_SKIP_LABELS": ("wip, no review", lambda it, _: it.cycle().policy.skip_labels,
                              frozenset(), frozenset({"wip", "no review"})),
    "APPLIANCE_REQUIRE_LABEL": (" review me ", lambda it, _: it.cycle().policy.require_label, None, "review me"),
    "APPLIANCE_FIRST_LABEL": (" urgent ", lambda it, _: it.cycle().policy.first_label, None, "urgent"),
    "APPLIANCE_WAIT_FOR_CHECKS": ("ci / build, lint", lambda it, _: it.cycle().policy.wait_for_checks,
                                  (), ("ci / build", "lint")),
    "APPLIANCE_QUIET_PERIOD": ("90", lambda it, _: it.cycle().policy.quiet_period, 0, 90),
    "APPLIANCE_SCHEDULE": ("Mon-Fri 08:00-18:00 Europe/Berlin; Sat 22:00-06:00",
                           lambda it, _: [it.cycle().policy.schedule.open(SUNDAY_NIGHT + hours * 3600)
                                          for hours in (0, 12, 28, 31)],
                           [True] * 4, [True, False, False, True]),
    "APPLIANCE_REVIEWS_PER_AUTHOR": ("4", lambda it, _: it.cycle().policy.reviews_per_author, 0, 4),
}  # fmt: skip


def test_each_of_the_contract_is_proven_to_have_an_effect() -> None:
    assert EFFECTS.keys() == CONTRACT.keys()


@pytest.mark.parametrize("name", EFFECTS)
def test_effect(name: str, parts: Callable[..., Appliance], fake_github: FakeGitHub) -> None:
    value, look, before, after = EFFECTS[name]
    before = before.format(url=fake_github.url) if isinstance(before, str) else before
    assert look(parts(), fake_github) == before
    half = {**HALVES[name], "GITHUB_TOKEN": ""} if name in HALVES else {}
    assert look(parts(**{name: value}, **half), fake_github) == after


def test_a_changed_login_or_model_is_another_credential(parts: Callable[..., Appliance]) -> None:
    changed = ("OPENAI_API_KEY", "APPLIANCE_MODEL_URL", "APPLIANCE_MODEL", "APPLIANCE_REASONING_EFFORT")
    told = {parts(**({name: EFFECTS[name][0]} if name else {})).credentials() for name in ("", *changed)}
    assert len(told) == 5
    assert "key" not in "".join(told)


def test_what_is_missing_before_a_review_is_said(parts: Callable[..., Appliance]) -> None:
    causes = [
        getattr(parts(**given).no_login(), "cause", None)
        for given in (
            {},
            {"OPENAI_API_KEY": ""},
            {"GITHUB_TOKEN": ""},
            {"APPLIANCE_REPOSITORIES": ""},
            {"APPLIANCE_REPOSITORIES": "", "APPLIANCE_LOCAL_REPOSITORIES": "/srv", "OPENAI_API_KEY": ""},
        )
    ]
    assert causes == [None, "login", "forge-login", None, "login"]


def test_the_rehearsal_model_is_never_used_once_a_forge_is_configured(parts: Callable[..., Appliance]) -> None:
    assert parts(OPENAI_API_KEY="").cycle().reviewer.model.rehearsal is False
    assert settings(APPLIANCE_LOCAL_REPOSITORIES="/srv").rehearsal is False
    assert settings().rehearsal is True


# ---- what is refused

BAD = {
    "GITHUB_TOKEN": ["a b", "a\nb", "gëh", "a\x00b"],
    "APPLIANCE_GITHUB_APP_ID": ["0", "-1", "Iv23liAbCd", "1.5", "4711x"],
    "APPLIANCE_GITHUB_APP_KEY": ["ghp_secretsecret", "/run/secrets/app.pem", pem()[:-40], pem()[40:],
                                 pem().replace("M", "N", 1), pem().replace("RSA ", "", 1)],
    "OPENAI_API_KEY": ["sk a", "sk\r\nX-Evil: 1", "ключ"],
    "APPLIANCE_GITHUB_URL": ["api.github.com", "ftp://x", "https://", "https://u:p@x", "https://x?q", "http://[::1",
                             "http://h:99999", "http://h:x", "http://h:0", "http://h/ a", "file:///etc",
                             "https://github.com", "https://www.GitHub.com/octo"],
    "APPLIANCE_MODEL_URL": ["model", "https://x/v1#f", "http://h:99999/v1", "https://:443",
                            "https://x/v1/responses", "https://x/v1/responses/"],
    "APPLIANCE_REPOSITORIES": ["octo", "octo/", "/app", "*/*", "o/a/b", "octo/app octo/lib", "octo/..", "octo/.",
                               "-o/a", "https://github.com/o/a"],
    "APPLIANCE_MODEL": ["a b", "-x", 'x"', "x\ny"],
    "APPLIANCE_REASONING_EFFORT": ["huge", "HIGH "],
    "APPLIANCE_JUDGE_MODEL": ["a b", "-x", 'x"', "x\ny"],
    "APPLIANCE_INTERVAL": ["0", "-1", "soon", "nan", "inf", "86401", "5m", "3_00", "1e2", "+5", "٣٠٠"],
    "APPLIANCE_REVIEW_TIMEOUT": ["0", "nan", "1e9"],
    "APPLIANCE_MAX_ATTEMPTS": ["0", "2.5", "many", "101", "1_0"],
    "APPLIANCE_REVIEWS_AT_ONCE": ["0", "33", "two"],
    "APPLIANCE_BLOCK_PRIORITY": ["P4", "1", "high"],
    "APPLIANCE_STATUS_CONTEXT": ["x" * 256, "codex\nreview", "codex\x1b[31m", "codex\u2028review"],
    "APPLIANCE_AUTHOR_ASSOCIATIONS": ["FRIEND", ",", "OWNER,everyone"],
    "APPLIANCE_REVIEW_EVENT": ["APPROVE", "yes", "reject"],
    "APPLIANCE_COMMENT_MODE": ["Edit", "both"],
    "APPLIANCE_MAX_ROUNDS": ["-1", "many", "1.5"],
    "APPLIANCE_QUIET_PERIOD": ["-1", "86401", "2m"],
    "APPLIANCE_SCHEDULE": ["always", "8-18", "Mon-Fri 08:00-18:00 Europe/Nowhere", "08:00-08:00", "25:00-26:00"],
    "APPLIANCE_REVIEWS_PER_AUTHOR": ["-1", "1001", "few"],
    "APPLIANCE_GITHUB_API_VERSION": ["latest"],
    "APPLIANCE_STATE_DIR": ["rel", "./state"],
    "APPLIANCE_RUN_DIR": ["rel", "~/run"],
    "APPLIANCE_LOG_FORMAT": ["xml"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_bad_value_is_refused_by_its_name_with_what_it_is_and_what_to_type(name: str, value: str) -> None:
    [problem] = refused({name: value})
    field = next(field for field, known in names().items() if known == name)
    assert problem.endswith(f" cannot be used; type {Settings.model_fields[field].description}")
    assert problem.startswith(f"{name}: what it is set to " if name in SECRETS else f'{name}: "')
    assert name not in SECRETS or value not in problem


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("GITHUB_TOKEN", "a b", "what it is set to cannot be used; type the token alone, printable ASCII characters "
         "without spaces"),
        ("APPLIANCE_INTERVAL", "5m",
         '"5m" cannot be used; type a number of seconds from 1 to 86400, without a unit, such as 300'),
        ("APPLIANCE_INTERVAL", "0",
         '"0" cannot be used; type a number of seconds from 1 to 86400, without a unit, such as 300'),
        ("APPLIANCE_MAX_ATTEMPTS", "2.5", '"2.5" cannot be used; type a whole number from 1 to 100, such as 3'),
        ("APPLIANCE_TOKENS_PER_REVIEW", "10M",
         '"10M" cannot be used; type a whole number from 0 to 1000000000000, such as 10000000'),
        ("APPLIANCE_SCHEDULE", "Mon-Fri 08:00-18:00; weekends; 9-5", '"weekends", "9-5" cannot be used; type windows '
         "such as Mon-Fri 08:00-18:00 Europe/Berlin, several with ; between them"),
        ("APPLIANCE_LOG_FORMAT", "xml", '"xml" cannot be used; type text or json'),
        ("APPLIANCE_REPOSITORIES", "octo/app, octo, a b", '"octo", "a b" cannot be used; type owner/name or owner/*, '
         "several with commas between them"),
        ("APPLIANCE_REPOSITORIES", "a,b,c,d,e", '"a", "b", "c" and 2 more cannot be used; type owner/name or owner/*, '
         "several with commas between them"),
        ("APPLIANCE_GITHUB_URL", "ghe.example", '"ghe.example" cannot be used; type http:// or https:// with a host, '
         "without a user, a query or a fragment, such as https://api.github.com (GitHub Enterprise Server: "
         "https://HOST/api/v3)"),
        ("APPLIANCE_MODEL", "a\nb", '"a\\nb" cannot be used; type the name of a model, such as gpt-5.5'),
        ("APPLIANCE_LOCAL_REPOSITORIES", "work/x", '"work/x" cannot be used; type the whole path of a folder in the '
         "container, such as /repositories"),
    ],
)  # fmt: skip
def test_each_kind_of_bad_value_has_its_sentence(name: str, value: str, said: str) -> None:
    assert refused({name: value}) == [f"{name}: {said}"]


def test_the_limits_in_the_words_are_the_limits_in_force() -> None:
    for field, info in Settings.model_fields.items():
        found = re.search(r"number.* from (\d+) to (\d+)", info.description or "")
        assert info.description, field
        if found:
            least, most = found.groups()
            assert getattr(settings(**{names()[field]: least}), field) == int(least)
            assert getattr(settings(**{names()[field]: most}), field) == int(most)
            refused({names()[field]: str(int(least) - 1)})
            refused({names()[field]: str(int(most) + 1)})


def test_a_bad_value_of_a_file_is_told_with_its_file(tmp_path: Path) -> None:
    path = write(tmp_path / "value", "5m\n")
    [problem] = refused({"APPLIANCE_INTERVAL_FILE": path})
    assert problem.startswith(f'APPLIANCE_INTERVAL_FILE: {path}: "5m" cannot be used; type a number of seconds')
    [problem] = refused({"GITHUB_TOKEN_FILE": write(tmp_path / "token", "ghp_ secret")})
    assert problem.startswith(f"GITHUB_TOKEN_FILE: {tmp_path / 'token'}: what it is set to cannot be used; type the")
    assert "secret" not in problem


def test_all_problems_are_told_at_once() -> None:
    told = refused({name: values[0] for name, values in BAD.items()} | {"APPLIANCE_SKIP_LABELS_FILE": "/nope"})
    assert sorted(line.split(":")[0] for line in told) == sorted(
        [*BAD, "APPLIANCE_SKIP_LABELS_FILE", "GITHUB_TOKEN and APPLIANCE_GITHUB_APP_ID are both set"]
    )


def test_a_refusal_never_shows_a_secret() -> None:
    token = f"ghp_{'secret'}{'x1' * 15}"
    told = refused(
        {"GITHUB_TOKEN": "ghp_ secret", "OPENAI_API_KEY": "sk-secret x", "APPLIANCE_MODEL_URL": "https://u:secret@h"}
        | {"APPLIANCE_GITHUB_URL": "https://h/?token=secret", "APPLIANCE_REPOSITORIES": f"octo/app,{token}"}
    )
    whole = "\n".join(told)
    assert "secret" not in whole
    assert '"…@h"' in whole and '"https://h/?…"' in whole and '"ghp_[redacted]"' in whole


def test_empty_is_as_good_as_absent() -> None:
    assert load(dict.fromkeys(names().values(), ""), None) == settings()
    assert settings(GITHUB_TOKEN=" ", APPLIANCE_REQUIRE_LABEL="  ").github_token is None


def test_a_secret_is_in_no_repr() -> None:
    given = settings(GITHUB_TOKEN="ghp_hidden", OPENAI_API_KEY="sk-hidden")
    for shown in (repr(given), str(given), repr(effective(given)), repr(given.model_dump()), given.model_dump_json()):
        assert "hidden" not in shown.replace("(set, hidden)", "")


def test_no_part_of_a_wired_appliance_shows_a_secret(parts: Callable[..., Appliance]) -> None:
    wired = parts(GITHUB_TOKEN="two", OPENAI_API_KEY="sk-hidden")
    shown = repr(wired) + repr(wired.cycle()) + repr(wired.model(rehearse=False)) + repr(wired.github())
    assert "sk-hidden" not in shown
    assert "two" not in re.findall(r"[\w-]+", shown)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        settings().interval = 5


# ---- a GitHub App


def as_written(kind: str) -> str:
    """What GitHub gave, as files and environments carry it."""
    one = pem()
    return {
        "as it is": one,
        "without the last line end": one.strip(),
        "Windows": one.replace("\n", "\r\n"),
        "on one line": one.replace("\n", "\\n"),
        "on one line, of Windows": one.replace("\n", "\\r\\n"),
        "spaces": one.strip().replace("\n", " ").replace("BEGIN RSA", "BEGIN RSA"),
        "in quotes": f'"{one.strip()}"',
        "indented": "\n".join(f"    {line}" for line in one.splitlines()),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["as it is", "without the last line end", "Windows", "on one line", "on one line, of Windows", "spaces",
     "in quotes", "indented"],
)  # fmt: skip
@pytest.mark.parametrize("place", ["environment", "file", "dotenv"])
def test_a_key_may_be_written_as_environments_carry_it(kind: str, place: str, tmp_path: Path) -> None:
    text, dotenv, given = as_written(kind), None, {"APPLIANCE_GITHUB_APP_ID": str(ID)}
    if place == "file":
        given["APPLIANCE_GITHUB_APP_KEY_FILE"] = write(tmp_path / "app.pem", text)
    elif place == "environment":
        given["APPLIANCE_GITHUB_APP_KEY"] = text
    else:
        dotenv = tmp_path / ".env"
        quoted = text if text.startswith('"') else f'"{text}"'
        write(dotenv, f"APPLIANCE_GITHUB_APP_KEY={quoted}\n")
    found = load(given, dotenv).github_app_key
    assert found is not None and found.get_secret_value() == pem()


def test_pkcs8_is_a_key_too() -> None:
    text = key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    found = settings(APPLIANCE_GITHUB_APP_ID="1", APPLIANCE_GITHUB_APP_KEY=text).github_app_key
    assert found is not None and found.get_secret_value() == text


def no_keys() -> dict[str, str]:
    short = rsa.generate_private_key(65537, 1024)
    made: dict[str, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey] = {
        "of an elliptic curve": ec.generate_private_key(ec.SECP256R1()),
        "too short": short,
    }
    forms = PrivateFormat.PKCS8
    told = {name: each.private_bytes(Encoding.PEM, forms, NoEncryption()).decode() for name, each in made.items()}
    told["with a passphrase"] = key().private_bytes(Encoding.PEM, forms, BestAvailableEncryption(b"x")).decode()
    told["a public one"] = key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return told


@pytest.mark.parametrize("kind", ["of an elliptic curve", "too short", "with a passphrase", "a public one"])
def test_what_is_no_private_rsa_key_is_refused_in_one_sentence(kind: str) -> None:
    [problem] = refused({"APPLIANCE_GITHUB_APP_ID": "1", "APPLIANCE_GITHUB_APP_KEY": no_keys()[kind]})
    assert problem.startswith("APPLIANCE_GITHUB_APP_KEY: what it is set to cannot be used; type the App's private key")
    assert "APPLIANCE_GITHUB_APP_KEY_FILE" in problem


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"APPLIANCE_GITHUB_APP_ID": "1"}, "APPLIANCE_GITHUB_APP_KEY is not: set APPLIANCE_GITHUB_APP_KEY_FILE to"),
        ({"APPLIANCE_GITHUB_APP_KEY": pem()}, "APPLIANCE_GITHUB_APP_ID is not: set it to the App ID"),
        ({"APPLIANCE_GITHUB_APP_ID": "1", "APPLIANCE_GITHUB_APP_KEY": pem(), "GITHUB_TOKEN": "t"},
         "GITHUB_TOKEN and APPLIANCE_GITHUB_APP_ID are both set: take GITHUB_TOKEN out"),
    ],
)  # fmt: skip
def test_half_an_app_and_one_beside_a_token_are_refused_in_one_sentence(given: dict[str, str], said: str) -> None:
    [problem] = refused(given)
    assert said in problem


def test_no_line_of_the_key_is_said_and_no_attack_may_find_one() -> None:
    given = settings(APPLIANCE_GITHUB_APP_ID="1", APPLIANCE_GITHUB_APP_KEY=pem(3).replace("\n", "\\n"))
    body = [line for line in pem(3).splitlines() if not line.startswith("-")]
    told = "\n".join([repr(given), *effective(given).values(), *(redaction.say(line) for line in body)])
    assert not [line for line in body if line in told]
    watched = surroundings(given, ["ghs_" + "x" * 40]).secrets
    assert {*body[:-1], pem(3), "ghs_" + "x" * 40} <= set(watched.values())


# ---- where a value may stand


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


@pytest.mark.parametrize("name", CONTRACT)
def test_each_may_stand_in_a_file(name: str, tmp_path: Path) -> None:
    value = EFFECTS[name][0]
    half = HALVES.get(name, {})
    from_file = load({f"{name}_FILE": write(tmp_path / "value", f"{value}\n"), **half}, None)
    assert from_file == settings(**{name: value}, **half)
    assert from_file != settings()


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), (b"\xff\xfe", "not text")])
def test_a_file_that_cannot_be_read_is_a_problem(content: bytes | None, said: str, tmp_path: Path) -> None:
    path = tmp_path / "value"
    if content is not None:
        write(path, content)
    [problem] = refused({"OPENAI_API_KEY_FILE": str(path)})
    assert problem.startswith(f"OPENAI_API_KEY_FILE: {path} cannot be read")
    assert said in problem


def test_a_file_that_never_ends_or_is_too_large_is_a_problem_and_not_read_to_its_end(tmp_path: Path) -> None:
    large, pipe = tmp_path / "large", tmp_path / "pipe"
    os.mkfifo(pipe)
    write(large, "x" * (64 * 1024 + 1))
    for path, allowed in (("/dev/zero", "a regular file"), (pipe, "a regular file"), (large, "64 KiB")):
        [problem] = refused({"GITHUB_TOKEN_FILE": str(path)})
        assert problem.startswith(f"GITHUB_TOKEN_FILE: {path} cannot be read: allowed")
        assert problem.endswith(allowed)
    assert load({"GITHUB_TOKEN_FILE": write(tmp_path / "most", "x" * 64 * 1024)}, None).github_token is not None


def test_a_value_and_a_file_are_one_too_many(tmp_path: Path) -> None:
    path = write(tmp_path / "value", "a")
    assert "not both" in refused({"GITHUB_TOKEN": "b", "GITHUB_TOKEN_FILE": path})[0]
    dotenv = tmp_path / ".env"
    write(dotenv, "GITHUB_TOKEN=b\n")
    assert "not both" in refused({"GITHUB_TOKEN_FILE": path}, dotenv)[0]
    assert load({"GITHUB_TOKEN": "", "GITHUB_TOKEN_FILE": path}, None).github_token is not None


def test_the_environment_wins_over_dotenv_which_wins_over_the_default(tmp_path: Path) -> None:
    dotenv = tmp_path / ".env"
    write(dotenv, "APPLIANCE_INTERVAL=7\nAPPLIANCE_MODEL=o9 # comment\nUNRELATED=1\nOPENAI_API_KEY='sk'\n")
    assert load({}, dotenv).interval == 7
    assert load({}, dotenv).model == "o9"
    assert load({"APPLIANCE_INTERVAL": "9"}, dotenv).interval == 9
    assert load({}, tmp_path / "absent").interval == 300


def test_a_dotenv_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    [problem] = refused({}, Path(write(tmp_path / ".env", b"\xff\xfe=1")))
    assert "cannot be read" in problem


def test_unknown_names_are_passed_over() -> None:
    assert settings(APPLIANCE_APPARMOR="review-appliance", PATH="/bin") == settings()


def test_each_is_in_the_readme_and_in_the_example() -> None:
    readme, example = (ROOT / "README.md").read_text(), (ROOT / ".env.example").read_text()
    for name in CONTRACT:
        assert f"`{name}`" in readme, name
        assert re.search(rf"^#? ?{name}=", example, re.MULTILINE), name


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("APPLIANCE_REPOSITORYS", "APPLIANCE_REPOSITORYS is no setting; is APPLIANCE_REPOSITORIES meant?"),
        ("appliance_interval", "appliance_interval is no setting; is APPLIANCE_INTERVAL meant?"),
        ("APPLIANCE_APPARMOR", None),
        ("APPLIANCE_MODEL_FILE", None),
        ("PATH", None),
    ],
)
def test_a_mistyped_name_does_not_pass_without_a_word(name: str, line: str | None) -> None:
    assert unknown({name: "x"}) == ([line] if line else [])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"APPLIANCE_GITHUB_API_VERSION": "x2022-11-28y"}, "cannot be used; type the date of a version"),
        (
            {"APPLIANCE_LOCAL_REPOSITORIES": "relative/x"},
            'APPLIANCE_LOCAL_REPOSITORIES: "relative/x" cannot be used; type the whole',
        ),
        ({"SSL_CERT_FILE": "/nope.pem"}, "SSL_CERT_FILE: /nope.pem cannot be read"),
    ],
)
def test_what_would_break_only_later_is_said_at_the_start(given: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(said)):
        load(given, None)


def test_a_secrets_file_that_may_be_the_secret_itself_is_not_told_but_how_to_write_it() -> None:
    [problem] = refused({"GITHUB_TOKEN_FILE": "relative"})
    assert problem == (
        "GITHUB_TOKEN_FILE: what it is set to is no path; type the whole path of a file, beginning with /"
    )
    assert refused({"GITHUB_TOKEN_FILE": "secrets/x"})[0].startswith("GITHUB_TOKEN_FILE: secrets/x cannot be read")


def test_an_empty_secret_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    with pytest.raises(SettingsError, match=r"GITHUB_TOKEN_FILE: .*token is empty"):
        load({"GITHUB_TOKEN_FILE": str(tmp_path / "token")}, None)
