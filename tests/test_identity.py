"""What ends a verdict although its head and base branch are the same."""

import pytest

from appliance.core.identity import Identity, Moved, Now, why_stale

REVIEWED = Identity("h" * 40, "main", "b" * 40, "m" * 40, "digest")
RULES, REWRITTEN = "the rules of its review changed", "the base branch was rewritten"


def now(digest: str = "digest", moved: Moved | None = "same", drift: int | None = 0) -> Now:
    return Now(digest, moved, drift)


@pytest.mark.parametrize(
    ("given", "drift", "success", "reason"),
    [
        (now(), 0, True, None),
        (now(drift=10_000), 0, True, None),
        (now(moved="behind", drift=3), 0, True, None),
        (now(moved="apart", drift=None), 0, True, REWRITTEN),
        (now(moved=None, drift=None), 0, True, REWRITTEN),
        (now("other"), 0, True, RULES),
        (now("other"), 0, False, RULES),
        (now(""), 0, True, RULES),
        (now(drift=19), 20, True, None),
        (now(drift=20), 20, True, "the base branch has 20 new commits since its review"),
        (now(drift=1), 1, True, "the base branch has 1 new commit since its review"),
        (now(drift=20), 20, False, None),
        (now(drift=None), 20, True, "the base branch was rewritten since its review"),
        (now(drift=None), 0, True, None),
    ],
)
def test_why_a_review_holds_no_longer(given: Now, drift: int, success: bool, reason: str | None) -> None:
    assert why_stale(REVIEWED, given, success=success, base_drift=drift) == reason


@pytest.mark.parametrize("missing", ["digest", "merge_base"])
def test_what_a_review_did_not_keep_is_equal_to_nothing(missing: str) -> None:
    old = Identity(**(vars(REVIEWED) | {missing: ""}))
    for given in (now(), now(""), now(moved=None)):
        assert why_stale(old, given, success=True, base_drift=0)
