"""A mapping from rows and XML documents to events: which columns are an event's id, class, time and properties.

A mapping is a small YAML text, or the same structure as Python values. It is untrusted: it is limited in size and
depth, has no aliases and no tags, and every scalar is text, so that a column named ``no`` stays one. Values are
converted in ``row_values``, events built in ``rows``; in a mapping of documents columns are paths (``xml_mapping``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from motet.model.errors import LimitError, UsageError
from motet.model.terms import RDF_TYPE, XSD, iri

MAX_BYTES = 256 * 1024
MAX_DEPTH = 16
SOSA_RESULT_TIME = "http://www.w3.org/ns/sosa/resultTime"
PROV = "http://www.w3.org/ns/prov#"
UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}  # of numbers that are times since 1970, in microseconds
PREFIXES = {
    "xsd": XSD,
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "sosa": "http://www.w3.org/ns/sosa/",
    "prov": PROV,
}
DATATYPES = ("string", "integer", "decimal", "double", "float", "boolean", "date", "dateTime")
GENERIC = "generic"  # the name of the mapping that is for all XML documents
NEW_MAPPING = "`motet ingest --map new FILE` prints a mapping to begin with"

_COLUMN = re.compile(r"\{([^{}]*)\}")
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|^`\\]*")
LANGUAGE = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*")


@dataclass(frozen=True)
class IriTemplate:
    """An IRI with the values of columns in it; of one column alone, the value is the IRI.

    >>> IriTemplate("http://example.org/room/{floor}/{room}").columns
    ('floor', 'room')
    """

    text: str

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(_COLUMN.findall(self.text))

    @property
    def parts(self) -> tuple[str, ...]:
        """The texts before, between and after the columns."""
        return tuple(_COLUMN.split(self.text)[::2])

    @property
    def is_column(self) -> bool:
        return bool(self.columns) and not any(self.parts)


@dataclass(frozen=True)
class TimeColumn:
    """A column with a time of the event: of texts in ISO form or another ``format``, or of numbers with a ``unit``."""

    column: str
    property: str
    unit: str | None = None
    format: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class PropertyColumn:
    """A column whose values are objects of a property: literals, or IRIs by a template."""

    column: str
    property: str
    datatype: str | None = None  # an IRI; None: by the value
    language: str | None = None
    iri: IriTemplate | None = None
    optional: bool = False  # the column may be missing
    node: NodeMapping | None = None  # of XML: each element of the path is a node with properties of its own


@dataclass(frozen=True)
class NodeMapping:
    """The classes and properties of the node that an element is; its columns are paths from the element."""

    classes: tuple[IriTemplate, ...]
    properties: tuple[PropertyColumn, ...]


@dataclass(frozen=True)
class RowMapping:
    """How a row becomes an event. Picklable.

    >>> mapping = RowMapping.parse('''
    ... prefixes: {ex: http://example.org/}
    ... event: {class: ex:Reading, time: time}
    ... properties: {celsius: ex:celsius, room: {property: ex:room, iri: "ex:room/{room}"}}
    ... ''')
    >>> mapping.columns
    ('time', 'celsius', 'room')
    """

    id: IriTemplate | None = None  # None: events without an IRI get one by section 14 of the language page
    classes: tuple[IriTemplate, ...] = ()
    times: tuple[TimeColumn, ...] = ()
    properties: tuple[PropertyColumn, ...] = ()
    missing: tuple[str, ...] = ()  # texts that stand for no value, besides the empty one
    delimiter: str | None = None  # of CSV; None: a comma, in .tsv files a tab
    root: str | None = None  # of XML: the name of the root element that it is for
    prefixes: tuple[tuple[str, str], ...] = ()  # declared ones, for names of elements
    source: str = field(default="mapping", compare=False)  # its name in errors
    is_generic: bool = False  # it is the generic mapping of XML documents, and has nothing else
    text: str = field(default="", compare=False, repr=False)  # as a lake stores it

    @staticmethod
    def parse(text: str | bytes, source: str = "mapping") -> RowMapping:
        """The mapping of a YAML text; ``source`` is its name in errors."""
        mapping = _Reader(source).mapping(_load(text, source))
        return replace(mapping, text=text if isinstance(text, str) else text.decode("utf-8-sig"))

    @staticmethod
    def read(path: str | Path) -> RowMapping:
        """The mapping of a file."""
        try:
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise UsageError(
                f"the mapping {str(path)!r} cannot be read: {error.strerror}", advice=f"Check the path; {NEW_MAPPING}."
            ) from None
        return RowMapping.parse(data, str(path))

    @staticmethod
    def of(mapping: MappingInput) -> RowMapping:
        """The mapping that a program gives: one, its structure, its text, or the path of its file."""
        match mapping:
            case RowMapping():
                return mapping
            case "generic":
                return RowMapping(source=GENERIC, is_generic=True, text=GENERIC)
            case Mapping():
                text = json.dumps(mapping, ensure_ascii=False, default=str)
                return replace(_Reader("mapping").mapping(mapping), text=text)
            case str() if "\n" in mapping or ":" in mapping:
                return RowMapping.parse(mapping)
            case str() | Path():
                return RowMapping.read(mapping)
        raise UsageError(
            f"a mapping is no {type(mapping).__name__}", advice="Give a dict, YAML text, or the path of a file."
        )

    def refuse_nodes(self) -> None:
        """Raise an error for what only documents have, in a mapping of rows."""
        if self.is_generic or self.root is not None or any(each.node for each in self.properties):
            what = (
                "event, root" if self.root is not None else GENERIC if self.is_generic else "properties of properties"
            )
            advice = "Give it with XML documents; in JSON, name nested values by paths such as sensor.id."
            raise UsageError(f"{self.source}: {what} is for XML documents, and these are rows", advice=advice)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that the mapping names, in its order."""
        return tuple(dict.fromkeys(name for name, _ in self._named()))

    @property
    def required(self) -> frozenset[str]:
        """The columns that must be there."""
        return frozenset(name for name, is_optional in self._named() if not is_optional)

    def possible_triples(self) -> Iterator[tuple[str, str, str]]:
        """The triples that it may lift from a document: ``?this`` is the event, other variables stand for any term."""
        yield from _possible_triples("?this", self.classes, self.properties)
        yield from (("?this", iri(time.property), "?value") for time in self.times)

    def _named(self) -> Iterator[tuple[str, bool]]:
        for template in (*filter(None, [self.id]), *self.classes):
            yield from ((name, False) for name in template.columns)
        yield from ((time.column, time.optional) for time in self.times)
        for each in self.properties:
            yield each.column, each.optional
            yield from ((name, each.optional) for name in (each.iri.columns if each.iri else ()))


def _possible_triples(
    subject: str, classes: Sequence[IriTemplate], properties: Sequence[PropertyColumn]
) -> Iterator[tuple[str, str, str]]:
    for class_ in classes:
        yield subject, RDF_TYPE, "?value" if class_.columns else iri(class_.text)
    for each in properties:
        yield subject, iri(each.property), "?value"
        if each.node is not None:
            yield from _possible_triples("?node", each.node.classes, each.node.properties)


MappingInput = RowMapping | Mapping[str, object] | str | Path  # a mapping, its structure, its text or its path


class _Reader:
    """Reads the structure of a mapping; errors name the source and the key."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._prefixes = dict(PREFIXES)

    def mapping(self, structure: object) -> RowMapping:
        top = self._keys(structure, "the mapping", ("prefixes", "event", "properties", "missing", "csv"))
        for prefix, namespace in self._keys(top.get("prefixes") or {}, "prefixes").items():
            if not _IRI.fullmatch(str(namespace)):
                self._refuse(f"prefixes, {prefix}: {namespace!r} is no IRI", "write http://example.org/building#")
            self._prefixes[prefix] = str(namespace)
        event = self._keys(top.get("event") or {}, "event", ("root", "id", "class", "time", "start", "end"))
        if "time" in event and ("start" in event or "end" in event):
            self._refuse("event: an event has a time, or a start and an end", "remove one of them")
        if "end" in event and "start" not in event:
            self._refuse("event: an end needs a start", "add start, or write time instead of end")
        properties = self._keys(top.get("properties") or {}, "properties")
        csv = self._keys(top.get("csv") or {}, "csv", ("delimiter",))
        result = RowMapping(
            id=self._template(event["id"], "event, id") if event.get("id") else None,
            classes=tuple(self._template(each, "event, class") for each in _listed(event.get("class"))),
            times=tuple(self._time(event[name], name) for name in ("time", "start", "end") if event.get(name)),
            properties=self._properties(properties, "properties"),
            missing=tuple(map(str, _listed(top.get("missing")))),
            delimiter=self._delimiter(csv.get("delimiter")),
            root=self._text(event["root"], "event, root") if event.get("root") else None,
            prefixes=tuple(self._prefixes.items()),
            source=self._source,
        )
        if not (result.columns or result.root) or not (result.classes or result.times or result.properties):
            self._refuse("it states nothing about a row", f"add properties; {NEW_MAPPING}")
        return result

    def _time(self, value: object, name: str) -> TimeColumn:
        where = f"event, {name}"
        default = {"time": SOSA_RESULT_TIME, "start": f"{PROV}startedAtTime", "end": f"{PROV}endedAtTime"}[name]
        keys = self._keys(value, where, ("column", "unit", "format", "property")) if isinstance(value, Mapping) else {}
        column = str(keys.get("column") or "") if isinstance(value, Mapping) else self._text(value, where)
        unit, format_ = keys.get("unit"), keys.get("format")
        if not column:
            self._refuse(f"{where}: the column is missing", "write {column: time}")
        if unit is not None and unit not in UNITS:
            self._refuse(f"{where}: {unit!r} is no unit", f"use one of {', '.join(UNITS)}")
        if unit is not None and format_ is not None:
            self._refuse(f"{where}: unit is for numbers and format for texts", "remove one of them")
        property_ = self._iri(keys["property"], where) if "property" in keys else default
        return TimeColumn(column, property_, _optional_text(unit), _optional_text(format_))

    def _properties(self, properties: Mapping[str, object], where: str) -> tuple[PropertyColumn, ...]:
        return tuple(
            self._property(column, each, f"{where}, {column}")
            for column, value in properties.items()
            for each in _listed(value)
        )

    def _property(self, column: str, value: object, where: str) -> PropertyColumn:
        if not isinstance(value, Mapping):
            return PropertyColumn(column, self._iri(value, where))
        if "properties" in value or "class" in value:
            return self._node(column, value, where)
        keys = self._keys(value, where, ("property", "datatype", "language", "iri", "optional"))
        if "property" not in keys:
            self._refuse(f"{where}: the property is missing", "write {property: ex:room}")
        if sum(name in keys for name in ("datatype", "language", "iri")) > 1:
            self._refuse(f"{where}: a value has a datatype, a language or an IRI", "keep one of them")
        language = _optional_text(keys.get("language"))
        if language is not None and not LANGUAGE.fullmatch(language):
            self._refuse(f"{where}: {language!r} is no language", "write a tag such as en or pt-br")
        return PropertyColumn(
            column,
            self._iri(keys["property"], where),
            self._datatype(keys["datatype"], where) if "datatype" in keys else None,
            language,
            self._template(keys["iri"], where) if "iri" in keys else None,
            self._boolean(keys.get("optional", False), where),
        )

    def _node(self, column: str, value: Mapping[str, object], where: str) -> PropertyColumn:
        keys = self._keys(value, where, ("property", "class", "iri", "properties", "optional"))
        if "property" not in keys:
            self._refuse(f"{where}: the property is missing", "write {property: ex:info, properties: {…}}")
        nested = self._keys(keys.get("properties") or {}, f"{where}, properties")
        node = NodeMapping(
            tuple(self._template(each, f"{where}, class") for each in _listed(keys.get("class"))),
            self._properties(nested, f"{where}, properties"),
        )
        iri = self._template(keys["iri"], where) if "iri" in keys else None
        is_optional = self._boolean(keys.get("optional", False), where)
        return PropertyColumn(column, self._iri(keys["property"], where), None, None, iri, is_optional, node)

    def _datatype(self, value: object, where: str) -> str:
        name = self._text(value, where)
        if name in DATATYPES:
            return XSD + name
        if ":" not in name:
            self._refuse(f"{where}: {name!r} is no datatype", f"use one of {', '.join(DATATYPES)}, or an IRI")
        return self._iri(name, where)

    def _boolean(self, value: object, where: str) -> bool:
        if value not in (True, False, "true", "false"):
            self._refuse(f"{where}: optional is {value!r}", "write true or false")
        return value in (True, "true")

    def _iri(self, value: object, where: str) -> str:
        iri = self._expanded(self._text(value, where), where)
        if not _IRI.fullmatch(iri):
            self._refuse(f"{where}: {value!r} is no IRI", "write a prefix and a name, ex:room, or a whole IRI")
        return iri

    def _template(self, value: object, where: str) -> IriTemplate:
        template = IriTemplate(self._expanded(self._text(value, where), where))
        if any(not column for column in template.columns):
            self._refuse(f"{where}: {value!r} has a column without a name", "write {column}")
        if not template.is_column and not _IRI.fullmatch(_COLUMN.sub("x", template.text)):
            self._refuse(f"{where}: {value!r} makes no IRI", "write a prefix and columns: ex:room/{room}")
        return template

    def _expanded(self, text: str, where: str) -> str:
        """A whole IRI for a prefixed name; templates may begin with a column."""
        if text.startswith("<") and text.endswith(">"):
            return text[1:-1]
        prefix, colon, name = text.partition(":")
        if colon and prefix in self._prefixes:
            return self._prefixes[prefix] + name
        if colon and not name.startswith("//") and prefix != "urn" and "{" not in prefix:
            advice = f"add it to prefixes, or write a whole IRI as <{text}>; declared: {', '.join(self._prefixes)}"
            self._refuse(f"{where}: the prefix of {text!r} is not declared", advice)
        return text

    def _delimiter(self, value: object) -> str | None:
        text = _optional_text(value)
        if text is not None and (len(text) != 1 or text in '"\r\n'):
            self._refuse(f"csv, delimiter: {text!r}", 'write one character, such as ";" or "\\t"')
        return text

    def _text(self, value: object, where: str) -> str:
        if not isinstance(value, str) or not value:
            self._refuse(f"{where}: {value!r} is no text", "write the name of a column or an IRI")
        return value

    def _keys(self, value: object, where: str, allowed: Sequence[str] = ()) -> Mapping[str, object]:
        if not isinstance(value, Mapping):
            self._refuse(f"{where} is not a list of `key: value` lines", NEW_MAPPING)
        for key in value:
            if not isinstance(key, str) or (allowed and key not in allowed):
                advice = f"use {', '.join(allowed)}" if allowed else "write the key as text"
                self._refuse(f"{where}: the key {key!r} is not known", advice)
        return value

    def _refuse(self, reason: str, advice: str) -> NoReturn:
        raise UsageError(f"{self._source}: {reason}", advice=advice[0].upper() + advice[1:] + ".")


def _listed(value: object) -> Sequence[object]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _optional_text(value: object) -> str | None:
    return None if value is None else str(value)


def _load(text: str | bytes, source: str) -> object:
    """The structure of a YAML text: mappings, lists and texts."""
    import yaml

    data = text.encode() if isinstance(text, str) else text
    if len(data) > MAX_BYTES:
        raise LimitError(f"{source}: a mapping has at most {MAX_BYTES} bytes", advice="Remove what is no mapping.")
    try:
        decoded = data.decode("utf-8-sig")
        _check_events(yaml.parse(decoded, Loader=yaml.SafeLoader), source)
        return _structure(yaml.compose(decoded, Loader=yaml.SafeLoader), source)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        reason = getattr(error, "problem", None) or "it is not UTF-8 text"
        raise UsageError(f"{source}{where}: not YAML: {reason}", advice=f"Correct it; {NEW_MAPPING}.") from None


def _check_events(events: Iterator[object], source: str) -> None:
    """Refuse aliases and deep nesting before anything is built."""
    import yaml

    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            raise UsageError(f"{source}: a mapping has no aliases", advice="Write the value in place of the alias.")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise LimitError(f"{source}: nested deeper than {MAX_DEPTH}", advice="Remove what is no mapping.")


def _structure(node: object, source: str) -> object:
    import yaml

    match node:
        case yaml.MappingNode(value=pairs):
            return _unique(pairs, source, lambda child: _structure(child, source))
        case yaml.SequenceNode(value=children):
            return [_structure(child, source) for child in children]
        case yaml.ScalarNode(value=text, style=style):
            return None if not text and style is None else text
    return {}


def _unique(pairs: Sequence[tuple[object, object]], source: str, convert: Callable[[object], object]) -> object:
    result: dict[object, object] = {}
    for key_node, value in pairs:
        key = convert(key_node)
        if not isinstance(key, str) or key in result:
            line = key_node.start_mark.line + 1  # type: ignore[attr-defined]
            raise UsageError(
                f"{source}, line {line}: the key {key!r} is there twice or no text",
                advice="Keep one; several values are a list.",
            )
        result[key] = convert(value)
    return result
