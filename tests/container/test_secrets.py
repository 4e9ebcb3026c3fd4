"""Secrets never leak: planted ones, of no known shape, are looked for in everything that can be seen of the appliance.

Both ways to give them are tried: as files, with which `docker inspect` shows nothing, and in the environment, which it
shows by its nature. Everything that can go wrong with a secret in its hand goes wrong meanwhile.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from .conftest import Start
from .stack import REPOSITORY, Stack

PLANTED = {
    "key": "planted/model+key%that=nobody~may.see",
    "token": "planted/forge+token%that=nobody~may.see",
    "wrong": "planted/wrong+token%that=nobody~may.see",
}


def spellings(secret: str) -> list[str]:
    """As it is, for an address, as JSON, in hex, and what is the same of its base64 wherever it begins."""
    found = [secret, quote(secret), quote(secret, safe=""), secret.encode().hex()]
    for before in range(3):
        text = base64.b64encode(b"?" * before + secret.encode() + b"???").decode()[4:-8]
        found += [text, text.replace("+", "-").replace("/", "_")]
    return sorted(set(found))


NEEDLES = [each for secret in PLANTED.values() for each in spellings(secret)]


def seen(text: str) -> list[str]:
    return [needle for needle in NEEDLES if needle in text]


NAMES = {"GITHUB_TOKEN": PLANTED["token"], "OPENAI_API_KEY": PLANTED["key"]}


@pytest.fixture(scope="module")
def stack(module_stacks: Start, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Both given as files."""
    folder = tmp_path_factory.mktemp("secrets")
    mounts = [_mount(folder, name, value) for name, value in NAMES.items()]
    given = {f"{name}_FILE": f"/run/secrets/{name}" for name in NAMES} | dict.fromkeys(NAMES, "")
    made = module_stacks(f"volumes: {json.dumps(mounts)}", **given)
    made.forge.call("add_token", token=PLANTED["token"])
    yield made


def _mount(folder: Path, name: str, value: str) -> str:
    path = folder / name
    path.write_text(f"{value}\n")
    path.chmod(0o644)
    return f"{path}:/run/secrets/{name}:ro"


URL_OF_KEY = quote(PLANTED["key"], safe="")
REVIEW = {
    "findings": [
        {
            "title": f"It prints {PLANTED['key']} \x1b[31m",
            "body": f'It has `password = "hunter2-and-more"`, {PLANTED["token"]} and ghp_{"a1B2" * 9}. @copilot',
            "priority": 1,
            "confidence": 0.9,
            "path": "shop.py",
            "line_start": 3,
            "line_end": 3,
        }
    ],
    "summary": f"In base64: {base64.b64encode(PLANTED['key'].encode()).decode()}",
    "verdict": "incorrect",
    "reasoning": f"In an address: {quote(PLANTED['token'], safe='')}",
    "limits": PLANTED["key"].encode().hex(),
}
_KEY = PLANTED["key"].encode()
ECHO = " ".join(
    [PLANTED["key"], URL_OF_KEY, _KEY.hex(), *(base64.b64encode(b"x" * n + _KEY + b":y").decode() for n in range(3))]
)


@pytest.fixture(scope="module")
def told(stack: Stack) -> dict[str, str]:
    """All that can be seen, by its place, after all that can go wrong has gone wrong."""
    told: dict[str, str] = {}
    pull = stack.pull()
    stack.model.rule(calls=["cat shop.py"], said=REVIEW)
    stack.start()
    stack.wait_gate(pull["head_sha"], "failure")
    stack.model.clear()
    stack.model.hold()
    held = stack.pull("held", files={"held.py": "x = 1\n"})
    stack.model.wait_held(held["head_sha"])
    told["arguments, during a review"] = "\n".join(line for _, line in stack.processes())
    told["files, during a review"] = _files(stack)
    stack.model.clear()
    stack.wait_gate(held["head_sha"], "success")
    _go_wrong(stack)
    for name, argv in COMMANDS.items():
        told[name] = _said(stack, *argv)
    told["the log"] = stack.log
    told["files"] = _files(stack)
    told["the health"] = str(stack.state["Health"])
    told["comments and statuses"] = str(
        [
            stack.forge.get("writes"),
            stack.comments(1),
            stack.statuses(pull["head_sha"]),
            stack.forge.get("repositories"),
        ]
    )
    told["what GitHub was asked"] = str(
        [(it["path"], it["query"], it["request_headers"], it["request_body"]) for it in stack.forge.get("exchanges")]
    )
    return told


COMMANDS = {
    "status": ["appliance", "status"],
    "status as JSON": ["appliance", "status", "--json"],
    "settings": ["appliance", "settings"],
    "selftest": ["appliance", "selftest", "--json"],
    "doctor": ["appliance", "doctor", "--json"],
    "the health probe": ["health-probe"],
    "a review as JSON": ["review", f"{REPOSITORY}#1", "--format", "json"],
}
URL = quote(PLANTED["wrong"], safe="")
# What is set wrongly for one command, and the command.
MISTAKES: dict[str, tuple[dict[str, str], list[str]]] = {
    "a token in an address": ({"APPLIANCE_GITHUB_URL": f"http://bot:{URL}@forge:8080"}, ["appliance", "status"]),
    "a token for a repository": ({"APPLIANCE_REPOSITORIES": f"ghp_{'a1B2' * 9}"}, ["appliance", "status"]),
    "a key in place of its file": (
        {"OPENAI_API_KEY": "", "OPENAI_API_KEY_FILE": PLANTED["wrong"].replace("/", "+")},
        ["appliance", "status"],
    ),
    "a token that is refused": (
        {"GITHUB_TOKEN": PLANTED["wrong"], "GITHUB_TOKEN_FILE": ""},
        ["review", f"{REPOSITORY}#1"],
    ),
}
DEFECT = """
import threading
from appliance.failures import fault_of
from appliance.log import configure
from appliance.settings import load
secret = load().openai_api_key.get_secret_value()
configure("text")
try:
    raise RuntimeError(f"a defect with {secret}")
except RuntimeError as error:
    print(fault_of(error))
thread = threading.Thread(target=lambda: int(secret))
thread.start()
thread.join()
int(secret)
"""


def _go_wrong(stack: Stack) -> None:
    """The model's API says the key back, and git is refused."""
    stack.model.rule(status=401, body={"error": {"code": "invalid_api_key", "message": f"No: {ECHO}"}})
    stack.pull("refused", files={"refused.py": "x = 1\n"})
    stack.wait_health("unhealthy", "unhealthy: login: ")
    stack.model.clear()
    stack.forge.call("fail", path=r"\.git/info/refs", status=401, body={"message": f"No: {ECHO}"}, times=1)
    stack.exec("review", f"{REPOSITORY}#1")


def _said(stack: Stack, *argv: str, **environment: str) -> str:
    options = [option for name, value in environment.items() for option in ("-e", f"{name}={value}")]
    done = stack.docker_exec(options, *argv)
    return done.out + done.err


def _files(stack: Stack) -> str:
    """The files of the appliance's own that hold a planted secret, secret files left out."""
    needles = [option for needle in NEEDLES for option in ("-e", needle)]
    found = stack.exec("grep", "-rlaF", "--exclude-dir=secrets", *needles, "/var/lib/appliance", "/tmp", "/run")
    assert found.code in (0, 1, 2), found
    return "".join(f"{path} holds {NEEDLES[0]}\n" for path in found.out.splitlines())


def test_nothing_that_can_be_seen_shows_one(told: dict[str, str]) -> None:
    assert {place: seen(text) for place, text in told.items() if seen(text)} == {}
    assert "invalid_api_key" in told["the log"] or "login" in told["the log"]
    for place in ("status", "settings", "selftest", "doctor", "a review as JSON", "the health", "the log"):
        assert told[place].strip(), place
    assert "\x1b" not in told["the log"]


def test_what_the_model_says_of_secrets_is_published_without_them(stack: Stack, told: dict[str, str]) -> None:
    """The key is taken out by the model gate already, in each of its spellings, as it came through there."""
    assert len(stack.comments(1)) == 1
    body = stack.said(1)
    assert '`password = "hunt[redacted]"`, [redacted] and ghp_[redacted]' in body
    assert "It prints [redacted]" in body and "In base64: [redacted]" in body and "In an address: [redacted]" in body
    assert "@copilot" not in body and "\x1b" not in body


@pytest.mark.parametrize("name", MISTAKES)
def test_no_error_message_shows_one(stack: Stack, told: dict[str, str], name: str) -> None:
    environment, argv = MISTAKES[name]
    said = _said(stack, *argv, **environment)
    assert "Next:" in said
    assert seen(said) == [] and PLANTED["wrong"].replace("/", "+") not in said and "a1B2a1B2" not in said


def test_no_traceback_shows_one(stack: Stack) -> None:
    said = _said(stack, "/opt/appliance/bin/python", "-c", DEFECT)
    assert said.count("Traceback") == 3 and "defect: " in said and "[redacted]" in said
    assert seen(said) == []


def test_docker_inspect_shows_none_that_is_given_as_a_file(stack: Stack, told: dict[str, str]) -> None:
    assert seen(json.dumps(stack.container.attrs)) == []


def test_what_is_given_in_the_environment_shows_there_and_nowhere_else(stacks: Start) -> None:
    """Docker shows a container's environment by its nature; health, log, settings and processes show nothing."""
    stack = stacks(**NAMES)
    stack.forge.call("add_token", token=PLANTED["token"])
    stack.model.rule(status=401, body={"error": {"code": "invalid_api_key", "message": f"No: {ECHO}"}})
    stack.pull()
    stack.start()
    stack.wait_health("unhealthy", "unhealthy: login: ")
    attributes = stack.container.attrs
    environment = "\n".join(attributes["Config"].pop("Env"))
    assert all(secret in environment for secret in NAMES.values())
    assert "invalid_api_key" in stack.log
    shown = [attributes, stack.log, stack.processes(), _said(stack, *COMMANDS["settings"]), _files(stack)]
    assert seen(str(shown)) == []


def test_the_model_is_sent_the_key_as_its_authorization_and_nothing_else(stack: Stack, told: dict[str, str]) -> None:
    given = {request["authorization"] for request in stack.model.requests}
    assert given == {f"Bearer {PLANTED['key']}"}
    assert stack.model.sent(NEEDLES) == []
    assert stack.model.sent(["git diff"]) == ["git diff"], "it looks at what is sent"


def test_the_search_finds_what_is_planted(stack: Stack, told: dict[str, str]) -> None:
    """Each way of looking sees a secret that is there."""
    assert seen(f"x {base64.b64encode(b'bot:' + PLANTED['token'].encode()).decode()}")
    for number, needle in enumerate(NEEDLES):
        if number % 9 == 0:
            stack.exec("sh", "-c", 'printf %s "$1" >/tmp/planted', "", f"about {needle} it is")
            assert "/tmp/planted" in _files(stack)
    stack.exec("rm", "/tmp/planted")
