"""The interface between a node and its host: inputs in, effects out; and the messages between nodes.

A host (the simulator, the TCP host) calls `PeerNode.handle(now, input)` and carries out the effects that it returns.
A node does no I/O and has no clock and no randomness: `now` is an integer of microseconds that never decreases.

A node carries several protocols over one address. Each input goes to the one protocol that declares its type. A
protocol that uses another one holds a reference to it and calls its methods, as Scribe calls Pastry's `route`.

    input     Started, Received, Expired, or a command (a subclass of Command)
    effect    Send, SetTimer, CancelTimer, Persist, or an outcome (a subclass of Outcome)

A message is a frozen dataclass declared with `@peer_message`. Its fields are int, str, bytes, bool, tuples, named
tuples, other messages or None. `to_fields` makes nested tuples that any serialiser takes; `from_fields` checks the type
of every field, as the bytes come from elsewhere, and refuses a named tuple whose `problem` is not None. Integers beyond
64 bits travel as bytes.
"""

from __future__ import annotations

import types
import typing
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar, dataclass_transform

from motet.model.errors import DecodeError

# Messages


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


# Nodes


MILLISECOND = 1_000
SECOND = 1_000_000

Timer: TypeAlias = tuple[Any, ...]
"""The key of a timer: the name of its protocol, then strings and integers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The first input of a node: what it persisted before an earlier stop, or nothing."""

    disk: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A message of another node. The sender is the address that the transport vouches for; `check_sender` holds."""

    sender: str
    message: PeerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Expired:
    """A timer whose time has come. It is no longer set."""

    timer: Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Base of the requests that an application makes of its own node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Base of what a node reports to its application: answers to commands, deliveries, changes of its state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a message; it may be lost, repeated or overtaken."""

    to: str
    message: PeerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer:
    """Set a timer, in place of an earlier one with the same key."""

    timer: Timer
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer:
    """Cancel a timer."""

    timer: Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Persist:
    """Store a value that survives a restart of this node; None deletes it."""

    key: str
    value: bytes | None


Input: TypeAlias = Started | Received | Expired | Command
Effect: TypeAlias = Send | SetTimer | CancelTimer | Persist | Outcome


class NodeProtocol:
    """Base of the protocols of a node. A subclass names itself and declares the types it handles.

    `receivers` maps types of messages to methods `(sender, message)`, `commands` types of commands to methods
    `(command)`; `expired` is called with each timer whose key begins with `name`, `started` with the disk.
    """

    name: str

    def __init__(self) -> None:
        self.receivers: dict[type[PeerMessage], Callable[[str, Any], None]] = {}
        self.commands: dict[type[Command], Callable[[Any], None]] = {}
        self.node: PeerNode

    def started(self, disk: Mapping[str, bytes]) -> None:
        """Restore what was persisted."""

    def expired(self, timer: Timer) -> None:
        """Handle a timer of this protocol."""

    def statistics(self) -> dict[str, int]:
        """Counts and sizes of this protocol's state."""
        return {}


class PeerNode:
    """One node of the overlay: an address and the protocols behind it.

    >>> node = PeerNode("a", [])
    >>> node.handle(0, Started())
    []
    """

    def __init__(self, address: str, protocols: Iterable[NodeProtocol], *, story_length: int = 256) -> None:
        self.address = address
        self.now = 0
        self.protocols = {protocol.name: protocol for protocol in protocols}
        self.counts: Counter[str] = Counter()
        self._effects: list[Effect] = []
        self._story: deque[tuple[int, object, str, tuple[object, ...]]] = deque(maxlen=story_length)
        self._receivers: dict[type[PeerMessage], Callable[[str, Any], None]] = {}
        self._commands: dict[type[Command], Callable[[Any], None]] = {}
        for protocol in self.protocols.values():
            protocol.node = self
            self._receivers |= protocol.receivers
            self._commands |= protocol.commands

    def handle(self, now: int, node_input: Input) -> list[Effect]:
        """Process one input and return its effects, in the order in which they are to be carried out.

        A message that no protocol of this node declares is dropped and counted as `unexpected`.
        """
        self.now = now
        effects: list[Effect] = []
        self._effects = effects
        kind = type(node_input)
        if kind is Received:
            receiver = self._receivers.get(type(node_input.message))  # type: ignore[union-attr]
            if receiver is None:
                self.counts["unexpected"] += 1
            else:
                receiver(node_input.sender, node_input.message)  # type: ignore[union-attr]
        elif kind is Expired:
            self.protocols[node_input.timer[0]].expired(node_input.timer)  # type: ignore[union-attr]
        elif kind is Started:
            for protocol in self.protocols.values():
                protocol.started(node_input.disk)  # type: ignore[union-attr]
        else:
            self._commands[kind](node_input)  # type: ignore[index]
        return effects

    # For the protocols

    def send(self, to: str, message: PeerMessage) -> None:
        """Have the host send a message."""
        self._effects.append(Send(to=to, message=message))

    def set_timer(self, timer: Timer, at: int) -> None:
        """Have the host set a timer."""
        self._effects.append(SetTimer(timer=timer, at=at))

    def cancel_timer(self, timer: Timer) -> None:
        """Have the host cancel a timer."""
        self._effects.append(CancelTimer(timer=timer))

    def persist(self, key: str, value: bytes | None) -> None:
        """Have the host store or delete a value on disk."""
        self._effects.append(Persist(key=key, value=value))

    def report(self, outcome: Outcome) -> None:
        """Report an outcome to the application."""
        self._effects.append(outcome)

    def record(self, key: object, text: str, *values: object) -> None:
        """Add a line to the story of a key; `text` is a format for `values`. The oldest lines are dropped."""
        self._story.append((self.now, key, text, values))

    # For people

    def statistics(self) -> dict[str, int]:
        """Counts and sizes of all protocols, as `protocol.figure`."""
        figures = {
            f"{name}.{key}": value for name, p in self.protocols.items() for key, value in p.statistics().items()
        }
        return figures | dict(sorted(self.counts.items()))

    def story(self, key: object) -> list[str]:
        """What happened to one key (a lookup, a topic, an address), line by line, as far as it is retained."""
        return [
            f"{at / SECOND:.6f} s: {text % values if values else text}"
            for at, of, text, values in self._story
            if of == key
        ]
