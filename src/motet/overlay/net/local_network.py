"""A network of nodes in processes on this machine, and the address book by which operators find them.

DIR/network.json             the address book: names and addresses of the nodes
DIR/nodes/NAME/              a node's directory
DIR/authority/               the certificate authority, unless the network is plain
DIR/operator/                the operator's certificate
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from motet.model.errors import DecodeError, OverlayError, UsageError
from motet.overlay.net.certificates import CertificateAuthority, Credentials, load_credentials
from motet.overlay.net.connection import Connection, bind, bound_address, operator_connection
from motet.overlay.net.frames import OperatorAnswer, decode_value, encode_value
from motet.overlay.net.host import decode_record, encode_record
from motet.overlay.net.node_directory import NodeDirectory, NodeSettings, overlay_name, read_json, write_atomically
from motet.overlay.protocol.can_messages import CanResult, FindInRegion
from motet.overlay.protocol.coordinates import CanPoint
from motet.overlay.protocol.identifiers import format_identifier
from motet.overlay.protocol.node import Command, Outcome
from motet.overlay.protocol.pastry_messages import Lookup, LookupAnswered, LookupFailed
from motet.overlay.protocol.zones import region_of
from motet.overlay.sim.scenario import CAN, PASTRY, parse_setting

START_SECONDS = 60.0
STOP_SECONDS = 8.0
ANSWER_SECONDS = 10.0
OUTCOME_SECONDS = 65.0
MAX_HOPS = 64
MAX_CONTACTS = 16

RouteKey: TypeAlias = int | CanPoint
"""A key of the ring, or a point of the CAN."""

OnNodeEvent = Callable[[str, str], object]  # a node's name, and what has happened to it


@dataclass(frozen=True, slots=True)
class BookEntry:
    """One node of the address book."""

    name: str
    address: str


class AddressBook:
    """The nodes of a network, and what an operator needs to reach them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        advice = "Start a network with `motet overlay up`, or name its directory with --directory."
        book = read_json(path / "network.json", "a network's directory", advice)
        try:
            self.network = str(book["network"])
            self.is_plain = bool(book["is_plain"])
            self.protocol: str = parse_setting("protocol", book.get("protocol", PASTRY), str(path / "network.json"))
            self.dimensions: int = parse_setting("dimensions", book.get("dimensions", 4), str(path / "network.json"))
            self.entries = [BookEntry(str(node["name"]), str(node["address"])) for node in book["nodes"]]
        except (KeyError, TypeError) as error:
            raise UsageError(f"{path / 'network.json'} is no address book: {error!r}", advice=advice) from None

    @classmethod
    def create(cls, path: Path, settings: NodeSettings, entries: Sequence[BookEntry]) -> AddressBook:
        """Write the address book of a network whose nodes have these settings."""
        book = {"network": settings.network, "is_plain": settings.is_plain, "protocol": settings.protocol}
        if settings.protocol == CAN:
            book["dimensions"] = settings.dimensions
        book["nodes"] = [{"name": entry.name, "address": entry.address} for entry in entries]
        write_atomically(path / "network.json", json.dumps(book, indent=2).encode() + b"\n")
        return cls(path)

    def check(self, settings: NodeSettings) -> None:
        """Raise UsageError unless nodes with these settings can be members."""
        present = (self.is_plain, overlay_name("it", self.protocol, self.dimensions))
        if present != (settings.is_plain, overlay_name("it", settings.protocol, settings.dimensions)):
            security = "plain" if self.is_plain else "not plain"
            kind = f"a CAN of {self.dimensions} dimensions" if self.protocol == CAN else "a ring"
            raise UsageError(
                f"the network in {self.path} is {kind}, and {security}",
                advice="Keep it so, or use another --directory for a new network.",
            )

    def entry(self, name: str) -> BookEntry:
        """The node with this name or address."""
        for entry in self.entries:
            if name in (entry.name, entry.address):
                return entry
        names = ", ".join(entry.name for entry in self.entries)
        raise UsageError(f"the network in {self.path} has no node {name!r}", advice=f"Its nodes are: {names}.")

    def node_directory(self, entry: BookEntry) -> NodeDirectory:
        """The directory of a node on this machine."""
        return NodeDirectory(self.path / "nodes" / entry.name)

    def credentials(self) -> Credentials | None:
        """The operator's credentials; None in a plain network."""
        return None if self.is_plain else load_credentials(self.path / "operator")

    @asynccontextmanager
    async def operate(self, address: str, credentials: Credentials | None) -> AsyncIterator[OperatorClient]:
        """An operator's connection to a node; OverlayError says why there is none."""
        name = overlay_name(self.network, self.protocol, self.dimensions)
        async with operator_connection(address, network=name, credentials=credentials) as connection:
            yield OperatorClient(address, connection)


class RouteAnswer(NamedTuple):
    """Which node answered for a key, after how many hops, and when."""

    address: str
    hops: int
    milliseconds: float


class OperatorClient:
    """An operator's connection to one node: requests, commands and their outcomes."""

    def __init__(self, address: str, connection: Connection) -> None:
        self.address = address
        self._connection = connection
        self._outcomes: deque[Outcome] = deque(maxlen=10_000)

    async def request(self, name: str, argument: object = None) -> Any:
        """The answer to a request; OverlayError if the node refuses it or does not answer."""
        number = self._connection.request(name, encode_value(argument))
        async with self._patience(ANSWER_SECONDS):
            while (answer := await self._receive()).number != number:
                self._keep(answer)
        if answer.error is not None:
            raise OverlayError(f"{self.address} refuses the request {name!r}: {answer.error}")
        return decode_value(answer.value)

    async def command(self, command: Command) -> None:
        """Give the node a command."""
        await self.request("command", encode_record(command))

    async def look_up(self, key: RouteKey) -> RouteAnswer:
        """Have the node look up a key of the ring, or a point of the CAN."""
        tag = secrets.randbelow(2**31)
        start = time.monotonic()
        await self.request("listen")
        if isinstance(key, int):
            await self.command(Lookup(tag=tag, key=key))
        else:
            await self.command(FindInRegion(tag=str(tag), region=region_of(*key)))
        outcome = await self.outcome(
            lambda outcome: (
                isinstance(outcome, LookupAnswered | LookupFailed | CanResult) and str(outcome.tag) == str(tag)
            )
        )
        if isinstance(outcome, LookupAnswered):
            return RouteAnswer(outcome.root.address, outcome.hops, outcome.duration / 1000)
        if isinstance(outcome, CanResult) and outcome.is_complete and outcome.owner is not None:
            return RouteAnswer(outcome.owner, outcome.hops, 1000 * (time.monotonic() - start))
        raise OverlayError(
            f"no node has answered for {text_of_key(key)}", advice="Look at the nodes: motet overlay status"
        )

    async def outcome(self, is_wanted: Callable[[Outcome], bool], *, seconds: float = OUTCOME_SECONDS) -> Outcome:
        """The next outcome that is wanted, after a request `listen`; OverlayError if there is none in time."""
        async with self._patience(seconds):
            while True:
                while self._outcomes:
                    outcome = self._outcomes.popleft()
                    if is_wanted(outcome):
                        return outcome
                self._keep(await self._receive())

    def _keep(self, answer: OperatorAnswer) -> None:
        if answer.number == 0:
            with contextlib.suppress(DecodeError):  # an outcome of a type that this operator does not know
                self._outcomes.append(decode_record(decode_value(answer.value), Outcome))

    async def _receive(self) -> OperatorAnswer:
        frame = await self._connection.receive()
        if not isinstance(frame, OperatorAnswer):
            raise OverlayError(f"{self.address} has ended the connection")
        return frame

    @asynccontextmanager
    async def _patience(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise OverlayError(f"{self.address} has not answered within {seconds:g} s") from None


def text_of_key(key: RouteKey) -> str:
    """A key as people read it: hexadecimal digits, or the coordinates of a point."""
    return format_identifier(key) if isinstance(key, int) else f"({', '.join(key)})"


async def trace_route(book: AddressBook, key: RouteKey, start: BookEntry) -> tuple[list[str], RouteAnswer]:
    """The addresses on the way of a key, by the routing state of each node, and the answer to a lookup of it."""
    credentials = book.credentials()
    argument = format_identifier(key) if isinstance(key, int) else list(key)
    async with book.operate(start.address, credentials) as operator:
        address, _ = await operator.request("next_hop", argument)  # refuses a key of another kind
        answer = await operator.look_up(key)
    route = [start.address]
    while address != route[-1]:
        if address in route or len(route) > MAX_HOPS:
            raise OverlayError(
                f"the route of {text_of_key(key)} comes back to {address}; the overlay is being repaired"
            )
        route.append(address)
        async with book.operate(address, credentials) as operator:
            address, _ = await operator.request("next_hop", argument)
    return route, answer


class LocalNetwork:
    """Processes of a network on this machine; they end when this process does."""

    def __init__(self, book: AddressBook) -> None:
        self.book = book
        self.processes: dict[str, Process] = {}
        self._listeners: dict[str, socket.socket] = {}

    @classmethod
    def create(cls, path: Path, count: int, settings: NodeSettings | None = None) -> LocalNetwork:
        """A new network with free ports, certificates and node directories, or more nodes for one that is there.

        The nodes have these settings, but for addresses, contacts and the name of the network.
        """
        settings = settings or NodeSettings(address="", network="", is_plain=False)
        if (path / "network.json").exists():
            book = AddressBook(path)
            book.check(settings)
            settings = replace(settings, network=book.network)
        else:
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            settings = replace(settings, network=f"local-{secrets.token_hex(4)}")
            book = AddressBook.create(path, settings, [])
        return cls._extend(book, count, settings)

    @classmethod
    def _extend(cls, book: AddressBook, count: int, settings: NodeSettings) -> LocalNetwork:
        listeners = {f"node-{n}": bind("127.0.0.1:0") for n in range(len(book.entries) + 1, count + 1)}
        added = [BookEntry(name, bound_address(listener)) for name, listener in listeners.items()]
        entries = [*book.entries, *added]
        if not settings.is_plain:
            authority = CertificateAuthority(book.path / "authority")
            if not (book.path / "operator" / "certificate.pem").exists():
                authority.issue_operator(book.path / "operator")
            for entry in added:
                authority.issue_member(entry.address, book.node_directory(entry).path)
        for entry in entries:
            contacts = tuple(other.address for other in entries if other != entry)[:MAX_CONTACTS]
            book.node_directory(entry).create(replace(settings, address=entry.address, contacts=contacts))
        network = cls(AddressBook.create(book.path, settings, entries))
        network._listeners = listeners
        return network

    async def start(self, on_progress: OnNodeEvent | None = None, *, count: int | None = None) -> None:
        """Start all nodes, or some: the first begins the overlay and, once it listens, the others join it."""
        on_progress = on_progress or (lambda name, event: None)
        first, *others = self.book.entries[:count]
        is_begun = asyncio.Event()

        def first_reports(name: str, event: str) -> None:
            on_progress(name, event)
            if event == "listening":
                is_begun.set()

        starts = [asyncio.create_task(self.start_node(first.name, begins=True, on_progress=first_reports))]
        starts[0].add_done_callback(lambda _: is_begun.set())
        try:
            await is_begun.wait()
            if not (starts[0].done() and starts[0].exception()):
                starts += [asyncio.create_task(self.start_node(e.name, on_progress=on_progress)) for e in others]
            await asyncio.gather(*starts)
        finally:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)

    async def start_node(self, name: str, *, begins: bool = False, on_progress: OnNodeEvent | None = None) -> None:
        """Start the process of one node and wait until it has joined; OverlayError says why it has not."""
        entry = self.book.entry(name)
        command = [sys.executable, "-m", "motet.cli.main", "overlay", "node", "--follow-input"]
        command += ["--directory", str(self.book.node_directory(entry).path)]
        listener = self._listeners.pop(name, None)
        if listener is not None:
            command += ["--listener", str(listener.fileno())]
        if begins:
            command.append("--begin")
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            pass_fds=[] if listener is None else [listener.fileno()],
            start_new_session=True,  # Ctrl-C is for this process, which then stops them
        )
        if listener is not None:
            listener.close()
        self.processes[name] = process
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._wait_until_joined(name, process, on_progress or (lambda name, event: None))
        except TimeoutError:
            raise OverlayError(
                f"{name} has not joined within {START_SECONDS:g} s",
                advice=f"Look at {self.book.node_directory(entry).log_path}",
            ) from None

    async def _wait_until_joined(self, name: str, process: Process, on_progress: OnNodeEvent) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            report = json.loads(line)
            on_progress(name, report["event"])
            if report["event"] == "joined":
                return
            if report["event"] == "failed":
                raise OverlayError(f"{name} has not started: {report['error']}", advice=report["advice"])
        log_path = self.book.node_directory(self.book.entry(name)).log_path
        raise OverlayError(f"{name} has ended with status {await process.wait()}", advice=f"Look at {log_path}")

    async def kill(self, name: str) -> None:
        """Kill the process of a node (SIGKILL)."""
        process = self.processes.pop(name)
        process.kill()
        await process.wait()

    def release(self, name: str) -> Process:
        """The process of a node, which this network no longer counts as running."""
        return self.processes.pop(name)

    async def leave(self, name: str) -> None:
        """Have a node hand over its keys, leave the ring, and end."""
        process = self.release(name)
        process.terminate()
        await process.wait()

    async def wait_for_end(self) -> str:
        """The name of the next node whose process ends by itself."""
        waits = {asyncio.create_task(process.wait()): name for name, process in self.processes.items()}
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            name = waits[done.pop()]
            del self.processes[name]
            return name
        finally:
            for wait in waits:
                wait.cancel()

    async def stop(self) -> None:
        """Stop all processes; the nodes keep their places on disk."""
        processes = list(self.processes.values())
        self.processes.clear()
        for process in processes:
            if process.stdin is not None:
                process.stdin.close()
        ends = [asyncio.create_task(process.wait()) for process in processes]
        if ends:
            _, pending = await asyncio.wait(ends, timeout=STOP_SECONDS)
            if pending:
                for process in processes:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                await asyncio.wait(pending)
        for listener in self._listeners.values():
            listener.close()
        self._listeners.clear()
