"""What is kept of GitHub's reviews and threads. Pure; as in `github_shapes`."""

from typing import Any

from appliance.forge import PostedReview, ThreadComment
from appliance.forge.github_shapes import Misshapen, Row, Shape, _list, _number, _object, _text, author_of


def keep_review(value: Any) -> Row:
    entry = _object(value, "review")
    return {
        "id": str(_number(entry, "id", "review")),
        "body": _text(entry, "body", "review", ""),
        "url": _text(entry, "html_url", "review", ""),
        "state": _text(entry, "state", "review"),
        "commit_id": _text(entry, "commit_id", "review", ""),  # null once the commit is gone
        "author": author_of(entry, "review"),
        "node_id": _text(entry, "node_id", "review", ""),
    }


def keep_reply(value: Any) -> Row:
    entry = _object(value, "review comment")
    return {
        "id": str(_number(entry, "id", "review comment")),
        "author": author_of(entry, "review comment"),
        "body": _text(entry, "body", "review comment", ""),
        "url": _text(entry, "html_url", "review comment", ""),
        "created_at": _text(entry, "created_at", "review comment", ""),
    }


def keep_threads(value: Any) -> Row:
    pull = _object(_object(_data(value, "repository"), "repository").get("pullRequest"), "pullRequest")
    connection = _object(pull.get("reviewThreads"), "reviewThreads")
    return {**_page(connection, "reviewThreads"), "rows": [_thread(one) for one in _nodes(connection, "reviewThreads")]}


def keep_thread(value: Any) -> Row:
    return _comments(_object(_data(value, "node"), "thread"))


def keep_review_count(value: Any) -> int:
    pull = _object(_object(_data(value, "repository"), "repository").get("pullRequest"), "pullRequest")
    return _count(_object(pull.get("reviews"), "reviews"), "reviews")


def keep_resolved(value: Any) -> bool:
    thread = _object(_data(value, "resolveReviewThread"), "resolveReviewThread").get("thread")
    return _object(thread, "thread").get("isResolved") is True


def keep_minimized(value: Any) -> bool:
    comment = _object(_data(value, "minimizeComment"), "minimizeComment").get("minimizedComment")
    return _object(comment, "minimizedComment").get("isMinimized") is True


def keep_viewer(value: Any) -> str:
    return _text(_object(_data(value, "viewer"), "viewer"), "login", "viewer")


def _data(value: Any, field: str) -> Any:
    return _object(_object(value, "answer").get("data"), "data").get(field)


def _thread(value: Any) -> Row:
    entry = _object(value, "thread")
    resolved = entry.get("isResolved")
    if not isinstance(resolved, bool):
        raise Misshapen("thread.isResolved is neither true nor false")
    return {
        "id": _text(entry, "id", "thread"),
        "resolved": resolved,
        "path": _text(entry, "path", "thread", ""),
        **_comments(entry),
    }


def _comments(entry: Row) -> Row:
    connection = _object(entry.get("comments"), "thread.comments")
    return {
        **_page(connection, "thread.comments"),
        "comments": [_comment(one) for one in _nodes(connection, "comments")],
    }


def _comment(value: Any) -> Row:
    entry = _object(value, "thread comment")
    author = entry.get("author")  # null for a deleted account
    name = "ghost" if author is None else _text(_object(author, "author"), "login", "author")
    if author is not None and author.get("__typename") == "Bot":
        name = f"{name.removesuffix('[bot]')}[bot]"  # so REST says it, and GraphQL does not
    return {
        "id": _text(entry, "fullDatabaseId", "thread comment"),
        "author": name,
        "body": _text(entry, "body", "thread comment", ""),
        "url": _text(entry, "url", "thread comment", ""),
        "created_at": _text(entry, "createdAt", "thread comment", ""),
    }


def _nodes(connection: Row, where: str) -> list[Any]:
    return _list(connection.get("nodes"), where)


def _page(connection: Row, where: str) -> Row:
    page = _object(connection.get("pageInfo"), f"{where}.pageInfo")
    more = page.get("hasNextPage")
    if not isinstance(more, bool):
        raise Misshapen(f"{where}.hasNextPage is neither true nor false")
    return {"total": _count(connection, where), "after": _text(page, "endCursor", where) if more else None}


def _count(connection: Row, where: str) -> int:
    total = connection.get("totalCount")
    if not isinstance(total, int) or isinstance(total, bool):
        raise Misshapen(f"{where}.totalCount is no number")
    return total


def _reviews(value: Any) -> list[Row]:
    return [keep_review(entry) for entry in _list(value, "the list of reviews")]


REVIEW = Shape("review-1", keep_review)
REVIEWS = Shape("reviews-1", _reviews)
REPLY = Shape("reply-1", keep_reply)
THREADS_KEPT = Shape("threads-1", keep_threads)
THREAD_KEPT = Shape("thread-1", keep_thread)
REVIEW_COUNT_KEPT = Shape("review-count-1", keep_review_count)
RESOLVED = Shape("resolved-1", keep_resolved)
MINIMIZED = Shape("minimized-1", keep_minimized)
VIEWER_KEPT = Shape("viewer-1", keep_viewer)


def review_of(row: Row) -> PostedReview:
    return PostedReview(**row)


def thread_comment_of(row: Row) -> ThreadComment:
    return ThreadComment(**row)
