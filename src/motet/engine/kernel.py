"""The kernel: a log goes in, record by record in batches of any size; the notifications it means come out.

Subscriptions of a single EVENT are matched and forgotten; all others are detected, with state. Control records take
effect at their place. The same object serves the embedded host and Spark; it does no I/O: the records a SINCE reaches
back to are asked for through `history`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from motet.engine.backgrounds import Backgrounds
from motet.engine.buckets import Buckets
from motet.engine.detect.columns import FIRST_OFFSET, Ints
from motet.engine.detect.construct import ConstructTemplates
from motet.engine.detect.detector import Detector
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.frontier import Frontier
from motet.engine.detect.occurrences import Occurrences, concatenate, empty_table
from motet.engine.detect.output import merge_notifications, root_output
from motet.engine.lives import Life, Past, parsed
from motet.engine.match.single_events import is_single_event, notify, notify_small
from motet.engine.memory import Memory
from motet.engine.reading import FilteredRecords, RecordSlice, slice_at_controls
from motet.engine.saving_memory import lives_of, resume, saved
from motet.engine.sharing import Sharing
from motet.engine.state.snapshot import StateSnapshot
from motet.engine.telling import Telling, add
from motet.engine.work import Work
from motet.language.syntax import Construct, Events, Subscription
from motet.model.batches import RecordRow, Triple
from motet.model.control import ControlState
from motet.model.notifications import Notification
from motet.model.records import EVENT, ControlRecord, Subscribe, Unsubscribe
from motet.model.timeline import FrontierTimeline, frontier_after
from motet.plan.derivation_edges import feeds_itself
from motet.plan.graph import Kind, Plan, Start

History = Callable[[int], Iterable[pa.RecordBatch | FilteredRecords]]
Keep = Callable[[int, Occurrences, Dictionary], Occurrences]  # given a leaf's node and what it has found


class Kernel:
    """
    >>> from motet.model.batches import RECORDS
    >>> kernel = Kernel(lateness=0)
    >>> text = "SUBSCRIPTION s EVENT a EVENT b WHEN a BEFORE b WITHIN 5 s SELECT ?a ?b"
    >>> subscribe = {"offset": 0, "kind": "subscribe", "id": "s", "late": False, "text": text, "triples": []}
    >>> events = [
    ...     {"offset": i, "kind": "event", "id": f"urn:{i}", "start": i, "end": i, "late": False, "triples": []}
    ...     for i in (1, 2, 3)
    ... ]
    >>> found = kernel.advance(pa.RecordBatch.from_pylist([subscribe, *events], RECORDS))
    >>> found.column("events").to_pylist(), found.column("offset").to_pylist()
    ([['urn:1', 'urn:2']], [3])
    """

    def __init__(
        self,
        *,
        lateness: int | None,
        background: frozenset[Triple] = frozenset(),
        entailment: str | None = None,
        history: History | None = None,
        keep: Keep | None = None,
        buckets: Buckets | None = None,
        bucket: int | None = None,
        sharing: Sharing | None = None,
    ) -> None:
        """With ``buckets`` the work is spread: a kernel of one ``bucket`` detects what belongs there, one of none says
        what goes where.
        """
        self._lateness = lateness
        self._history = history
        self._keep = keep  # which of the leaves' occurrences are of concern here; None: all
        self._buckets = buckets
        self._bucket = bucket
        self._shared = sharing or Sharing()
        self._memory = Memory(Detector(self._shared.names), ControlState(background, entailment))
        self._backgrounds = Backgrounds(self._memory.controls)
        self._shared.memories.append(self._memory)
        self._reaching_back: set[str] = set()  # whose derived events may be too late for some and not for others
        self._told: list[Life] = []  # that have been shown the past and are to be told of it
        self._only: set[int] | None = None  # of the past: the subscriptions that matter
        self._changed: dict[str, None] = {}  # names of subscriptions that have come or gone, the latest last
        self._is_changed = False  # and what is in force is not yet at work
        self._work = Work(self._backgrounds, self._shared)

    def begin(self, subscriptions: Iterable[Subscription]) -> None:
        """Subscriptions that are in force before the first record."""
        for subscription in subscriptions:
            self._subscribe(subscription, -1)

    def skip_to(self, offset: int) -> None:
        """Go on at an offset; the events before it are of no interest, but may have been there."""
        self._memory.last = max(self._memory.last, offset - 1)
        self._memory.has_events = self._memory.has_events or offset > 0

    def advance(self, records: pa.RecordBatch, timeline: FrontierTimeline | None = None) -> pa.RecordBatch:
        """The notifications that some more records of the log make final, with the offsets of those records.

        With a ``timeline``, the records are those of its range that concern this bucket, all control records among
        them.
        """
        found: list[pa.RecordBatch] = []
        for part in slice_at_controls(records, self._lateness, timeline):
            if part.control is not None:
                self._control(part.control)
            found += self._stretch(part)
        return merge_notifications(found)

    def tell(self, records: Sequence[RecordRow]) -> list[tuple[Notification, int]] | None:
        """As `advance`, for a few events and in Python values; None when somebody combines events, or is to be told
        something else: then nothing has been done.
        """
        is_matching = not (self._work.waiting.at or self._told or self._is_changed) and self._bucket is None
        if not is_matching or any(record.kind != EVENT for record in records):
            return None
        self._memory.frontier = max(self._memory.frontier, frontier_after(records, self._lateness))
        seen = [record for record in records if not record.late]
        self._memory.has_events = self._memory.has_events or bool(seen)
        self._memory.last = records[-1].offset
        return notify_small(self._work.matcher, seen) if seen and self._work.matcher else []

    def spread(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, Ints]:
        """What some more records mean to those who wait for single EVENTs; and the offsets of events that may combine
        with others, each with a bucket it has to go to, by bucket.
        """
        assert self._buckets is not None
        told: list[pa.RecordBatch] = []
        places = [np.empty((0, 2), np.int64)]
        for part in slice_at_controls(records, self._lateness):
            if part.control is not None:
                self._control(part.control)
            if not len(part.events):
                continue
            self._put_to_work()
            if self._work.matcher:
                told.append(notify(self._work.matcher, part.events))
            for id_, table in self._work.leaves.occurrences(part.events, self.names).items():
                numbers = self._buckets_of(self._buckets, id_, table)
                places.append(np.stack([numbers, table.columns[FIRST_OFFSET]], axis=1))
            self.names.compact(())
        return merge_notifications(told), np.unique(np.concatenate(places), axis=0)

    def _control(self, record: ControlRecord) -> None:
        """Let a control record take effect."""
        self._is_changed = True
        match record:
            case Subscribe(name, text, offset):
                if self._only is not None and (offset not in self._only or self._is_shown_to(name)):
                    return
                (subscription,) = parsed(text, f"subscription {name!r} in the log")
                self._subscribe(subscription, offset)
                return
            case Unsubscribe(name):
                if not self._is_shown_to(name):
                    self._memory.lives.pop(name, None)
                    self._touch(name)
                    self._reaching_back.discard(name)
            case _:
                self._memory.controls.apply(record)
        self._memory.last = record.offset

    def _is_shown_to(self, name: str) -> bool:
        """Whether this is the past of a subscription of that name: an earlier life of it is of no concern."""
        return self._memory.past is not None and self._memory.past.life.subscription.name == name

    def _subscribe(self, subscription: Subscription, offset: int) -> None:
        reasoner = self._backgrounds.fix_edge_background()
        past = subscription.since is not None and self._memory.has_events and self._history is not None
        derives = isinstance(subscription.delivery, Construct)
        if self._is_elsewhere(subscription, past=past):
            return
        alone = past or (derives and feeds_itself(subscription, reasoner)) or bool(self._reaching_back)
        start = Start(offset if past else self._memory.last, subscription.since)
        life = Life(subscription, offset, start, alone, self._memory.frontier)
        if derives:
            self._memory.deriving.add(offset)
        self._begin(life)
        if isinstance(subscription.delivery, Events) and (past or life.root is not None):
            self._shared.names.events.with_triples = True
        if past:
            self._replay(life)
            self._memory.last = offset

    def _is_elsewhere(self, subscription: Subscription, *, past: bool) -> bool:
        """Single EVENTs are matched before events are spread; only their past and derived events are for buckets."""
        if self._buckets is None or self._bucket is None:
            return False
        if is_single_event(subscription) and not past and subscription.name not in self._buckets.fed:
            return True
        return not self._buckets.has(self._bucket, subscription)

    def _begin(self, life: Life) -> None:
        self._put(life)
        if isinstance(life.subscription.delivery, Construct):
            life.templates = ConstructTemplates(life.subscription.delivery.templates)
            if life.subscription.since is not None:
                self._reaching_back.add(life.subscription.name)
        if not is_single_event(life.subscription):
            self._root(life)

    def _put(self, life: Life) -> None:
        """Let a subscription be in force, behind all others."""
        name = life.subscription.name
        self._memory.lives.pop(name, None)
        self._memory.lives[name] = life
        self._touch(name)

    def _touch(self, name: str) -> None:
        self._changed.pop(name, None)
        self._changed[name] = None
        self._is_changed = True

    def _root(self, life: Life) -> None:
        life.root = self._shared.root(life, self._buckets)
        life.delivery = root_output(life.root, self._shared.builder.nodes[life.root.node], life.offset)

    def _replay(self, life: Life) -> None:
        """Show a subscription the past, as if it had been registered before; what it finds is due now."""
        assert self._history is not None
        is_matched = life.root is None
        if is_matched:
            self._root(life)
        past = Kernel(
            lateness=self._lateness,
            background=self._backgrounds.initial,
            entailment=self._backgrounds.requested_entailment,
            history=self._history,
            buckets=self._buckets,
            bucket=self._bucket,
            sharing=self._shared,
        )
        past._backgrounds.take_edges(self._backgrounds)
        past._only = self._memory.deriving
        life.told = past._shown(life, self._history(life.offset), self._memory.controls.retractions)
        self._told.append(life)
        self._shared.memories.remove(past._memory)
        if is_matched:
            life.root = None
        else:
            self._memory.detector.operator_nodes.update(past._memory.detector.operator_nodes)

    def _shown(
        self, life: Life, history: Iterable[pa.RecordBatch | FilteredRecords], retracted: dict[str, int]
    ) -> Occurrences:
        """What a subscription finds in the past; only its own nodes are left running."""
        assert life.subscription.since is not None and life.root is not None and life.delivery is not None
        own = self._shared.builder.reachable([life.root])
        self._memory.past = Past(life, life.subscription.since, retracted, own)
        self._put(life)
        for read in history:
            self.advance(*((read.records, read.timeline) if isinstance(read, FilteredRecords) else (read,)))
        self._memory.detector.operator_nodes = {
            id_: one for id_, one in self._memory.detector.operator_nodes.items() if id_ in own
        }
        return concatenate([empty_table(len(life.delivery.projected)), *self._memory.past.found])

    def _stretch(self, part: RecordSlice) -> list[pa.RecordBatch]:
        """The notifications of records between two control records, the first of which has taken effect."""
        memory, before = self._memory, self._memory.frontier
        memory.frontier = max(before, int(part.frontiers.max()))
        told, self._told = self._told, []
        if part.is_subscription and not told:
            return []
        self._put_to_work()
        is_matching = self._bucket is None and len(part.events) > 0
        found = [notify(self._work.matcher, part.events)] if is_matching and self._work.matcher else []
        if self._work.waiting.at or told:
            frontier = Frontier.from_records(part.offsets, part.frontiers, before)
            memory.frontier = frontier.current
            found += self._detected(part.events, frontier, told)
        if not part.is_subscription:
            memory.last = int(part.offsets[-1])
        memory.has_events = memory.has_events or part.has_events
        if memory.deriving and not memory.past:
            memory.forget_shown()
        return found

    def _put_to_work(self) -> None:
        """Let changes take effect on what is done."""
        if self._is_changed:
            changed, self._changed, self._is_changed = self._changed, {}, False
            self._work.change(changed, self._memory, self._shared, self._backgrounds)

    def _detected(self, events: pa.RecordBatch, frontier: Frontier, told: Sequence[Life]) -> list[pa.RecordBatch]:
        if self.names.should_compact:
            self._tidy(frontier)
        telling = Telling(self._memory, self._shared, self._work, frontier)
        leaves = self._occurrences(events)
        for life in told:
            assert life.told is not None
            add(leaves, telling.tell(life, life.told))
            life.told = None
        self._memory.detector.advance(leaves, frontier, telling.at)
        return telling.notifications()

    def _occurrences(self, events: pa.RecordBatch) -> dict[int, Occurrences]:
        """What the leaves find that is of concern here."""
        names, past, buckets = self.names, self._memory.past, self._buckets
        leaves = self._work.leaves.occurrences(events, names)
        if self._keep:
            leaves = {id_: self._keep(id_, table, names) for id_, table in leaves.items()}
        if buckets:
            leaves = {
                id_: table.take(self._buckets_of(buckets, id_, table) == self._bucket) for id_, table in leaves.items()
            }
        if past:
            leaves = {id_: past.visible(id_, table, names) for id_, table in leaves.items()}
        return leaves

    def _buckets_of(self, buckets: Buckets, leaf: int, table: Occurrences) -> Ints:
        return buckets.of(self._shared.builder.nodes[leaf], table, self.names)

    def _tidy(self, frontier: Frontier) -> None:
        """Forget what nobody can ask for any more."""
        before = Frontier(frontier.offsets[:0], frontier.instants[:0], frontier.previous, frontier.first_offset)
        self._memory.detector.prune(before)
        self._shared.tidy()

    def dump(self) -> bytes:
        """Everything that is remembered; whoever loads it goes on exactly from here."""
        return self.saved().data

    @classmethod
    def load(cls, data: bytes, *, history: History | None = None) -> Kernel:
        """A kernel that goes on from another one's dump; one that cannot be used is refused."""
        return cls.resumed(StateSnapshot.from_bytes(data), history=history)

    def saved(self) -> StateSnapshot:
        """The state as data."""
        self._put_to_work()
        return saved(self._memory, self._shared, self._backgrounds, self._lateness)

    @classmethod
    def resumed(
        cls,
        state: StateSnapshot,
        *,
        history: History | None = None,
        buckets: Buckets | None = None,
        bucket: int | None = None,
        like: Kernel | None = None,
    ) -> Kernel:
        """A kernel that goes on from a saved state; what was built for one ``like`` it is used again."""
        kernel = cls(
            lateness=state.header["lateness"],
            background=state.graphs["given"],
            entailment=state.header["entailment"],
            history=history,
            buckets=buckets,
            bucket=bucket,
            sharing=like._shared.with_plan() if like else None,
        )
        if like:
            kernel._work.compile_as(like._work)
        kernel._backgrounds.restore(state.graphs)
        resume(state, kernel._memory, kernel._shared)
        for life in lives_of(state):
            kernel._begin(life)
        kernel._is_changed = True
        kernel._put_to_work()
        kernel._memory.take(state.rows.tables, kernel._shared.builder.digests, kernel.names)
        return kernel

    def anew(self, subscriptions: Iterable[Subscription], keep: Keep | None = None) -> Kernel:
        """A kernel with these subscriptions and the same background that has read nothing; what is compiled is shared.

        With ``keep`` it is one of several that share the work: it goes by the occurrences of leaves that are kept.
        """
        self._put_to_work()
        requested = self._backgrounds.requested_entailment
        kernel = Kernel(lateness=self._lateness, background=self.background, entailment=requested, keep=keep)
        self._backgrounds.fix_edge_background()
        kernel._backgrounds.take_edges(self._backgrounds)
        kernel._work.compile_as(self._work)
        kernel.begin(subscriptions)
        return kernel

    def check(self, subscriptions: Iterable[Subscription]) -> None:
        """Refuse subscriptions whose derived events would feed each other in a cycle, with those in force."""
        self._put_to_work()
        self._work.feeding.check(subscriptions, self._backgrounds.likely_edge_reasoner)

    @property
    def background(self) -> frozenset[Triple]:
        """The background graph in force."""
        return self._backgrounds.current

    @property
    def is_stateful(self) -> bool:
        """Whether some subscription in force combines events."""
        return any(life.root is not None for life in self._memory.lives.values())

    @property
    def is_idle(self) -> bool:
        """Whether time alone has nothing to tell: nothing is remembered, and silence does not speak."""
        speaks = any(running.node.kind is Kind.NO for running in self._memory.detector.operator_nodes.values())
        return not speaks and not any(map(len, self._tables().values()))

    def statistics(self) -> dict[str, int]:
        """How much is going on, and how much is remembered."""
        return {
            "subscriptions": len(self._memory.lives),
            "planned": len(self._shared.builder.nodes),
            "nodes": len(self._memory.detector.operator_nodes),
            "rows": sum(map(len, self._tables().values())),
            "terms": len(self.names.terms),
            "events": len(self.names.events),
        }

    def _tables(self) -> dict[str, Occurrences]:
        return self._memory.tables(self._shared.builder.digests)

    @property
    def names(self) -> Dictionary:
        """The strings behind the numbers in all tables."""
        return self._shared.names

    @property
    def buckets(self) -> Buckets | None:
        """How the work is spread."""
        return self._buckets

    def reroute(self, buckets: Buckets) -> None:
        """Spread the work of subscriptions that are to come like this; those in force must not be concerned."""
        self._buckets = buckets

    def plan(self) -> Plan:
        """What is run for the subscriptions that are detected."""
        return self._shared.builder.plan(life.root for life in self._memory.lives.values() if life.root is not None)

    @property
    def digests(self) -> Sequence[str]:
        """Of the plan's nodes."""
        return [self._shared.builder.digests[id_] for id_ in self.plan().builder_ids]

    def variables_by_table(self) -> Iterator[tuple[str, int, Sequence[str]]]:
        """The name of each table, its node in the plan, and the node's variables that its columns hold."""
        places = {id_: place for place, id_ in enumerate(self.plan().builder_ids)}
        for table, id_, variables in self._memory.variables_by_table(self._shared.builder.digests):
            yield table, places[id_], variables

    def fed(self) -> set[str]:
        """The subscriptions that derive events for others, and those others."""
        return self._work.feeding.subscriptions()
