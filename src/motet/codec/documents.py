"""Parses whole documents (TriG, Turtle, RDF/XML, JSON-LD) with pyoxigraph into quads with line numbers.

The pieces of a document (``pieces``) are given to the parser one by one, so that it is known which piece a quad is
from. When the parser refuses a piece, its quads are dropped, it becomes a defect of the document, and parsing continues
with the next piece.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, islice
from secrets import token_hex
from typing import IO, cast

import pyoxigraph as ox

from motet.codec.document_events import Defect, ParsedDocument, Quad
from motet.codec.formats import Format
from motet.codec.input_guards import TRIPLE_TERMS, TRIPLE_TERMS_ADVICE, has_triple_terms, refuse_unsafe
from motet.codec.options import DecodeOptions
from motet.codec.pieces import Piece, Pieces, has_open_string, json_id_lines, probe, split
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
_MAX_DEFECTS = 10_000
_QUOTED_PIECES = 1_000  # of the rest of a document that is not read, in its error
_ADVICE = "correct it and publish the document again; accepted events are not added twice"


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
    except MotetError as error:
        document.defects.append(Defect(Problem(error.message, error.advice, content=_text(data))))
        return document
    _Parsing(data, syntax, document).run()
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

    def __init__(self, data: bytes, syntax: Format, document: ParsedDocument) -> None:
        pieces = split(data, syntax)
        self._may_have_triple_terms = syntax in _STATEMENTS and (b"<<" in data or b"{|" in data)
        self._syntax = syntax
        self._document = document
        self._split = pieces
        self._pieces = iter(pieces.pieces)
        self._unread: deque[Piece] = deque()  # pieces after a bad one that were read with it
        self._opening = bytearray(pieces.opening)  # with the directives so far
        self._repeated_bytes = 0
        self._terms: dict[str, str] = {}  # equal terms are one string
        self._id_lines: tuple[Piece, dict[str, int]] | None = None  # of the current piece of JSON-LD

    def run(self) -> None:
        while (piece := self._next_piece()) is not None:
            self._unread.appendleft(piece)
            if self._repeated_bytes > _MAX_REPEATED_BYTES or len(self._document.defects) > _MAX_DEFECTS:
                problem = Problem("too many errors; the rest of the document was not read", "correct it", piece.line)
                self._refuse_rest(problem)
            else:
                self._parse()

    def _next_piece(self) -> Piece | None:
        """The next piece that can be given to the parser."""
        if self._unread:
            return self._unread.popleft()
        for piece in self._pieces:
            if (problem := self._problem(piece)) is None:
                return piece
            self._add_defect(piece, problem)
        return None

    def _problem(self, piece: Piece) -> Problem | None:
        """The problem of a piece that must not reach the parser: nested triple terms would overflow its stack."""
        if piece.problem is None and self._may_have_triple_terms and has_triple_terms(piece.text):
            return Problem(TRIPLE_TERMS, TRIPLE_TERMS_ADVICE, piece.line, piece.column)
        return piece.problem

    def _parse(self) -> None:
        """Parse pieces up to the first bad one."""
        feed = _Feed(self._next_piece, self._split._replace(opening=bytes(self._opening)))
        quads, start = self._document.quads, len(self._document.quads)
        parser = ox.parse(cast(IO[bytes], feed), format=PARSERS[self._syntax], base_iri=self._document.base)
        try:
            for quad in parser:
                if len(feed.pieces) > 1:
                    self._accept(feed.pieces[:-1], has_quads=start < len(quads))
                    del feed.pieces[:-1]
                    start = len(quads)
                self._add(quad, feed.pieces[-1] if feed.pieces else Piece(b"", 1))
        except (SyntaxError, MemoryError) as error:  # MemoryError: a token is longer than the parser's buffer
            if not feed.pieces:
                self._refuse_rest(self._syntax_problem(error, Piece(b"", 1), feed))
                return
            bad = self._bad_piece(feed.pieces)
            if bad == 0:
                del quads[start:]
            self._accept(feed.pieces[:bad], has_quads=start < len(quads))
            self._repeated_bytes += len(self._opening)
            self._unread.extendleft(reversed(feed.pieces[bad + 1 :]))
            if bad + 1 < len(feed.pieces):
                problem = Problem(f"not {self._syntax.name}: a string is not closed", line=feed.pieces[bad].line)
            else:
                problem = self._syntax_problem(error, feed.pieces[bad], feed)
            self._add_defect(feed.pieces[bad], problem)
        else:
            self._accept(feed.pieces, has_quads=start < len(quads))

    def _bad_piece(self, pieces: Sequence[Piece]) -> int:
        """The index of the piece to which an error belongs, if the parser has found it in the last one."""
        last = len(pieces) - 1
        if self._syntax in _STATEMENTS:
            return next((index for index in range(last) if has_open_string(pieces[index].text)), last)
        return last

    def _accept(self, pieces: Sequence[Piece], *, has_quads: bool) -> None:
        """Keep the directives among pieces; reject objects of JSON-LD without triples.

        The parser drops what it cannot express in triples, without an error. Only the first piece can have quads.
        """
        for index, piece in enumerate(pieces):
            if piece.is_directive:
                self._opening += piece.text
            elif self._syntax is Format.JSON_LD and self._split.separator and (index or not has_quads):
                advice = "check its @id, the prefixes and the @context"
                self._add_defect(piece, Problem("the object holds no triples", advice, piece.line, piece.column))

    def _add(self, quad: ox.Quad, piece: Piece) -> None:
        graph_name, shared = quad.graph_name, self._terms.setdefault
        graph = None if isinstance(graph_name, ox.DefaultGraph) else shared(text := str(graph_name), text)
        subject, predicate = shared(text := str(quad.subject), text), shared(text := str(quad.predicate), text)
        line = piece.line if self._syntax is not Format.JSON_LD else self._json_line(piece, graph or subject)
        row = Quad(graph, subject, predicate, str(value := quad.object), line)
        if not isinstance(value, ox.Literal) or value.direction is None:
            self._document.quads.append(row)
            return
        problem = Problem(_DIRECTION, "leave the direction out", line, content=" ".join(row[1:4]))
        self._document.defects.append(Defect(problem, graph, None if graph else row.subject))

    def _json_line(self, piece: Piece, node: str) -> int:
        """The line of a node's ``@id`` in a piece of JSON-LD, or of the piece."""
        if self._id_lines is None or self._id_lines[0] is not piece:
            self._id_lines = piece, json_id_lines(piece)
        return self._id_lines[1].get(node[1:-1], piece.line)

    def _syntax_problem(self, error: SyntaxError | MemoryError, piece: Piece, feed: _Feed) -> Problem:
        if not isinstance(error, SyntaxError):
            return Problem(str(error), line=piece.line)
        reason = f"not {self._syntax.name.replace('_', ' ')}: {_POSITION.sub('', error.msg, count=1)}"
        if error.lineno is None:
            return Problem(reason, line=piece.line)
        lines_after = max(error.lineno - 1 - feed.lines_before, 0)
        column = error.offset if lines_after and self._syntax in _STATEMENTS else None
        return Problem(reason, line=piece.line + lines_after, column=column)

    def _add_defect(self, piece: Piece, problem: Problem) -> None:
        graph, subject = self._probe(piece)
        problem = replace(problem, advice=problem.advice or _ADVICE, content=_text(piece.text))
        self._document.defects.append(Defect(problem, graph, subject))

    def _probe(self, piece: Piece) -> tuple[str | None, str | None]:
        """The graph of a bad piece, or its subject in the default graph, if they can be recovered."""
        text = None if piece.is_directive else probe(piece.text, self._syntax)
        if text is None:
            return None, None
        opening = bytes(self._opening) if self._syntax in _STATEMENTS else b""
        self._repeated_bytes += len(opening)
        try:
            *_, quad = ox.parse(opening + text, format=PARSERS[self._syntax], base_iri=self._document.base)
        except (SyntaxError, ValueError, MemoryError):
            return None, None
        if isinstance(quad.graph_name, ox.DefaultGraph):
            return None, str(quad.subject)
        return str(quad.graph_name), None

    def _refuse_rest(self, problem: Problem) -> None:
        """Reject all pieces that are left as one."""
        rest = b"".join(piece.text for piece in chain(self._unread, islice(self._pieces, _QUOTED_PIECES)))
        self._unread.clear()
        self._pieces = iter(())
        problem = replace(problem, advice=problem.advice or _ADVICE, content=_text(rest))
        self._document.defects.append(Defect(problem))


class _Feed:
    """A binary file of pieces, whose reads never cross the end of a piece; its user removes finished pieces."""

    def __init__(self, next_piece: Callable[[], Piece | None], split_: Pieces) -> None:
        self._next_piece = next_piece
        self._split = split_
        self._text = memoryview(split_.opening)
        self._is_closed = False
        self._is_first = True
        self._lines = 0  # in what was read
        self.lines_before = 0  # the last piece, in what was read
        self.pieces: list[Piece] = []  # that were read

    def read(self, size: int = -1) -> bytes:
        while not self._text:
            if self._is_closed:
                return b""
            self._advance()
        size = len(self._text) if size < 0 else size
        text, self._text = bytes(self._text[:size]), self._text[size:]
        self._lines += text.count(b"\n")
        return text

    def _advance(self) -> None:
        piece = self._next_piece()
        if piece is None:
            self._is_closed = True
            self._text = memoryview(self._split.closing)
            return
        self.pieces.append(piece)
        self.lines_before = self._lines
        self._text = memoryview(piece.text if self._is_first else self._split.separator + piece.text)
        self._is_first = False
