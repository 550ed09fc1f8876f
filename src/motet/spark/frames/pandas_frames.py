"""``motet.spark.detect_pandas``: the matches of a pattern over a pandas DataFrame, in this process, without Spark.

Rows and patterns have the meaning of `motet.spark.detect`. One processor reads all rows in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.row_values import arrow_cells, arrow_kind, infer
from motet.model.errors import UsageError
from motet.model.terms import XSD
from motet.spark.frames.detect import check_output, instant_of
from motet.spark.frames.query import (
    COLUMN,
    ROW,
    TIME,
    FrameQuery,
    OutputVariable,
    Role,
    column_name,
    parse_pattern,
    parse_subscriptions,
)
from motet.spark.frames.rows import DOCUMENT, END, ID, START, role_name, text_name
from motet.spark.frames.run import MATCHES, TaskSpec, detect_sorted

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 65_536

FrameCondition = str | Callable[[Any], object] | Sequence[bool]  # for DataFrame.eval, of the DataFrame, or its values


def detect_pandas(  # noqa: PLR0913  (independent options)
    frame: pd.DataFrame,
    pattern: str,
    *,
    events: Mapping[str, FrameCondition] | None = None,
    by: str | Sequence[str] = (),
    start: str = "start",
    end: str | None = None,
    id: str | None = None,  # noqa: A002  (the usual name)
    xml: str = "value",
    since: datetime | str | None = None,
) -> pd.DataFrame:
    """The matches of a pattern over the rows of a pandas DataFrame: one row each.

    The arguments are those of `motet.spark.detect`. A condition of ``events`` is text for ``DataFrame.eval``, a
    function of the DataFrame, or boolean values::

        detect_pandas(readings, "smoke BEFORE heat WITHIN 5 min", start="time", by="room",
                      events={"smoke": "kind == 'smoke' and level > 3", "heat": lambda df: df.celsius > 50})

    ``events`` of the result has the values of the column ``id`` or, without one, the labels of the index.
    """
    columns = [by] if isinstance(by, str) else list(by)
    if events is None:
        if columns:
            raise UsageError("`by` belongs to `events`", advice="join by a shared variable: ?a :room ?r … ?b :room ?r")
        query = parse_subscriptions(pattern)
    else:
        query = parse_pattern(pattern, list(events), {name: name for name in columns}, list(frame.columns))
    check_output(query)
    conditions = {name: _condition(frame, name, condition) for name, condition in (events or {}).items()}
    rows = _Rows(frame, query, start, end, id, xml)
    spec = TaskSpec(
        query,
        tuple(XSD + rows.values[name].kind for name in query.columns),
        None if since is None else instant_of(since, "since"),
    )
    slices = rows.batch(conditions).to_batches(max_chunksize=BATCH_ROWS)
    found = pa.Table.from_batches(detect_sorted(spec, 0, rows.least_time, slices), MATCHES)
    return rows.result(found)


def _condition(frame: pd.DataFrame, event: str, condition: FrameCondition) -> np.ndarray:
    """The rows that can be an event, as booleans."""
    try:
        found = frame.eval(condition) if isinstance(condition, str) else condition
        values = np.asarray(found(frame) if callable(found) else found)
    except Exception as error:  # whatever pandas or the function raises
        raise UsageError(
            f"the condition of event {event!r} fails: {error}", advice="write it as for DataFrame.eval: kind == 'smoke'"
        ) from error
    if values.dtype != np.bool_ or values.shape != (len(frame),):
        what = f"{values.dtype} of {values.shape}"
        raise UsageError(
            f"the condition of event {event!r} is {what}, not one boolean per row", advice="add a comparison"
        )
    return values


@dataclass(frozen=True)
class _Values:
    """The values of a column as texts, null where there is none, with their XSD type."""

    kind: str
    texts: list[str | None]
    originals: Sequence[Any]

    @cached_property
    def by_text(self) -> dict[str | None, Any]:
        return dict(zip(self.texts, self.originals, strict=True))


class _Rows:
    """The rows of a DataFrame with their times, ids and values."""

    def __init__(
        self, frame: pd.DataFrame, query: FrameQuery, start: str, end: str | None, id_: str | None, xml: str
    ) -> None:
        self._frame = frame
        self._query = query
        self._zone = getattr(frame[start].dtype, "tz", None) if start in frame.columns else None
        self._start = self._micros(start)
        ends = None if end is None else self._micros(end)
        self._end = self._start if ends is None else pc.coalesce(ends, self._start)
        self.values = {name: self._values(name) for name in query.columns}
        self._documents = self._document_column(xml) if query.has_blocks else None
        self._labels: list[Hashable] = list(frame.index if id_ is None else frame[self._existing(id_)])
        texts = list(map(str, range(len(frame)))) if id_ is None else self._values(id_).texts
        self._ids = [None if text is None else f"{ROW}{quote_plus(text)}" for text in texts]
        self._label_by_text = dict(zip(texts, self._labels, strict=True))
        present = [id_ for id_ in self._ids if id_ is not None]
        if len(set(present)) < len(present):
            raise UsageError(
                f"the values of the column {id_!r} are not unique", advice="drop duplicates, or leave id out"
            )

    @property
    def least_time(self) -> int | None:
        """The least end of all rows."""
        least: int | None = pc.min(self._end.filter(self._is_event())).as_py()
        return least

    def _is_event(self) -> pa.Array:
        has_id = pa.array([id_ is not None for id_ in self._ids], pa.bool_())
        return pc.and_(pc.fill_null(pc.less_equal(self._start, self._end), False), has_id)

    def batch(self, conditions: Mapping[str, np.ndarray]) -> pa.Table:
        """The rows that have a role, sorted by time, as tasks read them."""
        roles = [self._has_role(role, conditions.get(role.event)) for role in self._query.roles]
        columns = {ID: pa.array(self._ids, pa.string()), START: self._start, END: self._end}
        columns |= {role_name(index): pa.array(has_role) for index, has_role in enumerate(roles)}
        for index, name in enumerate(self._query.columns):
            columns[text_name(index)] = pa.array(self.values[name].texts, pa.string())
        if self._documents is not None:
            columns[DOCUMENT] = self._documents
        selected = pc.and_(self._is_event(), pa.array(np.any(roles, axis=0)))
        return pa.table(columns).filter(selected).sort_by([(name, "ascending") for name in (END, START, ID)])

    def _has_role(self, role: Role, condition: np.ndarray | None) -> np.ndarray:
        has_role = np.ones(len(self._frame), np.bool_) if condition is None else condition
        for name in role.key or ():
            has_role = has_role & np.array([text is not None for text in self.values[name].texts], np.bool_)
        if role.has_block and self._documents is not None:
            has_role = has_role & np.asarray(self._documents.is_valid())
        return has_role

    def result(self, matches: pa.Table) -> pd.DataFrame:
        """Rows of MATCHES as users see them."""
        import pandas as pd

        columns: dict[str, object] = (
            {"subscription": matches["subscription"].to_pylist()} if self._query.is_named else {}
        )
        for name in ("start", "end"):
            columns[name] = self._times(matches[name].to_pylist())
        columns["events"] = [[self._label_by_text[id_] for id_ in ids] for ids in matches["events"].to_pylist()]
        values = matches["values"].to_pylist()
        for index, variable in enumerate(self._query.output):
            columns[variable.name] = self._column(variable, [row[index] for row in values])
        return pd.DataFrame(columns)

    def _column(self, variable: OutputVariable, texts: Sequence[str | None]) -> object:
        """The values of a variable, of the type of the column it is read from; otherwise texts."""
        import pandas as pd

        origin = next(iter(variable.origins)) if len(variable.origins) == 1 else ""
        if origin == ROW:
            return [None if text is None else self._label_by_text[text] for text in texts]
        if origin == TIME:
            return pd.to_datetime(pd.Series(texts, dtype="string"), utc=True)
        if origin.startswith(COLUMN):
            values = self.values[column_name(origin)]
            found = [None if text is None else values.by_text[text] for text in texts]
            return pd.Series(found, dtype=self._frame[column_name(origin)].dtype if None not in found else None)
        return list(texts)

    def _times(self, micros: Sequence[int]) -> object:
        import pandas as pd

        times = pd.to_datetime(pd.Series(micros, dtype="int64"), unit="us", utc=True)
        return times.dt.tz_convert(self._zone)  # without a zone: as the rows have it, in UTC

    def _existing(self, name: str) -> str:
        if name not in self._frame.columns:
            raise UsageError(
                f"the DataFrame has no column {name!r}", advice=f"it has {', '.join(map(str, self._frame.columns))}"
            )
        return name

    def _micros(self, name: str) -> pa.Array:
        array = self._array(name)
        if not pa.types.is_timestamp(array.type):
            advice = f"convert it: df[{name!r}] = pd.to_datetime(df[{name!r}], utc=True)"
            raise UsageError(f"the column {name!r} is {self._frame[name].dtype}, not a timestamp", advice=advice)
        return array.cast(pa.timestamp("us", array.type.tz), safe=False).cast(pa.int64())

    def _document_column(self, name: str) -> pa.Array:
        array = self._array(name)
        if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
            return array.cast(pa.string())
        if not pa.types.is_binary(array.type) and not pa.types.is_null(array.type):
            advice = "name the column with the documents: xml='value'"
            raise UsageError(
                f"the column {name!r} is {array.type}, and blocks of XML read strings or bytes", advice=advice
            )
        return array.cast(pa.binary())

    def _values(self, name: str) -> _Values:
        array = self._array(name)
        kind = arrow_kind(array.type)
        if kind is None:
            advice = "use a column of strings, numbers, booleans, dates or timestamps"
            raise UsageError(f"the column {name!r} is {array.type}, not a simple value", advice=advice)
        cells = arrow_cells(array, np.arange(len(array)))
        lexical = {text: infer(text, kind)[0] for text in set(cells.texts)}
        texts: list[str | None] = [None] * len(array)
        for row, text in zip(cells.rows.tolist(), cells.texts, strict=True):
            texts[row] = lexical[text]
        return _Values(kind, texts, list(self._frame[name]))

    def _array(self, name: str) -> pa.Array:
        try:
            array = pa.array(self._frame[self._existing(name)], from_pandas=True)
        except pa.ArrowException as error:
            advice = "give the column one type: df.astype"
            raise UsageError(f"the column {name!r} has values of several types: {error}", advice=advice) from None
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
