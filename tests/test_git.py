"""The hardened door, mirrors, and what a diff lists: real git, and what a hostile repository must not reach."""

import concurrent.futures
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from gitrepo import Repo, feature_repo

from appliance.flock import held, try_lock
from appliance.forge import Source
from appliance.git import GitError, Mirror, Mirrors, Superseded, check_ref, check_sha, directory_name, git
from appliance.git import mirror as mirror_module
from appliance.git.names import check_url
from appliance.process import Stopped


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return feature_repo(tmp_path / "repo")


@pytest.fixture
def mirrors(tmp_path: Path) -> Mirrors:
    return Mirrors(tmp_path / "mirrors")


def fetch(mirrors: Mirrors, repo: Repo, head: str = "feature") -> tuple[Mirror, str]:
    sha = repo.git("rev-parse", head)
    return mirrors.fetch("ada/repo", repo.source(f"refs/heads/{head}"), head_sha=sha), sha


# --- mirrors ---


def test_head_and_base_come_and_nothing_else(repo: Repo, mirrors: Mirrors) -> None:
    repo.git("branch", "other", "main")
    repo.git("tag", "v1")
    other = repo.git("commit-tree", "main^{tree}", "-m", "of another branch")
    repo.git("update-ref", "refs/heads/third", other)
    mirror, head = fetch(mirrors, repo)
    refs = git(["for-each-ref", "--format=%(refname) %(objectname)"], git_dir=mirror.path, timeout=10).out.split()
    assert sorted(refs[1::2]) == sorted([head, repo.git("rev-parse", "main")])
    assert all(ref.startswith("refs/appliance/") for ref in refs[::2])
    assert mirror.base_sha("main") == mirror.base_sha("refs/heads/main") == repo.git("rev-parse", "main")
    with pytest.raises(GitError):
        git(["cat-file", "-e", other], git_dir=mirror.path, timeout=10)
    with pytest.raises(GitError, match="was not fetched"):
        mirror.base_sha("other")


def test_r33_the_base_is_the_one_of_now(repo: Repo, mirrors: Mirrors) -> None:
    mirror, head = fetch(mirrors, repo)
    old = mirror.base_sha("main")
    repo.git("checkout", "--quiet", "main")
    repo.commit("half of the feature's past", d="4\n")
    repo.git("checkout", "--quiet", "feature")
    repo.git("merge", "--quiet", "main", "-m", "merge")
    head = repo.git("rev-parse", "feature")
    new = mirrors.fetch("ada/repo", repo.source(), head_sha=head, base_sha=old).base_sha("main")
    assert new == repo.git("rev-parse", "main") != old
    assert mirror.merge_base(new, head) == new
    assert [file.path for file in mirror.changed_files(new, head)] == ["a", "c"]


def test_a_head_that_moved_on_is_superseded(repo: Repo, mirrors: Mirrors) -> None:
    old = repo.git("rev-parse", "feature")
    repo.commit("a push meanwhile", c="4\n")
    with pytest.raises(Superseded, match="no longer at") as caught:
        mirrors.fetch("ada/repo", repo.source(), head_sha=old)
    assert not caught.value.permanent
    repo.git("reset", "--quiet", "--hard", "main")
    forced = repo.commit("a forced push", e="5\n")
    with pytest.raises(Superseded):
        mirrors.fetch("ada/repo", repo.source(), head_sha=old)
    assert mirrors.fetch("ada/repo", repo.source(), head_sha=forced)


def test_a_ref_that_lags_behind_the_listing_is_not_superseded(repo: Repo, mirrors: Mirrors) -> None:
    repo.git("update-ref", "refs/pull/1/head", "main")  # the forge has told of the new head already
    head = repo.git("rev-parse", "feature")
    mirror = mirrors.fetch("ada/repo", repo.source("refs/pull/1/head"), head_sha=head)
    assert mirror.merge_base(mirror.base, head) == mirror.base


def test_a_missing_head_ref_falls_back_on_the_commit(repo: Repo, mirrors: Mirrors) -> None:
    head = repo.git("rev-parse", "feature")
    assert mirrors.fetch("ada/repo", repo.source("refs/pull/1/head"), head_sha=head).merge_base(head, head) == head
    with pytest.raises(Superseded):
        mirrors.fetch("ada/repo", repo.source("refs/pull/1/head"), head_sha="1" * 40)


def test_a_base_branch_that_is_gone_is_superseded(repo: Repo, mirrors: Mirrors) -> None:
    head = repo.git("rev-parse", "feature")
    with pytest.raises(Superseded, match="refs/heads/gone"):
        mirrors.fetch("ada/repo", repo.source(base="refs/heads/gone"), head_sha=head)


def test_refs_may_be_commits(repo: Repo, mirrors: Mirrors) -> None:
    head, base = repo.git("rev-parse", "feature"), repo.git("rev-parse", "main")
    mirror = mirrors.fetch("ada/repo", Source(str(repo.path), head, base), head_sha=head, base_sha=base)
    assert mirror.base_sha(base) == base


def test_the_base_that_the_forge_told_of_comes_too_if_it_can(repo: Repo, mirrors: Mirrors) -> None:
    head, old = repo.git("rev-parse", "feature"), repo.git("rev-parse", "main")
    repo.git("update-ref", "refs/heads/main", repo.git("commit-tree", "main^{tree}", "-m", "rewritten"))
    mirror = mirrors.fetch("ada/repo", repo.source(), head_sha=head, base_sha=old)
    assert mirror.merge_base(mirror.base, head) is None
    assert mirror.merge_base(old, head) == old
    assert mirrors.fetch("ada/repo", repo.source(), head_sha=head, base_sha="1" * 40)


def test_unrelated_histories_have_no_merge_base(repo: Repo, mirrors: Mirrors) -> None:
    repo.git("checkout", "--quiet", "--orphan", "island")
    repo.commit("island", z="1\n")
    mirror, head = fetch(mirrors, repo, "island")
    assert mirror.merge_base(mirror.base, head) is None
    with pytest.raises(GitError):
        mirror.merge_base("1" * 40, head)


def break_head(mirror: Path) -> None:
    (mirror / "HEAD").write_text("nonsense")


def break_config(mirror: Path) -> None:
    (mirror / "config").write_text("[core\n")


def break_ref(mirror: Path) -> None:
    next((mirror / "refs" / "appliance" / "base").iterdir()).write_text("")


def dangle_ref(mirror: Path) -> None:
    next((mirror / "refs" / "appliance" / "base").iterdir()).write_text("1" * 40 + "\n")


def lose_pack(mirror: Path) -> None:
    for pack in (mirror / "objects" / "pack").glob("*"):
        pack.unlink()


def cut_pack(mirror: Path) -> None:
    for pack in (mirror / "objects" / "pack").glob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(pack.read_bytes()[:40])


def empty_index(mirror: Path) -> None:
    for index in (mirror / "objects" / "pack").glob("*.idx"):
        index.chmod(0o600)
        index.write_bytes(b"")


def lose_everything(mirror: Path) -> None:
    for path in mirror.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def lose_head(mirror: Path) -> None:
    (mirror / "HEAD").unlink()


def lose_objects(mirror: Path) -> None:
    shutil.rmtree(mirror / "objects")


def break_packed_refs(mirror: Path) -> None:
    (mirror / "packed-refs").write_bytes(b"\x00garbage\n" * 9)


def lead_nowhere(mirror: Path) -> None:
    (mirror / "objects" / "info").mkdir(exist_ok=True)
    (mirror / "objects" / "info" / "alternates").write_text("/nowhere/objects\n")


DAMAGES = [
    break_head,
    break_config,
    break_ref,
    dangle_ref,
    lose_pack,
    cut_pack,
    empty_index,
    lose_everything,
    lose_head,
]
DAMAGES += [lose_objects, break_packed_refs, lead_nowhere]


@pytest.mark.parametrize("part", [".", "base"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_mirror_is_made_anew(repo: Repo, mirrors: Mirrors, damage: Callable[[Path], None], part: str) -> None:
    mirror, _ = fetch(mirrors, repo)
    damage(mirror.path / part)
    repo.commit("one more", d="4\n")
    mirror, head = fetch(mirrors, repo)
    git(["fsck", "--strict"], git_dir=mirror.path, timeout=10)
    git(["fsck", "--strict"], git_dir=mirror.path / "base", timeout=10)
    assert [file.path for file in mirror.changed_files(mirror.base, head)] == ["a", "c", "d"]
    assert [path.name for path in mirror.path.parent.iterdir() if path.name.startswith(".")] == []


def test_what_a_killed_git_left_behind_is_swept(repo: Repo, mirrors: Mirrors) -> None:
    mirror, _ = fetch(mirrors, repo)
    ref = next((mirror.path / "refs" / "appliance" / "head").iterdir())
    left = [ref.with_name(f"{ref.name}.lock"), mirror.objects / "pack" / "tmp_pack_x", mirror.path / "shallow.lock"]
    left += [mirror.objects / "pack" / ".tmp-1-pack-x.idx", mirror.path / "packed-refs.lock"]
    for path in left:
        path.write_text("")
    inode = mirror.path.stat().st_ino
    repo.commit("next", d="4\n")
    mirror, _ = fetch(mirrors, repo)
    assert [path for path in left if path.exists()] == []
    assert mirror.path.stat().st_ino == inode


def test_damage_found_while_reading_heals_with_the_next_fetch(repo: Repo, mirrors: Mirrors) -> None:
    mirror, head = fetch(mirrors, repo)
    for pack in (mirror.objects / "pack").glob("*"):
        pack.unlink()
    for read in (lambda: mirror.changed_files(mirror.base, head), lambda: mirror.merge_base(mirror.base, head)):
        with pytest.raises(GitError):
            read()
    mirror, head = fetch(mirrors, repo)
    assert mirror.merge_base(mirror.base, head) == mirror.base


def test_a_damaged_source_is_not_cloned_for_ever(repo: Repo, mirrors: Mirrors) -> None:
    head = repo.git("rev-parse", "feature")
    blob = repo.git("rev-parse", "feature:c")
    (repo.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(GitError) as caught:
        mirrors.fetch("ada/repo", repo.source(), head_sha=head)
    assert (caught.value.cause, caught.value.permanent) == ("forge-refused", False)
    repo.git("hash-object", "-w", "c")
    assert fetch(mirrors, repo)


def test_a_repository_that_is_not_there_says_so(tmp_path: Path, mirrors: Mirrors) -> None:
    source = Source(str(tmp_path / "absent"), "refs/heads/x", "refs/heads/main")
    with pytest.raises(GitError) as caught:
        mirrors.fetch("ada/repo", source, head_sha="1" * 40)
    assert caught.value.cause == "forge-not-found"
    assert caught.value.permanent
    assert "Next: " in str(caught.value)


def test_fetches_of_one_repository_take_turns(repo: Repo, mirrors: Mirrors) -> None:
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: fetch(mirrors, repo), range(12)))
    assert len({mirror.base for mirror, _ in found}) == 1
    git(["fsck", "--strict"], git_dir=found[0][0].path, timeout=10)


def test_a_stop_ends_the_wait_for_another_process(repo: Repo, mirrors: Mirrors, tmp_path: Path) -> None:
    mirror, _ = fetch(mirrors, repo)
    lock = try_lock(mirror.path.with_suffix(".lock"))
    assert lock is not None
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(Stopped):
        mirrors.fetch("ada/repo", repo.source(), head_sha=repo.git("rev-parse", "feature"), stop=stop)
    with pytest.raises(TimeoutError), held(mirror.path.with_suffix(".lock"), timeout=0.1):
        pass
    os.close(lock)


def test_many_packs_become_few_and_lose_nothing(repo: Repo, mirrors: Mirrors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "MAX_PACKS", 8)
    heads = []
    for number in range(11):
        heads.append(repo.commit(f"change {number}", c=f"{number}\n"))
        mirror, _ = fetch(mirrors, repo)
    repo.git("reset", "--quiet", "--hard", "main")
    repo.commit("forced: the old heads are in no ref now", c="other\n")
    mirror, _ = fetch(mirrors, repo)
    assert len(list((mirror.path / "objects" / "pack").glob("*.pack"))) <= 5
    for head in heads:
        assert mirror.changed_files(mirror.base, head)


def test_sha256_repositories_work(tmp_path: Path, mirrors: Mirrors) -> None:
    repo = Repo(tmp_path / "repo256", "--object-format=sha256")
    repo.commit("first", a="1\n")
    repo.git("checkout", "--quiet", "-b", "feature")
    repo.commit("second", b="2\n")
    mirror, head = fetch(mirrors, repo)
    assert len(head) == 64
    assert [file.path for file in mirror.changed_files(mirror.base, head)] == ["b"]


def test_a_shallow_source_works(repo: Repo, mirrors: Mirrors, tmp_path: Path) -> None:
    repo.git("checkout", "--quiet", "feature")
    repo.commit("third", d="4\n")
    shallow = Repo(tmp_path / "shallow")
    shallow.git("fetch", "--quiet", "--depth=1", f"file://{repo.path}", "main:refs/heads/base", "feature:feature")
    head = shallow.git("rev-parse", "feature")
    mirror = mirrors.fetch("ada/repo", shallow.source(base="refs/heads/base"), head_sha=head)
    assert [file.path for file in mirror.changed_files(mirror.base, head)] == ["a", "c", "d"]
    assert mirror.merge_base(mirror.base, head) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_named(repo: Repo, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", small], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no mount here: {mounted.stderr!r}")
    try:
        (repo.path / "big").write_bytes(os.urandom(2_000_000))
        repo.commit("big")
        with pytest.raises(GitError) as caught:
            fetch(Mirrors(small / "mirrors"), repo)
        assert caught.value.cause == "disk-full"
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)  # a git that was killed may still be dying


# --- what a diff lists ---

ODD_NAMES = [
    "a\tb.txt",
    "a\nb.txt",
    'a"b.txt',
    "评论.py",
    "(auth)/x.ts",
    "[id]/page file.tsx",
    ":(top)x",
    "-rf",
    "--output=pwned",
    " lead and trail ",
    "a\\b",
    "*",
    ":100644",
    "e\u0301.txt",
    "\u202etxt.exe",
]


def test_r1_r2_r4_names_are_real(repo: Repo, mirrors: Mirrors) -> None:
    for name in ODD_NAMES:
        repo.write(name, "x\n")
    repo.write(b"latin-\xe9.txt", "x\n")
    repo.commit("odd names")
    mirror, head = fetch(mirrors, repo)
    files = {file.path: file for file in mirror.changed_files(mirror.base, head)}
    assert set(files) == {*ODD_NAMES, "a", "c", "latin-\\xe9.txt"}
    assert all((file.added, file.deleted) == (1, 0) for name, file in files.items() if name != "a")
    for name in ODD_NAMES:
        assert mirror.read(head, name, limit=10) == b"x\n"


def test_r5_renames(repo: Repo, mirrors: Mirrors) -> None:
    text = "".join(f"line {number}\n" for number in range(40))
    repo.git("checkout", "--quiet", "main")
    repo.commit("base", **{"pure\told": text, "edited old": text.upper()})
    repo.git("checkout", "--quiet", "-b", "renames")
    repo.git("mv", "pure\told", "pure\nnew")
    repo.git("mv", "edited old", "edited new")
    repo.write("edited new", text.upper() + "one more\n")
    repo.commit("rename")
    mirror, head = fetch(mirrors, repo, "renames")
    found = {file.path: file for file in mirror.changed_files(mirror.base, head)}
    pure, edited = found["pure\nnew"], found["edited new"]
    assert (pure.status, pure.old_path, pure.added, pure.deleted) == ("R", "pure\told", 0, 0)
    assert (edited.status, edited.old_path, edited.added, edited.deleted) == ("R", "edited old", 1, 0)


def test_kinds_of_changes(repo: Repo, mirrors: Mirrors) -> None:
    (repo.path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4)
    (repo.path / "link").symlink_to("/etc/passwd")
    (repo.path / "b").unlink()
    (repo.path / "a").unlink()
    (repo.path / "a").symlink_to("c")
    (repo.path / "c").chmod(0o755)
    repo.write("empty", "")
    repo.commit("kinds")
    mirror, head = fetch(mirrors, repo)
    found = {file.path: (file.status, file.added, file.deleted) for file in mirror.changed_files(mirror.base, head)}
    assert found == {
        "a": ("T", 1, 1),
        "b": ("D", 0, 1),
        "c": ("A", 1, 0),
        "empty": ("A", 0, 0),
        "image.png": ("A", None, None),
        "link": ("A", 1, 0),
    }
    modes = {file.path: file.mode for file in mirror.changed_files(mirror.base, head)}
    assert (modes["a"], modes["b"], modes["c"], modes["link"]) == ("120000", "100644", "100755", "120000")


def test_r10_a_submodule_is_named_and_never_entered(repo: Repo, mirrors: Mirrors) -> None:
    repo.write(
        ".gitmodules", '[submodule "x"]\n\tpath = x\n\turl = https://localhost:1/private.git\n\tupdate = !touch\n'
    )
    repo.git("add", ".gitmodules")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},x")
    repo.git("commit", "--quiet", "-m", "submodule")
    mirror, head = fetch(mirrors, repo)
    found = {file.path: file for file in mirror.changed_files(mirror.base, head)}
    assert (found["x"].mode, found["x"].blob) == ("160000", "1" * 40)
    assert ".gitmodules" in found


def test_r15_many_files(repo: Repo, mirrors: Mirrors) -> None:
    repo.commit("many", **{f"many/{number}": f"{number}\n" for number in range(301)})
    mirror, head = fetch(mirrors, repo)
    assert len(mirror.changed_files(mirror.base, head)) == 301 + 2


def test_r18_an_empty_diff_is_empty(repo: Repo, mirrors: Mirrors) -> None:
    repo.git("checkout", "--quiet", "-b", "nothing", "main")
    repo.commit("nothing")
    mirror, head = fetch(mirrors, repo, "nothing")
    assert mirror.changed_files(mirror.base, head) == ()


def test_attributes_of_the_pull_request_hide_nothing(repo: Repo, mirrors: Mirrors) -> None:
    repo.write(".gitattributes", "* -diff binary\n*.py diff=evil\n")
    repo.commit("hide", **{"evil.py": "backdoor()\n"})
    mirror, head = fetch(mirrors, repo)
    found = {file.path: file.added for file in mirror.changed_files(mirror.base, head)}
    assert found["evil.py"] == 1
    shown = git(["diff", mirror.base, head, "--", "evil.py"], git_dir=mirror.path, timeout=10).out
    assert "+backdoor()" in shown


def test_r11_read_takes_no_link(repo: Repo, mirrors: Mirrors) -> None:
    (repo.path / "AGENTS.md").symlink_to("/etc/passwd")
    (repo.path / "loop").symlink_to("loop")
    (repo.path / "folder").mkdir()
    repo.write("folder/x", "inside\n")
    repo.commit("links")
    mirror, head = fetch(mirrors, repo)
    assert [mirror.read(head, name, limit=99) for name in ("AGENTS.md", "loop", "folder", "absent")] == [None] * 4
    assert mirror.read(head, "folder/x", limit=3) == b"ins"


# --- names and the door ---


@pytest.mark.parametrize(
    "ref",
    [
        *("main", "-x", "--upload-pack=x", "refs/heads/a..b", "refs/heads/a b", "refs/heads/.a", "refs/heads/a.lock"),
        *(
            "refs/heads/a@{1}",
            "refs/heads/",
            "refs/heads/a\n",
            "refs/heads/a:b",
            "refs/heads/a\\b",
            "refs//a",
            "refs/a.",
        ),
    ],
)
def test_bad_refs_are_refused(ref: str, mirrors: Mirrors) -> None:
    with pytest.raises(GitError):
        check_ref(ref)
    with pytest.raises(GitError):
        mirrors.fetch("ada/repo", Source("/repo", ref, "refs/heads/main"), head_sha="1" * 40)


def test_a_branch_named_like_an_option_is_only_a_name(repo: Repo, mirrors: Mirrors, tmp_path: Path) -> None:
    name = f"--upload-pack=touch${{IFS}}{tmp_path}/pwned".replace("/", "_")
    repo.git("update-ref", f"refs/heads/{name}", "main")
    mirror = mirrors.fetch(
        "ada/repo", repo.source(base=f"refs/heads/{name}"), head_sha=repo.git("rev-parse", "feature")
    )
    assert mirror.base_sha(name) == repo.git("rev-parse", "main")


@pytest.mark.parametrize("sha", ["", "HEAD", "1" * 39, "1" * 41, "G" * 40, "-" + "1" * 39, "1" * 40 + "\n", "A" * 40])
def test_bad_shas_are_refused(sha: str) -> None:
    with pytest.raises(GitError):
        check_sha(sha)


@pytest.mark.parametrize(
    "url",
    [
        *("ext::sh -c touch% pwned", "-x", "git@github.com:a/b", "ssh://-oProxyCommand=x/a", "file:///etc", "a/path"),
        *("https://user:secret@github.com/a/b", "https:///a", "https://a/ b", "https://a/\nb", "fd::17", ""),
    ],
)
def test_bad_addresses_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(GitError) as caught:
        check_url(url)
    assert "secret" not in str(caught.value)


def test_directory_names_are_safe_and_never_shared() -> None:
    names = ["ada/repo", "ada-repo", "ada_repo", "../..", "/", "", "é", "a" * 500, "A/b", "a/B", "x\ud800"]
    made = [directory_name(name) for name in names]
    assert len(set(made)) == len(made)
    assert all(name.isascii() and "/" not in name and not name.startswith(".") and len(name) < 60 for name in made)
    assert directory_name("ada/repo").startswith("ada-repo-")


def test_our_own_environment_does_not_reach_git(repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.bare'='x'")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {witness}")
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {witness}")
    monkeypatch.setenv("GITHUB_TOKEN", "planted-token")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(f"[diff]\n\texternal = touch {witness}\n[alias]\n\tdiff = !touch {witness}\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    assert git(["diff", "main", "feature"], cwd=repo.path, timeout=10).out
    assert git(["var", "-l"], cwd=repo.path, timeout=10, env={"GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "y"})
    assert not witness.exists()


def test_a_hostile_config_runs_nothing(repo: Repo, mirrors: Mirrors, tmp_path: Path) -> None:
    witness, program = tmp_path / "witness", tmp_path / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {witness}\ncat\n')
    program.chmod(0o755)
    hooks = repo.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("reference-transaction", "post-checkout", "post-commit", "fsmonitor-watchman"):
        shutil.copy(program, hooks / hook)
    keys = ["core.fsmonitor", "core.sshCommand", "core.alternateRefsCommand", "diff.external", "diff.x.textconv"]
    keys += ["filter.x.smudge", "filter.x.clean", "uploadpack.packObjectsHook", "core.gitProxy", "gpg.program"]
    keys += ["credential.helper", "core.askPass", "core.pager", "filter.lfs.process"]
    lines = "".join(f"{key.rsplit('.', 1)[0]}\t{key.rsplit('.', 1)[1]}\n" for key in keys)
    with (repo.path / ".git" / "config").open("a") as config:
        for line in lines.splitlines():
            section, name = line.split("\t")
            head, _, sub = section.partition(".")
            config.write(f'[{head} "{sub}"]\n' if sub else f"[{head}]\n")
            config.write(f"\t{name} = {program}\n")
    (repo.path / ".git" / "info").mkdir(exist_ok=True)
    (repo.path / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
    head = git(["rev-parse", "feature"], git_dir=repo.path / ".git", timeout=10).out.strip()
    mirror = mirrors.fetch("ada/repo", repo.source(), head_sha=head)
    assert mirror.changed_files(mirror.base, head)
    for args in (["diff", "main", "feature"], ["log", "-p", "-1"], ["show", "HEAD"], ["update-ref", "refs/x/y", head]):
        git(args, git_dir=repo.path / ".git", timeout=10)
    assert not witness.exists(), witness.read_text()


def test_no_other_protocol_even_if_the_repository_allows_it(repo: Repo, tmp_path: Path) -> None:
    repo.git("config", "protocol.allow", "always")
    repo.git("config", "protocol.ext.allow", "always")
    for url in (f"ext::touch {tmp_path}/pwned", str(repo.path)):
        with pytest.raises(GitError):
            git(["fetch", url, "main"], cwd=repo.path, timeout=10)
    assert not (tmp_path / "pwned").exists()


def test_a_failure_names_command_cause_and_next_step(tmp_path: Path) -> None:
    with pytest.raises(GitError, match=r"git rev-parse.*Next: ") as caught:
        git(["rev-parse", "--verify", "nope"], git_dir=tmp_path, timeout=10)
    assert caught.value.remedy
    with pytest.raises(GitError, match="is missing"):
        git(["status"], cwd=tmp_path / "absent", timeout=10)


def test_a_program_that_never_ends_is_ended(repo: Repo) -> None:
    with pytest.raises(GitError, match="did not end within"):
        git(["-c", "alias.x=!sleep 60", "x"], cwd=repo.path, timeout=0.3)


def test_slow_git_is_stopped(repo: Repo) -> None:
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    with pytest.raises(Stopped):
        git(["-c", "alias.x=!sleep 60", "x"], cwd=repo.path, timeout=60, stop=stop)


def test_a_source_never_carries_its_secret_into_a_local_path(repo: Repo, mirrors: Mirrors) -> None:
    source = replace(repo.source(), authorization="Basic c2VjcmV0")
    assert mirrors.fetch("ada/repo", source, head_sha=repo.git("rev-parse", "feature"))
