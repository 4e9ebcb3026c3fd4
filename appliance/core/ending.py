"""From what one run of Codex did to what it means. Structure decides, never the words of a message."""

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.events import Command, Stream
from appliance.core.faults import Fault, classify, is_bwrap_failure
from appliance.core.findings import Result
from appliance.core.outcomes import Ending, Outcome
from appliance.core.result import InvalidResult, parse_result
from appliance.core.upstream import Answer, ending_of

REPORT_REMEDY = "see `docker logs review-appliance`, and report this with it: it is a fault of the appliance."
KILLED = (-9, 137)


@dataclass(frozen=True)
class Run:
    """What one `codex exec` left behind. `code` is negative for a signal.

    `told` is what the model was told of its commands: with only the inner bwrap dead, Codex 0.163 has no event for
    the command, and this is the only place where bwrap's words stand (measured). `exceeded`: of what bound of its jail
    it used all, in words.
    """

    code: int
    timed_out: bool
    stderr: str
    stream: Stream
    answers: tuple[Answer, ...]
    told: tuple[Command, ...] = ()
    exceeded: str = ""


@dataclass(frozen=True)
class Invalid:
    """The run ended well but gave no review; `reason` is in words that the model can act on."""

    reason: str


def judge(runs: Sequence[Run]) -> Result | Ending | Invalid:
    """What the last of `runs` (the first, or the repair after it) amounts to; evidence counts from all of them."""
    run = runs[-1]
    stream = run.stream
    broken = _dead_sandbox(stream.commands) or _dead_sandbox(run.told)
    if run.exceeded and (broken or not stream.completed or run.code != 0):
        # The bound is its own jail's, so nobody else can have used it up: whatever broke, it is the pull request's.
        return Ending(Outcome.TURN_FAILED, f"turn failed: {run.exceeded}")
    if broken:
        return _sandbox("Codex's sandbox failed during the review", broken.output, broken.exit_code)
    if stream.malformed:
        return _workstation("codex-protocol", "Codex printed what is not an event of its", stream.malformed[0])
    if stream.completed and run.code == 0 and not run.timed_out:
        if not any(command.ok for each in runs for command in each.stream.commands):
            return Invalid("no command succeeded, so nothing was looked at")
        try:
            return parse_result(stream.last_message)
        except InvalidResult as invalid:
            return Invalid(str(invalid))
    return _failed(run)


def _failed(run: Run) -> Ending:
    upstream = ending_of(run.answers)
    if run.timed_out:
        return _timed_out(run, upstream)
    if upstream:
        return upstream
    if not run.stream.started:
        if _bwrap_lines(run.stderr):
            return _sandbox("the jail failed", run.stderr, run.code)
        return _workstation("codex-start", "Codex did not start", run.stderr.strip() or f"exit code {run.code}")
    if run.code in KILLED:
        return Ending(Outcome.INTERRUPTED, "Codex was killed, perhaps for lack of memory")
    if run.stream.failure:
        return Ending(Outcome.TURN_FAILED, f"turn failed: {run.stream.failure}"[:300])
    return _workstation(
        "codex-failed", f"Codex ended with exit code {run.code} and no result", run.stderr.strip()[-500:]
    )


def _dead_sandbox(commands: Sequence[Command]) -> Command | None:
    """The last command that the sandbox itself failed, if none has succeeded since.

    A sandbox that worked afterwards was not dead: then a script of the pull request wrote those words.
    """
    for command in reversed(commands):
        if command.ok:
            return None
        if is_own_bwrap_failure(command.command, command.output):
            return command
    return None


def _timed_out(run: Run, upstream: Ending | None) -> Ending:
    """Out of time: the pull request's if the model was answering, the model's if it never said a word or had failed.

    A stream that was open at the end was cut by us: it says nothing against the model.
    """
    if run.answers and run.answers[-1].status == 200:
        return Ending(Outcome.TIMEOUT, Outcome.TIMEOUT.value)
    if upstream:
        return upstream
    said = "The model did not answer at all before the review's time was over."
    remedy = "check APPLIANCE_MODEL_URL and the model's status page; or raise APPLIANCE_REVIEW_TIMEOUT."
    return Ending(Outcome.MODEL_UNREACHABLE, said, fault=Fault("model-unreachable", said, remedy))


def is_own_bwrap_failure(command: str, output: str) -> bool:
    """Whether this output is that of the sandbox around a command, not of the command.

    A command that itself runs bwrap may fail with the very words.
    """
    return "bwrap" not in command and is_bwrap_failure(output)


def _bwrap_lines(stderr: str) -> bool:
    return any(line.startswith("bwrap: ") for line in stderr.splitlines())


def _sandbox(reason: str, symptom: str, code: int | None) -> Ending:
    """Named by its text alone: no fact can be read here. `codex.review` reads them and names it again."""
    return Ending(Outcome.SANDBOX, reason, fault=classify("review", symptom, code, {}))


def _workstation(cause: str, sentence: str, symptom: str) -> Ending:
    fault = Fault(cause, f"{sentence}: {symptom[:300]}", REPORT_REMEDY, symptom[:2000])
    return Ending(Outcome.WORKSTATION, sentence, fault=fault)
