"""The process of one node: joins its overlay, answers until it is stopped, and leaves.

On standard output it reports, as JSON lines, that it listens, that it has joined, and why it failed. A node whose
process ends at once (SIGKILL, or the end of its standard input) keeps its place on disk and joins again when it starts;
on SIGTERM or Ctrl-C it hands over its keys and leaves the overlay first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from typing import Any

from motet.model.errors import MotetError, OverlayError, UsageError
from motet.overlay.net.host import NodeHost
from motet.overlay.net.node_directory import NodeDirectory
from motet.overlay.net.overlay_kinds import KINDS, OverlayKind

JOIN_SECONDS = 30.0
LEAVE_SECONDS = 4.0
MAX_LOG_BYTES = 4 * 2**20


def run_node(
    directory: NodeDirectory, *, begins: bool = False, listener: int | None = None, follows_input: bool = False
) -> int:
    """Run the node in a directory until it is stopped, and return the exit status of its process."""
    directory.settings()  # it must be a node's before anything is written
    _log_to(directory)
    try:
        bound = None if listener is None else socket.socket(fileno=listener)
        asyncio.run(_run(directory, begins=begins, listener=bound, follows_input=follows_input))
    except MotetError as error:
        logging.getLogger("motet.overlay").error("%s", error)  # noqa: TRY400  the text says what to do
        _report("failed", error=error.message, advice=error.advice)
        raise
    return 0


async def _run(directory: NodeDirectory, *, begins: bool, listener: socket.socket | None, follows_input: bool) -> None:
    kind = KINDS[directory.settings().protocol]
    host = NodeHost(kind.make_node, directory, queries=kind.queries)
    stopped: asyncio.Future[Any] = _stop_request(follows_input=follows_input)
    if begins:
        kind.prepare_beginning(directory)
    await host.start(listener)
    try:
        _report("listening", address=host.settings.address, pid=os.getpid())
        joined: asyncio.Future[Any] = asyncio.create_task(_join(kind, host, begins=begins))
        await asyncio.wait({joined, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if joined.done():
            await joined
            _report("joined", address=host.settings.address)
        if await stopped:
            await kind.leave(host, seconds=LEAVE_SECONDS)
        joined.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await joined
    finally:
        await host.stop()


async def _join(kind: OverlayKind, host: NodeHost, *, begins: bool) -> None:
    """Join by contacts that can be reached, or begin a new overlay; OverlayError names what was tried."""
    contacts = () if begins or kind.has_place(host.node) else await _reachable_contacts(kind, host)
    if not await kind.join(host, contacts, seconds=JOIN_SECONDS):
        raise OverlayError(
            f"{host.settings.address} has not joined {', '.join(contacts) or 'its neighbours'} in {JOIN_SECONDS:g} s",
            advice=f"Look at the logs of these nodes, and at {host.directory.log_path}",
        )


async def _reachable_contacts(kind: OverlayKind, host: NodeHost) -> tuple[str, ...]:
    """The contacts of a node that answer; the settings' own, then those it had before it was stopped."""
    earlier = kind.earlier_contacts(host.node)
    contacts = [
        contact for contact in dict.fromkeys((*host.settings.contacts, *earlier)) if contact != host.settings.address
    ]
    results = await asyncio.gather(*map(host.transport.check_peer, contacts), return_exceptions=True)
    failures = [result for result in results if isinstance(result, MotetError)]
    reachable = [
        contact for contact, result in zip(contacts, results, strict=True) if not isinstance(result, BaseException)
    ]
    if not contacts:
        raise OverlayError(
            f"{host.settings.address} has no contact to join by",
            advice="Name one with --contact HOST:PORT, or begin a new overlay with --begin.",
        )
    if not reachable:
        raise OverlayError(
            "no contact can be reached:\n" + "\n".join(f"  {failure.message}" for failure in failures),
            advice=failures[0].advice if failures else None,
        )
    return tuple(reachable)


def _stop_request(*, follows_input: bool) -> asyncio.Future[Any]:
    """Done when the process is to stop; true if it is to leave the overlay first."""
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[Any] = loop.create_future()

    def stop(is_orderly: bool) -> None:
        if not stopped.done():
            stopped.set_result(is_orderly)

    def read() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin.fileno())
            stop(False)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, True)
    if follows_input:
        try:
            loop.add_reader(sys.stdin.fileno(), read)
        except OSError:
            raise UsageError("standard input is a file, whose end says nothing", advice="Pass a pipe.") from None
    return stopped


def _report(event: str, **fields: object) -> None:
    with contextlib.suppress(BrokenPipeError):  # the process that reads is gone
        sys.stdout.write(json.dumps({"event": event} | fields) + "\n")
        sys.stdout.flush()


def _log_to(directory: NodeDirectory) -> None:
    from logging.handlers import RotatingFileHandler

    handler = RotatingFileHandler(directory.log_path, maxBytes=MAX_LOG_BYTES, backupCount=1)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger = logging.getLogger("motet.overlay")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
