"""From a pull request to the end of one attempt: fetch, check out, let Codex read, and say how it ended."""

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import structlog

from appliance import codex, instructions, redaction, rereview
from appliance.core.coverage import NOT_LOOKED_AT, covered, passes
from appliance.core.earlier import settle, shared_out
from appliance.core.faults import Fault
from appliance.core.findings import Configuration, Coverage, Evidence, NotSeen, Result, Review
from appliance.core.instructions import CONFIG, Effective
from appliance.core.outcomes import Ending, Outcome
from appliance.core.prompt import File
from appliance.core.pulls import Pull
from appliance.core.steps import Step
from appliance.coverage import unread
from appliance.failures import fault_of
from appliance.forge import Source
from appliance.git import GitError, LeftOut, Mirror, Mirrors, Slots
from appliance.git.changes import ChangedFile
from appliance.meter import Budgets
from appliance.placing import placed

log = structlog.get_logger()

MAX_NAMED = 20  # files left out that a review names
MAX_NAME = 200  # characters of each
DIFF_BUDGET = 1_000_000  # bytes of a diff that one pass reads
MAX_PASSES = 4
BLIND = frozenset({"binary", "lfs"})  # kinds of which a reviewer sees nothing


Keep = Callable[[Review, Path], None]


class Work(Protocol):
    """Lends empty directories of this process's own, with room set aside for a result."""

    def new(self, prefix: str) -> AbstractContextManager[Path]: ...
    def reserve(self, work: Path) -> None: ...


@dataclass(frozen=True)
class Reviewer:
    """What a review needs beside the pull request. `probe` examines the sandbox; `block_priority` holds where the base
    branch says no other. `timeout` in seconds and `memory` in bytes (None: any) are what one may take; a diff of more
    than `diff_budget` bytes is read in up to `max_passes`. `history` is of earlier heads. `run` does one round of it,
    Codex in its jail if none is given."""

    mirrors: Mirrors
    slots: Slots
    work: Work
    model: codex.Model
    probe: Callable[[], Fault | None]
    timeout: float
    block_priority: int = 1
    budgets: Budgets = field(default_factory=Budgets)
    memory: int | None = None
    diff_budget: int = DIFF_BUDGET
    max_passes: int = MAX_PASSES
    run: codex.Runner | None = None
    history: rereview.Histories = rereview.no_history

    def review(
        self,
        pull: Pull,
        source: Source,
        *,
        stop: threading.Event | None = None,
        progress: codex.Progress = lambda _: None,
        base_sha: str | None = None,
        keep: Keep = lambda _review, _work: None,
    ) -> Ending:
        """One attempt. `base_sha` fixes the base; None is the tip of the base branch after a fetch.

        `keep` is given a review that was paid for, while its work directory is still there, and stores it. Raises
        process.Stopped when `stop` is set, and what `keep` raises; every other failure is an Ending.
        No secret is in what it tells.
        """
        try:
            return redaction.ending(self._review(pull, source, stop, progress, base_sha, keep))
        except GitError as error:
            log.info("review.git", target=pull.target, cause=error.cause, said=error.sentence[:500])
            return _git_ending(error)
        except OSError as error:
            return workstation_ending(error)

    def _review(
        self,
        pull: Pull,
        source: Source,
        stop: threading.Event | None,
        progress: codex.Progress,
        base_sha: str | None,
        keep: Keep,
    ) -> Ending:
        progress(Step("fetching"))
        mirror = self.mirrors.fetch(
            pull.repository, source, head_sha=pull.head_sha, base_sha=base_sha or pull.base_sha, stop=stop
        )
        base = base_sha or mirror.base_sha(source.base_ref)
        # Without a common ancestor everything the head has is the change: the base itself is what it is compared with.
        merge_base = mirror.merge_base(base, pull.head_sha) or base
        changes = mirror.changed_files(merge_base, pull.head_sha)
        left_out = mirror.left_out(changes)
        files = [
            File(changed.path, changed.status, changed.added, changed.deleted, changed.old_path) for changed in changes
        ]
        seen = replace(pull, base_sha=base)
        held = instructions.of_base(mirror, base, files, self.block_priority)
        unseen = unread(mirror, changes, held, left_out)
        blind = {one.path for one in unseen if one.kind in BLIND}
        if all(file.path in blind for file in held.files):
            nothing = _nothing(seen, merge_base, self.model, held.configuration, unseen)
            return Ending(Outcome.REVIEWED, "nothing to review", review=nothing)
        with (
            self.slots.checkout(
                mirror,
                pull.repository,
                head_sha=pull.head_sha,
                base_sha=base,
                merge_base=merge_base,
                leave_out=[each.raw for each in left_out],
                stop=stop,
            ) as slot,
            self.work.new("review-") as work,
        ):
            self.work.reserve(work)
            count = len(held.files)
            history = self.history(pull)
            since = rereview.since(mirror, history, pull.head_sha, merge_base)
            progress(Step(f"reviewing {count} changed file{'' if count == 1 else 's'} with {self.model.name}"))
            plan = passes(held.files, mirror.sizes(changes), self.diff_budget, self.max_passes)
            many = len(plan.portions)
            shares = [history] * many
            if many > 1:
                names = {name for one in changes for name in (one.path, one.old_path) if name}
                portions = [[(file.path, file.old_path) for file in portion] for portion in plan.portions]
                shares = shared_out(history, portions, names)
            ending = codex.review_in_passes(
                [
                    codex.Job(
                        seen,
                        base,
                        merge_base,
                        portion,
                        slot,
                        held.rules,
                        held.configuration.exclude,
                        held.configuration.files_excluded,
                        part=(at, many),
                        history=share,
                        since=since,
                    )
                    for at, (portion, share) in enumerate(zip(plan.portions, shares, strict=True), 1)
                ],
                self.model,
                work,
                timeout=self.timeout,
                memory=self.memory,
                stop=stop,
                probe=self.probe,
                progress=progress,
                budgets=self.budgets,
                run=self.run,
            )
            ending = _placed(ending, mirror, changes, held)
            reviewable = {file.path for file in held.files}
            ending = _with_limits(ending, [each for each in left_out if each.path in reviewable])
            ending = _covered(ending, covered(held.files, plan, self.diff_budget, unseen))
            ending = redaction.ending(_held_to(ending, held.configuration))
            if ending.review is not None:
                lines = rereview.lines_of(mirror, pull.head_sha)
                settled = settle(ending.review, history, since, self.block_priority, lines)
                ending = redaction.ending(replace(ending, review=settled))
            if ending.review is not None:
                keep(ending.review, work)
            return ending


def _covered(ending: Ending, coverage: Coverage) -> Ending:
    """What was not, or not wholly, looked at is no success: a gate cannot speak for it."""
    if ending.review is None:
        return ending
    unlooked = sum(one.kind == NOT_LOOKED_AT for one in coverage.left_out)
    evidence = replace(ending.review.evidence, files_left_out=ending.review.evidence.files_left_out + unlooked)
    return replace(ending, review=replace(ending.review, coverage=coverage, evidence=evidence))


def _placed(ending: Ending, mirror: Mirror, changes: Sequence[ChangedFile], held: Effective) -> Ending:
    """The findings as they stand in the real diff, each once. Raises GitError."""
    if ending.review is None:
        return ending
    found = placed(
        mirror,
        changes,
        ending.review.result.findings,
        held.configuration.exclude,
        [file.path for file in held.left_out],
    )
    return replace(ending, review=replace(ending.review, result=replace(ending.review.result, findings=found)))


def _held_to(ending: Ending, configuration: Configuration) -> Ending:
    """The configuration travels with the review: gate and comment are made of it, also after a restart."""
    if ending.review is None:
        return ending
    return replace(ending, review=replace(ending.review, configuration=configuration))


def _with_limits(ending: Ending, left_out: Sequence[LeftOut]) -> Ending:
    """A review names what was not in the checkout, and its gate is no success: nobody can have read that."""
    if ending.review is None or not left_out:
        return ending
    named = [f"{json.dumps(each.path)[:MAX_NAME]} ({each.why})" for each in left_out[:MAX_NAMED]]
    more = [f"{len(left_out) - MAX_NAMED} more"] if len(left_out) > MAX_NAMED else []
    said = f"Not checked out, so not read as files: {', '.join([*named, *more])}."
    result = replace(ending.review.result, limits=f"{said}\n\n{ending.review.result.limits}")
    evidence = replace(ending.review.evidence, files_left_out=len(left_out))
    return replace(ending, review=replace(ending.review, result=result, evidence=evidence))


def _nothing(pull: Pull, merge_base: str, model: codex.Model, held: Configuration, unseen: Sequence[NotSeen]) -> Review:
    """An empty diff, or one that is left out as a whole, is said so: the model is not asked, the gate is no success."""
    said, why = "Nothing to review: head and base differ in no file.", "The diff is empty."
    if held.files_excluded:
        said = f"Nothing to review: all changed files ({held.files_excluded}) are left out by `{CONFIG}`."
        why = "The rules of the base branch leave out every file that is changed."
    if len(unseen) > held.files_excluded:
        said = f"Nothing to review: of the changed files ({len(unseen)}) none can be read as text."
        why = "They are binary files or pointers to files that are kept elsewhere, or left out by the base's rules."
    return Review(
        target=pull.target,
        head_sha=pull.head_sha,
        base_ref=pull.base_ref,
        base_sha=pull.base_sha,
        merge_base=merge_base,
        result=Result("inconclusive", said, why, "Nothing was read."),
        configuration=held,
        evidence=Evidence(),
        model=model.name,
        rehearsal=model.rehearsal,
        nothing_to_review=True,
        coverage=Coverage(left_out=tuple(unseen)),
    )


def _git_ending(error: GitError) -> Ending:
    if error.cause == "superseded":
        return Ending(Outcome.SUPERSEDED, "the pull request moved on")
    if error.cause == "too-large":
        return Ending(Outcome.CONTEXT, f"{Outcome.CONTEXT.value}: {error.brief}")
    if error.cause == "malformed":
        return Ending(Outcome.TURN_FAILED, error.brief)
    ours = error.cause in ("disk-full", "mirror-corrupt", "git")
    outcome = Outcome.WORKSTATION if ours else Outcome.FORGE_UNREACHABLE
    return redaction.ending(Ending(outcome, str(error)[:300], fault=fault_of(error)))


def workstation_ending(error: Exception) -> Ending:
    """How an attempt ended that our own side broke off: never the pull request's doing."""
    fault = fault_of(error)
    return redaction.ending(Ending(Outcome.WORKSTATION, fault.sentence, fault=fault))
