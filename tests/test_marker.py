"""Our hidden marker: read back only when it is signed by us, and of this head and base."""

import base64
import json
from dataclasses import asdict, replace

import pytest

from appliance.core.marker import MAX_PAYLOAD, Marker, _sign, read, render
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate

KEY, OTHER = b"k" * 32, b"o" * 32
MARKER = Marker(
    "octo/app#1", "a" * 40, "main", "b" * 40, "c" * 40, "success", "no blocking findings", 1796041411.123456789,
    ((2, "src/ä.py", "Tïtle"),),
)  # fmt: skip
PULL = Pull("octo/app#1", "octo/app", 1, "a" * 40, "main", "b" * 40)


def test_it_comes_back_as_it_was_from_the_middle_of_a_comment() -> None:
    text = render(MARKER, KEY)
    assert read(f"before\n{text}\nafter", KEY) == MARKER
    assert MARKER.gate == Gate("success", "no blocking findings")
    assert "success" not in text
    assert text.startswith("<!--")
    assert text.endswith("-->")


def forged(**change: object) -> str:
    """Another content under the signature of a real one."""
    real = render(MARKER, KEY)
    payload = base64.urlsafe_b64encode(json.dumps(asdict(MARKER) | change).encode()).decode()
    return f"<!-- review-appliance:v1 {payload} {real.split()[3]} -->"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "LGTM",
        render(MARKER, OTHER),
        render(MARKER, b""),
        forged(gate_state="success", head_sha="e" * 40),
        render(MARKER, KEY).replace(":v1 ", ":v1  "),
        render(MARKER, KEY)[:-10],
        "<!-- review-appliance:v1  " + "0" * 64 + " -->",
        "<!-- review-appliance:v1 !!! " + "0" * 64 + " -->",
    ],
)
def test_what_is_not_signed_by_us_counts_for_nothing(body: str) -> None:
    assert read(body, KEY) is None


def test_a_foreign_marker_before_ours_hides_nothing() -> None:
    assert read(render(MARKER, OTHER) + forged(at=9.0) + render(MARKER, KEY), KEY) == MARKER


@pytest.mark.parametrize(
    "change", [{"gate_state": "green"}, {"findings": 3}, {"at": "soon"}, {"findings": ((1, "only two"),)}]
)
def test_one_of_another_form_is_passed_over_although_we_signed_it(change: dict[str, object]) -> None:
    assert read(render(replace(MARKER, **change), KEY), KEY) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pull", "same"),
    [
        (PULL, True),
        (replace(PULL, base_sha="e" * 40, title="new"), True),  # the base branch moved on: head and base are the same
        (replace(PULL, head_sha="e" * 40), False),
        (replace(PULL, base_ref="release"), False),
        (replace(PULL, target="octo/app#2"), False),
        (replace(PULL, target="octo/fork#1"), False),
    ],
)
def test_it_is_of_one_pull_request_one_head_and_one_base(pull: Pull, same: bool) -> None:
    assert MARKER.is_of(pull) is same


def test_it_never_takes_the_room_of_the_review() -> None:
    crowded = replace(MARKER, findings=tuple((1, "評" * 200, "評" * 120) for _ in range(50)))
    text = render(crowded, KEY)
    assert len(text) < MAX_PAYLOAD + 200
    found = read(text, KEY)
    assert found is not None
    assert 0 < len(found.findings) < 50
    assert replace(found, findings=()) == replace(crowded, findings=())


def test_one_that_says_nothing_of_advisory_findings_is_read_and_one_too_long_says_it_of_those_it_keeps() -> None:
    fields = asdict(MARKER)
    del fields["advisory"]
    payload = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode()
    assert read(f"<!-- review-appliance:v1 {payload} {_sign(payload, KEY)} -->", KEY) == MARKER
    many = replace(
        MARKER, findings=((1, "p" * 200, "t" * 120),) * 50, fingerprints=("f",) * 50, advisory=(True, False) * 25
    )
    kept = read(render(many, KEY), KEY)
    assert kept and 0 < len(kept.findings) == len(kept.advisory) < 50
    assert kept.advisory[:2] == (True, False)
