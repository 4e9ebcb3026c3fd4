"""Our own secrets taken out of a stream, also where it cuts them in two."""

from collections.abc import Callable, Sequence

from appliance.core.redact import BEGINNING, GONE, masked

CODING = "latin-1"  # any bytes and back again; our secrets are ASCII, for they go into headers


class MaskedStream:
    """A stream without our secrets. Of each chunk all goes on at once but an end that may be a secret's beginning.

    `known` tells them in all their spellings, anew for each chunk: one may be learnt while the stream goes on. What
    only begins like a secret stays, other than in what people read (`redact`): each JSON Web Token begins as ours
    does, and Codex runs what stands in the stream. Shapes stay for the same reason, and since they have no longest
    that could be waited for.
    """

    def __init__(self, known: Callable[[], Sequence[str]]) -> None:
        self._known = known
        self._kept = ""

    def feed(self, chunk: bytes) -> bytes:
        known = self._known()
        data = masked(self._kept + chunk.decode(CODING), known)
        kept = held_back(data, known)
        self._kept = data[len(data) - kept :]
        return data[: len(data) - kept].encode(CODING)

    def end(self) -> bytes:
        """What was kept; a beginning that is long enough to tell the secret does not go on."""
        rest, self._kept = self._kept, ""
        return (rest if len(rest) < BEGINNING else GONE).encode(CODING)


def held_back(data: str, known: Sequence[str]) -> int:
    """How many characters at the end of `data` may be the beginning of a secret."""
    longest = 0
    for form in known:
        at = data.find(form[0], max(0, len(data) - len(form) + 1))
        while 0 <= at < len(data) - longest:
            if form.startswith(data[at:]):
                longest = len(data) - at
            at = data.find(form[0], at + 1)
    return longest
