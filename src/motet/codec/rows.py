"""Rows as events, by a mapping: each row is one event, a column gives triples about it.

Rows come as Arrow batches (CSV, Spark, pandas) or as Python objects (JSON, calls). A name of a mapping is a column or,
with dots, a path into nested objects; an array gives several values. A row with a bad value is rejected alone.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.event_times import Int64s
from motet.codec.events import NO_EVENTS, Decoded, build_events, join_batches
from motet.codec.grouping import GroupedQuads
from motet.codec.identity import THIS, BatchInput, minted_iri
from motet.codec.options import ABSOLUTE_IRI, DecodeOptions
from motet.codec.rejections import Problem, rejection, truncate
from motet.codec.row_mapping import IriTemplate, PropertyColumn, RowMapping, TimeColumn
from motet.codec.row_values import Cells, Literals, arrow_cells, convert, infer, instant, literals, python_cells
from motet.model import terms
from motet.model.batches import QUADS
from motet.model.errors import DecodeError, UsageError
from motet.model.settings import TimeProperties

_UNSAFE = re.compile(r"[^\w.~-]")  # in a value that becomes a part of an IRI
_NO_CELLS = Cells([], "string", np.zeros(0, np.int64))


class ColumnValues(NamedTuple):
    """The values of a column, the reasons of values that cannot be read by row, and the rows that lack the column."""

    cells: Cells
    bad: Mapping[int, str]
    absent: Int64s


class InputRows(Protocol):
    """Some rows of an input."""

    @property
    def lines(self) -> Int64s:
        """The line of each row in its input, from 1."""

    def names(self) -> list[str]:
        """The columns there are, nested ones by their paths."""

    def column(self, name: str) -> ColumnValues:
        """The values of a column."""

    def text(self, row: int) -> str:
        """A row for people, who correct it."""


@dataclass(frozen=True)
class ArrowRows:
    """The rows of an Arrow batch; ``is_text``: all values are texts of unknown types, as in CSV."""

    batch: pa.RecordBatch
    lines: Int64s
    is_text: bool = False
    missing: tuple[str, ...] = ()  # texts that stand for no value

    def names(self) -> list[str]:
        return [path for field in self.batch.schema for path in _field_paths(field.name, field.type)]

    def column(self, name: str) -> ColumnValues:
        rows = np.arange(self.batch.num_rows)
        found = self._find(name, rows)
        if found is None:
            return ColumnValues(_NO_CELLS, {}, rows)
        array, rows = found
        if self.missing and (pa.types.is_string(array.type) or pa.types.is_large_string(array.type)):
            array = array.cast(pa.string())
            array = pc.if_else(pc.is_in(array, pa.array(self.missing)), pa.scalar(None, pa.string()), array)
        try:
            return ColumnValues(arrow_cells(array, rows, is_text=self.is_text), {}, rows[:0])
        except ValueError as error:
            return ColumnValues(_NO_CELLS, dict.fromkeys(rows.tolist(), str(error)), rows[:0])

    def _find(self, name: str, rows: Int64s) -> tuple[pa.Array, Int64s] | None:
        """The array of a name and the row of each of its values; None if there is no such column."""
        column, rest = _split(name, self.batch.schema.names)
        if column is None:
            return None
        array, rows = _flatten(self.batch.column(column), rows)
        while rest:
            if not pa.types.is_struct(array.type):
                return None
            field, rest = _split(rest, [each.name for each in array.type])
            if field is None:
                return None
            array, rows = _flatten(pc.struct_field(array, field), rows)
        return array, rows

    def text(self, row: int) -> str:
        return json.dumps(self.batch.slice(row, 1).to_pylist()[0], ensure_ascii=False, default=str)


def _field_paths(name: str, type_: pa.DataType) -> Iterator[str]:
    while pa.types.is_list(type_) or pa.types.is_large_list(type_):
        type_ = type_.value_type
    if pa.types.is_struct(type_):
        for field in type_:
            yield from _field_paths(f"{name}.{field.name}", field.type)
    else:
        yield name


def _split(name: str, columns: Sequence[str]) -> tuple[str | None, str]:
    """The column that a name begins with, the longest one that fits, and the rest of the name."""
    if name in columns:
        return name, ""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        if (head := ".".join(parts[:count])) in columns:
            return head, ".".join(parts[count:])
    return None, name


def _flatten(array: pa.Array, rows: Int64s) -> tuple[pa.Array, Int64s]:
    """The values of lists, and of lists in them, with their rows."""
    while pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        array, rows = array.flatten(), np.repeat(rows, lengths)
    return array, rows


@dataclass(frozen=True)
class ObjectRows:
    """Rows as Python dicts with nested dicts and lists, as JSON has them."""

    objects: Sequence[Mapping[str, object]]
    lines: Int64s
    missing: tuple[str, ...] = ()  # texts that stand for no value

    def names(self) -> list[str]:
        return list(dict.fromkeys(path for each in self.objects[:1000] for path in _object_paths(each)))

    def column(self, name: str) -> ColumnValues:
        absent: list[int] = []
        values: list[tuple[int, object]] = []
        for row, each in enumerate(self.objects):
            found = list(_values(each, name))
            if not found:
                absent.append(row)
            values += [(row, value) for value in found if not self._is_missing(value)]
        cells, bad = python_cells(values)
        return ColumnValues(cells, bad, np.array(absent, np.int64))

    def _is_missing(self, value: object) -> bool:
        return (
            value is None
            or (isinstance(value, list) and not value)
            or (isinstance(value, str) and value in self.missing)
        )

    def text(self, row: int) -> str:
        return json.dumps(self.objects[row], ensure_ascii=False, default=str)


def _object_paths(value: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    for key, child in value.items():
        nested = [each for each in (child if isinstance(child, list) else [child]) if isinstance(each, dict)]
        if nested:
            for each in nested:
                yield from _object_paths(each, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _values(value: object, name: str) -> Iterator[object]:
    """The values at a path; an empty list and None are values, so that the path is there."""
    if isinstance(value, list | tuple):
        if not value:
            yield []
        for each in value:
            yield from _values(each, name)
    elif not name:
        yield value
    elif isinstance(value, Mapping):
        column, rest = _split(name, value)  # type: ignore[arg-type]  # only looked up in
        if column is not None:
            yield from _values(value[column], rest)
    elif value is None:
        yield None


def missing_columns(rows: InputRows, mapping: RowMapping) -> list[str]:
    """The required columns of a mapping that no row has."""
    count = len(rows.lines)
    return [name for name in mapping.columns if name in mapping.required and len(rows.column(name).absent) == count]


def refuse_missing_columns(rows: InputRows, mapping: RowMapping, source: str) -> None:
    """Raise an error for columns of a mapping that no row has; it lists those that there are."""
    if len(rows.lines) and (missing := missing_columns(rows, mapping)):
        raise UsageError(f"{source}: {_no_column(missing)}", advice=_columns_advice(rows.names()))


def mapped_columns(mapping: RowMapping, schema: pa.Schema, source: str) -> list[str]:
    """The columns of a table that a mapping reads; raises an error for those that are missing or no simple values."""
    nulls = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    row = ArrowRows(nulls, np.ones(1, np.int64))
    refuse_missing_columns(row, mapping, source)
    for name in mapping.columns:
        if reason := row.column(name).bad.get(0):
            raise UsageError(f"{source}: column {name!r}: {reason}", advice=_columns_advice(row.names()))
    found = (_split(name, schema.names)[0] for name in mapping.columns)
    return list(dict.fromkeys(name for name in found if name is not None))


def _no_column(missing: Sequence[str]) -> str:
    return f"there is no column {', '.join(map(repr, missing))}, which the mapping names"


def _columns_advice(names: Sequence[str]) -> str:
    listed = ", ".join(names[:50]) + (f" and {len(names) - 50} more" if len(names) > 50 else "")
    return f"the columns are: {listed or 'none'}; correct the mapping, or mark the property as optional: true"


def refuse_unread_times(mapping: RowMapping, time_properties: TimeProperties) -> None:
    """Raise an error if a time of the mapping is a property that is not read as a time."""
    read = {name for group in time_properties for name in group}
    for time in mapping.times:
        if time.property not in read:
            advice = f"write time: {{column: {time.column}, property: …}} with one of {', '.join(sorted(read))}"
            raise UsageError(
                f"the time in column {time.column!r} would be <{time.property}>, which is no time property here",
                advice=advice,
            )


def decode_rows(
    rows: InputRows, mapping: RowMapping, options: DecodeOptions, batch: BatchInput, *, only_id: str | None = None
) -> Decoded:
    """The events of rows; those without an IRI get one from the input ``batch``, or have ``only_id``.

    >>> rows = ObjectRows([{"room": "kitchen"}], np.array([1]))
    >>> mapping = RowMapping.of({"properties": {"room": "urn:room"}})
    >>> decode_rows(rows, mapping, DecodeOptions("rows"), BatchInput(None), only_id="urn:e:1").events["id"].to_pylist()
    ['urn:e:1']
    """
    mapping.refuse_nodes()
    return _Decoder(rows, mapping, options).run(batch, only_id)


class _Statement(NamedTuple):
    """Objects of one predicate, with their rows."""

    predicate: str
    objects: pa.StringArray
    rows: Int64s


class _Decoder:
    """Decodes one batch of rows."""

    def __init__(self, rows: InputRows, mapping: RowMapping, options: DecodeOptions) -> None:
        self._rows = rows
        self._mapping = mapping
        self._options = options
        self._problems: dict[int, list[Problem]] = defaultdict(list)
        self._columns: dict[str, ColumnValues] = {}

    def run(self, batch: BatchInput, only_id: str | None) -> Decoded:
        count = len(self._rows.lines)
        if not count:
            return Decoded(NO_EVENTS, [])
        self._report_absent()
        ids = self._row_iris(self._mapping.id) if self._mapping.id else None
        statements = [*self._classes(), *map(self._time, self._mapping.times)]
        statements += map(self._property, self._mapping.properties)
        row = np.concatenate([each.rows for each in statements])
        order = np.argsort(row, kind="stable")
        self._report_empty(np.bincount(row, minlength=count))
        good = np.ones(count, np.bool_)
        good[list(self._problems)] = False
        order = order[good[row[order]]]
        quads, starts = self._quads(statements, order, row[order], ids, batch, only_id)
        rejected = [self._rejection(index, ids) for index in sorted(self._problems)]
        decoded = list(build_events(GroupedQuads(quads, starts, {}, []), self._options)) if len(starts) else []
        return join_batches([*decoded, Decoded(NO_EVENTS, rejected)])

    def _quads(
        self,
        statements: Sequence[_Statement],
        order: Int64s,
        row: Int64s,
        ids: pa.StringArray | None,
        batch: BatchInput,
        only_id: str | None,
    ) -> tuple[pa.RecordBatch, Int64s]:
        """The quads of the good rows, and where each event begins."""
        indexes = np.repeat(np.arange(len(statements)), [len(each.rows) for each in statements])[order]
        predicates = pa.array([each.predicate for each in statements], pa.string()).take(pa.array(indexes))
        objects = pa.concat_arrays([each.objects for each in statements]).take(pa.array(order))
        starts = np.flatnonzero(np.diff(row, prepend=-1))
        event = np.cumsum(np.diff(row, prepend=-1) != 0) - 1
        graphs = ids.take(pa.array(row[starts])) if ids is not None else None
        if graphs is None:
            named = [terms.iri(only_id)] * len(starts) if only_id else _minted(predicates, objects, starts, batch)
            graphs = pa.array(named, pa.string())
        subjects = graphs.take(pa.array(event))
        lines = pa.array(self._rows.lines[row], pa.int64())
        return pa.RecordBatch.from_arrays([subjects, subjects, predicates, objects, lines], schema=QUADS), starts

    def _rejection(self, row: int, ids: pa.StringArray | None) -> DecodeError:
        name = ids[row].as_py() if ids is not None else None
        line = int(self._rows.lines[row])
        first, *others = self._problems[row]
        content = truncate(self._rows.text(row))
        problem = Problem(first.reason, first.advice, line, content=content)
        return rejection(self._options.name, name and terms.iri_value(name), [problem, *others])

    def _problem(self, row: int, reason: str, advice: str) -> None:
        self._problems[row].append(Problem(reason, advice))

    def _report_absent(self) -> None:
        """Report required columns that a row lacks; a table lacks them in all rows."""
        for name in self._mapping.columns:
            if name in self._mapping.required:
                for row in self._column(name).absent.tolist():
                    self._problem(row, _no_column([name]), _columns_advice(self._rows.names()))

    def _report_empty(self, counts: Int64s) -> None:
        for row in np.flatnonzero(counts == 0).tolist():
            if row not in self._problems:
                self._problem(
                    row, "all columns of the mapping are empty", "give the event a class, or leave the row out"
                )

    def _column(self, name: str) -> ColumnValues:
        if name not in self._columns:
            column = self._columns[name] = self._rows.column(name)
            for row, reason in column.bad.items():
                self._problem(row, f"column {name!r}: {reason}", "map columns with simple values, nested ones by paths")
        return self._columns[name]

    def _report(self, name: str, cells: Cells, found: Literals, advice: str) -> None:
        for index, reason in found.bad.items():
            self._problem(int(cells.rows[index]), f"column {name!r}: {reason}", advice)

    def _statement(self, predicate: str, found: Literals, rows: Int64s) -> _Statement:
        """Without the values that are bad."""
        if not found.bad:
            return _Statement(terms.iri(predicate), found.terms, rows)
        return _Statement(terms.iri(predicate), found.terms.drop_null(), rows[np.asarray(found.terms.is_valid())])

    def _classes(self) -> Iterator[_Statement]:
        for template in self._mapping.classes:
            objects = self._row_iris(template)
            rows = np.flatnonzero(np.asarray(objects.is_valid()))
            yield _Statement(terms.RDF_TYPE, objects.drop_null(), rows)

    def _time(self, time: TimeColumn) -> _Statement:
        cells = self._column(time.column).cells
        found = convert(cells, lambda text, kind: instant(text, kind, time.unit, time.format))
        self._report(
            time.column, cells, found, "correct the time, or the mapping: a unit for numbers, a format for texts"
        )
        if time is self._mapping.times[0]:  # without an end an event is a point in time; without a time it is rejected
            self._report_no_value(time.column, cells, "an event needs its time")
        return self._statement(time.property, found, cells.rows)

    def _report_no_value(self, name: str, cells: Cells, reason: str) -> None:
        column = self._column(name)
        lacking = np.setdiff1d(np.arange(len(self._rows.lines)), np.concatenate([cells.rows, column.absent]))
        for row in lacking.tolist():
            if row not in column.bad:
                self._problem(row, f"column {name!r} is empty: {reason}", "correct the row, or leave it out")

    def _property(self, mapped: PropertyColumn) -> _Statement:
        cells = self._column(mapped.column).cells
        if mapped.iri is not None:
            found = self._iris(mapped.iri, cells.rows, mapped.column)
            return self._statement(mapped.property, found, cells.rows)
        found = literals(cells, mapped.datatype, mapped.language)
        advice = "correct the value, or the datatype in the mapping"
        self._report(mapped.column, cells, found, advice)
        return self._statement(mapped.property, found, cells.rows)

    def _row_iris(self, template: IriTemplate) -> pa.StringArray:
        """The IRI of a template for each row, null where it has none."""
        rows = np.arange(len(self._rows.lines))
        for name in dict.fromkeys(template.columns):
            self._report_no_value(name, self._column(name).cells, f"{template.text} needs its value")
        return self._iris(template, rows, None).terms

    def _iris(self, template: IriTemplate, rows: Int64s, own: str | None) -> Literals:
        """The IRIs of a template for values with these rows; ``own`` is the column of the values themselves."""
        values = [self._template_values(name, rows, is_own=name == own) for name in template.columns]
        is_column, parts, made = template.is_column, template.parts, dict[tuple[str | None, ...], str | None]()
        found: list[str | None] = []
        bad: dict[int, str] = {}
        for index, key in enumerate(zip(*values, strict=True) if values else [()] * len(rows)):
            if key not in made:
                made[key] = _expand(parts, key, is_column=is_column)
            found.append(made[key])
            if made[key] is None:
                bad[index] = ""
                if None not in key:
                    self._problem(
                        int(rows[index]),
                        f"column {template.columns[0]!r}: {key[0]!r} is no IRI",
                        "write an absolute IRI, or a template",
                    )
        return Literals(pa.array(found, pa.string()), bad)

    def _template_values(self, name: str, rows: Int64s, *, is_own: bool) -> Sequence[str | None]:
        """The texts of a column, for values with these rows."""
        cells = self._column(name).cells
        kinds = [cells.kinds] * len(cells.texts) if isinstance(cells.kinds, str) else cells.kinds
        keys = list(zip(cells.texts, kinds, strict=True))
        lexical = {key: _text(*key) for key in set(keys)}
        texts = [lexical[key] for key in keys]
        if is_own:
            return texts
        by_row: dict[int, str] = {}
        for row, text in zip(cells.rows.tolist(), texts, strict=True):
            if row in by_row and by_row[row] != text:
                self._problem(
                    row, f"column {name!r} has several values, and a template needs one", "map another column"
                )
            by_row[row] = text
        return [by_row.get(row) for row in rows.tolist()]


def _text(text: str, kind: str) -> str:
    try:
        return infer(text, kind)[0]
    except ValueError:
        return text


def _expand(parts: Sequence[str], values: Sequence[str | None], *, is_column: bool) -> str | None:
    """The term of an IRI; None: a value is missing, or is no IRI."""
    if None in values:
        return None
    if is_column and len(values) == 1:
        (value,) = values
        assert value is not None
        return terms.iri(value) if ABSOLUTE_IRI.fullmatch(value) else None
    encoded = [_UNSAFE.sub(lambda match: quote(match[0], safe=""), value or "") for value in values]
    return terms.iri("".join(map("".join, zip(parts, [*encoded, ""], strict=True))))


def _minted(predicates: pa.StringArray, objects: pa.StringArray, starts: Int64s, batch: BatchInput) -> list[str]:
    """The IRIs of events by their content, as `motet.codec.identity.content` defines it."""
    lines = pc.binary_join_element_wise(THIS, predicates, objects, ".", " ").to_pylist()
    bounds = [*starts.tolist(), len(lines)]
    return [terms.iri(minted_iri(batch.id, sorted(set(lines[a:b])), batch.counts)) for a, b in pairwise(bounds)]
