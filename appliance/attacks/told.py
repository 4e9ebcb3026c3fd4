"""What an attack is told and what it tells."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Needle:
    """What must not be found: known by its length and a salted digest, so that the search itself gives nothing away."""

    name: str
    length: int
    digest: str


@dataclass(frozen=True)
class Plan:
    """What one round of attacks is told. `where` is `jail` or `sandbox`; `around` is what lies outside of that."""

    where: str
    nonce: str
    salt: str
    needles: tuple[Needle, ...]
    control: str  # the name of the needle that has to be found
    around: Mapping[str, Any]

    @staticmethod
    def read(told: Mapping[str, Any]) -> "Plan":
        return Plan(**{**told, "needles": tuple(Needle(*one) for one in told["needles"])})

    def found(self, data: bytes) -> set[str]:
        """The names of the needles that occur in `data`. They have no blanks, so only long words are looked into."""
        names: set[str] = set()
        for length in {needle.length for needle in self.needles}:
            wanted = {needle.digest: needle.name for needle in self.needles if needle.length == length}
            for word in set(re.findall(rb"[!-~]{%d,}" % length, data)):
                for start in range(len(word) - length + 1):
                    name = wanted.get(digest(self.salt, word[start : start + length]))
                    if name:
                        names.add(name)
        return names


@dataclass
class Told:
    """What one attack tells: where it got to, whether its control held, and why not if it can say."""

    control: bool = False
    reached: list[str] = field(default_factory=list)
    note: str = ""


Attack = Callable[[Plan], Told]


def digest(salt: str, secret: bytes) -> str:
    return hashlib.sha256(salt.encode() + secret).hexdigest()[:32]
