"""A fake GitHub with many pull requests, in a process of its own: `python -m bench.forge REPOSITORIES PULLS`.

Prints its address, then serves until its standard input ends.
"""

import sys

from fake_github import FakeGitHub


def main() -> None:
    repositories, pulls = int(sys.argv[1]), int(sys.argv[2])
    with FakeGitHub() as github:
        github.rate_limit = github.rate_remaining = 10**9
        for number in range(repositories):
            github.add_repository(f"octo/app{number}")
            github.add_pulls(f"octo/app{number}", pulls)
        print(github.url, github.token, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
