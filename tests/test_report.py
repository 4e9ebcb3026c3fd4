"""The comment: it names exactly what was looked at, fits, and holds nothing that acts (DESIGN scenario 7)."""

import json
import random
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from appliance.core import marker as markers
from appliance.core.findings import Evidence, Finding, Result, Review, Usage
from appliance.core.inert import code, inert
from appliance.core.marker import Marker
from appliance.core.report import CUT, MAX_COMMENT, as_json, comment, marker_findings
from appliance.core.verdict import Gate, gate_of

HEAD, BASE, MERGE = "a" * 40, "b" * 40, "c" * 40
KEY = b"k" * 32
INVISIBLE = "\N{ZERO WIDTH SPACE}"
FINDING = Finding("Off by one", "The last one is left out.", 1, 0.875, "src/a.py", 3, 4)


def review(*findings: Finding, **texts: str) -> Review:
    parts = {"summary": "It adds a loop.", "reasoning": "The loop ends early.", "limits": "No test was run."} | texts
    return Review(
        target="octo/app#1",
        head_sha=HEAD,
        base_ref="main",
        base_sha=BASE,
        merge_base=MERGE,
        result=Result("incorrect", parts["summary"], parts["reasoning"], parts["limits"], findings),
        usage=Usage(12_345, 1_000, 678, 90),
        evidence=Evidence(("git diff b a", "cat `x`"), ("ls /nope",), 7),
        seconds=61.4,
        model="gpt-5.5",
    )


def rendered(given: Review, marker: str = "", earlier: Marker | None = None) -> str:
    link = lambda path, first, last: f"https://forge.example/blob/{HEAD}/{path}#L{first}-L{last}"  # noqa: E731
    return comment(given, gate_of(given, 1), 1, link, marker, earlier)


def earlier(*findings: tuple[int, str, str]) -> Marker:
    return Marker("octo/app#1", "d" * 40, "main", BASE, MERGE, "failure", "1 blocking finding (P1)", 5.0, findings)


def test_it_names_what_was_looked_at_what_was_found_and_what_was_not_done() -> None:
    text = rendered(review(FINDING, replace(FINDING, title="A nit", priority=3, line_end=3)))
    for expected in (
        "## Codex review: 1 blocking finding (P1)",
        f"Reviewed head `{HEAD}` against base `main` at `{BASE}` (merge base `{MERGE}`).",
        "It adds a loop.",
        f"### [P1] Off by one\n\n[`src/a.py:3-4`](https://forge.example/blob/{HEAD}/src/a.py#L3-L4)"
        " · blocks · confidence 0.88\n\nThe last one is left out.",
        "### [P3] A nit\n\n[`src/a.py:3`]",
        "**Verdict: incorrect**\n\nThe loop ends early.",
        "**Evidence**: 7 files changed, 2 commands ran in the sandbox, 1 command failed.",
        "- `git diff b a`\n- `` cat `x` ``",
        "**Limits**\n\nNo test was run.",
        "gpt-5.5 · 12,345 tokens in (1,000 cached), 678 out · 61 s",
    ):
        assert expected in text
    assert "Rehearsal" not in text
    assert "\N{ZERO WIDTH SPACE}" not in text


def test_the_gravest_comes_first() -> None:
    text = rendered(review(*(replace(FINDING, title=f"number {p}", priority=p) for p in (3, 0, 2))))
    assert re.findall(r"### \[P(\d)\]", text) == ["0", "2", "3"]


def test_no_findings_and_a_rehearsal_are_said() -> None:
    assert "No findings." in rendered(review())
    assert "**Rehearsal**" in rendered(replace(review(), rehearsal=True))
    assert "No findings." not in rendered(replace(review(), nothing_to_review=True))
    assert "**Limits**\n\nnone named" in rendered(review(limits=" "))


def test_a_later_review_says_what_became_of_each_earlier_finding() -> None:
    before = earlier((1, "src/a.py", "off by ONE."), (2, "src/b.py", "Leaks a handle"), (1, "src/c.py", "Off by one"))
    text = rendered(review(FINDING), earlier=before)
    assert f"supersedes the one of head `{'d' * 40}`. Of its findings:" in text
    assert "- [P1] off by ONE. (`src/a.py`): reported again" in text
    assert "- [P2] Leaks a handle (`src/b.py`): not reported any more" in text
    assert "- [P1] Off by one (`src/c.py`): not reported any more" in text
    assert "which had no findings." in rendered(review(), earlier=earlier())
    assert "supersedes" not in rendered(review())


@pytest.mark.parametrize(
    ("hostile", "gone"),
    [
        ("@copilot fix this", "@copilot"),
        ("fixes #1", "#1"),
        ("Closes octo/app#12", "#12"),
        ("resolves GH-7", "GH-7"),
        ("fixes https://github.com/o/r/issues/1", "://"),
        ("<img src=x onerror=y>", "<img"),
        ("<!-- hidden", "<!--"),
        ("</div>", "</div>"),
        ("<https://evil.example>", "<https"),
        ("![x](https://evil.example/?id=1)", "![x]"),
        ("[docs](https://evil.example/?utm_source=x)", "]("),
        ("[docs](/octo/app/settings)", "]("),
        ("[docs][1]\n\n[1]: https://evil.example", "]:"),
        ("www.evil.example/?q=1", "www."),
        ("&#64;copilot", "&#64;"),
        ("&commat;copilot &#x40;copilot", "&commat;"),
        ("&lt;img&gt;", "&lt;"),
        ("/approve", "/approve"),
        ("fine\n/lgtm", "\n/lgtm"),
        ("left\u202eright", "\u202e"),
        ("bell\x07 \x1b[31m", "\x1b"),
    ],
)
def test_r48_nothing_of_the_models_text_acts(hostile: str, gone: str) -> None:
    """Mentions, references, HTML, links and addresses, also by way of an entity."""
    for text in (inert(hostile), inert(hostile, one_line=True), rendered(review(summary=hostile))):
        assert gone not in text.replace(f"](https://forge.example/blob/{HEAD}", "")


@pytest.mark.parametrize(
    "text", ["if a < b and c > d: x[i] = y & z", "C#, item # 3, a@", "10:30 // comment", "a\n\n- b\n- c"]
)
def test_what_acts_on_nothing_stays_as_it_is(text: str) -> None:
    assert inert(text) == text


def test_an_invisible_character_is_all_that_is_added() -> None:
    text = "`a<b>` @x #1 ![i](u) [l](u) &amp; http://x www.y\n/cmd"
    assert inert(text).replace(INVISIBLE, "") == text


def parsed(text: str) -> list[Token]:
    return MarkdownIt("commonmark").parse(text)


def inlines(text: str) -> list[Token]:
    return [child for token in parsed(text) for child in token.children or ()]


def has_verdict(text: str) -> bool:
    """Whether the verdict stands at the top level, in no code and no quotation."""
    return any(
        token.level == 1 and token.content == "**Verdict: incorrect**" for token in parsed(text) if token.children
    )


FENCES = [
    "```\ncode",
    "````\n```",
    "```\n~~~",
    "~~~ x\n```",
    "- ```\n  x\nout\n```",
    "> ```\nx",
    "   ```\nx",
    "1. ~~~\n\ny",
    "`" * 50 + "\nx",
    "```x`y\n```",
    "\t```",
    "```\n    ```",
    "```\n```x",
    "<details>\n\n<!--",
    "| a |\n|---|",
]


@pytest.mark.parametrize("body", FENCES)
def test_no_fence_swallows_the_verdict(body: str) -> None:
    assert has_verdict(rendered(review(replace(FINDING, body=body))))
    assert has_verdict(rendered(review(FINDING, summary=body)))
    assert "<sub>" in {token.content for token in inlines(rendered(review(limits=body))) if token.type == "html_inline"}


def test_a_good_fence_stays_a_fence() -> None:
    body = "Use:\n\n```python\nfor x in y:\n    pass\n```\n\nand so on"
    assert inert(body) == body


def test_any_mixture_of_hostile_pieces_is_inert() -> None:
    pieces = [
        *FENCES,
        "@a",
        "<b>",
        "](u)",
        "[a",
        "![",
        "#1",
        "&#64;",
        "http://",
        "\n",
        "\n\n",
        "`",
        "``",
        "  ",
        "- ",
        "> ",
        "x",
    ]
    dice = random.Random(48)
    allowed = {"<details>", "</details>", "<summary>", "</summary>", "<sub>", "</sub>"}
    for _ in range(300):
        mixed = ["".join(dice.choices(pieces, k=dice.randint(1, 12))) for _ in range(5)]
        body, title, summary, reasoning, limits = mixed
        given = review(
            replace(FINDING, body=body, title=title or "t", path=title or "p"),
            summary=summary,
            reasoning=reasoning,
            limits=limits,
        )
        text = comment(given, gate_of(given, 1), 1, lambda *_: None)
        assert has_verdict(text), mixed
        for token in parsed(text):
            if token.type == "html_block":
                assert set(re.findall(r"<[^>]*>", token.content)) <= allowed, mixed
        for token in inlines(text):
            assert token.type not in ("link_open", "image"), mixed
            assert token.type != "html_inline" or token.content in allowed, mixed
            if token.type == "text":
                assert not re.search(r"@\w|#\d|https?://|<[a-z!/]", token.content), mixed


def test_a_code_span_holds_any_path() -> None:
    for path in ("a`b", "`", "``", "a\nb", "x" * 500, "a|b", "a\x00b", "<b>", "\\"):
        [span] = [token for token in inlines(f"see {code(path)} there") if token.type == "code_inline"]
        assert "\n" not in span.content


def long_review(**sizes: int) -> Review:
    texts = {name: f"{name} " + "word " * (size // 5) for name, size in sizes.items() if name != "body"}
    return review(FINDING, replace(FINDING, title="Second", body="word " * (sizes.get("body", 0) // 5)), **texts)


@pytest.mark.parametrize(
    "given",
    [
        long_review(body=70_000),
        long_review(summary=70_000),
        long_review(reasoning=70_000),
        long_review(limits=70_000),
        long_review(body=70_000, summary=70_000, reasoning=70_000, limits=70_000),
        review(*[replace(FINDING, title="評" * 5000, path="評" * 5000, body="@" * 3000)] * 60),
        review(replace(FINDING, body="```\n" + "code\n" * 20_000 + "```")),
        review(replace(FINDING, body="`" * 70_000)),
        review(replace(FINDING, body="> " * 33_000 + "```\n")),
        replace(review(), evidence=Evidence(tuple("x" * 1000 for _ in range(50))), model="m" * 5000),
    ],
    ids=range(10),
)
def test_r22_whatever_is_too_long_is_cut_with_a_notice_and_the_verdict_and_the_marker_stay(given: Review) -> None:
    gate = gate_of(given, 1)
    findings = marker_findings(given.result.findings, markers.MAX_FINDINGS)
    old = earlier(*[(1, "評" * 200, "評" * 120)] * 50)
    mark = replace(old, head_sha=HEAD, findings=findings)
    for text in (rendered(given, markers.render(mark, KEY), old), rendered(given, markers.render(mark, KEY))):
        assert len(text) <= MAX_COMMENT
        assert has_verdict(text)
        read = markers.read(text, KEY)
        assert read is not None
        assert (read.head_sha, read.gate) == (HEAD, mark.gate)
        assert f"## Codex review: {gate.description}" in text
        assert f"base `main` at `{BASE}`" in text
    assert CUT.strip() in text or len(given.evidence.commands) == 50


def test_the_json_of_the_contract() -> None:
    given = review(FINDING)
    told = json.loads(json.dumps(as_json(given, Gate("failure", "1 blocking finding (P1)"))))
    told_first = ["target", "head_sha", "base_sha", "merge_base", "verdict", "gate"]
    contract = [*told_first, "findings", "summary", "reasoning", "limits", "usage", "seconds"]
    assert set(contract) <= told.keys()
    assert [told[name] for name in told_first] == ["octo/app#1", HEAD, BASE, MERGE, "incorrect", "failure"]
    names = ["title", "body", "priority", "confidence", "path", "line_start", "line_end"]
    assert list(told["findings"][0])[: len(names)] == names
    assert [told["findings"][0][name] for name in names] == ["Off by one", FINDING.body, 1, 0.875, "src/a.py", 3, 4]
    assert told["usage"]["input_tokens"] == 12_345


def test_marker_findings_are_the_gravest() -> None:
    many: Sequence[Finding] = [replace(FINDING, priority=p % 4, title=str(p)) for p in range(100)]
    kept = marker_findings(many, 50)
    assert len(kept) == 50
    assert {priority for priority, _, _ in kept} == {0, 1}
