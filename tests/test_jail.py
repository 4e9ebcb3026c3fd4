"""The jail's argv, and the home that Codex reads in it: what is shown, what is not, and in which order."""

import os
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from appliance import codex_config, jail


@dataclass
class Parsed:
    """bwrap's command line, taken apart as bwrap does."""

    flags: list[str] = field(default_factory=list)
    mounts: list[tuple[str, str, str]] = field(default_factory=list)  # kind, source, target, in order
    sizes: dict[str, int] = field(default_factory=dict)  # of a tmpfs, in bytes
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    command: list[str] = field(default_factory=list)


def parse(argv: list[str]) -> Parsed:
    assert argv[0] == "bwrap"
    parsed = Parsed()
    words: Iterator[str] = iter(argv[1:])
    size = 0
    for word in words:
        if word == "--":
            parsed.command = list(words)
        elif word == "--setenv":
            name, value = next(words), next(words)
            parsed.env[name] = value
        elif word in {"--ro-bind", "--ro-bind-try", "--bind", "--symlink"}:
            parsed.mounts.append((word, next(words), next(words)))
        elif word in {"--proc", "--dev", "--tmpfs", "--remount-ro"}:
            target = next(words)
            parsed.mounts.append((word, "", target))
            if word == "--tmpfs":
                parsed.sizes[target], size = size, 0
        elif word == "--chdir":
            parsed.workdir = next(words)
        elif word == "--size":
            size = int(next(words))
        else:
            parsed.flags.append(word)
    return parsed


@dataclass
class Review:
    tree: Path
    git_dir: Path
    objects: Path
    codex_home: Path
    gate_socket: Path

    def policy(self) -> jail.JailPolicy:
        return jail.review_policy(
            tree=self.tree,
            git_dir=self.git_dir,
            objects=self.objects,
            codex_home=self.codex_home,
            gate_socket=self.gate_socket,
        )


@pytest.fixture
def review(tmp_path: Path) -> Review:
    made = Review(*(tmp_path / name for name in ("tree", "git", "objects", "home", "gate.sock")))
    made.tree.mkdir()
    made.codex_home.mkdir()
    codex_config.write_home(made.codex_home, model="m", effort="low", objects=made.objects, schema={"type": "object"})
    return made


def test_it_shares_no_namespace_and_dies_with_us(review: Review) -> None:
    parsed = parse(jail.argv(review.policy(), ["true"]))
    assert set(parsed.flags) == {
        "--unshare-user",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-net",
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--new-session",
        "--clearenv",
    }, "and none that keeps the nested sandbox from starting, as --disable-userns and --hostname do"
    assert parsed.command == [*jail.BOUNDS, "true"]
    assert parsed.workdir == "/checkout"


def test_it_shows_what_a_review_needs_and_nothing_else(review: Review) -> None:
    parsed = parse(jail.argv(review.policy(), ["true"]))
    shown = {target: (kind, source) for kind, source, target in parsed.mounts if "bind" in kind}
    system = {target for target in shown if target == "/usr" or target.startswith("/etc/")}
    assert {target: shown[target] for target in shown.keys() - system} == {
        "/opt/codex": ("--ro-bind", str(jail.codex_package())),
        "/checkout": ("--ro-bind", str(review.tree)),
        "/checkout/.git": ("--ro-bind", str(review.git_dir)),
        "/codex-home/config.toml": ("--ro-bind", str(review.codex_home / "config.toml")),
        "/codex-home/schema.json": ("--ro-bind", str(review.codex_home / "schema.json")),
        str(review.objects): ("--ro-bind", str(review.objects)),
        "/run/gate.sock": ("--ro-bind", str(review.gate_socket)),
    }
    names = ("ld.so.cache", "passwd", "group", "nsswitch.conf", "localtime", "alternatives")
    assert system == {"/usr", *(f"/etc/{name}" for name in names)}
    assert all(shown[target] == (shown[target][0], target) for target in system)
    assert all(shown[target][0] in {"--ro-bind", "--ro-bind-try"} for target in system)


def test_nothing_of_the_container_can_be_written_and_what_can_has_a_size(review: Review) -> None:
    parsed = parse(jail.argv(review.policy(), ["true"]))
    assert not [target for kind, _, target in parsed.mounts if kind == "--bind"]
    most = 256 << 20
    assert parsed.sizes == {"/tmp": most, "/home/reviewer": most, "/dev/shm": most, "/codex-home": 64 << 20}


def test_proc_and_dev_are_fresh(review: Review) -> None:
    mounts = parse(jail.argv(review.policy(), ["true"])).mounts
    assert ("--proc", "", "/proc") in mounts
    assert ("--dev", "", "/dev") in mounts
    assert ("--remount-ro", "", "/dev") in mounts, "it is a tmpfs without a size"
    assert not [target for kind, _, target in mounts if "bind" in kind and target.startswith(("/proc", "/dev", "/sys"))]


def test_mounts_stand_in_an_order_that_works(review: Review) -> None:
    mounts = parse(jail.argv(review.policy(), ["true"])).mounts
    targets = [target for kind, _, target in mounts if kind != "--remount-ro"]
    assert len(set(targets)) == len(targets)
    assert targets.index("/checkout") < targets.index("/checkout/.git")
    assert targets.index("/tmp") < targets.index(str(review.objects)), "a tmpfs would hide what was mounted below it"
    assert targets.index("/codex-home") < targets.index("/codex-home/config.toml")
    assert mounts[-1] == ("--remount-ro", "", "/"), "every mount point is made before the root is read-only"


def test_without_objects_and_gate_there_are_none(review: Review) -> None:
    policy = jail.review_policy(
        tree=review.tree, git_dir=review.git_dir, objects=None, codex_home=review.codex_home, gate_socket=None
    )
    targets = [target for _, _, target in parse(jail.argv(policy, ["true"])).mounts]
    assert "/run/gate.sock" not in targets
    assert str(review.objects) not in targets


def test_its_environment_is_ours_alone(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret-of-the-forge")
    monkeypatch.setenv("OPENAI_API_KEY", "secret-of-the-model")
    line = jail.argv(review.policy(), ["true"])
    assert "secret" not in " ".join(line)
    env = parse(line).env
    assert {name for name in env if not name.startswith("GIT_")} == {
        "PATH", "HOME", "CODEX_HOME", "TMPDIR", "LANG", "GATE_TOKEN",
    }  # fmt: skip
    assert env["CODEX_HOME"] == "/codex-home", "Codex refuses one below /tmp"
    assert "/usr/bin" in env["PATH"].split(":"), "Codex takes the system's bwrap, which AppArmor knows by its path"


def git_settings(env: dict[str, str]) -> dict[str, str]:
    count = int(env["GIT_CONFIG_COUNT"])
    return {env[f"GIT_CONFIG_KEY_{n}"]: env[f"GIT_CONFIG_VALUE_{n}"] for n in range(count)}


def test_git_on_foreign_content_is_tame_in_the_jail_and_in_the_sandbox(review: Review) -> None:
    in_jail = parse(jail.argv(review.policy(), ["true"])).env
    config = tomllib.loads(codex_config.config(model="m", effort="high", objects=None))
    for env in (in_jail, config["shell_environment_policy"]["set"]):
        assert env["GIT_CONFIG_NOSYSTEM"] == "1"
        assert env["GIT_CONFIG_GLOBAL"] == "/dev/null"
        assert env["GIT_TERMINAL_PROMPT"] == "0"
        assert env["GIT_OPTIONAL_LOCKS"] == "0"
        settings = git_settings(env)
        assert settings["core.hooksPath"] == "/dev/null"
        assert settings["core.fsmonitor"] == "false"
        assert settings["credential.helper"] == ""
        assert settings["protocol.allow"] == "never"


def test_the_mount_point_of_the_git_directory_is_made(review: Review) -> None:
    review.policy()
    review.policy()
    assert (review.tree / ".git").is_dir()
    assert not list((review.tree / ".git").iterdir())


def test_a_tree_with_another_dot_git_is_refused(review: Review, tmp_path: Path) -> None:
    (review.tree / ".git").write_text("gitdir: /elsewhere\n")
    with pytest.raises(ValueError, match="not a directory"):
        review.policy()
    (review.tree / ".git").unlink()
    (review.tree / ".git").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="not a directory"):
        review.policy()


def test_the_whole_package_of_codex_is_shown() -> None:
    """Its bundled programs are found relative to the binary."""
    package = jail.codex_package()
    assert os.access(package / "bin" / "codex", os.X_OK)
    assert jail.CODEX == "/opt/codex/bin/codex"


def test_the_relay_stands_beside_the_command() -> None:
    shell, flag, script, name, *command = jail.with_relay(["codex", "exec", "a b; rm -rf /", "-"])
    assert (shell, flag, name) == ("/bin/sh", "-c", "relay")
    assert command == ["codex", "exec", "a b; rm -rf /", "-"], "passed on as words, not as text of the script"
    assert f"TCP-LISTEN:{jail.RELAY_PORT},bind=127.0.0.1," in script
    assert "UNIX-CONNECT:/run/gate.sock" in script
    assert "until listening </proc/net/sockstat; do" in script
    assert script.endswith('exec "$@"')


# The configuration that was measured: nothing more, nothing less.
CONFIG = {
    "model": 'a "model"',
    "model_reasoning_effort": "high",
    "model_provider": "gate",
    "approval_policy": "never",
    "default_permissions": "reviewer",
    "web_search": "disabled",
    "project_doc_max_bytes": 0,
    "check_for_update_on_startup": False,
    "allow_login_shell": False,
    "cli_auth_credentials_store": "file",
    "include_apps_instructions": False,
    "analytics": {"enabled": False},
    "feedback": {"enabled": False},
    "otel": {"exporter": "none", "metrics_exporter": "none", "trace_exporter": "none"},
    "history": {"persistence": "none"},
    "skills": {"include_instructions": False, "bundled": {"enabled": False}},
    "memories": {"use_memories": False, "generate_memories": False},
    "projects": {"/checkout": {"trust_level": "untrusted"}},
    "permissions": {
        "reviewer": {
            "filesystem": {
                ":minimal": "read",
                "/opt/codex": "read",
                "/var/lib/appliance/mirrors/1.git/objects": "read",
                ":workspace_roots": {".": "read"},
            },
            "network": {"enabled": False},
        }
    },
}


def test_the_configuration_is_the_measured_one(tmp_path: Path) -> None:
    objects = Path("/var/lib/appliance/mirrors/1.git/objects")
    codex_config.write_home(tmp_path, model='a "model"', effort="high", objects=objects, schema={"type": "object"})
    config = tomllib.loads((tmp_path / "config.toml").read_text())
    features = config.pop("features")
    assert set(features.values()) == {False}
    assert {"hooks", "plugins", "shell_snapshot", "multi_agent", "unbounded_connection_retries"} <= set(features)
    environment = config.pop("shell_environment_policy")
    assert environment["inherit"] == "none"
    assert environment["set"]["HOME"] == "/nonexistent"
    assert "GATE_TOKEN" not in environment["set"]
    gate = config.pop("model_providers")["gate"]
    assert gate["base_url"] == f"http://127.0.0.1:{jail.RELAY_PORT}/v1"
    assert (gate["env_key"], gate["wire_api"]) == ("GATE_TOKEN", "responses")
    assert config == CONFIG
    assert "sandbox_mode" not in config, "it would override the permissions in silence"
    assert (tmp_path / "schema.json").read_text() == '{"type": "object"}'


def test_a_home_is_given_the_databases_that_codex_would_make(
    review: Review, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jail, "MADE_DATABASES", tmp_path / "made")
    assert "/opt/codex-databases" not in [target for _, _, target in parse(jail.argv(review.policy(), ["true"])).mounts]
    (tmp_path / "made").mkdir()
    assert ("--ro-bind", str(tmp_path / "made"), "/opt/codex-databases") in parse(
        jail.argv(review.policy(), ["true"])
    ).mounts
    script = jail.with_relay(["codex"])[2]
    assert script.index("/*.sqlite /codex-home/") < script.index("until listening"), "it takes no time of its own"
