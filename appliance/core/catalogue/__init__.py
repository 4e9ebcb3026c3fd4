"""The catalogue of faults: each cause with its texts, the facts that prove or refute it, and what the person does.

Data only; `core.faults.classify` reads it. To add a cause, add an entry to the module of its layer. The order matters
where two entries fit equally well: the likelier one stands first.
"""

from appliance.core.catalogue import confinement, image, kernel, limits, ours, proc, seccomp
from appliance.core.catalogue.entry import REPORT, Condition, Entry

__all__ = ["CATALOGUE", "UNKNOWN", "Condition", "Entry"]

# Limits first: their counters decide against any text. Seccomp next: its filter runs before the kernel's own reasons.
CATALOGUE: tuple[Entry, ...] = (
    *image.ENTRIES,
    *limits.ENTRIES,
    *seccomp.ENTRIES,
    *proc.ENTRIES,
    *kernel.ENTRIES,
    *confinement.ENTRIES,
    *ours.ENTRIES,
)

UNKNOWN = Entry(
    "unknown",
    "The sandbox does not work, for a reason that is not in the catalogue.",
    f"{REPORT}.",
)
