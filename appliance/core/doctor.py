"""What the doctor says: one line for each thing it looked at, and the table of what it names itself.

A line that is no "ok" has the cause's stable id, a sentence, and what the person types. What cannot work here at all
(`unsupported`: this host, this kernel, this engine) is told apart from what does not work now.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from appliance.core.faults import Fault, full_stop

State = Literal["ok", "warning", "fault"]
Place = Literal["container", "host"]


@dataclass(frozen=True)
class Line:
    """What one look at one thing found.

    `check` names what was looked at and `subject` which one (a repository, a branch; empty if there is only one);
    `id` is the cause, or the check's own name if all is well. `remedy` is what the person types, empty if all is well.
    """

    check: str
    state: State
    id: str
    sentence: str
    remedy: str = ""
    subject: str = ""
    unsupported: bool = False
    place: Place = "container"


@dataclass(frozen=True)
class Cause:
    """One thing that the doctor names itself; `{…}` in its texts is filled in by the check."""

    id: str
    state: State
    sentence: str
    remedy: str
    unsupported: bool = False


def fine(check: str, sentence: str, subject: str = "") -> Line:
    return Line(check, "ok", check, sentence, subject=subject)


def found(check: str, cause: str, subject: str = "", /, **values: object) -> Line:
    """The line of a cause in the table. Raises KeyError for one that is not in it."""
    entry = _BY_ID[cause]
    told = (entry.sentence.format(**values), entry.remedy.format(**values))
    return Line(check, entry.state, entry.id, *told, subject=subject, unsupported=entry.unsupported)


def of_fault(check: str, fault: Fault, subject: str = "", state: State = "fault") -> Line:
    """A fault that another part of the appliance has named."""
    return Line(
        check,
        state,
        fault.cause,
        full_stop(fault.sentence),
        fault.remedy,
        subject,
        unsupported=bool(getattr(fault, "unsupported", False)),
    )


def well(lines: Iterable[Line]) -> bool:
    """No line is a fault."""
    return all(line.state != "fault" for line in lines)


def to_json(lines: Iterable[Line]) -> dict[str, Any]:
    """As `appliance doctor --json` prints it (a contract: add, never rename)."""
    lines = list(lines)
    shown = [
        {
            "id": line.id,
            "check": line.check,
            "subject": line.subject,
            "place": line.place,
            "state": line.state,
            "sentence": line.sentence,
            "remedy": line.remedy,
            "unsupported": line.unsupported,
        }
        for line in lines
    ]
    return {"ok": well(lines), "lines": shown}


def of_json(told: Any) -> list[Line]:
    """The lines that another doctor printed. Raises ValueError if that is not what it printed."""
    if not isinstance(told, Mapping) or not isinstance(told.get("lines"), list) or not told["lines"]:
        raise ValueError("it printed no lines")
    return [_line(one) for one in told["lines"]]


def _line(told: Any) -> Line:
    if not isinstance(told, Mapping) or told.get("state") not in get_args(State):
        raise ValueError("a line has no state")
    check, cause, sentence, remedy, subject = (
        str(told.get(name, "")) for name in ("check", "id", "sentence", "remedy", "subject")
    )
    return Line(check, told["state"], cause, sentence, remedy, subject, told.get("unsupported") is True)


def shown(lines: Iterable[Line]) -> Iterator[str]:
    """As people read it: state, id and subject, the sentence, and the next step below it."""
    lines = list(lines)
    for line in lines:
        about = f" {line.subject}" if line.subject else ""
        yield f"{'FAULT' if line.state == 'fault' else line.state:8}{line.id}{about}: {line.sentence}"
        if line.unsupported:
            yield "        This is not supported here: it cannot work on this host as it is."
        if line.remedy:
            yield f"        Next: {line.remedy}"
    yield _sum(lines)


def _sum(lines: list[Line]) -> str:
    faults, warnings = (sum(line.state == state for line in lines) for state in ("fault", "warning"))
    if not faults and not warnings:
        return f"All is well: {len(lines)} things were looked at."
    return f"{_count(faults, 'fault')}, {_count(warnings, 'warning')}, {_count(len(lines), 'line')} in all."


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


CAUSES: tuple[Cause, ...] = (
    Cause(
        "unexamined",
        "fault",
        "It could not be examined: {why}",
        "mend what the sentence says, then run the doctor again; report it if it makes no sense to you.",
    ),
    Cause(
        "setting-unknown",
        "warning",
        "{said}.",
        "correct the name in .env, then `docker compose up -d`; README.md lists the settings.",
    ),
    Cause(
        "disk-low",
        "warning",
        "Only {free} are free at {where}.",
        "free disk space: `docker system df` shows what Docker holds.",
    ),
    Cause(
        "signing-key-missing",
        "fault",
        "signing.key is gone from the state volume, though there is a database beside it.",
        "put the backup back (README.md, Update, backup, removal); without it the appliance makes a new key at its "
        "next start and reviews every open pull request once more.",
    ),
    Cause(
        "health-starting",
        "warning",
        "The appliance is still starting.",
        "wait for its first cycle, then run the doctor again.",
    ),
    Cause(
        "cycle-late",
        "fault",
        "The last cycle ended {ago} ago, and none has ended since.",
        "see `docker logs --tail 50 review-appliance`; `docker compose restart` starts over.",
    ),
    Cause(
        "held",
        "warning",
        "No review starts until {until}: {cause}: {sentence}",
        "{remedy}",
    ),
    Cause(
        "clock-skew",
        "warning",
        "This machine's clock is {skew} {direction} GitHub's.",
        "set it right: `sudo timedatectl set-ntp true` on the host (Docker Desktop and WSL2: restart it).",
    ),
    Cause(
        "clock-wrong",
        "fault",
        "This machine's clock is {skew} {direction} GitHub's, so waits, tokens and certificates go wrong.",
        "set it right: `sudo timedatectl set-ntp true` on the host (Docker Desktop and WSL2: restart it).",
    ),
    Cause(
        "clock-unknown",
        "warning",
        "The forge does not tell its time in a way that can be compared.",
        "look whether a proxy stands between: `curl -sI` on APPLIANCE_GITHUB_URL has to show a Date.",
    ),
    Cause(
        "token-expires",
        "warning",
        "GITHUB_TOKEN expires in {left}, on {date}.",
        "make a new token with the same permissions, put it into GITHUB_TOKEN and run `docker compose up -d`.",
    ),
    Cause(
        "token-expiry-unknown",
        "warning",
        "When GITHUB_TOKEN expires cannot be read from {said!r}.",
        "look it up in GitHub under Settings, Developer settings, Personal access tokens.",
    ),
    Cause(
        "rate-low",
        "warning",
        "Of {limit} requests an hour {remaining} are left until {reset}; a cycle may need {need}.",
        "a longer APPLIANCE_INTERVAL asks less often; other programs with the same token use up the same budget.",
    ),
    Cause(
        "rate-unknown",
        "warning",
        "The forge does not tell how many requests are left.",
        "nothing on a GitHub Enterprise Server without rate limits; else see that no proxy takes headers away.",
    ),
    Cause(
        "gate-not-required",
        "warning",
        "No rule of {branch} requires {context}: a pull request can be merged without its review.",
        "in GitHub: Settings, Rules, Rulesets, New branch ruleset, Require status checks to pass, and add {context}.",
    ),
    Cause(
        "gate-required-unknown",
        "warning",
        "Whether {branch} requires {context} is not known: GitHub does not tell this token all its rules.",
        "look it up in GitHub under Settings, Rules and Settings, Branches; or give the token Administration: read.",
    ),
    Cause(
        "gate-wrong-source",
        "fault",
        "{branch} requires {context} from the GitHub App {source} alone, so the status that this token sets never "
        "counts.",
        "in the rule, set the expected source of {context} to \"any source\".",
    ),
    Cause(
        "repositories-left-out",
        "warning",
        "Only the first {examined} of {all} repositories were examined.",
        "name the others one at a time: "
        "`docker exec -e APPLIANCE_REPOSITORIES=owner/name review-appliance appliance doctor`.",
    ),
    Cause(
        "model-unsure",
        "warning",
        "The model's API answered {said} to a request of nothing, so whether it works is not known.",
        "`docker exec review-appliance review TARGET` asks it for real, and costs tokens.",
    ),
)  # fmt: skip
_BY_ID = {cause.id: cause for cause in CAUSES}
