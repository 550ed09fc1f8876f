"""Values stored at the nodes closest to their keys: replicated, handed over on joins and departures.

The node responsible for a key answers; the closest nodes of its leaf set hold replicas. Every holder compares what it
has with the others of the replica set after a change of neighbours, and drops a value only when the whole set has
confirmed it. Confirmations are asked for again from time to time: who gave one may have dropped the value since.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from motet.model.errors import UsageError
from motet.overlay.protocol.identifiers import Contact, closeness
from motet.overlay.protocol.node import SECOND, NodeProtocol, PeerMessage, Timer
from motet.overlay.protocol.pastry import Pastry, RingApplication
from motet.overlay.protocol.pastry_messages import RingAnswer
from motet.overlay.protocol.requests import Requests
from motet.overlay.protocol.value_messages import (
    FetchValue,
    GetValue,
    Holding,
    Holdings,
    HoldingsReply,
    PutValue,
    Replicate,
    ReplicateReply,
    StoredValue,
    StoreValue,
    TransferReply,
    TransferRequest,
    ValueFailed,
    ValueFetched,
    ValueReply,
    ValueStored,
)

REPLICAS = 4
ROUND_PERIOD = 20 * SECOND
REVIEW_ROUNDS = 10  # in which each confirmation is asked for again
CHANGE_DELAY = 1 * SECOND
ATTEMPTS = 5
CHUNK = 64  # values of one message
MAX_CHUNK_BYTES = 1 << 18  # of its values; one that is larger is sent alone
MAX_VALUE = 1 << 20


def _chunk(values: Iterable[StoredValue]) -> tuple[StoredValue, ...]:
    """The first values that one message may have; at least one, if there is any."""
    chunk: list[StoredValue] = []
    size = 0
    for value in values:
        size += len(value.value or b"")
        if len(chunk) == CHUNK or (chunk and size > MAX_CHUNK_BYTES):
            break
        chunk.append(value)
    return tuple(chunk)


def _holdings(number: int, holdings: tuple[Holding, ...]) -> PeerMessage:
    return Holdings(request=number, holdings=holdings)


class ValueStore(NodeProtocol, RingApplication):
    """The values of one node.

    >>> from motet.overlay.protocol.node import PeerNode, Started
    >>> from motet.overlay.protocol.pastry_messages import JoinRing
    >>> pastry = Pastry(7)
    >>> node = PeerNode("a", [pastry, ValueStore(pastry)])
    >>> _ = node.handle(0, Started()), node.handle(1, JoinRing())
    >>> _ = node.handle(2, StoreValue(tag=1, key=9, value=b"nine"))
    >>> [effect.value for effect in node.handle(3, FetchValue(tag=2, key=9)) if isinstance(effect, ValueFetched)]
    [b'nine']
    """

    name = "values"

    def __init__(self, pastry: Pastry, *, replicas: int = REPLICAS) -> None:
        super().__init__()
        self.pastry = pastry
        self.replicas = replicas
        self.values: dict[int, StoredValue] = {}
        self.requests = Requests(self, pastry.trips)
        self.commands = {StoreValue: self._store, FetchValue: self._fetch}
        self.receivers = {
            TransferRequest: self._receive_transfer_request,
            TransferReply: self._receive_transfer_reply,
            Holdings: self._receive_holdings,
            HoldingsReply: self._receive_holdings_reply,
            Replicate: self._receive_replicate,
            ReplicateReply: self._receive_reply,
        }
        self._confirmed: dict[int, set[Contact]] = {}
        self._outside: dict[int, int] = {}  # keys that others hold instead, since when
        self._round = 0
        self._queued: dict[Contact, dict[int, list[Callable[[], None]]]] = {}  # keys, and what to call after each
        self._sending: set[Contact] = set()  # those with values on their way
        self._transfers = 0
        pastry.register(self, [PutValue, GetValue])

    # Of the application

    def _store(self, command: StoreValue) -> None:
        if len(command.value or b"") > MAX_VALUE:
            raise UsageError(
                f"a value of {len(command.value or b''):,} bytes; {MAX_VALUE:,} are allowed",
                advice="Store it in parts, under a key for each.",
            )

        def answered(answer: RingAnswer, _duration: int) -> None:
            version = answer.body.version if isinstance(answer.body, ValueReply) else 0
            self.node.report(ValueStored(tag=command.tag, key=command.key, version=version))

        self._ask(command, PutValue(key=command.key, value=command.value), answered)

    def _fetch(self, command: FetchValue) -> None:
        def answered(answer: RingAnswer, _duration: int) -> None:
            value = answer.body.value if isinstance(answer.body, ValueReply) else None
            self.node.report(ValueFetched(tag=command.tag, key=command.key, value=value))

        self._ask(command, GetValue(key=command.key), answered)

    def _ask(
        self, command: StoreValue | FetchValue, body: PeerMessage, answered: Callable[[RingAnswer, int], None]
    ) -> None:
        failed = ValueFailed(tag=command.tag, key=command.key)
        self.pastry.ask(command.key, body, answered, lambda: self.node.report(failed))

    # As the responsible node

    def answer(self, key: int, body: PeerMessage, origin: Contact, number: int) -> None:
        present = self.values.get(key)
        version = present.version if present else 0
        if isinstance(body, PutValue) and len(body.value or b"") > MAX_VALUE:
            self.node.counts["values.too large"] += 1  # its origin does not know the limit, and gets no answer
        elif isinstance(body, PutValue):
            if present is None or present.value != body.value:
                version += 1
                self._hold(StoredValue(key, version, body.value))
            reply = ValueReply(version=version, value=None)
            self._replicate_all([self.values[key]], lambda: self.pastry.reply(origin, number, reply))
        else:
            self.pastry.reply(origin, number, ValueReply(version=version, value=present.value if present else None))

    def _replicate_all(self, values: Iterable[StoredValue], then: Callable[[], None]) -> None:
        """Send values to the replicas that have not confirmed them; call `then` when each has answered or failed."""
        copies = [
            (contact, value.key)
            for value in values
            for contact in self.replica_set(value.key)
            if contact not in self._confirmed.get(value.key, ()) and contact != self.pastry.own
        ]
        pending = len(copies)

        def finish() -> None:
            nonlocal pending
            pending -= 1
            if pending == 0:
                then()

        if not copies:
            then()
        for contact, key in copies:
            self._queued.setdefault(contact, {}).setdefault(key, []).append(finish)
        for contact in dict.fromkeys(contact for contact, _ in copies):
            self._send_chunk(contact)

    def _send_chunk(self, contact: Contact) -> None:
        """Send queued values to a replica, unless some are on their way: a large transfer must not fill its queue."""
        if contact in self._sending:
            return
        queued = self._queued.get(contact, {})
        chunk = _chunk(self.values[key] for key in queued if key in self.values)
        finished = [finish for value in chunk for finish in queued.pop(value.key)]
        if not chunk:
            self._queued.pop(contact, None)
            finished = [finish for callbacks in queued.values() for finish in callbacks]  # dropped in the meantime
        else:
            self._sending.add(contact)

        def answered() -> None:
            self._sending.discard(contact)
            for finish in finished:
                finish()
            self._send_chunk(contact)

        def failed() -> None:
            abandoned = self._queued.pop(contact, {}).values()
            finished.extend(finish for callbacks in abandoned for finish in callbacks)
            answered()

        if chunk:
            self._request(contact, lambda number: Replicate(request=number, values=chunk), answered, failed)
        else:
            for finish in finished:
                finish()

    def _request(
        self,
        contact: Contact,
        message: Callable[[int], PeerMessage],
        finish: Callable[[], None] | None = None,
        failed: Callable[[], None] | None = None,
    ) -> None:
        """Send a request; call `finish` when it is answered, and `failed`, or else `finish`, when it is not."""
        number = self.requests.next_number()
        without_answer = failed or finish
        self.requests.send(
            number,
            contact.address,
            message(number),
            attempts=ATTEMPTS,
            context=(contact, finish),
            failed=lambda _: without_answer() if without_answer else None,
        )

    def replica_set(self, key: int) -> list[Contact]:
        """The contacts that hold a key, the responsible one first, as far as this node knows."""
        contacts = list(self.pastry.leaves)
        if not self.pastry.is_departing:
            contacts.append(self.pastry.own)
        return heapq.nsmallest(self.replicas, contacts, key=lambda contact: closeness(contact.identifier, key))

    # As a holder

    def _hold(self, value: StoredValue) -> None:
        present = self.values.get(value.key)
        if present is None or present.holding < value.holding:
            self.values[value.key] = value
            self._confirmed[value.key] = set()
            flag = b"-" if value.value is None else b"+"
            self.node.persist(f"value.{value.key:x}", b"%d%s%s" % (value.version, flag, value.value or b""))
            self.node.record(value.key, "version %d held", value.version)
            self._schedule(ROUND_PERIOD)

    def _drop(self, key: int) -> None:
        del self.values[key]
        del self._outside[key]
        self._confirmed.pop(key, None)
        self.node.persist(f"value.{key:x}", None)
        self.node.record(key, "dropped: the replica set has it")

    def started(self, disk: Mapping[str, bytes]) -> None:
        self.requests.restart(self.node.now)
        for name, data in disk.items():
            if name.startswith("value."):
                digits = len(data) - len(data.lstrip(b"0123456789"))
                value = None if data[digits : digits + 1] == b"-" else data[digits + 1 :]
                key = int(name.removeprefix("value."), 16)
                self.values[key] = StoredValue(key, int(data[:digits]), value)
        self._schedule(ROUND_PERIOD)

    def _schedule(self, delay: int) -> None:
        if self.values:
            self.node.set_timer(("values", "round"), self.node.now + delay)

    def neighbours_changed(self) -> None:
        self._schedule(CHANGE_DELAY)

    def expired(self, timer: Timer) -> None:
        if timer[1] == "request":
            self.requests.expired(timer)
        else:
            self._compare()
            self._schedule(ROUND_PERIOD)

    def _compare(self) -> None:
        """Compare with those that should hold a value and have not confirmed it; drop what others hold instead.

        A value is dropped after a round: by then all others have noticed that this node is no holder any more, and ask
        it for a confirmation if it is one again.
        """
        if not self.pastry.is_active:
            return
        own, now = self.pastry.own, self.node.now
        is_next_round = now // ROUND_PERIOD > self._round
        self._round = now // ROUND_PERIOD
        unconfirmed: dict[Contact, list[Holding]] = {}
        for key, value in list(self.values.items()):
            holders = self.replica_set(key)
            confirmed = self._confirmed.setdefault(key, set())
            if is_next_round and (key + self._round) % REVIEW_ROUNDS == 0:
                confirmed.clear()
            confirmed.intersection_update(holders)
            pending = [contact for contact in holders if contact != own and contact not in confirmed]
            for contact in [contact for contact in pending if key not in self._queued.get(contact, ())]:
                unconfirmed.setdefault(contact, []).append(value.holding)
            if own in holders:
                self._outside.pop(key, None)
            elif self._outside.setdefault(key, now) + ROUND_PERIOD <= now and not pending:
                self._drop(key)
        for contact, holdings in unconfirmed.items():
            for start in range(0, len(holdings), CHUNK):
                chunk = tuple(holdings[start : start + CHUNK])
                self._request(contact, partial(_holdings, holdings=chunk))

    def _receive_holdings(self, sender: str, message: Holdings) -> None:
        missing = []
        for holding in message.holdings[:CHUNK]:
            present = self.values.get(holding.key)
            if present is None or present.holding < holding:
                missing.append(holding.key)
            elif present.holding > holding:
                self._confirmed[holding.key] = set()
                self._schedule(CHANGE_DELAY)
        self.node.send(sender, HoldingsReply(request=message.request, missing=tuple(missing)))

    def _receive_holdings_reply(self, sender: str, message: HoldingsReply) -> None:
        pending = self.requests.answered(message.request, sender)
        if pending is None or not isinstance(pending.message, Holdings):
            return
        contact = pending.context[0]
        missing = set(message.missing)
        self._confirm(contact, [holding for holding in pending.message.holdings if holding.key not in missing])
        queued = self._queued.setdefault(contact, {})
        for key in message.missing[:CHUNK]:
            queued.setdefault(key, [])
        self._send_chunk(contact)

    def _receive_replicate(self, sender: str, message: Replicate) -> None:
        for value in message.values[:CHUNK]:
            if len(value.value or b"") <= MAX_VALUE:
                self._hold(value)
        self.node.send(sender, ReplicateReply(request=message.request))

    def _receive_reply(self, sender: str, message: ReplicateReply) -> None:
        pending = self.requests.answered(message.request, sender)
        if pending is not None and isinstance(pending.message, Replicate):
            contact, finish = pending.context
            self._confirm(contact, [value.holding for value in pending.message.values])
            if finish is not None:
                finish()

    def _confirm(self, contact: Contact, holdings: list[Holding]) -> None:
        for holding in holdings:
            present = self.values.get(holding.key)
            if present is not None and present.holding == holding:
                self._confirmed.setdefault(holding.key, set()).add(contact)

    # Joining and leaving

    def prepare(self, ready: Callable[[], None]) -> None:
        leaves = self.pastry.leaves
        near = dict.fromkeys([*leaves.contacts[: self.replicas], *leaves.contacts[-self.replicas :]])
        self._transfers = len(near)

        def finish() -> None:
            self._transfers -= 1
            if self._transfers == 0:
                ready()

        if not near:
            ready()
        for contact in near:
            self._request_transfer(contact, -1, finish)

    def _request_transfer(self, contact: Contact, after: int, finish: Callable[[], None]) -> None:
        own = self.pastry.own
        self._request(contact, lambda number: TransferRequest(request=number, contact=own, after=after), finish)

    def _receive_transfer_request(self, sender: str, message: TransferRequest) -> None:
        newcomer = message.contact
        for confirmed in self._confirmed.values():
            confirmed.discard(newcomer)
        keys = sorted(key for key in self.values if key > message.after)
        chunk = _chunk(self.values[key] for key in keys if newcomer in self.replica_set(key))
        is_last = not any(newcomer in self.replica_set(key) for key in keys if chunk and key > chunk[-1].key)
        self.node.send(sender, TransferReply(request=message.request, values=chunk, is_last=is_last))

    def _receive_transfer_reply(self, sender: str, message: TransferReply) -> None:
        pending = self.requests.answered(message.request, sender)
        if pending is None:
            return
        contact, finish = pending.context
        for value in message.values[:CHUNK]:
            self._hold(value)
        if message.values and not message.is_last:
            self._request_transfer(contact, message.values[-1].key, finish)
        else:
            finish()

    def hand_over(self, ready: Callable[[], None]) -> None:
        self._replicate_all(list(self.values.values()), ready)

    # For people

    def statistics(self) -> dict[str, int]:
        """How many values are held, how many copies are queued for others, and how many requests are pending."""
        return {
            "held": len(self.values),
            "queued": sum(map(len, self._queued.values())),
            "requests": len(self.requests.pending),
        }

    def held(self) -> Mapping[int, Any]:
        """The values of this node by key, removed ones left out."""
        return {key: value.value for key, value in self.values.items() if value.value is not None}
