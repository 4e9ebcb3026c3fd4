"""The one door through which git runs on foreign content (docs/architecture.md, "Git on foreign content")."""

import dataclasses
import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from appliance.git.errors import GitError, error_of
from appliance.process import Completed, Limits, run

# A delta of a few bytes can ask for any amount of memory. Less than the container may have (compose.yaml), so that git
# fails and says so, and the kernel does not choose a process to kill; a repository of 10 million objects needs half.
MAX_MEMORY = 2 * 1024**3
# Bigger files are taken from disk to disk and never compared line by line. A few of them at once still fit into memory.
BIG_FILE = "50m"

# Git's highest-ranking configuration: it wins over whatever a repository's own config says. What runs a program or
# leaves the repository is off.
_CONFIG = (
    ("core.hooksPath", "/dev/null"),  # also reference-transaction, which every ref update would run
    ("core.fsmonitor", "false"),
    ("core.sshCommand", "/bin/false"),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", "/bin/false"),
    ("core.askPass", ""),
    ("core.editor", "/bin/false"),
    ("core.pager", "cat"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.quotePath", "false"),
    ("core.symlinks", "true"),  # a link is a link; git itself never writes through one
    ("core.autocrlf", "false"),
    ("core.logAllRefUpdates", "false"),
    ("core.bigFileThreshold", BIG_FILE),
    ("core.protectNTFS", "false"),  # names such as `a:b` or `git~1` are only names on Linux
    ("credential.helper", ""),  # the empty value also clears helpers from other files
    ("protocol.allow", "never"),
    ("filter.lfs.smudge", ""),  # other filters have no command here: a repository cannot bring one
    ("filter.lfs.clean", ""),
    ("filter.lfs.process", ""),
    ("filter.lfs.required", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.unpackLimit", "1"),  # packs as they come: no hundred thousand loose files
    ("transfer.unpackLimit", "1"),
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "60"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("diff.noprefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("checkout.workers", "0"),  # as many as there are cores, only for large changes
    ("safe.directory", "*"),  # mounted repositories belong to somebody else
    ("advice.detachedHead", "false"),
    ("init.defaultBranch", "main"),
)

# A repository's config can name programs for these, and there is no empty value that switches them off.
_NO_PROGRAMS = dict.fromkeys(("diff", "show", "log", "diff-tree"), ("--no-ext-diff", "--no-textconv"))

_PASSED_ON = (
    "PATH",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
)

# For a path git starts `upload-pack` in the source repository and clears GIT_CONFIG_* for it (connect.c,
# local_repo_env), so that our configuration has to be on this command; since 2.39.4 it refuses repositories of
# other owners without safe.directory.
UPLOAD_PACK = " ".join(["git", *(f"-c {shlex.quote(f'{key}={value}')}" for key, value in _CONFIG), "upload-pack"])


def environment(*, protocols: Sequence[str] = (), authorization: tuple[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a git: nothing of ours but paths, proxies and certificates.

    `protocols` are the transports it may use. `authorization` is (address, value of the Authorization header), sent
    to exactly that address. Raises GitError if the value holds a line break.
    """
    config = list(_CONFIG)
    if authorization is not None:
        url, value = authorization
        if any(character in value for character in "\r\n\0"):
            raise GitError("forge-login", "the token holds a line break", remedy="give the token without one")
        config.append((f"http.{url}.extraHeader", f"Authorization: {value}"))
    environ = {name: os.environ[name] for name in _PASSED_ON if os.environ.get(name)}
    environ.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    if "SSL_CERT_FILE" in environ:
        environ.setdefault("GIT_SSL_CAINFO", environ["SSL_CERT_FILE"])
    environ |= {
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "TZ": "UTC",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": ":".join(protocols),  # stronger than protocol.*: no repository's config opens another
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",  # refs/replace would show another commit than the SHA names
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_COUNT": str(len(config)),
    }
    for number, (key, value) in enumerate(config):
        environ[f"GIT_CONFIG_KEY_{number}"] = key
        environ[f"GIT_CONFIG_VALUE_{number}"] = value
    return environ


def git(
    args: Sequence[str],
    *,
    cwd: Path | None = None,
    git_dir: Path | None = None,
    authorization: tuple[str, str] | None = None,
    timeout: float,
    stop: threading.Event | None = None,
    check: bool = True,
    work_tree: Path | None = None,
    protocols: Sequence[str] = (),
    input: bytes | None = None,
    env: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Completed:
    """Run `git ARGS` hardened and return what it did; `timeout` in seconds.

    `authorization` is (address, value of the Authorization header): it travels in the environment, never in argv, and
    is cut out of the output. `env` adds to the environment (author and date of a commit). `limits`: MAX_MEMORY if
    none are given. Raises GitError if `check` is true and git failed, or if git is missing; Stopped if `stop` was set.
    """
    argv = ["git"]
    if git_dir is not None:
        argv.append(f"--git-dir={git_dir}")
    if work_tree is not None:
        argv.append(f"--work-tree={work_tree}")
    argv += [args[0], *_NO_PROGRAMS.get(args[0], ()), *args[1:]]
    environ = environment(protocols=protocols, authorization=authorization) | dict(env or {})
    try:
        completed = run(
            argv, timeout=timeout, env=environ, cwd=cwd, input=input, stop=stop, limits=limits or Limits(MAX_MEMORY)
        )
    except FileNotFoundError as error:
        if cwd is not None and not cwd.is_dir():
            raise GitError("git", f"{cwd} is missing", remedy="nothing, it is made anew", permanent=False) from error
        raise GitError("git", "git is not installed", remedy="install git 2.39 or newer") from error
    if authorization is not None:
        completed = _redacted(completed, authorization[1])
    if check and not completed.ok:
        raise error_of(completed, args[0])
    return completed


def _redacted(completed: Completed, value: str) -> Completed:
    """`completed` without the secret: neither the header's value nor the part behind its scheme."""
    secrets = [value.encode(), value.rpartition(" ")[2].encode()]
    stdout, stderr = completed.stdout, completed.stderr
    for secret in secrets:
        if secret:
            stdout, stderr = stdout.replace(secret, b"[redacted]"), stderr.replace(secret, b"[redacted]")
    return dataclasses.replace(completed, stdout=stdout, stderr=stderr)
