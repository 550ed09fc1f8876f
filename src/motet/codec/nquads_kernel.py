"""The machine-code half of the N-Quads decoder: raw bytes in, Arrow buffers out.

It takes only lines it is certain about: those whose terms pyoxigraph would print just as they stand, but for the case
of a language tag and an ``^^xsd:string`` to drop. Every other line, right or wrong, is *hard* and left to the caller;
``-1`` means "not certain" throughout. Nothing here decides that a line is bad.

No loop checks for the end of the text: the text ends with a line end, and no term contains one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from motet.jit.compiled import allocating, compiled

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_TAB, _LF, _CR, _SPACE, _QUOTE, _HASH, _PERCENT, _HYPHEN, _DOT, _SLASH = 9, 10, 13, 32, 34, 35, 37, 45, 46, 47
_COLON, _LESS, _MORE, _QUESTION, _AT, _UPPER_U, _BACKSLASH, _CARET, _UNDERSCORE, _LOWER_U = (
    58,
    60,
    62,
    63,
    64,
    85,
    92,
    94,
    95,
    117,
)

# NumPy integers: Numba would compile a function anew for each Python integer it is called with.
_DIGIT, _ALPHA, _HEX, _SCHEME, _HOST, _PATH, _LABEL, _TEXT, _ESCAPED = (np.uint16(1 << bit) for bit in range(9))


def _character_classes() -> npt.NDArray[np.uint16]:
    classes = np.zeros(256, np.uint16)
    digits, letters = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    host = digits + letters + "-._~" + "!$&'()*+,;="
    members = {
        _DIGIT: digits,
        _ALPHA: letters,
        _HEX: digits + "ABCDEFabcdef",
        _SCHEME: digits + letters + "+-.",
        _HOST: host,
        _PATH: host + ":@/?",  # a query too, since it takes the same characters and keeps its question marks
        _LABEL: digits + letters + "_-",
        _TEXT: "".join(map(chr, set(range(32, 127)) - {_QUOTE, _BACKSLASH})),
        _ESCAPED: '"\\nrt',  # the escapes that canonical N-Triples keeps
    }
    for bit, characters in members.items():
        classes[[ord(character) for character in characters]] |= bit
    return classes


_CLASSES = _character_classes()
_XSD_STRING = np.frombuffer(b"<http://www.w3.org/2001/XMLSchema#string>", np.uint8)
_RDF = np.frombuffer(b"<http://www.w3.org/1999/02/22-rdf-syntax-ns#", np.uint8)


class Scan(NamedTuple):
    """What one pass found; ``rows`` certain quads, ``hard`` lines as (start, end, line number) rows.

    The four columns come in the order graph, subject, predicate, object.
    """

    rows: int
    lines_seen: int
    text: tuple[Bytes, Bytes, Bytes, Bytes]
    offsets: npt.NDArray[np.int32]
    graph_validity: Bytes
    lines: Ints
    hard: Ints


@allocating
def _byte(text: Bytes, at: int) -> int:
    # An unsigned index spares the test for negative ones, which would cost half the speed.
    return text[np.uint64(at)]


@allocating
def _is(character: int, kind: int) -> bool:
    return (_CLASSES[np.uint64(character)] & kind) != 0


@allocating
def _in(text: Bytes, at: int, kind: int) -> bool:
    return _is(_byte(text, at), kind)


@allocating
def _at_blank(text: Bytes, at: int) -> bool:
    return _byte(text, at) == _SPACE or _byte(text, at) == _TAB


@allocating
def _at_line_end(text: Bytes, at: int) -> bool:
    return _byte(text, at) == _LF or _byte(text, at) == _CR


@allocating
def _skip_blanks(text: Bytes, at: int) -> int:
    while _at_blank(text, at):
        at += 1
    return at


@allocating
def _line_end(text: Bytes, at: int) -> int:
    while not _at_line_end(text, at):
        at += 1
    return at


@allocating
def _starts_with(text: Bytes, at: int, prefix: Bytes) -> bool:
    matched = 0
    while matched < prefix.size and _byte(text, at + matched) == prefix[matched]:
        matched += 1
    return matched == prefix.size


@allocating
def _after_utf8(text: Bytes, at: int) -> int:
    """Past one well-formed character of several bytes that is printed as it stands (U+FFFE and U+FFFF are not)."""
    lead, second = _byte(text, at), _byte(text, at + 1)
    if second & 0xC0 != 0x80:
        return -1
    if 0xC2 <= lead <= 0xDF:
        return at + 2
    third = _byte(text, at + 2)
    if third & 0xC0 != 0x80:
        return -1
    if 0xE0 <= lead <= 0xEF:
        overlong, surrogate = lead == 0xE0 and second < 0xA0, lead == 0xED and second > 0x9F
        noncharacter = lead == 0xEF and second == 0xBF and third >= 0xBE
        return -1 if overlong or surrogate or noncharacter else at + 3
    outside = lead < 0xF0 or lead > 0xF4 or (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F)
    return -1 if outside or _byte(text, at + 3) & 0xC0 != 0x80 else at + 4


@allocating
def _after_iri_utf8(text: Bytes, at: int) -> int:
    """Past one character from U+00A0 to U+D7FF, all of which an IRI may contain."""
    lead = _byte(text, at)
    if lead > 0xED or (lead == 0xC2 and _byte(text, at + 1) < 0xA0):
        return -1
    return _after_utf8(text, at)


@allocating
def _after_authority(text: Bytes, at: int) -> int:
    while _in(text, at, _HOST):
        at += 1
    if _byte(text, at) == _COLON:
        at += 1
        while _in(text, at, _DIGIT):
            at += 1
    ended = (
        _byte(text, at) == _SLASH
        or _byte(text, at) == _QUESTION
        or _byte(text, at) == _HASH
        or _byte(text, at) == _MORE
    )
    return at if ended else -1


@allocating
def _after_path(text: Bytes, at: int) -> int:
    """Past path, query, fragment and the closing bracket."""
    in_fragment = False
    while True:
        character = _byte(text, at)
        if _is(character, _PATH):
            at += 1
        elif character == _MORE:
            return at + 1
        elif character == _HASH and not in_fragment:
            in_fragment = True
            at += 1
        elif character == _PERCENT and _in(text, at + 1, _HEX) and _in(text, at + 2, _HEX):
            at += 3
        elif character >= 0x80:
            at = _after_iri_utf8(text, at)
            if at < 0:
                return -1
        else:
            return -1


@allocating
def _after_iri(text: Bytes, at: int) -> int:
    """Past an absolute IRI in angle brackets."""
    if _byte(text, at) != _LESS or not _in(text, at + 1, _ALPHA):
        return -1
    at += 2
    while _in(text, at, _SCHEME):
        at += 1
    if _byte(text, at) != _COLON:
        return -1
    at += 1
    if _byte(text, at) == _SLASH and _byte(text, at + 1) == _SLASH:
        at = _after_authority(text, at + 2)
        if at < 0:
            return -1
    return _after_path(text, at)


@allocating
def _after_blank_node(text: Bytes, at: int) -> int:
    """Past ``_:label`` before a blank; with a dot in it or behind it, the label's end is pyoxigraph's affair."""
    if (
        _byte(text, at) != _UNDERSCORE
        or _byte(text, at + 1) != _COLON
        or not _in(text, at + 2, _LABEL)
        or _byte(text, at + 2) == _HYPHEN
    ):
        return -1
    at += 3
    while _in(text, at, _LABEL):
        at += 1
    return at if _at_blank(text, at) else -1


@allocating
def _after_node(text: Bytes, at: int) -> int:
    return _after_iri(text, at) if _byte(text, at) == _LESS else _after_blank_node(text, at)


@allocating
def _hex(text: Bytes, at: int, digits: int) -> int:
    value = 0
    for place in range(at, at + digits):
        if not _in(text, place, _HEX):
            return -1
        digit = int(_byte(text, place))
        value = value * 16 + (digit & 15) + (9 if digit > 57 else 0)
    return value


@allocating
def _escaped_character(text: Bytes, at: int) -> int:
    """The character of a numeric escape, if it is one that is printed as it stands."""
    value = _hex(text, at + 2, 4 if _byte(text, at + 1) == _LOWER_U else 8)
    if value < 0x80:
        return value if value >= 0 and _is(value, _TEXT) else -1
    surrogate, noncharacter = 0xD800 <= value <= 0xDFFF, 0xFFFE <= value <= 0xFFFF
    return -1 if surrogate or noncharacter or value > 0x10FFFF else value


@allocating
def _after_escape(text: Bytes, at: int, spans: Ints) -> int:
    """Past an escape; ``spans[9]`` tells that it is a numeric one, to be printed as the character it means."""
    if _in(text, at + 1, _ESCAPED):
        return at + 2
    numeric = _byte(text, at + 1) == _LOWER_U or _byte(text, at + 1) == _UPPER_U
    if not numeric or _escaped_character(text, at) < 0:
        return -1
    spans[9] = 1
    return at + (6 if _byte(text, at + 1) == _LOWER_U else 10)


@allocating
def _after_quoted(text: Bytes, at: int, spans: Ints) -> int:
    """Past the closing quote of the string that opens here."""
    at += 1
    while at >= 0:
        character = _byte(text, at)
        if _is(character, _TEXT):
            at += 1
        elif character == _QUOTE:
            return at + 1
        elif character == _BACKSLASH:
            at = _after_escape(text, at, spans)
        elif character >= 0x80:
            at = _after_utf8(text, at)
        else:
            at = -1
    return -1


@allocating
def _after_letters(text: Bytes, at: int) -> int:
    while _in(text, at, _ALPHA):
        at += 1
    return at


@allocating
def _after_language(text: Bytes, at: int) -> int:
    """Past a tag such as ``en``, ``en-US``, ``zh-Hans`` or ``zh-Hans-CN``; others need more rules."""
    end = _after_letters(text, at)
    if not 2 <= end - at <= 8:
        return -1
    for length in (4, 2):
        if end - at <= 8 and _byte(text, end) == _HYPHEN and _after_letters(text, end + 1) - end - 1 == length:
            end += length + 1
    return end if _at_blank(text, end) or _byte(text, end) == _DOT else -1


@allocating
def _read_object(text: Bytes, at: int, spans: Ints) -> int:
    """Past the object. ``spans[4:7]`` become its start, its printed end and where its language tag starts."""
    spans[4] = at
    spans[9] = 0
    if _byte(text, at) != _QUOTE:
        end = _after_node(text, at)
        spans[5] = spans[6] = end
        return end
    end = _after_quoted(text, at, spans)
    spans[5] = spans[6] = end
    if end < 0:
        return -1
    if _byte(text, end) == _AT:
        spans[6] = end + 1
        spans[5] = end = _after_language(text, end + 1)
    elif _byte(text, end) == _CARET and _byte(text, end + 1) == _CARET:
        datatype = end + 2
        end = _after_iri(text, datatype)
        if end < 0 or _starts_with(text, datatype, _RDF):
            return -1  # rdf:langString and its kin may not be written as datatypes
        if not _starts_with(text, datatype, _XSD_STRING):
            spans[5] = spans[6] = end
    return end


@allocating
def _read_graph(text: Bytes, at: int, spans: Ints) -> int:
    """Past the graph and the blanks behind it; ``spans[7:9]`` become its start and end, equal if there is none."""
    spans[7] = spans[8] = at
    if _byte(text, at) == _DOT:
        return at
    spans[8] = end = _after_node(text, at)
    return end if end < 0 else _skip_blanks(text, end)


@allocating
def _after_dot(text: Bytes, at: int) -> int:
    """To the line end, if nothing but a dot, blanks and a comment stand before it."""
    if _byte(text, at) != _DOT:
        return -1
    at = _skip_blanks(text, at + 1)
    if _byte(text, at) == _HASH:
        return _line_end(text, at)
    return at if _at_line_end(text, at) else -1


@allocating
def _read_quad(text: Bytes, at: int, spans: Ints) -> int:
    """To the line end behind the quad that starts here; ``spans`` become the starts and ends of its terms."""
    spans[0] = at
    spans[1] = at = _after_node(text, at)
    if at < 0:
        return -1
    spans[2] = at = _skip_blanks(text, at)
    spans[3] = at = _after_iri(text, at)
    if at < 0:
        return -1
    at = _read_object(text, _skip_blanks(text, at), spans)
    if at < 0:
        return -1
    at = _read_graph(text, _skip_blanks(text, at), spans)
    return at if at < 0 else _after_dot(text, at)


@allocating
def _append(text: Bytes, start: int, end: int, column: Bytes, offsets: npt.NDArray[np.int32], row: int) -> None:
    """Copy one term behind the last one of its column."""
    target = offsets[row]
    length = end - start
    for index in range(length):
        column[np.uint64(target + index)] = _byte(text, start + index)
    offsets[row + 1] = target + length


@allocating
def _put_utf8(column: Bytes, at: int, value: int) -> int:
    """Write one character; where it ends."""
    if value < 0x80:
        column[at] = value
        return at + 1
    size = 2 if value < 0x800 else 3 if value < 0x10000 else 4
    for place in range(size - 1, 0, -1):
        column[at + place] = 0x80 | (value & 0x3F)
        value >>= 6
    column[at] = (0xF00 >> size) & 0xFF | value
    return at + size


@allocating
def _append_unescaped(
    text: Bytes, start: int, end: int, column: Bytes, offsets: npt.NDArray[np.int32], row: int
) -> None:
    """As ``_append``, with numeric escapes replaced by the characters they mean."""
    target = np.int64(offsets[row])
    at = start
    while at < end:
        numeric = _byte(text, at + 1) == _LOWER_U or _byte(text, at + 1) == _UPPER_U
        if _byte(text, at) == _BACKSLASH and numeric:
            target = _put_utf8(column, target, _escaped_character(text, at))
            at += 6 if _byte(text, at + 1) == _LOWER_U else 10
            continue
        width = 2 if _byte(text, at) == _BACKSLASH else 1
        for _ in range(width):
            column[target] = _byte(text, at)
            target += 1
            at += 1
    offsets[row + 1] = target


@allocating
def _lower(column: Bytes, start: int, end: int) -> None:
    for index in range(start, end):
        if 65 <= column[index] <= 90:
            column[index] += 32


@allocating
def _count_line_ends(text: Bytes) -> int:
    count = 0
    for character in text:
        count += character in (_LF, _CR)
    return count


def _scan(text: Bytes, first_line: int, longest: int) -> tuple[object, ...]:
    bound = _count_line_ends(text)
    graphs, subjects = np.empty(text.size, np.uint8), np.empty(text.size, np.uint8)
    predicates, objects = np.empty(text.size, np.uint8), np.empty(text.size, np.uint8)
    offsets = np.empty((4, bound + 1), np.int32)
    for column in range(4):
        offsets[column, 0] = 0
    validity = np.zeros((bound + 7) // 8, np.uint8)
    lines = np.empty(bound, np.int64)
    hard = np.empty((bound, 3), np.int64)
    spans = np.zeros(10, np.int64)
    at = row = hards = np.int64(0)
    line = first_line
    while at < text.size:
        start = at
        at = _skip_blanks(text, at)
        blank = _at_line_end(text, at) or _byte(text, at) == _HASH
        end = _line_end(text, at) if blank else _read_quad(text, at, spans)
        certain = end >= 0
        if not certain:
            end = _line_end(text, at)
        if not certain or end - start > longest:
            hard[hards, 0] = start
            hard[hards, 1] = end
            hard[hards, 2] = line
            hards += 1
        elif not blank:
            _append(text, spans[7], spans[8], graphs, offsets[0], row)
            _append(text, spans[0], spans[1], subjects, offsets[1], row)
            _append(text, spans[2], spans[3], predicates, offsets[2], row)
            if spans[9]:
                _append_unescaped(text, spans[4], spans[5], objects, offsets[3], row)
            else:
                _append(text, spans[4], spans[5], objects, offsets[3], row)
            if spans[6] < spans[5]:
                _lower(objects, offsets[3, row + 1] - (spans[5] - spans[6]), offsets[3, row + 1])
            if spans[8] > spans[7]:
                validity[row >> 3] |= 1 << (row & 7)
            lines[row] = line
            row += 1
        at = end + 1
        if _byte(text, end) == _CR and at < text.size and _byte(text, at) == _LF:
            at += 1
        line += 1
    return row, line - first_line, (graphs, subjects, predicates, objects), offsets, validity, lines, hard[:hards]


_COMPILED = compiled(_scan, (types.Array(types.uint8, 1, "C", readonly=True), types.int64, types.int64))


def scan(text: Bytes, *, first_line: int, longest: int) -> Scan:
    """Read every line of a text whose last byte ends a line. Lines of more than ``longest`` bytes are hard.

    >>> found = scan(np.frombuffer(b"<a:s> <a:p> <a:o> .\\n?\\n", np.uint8), first_line=1, longest=100)
    >>> found.rows, found.lines_seen, found.hard.tolist()
    (1, 2, [[20, 21, 2]])
    """
    return Scan(*_COMPILED(text, first_line, longest))
