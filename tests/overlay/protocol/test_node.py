"""A node passes each input to the protocol that declares its type."""

from dataclasses import dataclass

from motet.overlay.protocol.messages import PeerMessage, peer_message
from motet.overlay.protocol.node import (
    Command,
    Expired,
    NodeProtocol,
    Outcome,
    PeerNode,
    Persist,
    Received,
    Send,
    SetTimer,
    Started,
    Timer,
)


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
