"""What the battery of attacks came to: reached is a breach, and an attack that proves nothing is no success."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from appliance.core.faults import Fault, named

# In the order in which they are made. The jail's mounts are known one by one; those of the sandbox are Codex's affair.
COMMON = (
    "secrets", "environments", "places", "writing", "kernel-files", "devices", "descriptors", "processes",
    "namespaces", "ptrace", "mounting", "rights", "keys", "calls", "unsharing", "bounds", "tcp", "udp", "interfaces",
    "unix", "raw", "names",
)  # fmt: skip
ATTACKS: Mapping[str, tuple[str, ...]] = {"jail": (*COMMON, "mounts"), "sandbox": COMMON}
SLOW: Mapping[str, tuple[str, ...]] = {"jail": ("fork-bomb", "full-tmp"), "sandbox": ("fork-bomb",)}
WHO = {"jail": "A command in the jail", "sandbox": "A command in Codex's sandbox"}
TOLD_AT_ONCE = 3
MAX_WORDS = 160


@dataclass(frozen=True)
class Trial:
    """One attack: `reached` is where it got to, `problem` why it proves nothing; both empty: it was held."""

    name: str
    seconds: float
    reached: tuple[str, ...] = ()
    problem: str = ""

    @property
    def ok(self) -> bool:
        return not self.reached and not self.problem


def attacks(*, slow: bool) -> Mapping[str, tuple[str, ...]]:
    """The names of what is tried, by round; `slow`: also what takes processes and memory for a moment."""
    return {where: (*names, *(SLOW[where] if slow else ())) for where, names in ATTACKS.items()}


def judge(
    out: str,
    nonces: Mapping[str, str],
    heard: Iterable[tuple[str, str]],
    code: int,
    made: Mapping[str, tuple[str, ...]] = ATTACKS,
) -> tuple[Trial, ...]:
    """The trials of one battery, in their order; `made` are the attacks of each round.

    `out` is what the attackers printed, `nonces` each round's own (jail, sandbox), `heard` what arrived outside of the
    jail without being told by an attacker, as (round, where to), `code` the exit code. Nothing told is nothing proven.
    """
    told = dict(_lines(out, nonces))
    trials = [_trial(where, name, told.get((where, name))) for where, names in made.items() for name in names]
    for where in made:
        arrived = [what for who, what in heard if who == where]
        arrived += _reached(told.get((where, "heard"), {}))
        ended = (where, "end") in told and (where == "jail" or (where, "heard") in told)
        problem = "" if ended and code == 0 else f"the attacks did not end (exit code {code})"
        trials.append(Trial(f"{where}/listeners", 0.0, tuple(arrived), problem))
    return tuple(trials)


def fault_of(trials: Sequence[Trial], stderr: str = "") -> Fault | None:
    """What a battery shows: a breach before all else, then that it could not be run; None if every attack was held."""
    facts = {"attacks": len(trials), "failed": [trial.name for trial in trials if not trial.ok]}
    reached = [(trial.name, one) for trial in trials for one in trial.reached]
    if reached:
        where = reached[0][0].partition("/")[0]
        ours = [one for name, one in reached if name.startswith(f"{where}/")]
        words = f"{WHO[where]} reached what it must not: {_some(ours)}"
        return _saying("breach", words, "\n".join(f"{name}: {one}" for name, one in reached), facts)
    problems = [f"{trial.name}: {trial.problem}" for trial in trials if trial.problem]
    if problems or not trials:
        return _saying(
            "battery-failed",
            f"The attacks that test the jail proved nothing: {_some(problems or ['none was made'])}",
            "\n".join((stderr.strip()[:1000], *problems)),
            facts,
        )
    return None


def breach(words: str, found: Fault) -> Fault:
    """The breach that a step of the self-test met, with its words for what was let through."""
    return replace(found, sentence=f"{words[:1].upper()}{words[1:]}.")


def _saying(cause: str, words: str, symptom: str, facts: Mapping[str, object]) -> Fault:
    return replace(named(cause, symptom, facts), sentence=f"{words}.")


def _some(all_of_it: Sequence[str]) -> str:
    more = len(all_of_it) - TOLD_AT_ONCE
    return "; ".join(all_of_it[:TOLD_AT_ONCE]) + (f"; and {more} more" if more > 0 else "")


def _trial(where: str, name: str, told: Mapping[str, object] | None) -> Trial:
    full = f"{where}/{name}"
    if told is None:
        return Trial(full, 0.0, problem="nothing was told of it")
    seconds = told.get("seconds")
    took = float(seconds) if isinstance(seconds, (int, float)) else 0.0
    if told.get("control") is not True:
        note = _plain(str(told.get("note", "")))
        problem = "its control failed: what is allowed did not work" + (f" ({note})" if note else "")
        return Trial(full, took, tuple(_reached(told)), problem)
    return Trial(full, took, tuple(_reached(told)))


def _reached(told: Mapping[str, object]) -> list[str]:
    reached = told.get("reached", [])
    return [_plain(str(one)) for one in reached] if isinstance(reached, list) else ["what cannot be read"]


def _lines(out: str, nonces: Mapping[str, str]) -> Iterable[tuple[tuple[str, str], Mapping[str, object]]]:
    for line in out.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and nonces.get(str(told.get("where"))) == told.get("nonce"):
            yield (str(told["where"]), str(told.get("attack"))), told


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)[:MAX_WORDS]
