"""The hours in which reviews begin: real zones, nights, the two hours of the year that are not like others."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from appliance.core.windows import Schedule, parse
from appliance.settings import _zone


def schedule(text: str) -> Schedule:
    found, bad = parse(text, ZoneInfo)
    assert bad == ()
    return found


def at(text: str, zone: str = "UTC", fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


WORK = "Mon-Fri 08:00-18:00 Europe/Berlin"
NIGHT = "Fri 22:00-06:00"


@pytest.mark.parametrize(
    ("text", "moment", "zone", "expected"),
    [
        ("", "2026-11-30 03:00", "UTC", True),
        (WORK, "2026-11-30 07:59", "Europe/Berlin", False),
        (WORK, "2026-11-30 08:00", "Europe/Berlin", True),
        (WORK, "2026-11-30 17:59:59", "Europe/Berlin", True),
        (WORK, "2026-11-30 18:00", "Europe/Berlin", False),
        (WORK, "2026-11-29 12:00", "Europe/Berlin", False),  # a Sunday
        (WORK, "2026-06-01 06:30", "UTC", True),  # summer: 08:30
        (WORK, "2026-11-30 06:30", "UTC", False),  # winter: 07:30
        (NIGHT, "2026-12-04 21:59", "UTC", False),
        (NIGHT, "2026-12-04 22:00", "UTC", True),
        (NIGHT, "2026-12-05 05:59", "UTC", True),
        (NIGHT, "2026-12-05 06:00", "UTC", False),
        (NIGHT, "2026-12-04 05:59", "UTC", False),  # that is Thursday's night
        ("Sun 23:00-01:00", "2026-12-07 00:30", "UTC", True),  # a Monday
        ("Sat-Mon 10:00-11:00", "2026-11-29 10:30", "UTC", True),
        ("Sat-Mon 10:00-11:00", "2026-12-01 10:30", "UTC", False),
        ("mon,WED 8:00-9:00", "2026-12-02 08:30", "UTC", True),
        ("Mon-Tue, Thu 8:00-9:00", "2026-12-03 08:30", "UTC", True),
        ("12:00-13:00", "2026-11-29 12:30", "UTC", True),
        ("00:00-24:00", "2026-11-29 23:59", "UTC", True),
        ("20:00-24:00", "2026-11-29 23:59:59", "UTC", True),
        ("20:00-24:00", "2026-11-30 00:00", "UTC", False),
        ("20:00-00:00", "2026-11-29 23:59:59", "UTC", True),
        ("20:00-00:00", "2026-11-30 00:00", "UTC", False),
        (f"{NIGHT}; {WORK}", "2026-12-05 03:00", "UTC", True),
        (f" {NIGHT} ;; {WORK} ;", "2026-11-30 12:00", "UTC", True),
        ("02:00-03:00 Europe/Berlin", "2026-10-25 00:30", "UTC", True),  # the hour that comes twice: once …
        ("02:00-03:00 Europe/Berlin", "2026-10-25 01:30", "UTC", True),  # … and again
        ("02:00-03:00 Europe/Berlin", "2026-03-29 01:00", "UTC", False),  # the hour that is left out
        ("02:00-03:00 Europe/Berlin", "2026-03-29 00:59", "UTC", False),
    ],
)
def test_when_it_is_open(text: str, moment: str, zone: str, expected: bool) -> None:
    assert schedule(text).open(at(moment, zone)) is expected


@pytest.mark.parametrize(
    ("text", "now", "zone", "expected"),
    [
        (WORK, "2026-11-30 07:00", "Europe/Berlin", "2026-11-30 08:00"),
        (WORK, "2026-11-27 18:00", "Europe/Berlin", "2026-11-30 08:00"),  # over the weekend
        (WORK, "2026-03-27 19:00", "Europe/Berlin", "2026-03-30 08:00"),  # and over the change of the clock
        (NIGHT, "2026-12-05 06:00", "UTC", "2026-12-11 22:00"),
        (f"{NIGHT};{WORK}", "2026-12-04 18:30", "UTC", "2026-12-04 22:00"),
        ("Sun 02:00-03:00 Europe/Berlin", "2026-03-28 12:00", "Europe/Berlin", "2026-04-05 02:00"),
        ("02:30-06:00 Europe/Berlin", "2026-03-29 01:00", "Europe/Berlin", "2026-03-29 03:00"),
        ("20:00-24:00", "2026-11-30 00:00", "UTC", "2026-11-30 20:00"),
    ],
)
def test_when_it_opens_next(text: str, now: str, zone: str, expected: str) -> None:
    found = schedule(text)
    opens = found.opens(at(now, zone))
    assert opens == at(expected, zone)
    assert found.open(opens) and not found.open(opens - 60)


def test_in_the_night_that_has_an_hour_twice_it_opens_twice() -> None:
    between = datetime(2026, 10, 25, 0, 45, tzinfo=UTC).timestamp()
    found = schedule("02:00-02:30 Europe/Berlin")
    assert not found.open(between)
    assert found.opens(between) == at("2026-10-25 02:00", "Europe/Berlin", fold=1)


@pytest.mark.parametrize(
    "text",
    [
        "always", "Mon-Fri", "8-18", "08:00-08:00", "24:00-06:00", "08:00-25:00", "08:60-09:00", "Mon 08:00 to 18:00",
        "Mon-Wed-Fri 08:00-09:00", "Moon 08:00-09:00", "08:00-18:00 Europe/Nowhere", "08:00-18:00 Europe",
        "08:00-18:00 ../../etc/passwd", "08:00-18:00 Europe/Berlin UTC", "08:00-18:00, 20:00-22:00", "-1:00-02:00",
    ],
)  # fmt: skip
def test_what_is_no_window_is_named(text: str) -> None:
    found, bad = parse(f"{WORK}; {text}", _zone)
    assert bad == (text,)
    assert len(found.windows) == 1
