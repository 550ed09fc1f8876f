"""Instants and durations in microseconds."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.model.times import (
    END_OF_TIME,
    EPOCH,
    START_OF_TIME,
    format_datetime,
    format_duration,
    parse_datetime,
    parse_duration,
)

INSTANTS = st.integers(START_OF_TIME, END_OF_TIME)


@given(INSTANTS)
def test_every_instant_survives_its_text(micros: int) -> None:
    """format_datetime and parse_datetime are inverse over all of time."""
    assert parse_datetime(format_datetime(micros)) == micros


@given(st.datetimes(timezones=st.just(UTC)), st.integers(-14 * 60, 14 * 60))
def test_a_zone_moves_the_instant(moment: datetime, minutes: int) -> None:
    """An offset is subtracted, as ISO 8601 says."""
    micros = (moment - EPOCH) // timedelta(microseconds=1)
    shifted = micros + minutes * 60_000_000
    if START_OF_TIME <= shifted <= END_OF_TIME:
        zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
        assert parse_datetime(format_datetime(shifted)[:-1] + zone) == micros


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-11-15T10:00:00", "2026-11-15T10:00:00Z"),
        ("2026-11-15T10:00:00.1234569Z", "2026-11-15T10:00:00.123456Z"),
        ("2026-11-15T24:00:00Z", "2026-11-16T00:00:00Z"),
    ],
)
def test_lenient_forms(text: str, same: str) -> None:
    """No zone means UTC, digits past microseconds are cut, 24:00:00 is the next midnight."""
    assert parse_datetime(text) == parse_datetime(same)


@pytest.mark.parametrize(
    "text",
    [
        "", "yesterday", "2026-11-15", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-11-15T25:00:00Z",
        "2026-11-15T10:00:60Z", "2026-11-15T10:00:00+15:00", "2026-11-15T24:00:01Z", "-0001-01-01T00:00:00Z",
        "12026-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "٢٠٢٦-11-15T10:00:00Z",
    ],
)  # fmt: skip
def test_malformed_times_are_named(text: str) -> None:
    """What is no xsd:dateTime between the years 1 and 9999 is refused, and the message quotes it."""
    with pytest.raises(ValueError, match=r"dateTime|outside"):
        parse_datetime(text)


@pytest.mark.parametrize(
    ("text", "micros"),
    [("PT5M", 300_000_000), ("P1DT2H3M4.5S", 93_784_500_000), ("-PT1S", -1_000_000), ("PT0.000001S", 1)],
)
def test_durations(text: str, micros: int) -> None:
    """An xsd:dayTimeDuration is a number of microseconds."""
    assert parse_duration(text) == micros


@pytest.mark.parametrize("text", ["", "P", "PT", "P1Y", "PT1H1", "P1DT", "PT0.0000001S", "5 min"])
def test_malformed_durations(text: str) -> None:
    """What is no dayTimeDuration in whole microseconds is refused."""
    with pytest.raises(ValueError, match=r"dayTimeDuration|whole"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("micros", "text"), [(300_000_000, "5 min"), (1, "1 us"), (90_000_000, "90 s"), (172_800_000_000, "2 d")]
)
def test_durations_print_in_the_largest_whole_unit(micros: int, text: str) -> None:
    """A duration prints in the largest unit that divides it."""
    assert format_duration(micros) == text
