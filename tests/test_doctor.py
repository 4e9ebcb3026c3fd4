"""The doctor's lines, its boundary, and what it finds in the container's own rooms."""

import base64
import errno
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from world import SANDBOX

from appliance import health, settings, wiring
from appliance.cli import main
from appliance.core import doctor
from appliance.core.budget import day_fault
from appliance.core.doctor import Line, fine, found, of_fault, of_json, shown, to_json, well
from appliance.core.doctor_causes import CAUSES
from appliance.core.faults import Fault, named
from appliance.core.health import Health
from appliance.core.holds import Held
from appliance.core.outcomes import Outcome
from appliance.core.upstream import Answer
from appliance.doctor import confinement, inside, loop, model, sandbox, state
from appliance.doctor.guard import guarded
from appliance.forge import ForgeError
from appliance.wiring import Appliance

KEY = "sk-very-secret"


# --- lines


def test_a_fault_makes_it_fail_and_a_warning_does_not() -> None:
    warning = found("disk", "disk-low", free="1 GB", where="/x")
    assert well([fine("a", "."), warning])
    assert not well([fine("a", "."), of_fault("b", SANDBOX)])


def test_lines_go_through_json_and_back() -> None:
    lines = [fine("a", "Good.", "octo/app"), of_fault("b", SANDBOX)]
    assert of_json(json.loads(json.dumps(to_json(lines)))) == lines


@pytest.mark.parametrize("told", [None, [], {}, {"lines": []}, {"lines": [{}]}, {"lines": [{"state": "fine"}]}])
def test_what_is_no_doctors_answer_is_refused(told: object) -> None:
    with pytest.raises(ValueError, match=r"lines|state"):
        of_json(told)


def test_the_text_says_unsupported_apart() -> None:
    text = "\n".join(
        shown(
            [
                fine("a", "Good."),
                found("compose", "compose-too-old", version="2.5", least="2.26"),
                of_fault("b", SANDBOX),
            ]
        )
    )
    assert text.count("not supported here") == 1
    assert text.splitlines()[0] == "ok      a: Good."
    assert "FAULT   apparmor: AppArmor forbids user namespaces." in text
    assert text.splitlines()[-1] == "2 faults, 0 warnings, 3 lines in all."


def test_the_text_tells_one_fault_once() -> None:
    text = list(shown([of_fault("health", SANDBOX), of_fault("sandbox", SANDBOX)]))
    assert text[2] == "FAULT   apparmor: as above (sandbox)."
    assert text[3] == "1 fault, 0 warnings, 2 lines in all."


def test_a_name_with_a_line_end_makes_no_line_of_the_text() -> None:
    forged = "/repositories/x\nok      all: Good."
    text = list(shown([replace(of_fault("local", SANDBOX, forged), sentence=f"{forged} is bad.")]))
    assert all(len(one.splitlines()) == 1 for one in text)
    assert text[0].startswith("FAULT   apparmor /repositories/x ok      all: Good.: /repositories/x ok")


def test_a_fault_that_is_unsupported_stays_so() -> None:
    assert of_fault("sandbox", named("gvisor")).unsupported
    assert not of_fault("sandbox", SANDBOX).unsupported


def test_every_cause_has_a_sentence_and_a_next_step_and_one_entry() -> None:
    assert len({cause.id for cause in CAUSES}) == len(CAUSES)
    assert all(cause.state != "ok" and cause.sentence and cause.remedy for cause in CAUSES)


# --- without a run directory


def test_without_a_run_directory_what_is_wrong_is_told_once_and_the_sandbox_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Path] = []

    def bare(work: Path) -> Iterator[Line]:
        tried.append(work)
        yield fine("sandbox", "It works.")

    (tmp_path / "file").write_text("")
    without = settings.load({"APPLIANCE_STATE_DIR": str(tmp_path / "state")}, None)
    object.__setattr__(without, "run_dir", tmp_path / "file" / "appliance")  # as the default, set by nobody
    monkeypatch.setattr(inside, "load", lambda: without)
    monkeypatch.setattr("os.getuid", lambda: 10001)
    monkeypatch.setattr(sandbox, "bare", bare)
    monkeypatch.setattr(confinement, "check", lambda: iter([fine("confinement", "Good.")]))
    _, _, lost, well_there, left = inside.examine()
    assert (lost.check, lost.id) == ("state", "no-run-dir")
    assert (well_there.id, tried) == ("sandbox", [tmp_path / "state" / "work"])
    assert (left.check, left.id, left.state, left.remedy) == ("appliance", "unexamined", "fault", lost.remedy)
    assert left.sentence == (
        "It could not be examined: the loop, the forge and the model are looked at only where the appliance can run."
    )
    assert "defect" not in left.sentence and str(tmp_path) not in left.sentence


# --- the boundary


def broken(error: Exception) -> Iterator[Line]:
    yield fine("a", "Good.")
    raise error


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (KeyError("MaskedPaths"), "unexamined"),
        (PermissionError("no"), "unexamined"),
        (OSError(errno.ENOSPC, "full"), "disk-full"),
        (ForgeError("forge-unreachable", "no", remedy="wait", permanent=False), "forge-unreachable"),
    ],
)
def test_a_check_that_breaks_is_a_fault_and_what_it_said_before_stays(error: Exception, cause: str) -> None:
    lines = guarded("a", lambda: broken(error))
    assert [(line.state, line.id) for line in lines] == [("ok", "a"), ("fault", cause)]
    assert lines[1].remedy


def test_a_check_that_says_nothing_is_a_fault() -> None:
    assert [line.id for line in guarded("a", lambda: [])] == ["unexamined"]


def test_what_to_do_next_names_our_own_login_only() -> None:
    assert "appliance login" in wiring.NEXT_STEPS and "codex login" not in wiring.NEXT_STEPS


# --- the state


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Appliance]:
    """An appliance on an empty volume, whoever runs the tests."""
    monkeypatch.setattr(wiring, "blocked", lambda _: None)
    given = {"APPLIANCE_STATE_DIR": str(tmp_path / "state"), "APPLIANCE_RUN_DIR": str(tmp_path / "run")}
    given |= {"OPENAI_API_KEY": KEY, "APPLIANCE_LOCAL_REPOSITORIES": str(tmp_path)}
    with wiring.appliance(settings.load(given, dotenv=None)) as made:
        yield made


def ids(lines: Iterator[Line]) -> list[str]:
    return [line.id for line in lines]


def test_the_state(parts: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ids(state.check(parts.settings)) == ["state", "disk", "disk", "disk"]
    monkeypatch.setattr(state, "LOW_BYTES", 1 << 60)
    assert ids(state.check(parts.settings)) == ["state", "disk-low", "disk", "disk"]
    monkeypatch.setattr(wiring, "blocked", lambda _: Fault("state", "No.", "space."))
    assert ids(state.check(parts.settings)) == ["state"]


def test_little_room_in_tmp_and_none_in_run_are_said(parts: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    real = shutil.disk_usage

    def usage(path: Path) -> object:
        return SimpleNamespace(total=512 << 20, free=15 << 20) if path == state.TMP else real(path)

    def write(folder: Path) -> None:
        if folder == parts.settings.run_dir:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "disk_usage", usage)
    assert ids(state.check(parts.settings)) == ["state", "disk", "disk", "tmpfs-low"]
    monkeypatch.setattr(state, "_write", write)
    lines = list(state.check(parts.settings))
    assert [line.id for line in lines] == ["state", "disk", "disk-full", "tmpfs-low"]
    assert (lines[2].state, "docker restart" in lines[2].remedy) == ("fault", True)
    assert str(parts.settings.run_dir) in lines[2].sentence


def test_a_damaged_database_is_named_though_it_opens(parts: Appliance) -> None:
    for number in range(200):
        parts.store.set_note(f"note {number}", "x" * 400)
    parts.close()
    path = parts.settings.state_dir / "appliance.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xff" * (size // 4))
    lines = guarded("state", lambda: state.check(parts.settings))
    assert [(line.id, line.state) for line in lines] == [("state", "fault")]
    assert "rm -f /var/lib/appliance/appliance.db*" in lines[0].remedy


def test_a_lost_signing_key_is_named_and_not_made_anew(parts: Appliance) -> None:
    key = parts.settings.state_dir / "signing.key"
    key.unlink()
    assert ids(state.check(parts.settings)) == ["signing-key-missing"]
    assert not key.exists()


def test_a_mistyped_setting_is_a_sentence_that_ends_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPLIANCE_INTERVALL", "APPLIANCE_XXXXXXXXXXXXXXXXXXXX"):
        monkeypatch.setenv(name, "1")
    near, far = (line.sentence for line in inside._settings(settings.load({}, None)))
    assert near == "APPLIANCE_INTERVALL is no setting; is APPLIANCE_INTERVAL meant?"
    assert far == "APPLIANCE_XXXXXXXXXXXXXXXXXXXX is no setting."


# --- what confines it


CONFINED = {"seccomp": "2", "no_new_privs": "1", "cap_bnd": "0" * 16, "cap_eff": "0" * 16}


@pytest.mark.parametrize(
    ("read", "writable", "causes"),
    [
        ({}, False, ["confinement"]),
        ({"seccomp": "0"}, False, ["container-seccomp"]),
        ({"no_new_privs": "0"}, False, ["container-new-privileges"]),
        ({"cap_bnd": "000001ffffffffff"}, False, ["container-capabilities"]),
        ({"cap_eff": "0000000000200000"}, False, ["container-capabilities"]),
        ({}, True, ["container-root-writable"]),
    ],
)
def test_what_confines_the_container(read: dict[str, str], writable: bool, causes: list[str]) -> None:
    assert ids(confinement.judge(CONFINED | read, writable=writable)) == causes


@pytest.mark.parametrize(
    ("mount", "pids", "setting", "told"),
    [
        ("/x /var/lib/appliance", "pid:[4026532183]", "somaxconn", []),
        ("/docker.sock /run/docker.sock", "pid:[4026532183]", "somaxconn", ["/run/docker.sock"]),
        ("/run/docker.sock /x", "pid:[4026532183]", "somaxconn", ["(/x)"]),
        ("/x /y", "pid:[4026531836]", "somaxconn", ["processes"]),
        ("/x /y", "pid:[4026532183]", "netdev_max_backlog", ["network"]),
        ("/x /run/containerd.sock", "pid:[4026531836]", "netdev_max_backlog", ["socket", "processes", "network"]),
    ],
)
def test_what_is_shared_with_the_host_is_seen_from_inside(
    mount: str, pids: str, setting: str, told: list[str], tmp_path: Path
) -> None:
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(f"1 0 0:1 / / ro - overlay o rw\n2 1 8:1 {mount} rw - ext4 e rw\n")
    (tmp_path / "proc/self/ns/pid").symlink_to(pids)
    (tmp_path / "proc/sys/net/core").mkdir(parents=True)
    (tmp_path / "proc/sys/net/core" / setting).touch()
    lines = tuple(confinement.shared(tmp_path))
    assert len(lines) == len(told)
    assert all(words in line.sentence and line.state == "fault" for words, line in zip(told, lines, strict=True))
    judged = ids(confinement.judge(CONFINED, writable=False, shared=lines))
    assert judged == ([line.id for line in lines] or ["confinement"])


@pytest.mark.parametrize("name", CONFINED)
def test_what_the_kernel_does_not_tell_confines_nothing(name: str) -> None:
    told = {key: value for key, value in CONFINED.items() if key != name}
    assert ids(confinement.judge(told, writable=False)) == ["unexamined"]


# --- the loop


def test_what_stands_in_a_volume_that_cannot_be_used_is_not_told_from_a_passing_state(parts: Appliance) -> None:
    parts.blocked = Fault("state", "No.", "space.")
    assert ids(loop.check(parts))[1:] == ["unexamined"]


def test_the_loop(parts: Appliance) -> None:
    assert ids(loop.check(parts)) == ["stale", "health-starting", "holds"]
    health.write(parts.settings.run_dir, Health("healthy", "", "watching", 0.0), valid_for=60)
    parts.store.set_note("cycle", {"last_ended": time.time(), "next": time.time() + 9, "failed": False})
    assert ids(loop.check(parts)) == ["health", "cycle", "holds"]
    health.write(parts.settings.run_dir, Health("healthy", "", "Next try 00:00 UTC.", 0.0), valid_for=60)
    assert next(iter(loop.check(parts))).sentence == "The appliance is healthy: Next try 00:00 UTC."
    health.write(parts.settings.run_dir, Health("unhealthy", "quota", "Used up. Next: wait.", 0.0), valid_for=60)
    parts.store.set_note("cycle", {"last_ended": time.time() - 3000})
    told = list(loop.check(parts))
    assert [line.id for line in told] == ["quota", "cycle-late", "holds"]
    assert (told[0].sentence, told[0].remedy) == ("Used up.", "wait.")


def test_what_waits_and_until_when(parts: Appliance) -> None:
    held = Held(Outcome.QUOTA, Fault("quota", "Used up.", "wait."), time.time() + 60, 1, 1, parts.credentials(), True)
    parts.store.set_note("held", asdict(held))
    line = list(loop.check(parts))[-1]
    assert (line.id, line.state) == ("held", "warning")
    assert line.remedy.startswith("wait. It is not asked again until ")
    assert line.remedy.endswith("; `appliance retry TARGET` asks with the next cycle.")
    assert "UTC" in line.sentence and "quota" in line.sentence


def test_a_days_budget_that_is_used_up_is_told(parts: Appliance, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [line.id for line in loop.check(parts)][2:] == ["holds"]
    monkeypatch.setattr(Appliance, "day_fault", lambda _: day_fault(1000))
    line = list(loop.check(parts))[-1]
    assert (line.id, "token-budget" in line.sentence, "00:00 UTC" in line.sentence) == ("held", True, True)


def test_a_cycle_that_failed_is_not_fine(parts: Appliance) -> None:
    parts.store.set_note("cycle", {"last_ended": time.time(), "failed": True})
    assert ids(loop.check(parts))[1] == "cycle-failed"


# --- the model


@pytest.mark.parametrize(
    ("answer", "cause", "state_"),
    [
        (Answer(400, code="missing_required_parameter"), "model", "ok"),
        (Answer(422), "model", "ok"),
        (Answer(401), "login", "fault"),
        (Answer(404), "model-refused", "fault"),
        (Answer(307), "model-refused", "fault"),
        (Answer(429, code="usage_limit_reached"), "quota", "fault"),
        (Answer(503), "model-unreachable", "fault"),
        (Answer(None, message="refused"), "model-unreachable", "fault"),
        (Answer(200, ended="completed"), "model-unsure", "warning"),
        (Answer(200, ended="dropped"), "model-unreachable", "fault"),
        (None, "model-unsure", "warning"),
    ],
)
def test_what_the_models_answer_means(answer: Answer | None, cause: str, state_: str) -> None:
    line = model.judge(answer)
    assert (line.id, line.state) == (cause, state_)


def test_what_is_sent_can_start_no_model() -> None:
    assert json.loads(model.NOTHING) == {}


def login(age: float, expires: float) -> str:
    """An auth.json as Codex writes it."""
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    when = datetime.fromtimestamp(time.time() - age, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return json.dumps({"tokens": {"access_token": f"x.{claims}.y", "refresh_token": "r"}, "last_refresh": when})


def test_the_age_of_a_login(parts: Appliance, tmp_path: Path) -> None:
    home = parts.settings.state_dir / "login"
    home.mkdir()
    (home / "auth.json").write_text(login(3 * 86_400, 4_102_444_800))
    assert "refreshed 3 days ago, its access token lasts until 2100-01-01" in model._age(parts)
    (home / "auth.json").write_text("{}")
    assert model._age(parts) == "There is a ChatGPT login; it is refreshed by itself."


# --- the command


def test_the_command_in_a_place_with_bad_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.doctor.sandbox.bare", lambda: iter([fine("sandbox", "Good.")]))
    monkeypatch.setenv("APPLIANCE_INTERVAL", "soon")
    monkeypatch.setattr("appliance.doctor.confinement.check", lambda: iter([fine("confinement", "Good.")]))
    done = CliRunner().invoke(main, ["doctor", "--where", "container", "--json"])
    assert done.exit_code == 1
    assert [line["id"] for line in json.loads(done.stdout)["lines"]] == ["settings", "confinement", "sandbox"]
    assert doctor.of_json(json.loads(done.stdout))[0].remedy
