"""Real bare repositories, and git's own HTTP backend in front of them."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

Content = str | bytes | None | tuple[str, bytes]
ALLOWED = "[uploadpack]\n\tallowAnySHA1InWant = true\n\tallowFilter = true\n"
WHO = "A U Thor <author@example.com>"
ENV = {
    "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
    "LANG": "C.UTF-8",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    # The directory may belong to another user when it is a mounted volume.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
}


def git(repository: Path, *args: str, stdin: bytes = b"") -> str:
    done = subprocess.run(["git", "-C", str(repository), *args], input=stdin, capture_output=True, env=ENV, check=False)
    if done.returncode:
        raise RuntimeError(f"git {' '.join(args)}: {done.stderr.decode('utf-8', 'replace')}")
    return done.stdout.decode("utf-8", "replace").strip()


def create(path: Path, default_branch: str) -> None:
    """What `git init --bare` makes, without a process: tests make hundreds."""
    for part in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (path / part).mkdir(parents=True, exist_ok=True)
    (path / "HEAD").write_text(f"ref: refs/heads/{default_branch}\n")
    (path / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n")


def configure(path: Path) -> None:
    """What GitHub's own servers allow."""
    config = path / "config"
    if ALLOWED not in config.read_text():
        config.write_text(config.read_text() + ALLOWED)


def commit(
    path: Path, branch: str, files: Mapping[str, Content], *, start: str | None, message: str, at: float
) -> dict[str, str]:
    """A commit on `branch` that changes `files` (None: deleted; a tuple: mode and content); returns all refs.

    `start` is the commit it stands on; None: the branch itself, if there is one.
    """
    ref = f"refs/heads/{branch}"
    parent = start or refs(path).get(ref)
    said = message.encode()
    stream = [
        f"commit {ref}\ncommitter {WHO} {int(at)} +0000\ndata {len(said)}\n".encode() + said + b"\n",
        f"from {parent}\n".encode() if parent else b"",
    ]
    for name, content in files.items():
        quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode("utf-8", "surrogateescape")
        if content is None:
            stream.append(b'D "' + quoted + b'"\n')
            continue
        mode, data = content if isinstance(content, tuple) else ("100644", content)
        data = data.encode() if isinstance(data, str) else data
        stream.append(
            f"M {mode} inline ".encode() + b'"' + quoted + b'"\n' + f"data {len(data)}\n".encode() + data + b"\n"
        )
    git(path, "fast-import", "--quiet", "--force", stdin=b"".join(stream))
    return refs(path)


def refs(path: Path) -> dict[str, str]:
    lines = git(path, "for-each-ref", "--format=%(refname) %(objectname)").splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


def resolve(path: Path, revision: str) -> str | None:
    """The commit a SHA or branch stands for, or None."""
    try:
        return git(path, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except RuntimeError:
        return None


def update_refs(path: Path, wanted: Mapping[str, str]) -> None:
    """Loose refs, each in one step."""
    for ref, sha in wanted.items():
        file = path / ref
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(f"{file.name}.new.lock")  # git overlooks names that end so
        new.write_text(f"{sha}\n")
        new.replace(file)


def backend(
    path: Path, suffix: str, method: str, query: str, headers: Mapping[str, str], body: bytes, user: str
) -> tuple[int, dict[str, str], bytes]:
    """What `git http-backend` answers: status, headers, body."""
    env = {
        **ENV,
        "PATH_TRANSLATED": f"{path}{suffix}",
        "PATH_INFO": suffix,
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": method,
        "QUERY_STRING": query,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_CONTENT_ENCODING": headers.get("content-encoding", ""),
        "GIT_PROTOCOL": headers.get("git-protocol", ""),
        **({"REMOTE_USER": user} if user else {}),  # who may push
    }
    done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=env, check=False)
    head, _, rest = done.stdout.partition(b"\r\n\r\n")
    told = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line)
    status = int(told.pop("Status", "200 OK" if done.returncode == 0 else "500 git http-backend failed").split()[0])
    return status, told, rest
