"""The hunks of the real diff, held against what git itself prints; and where a finding stands in them."""

import random
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from gitrepo import IDENTITY, Repo

from appliance.core.anchors import place
from appliance.core.diff import BadPatch, Diff, FileDiff, Hunk, hunks, sizes, whole
from appliance.core.findings import Finding, InlineAnchor
from appliance.git import Mirrors
from appliance.git import hunks as reading
from appliance.git.changes import ChangedFile

NAMES = [
    "a",
    "with space",
    "tab\there",
    "line\nend",
    'quo"te',
    "评论.py",
    "(auth)/x.ts",
    "[id]/y z.ts",
    b"\xff\xfe.txt",
]


def finding(path: str, first: int, last: int | None = None) -> Finding:
    return Finding("Off by one", "Left out.", 1, 0.9, path, first, last or first)


class Bench:
    def __init__(self, path: Path) -> None:
        self.repo = Repo(path / "repo")
        self.mirrors = Mirrors(path / "mirrors")

    def branch(self) -> None:
        self.repo.commit("base")
        self.repo.git("checkout", "--quiet", "-b", "feature")

    def diff(self) -> tuple[tuple[ChangedFile, ...], Diff]:
        head, base = self.repo.commit("head"), self.repo.git("rev-parse", "main")
        mirror = self.mirrors.fetch("ada/repo", self.repo.source(), head_sha=head)
        files = mirror.changed_files(base, head)
        return files, mirror.diff(files)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def lines(*numbers: int, crlf: bool = False) -> str:
    return "".join(f"line {number}{chr(13) if crlf else ''}\n" for number in numbers)


def told_by_git(old: bytes, new: bytes, folder: Path) -> bytes:
    for name, content in (("old", old), ("new", new)):
        (folder / name).write_bytes(content)
    argv = ["git", "diff", "--no-index", "--no-color", "old", "new"]
    return subprocess.run(argv, cwd=folder, env=IDENTITY, capture_output=True, check=False).stdout


def test_any_two_files_have_the_hunks_that_git_prints(tmp_path: Path) -> None:
    """Applied in thought: what is not removed of the old file and not added of the new one is the same, line by line,
    and a line that is shown as neither stands in both."""
    dice = random.Random(4)
    vocabulary = [
        b"",
        b"x",
        b"- minus",
        b"+ plus",
        b"\\ No newline at end of file",
        b"@@ -1,2 +3,4 @@",
        b"diff --git a/x b/x",
        b"\r",
        b"x\r",
        b" ",
        b"--- a/x",
        b"+++ b/x",
        b"\xff\xfe",
        "\u2028评".encode(),
        b"a\x0bb\x0cc\x85",
    ]
    for _ in range(150):
        old = [dice.choice(vocabulary) for _ in range(dice.randint(0, 40))]
        new = list(old)
        for _ in range(dice.randint(0, 6)):
            at = dice.randint(0, len(new))
            new[at : at + dice.randint(0, 3)] = [dice.choice(vocabulary) for _ in range(dice.randint(0, 3))]
        ends = [dice.choice([b"\n", b""]) for _ in range(2)]
        contents = [b"\n".join(part) + (end if part else b"") for part, end in zip((old, new), ends, strict=True)]
        patch = told_by_git(contents[0], contents[1], tmp_path)
        found = hunks(patch)
        gone = {n for hunk in found for a, b in hunk.removed for n in range(a, b + 1)}
        come = {n for hunk in found for a, b in hunk.added for n in range(a, b + 1)}
        olds, news = (content.split(b"\n") for content in contents)
        olds, news = (each[:-1] if each[-1] == b"" else each for each in (olds, news))
        last = [content.endswith(b"\n") for content in contents]
        kept = [(line, n < len(olds) or last[0]) for n, line in enumerate(olds, 1) if n not in gone]
        assert kept == [(line, n < len(news) or last[1]) for n, line in enumerate(news, 1) if n not in come], contents
        assert (patch == b"") == (found == ())
        for hunk in found:
            for ranges, side in ((hunk.removed, hunk.left), (hunk.added, hunk.right)):
                assert all(side and side[0] <= a <= b <= side[1] for a, b in ranges)


@pytest.mark.parametrize("name", NAMES)
def test_no_name_breaks_it(bench: Bench, name: str | bytes) -> None:
    bench.repo.write(name, lines(1, 2, 3, 4, 5))
    bench.branch()
    bench.repo.write(name, lines(1, 2, 33, 4, 5))
    [file], found = bench.diff()
    assert found == Diff((FileDiff(file.path, None, (Hunk((1, 5), (1, 5), ((3, 3),), ((3, 3),)),)),))
    assert place(finding(file.path, 3), found) == InlineAnchor(file.path, 3, "RIGHT")


def test_every_kind_of_change(bench: Bench) -> None:
    repo = bench.repo
    repo.write("moved.py", lines(*range(30)))
    repo.write("moved and changed.py", lines(*range(100, 140)))
    repo.write("mode.sh", lines(1))
    repo.write("gone.py", lines(1, 2, 3))
    repo.write("less.py", lines(*range(1, 21)))
    repo.write("dos.txt", lines(*range(1, 10), crlf=True))
    repo.write("end.txt", "a\nb")
    repo.write("becomes-link", "text\n")
    (repo.path / "link").symlink_to("one")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    repo.git("add", "--all", "--", ":!module")
    repo.git("commit", "--quiet", "-m", "base")
    repo.git("checkout", "--quiet", "-b", "feature")
    repo.git("mv", "moved.py", "new place.py")
    repo.git("mv", "moved and changed.py", "renamed.py")
    repo.write("renamed.py", lines(*range(100, 120), 7, *range(121, 140)))
    (repo.path / "mode.sh").chmod(0o755)
    (repo.path / "gone.py").unlink()
    repo.write("less.py", lines(*range(1, 9), *range(12, 21)))
    repo.write("dos.txt", lines(*range(1, 5), 55, *range(6, 10), crlf=True))
    repo.write("end.txt", "a\nb\n")
    (repo.path / "becomes-link").unlink()
    (repo.path / "becomes-link").symlink_to("less.py")
    (repo.path / "link").unlink()
    (repo.path / "link").symlink_to("two")
    repo.write("image.png", bytes(range(256)) * 4)
    repo.write("new.py", "quite\nanother\n")
    repo.write("empty", "")
    repo.git("add", "--all", "--", ":!module")
    repo.git("update-index", "--cacheinfo", f"160000,{'2' * 40},module")
    repo.git("commit", "--quiet", "-m", "head")
    head = repo.git("rev-parse", "HEAD")
    mirror = bench.mirrors.fetch("ada/repo", repo.source(), head_sha=head)
    found = mirror.diff(mirror.changed_files(repo.git("rev-parse", "main"), head))
    shown = {each.path: each.hunks for each in found.files}
    one = Hunk((1, 1), (1, 1), ((1, 1),), ((1, 1),))
    assert shown == {
        "new place.py": (),
        "renamed.py": (Hunk((18, 24), (18, 24), ((21, 21),), ((21, 21),)),),
        "mode.sh": (),
        "gone.py": whole(3, "LEFT"),
        "less.py": (Hunk((6, 14), (6, 11), ((9, 11),)),),
        "dos.txt": (Hunk((2, 8), (2, 8), ((5, 5),), ((5, 5),)),),
        "end.txt": (Hunk((1, 2), (1, 2), ((2, 2),), ((2, 2),)),),
        "becomes-link": (),
        "link": (one,),
        "module": (one,),
        "image.png": (),
        "new.py": whole(2, "RIGHT"),
        "empty": (),
    }

    def at(path: str, first: int, last: int | None = None) -> InlineAnchor | None:
        return place(finding(path, first, last), found)

    assert at("renamed.py", 21) == InlineAnchor("renamed.py", 21, "RIGHT")
    assert at("moved and changed.py", 21) == InlineAnchor("renamed.py", 21, "RIGHT"), "R5: under the new name"
    assert at("new place.py", 3) is None, "of a pure rename nothing is shown"
    assert at("gone.py", 2) == InlineAnchor("gone.py", 2, "LEFT"), "R6"
    assert at("less.py", 9, 11) == InlineAnchor("less.py", 11, "LEFT", 9, "LEFT"), "R6"
    assert at("less.py", 1) is None
    assert at("nowhere.py", 1) is None


FILE = FileDiff(
    "f",
    "was",
    (
        Hunk((1, 6), (1, 7), ((3, 3),), ((3, 4),)),
        Hunk((20, 26), (21, 27), ((23, 23),), ((24, 24),)),
        Hunk((40, 48), (41, 46), ((43, 45),), ()),
    ),
)


@pytest.mark.parametrize(
    ("side", "first", "last", "expected"),
    [
        ("RIGHT", 3, 3, ("RIGHT", None, 3)),
        ("RIGHT", 3, 4, ("RIGHT", 3, 4)),
        ("RIGHT", 1, 4, ("RIGHT", 1, 4)),
        ("RIGHT", 4, 12, ("RIGHT", 4, 7)),  # reaches out of the hunk: the part within
        ("RIGHT", 7, 12, None),  # that part changed nothing
        ("RIGHT", 5, 6, ("RIGHT", 5, 6)),  # beside a change, and shown
        ("RIGHT", 4, 24, ("RIGHT", 4, 7)),  # two hunks: the first
        ("RIGHT", 7, 24, ("RIGHT", 21, 24)),  # two hunks: the one that changed something of it
        ("RIGHT", 8, 20, None),
        ("RIGHT", 9999, 9999, None),
        ("RIGHT", 1, 9999, ("RIGHT", 1, 7)),
        ("LEFT", 3, 3, ("LEFT", None, 3)),
        ("LEFT", 44, 60, ("LEFT", 44, 48)),
        ("LEFT", 9, 9, None),
        ("RIGHT", 43, 45, ("LEFT", 43, 45)),  # R6: nothing but old lines there
        ("RIGHT", 42, 42, ("RIGHT", None, 42)),
    ],
)
@pytest.mark.parametrize("name", ["f", "was"])
def test_a_finding_stands_where_the_diff_shows_it(
    side: str, first: int, last: int, expected: tuple[str, int | None, int] | None, name: str
) -> None:
    found = place(finding(name, first, last) if side == "RIGHT" else left(name, first, last), Diff((FILE,)))
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert (found.path, found.side, found.start_line, found.line) == ("f", *expected)
        assert found.start_side == (None if expected[1] is None else found.side)


def left(name: str, first: int, last: int) -> Finding:
    return replace(finding(name, first, last), side="LEFT")


def test_whatever_is_asked_an_anchor_lies_within_one_hunk() -> None:
    """What a forge would refuse is never given to it: every range, on both sides."""
    for side in ("RIGHT", "LEFT"):
        for first in range(1, 60):
            for last in range(first, 60):
                given = finding("f", first, last) if side == "RIGHT" else left("f", first, last)
                found = place(given, Diff((FILE,)))
                if found is None:
                    continue
                begin, end = found.start_line or found.line, found.line
                assert found.start_line is None or found.start_line < found.line
                assert begin <= end
                shown = [hunk.shown(found.side) for hunk in FILE.hunks]
                assert any(part and part[0] <= begin and end <= part[1] for part in shown)


def test_a_name_that_was_given_to_another_file_is_that_files() -> None:
    one, other = FileDiff("a", "b", whole(5, "RIGHT")), FileDiff("b", "a", whole(9, "RIGHT"))
    swapped = Diff((one, other))
    assert (swapped.of("a"), swapped.of("b")) == (one, other)


@pytest.mark.parametrize("patch", [b"@@ -1,3 +1,3 @@\n a\n-b\n", b"@@ -1 +1 @@", b"@@ -1 +1 @@\nx\n"])
def test_a_patch_that_is_cut_off_is_not_taken_for_a_whole_one(patch: bytes) -> None:
    with pytest.raises(BadPatch):
        hunks(patch)


def test_the_size_of_each_file_in_a_patch_of_many() -> None:
    parts = [
        b"diff --git a/x b/x\n@@ -1 +1 @@\n-diff --git\n+diff --git a/y b/y\n",
        b"diff --git a/y b/y\n" + b"+z\n" * 9,
    ]
    assert sizes(b"".join(parts), [1, 1]) == [len(part) for part in parts]
    assert sizes(b"".join(parts), [2]) == [sum(map(len, parts))]
    for sections in ([1], [1, 1, 1]):
        with pytest.raises(BadPatch):
            sizes(b"".join(parts), sections)


def test_the_size_of_a_diff_is_measured_whatever_its_lines_are(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lockfile or minified code in one line; a word in a large book; a file that becomes a link."""
    long, book = "x" * 300_000, "".join(f"line {number}\n" for number in range(20_000))
    for name, content in {"min.js": f"{long}\n", "book": book, "small": "1\n", "moved": book, "kind": book}.items():
        bench.repo.write(name, content)
    bench.branch()
    for name, content in {"min.js": f"{long}y\n", "book": book.replace("line 9\n", "nine\n"), "small": "2\n"}.items():
        bench.repo.write(name, content)
    bench.repo.git("mv", "moved", "name")
    (bench.repo.path / "kind").unlink()
    (bench.repo.path / "kind").symlink_to("small")
    changes, _ = bench.diff()
    mirror = bench.mirrors.fetch("ada/repo", bench.repo.source(), head_sha=bench.repo.git("rev-parse", "HEAD"))
    found = mirror.sizes(changes)
    assert 600_000 < found["min.js"] < 601_000
    assert found["book"] < 400
    assert found["name"] == 0
    assert len(book) < found["kind"] < len(book) + 100
    assert found["small"] <= 4
    monkeypatch.setattr(reading, "MAX_FILES", 0)
    assert mirror.sizes(changes)["min.js"] == 2 * reading.LINE_BYTES, "of too many, by the number of lines"
    monkeypatch.undo()
    monkeypatch.setattr(reading, "MAX_PATCH", 1000)
    assert mirror.sizes(changes)["min.js"] == 600_003, "no less than it may have"


def test_a_patch_that_is_too_large_is_not_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_PATCH", 1000)
    bench.repo.write("big", lines(*range(500)))
    bench.repo.write("small", lines(1, 2))
    bench.branch()
    bench.repo.write("big", lines(*range(1000, 1500)))
    bench.repo.write("small", lines(1, 3))
    _, found = bench.diff()
    assert [(each.path, len(each.hunks)) for each in found.files] == [("big", 0), ("small", 1)]
