"""Runs Codex on one pull request, in the jail, and says how it ended."""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import structlog

from appliance import bounds, codex_config, facts, jail, process
from appliance.core.earlier import History, Since
from appliance.core.ending import Invalid, Run, judge
from appliance.core.events import Stream
from appliance.core.faults import Fault, beside, cured
from appliance.core.findings import Evidence, Result, Review, Usage
from appliance.core.merging import merged
from appliance.core.outcomes import Ending, Outcome
from appliance.core.prompt import File, Rule, repair_prompt, review_prompt
from appliance.core.pulls import Pull
from appliance.core.result import SCHEMA
from appliance.core.steps import Step
from appliance.core.tools import tool_outputs
from appliance.gate import Gate, Upstream
from appliance.meter import Budgets, Meter

log = structlog.get_logger()

MIN_REPAIR_SECONDS = 5.0
EXEC = (
    jail.CODEX,
    "exec",
    "--strict-config",
    "--ephemeral",
    "--json",
    "--skip-git-repo-check",
    "--output-schema",
    f"{jail.CODEX_HOME}/{codex_config.SCHEMA}",
    "-C",
    jail.CHECKOUT,
    "-",  # the prompt comes on stdin: as an argument beside an open stdin Codex would wait for more
)


class Checkout(Protocol):
    """Where the pull request's files are."""

    @property
    def tree(self) -> Path: ...
    @property
    def git_dir(self) -> Path: ...
    @property
    def objects(self) -> Path: ...


@dataclass(frozen=True)
class Model:
    """Which model reviews, and the way to it. `rehearsal`: it is the scripted one."""

    name: str
    effort: str
    upstream: Upstream
    rehearsal: bool = False


@dataclass(frozen=True)
class Job:
    """One pull request ready to be read. `rules` are the base branch's, which leaves out `excluded` files more. `part`
    is which of how many passes over one change this is."""

    pull: Pull
    base_sha: str
    merge_base: str
    files: Sequence[File]
    checkout: Checkout
    rules: Sequence[Rule] = ()
    exclude: Sequence[str] = ()
    excluded: int = 0
    part: tuple[int, int] = (1, 1)
    history: History = field(default_factory=History)
    since: Mapping[str, Since] = field(default_factory=dict)


Progress = Callable[[Step], None]
# What one round is given: the job, the model, a directory that is yet to be made, the prompt, the time in seconds, what
# stops it, who is told of commands, the meter, the memory of its jail.
Runner = Callable[
    [Job, Model, Path, str, float, threading.Event | None, Progress, Meter, int | None],
    Run,
]


def review(
    job: Job,
    model: Model,
    work: Path,
    *,
    timeout: float,
    stop: threading.Event | None,
    probe: Callable[[], Fault | None],
    progress: Progress = lambda _: None,
    budgets: Budgets | None = None,
    memory: int | None = None,
    run: Runner | None = None,
    meter: Meter | None = None,
) -> Ending:
    """Let Codex review `job`, with one repair round for an invalid answer, and say how it ended.

    `work` is an empty directory of this attempt's own. `timeout` is for all of it, in seconds, and so are `budgets`.
    `probe` examines the sandbox: it runs after whatever is not a review, so that a sandbox that died in between is
    named as what it is, and one that is well again from what it said and from the facts that last.
    `memory` is how many bytes its jail may use, None for any. `run` does one round, in the jail if none is given.
    `meter` counts this together with other passes of one attempt, in place of `budgets`.
    Raises process.Stopped when `stop` is set, OSError or SQLAlchemyError if the workstation fails us.
    """
    started = time.monotonic()
    counted = facts.counters()
    meter = meter or Meter(budgets, deadline=started + timeout)
    rules = (job.rules, job.exclude, job.excluded, job.part)
    prompt = review_prompt(job.pull, job.merge_base, job.files, *rules, job.history, job.since)
    ask = run or in_jail
    runs = [ask(job, model, work / "first", prompt, timeout, stop, progress, meter, memory)]
    judged = judge(runs)
    left = timeout - (time.monotonic() - started)
    if isinstance(judged, Invalid) and left > MIN_REPAIR_SECONDS and not (fault := probe()):
        log.info("review.repair", target=job.pull.target, reason=judged.reason)
        progress(Step(f"the answer is refused ({judged.reason}); asking once more"))
        again = repair_prompt(prompt, runs[0].stream.last_message, judged.reason)
        runs.append(ask(job, model, work / "repair", again, left, stop, progress, meter, memory))
        judged = judge(runs)
    if isinstance(judged, Result):
        return Ending(
            Outcome.REVIEWED, "reviewed", review=_review(job, model, judged, runs, time.monotonic() - started)
        )
    seen = judged.fault if isinstance(judged, Ending) and judged.outcome is Outcome.SANDBOX else None
    fault = probe()
    if fault:
        fault = beside(fault, seen) if seen else fault
        return Ending(Outcome.SANDBOX, f"the sandbox failed: {fault.cause}", fault=fault, selftest_sees=True)
    if seen:
        read = {**facts.everything(), **facts.risen(counted, facts.counters())}
        return Ending(Outcome.SANDBOX, judged.reason, fault=cured(seen, read))
    if isinstance(judged, Invalid):
        return Ending(Outcome.MODEL_OUTPUT, f"no valid review: {judged.reason}"[:300])
    return judged


def in_jail(
    job: Job,
    model: Model,
    work: Path,
    prompt: str,
    timeout: float,
    stop: threading.Event | None,
    progress: Progress,
    meter: Meter,
    memory: int | None,
) -> Run:
    """One round of Codex, in a jail of its own. Raises as `review` does."""
    work.mkdir(parents=True)
    stream = Stream()
    watch = bounds.Watch(memory)

    told = 0

    def take(line: bytes) -> None:
        nonlocal told
        command, tokens = stream.add(line), meter.settled
        if command or tokens != told:
            told = tokens
            progress(Step(command=command, tokens=tokens))

    with _home(job, model) as home, Gate(work / "gate.sock", model.upstream, meter) as gate:
        policy = jail.review_policy(
            tree=job.checkout.tree,
            git_dir=job.checkout.git_dir,
            objects=job.checkout.objects,
            codex_home=home,
            gate_socket=gate.path,
        )
        done = process.run(
            jail.argv(policy, jail.with_relay(EXEC)),
            timeout=timeout,
            input=prompt.encode("utf-8", "backslashreplace"),
            stop=stop,
            on_line=take,
            watch=watch.over,
        )
    if gate.broken is not None:
        raise gate.broken
    return Run(
        done.code,
        done.timed_out,
        done.err[-20_000:],
        stream,
        tuple(gate.answers),
        tuple(tool_outputs(gate.last_request)),
        watch.exceeded,
    )


@contextmanager
def _home(job: Job, model: Model) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="codex-home-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        codex_config.write_home(
            home, model=model.name, effort=model.effort, objects=job.checkout.objects, schema=SCHEMA
        )
        yield home


def _review(job: Job, model: Model, result: Result, runs: Sequence[Run], seconds: float) -> Review:
    commands = [command for run in runs for command in run.stream.commands]
    return Review(
        target=job.pull.target,
        head_sha=job.pull.head_sha,
        base_ref=job.pull.base_ref,
        base_sha=job.base_sha,
        merge_base=job.merge_base,
        result=result,
        usage=sum((run.stream.usage for run in runs), Usage()),
        evidence=Evidence(
            commands=tuple(command.typed for command in commands if command.ok),
            failed_commands=tuple(command.typed for command in commands if not command.ok),
            files_changed=len(job.files),
        ),
        seconds=seconds,
        model=model.name,
        rehearsal=model.rehearsal,
    )


def review_in_passes(
    jobs: Sequence[Job],
    model: Model,
    work: Path,
    *,
    timeout: float,
    progress: Progress = lambda _: None,
    budgets: Budgets | None = None,
    **how: Any,
) -> Ending:
    """`review` for each of `jobs`, as one attempt: one time, one budget, one review.

    They share the files of one change among them. Each must be a review of its own, a look included; the first that is
    not is how the attempt ended.
    """
    started = time.monotonic()
    if len(jobs) == 1:
        return review(jobs[0], model, work, timeout=timeout, progress=progress, budgets=budgets, **how)
    meter = Meter(budgets, deadline=started + timeout)
    done: list[Review] = []
    for at, job in enumerate(jobs, 1):
        left = timeout - (time.monotonic() - started)
        if left < MIN_REPAIR_SECONDS:
            return Ending(Outcome.TIMEOUT, f"timeout after {at - 1} of {len(jobs)} passes")
        progress(Step(f"pass {at} of {len(jobs)}: {len(job.files)} file{'' if len(job.files) == 1 else 's'}"))
        ending = review(job, model, work / f"pass-{at}", timeout=left, progress=progress, meter=meter, **how)
        if ending.review is None:
            return ending
        done.append(_as_asked(ending.review, job))
    return Ending(Outcome.REVIEWED, "reviewed", review=merged(done))


def _as_asked(review: Review, job: Job) -> Review:
    """Without answers for findings that this pass was not asked of."""
    ids = {name for name, _ in job.history.asked}
    answers = tuple(answer for answer in review.result.earlier if answer.id in ids)
    return replace(review, result=replace(review.result, earlier=answers))
