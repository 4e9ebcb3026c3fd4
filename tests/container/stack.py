"""One appliance in a container, beside a fake GitHub and a scripted model.

The container is started with compose.yaml's own options; the override that is written here changes no more than its
name, its environment, and how soon and how often its health is asked; in the tests of a fault also the one option that
is under test.
"""

import json
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
from docker.client import DockerClient
from fake_github.remote import RemoteFakeGitHub

T = TypeVar("T")
PROJECT = Path(__file__).parent.parent.parent
IMAGE = os.environ.get("APPLIANCE_TEST_IMAGE", "review-appliance:local")
TOKEN = "ghp_Planted0Token0That0Nobody0May0Ever0See0"
KEY = "sk-planted-key-that-nobody-may-ever-see"
PATIENCE = 60.0  # seconds; the machine may have much else to do
REPOSITORY = "octo/shop"
FORGED = {
    "APPLIANCE_GITHUB_URL": "http://forge:8080",
    "APPLIANCE_REPOSITORIES": REPOSITORY,
    "APPLIANCE_MODEL_URL": "http://model:8000/v1",
    "APPLIANCE_INTERVAL": "1",
    "GITHUB_TOKEN": TOKEN,
    "OPENAI_API_KEY": KEY,
}


def eventually(what: str, check: Callable[[], T], seconds: float = PATIENCE) -> T:
    """The first true value of `check`, asked again and again; AssertionError with the last value after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what}; last seen: {value!r}")
        time.sleep(0.1)


@dataclass(frozen=True)
class Done:
    """What a program in a container did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class ScriptedModel:
    """Control of container.scripted_model; its table says what a rule may have."""

    def __init__(self, base: str) -> None:
        self._http = httpx.Client(base_url=base, timeout=30)

    def rule(self, **rule: Any) -> None:
        self._http.post("/_control/rules", json=rule).raise_for_status()

    def hold(self, head: str = "", **rule: Any) -> None:
        self.rule(match=head, hold=True, **rule)

    def clear(self) -> None:
        """Forget the rules; what is held is answered."""
        self._http.delete("/_control/rules").raise_for_status()

    @property
    def requests(self) -> list[dict[str, Any]]:
        seen: list[dict[str, Any]] = self._http.get("/_control/requests").raise_for_status().json()
        return seen

    @property
    def bodies(self) -> list[str]:
        """Every request whole."""
        bodies: list[str] = self._http.get("/_control/bodies").raise_for_status().json()
        return bodies

    def asked(self, head: str) -> int:
        """How many requests were about this head."""
        return sum(request["head"] == head for request in self.requests)

    def sent(self, needles: Sequence[str]) -> list[str]:
        """Which of `needles` came with any request, elsewhere than in its Authorization header."""
        found: list[str] = self._http.get("/_control/sent", params={"needle": list(needles)}).raise_for_status().json()
        return found

    def wait_held(self, head: str = "") -> None:
        """Until an answer is being held back: a review is under way, and stays there."""
        eventually(
            "a review that waits for the model",
            lambda: [it for it in self.requests if it["held"] and it["head"].startswith(head)],
        )

    def close(self) -> None:
        self._http.close()


@dataclass
class Stack:
    """A compose project of its own; `up` starts it, `down` leaves nothing of it."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()
    fakes: bool = True
    image: str = IMAGE  # the appliance's own

    def __post_init__(self) -> None:
        self.project = f"appliance-test-{uuid.uuid4().hex[:8]}"
        self.docker = DockerClient.from_env(timeout=120)
        self._closing: list[Callable[[], None]] = [self.docker.close]

    # ---- starting and ending

    def up(self) -> None:
        (self.folder / "override.yaml").write_text(self._override(()))
        if self.fakes:
            self.compose("up", "-d", "--no-build", "forge", "model")
            self.forge = RemoteFakeGitHub(self._address("forge", 8080))
            self.model = ScriptedModel(self._address("model", 8000))
            self._closing += [self.forge.close, self.model.close]
            eventually("a fake GitHub", lambda: _answers(lambda: self.forge.get("health")))
            eventually("a scripted model", lambda: _answers(lambda: self.model.requests or True))
            self.forge.call("add_repository", name=REPOSITORY, files=SHOP, private=True)

    def start(self, *options: str) -> None:
        """Start the appliance, or make it anew on its old volume, with these lines added to its service."""
        (self.folder / "override.yaml").write_text(self._override(options))
        self.compose("up", "-d", "--no-build", "appliance")

    def down(self) -> None:
        try:
            self.compose("down", "--volumes", "--timeout", "0", "--remove-orphans")
        finally:
            for close in reversed(self._closing):
                close()

    def compose(self, *args: str) -> str:
        """Compose with nothing of the developer's environment or `.env` in it."""
        kept = ("PATH", "HOME", "XDG_RUNTIME_DIR", "APPLIANCE_APPARMOR")
        env = {name: value for name, value in os.environ.items() if name in kept or name.startswith("DOCKER_")}
        files = ["-f", str(PROJECT / "compose.yaml"), "-f", str(self.folder / "override.yaml")]
        command = ["docker", "compose", "--env-file", "/dev/null", "-p", self.project, *files, *args]
        done = subprocess.run(command, env=env, cwd=PROJECT, capture_output=True, text=True, timeout=180, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def engine(self, *args: str) -> None:
        """What the docker package cannot say."""
        subprocess.run(["docker", *args], check=True, capture_output=True, timeout=60)

    def _override(self, options: Sequence[str]) -> str:
        lines = [
            "services:",
            "  appliance:",
            f"    container_name: {self.project}",
            f"    image: {self.image}",
            "    build: !reset null",
            "    env_file: !reset []",
            f"    environment: !override {json.dumps(dict(self.environment))}",
            "    healthcheck: {interval: 1s, start_period: 2s}",
            *(f"    {option}" for option in (*self.options, *options)),
        ]
        for name, command in (("forge", FORGE), ("model", MODEL)) if self.fakes else ():
            lines += [
                f"  {name}:",
                f"    image: {IMAGE}",
                f"    command: {json.dumps(command)}",
                '    user: "0:0"',
                "    init: true",
                "    environment: {PYTHONPATH: /tests}",
                f"    volumes: [{json.dumps(f'{PROJECT}/tests:/tests:ro')}]",
                f"    ports: ['127.0.0.1::{8080 if name == 'forge' else 8000}']",
            ]
        return "\n".join(lines) + "\n"

    def _address(self, service: str, port: int) -> str:
        (found,) = self.docker.containers.list(
            filters={
                "label": [f"com.docker.compose.project={self.project}", f"com.docker.compose.service={service}"],
            }
        )
        return f"http://127.0.0.1:{found.ports[f'{port}/tcp'][0]['HostPort']}"

    # ---- the container

    @property
    def container(self) -> Any:
        return self.docker.containers.get(self.project)

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.container.attrs["State"]
        return state

    def exec(self, *argv: str) -> Done:
        code, (out, err) = self.container.exec_run(list(argv), demux=True)
        return Done(code, (out or b"").decode("utf-8", "replace"), (err or b"").decode("utf-8", "replace"))

    def docker_exec(self, options: Sequence[str], *argv: str) -> Done:
        """The same through Docker's command line, with options of `docker exec`."""
        command = ["docker", "exec", *options, self.project, *argv]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    @property
    def log(self) -> str:
        text: str = self.container.logs().decode()
        return text

    def dated_log(self) -> list[tuple[str, str]]:
        """Each line with the second at which the engine took it, as `appliance status --json` writes it."""
        lines = self.container.logs(timestamps=True).decode().splitlines()
        return [(f"{when[:19]}Z", line) for when, _, line in (line.partition(" ") for line in lines)]

    @property
    def health(self) -> tuple[str, str]:
        """Docker's word, and the line of the newest probe."""
        health = self.state["Health"]
        lines = [probe["Output"].strip() for probe in health["Log"] or []]
        return health["Status"], lines[-1] if lines else ""

    def wait_health(self, status: str, line: str = "", seconds: float = PATIENCE) -> str:
        """Until Docker calls the container `status`, with a line that begins with `line`; returns it."""

        def seen() -> str:
            now, said = self.health
            return said if now == status and said.startswith(line) else ""

        try:
            return eventually(f"{status} {line!r}", seen, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; health is {self.health}") from None

    # ---- what the appliance says of itself

    def status(self) -> dict[str, Any]:
        done = self.exec("appliance", "status", "--json")
        assert done.code == 0, done
        told: dict[str, Any] = done.json
        return told

    def wait_log(self, text: str, times: int = 1, seconds: float = PATIENCE) -> None:
        eventually(f"{text!r} in the log {times} times", lambda: self.log.count(text) >= times, seconds)

    def attempts(self) -> list[int]:
        """Attempts counted, of each pull request in turn."""
        return [row["attempts"] for row in self.status()["pulls"]]

    def row(self, number: int) -> dict[str, Any]:
        """The line of one pull request in `appliance status --json`."""
        rows = [row for row in self.status()["pulls"] if row["target"] == f"{REPOSITORY}#{number}"]
        assert len(rows) == 1, rows
        return dict(rows[0])

    def cycles(self, count: int = 1) -> None:
        """Until the loop has ended `count` cycles more that began after this call."""
        ended = self._ended()
        eventually("another cycle", lambda: self._ended() > ended + count)

    def _ended(self) -> int:
        return self.log.count("cycle.done") + self.log.count("cycle.failed")

    # ---- the fake GitHub

    def pull(self, branch: str = "discount", **more: Any) -> dict[str, Any]:
        """A pull request with a planted defect (line 3 of shop.py), if it is not said what is in it."""
        files = {**DEFECT, f"{branch}.md": "So that no two heads are the same commit.\n"}
        made: dict[str, Any] = self.forge.call("add_pull", name=REPOSITORY, head=branch, **({"files": files} | more))
        return made

    def comments(self, number: int) -> list[str]:
        return [it["body"] for it in self.forge.call("comments", name=REPOSITORY, number=number)]

    def said(self, number: int) -> str:
        """All that stands at a pull request: comments, and those on lines."""
        lines = self.forge.call("line_comments", name=REPOSITORY, number=number)
        return "\n".join([*self.comments(number), *(it["body"] for it in lines)])

    def statuses(self, sha: str) -> list[tuple[str, str]]:
        """State and description of each commit status, oldest first."""
        found = self.forge.call("statuses", name=REPOSITORY, sha=sha)
        return [(it["state"], it["description"]) for it in reversed(found)]

    def gate(self, sha: str) -> tuple[str, str] | None:
        return next(reversed(self.statuses(sha)), None)

    def wait_gate(self, sha: str, state: str, text: str = "", seconds: float = PATIENCE) -> None:
        """Until the newest commit status is this."""

        def shown() -> bool:
            gate = self.gate(sha)
            return gate is not None and gate[0] == state and gate[1].startswith(text)

        try:
            eventually(f"gate {state} {text!r}", shown, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; gates are {self.statuses(sha)}") from None

    # ---- making faults

    def nsenter(self, pid: int, *command: str) -> Done:
        """As root of the engine's machine, in the mount and pid namespaces of a process of it.

        By a privileged container, so that the tests need no right but that of using Docker.
        """
        line = ["nsenter", "-t", str(pid), "-m", "-p", *command]
        where: dict[str, Any] = {"privileged": True, "pid_mode": "host", "network_mode": "none", "user": "0:0"}
        helper = self.docker.containers.create(IMAGE, line, labels={"appliance-test": self.project}, **where)
        try:
            helper.start()
            code = helper.wait(timeout=60)["StatusCode"]
            return Done(code, helper.logs().decode("utf-8", "replace"), "")
        finally:
            helper.remove(force=True)

    @contextmanager
    def masked(self, pid: int) -> Iterator[None]:
        """A mount over /proc/bus as that process sees it: every fresh /proc below is refused from then on."""
        mounted = self.nsenter(pid, "mount", "-t", "tmpfs", "-o", "ro", "mask", "/proc/bus")
        assert mounted.code == 0, mounted
        try:
            yield
        finally:
            self.nsenter(pid, "umount", "--lazy", "/proc/bus")  # whoever looks into it just now

    def processes(self) -> list[tuple[int, str]]:
        """Pid (as the engine's machine counts them) and command line of each process in the container."""
        top = self.container.top(ps_args="-eo pid,args")
        return [(int(row[0]), " ".join(row[1:])) for row in top["Processes"] or []]

    def codex(self) -> int:
        """The pid of the Codex that reviews now."""
        return eventually(
            "a codex process",
            lambda: [pid for pid, line in self.processes() if line.startswith("/opt/codex/bin/codex")],
        )[0]


def _answers(ask: Callable[[], object]) -> bool:
    try:
        return bool(ask())
    except httpx.HTTPError:
        return False


@contextmanager
def changed_image(file: str, old: str, new: str) -> Iterator[str]:
    """The name of an image that is like the tested one but for a change of one of our files."""
    name = f"appliance-test-{uuid.uuid4().hex[:8]}"
    text = (PROJECT / file).read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file} has {old!r} {text.count(old)} times"
    path = f"/opt/appliance/lib/python3.13/site-packages/{file}"
    compiled = f"{Path(path).parent}/__pycache__/{Path(path).stem}.cpython-313.pyc"  # never compared with its source
    lines = [f"FROM {IMAGE}", "USER 0:0", f"RUN rm {compiled}", f"COPY changed {path}", "USER 10001:10001"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "changed").write_text(text.replace(old, new), encoding="utf-8")
        (Path(folder) / "changed").chmod(0o644)
        (Path(folder) / "Dockerfile").write_text("\n".join(lines))
        subprocess.run(["docker", "build", "-q", "-t", name, folder], check=True, capture_output=True, timeout=120)
    try:
        yield name
    finally:
        subprocess.run(["docker", "rmi", "-f", name], check=True, capture_output=True, timeout=60)


def security_without(option: str) -> str:
    """The line of an override that takes one of compose.yaml's own security options away, and no other."""
    command = ["docker", "compose", "--env-file", "/dev/null", "-f", "compose.yaml", "config", "--format", "json"]
    told = json.loads(subprocess.run(command, cwd=PROJECT, capture_output=True, check=True, timeout=60).stdout)
    given = told["services"]["appliance"]["security_opt"]
    kept = [one for one in given if not one.startswith(f"{option}=")]
    assert len(kept) == len(given) - 1, given
    return f"security_opt: !override {json.dumps(kept)}"


FORGE = ["python3", "-m", "fake_github", "--port", "8080", "--token", TOKEN]
MODEL = ["/opt/appliance/bin/python", "-m", "container.scripted_model", "8000"]
SHOP = {"shop.py": "def price(quantity):\n    return 2 * quantity\n", "README.md": "# Shop\n\nFrom 10 pieces on: 1.\n"}
DEFECT = {
    "shop.py": "def price(quantity):\n    # From 10 pieces on each costs 1.\n    if quantity > 10:\n"
    "        return quantity\n    return 2 * quantity\n"
}
HARMLESS = {"README.md": "# The shop\n\nFrom 10 pieces on each costs 1.\n"}
