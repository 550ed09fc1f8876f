"""Runs one node over TCP: gives it messages, timers and commands, and carries out its effects.

The clock of a node is monotonic and begins at the time of day, so that it goes on after a restart. What the node
persists is on disk before the effects after it are carried out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from random import Random
from typing import Any, TypeVar

import msgspec

from motet.model.errors import DecodeError, MotetError
from motet.overlay.net.certificates import load_credentials
from motet.overlay.net.connection import Connection, bind
from motet.overlay.net.frames import NetworkLimits, OperatorAnswer, OperatorRequest, decode_value, encode_value
from motet.overlay.net.node_directory import NodeDirectory, NodeSettings
from motet.overlay.net.transport import Transport
from motet.overlay.protocol.node import (
    CancelTimer,
    Command,
    Expired,
    Input,
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
    field_types,
    from_field,
    to_field,
)
from motet.overlay.sim.network import GeographicLatency, Network, UniformLatency

log = logging.getLogger("motet.overlay")

RETRY_TIMER = 1_000_000

NodeQuery = Callable[[PeerNode, Any], Any]
_Record = TypeVar("_Record", Command, Outcome)
_Outcome = TypeVar("_Outcome", bound=Outcome)


class NodeHost:
    """One running node.

    `queries` are requests of operators that read the state of a node: by name, a function of the node and an argument.
    `listeners` are called with each outcome.
    """

    def __init__(
        self,
        make_node: Callable[[NodeSettings], PeerNode],
        directory: NodeDirectory,
        *,
        queries: Mapping[str, NodeQuery] | None = None,
        limits: NetworkLimits | None = None,
    ) -> None:
        self.directory = directory
        self.settings = directory.settings()
        self.node = make_node(self.settings)
        self.listeners: list[Callable[[Outcome], None]] = []
        credentials = None if self.settings.is_plain else load_credentials(directory.path)
        self.transport = Transport(
            self.settings.address,
            self._receive,
            network=self.settings.overlay_name,
            credentials=credentials,
            operate=self._operate,
            limits=limits,
        )
        self._queries = dict(queries or {})
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._started_at = int(
            time.time_ns() // 1_000 * self.settings.speed
        )  # after a restart it goes on, at any speed
        self._monotonic_start = time.monotonic_ns() // 1_000
        self._is_stopped = False
        self._links: Network | None = None
        self._random = Random(self.settings.address)  # noqa: S311  for experiments

    @property
    def now(self) -> int:
        """The node's clock, in microseconds."""
        elapsed = time.monotonic_ns() // 1_000 - self._monotonic_start
        return self._started_at + int(elapsed * self.settings.speed)

    async def start(self, listener: socket.socket | None = None) -> None:
        """Reserve the directory, accept connections, and start the node with what it persisted."""
        self.directory.lock()
        try:
            disk = self.directory.read_disk()
            await self.transport.start(listener or bind(self.settings.address))
        except BaseException:
            self.directory.unlock()
            raise
        self._handle(Started(disk=disk))

    async def stop(self) -> None:
        """Cancel all timers, close all connections and release the directory."""
        self._is_stopped = True
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
        await self.transport.close()
        self.directory.unlock()

    def command(self, command: Command) -> None:
        """Give the node a command now."""
        self._handle(command)

    async def wait_for(
        self,
        kind: type[_Outcome],
        *,
        seconds: float,
        after: Command | None = None,
        where: Callable[[_Outcome], bool] = lambda outcome: True,
    ) -> _Outcome | None:
        """The next outcome of a type and condition, after a command if one is given; None if there is none in time."""
        result: asyncio.Future[_Outcome] = asyncio.get_running_loop().create_future()

        def notice(outcome: Outcome) -> None:
            if isinstance(outcome, kind) and where(outcome) and not result.done():
                result.set_result(outcome)

        self.listeners.append(notice)
        try:
            if after is not None:
                self.command(after)
            async with asyncio.timeout(seconds):
                return await result
        except TimeoutError:
            return None
        finally:
            self.listeners.remove(notice)

    def status(self) -> dict[str, Any]:
        """Facts for people: sizes, counts, connections, and who is cut off."""
        transport = self.transport
        now = asyncio.get_running_loop().time()
        return {
            "address": self.settings.address,
            "pid": os.getpid(),
            "seconds": (self.now - self._started_at) // 1_000_000,
            "node": self.node.statistics(),
            "network": transport.statistics(),
            "connected": sorted(a for a, peer in transport.peers.items() if peer.connection is not None),
            "unreachable": {a: peer.failure for a, peer in sorted(transport.peers.items()) if peer.failure},
            "cut_off": {name: reason for name, (until, reason) in transport.cut_off.items() if until > now},
        }

    # Inside

    def _receive(self, sender: str, message: PeerMessage) -> None:
        check_sender(sender, message)
        try:
            self._handle(Received(sender=sender, message=message))
        except Exception as error:  # a message must not stop the node, whatever it contains
            log.exception("%s fails at a %s of %s", self.settings.address, type(message).__name__, sender)
            raise DecodeError(f"its {type(message).__name__} makes the node fail: {error!r}"[:400]) from error

    def _handle(self, node_input: Input) -> None:
        if self._is_stopped:
            return
        for effect in self.node.handle(self.now, node_input):
            if isinstance(effect, Send):
                if self._links is None:
                    self.transport.send(effect.to, effect.message)
                else:
                    self._send_over_links(self._links, effect)
            elif isinstance(effect, SetTimer):
                self._set_timer(effect.timer, effect.at)
            elif isinstance(effect, CancelTimer):
                handle = self._timers.pop(effect.timer, None)
                if handle is not None:
                    handle.cancel()
            elif isinstance(effect, Persist):
                self.directory.persist(effect.key, effect.value)
            else:
                for listener in list(self.listeners):
                    listener(effect)

    def _set_timer(self, timer: Timer, at: int) -> None:
        earlier = self._timers.pop(timer, None)
        if earlier is not None:
            earlier.cancel()
        delay = max(0, at - self.now) / 1_000_000 / self.settings.speed
        self._timers[timer] = asyncio.get_running_loop().call_later(delay, self._expire, timer)

    def _expire(self, timer: Timer) -> None:
        del self._timers[timer]
        try:
            self._handle(Expired(timer=timer))
        except Exception:
            log.exception("%s fails at the timer %s", self.settings.address, timer)
            self.node.counts["failed timers"] += 1
            self._set_timer(timer, self.now + RETRY_TIMER)  # the upkeep of a node must not end by one failure

    def _send_over_links(self, links: Network, effect: Send) -> None:
        """Send a message as the network of an experiment would: later, twice or not at all."""
        loop = asyncio.get_running_loop()
        for delay in links.delays(self._random, self.settings.address, effect.to):
            loop.call_later(delay / 1_000_000 / self.settings.speed, self.transport.send, effect.to, effect.message)

    # Operators

    async def _operate(self, connection: Connection, request: OperatorRequest) -> None:
        try:
            value = self._answer(connection, request.name, decode_value(request.argument))
            answer = OperatorAnswer(request.number, None, msgspec.Raw(encode_value(value)))
        except MotetError as error:
            answer = OperatorAnswer(request.number, error.message[:512], msgspec.Raw(encode_value(None)))
        connection.write(answer)

    def _answer(self, connection: Connection, name: str, argument: Any) -> Any:
        if name == "status":
            return self.status()
        if name == "story":
            return self.node.story(argument)
        if name == "listen":
            self._listen(connection)
            return None
        if name == "links":
            self._links = None if argument is None else parse_links(argument)
            return None
        if name == "command":
            self.command(decode_record(argument, Command))
            return None
        if name in self._queries:
            return self._queries[name](self.node, argument)
        raise DecodeError(f"this node takes no request {name!r}")

    def _listen(self, connection: Connection) -> None:
        def push(outcome: Outcome) -> None:
            if connection.is_closed:
                self.listeners.remove(push)
            elif connection.is_writable:
                connection.write(OperatorAnswer(0, None, msgspec.Raw(encode_value(encode_record(outcome)))))

        self.listeners.append(push)


def encode_links(network: Network) -> dict[str, Any]:
    """The behaviour of an experiment's network as plain values, for the request `links`."""
    return {
        "latency": "geographic" if isinstance(network.latency, GeographicLatency) else "uniform",
        "loss": network.loss,
        "duplication": network.duplication,
        "reordering": network.reordering,
        "group_of": network.group_of,
        "broken_links": sorted(network.broken_links),
    }


def parse_links(value: Any) -> Network:
    """The network that `encode_links` encoded; DecodeError if it is none."""
    try:
        return Network(
            latency=GeographicLatency() if value["latency"] == "geographic" else UniformLatency(),
            loss=float(value["loss"]),
            duplication=float(value["duplication"]),
            reordering=float(value["reordering"]),
            group_of={str(address): int(group) for address, group in value["group_of"].items()},
            broken_links={(str(left), str(right)) for left, right in value["broken_links"]},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DecodeError(f"the request `links` is wrong: {error!r}") from None


def encode_record(record: Command | Outcome) -> list[Any]:
    """A command or an outcome as plain values: its name, then its fields in order."""
    return [type(record).__name__, *(to_field(getattr(record, field.name)) for field in fields(record))]


def decode_record(value: Any, base: type[_Record]) -> _Record:
    """The command or outcome that `encode_record` encoded; DecodeError if it is none."""
    if not isinstance(value, list) or not value or not isinstance(value[0], str):
        raise DecodeError(f"a {base.__name__.lower()} is a list that begins with a name")
    cls = _subclasses(base).get(value[0])
    if cls is None:
        raise DecodeError(f"{value[0][:80]!r} is no {base.__name__.lower()}")
    hints = field_types(cls)
    if len(hints) != len(value) - 1:
        raise DecodeError(f"{cls.__name__} has {len(hints)} fields, not {len(value) - 1}")
    return cls(
        **{
            name: from_field(item, hint, cls.__name__)
            for (name, hint), item in zip(hints.items(), value[1:], strict=True)
        }
    )


def _subclasses(base: type[_Record]) -> dict[str, type[_Record]]:
    by_name: dict[str, type[_Record]] = {}
    for child in base.__subclasses__():
        by_name[child.__name__] = child
        by_name |= _subclasses(child)
    return by_name
