"""The kernel: a log goes in, record by record in batches of any size; the notifications it means come out.

Subscriptions of a single EVENT are matched and forgotten; all others are detected, with state. Control records take
effect at their place. The same object serves the embedded host and Spark; it does no I/O: the records a SINCE reaches
back to are asked for through `history`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from motet.engine.buckets import Buckets
from motet.engine.detect.construct import Derived, Templates, as_records, solutions
from motet.engine.detect.deliver import (
    Audience,
    Told,
    alone,
    delivery,
    in_order,
    notifications,
    with_constructs,
    with_graphs,
)
from motet.engine.detect.detector import Detector
from motet.engine.detect.dictionary import Dictionary
from motet.engine.detect.distinct import Distinct
from motet.engine.detect.frontier import NOWHERE, Frontier, standing
from motet.engine.detect.leaves import Leaves, leaf_nodes
from motet.engine.detect.occurrences import (
    EMITTED,
    END,
    FIRST,
    START,
    Ints,
    Occurrences,
    concatenated,
    none,
)
from motet.engine.detect.operator import Now
from motet.engine.detect.saving import Saved, table_name
from motet.engine.detect.saving_format import refused
from motet.engine.detect.saving_kernel import fill, in_working_order, saved_rows
from motet.engine.detect.saving_rows import canonical
from motet.engine.feeding import Feeding
from motet.engine.lives import Life, Past, facts_of, life_of, parsed
from motet.engine.match.closing import background_of
from motet.engine.match.matcher import Matcher
from motet.engine.match.verify import is_single
from motet.engine.reading import Course, Extract, Part, parts
from motet.language.syntax import Construct, Events, Subscription
from motet.model.notifications import Notification
from motet.model.tables import RecordRow, Triple, notification_rows
from motet.ontology.entailment import Reasoner
from motet.plan.dag import Builder, build
from motet.plan.feeding import Feed, feeds, feeds_itself
from motet.plan.lags import lags
from motet.plan.nodes import Kind, Plan, Root, Start
from motet.plan.repeats import repeating

History = Callable[[int], Iterable[pa.RecordBatch | Extract]]
Keep = Callable[[int, Occurrences, Dictionary], Occurrences]  # given a leaf's node and what it has found


@dataclass
class _Sharing:
    """What kernels that work on one log have in common."""

    builder: Builder = field(default_factory=Builder)
    names: Dictionary = field(default_factory=Dictionary)
    kernels: list[Kernel] = field(default_factory=list)
    derived: int = 0  # how many events were derived so far
    roots: dict[str, tuple[Hashable, Root]] = field(default_factory=dict)  # of what, and what the builder has made

    def with_plan(self) -> _Sharing:
        """For a kernel that reads on from elsewhere, what was built for these."""
        return _Sharing(self.builder.copy(), roots=dict(self.roots))

    def keep(self, roots: Sequence[Root]) -> None:
        """Forget what was built for others than these."""
        self.builder.keep(roots)
        names = {root.subscription.name for root in roots}
        self.roots = {name: root for name, root in self.roots.items() if name in names}


@dataclass
class _Found:
    """What subscriptions are to be told: notifications, and what will be some, all at once."""

    finished: list[pa.RecordBatch] = field(default_factory=list)
    plain: list[Told] = field(default_factory=list)

    def notifications(self, names: Dictionary) -> list[pa.RecordBatch]:
        return [*self.finished, notifications(self.plain, names)] if self.plain else self.finished


class Kernel:
    """
    >>> from motet.model.schemas import RECORDS
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
        sharing: _Sharing | None = None,
    ) -> None:
        """With ``buckets`` the work is spread: a kernel of one ``bucket`` detects what belongs there, one of none says
        what goes where.
        """
        self._lateness = lateness
        self._background = background
        self._asked_entailment = entailment
        self._history = history
        self._keep = keep  # which of the leaves' occurrences are of concern here; None: all
        self._buckets = buckets
        self._bucket = bucket
        self._shared = sharing or _Sharing()
        self._given = background
        self._feeding: Reasoner | None = None  # the background before the first subscription decides who feeds whom
        self._feeding_background: frozenset[Triple] | None = None
        self._lives: dict[str, Life] = {}
        self._deriving: set[int] = set()  # the offsets of all subscriptions that ever derived events
        self._reaching_back: set[str] = set()  # whose derived events may be too late for some and not for others
        self._retracted: dict[str, int] = {}
        self._fed = Feeding({}, self._shared.builder, None)
        self._at: dict[int, list[Life]] = {}
        self._audiences: dict[int, Audience] = {}  # of nodes where all are told in the same way
        self._told: list[Life] = []  # that have been shown the past and are to be told of it
        self._frontier = NOWHERE
        self._last = -1  # the last record that is not merely a subscription
        self._has_events = False
        self._is_changed = False
        self._past: Past | None = None
        self._only: set[int] | None = None  # of the past: the subscriptions that matter
        self._matcher = Matcher((), background, self._entailment)
        self._leaves = Leaves(background, self._entailment)
        self._detector = Detector(self._shared.names)
        self._shared.kernels.append(self)

    @property
    def _entailment(self) -> str:
        return self._asked_entailment or _entailment_of(self._background)

    @property
    def background(self) -> frozenset[Triple]:
        """The background graph in force."""
        return self._background

    @property
    def is_stateful(self) -> bool:
        """Whether some subscription in force combines events."""
        return any(life.root is not None for life in self._lives.values())

    def statistics(self) -> dict[str, int]:
        """How much is going on, and how much is remembered."""
        return {
            "subscriptions": len(self._lives),
            "planned": len(self._shared.builder.nodes),
            "nodes": len(self._detector.running),
            "rows": sum(map(len, self._tables().values())),
            "terms": len(self.names.terms),
            "events": len(self.names.events),
        }

    @property
    def buckets(self) -> Buckets | None:
        """How the work is spread."""
        return self._buckets

    def reroute(self, buckets: Buckets) -> None:
        """Spread the work of subscriptions that are to come like this; those in force must not be concerned."""
        self._buckets = buckets

    @property
    def is_idle(self) -> bool:
        """Whether time alone has nothing to tell: nothing is remembered, and silence does not speak."""
        running = self._detector.running
        speaks = any(self._shared.builder.nodes[id_].kind is Kind.NO for id_ in running)
        return not speaks and not any(map(len, self._tables().values()))

    def check(self, subscriptions: Iterable[Subscription]) -> None:
        """Refuse subscriptions whose derived events would feed each other in a circle, with those in force."""
        new = {subscription.name: subscription for subscription in subscriptions}
        known = {life.subscription.name: life.subscription for life in self._lives.values()}
        together = {**known, **new}.values()
        if any(isinstance(one.delivery, Construct) for one in together):
            feeds(build(together), self._feeding or background_of(self._background, self._entailment).reasoner)

    def skip_to(self, offset: int) -> None:
        """Go on at an offset; the events before it are of no interest, but may have been there."""
        self._last = max(self._last, offset - 1)
        self._has_events = self._has_events or offset > 0

    def begin(self, subscriptions: Iterable[Subscription]) -> None:
        """Subscriptions that are in force before the first record."""
        for subscription in subscriptions:
            self._subscribe(subscription, -1)
        self._is_changed = True

    def anew(self, subscriptions: Iterable[Subscription], keep: Keep | None = None) -> Kernel:
        """A kernel with these subscriptions and the same background that has read nothing; what is compiled is shared.

        With ``keep`` it is one of several that share the work: it goes by the occurrences of leaves that are kept.
        """
        if self._lives and self._is_changed:
            self._change()
        kernel = Kernel(
            lateness=self._lateness, background=self._background, entailment=self._asked_entailment, keep=keep
        )
        kernel._feeding = self._feeding or self._feed_by(self._background)
        kernel._feeding_background = self._feeding_background
        kernel._matcher, kernel._leaves = self._matcher, copy.copy(self._leaves)
        kernel.begin(subscriptions)
        return kernel

    def dump(self) -> bytes:
        """Everything that is remembered; whoever loads it goes on exactly from here."""
        return self.saved().data

    @classmethod
    def load(cls, data: bytes, *, history: History | None = None) -> Kernel:
        """A kernel that goes on from another one's dump; one that cannot be used is refused."""
        return cls.resumed(Saved.of(data), history=history)

    def saved(self) -> Saved:
        """The state as data."""
        if self._is_changed:
            self._change()
        facts = {
            "lateness": self._lateness,
            "entailment": self._asked_entailment,
            "frontier": self._frontier,
            "last": self._last,
            "has events": self._has_events,
            "derived": self._shared.derived,
            "deriving": sorted(self._deriving),
            "with triples": self._shared.names.events.with_triples,
            "shown": {name: dict(sorted(life.shown.items())) for name, life in self._lives.items() if life.shown},
        }
        lives = {name: facts_of(life) for name, life in self._lives.items()}
        graphs = {"given": self._given, "current": self._background}
        if self._feeding_background is not None:
            graphs["feeding"] = self._feeding_background
        rows = canonical(saved_rows(self._tables(), self._shared.names))
        return Saved(facts, lives, dict(self._retracted), graphs, rows)

    def _tables(self) -> dict[str, Occurrences]:
        """All tables by the names they are saved under."""
        digests = self._shared.builder.digests
        found = {
            table_name(digests[id_], name): table
            for id_, running in self._detector.running.items()
            for name, table in running.tables().items()
        }
        return found | {table_name(name, "delivered"): one.seen for name, one in self._delivered().items()}

    def _delivered(self) -> dict[str, Distinct]:
        """By subscription that is detected, what it was told, where that has to be remembered."""
        return {
            name: life.delivery.distinct
            for name, life in self._lives.items()
            if life.root and life.delivery and life.delivery.distinct
        }

    def plan(self) -> Plan:
        """What is run for the subscriptions that are detected."""
        return self._shared.builder.plan(life.root for life in self._lives.values() if life.root is not None)

    @property
    def digests(self) -> Sequence[str]:
        """Of the plan's nodes."""
        return [self._shared.builder.digests[id_] for id_ in self.plan().ids]

    @property
    def names(self) -> Dictionary:
        """The strings behind the numbers in all tables."""
        return self._shared.names

    def fed(self) -> set[str]:
        """The subscriptions that derive events for others, and those others."""
        return self._fed.subscriptions()

    def variables_by_table(self) -> Iterable[tuple[str, int, Sequence[str]]]:
        """The name of each table, its node, and the node's variables that its columns hold."""
        places = {id_: place for place, id_ in enumerate(self.plan().ids)}
        for id_, running in self._detector.running.items():
            for name in running.tables():
                yield table_name(self._shared.builder.digests[id_], name), places[id_], running.columns(name)
        for name in self._delivered():
            delivery = self._lives[name].delivery
            assert delivery is not None
            own = {mine: variable for variable, mine in delivery.root.names}
            yield table_name(name, "delivered"), places[delivery.root.node], [own[mine] for mine in delivery.names]

    @classmethod
    def resumed(
        cls,
        saved: Saved,
        *,
        history: History | None = None,
        buckets: Buckets | None = None,
        bucket: int | None = None,
        like: Kernel | None = None,
    ) -> Kernel:
        """A kernel that goes on from a saved state; what was built for one ``like`` it is used again."""
        facts, graphs = saved.facts, saved.graphs
        kernel = cls(
            lateness=facts["lateness"],
            background=graphs["given"],
            entailment=facts["entailment"],
            history=history,
            buckets=buckets,
            bucket=bucket,
            sharing=like._shared.with_plan() if like else None,
        )
        if like:
            kernel._matcher, kernel._leaves = like._matcher, copy.copy(like._leaves)
        kernel._background = graphs["current"]
        if "feeding" in graphs:
            kernel._feed_by(graphs["feeding"])
        kernel._frontier, kernel._last, kernel._has_events = facts["frontier"], facts["last"], facts["has events"]
        kernel._deriving, kernel._retracted = set(facts["deriving"]), dict(saved.retracted)
        kernel._shared.derived = facts["derived"]
        fill(kernel.names, saved.rows, with_triples=facts["with triples"])
        for name, life in sorted(saved.lives.items(), key=lambda one: one[1]["offset"]):
            kernel._begin(life_of(name, life))
            kernel._lives[name].shown = dict(facts.get("shown", {}).get(name, {}))
        kernel._change()
        kernel._take(saved.rows.tables)
        return kernel

    def _take(self, tables: Mapping[str, Occurrences]) -> None:
        """Go on from these tables; they have to be those of this very plan."""
        if set(tables) != set(self._tables()):
            raise refused("belongs to another plan of the same subscriptions")
        names, digests = self._shared.names, self._shared.builder.digests
        for id_, running in self._detector.running.items():
            own = {name: tables[table_name(digests[id_], name)] for name in running.tables()}
            running.load({name: in_working_order(running, name, table, names) for name, table in own.items()})
        for name, distinct in self._delivered().items():
            distinct.seen = tables[table_name(name, "delivered")]

    def advance(self, records: pa.RecordBatch, course: Course | None = None) -> pa.RecordBatch:
        """The notifications that some more records of the log make final, with the offsets of those records.

        With a ``course``, the records are those of its range that are of concern here, all control records among them.
        """
        found: list[pa.RecordBatch] = []
        for part in parts(records, self._lateness, course):
            if part.control is not None:
                self._control(part.control)
            found += self._stretch(part)
        return in_order(found)

    def tell(self, records: Sequence[RecordRow]) -> list[tuple[Notification, int]] | None:
        """As `advance`, for a few events and in Python values; None when somebody combines events, or is to be told
        something else: then nothing has been done.
        """
        is_matching = not (self._at or self._told or self._is_changed) and self._bucket is None
        if not is_matching or any(record.kind != "event" for record in records):
            return None
        reached = [_reached(record, self._lateness) for record in records]
        self._frontier = max(self._frontier, standing(max(reached)))
        seen = [record for record in records if not record.late]
        self._has_events = self._has_events or bool(seen)
        self._last = records[-1].offset
        return self._matcher.tell(seen) if seen and self._matcher.subscriptions else []

    def spread(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, Ints]:
        """What some more records mean to those who wait for single EVENTs; and the offsets of events that may combine
        with others, each with a bucket it has to go to, by bucket.
        """
        assert self._buckets is not None
        told: list[pa.RecordBatch] = []
        places = [np.empty((0, 2), np.int64)]
        for part in parts(records, self._lateness):
            if part.control is not None:
                self._control(part.control)
            if not len(part.events):
                continue
            if self._is_changed:
                self._change()
            if self._matcher.subscriptions:
                told.append(self._matcher.notify(part.events))
            for id_, table in self._leaves.occurrences(part.events, self.names).items():
                numbers = self._buckets.of(self._shared.builder.nodes[id_], table, self.names)
                places.append(np.stack([numbers, table.rows[:, FIRST]], axis=1))
            self.names.keep(())
        return in_order(told), np.unique(np.concatenate(places), axis=0)

    def _control(self, record: dict[str, object]) -> None:
        """Let a control record take effect."""
        offset, name = record["offset"], record["id"]
        assert isinstance(offset, int)
        self._is_changed = True
        match record["kind"]:
            case "subscribe":
                if self._only is not None and (offset not in self._only or self._is_shown_to(name)):
                    return
                (subscription,) = parsed(str(record["text"]), f"subscription {name!r} in the log")
                self._subscribe(subscription, offset)
                return
            case "unsubscribe" if not self._is_shown_to(name):
                self._lives.pop(str(name), None)
                self._reaching_back.discard(str(name))
            case "background":
                self._change_background(record)
            case "retract":
                self._retracted[str(name)] = offset
        self._last = offset

    def _is_shown_to(self, name: object) -> bool:
        """Whether this is the past of a subscription of that name: an earlier life of it is of no concern."""
        return self._past is not None and self._past.life.subscription.name == name

    def _change_background(self, record: dict[str, object]) -> None:
        rows = record["triples"]
        assert isinstance(rows, list)
        change = frozenset((row["subject"], row["predicate"], row["object"]) for row in rows)
        removes = record["text"] == "remove"
        self._background = self._background - change if removes else self._background | change

    def _subscribe(self, subscription: Subscription, offset: int) -> None:
        feeding = self._feeding or self._feed_by(self._background)
        past = subscription.since is not None and self._has_events and self._history is not None
        derives = isinstance(subscription.delivery, Construct)
        if self._is_elsewhere(subscription, past=past):
            return
        alone = past or (derives and feeds_itself(subscription, feeding)) or bool(self._reaching_back)
        start = Start(offset if past else self._last, subscription.since)
        life = Life(subscription, offset, start, alone, self._frontier)
        if derives:
            self._deriving.add(offset)
        self._begin(life)
        if isinstance(subscription.delivery, Events) and (past or life.root is not None):
            self._shared.names.events.with_triples = True
        if past:
            self._replay(life)
            self._last = offset

    def _is_elsewhere(self, subscription: Subscription, *, past: bool) -> bool:
        """Single EVENTs are matched before events are spread; only their past and derived events are for buckets."""
        if self._buckets is None or self._bucket is None:
            return False
        if is_single(subscription) and not past and subscription.name not in self._buckets.fed:
            return True
        return not self._buckets.has(self._bucket, subscription)

    def _feed_by(self, background: frozenset[Triple]) -> Reasoner:
        """Who feeds whom is decided once and for all."""
        self._feeding_background = background
        self._feeding = background_of(background, self._asked_entailment or _entailment_of(background)).reasoner
        return self._feeding

    def _begin(self, life: Life) -> None:
        self._lives[life.subscription.name] = life
        if isinstance(life.subscription.delivery, Construct):
            life.templates = Templates(life.subscription.delivery.templates)
            if life.subscription.since is not None:
                self._reaching_back.add(life.subscription.name)
        if not is_single(life.subscription):
            self._root(life)

    def _root(self, life: Life) -> None:
        routes = self._buckets.routes(life.subscription) if self._buckets else None
        of = life.subscription, life.start, life.is_alone, frozenset(routes.items()) if routes else None
        known, life.root = self._shared.roots.get(life.subscription.name, (None, None))
        if life.root is None or known != of:
            life.root = self._shared.builder.root(life.subscription, life.start, alone=life.is_alone, routes=routes)
            self._shared.roots[life.subscription.name] = of, life.root
        node = self._shared.builder.nodes[life.root.node]
        life.delivery = delivery(life.root, node, life.offset)

    def _replay(self, life: Life) -> None:
        """Show a subscription the past, as if it had been registered before; what it finds is due now."""
        assert self._history is not None
        is_matched = life.root is None
        if is_matched:
            self._root(life)
        past = Kernel(
            lateness=self._lateness,
            background=self._given,
            entailment=self._asked_entailment,
            history=self._history,
            buckets=self._buckets,
            bucket=self._bucket,
            sharing=self._shared,
        )
        past._feeding, past._only = self._feeding, self._deriving
        life.told = past._shown(life, self._history(life.offset), self._retracted)
        self._told.append(life)
        self._detector.running.update(past._detector.running)
        self._shared.kernels.remove(past)
        if is_matched:
            life.root = None

    def _shown(self, life: Life, history: Iterable[pa.RecordBatch | Extract], retracted: dict[str, int]) -> Occurrences:
        """What a subscription finds in the past; only its own nodes are left running."""
        assert life.subscription.since is not None and life.root is not None and life.delivery is not None
        own = self._shared.builder.below([life.root])
        self._past = Past(life, life.subscription.since, retracted, own)
        self._lives[life.subscription.name] = life
        self._is_changed = True
        for read in history:
            self.advance(*((read.records, read.course) if isinstance(read, Extract) else (read,)))
        self._detector.running = {id_: one for id_, one in self._detector.running.items() if id_ in own}
        return concatenated([none(len(life.delivery.names)), *self._past.found])

    def _stretch(self, part: Part) -> list[pa.RecordBatch]:
        """The notifications of records between two control records, the first of which has taken effect."""
        before, self._frontier = self._frontier, max(self._frontier, standing(int(part.reached.max())))
        told, self._told = self._told, []
        if part.is_subscription and not told:
            return []
        if self._is_changed:
            self._change()
        is_matching = self._bucket is None and len(part.events) > 0
        found = [self._matcher.notify(part.events)] if is_matching and self._matcher.subscriptions else []
        if self._at or told:
            frontier = Frontier.along(part.offsets, part.reached, before)
            self._frontier = frontier.now
            found += self._detected(part.events, frontier, told)
        if not part.is_subscription:
            self._last = int(part.offsets[-1])
        self._has_events = self._has_events or part.has_events
        if self._deriving and not self._past:
            self._forget_shown()
        return found

    def _change(self) -> None:
        """Put the subscriptions in force to work."""
        self._is_changed = False
        singles = tuple(life.subscription for life in self._lives.values() if life.root is None)
        if (self._background, self._entailment) != (self._matcher.background, self._matcher.entailment):
            self._matcher = Matcher(singles, self._background, self._entailment)
        elif singles != self._matcher.subscriptions:
            self._matcher = self._matcher.changed(singles)
        roots = [life.root for life in self._lives.values() if life.root is not None]
        self._at = {root.node: [] for root in roots}
        for root in roots:
            self._at[root.node].append(self._lives[root.subscription.name])
        self._audiences = {
            id_: Audience([life.delivery for life in lives if life.delivery is not None])
            for id_, lives in self._at.items()
            if all(life.is_plain for life in lives)
        }
        builder = self._shared.builder
        self._fed = Feeding(self._lives, builder, self._feeding)
        nodes = self._fed.ordered(builder.below(roots))
        self._detector.change(nodes, repeating(nodes), lags(nodes, self._fed.leaf_lag))
        self._leaves.change(leaf_nodes(nodes, builder), self._background, self._entailment)
        if len(self._shared.kernels) == 1:
            self._shared.keep([*roots, *self._fed.roots])
            if not roots and all(life.told is None for life in self._lives.values()):
                self.names.keep(())

    def _detected(self, events: pa.RecordBatch, frontier: Frontier, told: Sequence[Life]) -> list[pa.RecordBatch]:
        names = self._shared.names
        if names.is_crowded:
            self._tidy(frontier)
        leaves = self._leaves.occurrences(events, names)
        if self._keep:
            leaves = {id_: self._keep(id_, table, names) for id_, table in leaves.items()}
        if self._buckets:
            leaves = {id_: self._own(self._buckets, id_, table) for id_, table in leaves.items()}
        if self._past:
            leaves = {id_: self._past.visible(id_, table, names) for id_, table in leaves.items()}
        found = _Found()
        for life in told:
            assert life.told is not None
            for id_, table in self._tell(life, life.told, found).items():
                leaves[id_] = concatenated([leaves[id_], table]) if id_ in leaves else table
            life.told = None

        def at(id_: int, table: Occurrences) -> dict[int, Occurrences]:
            now = Now(frontier, names, lag=self._detector.lag_of(id_))
            if told := self._told_alike(id_, table, now):
                found.plain.append(told)
                return {}
            fed: dict[int, Occurrences] = {}
            for life in self._at.get(id_, ()):
                assert life.delivery is not None
                for leaf, more in self._tell(life, life.delivery.advance(table, now), found).items():
                    fed[leaf] = concatenated([fed[leaf], more]) if leaf in fed else more
            return fed

        self._detector.advance(leaves, frontier, at)
        return found.notifications(names)

    def _told_alike(self, id_: int, table: Occurrences, now: Now) -> Told | None:
        """What a node has found, if all who wait for it are told of it, and of nothing but it."""
        audience = None if self._past else self._audiences.get(id_)
        return audience.told(table, now) if audience else None

    def _own(self, buckets: Buckets, leaf: int, table: Occurrences) -> Occurrences:
        """Those that belong into this kernel's bucket."""
        return table.take(buckets.of(self._shared.builder.nodes[leaf], table, self.names) == self._bucket)

    def _tell(self, life: Life, table: Occurrences, found: _Found) -> dict[int, Occurrences]:
        """Deliver what a subscription has found; what its derived events mean to leaves is returned."""
        if not len(table):
            return {}
        if self._past and self._past.life is life:
            self._past.found.append(table)
            return {}
        names = self._shared.names
        assert life.delivery is not None
        if life.is_plain:
            found.plain.append(alone(life.delivery, table))
            return {}
        batch = notifications([alone(life.delivery, table)], names)
        if isinstance(life.subscription.delivery, Events):
            batch = with_graphs(batch, table, names)
        derived: list[list[Derived]] = []
        if life.templates is not None:
            derived = [
                life.templates.derived(notification.id, solutions(life.delivery.names, table, row, names))
                for row, (notification, _) in enumerate(notification_rows(batch))
            ]
            batch = with_constructs(
                batch, [sorted({line for one in events for line in one.lines}) for events in derived]
            )
        found.finished.append(batch)
        return self._feed(life, table, derived, found)

    def _feed(
        self, life: Life, table: Occurrences, derived: Sequence[Sequence[Derived]], found: _Found
    ) -> dict[int, Occurrences]:
        """Show derived events to those they feed."""
        fed: dict[int, Occurrences] = {}
        name = life.subscription.name
        for clause in sorted({event.clause for events in derived for event in events}):
            rows = [(row, event) for row, events in enumerate(derived) for event in events if event.clause == clause]
            if feeds_ := self._fed.of(name, clause):
                events, emitted = self._records(table, rows)
                for id_, more in self._seen(life, events, emitted, feeds_).items():
                    fed[id_] = concatenated([fed[id_], more]) if id_ in fed else more
                found.finished += self._matched(life, events, emitted, feeds_)
        return fed

    def _records(self, table: Occurrences, rows: Sequence[tuple[int, Derived]]) -> tuple[pa.RecordBatch, Ints]:
        """Derived events as records with numbers of their own, and the offsets they stand at."""
        places = np.array([row for row, _ in rows], np.int64)
        chosen = table.rows[places]
        records = as_records([event for _, event in rows], chosen[:, START], chosen[:, END], self._shared.derived)
        self._shared.derived += len(rows)
        return records, chosen[:, EMITTED]

    def _seen(
        self, producer: Life, events: pa.RecordBatch, emitted: Ints, fed: Sequence[Feed]
    ) -> dict[int, Occurrences]:
        """The leaves' occurrences of derived events, which stand where their notifications do."""
        first = int(events.column("offset")[0].as_py())
        consumers = {feed.node: self._lives[feed.consumer] for feed in fed if self._lives[feed.consumer].root}
        found = self._leaves.occurrences(events, self._shared.names, only=consumers)
        seen, news = {}, []
        for id_, table in found.items():
            places = emitted[table.events - first]
            placed = table.with_column(EMITTED, places).with_column(FIRST, places)
            if self._past and self._past.life is consumers[id_]:
                placed = self._past.visible(id_, placed, self._shared.names, always=True)
            elif consumers[id_].offset < producer.offset:
                placed = placed.take(placed.rows[:, END] >= producer.frontier)
            ids = self._shared.names.events.ids(placed.events).to_pylist()
            seen[id_] = placed.take(~consumers[id_].has_seen(ids))
            news.append((consumers[id_], dict(zip(ids, placed.rows[:, END].tolist(), strict=True))))
        for life, ends in news:  # now that all its leaves have seen them
            life.shown.update(ends)
        return seen

    def _matched(
        self, producer: Life, events: pa.RecordBatch, emitted: Ints, fed: Sequence[Feed]
    ) -> list[pa.RecordBatch]:
        """The notifications of subscriptions of a single EVENT that derived events feed."""
        consumers = [self._lives[feed.consumer] for feed in fed if not self._lives[feed.consumer].root]
        if self._past or not consumers:
            return []
        found = self._matcher.notify(events)
        index = found.schema.get_field_index("offset")
        places = emitted[np.asarray(found.column(index)) - int(events.column("offset")[0].as_py())]
        found = found.set_column(index, found.schema.field(index), pa.array(places))
        ends = np.asarray(found.column("end").cast(pa.int64()))
        names = np.asarray(found.column("subscription").to_pylist(), object)
        ids = found.column("events").flatten().to_pylist()
        kept = np.zeros(len(found), np.bool_)
        for life in consumers:
            on_time = (ends >= producer.frontier) if life.offset < producer.offset else (places > life.offset)
            own = (names == life.subscription.name) & on_time
            kept |= own & ~life.has_seen(ids)
            life.shown.update((ids[row], int(ends[row])) for row in np.flatnonzero(own))
        return [found.filter(pa.array(kept))]

    def _forget_shown(self) -> None:
        for life in self._lives.values():
            if life.shown:
                life.forget(self._frontier)

    def _tidy(self, frontier: Frontier) -> None:
        """Forget what nobody can ask for any more."""
        self._detector.sweep(Frontier(frontier.offsets[:0], frontier.instants[:0], frontier.before, frontier.first))
        kernels = self._shared.kernels
        stores = [running for kernel in kernels for running in kernel._detector.running.values()]
        seen = {id(one): one for kernel in kernels for one in kernel._delivered().values()}.values()
        pasts = [kernel._past for kernel in kernels if kernel._past]
        told = [life for life in self._lives.values() if life.told is not None]
        tables = [table for store in stores for table in store.tables().values()]
        tables += [distinct.seen for distinct in seen] + [table for past in pasts for table in past.found]
        renumbered = self._shared.names.keep([*tables, *(life.told for life in told if life.told is not None)])
        for store in stores:
            due = store.due
            store.load({name: renumbered(table) for name, table in store.tables().items()})
            store.due = due
        for distinct in seen:
            distinct.seen = renumbered(distinct.seen)
        for past in pasts:
            past.found = list(map(renumbered, past.found))
        for life in told:
            life.told = None if life.told is None else renumbered(life.told)


def _reached(event: RecordRow, lateness: int | None) -> int:
    """Where the frontier stands after an event."""
    before = NOWHERE if event.frontier is None else event.frontier
    return before if lateness is None or event.end is None else max(before, event.end - lateness)


def _entailment_of(background: frozenset[Triple]) -> str:
    """What is entailed when nothing is asked for: without a background there is nothing to reason with."""
    return "owl-rl" if background else "none"
