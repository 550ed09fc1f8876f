"""The interface between a node and its host: inputs in, effects out.

A host (the simulator, the TCP host) calls `PeerNode.handle(now, input)` and carries out the effects that it returns.
A node does no I/O and has no clock and no randomness: `now` is an integer of microseconds that never decreases.

A node carries several protocols over one address. Each input goes to the one protocol that declares its type. A
protocol that uses another one holds a reference to it and calls its methods, as Scribe calls Pastry's `route`.

    input     Started, Received, Expired, or a command (a subclass of Command)
    effect    Send, SetTimer, CancelTimer, Persist, or an outcome (a subclass of Outcome)
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from motet.overlay.protocol.messages import PeerMessage

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
