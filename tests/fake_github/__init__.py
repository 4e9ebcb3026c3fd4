"""A fake GitHub: its REST API and smart HTTP over real git repositories. Needs the standard library and git alone.

In a test:

    with FakeGitHub() as github:
        github.add_repository("octo/app", {"app.py": "print(1)\\n"})
        pull = github.add_pull("octo/app", "feature", files={"app.py": "print(2)\\n"})

In a container, with `tests` on PYTHONPATH: `python -m fake_github --port 8080 --repos DIR --token T`, and then
`RemoteFakeGitHub` or curl on `/_fake/…` (see `control`).
"""

from .fake import FakeGitHub
from .state import Comment, Exchange, Failure, Pull, Repository, Required, Status, Token

__all__ = ["Comment", "Exchange", "Failure", "FakeGitHub", "Pull", "Repository", "Required", "Status", "Token"]
