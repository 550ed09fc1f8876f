"""A node passes each input to the protocol that declares its type; messages become fields and back."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest

from motet.model.errors import DecodeError
from motet.overlay.protocol.identifiers import Contact, identifier_of
from motet.overlay.protocol.node import (
    Command,
    Expired,
    NodeProtocol,
    Outcome,
    PeerMessage,
    PeerNode,
    Persist,
    Received,
    Send,
    SetTimer,
    Started,
    Timer,
    check_sender,
    from_fields,
    peer_message,
    to_fields,
)
from motet.overlay.protocol.pastry_messages import Acknowledgement, LeafReply


@peer_message
class Echo(PeerMessage):
    text: str


@dataclass(frozen=True, kw_only=True)
class Shout(Command):
    text: str
    to: str


@dataclass(frozen=True, kw_only=True)
class Echoed(Outcome):
    text: str


class EchoProtocol(NodeProtocol):
    name = "echo"

    def __init__(self) -> None:
        super().__init__()
        self.receivers = {Echo: self._receive}
        self.commands = {Shout: self._shout}

    def started(self, disk: object) -> None:
        self.node.persist("starts", b"1")

    def expired(self, timer: Timer) -> None:
        self.node.record(timer[1], "waited for %s", timer[1])

    def _shout(self, command: Shout) -> None:
        self.node.send(command.to, Echo(text=command.text))
        self.node.set_timer(("echo", command.to), self.node.now + 5)

    def _receive(self, sender: str, message: Echo) -> None:
        self.node.report(Echoed(text=message.text))


@peer_message
class Unknown(PeerMessage):
    pass


def test_inputs_lead_to_effects() -> None:
    """A start, a command, a message and a timer each reach their protocol; effects keep their order."""
    node = PeerNode("a", [EchoProtocol()])
    assert node.handle(0, Started()) == [Persist(key="starts", value=b"1")]
    assert node.handle(1, Shout(text="hey", to="b")) == [
        Send(to="b", message=Echo(text="hey")),
        SetTimer(timer=("echo", "b"), at=6),
    ]
    assert node.handle(2, Received(sender="b", message=Echo(text="hey"))) == [Echoed(text="hey")]
    assert node.handle(6, Expired(timer=("echo", "b"))) == []
    assert node.story("b") == ["0.000006 s: waited for b"]


def test_messages_of_no_protocol_are_counted() -> None:
    """A message that no protocol declares has no effect but a count."""
    node = PeerNode("a", [EchoProtocol()])
    assert node.handle(0, Received(sender="b", message=Unknown())) == []
    assert node.statistics() == {"unexpected": 1}


class Pair(NamedTuple):
    left: int
    right: str


@peer_message
class Inner(PeerMessage):
    value: int


@peer_message
class Outer(PeerMessage):
    key: int
    name: str
    pairs: tuple[Pair, ...]
    payload: PeerMessage | None
    exact: tuple[int, bytes]


MESSAGE = Outer(
    key=2**127 + 5, name="a", pairs=(Pair(1, "x"), Pair(-(2**90), "y")), payload=Inner(value=3), exact=(1, b"")
)


def test_a_message_survives_the_wire() -> None:
    """Large integers, named tuples and nested messages are decoded as they were."""
    assert from_fields(to_fields(MESSAGE)) == MESSAGE
    assert to_fields(Inner(value=3)) == ("Inner", 3)


@pytest.mark.parametrize(
    "fields",
    [
        None,
        (),
        ("Nobody", 1),
        ("Inner",),
        ("Inner", "1"),
        ("Inner", True),
        ("Inner", b"1"),
        ("Outer", 1, "a", ((1,),), None, (1, b"")),
        ("Outer", 1, "a", (), None, (1, b"", 2)),
        ("Outer", 1, "a", (), ("Inner", None), (1, b"")),
    ],
)
def test_wrong_fields_are_refused(fields: object) -> None:
    """A field of another type, number or name is a DecodeError, never another exception."""
    with pytest.raises(DecodeError):
        from_fields(fields)


def test_a_name_stands_for_one_message() -> None:
    """Two classes of one name could not be told apart on the wire."""
    with pytest.raises(TypeError, match="two messages are called Inner"):
        peer_message(type("Inner", (PeerMessage,), {}))


def test_depth_is_limited() -> None:
    """Nested messages of a hostile peer do not exhaust the stack."""
    fields: tuple[object, ...] = ("Inner", 1)
    for _ in range(40):
        fields = ("Outer", 1, "a", (), fields, (1, b""))
    with pytest.raises(DecodeError, match="nested deeper"):
        from_fields(fields)


def test_a_named_tuple_that_is_not_valid_is_refused() -> None:
    """A contact that chose its place on the ring reaches no protocol: its identifier is the hash of its address."""
    right = LeafReply(request=1, contact=Contact(identifier_of("a"), "a"), leaves=(), failed=())
    assert from_fields(to_fields(right)) == right
    for identifier in (-1, 1 << 128, identifier_of("b")):
        fields = to_fields(replace(right, leaves=(Contact(identifier, "a"),)))
        with pytest.raises(DecodeError, match="LeafReply has a Contact that is not valid: the identifier of 'a' is"):
            from_fields(fields)


def test_a_sender_names_itself() -> None:
    """A message about its sender has the sender's own contact; messages about others may come from anybody."""
    message = LeafReply(request=1, contact=Contact(identifier_of("a"), "a"), leaves=(), failed=())
    check_sender("a", message)
    check_sender("b", Acknowledgement(request=1))
    with pytest.raises(DecodeError, match="its LeafReply names 'a' as the sender"):
        check_sender("b", message)
