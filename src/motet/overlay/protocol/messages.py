"""Messages between nodes: frozen dataclasses, and their conversion to and from plain fields for the wire.

A message is declared with `@peer_message`. Its fields are int, str, bytes, bool, tuples, named tuples, other messages
or None. `to_fields` makes nested tuples that any serialiser takes; `from_fields` checks the type of every field, as
the bytes come from elsewhere, and refuses a named tuple whose `problem` is not None. Integers beyond 64 bits travel as
bytes.
"""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, TypeVar, dataclass_transform

from motet.model.errors import DecodeError

_Class = TypeVar("_Class", bound="type[PeerMessage]")

MAX_INTEGER_BYTES = 32
MAX_DEPTH = 16

MESSAGE_TYPES: dict[str, type[PeerMessage]] = {}
"""Every message, by the name of its class."""

_FIELD_TYPES: dict[type[Any], dict[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMessage:
    """Base of all messages. `traffic` says what a message is counted as: control, lookup or data.

    `sender_field` is the field, if there is one, in which a sender names itself: a `Contact` with its own address.
    """

    traffic: ClassVar[str] = "control"
    sender_field: ClassVar[str | None] = None


@dataclass_transform(frozen_default=True, kw_only_default=True)
def peer_message(cls: _Class) -> _Class:
    """Make a class a message: a frozen dataclass that can travel."""
    made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
    if made.__name__ in MESSAGE_TYPES:
        raise TypeError(f"two messages are called {made.__name__}")
    MESSAGE_TYPES[made.__name__] = made
    return typing.cast(_Class, made)


def check_sender(sender: str, message: PeerMessage) -> None:
    """Raise DecodeError for a message in which its sender names itself as somebody else."""
    if message.sender_field is not None:
        address = getattr(message, message.sender_field).address
        if address != sender:
            raise DecodeError(f"its {type(message).__name__} names {address[:80]!r} as the sender")


def to_fields(message: PeerMessage) -> tuple[Any, ...]:
    """The message as nested tuples: its name, then its fields in order."""
    return (type(message).__name__, *(to_field(getattr(message, name)) for name in field_types(type(message))))


def from_fields(value: Any) -> PeerMessage:
    """The message that `to_fields` made tuples (or lists) of; DecodeError if it is none."""
    return _message(value, PeerMessage, MAX_DEPTH)


def to_field(value: Any) -> Any:
    """A field of a message, or of another record of such fields, as plain values."""
    if isinstance(value, PeerMessage):
        return to_fields(value)
    if isinstance(value, tuple):
        return tuple([to_field(item) for item in value])
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True)
    return value


def field_types(cls: type[Any]) -> dict[str, Any]:
    """The fields of a message or of a named tuple with their types, in order."""
    if cls not in _FIELD_TYPES:
        hints = typing.get_type_hints(cls)
        names = [field.name for field in fields(cls)] if is_dataclass(cls) else cls._fields
        _FIELD_TYPES[cls] = {name: hints[name] for name in names}
    return _FIELD_TYPES[cls]


def _message(value: Any, base: type[PeerMessage], depth: int) -> PeerMessage:
    if not isinstance(value, list | tuple) or not value or not isinstance(value[0], str):
        raise DecodeError("a message is not a sequence that begins with a name")
    cls = MESSAGE_TYPES.get(value[0])
    if cls is None or not issubclass(cls, base):
        raise DecodeError(f"{value[0][:80]!r} is no message that is expected here")
    hints = field_types(cls)
    if len(value) != len(hints) + 1:
        raise DecodeError(f"{cls.__name__} has {len(hints)} fields, not {len(value) - 1}")
    arguments = {
        name: from_field(item, hint, cls.__name__, depth - 1)
        for (name, hint), item in zip(hints.items(), value[1:], strict=True)
    }
    return cls(**arguments)


def from_field(value: Any, hint: Any, where: str, depth: int = MAX_DEPTH) -> Any:  # noqa: PLR0911  a line for each kind
    """The field of this type that `to_field` made plain values of; DecodeError names `where` it is wrong."""
    if depth < 0:
        raise DecodeError(f"{where} is nested deeper than {MAX_DEPTH}")
    origin = typing.get_origin(hint)
    if origin in (types.UnionType, typing.Union):
        (inner,) = [option for option in typing.get_args(hint) if option is not type(None)]
        return None if value is None else from_field(value, inner, where, depth)
    if hint is int and isinstance(value, bytes) and 8 < len(value) <= MAX_INTEGER_BYTES:
        return int.from_bytes(value, "big", signed=True)
    if hint in (int, str, bytes, bool) and type(value) is hint:
        return value
    if origin is tuple and isinstance(value, list | tuple):
        items = typing.get_args(hint)
        if len(items) == 2 and items[1] is Ellipsis:
            return tuple([from_field(item, items[0], where, depth - 1) for item in value])
        if len(items) == len(value):
            return tuple([from_field(item, kind, where, depth - 1) for item, kind in zip(value, items, strict=True)])
    if isinstance(hint, type) and issubclass(hint, PeerMessage):
        return _message(value, hint, depth - 1)
    if isinstance(hint, type) and issubclass(hint, tuple) and isinstance(value, list | tuple):
        hints = field_types(hint)
        if len(value) == len(hints):
            made = hint(
                *(from_field(item, kind, where, depth - 1) for item, kind in zip(value, hints.values(), strict=True))
            )
            problem = getattr(made, "problem", None)  # a named tuple may limit its values
            if problem is not None:
                raise DecodeError(f"{where} has a {hint.__name__} that is not valid: {problem}")
            return made
    raise DecodeError(f"{where} has a field that is not of its type")
