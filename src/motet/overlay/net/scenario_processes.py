"""Scenarios on real processes: the files that the simulator runs, with the same promises checked.

`RingProcesses` runs Pastry nodes with values and topics, `CanProcesses` peers of a CAN; `make_process_run` makes the
one for the protocol of a scenario.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from motet.model.errors import OverlayError
from motet.overlay.net.overlay_kinds import zones_of
from motet.overlay.net.process_run import ProcessRun, process_name
from motet.overlay.protocol.can_messages import (
    CanDelivered,
    CanResult,
    CanValues,
    FindInRegion,
    MulticastToRegion,
    PointValue,
    RemoveAtPoint,
    StoreAtPoint,
    digest_of,
)
from motet.overlay.protocol.identifiers import BITS, closeness, identifier_of
from motet.overlay.protocol.node import SECOND, Outcome
from motet.overlay.protocol.scribe_messages import PublishTopic, SubscribeTopic, TopicDelivered, UnsubscribeTopic
from motet.overlay.protocol.value_messages import FetchValue, StoreValue, ValueFailed, ValueFetched, ValueStored
from motet.overlay.protocol.zones import Region, Space, region_of
from motet.overlay.sim.can_networks import (
    PeerView,
    ValueLedger,
    can_violations,
    delivery_violations,
    random_point,
    random_region,
)
from motet.overlay.sim.scenario import CAN, Scenario, parse_region

LAST_RING_LOOKUPS = 50
LAST_PAYLOAD = b"last"
LAST_CAN_LOOKUPS = 20
CHECK_PERIOD = 5.0  # seconds of the scenario
DELIVERY_SECONDS = 2.0  # after the answers to a multicast: a delivery that is one too many has arrived by then


class RingProcesses(ProcessRun):
    """One run of a ring. A lookup is judged by the nodes that ran at one instant of it."""

    def __init__(
        self, scenario: Scenario, directory: Path, *, seed: int = 1, speed: float = 10.0, is_plain: bool = False
    ) -> None:
        super().__init__(scenario, directory, seed=seed, speed=speed, is_plain=is_plain)
        self._stored: dict[str, bytes] = {}
        self._subscribers: dict[str, set[str]] = {}
        self._active: list[frozenset[str]] = [frozenset()]

    # Nodes

    def _note_running(self) -> None:
        book = self._network.book
        self._active.append(frozenset(book.entry(name).address for name in self._network.processes))

    async def _note_end(self, node: str, *, has_lost_disk: bool) -> None:
        self._note_running()
        for subscribers in self._subscribers.values():
            subscribers.discard(node)

    # Steps

    async def _look_up_at_random(self, name: str) -> None:
        key = self._random.getrandbits(BITS)
        first = len(self._active) - 1
        self.figures["lookups"] += 1
        try:
            async with self._operate(name) as operator:
                answer = await operator.look_up(key)
        except (OverlayError, OSError):
            self.figures["lookups abandoned" if name not in self._network.processes else "lookups failed"] += 1
            return
        closest = {
            min(active, key=lambda address: closeness(identifier_of(address), key)) for active in self._active[first:]
        }
        if answer.address not in closest:
            self.figures["lookups misdelivered"] += 1

    async def _store(self, node: str, key: str, value: str) -> None:
        async def store() -> None:
            tag = self._next_tag()
            command = StoreValue(tag=tag, key=identifier_of(key), value=value.encode())
            outcome = await self._outcome(process_name(node), command, (ValueStored, ValueFailed), tag)
            if isinstance(outcome, ValueStored):
                self._stored[key] = value.encode()
                self.figures["values stored"] += 1
            else:
                self._stored.pop(key, None)  # stored or not: nothing is promised

        self._start(store())

    async def _subscribe(self, node: str, topic: str) -> None:
        self._subscribers.setdefault(topic, set()).add(node)
        await self._command(process_name(node), SubscribeTopic(topic=identifier_of(topic)))

    async def _unsubscribe(self, node: str, topic: str) -> None:
        self._subscribers.setdefault(topic, set()).discard(node)
        await self._command(process_name(node), UnsubscribeTopic(topic=identifier_of(topic)))

    async def _publish(self, node: str, topic: str, value: str) -> None:
        command = PublishTopic(tag=0, topic=identifier_of(topic), payload=value.encode())
        await self._command(process_name(node), command)

    # The end

    async def _violations(self) -> list[str]:
        violations = []
        for name in sorted(self._network.processes):
            async with self._operate(name) as operator:
                place = await operator.request("place")
            if place["state"] != "active":
                violations.append(f"{name} is {place['state']}, not active")
            violations += self._leaf_violations(name, place["leaves"])
        for key, value in sorted(self._stored.items()):
            if await self._fetch(key) != value:
                violations.append(f"the value of {key!r} is lost")
        return [*violations, *await self._lookup_violations(), *await self._topic_violations()]

    def _leaf_violations(self, name: str, leaves: list[str]) -> list[str]:
        address = self._network.book.entry(name).address
        ring = sorted(self._active[-1], key=identifier_of)
        half, index = self.scenario.leaf_size // 2, ring.index(address)
        expected = {ring[(index + offset) % len(ring)] for offset in range(-half, half + 1)} - {address}
        if len(ring) > self.scenario.leaf_size and set(leaves) != expected:
            return [f"{name} has other neighbours than the ring"]
        if len(ring) <= self.scenario.leaf_size and set(leaves) != set(ring) - {address}:
            return [f"{name} does not know all nodes"]
        return []

    async def _fetch(self, key: str) -> bytes | None:
        tag = self._next_tag()
        command = FetchValue(tag=tag, key=identifier_of(key))
        outcome = await self._outcome(self._random_process(), command, (ValueFetched, ValueFailed), tag)
        return outcome.value if isinstance(outcome, ValueFetched) else None

    async def _lookup_violations(self) -> list[str]:
        before = Counter(self.figures)
        for _ in range(LAST_RING_LOOKUPS):
            self._start(self._look_up_at_random(self._random_process()))
        await self._finish_tasks()
        wrong = Counter(self.figures) - before
        failed, misdelivered = wrong["lookups failed"], wrong["lookups misdelivered"]
        if failed or misdelivered:
            return [f"after settling {failed} lookups failed, {misdelivered} were delivered wrongly"]
        return []

    async def _topic_violations(self) -> list[str]:
        violations = []
        for topic, subscribers in sorted(self._subscribers.items()):
            receptions = {node: asyncio.Event() for node in sorted(subscribers)}
            receivers = [
                asyncio.create_task(self._receive_last(node, topic, is_listening))
                for node, is_listening in receptions.items()
            ]
            await asyncio.gather(*(is_listening.wait() for is_listening in receptions.values()))
            command = PublishTopic(tag=0, topic=identifier_of(topic), payload=LAST_PAYLOAD)
            await self._command(self._random_process(), command)
            results = await asyncio.gather(*receivers)
            missed = [node for node, is_received in zip(receptions, results, strict=True) if not is_received]
            if missed:
                violations.append(f"{', '.join(missed)}: the last publication of {topic!r} was not delivered")
        return violations

    async def _receive_last(self, node: str, topic: str, is_listening: asyncio.Event) -> bool:
        last = identifier_of(topic), LAST_PAYLOAD

        def is_last(outcome: Outcome) -> bool:
            return isinstance(outcome, TopicDelivered) and (outcome.topic, outcome.payload) == last

        try:
            async with self._operate(process_name(node)) as operator:
                await operator.request("listen")
                is_listening.set()
                await operator.outcome(is_last, seconds=max(10.0, 70.0 / self.speed))
        except (OverlayError, OSError):
            return False
        finally:
            is_listening.set()
        return True


class CanProcesses(ProcessRun):
    """One run of a CAN. It has settled when zones and neighbours are right, at the latest after the time to settle."""

    def __init__(
        self, scenario: Scenario, directory: Path, *, seed: int = 1, speed: float = 10.0, is_plain: bool = False
    ) -> None:
        super().__init__(scenario, directory, seed=seed, speed=speed, is_plain=is_plain)
        self._space = Space(scenario.dimensions)
        self._ledger = ValueLedger()
        self._wiped: list[str] = []

    # Nodes

    def _note_running(self) -> None:
        pass

    async def _note_end(self, node: str, *, has_lost_disk: bool) -> None:
        """Note the values of which the last copy is lost; nothing if a peer does not answer (it may be paused)."""
        if not has_lost_disk:
            return
        results = await asyncio.gather(*map(self._copies, list(self._network.processes)), return_exceptions=True)
        if not any(isinstance(result, BaseException) for result in results):
            copies = set().union(*results)  # type: ignore[arg-type]
            keys = {key for key, _, _ in self._ledger.tags.values()}
            self._wiped += self._ledger.lose({key for key in keys if (key[0], digest_of(key[1])) in copies})

    async def _copies(self, name: str) -> set[tuple[tuple[str, ...], bytes]]:
        async with self._operate(name) as operator:
            return {(tuple(point), digest) for point, digest in await operator.request("entries")}

    # Steps

    async def _look_up_at_random(self, name: str) -> None:
        self.figures["lookups"] += 1
        try:
            async with self._operate(name) as operator:
                await operator.look_up(random_point(self._space, self._random))
        except (OverlayError, OSError):
            self.figures["lookups abandoned" if name not in self._network.processes else "lookups failed"] += 1

    async def _put(self, node: str, point: list[str], value: str) -> None:
        tag = self._issue(point, value, is_present=True)
        self._start(self._change(node, StoreAtPoint(tag=tag, point=tuple(point), value=value.encode())))

    async def _remove(self, node: str, point: list[str], value: str) -> None:
        tag = self._issue(point, value, is_present=False)
        self._start(self._change(node, RemoveAtPoint(tag=tag, point=tuple(point), value=value.encode())))

    def _issue(self, point: list[str], value: str, *, is_present: bool) -> str:
        now = int(self._now() * SECOND)
        return self._ledger.issued(tuple(point), value.encode(), is_present=is_present, now=now)

    async def _change(self, node: str, command: StoreAtPoint | RemoveAtPoint) -> None:
        outcome = await self._outcome(process_name(node), command, (CanResult,), command.tag)
        is_answered = isinstance(outcome, CanResult) and outcome.is_complete
        self.figures["values changed" if is_answered else "changes without an answer"] += 1
        if is_answered:
            self._ledger.completed(command.tag)

    async def _multicast(self, node: str, region: list[Any], value: str) -> None:
        tag = f"step {self._next_tag()}"
        await self._command(
            process_name(node), MulticastToRegion(tag=tag, region=parse_region(region), payload=value.encode())
        )

    # The end

    async def _settle(self, until: float) -> None:
        while self._now() < until and await self._zone_violations():
            await self._wait_until(min(until, self._now() + CHECK_PERIOD))

    async def _violations(self) -> list[str]:
        violations = [f"{value} was lost with fewer peers than have copies" for value in self._wiped]
        violations += await self._zone_violations()
        if violations:
            return violations
        await self._wait_until(self._now() + 60)  # the last copies reach their owners
        violations = await self._value_violations()
        for is_flooded in (False, False, False, True):
            violations += await self._multicast_violations(is_flooded=is_flooded)
        return [*violations, *await self._lookup_violations()]

    async def _views(self) -> dict[str, PeerView]:
        async def view(name: str) -> tuple[str, PeerView]:
            async with self._operate(name) as operator:
                place = await operator.request("place")
            neighbours = {address: zones_of(zones) for address, zones in place["neighbours"].items()}
            return operator.address, PeerView(place["state"], zones_of(place["zones"]), neighbours)

        return dict(await asyncio.gather(*map(view, list(self._network.processes))))

    async def _zone_violations(self) -> list[str]:
        try:
            return can_violations(self._space, await self._views())
        except (OverlayError, OSError) as error:  # of a peer that is paused or has just ended
            return [str(error)]

    async def _value_violations(self) -> list[str]:
        """A search of the whole space finds every stored value and no removed one."""
        tag = f"all {self._next_tag()}"
        values: list[PointValue] = []
        async with self._operate(self._random_process()) as operator:
            await operator.request("listen")
            await operator.command(FindInRegion(tag=tag, region=region_of(*[None] * self._space.dimensions)))
            while True:
                outcome = await operator.outcome(lambda o: isinstance(o, CanValues | CanResult) and o.tag == tag)
                if isinstance(outcome, CanResult):
                    break
                assert isinstance(outcome, CanValues)
                values += outcome.values
        if not outcome.is_complete:
            return ["a search of the whole space is not answered"]
        return self._ledger.violations({(value.point, value.value) for value in values})

    async def _multicast_violations(self, *, is_flooded: bool) -> list[str]:
        """A multicast to a random region reaches each matching zone once; the optimal one sends no duplicate."""
        region = random_region(self._space, self._random)
        tag = f"multicast {self._next_tag()}"
        expected = self._matching(await self._views(), region)
        duplicates = await self._duplicates()
        deliveries: Counter[str] = Counter()
        names = list(self._network.processes)
        listening = [asyncio.Event() for _ in names]
        is_over = asyncio.Event()
        collectors = [
            asyncio.create_task(self._collect(name, tag.encode(), deliveries, is_listening, is_over))
            for name, is_listening in zip(names, listening, strict=True)
        ]
        await asyncio.gather(*(event.wait() for event in listening))
        command = MulticastToRegion(tag=tag, region=region, payload=tag.encode(), is_flooded=is_flooded)
        result = await self._outcome(self._random_process(), command, (CanResult,), tag)
        await asyncio.sleep(DELIVERY_SECONDS / self.speed)
        is_over.set()
        await asyncio.gather(*collectors)
        violations = delivery_violations(expected, deliveries)
        if not isinstance(result, CanResult) or not result.is_complete:
            violations.append("a multicast is not answered")
        more = await self._duplicates() - duplicates
        if more and not is_flooded:
            violations.append(f"the optimal broadcast sent {more} duplicates")
        return violations

    def _matching(self, views: dict[str, PeerView], region: Region) -> Counter[str]:
        return Counter(address for address, view in views.items() for zone in view.zones if zone.meets(region))

    async def _collect(
        self,
        name: str,
        payload: bytes,
        deliveries: Counter[str],
        is_listening: asyncio.Event,
        is_over: asyncio.Event,
    ) -> None:
        """Count the deliveries of a multicast at one peer until it is over."""
        async with self._operate(name) as operator:
            await operator.request("listen")
            is_listening.set()
            over = asyncio.create_task(is_over.wait())
            while not over.done():
                delivery = asyncio.create_task(
                    operator.outcome(lambda o: isinstance(o, CanDelivered) and o.payload == payload)
                )
                await asyncio.wait([over, delivery], return_when=asyncio.FIRST_COMPLETED)
                if delivery.done():
                    delivery.result()
                    deliveries[operator.address] += 1
                else:
                    delivery.cancel()
                    await asyncio.gather(delivery, return_exceptions=True)

    async def _duplicates(self) -> int:
        async def duplicates(name: str) -> int:
            async with self._operate(name) as operator:
                return int((await operator.request("status"))["node"].get("requests.duplicates", 0))

        return sum(await asyncio.gather(*map(duplicates, list(self._network.processes))))

    async def _lookup_violations(self) -> list[str]:
        """Lookups of random points are answered by the owners of these points."""
        views = await self._views()
        wrong = 0
        for _ in range(LAST_CAN_LOOKUPS):
            point = random_point(self._space, self._random)
            async with self._operate(self._random_process()) as operator:
                try:
                    answer = await operator.look_up(point)
                    wrong += not any(zone.contains(point) for zone in views[answer.address].zones)
                except OverlayError:
                    wrong += 1
        return [f"{wrong} of {LAST_CAN_LOOKUPS} lookups did not reach the owner of their point"] if wrong else []


def make_process_run(
    scenario: Scenario, directory: Path, *, seed: int = 1, speed: float = 10.0, is_plain: bool = False
) -> ProcessRun:
    """The run of a scenario on processes, for its protocol."""
    kind = CanProcesses if scenario.protocol == CAN else RingProcesses
    return kind(scenario, directory, seed=seed, speed=speed, is_plain=is_plain)
