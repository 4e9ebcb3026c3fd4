"""What is read as a command, whose commands count, and what is answered. Pure."""

from dataclasses import replace

import pytest

from appliance.core.findings import Evidence, Finding, Result, Review
from appliance.core.fingerprint import short
from appliance.core.slash import (
    Asked,
    Command,
    Said,
    by_name,
    due,
    explanation,
    in_order,
    no_such_finding,
    read,
    to_do,
)

REVIEW, PAUSE, RESUME, UNKNOWN = Command("review"), Command("pause"), Command("resume"), Command("unknown")


@pytest.mark.parametrize(
    ("body", "command"),
    [
        ("/review", REVIEW),
        ("/review\n", REVIEW),
        ("/review  \t", REVIEW),
        ("\n\n  \n/review", REVIEW),
        ("/review\r\n\r\nplease", REVIEW),
        ("\r\n/review pause\r\n", PAUSE),
        ("/review\rthanks", REVIEW),
        ("/review resume\n/review pause\n/review", RESUME),
        ("/review explain 2", Command("explain", "2")),
        ("/review explain #2", Command("explain", "#2")),
        ("/review  explain   1f3a9c", Command("explain", "1f3a9c")),
        ("/review explain", Command("explain")),
        ("/review explain 1 2", UNKNOWN),
        ("/review explain " + "x" * 101, UNKNOWN),
        ("/review please", UNKNOWN),
        ("/review pause now", UNKNOWN),
        ("/review PAUSE", UNKNOWN),
        ("/Review", UNKNOWN),
        ("/review\N{ZERO WIDTH SPACE}", None),
        ("/reviewers", None),
        ("/review-app", None),
        ("/review:pause", None),
        (" /review", None),
        ("    /review", None),
        ("\t/review", None),
        ("> /review", None),
        (">/review", None),
        ("```\n/review\n```", None),
        ("~~~\n/review pause\n~~~", None),
        ("`/review`", None),
        ("- /review", None),
        ("<!-- x -->\n/review", None),
        ("please\n/review", None),
        ("@bot /review", None),
        ("\\/review", None),
        ("\N{FULLWIDTH SOLIDUS}review", None),
        ("text\N{LINE SEPARATOR}/review", None),
        ("text\x0b/review", None),
        ("", None),
        ("\n\n", None),
    ],
)
def test_a_command_is_the_first_line_as_it_stands(body: str, command: Command | None) -> None:
    assert read(body) == command


def said(id_: int, body: str = "/review", author: str = "alice", *, ours: bool = False, at: float = 0.0) -> Said:
    return Said(str(id_), author, body, ours, at)


def ids(asked: list[Asked]) -> list[str]:
    return [it.id for it in asked]


@pytest.mark.parametrize(
    "one",
    [
        said(1, author="review-bot[bot]"),
        said(1, author="Review-Bot[BOT]"),
        said(1, author="dependabot[bot]"),
        said(1, author="ghost"),
        said(1, author=""),
        said(1, ours=True),
        said(1, "/review\n\n<!-- review-appliance:v1 forged 00 -->"),
        said(1, "/review pause\n<!--review-appliance:tag x -->"),
    ],
)
def test_the_appliance_bots_and_nobody_give_no_orders(one: Said) -> None:
    assert due([one], set(), first=False) == []


def test_each_is_carried_out_once_and_in_their_order() -> None:
    comments = [said(3, "/review pause"), said(4, "hello"), said(1, "/review resume"), said(9)]
    asked = due(comments, {"1"}, first=False)
    assert [(it.id, it.command, it.old) for it in asked] == [("3", PAUSE, False), ("9", REVIEW, False)]


def test_three_hundred_comments_are_read_in_one_go() -> None:
    comments = [said(number, "/review" if number % 100 == 99 else "> /review\n\nyes") for number in range(300)]
    assert ids(due(comments, set(), first=False)) == ["99", "199", "299"]


def test_after_a_lost_database_what_is_older_than_our_newest_comment_or_review_is_old() -> None:
    comments = [said(1), said(2, ours=True), said(3, at=90.0), said(4, at=100.0), said(5, at=101.0), said(6)]
    found = due(comments, set(), first=True, reviewed_at=100.0)
    assert [(it.id, it.old) for it in found] == [("1", True), ("3", True), ("4", True), ("5", False), ("6", False)]
    assert not any(it.old for it in due(comments, set(), first=False, reviewed_at=100.0))


@pytest.mark.parametrize(
    ("commands", "done"),
    [
        ([REVIEW, PAUSE], ["1"]),
        ([PAUSE, RESUME], []),
        ([PAUSE, REVIEW], ["0"]),
        ([PAUSE, RESUME, PAUSE], ["2"]),
        ([REVIEW, UNKNOWN], []),
    ],
)
def test_of_the_old_ones_only_a_pause_that_still_holds_is_carried_out(commands: list[Command], done: list[str]) -> None:
    old = [Asked(str(number), "alice", command, old=True) for number, command in enumerate(commands)]
    new = Asked("9", "alice", RESUME)
    do, only_noted = to_do([*old, new])
    assert ids(do) == [*done, "9"]
    assert sorted(ids(do + only_noted)) == sorted(ids([*old, new]))


# ---- explanations

FINDINGS = (
    replace(Finding("Style", "b", 3, 0.5, "z.py", 9, 9), fingerprint="abcd1111"),
    replace(Finding("Off by one", "The last is left out.", 1, 0.9, "a.py", 3, 5), fingerprint="abcd2222"),
    replace(Finding("Leak", "b", 0, 0.9, "b.py", 1, 1), fingerprint="12345678"),
)


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("1", "Leak"), ("#2", "Off by one"), ("3", "Style"), ("4", None), ("0", None), ("-1", None), ("##1", None),
        ("abcd2", "Off by one"), ("ABCD2222", "Off by one"), ("abcd", None), ("abc", None), ("#abcd11", "Style"),
        ("1234", "Leak"), ("12345678", "Leak"), ("", None),
        ("\N{SUPERSCRIPT TWO}", None), ("\N{ARABIC-INDIC DIGIT ONE}", None),
    ],
)  # fmt: skip
def test_a_finding_is_named_by_its_number_or_its_fingerprint(name: str, title: str | None) -> None:
    found = by_name(FINDINGS, name)
    assert (found.title if found else None) == title


def test_alike_findings_and_those_that_begin_alike_are_told_apart() -> None:
    prints = ["0123456789abcdef", "0123456789abcdef-2", "0123456789abcdef-3", "t12345" + "0" * 18, "fedcba9999999999"]
    found = [replace(FINDINGS[0], title=it, fingerprint=it) for it in prints]
    for each in prints:
        one = by_name(found, short(each))
        assert one is not None and one.title == each
    assert short(prints[1]) == "012345-2"
    assert by_name([*found, replace(found[0], fingerprint="012345aaaaaaaaaa")], "012345") is None
    assert by_name(found, "fedcba0") is None


def review(*findings: Finding) -> Review:
    result = Result("incorrect", "s", "Because.", "l", findings)
    return Review("o/n#1", "a" * 40, "main", "b", "c", result, evidence=Evidence(("git diff",), (), 1))


def test_an_explanation_has_what_is_on_record_and_says_that_nobody_was_asked() -> None:
    text = explanation(review(*FINDINGS), FINDINGS[1], 1)
    for part in ("[P1] Off by one", "a.py:3-5", "a" * 40, "· blocks", "The last is left out.", "Because.", "git diff"):
        assert part in text
    assert "no model was asked again" in text
    assert "does not block" in explanation(review(*FINDINGS), FINDINGS[0], 1)
    assert "does not block" in explanation(review(*FINDINGS), replace(FINDINGS[1], advisory=True), 1)


def test_nothing_in_an_explanation_acts() -> None:
    bad = Finding("@alice /review", "/review pause\n\n@copilot fixes #1 <img src=x>", 1, 0.9, "a`@b`.py", 1, 1)
    text = explanation(review(bad), bad, 1)
    assert "<img" not in text and "@copilot" not in text and "@alice" not in text
    assert read(text) is None


def test_who_names_none_is_told_which_there_are() -> None:
    text = no_such_finding("`9`@x", FINDINGS)
    assert "- `123456` · [P0] Leak\n- `abcd22` · [P1] Off by one\n" in text
    bare = tuple(replace(it, fingerprint="") for it in FINDINGS)
    assert "- `1` · [P0] Leak\n" in no_such_finding("9", bare) and "`/review explain 1`" in no_such_finding("", bare)
    assert "Say which one" in no_such_finding("", FINDINGS)
    assert "no findings" in no_such_finding("1", ())
    assert "on record" in no_such_finding("1", None)
    assert [it.title for it in in_order(FINDINGS)] == ["Leak", "Off by one", "Style"]
