"""The one settings model: environment, `.env`, and a file for each value (`NAME_FILE`)."""

import difflib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from appliance import redaction
from appliance.core import windows
from appliance.core.inline import ReviewEvents
from appliance.core.pulls import Policy
from appliance.core.report import CommentMode

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

GITHUB_API = "https://api.github.com"
OPENAI_API = "https://api.openai.com/v1"
DEFAULT_MODEL = "gpt-5.5"
REHEARSAL_MODEL = "rehearsal"
# GitHub's, of how somebody stands to a repository.
ASSOCIATIONS = (
    "OWNER",
    "MEMBER",
    "COLLABORATOR",
    "CONTRIBUTOR",
    "FIRST_TIME_CONTRIBUTOR",
    "FIRST_TIMER",
    "MANNEQUIN",
    "NONE",
)
OF_COMPOSE = frozenset({"APPLIANCE_APPARMOR", "APPLIANCE_BUILD_CA", "APPLIANCE_TEST_IMAGE"})
SECRETS = ("GITHUB_TOKEN", "APPLIANCE_GITHUB_APP_KEY", "OPENAI_API_KEY")
APP_ID, APP_KEY = "APPLIANCE_GITHUB_APP_ID", "APPLIANCE_GITHUB_APP_KEY"
MAX_SHOWN = 80  # characters of a bad value
MAX_PARTS = 3  # of a bad list
MAX_FILE_BYTES = 64 * 1024  # of a file that holds a value
MIN_KEY_BITS = 2048  # GitHub's own keys have these
_KEY = re.compile(r"-----BEGIN ((?:RSA )?PRIVATE KEY)-----([A-Za-z0-9+/=\s\\]+)-----END \1-----(?:\s|\\[nr])*")
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/(?:\*|(?!\.\.?\Z)[A-Za-z0-9_.-]+)")


class SettingsError(Exception):
    """One or more settings are bad; the message has a line for each: its name, what it is set to, what to type."""


class Unfit(ValueError):
    """Only these `parts` of a value cannot be used."""

    def __init__(self, *parts: str) -> None:
        super().__init__()
        self.parts = parts


def _list(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _repositories(value: tuple[str, ...]) -> tuple[str, ...]:
    bad = [name for name in value if not _REPOSITORY.fullmatch(name)]
    if bad:
        raise Unfit(*bad)
    return value


def _url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value) or not value.isascii():
        raise Unfit
    try:
        parts = urlsplit(value)
        usable = bool(parts.hostname) and parts.port != 0  # the port is read, and checked, only when it is asked for
    except ValueError:
        usable = False
    if not usable:
        raise Unfit
    return value.rstrip("/")


def _github_url(value: str) -> str:
    if urlsplit(value).hostname in ("github.com", "www.github.com"):  # its pages; they answer no request for the API
        raise Unfit
    return value


def _model_url(value: str) -> str:
    if value.endswith("/responses"):  # the base is asked for, and it would be there twice
        raise Unfit
    return value


def _digits(value: object) -> object:
    """Python would also take 3_00 and 1e2."""
    if isinstance(value, str) and not re.fullmatch(r"\s*[0-9]+(\.[0-9]*)?\s*", value):
        raise Unfit
    return value


def _secret(value: SecretStr | None) -> SecretStr | None:
    said = value.get_secret_value() if value else ""
    if not all("!" <= char <= "~" for char in said):  # it goes into a header
        raise Unfit
    return value


def _pem(value: SecretStr | None) -> SecretStr | None:
    """An RSA private key with its line ends as a PEM has them, whatever an environment file made of them."""
    if value is None:
        return None
    found = _KEY.fullmatch(value.get_secret_value().strip().strip("'\""))
    if found is None:
        raise Unfit
    kind, body = found.group(1), re.sub(r"\\[nr]|\s", "", found.group(2))
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    pem = "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----", ""])
    redaction.keep_key(pem)
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey  # late: only an App needs it
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem.encode(), None)
    except (ValueError, TypeError, ArithmeticError):
        raise Unfit from None
    if not isinstance(key, RSAPrivateKey) or key.key_size < MIN_KEY_BITS:
        raise Unfit
    return SecretStr(pem)


def _associations(value: tuple[str, ...]) -> tuple[str, ...]:
    bad = [name for name in value if name.upper() not in ASSOCIATIONS]
    if bad or not value:
        raise Unfit(*bad)
    return tuple(name.upper() for name in value)


def _context(value: str) -> str:
    if not value.strip() or len(value) > 255 or not value.isprintable():
        raise Unfit
    return value


def _model(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/-]*", value):
        raise Unfit
    return value


def _judge(value: str | None) -> str | None:
    return value and _model(value)


def _date(value: str) -> str:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        raise Unfit
    return value


def _zone(name: str) -> ZoneInfo:
    """Raises LookupError."""
    try:
        return ZoneInfo(name)
    except (OSError, ValueError) as error:  # a folder of zones, a path that leads out of them
        raise LookupError(name) from error


def _schedule(value: str) -> str:
    _, bad = windows.parse(value, _zone)
    if bad:
        raise Unfit(*bad)
    return value


def _absolute(value: Path | None) -> Path | None:
    if value is not None and not value.is_absolute():
        raise Unfit
    return value


def _blank_is_none(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _stripped(value: object) -> object:
    return (value.strip() or None) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_list)]
Url = Annotated[str, AfterValidator(_url)]
Secret = Annotated[SecretStr | None, BeforeValidator(_stripped), AfterValidator(_secret)]
Pem = Annotated[SecretStr | None, BeforeValidator(_stripped), AfterValidator(_pem)]
Seconds = Annotated[float, Field(ge=1, le=86_400), BeforeValidator(_digits)]
Whole = Annotated[int, BeforeValidator(_digits)]
Tokens = Annotated[Whole, Field(ge=0, le=10**12)]
Folder = Annotated[Path, AfterValidator(_absolute)]

SECONDS = "a number of seconds from 1 to 86400, without a unit, such as {}"
WHOLE = "a whole number from {} to {}, such as {}"
ADDRESS = "http:// or https:// with a host, without a user, a query or a fragment, such as {}"
COMMAS = "several with commas between them"


def _set(name: str, default: Any, typed: str) -> Any:
    """A setting by the name of its variable; `typed` is what a person may type there, in words for them."""
    return Field(default, validation_alias=AliasChoices(name), description=typed)


class Settings(BaseSettings):
    """What the person sets. Secrets are SecretStr: they print as stars."""

    model_config = SettingsConfigDict(extra="ignore", env_ignore_empty=True, case_sensitive=True, frozen=True)

    github_token: Secret = _set("GITHUB_TOKEN", None, "the token alone, printable ASCII characters without spaces")
    github_app_id: Annotated[Whole | None, Field(ge=1, le=10**12)] = _set(
        "APPLIANCE_GITHUB_APP_ID", None, "the App ID on the App's page, a whole number such as 123456 (no Client ID)"
    )
    github_app_key: Pem = _set(
        "APPLIANCE_GITHUB_APP_KEY",
        None,
        "the App's private key as GitHub gave it, an RSA key in PEM from -----BEGIN RSA PRIVATE KEY----- to its END "
        "line, on one line with \\n for each line end if need be, or set APPLIANCE_GITHUB_APP_KEY_FILE to its file",
    )
    github_url: Annotated[Url, AfterValidator(_github_url)] = _set(
        "APPLIANCE_GITHUB_URL",
        GITHUB_API,
        f"{ADDRESS.format(GITHUB_API)} (GitHub Enterprise Server: https://HOST/api/v3)",
    )
    repositories: Annotated[Names, AfterValidator(_repositories)] = _set(
        "APPLIANCE_REPOSITORIES", (), f"owner/name or owner/*, {COMMAS}"
    )
    local_repositories: Annotated[Path | None, BeforeValidator(_blank_is_none), AfterValidator(_absolute)] = _set(
        "APPLIANCE_LOCAL_REPOSITORIES", None, "the whole path of a folder in the container, such as /repositories"
    )
    openai_api_key: Secret = _set("OPENAI_API_KEY", None, "the key alone, printable ASCII characters without spaces")
    model_url: Annotated[Url, AfterValidator(_model_url)] = _set(
        "APPLIANCE_MODEL_URL", OPENAI_API, f"{ADDRESS.format(OPENAI_API)} (/responses is added)"
    )
    model: Annotated[str, AfterValidator(_model)] = _set(
        "APPLIANCE_MODEL", DEFAULT_MODEL, f"the name of a model, such as {DEFAULT_MODEL}"
    )
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] = _set(
        "APPLIANCE_REASONING_EFFORT", "high", "none, minimal, low, medium, high or xhigh"
    )
    judge_model: Annotated[str | None, BeforeValidator(_stripped), AfterValidator(_judge)] = _set(
        "APPLIANCE_JUDGE_MODEL", None, f"the name of a model, such as {DEFAULT_MODEL}"
    )
    interval: Seconds = _set("APPLIANCE_INTERVAL", 300, SECONDS.format(300))
    review_timeout: Seconds = _set("APPLIANCE_REVIEW_TIMEOUT", 1800, SECONDS.format(1800))
    tokens_per_review: Tokens = _set("APPLIANCE_TOKENS_PER_REVIEW", 10_000_000, WHOLE.format(0, 10**12, 10_000_000))
    tokens_per_day: Tokens = _set("APPLIANCE_TOKENS_PER_DAY", 0, WHOLE.format(0, 10**12, 100_000_000))
    max_attempts: Annotated[Whole, Field(ge=1, le=100)] = _set("APPLIANCE_MAX_ATTEMPTS", 3, WHOLE.format(1, 100, 3))
    reviews_at_once: Annotated[Whole, Field(ge=1, le=32)] = _set("APPLIANCE_REVIEWS_AT_ONCE", 2, WHOLE.format(1, 32, 2))
    block_priority: Annotated[Literal["P0", "P1", "P2", "P3"], BeforeValidator(_upper)] = _set(
        "APPLIANCE_BLOCK_PRIORITY", "P1", "P0, P1, P2 or P3"
    )
    diff_budget: Annotated[Whole, Field(ge=1000, le=10**9)] = _set(
        "APPLIANCE_DIFF_BUDGET", 1_000_000, WHOLE.format(1000, 10**9, 1_000_000)
    )
    max_passes: Annotated[Whole, Field(ge=1, le=100)] = _set("APPLIANCE_MAX_PASSES", 4, WHOLE.format(1, 100, 4))
    base_drift: Annotated[Whole, Field(ge=0, le=10**6)] = _set("APPLIANCE_BASE_DRIFT", 0, WHOLE.format(0, 10**6, 20))
    review_event: ReviewEvents = _set("APPLIANCE_REVIEW_EVENT", "comment", "comment, request-changes or approve")
    comment_mode: CommentMode = _set("APPLIANCE_COMMENT_MODE", "new", "new or edit")
    max_rounds: Annotated[Whole, Field(ge=0, le=10**6)] = _set("APPLIANCE_MAX_ROUNDS", 5, WHOLE.format(0, 10**6, 5))
    status_context: Annotated[str, AfterValidator(_context)] = _set(
        "APPLIANCE_STATUS_CONTEXT", "codex-review", "1 to 255 characters on one line, such as codex-review"
    )
    author_associations: Annotated[Names, AfterValidator(_associations)] = _set(
        "APPLIANCE_AUTHOR_ASSOCIATIONS",
        ("OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"),
        f"one of {', '.join(ASSOCIATIONS)}, {COMMAS}",
    )
    skip_labels: Names = _set("APPLIANCE_SKIP_LABELS", (), f"a label, {COMMAS}")
    require_label: Annotated[str | None, BeforeValidator(_stripped)] = _set("APPLIANCE_REQUIRE_LABEL", None, "a label")
    first_label: Annotated[str | None, BeforeValidator(_stripped)] = _set("APPLIANCE_FIRST_LABEL", None, "a label")
    wait_for_checks: Names = _set(
        "APPLIANCE_WAIT_FOR_CHECKS", (), f"the name of a check or status as GitHub shows it, {COMMAS}, or * for all"
    )
    quiet_period: Annotated[Whole, Field(ge=0, le=86_400)] = _set(
        "APPLIANCE_QUIET_PERIOD", 0, WHOLE.format(0, 86_400, 120)
    )
    schedule: Annotated[str, AfterValidator(_schedule)] = _set(
        "APPLIANCE_SCHEDULE", "", "windows such as Mon-Fri 08:00-18:00 Europe/Berlin, several with ; between them"
    )
    reviews_per_author: Annotated[Whole, Field(ge=0, le=1000)] = _set(
        "APPLIANCE_REVIEWS_PER_AUTHOR", 0, WHOLE.format(0, 1000, 10)
    )
    github_api_version: Annotated[str, AfterValidator(_date)] = _set(
        "APPLIANCE_GITHUB_API_VERSION", "2022-11-28", "the date of a version of GitHub's API, such as 2022-11-28"
    )
    log_format: Literal["text", "json"] = _set("APPLIANCE_LOG_FORMAT", "text", "text or json")
    state_dir: Folder = _set(
        "APPLIANCE_STATE_DIR", Path("/var/lib/appliance"), "the whole path of a folder, such as /var/lib/appliance"
    )
    run_dir: Folder = _set(
        "APPLIANCE_RUN_DIR", Path("/run/appliance"), "the whole path of a folder, such as /run/appliance"
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # `load` has gathered the values: one place decides what wins

    @property
    def rehearsal(self) -> bool:
        """Nothing is configured: the sample is reviewed by the rehearsal model, which no forge ever sees."""
        return not self.repositories and self.local_repositories is None

    @property
    def signs_in(self) -> bool:
        """Whether there is a login for GitHub: a token, or an App."""
        return self.github_token is not None or self.github_app_id is not None

    @property
    def block_priority_number(self) -> int:
        return int(self.block_priority[1])

    @property
    def policy(self) -> Policy:
        return Policy(
            author_associations=frozenset(self.author_associations),
            skip_labels=frozenset(self.skip_labels),
            require_label=self.require_label,
            max_attempts=self.max_attempts,
            interval=self.interval,
            quiet_period=self.quiet_period,
            schedule=windows.parse(self.schedule, _zone)[0],
            first_label=self.first_label,
            reviews_per_author=self.reviews_per_author,
            wait_for_checks=self.wait_for_checks,
        )


def names() -> dict[str, str]:
    """Environment name of each setting, by its field."""
    found = {}
    for field, info in Settings.model_fields.items():
        assert isinstance(info.validation_alias, AliasChoices)
        found[field] = str(info.validation_alias.choices[0])
    return found


def load(environment: Mapping[str, str] | None = None, dotenv: Path | None = Path(".env")) -> Settings:
    """The effective settings: the environment wins over `dotenv`, which wins over the defaults.

    `NAME_FILE` names a file whose content, without the line end, is the value. Raises SettingsError with every bad
    value at once.
    """
    from dotenv import dotenv_values

    environment = os.environ if environment is None else environment
    merged: dict[str, str] = {}
    problems: list[str] = []
    if dotenv and os.path.isfile(dotenv):  # noqa: PTH113  (Path.is_file raises where the folder may not be searched)
        try:
            merged.update({key: value for key, value in dotenv_values(dotenv).items() if value is not None})
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{dotenv}: cannot be read: {error}")
    merged.update(environment)
    values: dict[str, str] = {}
    bad = {name for name in (APP_ID, APP_KEY) if merged.get(f"{name}_FILE")}  # told by itself, if it cannot be read
    for name in names().values():
        value = _value(name, merged, problems)
        if name in SECRETS:
            path = merged.get(f"{name}_FILE") or ""
            # Not a path, so perhaps the secret itself: the message about it must not tell it.
            redaction.keep_secret(value, merged.get(name), path if "/" not in path else None)
            if name == APP_KEY:
                redaction.keep_key(value or merged.get(name) or "")
        if value:
            values[name] = value
    try:
        settings = Settings(**values)  # type: ignore[arg-type]
    except ValidationError as error:
        problems += [_problem(e, values, merged) for e in error.errors()]
        bad |= {str(e["loc"][0]) for e in error.errors()}
    problems += _of_app(set(values), bad)
    authorities = merged.get("SSL_CERT_FILE")
    if authorities and not os.access(authorities, os.R_OK):
        problems.append(f"SSL_CERT_FILE: {authorities} cannot be read")
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _of_app(given: set[str], bad: set[str]) -> Iterator[str]:
    """What is wrong with an App of which a half is there, or a token beside it; `bad` ones are told already."""
    if APP_ID in given - bad and APP_KEY not in given | bad:
        yield f"{APP_ID} is set, but {APP_KEY} is not: set {APP_KEY}_FILE to the file of the App's private key"
    if APP_KEY in given - bad and APP_ID not in given | bad:
        yield f"{APP_KEY} is set, but {APP_ID} is not: set it to the App ID, which the App's page in GitHub shows"
    if "GITHUB_TOKEN" in given and given & {APP_ID, APP_KEY}:
        yield (
            f"GITHUB_TOKEN and {APP_ID} are both set: take GITHUB_TOKEN out (of .env and of the shell) to work as the "
            f"App, or {APP_ID} and {APP_KEY} to work with the token"
        )


def _value(name: str, merged: Mapping[str, str], problems: list[str]) -> str | None:
    path = merged.get(f"{name}_FILE")
    if not path:
        return merged.get(name)
    if merged.get(name):
        problems.append(f"{name}: set either {name} or {name}_FILE, not both")
        return None
    if name in SECRETS and "/" not in path and not os.path.lexists(path):  # so perhaps the secret itself
        problems.append(f"{name}_FILE: what it is set to is no path; type the whole path of a file, beginning with /")
        return None
    try:
        value = _text(path).strip()
    except PermissionError:
        problems.append(f"{name}_FILE: {path} may not be read: make it readable for uid {os.getuid()}")
    except UnicodeDecodeError:
        problems.append(f"{name}_FILE: {path} cannot be read: it is not text")
    except (OSError, ValueError) as error:
        problems.append(f"{name}_FILE: {path} cannot be read: {getattr(error, 'strerror', None) or error}")
    else:
        if not value:
            problems.append(f"{name}_FILE: {path} is empty")
        return value
    return None


def _text(path: str) -> str:
    """What the file says. A device or a pipe may never end. Raises OSError, and ValueError for what is no such file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe without a writer is not waited for
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("allowed is a regular file")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"allowed are {MAX_FILE_BYTES // 1024} KiB")
    return content.decode("utf-8")


def unknown(environment: Mapping[str, str] | None = None) -> list[str]:
    """A line for each variable that looks like a setting and is none: a typo would else pass without a word."""
    known = {known for name in names().values() for known in (name, f"{name}_FILE")} | OF_COMPOSE
    lines = []
    for name in sorted(os.environ if environment is None else environment):
        if name.upper().startswith("APPLIANCE_") and name not in known:
            near = difflib.get_close_matches(name.upper(), sorted(known), 1)
            lines.append(f"{name} is no setting" + (f"; is {near[0]} meant?" if near else ""))
    return lines


def _problem(error: "ErrorDetails", values: Mapping[str, str], merged: Mapping[str, str]) -> str:
    """One bad value: its name, where it stands if that is a file, what cannot be used of it, and what to type."""
    name = str(error["loc"][0])
    unfit = error.get("ctx", {}).get("error")
    parts = unfit.parts if isinstance(unfit, Unfit) else ()
    said = "what it is set to"  # all that is told of a secret
    if name not in SECRETS:
        shown = parts[:MAX_PARTS] or (values[name],)
        more = len(parts) - len(shown)
        said = ", ".join(map(_quoted, shown)) + (f" and {more} more" if more > 0 else "")
    path = merged.get(f"{name}_FILE")
    where = f"{name}_FILE: {path}: " if path else f"{name}: "
    field = next(field for field, known in names().items() if known == name)
    typed = Settings.model_fields[field].description
    return f"{where}{said} cannot be used; type {typed}"


def _quoted(value: str) -> str:
    """A value as it may be shown: on one line, not too long, without what an address may hold of a secret."""
    harmless = re.sub(r"([?#]).*", r"\1…", re.sub(r".*@", "…@", value, flags=re.DOTALL), flags=re.DOTALL)
    cut = harmless if len(harmless) <= MAX_SHOWN else f"{harmless[:MAX_SHOWN]}…"
    return redaction.say(json.dumps(cut, ensure_ascii=False))


def effective(settings: Settings) -> dict[str, str]:
    """Name and value of each setting as the person would write it; secrets hidden."""
    shown = {}
    for field, name in names().items():
        value = getattr(settings, field)
        if isinstance(value, SecretStr):
            shown[name] = "(set, hidden)"
        elif isinstance(value, tuple):
            shown[name] = ",".join(value)
        else:
            shown[name] = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return shown
