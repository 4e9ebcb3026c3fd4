"""Pull requests that are too large, or that git refuses: bounded in time, memory and disk, and the pull request's own.

None may end as a fault of the workstation, which would hold up the reviews of all others, nor leave files behind.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gitrepo import Repo, feature_repo
from hostile_repo import FILE, FOLDER, LINK, Forge, Pack, Server, commit_data, packs_in_turn, serving, tree_data

from appliance import codex
from appliance.core.findings import Evidence, Result, Review
from appliance.core.outcomes import RULES, Ending, Outcome
from appliance.core.pulls import Pull
from appliance.core.verdict import gate_of
from appliance.forge import Source
from appliance.gate import Upstream
from appliance.git import Mirrors, Slots, bounds, hardened, parts
from appliance.git import mirror as mirror_module
from appliance.process import Limits, ProgramMissing, Stopped, run
from appliance.reviewing import Reviewer

SECONDS = 20.0  # in which each attack is over; alone on the machine most take a tenth of one


class World:
    """One attempt after another, all but Codex: it takes note of the checkout, and finds nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.repo = feature_repo(path / "repo")
        self.forge = Forge(self.repo)
        self.saw: list[str] = []
        self.status = ""
        self.marked: list[str] = []
        model = codex.Model("none", "low", Upstream("http://localhost/v1"))
        slots = Slots(path / "slots")
        self.reviewer = Reviewer(Mirrors(path / "mirrors"), slots, self, model, lambda: None, 60.0)

    @contextlib.contextmanager
    def new(self, prefix: str) -> Iterator[Path]:
        yield self.path

    def reserve(self, work: Path) -> None:
        """No room is needed."""

    def look(self, job: codex.Job, *_: object, **__: object) -> Ending:
        tree = job.checkout.tree
        # Not by Python: where directories are nested deeply it gives up.
        found = run(["find", ".", "!", "-type", "d", "-print0"], timeout=60, cwd=tree, check=True).stdout
        self.saw = sorted(os.fsdecode(name[2:]) for name in found.split(b"\0") if name)
        argv = ["git", f"--git-dir={job.checkout.git_dir}", f"--work-tree={tree}", "status", "--porcelain"]
        self.status = run(argv, timeout=60, cwd=tree, check=True).out
        marks = run([*argv[:3], "ls-files", "-t"], timeout=60, cwd=tree, check=True).out.splitlines()
        self.marked = [line[2:] for line in marks if line.startswith("S")]
        result = Result("correct", "Fine.", "Looked.", "None.")
        evidence = Evidence(("git diff",), files_changed=len(job.files))
        review = Review(
            job.pull.target, job.pull.head_sha, "main", job.base_sha, job.merge_base, result, evidence=evidence
        )
        return Ending(Outcome.REVIEWED, "reviewed", review=review)

    def attempt(
        self,
        head: str,
        source: Source | None = None,
        stop: threading.Event | None = None,
        seconds: float = SECONDS,
    ) -> Ending:
        self.saw = []
        pull = Pull("ada/repo#1", "ada/repo", 1, head, "main", "")
        started = time.monotonic()
        ending = self.reviewer.review(pull, source or self.repo.source(), stop=stop)
        assert time.monotonic() - started < seconds
        return ending

    def others_go_on(self) -> None:
        """Another pull request of the repository is reviewed, from the mirror and in the slot that are there."""
        self.repo.git("checkout", "--quiet", "--force", "-B", "feature", "main")
        head = self.repo.commit("harmless", harmless="1\n")
        ending = self.attempt(head)
        assert ending.review is not None, ending
        assert self.saw == ["a", "b", "harmless"]
        assert gate_of(ending.review, 1).state == "success"

    def written(self) -> int:
        """Bytes below mirrors and slots."""
        found = [each for part in ("mirrors", "slots") for each in (self.path / part).rglob("*")]
        return sum(each.lstat().st_blocks * 512 for each in found)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World(tmp_path)
    monkeypatch.setattr(codex, "review", world.look)
    yield world
    run(["rm", "-rf", str(tmp_path / "slots")], timeout=60)  # may be nested too deeply for what pytest tidies up with


def refused(ending: Ending, outcome: Outcome, reason: str) -> None:
    assert (ending.outcome, ending.reason) == (outcome, reason)
    assert RULES[outcome].counts and not RULES[outcome].stops
    assert ending.fault is None and ending.review is None


# --- trees ---


@pytest.mark.parametrize(("levels", "width"), [(3, 100), (8, 200)], ids=["a million", "10 to the 18th"])
def test_a_tree_of_a_million_files_is_too_large(world: World, levels: int, width: int) -> None:
    head = world.forge.head(world.forge.bomb(levels, width))
    refused(world.attempt(head), Outcome.CONTEXT, "context too large: the head has more than 500,000 files")
    assert world.written() < 2**20
    world.others_go_on()


def test_a_tree_too_deep_for_git_itself_is_too_large(world: World) -> None:
    head = world.forge.head(world.forge.nested(850, "directory"))
    refused(world.attempt(head), Outcome.CONTEXT, "context too large: the head's directories are nested too deeply")
    world.others_go_on()


def test_directories_nested_too_deeply_are_left_out(world: World) -> None:
    head = world.forge.head(world.forge.nested(150))
    ending = world.attempt(head)
    assert ending.review is not None, ending
    assert (world.saw, world.status) == ([], ""), "what is left out is no change to git"
    assert "nested too deeply" in ending.review.result.limits
    world.others_go_on()


def test_a_deep_tree_of_the_base_can_be_removed_again(world: World) -> None:
    tree = world.forge.nested(1100)
    base = world.forge.put("commit", commit_data(tree))
    world.repo.git("update-ref", "refs/heads/main", base)
    entries = ((FOLDER, "d", world.repo.git("rev-parse", f"{base}:d")), (FILE, "n", world.forge.blob()))
    ending = world.attempt(world.forge.head(world.forge.tree(*entries)))
    assert ending.review is not None, ending
    assert len(world.saw) == 2
    parts.discard(next((world.path / "slots").glob("*/0")))
    assert [path.name for path in (world.path / "slots").glob("*/*")] == ["0.lock"]


def folder(name: str) -> Callable[[Forge, str], list[tuple[str, str, str]]]:
    return lambda forge, blob: [(FOLDER, name, forge.tree((FILE, "config", blob)))]


@pytest.mark.parametrize(
    "entries",
    [pytest.param(folder(name), id=repr(name)) for name in (".git", ".GIT", ".gIt", "..", ".")]
    + [
        pytest.param(lambda forge, blob: [(FILE, "../../evil", blob)], id="a path out of the tree"),
        pytest.param(lambda forge, blob: [(FILE, ".git/config", blob)], id="a path into the git directory"),
        pytest.param(lambda forge, blob: [(LINK, ".gitmodules", blob)], id="a link called .gitmodules"),
        pytest.param(lambda forge, blob: [("160000", "m", "0" * 40)], id="a submodule at no commit"),
        pytest.param(lambda forge, blob: [(FILE, "a", forge.tree((FILE, "x", blob)))], id="a folder as a file"),
    ],
)
def test_a_tree_that_git_refuses_is_the_pull_requests(
    world: World, entries: Callable[[Forge, str], list[tuple[str, str, str]]]
) -> None:
    config = world.forge.blob(b"[core]\n\tfsmonitor = touch /tmp/pwned\n")
    ending = world.attempt(world.forge.head(world.forge.tree(*entries(world.forge, config))))
    assert ending.outcome is Outcome.TURN_FAILED, ending
    assert ending.reason in ("git refuses what the commit holds", "a file of the head is a tree")
    refused(ending, Outcome.TURN_FAILED, ending.reason)
    assert not list((world.path / "slots").rglob("evil"))
    assert not list((world.path / "slots").glob("*/0/tree/.git/*"))
    world.others_go_on()


@pytest.mark.parametrize(
    "name", ["git~1", ".git ", ".g\u200cit", "\u200d.git", ".git.", "GIT~1", ".git::$INDEX_ALLOCATION"]
)
def test_names_that_are_the_git_directory_elsewhere_are_only_names_here(world: World, name: str) -> None:
    head = world.forge.head(world.forge.tree((FOLDER, name, world.forge.tree((FILE, "config", world.forge.blob())))))
    assert world.attempt(head).review is not None
    assert world.saw == [f"{name}/config"]


def test_a_link_and_a_folder_of_one_name_write_nothing_outside(world: World) -> None:
    """CVE-2021-21300 and its kin: the link is made first, and then a file goes through it."""
    outside = world.path / "outside"
    outside.mkdir()
    link = world.forge.blob(str(outside).encode())
    inner = world.forge.tree((FILE, "pwned", world.forge.blob()))
    for entries in (
        [(LINK, "a", link), (FOLDER, "a", inner)],
        [(FOLDER, "a", inner), (LINK, "a", link)],
        [(FOLDER, "A", inner), (LINK, "a", link)],
    ):
        ending = world.attempt(world.forge.head(world.forge.tree(*entries)))
        assert list(outside.iterdir()) == []
        if entries[0][1] == "a":
            refused(ending, Outcome.TURN_FAILED, "git refuses what the commit holds")
    world.others_go_on()


def test_two_files_of_one_name_are_not_reviewed_as_one(world: World) -> None:
    good, bad = world.forge.blob(b"good\n"), world.forge.blob(b"bad\n")
    of_base = world.repo.git("rev-parse", "main:a")
    for entries in (
        [(FILE, "n", good), (FILE, "n", bad)],
        [(FILE, "a", of_base), (FOLDER, "a", world.forge.tree((FILE, "hidden", bad)))],
    ):
        ending = world.attempt(world.forge.head(world.forge.tree(*entries)))
        refused(ending, Outcome.TURN_FAILED, "git refuses what the commit holds")
    world.others_go_on()


# --- names ---


def test_names_too_long_for_a_disk_are_left_out_and_named(world: World) -> None:
    blob = world.forge.blob()
    deep: str = blob
    for _ in range(20):
        deep = world.forge.tree((FOLDER if deep != blob else FILE, "d" * 250, deep))
    names = [(FILE, "n" * 255, blob), (FILE, "o" * 256, blob), (FILE, "p" * 5000, blob), (FOLDER, "q", deep)]
    ending = world.attempt(world.forge.head(world.forge.tree(*names)))
    assert ending.review is not None, ending
    assert (world.saw, world.status) == (["n" * 255], "")
    limits = ending.review.result.limits
    assert limits.count("its name is too long") == 3
    assert len(limits) < 1500
    assert ending.review.evidence.files_left_out == 3
    assert gate_of(ending.review, 1).state == "error"
    world.others_go_on()


ODD = [
    *("\x1b[2J\x1b[31mred", "bell\x07", "line\nbreak", "tab\t", "back\\slash", "\u202egnp.exe", "'; touch pwned; '"),
    *(
        "$(touch pwned)",
        "`touch pwned`",
        "-x",
        "--upload-pack=touch pwned",
        ":(top)",
        "%s%n",
        "<!-- x -->",
        "CON",
        "a:b",
    ),
]


def test_names_with_control_characters_are_checked_out_as_they_are(world: World) -> None:
    blob = world.forge.blob()
    names = sorted([*(name.encode() for name in ODD), b"\xff\xfe\x80"])
    entries = [(FILE, name, blob) for name in names]
    ending = world.attempt(world.forge.head(world.forge.tree(*entries)))
    assert ending.review is not None, ending
    assert world.saw == sorted([*ODD, os.fsdecode(b"\xff\xfe\x80")])


def test_a_name_that_is_left_out_may_hold_anything(world: World) -> None:
    """The list of them goes to git by NUL: a line break names no other file."""
    long = "\n".join(["a", "x" * 300, "\x1b[31m", '"'])
    ending = world.attempt(
        world.forge.head(world.forge.tree((FILE, "a", world.forge.blob()), (FILE, long, world.forge.blob())))
    )
    assert ending.review is not None, ending
    assert world.saw == ["a"]
    assert "\x1b" not in ending.review.result.limits
    assert "\na" not in ending.review.result.limits.split("\n\n")[0]


# --- contents ---


def test_links_that_no_disk_takes_are_left_out(world: World) -> None:
    links = {"empty": b"", "long": b"x" * 5000, "good": b"/etc/passwd", "git": b".git/config"}
    head = world.forge.head(
        world.forge.tree(*((LINK, name, world.forge.blob(to)) for name, to in sorted(links.items())))
    )
    ending = world.attempt(head)
    assert ending.review is not None, ending
    assert world.saw == ["git", "good"]
    assert ending.review.result.limits.count("a link that cannot be made") == 2


@contextlib.contextmanager
def hostile_server(pack: Pack, head: str, base: str, base_pack: bytes) -> Iterator[Source]:
    refs = {"refs/heads/main": base, "refs/pull/1/head": head}
    with serving(Server(refs, packs_in_turn([base_pack, pack.data()]))) as server:
        yield Source(f"{server.base}/octo/app.git", "refs/pull/1/head", "refs/heads/main", "Basic c2VjcmV0")


def base_of(pack: Pack) -> str:
    return pack.add("commit", commit_data(pack.add("tree", tree_data((FILE, "a", pack.add("blob", b"one\n"))))))


def test_a_sparse_file_is_left_out_and_named(world: World) -> None:
    """600 MiB of zeros are 600 kB as packed; git hashes 2 GiB in ten seconds. The other files are reviewed, and the
    gate is no success."""
    base_pack, pack = Pack(), Pack()
    base = base_of(base_pack)
    tree = tree_data((FILE, "a", pack.add("blob", b"ONE\n")), (FILE, "big", pack.zeros(600)))
    head = pack.add("commit", commit_data(pack.add("tree", tree), base))
    with hostile_server(pack, head, base, base_pack.data()) as source:
        ending = world.attempt(head, source)
    assert ending.review is not None, ending
    assert world.saw == ["a"]
    assert 'Not checked out, so not read as files: "big" (it has more than 100 MiB).' in ending.review.result.limits
    gate = gate_of(ending.review, 1)
    assert (gate.state, gate.description) == ("error", "1 changed file could not be shown to the reviewer")
    assert world.written() < 20 * 2**20


def test_many_large_files_are_too_large_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_CHANGE_BYTES", 1000)
    blob = world.forge.blob(bytes(300))
    entries = [(FILE, name, blob) for name in "pqrs"]
    ending = world.attempt(world.forge.head(world.forge.tree(*entries)))
    refused(ending, Outcome.CONTEXT, "context too large: the changed files have more than 0 GiB")
    assert world.attempt(world.forge.head(world.forge.tree(*entries[:3]))).review is not None


def test_a_slot_that_lacked_a_file_shows_the_next_one_of_its_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git hands the mark of a file that is left out on to its successor, and is blind to it from then on."""
    monkeypatch.setattr(bounds, "MAX_FILE_BYTES", 10)
    blob, big = world.forge.blob(), world.forge.blob(b"x" * 11)
    for data, seen, marked in (
        (blob, ["a", "f"], []),
        (big, ["a"], ["f"]),
        (blob, ["a", "f"], []),
        (big, ["a"], ["f"]),
    ):
        assert (
            world.attempt(world.forge.head(world.forge.tree((FILE, "a", blob), (FILE, "f", data)))).review is not None
        )
        assert (world.saw, world.marked) == (seen, marked)


def test_a_delta_that_becomes_gigabytes_ends_git_and_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """150 kB that become 3 GiB, in git's memory, while it reads the pack."""
    base_pack, pack = Pack(), Pack()
    base = base_of(base_pack)
    pack.delta_bomb(3072)
    head = pack.add("commit", commit_data(pack.add("tree", tree_data()), base))
    with hostile_server(pack, head, base, base_pack.data()) as source:
        ending = world.attempt(head, source)
    refused(ending, Outcome.CONTEXT, "context too large: it takes more memory or disk than allowed")
    assert world.written() < 2**20


def test_a_file_of_50_million_lines_is_not_compared_line_by_line(world: World) -> None:
    base_pack, pack = Pack(), Pack()
    lines = b"\n" * (51 * 2**20)
    base = base_pack.add(
        "commit", commit_data(base_pack.add("tree", tree_data((FILE, "a", base_pack.add("blob", lines)))))
    )
    blob = pack.add("blob", b"one more" + lines)
    small = pack.add("blob", b"one\n")  # without a file that can be read nobody would look
    head = pack.add("commit", commit_data(pack.add("tree", tree_data((FILE, "a", blob), (FILE, "b", small))), base))
    with hostile_server(pack, head, base, base_pack.data()) as source:
        ending = world.attempt(head, source)
    assert ending.review is not None, ending
    assert world.saw == ["a", "b"]


# --- a server that does not end ---


def endless(world: World, pieces: Callable[[], Iterator[bytes]]) -> tuple[Server, str, str]:
    base_pack = Pack()
    base, base_data = base_of(base_pack), base_pack.data()
    head = "1" * 40
    turns = iter([iter([base_data])])
    server = Server({"refs/heads/main": base, "refs/pull/1/head": head}, lambda _: next(turns, None) or pieces())
    return server, head, base


@pytest.mark.parametrize("objects_told", [10**5, 2**32 - 1])
def test_endless_data_ends_at_the_bound_and_leaves_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, objects_told: int
) -> None:
    monkeypatch.setattr(bounds, "MAX_FETCH_BYTES", 8 * 2**20)

    sent: list[int] = []

    def objects() -> Iterator[bytes]:
        yield b"PACK" + (2).to_bytes(4, "big") + objects_told.to_bytes(4, "big")
        while True:
            pack = Pack()
            pack.add("blob", os.urandom(2**16))
            sent.append(len(pack.entries[0]))
            yield pack.entries[0]

    server, head, _ = endless(world, objects)
    with serving(server):
        source = Source(f"{server.base}/octo/app.git", "refs/pull/1/head", "refs/heads/main")
        refused(
            world.attempt(head, source), Outcome.CONTEXT, "context too large: it takes more memory or disk than allowed"
        )
    assert world.written() < 2**20
    assert sum(sent) < 40 * 2**20


def drip() -> Iterator[bytes]:
    """The beginning of a file of 15 bytes, and nothing that would end it."""
    yield b"PACK" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + b"\x3f\x78\x01"
    while True:
        time.sleep(0.2)
        yield b"\0\0\0\xff\xff"  # an empty block, of which there may be any number


def test_a_server_that_drips_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "FETCH_SECONDS", 2.0)
    server, head, _ = endless(world, drip)
    with serving(server):
        source = Source(f"{server.base}/octo/app.git", "refs/pull/1/head", "refs/heads/main")
        ending = world.attempt(head, source)
    assert ending.outcome is Outcome.FORGE_UNREACHABLE, ending
    assert ending.fault is not None and ending.fault.cause == "forge-unreachable"


def test_a_stop_ends_the_wait_for_a_server_that_drips(world: World) -> None:
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    server, head, _ = endless(world, drip)
    with serving(server):
        source = Source(f"{server.base}/octo/app.git", "refs/pull/1/head", "refs/heads/main")
        with pytest.raises(Stopped):
            world.attempt(head, source, stop)


# --- the bounds themselves ---


def test_a_program_is_held_to_its_limits(tmp_path: Path) -> None:
    done = run(["head", "-c", "1G", "/dev/zero"], timeout=20, limits=Limits(output=10**6))
    assert done.flooded and not done.ok and done.seconds < 10
    done = run(["python3", "-c", "bytes(2**30)"], timeout=20, limits=Limits(memory=2**28))
    assert "MemoryError" in done.err
    done = run(["dd", "if=/dev/zero", f"of={tmp_path}/file", "bs=1M", "count=9"], timeout=20, limits=Limits(file=2**20))
    assert "File too large" in done.err and (tmp_path / "file").stat().st_size == 2**20
    with pytest.raises(ProgramMissing):
        run(["no-such-program"], timeout=20, limits=Limits(file=2**20))


def test_every_git_is_bounded_in_memory(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardened, "MAX_MEMORY", 1)
    assert Repo(world.path / "x").git("rev-parse", "--git-dir") == ".git"
    ending = world.attempt(world.repo.git("rev-parse", "feature"))
    assert ending.review is None
