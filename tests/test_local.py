"""The local forge on real repositories."""

import os
import subprocess
from pathlib import Path

import pytest
from gitrepo import Repo

from appliance.core.verdict import Gate
from appliance.forge import ForgeError
from appliance.forge.local import NOTES, LocalForge
from appliance.git import Mirrors, git
from appliance.sample import BRANCH, make


class Rows:
    """LocalRows in memory."""

    def __init__(self) -> None:
        self.gates: dict[tuple[str, str], Gate] = {}

    def local_gate(self, target: str, head_sha: str) -> Gate | None:
        return self.gates.get((target, head_sha))

    def set_local_gate(self, target: str, head_sha: str, gate: Gate) -> None:
        self.gates[target, head_sha] = gate


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repositories"
    root.mkdir()
    return root


@pytest.fixture
def forge(tmp_path: Path, root: Path) -> LocalForge:
    return LocalForge(root, tmp_path / "reviews", Rows())


def shop(root: Path, name: str = "shop") -> Repo:
    repo = Repo(root / name)
    repo.commit("first", a="1\n")
    repo.git("checkout", "--quiet", "-b", "feature/x")
    repo.commit("Add b\n\nBecause of this.\n\nAnd that: é", b="2\n")
    return repo


def test_the_sample_is_a_pull_request(root: Path, forge: LocalForge) -> None:
    path = make(root / "basket")
    assert forge.repositories() == [str(path)]
    [pull] = forge.pulls(str(path))
    assert pull.target == f"{path}#{BRANCH}"
    assert pull.title == "Give a volume discount"


def test_a_branch_is_a_pull_request_with_the_tips_words(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    [pull] = forge.pulls(str(repo.path))
    assert (pull.title, pull.body) == ("Add b", "Because of this.\n\nAnd that: é")
    assert pull.head_sha == pull.updated_at == repo.git("rev-parse", "feature/x")
    assert (pull.base_ref, pull.base_sha) == ("main", repo.git("rev-parse", "main"))
    assert (pull.author, pull.author_association, pull.open, pull.draft) == ("Ada", "OWNER", True, False)
    assert pull.number == forge.pulls(str(repo.path))[0].number > 0
    source = forge.source(pull)
    assert (source.url, source.head_ref, source.base_ref) == (
        pull.repository,
        "refs/heads/feature/x",
        "refs/heads/main",
    )


def test_what_it_names_can_be_fetched(root: Path, forge: LocalForge, tmp_path: Path) -> None:
    repo = shop(root)
    [pull] = forge.pulls(str(repo.path))
    mirror = Mirrors(tmp_path / "mirrors").fetch(pull.repository, forge.source(pull), head_sha=pull.head_sha)
    assert [file.path for file in mirror.changed_files(pull.base_sha, pull.head_sha)] == ["b"]


def test_repositories_bare_or_not_are_found_two_levels_deep(root: Path, forge: LocalForge) -> None:
    shop(root, "plain")
    shop(root, "group/nested")
    Repo(root / "bare.git", "--bare")
    shop(root, "group/deep/too-deep")
    shop(root, ".hidden")
    shop(root, "group/.hidden")
    (root / "file").write_text("")
    (root / "plain" / "vendored").mkdir()
    worktree = root / "linked"
    Repo(root / "other").commit()
    subprocess.run(["git", "worktree", "add", "-q", worktree], cwd=root / "other", check=True)
    names = [Path(path).relative_to(root).as_posix() for path in forge.repositories()]
    assert sorted(names) == ["bare.git", "group/nested", "other", "plain"]
    assert LocalForge([root / "plain"], root, Rows()).repositories() == [str(root / "plain")]


def test_a_missing_root_says_so(tmp_path: Path) -> None:
    with pytest.raises(ForgeError, match="cannot be read") as caught:
        LocalForge(tmp_path / "absent", tmp_path, Rows()).repositories()
    assert caught.value.cause == "forge-not-found"
    assert "mount" in caught.value.remedy


def test_a_merged_branch_is_closed_and_not_listed(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    [pull] = forge.pulls(str(repo.path))
    repo.git("checkout", "--quiet", "main")
    repo.git("merge", "--quiet", "--no-ff", "-m", "merge", "feature/x")
    repo.git("branch", "same-as-main")
    assert forge.pulls(str(repo.path)) == []
    assert not forge.pull(pull.repository, pull.number).open
    assert not forge.find(pull.target).open


def test_a_deleted_branch_is_closed_and_an_unknown_number_is_not_found(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    [pull] = forge.pulls(str(repo.path))
    assert forge.pull(pull.repository, pull.number).open
    repo.git("checkout", "--quiet", "main")
    repo.git("branch", "-D", "feature/x")
    assert not forge.pull(pull.repository, pull.number).open
    with pytest.raises(ForgeError) as caught:
        forge.pull(pull.repository, 7)
    assert caught.value.cause == "forge-not-found"
    assert caught.value.permanent


def test_the_branch_somebody_works_on_is_not_the_default_one(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/feature/x"
    assert [pull.head_ref for pull in forge.pulls(str(repo.path))] == ["feature/x"]


def test_head_names_the_default_branch_of_a_bare_repository(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    repo.git("branch", "trunk", "main")
    bare = Repo(root / "bare.git", "--bare")
    bare.git("fetch", "--quiet", str(repo.path), "refs/heads/*:refs/heads/*")
    bare.git("symbolic-ref", "HEAD", "refs/heads/trunk")
    assert [pull.base_ref for pull in forge.pulls(str(bare.path))] == ["trunk"]
    repo.git("branch", "-D", "main")
    repo.git("checkout", "--quiet", "trunk")
    assert [pull.base_ref for pull in forge.pulls(str(repo.path))] == ["trunk"]


def test_a_broken_repository_fails_alone(root: Path, forge: LocalForge) -> None:
    good, broken, empty = shop(root, "good"), shop(root, "broken"), Repo(root / "empty")
    (broken.path / ".git" / "HEAD").write_text("nonsense\n")
    assert len(forge.repositories()) == 3
    assert len(forge.pulls(str(good.path))) == 1
    with pytest.raises(ForgeError, match="cannot be read"):
        forge.pulls(str(broken.path))
    assert forge.pulls(str(empty.path)) == []  # nothing to review is no fault


def test_a_damaged_repository_is_the_persons_own_and_nothing_is_fetched_anew(root: Path, forge: LocalForge) -> None:
    broken = shop(root, "broken")
    (broken.path / ".git" / "HEAD").unlink()
    with pytest.raises(ForgeError) as caught:
        forge.pulls(str(broken.path))
    assert str(caught.value).startswith(f"{broken.path} cannot be read: it is damaged (git rev-parse: fatal: not a git")
    assert "`git fsck`" in caught.value.remedy and "restore" in caught.value.remedy
    for words in ("kept copy", "anew", "nothing"):
        assert words not in f"{caught.value} {caught.value.remedy}"


@pytest.mark.parametrize("name", ["two\nlines", "ends\n", "two\N{LINE SEPARATOR}lines"])
def test_a_repository_with_a_line_end_in_its_name_borrows_nothing(
    name: str, root: Path, forge: LocalForge, tmp_path: Path
) -> None:
    repo = shop(root, name)
    assert forge.repositories() == [str(repo.path)]
    [pull] = forge.pulls(str(repo.path))
    assert forge.find(pull.target) == pull
    mirror = Mirrors(tmp_path / "mirrors").fetch(pull.repository, forge.source(pull), head_sha=pull.head_sha)
    assert mirror.base == pull.base_sha
    beside, outside = Repo(root / f"{name}\x07beside"), Repo(tmp_path / name)
    alternates = repo.path / ".git" / "objects" / "info" / "alternates"
    for source in (beside, outside):
        quoted = f"{source.path}/.git/objects".replace("\n", "\\n").replace("\x07", "\\a")
        with alternates.open("a") as file:
            file.write(f'"{quoted}"\n')
        if source is beside:
            assert forge.pulls(str(repo.path)) == [pull]
    with pytest.raises(ForgeError) as caught:
        forge.pulls(str(repo.path))
    assert f"takes its objects from {outside.path}/.git/objects" in str(caught.value)


def test_a_branch_with_a_line_separator_in_its_name_is_one_branch(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    repo.git("branch", "two\N{LINE SEPARATOR}lines")
    assert {pull.head_ref for pull in forge.pulls(str(repo.path))} == {"feature/x", "two\N{LINE SEPARATOR}lines"}


@pytest.mark.parametrize("branch", ["feature#12", "-x", "--upload-pack=touch pwned", "é/a b".replace(" ", "-")])
def test_find_takes_any_branch_name(root: Path, forge: LocalForge, branch: str) -> None:
    repo = shop(root, "sh#op")
    repo.git("update-ref", f"refs/heads/{branch.replace(' ', '')}", "HEAD")
    pull = forge.find(f"{repo.path}#{branch.replace(' ', '')}")
    assert pull.head_ref == branch.replace(" ", "")
    assert pull.number in {listed.number for listed in forge.pulls(pull.repository)}


def test_find_says_how_to_write_it(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    for wrong in (f"{repo.path}#nope", f"{repo.path}", "nowhere#main"):
        with pytest.raises(ForgeError, match="names no branch") as caught:
            forge.find(wrong)
        assert "path#branch" in caught.value.remedy
    assert forge.find(f"{repo.path}#feature/x", base="main").base_ref == "main"
    with pytest.raises(ForgeError, match="no branch nope"):
        forge.find(f"{repo.path}#feature/x", base="nope")


BODIES = [
    "# Review\n\n\n\ntext with empty lines  \n\n# more",
    "<!-- review-appliance comment 1, written 1.0, 3 bytes -->\nabc\n",
    "",
    "ends with newlines\n\n\n",
    "é 评论 \r\n tab\t",
]


def test_comments_come_back_as_they_were(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    [pull] = forge.pulls(str(repo.path))
    assert forge.comments(pull) == []
    posted = [forge.post_comment(pull, body) for body in BODIES]
    repo.commit("another", c="3\n")
    [newer] = forge.pulls(str(repo.path))
    posted.append(forge.post_comment(newer, "of the new head"))
    assert [comment.body for comment in posted] == [*BODIES, "of the new head"]
    assert forge.comments(newer) == posted
    assert forge.comment(newer, posted[2].id) == posted[2]
    assert forge.comment(newer, "absent") is None
    assert len({comment.id for comment in posted}) == len(posted)
    assert Path(posted[0].url).name == f"{pull.head_sha}.md"
    assert "text with empty lines" in Path(posted[0].url).read_text()


def test_a_review_changed_by_hand_is_not_taken_for_a_listing(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    [pull] = forge.pulls(str(repo.path))
    path = Path(forge.post_comment(pull, "body").url)
    path.write_text(path.read_text().replace("body", "b"))
    with pytest.raises(ForgeError, match="changed by hand"):
        forge.comments(pull)


def test_the_review_is_a_note_of_the_head(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    [pull] = forge.pulls(str(repo.path))
    forge.post_comment(pull, BODIES[0])
    forge.post_comment(pull, "second")
    note = repo.git("notes", f"--ref={NOTES}", "show", pull.head_sha)
    assert note == f"{BODIES[0]}\n\n---\n\nsecond"


def test_a_note_is_as_open_as_the_repository_whatever_our_umask(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    objects = repo.path / ".git" / "objects"
    objects.chmod(0o777)
    before = {path: path.stat().st_mode for path in repo.path.joinpath(".git").rglob("*")}
    [pull] = forge.pulls(str(repo.path))
    mask = os.umask(0o077)
    try:
        forge.post_comment(pull, "A review.")
    finally:
        os.umask(mask)
    made = [path for path in repo.path.joinpath(".git").rglob("*") if path not in before]
    assert {path.stat().st_mode & 0o007 for path in made if path.is_dir()} == {0o007}
    assert {path.stat().st_mode & 0o004 for path in made if path.is_file()} == {0o004}


def test_a_hostile_repository_runs_nothing_when_a_note_is_written(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    witness = root / "witness"
    program = root / "program"
    program.write_text(f"#!/bin/sh\necho ran >> {witness}\n")
    program.chmod(0o755)
    hooks = repo.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("reference-transaction", "post-commit", "prepare-commit-msg", "fsmonitor-watchman", "post-checkout"):
        (hooks / hook).write_text(program.read_text())
        (hooks / hook).chmod(0o755)
    keys = (
        "core.fsmonitor",
        "core.editor",
        "core.pager",
        "gpg.program",
        "core.sshCommand",
        "uploadpack.packObjectsHook",
    )
    for key in keys:
        repo.git("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "config", key, str(program))
    [pull] = forge.pulls(str(repo.path))
    forge.post_comment(pull, "body")
    Mirrors(root.parent / "mirrors").fetch(pull.repository, forge.source(pull), head_sha=pull.head_sha)
    assert repo.path.joinpath(".git", "refs", "notes", "codex-review").exists()
    assert not witness.exists(), witness.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to somebody else")
def test_a_repository_of_another_owner_is_read_and_reviewed(root: Path, forge: LocalForge, tmp_path: Path) -> None:
    repo = shop(root)
    subprocess.run(["chown", "-R", "65534:65534", repo.path], check=True)
    [pull] = forge.pulls(str(repo.path))
    mirror = Mirrors(tmp_path / "mirrors").fetch(pull.repository, forge.source(pull), head_sha=pull.head_sha)
    assert mirror.base == pull.base_sha


def test_a_repository_that_cannot_be_written_gets_a_file_only(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    [pull] = forge.pulls(str(repo.path))
    objects = repo.path / ".git" / "objects"
    objects.rename(objects.with_name("gone"))  # a note cannot be written, whoever runs this test
    comment = forge.post_comment(pull, "body")
    assert "body" in Path(comment.url).read_text()


def test_gate_is_a_row(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    [pull] = forge.pulls(str(repo.path))
    assert forge.gate(pull) is None
    forge.set_gate(pull, Gate("success", "no blocking findings"))
    assert forge.gate(pull) == Gate("success", "no blocking findings")


def test_the_source_repository_keeps_its_files(root: Path, forge: LocalForge) -> None:
    repo = shop(root)
    [pull] = forge.pulls(str(repo.path))
    forge.post_comment(pull, "body")
    assert repo.git("status", "--porcelain") == ""
    assert git(["rev-parse", "HEAD"], git_dir=repo.path / ".git", timeout=10).out.strip() == pull.head_sha
