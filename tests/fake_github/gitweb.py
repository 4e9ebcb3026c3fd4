"""Smart HTTP: git's own backend behind GitHub's rules of access."""

import re

from . import repos
from .fake import FakeGitHub
from .state import Request, Response

PATH = re.compile(r"/(?P<owner>[^/]+)/(?P<name>[^/]+?)\.git(?P<rest>/info/refs|/git-upload-pack|/git-receive-pack)")


def answer(fake: FakeGitHub, request: Request) -> Response:
    from .server import token_of

    match = PATH.fullmatch(request.path)
    assert match is not None
    name = f"{match['owner']}/{match['name']}".casefold()
    repository = fake.repositories.get(name)
    for other in fake.repositories.values():
        if repository is None and name in other.old_names:
            query = "&".join(f"{key}={value}" for key, value in request.query.items())
            where = f"{request.base}/{other.full_name}.git{match['rest']}?{query}"
            return Response(301, None, {"Location": where})
    authorization = request.headers.get("authorization", "")
    token = token_of(fake, authorization) if authorization else None
    writes = "git-receive-pack" in (request.query.get("service", ""), match["rest"].strip("/"))
    may = token is not None and (token.sees is None or (repository is not None and repository.full_name in token.sees))
    if (authorization and token is None) or (not may and (repository is None or repository.private or writes)):
        return Response(
            401, "Repository not found.", {"WWW-Authenticate": 'Basic realm="GitHub"', "Content-Type": "text/plain"}
        )
    if token is not None and "contents" in token.lacks and repository is not None and repository.private:
        # GitHub's own words, though it was a read that was asked for.
        return Response(403, "Write access to repository not granted.", {"Content-Type": "text/plain"})
    if repository is None:
        return Response(404, "Repository not found.", {"Content-Type": "text/plain"})
    query = "&".join(f"{key}={value}" for key, value in request.query.items())
    user = token.login if token is not None and token.writes else ""
    status, headers, body = repos.backend(
        repository.path, match["rest"], request.method, query, request.headers, request.body, user
    )
    if match["rest"] == "/git-receive-pack":
        with fake.lock:
            fake.sync(repository.full_name)
    return Response(status, None, headers, body)
