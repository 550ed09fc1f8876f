"""One TCP connection of the overlay: frames within limits, the exchange of hellos, and what can go wrong, explained.

Over TLS a party is who its certificate vouches for. Plain TCP, where a party only claims its address, is refused
outside loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from motet.model.errors import DecodeError, LimitError, MotetError, OverlayError, UsageError
from motet.overlay.net.certificates import OPERATOR, Credentials, explain_tls_error, split_address, vouched_name
from motet.overlay.net.frames import (
    MAX_NUMBER,
    PROTOCOL_VERSION,
    Frame,
    FrameDecoder,
    Hello,
    MessageFrame,
    NetworkLimits,
    OperatorRequest,
    Refused,
    encode_frame,
)

PEER = "peer"
CHUNK_BYTES = 64 * 1024
HIGH_WATER_BYTES = 256 * 1024
CLOSE_SECONDS = 2.0  # for what is written before a connection is closed
DEAD_PEER_MILLISECONDS = 20_000  # without an acknowledgement of TCP

_OS_ERRORS: dict[type[BaseException], str] = {
    TimeoutError: "it does not answer in time",
    ConnectionRefusedError: "nobody listens there",
    ConnectionResetError: "it ended the connection",
    BrokenPipeError: "it ended the connection",
    socket.gaierror: "its host name is unknown",
}


class RateLimit:
    """Tokens that refill with time, up to one second's worth; `spend` returns how long to pause.

    >>> limit = RateLimit(100, now=0.0)
    >>> limit.spend(100, now=0.0), limit.spend(50, now=0.0), limit.spend(0, now=1.0)
    (0.0, 0.5, 0.0)
    """

    def __init__(self, per_second: float, *, now: float) -> None:
        self._per_second = per_second
        self._tokens = per_second
        self._at = now

    def spend(self, count: float, *, now: float) -> float:
        self._refill(now)
        self._tokens -= count
        return max(0.0, -self._tokens / self._per_second)

    def is_exceeded(self, *, now: float) -> bool:
        """Whether there is no token; otherwise one is taken."""
        self._refill(now)
        if self._tokens < 1:
            return True
        self._tokens -= 1
        return False

    def _refill(self, now: float) -> None:
        self._tokens = min(self._per_second, self._tokens + (now - self._at) * self._per_second)
        self._at = now


class Connection:
    """One TCP connection: it reads frames within the limits and writes frames."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: NetworkLimits, *, is_outgoing: bool
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.limits = limits
        self.is_outgoing = is_outgoing
        self.name = _socket_name(writer)
        self.role = PEER
        self.run = 0
        self.is_closed = False
        self._is_introduced = False
        now = asyncio.get_running_loop().time()
        self._byte_rate = RateLimit(limits.bytes_per_second, now=now)
        self._frame_rate = RateLimit(limits.frames_per_second, now=now)
        self._pause = 0.0
        self._decoder = FrameDecoder(limits)
        self._frames: deque[Frame] = deque()
        self._error: MotetError | None = None
        self._number_in = secrets.randbelow(MAX_NUMBER)
        self._number_out = 0
        writer.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    @property
    def is_writable(self) -> bool:
        """Whether a frame can be written at once without exceeding the buffer."""
        return not self.is_closed and self.writer.transport.get_write_buffer_size() < HIGH_WATER_BYTES

    def hello(self, *, role: str, network: str, address: str, run: int) -> Hello:
        """The hello of this side."""
        return Hello(PROTOCOL_VERSION, role, network, address, run, self._number_in)

    def accept_hello(self, hello: Hello) -> None:
        """Take the name and the numbers of the other side."""
        self.name = hello.address
        self.role = hello.role
        self.run = hello.run
        self._number_out = hello.first_number
        self._is_introduced = True

    def write(self, frame: Frame) -> None:
        """Write a frame without waiting."""
        if not self.is_closed:
            self.writer.write(encode_frame(frame))

    def write_message(self, body: bytes) -> None:
        """Write a message that `encode_message` encoded."""
        self.write(MessageFrame(self._number_out, msgspec.Raw(body)))
        self._number_out += 1

    async def drain(self) -> None:
        """Wait until the other side has read enough; LimitError if it does not for too long."""
        try:
            async with asyncio.timeout(self.limits.frame_seconds):
                await self.writer.drain()
        except TimeoutError:
            raise LimitError(f"it reads nothing for {self.limits.frame_seconds:g} s") from None

    async def receive(self) -> Frame | None:
        """The next frame of the other side, or None at the end; faster ones than allowed are delayed."""
        while not self._frames:
            if self._error is not None:
                raise self._error
            if self._pause:
                await asyncio.sleep(self._pause)
            data = await self._read()
            if not data:
                if self._decoder.is_inside_frame:
                    raise DecodeError("the connection ended inside a frame")
                return None
            try:
                self._frames.extend(self._decoder.receive_data(data))
            except (DecodeError, LimitError) as error:  # raised after the frames before it
                self._error = error
            now = asyncio.get_running_loop().time()
            self._pause = max(
                self._byte_rate.spend(len(data), now=now), self._frame_rate.spend(len(self._frames), now=now)
            )
        frame = self._frames.popleft()
        if self._is_introduced and isinstance(frame, MessageFrame | OperatorRequest):
            self._check_number(frame.number)
        return frame

    async def receive_hello(self) -> Hello:
        """The first frame of the other side."""
        frame = await self.receive()
        if frame is None:
            raise OverlayError(
                "it ended the connection before it said hello; perhaps it expects TLS, or something else listens there"
            )
        if isinstance(frame, Refused):
            raise OverlayError(f"it refuses the connection: {frame.reason}")
        if not isinstance(frame, Hello):
            raise DecodeError("its first frame is no hello")
        return frame

    def request(self, name: str, argument: bytes) -> int:
        """Write a request of an operator and return its number."""
        number = self._number_out
        self.write(OperatorRequest(number, name, msgspec.Raw(argument)))
        self._number_out += 1
        return number

    def close(self, reason: str | None = None) -> None:
        """End the connection; what is written so far is still sent."""
        if self.is_closed:
            return
        if reason is not None:
            self.write(Refused(reason[:512]))
        self.is_closed = True
        self.writer.close()
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.abort)  # the other side need not read what is left

    def abort(self) -> None:
        """End the connection at once."""
        self.is_closed = True
        self.writer.transport.abort()

    async def _read(self) -> bytes:
        if not self._decoder.is_inside_frame:
            return await self.reader.read(CHUNK_BYTES)
        try:
            async with asyncio.timeout(self.limits.frame_seconds):
                return await self.reader.read(CHUNK_BYTES)
        except TimeoutError:
            raise LimitError(f"a frame takes longer than {self.limits.frame_seconds:g} s") from None

    def _check_number(self, number: int) -> None:
        if number != self._number_in:
            raise DecodeError("a frame out of sequence: it is repeated or left out")
        self._number_in += 1


@asynccontextmanager
async def operator_connection(
    address: str, *, network: str, credentials: Credentials | None, limits: NetworkLimits | None = None
) -> AsyncIterator[Connection]:
    """A connection of an operator to a node; OverlayError says why there is none."""
    limits = limits or NetworkLimits()
    connection = None
    try:
        try:
            async with asyncio.timeout(limits.handshake_seconds):
                connection = await open_connection(address, credentials, limits)
                await introduce(connection, address, role=OPERATOR, network=network, address=OPERATOR, run=0)
        except (MotetError, TimeoutError, OSError) as error:
            raise OverlayError(explain(address, error), advice=advice_for(error)) from None
        yield connection
    finally:
        if connection is not None:
            connection.close()
            with contextlib.suppress(OSError):
                await connection.writer.wait_closed()


async def open_connection(address: str, credentials: Credentials | None, limits: NetworkLimits) -> Connection:
    """Connect to a node and verify that its certificate vouches for its address."""
    require_loopback_or_tls(address, credentials)
    host, port = split_address(address)
    context = credentials.client if credentials else None
    seconds = CLOSE_SECONDS if context else None
    reader, writer = await asyncio.open_connection(
        host, port, ssl=context, limit=CHUNK_BYTES, ssl_shutdown_timeout=seconds
    )
    if context is not None:
        try:
            vouched = vouched_name(writer.get_extra_info("peercert"))
        except OverlayError:
            writer.transport.abort()
            raise
        if vouched != address:
            writer.transport.abort()
            raise OverlayError(f"its certificate vouches for {vouched}")
    keep_alive(writer)
    return Connection(reader, writer, limits, is_outgoing=True)


async def introduce(connection: Connection, expected: str, *, role: str, network: str, address: str, run: int) -> None:
    """Say hello on a connection that this side opened, and check the answer."""
    connection.write(connection.hello(role=role, network=network, address=address, run=run))
    hello = await connection.receive_hello()
    check_hello(hello, network)
    if hello.address != expected:
        raise OverlayError(f"the node there has the address {hello.address}")
    connection.accept_hello(hello)


def check_hello(hello: Hello, network: str) -> None:
    """Raise OverlayError unless a hello is of this version and this network."""
    if hello.version != PROTOCOL_VERSION:
        raise OverlayError(f"version {hello.version} of the protocol meets version {PROTOCOL_VERSION}")
    if hello.network != network:
        raise OverlayError(f"the network {hello.network!r} is not {network!r}")


def require_loopback_or_tls(address: str, credentials: Credentials | None) -> None:
    """Raise UsageError for a plain connection that leaves this machine."""
    host, _ = split_address(address)
    if credentials is None and not is_loopback(host):
        raise UsageError(
            f"{address} is not on this machine, and the connection would be plain",
            advice="Use certificates: motet overlay keys --help",
        )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its number or as `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def bind(address: str) -> socket.socket:
    """A socket that is bound to an address; port 0 is any free one."""
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise OverlayError(
            f"{address} cannot be used: {error.strerror or error}",
            advice="Stop what uses the port, or give the node another address.",
        ) from None
    return listener


def bound_address(listener: socket.socket) -> str:
    """The address that a socket is bound to."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def explain(address: str, error: BaseException) -> str:
    """Why a node cannot be reached, in one sentence."""
    return f"{address} cannot be reached: {sentence(error)}"


def sentence(error: BaseException) -> str:
    """What happened, in one sentence about the other side."""
    if isinstance(error, ssl.SSLError):
        return explain_tls_error(error)
    if isinstance(error, MotetError):
        return error.message
    for kind, text in _OS_ERRORS.items():
        if isinstance(error, kind):
            return text
    return str(error) or type(error).__name__


def advice_for(error: BaseException) -> str:
    """What to do about an error of a connection."""
    if isinstance(error, ssl.SSLError):
        return "Both need certificates of the same authority: motet overlay keys --help"
    if isinstance(error, ConnectionRefusedError | TimeoutError | socket.gaierror):
        return "Check the address, and that the node runs: motet overlay status"
    if isinstance(error, MotetError) and error.advice:
        return error.advice
    return "Check that both run the same version of Motet in the same network."


def _socket_name(writer: asyncio.StreamWriter) -> str:
    name = writer.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if name else "a connection that is gone"


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Have the kernel find out when the other machine is gone."""
    tcp = writer.get_extra_info("socket")
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    tcp.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            tcp.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_PEER_MILLISECONDS)
