"""A case of a data set: a change, and the defects that are known to be in it (docs/evaluation.md)."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

Side = Literal["RIGHT", "LEFT"]
MAX_GOLDENS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True)
class Golden:
    """A defect that is known to be in the change.

    `path` is None where a benchmark does not say it, `line_start` and `line_end` None where it says no lines; they
    count from 1, on the head's side unless `side` is LEFT. `priority` is 0 to 3, as of a finding.
    """

    what: str
    path: str | None = None
    line_start: int | None = None
    line_end: int | None = None
    priority: int = 1
    kind: str = ""
    side: Side = "RIGHT"

    @property
    def located(self) -> bool:
        """Whether lines alone can tell that a finding means it."""
        return self.path is not None and self.line_start is not None


@dataclass(frozen=True)
class Case:
    """One change. Without `goldens` it is clean: the right answer is no finding.

    `repository` is a path or an address, empty where the case brings a bundle or its files; `base` and `head` are
    commits or refs in it. `deleted` are paths of `base/` that the head has no more.
    """

    name: str
    title: str
    body: str = ""
    language: str = ""
    kind: str = ""
    base: str = ""
    head: str = ""
    repository: str = ""
    deleted: tuple[str, ...] = ()
    goldens: tuple[Golden, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.goldens


class BadCase(ValueError):
    """A case that cannot be used; `problems` are all that is wrong with it, a line each."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _Golden(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    what: str = Field(min_length=1, max_length=4000)
    path: str | None = None
    line_start: int | None = Field(None, ge=1)
    line_end: int | None = Field(None, ge=1)
    priority: int = Field(1, ge=0, le=3)
    kind: str = Field("", max_length=100)
    side: Side = "RIGHT"

    @field_validator("priority", mode="before")
    @classmethod
    def _number(cls, given: object) -> object:
        """P1 as well as 1."""
        named = isinstance(given, str) and re.fullmatch(r"[Pp][0-3]", given)
        return int(given[1]) if named and isinstance(given, str) else given

    @field_validator("path")
    @classmethod
    def _relative(cls, given: str | None) -> str | None:
        if given is not None and not is_inside(given):
            raise ValueError("is no path inside the repository")
        return given

    @model_validator(mode="after")
    def _in_order(self) -> "_Golden":
        if self.line_end is not None and self.line_start is None:
            raise ValueError("line_end without line_start")
        if self.line_start is not None and self.path is None:
            raise ValueError("line_start without path")
        if self.line_start is not None and self.line_end is not None and self.line_end < self.line_start:
            raise ValueError("line_end is before line_start")
        return self

    def golden(self) -> Golden:
        last = self.line_start if self.line_end is None else self.line_end
        return Golden(self.what, self.path, self.line_start, last, self.priority, self.kind, self.side)


class _Case(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    title: str = Field(min_length=1, max_length=300)
    body: str = Field("", max_length=20_000)
    language: str = Field("", max_length=50)
    kind: str = Field("", max_length=100)
    base: str = Field("", max_length=300)
    head: str = Field("", max_length=300)
    repository: str = Field("", max_length=1000)
    deleted: list[str] = Field(default=[], max_length=1000)
    # Named even where there is none: a key that was forgotten must not make a clean case.
    goldens: list[_Golden] = Field(max_length=MAX_GOLDENS)

    @field_validator("deleted")
    @classmethod
    def _inside(cls, given: list[str]) -> list[str]:
        bad = [path for path in given if not is_inside(path)]
        if bad:
            raise ValueError(f"{bad[0]!r} is no path inside the repository")
        return given


def case_of(name: str, told: object) -> Case:
    """The case that a file tells of. Raises BadCase with all that is wrong with it."""
    problems = [] if _NAME.fullmatch(name) else [f"{name!r}: a name has letters, digits, dots, dashes, underscores"]
    try:
        read = _Case.model_validate(told)
    except ValidationError as error:
        raise BadCase(*problems, *map(_problem, error.errors())) from None
    if problems:
        raise BadCase(*problems)
    fields = read.model_dump(exclude={"goldens", "deleted"})
    return Case(name, **fields, deleted=tuple(read.deleted), goldens=tuple(each.golden() for each in read.goldens))


def _problem(error: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    said = str(error["msg"]).removeprefix("Value error, ")
    return f"{where}: {said}" if where else said


def is_inside(path: str) -> bool:
    """Whether it names a file of a repository, and nothing outside of it or of git's own."""
    parts = PurePosixPath(path).parts
    return bool(parts) and path == "/".join(parts) and not {"..", ".", "/", ".git"} & set(parts) and "\0" not in path


def digest(case: Case, content: bytes = b"") -> str:
    """Changes with what the reviewer is shown: title, text, and `content`, which is what its repository is made of.

    A golden that is put right makes no review void.
    """
    return _hash(json.dumps([case.title, case.body]).encode() + b"\0" + content)


def golden_digest(golden: Golden) -> str:
    """Changes with what a judge is told of it."""
    return _hash(json.dumps(asdict(golden), sort_keys=True).encode())


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
