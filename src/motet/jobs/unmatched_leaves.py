"""The leaves of a run or a replay that no event matched, each with the nearest reason, and unknown names.

The events are read a second time, by few leaves: a leaf that a notification needs has matched, so only the leaves of
subscriptions without a notification, and those on an optional or absent side, are looked at. Reading ends as soon as
all of them have matched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from motet.engine.match.leaf import LeafQuery
from motet.engine.match.matcher import Matcher
from motet.language import syntax
from motet.language.syntax import Event, Subscription
from motet.lint.ontology_rules import UnknownName, UnknownNames, similar_name
from motet.model.batches import EventRow, Records, Triple, event_rows
from motet.model.terms import RDF_TYPE, iri
from motet.ontology.entailment import Entailment, Reasoner
from motet.plan.builder import build_plan
from motet.plan.derivation_edges import derivation_edges

if TYPE_CHECKING:
    from motet.provenance import obstacles
    from motet.provenance.text import TextStyle

MAX_EVENTS = 50_000  # that are read a second time
MAX_LEAVES = 100  # that are looked at; the others are counted
MAX_SAMPLE = 200  # events that are compared with a leaf one by one

ReadWith = tuple[frozenset[Triple], str]  # the background and the entailment that events are read with
EventBatches = Iterable[tuple[pa.RecordBatch, ReadWith]]


@dataclass(frozen=True)
class UnmatchedLeaf:
    """A leaf that no event matched."""

    subscription: str
    leaf: str
    reason: str
    name: str | None = None  # the class or property that is missing, if that is the reason

    def text(self, matched: str = "no event") -> str:
        """A sentence; ``matched`` says what of the events did not match."""
        return f"EVENT {self.leaf} of '{self.subscription}' matched {matched}: {self.reason}"


@dataclass
class EventFindings:
    """What the events of a run say about the leaves and names of its subscriptions."""

    unmatched: list[UnmatchedLeaf] = field(default_factory=list)
    unknown: tuple[UnknownName, ...] = ()
    others: int = 0  # leaves that were not looked at
    events: int = 0  # that were read
    is_complete: bool = True  # all events were read, or more are not needed

    def add(self, other: EventFindings) -> None:
        """Add the findings about other subscriptions over the same events."""
        self.unmatched += other.unmatched
        self.unknown += other.unknown
        self.others += other.others
        self.events = max(self.events, other.events)
        self.is_complete &= other.is_complete

    def lines(self) -> Iterator[str]:
        """One line for each finding; an unknown name that is the reason of a leaf is not repeated."""
        missing = {leaf.name for leaf in self.unmatched}
        yield from (str(unknown) for unknown in self.unknown if unknown.name not in missing)
        matched = "no event" if self.is_complete else f"none of the first {self.events} events"
        yield from (leaf.text(matched) for leaf in self.unmatched)
        if self.others:
            yield f"leaves that were not looked at: {self.others}"


def find_unmatched(
    subscriptions: Sequence[Subscription],
    notified: Iterable[str],
    read: Callable[[], EventBatches],
    background: ReadWith,
    *,
    prefixes: Callable[[], Mapping[str, str]] = dict,
    names: UnknownNames | None = None,
) -> EventFindings:
    """The leaves that none of the events matched; ``notified`` are the subscriptions with a notification.

    ``names``, if given, observes the events, too: those that no event has are in the findings if all were read.
    """
    leaves = _candidates(subscriptions, set(notified), background)
    looked_at = dict(islice(leaves.items(), MAX_LEAVES))
    findings = EventFindings(others=len(leaves) - len(looked_at))
    search = _Search(looked_at, names)
    for events, how_read in read() if search.is_open else ():
        if findings.events >= MAX_EVENTS:
            findings.is_complete = False
            break
        search.add(events, how_read)
        findings.events += events.num_rows
        if not search.is_open:
            break
    if search.unmatched:
        from motet.provenance.text import TextStyle

        style = TextStyle(dict(prefixes()))
        findings.unmatched = [
            UnmatchedLeaf(*key, *search.reason(key, style)) for key in looked_at if key in search.unmatched
        ]
    findings.unknown = names.found() if names is not None and findings.is_complete else ()
    return findings


LeafKey = tuple[str, str]  # a subscription and the name of an EVENT


def _candidates(
    subscriptions: Sequence[Subscription], notified: set[str], background: ReadWith
) -> dict[LeafKey, Event]:
    """The leaves that may have matched nothing, without those that derived events feed."""
    fed: set[str] = set()
    if any(isinstance(each.delivery, syntax.Construct) for each in subscriptions):
        triples, entailment = background
        edges = derivation_edges(build_plan(subscriptions), Reasoner(triples, Entailment(entailment)))
        fed = {edge.consumer for edge in edges}
    found: dict[LeafKey, Event] = {}
    for subscription in subscriptions:
        if subscription.name not in fed:
            certain = _required(subscription.pattern) if subscription.name in notified else frozenset()
            found |= {(subscription.name, e.name): e for e in subscription.events if e.name not in certain}
    return found


def _required(pattern: syntax.Pattern) -> frozenset[str]:
    """The leaves that every occurrence of a pattern has an event of."""
    match pattern:
        case syntax.Leaf(name):
            return frozenset({name})
        case syntax.And(left, right) | syntax.Timed(left=left, right=right) | syntax.Alongside(left, right):
            return _required(left) | _required(right)
        case syntax.Unless(operand) | syntax.Without(operand) | syntax.Within(operand) | syntax.Filter(operand):
            return _required(operand)
        case syntax.Times(operand) | syntax.Run(operand):
            return _required(operand)
    return frozenset()


class _Search:
    """The leaves that no event has matched so far, and what the events have instead."""

    def __init__(self, leaves: dict[LeafKey, Event], names: UnknownNames | None) -> None:
        self._leaves = leaves
        self.unmatched = set(leaves)
        self._names = names
        self._matchers: dict[ReadWith, Matcher] = {}
        self._classes: set[str] = set()  # of events and of their inner nodes
        self._properties: set[str] = set()
        self._first: list[tuple[EventRow, ReadWith]] = []
        self._by_class: defaultdict[str, list[tuple[EventRow, ReadWith]]] = defaultdict(list)

    @property
    def is_open(self) -> bool:
        return bool(self.unmatched) or (self._names is not None and self._names.is_open)

    def add(self, events: pa.RecordBatch, background: ReadWith) -> None:
        if self._names is not None:
            self._names.observe(events)
        if not self.unmatched or not events.num_rows:
            return
        self._note_names(events)
        self._match(events, background)
        if self.unmatched:
            self._sample(events, background)

    def _match(self, events: pa.RecordBatch, background: ReadWith) -> None:
        classes = {_class_of(self._leaves[key]) for key in self.unmatched}
        if background[1] == "none" and classes.isdisjoint({None, *self._classes}):
            return  # without inference an event of another class cannot match
        if background not in self._matchers:
            queries = [LeafQuery("\t".join(key), self._leaves[key], ()) for key in sorted(self.unmatched)]
            self._matchers[background] = Matcher(tuple(queries), *background)
        for matches in self._matchers[background].solve(Records(columns=events)):
            for part in (matches.decided, matches.verified):
                for leaf in set(part.leaf.tolist()) if part is not None else ():
                    subscription, _, name = matches.segment.leaves.leaf(leaf).name.partition("\t")
                    self.unmatched.discard((subscription, name))

    def _note_names(self, events: pa.RecordBatch) -> None:
        triples = events.column("triples").flatten()
        predicates, objects = triples.field("predicate"), triples.field("object")
        self._properties.update(pc.unique(predicates).to_pylist())
        self._classes.update(pc.unique(objects.filter(pc.equal(predicates, RDF_TYPE))).to_pylist())

    def _sample(self, events: pa.RecordBatch, background: ReadWith) -> None:
        """Retain some events for the reasons: the first ones, and those that mention the class of a leaf."""
        if (room := MAX_SAMPLE - len(self._first)) > 0:
            self._first += ((row, background) for row in event_rows(events.slice(0, room)))
        triples = events.column("triples")
        is_type = pc.equal(triples.flatten().field("predicate"), RDF_TYPE)
        for class_ in {_class_of(self._leaves[key]) for key in self.unmatched} & self._classes:
            if class_ is not None and (room := MAX_SAMPLE - len(self._by_class[class_])) > 0:
                has_class = pc.and_(is_type, pc.equal(triples.flatten().field("object"), class_))
                rows = pc.unique(pc.list_parent_indices(triples).filter(has_class)).slice(0, room)
                self._by_class[class_] += ((row, background) for row in event_rows(events.take(rows)))

    def reason(self, key: LeafKey, style: TextStyle) -> tuple[str, str | None]:
        """The nearest reason, and the class or property that is missing, if that is it."""
        from motet.provenance import obstacles
        from motet.provenance.obstacle_text import leaf_obstacle_text

        leaf = self._leaves[key]
        class_ = _class_of(leaf)
        samples = [*self._by_class.get(class_ or "", ())[:MAX_SAMPLE], *self._first]
        if not samples:
            return "there is no event", None
        _, obstacle, event = max((_failure(leaf, *sample) for sample in samples), key=lambda failure: failure[0])
        match obstacle:
            case obstacles.WrongClass(wanted=wanted) if wanted == class_:
                return self._class_reason(leaf, wanted, style), wanted
            case obstacles.NoTriple(predicate=predicate) if predicate not in self._properties:
                similar = self._similar(predicate, self._properties, style)
                return f"no event has the property {style.term(predicate)}{similar}", predicate
        return f"the nearest event is {style.event(event)}: {leaf_obstacle_text(obstacle, event, style)}", None

    def _class_reason(self, leaf: Event, wanted: str, style: TextStyle) -> str:
        for row, _ in self._by_class.get(wanted, ()):
            for subject, predicate, value in row.triples:
                if (predicate, value) == (RDF_TYPE, wanted) and subject != iri(row.id):
                    return (
                        f"its class {style.term(wanted)} is on an inner node, {style.term(subject)} in the event "
                        f"{style.event(row.id)}. The class of an EVENT is that of the event itself: "
                        f"write {{ ?{leaf.name} ?p ?x . ?x a {style.term(wanted)} }}"
                    )
        return f"no event of the class {style.term(wanted)}{self._similar(wanted, self._classes, style)}"

    def _similar(self, name: str, known: set[str], style: TextStyle) -> str:
        similar = similar_name(name, known - {name})
        return f"; did you mean {style.term(similar)}?" if similar else ""


def _class_of(event: Event) -> str | None:
    return iri(event.class_iri) if event.class_iri else None


def _failure(leaf: Event, row: EventRow, background: ReadWith) -> tuple[tuple[int, bool], obstacles.Obstacle, str]:
    """How near an event is to a leaf, and what keeps it from matching."""
    from motet.provenance.leaf_explanation import match_failure
    from motet.reference.leaves import BackgroundGraph

    triples, entailment = background
    graph = BackgroundGraph(triples, Entailment(entailment))
    met, obstacle = match_failure(leaf, row.id, frozenset(row.triples), graph, row.payload)
    has_class = any(triple[1:] == (RDF_TYPE, _class_of(leaf)) for triple in row.triples)
    return (met, has_class), obstacle, row.id
