"""`appliance evaluate`: how good the reviewer is, on changes whose defects are known."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.common import Failure, Misuse, echo, echo_json, of_fault, opened

if TYPE_CHECKING:
    from appliance.core.evaluation.figures import Prices
    from appliance.evaluation.prepare import Ready
    from appliance.evaluation.running import Evaluation
    from appliance.wiring import Appliance


class _Prices(click.ParamType[Any]):
    """Three numbers with commas between them."""

    name = "prices"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from math import isfinite

        from appliance.core.evaluation.figures import Prices

        try:
            numbers = [float(part) for part in str(value).split(",")]
        except ValueError:
            numbers = []
        if len(numbers) != 3 or not all(isfinite(number) and number >= 0 for number in numbers):
            self.fail(f"{value!r} is not three prices, such as 1.25,0.125,10", param, ctx)
        return Prices(*numbers)


@click.command()
@click.argument("dataset")
@click.option("--case", "names", multiple=True, help="Only the case of this name; may be given several times.")
@click.option("--repeat", type=click.IntRange(1, 100), default=1, help="Review each case so many times.")
@click.option("--output", type=click.Path(path_type=Path), help="Folder of the results (default: in the state volume).")
@click.option("--resume", is_flag=True, help="Go on with the results in --output; what is paid for is not asked again.")
@click.option("--judge-model", help="Ask this model whether a finding means a golden (default: APPLIANCE_JUDGE_MODEL).")
@click.option("--prices", type=_Prices(), metavar="IN,CACHED,OUT", help="Money for a million tokens of each kind.")
@click.option(
    "--tolerance", type=click.IntRange(0, 100), default=3, help="Lines that a finding may lie beside its golden."
)
@click.option("--rehearse", is_flag=True, help="With the rehearsal model: tries the harness, and costs nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def evaluate(
    dataset: str,
    names: tuple[str, ...],
    repeat: int,
    output: Path | None,
    resume: bool,
    judge_model: str | None,
    prices: "Prices | None",
    tolerance: int,
    rehearse: bool,
    as_json: bool,
) -> None:
    """Review the cases of DATASET, and say how many of their known defects were found and what that took.

    DATASET is a folder of cases, a benchmark's list (.json), or built-in. Exit 1 if not all runs could be counted.
    """
    from contextlib import ExitStack
    from dataclasses import replace

    from appliance import __version__
    from appliance.evaluation.judge import Judge
    from appliance.evaluation.ledger import BadLedger, Ledger
    from appliance.evaluation.running import Evaluation
    from appliance.failures import shortage_of
    from appliance.meter import Budgets

    if rehearse and judge_model:
        raise Misuse("--rehearse asks no judge, for the rehearsal model can judge nothing. Next: leave out either.")
    if resume and output is None:
        raise Misuse("--resume goes on with the results of an --output. Next: name that folder.")
    with opened(usable=True) as parts, ExitStack() as stack:
        judge_name = None if rehearse else judge_model or parts.settings.judge_model
        scratch = stack.enter_context(parts.work.new("evaluation-"))
        ready = _ready(parts, dataset, names, scratch, judged=bool(judge_name))
        if not rehearse and parts.settings.openai_api_key is None and (fault := parts.login_fault()):
            raise of_fault(fault)
        if fault := parts.selftest():
            raise of_fault(fault)
        model = parts.model(rehearse=rehearse)
        folder = output or parts.settings.state_dir / "evaluations" / _stamp()
        heading = {"model": model.name, "effort": model.effort, "rehearsal": rehearse, "version": __version__}
        try:
            ledger = stack.enter_context(Ledger(folder, heading, resume))
        except BadLedger as bad:
            raise Misuse(str(bad)) from None
        except OSError as error:
            if output is None or shortage_of(error):
                raise
            raise Misuse(f"results: {error}. Next: name a folder by --output that can be written here.") from None
        evaluation = Evaluation(parts, ready, ledger, scratch, rehearse, repeat, tolerance=tolerance, progress=_tell)
        if judge_name:
            budgets = Budgets(0, parts.settings.tokens_per_day, parts.store)
            judge = Judge(judge_name, replace(model.upstream, model=judge_name), budgets, parts.stop.wait)
            evaluation.judge = stack.enter_context(judge)
        again = f"Next: mend what it names, then the same with --output {folder} --resume."
        try:
            evaluation.run()
        except KeyboardInterrupt:
            raise Failure(f"evaluation: stopped; what was paid for is in {folder}. {again}") from None
        complete = _show(evaluation, dataset, folder, prices, as_json=as_json)
        why = evaluation.stopped or (evaluation.judge.stopped if evaluation.judge else "")
    if not complete:
        raise Failure(f"evaluation: incomplete{f': {why}' if why else ''}".rstrip(".") + f". {again}")


def _tell(what: str) -> None:
    echo(f"… {' '.join(what.split())}", err=True)  # a command may have lines, and forge some


def _stamp() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")


def _ready(parts: "Appliance", dataset: str, names: tuple[str, ...], scratch: Path, *, judged: bool) -> "list[Ready]":
    """The cases, ready to be reviewed; what cannot be measured is refused before it is paid for."""
    from contextlib import closing

    from appliance.core.evaluation.benchmark import Told
    from appliance.evaluation.dataset import BadDataset, chosen, load
    from appliance.evaluation.prepare import prepare
    from appliance.git import Mirrors

    def ask(repository: str, number: int) -> Told:
        with closing(parts.github()) as forge:
            pull = forge.pull(repository, number)
        return Told(pull.base_sha, pull.head_sha, pull.body)

    try:
        sources = chosen(load(dataset, ask if parts.settings.signs_in else None), names)
        unplaced = [one.case.name for one in sources if not all(golden.located for golden in one.case.goldens)]
        if unplaced and not judged:
            raise BadDataset(
                f"{', '.join(unplaced)}: goldens without lines, which only a judge can match (--judge-model)"
            )
        return prepare(sources, scratch, Mirrors(scratch / "mirrors"))
    except BadDataset as bad:
        apart = "\n" if "\n" in str(bad) else ". "
        raise Misuse(f"data set: {bad}{apart}Next: correct it; docs/evaluation.md says what a case has.") from None


def _show(evaluation: "Evaluation", dataset: str, folder: Path, prices: "Prices | None", *, as_json: bool) -> bool:
    """Print what it came to; whether that is all that was asked for."""
    from appliance.core.evaluation.score import summarize
    from appliance.core.evaluation.shown import Heading, cases_json, lines

    scored, not_run = evaluation.results()
    summary = summarize(scored, not_run=not_run, prices=prices)
    judge = evaluation.judge.model if evaluation.judge else ""
    told = evaluation.ledger.judgements(judge)
    tokens = sum(one.tokens for one in told)
    known = evaluation.ledger.heading
    heading = Heading(
        dataset,
        str(known["model"]),
        str(known["effort"]),
        evaluation.rehearse,
        judge,
        len(told),
        tokens,
        evaluation.tolerance,
    )
    if as_json:
        told_of_it = {**vars(heading), "judge_tokens": tokens, "output": str(folder)}
        echo_json({**told_of_it, **summary.to_json(), "results": cases_json(scored)})
    else:
        for line in lines(heading, scored, summary, prices):
            echo(line)
        echo(f"results in {folder}")
    sys.stdout.flush()
    return summary.complete
