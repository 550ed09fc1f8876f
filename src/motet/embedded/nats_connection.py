"""A connection to a NATS server, with errors in Motet's own words. The client library is loaded when one is made.

It outlives a restart of the server: the client connects again by itself, and what was not acknowledged comes again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from motet.model.errors import EngineError, UsageError
from motet.model.extras import require_extra

if TYPE_CHECKING:
    from nats.aio.client import Client

CONNECT_SECONDS = 3.0
Say = Callable[[str], object]


@asynccontextmanager
async def connected(url: str, say: Say) -> AsyncIterator[Client]:
    """A connection to the server at this address; ``say`` is told when it is lost and found again."""
    place = address(url)
    nats = _client_library()
    client: Client = nats.NATS()
    reason = "no answer"

    async def lost() -> None:
        if not client.is_closed:
            say(f"the connection to {place} is lost; trying again")

    async def found() -> None:
        say(f"connected to {place} again")

    async def failed(error: Exception) -> None:
        nonlocal reason
        reason = str(error) or type(error).__name__
        if client.is_connected:
            say(f"{place}: {reason}")

    connecting = client.connect(
        url, max_reconnect_attempts=-1, disconnected_cb=lost, reconnected_cb=found, error_cb=failed
    )
    try:
        await asyncio.wait_for(connecting, CONNECT_SECONDS)
    except (TimeoutError, OSError, nats.errors.Error):
        advice = "Start the server, or check the address."
        raise EngineError(f"cannot connect to NATS at {place}: {reason}", advice=advice) from None
    try:
        yield client
    except nats.js.errors.ServiceUnavailableError:
        advice = "Start it with JetStream: nats-server -js"
        raise UsageError(f"the server at {place} keeps no streams", advice=advice) from None
    except nats.errors.Error as error:
        advice = "Look at the server's log, then start again: it goes on where it was."
        raise EngineError(f"NATS at {place} says: {error}", advice=advice) from error
    finally:
        await client.close()


def address(url: str) -> str:
    """Where the server is, without the password that may stand in its address.

    >>> address("nats://me:secret@127.0.0.1:4222")
    'nats://127.0.0.1:4222'
    """
    parts = urlsplit(url)
    if parts.scheme not in ("nats", "tls") or not parts.hostname:
        raise UsageError("the address of the NATS server is no NATS address", advice="Write nats://127.0.0.1:4222.")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _client_library() -> ModuleType:
    require_extra("nats", "a connection to NATS")
    import nats
    import nats.errors
    import nats.js.errors

    return nats
