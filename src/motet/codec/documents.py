"""Parses whole documents (TriG, Turtle, RDF/XML, JSON-LD) with pyoxigraph into quads with line numbers.

The pieces of a document (``pieces``) are given to the parser one by one, so that it is known which piece a quad is
from. When the parser refuses a piece, its quads are dropped, it becomes a defect of the document, and parsing continues
with the next piece.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex
from typing import IO, cast

import pyoxigraph as ox

from motet.codec.document_events import Defect, ParsedDocument, Quad
from motet.codec.formats import Format
from motet.codec.input_guards import TRIPLE_TERMS, TRIPLE_TERMS_ADVICE, has_triple_terms, refuse_unsafe
from motet.codec.options import DecodeOptions
from motet.codec.pieces import Piece, Pieces, has_open_string, split
from motet.codec.rejections import Problem, truncate
from motet.model.errors import DecodeError, MotetError

PARSERS = {
    Format.N_QUADS: ox.RdfFormat.N_QUADS,
    Format.TRIG: ox.RdfFormat.TRIG,
    Format.TURTLE: ox.RdfFormat.TURTLE,
    Format.N_TRIPLES: ox.RdfFormat.N_TRIPLES,
    Format.JSON_LD: ox.RdfFormat.JSON_LD,
    Format.RDF_XML: ox.RdfFormat.RDF_XML,
}
_STATEMENTS = (Format.TURTLE, Format.TRIG)
_POSITION = re.compile(r"Parser error (?:at|between) .*?: ")
_DIRECTION = "RDF 1.2 language tags with a direction are not supported"
_MAX_REPEATED_BYTES = 256 << 20  # of directives, which are parsed again after each bad piece


def parse_document(
    data: bytes, syntax: Format, options: DecodeOptions, damage: DecodeError | None = None
) -> ParsedDocument:
    """The quads of a document and its defects; ``damage`` is the error of a stream that broke off after the data.

    >>> document = parse_document(b"<urn:a> <urn:p> 1 .\\n<urn:b> oops .", Format.TURTLE, DecodeOptions("input"))
    >>> [quad.subject for quad in document.quads], [defect.subject for defect in document.defects]
    (['<urn:a>'], ['<urn:b>'])
    """
    document = ParsedDocument(options.base.partition("#")[0] if options.base else _own_base())
    try:
        if syntax not in _STATEMENTS:
            refuse_unsafe(data, syntax, options.limits)
        pieces = split(data, syntax)
    except MotetError as error:
        document.defects.append(Defect(Problem(error.message, error.advice, content=_text(data))))
        return document
    _Parsing(pieces, syntax, document).run()
    if damage is not None:
        _report_damage(document, damage)
    elif not document.quads and not document.defects:
        advice = "check @id, the prefixes and the @context" if syntax is Format.JSON_LD else None
        problem = Problem("the document holds no triples", advice or "an event has at least one triple")
        document.defects.append(Defect(replace(problem, content=_text(data))))
    return document


def _own_base() -> str:
    """A base that no document can know: what is resolved against it is a relative IRI."""
    token = token_hex(8)
    return f"x{token}://r/{token}"


def _report_damage(document: ParsedDocument, damage: DecodeError) -> None:
    """Replace the problem of the last piece, if it is incomplete, by the reason."""
    last = document.defects.pop() if document.defects else Defect(Problem(""))
    problem = replace(last.problem, reason=damage.reason, advice=damage.advice)
    document.defects.append(last._replace(problem=problem))


def _text(data: bytes) -> str:
    return truncate(data.decode("utf-8", "replace"))


class _Parsing:
    """Parses the pieces of one document."""

    def __init__(self, pieces: Pieces, syntax: Format, document: ParsedDocument) -> None:
        self._syntax = syntax
        self._document = document
        self._split = pieces
        self._pieces: list[Piece] = []
        self._repeated_bytes = 0
        for piece in pieces.pieces:
            if (problem := self._problem(piece)) is None:
                self._pieces.append(piece)
            else:
                self._add_defect(piece, problem, b"")

    def run(self) -> None:
        first, opening = 0, self._split.opening
        while first < len(self._pieces):
            if self._repeated_bytes > _MAX_REPEATED_BYTES:
                self._refuse_rest(first)
                return
            bad = self._parse(first, opening)
            stop = len(self._pieces) if bad is None else bad
            opening += b"".join(piece.text for piece in self._pieces[first:stop] if piece.is_directive)
            self._repeated_bytes += len(opening)
            first = stop + 1

    def _problem(self, piece: Piece) -> Problem | None:
        """The problem of a piece that must not reach the parser: nested triple terms would overflow its stack."""
        if piece.problem is None and self._syntax in _STATEMENTS and has_triple_terms(piece.text):
            return Problem(TRIPLE_TERMS, TRIPLE_TERMS_ADVICE, piece.line, piece.column)
        return piece.problem

    def _parse(self, first: int, opening: bytes) -> int | None:
        """Parse the pieces from the first on; returns the index of the first bad one."""
        feed = _Feed(self._split._replace(pieces=self._pieces, opening=opening), first)
        quads, start, current = self._document.quads, len(self._document.quads), first - 1
        error: SyntaxError | MemoryError | None = None
        try:
            for quad in ox.parse(cast(IO[bytes], feed), format=PARSERS[self._syntax], base_iri=self._document.base):
                if feed.current != current:
                    self._check_objects(current + 1, feed.current)
                    current, start = feed.current, len(quads)
                self._add(quad, self._pieces[max(current, first)].line)
        except (SyntaxError, MemoryError) as raised:  # MemoryError: a token is longer than the parser's buffer
            error = raised
        if error is None:
            self._check_objects(current + 1, len(self._pieces))
            return None
        bad = self._bad_piece(max(current, first), min(max(feed.current, first), len(self._pieces) - 1))
        if current == bad:
            del quads[start:]
        self._check_objects(current + 1, bad)
        problem = self._syntax_problem(error, self._pieces[bad], feed, is_last=bad >= feed.current)
        directives = b"".join(piece.text for piece in self._pieces[first:bad] if piece.is_directive)
        self._add_defect(self._pieces[bad], problem, opening + directives)
        return bad

    def _bad_piece(self, first: int, last: int) -> int:
        """The piece to which an error belongs, if the parser has found it in the last of some pieces."""
        if self._syntax in _STATEMENTS:
            return next((index for index in range(first, last) if has_open_string(self._pieces[index].text)), last)
        return last

    def _check_objects(self, first: int, stop: int) -> None:
        """Reject objects of JSON-LD without triples: the parser drops what it cannot express, without an error."""
        if self._syntax is not Format.JSON_LD or len(self._split.pieces) == 1:
            return
        for piece in self._pieces[first:stop]:
            advice = "check its @id, the prefixes and the @context"
            self._add_defect(piece, Problem("the object holds no triples", advice, piece.line, piece.column), b"")

    def _add(self, quad: ox.Quad, line: int) -> None:
        graph = None if isinstance(quad.graph_name, ox.DefaultGraph) else str(quad.graph_name)
        row = Quad(graph, str(quad.subject), str(quad.predicate), str(quad.object), line)
        if getattr(quad.object, "direction", None) is None:
            self._document.quads.append(row)
            return
        problem = Problem(_DIRECTION, "leave the direction out", line, content=" ".join(row[1:4]))
        self._document.defects.append(Defect(problem, graph, None if graph else row.subject))

    def _syntax_problem(self, error: SyntaxError | MemoryError, piece: Piece, feed: _Feed, *, is_last: bool) -> Problem:
        if not is_last:
            return Problem(f"not {self._syntax.name}: a string is not closed", line=piece.line)
        if not isinstance(error, SyntaxError):
            return Problem(str(error), line=piece.line)
        reason = f"not {self._syntax.name.replace('_', ' ')}: {_POSITION.sub('', error.msg, count=1)}"
        if error.lineno is None:
            return Problem(reason, line=piece.line)
        lines_after = max(error.lineno - 1 - feed.lines_before, 0)
        column = error.offset if lines_after and self._syntax in _STATEMENTS else None
        return Problem(reason, line=piece.line + lines_after, column=column)

    def _add_defect(self, piece: Piece, problem: Problem, directives: bytes) -> None:
        graph, subject = self._probe(piece, directives)
        advice = problem.advice or "correct it and publish the document again; accepted events are not added twice"
        problem = replace(problem, advice=advice, content=_text(piece.text))
        self._document.defects.append(Defect(problem, graph, subject))

    def _probe(self, piece: Piece, directives: bytes) -> tuple[str | None, str | None]:
        """The graph of a bad piece, or its subject in the default graph, if they can be recovered."""
        if piece.probe is None:
            return None, None
        text = directives + piece.probe
        self._repeated_bytes += len(text)
        try:
            *_, quad = ox.parse(text, format=PARSERS[self._syntax], base_iri=self._document.base)
        except (SyntaxError, ValueError, MemoryError):
            return None, None
        if isinstance(quad.graph_name, ox.DefaultGraph):
            return None, str(quad.subject)
        return str(quad.graph_name), None

    def _refuse_rest(self, first: int) -> None:
        piece = self._pieces[first]
        rest = b"".join(piece.text for piece in self._pieces[first:])
        problem = Problem("too many errors; the rest of the document was not read", "correct the document", piece.line)
        self._document.defects.append(Defect(replace(problem, content=_text(rest))))


class _Feed:
    """A binary file whose reads never cross the end of a piece; ``current`` is the index of the last piece read."""

    def __init__(self, pieces: Pieces, first: int) -> None:
        self._split = pieces
        self._pieces: Sequence[Piece] = pieces.pieces
        self._first = first
        self._unread = memoryview(pieces.opening)
        self._is_closed = False
        self._lines = 0  # in what was read
        self.current = first - 1
        self.lines_before = 0  # the current piece, in what was read

    def read(self, size: int = -1) -> bytes:
        while not self._unread:
            if self._is_closed:
                return b""
            self._next()
        size = len(self._unread) if size < 0 else size
        text, self._unread = bytes(self._unread[:size]), self._unread[size:]
        self._lines += text.count(b"\n")
        return text

    def _next(self) -> None:
        if self.current + 1 < len(self._pieces):
            self.current += 1
            self.lines_before = self._lines
            separator = self._split.separator if self.current > self._first else b""
            self._unread = memoryview(separator + self._pieces[self.current].text)
        else:
            self._is_closed = True
            self._unread = memoryview(self._split.closing)
