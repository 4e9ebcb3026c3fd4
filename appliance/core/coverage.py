"""What of a change is reviewed, in which passes, and what is named as not looked at. Pure: sizes are given."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from appliance.core.findings import Coverage, NotSeen
from appliance.core.prompt import MAX_FILES, MAX_LIST, File, listed_size

TRIMMED_SHARE = 4  # of a pass's budget is read of a file that is larger than the whole budget
_TEST_PARTS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testing"})
_AFFIX = re.compile(r"^(?:test[_-])|(?:[._-](?:test|tests|spec|unittest))+$|(?<=[a-z0-9])(?:Tests?|Spec|IT)$")
_ANY_NAME = frozenset({"index", "main", "mod", "lib", "__init__", "readme", "init", "setup", "package", "conftest"})
NOT_LOOKED_AT = "not-looked-at"
MOST_NULS = 10  # one byte of so many; a text with some in it is one all the same, an archive of texts has more
MOST_UNREADABLE = 10  # likewise, where it is no UTF-8
_READABLE = bytes([*b"\t\n\r\f\x1b", *range(0x20, 0x7F)])
# What a program or a person reads as text, whatever bytes are in it.
_NAMES = (
    ".asm .awk .bash .bat .c .cc .cfg .cjs .clj .cmake .cmd .conf .cpp .cs .css .cxx .dart .el .erl .ex .exs .f90 .fish"
    " .fs .go .gradle .graphql .groovy .h .hcl .hh .hpp .hs .htm .html .ini .java .jl .js .json .jsx .kt .kts .lisp"
    " .lua .m .md .mjs .mk .ml .mm .nix .pas .php .phtml .pl .pm .proto .ps1 .psm1 .py .pyi .pyw .r .rb .rs .rst .s"
    " .sass .scala .scss .sh .sql .svelte .svg .swift .tcl .tf .toml .ts .tsx .txt .vb .vhd .vim .vue .xml .yaml .yml"
    " .zig .zsh .asp .aspx .bazel .bzl .cnf .cshtml .csproj .cts .ejs .env .erb .fsproj .gemspec .j2 .jsp .ksh .mts"
    " .podspec .properties .props .psd1 .rake .sbt .service .targets .tmpl .vbproj .vbs .wsf"
)
_TEXTS = frozenset(_NAMES.split())
# Those that have no such suffix, before their first dot: Dockerfile.dev, .bashrc.
_CALLED_SO = (
    "babelrc bash_profile bashrc brewfile caddyfile codeowners containerfile dockerfile earthfile editorconfig"
    " env envrc eslintrc gemfile gitattributes gitignore gitmodules gnumakefile gradlew htaccess jenkinsfile justfile"
    " kbuild kconfig makefile npmrc podfile prettierrc procfile profile rakefile snakefile tiltfile vagrantfile yarnrc"
    " zshenv zshrc"
)
_CALLED = frozenset(_CALLED_SO.split())
MAX_TOGETHER = 12  # files of one name; more of them have nothing else in common


def is_text(path: str, content: bytes) -> bool:
    """Whether a file that git calls binary is to be read all the same: one NUL byte must not hide a change."""
    name = PurePosixPath(path).name.casefold()
    if name.removeprefix(".").partition(".")[0] in _CALLED or PurePosixPath(name).suffix in _TEXTS:
        return True
    if content.startswith((b"#!", b"<?", b"\xff\xfe", b"\xfe\xff")):
        return True
    rest = content.replace(b"\0", b"")
    if (len(content) - len(rest)) * MOST_NULS > len(content):
        return False
    try:
        rest.decode()
    except UnicodeDecodeError:
        return len(rest.translate(None, _READABLE)) * MOST_UNREADABLE <= len(rest)
    return True


@dataclass(frozen=True)
class Plan:
    """`portions` are the files of each pass, in order; `unseen` are those for which there was no pass left."""

    portions: tuple[tuple[File, ...], ...]
    trimmed: tuple[File, ...] = ()
    unseen: tuple[File, ...] = ()


@dataclass(frozen=True)
class _Room:
    """What one pass has left, or something takes of it: bytes of diff, files, and characters of the list of them."""

    diff: int
    files: int = MAX_FILES
    list: int = MAX_LIST

    def has(self, need: "_Room") -> bool:
        return need.diff <= self.diff and need.files <= self.files and need.list <= self.list

    def less(self, need: "_Room") -> "_Room":
        return _Room(self.diff - need.diff, self.files - need.files, self.list - need.list)


def passes(files: Sequence[File], sizes: Mapping[str, int], budget: int, most: int) -> Plan:
    """Share `files` out among at most `most` passes of `budget` bytes of diff each.

    `sizes` tells by path how many bytes the diff of a file has. Files that belong together (a source and its tests,
    then those of one directory) come into one pass where they fit. A file that is larger than a whole pass is trimmed:
    it is named, and its first part is read. No pass has more files than its prompt can list: what the reviewer is not
    told of is not looked at.
    """
    trimmed = tuple(replace(file, trimmed_to=budget) for file in files if sizes.get(file.path, 0) > budget)
    large = {file.path: file for file in trimmed}
    portions: list[list[File]] = []
    rooms: list[_Room] = []
    unseen: list[File] = []
    for group in _together(files):
        shown = [large.get(file.path, file) for file in group]
        needs = [
            _Room(budget // TRIMMED_SHARE if file.path in large else sizes.get(file.path, 0), 1, listed_size(file))
            for file in shown
        ]
        all_ = _Room(sum(it.diff for it in needs), len(needs), sum(it.list for it in needs))
        whole = _Room(budget).has(all_)
        for part, need in [(shown, all_)] if whole else [([it], one) for it, one in zip(shown, needs, strict=True)]:
            at = next((at for at in reversed(range(len(rooms))) if rooms[at].has(need)), None)
            if at is not None:
                portions[at] += part
                rooms[at] = rooms[at].less(need)
            elif len(portions) < most:
                portions.append(part)
                rooms.append(_Room(budget).less(need))
            else:
                unseen += part
    gone = {file.path for file in unseen}
    return Plan(tuple(map(tuple, portions)), tuple(file for file in trimmed if file.path not in gone), tuple(unseen))


def _together(files: Sequence[File]) -> list[list[File]]:
    """Groups of files in the order of their first one; directories that are near each other stand near."""
    groups: dict[tuple[str, ...], list[File]] = {}
    for file in files:
        path = PurePosixPath(file.path)
        name = _AFFIX.sub("", path.name.split(".")[0] if path.suffix else path.name).casefold()
        for _ in range(2):
            name = _AFFIX.sub("", name)
        alone = len(name) < 3 or name in _ANY_NAME
        key: tuple[str, ...] = (str(path.parent), name) if alone else (name,)
        if len(groups.get(key, ())) >= MAX_TOGETHER:
            key = (str(path.parent), name, str(len(groups)))
        groups.setdefault(key, []).append(file)
    return sorted(groups.values(), key=lambda group: _place(group[0].path))


def _place(path: str) -> tuple[str, ...]:
    return tuple(part for part in PurePosixPath(path).parent.parts if part.casefold() not in _TEST_PARTS)


def covered(files: Sequence[File], plan: Plan, budget: int, left_out: Sequence[NotSeen]) -> Coverage:
    """What the review names: `files` are those to be reviewed, `left_out` what nobody was to look at or could."""
    read = f"only the first {_size(budget)} of its diff"
    out = {one.path for one in left_out} | {file.path for file in plan.unseen}
    return Coverage(
        reviewed=sum(file.path not in out for file in files),
        trimmed=tuple(NotSeen(file.path, "trimmed", read) for file in plan.trimmed),
        left_out=(
            *left_out,
            *(NotSeen(file.path, NOT_LOOKED_AT, "the change is larger than all passes") for file in plan.unseen),
        ),
        passes=max(1, len(plan.portions)),
    )


def _size(size: int) -> str:
    return f"{size / 1_000_000:.3g} MB" if size >= 100_000 else f"{size / 1000:.3g} kB"
