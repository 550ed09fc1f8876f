"""Compiled N-Quads scanner: bytes in, Arrow buffers out.

It reads only lines whose terms pyoxigraph would print unchanged, except for the case of a language tag and an
``^^xsd:string``, which is dropped. Every other line, valid or not, is *uncertain* and left to the caller; functions
return ``-1`` for it. No line is called bad here.

No loop checks for the end of the text: the text ends with a line end, and no term contains one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from motet.jit.compiled import Bytes, Ints, allocating, compiled

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
        _PATH: host + ":@/?",  # the characters of a query as well
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
    """Result of one scan: ``rows`` quads, and the uncertain lines as rows of (start, end, line number).

    The four columns are graph, subject, predicate, object.
    """

    rows: int
    lines_seen: int
    text: tuple[Bytes, Bytes, Bytes, Bytes]
    offsets: npt.NDArray[np.int32]
    graph_validity: Bytes
    lines: Ints
    uncertain: Ints


@allocating
def _byte(text: Bytes, at: int) -> int:
    # An unsigned index avoids the test for negative ones, which halves the speed.
    return text[np.uint64(at)]


@allocating
def _is(character: int, kind: int) -> bool:
    return (_CLASSES[np.uint64(character)] & kind) != 0


@allocating
def _in(text: Bytes, at: int, kind: int) -> bool:
    return _is(_byte(text, at), kind)


@allocating
def _at_whitespace(text: Bytes, at: int) -> bool:
    return _byte(text, at) == _SPACE or _byte(text, at) == _TAB


@allocating
def _at_line_end(text: Bytes, at: int) -> bool:
    return _byte(text, at) == _LF or _byte(text, at) == _CR


@allocating
def _skip_whitespace(text: Bytes, at: int) -> int:
    while _at_whitespace(text, at):
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
    """The end of one well-formed multi-byte character that is printed unchanged (U+FFFE and U+FFFF are not)."""
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
    """The end of one character from U+00A0 to U+D7FF, all of which an IRI may contain."""
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
    """The end of path, query, fragment and the closing bracket."""
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
    """The end of an absolute IRI in angle brackets."""
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
    """The end of ``_:label`` before white space; a label with a dot in it or after it is uncertain."""
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
    return at if _at_whitespace(text, at) else -1


@allocating
def _after_node(text: Bytes, at: int) -> int:
    return _after_iri(text, at) if _byte(text, at) == _LESS else _after_blank_node(text, at)


@allocating
def _hex(text: Bytes, at: int, digits: int) -> int:
    value = 0
    for position in range(at, at + digits):
        if not _in(text, position, _HEX):
            return -1
        digit = int(_byte(text, position))
        value = value * 16 + (digit & 15) + (9 if digit > 57 else 0)
    return value


@allocating
def _escaped_character(text: Bytes, at: int) -> int:
    """The character of a numeric escape, if that character is printed unchanged."""
    value = _hex(text, at + 2, 4 if _byte(text, at + 1) == _LOWER_U else 8)
    if value < 0x80:
        return value if value >= 0 and _is(value, _TEXT) else -1
    surrogate, noncharacter = 0xD800 <= value <= 0xDFFF, 0xFFFE <= value <= 0xFFFF
    return -1 if surrogate or noncharacter or value > 0x10FFFF else value


@allocating
def _after_escape(text: Bytes, at: int, bounds: Ints) -> int:
    """The end of an escape; ``bounds[9]`` becomes 1 for a numeric one, which is printed as its character."""
    if _in(text, at + 1, _ESCAPED):
        return at + 2
    numeric = _byte(text, at + 1) == _LOWER_U or _byte(text, at + 1) == _UPPER_U
    if not numeric or _escaped_character(text, at) < 0:
        return -1
    bounds[9] = 1
    return at + (6 if _byte(text, at + 1) == _LOWER_U else 10)


@allocating
def _after_quoted(text: Bytes, at: int, bounds: Ints) -> int:
    """The end of the quoted string that starts at ``at``."""
    at += 1
    while at >= 0:
        character = _byte(text, at)
        if _is(character, _TEXT):
            at += 1
        elif character == _QUOTE:
            return at + 1
        elif character == _BACKSLASH:
            at = _after_escape(text, at, bounds)
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
    """The end of a tag such as ``en``, ``en-US``, ``zh-Hans`` or ``zh-Hans-CN``; other tags are uncertain."""
    end = _after_letters(text, at)
    if not 2 <= end - at <= 8:
        return -1
    for length in (4, 2):
        if end - at <= 8 and _byte(text, end) == _HYPHEN and _after_letters(text, end + 1) - end - 1 == length:
            end += length + 1
    return end if _at_whitespace(text, end) or _byte(text, end) == _DOT else -1


@allocating
def _read_object(text: Bytes, at: int, bounds: Ints) -> int:
    """The end of the object; ``bounds[4:7]`` become its start, its printed end and the start of its language tag."""
    bounds[4] = at
    bounds[9] = 0
    if _byte(text, at) != _QUOTE:
        end = _after_node(text, at)
        bounds[5] = bounds[6] = end
        return end
    end = _after_quoted(text, at, bounds)
    bounds[5] = bounds[6] = end
    if end < 0:
        return -1
    if _byte(text, end) == _AT:
        bounds[6] = end + 1
        bounds[5] = end = _after_language(text, end + 1)
    elif _byte(text, end) == _CARET and _byte(text, end + 1) == _CARET:
        datatype = end + 2
        end = _after_iri(text, datatype)
        if end < 0 or _starts_with(text, datatype, _RDF):
            return -1  # rdf:langString and rdf:dirLangString are not allowed as datatypes
        if not _starts_with(text, datatype, _XSD_STRING):
            bounds[5] = bounds[6] = end
    return end


@allocating
def _read_graph(text: Bytes, at: int, bounds: Ints) -> int:
    """The end of the graph and of the white space after it; ``bounds[7:9]`` become its start and end, or equal."""
    bounds[7] = bounds[8] = at
    if _byte(text, at) == _DOT:
        return at
    bounds[8] = end = _after_node(text, at)
    return end if end < 0 else _skip_whitespace(text, end)


@allocating
def _after_dot(text: Bytes, at: int) -> int:
    """The line end, if only a dot, white space and a comment precede it."""
    if _byte(text, at) != _DOT:
        return -1
    at = _skip_whitespace(text, at + 1)
    if _byte(text, at) == _HASH:
        return _line_end(text, at)
    return at if _at_line_end(text, at) else -1


@allocating
def _read_quad(text: Bytes, at: int, bounds: Ints) -> int:
    """The line end after the quad that starts at ``at``; ``bounds`` become the starts and ends of its terms."""
    bounds[0] = at
    bounds[1] = at = _after_node(text, at)
    if at < 0:
        return -1
    bounds[2] = at = _skip_whitespace(text, at)
    bounds[3] = at = _after_iri(text, at)
    if at < 0:
        return -1
    at = _read_object(text, _skip_whitespace(text, at), bounds)
    if at < 0:
        return -1
    at = _read_graph(text, _skip_whitespace(text, at), bounds)
    return at if at < 0 else _after_dot(text, at)


@allocating
def _append(text: Bytes, start: int, end: int, column: Bytes, offsets: npt.NDArray[np.int32], row: int) -> None:
    """Append one term to its column."""
    target = offsets[row]
    length = end - start
    for index in range(length):
        column[np.uint64(target + index)] = _byte(text, start + index)
    offsets[row + 1] = target + length


@allocating
def _put_utf8(column: Bytes, at: int, value: int) -> int:
    """Write one character; returns its end."""
    if value < 0x80:
        column[at] = value
        return at + 1
    size = 2 if value < 0x800 else 3 if value < 0x10000 else 4
    for byte_index in range(size - 1, 0, -1):
        column[at + byte_index] = 0x80 | (value & 0x3F)
        value >>= 6
    column[at] = (0xF00 >> size) & 0xFF | value
    return at + size


@allocating
def _append_unescaped(
    text: Bytes, start: int, end: int, column: Bytes, offsets: npt.NDArray[np.int32], row: int
) -> None:
    """As ``_append``, with numeric escapes replaced by their characters."""
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


def _scan(text: Bytes, first_line: int, max_line_bytes: int) -> tuple[object, ...]:
    max_rows = _count_line_ends(text)
    graphs, subjects = np.empty(text.size, np.uint8), np.empty(text.size, np.uint8)
    predicates, objects = np.empty(text.size, np.uint8), np.empty(text.size, np.uint8)
    offsets = np.empty((4, max_rows + 1), np.int32)
    for column in range(4):
        offsets[column, 0] = 0
    validity = np.zeros((max_rows + 7) // 8, np.uint8)
    lines = np.empty(max_rows, np.int64)
    uncertain = np.empty((max_rows, 3), np.int64)
    bounds = np.zeros(10, np.int64)
    at = row = uncertain_count = np.int64(0)
    line = first_line
    while at < text.size:
        start = at
        at = _skip_whitespace(text, at)
        blank = _at_line_end(text, at) or _byte(text, at) == _HASH
        end = _line_end(text, at) if blank else _read_quad(text, at, bounds)
        certain = end >= 0
        if not certain:
            end = _line_end(text, at)
        if not certain or end - start > max_line_bytes:
            uncertain[uncertain_count, 0] = start
            uncertain[uncertain_count, 1] = end
            uncertain[uncertain_count, 2] = line
            uncertain_count += 1
        elif not blank:
            _append(text, bounds[7], bounds[8], graphs, offsets[0], row)
            _append(text, bounds[0], bounds[1], subjects, offsets[1], row)
            _append(text, bounds[2], bounds[3], predicates, offsets[2], row)
            if bounds[9]:
                _append_unescaped(text, bounds[4], bounds[5], objects, offsets[3], row)
            else:
                _append(text, bounds[4], bounds[5], objects, offsets[3], row)
            if bounds[6] < bounds[5]:
                _lower(objects, offsets[3, row + 1] - (bounds[5] - bounds[6]), offsets[3, row + 1])
            if bounds[8] > bounds[7]:
                validity[row >> 3] |= 1 << (row & 7)
            lines[row] = line
            row += 1
        at = end + 1
        if _byte(text, end) == _CR and at < text.size and _byte(text, at) == _LF:
            at += 1
        line += 1
    columns = graphs, subjects, predicates, objects
    return row, line - first_line, columns, offsets, validity, lines, uncertain[:uncertain_count]


_SCAN = compiled(_scan)


def scan(text: Bytes, *, first_line: int, max_line_bytes: int) -> Scan:
    """Scan the lines of a text whose last byte ends a line. Lines longer than ``max_line_bytes`` are uncertain.

    >>> text = np.frombuffer(b"<a:s> <a:p> <a:o> .\\n?\\n", np.uint8)
    >>> result = scan(text, first_line=1, max_line_bytes=100)
    >>> result.rows, result.lines_seen, result.uncertain.tolist()
    (1, 2, [[20, 21, 2]])
    """
    return Scan(*_SCAN(text, first_line, max_line_bytes))
