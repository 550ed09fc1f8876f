"""The transport: messages between parties on loopback, and what happens to those that break the rules."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.overlay.net.parties import PATIENCE, Note, Party, member, party

from motet.model.errors import OverlayError, UsageError
from motet.overlay.net import connection as connections
from motet.overlay.net import transport as transports
from motet.overlay.net.certificates import CertificateAuthority
from motet.overlay.net.connection import Connection, RateLimit, introduce, open_connection
from motet.overlay.net.frames import (
    FrameDecoder,
    Hello,
    MessageFrame,
    NetworkLimits,
    Refused,
    encode_frame,
    encode_message,
)
from motet.overlay.net.transport import Transport

LIMITS = NetworkLimits()


@contextlib.asynccontextmanager
async def raw(to: Party, address: str = "127.0.0.1:1", **hello: object) -> AsyncIterator[Connection]:
    """A plain connection that has said hello."""
    connection = await open_connection(to.address, None, LIMITS)
    await introduce(connection, to.address, role="peer", network="test", address=address, run=1)
    try:
        yield connection
    finally:
        connection.abort()


async def end_of(connection: Connection) -> str:
    """Why the other side ends a connection."""
    async with asyncio.timeout(PATIENCE):
        while (frame := await connection.receive()) is not None:
            if isinstance(frame, Refused):
                return frame.reason
    return "it ended without a reason"


@pytest.mark.parametrize("is_plain", [True, False])
def test_messages_travel_both_ways_over_one_connection(tmp_path: Path, is_plain: bool) -> None:
    """A connection that one peer has opened carries the messages of both, in order."""
    authority = None if is_plain else tmp_path

    async def main() -> None:
        async with party(authority=authority) as a, party(authority=authority) as b:
            a.send(b, *range(500))
            assert await b.receive(500) == [(a.address, number) for number in range(500)]
            b.send(a, *range(500))
            assert await a.receive(500) == [(b.address, number) for number in range(500)]
            assert [p.transport.statistics()["connections"] for p in (a, b)] == [1, 1]

    asyncio.run(main())


@pytest.mark.parametrize("is_plain", [True, False])
def test_two_that_connect_at_once_keep_the_same_connection(tmp_path: Path, is_plain: bool) -> None:
    """Of two connections both sides keep the one that the lower address has opened."""
    authority = None if is_plain else tmp_path

    async def main() -> None:
        async with party(authority=authority) as a, party(authority=authority) as b:
            await asyncio.gather(a.transport.check_peer(b.address), b.transport.check_peer(a.address))
            for number in range(3):  # both ways: afterwards each side has seen both connections
                a.send(b, number)
                b.send(a, number)
                assert (await a.receive(), await b.receive()) == ([(b.address, number)], [(a.address, number)])
            kept = [p.transport.peers[q.address].connection for p, q in ((a, b), (b, a))]
            assert [c is not None and c.is_outgoing for c in kept] == [a.address < b.address, b.address < a.address]

    asyncio.run(main())


def test_a_large_message_passes_and_a_larger_one_is_dropped() -> None:
    """The limit holds for the sender, too: the peer would cut it off."""

    async def main() -> None:
        async with party() as a, party() as b:
            a.send(b, 1, text="x" * (LIMITS.max_frame_bytes - 100))
            a.send(b, 2, text="x" * LIMITS.max_frame_bytes)
            a.send(b, 3)
            assert await b.receive(2) == [(a.address, 1), (a.address, 3)]
            assert a.transport.counts["messages too large"] == 1

    asyncio.run(main())


def test_a_peer_that_reads_nothing_fills_a_bounded_queue() -> None:
    """Messages beyond the queue are dropped and counted; the sender stays small."""

    async def main() -> None:
        limits = NetworkLimits(max_queued_frames=10, max_queued_bytes=2**20)
        listener = connections.bind("127.0.0.1:0")
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.listen()
        async with party(limits=limits) as a:
            a.send(connections.bound_address(listener), *range(100), text="x" * 1000)
            assert a.transport.statistics()["messages queued"] == 10
            assert a.transport.counts["messages dropped: queue full"] == 90
        listener.close()

    asyncio.run(main())


def test_a_peer_that_stops_reading_is_cut_off() -> None:
    """A queue that does not move for too long is given up."""

    async def main() -> None:
        async with party(limits=NetworkLimits(frame_seconds=0.2)) as a:
            async with raw(a, "127.0.0.1:1"):
                a.send("127.0.0.1:1", *range(100), text="x" * 10**6)
                peer = a.transport.peers["127.0.0.1:1"]
                assert peer.sender is not None
                async with asyncio.timeout(PATIENCE):
                    await peer.sender
            assert a.transport.counts["connections cut off"] == 1
            assert a.transport.statistics()["messages queued"] == 0

    asyncio.run(main())


def test_a_peer_that_returns_is_connected_again() -> None:
    """After a failure messages are dropped until the next attempt; a peer that connects itself ends the pause."""

    async def main() -> None:
        async with party() as a:
            async with party() as b:
                a.send(b, 1)
                assert await b.receive() == [(a.address, 1)]
            with pytest.raises(OverlayError, match=f"{b.address} cannot be reached: nobody listens there"):
                await a.transport.check_peer(b.address)
            a.send(b, 2)
            assert a.transport.counts["messages to unreachable peers"] == 1
            assert a.transport.peers[b.address].failure is not None
            async with party(b.address) as again:
                again.send(a, 3)
                assert await a.receive() == [(b.address, 3)]
                a.send(again, 4)
                assert await again.receive() == [(a.address, 4)]
                assert a.transport.peers[b.address].failure is None

    asyncio.run(main())


def test_attempts_are_delayed_more_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each failed attempt doubles the pause, up to a limit."""
    monkeypatch.setattr("motet.overlay.net.transport.secrets.randbelow", lambda limit: limit // 2)

    async def main() -> None:
        transport = Transport("127.0.0.1:1", lambda sender, message: None, network="test")
        pauses = []
        for _ in range(8):
            with pytest.raises(OverlayError):
                await transport.check_peer("127.0.0.1:2")
            pauses.append(transport.peers["127.0.0.1:2"].backoff)
        assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (Hello(9, "peer", "test", "127.0.0.1:1", 1, 1), "version 9 of the protocol meets version 1"),
        (Hello(1, "peer", "away", "127.0.0.1:1", 1, 1), "the network 'away' is not 'test'"),
        (Hello(1, "peer", "test", "10.0.0.1:1", 1, 1), "10.0.0.1:1 is not on this machine"),
        (Hello(1, "peer", "test", "nowhere", 1, 1), "'nowhere' is not an address"),
        (Hello(1, "guest", "test", "127.0.0.1:1", 1, 1), "it says hello in an unknown role"),
        (Hello(1, "operator", "test", "operator", 1, 1), "this node takes no requests of operators"),
        (MessageFrame(1, msgspec.Raw(b"\x90")), "its first frame is no hello"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_hello_is_refused_with_the_reason(hello: Hello | MessageFrame, reason: str) -> None:
    """Both sides learn why: the one that is refused gets the reason as its last frame."""

    async def main() -> None:
        async with party() as a:
            connection = await open_connection(a.address, None, LIMITS)
            connection.write(hello)
            assert (await end_of(connection)).startswith(reason)
            connection.abort()
            async with raw(a) as another:  # the node goes on
                assert another.name == a.address

    asyncio.run(main())


def test_a_hello_of_a_later_version_may_be_longer() -> None:
    """Later versions add fields at the end: the version is read, and named in the error."""
    body = msgspec.msgpack.encode([0, 7, "peer", "test", "127.0.0.1:1", 1, 1, "new", {"new": 1}])
    (hello,) = FrameDecoder().receive_data(len(body).to_bytes(4, "big") + body)
    assert hello == Hello(7, "peer", "test", "127.0.0.1:1", 1, 1)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff\xff\xff\xff", "a frame of 4,294,967,295 bytes; 2,097,152 are allowed"),
        (b"\x00\x00\x00\x01\xc1", "a frame that is none: MessagePack data is malformed"),
        (encode_frame(Hello(1, "peer", "test", "127.0.0.1:1", 1, 1)), "a frame that a peer may not send: Hello"),
        (encode_frame(MessageFrame(0, msgspec.Raw(b"\x90"))), "a frame out of sequence: it is repeated or left out"),
    ],
    ids=["oversized", "malformed", "unexpected", "replayed"],
)
def test_a_wrong_frame_ends_the_connection(data: bytes, reason: str) -> None:
    """The peer is told what is wrong with its frame; the messages before it are received."""

    async def main() -> None:
        async with party() as a, raw(a, "127.0.0.1:1") as connection:
            connection.write_message(encode_message(Note(number=1, text="")))
            connection.writer.write(data)
            assert (await end_of(connection)).startswith(reason)
            assert await a.receive() == [("127.0.0.1:1", 1)]

    asyncio.run(main())


def test_a_recorded_connection_cannot_be_repeated() -> None:
    """Each connection counts from another random number."""

    async def main() -> None:
        async with party() as a:
            async with raw(a) as connection:
                recorded = encode_frame(connection.hello(role="peer", network="test", address="127.0.0.1:1", run=1))
                number = connection._number_out
                recorded += encode_frame(MessageFrame(number, msgspec.Raw(encode_message(Note(number=1, text="")))))
                connection.write_message(encode_message(Note(number=1, text="")))
                assert await a.receive() == [("127.0.0.1:1", 1)]
            again = await open_connection(a.address, None, LIMITS)
            again.writer.write(recorded)
            assert await end_of(again) == "a frame out of sequence: it is repeated or left out"
            assert a.inbox.empty()
            again.abort()

    asyncio.run(main())


def test_a_member_that_breaks_the_protocol_is_named_and_refused_for_some_time(tmp_path: Path) -> None:
    """Its certificate names it, so it is refused on its next connections, too."""

    async def main() -> None:
        credentials = member(tmp_path, "127.0.0.1:1")
        async with party(authority=tmp_path) as a:
            connection = await open_connection(a.address, credentials, LIMITS)
            await introduce(connection, a.address, role="peer", network="test", address="127.0.0.1:1", run=1)
            connection.writer.write(b"\x00\x00\x00\x01\xc1")
            reason = await end_of(connection)
            assert {name: why for name, (_, why) in a.transport.cut_off.items()} == {"127.0.0.1:1": reason}
            again = await open_connection(a.address, credentials, LIMITS)
            again.write(again.hello(role="peer", network="test", address="127.0.0.1:1", run=1))
            assert await end_of(again) == f"127.0.0.1:1 is cut off: {reason}"

    asyncio.run(main())


def test_a_member_speaks_only_for_itself(tmp_path: Path) -> None:
    """The address in the hello is the one that the certificate vouches for."""

    async def main() -> None:
        credentials = member(tmp_path, "127.0.0.1:1")
        async with party(authority=tmp_path) as a:
            connection = await open_connection(a.address, credentials, LIMITS)
            connection.write(connection.hello(role="peer", network="test", address="127.0.0.1:2", run=1))
            reason = "it says that it is 127.0.0.1:2, its certificate vouches for 127.0.0.1:1"
            assert await end_of(connection) == reason

    asyncio.run(main())


def test_a_connection_to_another_member_than_expected_is_ended(tmp_path: Path) -> None:
    """A node that has taken over a port does not get the messages of its predecessor."""

    async def main() -> None:
        async with party(authority=tmp_path) as a:
            host, port = a.address.split(":")
            impostor = f"localhost:{port}"
            with pytest.raises(OverlayError, match=f"its certificate vouches for {host}:{port}"):
                await open_connection(impostor, member(tmp_path, "127.0.0.1:1"), LIMITS)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("another authority", "another authority signed its certificate"),
        (
            "plain to tls",
            "it ended the connection before it said hello; perhaps it expects TLS, or something else listens there",
        ),
        ("tls to plain", "it does not speak TLS"),
        ("another network", "it refuses the connection: the network 'away' is not 'test'"),
        ("nobody", "nobody listens there"),
        ("silent", "it does not answer in time"),
    ],
)
def test_a_peer_that_cannot_be_reached_says_why(tmp_path: Path, kind: str, reason: str) -> None:
    """A wrong contact, certificate, network or transport is named in one sentence."""

    async def main() -> None:
        ours = None if kind in ("tls to plain", "another network", "nobody", "silent") else tmp_path / "a"
        theirs = {"another authority": tmp_path / "b", "tls to plain": tmp_path / "b"}.get(kind)
        network = "away" if kind == "another network" else "test"
        limits = NetworkLimits(handshake_seconds=0.2 if kind == "silent" else 10)
        async with party(authority=ours) as a, party(authority=theirs, network=network, limits=limits) as b:
            address = a.address
            silent = connections.bind("127.0.0.1:0")
            if kind in ("nobody", "silent"):
                address = connections.bound_address(silent)
            if kind == "silent":
                silent.listen()
            if kind == "nobody":
                silent.close()
            with pytest.raises(OverlayError) as raised:
                await b.transport.check_peer(address)
            silent.close()
            assert raised.value.message == f"{address} cannot be reached: {reason}"
            assert raised.value.advice

    asyncio.run(main())


def test_plain_connections_stay_on_this_machine() -> None:
    """A plain node listens on loopback only, and connects to nothing else."""
    with pytest.raises(UsageError, match=r"10\.0\.0\.1:1 is not on this machine"):
        Transport("10.0.0.1:1", lambda sender, message: None, network="test")

    async def main() -> None:
        async with party() as a:
            a.send("10.0.0.1:1", 1)
            assert (a.transport.counts["messages dropped"], a.transport.peers) == (1, {})

    asyncio.run(main())


def test_a_node_refuses_the_certificate_of_another(tmp_path: Path) -> None:
    """The mistake is found at the start, not by the peers."""

    async def main() -> None:
        credentials = member(tmp_path, "127.0.0.1:2")
        with pytest.raises(OverlayError, match=r"vouches for 127.0.0.1:2, the node's address is 127.0.0.1:1") as raised:
            Transport("127.0.0.1:1", lambda sender, message: None, network="test", credentials=credentials)
        assert raised.value.advice == "Make a certificate for it: motet overlay keys --member 127.0.0.1:1"

    asyncio.run(main())


def test_connections_that_say_nothing_are_limited_in_number_and_time() -> None:
    """Silent connections are ended after some time; more than allowed at once are refused."""

    async def main() -> None:
        async with party(limits=NetworkLimits(handshake_seconds=0.2, max_handshakes=3)) as a:
            connected = [await asyncio.open_connection(*a.address.split(":")) for _ in range(6)]
            async with asyncio.timeout(PATIENCE):
                ends = [await reader.read() for reader, _ in connected]
            assert (ends, a.transport.counts["connections refused: too many"]) == ([b""] * 6, 3)
            for _, writer in connected:
                writer.close()

    asyncio.run(main())


def test_a_rate_above_the_limit_is_slowed_down() -> None:
    """A burst of one second passes; what is more waits."""
    limit = RateLimit(10, now=0.0)
    assert [limit.spend(10, now=0.0), limit.spend(5, now=0.0), limit.spend(5, now=1.0)] == [0.0, 0.5, 0.0]


def test_a_flood_is_slowed_down_by_reading_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames beyond the rate stay in the socket: the sender has to wait."""
    pauses: list[float] = []
    pause = asyncio.sleep

    async def record(seconds: float) -> None:
        pauses.append(seconds)
        await pause(0)

    monkeypatch.setattr("asyncio.sleep", record)

    async def main() -> None:
        async with party(limits=NetworkLimits(frames_per_second=100)) as a, raw(a, "127.0.0.1:1") as connection:
            for number in range(400):
                connection.write_message(encode_message(Note(number=number, text="x" * 2000)))
            await a.receive(400)
            assert sum(pauses) > 1

    asyncio.run(main())


def test_a_peer_that_starts_again_replaces_its_connection() -> None:
    """The connection of an earlier run is given up, whichever side has opened it."""

    async def main() -> None:
        async with party() as a, raw(a, "127.0.0.1:1") as first:
            first.write_message(encode_message(Note(number=1, text="")))
            await a.receive()
            second = await open_connection(a.address, None, LIMITS)
            await introduce(second, a.address, role="peer", network="test", address="127.0.0.1:1", run=2)
            second.write_message(encode_message(Note(number=2, text="")))
            await a.receive()
            a.send("127.0.0.1:1", 3)
            async with asyncio.timeout(PATIENCE):
                frame = await second.receive()
            assert isinstance(frame, MessageFrame)
            second.abort()

    asyncio.run(main())


def test_the_authority_is_made_once(tmp_path: Path) -> None:
    """Members of one directory have the same authority."""
    first, second = CertificateAuthority(tmp_path), CertificateAuthority(tmp_path)
    paths = [authority.issue_member(f"127.0.0.1:{n}") for n, authority in enumerate((first, second), 1)]
    assert len({(path / "authority.pem").read_bytes() for path in paths}) == 1


def test_warnings_beyond_the_limit_are_counted_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty a second name who was cut off; how many more there were is logged and counted."""
    texts: list[str] = []
    monkeypatch.setattr(transports.log, "warning", lambda text, *values: texts.append(text % values))

    async def main() -> None:
        async with party() as a:
            for number in range(50):
                a.transport._refuse(f"127.0.0.1:{number}", "it speaks HTTP, not TLS")
            assert a.transport.statistics()["connections cut off, not logged"] == 30

    asyncio.run(main())
    *named, summary = [text.partition(" ")[2] for text in texts]
    assert named == [f"cuts off 127.0.0.1:{number}: it speaks HTTP, not TLS" for number in range(20)]
    assert summary == "has cut off 30 more, which are not listed"
