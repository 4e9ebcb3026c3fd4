"""The loop: its health, its last cycle, and what holds it up."""

import time
from collections.abc import Iterator

from appliance.core.doctor import Line, fine, found, of_fault
from appliance.core.doctor_forge import duration
from appliance.core.faults import Fault, full_stop
from appliance.core.holds import again
from appliance.core.moments import clock_time, next_day
from appliance.health import read
from appliance.memory import Memory
from appliance.wiring import Appliance

GRACE_SECONDS = 300.0  # as the loop's own watch has it


def check(parts: Appliance) -> Iterator[Line]:
    health = read(parts.settings.run_dir)
    if health is None:
        yield of_fault("health", STALE)
    elif health.state == "starting":
        yield found("health", "health-starting")
    elif health.state == "unhealthy":
        sentence, _, remedy = health.message.partition(" Next: ")
        yield of_fault("health", Fault(health.cause, sentence, remedy or "see `docker logs review-appliance`."))
    else:
        yield fine("health", f"The appliance is healthy: {full_stop(health.message)}")
    if parts.blocked:
        yield found("cycle", "unexamined", why="what is known of cycles and waits stands in the state volume.")
        return
    yield _cycle(parts)
    yield from _holds(parts)


def _cycle(parts: Appliance) -> Line:
    last = parts.store.note("cycle") or {}
    ended, now = last.get("last_ended"), time.time()
    if not ended:
        return found("cycle", "health-starting")
    patience = parts.settings.interval + parts.settings.review_timeout + GRACE_SECONDS
    if now - ended > patience:
        return found("cycle", "cycle-late", ago=duration(now - ended))
    ago = duration(now - ended)
    return found("cycle", "cycle-failed", ago=ago) if last.get("failed") else fine("cycle", f"One ended {ago} ago.")


def _holds(parts: Appliance) -> Iterator[Line]:
    memory = Memory(parts.store, parts.settings.interval, parts.credentials(), time.time, lambda: 0.0)
    held, now = memory.held(), time.time()
    waits = [(held.fault, held.until, again(held, now))] if held is not None and held.until > now else []
    day = parts.day_fault()
    waits += [(day, next_day(now), "")] if day else []
    for fault, until, sooner in waits:
        told = {"cause": fault.cause, "sentence": fault.sentence, "remedy": f"{fault.remedy} {sooner}".rstrip()}
        yield found("holds", "held", until=clock_time(until, now), **told)
    if not waits:
        yield fine("holds", "Nothing holds up the reviews.")


STALE = Fault(
    "stale",
    "The appliance does not report its health.",
    "see `docker logs --tail 50 review-appliance`, then `docker restart review-appliance`.",
)
