"""What is measured in the container: `python -m bench.inside PART RUNS`, with one JSON object as its last line."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import uvicorn

from appliance import codex, codex_config, jail, keys, process, rehearsal, sample
from appliance.core.events import parse
from appliance.core.findings import Evidence, Result, Review
from appliance.core.outcomes import Ending, Outcome
from appliance.core.prompt import File, review_prompt
from appliance.core.pulls import Policy, Pull
from appliance.core.result import SCHEMA
from appliance.cycle import Cycle
from appliance.delivery import Delivery
from appliance.forge import Source
from appliance.forge.github import GitHubForge
from appliance.forge.github_limits import WritePace
from appliance.git import Mirrors, Slots, git
from appliance.keeping import Keeper
from appliance.log import configure
from appliance.reviewing import Reviewer
from appliance.selftest import selftest
from appliance.standing import Standing
from appliance.store import open_store
from appliance.workdir import WorkDirs

PROBES = 500
REPOSITORIES, PULLS = 10, 50
CYCLES = 9

Figures = dict[str, Any]


def timed(what: Callable[[], object]) -> float:
    started = time.perf_counter()
    what()
    return time.perf_counter() - started


def probe(runs: int, home: Path) -> Figures:
    """Milliseconds of one run, started by a small shell, less the empty loop."""

    def loop(command: str) -> float:
        script = f"i=0; while [ $i -lt {PROBES} ]; do i=$((i+1)); {command}; done"
        return min(timed(lambda: subprocess.run(["sh", "-c", script], check=True)) for _ in range(5)) / PROBES * 1000

    empty = loop(":")
    return {"true_ms": loop("/bin/true") - empty, "probe_ms": loop("/usr/local/bin/health-probe >/dev/null") - empty}


def self_test(runs: int, home: Path) -> Figures:
    work = WorkDirs(home)

    def once() -> None:
        with work.new("selftest-") as scratch:
            report = selftest(scratch)
        assert report.ok, report

    once()
    command = ["appliance", "selftest", "--json"]
    return {
        "function": [timed(once) for _ in range(runs)],
        "command": [timed(lambda: subprocess.run(command, check=True, capture_output=True)) for _ in range(5)],
    }


class Answered:
    """In place of a reviewer: a finished review at once."""

    def review(self, pull: Pull, source: Source, **_: object) -> Ending:
        result = Result("correct", "Measured.", "Nothing was looked at.", "A measurement.")
        looked = Evidence(commands=("git diff",), files_changed=1)
        done = Review(pull.target, pull.head_sha, pull.base_ref, pull.base_sha, pull.base_sha, result, evidence=looked)
        return Ending(Outcome.REVIEWED, "reviewed", review=done)


class Unpaced(WritePace):
    """Thousands of writes fill the fake, which GitHub would not take in an hour."""

    def _left(self, now: float) -> float:
        return 0.0


class Holds(Standing):
    """There is no git behind these pull requests: what was reviewed always holds."""

    def why_stale(self, *_: object) -> None:
        return None


def cycle(runs: int, home: Path) -> Figures:
    """Real cycles over the fake GitHub. The first reviews and posts everything, without GitHub's pace between writes;
    the second sees the comments; those after that find nothing new."""
    configure("text", quiet=True)
    command = [sys.executable, "-m", "bench.forge", str(REPOSITORIES), str(PULLS)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as github:
        assert github.stdout and github.stdin
        address, token = github.stdout.readline().split()
        store = open_store(home / "appliance.db")
        forge = GitHubForge(
            api_url=address,
            token=token,
            repositories=[f"octo/app{number}" for number in range(REPOSITORIES)],
            context="bench",
            etags=store,
            sleep=lambda _: None,
            pace=Unpaced(),
        )
        work = WorkDirs(home / "work")

        def examine() -> None:
            with work.new("selftest-") as scratch:
                assert selftest(scratch).ok

        def whole_cycle() -> None:
            examine()
            parts.run()

        standing = Holds(Mirrors(home / "mirrors"), 1)
        parts = Cycle(
            store=store,
            forges=[forge],
            policy=Policy(),
            delivery=Delivery(store, keys.signing_key(home / "signing.key"), 1, standing),
            reviewer=cast(Reviewer, Answered()),
            selftest=lambda: None,
            owner="bench",
            alive=lambda _: True,
            interval=300,
            reviews_at_once=2,
            keeper=Keeper(store, work, 1),
            credentials="",
            standing=standing,
        )
        filling = timed(parts.run)
        parts.run()
        with httpx.Client(base_url=address) as control:
            control.post("/_fake/clear", json={})
            seconds = [timed(parts.run) for _ in range(CYCLES)]
            statuses = [exchange["status"] for exchange in control.get("/_fake/exchanges").json()]
        whole = [timed(whole_cycle) for _ in range(CYCLES)]
        github.stdin.close()
    return {
        "requests": len(statuses) // CYCLES,
        "not_modified": statuses.count(304) // CYCLES,
        "seconds": seconds,
        "whole": whole,
        "filling_seconds": filling,
    }


def review(runs: int, home: Path) -> Figures:
    """The sample's review in turns: a bare `codex exec` in the container, our runner, the same with fetch and checkout,
    and the command."""
    configure("text", quiet=True)
    path = sample.make(Path("/var/lib/appliance/sample") / sample.SAMPLE_NAME)
    base, head = (
        git(["rev-parse", name], git_dir=path / ".git", timeout=30).out.strip() for name in ("main", sample.BRANCH)
    )
    pull = Pull("bench#1", str(path), 1, head, "main", base, author_association="OWNER")
    source = Source(str(path), f"refs/heads/{sample.BRANCH}", "refs/heads/main")
    model = codex.Model("rehearsal", "low", rehearsal.upstream(), rehearsal=True)
    mirrors, slots, work = Mirrors(home / "mirrors"), Slots(home / "slots"), WorkDirs(home / "work")
    mirror = mirrors.fetch(pull.repository, source, head_sha=head, base_sha=base)
    files = [File(one.path, one.status, one.added, one.deleted) for one in mirror.changed_files(base, head)]
    reviewer = Reviewer(mirrors, slots, work, model, lambda: None, 60)
    target = f"{path}#{sample.BRANCH}"
    times: dict[str, list[float]] = {"bare": [], "codex": [], "reviewer": [], "command": []}
    with bare_codex(home, path, review_prompt(pull, base, files)) as bare:

        def runner() -> None:
            with (
                slots.checkout(mirror, pull.repository, head_sha=head, base_sha=base, merge_base=base) as slot,
                work.new("review-") as scratch,
            ):
                job = codex.Job(pull, base, base, files, slot)
                started = time.perf_counter()
                ending = codex.review(job, model, scratch, timeout=60, stop=None, probe=lambda: None)
                times["codex"].append(time.perf_counter() - started)
            assert ending.review and ending.review.result.findings, ending

        def whole() -> None:
            ending = reviewer.review(pull, source)
            assert ending.review and ending.review.result.findings, ending

        def typed() -> None:
            subprocess.run(["review", target, "--format", "json"], check=True, capture_output=True)

        for turn in range(runs + 1):
            times["bare"].append(timed(bare))
            runner()
            times["reviewer"].append(timed(whole))
            if turn % 4 == 0:
                times["command"].append(timed(typed))
    return {name: found[1:] for name, found in times.items()}  # the first of each is cold


@contextmanager
def bare_codex(home: Path, repository: Path, prompt: str) -> Iterator[Callable[[], None]]:
    """`codex exec` with the configuration of a review, in the container itself: no jail, no relay, no gate."""
    tree, codex_home = home / "bare", home / "bare-home"
    shutil.copytree(repository, tree)
    git(["checkout", "--quiet", sample.BRANCH], cwd=tree, timeout=30)
    codex_home.mkdir()
    package = str(jail.codex_package())
    with scripted_model() as port:
        config = codex_config.config(model="rehearsal", effort="low", objects=None)
        for ours, theirs in (
            (f"127.0.0.1:{jail.RELAY_PORT}", f"127.0.0.1:{port}"),
            (jail.CODEX_PACKAGE, package),
            (jail.CHECKOUT, str(tree)),
        ):
            config = config.replace(f'"{ours}', f'"{theirs}').replace(f"//{ours}", f"//{theirs}")
        (codex_home / codex_config.CONFIG).write_text(config)
        (codex_home / codex_config.SCHEMA).write_text(json.dumps(SCHEMA))
        places = ((jail.CODEX_PACKAGE, package), (jail.CODEX_HOME, str(codex_home)), (jail.CHECKOUT, str(tree)))
        argv = list(codex.EXEC)
        for ours, theirs in places:
            argv = [theirs + part.removeprefix(ours) if part.startswith(ours) else part for part in argv]
        env = {
            "PATH": jail.PATH, "HOME": str(home), "CODEX_HOME": str(codex_home), "TMPDIR": "/tmp", "LANG": "C.UTF-8",
            "GATE_TOKEN": "none", **jail.GIT_ENV, "GIT_CONFIG_VALUE_2": str(tree),
        }  # fmt: skip

        def once() -> None:
            done = process.run(argv, timeout=60, env=env, input=prompt.encode())
            answer = parse(done.stdout.splitlines()).last_message
            assert done.ok and json.loads(answer)["findings"], (done, answer)

        yield once


@contextmanager
def scripted_model() -> Iterator[int]:
    """The rehearsal model on a port of the loopback."""
    server = uvicorn.Server(uvicorn.Config(rehearsal.app(), port=0, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield int(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(5)


PARTS: dict[str, Callable[[int, Path], Figures]] = {
    "probe": probe,
    "selftest": self_test,
    "cycle": cycle,
    "review": review,
}


def main() -> None:
    os.umask(0o077)
    with tempfile.TemporaryDirectory(prefix="bench-", dir="/var/lib/appliance") as home:
        print(json.dumps(PARTS[sys.argv[1]](int(sys.argv[2]), Path(home))))


if __name__ == "__main__":
    main()
