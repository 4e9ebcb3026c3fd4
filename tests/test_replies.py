"""What people decide of a finding in its conversation: which words dismiss it, which do not, and whose count."""

import time
from collections.abc import Callable

import pytest

from appliance.core.replies import MAX_REASON, Reply, decided, read

DISMISSES = {
    "won't fix": "",
    "Won't fix.": "",
    "WON'T FIX!": "",
    "wont fix": "",
    "wontfix": "",
    "WONTFIX": "",
    "won\u2019t fix": "",
    "false positive": "",
    "False-positive.": "",
    "not a bug": "",
    "By design": "",
    "works as intended": "",
    "\n\n  False positive\r\n": "",
    "**Won't fix**": "",
    "*false positive*": "",
    "__Not a bug__.": "",
    "**False positive:** only tests call it": "only tests call it",
    "Won't fix: it is called once.": "it is called once.",
    "won't fix - it is called once": "it is called once",
    "Won't fix \u2014 legacy code": "legacy code",
    "False positive, the list is never empty": "the list is never empty",
    "False positive (the list is never empty)": "the list is never empty)",
    "False positive. No caller passes None.": "No caller passes None.",
    "False positive. Not reachable.": "Not reachable.",
    "By design because the cache is cold": "because the cache is cold",
    "Won't fix this.": "this.",
    "Won't fix in this pull request": "in this pull request",
    "Won't fix here": "here",
    "Not a bug: why would anybody call it with None?": "why would anybody call it with None?",
    "Won't fix: `take()` is only called with x": "`take()` is only called with x",
    "False positive\nThe loop ends at len(x).": "The loop ends at len(x).",
    "Thank you for looking.\n\nWon't fix: legacy.": "legacy.",
    "The loop ends at len(x).\n\nFalse positive.": "The loop ends at len(x).",
    "The loop ends at len(x).\nFalse positive.": "The loop ends at len(x).",
    "> It breaks at five.\n\nFalse positive: it does not.": "it does not.",
    "False positive: a\n> quoted\n\nb": "a b",
    "False positive: a\n```\ncode\n```\nb": "a b",
    "False positive <!-- but not -->": "",
    "False positive: a\u202eb\U000e0041c": "a\ufffdb\ufffdc",
    "Won't fix.\n\nWhen it is called twice, the lock holds.": "When it is called twice, the lock holds.",
}


@pytest.mark.parametrize("body", DISMISSES)
def test_dismisses_for_the_reason_that_follows(body: str) -> None:
    found = read(body)
    assert found is not None and (found.state, found.reason) == ("dismissed", DISMISSES[body])


DECIDES_NOTHING = [
    "",
    "fixed",
    "is this a false positive?",
    "Is this a\nfalse positive",
    "False positive?",
    "false positive, or is it?",
    "False positive. Right?",
    "False positive - right?",
    "False positive: is it?",
    "won't fix?",
    "Won't fix, ok?",
    "Won't fix: can we do that later?",
    "By design? I doubt it.",
    "not a false positive",
    "This is not a false positive.",
    "This is not a\nfalse positive",
    "I do not think it is a false positive",
    "this won't fix the bug",
    "Won't fix the bug, you need to lock it too",
    "Won't fix itself",
    "It won't fix",
    "We should label it: won't fix",
    "False positive rate is too high",
    "False positives are a problem",
    "Not a bug fix, a new feature",
    "By design we lock it twice",
    "By designers",
    "wontfixing",
    "works as intended only on Linux",
    "False positive, but fix it all the same",
    "False positive... or not",
    "False positive. No, wait, it is one.",
    "Won't fix unless you insist",
    "Won't fix, unless you insist",
    "won't fix \u2014 actually I will",
    "False positive, probably",
    "False positive\n\nJust kidding.",
    "~~won't fix~~",
    "\u201cwon't fix\u201d is no answer",
    '"False positive"',
    "> won't fix",
    "> why?\nwon't fix",
    ">won't fix\n\nI disagree",
    ">> false positive",
    "`won't fix`",
    "``won't fix``: legacy",
    "`a\nwon't fix\nb`",
    "```\nwon't fix\n```",
    "~~~\nfalse positive\n~~~",
    "```\nwon't fix",
    "`a.\nwon't fix\nb`",
    "~~~\n\nfalse positive\n~~~",
    "> a.\nwon't fix",
    "````\n```\nwon't fix\n````",
    "    won't fix",
    "\twon't fix",
    "<!-- won't fix -->",
    "<!--\nwon't fix\n-->",
    "<!--\n\nwon't fix",
    "<details>\n\nwon't fix\n\n</details>",
    "<del>\nwon't fix\n</del>",
    "<blockquote>\n\nwon't fix",
    "<b>won't fix</b>",
    "- won't fix\n- fix later",
    "1. won't fix",
    "- [ ] won't fix",
    "# Won't fix",
    "| won't fix |",
    "[won't fix](https://example.com)",
    "@alice won't fix",
    "/wontfix",
    "won't\nfix",
    "reopen?",
    "Should I reopen?",
    "reopening it",
    "> reopen",
    "`reopen`",
    " " * 20_000 + "won't fix",
]


@pytest.mark.parametrize("body", DECIDES_NOTHING)
def test_decides_nothing(body: str) -> None:
    assert read(body) is None


@pytest.mark.parametrize(
    "body",
    [
        "reopen",
        "Reopen.",
        "**Reopen**: it does happen",
        "re-open",
        "Sorry.\n\nReopen",
        "reopen this, please",
        "Won't fix.\n\nReopen",
        "Reopen\n\nfalse positive",
    ],
)
def test_opens_again_and_both_in_one_keep_it_open(body: str) -> None:
    found = read(body)
    assert found is not None and found.state == "open"


def test_a_reason_has_a_bound() -> None:
    found = read("Won't fix: " + "x" * 5000)
    assert found and found.reason == "x" * MAX_REASON


@pytest.mark.parametrize(
    "part", ["`", "``` \n", "<!--", "<del>", "won't fix ", "> \n", "a.\nfalse positive? ", "*" * 5, "- "]
)
def test_a_long_reply_is_read_in_no_time(part: str) -> None:
    before = time.monotonic()
    read(part * (65_536 // len(part)))
    read("won't fix" + part * (65_536 // len(part)))
    assert time.monotonic() - before < 1.0


MAY = {"alice", "bob", "me"}


def may(name: str) -> bool:
    return name in MAY


def said(*replies: tuple[str, str]) -> list[Reply]:
    return [Reply(number, author, body) for number, (author, body) in enumerate(replies, 1)]


def newest(replies: list[Reply], last: int = 0, may_write: Callable[[str], bool] = may) -> tuple[int, str] | None:
    found = decided(replies, last, may_write)
    return (found[0].id, found[1].state) if found else None


def test_the_newest_decision_of_somebody_who_may_write_holds() -> None:
    assert newest(said(("alice", "won't fix"), ("bob", "reopen"))) == (2, "open")
    assert newest(said(("bob", "reopen"), ("alice", "won't fix"))) == (2, "dismissed")
    assert newest(said(("alice", "won't fix"), ("mallory", "reopen"))) == (1, "dismissed")
    assert newest(said(("mallory", "won't fix"))) is None
    assert newest(said(("alice", "won't fix"), ("bob", "I see."))) == (1, "dismissed")
    assert newest(list(reversed(said(("alice", "won't fix"), ("bob", "reopen"))))) == (2, "open")


@pytest.mark.parametrize("author", ["", "ghost", "Ghost", "alice[bot]", "renovate[bot]"])
def test_nobody_and_no_bot_decides(author: str) -> None:
    assert decided(said((author, "won't fix")), 0, lambda _: True) is None


def test_what_is_ours_or_looks_like_it_decides_nothing() -> None:
    assert decided([Reply(1, "me", "won't fix", ours=True)], 0, may) is None
    assert decided(said(("alice", "won't fix\n\n<!-- review-appliance:tag eyJ9 " + "0" * 64 + " -->")), 0, may) is None
    assert newest(said(("me", "won't fix"))) == (1, "dismissed"), "under the account of the token a person may write"


def test_what_stood_before_the_last_decision_decides_no_more() -> None:
    replies = said(("alice", "won't fix"), ("bob", "reopen"))
    assert newest(replies[:1], last=2) is None, "the reply that opened it again was deleted"
    assert newest(replies, last=2) == (2, "open")
    assert newest(said(("alice", "won't fix"), ("bob", "reopen"), ("alice", "false positive")), last=2) == (
        3,
        "dismissed",
    )


def test_nobody_is_asked_for_who_decides_nothing_or_is_overruled() -> None:
    asked: list[str] = []

    def may_write(name: str) -> bool:
        asked.append(name)
        return True

    decided(said(("carol", "won't fix"), ("alice", "false positive"), ("mallory", "why?")), 0, may_write)
    assert asked == ["alice"]


def test_while_it_is_unknown_who_may_write_nothing_is_decided() -> None:
    def unknown(_: str) -> bool:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        decided(said(("alice", "won't fix"), ("bob", "reopen")), 0, unknown)


@pytest.mark.parametrize(
    "said",
    [
        "won't fix, provided that the check is added first",
        "won't fix, assuming CI covers it",
        "by design, as long as nobody calls it twice",
        "false positive, pending confirmation by @bob",
        "False positive (to be confirmed)",
        "false positive: only if the list is sorted",
        "False positive. On second thought, it is real.",
        "False positive. Wrong: it is real.",
        "false positive - not!",
        "By design, not.",
        "By design: no way",
        "false positive: definitely not",
        "Not a bug: false, it is one",
        "False positive.\nHmm, I take that back.",
    ],
)
def test_what_is_taken_back_or_depends_on_something_dismisses_nothing(said: str) -> None:
    assert read(said) is None


@pytest.mark.parametrize(
    "said",
    [
        "won't fix: this code is going away.",
        "False positive: the list is never empty.",
        "By design, see the docs.",
        "Not a bug: not reachable from outside.",
        "false positive - no caller passes None",
        "Not a bug. No caller passes None.",
        "won't fix: assumptions are documented",
        "won't fix, wrong layer for that",
    ],
)
def test_a_reason_is_one(said: str) -> None:
    assert (found := read(said)) is not None and found.state == "dismissed"
