"""Two or more parties on loopback for tests of the TCP host: transports that collect what they receive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from motet.overlay.net.certificates import CertificateAuthority, Credentials, load_credentials
from motet.overlay.net.connection import bind, bound_address
from motet.overlay.net.frames import NetworkLimits
from motet.overlay.net.transport import Operate, Transport
from motet.overlay.protocol.node import PeerMessage, peer_message

PATIENCE = 20.0  # seconds until a test fails: never reached on a working machine


@peer_message
class Note(PeerMessage):
    """A message with content of any length."""

    number: int
    text: str


class Party:
    """A transport with a queue of what it has received."""

    def __init__(self, transport: Transport, inbox: asyncio.Queue[tuple[str, PeerMessage]]) -> None:
        self.transport = transport
        self.inbox = inbox

    @property
    def address(self) -> str:
        return self.transport.address

    def send(self, to: Party | str, *numbers: int, text: str = "") -> None:
        address = to if isinstance(to, str) else to.address
        for number in numbers:
            self.transport.send(address, Note(number=number, text=text))

    async def receive(self, count: int = 1) -> list[tuple[str, int]]:
        """The senders and numbers of the next messages."""
        async with asyncio.timeout(PATIENCE):
            received = [await self.inbox.get() for _ in range(count)]
        return [(sender, message.number) for sender, message in received if isinstance(message, Note)]


@contextlib.asynccontextmanager
async def party(
    address: str = "127.0.0.1:0",
    *,
    authority: Path | None = None,
    network: str = "test",
    limits: NetworkLimits | None = None,
    operate: Operate | None = None,
) -> AsyncIterator[Party]:
    """A party that listens; with an authority it has a certificate of it."""
    listener = bind(address)
    address = bound_address(listener)
    inbox: asyncio.Queue[tuple[str, PeerMessage]] = asyncio.Queue()
    transport = Transport(
        address,
        lambda sender, message: inbox.put_nowait((sender, message)),
        network=network,
        credentials=member(authority, address) if authority else None,
        limits=limits,
        operate=operate,
    )
    await transport.start(listener)
    try:
        yield Party(transport, inbox)
    finally:
        await transport.close()


def member(authority: Path, address: str) -> Credentials:
    """Credentials of a member that an authority vouches for."""
    return load_credentials(CertificateAuthority(authority).issue_member(address))


def operator(authority: Path) -> Credentials:
    """Credentials of an operator."""
    return load_credentials(CertificateAuthority(authority).issue_operator())
