"""Drafts a mapping for rows or a document that have none: names, datatypes and the time, as text to edit."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import PurePath
from typing import Any, NamedTuple

from motet.codec.compression import file_chunks, read_whole
from motet.codec.formats import Format, format_of_path
from motet.codec.options import DecodeOptions, Limits
from motet.codec.row_formats import read_rows
from motet.codec.row_mapping import RowMapping
from motet.codec.row_values import TEXT, infer, time_unit
from motet.codec.rows import InputRows
from motet.model.errors import DecodeError, UsageError

DELIMITERS = ",;\t|"
EXAMPLE_CHARACTERS = 40
LEAST_SHARE = 0.75  # of the values of a column, to have the datatype

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_TIME_NAMES = ("time", "timestamp", "datetime", "date_time", "ts", "at", "when", "date")
_START_NAMES, _END_NAMES = ("start", "started", "start_time", "begin"), ("end", "ended", "end_time", "stop")
_ID_NAMES = ("id", "uuid", "event_id", "_id")


class _Found(NamedTuple):
    """What the rows have in one column."""

    name: str
    datatype: str
    example: str
    other: str | None  # a value that is not of the datatype
    is_unique: bool
    is_optional: bool


def draft_mapping(path: str) -> str:
    """The text of a mapping for a file of rows, from its first rows, or for a document."""
    syntax = format_of_path(path)
    if syntax is Format.XML:
        return draft_for_document(read_whole(file_chunks(path), Limits().max_event_bytes), path)
    if not syntax.is_rows:
        raise UsageError(f"{path} has RDF, not rows or XML", advice="Ingest it without --map.")
    delimiter = _delimiter(path) if syntax is Format.CSV else None
    batches = read_rows(file_chunks(path), syntax, RowMapping(delimiter=delimiter), DecodeOptions(path))
    rows = next((batch.rows for batch in islice(batches, 100) if len(batch.rows.lines)), None)
    if rows is None:
        raise UsageError(f"{path} has no row that can be read", advice="Check the file: a header and rows, or JSON.")
    return draft_for_rows(rows, path, delimiter if delimiter != "," else None)


def draft_for_rows(rows: InputRows, path: str, delimiter: str | None = None) -> str:
    """The text of a mapping for some rows; the file's name becomes that of their class."""
    columns = [_examine(rows, name) for name in rows.names()]
    times, remaining = _times(columns)
    ids = [each for each in remaining if each.name.lower() in _ID_NAMES and each.is_unique and not each.is_optional]
    class_name = _class_name(path)
    lines = [
        f"# A mapping for {PurePath(path).name}, drafted from {len(rows.lines)} rows. Edit names and datatypes, then:",
        f"#   motet ingest --lake LAKE --map THIS_FILE {PurePath(path).name}",
        "prefixes:",
        "  ex: http://example.org/",
        "event:",
        *(
            [f'  id: "ex:{class_name}/{{{ids[0].name}}}"']
            if ids
            else ["  # no id: an event's IRI is made of its content"]
        ),
        f"  class: ex:{class_name}",
        *(times or ["  # no column is a time: events have the time of their commit; add `time: COLUMN`"]),
        "properties:",
    ]
    lines += _property_lines(remaining, "  ")
    lines += [f"csv: {{delimiter: {json.dumps(delimiter)}}}"] if delimiter else []
    return "\n".join(lines) + "\n"


def _property_lines(columns: Sequence[_Found], indent: str) -> list[str]:
    names = _property_names([each.name for each in columns])
    lines = []
    for each, name in zip(columns, names, strict=True):
        optional = ", optional: true" if each.is_optional else ""
        line = f"{indent}{_scalar(each.name)}: {{property: ex:{name}, datatype: {each.datatype}{optional}}}"
        lines.append(line + _comment(each))
    return lines


def _delimiter(path: str) -> str:
    """The delimiter that the first line has most often."""
    line = next(file_chunks(path), b"").partition(b"\n")[0].decode("utf-8", "replace")
    return max(DELIMITERS, key=line.count)


def _examine(rows: InputRows, name: str) -> _Found:
    column = rows.column(name)
    cells = column.cells
    kinds = [cells.kinds] * len(cells.texts) if isinstance(cells.kinds, str) else cells.kinds
    is_unique = len(set(cells.texts)) == len(rows.lines) == len(cells.texts)
    return _found(name, cells.texts, kinds, is_unique=is_unique, is_optional=bool(len(column.absent)))


def _found(name: str, texts: Sequence[str], kinds: Sequence[str], *, is_unique: bool, is_optional: bool) -> _Found:
    """What the values of a column or path have in common."""
    found = [_datatype(text, kind) for text, kind in zip(texts, kinds, strict=True)]
    datatype = _common(Counter(found))
    fits = {"double": ("double", "float", "integer")}.get(datatype, (datatype,))
    others = (_sample_text(text) for text, kind in zip(texts, found, strict=True) if kind not in fits)
    other = None if datatype == "string" else next(others, None)
    return _Found(name, datatype, _sample_text(texts[0]) if texts else "", other, is_unique, is_optional)


def _sample_text(text: str) -> str:
    return " ".join(text.split())[:EXAMPLE_CHARACTERS]


def _datatype(text: str, kind: str) -> str:
    """The datatype of a value; a string of JSON may be a date or a time."""
    inferred = infer(text, TEXT if kind == "string" else kind)[1]
    return inferred if kind != "string" or inferred in ("date", "dateTime") else "string"


def _common(counts: Counter[str]) -> str:
    """The datatype of nearly all values; a few others are mistakes, which the draft names."""
    numbers = {"integer", "double", "float"}
    counted = Counter(
        {"double" if counts.keys() & {"double", "float"} and name in numbers else name: 0 for name in counts}
    )
    for name, count in counts.items():
        counted["double" if "double" in counted and name in numbers else name] += count
    if not counted:
        return "string"
    name, count = counted.most_common(1)[0]
    return name if count >= LEAST_SHARE * counted.total() else "string"


def _times(columns: Sequence[_Found]) -> tuple[list[str], list[_Found]]:
    """The lines for the time of an event, and the columns that are no part of it."""
    moments = [each for each in columns if each.datatype in ("dateTime", "date") and not each.is_optional]
    starts, ends = ([each for each in moments if each.name.lower() in names] for names in (_START_NAMES, _END_NAMES))
    if starts and ends:
        chosen = {"start": starts[0], "end": ends[0]}
    else:
        numbers = [
            each for each in columns if each.datatype in ("integer", "double") and each.name.lower() in _TIME_NAMES
        ]
        best = sorted([each for each in moments if each.datatype == "dateTime"] or numbers or moments, key=_preference)
        chosen = {"time": best[0]} if best else {}
    lines = []
    for key, each in chosen.items():
        is_number = each.datatype in ("integer", "double")
        name = _scalar(each.name)
        value = f"{{column: {name}, unit: {time_unit(each.example)}}}" if is_number else name
        lines.append(f"  {key}: {value}{_comment(each)}")
    return lines, [each for each in columns if each not in chosen.values()]


def _comment(column: _Found) -> str:
    other = f"; rejected: {column.other}" if column.other is not None else ""
    return f"  # {column.example}{other}" if column.example else ""


def _preference(column: _Found) -> int:
    name = re.split(r"[./:@]", column.name.lower())[-1]
    return _TIME_NAMES.index(name) if name in _TIME_NAMES else len(_TIME_NAMES)


def _class_name(path: str) -> str:
    """A name for the class of the rows: that of the file, in the singular and with capitals.

    >>> _class_name("data/room-readings.csv.gz"), _class_name("2026.csv")
    ('RoomReading', 'Event')
    """
    words = re.findall(r"[A-Za-z][A-Za-z0-9]*", PurePath(path).name.partition(".")[0])
    name = "".join(word[0].upper() + word[1:] for word in words) or "Event"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") and len(name) > 3 else name


def _property_names(columns: Sequence[str]) -> list[str]:
    """The last part of each path, or all of it where that is not unique, in the characters of a local name."""
    short = [_local(re.split(r"[./:@]", name.rstrip("."))[-1]) for name in columns]
    return [_local(name) if short.count(part) > 1 else part for name, part in zip(columns, short, strict=True)]


def _local(name: str) -> str:
    local = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    return local if local[:1].isalpha() else f"column_{local}".rstrip("_")


def _scalar(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def draft_for_document(data: bytes, path: str) -> str:
    """The text of a mapping for documents such as this one; repeated elements with parts become nodes."""
    from motet.model.xml_document import parse_xml

    try:
        root = parse_xml(data)
    except DecodeError as error:
        raise UsageError(f"{path}: {error.reason}", advice="Correct the document.") from None
    draft = _DocumentDraft()
    flat = draft.examine([root], "")
    times, remaining = _times(flat)
    ids = [each for each in remaining if _property_names([each.name])[0].lower() in _DOCUMENT_IDS]
    class_name = etree_name(root)[0].upper() + etree_name(root)[1:]
    body = draft.lines(remaining, "", "  ")
    root_name = draft.name(root.tag)
    return (
        "\n".join(
            [
                f"# A mapping for documents such as {PurePath(path).name}. Edit names and datatypes, then:",
                f"#   motet ingest --lake LAKE --map THIS_FILE {PurePath(path).name}",
                "prefixes:",
                "  ex: http://example.org/",
                *(f"  {prefix}: {json.dumps(namespace)}" for namespace, prefix in draft.prefixes.items()),
                "event:",
                f"  root: {_scalar(root_name)}",
                *(
                    [f'  id: "ex:{class_name}/{{{ids[0].name}}}"']
                    if ids
                    else ["  # no id: that of the input, or of its content"]
                ),
                f"  class: ex:{class_name}",
                *(times or ["  # no path is a time: events have the time of their commit; add `time: PATH`"]),
                "properties:",
                *body,
            ]
        )
        + "\n"
    )


_DOCUMENT_IDS = (*_ID_NAMES, "identifier")


def etree_name(element: Any) -> str:
    """The name of an element without its namespace."""
    return str(element.tag).rpartition("}")[2]


class _DocumentDraft:
    """The paths of the values of a document, and its nested nodes."""

    def __init__(self) -> None:
        self.prefixes: dict[str, str] = {}
        self._nested: dict[str, list[tuple[str, list[Any], bool]]] = {}  # by path: name, elements, optional

    def name(self, tag: str) -> str:
        namespace, brace, local = tag[1:].partition("}") if tag.startswith("{") else ("", "", tag)
        return f"{self._prefix(namespace)}:{local}" if brace else local

    def _prefix(self, namespace: str) -> str:
        return self.prefixes.setdefault(namespace, f"n{len(self.prefixes) + 1}")

    def examine(self, elements: Sequence[Any], path: str, *, is_optional: bool = False) -> list[_Found]:
        """The values below some elements of one path, without those of nested nodes."""
        for element in elements:
            for prefix, namespace in element.nsmap.items():
                if prefix and prefix not in self.prefixes.values():
                    self.prefixes.setdefault(namespace, prefix)
        found = []
        attributes = dict.fromkeys(key for each in elements for key in each.keys() if not key.startswith(_UNMAPPED))  # noqa: SIM118  (an element)
        for key in attributes:
            values = [each.get(key) for each in elements if each.get(key) is not None]
            found.append(self._value(f"{path}@{self.name(key)}", values, is_optional or len(values) < len(elements)))
        tags = dict.fromkeys(child.tag for each in elements for child in each.iterchildren("*"))
        for tag in tags:
            found += self._children(elements, path, tag, is_optional=is_optional)
        return found

    def _children(self, elements: Sequence[Any], path: str, tag: str, *, is_optional: bool) -> list[_Found]:
        groups = [list(each.iterchildren(tag)) for each in elements]
        children = [child for group in groups for child in group]
        child_path, may_lack = f"{path}{self.name(tag)}", is_optional or not all(groups)
        has_parts = any(len(child) or child.keys() for child in children)
        if has_parts and any(len(group) > 1 for group in groups):
            self._nested.setdefault(path, []).append((child_path, children, may_lack))
            return []
        values = [text for child in children if not len(child) and (text := (child.text or "").strip())]
        found = [self._value(child_path, values, may_lack)] if values or not has_parts else []
        if has_parts:
            found += self.examine(children, f"{child_path}/", is_optional=may_lack)
        return found

    def _value(self, path: str, values: Sequence[str], is_optional: bool) -> _Found:
        return _found(path, values, [TEXT] * len(values), is_unique=False, is_optional=is_optional)

    def lines(self, found: Sequence[_Found], path: str, indent: str) -> list[str]:
        """The lines of the values, and of the nested nodes whose path begins with ``path``."""
        lines = _property_lines(found, indent)
        nested = [each for start in list(self._nested) if start.startswith(path) for each in self._nested.pop(start)]
        for name, elements, is_optional in nested:
            local = _property_names([name])[0]
            lines += [f"{indent}{_scalar(name)}:", f"{indent}  property: ex:{local}"]
            lines += [f"{indent}  optional: true"] if is_optional else []
            inner = _DocumentDraft()
            inner.prefixes = self.prefixes
            values = inner.examine(elements, "")
            texts = [text for each in elements if not len(each) and (text := (each.text or "").strip())]
            values += [self._value(".", texts, is_optional=len(texts) < len(elements))] if texts else []
            lines += [f"{indent}  properties:", *inner.lines(values, "", indent + "    ")]
        return lines


_UNMAPPED = ("{http://www.w3.org/2001/XMLSchema-instance}", "{urn:motet:ns#}")
