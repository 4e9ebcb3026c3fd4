"""Judging what the forge told: its clock, the token's expiry, the hour's budget, whether the gate is required."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from appliance.core.doctor import Line, fine, found

SKEW_WARNING, SKEW_FAULT = 30.0, 300.0  # seconds
EXPIRES_SOON = 14 * 86_400.0
PER_PULL = 6  # requests of a review: look, comments, gates, and what is written
# What an installation of the App needs, as GitHub spells it.
NEEDED = {
    "metadata": "read",
    "contents": "read",
    "pull_requests": "write",
    "issues": "write",
    "checks": "write",
    "statuses": "read",
}
DATE_STEP = 1.0  # an HTTP date has whole seconds, cut off


@dataclass(frozen=True)
class Budget:
    """Requests: how many an hour, how many are left, and when it begins anew (seconds of the epoch)."""

    limit: int
    remaining: int
    reset: float


@dataclass(frozen=True)
class TokenFacts:
    """What GitHub tells beside an answer. `asked` and `answered` by our clock, `date` by GitHub's, in seconds of the
    epoch; `expires` as GitHub spells it, empty if it does not say; `scopes` of a classic token, else None."""

    asked: float
    answered: float
    date: float | None
    expires: str = ""
    scopes: str | None = None
    budget: Budget | None = None


@dataclass(frozen=True)
class Required:
    """A required status check; `source` is the id of the App that alone may set it, None for anybody."""

    context: str
    source: int | None = None


@dataclass(frozen=True)
class Protection:
    """Classic branch protection; `checks` is None if GitHub does not tell what it requires."""

    on: bool
    checks: tuple[Required, ...] | None


@dataclass(frozen=True)
class Branch:
    """What GitHub tells of a branch: what its rulesets require, and its protection. None: not told."""

    name: str
    rules: tuple[Required, ...] | None
    protection: Protection | None


def clock(facts: TokenFacts) -> Line:
    """The skew is what is left when the round trip and the cut-off second are granted in our favour."""
    if facts.date is None or facts.answered < facts.asked:
        return found("clock", "clock-unknown")
    least, most = facts.asked - facts.date - DATE_STEP, facts.answered - facts.date
    skew = 0.0 if least <= 0 <= most else min(least, most, key=abs)
    if abs(skew) <= SKEW_WARNING:
        return fine("clock", f"The clock agrees with GitHub's (within {SKEW_WARNING:.0f} s).")
    cause = "clock-wrong" if abs(skew) > SKEW_FAULT else "clock-skew"
    return found("clock", cause, skew=duration(abs(skew)), direction="ahead of" if skew > 0 else "behind")


def token(facts: TokenFacts, kind: str) -> Line:
    """`kind`: how people call such a token."""
    scopes = "" if facts.scopes is None else f" with the scopes {facts.scopes or '(none)'}"
    if not facts.expires:
        return fine("token", f"GitHub accepts GITHUB_TOKEN, a {kind}{scopes}; it names no end of it.")
    end = expiry(facts.expires)
    if end is None or facts.date is None:
        return found("token", "token-expiry-unknown", said=facts.expires[:60])
    left = end - facts.date
    if left <= EXPIRES_SOON:
        return found("token", "token-expires", left=duration(left), date=day(end))
    return fine("token", f"GitHub accepts GITHUB_TOKEN, a {kind}{scopes}, until {day(end)}.")


def expiry(text: str) -> float | None:
    """`2026-12-24 10:00:00 UTC`, or with `+0100` in place of the zone, in seconds of the epoch."""
    match = re.fullmatch(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d) ?(?:(UTC|GMT|Z)|([+-])(\d\d):?(\d\d))", text.strip())
    if match is None:
        return None
    day, time, _, sign, hours, minutes = match.groups()
    zone = UTC
    try:
        if sign:
            shift = timedelta(hours=int(hours), minutes=int(minutes))
            zone = timezone(-shift if sign == "-" else shift)
        return datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=zone).timestamp()
    except ValueError:
        return None


def kind_of(token: str, scopes: str | None) -> str:
    """How people call a token that looks like this."""
    if token.startswith("github_pat_"):
        return "fine-grained token"
    if token.startswith("ghs_"):
        return "token of an App's installation"
    if token.startswith("ghp_") or scopes is not None:
        return "classic token (it opens all repositories of its owner: a fine-grained one is better)"
    return "token of a kind that is not known"


def budget(facts: TokenFacts, repositories: int, pulls: int) -> Line:
    """What is left of the hour's requests, against what one cycle may need at most."""
    given, need = facts.budget, repositories + PER_PULL * pulls
    if given is None or given.limit == 0:
        return found("rate", "rate-unknown")
    if given.remaining < need:
        told = {"limit": given.limit, "remaining": given.remaining, "reset": moment(given.reset), "need": need}
        return found("rate", "rate-low", **told)
    return fine("rate", f"{given.remaining} of {given.limit} requests an hour are left; a cycle needs {need} at most.")


def app(slug: str, app_id: int, owners: Sequence[str]) -> Line:
    """Which App it is, and whose repositories it is installed for."""
    where = f"installed for {', '.join(sorted(owners, key=str.casefold))}" if owners else "installed nowhere"
    return fine("app", f"GitHub accepts the App {slug} ({app_id}), {where}.")


def permissions(granted: Mapping[str, str], page: str, owner: str) -> Line:
    """Whether the installation has what the appliance needs."""
    missing = [f"{name}: {level}" for name, level in NEEDED.items() if not _has(granted, name, level)]
    if missing:
        return found("app", "app-permissions", owner, missing=", ".join(missing), page=page)
    told = ", ".join(f"{name}: {level}" for name, level in granted.items())
    return fine("app", f"The App is installed, with {told}.", owner)


def _has(granted: Mapping[str, str], name: str, level: str) -> bool:
    levels = ("read", "write", "admin")
    given = granted.get(name, "")
    return given in levels and levels.index(given) >= levels.index(level)


def required(branch: Branch, context: str, subject: str, app_id: int | None = None) -> Line:
    """Whether the gate has to be green before a pull request into this branch is merged; `app_id`: we are this App."""
    ours = [one for one in _known(branch) if one.context.casefold() == context.casefold()]
    if ours and all(_anybody(one) or (app_id is not None and one.source == app_id) for one in ours):
        return fine("required", f"{branch.name} requires {context}.", subject)
    if ours:
        source = next(one.source for one in ours if not _anybody(one) and one.source != app_id)
        return found("required", "gate-wrong-source", subject, branch=branch.name, context=context, source=source)
    told_all = branch.rules is not None and branch.protection is not None and branch.protection.checks is not None
    cause = "gate-not-required" if told_all else "gate-required-unknown"
    return found("required", cause, subject, branch=branch.name, context=context)


def _known(branch: Branch) -> Iterator[Required]:
    yield from branch.rules or ()
    yield from (branch.protection.checks if branch.protection else None) or ()


def _anybody(one: Required) -> bool:
    return one.source is None or one.source == -1  # -1: GitHub's "any App"


def duration(seconds: float) -> str:
    """As people say it: `4 min`, `36 h`, `3 days`."""
    for size, name in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def day(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d")


def moment(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M UTC")
