"""When the cycle last moved: the heartbeat tells of a stuck one."""

import time
from dataclasses import dataclass, field


@dataclass
class Progress:
    """`moved_at` is in seconds of the monotonic clock."""

    moved_at: float = field(default_factory=time.monotonic)
    running: bool = False

    def moved(self) -> None:
        self.moved_at = time.monotonic()
