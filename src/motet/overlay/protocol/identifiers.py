"""Identifiers on the ring: 128 bits, read as 32 digits of base 16."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

BITS = 128
DIGIT_BITS = 4
DIGITS = BITS // DIGIT_BITS
SPACE = 1 << BITS
HALF = SPACE >> 1
MASK = SPACE - 1


class Contact(NamedTuple):
    """A node as others refer to it: its identifier and its address.

    Simulated nodes have any identifiers; in a message from the wire, a contact has the hash of its address.
    """

    identifier: int
    address: str

    @property
    def problem(self) -> str | None:
        """What is wrong with a contact from elsewhere: its place on the ring is not free to choose."""
        if self.identifier == identifier_of(self.address):
            return None
        return f"the identifier of {self.address[:80]!r} is not the hash of this address"


def identifier_of(text: str | bytes) -> int:
    """The identifier of a name: the first 128 bits of its SHA-256.

    >>> format_identifier(identifier_of("motet"))[:8]
    '99c9c05a'
    """
    data = text.encode() if isinstance(text, str) else text
    return int.from_bytes(hashlib.sha256(data).digest()[: BITS // 8], "big")


def jitter(identifier: int, counter: int, limit: int) -> int:
    """A number below `limit` that looks random and depends only on a node and a counter."""
    mixed = (identifier ^ (identifier >> 64)) * 0x9E3779B97F4A7C15 + counter * 0xD1B54A32D192ED03
    mixed = (mixed ^ (mixed >> 31)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
    return (mixed ^ (mixed >> 29)) % limit


def format_identifier(identifier: int) -> str:
    """The identifier as 32 hexadecimal digits."""
    return f"{identifier:032x}"


def distance(left: int, right: int) -> int:
    """The shorter way around the ring between two identifiers.

    >>> distance(1, SPACE - 1)
    2
    """
    offset = (left - right) & MASK
    return offset if offset <= HALF else SPACE - offset


def common_digits(left: int, right: int) -> int:
    """How many leading digits two identifiers share.

    >>> common_digits(0x12 << 120, 0x13 << 120)
    1
    """
    return (BITS - (left ^ right).bit_length()) // DIGIT_BITS


def digit(identifier: int, index: int) -> int:
    """One digit of an identifier, counted from the left."""
    return (identifier >> (BITS - DIGIT_BITS - DIGIT_BITS * index)) & 15


def closeness(identifier: int, key: int) -> tuple[int, int]:
    """Sorts identifiers by their distance from a key; of two at the same distance the lower one is closer."""
    offset = (identifier - key) & MASK
    return (offset if offset <= HALF else SPACE - offset, identifier)


def closest(contacts: Iterable[Contact], key: int) -> Contact:
    """The contact that is responsible for a key, of those given."""
    return min(contacts, key=lambda contact: closeness(contact[0], key))
