"""`python -m tests.bench [--runs N]`: starts the built image as compose.yaml does, measures, prints a Markdown table.

Needs a Docker engine and `review-appliance:local` (`docker/up --build`). Uses a Compose project of its own, and
removes container, network and volume at its end. Whatever else the machine does is in the figures: read the ratios,
and repeat it on a quiet machine. Takes about six minutes.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
IMAGE = os.environ.get("APPLIANCE_TEST_IMAGE", "review-appliance:local")
CONTAINER = "review-appliance-bench"
PYTHON = "/opt/appliance/bin/python"
IDLE_SECONDS = 30
SETTLE_SECONDS = 10
COMPOSE = ("compose", "-p", CONTAINER, "-f", "compose.yaml", "-f", "tests/bench/compose.yaml")

COUNTED = ("false_successes", "lost_results", "double_posts", "wrongly_counted_attempts")

Figures = dict[str, Any]


def docker(*args: str) -> str:
    # Settings of the person's shell are no part of a measurement; the engine's own variables are.
    env = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME") or name.startswith("DOCKER_")}
    env["APPLIANCE_TEST_IMAGE"] = IMAGE
    done = subprocess.run(["docker", *args], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: docker {' '.join(args[:6])} … failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="tests.bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="self-tests and reviews of each kind (default 20)")
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object instead")
    options = parser.parse_args()
    figures: Figures = {"image_bytes": int(docker("image", "inspect", "-f", "{{.Size}}", IMAGE))}
    with appliance() as healthy:
        figures["first_start_seconds"] = healthy
        say("idle")
        figures["idle_first"] = idle()
        docker("restart", CONTAINER)
        figures["start_seconds"] = wait_until_healthy()
        figures["idle"] = idle()
        for part in ("probe", "selftest", "cycle", "review"):
            say(part)
            told = docker(
                "exec", "-w", "/source/tests", CONTAINER, PYTHON, "-m", "bench.inside", part, str(options.runs)
            )
            figures[part] = json.loads(told.splitlines()[-1])
        say("gate-check")
        figures["gate_check"] = json.loads(
            docker("exec", CONTAINER, "appliance", "gate-check", "--json").splitlines()[-1]
        )
    print(json.dumps(figures) if options.json else table(figures))


@contextmanager
def appliance() -> Iterator[float]:
    """The container, and the seconds from its start to healthy, with an empty volume."""
    say("start")
    docker(*COMPOSE, "down", "--volumes")
    try:
        docker(*COMPOSE, "up", "-d", "--no-build")
        yield wait_until_healthy()
    finally:
        docker(*COMPOSE, "down", "--volumes")


def wait_until_healthy() -> float:
    """Seconds from the container's start to the end of the probe that found it healthy."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        state = json.loads(docker("inspect", "-f", "{{json .State}}", CONTAINER))
        # The engine keeps the probes of an earlier start.
        started = moment(state["StartedAt"])
        good = [moment(entry["End"]) for entry in state["Health"]["Log"] if entry["ExitCode"] == 0]
        later = [end for end in good if end > started]
        if state["Health"]["Status"] == "healthy" and later:
            return (later[0] - started).total_seconds()
        time.sleep(0.2)
    raise SystemExit("bench: the appliance does not become healthy; see `docker logs`")


def moment(text: str) -> datetime:
    return datetime.fromisoformat(re.sub(r"\.(\d{6})\d*", r".\1", text).replace("Z", "+00:00"))


def idle() -> Figures:
    """What the container takes while it waits for its next cycle."""
    time.sleep(SETTLE_SECONDS)
    before = sample()
    time.sleep(IDLE_SECONDS)
    after = sample()
    return {
        "rss_bytes": after["rss"],
        "anonymous_bytes": after["anonymous"],
        "cgroup_bytes": after["cgroup"],
        "core_percent": 100 * (after["cpu"] - before["cpu"]) / (after["at"] - before["at"]),
    }


# Read by a shell in the container, so that the engine need not be on this machine. The process is the one whose parent
# is the init. CPU is that process's alone: a probe of the health, and we, are not in it.
_SAMPLE = r"""
for p in /proc/[0-9]*; do
  case $(tr '\0' ' ' <$p/cmdline 2>/dev/null) in */python*appliance\ serve*) break;; esac
done
grep -E '^(VmRSS|RssAnon)' $p/status
ns=0; for t in $p/task/*/schedstat; do read -r n rest <$t && ns=$((ns + n)); done; echo "ns: $ns"
cat /sys/fs/cgroup/memory.current 2>/dev/null || cat /sys/fs/cgroup/memory/memory.usage_in_bytes
grep -E '^(anon|rss|total_rss) ' /sys/fs/cgroup/memory.stat /sys/fs/cgroup/memory/memory.stat 2>/dev/null
true
"""


def sample() -> Figures:
    told = docker("exec", CONTAINER, "sh", "-c", _SAMPLE)

    def number(pattern: str) -> int:
        found = re.search(pattern, told, re.MULTILINE)
        return int(found[1]) if found else 0

    return {
        "at": time.monotonic(),
        "rss": number(r"^VmRSS:\s+(\d+)") * 1024,
        "anonymous": number(r"^RssAnon:\s+(\d+)") * 1024,
        "cpu": number(r"^ns: (\d+)") / 1e9,
        "cgroup": number(r"^(?:\S+:)?(?:anon|rss) (\d+)$"),
    }


def table(figures: Figures) -> str:
    probe, test, cycle, review = (figures[name] for name in ("probe", "selftest", "cycle", "review"))
    idle_now, first = figures["idle"], figures["idle_first"]
    bare = median(review["bare"])
    rows = [
        (
            "Health probe",
            f"{probe['probe_ms']:.2f} ms; `/bin/true` {probe['true_ms']:.2f} ms",
            f"{probe['probe_ms'] / probe['true_ms']:.1f} times",
        ),
        (
            "Self-test, warm",
            f"median {median(test['function']):.2f} s, of {len(test['function'])}",
            f"as a command {median(test['command']):.2f} s",
        ),
        (
            "Unchanged cycle, 10 repositories of 50 pull requests",
            f"{cycle['requests']} requests, {cycle['not_modified']} of them 304, {median(cycle['seconds']):.2f} s",
            f"with its self-test {median(cycle['whole']):.2f} s",
        ),
        (
            "Review, over a bare `codex exec`",
            f"{median(review['codex']):.3f} s over {bare:.3f} s",
            f"{100 * (median(review['codex']) / bare - 1):+.0f} %",
        ),
        (
            "… with fetch and checkout",
            f"{median(review['reviewer']):.3f} s",
            f"{100 * (median(review['reviewer']) / bare - 1):+.0f} %",
        ),
        ("… as the command `review`, self-test and start of Python included", f"{median(review['command']):.2f} s", ""),
        (
            "Start to healthy",
            f"{figures['start_seconds']:.1f} s",
            f"the first of all {figures['first_start_seconds']:.1f} s",
        ),
        (
            "Idle memory of the process",
            f"{mb(idle_now['rss_bytes'])} MB, {mb(idle_now['anonymous_bytes'])} of it its own",
            f"after the first start {mb(first['rss_bytes'])} MB",
        ),
        ("Idle memory of the container, without caches", f"{mb(idle_now['cgroup_bytes'])} MB", ""),
        (f"Idle CPU over {IDLE_SECONDS} s", f"{idle_now['core_percent']:.3f} % of a core", ""),
        ("Image", f"{mb(figures['image_bytes'])} MB", ""),
        gate_check(figures["gate_check"]),
    ]
    lines = [f"| {what} | {figure} | {beside} |" for what, figure, beside in rows]
    return "\n".join([machine(), "", "| what | figure | |", "|---|---|---|", *lines])


def gate_check(told: Figures) -> tuple[str, str, str]:
    counts = (f"{told[name]} {name.replace('_', ' ')}" for name in COUNTED)
    codex = "the real Codex" if told["real_codex"] else "Codex's recorded events"
    return f"`gate-check`, {told['faults']} faults", ", ".join(counts), f"{told['seconds']:.0f} s, with {codex}"


def mb(count: int) -> str:
    return f"{count / 1e6:.0f}"


def machine() -> str:
    cpu = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores ({cpu[1] if cpu else platform.machine()}), {memory:.0f} GB, kernel"
        f" {platform.release().split('-')[0]}, engine {docker('version', '-f', '{{.Server.Version}}').strip()};"
        f" load at the end {load:.1f}; {datetime.now():%Y-%m-%d}"
    )


def say(what: str) -> None:
    print(f"… {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
