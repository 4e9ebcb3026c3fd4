"""The hidden marker in our own comments: what was reviewed, signed with a key of this appliance.

The forge is the truth: a lost database loses only history, since this is read back from the comment. Anyone can write
a comment, so a marker without our signature counts for nothing, nor does one of another head, base or pull request.
"""

import base64
import binascii
import hashlib
import hmac
import json
import re
from dataclasses import asdict, dataclass, replace

from appliance.core.identity import Identity
from appliance.core.pulls import Pull
from appliance.core.verdict import Gate

_PATTERN = re.compile(r"<!-- review-appliance:v1 ([A-Za-z0-9_=-]+) ([0-9a-f]{64}) -->")
MAX_FINDINGS = 50
MAX_DISMISSED = 20
MAX_PAYLOAD = 16_000  # of the 65,536 characters of a comment


@dataclass(frozen=True)
class Dismissed:
    """A finding that somebody with write access dismissed."""

    fingerprint: str
    priority: int
    path: str
    title: str
    who: str
    reason: str = ""


@dataclass(frozen=True)
class Marker:
    """What one comment reviewed. `findings` are (priority, path, title), at most MAX_FINDINGS.

    `at` is when the review was stored, in seconds of the epoch: it tells one review of a head from another. `digest` is
    of what held for it; the first version did not say. `fingerprints` are those of the findings, in their order.
    `dismissed` are findings that people dismissed, so that a lost database does not open them again; `revision` counts
    what people decided since the review. `advisory` tells of each of the findings, in their order, whether it blocks
    nothing; an earlier version did not say.
    """

    target: str
    head_sha: str
    base_ref: str
    base_sha: str
    merge_base: str
    gate_state: str
    gate_description: str
    at: float
    findings: tuple[tuple[int, str, str], ...] = ()
    digest: str = ""
    fingerprints: tuple[str, ...] = ()
    dismissed: tuple[Dismissed, ...] = ()
    revision: int = 0
    advisory: tuple[bool, ...] = ()

    @property
    def gate(self) -> Gate:
        assert self.gate_state in ("pending", "success", "failure", "error")
        return Gate(self.gate_state, self.gate_description)  # type: ignore[arg-type]

    @property
    def identity(self) -> Identity:
        return Identity(self.head_sha, self.base_ref, self.base_sha, self.merge_base, self.digest)

    def is_of(self, pull: Pull) -> bool:
        return (self.target, self.head_sha, self.base_ref) == (pull.target, pull.head_sha, pull.base_ref)


def render(marker: Marker, key: bytes) -> str:
    """The marker as a comment of HTML, at most about MAX_PAYLOAD characters: the last findings give way."""
    while len(payload := _encode(marker)) > MAX_PAYLOAD and (marker.findings or marker.dismissed):
        half, less = len(marker.findings) // 2, len(marker.dismissed) // 2
        marker = replace(marker, findings=marker.findings[:half], fingerprints=marker.fingerprints[:half])
        marker = replace(marker, advisory=marker.advisory[:half])
        marker = replace(marker, dismissed=marker.dismissed[:less])
    return f"<!-- review-appliance:v1 {payload} {_sign(payload, key)} -->"


def _encode(marker: Marker) -> str:
    return base64.urlsafe_b64encode(json.dumps(asdict(marker), separators=(",", ":")).encode()).decode()


def read(body: str, key: bytes) -> Marker | None:
    """The marker of a comment, or None if there is none with our signature."""
    for payload, signature in reversed(_PATTERN.findall(body)):  # ours is the last line; before it others write
        if hmac.compare_digest(signature, _sign(payload, key)):
            return _decode(payload)
    return None


def read_all(body: str, key: bytes) -> list[Marker]:
    """All of a comment that have our signature, in their order: an edited comment keeps those of older heads."""
    signed = [it for it, sign in _PATTERN.findall(body) if hmac.compare_digest(sign, _sign(it, key))]
    return [mark for payload in signed if (mark := _decode(payload))]


def _sign(payload: str, key: bytes) -> str:
    return hmac.new(key, payload.encode(), hashlib.sha256).hexdigest()


def _decode(payload: str) -> Marker | None:
    try:
        fields = json.loads(base64.urlsafe_b64decode(payload))
        fields["at"] = float(fields["at"])
        fields["findings"] = tuple((int(p), str(path), str(title)) for p, path, title in fields["findings"])
        fields["fingerprints"] = tuple(str(each) for each in fields.get("fingerprints", ()))
        fields["advisory"] = tuple(each is True for each in fields.get("advisory", ()))
        fields["dismissed"] = tuple(Dismissed(**each) for each in fields.get("dismissed", ()))
        marker = Marker(**fields)
    except (ValueError, TypeError, KeyError, binascii.Error):
        return None  # signed by us, but of a version that we no longer read
    return marker if marker.gate_state in ("pending", "success", "failure", "error") else None


_TAG = re.compile(r"<!-- review-appliance:tag ([A-Za-z0-9_=-]+) ([0-9a-f]{64}) -->")


@dataclass(frozen=True)
class Tag:
    """What one of our smaller texts is: a pull request review, a comment on a line, a reply. It says of no review what
    it concluded: `Marker` alone does. `kind` and `id` name it within the pull request."""

    target: str
    kind: str
    id: str


def render_tag(tag: Tag, key: bytes) -> str:
    fields = json.dumps(asdict(tag), separators=(",", ":")).encode()
    payload = base64.urlsafe_b64encode(fields).decode()
    return f"<!-- review-appliance:tag {payload} {_sign(f'tag {payload}', key)} -->"


def read_tag(body: str, key: bytes) -> Tag | None:
    """The tag of a text, or None if there is none with our signature; the last holds."""
    for payload, signature in reversed(_TAG.findall(body)):
        if hmac.compare_digest(signature, _sign(f"tag {payload}", key)):
            try:
                return Tag(**json.loads(base64.urlsafe_b64decode(payload)))
            except (ValueError, TypeError, binascii.Error):
                return None
    return None
