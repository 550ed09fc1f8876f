"""`detect_pandas` has the matches of the reference engine and of Spark, without a session."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pandas as pd
import pytest
from tests.spark.frames.test_detect import NOON, PATTERNS, Match, day, expected

from motet.model.errors import UsageError
from motet.spark import detect_pandas

TIMES: dict[str, Any] = {"start": "begin", "end": "finish", "id": "n"}


def frame(count: int) -> pd.DataFrame:
    frame = pd.DataFrame(day(count))
    return frame.astype({"level": "Int64"}).assign(finish=pd.to_datetime(frame.finish, utc=True))


def matches(found: pd.DataFrame) -> set[Match]:
    fixed = [name for name in ("subscription", "start", "end", "events") if name in found.columns]
    result = {
        (
            row.get("subscription", "matches"),
            row["start"].to_pydatetime(),
            row["end"].to_pydatetime(),
            frozenset(row["events"]),
            frozenset((name, cell) for name, cell in row.items() if name not in fixed and not pd.isna(cell)),
        )
        for row in found.to_dict("records")
    }
    assert len(result) == len(found), "each match once"
    return result


def test_subscriptions_find_what_the_reference_finds() -> None:
    """Every operator, with intervals and nulls."""
    assert matches(detect_pandas(frame(60), PATTERNS, **TIMES)) == expected(day(60), PATTERNS)


def test_conditions_are_texts_functions_or_values() -> None:
    """The three forms select the same rows; the result has the types of the columns and the labels of the index."""
    readings = frame(40).set_index("n", drop=False)
    pattern = "smoke BEFORE heat WITHIN 60 s SELECT ?smoke ?heat_celsius"
    forms: list[dict[str, Any]] = [
        {"smoke": "kind == 'smoke'", "heat": "kind == 'heat' and celsius > 40"},
        {"smoke": lambda df: df.kind == "smoke", "heat": lambda df: (df.kind == "heat") & (df.celsius > 40)},
        {"smoke": readings.kind == "smoke", "heat": ((readings.kind == "heat") & (readings.celsius > 40)).to_numpy()},
    ]
    found = [
        detect_pandas(readings, pattern, events=events, by="room", start="begin", end="finish") for events in forms
    ]
    assert len(found[0])
    for other in found[1:]:
        pd.testing.assert_frame_equal(other, found[0])
    assert found[0].columns.tolist() == ["start", "end", "events", "room", "smoke", "heat_celsius"]
    assert found[0].dtypes["heat_celsius"] == "float64"
    assert set(found[0].smoke) <= set(readings.index)


def test_absence_begins_at_the_first_row_or_since() -> None:
    """As in Spark."""
    rows = frame(10)
    events = {"flood": "kind == 'flood'"}
    [row] = detect_pandas(rows, "NO flood FOR 10 s", events=events, **TIMES).to_dict("records")
    assert (row["start"], row["events"]) == (rows.finish.fillna(rows.begin).min(), [])
    since = NOON - timedelta(days=1)
    [row] = detect_pandas(rows, "NO flood FOR 10 s", events=events, since=since, **TIMES).to_dict("records")
    assert row["end"] == since + timedelta(seconds=10)


def test_naive_times_stay_naive() -> None:
    """They are in UTC."""
    rows = pd.DataFrame({"start": pd.to_datetime(["2026-11-15 10:00", "2026-11-15 10:01"]), "n": [1, 2]})
    found = detect_pandas(rows, "EVENT a { ?a :n 1 } EVENT b { ?b :n 2 } WHEN a BEFORE b WITHIN 5 min")
    assert found.start.tolist() == [pd.Timestamp("2026-11-15 10:00")]


def test_a_frame_without_matches_has_the_columns() -> None:
    """Also a frame without rows."""
    found = detect_pandas(frame(10).head(0), "a", events={"a": "n == 1"}, by="room", **TIMES)
    assert (found.columns.tolist(), len(found)) == (["start", "end", "events", "room", "a"], 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": "when"}, "(?s)no column 'when'.*it has n, begin"),
        ({"start": "room"}, "'room' is object, not a timestamp"),
        ({"by": "rom"}, "no column 'rom'"),
        ({"id": "kind"}, "the values of the column 'kind' are not unique"),
        ({"events": {"a": "knid == 1"}}, "the condition of event 'a' fails"),
        ({"events": {"a": "n"}}, "not one boolean per row"),
        ({"by": "list"}, "'list' is list.*not a simple value"),
        ({"by": "mixed"}, "values of several types"),
        ({"since": "soon"}, "since: 'soon' is not an xsd:dateTime"),
        ({"events": None, "by": "room"}, "`by` belongs to `events`"),
    ],
)
def test_an_invalid_query_is_refused(arguments: dict[str, Any], message: str) -> None:
    """The error names what is wrong."""
    rows = frame(3).assign(list=[[1], [2], [3]], mixed=[1, "a", 2.5])
    with pytest.raises(UsageError, match=message):
        detect_pandas(rows, "a", **{"events": {"a": "n == 1"}, "start": "begin", **arguments})
