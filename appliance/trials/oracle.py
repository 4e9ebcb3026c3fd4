"""The judge. It knows what the model said and what the forge stored, and asks the product for nothing but its count
of attempts and what still waits."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from appliance.trials import github
from appliance.trials.github import LOGIN, MAINTAINER, Pull, Write
from appliance.trials.model import Said
from appliance.trials.stage import Stage

TEXTS = ("comment", "review", "edit")
COUNTS = ("false success", "lost result", "double post", "wrongly counted attempt", "stuck")
_WORST = ("failure", "error", "pending", "success")


@dataclass(frozen=True)
class Wrong:
    """`count` is one of COUNTS."""

    count: str
    what: str


@dataclass(frozen=True)
class Read:
    """One whole review: what the model said in all of its passes, and what a gate may make of it.

    `blocks` are the titles of what is open after it; `resolved` those that it has shown to be no more.
    """

    at: int
    tokens: tuple[str, ...]
    head: str
    merge_base: str
    truth: str
    blocks: frozenset[str]
    resolved: frozenset[str]

    def is_in(self, text: str) -> bool:
        return all(token in text for token in self.tokens)


def read(stage: Stage) -> list[Read]:
    """All of them, oldest first. A finding is open until a later review towards the same base shows otherwise."""
    found: list[Read] = []
    parts: dict[tuple[str, str], list[Said]] = {}
    open_: dict[str, frozenset[str]] = {}
    for said in stage.model.book:
        key = (said.head, said.merge_base)
        if said.part == 1:
            parts[key] = []
        if not said.valid or said.part != len(parts.setdefault(key, [])) + 1:
            continue
        parts[key].append(said)
        if said.part == said.parts:
            one = _whole(stage, parts[key], open_.get(said.merge_base, frozenset()))
            open_[said.merge_base] = one.blocks
            found.append(one)
    return found


def _whole(stage: Stage, passes: list[Said], before: frozenset[str]) -> Read:
    """An earlier finding is no more if all passes say so that were asked; a file that none was shown is no success."""
    last = passes[-1]
    found = frozenset().union(*(each.answer.blocks for each in passes))
    resolved = frozenset().union(*(each.resolves for each in passes)) - found
    resolved -= frozenset().union(*(each.asked - each.resolves for each in passes))
    blocks = (before - resolved) | found
    seen = frozenset().union(*(each.files for each in passes))
    unseen = stage.origin.changed[last.head, last.merge_base] - seen
    truths = [each.answer.truth for each in passes]
    if unseen or any(each.trimmed for each in passes):
        truths.append("error")
    truth = "failure" if blocks else min(truths, key=_WORST.index)
    tokens = tuple(each.token for each in passes)
    return Read(last.at, tokens, last.head, last.merge_base, truth, blocks, resolved & before)


def said_of(stage: Stage, head: str, base_ref: str, before: int | None = None) -> Read | None:
    """The newest review that the model really gave of a head towards a base, if any counts."""
    key = (head, stage.origin.merge_base(head, base_ref))
    of_it = [
        said for said in read(stage) if (said.head, said.merge_base) == key and (before is None or said.at < before)
    ]
    newest = of_it[-1] if of_it else None
    floor = stage.asked_again if before is None or before > stage.asked_again else 0
    return newest if newest and newest.at > floor else None


def right(stage: Stage, head: str, pulls: tuple[tuple[int, str, str], ...], before: int | None = None) -> str:
    """What the gate of this head may show at most: one status stands for all pull requests of it."""
    states = []
    for _, of, base_ref in pulls:
        if of == head:
            said = said_of(stage, head, base_ref, before)
            states.append(said.truth if said else "pending")
    return min(states, key=_WORST.index, default="none")


def opened(stage: Stage) -> tuple[tuple[int, str, str], ...]:
    pulls = stage.github.state.pulls.values()
    return tuple((pull.number, pull.head, pull.base_ref) for pull in pulls if pull.state == "open")


def writes(stage: Stage) -> list[Wrong]:
    """What the forge should never have been told."""
    found = []
    last: dict[str, tuple[str, ...]] = {}
    for write in stage.github.writes:
        if write.kind == "status":
            found += _status(stage, write, last.get(write.what[0]))
            last[write.what[0]] = write.what
        elif write.kind == "edit" and write.what[2] != LOGIN:
            found.append(Wrong("lost result", f"what {write.what[2]} wrote was overwritten"))
    for said in stage.model.book:
        posted = [w for w in stage.github.writes if w.kind in TEXTS and said.token in w.what[1]]
        if len(posted) > 1:
            found.append(Wrong("double post", f"{said.token} was posted {len(posted)} times"))
    texts = Counter(write.what for write in stage.github.writes if write.kind in (*TEXTS, "reply"))
    found += [Wrong("double post", f"#{what[0]}: {what[1][:60]!r} twice") for what, n in texts.items() if n > 1]
    return found


def _status(stage: Stage, write: Write, before: tuple[str, ...] | None) -> list[Wrong]:
    sha, state, description = write.what
    found = []
    if state == "success" and (may := right(stage, sha, write.pulls, write.at)) != "success":
        found.append(Wrong("false success", f"`{description}` on {sha[:8]}, where the truth is {may}"))
    if write.what == before:
        found.append(Wrong("double post", f"the status `{state}: {description}` on {sha[:8]} twice in a row"))
    return found


def attempts(stage: Stage, failed: int, *, heard: bool = True) -> list[Wrong]:
    """`failed`: so many attempts of the first pull request count, beside those that were a review.

    `heard`: the appliance may know by now that a review was asked for anew.
    """
    number, head, base_ref = next(iter(_first(stage)), (0, "", ""))
    if not number:
        return []
    said = said_of(stage, head, base_ref, None if heard else stage.asked_again)
    expected = failed + (said is not None and said.at > stage.lost and not said.is_in(stage.kept()))
    counted = stage.attempts(number)
    if counted == expected:
        return []
    return [Wrong("wrongly counted attempt", f"{counted} counted, {expected} are right")]


def _first(stage: Stage) -> list[tuple[int, str, str]]:
    return [pull for pull in opened(stage) if pull[0] == 1]


def results(stage: Stage) -> list[Wrong]:
    """What was paid for and is nowhere, or was paid for twice."""
    found = []
    waiting = [stored.review.result.summary for stored in stage.parts.store.undelivered() if stored.review]
    for number, head, base_ref in opened(stage):
        said = said_of(stage, head, base_ref)
        if said is None:
            continue
        of_it = [each for each in read(stage) if (each.head, each.merge_base) == (said.head, said.merge_base)]
        paid = [each for each in of_it if each.at > stage.asked_again]
        if len(paid) > 1:
            found.append(Wrong("lost result", f"#{number} was reviewed {len(paid)} times: the first result is lost"))
        shown = [comment["body"] for comment in stage.github.state.pulls[number].comments]
        if not any(said.is_in(body) for body in shown):
            if any(map(said.is_in, waiting)) or said.is_in(stage.kept()):
                found.append(Wrong("stuck", f"the result {said.tokens} still waits"))
            else:
                found.append(Wrong("lost result", f"{said.tokens} is neither posted nor kept"))
    return found


def surroundings(stage: Stage, given_up: Collection[str]) -> list[Wrong]:
    """What is left beside the newest comment: older ones, conversations, answers to people.

    `given_up`: the kinds of writes that the forge refused for good.
    """
    found: list[Wrong] = []
    for number, head, base_ref in opened(stage):
        pull = stage.github.state.pulls[number]
        summaries = [one for one in pull.comments if one["user"]["login"] == LOGIN and _is_summary(stage, one)]
        said = said_of(stage, head, base_ref)
        found += _older(stage, number, summaries, given_up)
        if said is not None:
            found += [wrong for thread in pull.threads for wrong in _thread(thread, said, given_up)]
        any_ = any(said.answer.blocks for said in stage.model.book)
        found += [wrong for one in pull.comments for wrong in _command(pull, one, any_, given_up)]
    return found


def _is_summary(stage: Stage, comment: dict[str, Any]) -> bool:
    return any(said.token in comment["body"] for said in stage.model.book)


def _older(stage: Stage, number: int, summaries: list[dict[str, Any]], given_up: Collection[str]) -> Iterator[Wrong]:
    *older, newest = summaries or [{"minimized": False}]
    if newest["minimized"]:
        yield Wrong("lost result", f"#{number}: the newest comment is hidden")
    if stage.edits:
        if older:
            yield Wrong("double post", f"#{number} has {len(summaries)} comments, where one is edited")
    elif "minimize" not in given_up and not all(one["minimized"] for one in older):
        yield Wrong("stuck", f"#{number}: an older comment is not hidden")


def _thread(thread: dict[str, Any], said: Read, given_up: Collection[str]) -> Iterator[Wrong]:
    first, *replies = thread["comments"]
    ours = [one for one in replies if one["user"]["login"] == LOGIN]
    is_over = first["user"]["login"] == LOGIN and any(title in first["body"] for title in said.resolved)
    if thread["resolved"] and not is_over:
        yield Wrong("lost result", "a conversation was resolved whose finding stands")
    if ours and not is_over:
        yield Wrong("lost result", "a conversation was answered whose finding stands")
    if len(ours) > 1:
        yield Wrong("double post", f"a conversation was answered {len(ours)} times")
    if is_over and not thread["resolved"] and "resolve" not in given_up:
        yield Wrong("stuck", "a conversation is not resolved")
    if is_over and not ours and "reply" not in given_up:
        yield Wrong("stuck", "a conversation is not answered")


def _command(pull: Pull, comment: dict[str, Any], found: bool, given_up: Collection[str]) -> Iterator[Wrong]:
    """Who gives a command is answered: by a reaction, and with what was asked for. `found`: there is a finding."""
    line, author = comment["body"].split("\n")[0], comment["user"]["login"]
    nothing = "explain" in line and not found
    if not line.startswith("/review") or author == LOGIN:
        return
    right = "eyes" if author == MAINTAINER and not nothing else "confused"
    got = [each["content"] for each in comment["reactions"]]
    if set(got) - {right}:
        yield Wrong("false success", f"{author} commanded `{line}` and got {got}")
    elif not got and "react" not in given_up:
        yield Wrong("stuck", f"`{line}` by {author} got no reaction")
    answers = [one for one in pull.comments if one["user"]["login"] == LOGIN and one["body"].startswith(f"> `{line}`")]
    if (author != MAINTAINER or "explain" in line) and not answers and "comment" not in given_up:
        yield Wrong("stuck", f"`{line}` by {author} got no answer")
    if len(answers) > 1:
        yield Wrong("double post", f"`{line}` by {author} got {len(answers)} answers")


def standing(stage: Stage, expected: str | None) -> list[Wrong]:
    """What the gates show in the end; `expected` where the model has not said it."""
    found = []
    for number, head, _ in opened(stage):
        shown, text = github.shown(stage.github.state, head)
        may = right(stage, head, opened(stage))
        should = expected or may
        if shown == "success" and may != "success":
            found.append(Wrong("false success", f"#{number} ends with success, where the truth is {may}"))
        elif shown != should or (should == "pending" and expected is None):
            found.append(Wrong("stuck", f"#{number} ends with `{shown}: {text}`, where {should} is right"))
    return found
