"""Networks of real processes: they join, answer, survive a killed process, and end with their parent.

`make overlay-kills` kills many times in a network of eight (MOTET_OVERLAY_KILLS).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from motet.model.errors import OverlayError, UsageError
from motet.overlay.net.connection import bind
from motet.overlay.net.local_network import AddressBook, LocalNetwork, trace_route
from motet.overlay.net.node_directory import NodeSettings
from motet.overlay.net.overlay_kinds import zones_of
from motet.overlay.protocol.can_messages import CanResult, CanValues, FindInRegion, PointValue, StoreAtPoint
from motet.overlay.protocol.identifiers import closeness, identifier_of
from motet.overlay.protocol.zones import region_of

KILLS = int(os.environ.get("MOTET_OVERLAY_KILLS", "0"))


def settings(is_plain: bool, protocol: str = "pastry") -> NodeSettings:
    return NodeSettings(address="", network="", is_plain=is_plain, protocol=protocol, dimensions=2)


@contextlib.asynccontextmanager
async def started(path: Path, count: int, *, is_plain: bool, protocol: str = "pastry") -> AsyncIterator[LocalNetwork]:
    network = LocalNetwork.create(path, count, settings(is_plain, protocol))
    try:
        await network.start()
        yield network
    finally:
        await network.stop()


def responsible(book: AddressBook, names: set[str], key: int) -> str:
    """The address that is responsible for a key, of the nodes that run."""
    addresses = [entry.address for entry in book.entries if entry.name in names]
    return min(addresses, key=lambda address: closeness(identifier_of(address), key))


async def look_up_all(network: LocalNetwork, keys: range) -> int:
    """Look up keys from each running node, all with the right answer; returns how many."""
    book = network.book
    credentials, names = book.credentials(), set(network.processes)
    for name in names:
        async with book.operate(book.entry(name).address, credentials) as operator:
            for key in map(identifier_of, map(str, keys)):
                answer = await operator.look_up(key)
                assert answer.address == responsible(book, names, key)
    return len(names) * len(keys)


def test_a_network_of_processes_routes_and_starts_again(tmp_path: Path) -> None:
    """Each key reaches the closest node; a second start has the same addresses, and more nodes can be added."""

    async def main() -> None:
        async with started(tmp_path, 2, is_plain=False) as network:
            entries = network.book.entries
        async with started(tmp_path, 3, is_plain=False) as network:
            book = network.book
            assert book.entries[:2] == entries
            for number in range(4):
                key = identifier_of(str(number))
                route, answer = await trace_route(book, key, entries[0])
                assert (route[0], route[-1]) == (entries[0].address, responsible(book, set(network.processes), key))
                assert (answer.address, answer.hops) == (route[-1], len(route) - 1)
            await network.leave("node-3")
            assert await look_up_all(network, range(4)) == 8

    asyncio.run(main())


def test_a_can_of_processes_routes_and_starts_again(tmp_path: Path) -> None:
    """Each point is found at the peer whose zone has it; zones and values survive the end of all processes."""

    async def main() -> None:
        point, tag = ("building", "7"), "1"
        for attempt in range(2):
            async with started(tmp_path, 2, is_plain=False, protocol="can") as network:
                book = network.book
                credentials, first = book.credentials(), book.entries[0]
                async with book.operate(first.address, credentials) as operator:
                    await operator.request("listen")
                    if attempt == 0:
                        await operator.command(StoreAtPoint(tag=tag, point=point, value=b"open"))
                        await operator.outcome(lambda o: isinstance(o, CanResult) and o.is_complete)
                    await operator.command(FindInRegion(tag=tag, region=region_of(*point)))
                    values = await operator.outcome(lambda o: isinstance(o, CanValues))
                    assert values == CanValues(tag=tag, values=(PointValue(point, b"open"),))
                for highest in (point, ("\U00100000", "\U00100000")):
                    route, answer = await trace_route(book, highest, first)
                    async with book.operate(answer.address, credentials) as operator:
                        zones = (await operator.request("place"))["zones"]
                    (zone,) = zones_of(zones)
                    assert (route[-1], answer.hops) == (answer.address, len(route) - 1)
                    assert zone.contains(highest)
        with pytest.raises(UsageError, match="is a CAN of 2 dimensions, and not plain"):
            LocalNetwork.create(tmp_path, 2, settings(False))

    asyncio.run(main())


def test_a_node_that_cannot_start_stops_the_network(tmp_path: Path) -> None:
    """The error names the node and the reason; no process stays behind."""

    async def main() -> None:
        network = LocalNetwork.create(tmp_path, 2, settings(True))
        await network.stop()  # gives the ports back
        occupied = bind(network.book.entries[0].address)
        occupied.listen()
        with pytest.raises(OverlayError, match=r"node-1 has not started: .* cannot be used: Address already in use"):
            await network.start()
        assert list(network.processes) == ["node-1"]
        await network.stop()
        assert network.processes == {}
        occupied.close()

    asyncio.run(main())


def test_a_network_stays_plain_or_not(tmp_path: Path) -> None:
    """Certificates are not dropped by a forgotten option."""

    async def create() -> None:
        await LocalNetwork.create(tmp_path, 1, settings(True)).stop()

    asyncio.run(create())
    with pytest.raises(UsageError, match=r"the network in .* is a ring, and plain"):
        LocalNetwork.create(tmp_path, 1, settings(False))


def test_an_address_book_is_checked(tmp_path: Path) -> None:
    """A directory without one, with another file, and a node that is not in it are named."""
    with pytest.raises(UsageError, match=r"has no network\.json"):
        AddressBook(tmp_path)
    (tmp_path / "network.json").write_text('{"network": "a", "is_plain": true, "nodes": [1]}')
    with pytest.raises(UsageError, match="is no address book"):
        AddressBook(tmp_path)
    book = AddressBook.create(tmp_path, settings(True), [])
    with pytest.raises(UsageError, match="has no node 'x'"):
        book.entry("x")


@pytest.mark.skipif(not KILLS, reason="a long run: make overlay-kills")
def test_lookups_go_on_when_a_process_is_killed(tmp_path: Path) -> None:
    """After SIGKILL of one of eight, the others answer for its keys; it returns with its identity."""

    async def main() -> None:
        source = random.Random(1)
        async with started(tmp_path, 8, is_plain=False) as network:
            lookups = await look_up_all(network, range(10))
            for number in range(KILLS):
                name = f"node-{source.randint(1, 8)}"
                directory = network.book.node_directory(network.book.entry(name))
                identity = [(directory.path / file).read_bytes() for file in ("node.json", "certificate.pem")]
                await network.kill(name)
                lookups += await look_up_all(network, range(number, number + 5))
                await network.start_node(name)
                lookups += await look_up_all(network, range(number, number + 5))
                assert [(directory.path / file).read_bytes() for file in ("node.json", "certificate.pem")] == identity
            print(f"{KILLS} kills, {lookups} lookups, all answered by the right node")  # noqa: T201

    asyncio.run(main())
