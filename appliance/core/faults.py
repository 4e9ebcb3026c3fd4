"""Faults: a named cause with what happened and what the person does next."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fault:
    """A fault that is not the pull request's.

    `cause` is a stable id; `sentence` says what is broken; `remedy` is what the person types; `symptom` is the raw
    text it was told by; `facts` is what was read beside it.
    """

    cause: str
    sentence: str
    remedy: str
    symptom: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.cause}: {self.sentence} Next: {self.remedy}"
