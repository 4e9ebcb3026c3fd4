"""`python -m fake_github`: the fake as a program."""

import argparse
import signal
import threading
from pathlib import Path

from . import FakeGitHub


def main() -> None:
    parser = argparse.ArgumentParser(prog="fake_github", description="A fake GitHub over real git repositories.")
    parser.add_argument("--host", default="0.0.0.0")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--repos", type=Path, help="directory with owner/name.git; a temporary one if not given")
    parser.add_argument("--token", default="fake-token")
    options = parser.parse_args()
    if options.repos:
        options.repos.mkdir(parents=True, exist_ok=True)
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, lambda *_: ended.set())
    with FakeGitHub(options.repos, token=options.token, host=options.host, port=options.port) as github:
        print(f"fake GitHub on port {github.port}, repositories in {github.root}", flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
