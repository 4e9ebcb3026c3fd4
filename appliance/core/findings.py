"""What a review consists of."""

from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["correct", "incorrect", "inconclusive"]
Side = Literal["RIGHT", "LEFT"]
EarlierState = Literal["open", "resolved", "obsolete"]


@dataclass(frozen=True)
class InlineAnchor:
    """A place that the forge's diff shows. `path` is the file's name in the head, for both sides; `line` is the last of
    a range, whose first is `start_line`: always before it, on the same side, None if it is but one line."""

    path: str
    line: int
    side: Side
    start_line: int | None = None
    start_side: Side | None = None


@dataclass(frozen=True)
class Finding:
    """One defect.

    `priority` is 0 (worst) to 3, `confidence` 0.0 to 1.0, `path` relative to the repository; lines count from 1, in the
    head, or in the merge base if `side` is "LEFT" (what was deleted). `suggestion` is what these lines should be
    instead. `fingerprint` is the same for the same defect in another head, "" while it is not known. `advisory`: it is
    shown and does not block. `anchor` is where it stands in the diff, None if the diff shows nothing of its lines.
    `committable`: `suggestion` fits there, and can be offered as a change. `carried`: it is an earlier one that is open
    still and was not reported again; its text is the old one, and so are its lines if it is not known where they are.
    """

    title: str
    body: str
    priority: int
    confidence: float
    path: str
    line_start: int
    line_end: int
    side: Side = "RIGHT"
    suggestion: str | None = None
    fingerprint: str = ""
    advisory: bool = False
    anchor: InlineAnchor | None = None
    committable: bool = False
    carried: bool = False


@dataclass(frozen=True)
class EarlierAnswer:
    """What the reviewer says became of an earlier finding. `id` is that of its EarlierFinding.

    `commit` is where it was resolved, "" if it is not said; `evidence` is what the reviewer looked at.
    """

    id: str
    state: EarlierState
    commit: str = ""
    evidence: str = ""


@dataclass(frozen=True)
class EarlierFinding:
    """A finding of an earlier head, and what became of it.

    `id` is what the reviewer is told to name it by, `head_sha` where it was last reported. `state` is "open" until an
    answer with evidence says otherwise; "dismissed" is what `who`, with write access, decided, for `reason`.
    `reported`: the reviewer reported it again.
    """

    id: str
    fingerprint: str
    priority: int
    path: str
    title: str
    head_sha: str = ""
    state: EarlierState | Literal["dismissed"] = "open"
    commit: str = ""
    evidence: str = ""
    reason: str = ""
    who: str = ""
    reported: bool = False


@dataclass(frozen=True)
class Result:
    """The answer of the reviewer, checked against the schema."""

    verdict: Verdict
    summary: str
    reasoning: str
    limits: str
    findings: tuple[Finding, ...] = ()
    earlier: tuple[EarlierAnswer, ...] = ()


@dataclass(frozen=True)
class Usage:
    """Tokens of one review; zeros when the run told none."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_output_tokens + other.reasoning_output_tokens,
        )


@dataclass(frozen=True)
class Evidence:
    """Proof that the agent looked: its commands that succeeded, those that did not, and what lay before it.

    `files_left_out` of the `files_changed` were not in the checkout.
    """

    commands: tuple[str, ...] = ()
    failed_commands: tuple[str, ...] = ()
    files_changed: int = 0
    files_left_out: int = 0


@dataclass(frozen=True)
class Configuration:
    """What held for one review: the appliance's settings, and what the base branch says of its reviews.

    `block_priority` is 0 to 3, None for a review that was made before this was kept. `exclude` are patterns as in
    .gitignore, `files_excluded` how many files they left out, `excluded` the first of them. `rules` are the files that
    rules were taken from, `digest` changes when anything of it does. `changed` are files of the pull request that
    instruct agents, `notes` what a reader must know of all this.
    """

    block_priority: int | None = None
    exclude: tuple[str, ...] = ()
    files_excluded: int = 0
    excluded: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    digest: str = ""
    changed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotSeen:
    """A changed file that was not, or not wholly, reviewed: of which `kind`, and why in words."""

    path: str
    kind: str
    why: str = ""


@dataclass(frozen=True)
class Coverage:
    """What of the change was reviewed, in how many passes. `reviewed` counts files, those in `trimmed` among them."""

    reviewed: int = 0
    trimmed: tuple[NotSeen, ...] = ()
    left_out: tuple[NotSeen, ...] = ()
    passes: int = 1


@dataclass(frozen=True)
class Review:
    """Findings and verdict for one head SHA and base."""

    target: str
    head_sha: str
    base_ref: str
    base_sha: str
    merge_base: str
    result: Result
    usage: Usage = field(default_factory=Usage)
    evidence: Evidence = field(default_factory=Evidence)
    seconds: float = 0.0
    model: str = ""
    rehearsal: bool = False
    nothing_to_review: bool = False
    configuration: Configuration = field(default_factory=Configuration)
    coverage: Coverage = field(default_factory=Coverage)
    earlier: tuple[EarlierFinding, ...] = ()
