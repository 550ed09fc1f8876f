"""Class and property names of subscriptions that neither the ontology nor an event has: probably misspelt.

The events are given batch by batch. As soon as every name is known, looking at a batch costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow as pa
import pyarrow.compute as pc

from motet.codec.options import stored_mapping
from motet.codec.row_mapping import PropertyColumn
from motet.language.syntax import Construct, Subscription, Template
from motet.lint.value_types import path_properties
from motet.model.batches import Triple
from motet.model.terms import OWL, RDF, RDF_TYPE, RDFS, iri, is_iri
from motet.ontology.drawing import short_name
from motet.sparql import algebra

MAX_SEEN = 10_000  # names of events that are kept to be offered instead
_GENERAL = tuple(f"<{namespace}" for namespace in (RDF, RDFS, OWL))


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name that nothing has; ``similar`` is the nearest name that something has."""

    kind: str  # "class" or "property"
    name: str
    subscriptions: tuple[str, ...]
    similar: str | None = None

    def __str__(self) -> str:
        users = ", ".join(f"'{name}'" for name in self.subscriptions)
        advice = f"; did you mean {self.similar}?" if self.similar else "; check its spelling and prefix"
        return f"no event and no ontology has the {self.kind} {self.name}, which {users} requires{advice}"


class UnknownNames:
    """The names of subscriptions that are not known yet.

    >>> from motet.language.parse import parse
    >>> names = UnknownNames(parse("SUBSCRIPTION s EVENT e : <urn:Smoke> { ?e <urn:room> ?r } WHEN e"))
    >>> names.observe_names(classes=["<urn:Smokes>"], properties=["<urn:room>"])
    >>> print(*names.found())
    no event and no ontology has the class <urn:Smoke>, which 's' requires; did you mean <urn:Smokes>?
    """

    def __init__(self, subscriptions: Iterable[Subscription], background: Iterable[Triple] = ()) -> None:
        subscriptions = tuple(subscriptions)
        known = {term for triple in background for term in triple}
        known.update(name for subscription in subscriptions for _, name in _derived_names(subscription))
        self._users: dict[tuple[str, str], list[str]] = {}
        for subscription in subscriptions:
            for kind, name in dict.fromkeys(_required_names(subscription)):
                if name not in known and not name.startswith(_GENERAL):
                    self._users.setdefault((kind, name), []).append(subscription.name)
        self._seen: dict[str, set[str]] = {"class": set(), "property": set()}
        self._observed = False

    @property
    def is_open(self) -> bool:
        """Whether there are names that are not known yet."""
        return bool(self._users)

    def observe(self, events: pa.RecordBatch) -> None:
        """Note the names of a batch of EVENTS or RECORDS; only its column ``triples`` is read."""
        if not self._users or not len(events):
            return
        triples = events.column("triples").flatten()
        predicates, objects = triples.field("predicate"), triples.field("object")
        is_type = pc.equal(predicates, RDF_TYPE)
        self.observe_names(
            classes=pc.unique(objects.filter(is_type)).to_pylist(), properties=pc.unique(predicates).to_pylist()
        )

    def observe_names(self, *, classes: Iterable[str], properties: Iterable[str]) -> None:
        """Note names of events, as terms."""
        self._observed = True
        for kind, names in (("class", classes), ("property", properties)):
            for name in names:
                self._users.pop((kind, name), None)
                if len(self._seen[kind]) < MAX_SEEN:
                    self._seen[kind].add(name)

    def found(self) -> tuple[UnknownName, ...]:
        """The names that nothing has, sorted; none before an event was observed."""
        if not self._observed:
            return ()
        return tuple(
            UnknownName(kind, name, tuple(users), similar_name(name, self._seen[kind]))
            for (kind, name), users in sorted(self._users.items())
        )


def _required_names(subscription: Subscription) -> Iterator[tuple[str, str]]:
    for event in subscription.events:
        for triple in _triples(event.algebra):
            yield from _names(triple)


def _derived_names(subscription: Subscription) -> Iterator[tuple[str, str]]:
    """The names of the events that a subscription derives."""
    if isinstance(subscription.delivery, Construct):
        for template in subscription.delivery.templates:
            if isinstance(template, Template):
                for triple in template.triples:
                    yield from _names(triple)
            else:
                for mapping in map(stored_mapping, template.mappings):
                    yield from (("class", iri(each.text)) for each in mapping.classes)
                    yield from _lifted_names(mapping.properties)


def _lifted_names(properties: Iterable[PropertyColumn]) -> Iterator[tuple[str, str]]:
    """The names of triples that a mapping lifts from documents."""
    for each in properties:
        yield "property", iri(each.property)
        if each.node is not None:
            yield from (("class", iri(class_.text)) for class_ in each.node.classes)
            yield from _lifted_names(each.node.properties)


def _names(triple: algebra.Triple) -> Iterator[tuple[str, str]]:
    if triple.predicate == RDF_TYPE:
        yield from [("class", triple.object)] if is_iri(triple.object) else []
    yield from (("property", name) for name in path_properties(triple.predicate))


def _triples(pattern: algebra.Algebra) -> Iterator[algebra.Triple]:
    """The triples of a pattern, those of OPTIONAL and UNION included; conditions are not looked into."""
    stack = [pattern]
    while stack:
        match stack.pop():
            case algebra.Bgp(triples):
                yield from triples
            case algebra.Join(left, right) | algebra.LeftJoin(left, right) | algebra.Union(left, right):
                stack += [right, left]
            case algebra.Minus(left, right):
                stack += [right, left]
            case algebra.Filter(operand, _) | algebra.Extend(operand, _, _):
                stack.append(operand)


def similar_name(name: str, known: Iterable[str]) -> str | None:
    """The known name whose last part is most like that of a name; names of the same namespace first.

    >>> similar_name("<urn:x:Smok>", ["<urn:x:Smoke>", "<urn:y:Smoke>", "<urn:x:Fire>"])
    '<urn:x:Smoke>'
    """
    namespace = name[: name.rfind(short_name(name))]
    ordered = sorted(known, key=lambda other: (other.startswith(namespace), other))
    by_part = {short_name(other): other for other in ordered if is_iri(other)}
    close = get_close_matches(short_name(name), by_part, n=1, cutoff=0.75)
    return by_part[close[0]] if close else None
