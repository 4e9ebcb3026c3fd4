"""What became of the findings of earlier heads. Unknown is not "resolved": what nobody has shown to be gone is open."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from appliance.core.diff import Diff, Lines
from appliance.core.findings import EarlierAnswer, EarlierFinding, Finding, Review
from appliance.core.moved import now_at, unchanged
from appliance.core.verdict import Gate, blocks_at, gate_of

MAX_ASKED = 50  # of one review; those beyond stay open
MAX_SAID = 1000  # characters of what is said of one
NEAR = 3  # lines between the places that two reviews name for one defect
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
State = Literal["open", "resolved", "obsolete", "dismissed"]


@dataclass(frozen=True)
class Known:
    """A finding of an earlier head. `head_sha` is where it was last reported, `first_head` where it was first."""

    finding: Finding
    state: State
    head_sha: str
    first_head: str = ""
    commit: str = ""
    evidence: str = ""
    reason: str = ""
    who: str = ""

    @property
    def fingerprint(self) -> str:
        return self.finding.fingerprint


@dataclass(frozen=True)
class History:
    """What is known of a pull request's earlier heads.

    `head_sha` is the one that was reviewed last, into the same base branch; empty if there is none. `judged`: that
    review came to a verdict on all it was shown, by the rules of `digest`; `not_seen` are the paths that it did not, or
    not wholly, see. `only` are the ids of which a pass is asked, None: of all.
    """

    known: tuple[Known, ...] = ()
    head_sha: str = ""
    judged: bool = False
    digest: str = ""
    not_seen: frozenset[str] = frozenset()
    only: frozenset[str] | None = None

    @property
    def asked(self) -> tuple[tuple[str, Known], ...]:
        """The open ones, each with the id by which the reviewer names it, the gravest first."""
        still = [each for each in self.known if each.state == "open"]
        still.sort(key=lambda each: (each.finding.priority, each.finding.path, each.finding.title, each.fingerprint))
        named = [(f"E{number}", each) for number, each in enumerate(still[:MAX_ASKED], 1)]
        return tuple((name, each) for name, each in named if self.only is None or name in self.only)

    @property
    def dismissed(self) -> tuple[Known, ...]:
        return tuple(each for each in self.known if each.state == "dismissed")


@dataclass(frozen=True)
class Since:
    """What came after an earlier head.

    `commits` are those of the present head that the earlier one has not; all of the pull request's if it was
    `rewritten`, so that the earlier head is no ancestor. `diff` leads from the earlier head to this one, None if that
    cannot be told.
    """

    commits: tuple[str, ...] = ()
    rewritten: bool = True
    diff: Diff | None = None


UNKNOWN = Since()


def shared_out(
    history: History, portions: Sequence[Sequence[tuple[str, str | None]]], changed: Collection[str]
) -> list[History]:
    """What of `history` each of several passes is asked: the findings of the files it has, by their names now and
    before. `changed` are all the names of the change.

    What is in a changed file that no pass has is asked of none, and stays open. What is in a file that the change no
    longer has, any pass can see: the first is asked.
    """
    at: dict[str, int] = {}
    for before in (True, False):  # a name of now goes before one that was given up
        for number, portion in enumerate(portions):
            at |= {name: number for path, old in portion if (name := old if before else path)}
    asked: list[set[str]] = [set() for _ in portions]
    for name, known in history.asked:
        path = known.finding.path
        if path in at or path not in changed:
            asked[at.get(path, 0)].add(name)
    return [replace(history, only=frozenset(names)) for names in asked]


def fingerprinted(finding: Finding) -> Finding:
    """With a fingerprint: where none is known, that of path and title."""
    if finding.fingerprint:
        return finding
    said = hashlib.sha256(f"{finding.path}\0{words(finding.title)}".encode()).hexdigest()
    return replace(finding, fingerprint=f"t{said[:23]}")


def words(title: str) -> str:
    return " ".join(re.findall(r"\w+", title.casefold()))


def settle(
    review: Review,
    history: History,
    since: Mapping[str, Since],
    block_priority: int,
    lines: Callable[[str], int] = lambda _: 0,
) -> Review:
    """`review` with what became of each earlier finding, by its evidence and by what is known, not by claims.

    Dismissed ones are reported no more. One that is open and blocks stands among the findings, if the reviewer
    reported it again or not. A new one on lines that did not change since the last review is advisory, unless it
    breaks for everyone (P0). `since` by earlier head; `lines` tells how many lines a file has in this one, 0 for what
    is none. The findings of the result have fingerprints.
    """
    reports = [fingerprinted(finding) for finding in review.result.findings]
    findings, matches = _matched(reports, history, since)
    gone = {each.fingerprint for each in history.dismissed}
    answers: dict[str, list[EarlierAnswer]] = {}
    for answer in review.result.earlier:
        answers.setdefault(answer.id, []).append(answer)
    ids = {id(known): name for name, known in history.asked}
    became = []
    for known in history.known:
        reported = known.fingerprint in matches
        if known.state == "dismissed":
            became.append(_told(known, "", "dismissed", reported=reported))
        elif known.state == "open":
            name = ids.get(id(known), "")
            became.append(_became(known, name, answers.get(name, []) if name else [], reported, since))
    standing = [finding for finding in findings if finding.fingerprint not in gone]
    # Asked again about the same head, or by other rules, a review may find what it did not look for.
    alike = history.head_sha != review.head_sha and history.digest == review.configuration.digest
    last = since.get(history.head_sha, UNKNOWN) if alike else UNKNOWN
    before = {each.fingerprint: each for each in history.known}
    if history.digest == review.configuration.digest:
        said = {each.fingerprint for each in reports}
        standing = [_as_grave(each, before.get(each.fingerprint), said, since) for each in standing]
    standing = [
        replace(each, advisory=each.advisory or _advisory(each, before, history, last, lines)) for each in standing
    ]
    opened = {each.fingerprint for each in became if each.state == "open" and not each.reported}
    blocks = blocks_at(review, block_priority)
    standing += [
        _carried(known, since.get(known.head_sha, UNKNOWN))
        for known in history.known
        if known.fingerprint in opened and known.finding.priority <= blocks and not known.finding.advisory
    ]
    return replace(review, result=replace(review.result, findings=tuple(standing)), earlier=tuple(became))


def _matched(
    findings: Iterable[Finding], history: History, since: Mapping[str, Since]
) -> tuple[list[Finding], set[str]]:
    """The findings, and which known ones they are again: by fingerprint, or an open one by path and title, whose code
    was edited, or whose file was renamed, meanwhile and whose fingerprint it then keeps."""
    found = list(findings)
    known = {each.fingerprint for each in history.known}
    matches = {each.fingerprint for each in found} & known
    by_name: dict[tuple[str, str], list[Known]] = {}
    for one in history.known:
        if one.state == "open" and one.fingerprint not in matches:
            for path in _names(one, since):
                by_name.setdefault((path, words(one.finding.title)), []).append(one)
    for index, each in enumerate(found):
        alike = by_name.get((each.path, words(each.title)), []) if each.fingerprint not in known else []
        again = next((it for it in alike if it.fingerprint not in matches and _may_be(each, it, since)), None)
        if again is not None:
            found[index] = replace(each, fingerprint=again.fingerprint)
            matches.add(again.fingerprint)
    return found, matches


def _names(known: Known, since: Mapping[str, Since]) -> set[str]:
    """The path of a finding, and the one that its file was given since."""
    diff = since.get(known.head_sha, UNKNOWN).diff
    path = known.finding.path
    return {path, *(each.path for each in (diff.files if diff else ()) if each.old_path == path)}


def _may_be(finding: Finding, known: Known, since: Mapping[str, Since]) -> bool:
    """Whether a finding of the same name can be the known one: if not, that one's lines are as they were, elsewhere."""
    place = _unedited(known, since)
    if place is None or finding.side != "RIGHT":
        return True
    path, (first, last) = place
    return finding.path == path and finding.line_start <= last + NEAR and first - NEAR <= finding.line_end


def _unedited(known: Known, since: Mapping[str, Since]) -> tuple[str, Lines] | None:
    """Where the lines of a known finding are now, if it can be told that they are as they were: not of one whose lines
    are not known, since only our comment told of it."""
    one, diff = known.finding, since.get(known.head_sha, UNKNOWN).diff
    if one.side != "RIGHT" or diff is None or not one.body:
        return None
    return now_at(diff, one.path, (one.line_start, one.line_end))


def _as_grave(finding: Finding, known: Known | None, said: Collection[str], since: Mapping[str, Since]) -> Finding:
    """An open one on the same code is as grave as it was: that it is called less is no evidence. `said` are the
    fingerprints as they were reported, of the code too."""
    if known is None or known.state != "open" or known.finding.advisory:
        return finding
    if finding.fingerprint not in said and _unedited(known, since) is None:
        return finding
    return replace(finding, priority=min(finding.priority, known.finding.priority))


def _became(
    known: Known, name: str, answers: Sequence[EarlierAnswer], reported: bool, since: Mapping[str, Since]
) -> EarlierFinding:
    if reported:
        return _told(known, name, "open", reported=True)
    if not answers or any(not answer.evidence.strip() for answer in answers):
        return _told(known, name, "open")
    states = {answer.state for answer in answers}
    last = answers[-1]
    if len(states) > 1 or last.state == "open":
        return _told(known, name, "open", evidence=last.evidence if len(states) == 1 else "")
    if last.state == "obsolete":
        return _told(known, name, "obsolete", evidence=last.evidence)
    commit = _commit(last.commit, since.get(known.head_sha, UNKNOWN).commits)
    return _told(known, name, "resolved" if commit else "open", commit=commit, evidence=last.evidence)


def _commit(named: str, commits: Sequence[str]) -> str:
    """The one of `commits` that is named, by the whole of its SHA or the beginning of only one."""
    said = named.strip().casefold()
    if not _COMMIT.fullmatch(said):
        return ""
    meant = [commit for commit in commits if commit.startswith(said)]
    return meant[0] if len(meant) == 1 else ""


def _told(
    known: Known, name: str, state: State, *, commit: str = "", evidence: str = "", reported: bool = False
) -> EarlierFinding:
    finding = known.finding
    return EarlierFinding(
        id=name,
        fingerprint=known.fingerprint,
        priority=finding.priority,
        path=finding.path,
        title=finding.title,
        head_sha=known.head_sha,
        state=state,
        commit=commit,
        evidence=" ".join(evidence.split())[:MAX_SAID],
        reason=known.reason if state == "dismissed" else "",
        who=known.who if state == "dismissed" else "",
        reported=reported,
    )


def _advisory(
    finding: Finding, before: Mapping[str, Known], history: History, last: Since, lines: Callable[[str], int]
) -> bool:
    """Whether it is on code that the last review saw as it is now, and is none that blocked before. Lines that the head
    does not have are no code that somebody saw."""
    known = before.get(finding.fingerprint)
    if finding.priority == 0 or (known is not None and not known.finding.advisory):
        return False
    if last.diff is None or not history.judged or finding.side != "RIGHT":
        return False
    file = last.diff.of(finding.path)
    if {finding.path, (file and file.old_path) or finding.path} & history.not_seen:
        return False
    if not unchanged(last.diff, finding.path, (finding.line_start, finding.line_end)):
        return False
    return finding.line_end <= lines(finding.path)


def _carried(known: Known, since: Since) -> Finding:
    old = replace(known.finding, carried=True, anchor=None, suggestion=None, committable=False)
    if old.side != "RIGHT" or since.diff is None:
        return old
    place = now_at(since.diff, old.path, (old.line_start, old.line_end))
    return replace(old, path=place[0], line_start=place[1][0], line_end=place[1][1]) if place else old


# ---- what people decide afterwards


def by_decisions(review: Review, known: Iterable[Known]) -> Review:
    """`review` as it is after what people decided: without what is dismissed, with what is open again.

    Of a finding that it has nothing of, it says nothing.
    """
    for each in known:
        told = next((it for it in review.earlier if it.fingerprint == each.fingerprint), None)
        if each.state != "dismissed":
            review = reopen(review, each)
        elif told is not None and told.state == "dismissed" and (told.reason, told.who) == (each.reason, each.who):
            continue
        elif any(it.fingerprint == each.fingerprint for it in review.result.findings) or (
            told is not None and told.state in ("open", "dismissed")
        ):
            review = dismiss(review, each)
    return review


def gate_after(review: Review, was: Gate, block_priority: int) -> Gate:
    """The gate of a review that people decided about. Where nobody had judged, no decision makes a success."""
    gate = gate_of(review, block_priority)
    return was if gate.state == "success" and was.state not in ("success", "failure") else gate


def dismiss(review: Review, known: Known) -> Review:
    """`review` without a finding that is dismissed for the reason that `known` has.

    What its verdict may rest on is what was reported in it, and that alone.
    """
    mine = [each for each in review.result.findings if each.fingerprint == known.fingerprint]
    reported = any(each.fingerprint == known.fingerprint and each.reported for each in review.earlier)
    reported = reported or any(not each.carried for each in mine)
    told = _told(known, "", "dismissed", reported=reported)
    left = tuple(each for each in review.result.findings if each.fingerprint != known.fingerprint)
    return replace(
        review,
        result=replace(review.result, findings=left),
        earlier=(*(each for each in review.earlier if each.fingerprint != known.fingerprint), told),
    )


def reopen(review: Review, known: Known) -> Review:
    """`review` with a finding that was dismissed, and is open again."""
    was = [each for each in review.earlier if each.fingerprint == known.fingerprint and each.state == "dismissed"]
    if not was:
        return review
    told = _told(replace(known, state="open"), "", "open", reported=was[0].reported)
    back = replace(known.finding, carried=not was[0].reported, anchor=None, suggestion=None, committable=False)
    return replace(
        review,
        result=replace(review.result, findings=(*review.result.findings, back)),
        earlier=(*(each for each in review.earlier if each.fingerprint != known.fingerprint), told),
    )
