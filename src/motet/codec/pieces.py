"""Splits a document into pieces that can be parsed, located and rejected one by one.

A piece is a statement of Turtle, a graph of TriG, an object of a JSON-LD array, or a child of rdf:RDF. A piece that the
parser refuses costs no other piece its place. A document is never misread because it is split wrongly: the pieces of a
valid document are parsed as one text, and only their line numbers depend on the splitting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple
from xml.parsers import expat

from motet.codec.formats import Format
from motet.codec.input_guards import remote_contexts
from motet.codec.rejections import Problem
from motet.model.terms import RDF

_CLOSED_STRING = (
    rb'"""(?:[^"\\]|\\.|"(?!""))*+"""'
    rb"|'''(?:[^'\\]|\\.|'(?!''))*+'''"
    rb'|"(?!"")(?:[^"\\\r\n]|\\.)*+"'
    rb"|'(?!'')(?:[^'\\\r\n]|\\.)*+'"
)
_STRING = (
    _CLOSED_STRING + rb"|(?:\"\"\"|''').*+"  # not closed: the rest of the document
    rb"""|["'](?:[^\r\n.]|\.(?![ \t]*+(?:[\r\n]|\Z)))*+"""  # not closed: the rest of the line, but not its last dot
)
_TOKEN = re.compile(_CLOSED_STRING + rb"|<[^<>\r\n]*+>|\\.|\#[^\r\n]*+", re.DOTALL)
_SPACE = re.compile(rb"(?:[ \t\r\n]++|\#[^\r\n]*+)*+")
_TO_DELIMITER = re.compile(
    rb"(?:[^\"'<\#.{}\\]++|\\.|" + _STRING + rb"|<[^<>\r\n]*+>|<[^<>\s]*+|\#[^\r\n]*+"
    rb"|(?<=[^\s<>\"'\[\](){},;#])\.++(?=[^\s<>\"'\[\](){},;\#.])|\.(?=[0-9]))*+",
    re.DOTALL,
)
_DIRECTIVE = re.compile(
    rb"(?:PREFIX[ \t\r\n]++[^\s<:]*+:[ \t\r\n]*+<[^<>\r\n]*+>|BASE[ \t\r\n]*+<[^<>\r\n]*+>|VERSION[ \t\r\n]*+(?:"
    + _STRING
    + rb"))",
    re.IGNORECASE | re.DOTALL,
)
_DOTTED_DIRECTIVE = re.compile(rb"@(?:prefix|base|version)\b")
_NAME = rb"(?:<[^<>\r\n]*+>|[^\s<>\"'\[\](){},;\#.]++(?:\.++[^\s<>\"'\[\](){},;\#.]++)*+|\[[ \t\r\n]*+\])"
_SUBJECT = re.compile(_NAME)
_GRAPH = re.compile(rb"(?:GRAPH[ \t\r\n]++)?+(" + _NAME + rb")[ \t\r\n]*+\{", re.IGNORECASE)
_LAST_NAME = re.compile(rb"(?:GRAPH[ \t\r\n]++)?(?:<[^<>\s]*>|[^\s<>\"'\[\](){},;\#.]+)[ \t\r\n]*\Z", re.IGNORECASE)


class Piece(NamedTuple):
    """A part of a document."""

    text: bytes
    line: int
    column: int = 1
    is_directive: bool = False
    problem: Problem | None = None  # it is not parsed at all


class Pieces(NamedTuple):
    """The pieces of a document, and what is parsed before the first and after the last of them."""

    pieces: Iterable[Piece]
    opening: bytes = b""
    separator: bytes = b""
    closing: bytes = b""


def split(data: bytes, syntax: Format) -> Pieces:
    """The pieces of a document in an RDF format that is read whole.

    >>> [piece.text for piece in split(b"<urn:a> <urn:p> 1.5 .\\n<urn:b> <urn:p> oops .", Format.TURTLE).pieces]
    [b'<urn:a> <urn:p> 1.5 .\\n', b'<urn:b> <urn:p> oops .']
    """
    if syntax is Format.JSON_LD:
        return _split_json(data)
    if syntax is Format.RDF_XML:
        return _split_xml(data)
    return Pieces(_statements(data, has_graphs=syntax is Format.TRIG))


def probe(piece: bytes, syntax: Format) -> bytes | None:
    """A text with one triple about the subject of a piece, or in its graph, if these can be found.

    >>> probe(b"<urn:s> <urn:p> oops .", Format.TURTLE)
    b'<urn:s> <urn:x> <urn:x> .'
    """
    if syntax is Format.JSON_LD:
        return _json_probe(_json_value(piece.decode("utf-8", "replace"), 0))
    if syntax is Format.RDF_XML:
        return None
    if syntax is Format.TRIG and (graph := _GRAPH.match(piece)) is not None:
        return graph[1] + b" {<urn:x> <urn:x> <urn:x>}"
    subject = _SUBJECT.match(piece)
    return None if subject is None or subject[0].startswith(b"[") else subject[0] + b" <urn:x> <urn:x> ."


class _Lines:
    """Line and column of increasing positions in a text."""

    def __init__(self, text: bytes | str) -> None:
        self._text: Any = text
        self._newline = "\n" if isinstance(text, str) else b"\n"
        self._position = 0
        self._line = 1
        self._line_start = 0

    def at(self, position: int) -> tuple[int, int]:
        self._line += self._text.count(self._newline, self._position, position)
        self._line_start = max(self._line_start, self._text.rfind(self._newline, self._position, position) + 1)
        self._position = position
        return self._line, position - self._line_start + 1


def _statements(text: bytes, *, has_graphs: bool) -> Iterator[Piece]:
    """The statements of Turtle, and the graphs of TriG; white space and comments after one belong to it."""
    lines = _Lines(text)
    start = _skip(text, 0)
    while start < len(text):
        stop, kind = _statement_end(text, start, has_graphs)
        end = _skip(text, stop)
        statement = text[start:end] if end > stop or end == len(text) else text[start:end] + b" "
        line, column = lines.at(start)
        problem = Problem("not TRIG: the graph has no }", None, line, column) if kind is _Kind.UNCLOSED else None
        is_directive = kind is _Kind.DIRECTIVE
        yield Piece(statement, line, column, is_directive, problem)
        start = end


class _Kind(Enum):
    """What ends a statement: it is a directive, a graph that is not closed before the next one, or any other."""

    DIRECTIVE = 1
    UNCLOSED = 2
    OTHER = 3


def _skip(text: bytes, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _statement_end(text: bytes, start: int, has_graphs: bool) -> tuple[int, _Kind]:
    """The end of the statement at ``start``, and its kind."""
    if (directive := _DIRECTIVE.match(text, start)) is not None:
        return directive.end(), _Kind.DIRECTIVE
    position, brace = start, -1
    while True:
        position = _delimiter(text, position)
        mark = text[position : position + 1]
        if not mark:
            return position, _Kind.OTHER
        if mark == b"." and brace < 0:
            is_directive = _DOTTED_DIRECTIVE.match(text, start) is not None
            return position + 1, _Kind.DIRECTIVE if is_directive else _Kind.OTHER
        if has_graphs and mark == b"}":
            return position + 1, _Kind.OTHER
        if has_graphs and mark == b"{":
            if brace >= 0:  # the graph before is not closed
                name = _LAST_NAME.search(text[max(brace + 1, position - 1000) : position])
                return position - len(name[0]) if name else position, _Kind.UNCLOSED
            brace = position
        position += 1


def _delimiter(text: bytes, position: int) -> int:
    match = _TO_DELIMITER.match(text, position)
    return match.end() if match else position


def has_open_string(statement: bytes) -> bool:
    """Whether a string begins and does not end in a statement: then the parser looks for its end in the next ones.

    >>> has_open_string(b'<urn:s> <urn:p> "a .'), has_open_string(b"<urn:s> <urn:p> 'a', <urn:o'> . # '")
    (True, False)
    """
    rest = _TOKEN.sub(b"", statement)
    return b'"' in rest or b"'" in rest


_JSON_ID = re.compile(rb'"@id"[ \t\r\n]*+:[ \t\r\n]*+"([^"\\]*+)"')


def json_id_lines(piece: Piece) -> dict[str, int]:
    """The line of the first ``@id`` of each IRI in a piece of JSON-LD; of abbreviated IRIs under their abbreviations.

    >>> json_id_lines(Piece(b'{"urn:p":\\n{"@id": "urn:a"}}', line=5))
    {'urn:a': 6}
    """
    lines, found = _Lines(piece.text), dict[str, int]()
    for match in _JSON_ID.finditer(piece.text):
        line, _ = lines.at(match.start(1))
        found.setdefault(match[1].decode("utf-8", "replace"), piece.line + line - 1)
    return found


_JSON_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_MAX_COPIED_BYTES = 16 << 20  # of the context, which every item of a @graph is given


def _split_json(data: bytes) -> Pieces:
    """The items of an array, or of the ``@graph`` of an object that has nothing else but a ``@context``."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Pieces([Piece(data, 1)])  # the parser reports it
    start = _json_skip(text, 0)
    if text[start : start + 1] == "[":
        return Pieces(list(_json_items(text, start, is_document=True)), b"[", b",", b"]")
    members = _json_members(text, start) if text[start : start + 1] == "{" else {}
    items = _graph_items(text, members) if members.keys() == {"@context", "@graph"} else None
    if items is not None:
        return Pieces(items, b"[", b",", b"]")
    return Pieces([_json_piece(text.encode(), 1, 1, _json_value(text, start))])


def _graph_items(text: str, members: Mapping[str, tuple[int, int]]) -> list[Piece] | None:
    """The items of ``@graph``, each with the ``@context`` of all; None if they cannot be separated."""
    context_text = text[slice(*members["@context"])]
    context, first = _json_value(context_text, 0), members["@graph"][0]
    if text[first] != "[" or '"@propagate"' in context_text or any(remote_contexts({"@context": context})):
        return None
    items: list[Piece] = []
    for piece in _json_items(text, first):
        value = _json_value(piece.text.decode(), 0)
        if not isinstance(value, dict) or len(items) * len(context_text) > _MAX_COPIED_BYTES:
            return None
        own = piece.text[1:]  # with its lines
        merged = b'{"@context":' + json.dumps(context).encode() + (b"" if own.strip() == b"}" else b",") + own
        if "@context" in value:
            merged = json.dumps({**value, "@context": [*_as_list(context), *_as_list(value["@context"])]}).encode()
        items.append(_json_piece(merged, piece.line, piece.column, json.loads(merged)))
    return items or None


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _json_skip(text: str, position: int) -> int:
    match = _JSON_SPACE.match(text, position)
    return match.end() if match else position


def _json_value(text: str, position: int) -> Any:
    try:
        return _DECODER.raw_decode(text, position)[0]
    except ValueError:
        return None


def _json_members(text: str, start: int) -> dict[str, tuple[int, int]]:
    """The positions of an object's values by their keys; none if the text is anything but one such object."""
    members: dict[str, tuple[int, int]] = {}
    position = _json_skip(text, start + 1)
    try:
        while text[position : position + 1] != "}":
            key, position = _DECODER.raw_decode(text, position)
            position = _json_skip(text, position)
            if not isinstance(key, str) or key in members or text[position : position + 1] != ":":
                return {}
            first = _json_skip(text, position + 1)
            _, stop = _DECODER.raw_decode(text, first)
            members[key] = first, stop
            position = _json_skip(text, stop)
            if text[position : position + 1] == ",":
                position = _json_skip(text, position + 1)
    except ValueError:
        return {}
    return members if _json_skip(text, position + 1) == len(text) else {}


def _json_items(text: str, start: int, *, is_document: bool = False) -> Iterator[Piece]:
    """The items of an array; from the first that is not JSON on, the rest of the text is one piece."""
    lines = _Lines(text)
    position = _json_skip(text, start + 1)
    while text[position : position + 1] != "]":
        try:
            value, stop = _DECODER.raw_decode(text, position)
        except ValueError as error:
            yield _not_json(text, position, lines, str(error))
            return
        yield _json_piece(text[position:stop].encode(), *lines.at(position), value)
        position = _json_skip(text, stop)
        if text[position : position + 1] == ",":
            position = _json_skip(text, position + 1)
        elif text[position : position + 1] != "]":
            yield _not_json(text, position, lines, "a comma or a bracket is missing")
            return
    rest = _json_skip(text, position + 1)
    if is_document and rest < len(text):
        yield _not_json(text, rest, lines, "text after the array")


def _not_json(text: str, position: int, lines: _Lines, reason: str) -> Piece:
    line, column = lines.at(position)
    return Piece(text[position:].encode(), line, column, problem=Problem(f"not JSON: {reason}", None, line, column))


def _json_piece(text: bytes, line: int, column: int, value: Any) -> Piece:
    problem = None
    if remote := list(dict.fromkeys(remote_contexts(value))):
        reason = f"the JSON-LD context <{'>, <'.join(remote[:5])}> is remote; contexts are not fetched"
        problem = Problem(reason, "write the context into the document", line, column)
    return Piece(text, line, column, problem=problem)


def _json_probe(value: Any) -> bytes | None:
    if not isinstance(value, dict) or not isinstance(value.get("@id"), str):
        return None
    context = {"@context": value["@context"]} if "@context" in value else {}
    statement = {"@graph": {"@id": "urn:x", "urn:x": 1}} if "@graph" in value else {"urn:x": 1}
    return json.dumps({**context, "@id": value["@id"], **statement}).encode()


def _split_xml(data: bytes) -> Pieces:
    """The children of the root element rdf:RDF, each with the text up to the next one."""
    children: list[Piece] = []
    starts: list[int] = []
    end = depth = 0
    root = ""
    parser = expat.ParserCreate()

    def opened(name: str, attributes: Mapping[str, str]) -> None:
        nonlocal depth, root
        if depth == 0 and _is_rdf(name, attributes):
            root = name
        elif depth == 1:
            children.append(Piece(b"", parser.CurrentLineNumber, parser.CurrentColumnNumber + 1))
            starts.append(parser.CurrentByteIndex)
        depth += 1

    def closed(_name: str) -> None:
        nonlocal depth, end
        depth -= 1
        end = parser.CurrentByteIndex

    parser.StartElementHandler, parser.EndElementHandler = opened, closed
    error: expat.ExpatError | None = None
    try:
        parser.Parse(data, True)
    except expat.ExpatError as raised:
        error = raised
    if not root or not starts or data[starts[0] : starts[0] + 1] != b"<":
        return Pieces([Piece(data, 1)])  # one node, or an encoding other than UTF-8
    opening, closing = data[: starts[0]], data[end:] if error is None else f"</{root}>".encode()
    if error is not None and depth == 1:  # all children are complete, and the error is after them
        end = data.find(b">", end) + 1
        children.append(Piece(b"", error.lineno, error.offset + 1))
        starts.append(end)
    stops = [*starts[1:], end if error is None else len(data)]
    pieces = [piece._replace(text=data[a:b]) for piece, a, b in zip(children, starts, stops, strict=True)]
    if error is not None:
        problem = Problem(f"not XML: {error}", None, error.lineno, error.offset + 1)
        pieces[-1] = pieces[-1]._replace(problem=problem)
    return Pieces(pieces, opening, b"", closing)


def _is_rdf(name: str, attributes: Mapping[str, str]) -> bool:
    """Whether a root element is rdf:RDF, which has its namespace as an attribute."""
    prefix, _, local = name.rpartition(":")
    return local == "RDF" and attributes.get(f"xmlns:{prefix}" if prefix else "xmlns") == RDF
