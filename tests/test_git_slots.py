"""Kept checkouts: exactly the head, nothing of the one before, and whole again after every interruption."""

import concurrent.futures
import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gitrepo import Repo, feature_repo

from appliance.flock import try_lock
from appliance.git import GitError, Mirror, Mirrors, Slot, Slots, git, upkeep
from appliance.git import slots as slots_module
from appliance.git.names import directory_name
from appliance.process import ProgramError


class Bench:
    """A repository with its mirror and slots."""

    def __init__(self, tmp_path: Path) -> None:
        self.repo = feature_repo(tmp_path / "repo")
        self.mirrors = Mirrors(tmp_path / "mirrors")
        self.slots = Slots(tmp_path / "slots")

    def fetch(self, branch: str = "feature") -> tuple[Mirror, str]:
        head = self.repo.git("rev-parse", branch)
        return self.mirrors.fetch("ada/repo", self.repo.source(f"refs/heads/{branch}"), head_sha=head), head

    def use(self, branch: str = "feature", look: Callable[[Slot], object] = lambda slot: None) -> Slot:
        mirror, head = self.fetch(branch)
        merge_base = mirror.merge_base(mirror.base, head)
        with self.slots.checkout(
            mirror, "ada/repo", head_sha=head, base_sha=mirror.base, merge_base=merge_base
        ) as slot:
            self.check(slot, head)
            look(slot)
        return slot

    def check(self, slot: Slot, head: str) -> None:
        """The tree holds the commit, byte for byte, and nothing else."""
        listing = git(["ls-tree", "-r", "-z", head], git_dir=self.repo.path / ".git", timeout=10).stdout
        wanted: dict[str, tuple[bool, str]] = {}
        for line in filter(None, listing.split(b"\0")):
            info, path = line.split(b"\t", 1)
            mode, _, blob = info.split()
            if mode != b"160000":
                wanted[os.fsdecode(path)] = mode == b"120000", blob.decode()
        found: dict[str, tuple[bool, str]] = {}
        for file in slot.tree.rglob("*"):
            if file.is_symlink() or file.is_file():
                data = os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes()
                made = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
                found[str(file.relative_to(slot.tree))] = file.is_symlink(), made
        assert found == wanted
        assert list((slot.tree / ".git").iterdir()) == []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def inside(slot: Slot, *args: str) -> str:
    """Git as the reviewer types it, with no help from us."""
    argv = ["git", f"--git-dir={slot.git_dir}", f"--work-tree={slot.tree}", *args]
    return subprocess.run(argv, cwd=slot.tree, capture_output=True, text=True, check=True).stdout


def test_the_reviewer_sees_head_base_and_merge_base(bench: Bench) -> None:
    bench.repo.git("checkout", "--quiet", "main")
    bench.repo.commit("main goes on", z="1\n")

    def look(slot: Slot) -> None:
        refs = inside(slot, "for-each-ref", "--format=%(refname:short) %(objectname)").split()
        names = dict(zip(refs[::2], refs[1::2], strict=True))
        assert set(names) == {"head", "base", "merge-base"}
        assert names["base"] == bench.repo.git("rev-parse", "main")
        assert names["merge-base"] == bench.repo.git("rev-parse", "main~1")
        assert names["head"] == inside(slot, "rev-parse", "HEAD").strip()
        assert (slot.git_dir / "HEAD").read_text().strip() == names["head"], "HEAD is detached"
        assert "+ONE" in inside(slot, "diff", "merge-base..head")
        assert inside(slot, "diff", "--name-only", "merge-base", "head").split() == ["a", "c"]
        assert "second" in inside(slot, "log", "--oneline", "merge-base..head")
        assert inside(slot, "status", "--porcelain") == ""
        assert inside(slot, "show", "base:z") == "1\n"

    bench.use(look=look)


def test_a_slot_mounted_as_the_jail_does_it_is_a_repository(bench: Bench, tmp_path: Path) -> None:
    slot = bench.use()
    place = tmp_path / "checkout"
    shutil.copytree(slot.tree, place)  # stands for the mounts: tree, and the git directory at .git
    (place / ".git").rmdir()
    shutil.copytree(slot.git_dir, place / ".git")
    shown = subprocess.run(["git", "diff", "merge-base..head"], cwd=place, capture_output=True, text=True, check=True)
    assert "+ONE" in shown.stdout


def test_a_kept_slot_is_moved_and_keeps_nothing(bench: Bench) -> None:
    bench.repo.git("checkout", "--quiet", "-b", "other", "main")
    bench.repo.commit("other", **{"deep/er/x": "1\n", ".gitignore": "*.o\n"})
    first = bench.use("other")
    inode = first.tree.stat().st_ino
    (first.tree / "left.o").write_text("ignored")
    (first.tree / "left").mkdir()
    (first.tree / "left" / "over").write_text("untracked")
    (first.tree / "deep" / "er" / "x").write_text("edited")
    Repo(first.tree / "nested").commit("a repository of its own", n="1\n")
    second = bench.use()
    assert second.tree == first.tree
    assert second.tree.stat().st_ino == inode, "moved, not made anew"
    names = {path.name for path in second.git_dir.iterdir()}
    assert "ORIG_HEAD" not in names
    assert "logs" not in names
    bench.use("other")


def test_unrelated_histories_leave_no_merge_base(bench: Bench) -> None:
    bench.use()
    bench.repo.git("checkout", "--quiet", "--orphan", "island")
    bench.repo.commit("island", i="1\n")
    refs: list[str] = []
    bench.use("island", look=lambda slot: refs.extend(inside(slot, "for-each-ref", "--format=%(refname)").split()))
    assert refs == ["refs/heads/base", "refs/heads/head"]


def test_a_slot_in_use_is_left_alone(bench: Bench) -> None:
    bench.repo.git("branch", "same", "main")
    bench.repo.git("checkout", "--quiet", "same")
    bench.repo.commit("same", s="1\n")

    def meanwhile(slot: Slot) -> None:
        other = bench.use("same")
        assert other.tree != slot.tree
        assert (slot.tree / "a").read_text() == "ONE\n"

    first = bench.use(look=meanwhile)
    assert bench.use("same").tree == first.tree, "free again"


def test_many_at_once_never_share(bench: Bench) -> None:
    branches = []
    for number in range(6):
        bench.repo.git("checkout", "--quiet", "-b", f"b{number}", "main")
        bench.repo.commit(f"{number}", a=f"{number}\n")
        branches.append(f"b{number}")

    two = threading.Barrier(2)

    def look(slot: Slot) -> None:
        before = (slot.tree / "a").read_text()
        two.wait(20)
        time.sleep(0.1)
        assert (slot.tree / "a").read_text() == before

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        used = list(pool.map(lambda branch: bench.use(branch, look), branches * 2))
    assert 2 <= len({slot.tree for slot in used}) <= 4


def stale_lock(slot: Slot) -> None:
    (slot.git_dir / "index.lock").write_text("")
    (slot.git_dir / "refs" / "heads" / "head.lock").write_text("")
    (slot.git_dir / "HEAD.lock").write_text("")


def torn_index(slot: Slot) -> None:
    index = slot.git_dir / "index"
    index.write_bytes(index.read_bytes()[:20])


def empty_index(slot: Slot) -> None:
    (slot.git_dir / "index").write_bytes(b"")


def no_index(slot: Slot) -> None:
    (slot.git_dir / "index").unlink()


def empty_head(slot: Slot) -> None:
    (slot.git_dir / "HEAD").write_text("")


def torn_ref(slot: Slot) -> None:
    (slot.git_dir / "refs" / "heads" / "head").write_text("12")


def no_tree(slot: Slot) -> None:
    shutil.rmtree(slot.tree)


def no_git_dir(slot: Slot) -> None:
    shutil.rmtree(slot.git_dir)


def no_objects_dir(slot: Slot) -> None:
    shutil.rmtree(slot.git_dir / "objects")


def tree_is_a_link(slot: Slot) -> None:
    shutil.rmtree(slot.tree)
    outside = slot.tree.parents[3] / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    slot.tree.symlink_to(outside)


def half_moved(slot: Slot) -> None:
    (slot.tree / "a").write_text("of another head\n")
    (slot.tree / "b").unlink()
    (slot.tree / "new").write_text("of another head\n")


def folder_in_the_way(slot: Slot) -> None:
    (slot.tree / "c").unlink()
    (slot.tree / "c" / "d").mkdir(parents=True)
    (slot.tree / "c" / "d" / "e").write_text("x")


def broken_config(slot: Slot) -> None:
    (slot.git_dir / "config").write_text("[core\n")


DAMAGES = [stale_lock, torn_index, empty_index, no_index, empty_head, torn_ref, no_tree, no_git_dir, no_objects_dir]
DAMAGES += [tree_is_a_link, half_moved, folder_in_the_way, broken_config]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_slot_is_whole_again(bench: Bench, damage: Callable[[Slot], None], tmp_path: Path) -> None:
    slot = bench.use()
    inode = slot.git_dir.stat().st_ino
    damage(slot)
    bench.repo.commit("next", d="4\n")
    bench.use()
    if damage in {stale_lock, half_moved, no_index}:
        assert slot.git_dir.stat().st_ino == inode, "this needs no new checkout"
    if damage is tree_is_a_link:
        assert (tmp_path / "outside" / "precious").read_text() == "kept"
        assert not slot.tree.is_symlink()
    assert [path.name for path in slot.tree.parents[1].iterdir() if path.name.startswith(".")] == []


KILLED = """
import sys
from pathlib import Path
from appliance.forge import Source
from appliance.git import Mirrors, Slots
root, head = Path(sys.argv[1]), sys.argv[2]
source = Source(str(root / "repo"), "refs/heads/big", "refs/heads/main")
mirror = Mirrors(root / "mirrors").fetch("ada/repo", source, head_sha=head)
print("go", flush=True)
with Slots(root / "slots").checkout(mirror, "ada/repo", head_sha=head, base_sha=mirror.base, merge_base=None):
    print("done", flush=True)
"""


def test_a_move_that_is_killed_is_repaired(bench: Bench, tmp_path: Path) -> None:
    bench.use()
    bench.repo.git("checkout", "--quiet", "-b", "big")
    for number in range(800):
        bench.repo.write(f"d{number % 50}/{number}", f"{number}\n")
    head = bench.repo.commit("big")
    argv = [sys.executable, "-c", KILLED, str(tmp_path), head]
    for delay in (0.005, 0.04):
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(delay)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        process.wait()
        process.stdout.close()
        bench.use()
    bench.use("big")


def test_hostile_content_is_only_content(bench: Bench, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    repo = bench.repo
    (tmp_path / "outside").mkdir()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'1' * 64}\nsize 12345\n"
    repo.git("config", "filter.evil.smudge", f"touch {witness}")
    for name, content in {
        "big.bin": pointer,
        "dos.crlf": "a\nb\n",
        "wide.u16": "not really\n",
        "rcs.id": "$Id$\n",
        "x.evil": "x\n",
        ".git-hooks/post-checkout": f"#!/bin/sh\ntouch {witness}\n",
        "Case": "upper\n",
        "case": "lower\n",
        "a\tb\n\"c'": "odd\n",
        "评论.py": "x\n",
        "-rf": "x\n",
        "AGENTS.md.real": "x\n",
    }.items():
        repo.write(name, content)
    for name, target in {
        "AGENTS.md": "/etc/passwd",
        "dangling": "nowhere",
        "loop": "loop",
        "out": "../outside",
    }.items():
        (repo.path / name).symlink_to(target)
    repo.write(".gitmodules", '[submodule "m"]\n\tpath = m\n\turl = https://localhost:1/private.git\n')
    repo.git("add", "--all")
    repo.write(
        ".gitattributes",
        "*.bin filter=lfs diff=lfs merge=lfs -text\n*.crlf text eol=crlf\n*.u16 text working-tree-encoding=UTF-16\n"
        "*.id ident\n*.evil filter=evil\n",
    )
    repo.git("add", ".gitattributes")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},m")
    repo.git("commit", "--quiet", "-m", "hostile")

    def look(slot: Slot) -> None:
        assert (slot.tree / "big.bin").read_text() == pointer, "R13: an LFS pointer stays one"
        assert (slot.tree / "dos.crlf").read_bytes() == b"a\nb\n"
        assert list((slot.tree / "m").iterdir()) == [], "R10: a submodule stays empty"
        assert str((slot.tree / "AGENTS.md").readlink()) == "/etc/passwd"
        assert inside(slot, "status", "--porcelain") == ""

    bench.use(look=look)
    repo.git("rm", "-q", "--cached", "out")
    (repo.path / "out").unlink()
    repo.write("out/file", "where a link was\n")
    repo.git("add", "out/file")
    repo.git("commit", "--quiet", "-m", "link becomes folder")
    bench.use()
    bench.use("main")
    assert list((tmp_path / "outside").iterdir()) == [], "nothing was written through the link"
    assert not witness.exists()


def test_a_mirror_that_lost_objects_heals_with_the_next_fetch(bench: Bench) -> None:
    mirror, _ = bench.fetch()
    blob = bench.repo.git("rev-parse", "feature:c")
    names = [line.split()[0] for line in bench.repo.git("rev-list", "--objects", "--all").splitlines()]
    pack_of_all_but_c = "\n".join(name for name in names if name != blob).encode() + b"\n"
    for pack in (mirror.path / "objects" / "pack").glob("*"):
        pack.unlink()
    git(
        ["pack-objects", "-q", str(mirror.path / "objects" / "pack" / "pack")],
        git_dir=bench.repo.path / ".git",
        input=pack_of_all_but_c,
        timeout=10,
    )
    with pytest.raises(GitError) as caught:
        bench.use()
    assert caught.value.cause == "mirror-corrupt", caught.value
    assert not caught.value.permanent
    bench.use()


def shown(slot: Slot) -> set[str]:
    """Every object that git finds in the slot, reachable or not."""
    argv = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]
    return set(inside(slot, *argv).split())


def of(repo: Repo, *revisions: str) -> set[str]:
    return {line.split()[0] for line in repo.git("rev-list", "--objects", *revisions).splitlines()}


def test_a_slot_shows_the_base_branch_and_its_own_head_and_no_other(bench: Bench) -> None:
    repo = bench.repo
    repo.git("checkout", "--quiet", "-b", "secret", "main")
    secret = repo.commit("of another pull request", hidden="nobody else's\n")
    bench.use("secret", look=lambda slot: assert_equal(shown(slot), of(repo, "main", "secret")))
    repo.git("checkout", "--quiet", "feature")

    def look(slot: Slot) -> None:
        assert_equal(shown(slot), of(repo, "main", "feature"))
        for name in (secret, f"{secret}:hidden"):
            done = subprocess.run(["git", f"--git-dir={slot.git_dir}", "cat-file", "-e", name], check=False)
            assert done.returncode != 0

    bench.use(look=look)
    repo.git("checkout", "--quiet", "main")
    repo.commit("main goes on", z="1\n")
    repo.git("checkout", "--quiet", "feature")
    repo.git("merge", "--quiet", "main", "-m", "merge")
    bench.use(look=look)
    with contextlib.ExitStack() as at_once:
        for branch in ("secret", "feature"):
            mirror, head = bench.fetch(branch)
            slot = at_once.enter_context(
                bench.slots.checkout(mirror, "ada/repo", head_sha=head, base_sha=mirror.base, merge_base=None)
            )
            assert_equal(shown(slot), of(repo, "main", branch))


def test_no_pack_is_begun_among_the_mirrors_own(bench: Bench) -> None:
    """A fetch of another process sweeps there: with nothing to be written there, nothing can be swept away."""
    mirror, head = bench.fetch()
    pack = mirror.path / "objects" / "pack"
    before = pack.stat().st_mtime_ns
    with bench.slots.checkout(mirror, "ada/repo", head_sha=head, base_sha=mirror.base, merge_base=None) as slot:
        assert list((slot.git_dir / "objects" / "pack").glob("*.idx"))
    assert pack.stat().st_mtime_ns == before


def assert_equal(one: set[str], other: set[str]) -> None:
    assert one == other


def test_a_base_branch_that_was_set_back_or_is_behind_the_head_is_read_all_the_same(bench: Bench) -> None:
    repo = bench.repo
    repo.git("checkout", "--quiet", "main")
    for number in range(3):
        repo.commit(f"main {number}", z=f"{number}\n")
    repo.git("checkout", "--quiet", "feature")
    repo.git("merge", "--quiet", "main", "-m", "merge")
    bench.use()
    repo.git("branch", "--force", "main", "main~2")
    bench.use(look=lambda slot: assert_equal({inside(slot, "show", "head:z")}, {"2\n"}))
    repo.git("checkout", "--quiet", "--orphan", "other")
    repo.commit("a base of another history", a="x\n")
    repo.git("branch", "--force", "main", "other")
    bench.use(look=lambda slot: assert_equal(of(repo, "feature") - shown(slot), set()))


def test_a_mirror_of_an_earlier_version_that_would_show_every_head_is_made_anew(bench: Bench) -> None:
    mirror, _ = bench.fetch()
    old = bench.repo.git("rev-parse", "feature")
    shutil.rmtree(mirror.path)
    git(["clone", "--bare", "--quiet", str(bench.repo.path), str(mirror.path)], protocols=("file",), timeout=20)
    (mirror.path / "objects" / "info" / "alternates").unlink(missing_ok=True)
    bench.repo.git("checkout", "--quiet", "-b", "next", "main")
    bench.repo.commit("next", n="1\n")
    bench.use("next", look=lambda slot: assert_equal(shown(slot) & {old}, set()))


def test_another_mirror_serves_the_same_slot(bench: Bench) -> None:
    mirror, _ = bench.fetch()
    bench.use()
    shutil.rmtree(mirror.path)
    bench.repo.commit("next", d="4\n")
    bench.use()


def test_sha256(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo", "--object-format=sha256")
    repo.commit("first", a="1\n")
    repo.git("checkout", "--quiet", "-b", "feature")
    head = repo.commit("second", b="2\n")
    mirror = Mirrors(tmp_path / "mirrors").fetch("x", repo.source(), head_sha=head)
    with Slots(tmp_path / "slots").checkout(
        mirror, "x", head_sha=head, base_sha=mirror.base, merge_base=mirror.base
    ) as slot:
        assert "+2" in inside(slot, "diff", "merge-base..head")


def test_shallow_sources_can_be_read_too(bench: Bench, tmp_path: Path) -> None:
    bench.repo.commit("third", d="4\n")
    shallow = Repo(tmp_path / "shallow")
    shallow.git(
        "fetch", "--quiet", "--depth=1", f"file://{bench.repo.path}", "main:refs/heads/main2", "feature:feature"
    )
    head = shallow.git("rev-parse", "feature")
    mirror = bench.mirrors.fetch("s", shallow.source(base="refs/heads/main2"), head_sha=head)
    with bench.slots.checkout(mirror, "s", head_sha=head, base_sha=mirror.base, merge_base=None) as slot:
        assert "+ONE" in inside(slot, "diff", "base", "head")
        assert inside(slot, "log", "--oneline", "head").count("\n") == 1


def test_too_many_at_once_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots_module, "MAX_SLOTS", 1)
    with pytest.raises(GitError, match="in use"):
        bench.use(look=lambda slot: bench.use())


def test_a_program_error_is_no_part_of_the_interface(bench: Bench) -> None:
    mirror, _ = bench.fetch()
    try:
        with bench.slots.checkout(mirror, "r", head_sha="1" * 40, base_sha="2" * 40, merge_base=None):
            pass
    except ProgramError:
        pytest.fail("git's failures are GitErrors")
    except GitError as error:
        assert error.remedy
    else:
        pytest.fail("a commit that is not there cannot be checked out")


# ---- upkeep


def test_what_nobody_used_for_a_month_goes_and_the_rest_stays(bench: Bench) -> None:
    slot = bench.use()
    mirror, _ = bench.fetch()
    month = time.time() + upkeep.UNUSED_SECONDS
    assert bench.mirrors.tidy(month - 60) == bench.slots.tidy(month - 60) == []

    def in_use(_: Slot) -> None:
        assert bench.slots.tidy(month + 60) == []

    bench.use(look=in_use)
    lock = try_lock(mirror.path.with_suffix(".lock"))
    assert lock is not None
    assert bench.mirrors.tidy(month + 60) == [], "somebody fetches"
    os.close(lock)
    old = time.time() - 2 * upkeep.UNUSED_SECONDS
    for path in (mirror.path, slot.tree):
        os.utime(path, (old, old))
    assert bench.mirrors.tidy(time.time()) == [], "used just now, however old its files are"
    assert bench.mirrors.tidy(month + 60) == [mirror.path]
    assert bench.slots.tidy(month + 60) == [slot.tree.parent]
    assert not mirror.path.exists()
    bench.use()
    assert bench.mirrors.tidy(time.time() + 60) == []


def test_the_trash_of_a_crash_goes(bench: Bench) -> None:
    slot = bench.use()
    mirror, _ = bench.fetch()
    trash = [mirror.path.with_name(f".trash-{'1' * 32}"), mirror.path.with_name(f".new-{mirror.path.name}")]
    trash.append(slot.tree.parents[1] / f".trash-{'2' * 32}")
    for path in trash:
        (path / "objects").mkdir(parents=True)
    lock = try_lock(mirror.path.with_suffix(".lock"))
    assert lock is not None
    bench.mirrors.tidy(time.time())
    assert trash[1].exists(), "somebody may be making it"
    os.close(lock)
    bench.mirrors.tidy(time.time())
    bench.slots.tidy(time.time())
    assert [path for path in trash if path.exists()] == []
    assert mirror.path.exists()


FETCH = """
import sys
from pathlib import Path
from appliance.forge import Source
from appliance.git import Mirrors
root, head = Path(sys.argv[1]), sys.argv[2]
print("go", flush=True)
source = Source(str(root / "repo"), "refs/heads/big", "refs/heads/main")
Mirrors(root / "mirrors").fetch("ada/repo", source, head_sha=head)
print("done", flush=True)
"""


def naming(folder: Path) -> list[str]:
    """Command lines of the processes that work somewhere in `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            line = (process / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            if str(folder) in line or (process / "cwd").readlink().is_relative_to(folder):
                found.append(line)
    return found


def test_processes_that_fetch_at_once_all_succeed_also_when_some_are_killed(bench: Bench, tmp_path: Path) -> None:
    repo = bench.repo
    repo.git("checkout", "--quiet", "-b", "big", "main")
    for number in range(12):
        (repo.path / f"big{number}").write_bytes(os.urandom(1_000_000))
    head = repo.commit("big")
    argv = [sys.executable, "-c", FETCH, str(tmp_path), head]
    lock = tmp_path / "mirrors" / f"{directory_name('ada/repo')}.lock"
    ours = try_lock(lock)  # so that all of them are there before the first begins
    assert ours is not None
    started = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(5)]
    try:
        for process in started:
            assert process.stdout
            assert process.stdout.readline() == "go\n"
        time.sleep(0.5)
        assert list(lock.parent.iterdir()) == [lock], "not before it is their turn"
        os.close(ours)
        for number, process in enumerate(started[:2]):
            time.sleep(0.1 * (number + 1))
            process.kill()
        outputs = [process.communicate(timeout=120)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert outputs[2:] == ["done\n"] * 3
    mirror, _ = bench.fetch("big")
    for part in (mirror.path, mirror.path / "base"):
        git(["fsck", "--strict"], git_dir=part, timeout=60)
    deadline = time.monotonic() + 60
    while left := naming(tmp_path):  # a git whose appliance was killed may end a moment later
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
    bench.fetch("big")
    assert list(mirror.path.rglob("*.lock")) == list(mirror.path.rglob("tmp_*")) == []
