"""The battery's judgement: whatever is reached is a breach, and what proves nothing is no success."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError
from structlog.testing import capture_logs

from appliance import battery, facts, selftest, settings, wiring
from appliance.attacks import run
from appliance.attacks.told import Needle, Plan, digest
from appliance.core import battery as core
from appliance.core.faults import Fault, named

NONCES = {"jail": "a" * 32, "sandbox": "b" * 32}
EVERY = [(where, name) for where, names in core.ATTACKS.items() for name in names]


def line(where: str, name: str, changed: Mapping[str, Any]) -> str:
    told = {"nonce": NONCES[where], "where": where, "attack": name, "control": True, "reached": [], "seconds": 0.01}
    return json.dumps({**told, **changed})


def lines(changed: Mapping[str, Mapping[str, Any]] | None = None) -> list[str]:
    """What attackers print when all is held, with the lines of some attacks changed, by names as `jail/tcp`."""
    names = [*EVERY, ("jail", "end"), ("sandbox", "end"), ("sandbox", "heard")]
    return [line(where, name, (changed or {}).get(f"{where}/{name}", {})) for where, name in names]


def test_slow_attacks_are_judged_as_the_others() -> None:
    made = core.attacks(slow=True)
    trials = core.judge("\n".join(lines()), NONCES, (), 0, made)
    assert {trial.name for trial in trials if not trial.ok} == {
        "jail/fork-bomb", "jail/full-tmp", "sandbox/fork-bomb",
    }  # fmt: skip


def judged(printed: list[str], heard: tuple[tuple[str, str], ...] = (), code: int = 0) -> Fault | None:
    return core.fault_of(core.judge("\n".join(printed), NONCES, heard, code))


def test_attacks_that_are_held_are_no_fault() -> None:
    assert judged(lines()) is None
    trials = core.judge("\n".join(lines()), NONCES, (), 0)
    assert len(trials) == len(EVERY) + 2
    assert all(trial.ok for trial in trials)


@pytest.mark.parametrize(("where", "name"), EVERY, ids=[f"{where}/{name}" for where, name in EVERY])
def test_every_attack_that_gets_through_is_a_breach(where: str, name: str) -> None:
    fault = judged(lines({f"{where}/{name}": {"reached": ["the thing"]}}))
    assert fault is not None
    assert fault.cause == "breach"
    assert "the thing" in fault.sentence
    assert core.WHO[where] in fault.sentence
    assert fault.symptom == f"{where}/{name}: the thing"


@pytest.mark.parametrize(("where", "name"), EVERY, ids=[f"{where}/{name}" for where, name in EVERY])
@pytest.mark.parametrize(
    "said",
    [{"control": False}, {"control": None}, {"control": "yes"}, {"nonce": "another"}, {"where": "elsewhere"}, None],
    ids=["failed", "none", "no boolean", "another's nonce", "another place", "silence"],
)
def test_every_attack_that_proves_nothing_is_no_success(where: str, name: str, said: dict[str, Any] | None) -> None:
    printed = lines({f"{where}/{name}": said or {}})
    if said is None:
        printed = [one for one in printed if (json.loads(one)["where"], json.loads(one)["attack"]) != (where, name)]
    fault = judged(printed)
    assert fault is not None
    assert fault.cause == "battery-failed"
    assert f"{where}/{name}" in fault.sentence


@pytest.mark.parametrize("missing", [("jail", "end"), ("sandbox", "end"), ("sandbox", "heard")])
def test_an_attacker_that_does_not_come_to_its_end_is_no_success(missing: tuple[str, str]) -> None:
    printed = [one for one in lines() if (json.loads(one)["where"], json.loads(one)["attack"]) != missing]
    fault = judged(printed)
    assert fault is not None and fault.cause == "battery-failed"


@pytest.mark.parametrize("code", [1, 137, -9, -1])
def test_an_exit_code_is_no_success(code: int) -> None:
    fault = judged(lines(), code=code)
    assert fault is not None and fault.cause == "battery-failed"


def test_nothing_printed_is_no_success() -> None:
    fault = judged([])
    assert fault is not None and fault.cause == "battery-failed"
    assert core.fault_of(()) is not None


def test_what_is_no_json_is_passed_over() -> None:
    assert judged(["bwrap: warning", "[1]", "{", *lines()]) is None


@pytest.mark.parametrize("where", ["jail", "sandbox"])
def test_a_listener_that_was_reached_is_a_breach_whatever_the_attacker_says(where: str) -> None:
    fault = judged(lines(), heard=((where, "a listener outside"),))
    assert fault is not None and fault.cause == "breach"
    assert "a listener outside" in fault.sentence
    inside = judged(lines({"sandbox/heard": {"reached": ["a listener in the jail (tcp)"]}}))
    assert inside is not None and inside.cause == "breach"


def test_a_breach_goes_before_what_proves_nothing() -> None:
    fault = judged(lines({"jail/raw": {"control": False}, "sandbox/tcp": {"reached": ["10.0.0.1 port 80"]}}))
    assert fault is not None and fault.cause == "breach"
    both = judged(lines({"jail/raw": {"control": False, "reached": ["a packet socket"]}}))
    assert both is not None and both.cause == "breach"


def test_a_sentence_has_an_end() -> None:
    fault = judged(lines({"jail/tcp": {"reached": [f"{'x' * 1000}{number}\n\x1b[31m" for number in range(9)]}}))
    assert fault is not None
    assert "and 6 more" in fault.sentence
    assert len(fault.sentence) < 700
    assert fault.sentence.isprintable()


def test_the_attackers_know_every_attack_and_no_other() -> None:
    assert {name for names in core.attacks(slow=True).values() for name in names} == run.ATTACKS.keys()
    for where, names in core.attacks(slow=False).items():
        assert names == core.ATTACKS[where]
        assert len(set(names)) == len(names)


# What is looked for.


def plan(*secrets: str) -> Plan:
    needles = tuple(Needle(f"secret {n}", len(one), digest("s", one.encode())) for n, one in enumerate(secrets))
    return Plan("jail", "n", "s", needles, "", {})


@pytest.mark.parametrize(
    "text", ["{}", "KEY={}", "a{}b", "xx {} yy", '"{}",', "\0{}\0", "\n{}\n", "https://u:{}@host/", "é{}é", "{}{}"]
)
def test_a_secret_is_found_wherever_it_stands(text: str) -> None:
    secret = "sk-0123456789abcdef"
    assert plan(secret, "another-secret").found(text.replace("{}", secret).encode()) == {"secret 0"}


def test_no_secret_is_found_where_none_is() -> None:
    assert plan("sk-0123456789abcdef").found(b"sk-0123456789abcde sk-0123456789abcdeg") == set()


def test_a_plan_tells_no_secret() -> None:
    assert "sk-0123456789abcdef" not in str(plan("sk-0123456789abcdef"))


def test_a_fault_tells_no_secret_of_a_path() -> None:
    fault = Fault("breach", "read /run/sk-0123456789abcdef.", "r", "/run/sk-0123456789abcdef")
    told = battery._without(fault, {"OPENAI_API_KEY": "sk-0123456789abcdef"})
    assert (told.sentence, told.symptom) == ("read /run/(OPENAI_API_KEY).", "/run/(OPENAI_API_KEY)")


# What the self-test makes of it.


def test_a_step_of_the_ladder_that_lets_through_is_a_breach_with_its_words() -> None:
    fault = core.breach("the jail let a command write to the checkout", named("breach"))
    assert fault.sentence == "The jail let a command write to the checkout."


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.setattr(selftest, "selftest", lambda scratch: selftest.Report(True, 0.1, (), None))
    monkeypatch.setattr(facts, "versions", dict)
    yield monkeypatch


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (FileNotFoundError(2, "not installed", "bwrap"), "battery-failed"),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/var/tmp', '/']"), "no-tmp-dir"),
        (FileNotFoundError(2, "No such file or directory", "/tmp/battery-x"), "no-tmp-dir"),
        (OSError(30, "Read-only file system", "/tmp/battery-x"), "no-tmp-dir"),
        (PermissionError(13, "Permission denied", "/tmp/battery-x"), "no-tmp-dir"),
        (RuntimeError("can't start new thread"), "pids-limit"),
        (BlockingIOError(11, "Resource temporarily unavailable"), "pids-limit"),
    ],
)
def test_a_battery_that_cannot_be_run_is_a_fault(
    held: pytest.MonkeyPatch, tmp_path: Any, error: Exception, cause: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    held.setattr(battery, "attack", fails)
    report = selftest.deep(tmp_path, battery.Surroundings(tmp_path, tmp_path))
    assert not report.ok
    assert report.fault is not None and report.fault.cause == cause
    if cause == "no-tmp-dir":
        assert "`tmpfs: /tmp`: `docker compose up -d --force-recreate`" in report.fault.remedy


def test_a_breach_is_the_reports_fault(held: pytest.MonkeyPatch, tmp_path: Any) -> None:
    trials = (core.Trial("jail/tcp", 0.1, ("1.1.1.1",)), core.Trial("jail/udp", 0.1))
    held.setattr(battery, "attack", lambda *_, **__: (trials, core.fault_of(trials)))
    report = selftest.deep(tmp_path, battery.Surroundings(tmp_path, tmp_path))
    assert [(step.name, step.ok) for step in report.steps] == [("jail/tcp", False), ("jail/udp", True)]
    assert report.fault is not None and report.fault.cause == "breach"


# When it runs.


@dataclass
class Examined:
    """An appliance whose self-tests are told what to find, and what was examined in turn."""

    parts: wiring.Appliance
    deep: Fault | None = None
    quick: Fault | None = None
    warnings: tuple[str, ...] = ()
    made: list[str] = field(default_factory=list)

    def examine(self, *, starts: bool = False) -> list[str]:
        """What one self-test examines."""
        if starts:
            self.parts.trust_nothing()
        self.made.clear()
        found = self.parts.selftest()
        assert found == (self.deep if self.made == ["deep"] else self.quick)
        return list(self.made)


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Examined]:
    monkeypatch.setattr(wiring, "blocked", lambda settings: None)  # the tests may run as root
    found = settings.load({"APPLIANCE_STATE_DIR": f"{tmp_path}/s", "APPLIANCE_RUN_DIR": f"{tmp_path}/r"}, dotenv=None)
    with wiring.appliance(found) as parts:
        examined = Examined(parts)

        def report(name: str, fault: Fault | None) -> selftest.Report:
            examined.made.append(name)
            return selftest.Report(fault is None, 0.1, (), fault, examined.warnings)

        monkeypatch.setattr(wiring, "selftest", lambda scratch: report("quick", examined.quick))
        monkeypatch.setattr(wiring, "deep", lambda scratch, around: report("deep", examined.deep))
        yield examined


BREACH = named("breach")


def test_the_battery_runs_once_in_each_start(examined: Examined) -> None:
    assert [examined.examine(starts=True), examined.examine(), examined.examine()] == [["deep"], ["quick"], ["quick"]]
    assert examined.examine(starts=True) == ["deep"]


def test_what_a_start_warns_of_is_in_the_log_once(examined: Examined) -> None:
    examined.warnings = ("a weakness. Next: a step.",)
    with capture_logs() as logs:
        examined.examine(starts=True)
        examined.examine()
    assert [(line["event"], line["said"]) for line in logs] == [("selftest.warning", "a weakness. Next: a step.")]


def test_after_a_breach_it_runs_until_it_is_held(examined: Examined) -> None:
    examined.deep = BREACH
    assert [examined.examine(starts=True), examined.examine()] == [["deep"], ["deep"]]
    examined.deep = None
    assert [examined.examine(), examined.examine()] == [["deep"], ["quick"]]


def test_a_breach_that_the_ladder_meets_brings_the_battery_back(examined: Examined) -> None:
    examined.examine(starts=True)
    examined.quick = BREACH
    assert [examined.examine(), examined.examine()] == [["quick"], ["deep"]]
    examined.quick = named("proc-masked")
    assert [examined.examine(), examined.examine()] == [["quick"], ["quick"]]


def test_a_breach_that_another_process_met_brings_the_battery_back(examined: Examined) -> None:
    examined.examine(starts=True)
    examined.parts.store.set_note("battery", None)
    assert examined.examine() == ["deep"]


@pytest.mark.parametrize("other", [["another boot", "pid:[1]"], None], ids=["another start", "unknown"])
def test_what_held_elsewhere_proves_nothing(
    examined: Examined, monkeypatch: pytest.MonkeyPatch, other: list[str] | None
) -> None:
    examined.examine()
    assert examined.examine() == ["quick"]
    monkeypatch.setattr(wiring, "_this_start", lambda: other)
    assert examined.examine() == ["deep"]
    assert examined.examine() == (["quick"] if other else ["deep"])


def test_a_start_on_a_full_disk_trusts_nothing_all_the_same(
    examined: Examined, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined.examine(starts=True)

    def full(*_: object) -> None:
        raise OperationalError("UPDATE", {}, Exception("database or disk is full"))

    with monkeypatch.context() as patch:
        patch.setattr(examined.parts.store, "set_note", full)
        examined.parts.trust_nothing()
    assert examined.examine() == ["deep"]
