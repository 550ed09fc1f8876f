"""Reads rows in CSV and JSON: batches of rows with their lines, and an error for each row that cannot be read.

CSV has a header. JSON is one object, several, or an array of them; NDJSON is one object per line. A row that cannot be
read costs no other its place, except in a JSON array, which cannot be read beyond the error.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from motet.codec.compression import read_whole
from motet.codec.event_times import Int64s
from motet.codec.events import NO_EVENTS, Decoded
from motet.codec.formats import Format
from motet.codec.identity import BatchInput
from motet.codec.options import DecodeOptions
from motet.codec.rejections import Problem, rejection, truncate
from motet.codec.row_mapping import NEW_MAPPING, RowMapping
from motet.codec.row_values import is_unicode
from motet.codec.rows import ArrowRows, InputRows, ObjectRows, decode_rows, refuse_missing_columns, refuse_unread_times
from motet.model.errors import DecodeError, LimitError, MotetError, UsageError

BATCH_ROWS = 8_192


class RowBatch(NamedTuple):
    """Some rows of an input, and the errors of those that could not be read among them."""

    rows: InputRows
    rejected: list[DecodeError]

    @property
    def size(self) -> int:
        """The number of rows, also of those that could not be read."""
        return len(self.rows.lines) + len(self.rejected)


def decode_row_chunks(chunks: Iterator[bytes], syntax: Format, options: DecodeOptions) -> Iterator[Decoded]:
    """The events of an input in a format of rows, by the mapping of the options.

    Raises a UsageError if there is no mapping, or if it names columns that the input does not have.
    """
    mapping = options.mapping
    if mapping is None:
        raise UsageError(
            f"{options.name}: rows in {syntax.value} need a mapping that says which events they are",
            advice=f"{NEW_MAPPING}; `motet ingest --map MAPPING` and `cloud.publish_rows` read it.",
        )
    if options.id is not None:
        raise UsageError(
            f"{options.name}: an id names one event, and rows are several",
            advice="write the id into the mapping: event: {id: ex:reading/{n}}.",
        )
    refuse_unread_times(mapping, options.time_properties)
    batches = (batch for batch in read_rows(chunks, syntax, mapping, options) if batch.size)
    head = [] if options.input_id is None else list(islice(batches, 2))
    only_id = options.input_id if len(head) == 1 and head[0].size == 1 else None
    batch = options.batch or BatchInput(options.input_id)
    is_checked = False
    for rows, rejected in chain(head, batches):
        if len(rows.lines) and not is_checked:
            refuse_missing_columns(rows, mapping, options.name)
            is_checked = True
        yield decode_rows(rows, mapping, options, batch, only_id=only_id)
        if rejected:
            yield Decoded(NO_EVENTS, rejected)


def read_rows(
    chunks: Iterator[bytes], syntax: Format, mapping: RowMapping, options: DecodeOptions
) -> Iterator[RowBatch]:
    """The rows of an input in batches."""
    if syntax is Format.JSON:
        return _read_json(chunks, mapping, options)
    lines = _Lines(chunks, options)
    if syntax is Format.NDJSON:
        return _read_ndjson(lines, mapping, options)
    return _read_csv(lines, mapping.delimiter or ("\t" if syntax is Format.TSV else ","), mapping, options)


class _Lines:
    """The lines of chunks as texts with their ends; bytes that are not UTF-8 become surrogates.

    A line that is too long, or damage of a compressed file, ends the input: the error is in ``problem``.
    """

    def __init__(self, chunks: Iterator[bytes], options: DecodeOptions) -> None:
        self._chunks = chunks
        self._limit = options.limits.max_line_bytes
        self._options = options
        self.is_chunk_end = False  # the lines of a chunk have been read: the next ones may take a while
        self.problem: DecodeError | None = None

    def __iter__(self) -> Iterator[str]:
        rest, is_first = b"", True
        try:
            for chunk in self._chunks:
                lines = (rest + chunk).split(b"\n")
                rest = lines.pop()
                self.is_chunk_end = False
                for index, line in enumerate(lines, 1):
                    self.is_chunk_end = index == len(lines)
                    yield _decoded(line, is_first=is_first) + "\n"
                    is_first = False
                if len(rest) > self._limit:
                    raise LimitError(
                        f"a line is longer than {self._limit} bytes", advice="check that this is CSV or JSON"
                    )
        except MotetError as error:
            self.problem = DecodeError(error.message, source=self._options.name, advice=error.advice)
        if rest and self.problem is None:
            yield _decoded(rest, is_first=is_first)


def _decoded(line: bytes, *, is_first: bool) -> str:
    text = line.decode("utf-8", "surrogateescape")
    return text.removeprefix("\ufeff") if is_first else text


class _Collector:
    """Rows that are read one by one, as batches."""

    def __init__(self, options: DecodeOptions) -> None:
        self._name = options.name
        self.values: list[object] = []
        self.lines: list[int] = []
        self.rejected: list[DecodeError] = []

    def add(self, value: object, line: int) -> None:
        self.values.append(value)
        self.lines.append(line)

    def reject(self, line: int, reason: str, advice: str, content: str) -> None:
        problem = Problem(reason, advice, line, content=truncate(content))
        self.rejected.append(rejection(self._name, None, [problem]))

    @property
    def is_full(self) -> bool:
        return len(self.values) + len(self.rejected) >= BATCH_ROWS

    def take(self) -> tuple[list[object], Int64s, list[DecodeError]]:
        taken = self.values, np.array(self.lines, np.int64), self.rejected
        self.values, self.lines, self.rejected = [], [], []
        return taken


def _read_csv(lines: _Lines, delimiter: str, mapping: RowMapping, options: DecodeOptions) -> Iterator[RowBatch]:
    reader = csv.reader(iter(lines), delimiter=delimiter, strict=True)
    header = _header(reader, delimiter, options)
    missing = ("", *mapping.missing)
    collector = _Collector(options)
    is_done = header is None
    while not is_done:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            is_done = True
        except csv.Error as error:
            collector.reject(line, f"not CSV: {error}", 'correct the row; text with quotes is written "a ""b"" c"', "")
        else:
            _add_row(collector, row, line, header or [])
        if collector.is_full or lines.is_chunk_end or is_done:
            values, numbers, rejected = collector.take()
            rejected += [lines.problem] if is_done and lines.problem else []
            yield RowBatch(ArrowRows(_table(values, header or []), numbers, is_text=True, missing=missing), rejected)


def _header(reader: Iterator[list[str]], delimiter: str, options: DecodeOptions) -> list[str] | None:
    """The names of the columns; None: the input is empty."""
    try:
        header = next((row for row in reader if row), None)
    except csv.Error as error:
        raise UsageError(f"{options.name}: the header is not CSV: {error}", advice="Check the file.") from None
    if header is None:
        return None
    header = [name.strip() for name in header]
    if not all(map(is_unicode, header)):
        raise UsageError(f"{options.name}: the header is not UTF-8", advice="Write the file in UTF-8.")
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise UsageError(
            f"{options.name}: the header has the column {twice[0]!r} twice", advice="Rename one of the columns."
        )
    if len(header) == 1 and any(other in header[0] for other in ",;\t|".replace(delimiter, "")):
        raise UsageError(
            f"{options.name}: the header has one column, {header[0]!r}",
            advice='If the delimiter is another one, add it to the mapping: csv: {delimiter: ";"}.',
        )
    return header


def _add_row(collector: _Collector, row: list[str], line: int, header: list[str]) -> None:
    if not row:  # an empty line
        return
    text = ",".join(row)
    if len(row) != len(header):
        reason = f"the row has {len(row)} columns, and the header {len(header)}"
        collector.reject(line, reason, "correct the row; text with a delimiter is written in quotes", text)
    elif not is_unicode(text):
        collector.reject(line, "the row is not UTF-8", "write the file in UTF-8", text)
    else:
        collector.add(row, line)


def _table(values: list[object], header: list[str]) -> pa.RecordBatch:
    columns = list(zip(*values, strict=True)) if values else [()] * len(header)
    return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], names=header)


def _read_ndjson(lines: _Lines, mapping: RowMapping, options: DecodeOptions) -> Iterator[RowBatch]:
    collector = _Collector(options)
    for number, line in enumerate(lines, 1):
        if line.strip():
            _add_json(collector, line, number)
        if collector.is_full or lines.is_chunk_end:
            yield _object_batch(collector, mapping)
    if lines.problem is not None:
        collector.rejected.append(lines.problem)
    yield _object_batch(collector, mapping)


def _object_batch(collector: _Collector, mapping: RowMapping) -> RowBatch:
    values, numbers, rejected = collector.take()
    objects: list[Mapping[str, object]] = values  # type: ignore[assignment]  # _add_object has checked it
    return RowBatch(ObjectRows(objects, numbers, mapping.missing), rejected)


def _add_json(collector: _Collector, text: str, line: int) -> None:
    try:
        value = _DECODER.decode(text) if is_unicode(text) else None
    except (ValueError, RecursionError) as error:
        collector.reject(line, f"not JSON: {_json_reason(error)}", "write one JSON object per line", text)
        return
    _add_object(collector, value, line, text)


def _add_object(collector: _Collector, value: object, line: int, text: str) -> None:
    if not isinstance(value, dict):
        collector.reject(line, "a row is a JSON object, in UTF-8", 'write it as {"room": "kitchen"}', text)
    else:
        collector.add(value, line)


def _json_reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return f"{error.msg} (column {error.colno})" if isinstance(error, json.JSONDecodeError) else str(error)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_SPACES = re.compile(r"[ \t\r\n]*")


def _read_json(chunks: Iterator[bytes], mapping: RowMapping, options: DecodeOptions) -> Iterator[RowBatch]:
    """Objects, or arrays of them, one after another."""
    collector = _Collector(options)
    try:
        text = read_whole(chunks, options.limits.max_document_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        collector.reject(1, "the JSON is not UTF-8", "write it in UTF-8", "")
        text = ""
    except MotetError as error:
        collector.rejected.append(DecodeError(error.message, source=options.name, advice=error.advice))
        text = ""
    for value, line, source in _json_values(text, collector):
        _add_object(collector, value, line, source)
        if collector.is_full:
            yield _object_batch(collector, mapping)
    yield _object_batch(collector, mapping)


def _json_values(text: str, collector: _Collector) -> Iterator[tuple[object, int, str]]:
    """The values of a text with their lines: those of arrays, and others one after another."""
    position, line, counted = 0, 1, 0
    in_array = is_separated = False
    while True:
        position = _SPACES.match(text, position).end()  # type: ignore[union-attr]  # it matches nothing as well
        mark = text[position : position + 1]
        line += text.count("\n", counted, position)
        counted = position
        if not mark and not in_array:
            return
        if mark == "[" and not in_array:
            in_array = is_separated = True
        elif mark == "]" and in_array:
            in_array = False
        elif mark == "," and in_array and not is_separated:
            is_separated = True
        else:
            try:
                value, end = _json_value(text, position, is_allowed=is_separated or not in_array)
            except (ValueError, RecursionError) as error:
                advice = "correct it; the rows after it are not read"
                collector.reject(line, f"not JSON: {_json_reason(error)}", advice, text[position : position + 200])
                return
            yield value, line, text[position:end]
            position, is_separated = end, False
            continue
        position += 1


def _json_value(text: str, position: int, *, is_allowed: bool) -> tuple[object, int]:
    """The value at a position and the position after it."""
    if position == len(text):
        raise ValueError("the array is cut off")
    if not is_allowed:
        raise ValueError("a comma is missing")
    return _DECODER.raw_decode(text, position)


def decode_call(data: object, mapping: RowMapping, options: DecodeOptions) -> Iterator[Decoded]:
    """The events of the rows that a program gives in one call, whose id is the input id of the options."""
    refuse_unread_times(mapping, options.time_properties)
    batch, rows = BatchInput(options.input_id), list(rows_of(data, mapping.missing))
    only_id = options.input_id if sum(len(each.lines) for each in rows) == 1 else None
    for each in rows:
        refuse_missing_columns(each, mapping, options.name)
        yield decode_rows(each, mapping, options, batch, only_id=only_id)


def rows_of(data: object, missing: tuple[str, ...] = ()) -> Iterator[InputRows]:
    """The rows that a program gives: Arrow, pandas, or dicts; raises a UsageError for anything else."""
    if type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "columns"):
        try:
            data = pa.Table.from_pandas(data, preserve_index=False)
        except pa.ArrowException as error:
            reason = f"a column of the DataFrame has values of several types: {error}"
            raise UsageError(reason, advice="Give it one type with astype, or give dicts.") from None
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    first = 1
    if isinstance(data, pa.Table):
        for batch in data.to_batches(max_chunksize=BATCH_ROWS):
            yield ArrowRows(batch, np.arange(first, first + batch.num_rows), missing=missing)
            first += batch.num_rows
        return
    for objects in _dict_batches(data):
        yield ObjectRows(objects, np.arange(first, first + len(objects)), missing)
        first += len(objects)


def _dict_batches(data: object) -> Iterator[list[Mapping[str, object]]]:
    if isinstance(data, Mapping):
        data = [data]
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        raise UsageError(f"rows are no {type(data).__name__}", advice=_ROWS_ADVICE)
    rows = iter(data)
    while objects := list(islice(rows, BATCH_ROWS)):
        for each in objects:
            if not isinstance(each, Mapping):
                raise UsageError(f"a row is no {type(each).__name__}", advice=_ROWS_ADVICE)
        yield objects


_ROWS_ADVICE = "Give dicts, a pandas DataFrame or an Arrow table; files of rows are for `motet ingest --map`."
