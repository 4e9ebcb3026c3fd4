"""What GitHub has in GraphQL alone: the queries, and its errors, which it answers with 200. Pure."""

import json
from typing import Any

import httpx

from appliance.forge import ForgeError
from appliance.forge.github_errors import Answer, error_of, message_of, rate_limited, refused, unreachable
from appliance.forge.github_limits import FIRST_PAUSE, LONGEST_PAUSE, sounds_limited, until_reset
from appliance.redaction import redacted

# `fullDatabaseId` is the number that REST knows a comment by; `databaseId`, an Int of 32 bits, no longer holds it.
_COMMENTS = """
    totalCount
    pageInfo { hasNextPage endCursor }
    nodes { fullDatabaseId body url createdAt author { __typename login } }
"""
THREADS = f"""
query($owner: String!, $name: String!, $number: Int!, $after: String) {{
  repository(owner: $owner, name: $name) {{
    pullRequest(number: $number) {{
      reviewThreads(first: 50, after: $after) {{
        totalCount
        pageInfo {{ hasNextPage endCursor }}
        nodes {{ id isResolved path comments(first: 50) {{ {_COMMENTS} }} }}
      }}
    }}
  }}
}}"""
THREAD = f"""
query($id: ID!, $after: String) {{
  node(id: $id) {{
    ... on PullRequestReviewThread {{ comments(first: 100, after: $after) {{ {_COMMENTS} }} }}
  }}
}}"""
REVIEW_COUNT = """
query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { reviews { totalCount } } }
}"""
VIEWER = "query { viewer { login } }"
RESOLVE = """
mutation($id: ID!) { resolveReviewThread(input: {threadId: $id}) { thread { isResolved } } }"""
MINIMIZE = """
mutation($id: ID!) {
  minimizeComment(input: {subjectId: $id, classifier: OUTDATED}) { minimizedComment { isMinimized } }
}"""

REMEDY = (
    "give the token write access to pull requests; a GitHub Enterprise Server needs GraphQL, as every version since "
    "3.10 has it."
)
_FORBIDDEN = frozenset({"FORBIDDEN", "INSUFFICIENT_SCOPES", "UNAUTHENTICATED"})
# Told without a type, when GitHub's own backend fails: the same question may be answered a moment later.
_PASSING = ("something went wrong", "timed out", "timeout", "try again", "couldn't respond")


def graphql_url(api_url: httpx.URL) -> str:
    """GitHub Enterprise Server has it beside its REST API: /api/v3 and /api/graphql."""
    base = str(api_url).rstrip("/")
    return f"{base.removesuffix('/v3')}/graphql" if base.endswith("/api/v3") else f"{base}/graphql"


def graphql_unavailable(answer: Answer) -> ForgeError:
    """The error of an answer that is no 200."""
    error = error_of(answer)
    if error.cause != "forge-not-found":
        return error
    return refused(f"GitHub has no GraphQL here: {error}", remedy=REMEDY)


def graphql_error(answer: Answer, now: float) -> ForgeError | None:
    """The typed error of a 200 that has `errors`; None if it has none. `now` is in seconds of the epoch."""
    try:
        told = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None  # whoever reads the data says that it is no JSON
    errors = told.get("errors") if isinstance(told, dict) else None
    if not errors:
        return None
    listed = [one for one in errors if isinstance(one, dict)] if isinstance(errors, list) else []
    kinds = {str(one.get("type") or "") for one in listed}
    said = redacted(message_of(answer.body)) or "nothing"
    message = f"GitHub refuses a GraphQL request to {answer.url}: {said}"
    if "RATE_LIMITED" in kinds or sounds_limited(answer):  # a budget of its own, beside that of REST
        wait = min(max(until_reset(answer) or 0.0, FIRST_PAUSE), LONGEST_PAUSE)
        return rate_limited(f"GitHub limits our requests: {message}", now + wait)
    if kinds & _FORBIDDEN:
        return ForgeError("forge-permission", message, remedy=REMEDY, permanent=True)
    if "NOT_FOUND" in kinds:
        remedy = "check the name in APPLIANCE_REPOSITORIES and that the token may see it; what was named may be gone."
        return ForgeError("forge-not-found", message, remedy=remedy, permanent=True)
    if kinds <= {""} and not any(_code(one) for one in listed):
        return unreachable(message)
    if any(words in said.casefold() for words in _PASSING):
        return unreachable(message)
    return refused(message, remedy=REMEDY)


def _code(error: dict[str, Any]) -> str:
    """What the server says of a query that it cannot read, such as "undefinedField" of an older one."""
    extensions = error.get("extensions")
    return str(extensions.get("code") or "") if isinstance(extensions, dict) else ""
