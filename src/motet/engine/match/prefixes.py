"""Prefixes as constants: that a value begins with a text is that its first bytes are the text.

A property whose values are tested for prefixes gets one more name for each length of them, which no IRI can be; under
that name the encoder puts a value's first bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from motet.plan.leaves import Prefix

MARK = "^"  # begins a constant that is no term


class Beginning(NamedTuple):
    """The first bytes of a property's values: of all of them, or only of strings."""

    predicate: str
    length: int
    through_str: bool

    @property
    def name(self) -> str:
        return f"{self.predicate} {self.length} {'STR' if self.through_str else ''}"


def beginning(predicate: str, test: Prefix) -> tuple[Beginning, str]:
    """What a test looks at, and the constant it looks for. Terms are canonical, so their bytes can be compared.

    >>> beginning("<urn:p>", Prefix("v", '"fir"', through_str=True))
    (Beginning(predicate='<urn:p>', length=3, through_str=True), '^fir')
    """
    text = test.text[1:-1]
    return Beginning(predicate, len(text.encode()), test.through_str), MARK + text


def named_beginning(name: str) -> Beginning | None:
    """The beginning that has a name; None for the name of a property.

    >>> named_beginning("<urn:p> 3 STR")
    Beginning(predicate='<urn:p>', length=3, through_str=True)
    """
    if name.endswith(">"):
        return None
    predicate, length, through_str = name.split(" ")
    return Beginning(predicate, int(length), bool(through_str))
