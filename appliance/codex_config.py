"""What lies in CODEX_HOME as a review begins: config.toml, and the schema of the answer.

Every key was measured with Codex 0.163 under `--strict-config`. `-s` and `default_permissions` never go together: the
former silently wins, and files that the profile denies are readable again.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from appliance import jail

CONFIG = "config.toml"
SCHEMA = "schema.json"
PROFILE = "reviewer"
PROVIDER = "gate"
STREAM_IDLE_MS = 300_000

_OFF = (
    "plugins",
    "remote_plugin",
    "apps",
    "hooks",
    "memories",
    "goals",
    "multi_agent",
    "image_generation",
    "tool_suggest",
    "skill_search",
    "shell_snapshot",
    "browser_use",
    "computer_use",
    "workspace_dependencies",
    "daemon_auto_start",
    "unbounded_connection_retries",  # on, a refused connection is retried for ever
    "enable_request_compression",
)


def write_home(home: Path, *, model: str, effort: str, objects: Path | None, schema: Mapping[str, object]) -> None:
    """Write config.toml and schema.json into the existing directory `home`.

    `objects` is the object directory shown in the jail: commands of the model may read it. Raises OSError.
    """
    (home / CONFIG).write_text(config(model=model, effort=effort, objects=objects), encoding="utf-8")
    (home / SCHEMA).write_text(json.dumps(schema), encoding="utf-8")


def config(*, model: str, effort: str, objects: Path | None) -> str:
    """The text of config.toml."""
    readable = [":minimal", jail.CODEX_PACKAGE, *([str(objects)] if objects is not None else [])]
    # The sandbox's commands inherit nothing: what git needs must stand here too.
    env = {"PATH": jail.PATH, "HOME": "/nonexistent", "LANG": "C.UTF-8", **jail.GIT_ENV}
    sections: list[tuple[str, Mapping[str, object]]] = [
        (
            "",
            {
                "model": model,
                "model_reasoning_effort": effort,
                "model_provider": PROVIDER,
                "approval_policy": "never",
                "default_permissions": PROFILE,
                "web_search": "disabled",
                "project_doc_max_bytes": 0,  # an AGENTS.md of the pull request is material, not an instruction
                "check_for_update_on_startup": False,
                "allow_login_shell": False,
                "cli_auth_credentials_store": "file",
                "include_apps_instructions": False,
            },
        ),
        ("analytics", {"enabled": False}),
        ("feedback", {"enabled": False}),
        ("otel", {"exporter": "none", "metrics_exporter": "none", "trace_exporter": "none"}),
        ("history", {"persistence": "none"}),
        ("skills", {"include_instructions": False}),
        ("skills.bundled", {"enabled": False}),
        ("memories", {"use_memories": False, "generate_memories": False}),
        ("features", dict.fromkeys(_OFF, False)),
        ("shell_environment_policy", {"inherit": "none"}),
        ("shell_environment_policy.set", env),
        (f"projects.{_value(jail.CHECKOUT)}", {"trust_level": "untrusted"}),
        (f"permissions.{PROFILE}.filesystem", dict.fromkeys(readable, "read")),
        (f'permissions.{PROFILE}.filesystem.":workspace_roots"', {".": "read"}),
        (f"permissions.{PROFILE}.network", {"enabled": False}),
        (
            f"model_providers.{PROVIDER}",
            {
                "name": "gate",
                "base_url": f"http://127.0.0.1:{jail.RELAY_PORT}/v1",
                "env_key": "GATE_TOKEN",
                "wire_api": "responses",
                "request_max_retries": 2,
                "stream_max_retries": 2,
                "stream_idle_timeout_ms": STREAM_IDLE_MS,
            },
        ),
    ]
    return "\n".join(_section(name, values) for name, values in sections)


def _section(name: str, values: Mapping[str, object]) -> str:
    head = f"[{name}]\n" if name else ""
    return head + "".join(f"{_value(key)} = {_value(value)}\n" for key, value in values.items())


def _value(value: object) -> str:
    """A TOML value; its basic strings are JSON's, but for DEL and surrogates, which no setting of ours contains."""
    return json.dumps(value, ensure_ascii=False)
