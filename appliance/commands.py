"""What the commands do that is more than printing: find a target, review it once, publish it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from appliance import codex
from appliance.core.outcomes import Ending, Outcome
from appliance.core.pulls import Pull
from appliance.core.steps import Step
from appliance.core.verdict import WAITING, day_budget, running
from appliance.delivery import Delivery, as_it_is
from appliance.forge import ForgeError, Source
from appliance.forge.github import parse_target
from appliance.forge.local import LocalForge, NoSuchBranch
from appliance.git import GitError, git
from appliance.git.snapshot import BASE_REF, HEAD_REF, Unusable, patched, root_of, uncommitted
from appliance.protocols import Forge
from appliance.reviewing import Keep
from appliance.store import StoredReview
from appliance.wiring import Appliance

FORMS = "write it as owner/name#12, as a pull request's URL, as path#branch, or as a path with --base and --head."


class BadTarget(ValueError):
    """What was typed names nothing that can be reviewed; the message says what can."""


class Busy(Exception):
    """What was asked for is right and cannot be now; the message says when."""


class _Range(LocalForge):
    """Two commits of a local repository, as the forge of one pull request that nobody opened."""

    def source(self, pull: Pull) -> Source:
        return Source(pull.repository, pull.head_sha, pull.base_sha)


def find(parts: Appliance, target: str, base: str | None, head: str | None) -> tuple[Forge, Pull]:
    """The forge and the pull request of what a person typed. Raises BadTarget, ForgeError, GitError."""
    if not target.strip():
        raise BadTarget(f"TARGET is empty. Next: {FORMS}")
    for option, value in (("--base", base), ("--head", head)):
        if value is not None and not value.strip():  # an unset variable: HEAD in its place would be "nothing to review"
            raise BadTarget(f"{option} is empty. Next: name a branch or a commit, or leave it out.")
    named = parse_target(target)
    if named and not Path(target).exists():
        if base or head:
            raise BadTarget("--base and --head go with a path; a pull request has its own. Next: leave them out.")
        _check_host(target, parts.settings.github_url)
        forge = parts.github()
        return forge, forge.pull(*named)
    path = Path(target)
    if path.is_dir():
        return _range(parts, path, base, head)
    local = parts.local([*filter(None, [parts.settings.local_repositories]), parts.sample])
    if any(Path(target[: mark.start()]).is_dir() for mark in re.finditer("#", target)):  # paths may hold a # too
        if head:
            raise BadTarget("path#branch names the head already. Next: leave out --head.")
        try:
            return local, local.find(target, base)
        except NoSuchBranch as error:
            raise BadTarget(f"{error}. Next: {error.remedy}") from None
    raise BadTarget(f"{target}: there is no such pull request or path here. Next: {FORMS}")


def _check_host(target: str, api: str) -> None:
    """A page of another forge is not to be taken for the same name on ours."""
    if "://" not in target:
        return
    host, ours = urlsplit(target).hostname, urlsplit(api).hostname or ""
    if host not in (ours, ours.removeprefix("api.")):
        raise BadTarget(f"{target} is on {host}, but APPLIANCE_GITHUB_URL is {api}. Next: set it to that host's API.")


def _range(parts: Appliance, path: Path, base: str | None, head: str | None) -> tuple[Forge, Pull]:
    if not git(["rev-parse", "--git-dir"], cwd=path, timeout=30, check=False).ok:
        raise BadTarget(f"{path} is no git repository. Next: {FORMS}")
    repository = str(path.resolve())
    parts.local([]).refuse_borrowed(repository)
    forge = _Range([], parts.settings.state_dir / "reviews", parts.store)
    head_sha, base_name = _commit(path, head or "HEAD"), base or _default_base(path)
    base_sha = _commit(path, base_name)
    subject = git(["log", "-1", "--format=%s", head_sha], cwd=path, timeout=30).out.strip()
    return forge, Pull(
        target=f"{repository} {base_name}..{head or 'HEAD'}",
        repository=repository,
        number=0,
        head_sha=head_sha,
        base_ref=base_name,
        base_sha=base_sha,
        title=subject,
        author_association="OWNER",
    )


class _Unseen(_Range):
    """The same of a commit that is in no repository of the person's, but in a git directory of our own."""

    git_dir: Path

    def source(self, pull: Pull) -> Source:
        return Source(str(self.git_dir), HEAD_REF, BASE_REF)


@contextmanager
def unseen(parts: Appliance, target: str, base: str | None, patch: bytes | None) -> Iterator[tuple[Forge, Pull]]:
    """What is not committed in the path `target`, or `patch` on it, as a pull request that lasts as long as this.

    Raises BadTarget, ForgeError, GitError, OSError.
    """
    path = Path(target)
    if not path.is_dir():
        raise BadTarget(f"{target} is no folder here. Next: name the folder of a checkout in the container.")
    try:
        root = root_of(path)
        parts.local([]).refuse_borrowed(str(root))
        against = None if base is None else _commit(root, base)
        with parts.work.new("snapshot-") as work:
            made = uncommitted(root, work, against) if patch is None else patched(root, work, patch, against)
            forge = _Unseen([], parts.settings.state_dir / "reviews", parts.store)
            forge.git_dir = made.git_dir
            what = "uncommitted" if patch is None else "patch"
            yield (
                forge,
                Pull(
                    target=f"{root} {base or 'HEAD'}..{what}",
                    repository=str(root),
                    number=0,
                    head_sha=made.head,
                    base_ref=base or "HEAD",
                    base_sha=made.base,
                    title="Uncommitted changes" if patch is None else "A patch",
                    author_association="OWNER",
                ),
            )
    except Unusable as error:
        raise BadTarget(str(error)) from None


def _commit(path: Path, name: str) -> str:
    try:
        found = git(
            ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"], cwd=path, timeout=30
        )
    except GitError:
        raise BadTarget(f"{path} has no commit {name}. Next: name a branch, tag or SHA of that repository.") from None
    return found.out.strip().splitlines()[-1]


def _default_base(path: Path) -> str:
    for name in ("origin/HEAD", "main", "master"):
        try:
            _commit(path, name)
        except BadTarget:
            continue
        return name
    raise BadTarget(f"{path} has neither main nor master. Next: say what to compare with, by --base.")


def review_once(
    parts: Appliance,
    forge: Forge,
    pull: Pull,
    *,
    rehearse: bool,
    progress: codex.Progress,
    keep: Keep = lambda _review, _work: None,
) -> Ending:
    """Self-test, then one review; nothing is published, and nothing is stored but by `keep`."""
    used_up = None if rehearse else parts.day_fault()
    if used_up:
        return Ending(Outcome.DAY_BUDGET, "token budget of the day", fault=used_up)
    progress(Step("self-test"))
    fault = parts.selftest()
    if fault:
        return Ending(Outcome.SANDBOX, fault.cause, fault=fault)
    base_sha = pull.base_sha if isinstance(forge, _Range) else None
    reviewer = parts.reviewer(rehearse=rehearse)
    source = forge.source(pull)
    return reviewer.review(pull, source, stop=parts.stop, progress=progress, base_sha=base_sha, keep=keep)


def _stands(delivery: Delivery, forge: Forge, pull: Pull, stored: StoredReview) -> bool:
    """Whether an earlier review still holds, after a look at head and base."""
    now = as_it_is(forge, pull)
    return now.open and now.key == pull.key and delivery.holds(forge, now, stored)


def review_and_post(parts: Appliance, forge: Forge, pull: Pull, *, rehearse: bool, progress: codex.Progress) -> Ending:
    """As the loop does it: the gate is pending first, the result is stored, then posted. Raises ForgeError, Busy."""
    store, delivery = parts.store, parts.delivery
    store.seen_one(forge.name, pull)
    attempt = store.begin_attempt(pull, parts.owner)
    if attempt is None:
        raise Busy(f"{pull.target} is being reviewed now. Next: `appliance status` shows when it is done.")
    ending = Ending(Outcome.INTERRUPTED, "the command ended")
    kept = parts.keeper.of(attempt, parts.owner)
    try:
        tries = store.records([pull])[pull.target].attempts + 1
        most = max(tries, parts.settings.max_attempts)
        with parts.board.shown(pull.target, attempt, parts.owner, tries, most) as shown:
            delivery.set_gate(forge, pull, running(tries, most))

            def tell(step: Step) -> None:
                shown(step)
                progress(step)

            ending = review_once(parts, forge, pull, rehearse=rehearse, progress=tell, keep=kept.keep)
    except ForgeError as error:
        ending = Ending(Outcome.FORGE_UNREACHABLE, str(error)[:300])
        raise
    finally:
        if ending.review is None:
            store.end_attempt(attempt, ending.outcome, ending.reason)
    if ending.review is None:
        before = store.review_of(pull)
        waiting = day_budget("00:00 UTC") if ending.outcome is Outcome.DAY_BUDGET else WAITING
        with suppress(GitError):  # unknown whether it holds: the loop finds out
            holds = before is not None and (before.gate.state != "success" or _stands(delivery, forge, pull, before))
            delivery.set_gate(forge, pull, before.gate if before and holds else waiting)
        return ending
    kept.stored(ending.review)
    stored = store.review_of(pull)
    assert stored is not None
    progress(Step("posting"))
    if not delivery.deliver(forge, stored, pull):
        return replace(ending, review=None, outcome=Outcome.SUPERSEDED, reason="the pull request moved on meanwhile")
    return ending
