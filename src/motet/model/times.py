"""Instants and durations as whole microseconds since 1970-01-01T00:00:00Z, the only time unit inside Motet."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from motet.model.errors import UsageError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAIVE_EPOCH = datetime(1970, 1, 1)  # subtracting without zones takes half the time
START_OF_TIME = -62_135_596_800_000_000  # 0001-01-01T00:00:00Z, the earliest instant a log can hold
END_OF_TIME = 253_402_300_799_999_999  # 9999-12-31T23:59:59.999999Z, the tick that ends a finite log

Instant = str | datetime  # as Python programs write it: an xsd:dateTime, or a datetime with a zone

UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}

_DATETIME = re.compile(
    r"(-?\d{4,})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(Z|[+-](?:0\d|1[0-3]):[0-5]\d|[+-]14:00)?", re.ASCII
)
_DURATION = re.compile(r"(-?)P(?=\d|T\d)(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d+))?S)?)?", re.ASCII)


def parse_datetime(lexical: str) -> int:
    """The instant of an xsd:dateTime. No zone means UTC; digits past microseconds are cut.

    >>> parse_datetime("1970-01-01T00:00:01.5Z")
    1500000
    """
    match = _DATETIME.fullmatch(lexical.strip(" \t\r\n"))
    if match is None:
        raise ValueError(f"{lexical!r} is not an xsd:dateTime such as 2026-11-15T10:00:00Z")
    *fields, fraction, zone = match.groups()
    year, month, day, hour, minute, second = map(int, fields)
    if not 1 <= year <= 9999:
        raise ValueError(f"{lexical!r} is outside the years 0001 to 9999")
    end_of_day = hour == 24 and minute == second == 0 and not int(fraction or 0)
    try:
        passed = datetime(year, month, day, 0 if end_of_day else hour, minute, second) - _NAIVE_EPOCH
    except ValueError as error:
        raise ValueError(f"{lexical!r} is not an xsd:dateTime: {error}") from None
    micros = passed.days * UNITS["d"] + passed.seconds * UNITS["s"]
    micros += int(fraction.ljust(6, "0")[:6]) if fraction else 0
    micros += (UNITS["d"] if end_of_day else 0) - _zone_offset(zone)
    if not START_OF_TIME <= micros <= END_OF_TIME:
        raise ValueError(f"{lexical!r} is outside the years 0001 to 9999")
    return micros


def to_micros(instant: Instant) -> int:
    """An instant as Python programs write it, in microseconds; a datetime without a zone is refused.

    >>> to_micros(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)), to_micros("1970-01-01T00:00:01Z")
    (1000000, 1000000)
    """
    if isinstance(instant, datetime):
        if instant.utcoffset() is None:
            raise UsageError(
                f"the datetime {instant.isoformat()} has no zone",
                advice="Add one: datetime.now(UTC), or value.replace(tzinfo=UTC) if it is in UTC.",
            )
        return (instant - EPOCH) // timedelta(microseconds=1)
    if isinstance(instant, str):
        try:
            return parse_datetime(instant)
        except ValueError as error:
            raise UsageError(str(error), advice="Write 2026-11-15T10:00:00Z.") from None
    raise UsageError(
        f"{instant!r} is not a time", advice="Give a datetime with a zone, or text such as 2026-11-15T10:00:00Z."
    )


def to_datetime(micros: int) -> datetime:
    """The instant as a datetime in UTC.

    >>> to_datetime(1500000).isoformat()
    '1970-01-01T00:00:01.500000+00:00'
    """
    return EPOCH + timedelta(microseconds=micros)


def format_datetime(micros: int) -> str:
    """
    >>> format_datetime(1500000)
    '1970-01-01T00:00:01.500000Z'
    """
    return f"{(_NAIVE_EPOCH + timedelta(microseconds=micros)).isoformat(timespec='microseconds')}Z"


def parse_duration(lexical: str) -> int:
    """The length of an xsd:dayTimeDuration in microseconds.

    >>> parse_duration("PT1M0.5S")
    60500000
    """
    match = _DURATION.fullmatch(lexical)
    if match is None:
        raise ValueError(f"{lexical!r} is not an xsd:dayTimeDuration such as PT5M")
    sign, days, hours, minutes, seconds, fraction = match.groups()
    if len((fraction or "").rstrip("0")) > 6:
        raise ValueError(f"{lexical!r} is not a whole number of microseconds")
    micros = int((fraction or "").rstrip("0").ljust(6, "0"))
    for amount, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")):
        micros += int(amount or 0) * UNITS[unit]
    return -micros if sign else micros


def format_duration(micros: int) -> str:
    """The shortest exact form in one unit.

    >>> format_duration(300000000)
    '5 min'
    """
    if micros == 0:
        return "0 s"
    unit = max((unit for unit in UNITS if micros % UNITS[unit] == 0), key=UNITS.__getitem__)
    return f"{micros // UNITS[unit]} {unit}"


def _zone_offset(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    offset = int(zone[1:3]) * UNITS["h"] + int(zone[4:6]) * UNITS["min"]
    return -offset if zone[0] == "-" else offset
