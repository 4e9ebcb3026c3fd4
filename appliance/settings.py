"""The one settings model: environment, `.env`, and a file for each value (`NAME_FILE`)."""

import difflib
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from appliance import redaction
from appliance.core.pulls import Policy

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
SECRETS = ("GITHUB_TOKEN", "OPENAI_API_KEY")
MAX_FILE_BYTES = 64 * 1024  # of a file that holds a value
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*/(?:\*|(?!\.\.?\Z)[A-Za-z0-9_.-]+)")


class SettingsError(Exception):
    """One or more settings are bad; the message has a line for each, with what is allowed."""


def _list(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _repositories(value: tuple[str, ...]) -> tuple[str, ...]:
    bad = [name for name in value if not _REPOSITORY.fullmatch(name)]
    if bad:
        raise ValueError(f"{', '.join(bad)}: allowed is owner/name or owner/*, separated by commas")
    return value


def _url(value: str) -> str:
    allowed = "allowed is http:// or https:// with a host, without a user, a query or a fragment"
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", value) or not value.isascii():
        raise ValueError(allowed)
    try:
        parts = urlsplit(value)
        usable = bool(parts.hostname) and parts.port != 0  # the port is read, and checked, only when it is asked for
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(allowed)
    return value.rstrip("/")


def _secret(value: SecretStr | None) -> SecretStr | None:
    said = value.get_secret_value() if value else ""
    if not all("!" <= char <= "~" for char in said):  # it goes into a header
        raise ValueError("allowed are printable ASCII characters without spaces")
    return value


def _associations(value: tuple[str, ...]) -> tuple[str, ...]:
    found = tuple(name.upper() for name in value)
    bad = [name for name in found if name not in ASSOCIATIONS]
    if bad or not found:
        said = f"{', '.join(bad)}: " if bad else ""
        raise ValueError(f"{said}allowed are {', '.join(ASSOCIATIONS)}, separated by commas")
    return found


def _context(value: str) -> str:
    if not value.strip() or len(value) > 255:
        raise ValueError("allowed are 1 to 255 characters")
    return value


def _model(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:/-]*", value):
        raise ValueError("allowed is the name of a model, such as gpt-5.5")
    return value


def _date(value: str) -> str:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        raise ValueError("allowed is the date of a version of GitHub's API, such as 2022-11-28")
    return value


def _absolute(value: Path | None) -> Path | None:
    if value is not None and not value.is_absolute():
        raise ValueError(f"{value}: allowed is the whole path of a folder in the container, such as /repositories")
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


def _named(name: str) -> Any:
    return AliasChoices(name)


class Settings(BaseSettings):
    """What the person sets. Secrets are SecretStr: they print as stars."""

    model_config = SettingsConfigDict(extra="ignore", env_ignore_empty=True, case_sensitive=True, frozen=True)

    github_token: Secret = Field(None, validation_alias=_named("GITHUB_TOKEN"))
    github_url: Url = Field(GITHUB_API, validation_alias=_named("APPLIANCE_GITHUB_URL"))
    repositories: Annotated[Names, AfterValidator(_repositories)] = Field(
        (), validation_alias=_named("APPLIANCE_REPOSITORIES")
    )
    local_repositories: Annotated[Path | None, BeforeValidator(_blank_is_none), AfterValidator(_absolute)] = Field(
        None, validation_alias=_named("APPLIANCE_LOCAL_REPOSITORIES")
    )
    openai_api_key: Secret = Field(None, validation_alias=_named("OPENAI_API_KEY"))
    model_url: Url = Field(OPENAI_API, validation_alias=_named("APPLIANCE_MODEL_URL"))
    model: Annotated[str, AfterValidator(_model)] = Field(DEFAULT_MODEL, validation_alias=_named("APPLIANCE_MODEL"))
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] = Field(
        "high", validation_alias=_named("APPLIANCE_REASONING_EFFORT")
    )
    interval: float = Field(300, ge=1, le=86_400, validation_alias=_named("APPLIANCE_INTERVAL"))
    review_timeout: float = Field(1800, ge=1, le=86_400, validation_alias=_named("APPLIANCE_REVIEW_TIMEOUT"))
    tokens_per_review: int = Field(10_000_000, ge=0, le=10**12, validation_alias=_named("APPLIANCE_TOKENS_PER_REVIEW"))
    tokens_per_day: int = Field(0, ge=0, le=10**12, validation_alias=_named("APPLIANCE_TOKENS_PER_DAY"))
    max_attempts: int = Field(3, ge=1, le=100, validation_alias=_named("APPLIANCE_MAX_ATTEMPTS"))
    reviews_at_once: int = Field(2, ge=1, le=32, validation_alias=_named("APPLIANCE_REVIEWS_AT_ONCE"))
    block_priority: Annotated[Literal["P0", "P1", "P2", "P3"], BeforeValidator(_upper)] = Field(
        "P1", validation_alias=_named("APPLIANCE_BLOCK_PRIORITY")
    )
    status_context: Annotated[str, AfterValidator(_context)] = Field(
        "codex-review", validation_alias=_named("APPLIANCE_STATUS_CONTEXT")
    )
    author_associations: Annotated[Names, AfterValidator(_associations)] = Field(
        ("OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR"), validation_alias=_named("APPLIANCE_AUTHOR_ASSOCIATIONS")
    )
    skip_labels: Names = Field((), validation_alias=_named("APPLIANCE_SKIP_LABELS"))
    require_label: Annotated[str | None, BeforeValidator(_stripped)] = Field(
        None, validation_alias=_named("APPLIANCE_REQUIRE_LABEL")
    )
    github_api_version: Annotated[str, AfterValidator(_date)] = Field(
        "2022-11-28", validation_alias=_named("APPLIANCE_GITHUB_API_VERSION")
    )
    log_format: Literal["text", "json"] = Field("text", validation_alias=_named("APPLIANCE_LOG_FORMAT"))
    state_dir: Path = Field(Path("/var/lib/appliance"), validation_alias=_named("APPLIANCE_STATE_DIR"))
    run_dir: Path = Field(Path("/run/appliance"), validation_alias=_named("APPLIANCE_RUN_DIR"))

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
    for name in names().values():
        value = _value(name, merged, problems)
        if name in SECRETS:
            path = merged.get(f"{name}_FILE") or ""
            # Not a path, so perhaps the secret itself: the message about it must not tell it.
            redaction.keep_secret(value, merged.get(name), path if "/" not in path else None)
        if value:
            values[name] = value
    try:
        settings = Settings(**values)  # type: ignore[arg-type]
    except ValidationError as error:
        problems += [f"{e['loc'][0]}: {_allowed(str(e['msg']))}" for e in error.errors(include_input=False)]
    authorities = merged.get("SSL_CERT_FILE")
    if authorities and not os.access(authorities, os.R_OK):
        problems.append(f"SSL_CERT_FILE: {authorities} cannot be read")
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _value(name: str, merged: Mapping[str, str], problems: list[str]) -> str | None:
    path = merged.get(f"{name}_FILE")
    if not path:
        return merged.get(name)
    if merged.get(name):
        problems.append(f"{name}: set either {name} or {name}_FILE, not both")
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


def _allowed(message: str) -> str:
    return message.removeprefix("Value error, ").replace("Input should be", "allowed is")


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
