"""XPath regular expressions, run by RE2 (inside pyarrow): time is linear in the text, whatever the pattern.

`translate` rewrites XPath's syntax into RE2's; a SQL engine with RE2 can use it as well. Classes are Unicode's, as
pyoxigraph has them (``\\d`` any decimal digit, ``\\w`` letters, marks, digits and ``_``). What RE2 lacks is refused:
back-references, ``\\i \\c``, class subtraction, Unicode blocks. The pattern and the text are limited in size.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MAX_PATTERN = 1_000
MAX_LENGTH = 1_000_000

_SPACE = r"\t-\r\x{85}\pZ"
_WORD = r"\pL\pM\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}"
_NOT_SPACE = (
    r"\x{0}-\x{8}\x{e}-\x{1f}!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}"
    r"\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}"
)
_NOT_WORD = r"\p{No}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\pS\pZ\p{Cc}\p{Cf}\p{Co}"
_CLASSES = {"d": r"\p{Nd}", "D": r"\P{Nd}", "s": _SPACE, "S": _NOT_SPACE, "w": _WORD, "W": _NOT_WORD}
_OUTSIDE = {
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": f"[{_SPACE}]",
    "S": f"[^{_SPACE}]",
    "w": f"[{_WORD}]",
    "W": f"[^{_WORD}]",
}
_ESCAPES = {"n": r"\n", "r": r"\r", "t": r"\t"}
_CATEGORY = re.compile(r"[pP](?:[LMNPZSC]|\{\^?[A-Za-z_]+\})")
_SPECIAL = frozenset("\\|.?*+(){}[]^$-")


class RegexPattern(NamedTuple):
    """A pattern in RE2's syntax."""

    re2: str
    groups: int
    literal: bool  # flag q: the replacement is literal too


class RegexError(ValueError):
    """A pattern, flag or replacement that cannot be used; the message says why."""


@lru_cache(maxsize=1_000)
def translate(pattern: str, flags: str = "") -> RegexPattern:
    """An XPath pattern in RE2's syntax, checked.

    >>> translate("a b+", "xi").re2
    '(?i)ab+'
    """
    if len(pattern) > MAX_PATTERN:
        raise RegexError(f"a regular expression of {len(pattern)} characters; at most {MAX_PATTERN} are allowed")
    if unknown := set(flags) - set("smixq"):
        raise RegexError(f"the flags {''.join(sorted(unknown))!r} are not known")
    literal = "q" in flags
    body, groups = (_quote(pattern), 0) if literal else _Translation(pattern, "x" in flags).run()
    switches = "".join(flag for flag in "ims" if flag in flags and (flag == "i" or not literal))
    translated = RegexPattern(f"(?{switches}){body}" if switches else body, groups, literal)
    matches(translated, "")  # RE2 says here what it does not accept
    return translated


def matches(pattern: RegexPattern, text: str) -> bool:
    """
    >>> matches(translate("^b", "m"), "a\\nb")
    True
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    _check_length(text)
    try:
        return bool(pc.match_substring_regex(pa.scalar(text), pattern.re2).as_py())
    except pa.ArrowInvalid as problem:
        raise RegexError(str(problem)) from problem


def replace(pattern: RegexPattern, text: str, replacement: str) -> str:
    """
    >>> replace(translate("(b)"), "abc", "[$1]")
    'a[b]c'
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    _check_length(text)
    rewrite = replacement.replace("\\", "\\\\") if pattern.literal else _rewrite(replacement, pattern.groups)
    try:
        return str(pc.replace_substring_regex(pa.scalar(text), pattern.re2, rewrite).as_py())
    except pa.ArrowInvalid as problem:
        raise RegexError(str(problem)) from problem


class _Translation:
    """One pass over a pattern."""

    def __init__(self, pattern: str, skip_space: bool) -> None:
        self.pattern = pattern
        self.skip_space = skip_space
        self.at = 0
        self.groups = 0

    def run(self) -> tuple[str, int]:
        parts = []
        while self.at < len(self.pattern):
            parts.append(self._next())
        return "".join(parts), self.groups

    def _next(self) -> str:
        char = self.pattern[self.at]
        if char == "\\":
            return self._escape(_OUTSIDE)
        if char == "[":
            return self._class()
        self.at += 1
        if char in " \t\n\r" and self.skip_space:
            return ""
        if char == "(":
            self.groups += self._opens_group()
        return char

    def _opens_group(self) -> bool:
        if not self.pattern.startswith("?", self.at):
            return True
        if not self.pattern.startswith("?:", self.at):
            raise RegexError("only ( and (?: open a group; look-around and names are not part of XPath's syntax")
        return False

    def _escape(self, classes: dict[str, str]) -> str:
        category = _CATEGORY.match(self.pattern, self.at + 1)
        if category:
            self.at = category.end()
            return "\\" + category[0]
        char = self.pattern[self.at + 1 : self.at + 2]
        self.at += 2
        if char in classes:
            return classes[char]
        if char in _ESCAPES:
            return _ESCAPES[char]
        if char in _SPECIAL or (self.skip_space and char == " "):
            return "\\" + char if char != " " else char
        raise RegexError(f"the escape '\\{char}' is not supported")

    def _class(self) -> str:
        parts = ["["]
        self.at += 1
        if self.pattern.startswith("^", self.at):
            parts.append("^")
            self.at += 1
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "]" and len(parts) > 1 and parts[-1] != "^":
                self.at += 1
                return "".join(parts) + "]"
            if char == "[":
                raise RegexError("'[' inside a character class must be escaped; class subtraction is not supported")
            parts.append(self._escape(_CLASSES) if char == "\\" else self._plain())
        raise RegexError("a character class is not closed")

    def _plain(self) -> str:
        self.at += 1
        return self.pattern[self.at - 1]


def _quote(text: str) -> str:
    return "".join(
        f"\\{char}" if char.isascii() and not char.isalnum() and char.isprintable() else char for char in text
    )


def _rewrite(replacement: str, groups: int) -> str:
    """XPath's ``$1`` and ``\\$`` in RE2's terms, ``\\1`` and ``$``."""
    parts, at = [], 0
    while at < len(replacement):
        char = replacement[at]
        if char == "\\":
            if replacement[at + 1 : at + 2] not in ("\\", "$"):
                raise RegexError("in a replacement, '\\' stands before '\\' or '$' only")
            parts.append("\\\\" if replacement[at + 1] == "\\" else "$")
            at += 2
        elif char == "$":
            reference, at = _reference(replacement, at + 1, groups)
            parts.append(reference)
        else:
            parts.append(char)
            at += 1
    return "".join(parts)


def _reference(replacement: str, at: int, groups: int) -> tuple[str, int]:
    """The longest number that is a group; a single digit that is none stands for the empty text."""
    digits = re.compile(r"[0-9]+").match(replacement, at)
    if digits is None:
        raise RegexError("in a replacement, '$' stands before a digit; write '\\$' for the sign")
    number = digits[0]
    while len(number) > 1 and int(number) > groups:
        number = number[:-1]
    if int(number) > 9:
        raise RegexError("a replacement can use groups 0 to 9 only")
    return (f"\\{number}" if int(number) <= groups else ""), at + len(number)


def _check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise RegexError(f"a text of {len(text)} characters; at most {MAX_LENGTH} are searched")
