"""The host of a node: messages, timers, commands, and what survives a restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.overlay.net.parties import PATIENCE, operator

from motet.model.errors import DecodeError, OverlayError, UsageError
from motet.overlay.net.certificates import CertificateAuthority
from motet.overlay.net.connection import Connection, bind, bound_address, operator_connection
from motet.overlay.net.frames import OperatorAnswer, decode_value, encode_value
from motet.overlay.net.host import NodeHost, decode_record, encode_links, encode_record, parse_links
from motet.overlay.net.node_directory import NodeDirectory, NodeSettings
from motet.overlay.protocol.identifiers import Contact, identifier_of
from motet.overlay.protocol.node import Command, NodeProtocol, Outcome, PeerMessage, PeerNode, Timer, peer_message
from motet.overlay.protocol.pastry_messages import Departure
from motet.overlay.sim.network import Network, UniformLatency


@peer_message
class Greeting(PeerMessage):
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Greet(Command):
    to: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeted(Outcome):
    by: str
    text: str
    number: int


class Greeter(NodeProtocol):
    """Sends greetings, and repeats each one after a tenth of a second; counts those received on disk."""

    name = "greeter"

    def __init__(self) -> None:
        super().__init__()
        self.receivers = {Greeting: self._receive}
        self.commands = {Greet: self._greet}
        self.count = 0
        self.failures = 0

    def started(self, disk: Mapping[str, bytes]) -> None:
        self.count = int(disk.get("count", b"0"))

    def _greet(self, command: Greet) -> None:
        self.node.send(command.to, Greeting(text=command.text))
        self.node.set_timer(("greeter", command.to, command.text), self.node.now + 10)
        self.node.set_timer(("greeter", command.to, command.text), self.node.now + 100_000)
        self.node.set_timer(("greeter", command.to, "never"), self.node.now + 100)
        self.node.cancel_timer(("greeter", command.to, "never"))

    def expired(self, timer: Timer) -> None:
        if timer[2] == "fail":
            self.failures += 1
            if self.failures == 1:
                raise ZeroDivisionError("integer modulo by zero")
        self.node.send(timer[1], Greeting(text=timer[2] + " again"))

    def _receive(self, sender: str, message: Greeting) -> None:
        if message.text == "break":
            raise IndexError("list index out of range")
        self.count += 1
        self.node.persist("count", b"%d" % self.count)
        self.node.record(sender, "greeting %s", message.text)
        self.node.report(Greeted(by=sender, text=message.text, number=self.count))


@contextlib.asynccontextmanager
async def running(path: Path, authority: Path | None = None) -> AsyncIterator[NodeHost]:
    """A node in a directory, which is made the first time."""
    directory, listener = NodeDirectory(path), None
    if not path.exists():
        listener = bind("127.0.0.1:0")
        address = bound_address(listener)
        directory.create(NodeSettings(address=address, network="test", is_plain=authority is None))
        if authority is not None:
            CertificateAuthority(authority).issue_member(address, path)
    host = NodeHost(
        lambda settings: PeerNode(settings.address, [Greeter()]),
        directory,
        queries={"twice": lambda node, argument: [node.address, 2 * argument]},
    )
    await host.start(listener)
    try:
        yield host
    finally:
        await host.stop()


async def ask(connection: Connection, name: str, argument: object = None) -> Any:
    """The answer to an operator's request."""
    number = connection.request(name, encode_value(argument))
    async with asyncio.timeout(PATIENCE):
        while True:
            frame = await connection.receive()
            assert isinstance(frame, OperatorAnswer)
            if frame.number == number:
                return frame.error or decode_value(frame.value)


@pytest.mark.parametrize("is_plain", [True, False])
def test_effects_are_carried_out(tmp_path: Path, is_plain: bool) -> None:
    """Messages and timers of one node reach the other; a timer that is set again or cancelled does not expire."""
    authority = None if is_plain else tmp_path / "authority"

    async def main() -> None:
        async with running(tmp_path / "a", authority) as a, running(tmp_path / "b", authority) as b:
            outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
            b.listeners.append(outcomes.put_nowait)
            a.command(Greet(to=b.settings.address, text="hello"))
            async with asyncio.timeout(PATIENCE):
                first, second = await outcomes.get(), await outcomes.get()
            assert [first, second] == [
                Greeted(by=a.settings.address, text="hello", number=1),
                Greeted(by=a.settings.address, text="hello again", number=2),
            ]
            assert outcomes.empty()

    asyncio.run(main())


def test_identity_and_disk_survive_a_restart(tmp_path: Path) -> None:
    """A node that starts again has its address, its certificate and what it persisted; peers connect again."""

    async def main() -> None:
        authority = tmp_path / "authority"
        async with running(tmp_path / "a", authority) as a:
            async with running(tmp_path / "b", authority) as b:
                address = b.settings.address
                a.command(Greet(to=address, text="one"))
                assert await b.wait_for(Greeted, seconds=PATIENCE) is not None
                connection = a.transport.peers[address].connection
            async with running(tmp_path / "b", authority) as b:
                async with asyncio.timeout(PATIENCE):
                    while a.transport.peers[address].connection is connection:  # until a has noticed the end
                        await asyncio.sleep(0)
                a.command(Greet(to=address, text="two"))
                greeted = await b.wait_for(Greeted, seconds=PATIENCE)
                assert b.settings.address == address
                assert greeted is not None and greeted.number > 1

    asyncio.run(main())


def test_one_process_uses_an_identity(tmp_path: Path) -> None:
    """A second start of the same node is refused while the first one runs."""

    async def main() -> None:
        async with running(tmp_path / "a"):
            with pytest.raises(OverlayError, match="another process runs the node"):
                async with running(tmp_path / "a"):
                    pass
        async with running(tmp_path / "a"):
            pass

    asyncio.run(main())


def test_a_message_that_makes_the_node_fail_cuts_off_its_sender(tmp_path: Path) -> None:
    """The node goes on; the sender is named with the message."""

    async def main() -> None:
        authority = tmp_path / "authority"
        async with running(tmp_path / "a", authority) as a, running(tmp_path / "b", authority) as b:
            a.command(Greet(to=b.settings.address, text="one"))
            assert await b.wait_for(Greeted, seconds=PATIENCE) is not None
            connection = b.transport.peers[a.settings.address].connection
            a.command(Greet(to=b.settings.address, text="break"))
            async with asyncio.timeout(PATIENCE):
                while b.transport.peers[a.settings.address].connection is connection:
                    await asyncio.sleep(0)
            reason = "its Greeting makes the node fail: IndexError('list index out of range')"
            assert b.status()["cut_off"] == {a.settings.address: reason}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("liar", "reason"),
    [
        (lambda own: Contact(identifier_of("elsewhere"), own), "is not the hash of this address"),
        (lambda own: Contact(identifier_of("127.0.0.1:1"), "127.0.0.1:1"), "names '127.0.0.1:1' as the sender"),
    ],
)
def test_a_peer_that_lies_about_itself_is_cut_off(tmp_path: Path, liar: Callable[[str], Contact], reason: str) -> None:
    """Neither another place on the ring than the hash of its certified address, nor another node's contact."""

    async def main() -> None:
        authority = tmp_path / "authority"
        async with running(tmp_path / "a", authority) as a, running(tmp_path / "b", authority) as b:
            own = a.settings.address
            a.transport.send(b.settings.address, Departure(request=1, contact=liar(own)))
            async with asyncio.timeout(PATIENCE):
                while own not in b.status()["cut_off"]:
                    await asyncio.sleep(0)
            assert reason in b.status()["cut_off"][own]

    asyncio.run(main())


def test_a_timer_that_fails_expires_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upkeep of a node goes on after an error in it, which is logged and counted."""
    monkeypatch.setattr("motet.overlay.net.host.RETRY_TIMER", 1000)

    async def main() -> None:
        async with running(tmp_path / "a") as a, running(tmp_path / "b") as b:
            a.command(Greet(to=b.settings.address, text="fail"))
            assert await b.wait_for(Greeted, seconds=PATIENCE) == Greeted(by=a.settings.address, text="fail", number=1)
            assert await b.wait_for(Greeted, seconds=PATIENCE) == Greeted(
                by=a.settings.address, text="fail again", number=2
            )
            assert a.status()["node"]["failed timers"] == 1

    asyncio.run(main())


def test_an_operator_reads_and_commands_a_node(tmp_path: Path) -> None:
    """Status, stories, queries and commands over the node's own port; outcomes are pushed to those who listen."""

    async def main() -> None:
        authority = tmp_path / "authority"
        async with running(tmp_path / "a", authority) as a:
            address = a.settings.address
            async with operator_connection(address, network="test", credentials=operator(authority)) as connection:
                status = await ask(connection, "status")
                assert (status["address"], status["connected"], status["cut_off"]) == (address, [], {})
                assert await ask(connection, "twice", 21) == [address, 42]
                assert await ask(connection, "story", "127.0.0.1:1") == []
                assert await ask(connection, "listen") is None
                command = encode_record(Greet(to="127.0.0.1:1", text="x"))
                assert await ask(connection, "command", command) is None
                for listener in a.listeners:
                    listener(Greeted(by="b", text="y", number=2**100))
                async with asyncio.timeout(PATIENCE):
                    frame = await connection.receive()
                assert isinstance(frame, OperatorAnswer)
                assert decode_record(decode_value(frame.value), Outcome) == Greeted(by="b", text="y", number=2**100)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "argument", "error"),
    [
        ("nothing", None, "this node takes no request 'nothing'"),
        ("command", None, "a command is a list that begins with a name"),
        ("command", ["Nothing"], "'Nothing' is no command"),
        ("command", ["Greeted", "a", "b", 1], "'Greeted' is no command"),
        ("command", ["Greet", "a"], "Greet has 2 fields, not 1"),
        ("command", ["Greet", "a", 1], "Greet has a field that is not of its type"),
    ],
)
def test_a_wrong_request_is_answered_with_the_reason(tmp_path: Path, name: str, argument: object, error: str) -> None:
    """The connection goes on."""

    async def main() -> None:
        async with (
            running(tmp_path / "a") as a,
            operator_connection(a.settings.address, network="test", credentials=None) as connection,
        ):
            assert await ask(connection, name, argument) == error
            assert (await ask(connection, "status"))["address"] == a.settings.address

    asyncio.run(main())


def test_a_member_is_no_operator(tmp_path: Path) -> None:
    """The certificate of a member does not open a node to commands."""

    async def main() -> None:
        authority = tmp_path / "authority"
        async with running(tmp_path / "a", authority) as a, running(tmp_path / "b", authority) as b:
            with pytest.raises(OverlayError, match="it says that it is operator, its certificate vouches for 127"):
                async with operator_connection(
                    a.settings.address,
                    network="test",
                    credentials=b.transport._credentials,
                ):
                    pass

    asyncio.run(main())


def test_persisted_values_are_whole(tmp_path: Path) -> None:
    """Values of any key are read back; a deleted one is gone, an incomplete file is removed, a damaged one is named."""
    directory = NodeDirectory(tmp_path / "a")
    directory.create(NodeSettings(address="127.0.0.1:1", network="test", is_plain=True, contacts=("127.0.0.1:2",)))
    for key, value in (("x/../é" * 100, b"1"), ("b", b""), ("b", b"\x00" * 10_000), ("c", b"3"), ("c", None)):
        directory.persist(key, value)
    (tmp_path / "a" / "disk" / ".partial").write_bytes(b"incomplete")
    assert directory.read_disk() == {"x/../é" * 100: b"1", "b": b"\x00" * 10_000}
    assert len(list((tmp_path / "a" / "disk").iterdir())) == 2
    assert directory.settings().contacts == ("127.0.0.1:2",)
    (tmp_path / "a" / "disk" / "00").write_bytes(msgspec.msgpack.encode(["key"]))
    with pytest.raises(OverlayError, match="is no persisted value"):
        directory.read_disk()


@pytest.mark.parametrize("content", [None, "{", "[]", '{"address": "a"}'])
def test_a_directory_without_settings_is_no_nodes(tmp_path: Path, content: str | None) -> None:
    """The error names the file."""
    if content is not None:
        (tmp_path / "node.json").write_text(content)
    with pytest.raises((UsageError, OverlayError), match=r"node\.json"):
        NodeDirectory(tmp_path).settings()


def test_records_are_checked() -> None:
    """A command comes from elsewhere, as a message does."""
    with pytest.raises(DecodeError):
        decode_record(["Greet", ["a"], "b"], Command)


def test_links_of_an_experiment_lose_and_repeat_messages(tmp_path: Path) -> None:
    """An operator gives a node the simulator's model of a network; it is taken away again."""

    async def main() -> None:
        async with running(tmp_path / "a") as a, running(tmp_path / "b") as b:
            outcomes: asyncio.Queue[Outcome] = asyncio.Queue()
            b.listeners.append(outcomes.put_nowait)
            to = b.settings.address
            async with operator_connection(a.settings.address, network="test", credentials=None) as connection:
                links = Network(latency=UniformLatency(0, 1), duplication=1.0)
                assert parse_links(encode_links(links)) == Network(duplication=1.0)
                assert await ask(connection, "links", encode_links(links)) is None
                a.command(Greet(to=to, text="twice"))
                async with asyncio.timeout(PATIENCE):
                    texts = [(await outcomes.get()).text for _ in range(4)]  # type: ignore[attr-defined]
                assert sorted(texts) == ["twice", "twice", "twice again", "twice again"]
                links = Network()
                links.break_link(a.settings.address, to)
                await ask(connection, "links", encode_links(links))
                a.command(Greet(to=to, text="lost"))
                await ask(connection, "links", None)
                a.command(Greet(to=to, text="received"))
                async with asyncio.timeout(PATIENCE):
                    assert (await outcomes.get()).text == "received"  # type: ignore[attr-defined]
                assert (
                    await ask(connection, "links", {"loss": 0.1}) == "the request `links` is wrong: KeyError('latency')"
                )

    asyncio.run(main())


def test_the_clock_of_an_experiment_is_faster(tmp_path: Path) -> None:
    """Timers of a node whose clock runs faster expire earlier in real time; the clock goes on from the time of day."""

    async def main() -> None:
        settings = NodeSettings(address="127.0.0.1:1", network="test", is_plain=True, speed=1000.0)
        directory = NodeDirectory(tmp_path / "a")
        directory.create(settings)
        assert directory.settings() == settings
        host = NodeHost(lambda given: PeerNode(given.address, [Greeter()]), directory)
        started, real = host.now, asyncio.get_running_loop().time()
        while host.now - started < 1_000_000:
            await asyncio.sleep(0)
        assert asyncio.get_running_loop().time() - real < 0.9

    asyncio.run(main())
