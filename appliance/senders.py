"""Each kind of letter in the outbox: how it is sent, and how to find out whether it is there already.

To have something else written, add a kind here, and a letter of it with `Store.add_letter`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from appliance import redaction
from appliance.core import inline
from appliance.core import marker as markers
from appliance.core.findings import EarlierFinding, Finding, Review
from appliance.core.inert import inert
from appliance.core.inline import Event, ReviewEvents
from appliance.core.marker import Marker, Tag
from appliance.core.outbox import Letter
from appliance.core.pulls import Pull
from appliance.core.report import (
    CommentMode,
    marker_advisory,
    marker_dismissed,
    marker_findings,
    marker_fingerprints,
    to_fold,
)
from appliance.core.report import comment as render
from appliance.core.verdict import Gate, blocking, blocks_at
from appliance.forge import Comment, ForgeError, InlineComment, PostedReview, Thread, ThreadComment
from appliance.protocols import Forge
from appliance.store import Store, StoredReview, key_of

MAX_HISTORY = 20  # older heads that an edited comment keeps
BARE = "without comments"  # of a pull request review whose comments the forge refused


@dataclass(frozen=True)
class Sent:
    """What the forge calls it; empty where it has no name, or where there was nothing to send."""

    id: str = ""
    url: str = ""


@dataclass(frozen=True)
class Desk:
    """What a letter is sent with. `pull` is as it is now; `stored` the letter's review, which still holds. `show` sets
    the gate, if it is not what the forge shows. `comments`: one for each head ("new"), or one that is edited; after
    `max_rounds` reviews of the pull request (0: never) what is less grave is folded."""

    forge: Forge
    pull: Pull
    store: Store
    key: bytes
    block_priority: int
    events: ReviewEvents
    show: Callable[[Gate], None]
    comments: CommentMode = "new"
    max_rounds: int = 0
    stored: StoredReview | None = None

    @property
    def review(self) -> tuple[StoredReview, Review]:
        assert self.stored is not None and self.stored.review is not None, "a letter of this kind has a review"
        return self.stored, redaction.review(self.stored.review)  # an earlier version may have known less of secrets

    def folded(self, review: Review) -> list[Finding]:
        """Of `review`, what is folded; the very objects of its result."""
        assert self.stored is not None
        late = self.max_rounds and self.store.rounds(self.stored) >= self.max_rounds
        return to_fold(review, self.block_priority) if late else []

    def tag(self, kind: str, name: str) -> str:
        return markers.render_tag(Tag(self.pull.target, kind, name), self.key)

    def is_tagged(self, body: str, kind: str, name: str) -> bool:
        return markers.read_tag(body, self.key) == Tag(self.pull.target, kind, name)


@dataclass(frozen=True)
class Kind:
    """`landed` is asked when a try may have landed; None where sending it once more changes nothing. `vital`: it is
    never given up. Both raise ForgeError."""

    send: Callable[[Desk, Letter], Sent]
    landed: Callable[[Desk, Letter], Sent | None] | None = None
    vital: bool = False


# ---- the pull request review, with its comments on lines


def _send_inline(desk: Desk, letter: Letter) -> Sent:
    """Nothing if there is nothing to say on lines, and nothing to approve or to refuse.

    What the database does not know may be there: one that was lost before the summary was posted leaves a pull request
    review of this head behind. What that says on lines is not said twice.
    """
    _, review = desk.review
    found, event = inline.placed(review, desk.folded(review)), _event(desk)
    if _nothing_for_lines(desk):
        return Sent()
    there = _of_this_head(desk)
    if there:
        said = _said_on_lines(desk, there.author)
        found = [finding for finding in found if inline.name_of(finding) not in said]
        if not found and _STATES[event] == there.state:
            return Sent(there.id, there.url)
    blocks = set(map(id, blocking(review.result.findings, blocks_at(review, desk.block_priority))))
    comments = [_on_line(desk, finding, id(finding) in blocks) for finding in found]
    try:
        posted = desk.forge.post_review(desk.pull, event, _whole(desk, len(found), "review"), comments)
    except ForgeError as error:
        if error.cause != "forge-refused" or event == "COMMENT" or not found:
            raise
        desk.forge.post_review(desk.pull, event, _whole(desk, 0, BARE), [])
        return Sent()
    return Sent(posted.id, posted.url)


_STATES = {"COMMENT": "COMMENTED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "APPROVE": "APPROVED"}


def _of_this_head(desk: Desk) -> PostedReview | None:
    """The newest of ours with comments on lines."""
    begins = f"{desk.pull.head_sha} {desk.pull.base_ref} "
    tagged = [(markers.read_tag(posted.body, desk.key), posted) for posted in desk.forge.reviews(desk.pull)]
    ours = [
        it
        for tag, it in tagged
        if tag and (tag.target, tag.kind) == (desk.pull.target, "review") and tag.id.startswith(begins)
    ]
    return ours[-1] if ours else None


def _said_on_lines(desk: Desk, author: str) -> set[str]:
    """The names of the findings that have a conversation of `author` which is not resolved: anybody can copy a tag."""
    firsts = [thread.comments[0] for thread in desk.forge.threads(desk.pull) if thread.comments and not thread.resolved]
    ours = [first for first in firsts if first.author.casefold() == author.casefold()]
    tags = [tag for first in ours if (tag := markers.read_tag(first.body, desk.key))]
    return {tag.id for tag in tags if (tag.target, tag.kind) == (desk.pull.target, "finding")}


def _nothing_for_lines(desk: Desk) -> bool:
    _, review = desk.review
    return not desk.forge.inline or not (inline.placed(review, desk.folded(review)) or _event(desk) != "COMMENT")


def _event(desk: Desk) -> Event:
    _, review = desk.review
    me = "" if desk.events == "comment" else desk.forge.me()
    return inline.event_of(review, _gate_of(desk), desk.pull, me, desk.events)


def _gate_of(desk: Desk) -> Gate:
    """What the gate will be: of a commit that other pull requests have too, not always what this review says."""
    stored, _ = desk.review
    return (stored.gate.state == "success" and desk.store.beside(desk.pull)) or stored.gate


def _whole(desk: Desk, count: int, kind: str) -> str:
    stored, _ = desk.review
    return f"{inline.whole(stored.gate, count)}\n\n{desk.tag(kind, _moment(stored))}"


def _moment(stored: StoredReview) -> str:
    return f"{stored.head_sha} {stored.base_ref} {stored.created_at!r}"


def _on_line(desk: Desk, finding: Finding, blocks: bool) -> InlineComment:
    assert finding.anchor is not None
    at = finding.anchor
    body = f"{inline.text(finding, blocks)}\n\n{desk.tag('finding', inline.name_of(finding))}"
    return InlineComment(at.path, at.line, at.side, body, at.start_line, at.start_side)


def _inline_landed(desk: Desk, letter: Letter) -> Sent | None:
    if _nothing_for_lines(desk):
        return Sent()
    stored, _ = desk.review
    for posted in desk.forge.reviews(desk.pull):
        if desk.is_tagged(posted.body, "review", _moment(stored)):
            return Sent(posted.id, posted.url)
        if desk.is_tagged(posted.body, BARE, _moment(stored)):
            return Sent()
    return None


# ---- the comment with the summary


def _send_summary(desk: Desk, letter: Letter) -> Sent:
    ours = _ours(desk)
    found = _summary_in(desk, ours)
    if found:  # looked at in any case: what the database does not know may be there
        return _landed_summary(desk, ours, found)
    mine = [(it, mark) for it, mark in ours if mark.target == desk.pull.target]
    earlier = [mark for _, mark in mine if not mark.is_of(desk.pull)]
    newest = max(earlier, key=lambda mark: mark.at, default=None)
    to_edit = _by_us(desk, mine) if desk.comments == "edit" else []
    if to_edit:
        last, _ = max(to_edit, key=lambda one: one[1].at)
        try:
            edited = desk.forge.edit_comment(desk.pull, last.id, summary(desk, newest, _history(desk, last)))
        except ForgeError as error:
            gone = error.cause == "forge-not-found" and desk.forge.comment(desk.pull, last.id) is None
            foreign = error.cause == "forge-permission" and not desk.forge.me()  # or nothing may be written at all
            if not gone and not foreign:  # else it is written anew
                raise
        else:
            return Sent(edited.id, edited.url)
    posted = desk.forge.post_comment(desk.pull, summary(desk, newest))
    _hide_older(desk, mine)
    return Sent(posted.id, posted.url)


def _send_revise(desk: Desk, letter: Letter) -> Sent:
    """Have the comment of a review that was posted say what people decided since: as it would be written now."""
    stored, _ = desk.review
    mine = [(it, mark) for it, mark in _ours(desk) if mark.target == desk.pull.target]
    its = [(it, mark) for it, mark in mine if mark.is_of(desk.pull) and mark.at == stored.created_at]
    if not (its := _by_us(desk, its)):  # not posted yet: then it will say it; or a person took it away
        return Sent()
    all_ = [mark for it, _ in mine for mark in markers.read_all(it.body, desk.key) if mark.target == desk.pull.target]
    before = [mark for mark in all_ if mark.at < stored.created_at and not mark.is_of(desk.pull)]
    body = summary(desk, max(before, key=lambda mark: mark.at, default=None), _history(desk, its[-1][0]))
    last, _ = its[-1]
    if last.body == body:
        return Sent(last.id, last.url)
    try:
        edited = desk.forge.edit_comment(desk.pull, last.id, body)
    except ForgeError as error:
        if error.cause != "forge-not-found":
            raise
        return Sent()
    return Sent(edited.id, edited.url)


def _hide_older(desk: Desk, ours: Sequence[tuple[Comment, Marker]]) -> None:
    for it, mark in ours:
        if mark.target == desk.pull.target and it.node_id:
            desk.store.add_letter(desk.pull.target, "minimize", f"minimize {it.node_id}", {"node": it.node_id})


def _history(desk: Desk, last: Comment) -> list[str]:
    """Older heads with their gates and markers, so that a lost database and a head that comes back still know them."""
    stored, _ = desk.review
    older = {mark.at: mark for mark in markers.read_all(last.body, desk.key) if mark.target == desk.pull.target}
    older.pop(stored.created_at, None)
    lines = []
    for mark in sorted(older.values(), key=lambda mark: -mark.at)[:MAX_HISTORY]:
        kept = markers.render(replace(mark, findings=(), fingerprints=(), dismissed=(), advisory=()), desk.key)
        lines.append(f"- `{mark.head_sha}`: {mark.gate_state}, {inert(mark.gate_description, one_line=True)} {kept}")
    return lines


def _summary_landed(desk: Desk, letter: Letter) -> Sent | None:
    ours = _ours(desk)
    found = _summary_in(desk, ours)
    return _landed_summary(desk, ours, found) if found else None


def _landed_summary(desk: Desk, ours: Sequence[tuple[Comment, Marker]], found: Sent) -> Sent:
    """What ended the process after the comment was written ended what follows on it too."""
    at = next(place for place, (it, _) in enumerate(ours) if it.id == found.id)
    if desk.comments == "new":
        _hide_older(desk, ours[:at])
    return found


def _ours(desk: Desk) -> list[tuple[Comment, Marker]]:
    comments = desk.forge.comments(desk.pull)
    return [(found, mark) for found in comments if (mark := markers.read(found.body, desk.key))]


def _by_us(desk: Desk, ours: Sequence[tuple[Comment, Marker]]) -> list[tuple[Comment, Marker]]:
    """Those that we can edit, where the forge tells who we are: anybody can copy a marker into a comment of theirs."""
    me = desk.forge.me().casefold() if ours else ""
    return [one for one in ours if not me or one[0].author.casefold() == me]


def _summary_in(desk: Desk, ours: Sequence[tuple[Comment, Marker]]) -> Sent | None:
    stored, _ = desk.review
    of_it = [it for it, mark in ours if mark.is_of(desk.pull) and mark.at == stored.created_at]
    return Sent(of_it[0].id, of_it[0].url) if of_it else None


def summary(desk: Desk, earlier: Marker | None, history: Sequence[str] = ()) -> str:
    """The comment of a stored review, marker included. What stands on lines is only named."""
    stored, review = desk.review
    marker = Marker(
        target=stored.target,
        head_sha=stored.head_sha,
        base_ref=stored.base_ref,
        base_sha=review.base_sha,
        merge_base=review.merge_base,
        gate_state=stored.gate.state,
        gate_description=stored.gate.description,
        at=stored.created_at,
        findings=marker_findings(review.result.findings, markers.MAX_FINDINGS),
        digest=review.configuration.digest,
        fingerprints=marker_fingerprints(review.result.findings, markers.MAX_FINDINGS),
        dismissed=marker_dismissed(review, markers.MAX_DISMISSED),
        revision=stored.revision,
        advisory=marker_advisory(review.result.findings, markers.MAX_FINDINGS),
    )
    folded = desk.folded(review)
    on_lines = desk.store.letter_sent_as(key_of(stored.id, "inline"))
    return render(
        review,
        stored.gate,
        desk.block_priority,
        lambda path, first, last: desk.forge.permalink(desk.pull, path, first, last),
        markers.render(marker, desk.key),
        earlier,
        inline.placed(review, folded) if on_lines else (),
        folded,
        history,
    )


# ---- the conversations on lines whose finding is no more


def _send_threads(desk: Desk, letter: Letter) -> Sent:
    """Have each of ours answered and resolved whose finding is resolved or obsolete; others' are not touched."""
    _, review = desk.review
    became = {each.fingerprint: each for each in review.earlier if each.state in ("resolved", "obsolete")}
    if not became or not desk.forge.inline:
        return Sent()
    for thread in desk.forge.threads(desk.pull):
        tag = markers.read_tag(thread.comments[0].body, desk.key) if thread.comments else None
        if thread.resolved or tag is None or (tag.target, tag.kind) != (desk.pull.target, "finding"):
            continue
        each = became.get(tag.id)
        if each is not None:
            where = {"thread": thread.id, "comment": thread.comments[0].id}
            key, said = f"{thread.id} {review.head_sha}", {"body": _answer(each)}
            desk.store.add_letter(desk.pull.target, "reply", f"reply {key}", {**where, **said})
            desk.store.add_letter(desk.pull.target, "resolve", f"resolve {key}", where)
    return Sent()


def _answer(each: EarlierFinding) -> str:
    what = f"Resolved in `{each.commit}`" if each.state == "resolved" else "Obsolete"
    return f"{what}: {inert(each.evidence, one_line=True)}"


# ---- the gate


def _send_gate(desk: Desk, letter: Letter) -> Sent:
    """`show` asks the forge first when it is not known what that shows."""
    stored, _ = desk.review
    desk.show(stored.gate)
    return Sent()


# ---- what other parts have written: the payload says what


def _send_comment(desk: Desk, letter: Letter) -> Sent:
    """Payload: body."""
    posted = desk.forge.post_comment(desk.pull, _tagged(desk, letter))
    return Sent(posted.id, posted.url)


def _comment_landed(desk: Desk, letter: Letter) -> Sent | None:
    for found in desk.forge.comments(desk.pull):
        if desk.is_tagged(found.body, "letter", letter.key):
            return Sent(found.id, found.url)
    return None


def _tagged(desk: Desk, letter: Letter) -> str:
    return f"{redaction.redacted(letter.payload['body'])}\n\n{desk.tag('letter', letter.key)}"


def _thread(letter: Letter) -> Thread:
    first = ThreadComment(str(letter.payload.get("comment", "")), "", "", "", "")
    return Thread(str(letter.payload["thread"]), False, "", (first,))


def _send_reply(desk: Desk, letter: Letter) -> Sent:
    """Payload: thread, comment (the id of its first), body."""
    posted = desk.forge.reply(desk.pull, _thread(letter), _tagged(desk, letter))
    return Sent(posted.id, posted.url)


def _reply_landed(desk: Desk, letter: Letter) -> Sent | None:
    for thread in desk.forge.threads(desk.pull):
        for found in thread.comments:
            if desk.is_tagged(found.body, "letter", letter.key):
                return Sent(found.id, found.url)
    return None


def _send_resolve(desk: Desk, letter: Letter) -> Sent:
    """Payload: thread."""
    desk.forge.resolve(desk.pull, _thread(letter))
    return Sent()


def _resolve_landed(desk: Desk, letter: Letter) -> Sent | None:
    found = [thread for thread in desk.forge.threads(desk.pull) if thread.id == letter.payload["thread"]]
    return Sent() if found and found[0].resolved else None


def _send_minimize(desk: Desk, letter: Letter) -> Sent:
    """Payload: node (the node_id of a comment)."""
    desk.forge.minimize(desk.pull, replace(_NO_COMMENT, node_id=letter.payload["node"]))
    return Sent()


def _send_react(desk: Desk, letter: Letter) -> Sent:
    """Payload: comment, content."""
    desk.forge.react(desk.pull, letter.payload["comment"], letter.payload["content"])
    return Sent()


_NO_COMMENT = Comment("", "", "")

KINDS = {
    "inline": Kind(_send_inline, _inline_landed),
    "summary": Kind(_send_summary, _summary_landed, vital=True),
    "gate": Kind(_send_gate, vital=True),
    "threads": Kind(_send_threads),
    "revise": Kind(_send_revise),
    "comment": Kind(_send_comment, _comment_landed),
    "reply": Kind(_send_reply, _reply_landed),
    "resolve": Kind(_send_resolve, _resolve_landed),
    "minimize": Kind(_send_minimize),
    "react": Kind(_send_react),
}
