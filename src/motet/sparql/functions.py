"""The functions of SPARQL 1.1 on terms, strings, numbers and times, by name. Casts are in `operators`.

Those of `CHANGING` differ each time and depend on the dataset; leaf bodies do not have them.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from typing import Any

from motet.model.intervals import Relation
from motet.model.terms import XSD, iri, literal, literal_parts
from motet.sparql.dataset import Dataset
from motet.sparql.prologue import is_absolute, resolve
from motet.sparql.regex import RegexError, RegexPattern, matches, replace, translate
from motet.sparql.temporal import HAS, SCALE, TEMPORAL_KINDS, Duration, format_zone
from motet.sparql.values import (
    LANG_STRING,
    NUMERIC_RANK,
    ExpressionError,
    Value,
    boolean,
    decode,
    duration,
    number,
    simple_text,
    string,
    text_like,
    text_of,
)

Function = Callable[..., Value]

_LANGUAGE_TAG = re.compile(r"(?:[A-Za-z]{2,8}|[xXiI](?=-))(?:-[A-Za-z0-9]{1,8})*")
_ABSOLUTE_IRI = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^<>"{}|^`\\\x00-\x20]*')
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
MAX_RESULT = 10_000_000  # characters of a string an expression may build


# Terms.


def _str(value: Value) -> Value:
    if value.kind == "blank":
        raise ExpressionError("a blank node has no text")
    return string(value.value if value.kind == "iri" else literal_parts(value.term)[0])


def _lang(value: Value) -> Value:
    _literal(value)
    return string(value.value[1] if value.kind == "lang" else "")


def _datatype(value: Value) -> Value:
    _literal(value)
    return decode(iri(LANG_STRING if value.kind == "lang" else literal_parts(value.term)[1]))


def _iri(value: Value, base: Value | None = None) -> Value:
    """An IRI, resolved against the query's base."""
    if value.kind == "iri":
        return value
    text = simple_text(value)
    if base is not None and not is_absolute(text):
        text = resolve(base.value, text)
    if _ABSOLUTE_IRI.fullmatch(text) is None:
        raise ExpressionError(f"{text!r} is not an absolute IRI")
    return decode(iri(text))


def _strdt(text: Value, datatype: Value) -> Value:
    if datatype.kind != "iri":
        raise ExpressionError(f"{datatype.term} is not a datatype")
    return decode(literal(simple_text(text), datatype=datatype.value))


def _strlang(text: Value, language: Value) -> Value:
    tag = simple_text(language)
    if _LANGUAGE_TAG.fullmatch(tag) is None:
        raise ExpressionError(f"{tag!r} is not a language tag")
    return decode(literal(simple_text(text), language=tag))


def _langmatches(tag: Value, tag_range: Value) -> Value:
    language, range_ = simple_text(tag).lower(), simple_text(tag_range).lower()
    if range_ == "*":
        return boolean(bool(language))
    return boolean(language == range_ or language.startswith(range_ + "-"))


def _literal(value: Value) -> None:
    if value.kind in ("iri", "blank"):
        raise ExpressionError(f"{value.term} is not a literal")


# Strings.


def _substr(text: Value, start: Value, length: Value | None = None) -> Value:
    if start.kind != "integer" or (length is not None and length.kind != "integer"):
        raise ExpressionError("SUBSTR takes whole numbers")
    source = text_of(text)
    first = start.value - 1
    last = len(source) if length is None else max(0, first + length.value)
    return text_like(text, source[max(0, first) : last])


def _compatible(text: Value, part: Value) -> tuple[str, str]:
    """Both texts, when the second may be an argument beside the first (section 17.4.3.1.2)."""
    pair = text_of(text), text_of(part)
    if part.kind == "lang" and (text.kind != "lang" or text.value[1] != part.value[1]):
        raise ExpressionError(f"{text.term} and {part.term} have different languages")
    return pair


def _strstarts(text: Value, part: Value) -> Value:
    source, substring = _compatible(text, part)
    return boolean(source.startswith(substring))


def _strends(text: Value, part: Value) -> Value:
    source, substring = _compatible(text, part)
    return boolean(source.endswith(substring))


def _contains(text: Value, part: Value) -> Value:
    source, substring = _compatible(text, part)
    return boolean(substring in source)


def _strbefore(text: Value, part: Value) -> Value:
    source, substring = _compatible(text, part)
    before, separator, _ = source.partition(substring) if substring else ("", True, "")
    return text_like(text, before) if separator else string("")


def _strafter(text: Value, part: Value) -> Value:
    source, substring = _compatible(text, part)
    _, separator, after = source.partition(substring) if substring else ("", True, source)
    return text_like(text, after) if separator else string("")


def _concat(*parts: Value) -> Value:
    text = "".join(map(text_of, parts))
    if len(text) > MAX_RESULT:
        raise ExpressionError(f"a text of {len(text)} characters")
    languages = {part.value[1] if part.kind == "lang" else None for part in parts}
    return text_like(parts[0], text) if len(languages) == 1 else string(text)


def _encode_for_uri(text: Value) -> Value:
    data = text_of(text).encode()
    return string("".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in data))


def _regex(text: Value, pattern: Value, flags: Value | None = None) -> Value:
    try:
        return boolean(matches(_pattern(pattern, flags), text_of(text)))
    except RegexError as problem:
        raise ExpressionError(str(problem)) from problem


def _replace(text: Value, pattern: Value, replacement: Value, flags: Value | None = None) -> Value:
    try:
        return text_like(text, replace(_pattern(pattern, flags), text_of(text), simple_text(replacement)))
    except RegexError as problem:
        raise ExpressionError(str(problem)) from problem


def _pattern(pattern: Value, flags: Value | None) -> RegexPattern:
    return translate(simple_text(pattern), simple_text(flags) if flags is not None else "")


def _hash(name: str) -> Function:
    return lambda text: string(hashlib.new(name, simple_text(text).encode(), usedforsecurity=False).hexdigest())


# Numbers.


def _rounding(exact: Callable[[int], int], ieee: Callable[[float], float]) -> Function:
    """A function that rounds to whole numbers: of decimals, given in 10⁻¹⁸, and of floats and doubles."""

    def rounded(value: Value) -> Value:
        if value.kind == "decimal":
            return number("decimal", exact(value.value) * SCALE)
        if value.kind in ("float", "double"):
            finite = math.isfinite(value.value)
            return number(value.kind, math.copysign(ieee(value.value), value.value) if finite else value.value)
        return _number(value)

    return rounded


def _nearest(value: float) -> int:
    """Halves go up; adding 0.5 first would lose the last bit."""
    below = math.floor(value)
    return below + (value - below >= 0.5)


def _abs(value: Value) -> Value:
    return number(_number(value).kind, abs(value.value))


def _number(value: Value) -> Value:
    if value.kind not in NUMERIC_RANK:
        raise ExpressionError(f"{value.term} is not a number")
    return number(value.kind, value.value)


# Times.


def _part(field: str, of: Callable[[Any], int]) -> Function:
    return lambda value: number("integer", of(_moment(value, field)))


def _seconds(value: Value) -> Value:
    return number("decimal", _moment(value, "second").clock % (60 * SCALE))


def _timezone(value: Value) -> Value:
    zone = _moment(value, "zone").zone
    if zone is None:
        raise ExpressionError(f"{value.term} has no time zone")
    return duration("dayTimeDuration", Duration(0, zone * 60 * SCALE))


def _tz(value: Value) -> Value:
    return string(format_zone(_moment(value, "zone").zone))


def _moment(value: Value, field: str) -> Any:
    if value.kind not in TEMPORAL_KINDS or field not in HAS[value.kind]:
        raise ExpressionError(f"{value.term} has no {field}")
    return value.value


# Values that differ each time.


def _rand(dataset: Dataset) -> Value:
    return number("double", (dataset.random_bits() >> 75) / 2**53)


def _uuid(dataset: Dataset) -> str:
    """A UUID of version 4."""
    bits = dataset.random_bits() & ~(0xF << 76) & ~(0x3 << 62) | (0x4 << 76) | (0x2 << 62)
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


CHANGING: dict[str, Callable[[Dataset], Value]] = {
    "NOW": lambda dataset: decode(literal(dataset.now, datatype=XSD + "dateTime")),
    "RAND": _rand,
    "UUID": lambda dataset: decode(iri(f"urn:uuid:{_uuid(dataset)}")),
    "STRUUID": lambda dataset: string(_uuid(dataset)),
    "BNODE": lambda dataset: decode(dataset.blank_node()),
}

FUNCTIONS: dict[str, Function] = {
    "STR": _str,
    "LANG": _lang,
    "DATATYPE": _datatype,
    "IRI": _iri,
    "STRDT": _strdt,
    "STRLANG": _strlang,
    "LANGMATCHES": _langmatches,
    "SAMETERM": lambda left, right: boolean(left.term == right.term),
    "ISIRI": lambda value: boolean(value.kind == "iri"),
    "ISBLANK": lambda value: boolean(value.kind == "blank"),
    "ISLITERAL": lambda value: boolean(value.kind not in ("iri", "blank")),
    "ISNUMERIC": lambda value: boolean(value.kind in NUMERIC_RANK),
    "STRLEN": lambda text: number("integer", len(text_of(text))),
    "SUBSTR": _substr,
    "UCASE": lambda text: text_like(text, text_of(text).upper()),
    "LCASE": lambda text: text_like(text, text_of(text).lower()),
    "STRSTARTS": _strstarts,
    "STRENDS": _strends,
    "CONTAINS": _contains,
    "STRBEFORE": _strbefore,
    "STRAFTER": _strafter,
    "CONCAT": _concat,
    "ENCODE_FOR_URI": _encode_for_uri,
    "REGEX": _regex,
    "REPLACE": _replace,
    "MD5": _hash("md5"),
    "SHA1": _hash("sha1"),
    "SHA256": _hash("sha256"),
    "SHA384": _hash("sha384"),
    "SHA512": _hash("sha512"),
    "ABS": _abs,
    "CEIL": _rounding(lambda value: -(-value // SCALE), math.ceil),
    "FLOOR": _rounding(lambda value: value // SCALE, math.floor),
    "ROUND": _rounding(lambda value: (value + SCALE // 2) // SCALE, _nearest),
    "YEAR": _part("year", lambda at: at.year),
    "MONTH": _part("month", lambda at: at.month),
    "DAY": _part("day", lambda at: at.day),
    "HOURS": _part("hour", lambda at: at.clock // (3_600 * SCALE)),
    "MINUTES": _part("minute", lambda at: at.clock // (60 * SCALE) % 60),
    "SECONDS": _seconds,
    "TIMEZONE": _timezone,
    "TZ": _tz,
}

# The relations of time, by the IRI of the function of two events: ``urn:motet:ns#metBy`` is MET BY.
RELATIONS: dict[str, Relation] = {
    "urn:motet:ns#" + first.lower() + "".join(map(str.capitalize, rest)): relation
    for relation in Relation
    for first, *rest in [relation.value.split()]
}
