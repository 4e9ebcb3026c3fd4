"""Reviews the cases, keeps each result, and asks the judge."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from appliance import process
from appliance.core.evaluation.matching import TOLERANCE, to_judge
from appliance.core.evaluation.runs import Run, run_of
from appliance.core.evaluation.score import Scored, score
from appliance.core.outcomes import RULES, Outcome
from appliance.core.pulls import Pull
from appliance.evaluation.judge import Judge
from appliance.evaluation.ledger import Ledger
from appliance.evaluation.prepare import Ready
from appliance.git import Mirrors, Slots
from appliance.reviewing import Reviewer
from appliance.wiring import Appliance

Key = tuple[str, int]


@dataclass
class Evaluation:
    """`scratch` is a directory of its own for repositories and checkouts: nothing of the cases stays in the state."""

    parts: Appliance
    ready: Sequence[Ready]
    ledger: Ledger
    scratch: Path
    rehearse: bool = False
    repeat: int = 1
    judge: Judge | None = None
    tolerance: int = TOLERANCE
    progress: Callable[[str], None] = lambda _: None
    stopped: str = field(default="", init=False)

    def run(self) -> None:
        """Review what has no result yet, `reviews_at_once` at a time. After an ending that would stop a cycle no more
        is begun: `stopped` says why. Raises OSError, SQLAlchemyError; what was paid for is kept."""
        reviewer = self._reviewer()
        waiting = [(ready, number) for number in range(1, self.repeat + 1) for ready in self.ready]
        at_once = self.parts.settings.reviews_at_once
        with ThreadPoolExecutor(at_once, thread_name_prefix="evaluate") as pool:
            running: set[Future[Run | None]] = set()
            try:
                while waiting or running:
                    while waiting and len(running) < at_once and not self._halted():
                        running.add(pool.submit(self._one, reviewer, *waiting.pop(0)))
                    if not running:
                        break
                    done, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                    for future in done:
                        run = future.result()
                        if run and run.state == "excluded" and RULES[Outcome(run.outcome)].stops:
                            self.stopped = run.reason or run.outcome
            except BaseException:
                self.parts.stop.set()
                raise

    def results(self) -> tuple[list[Scored], list[Key]]:
        """What each run came to, and the runs that have no result."""
        scored: list[Scored] = []
        missing: list[Key] = []
        for ready in self.ready:
            for number in range(1, self.repeat + 1):
                run = self._known(ready, number)
                if run is None:
                    missing.append((ready.case.name, number))
                    continue
                said = self.ledger.said(run, self.judge.model, ready.case.goldens) if self.judge else None
                scored.append(score(ready.case, run, said, self.tolerance))
        return scored, missing

    def _halted(self) -> bool:
        if self.stopped or self.parts.stop.is_set():
            return True
        fault = None if self.rehearse else self.parts.day_fault()
        self.stopped = fault.sentence if fault else ""
        return bool(fault)

    def _reviewer(self) -> Reviewer:
        reviewer = self.parts.reviewer(rehearse=self.rehearse)
        return replace(reviewer, mirrors=Mirrors(self.scratch / "mirrors"), slots=Slots(self.scratch / "slots"))

    def _known(self, ready: Ready, number: int) -> Run | None:
        """The result of this very case, if there is one."""
        run = self.ledger.runs.get((ready.case.name, number))
        return run if run and run.digest == ready.digest else None

    def _one(self, reviewer: Reviewer, ready: Ready, number: int) -> Run | None:
        run = self._known(ready, number)
        if run is None or run.state == "excluded":
            run = self._reviewed(reviewer, ready, number)
            if run is None:
                return None
            self.ledger.add(run)
        self._judge(ready, run)
        return run

    def _reviewed(self, reviewer: Reviewer, ready: Ready, number: int) -> Run | None:
        """None if it was stopped."""
        name = ready.case.name if self.repeat == 1 else f"{ready.case.name} #{number}"
        self.progress(f"{name}: reviewing")
        try:
            ending = reviewer.review(
                _pull(ready),
                ready.source,
                stop=self.parts.stop,
                progress=lambda step: self.progress(f"{name}: {step.said}") if step.said else None,
                base_sha=ready.base_sha,
            )
        except process.Stopped:
            return None
        run = run_of(ready.case.name, number, ready.digest, ending, ready.renamed)
        found = f"{len(run.findings)} finding{'' if len(run.findings) == 1 else 's'}"
        self.progress(f"{name}: {found if run.state == 'reviewed' else f'{run.state}: {run.reason or run.outcome}'}")
        return run

    def _judge(self, ready: Ready, run: Run) -> None:
        """Ask of each pair that nothing usable was said of so far."""
        if self.judge is None or run.state != "reviewed":
            return
        goldens = ready.case.goldens
        said = self.ledger.said(run, self.judge.model, goldens)
        for golden, finding in to_judge(goldens, run.findings, run.renamed, self.tolerance):
            if said.get((golden, finding)) is None and not (self.judge.stopped or self.parts.stop.is_set()):
                told = self.judge.ask(goldens[golden], run.findings[finding])
                self.ledger.add_judgement(run, self.judge.model, (golden, finding), told)


def _pull(ready: Ready) -> Pull:
    """The change as a pull request. Nothing in it tells which case it is: names of cases tell of their defects."""
    name = f"evaluation/{ready.digest[:8]}"
    return Pull(
        target=name,
        repository=name,
        number=0,
        head_sha=ready.head_sha,
        base_ref="main",
        base_sha=ready.base_sha,
        title=ready.case.title,
        body=ready.case.body,
        author="kim",
        author_association="OWNER",
    )
