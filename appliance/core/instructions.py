"""What a repository says of its reviews, on its base branch: `AGENTS.md`, `.review-appliance.toml`.

The base branch is its maintainers'; what a pull request brings of these files is material under review. They may say
what to look for, what blocks and what to leave out, and nothing of what a review is.
"""

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pathspec import GitIgnoreSpec
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from appliance.core.findings import Configuration
from appliance.core.inert import code
from appliance.core.prompt import File, Rule

CONFIG = ".review-appliance.toml"
AGENTS = "AGENTS.md"
SECTIONS = ("code review rules", "review guidelines")  # the second is what Codex's own reviews on GitHub read
MAX_READ = 256 * 1024  # bytes of a file; a larger one is not used
MAX_CONFIG = 64 * 1024
MAX_RULES = 16 * 1024  # bytes of rules that go into the prompt, of all files together
MAX_CONTEXT = 4 * 1024  # bytes of what else AGENTS.md says
MAX_NESTED = 8  # AGENTS.md below the root
MAX_DIRECTORIES = 400  # that are looked into for one
MAX_LEVELS = 32  # directories in each other that are; the author chooses how deep his lie
MAX_COUNTED = 16 * 1024 * 1024  # characters of the names of all directories that are told apart
MAX_PATTERNS = 100
MAX_PATTERN = 200
# A pattern becomes a regular expression, and the pull request's author chooses the paths that it is tried on: so that
# he cannot keep us busy, it has few places that can grow, and very long paths are never left out.
MAX_STARS = 2  # `*` in one part of a pattern, and `**` parts of it
MAX_PATH = 300
MAX_NAMED = 10

# Files and folders that instruct agents, in their own spelling or another.
_INSTRUCTING = frozenset(
    {
        *("agents.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", "copilot-instructions.md"),
        *(".cursorrules", ".windsurfrules", ".clinerules", ".goosehints", CONFIG),
    }
)
_INSTRUCTING_FOLDERS = frozenset({".codex", ".agents", ".claude", ".cursor", ".gemini", ".windsurf", ".clinerules"})
_GITHUBS_FOLDERS = frozenset({"instructions", "prompts", "chatmodes", "agents"})


@dataclass(frozen=True)
class Found:
    """A file of the base branch: its content, or why it is not used."""

    content: bytes = b""
    problem: str = ""


@dataclass(frozen=True)
class Effective:
    """What a review is asked, and what of it travels with the review. `files` are those to be reviewed;
    `left_out` are those that its patterns leave out, `generated` those of them that it says are made by a program."""

    files: tuple[File, ...]
    left_out: tuple[File, ...]
    generated: tuple[File, ...]
    rules: tuple[Rule, ...]
    configuration: Configuration


class _Config(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    block_priority: Literal["P0", "P1", "P2", "P3"] | None = None
    exclude: list[str] = Field(default=[], max_length=MAX_PATTERNS)
    generated: list[str] = Field(default=[], max_length=MAX_PATTERNS)
    rules: str = ""

    @field_validator("block_priority", mode="before")
    @classmethod
    def _upper(cls, given: object) -> object:
        return given.upper() if isinstance(given, str) else given


def places(files: Iterable[File]) -> tuple[list[str], int]:
    """Where the base branch is to be looked at, the root first, and how many directories are too many for that.

    A few objects make a thousand paths of two thousand directories each, which differ in the first of them: so many
    names do not fit into memory.
    """
    directories: Counter[str] = Counter()
    room, unseen = MAX_COUNTED, 0
    for file in files:
        for path in {file.path, file.old_path or file.path}:
            *names, rest = path.split("/", MAX_LEVELS)
            unseen += "/" in rest
            for level in range(1, len(names) + 1):
                name = "/".join(names[:level])
                if name not in directories:
                    if len(name) > room:
                        unseen += 1
                        break
                    room -= len(name)
                directories[name] += 1
    most = [name for name, _ in sorted(directories.items(), key=lambda one: (-one[1], one[0]))]
    unseen += len(most[MAX_DIRECTORIES:])
    return [CONFIG, AGENTS, *(f"{name}/{AGENTS}" for name in most[:MAX_DIRECTORIES])], unseen


def effective(found: Mapping[str, Found], files: Sequence[File], block_priority: int, unseen: int = 0) -> Effective:
    """What holds for a review of `files`, from what the base branch has (`found`, by path, in the order of `places`).

    `block_priority` is the appliance's own, `unseen` how many directories were not looked into. A file that cannot be
    used is named in a note and changes nothing.
    """
    notes = [f"{unseen} more directories were not looked into for an {AGENTS}."] if unseen else []
    config = _config(found.get(CONFIG), notes)
    patterns = [*config.exclude, *config.generated]
    spec, made = GitIgnoreSpec.from_lines(patterns), GitIgnoreSpec.from_lines(config.generated)
    kept: list[File] = []
    out: list[File] = []
    for file in files:
        (out if _is_out(file, spec) else kept).append(file)
    texts = _texts(found, config.rules, notes)
    rules = tuple(_capped(texts, notes))
    if config.block_priority:
        block_priority = int(config.block_priority[1])
    told = Configuration(
        block_priority=block_priority,
        exclude=tuple(patterns),
        files_excluded=len(out),
        excluded=tuple(file.path for file in out[:MAX_NAMED]),
        rules=tuple(dict.fromkeys(rule.source for rule in rules)),
        digest=_digest(block_priority, patterns, rules),
        changed=changed(files),
    )
    generated = tuple(file for file in out if _is_out(file, made))
    return Effective(tuple(kept), tuple(out), generated, rules, replace(told, notes=tuple(notes)))


def left_out_by(exclude: Sequence[str], path: str) -> bool:
    """Whether these patterns leave out a file of this name, which the pull request does not change."""
    return _is_out(File(path, "M", 0, 0), GitIgnoreSpec.from_lines(exclude))


def changed(files: Iterable[File]) -> tuple[str, ...]:
    """The files among `files` that instruct agents: under either name, whatever the configuration leaves out."""
    return tuple(
        dict.fromkeys(path for file in files for path in (file.path, file.old_path) if path and is_instruction(path))
    )


def is_instruction(path: str) -> bool:
    parts = path.casefold().split("/")
    return (
        parts[-1] in _INSTRUCTING
        or bool(_INSTRUCTING_FOLDERS & set(parts))
        or (len(parts) > 2 and parts[0] == ".github" and parts[1] in _GITHUBS_FOLDERS)
    )


def _is_out(file: File, spec: GitIgnoreSpec) -> bool:
    """Left out is what is so under both its names: a file cannot be moved out of sight. What instructs is looked at."""
    names = [name for name in (file.path, file.old_path) if name]
    return all(len(name) <= MAX_PATH and spec.match_file(name) and not is_instruction(name) for name in names)


def _config(found: Found | None, notes: list[str]) -> _Config:
    if found is None:
        return _Config()
    problem = found.problem or ("" if len(found.content) <= MAX_CONFIG else f"it has more than {MAX_CONFIG} bytes")
    try:
        if not problem:
            return _parsed(found.content.decode())
    except UnicodeDecodeError:
        problem = "it is not UTF-8"
    except RecursionError:
        problem = "it is nested too deeply"
    except ValidationError as error:
        problem = "; ".join(_said(str(one["loc"][0]), str(one["type"]), str(one["msg"])) for one in error.errors()[:3])
    except (ValueError, re.error) as error:
        problem = " ".join(str(error).split())[:200]
    notes.append(f"`{CONFIG}` of the base branch is not used: {problem}.")
    return _Config()


def _parsed(text: str) -> _Config:
    """Raises ValueError (of TOML, of a value, of a pattern) and re.error (of a pattern)."""
    config = _Config.model_validate(tomllib.loads(text))
    for name, pattern in [*(("exclude", it) for it in config.exclude), *(("generated", it) for it in config.generated)]:
        if not 0 < len(pattern) <= MAX_PATTERN or not pattern.isprintable():
            raise ValueError(f"{name}: allowed are patterns of 1 to {MAX_PATTERN} printable characters")
        parts = pattern.split("/")
        if parts.count("**") > MAX_STARS or any(part.count("*") > MAX_STARS for part in parts):
            raise ValueError(f"{name}: allowed are {MAX_STARS} times * between two /, and {MAX_STARS} times **")
        GitIgnoreSpec.from_lines([pattern])
    return config


def _said(key: str, kind: str, message: str) -> str:
    if kind == "extra_forbidden":
        return f"{code(key)} is no key of it (known are {', '.join(sorted(_Config.model_fields))})"
    return f"{key}: {message.replace('Input should be', 'allowed is')}"


def _texts(found: Mapping[str, Found], rules: str, notes: list[str]) -> list[Rule]:
    """All that is said, what holds for more before what holds for less."""
    said = [Rule(CONFIG, "", rules.strip())] if rules.strip() else []
    context: list[Rule] = []
    nested = 0
    for path, file in found.items():
        if path == CONFIG:
            continue
        problem, text = file.problem, ""
        try:
            text = file.content.decode()
        except UnicodeDecodeError:
            problem = "it is not UTF-8"
        if problem:
            notes.append(f"{code(path)} of the base branch is not used: {problem}.")
            continue
        if path != AGENTS:
            nested += 1
            if nested > MAX_NESTED:
                continue
        scope = path.removesuffix(AGENTS)
        section, rest = sections(text)
        said += [Rule(path, scope, section or rest)] if (section or rest) else []
        context += [Rule(path, scope, rest, context=True)] if section and rest else []
    if nested > MAX_NESTED:
        notes.append(f"{nested - MAX_NESTED} more {AGENTS} below the root are not used: at most {MAX_NESTED} are.")
    return [*said, *context]


def _capped(rules: Sequence[Rule], notes: list[str]) -> Iterable[Rule]:
    """As many of them as there is room for, in their order. The nearer is given room first, for it is the one that
    holds where two disagree; the configuration before all."""
    room = {False: MAX_RULES, True: MAX_CONTEXT}
    fits: dict[int, str] = {}
    for at in sorted(range(len(rules)), key=lambda at: (rules[at].source != CONFIG, -rules[at].scope.count("/"))):
        rule = rules[at]
        raw = rule.text.encode()
        fits[at] = raw[: room[rule.context]].decode("utf-8", "ignore")
        room[rule.context] -= len(fits[at].encode())
    for at, rule in enumerate(rules):
        raw, kept = rule.text.encode(), fits[at]
        if len(raw) == len(kept.encode()):
            yield rule
            continue
        if not rule.context:
            size = len(kept.encode())
            notes.append(
                f"Of the rules in {code(rule.source)} {size} of {len(raw)} bytes are used: there is no more room."
            )
        if kept:
            yield replace(rule, text=kept, cut=len(raw) - len(kept.encode()))


_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


def sections(text: str) -> tuple[str, str]:
    """The rules for reviews in an AGENTS.md (the sections with one of the names SECTIONS, at any level, down to the
    next heading of the same level or a higher one), and the rest."""
    inside = 0
    rules: list[str] = []
    rest: list[str] = []
    for lines, level, title in _blocks(text.replace("\r\n", "\n").split("\n")):
        if level and inside and level <= inside:
            inside = 0
        if level and not inside and _name(title) in SECTIONS:
            inside = level
        (rules if inside else rest).extend(lines)
    return "\n".join(rules).strip(), "\n".join(rest).strip()


def _name(title: str) -> str:
    return " ".join(re.findall(r"\w+", title.casefold().replace("_", " ")))


def _blocks(lines: Sequence[str]) -> Iterable[tuple[Sequence[str], int, str]]:
    """Each line, or heading of two lines, with the level and title of a heading (0: none). Code is none."""
    fence = ""
    at = 0
    while at < len(lines):
        line = lines[at]
        below = lines[at + 1] if at + 1 < len(lines) else ""
        mark = _FENCE.match(line)
        heading = _HEADING.fullmatch(line)
        under = _UNDERLINE.fullmatch(below)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and line.strip(" `~") == "" else fence
            yield (line,), 0, ""
        elif mark:
            fence = mark[1]
            yield (line,), 0, ""
        elif heading:
            yield (line,), len(heading[1]), heading[2]
        elif under and line.strip() and not line.startswith((" " * 4, "\t")) and _is_prose(line):
            yield (line, below), 1 if under[1][0] == "=" else 2, line
            at += 1
        else:
            yield (line,), 0, ""
        at += 1


def _is_prose(line: str) -> bool:
    return re.match(r" {0,3}(?:[-*+>|]|\d+[.)]\s)", line) is None


def _digest(block_priority: int, exclude: Sequence[str], rules: Sequence[Rule]) -> str:
    said = [block_priority, list(exclude), [[rule.source, rule.context, rule.text] for rule in rules]]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
