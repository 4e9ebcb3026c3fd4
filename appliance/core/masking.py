"""Takes our own secrets out of what another side sends back: by value, also where a stream cuts them in two."""

import json
from collections.abc import Iterable

MIN_SECRET = 8  # characters; a shorter one would be found in any text
STARS = b"***"


class Mask:
    """Knows `secrets`, each also as it stands in JSON; more can be learnt later."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: tuple[bytes, ...] = ()
        self.learn(secrets)

    def learn(self, secrets: Iterable[str]) -> None:
        forms = set(self._forms)
        for secret in secrets:
            if len(secret) >= MIN_SECRET:
                quoted = json.dumps(secret)[1:-1]
                forms |= {form.encode() for form in (secret, quoted, quoted.replace("/", "\\/"))}
        self._forms = tuple(sorted(forms, key=len, reverse=True))

    def text(self, text: str) -> str:
        return self.raw(text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")

    def raw(self, data: bytes) -> bytes:
        for form in self._forms:
            data = data.replace(form, STARS)
        return data

    def held_back(self, data: bytes) -> int:
        """How many bytes at the end of `data` may be the beginning of a secret."""
        longest = 0
        for form in self._forms:
            for size in range(min(len(form) - 1, len(data)), longest, -1):
                if data.endswith(form[:size]):
                    longest = size
                    break
        return longest


class MaskedStream:
    """A stream without our secrets. Of each chunk all goes on at once but an end that may be a secret's beginning."""

    def __init__(self, mask: Mask) -> None:
        self._mask = mask
        self._kept = b""

    def feed(self, chunk: bytes) -> bytes:
        data = self._mask.raw(self._kept + chunk)
        kept = self._mask.held_back(data)
        self._kept = data[len(data) - kept :]
        return data[: len(data) - kept]

    def end(self) -> bytes:
        rest, self._kept = self._kept, b""
        return rest
