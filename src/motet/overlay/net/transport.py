"""The messages of one node over TCP: one connection for each pair of peers, opened when a message needs it.

A message is sent at most once, in order while its connection lasts; it is dropped when its peer cannot be reached or
its queue is full, because the protocols repeat what matters. A peer that breaks the protocol is named, cut off, and
refused for some time. An operator (`motet overlay status`) connects to the same port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field

from motet.model.errors import DecodeError, LimitError, MotetError, OverlayError, UsageError
from motet.overlay.net.certificates import OPERATOR, Credentials, vouched_name
from motet.overlay.net.connection import (
    CHUNK_BYTES,
    CLOSE_SECONDS,
    PEER,
    Connection,
    RateLimit,
    advice_for,
    check_hello,
    explain,
    introduce,
    keep_alive,
    open_connection,
    require_loopback_or_tls,
    sentence,
)
from motet.overlay.net.frames import (
    MAX_NUMBER,
    Hello,
    MessageFrame,
    NetworkLimits,
    OperatorRequest,
    Refused,
    decode_message,
    encode_message,
)
from motet.overlay.protocol.node import PeerMessage

log = logging.getLogger("motet.overlay")

FIRST_BACKOFF_SECONDS = 0.1
MAX_BACKOFF_SECONDS = 5.0
RETIRED_SECONDS = 2.0  # how long a replaced connection is still read
MAX_NAMED = 256
WARNINGS_PER_SECOND = 20
SUMMARY_SECONDS = 1.0  # after which those without a warning of their own are counted in one

Operate = Callable[[Connection, OperatorRequest], Awaitable[None]]


@dataclass(slots=True)
class Peer:
    """What a transport knows of one other node: its connection, the messages for it, and failed attempts."""

    address: str
    connection: Connection | None = None
    queue: deque[bytes] = field(default_factory=deque)
    queued_bytes: int = 0
    sender: asyncio.Task[None] | None = None
    backoff: float = 0.0
    next_attempt: float = 0.0
    failure: str | None = None


class Transport:
    """Sends and receives the messages of one node.

    `receive(sender, message)` is called for each message, `operate(connection, request)` for each of an operator's
    requests.
    """

    def __init__(
        self,
        address: str,
        receive: Callable[[str, PeerMessage], None],
        *,
        network: str,
        credentials: Credentials | None = None,
        operate: Operate | None = None,
        limits: NetworkLimits | None = None,
    ) -> None:
        require_loopback_or_tls(address, credentials)
        require_own_certificate(address, credentials)
        self.address = address
        self.network = network
        self.limits = limits or NetworkLimits()
        self.counts: Counter[str] = Counter()
        self.cut_off: dict[str, tuple[float, str]] = {}  # by name: until when, and why
        self.peers: dict[str, Peer] = {}
        self._credentials = credentials
        self._receive = receive
        self._operate = operate
        self._run = secrets.randbelow(MAX_NUMBER)
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[Connection] = set()
        self._handshakes = 0
        self._unlogged = 0
        self._warnings = RateLimit(WARNINGS_PER_SECOND, now=asyncio.get_running_loop().time())
        self._is_closing = False

    # The life of a transport

    async def start(self, listener: socket.socket) -> None:
        """Accept connections on a bound socket."""
        listener.setblocking(False)
        listener.listen(128)
        self._listener = listener
        self._start_task(self._accept_all(listener))

    async def close(self) -> None:
        """Stop accepting, send what is queued within a second, and close all connections."""
        self._is_closing = True
        self._log_summary()
        senders = [peer.sender for peer in self.peers.values() if peer.sender is not None]
        if senders:
            await asyncio.wait(senders, timeout=1.0)
        for connection in list(self._connections):
            connection.close("the node stops")
        writers = [connection.writer.wait_closed() for connection in self._connections]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await asyncio.gather(*writers, return_exceptions=True)
        for connection in list(self._connections):
            connection.abort()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    # Sending

    def send(self, to: str, message: PeerMessage) -> None:
        """Send a message to a node; it may be dropped."""
        body = encode_message(message)
        if len(body) + 32 > self.limits.max_frame_bytes:
            self._drop("messages too large")
            return
        peer = self.peers.get(to) or self._new_peer(to)
        if peer is None or self._is_closing:
            self._drop("messages dropped")
        elif peer.connection is not None and not peer.queue and peer.connection.is_writable:
            peer.connection.write_message(body)
            self.counts["messages sent"] += 1
        elif peer.connection is None and asyncio.get_running_loop().time() < peer.next_attempt:
            self._drop("messages to unreachable peers")
        elif (
            len(peer.queue) >= self.limits.max_queued_frames
            or peer.queued_bytes + len(body) > self.limits.max_queued_bytes
        ):
            self._drop("messages dropped: queue full")
        else:
            peer.queue.append(body)
            peer.queued_bytes += len(body)
            if peer.sender is None:
                peer.sender = self._start_task(self._send_queue(peer))

    def statistics(self) -> dict[str, int]:
        """Counts of messages and connections."""
        return {
            "connections": len(self._connections),
            "peers connected": sum(peer.connection is not None for peer in self.peers.values()),
            "messages queued": sum(len(peer.queue) for peer in self.peers.values()),
        } | dict(sorted(self.counts.items()))

    async def check_peer(self, address: str) -> None:
        """Connect to a node unless there is a connection; OverlayError says why it cannot be reached."""
        peer = self.peers.get(address) or self._new_peer(address)
        if peer is not None and peer.connection is None:
            await self._connect(peer)

    # Inside: outgoing

    def _drop(self, reason: str) -> None:
        self.counts[reason] += 1

    def _new_peer(self, address: str) -> Peer | None:
        if len(self.peers) >= 4 * self.limits.max_connections:
            self._forget_idle_peers()
        if len(self.peers) >= 4 * self.limits.max_connections or address == self.address:
            return None
        try:
            require_loopback_or_tls(address, self._credentials)
        except UsageError:  # an address that another node has sent
            return None
        return self.peers.setdefault(address, Peer(address))

    def _forget_idle_peers(self) -> None:
        now = asyncio.get_running_loop().time()
        for address, peer in list(self.peers.items()):
            if peer.connection is None and peer.sender is None and peer.next_attempt <= now:
                del self.peers[address]

    async def _send_queue(self, peer: Peer) -> None:
        try:
            while peer.queue:
                connection = peer.connection
                if connection is None:
                    await self._connect(peer)
                    continue
                body = peer.queue.popleft()
                peer.queued_bytes -= len(body)
                connection.write_message(body)
                self.counts["messages sent"] += 1
                if not connection.is_writable:
                    await connection.drain()
        except OverlayError:
            self._drop_queue(peer)  # the reason is in `peer.failure`
        except LimitError as error:
            self._drop_queue(peer)
            if peer.connection is not None:
                self._end(peer.connection, f"{error}")
        except OSError:
            self._drop_queue(peer)
        finally:
            peer.sender = None

    def _drop_queue(self, peer: Peer) -> None:
        self.counts["messages to unreachable peers"] += len(peer.queue)
        peer.queue.clear()
        peer.queued_bytes = 0

    async def _connect(self, peer: Peer) -> None:
        """Open a connection to a peer, or raise OverlayError and delay the next attempt."""
        connection = None
        try:
            self._refuse_cut_off(peer.address)
            async with asyncio.timeout(self.limits.handshake_seconds):
                connection = await open_connection(peer.address, self._credentials, self.limits)
                self._connections.add(connection)
                await introduce(
                    connection, peer.address, role=PEER, network=self.network, address=self.address, run=self._run
                )
        except (MotetError, TimeoutError, OSError) as error:
            if connection is not None:
                self._connections.discard(connection)
                connection.abort()
            if peer.connection is not None:  # the peer has connected in the meantime
                return
            delay = min(MAX_BACKOFF_SECONDS, max(FIRST_BACKOFF_SECONDS, 2 * peer.backoff))
            peer.backoff = delay
            peer.next_attempt = asyncio.get_running_loop().time() + delay * (0.5 + secrets.randbelow(1000) / 1000)
            peer.failure = explain(peer.address, error)
            self.counts["failed attempts to connect"] += 1
            raise OverlayError(peer.failure, advice=advice_for(error)) from None
        self._admit(connection)
        self._start_task(self._serve_peer(connection))

    # Inside: incoming

    async def _accept_all(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:  # no file descriptor left, or the other side is gone again
                log.warning("%s cannot accept a connection: %s", self.address, error)
                await asyncio.sleep(0.1)
                continue
            is_full = len(self._connections) >= self.limits.max_connections
            if is_full or self._handshakes >= self.limits.max_handshakes or self._is_closing:
                self.counts["connections refused: too many"] += 1
                accepted.close()
                continue
            self._handshakes += 1
            self._start_task(self._serve(accepted))

    async def _serve(self, accepted: socket.socket) -> None:
        """Serve one accepted connection until it ends."""
        connection = None
        name = _peer_name(accepted)
        try:
            try:
                async with asyncio.timeout(self.limits.handshake_seconds):
                    connection = await self._shake_hands(accepted)
            finally:
                self._handshakes -= 1
            name = connection.name
            if connection.role == OPERATOR:
                await self._serve_operator(connection)
            else:
                self._admit(connection)
                await self._serve_peer(connection)
        except (MotetError, TimeoutError, OSError) as error:
            self._refuse(name, sentence(error))
        finally:
            if connection is not None:
                self._connections.discard(connection)
                connection.close()

    async def _shake_hands(self, accepted: socket.socket) -> Connection:
        loop = asyncio.get_running_loop()
        accepted.setblocking(False)
        reader = asyncio.StreamReader(limit=CHUNK_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        context = self._credentials.server if self._credentials else None
        seconds = CLOSE_SECONDS if context else None
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, accepted, ssl=context, ssl_shutdown_timeout=seconds
        )
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        connection = Connection(reader, writer, self.limits, is_outgoing=False)
        keep_alive(writer)
        self._connections.add(connection)
        try:
            hello = await connection.receive_hello()
            check_hello(hello, self.network)
            self._check_role(connection, hello)
        except BaseException as error:
            self._connections.discard(connection)
            connection.close(sentence(error) if isinstance(error, MotetError) else None)
            raise
        connection.accept_hello(hello)
        connection.write(connection.hello(role=PEER, network=self.network, address=self.address, run=self._run))
        return connection

    def _check_role(self, connection: Connection, hello: Hello) -> None:
        """Raise OverlayError unless the certificate vouches for what a hello says."""
        claimed = OPERATOR if hello.role == OPERATOR else hello.address
        if self._credentials is not None:
            vouched = vouched_name(connection.writer.get_extra_info("peercert"))
            if vouched != claimed:
                raise OverlayError(f"it says that it is {claimed}, its certificate vouches for {vouched}")
            self._refuse_cut_off(claimed)
        if hello.role not in (PEER, OPERATOR):
            raise DecodeError("it says hello in an unknown role")
        if hello.role == PEER:
            require_loopback_or_tls(hello.address, self._credentials)
            if hello.address == self.address:
                raise OverlayError("it has the address of this node")
        elif self._operate is None:
            raise OverlayError("this node takes no requests of operators")

    def _refuse_cut_off(self, name: str) -> None:
        until, reason = self.cut_off.get(name, (0.0, ""))
        if asyncio.get_running_loop().time() < until:
            raise OverlayError(f"{name} is cut off: {reason}")

    def _admit(self, connection: Connection) -> None:
        """Make a connection the one of its peer, or retire it; both sides decide alike."""
        peer = self.peers.setdefault(connection.name, Peer(connection.name))
        peer.failure, peer.backoff, peer.next_attempt = None, 0.0, 0.0
        current = peer.connection
        if current is None or current.is_closed:
            peer.connection = connection
            return
        is_same_run = current.run == connection.run
        if is_same_run and current.is_outgoing != connection.is_outgoing:
            # Both have connected at the same time: the connection of the lower address stays.
            is_kept = connection.is_outgoing == (self.address < connection.name)
        else:
            is_kept = True  # the peer has started again, or has lost the earlier connection
        retired = current if is_kept else connection
        peer.connection = connection if is_kept else current
        self.counts["connections replaced"] += 1
        asyncio.get_running_loop().call_later(RETIRED_SECONDS, retired.close)

    async def _serve_peer(self, connection: Connection) -> None:
        name = connection.name
        try:
            while (frame := await connection.receive()) is not None:
                if isinstance(frame, MessageFrame):
                    message = decode_message(frame.fields)
                    self.counts["messages received"] += 1
                    self._receive(name, message)
                elif isinstance(frame, Refused):
                    log.info("%s ends the connection to %s: %s", name, self.address, frame.reason)
                    break
                else:
                    self._end(connection, f"a frame that a peer may not send: {type(frame).__name__}")
                    break
        except (DecodeError, LimitError) as error:
            self._end(connection, sentence(error))
        except OSError as error:
            log.info("the connection of %s to %s is lost: %s", self.address, name, error)
        finally:
            self._connections.discard(connection)
            connection.close()
            peer = self.peers.get(name)
            if peer is not None and peer.connection is connection:
                peer.connection = None

    async def _serve_operator(self, connection: Connection) -> None:
        assert self._operate is not None
        while (frame := await connection.receive()) is not None:
            if not isinstance(frame, OperatorRequest):
                raise DecodeError(f"a frame that an operator may not send: {type(frame).__name__}")
            await self._operate(connection, frame)
            await connection.drain()

    def _end(self, connection: Connection, reason: str) -> None:
        """Cut off a peer that broke the protocol."""
        connection.close(reason)
        self._refuse(connection.name, reason)
        if self._credentials is not None:  # a name that nobody vouches for would cut off the one it belongs to
            until = asyncio.get_running_loop().time() + self.limits.cut_off_seconds
            self.cut_off.pop(connection.name, None)
            self.cut_off[connection.name] = (until, reason)
            if len(self.cut_off) > MAX_NAMED:
                del self.cut_off[next(iter(self.cut_off))]

    def _refuse(self, name: str, reason: str) -> None:
        self.counts["connections cut off"] += 1
        loop = asyncio.get_running_loop()
        if not self._warnings.is_exceeded(now=loop.time()):
            log.warning("%s cuts off %s: %s", self.address, name, reason)
            return
        if not self._unlogged:
            loop.call_later(SUMMARY_SECONDS, self._log_summary)
        self._unlogged += 1
        self.counts["connections cut off, not logged"] += 1

    def _log_summary(self) -> None:
        """Log how many parties were cut off beyond the limit on warnings."""
        if self._unlogged:
            log.warning("%s has cut off %d more, which are not listed", self.address, self._unlogged)
            self._unlogged = 0

    def _start_task(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def require_own_certificate(address: str, credentials: Credentials | None) -> None:
    """Raise OverlayError for a node with the certificate of another: its peers would refuse it."""
    if credentials is not None and credentials.name != address:
        raise OverlayError(
            f"the certificate vouches for {credentials.name}, the node's address is {address}",
            advice=f"Make a certificate for it: motet overlay keys --member {address}",
        )


def _peer_name(accepted: socket.socket) -> str:
    try:
        host, port = accepted.getpeername()[:2]
    except OSError:
        return "a connection that is gone"
    return f"{host}:{port}"
