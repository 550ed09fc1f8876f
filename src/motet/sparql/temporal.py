"""Dates, times and durations of XML Schema: reading, writing, comparing, adding. Plain values, no terms.

Seconds and decimals are whole numbers of 10⁻¹⁸, so that everything is exact. Arithmetic follows XPath; pyoxigraph's
refusal of ``dateTime + duration`` (it has ``-``) is not followed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

SCALE = 10**18
_DAY = 86_400 * SCALE
_MAX_ZONE_OFFSET = 14 * 3_600 * SCALE
_DECIMAL = re.compile(r"([+-]?)(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))")
_ZONE = r"(?P<zone>Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])?"
_YEAR = r"(?P<year>-?(?:[1-9][0-9]{4,8}|[0-9]{4}))"
_MONTH, _DAY_OF_MONTH = r"(?P<month>0[1-9]|1[0-2])", r"(?P<day>0[1-9]|[12][0-9]|3[01])"
_CLOCK = r"(?P<hour>[01][0-9]|2[0-4]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9](?:\.[0-9]+)?)"
_SHAPES = {
    "dateTime": f"{_YEAR}-{_MONTH}-{_DAY_OF_MONTH}T{_CLOCK}{_ZONE}",
    "date": f"{_YEAR}-{_MONTH}-{_DAY_OF_MONTH}{_ZONE}",
    "time": f"{_CLOCK}{_ZONE}",
    "gYear": f"{_YEAR}{_ZONE}",
    "gYearMonth": f"{_YEAR}-{_MONTH}{_ZONE}",
    "gMonth": f"--{_MONTH}{_ZONE}",
    "gMonthDay": f"--{_MONTH}-{_DAY_OF_MONTH}{_ZONE}",
    "gDay": f"---{_DAY_OF_MONTH}{_ZONE}",
}
TEMPORAL_KINDS = tuple(_SHAPES)
_PATTERNS = {kind: re.compile(shape) for kind, shape in _SHAPES.items()}
HAS = {kind: frozenset(pattern.groupindex) for kind, pattern in _PATTERNS.items()}  # the fields a kind has
_DEFAULT_DATE = {"year": "1972", "month": "12", "day": "31"}  # a leap year, as XPath takes it for times
_DURATION = re.compile(
    r"(-?)P(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)D)?(?:T(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+(?:\.[0-9]+)?)S)?)?"
)
_MAX_DURATION = 60


class Moment(NamedTuple):
    """A place in local time; ``clock`` is the time of day, ``zone`` minutes east of UTC or None."""

    year: int
    month: int
    day: int
    clock: int
    zone: int | None

    @property
    def local(self) -> int:
        return _days(self.year, self.month, self.day) * _DAY + self.clock

    @property
    def instant(self) -> int:
        """On the UTC time line; without a zone as if it were UTC."""
        return self.local - (self.zone or 0) * 60 * SCALE


class Duration(NamedTuple):
    months: int
    seconds: int


def parse_decimal(text: str) -> int:
    """
    >>> parse_decimal("-1.50") * 2 == -3 * SCALE
    True
    """
    match = _DECIMAL.fullmatch(text)
    if match is None or len(text) > 80:
        raise ValueError(f"{text[:80]!r} is not a decimal")
    sign, whole, fraction, bare = match.groups()
    digits = (fraction or bare or "").rstrip("0")
    if len(digits) > 18:
        raise ValueError(f"{text!r} has more than 18 fraction digits")
    value = int(whole or "0") * SCALE + int(digits.ljust(18, "0"))
    if value >= 2**127:
        raise ValueError(f"{text!r} is too large")
    return -value if sign == "-" else value


def format_decimal(value: int) -> str:
    """
    >>> format_decimal(-SCALE // 2)
    '-0.5'
    """
    whole, fraction = divmod(abs(value), SCALE)
    digits = f".{fraction:018}".rstrip("0").rstrip(".")
    return f"{'-' if value < 0 else ''}{whole}{digits}"


def parse_moment(kind: str, text: str) -> Moment:
    """
    >>> parse_moment("date", "2020-02-29Z")
    Moment(year=2020, month=2, day=29, clock=0, zone=0)
    """
    match = _PATTERNS[kind].fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:80]!r} is not an xsd:{kind}")
    fields = _DEFAULT_DATE | {"hour": "0", "minute": "0", "second": "0"} | match.groupdict()
    year, month, day = int(fields["year"]), int(fields["month"]), int(fields["day"])
    if "day" not in HAS[kind]:
        day = 1 if kind != "time" else day
    if day > _month_length(year, month):
        raise ValueError(f"{text!r} is not a day of the calendar")
    clock = (int(fields["hour"]) * 3_600 + int(fields["minute"]) * 60) * SCALE + parse_decimal(fields["second"])
    if clock > _DAY:
        raise ValueError(f"{text!r} is after midnight")
    moment = Moment(year, month, day, clock, _parse_zone(fields["zone"]))
    if clock < _DAY:
        return moment
    return moment._replace(clock=0) if kind == "time" else _at(moment.local, moment.zone)


def format_moment(kind: str, moment: Moment) -> str:
    """
    >>> format_moment("gYearMonth", Moment(2020, 2, 1, 0, None))
    '2020-02'
    """
    year = f"{'-' if moment.year < 0 else ''}{abs(moment.year):04}"
    has = HAS[kind]
    date = {
        "dateTime": f"{year}-{moment.month:02}-{moment.day:02}T",
        "date": f"{year}-{moment.month:02}-{moment.day:02}",
        "time": "",
        "gYear": year,
        "gYearMonth": f"{year}-{moment.month:02}",
        "gMonth": f"--{moment.month:02}",
        "gMonthDay": f"--{moment.month:02}-{moment.day:02}",
        "gDay": f"---{moment.day:02}",
    }[kind]
    return date + (_format_clock(moment.clock) if "hour" in has else "") + format_zone(moment.zone)


def format_zone(zone: int | None) -> str:
    """
    >>> format_zone(-480), format_zone(0), format_zone(None)
    ('-08:00', 'Z', '')
    """
    if not zone:
        return "" if zone is None else "Z"
    hours, minutes = divmod(abs(zone), 60)
    return f"{'-' if zone < 0 else '+'}{hours:02}:{minutes:02}"


def parse_duration(kind: str, text: str) -> Duration:
    """
    >>> parse_duration("duration", "-P1Y2M") == Duration(-14, 0)
    True
    """
    match = _DURATION.fullmatch(text)
    if match is None or len(text) > _MAX_DURATION or text.endswith(("P", "T")):
        raise ValueError(f"{text[:80]!r} is not an xsd:{kind}")
    sign, years, months, days, hours, minutes, seconds = match.groups()
    if (kind == "dayTimeDuration" and (years or months)) or (kind == "yearMonthDuration" and ("T" in text or days)):
        raise ValueError(f"{text!r} is not an xsd:{kind}")
    whole = int(days or 0) * 86_400 + int(hours or 0) * 3_600 + int(minutes or 0) * 60
    duration = Duration(int(years or 0) * 12 + int(months or 0), whole * SCALE + parse_decimal(seconds or "0"))
    if duration.months >= 2**63 or duration.seconds >= 2**127:
        raise ValueError(f"{text!r} is too long")
    return Duration(-duration.months, -duration.seconds) if sign else duration


def format_duration(kind: str, duration: Duration) -> str:
    """
    >>> format_duration("dayTimeDuration", Duration(0, -36 * 3600 * SCALE))
    '-P1DT12H'
    """
    if duration == (0, 0):
        return "P0M" if kind == "yearMonthDuration" else "PT0S"
    years, months = divmod(abs(duration.months), 12)
    days, clock = divmod(abs(duration.seconds), _DAY)
    hours, rest = divmod(clock, 3_600 * SCALE)
    minutes, seconds = divmod(rest, 60 * SCALE)
    date = "".join(f"{amount}{unit}" for amount, unit in ((years, "Y"), (months, "M"), (days, "D")) if amount)
    time = "".join(f"{amount}{unit}" for amount, unit in ((hours, "H"), (minutes, "M")) if amount)
    time += f"{format_decimal(seconds)}S" if seconds else ""
    sign = "-" if duration.months < 0 or duration.seconds < 0 else ""
    return f"{sign}P{date}{'T' + time if time else ''}"


def compare_moments(left: Moment, right: Moment) -> int | None:
    """-1, 0 or 1; None when only one has a zone and the other's could decide."""
    difference = left.instant - right.instant
    if (left.zone is None) != (right.zone is None) and abs(difference) <= _MAX_ZONE_OFFSET:
        return None
    return _sign(difference)


def compare_durations(left: Duration, right: Duration) -> int | None:
    """-1, 0 or 1; None when it depends on the month they are added to (XML Schema, section 3.2.6.2)."""
    if left == right:
        return 0
    starts = (Moment(1696, 9, 1, 0, 0), Moment(1697, 2, 1, 0, 0), Moment(1903, 3, 1, 0, 0), Moment(1903, 7, 1, 0, 0))
    orders = {_sign(add("dateTime", at, left).local - add("dateTime", at, right).local) for at in starts}
    return orders.pop() if len(orders) == 1 else None


def add(kind: str, moment: Moment, duration: Duration) -> Moment:
    """
    >>> format_moment("date", add("date", parse_moment("date", "2020-01-31"), Duration(1, 0)))
    '2020-02-29'
    """
    if kind == "time":
        return moment._replace(clock=(moment.clock + duration.seconds) % _DAY)
    year, month = divmod(moment.year * 12 + moment.month - 1 + duration.months, 12)
    day = min(moment.day, _month_length(year, month + 1))
    local = Moment(year, month + 1, day, moment.clock, None).local + duration.seconds
    sum_ = _at(local, moment.zone)
    return sum_._replace(clock=0) if kind == "date" else sum_


def _at(local: int, zone: int | None) -> Moment:
    days, clock = divmod(local, _DAY)
    return Moment(*_date(days), clock, zone)


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01, by eras of 400 years that begin in March."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    era, day_of_era = divmod(days + 719_468, 146_097)
    of_era = (day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    of_year = day_of_era - (365 * of_era + of_era // 4 - of_era // 100)
    shifted = (5 * of_year + 2) // 153
    month = (shifted + 2) % 12 + 1
    return era * 400 + of_era + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def _month_length(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and leap else (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month - 1]


def _parse_zone(text: str | None) -> int | None:
    if text is None or text == "Z":
        return None if text is None else 0
    minutes = int(text[1:3]) * 60 + int(text[4:6])
    if minutes > 14 * 60:
        raise ValueError(f"{text} is not a time zone")
    return -minutes if text[0] == "-" else minutes


def _format_clock(clock: int) -> str:
    hours, rest = divmod(clock, 3_600 * SCALE)
    minutes, seconds = divmod(rest, 60 * SCALE)
    text = format_decimal(seconds)
    return f"{hours:02}:{minutes:02}:{text if seconds >= 10 * SCALE else '0' + text}"


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)
