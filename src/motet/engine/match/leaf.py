"""A leaf as the matcher takes it, and what the index stores of it.

The index stores constants, ranges and properties to read. A leaf that these describe completely has a projection, from
which its solutions are made column by column. Any other leaf is pre-selected by the index and then verified.

Values are compared as float64. Rounding keeps the order, so two values that differ as float64 compare like the terms;
where they are equal, only exact values decide. ``WIDE`` values (xsd:float, which makes the other side lose digits; a
dateTime without a zone) are approximate: inside an interval or close to it, the terms decide.

A prefix test is a constant as well: for each length of prefix a property has one more name, which is no IRI, and under
that name the encoder stores the first bytes of its values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import NamedTuple

from motet.engine.match.search_kernels import PREFIX_MARK
from motet.language.syntax import Event, Expression
from motet.model.terms import RDF_TYPE
from motet.plan.leaves import EVENT_VARIABLE, LeafPredicates, Prefix, PropertyRead, normalise
from motet.sparql.algebra import EMPTY
from motet.sparql.temporal import SCALE, Moment
from motet.sparql.values import NUMERIC_RANK, Value, decode

MAX_CHOICES = 32  # combinations of an IN's terms that are worth an entry each
EVENT_IRI, EVENT_START, EVENT_END, MATCHED_ROW, READ_VALUE = range(5)


LeafBindings = tuple[tuple[str, str], ...]  # names and terms, by name


@dataclass(frozen=True, slots=True)
class LeafQuery:
    """A leaf to be matched: what an event must have, and which variables a solution returns."""

    name: str  # unique in a matcher: a subscription's, or that of a plan node
    event: Event
    variables: tuple[str, ...]  # sorted
    max_length: int | None = None  # of the event's interval, in microseconds
    conditions: tuple[Expression, ...] = ()  # on the solution
    with_triples: bool = False  # the event's triples are part of the result


@dataclass(frozen=True, slots=True)
class LeafShape:
    """The predicates of a leaf without its constants. All have the event as subject."""

    constants: tuple[str, ...]  # predicates with a constant
    ranges: tuple[tuple[str, int], ...]  # predicates with the kind of their values
    reads: tuple[str, ...]  # predicates that must be present

    def predicates(self) -> Iterator[str]:
        yield from (*self.constants, *(predicate for predicate, _ in self.ranges), *self.reads)


@dataclass(frozen=True, slots=True)
class BindingSource:
    """The source of a binding: the event, its times, the row that matched a constant or range, or a value read."""

    kind: int
    row_index: int = 0  # of the constant or range
    predicate: str = ""  # that is read


@dataclass(frozen=True, slots=True)
class LeafProjection:
    """The bindings that a leaf returns, by name."""

    bindings: tuple[tuple[str, BindingSource], ...]


@dataclass(frozen=True, slots=True)
class LeafEntry:
    """A leaf as the index stores it."""

    shape: LeafShape
    terms: tuple[tuple[str, ...], ...]  # of the constants; several rows for the terms of an IN
    intervals: tuple[ValueInterval, ...]
    projection: LeafProjection | None  # None: to be verified


def leaf_entry(leaf: LeafQuery) -> LeafEntry:
    """
    >>> from motet.language.parse import parse
    >>> (event,) = parse("SUBSCRIPTION s EVENT e : <urn:A> { ?e <urn:p> ?x FILTER(?x > 3) } WHEN e")[0].events
    >>> entry = leaf_entry(LeafQuery("s", event, ("e", "x")))
    >>> entry.shape.ranges, entry.intervals
    ((('<urn:p>', 1),), (ValueInterval(low=3.0, high=inf, flags=1),))
    >>> [name for name, _ in entry.projection.bindings]
    ['e', 'x']
    """
    predicates, names = normalise(leaf.event)
    reader = _LeafReader(predicates)
    is_exact = leaf.event.xml is None and reader.is_exact and (bool(predicates.triples()) or matches_any(leaf.event))
    is_index_decided = is_exact and not leaf.conditions and not leaf.with_triples
    projection = _projection(leaf, reader, names) if is_index_decided else None
    return LeafEntry(reader.shape, reader.terms, reader.intervals, projection)


def matches_any(event: Event) -> bool:
    """Whether the EVENT has neither class nor body, so that every graph matches, whatever the background says."""
    return event.class_iri is None and not (event.body and event.body.text.strip())


class _LeafReader:
    """The predicates of a leaf, sorted into constants, ranges and reads."""

    def __init__(self, leaf: LeafPredicates) -> None:
        self.leaf = leaf
        variables = Counter(read.variable for read in leaf.reads)
        reads = {read.variable: read for read in leaf.reads if read.variable != EVENT_VARIABLE}
        choices = {choice.variable: choice.terms for choice in leaf.choices if choice.variable in reads}
        ranges = [test for test in leaf.ranges if test.variable in reads]
        intervals = {v: [value_interval(t.operator, t.constant) for t in ranges if t.variable == v] for v in reads}
        combinations = 1
        for terms in choices.values():
            combinations *= len(terms)
        chosen = sorted(choices) if combinations <= MAX_CHOICES else []
        prefixes = {
            test.variable: test for test in leaf.prefixes if test.variable in reads and test.variable not in chosen
        }
        of_one_kind = [v for v in reads if len({kind for kind, _ in intervals[v]}) == 1]
        ranged = [v for v in of_one_kind if v not in chosen and v not in prefixes]
        self._constants = [
            *((RDF_TYPE, (name,), "") for name in leaf.classes),
            *((equality.predicate, (equality.object,), "") for equality in leaf.equalities),
            *((reads[v].predicate, choices[v], v) for v in chosen),
            *((key.name, (text,), v) for v, (key, text) in _prefix_keys(reads, prefixes).items()),
        ]
        self._constants.sort(key=lambda constant: constant[0])
        self._ranges = sorted(ranged, key=lambda v: (reads[v].predicate, v))
        self.intervals = tuple(
            reduce(ValueInterval.intersect, (interval for _, interval in intervals[v])) for v in self._ranges
        )
        tested = {*chosen, *prefixes, *ranged}
        self.free = {v: read for v, read in reads.items() if v not in tested}
        untested = sorted({read.predicate for read in leaf.reads if read.variable not in tested})
        self.shape = LeafShape(
            tuple(predicate for predicate, _, _ in self._constants),
            tuple((reads[v].predicate, intervals[v][0][0]) for v in self._ranges),
            tuple(untested),
        )
        self.terms = tuple(product(*(terms for _, terms, _ in self._constants)))
        decided = len(chosen) + len(prefixes) + sum(len(intervals[v]) for v in ranged)
        self.is_exact = (
            leaf.residue == EMPTY
            and not leaf.joins
            and decided == len(leaf.tests())
            and EVENT_VARIABLE not in variables
            and all(count == 1 for count in variables.values())
            and variables.keys().isdisjoint(leaf.during or ())
        )

    def source(self, variable: str) -> BindingSource | None:
        """The source of a variable's binding; None for one the leaf does not bind."""
        if variable == EVENT_VARIABLE:
            return BindingSource(EVENT_IRI)
        if self.leaf.during and variable in self.leaf.during:
            return BindingSource(EVENT_END if variable == self.leaf.during[1] else EVENT_START)
        for index, (_, _, chosen) in enumerate(self._constants):
            if chosen == variable:
                return BindingSource(MATCHED_ROW, index)
        if variable in self._ranges:
            return BindingSource(MATCHED_ROW, len(self._constants) + self._ranges.index(variable))
        read: PropertyRead | None = self.free.get(variable)
        return BindingSource(READ_VALUE, predicate=read.predicate) if read else None


def _prefix_keys(reads: Mapping[str, PropertyRead], prefixes: Mapping[str, Prefix]) -> dict[str, tuple[PrefixKey, str]]:
    return {variable: prefix_key(reads[variable].predicate, test) for variable, test in sorted(prefixes.items())}


def _projection(leaf: LeafQuery, reader: _LeafReader, names: dict[str, str]) -> LeafProjection:
    sources = {name: reader.source(variable) for variable, name in names.items()}
    return LeafProjection(tuple((name, source) for name in leaf.variables if (source := sources.get(name)) is not None))


NUMBER, INSTANT = 1, 2
KIND, INEXACT, WIDE = 3, 4, 8  # a mask and two flags
STRICT_LOW, STRICT_HIGH, INEXACT_LOW, INEXACT_HIGH = 1, 2, 4, 8  # of an interval's ends

_PICOSECOND = SCALE // 10**6  # of the units of a Moment, in a microsecond
_WHOLE = 2**53


class ComparableValue(NamedTuple):
    value: float
    kind: int  # NUMBER or INSTANT with flags; 0: neither


class ValueInterval(NamedTuple):
    """The interval that a value must lie in, with the flags of its ends."""

    low: float
    high: float
    flags: int

    def intersect(self, other: ValueInterval) -> ValueInterval:
        """The intersection. Equal ends are as strict and as inexact as either."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        flags = 0
        for interval in (self, other):
            flags |= interval.flags & (STRICT_LOW | INEXACT_LOW) if interval.low == low else 0
            flags |= interval.flags & (STRICT_HIGH | INEXACT_HIGH) if interval.high == high else 0
        return ValueInterval(low, high, flags)


def comparable_value(term: str) -> ComparableValue:
    """
    >>> comparable_value('"05"^^<http://www.w3.org/2001/XMLSchema#integer>')
    ComparableValue(value=5.0, kind=1)
    """
    value = decode(term)
    if value.kind in NUMERIC_RANK:
        return _number(value)
    if value.kind == "dateTime":
        return _instant(value.value)
    return ComparableValue(0.0, 0)


def _number(value: Value) -> ComparableValue:
    if value.kind == "float":
        return ComparableValue(value.value, NUMBER | WIDE) if not math.isnan(value.value) else ComparableValue(0.0, 0)
    if value.kind == "double":
        return ComparableValue(value.value, NUMBER) if not math.isnan(value.value) else ComparableValue(0.0, 0)
    exact = Fraction(value.value, SCALE if value.kind == "decimal" else 1)
    near = exact.numerator / exact.denominator
    return ComparableValue(near, NUMBER | (0 if Fraction(near) == exact else INEXACT))


def _instant(moment: Moment) -> ComparableValue:
    micros, rest = divmod(moment.instant, _PICOSECOND)
    exact = rest == 0 and abs(micros) <= _WHOLE
    wide = WIDE if moment.zone is None else 0
    return ComparableValue(float(micros), INSTANT | wide | (0 if exact else INEXACT))


def value_interval(operator: str, constant: str) -> tuple[int, ValueInterval]:
    """The kind of the values that a comparison with a constant accepts, and their interval.

    >>> value_interval("<", '"5"^^<http://www.w3.org/2001/XMLSchema#integer>')
    (1, ValueInterval(low=-inf, high=5.0, flags=2))
    """
    value, kind = comparable_value(constant)
    low = value if operator in ("=", ">", ">=") else -math.inf
    high = value if operator in ("=", "<", "<=") else math.inf
    flags = {">": STRICT_LOW, "<": STRICT_HIGH}.get(operator, 0)
    if kind & INEXACT:
        flags |= (INEXACT_LOW if low == value else 0) | (INEXACT_HIGH if high == value else 0)
    return kind & KIND, ValueInterval(low, high, flags)


class PrefixKey(NamedTuple):
    """The first bytes of a property's values: of all of them, or only of strings."""

    predicate: str
    length: int
    through_str: bool

    @property
    def name(self) -> str:
        return f"{self.predicate} {self.length} {'STR' if self.through_str else ''}"


def prefix_key(predicate: str, test: Prefix) -> tuple[PrefixKey, str]:
    """The key of a prefix test, and its constant. Terms are canonical, so their bytes can be compared.

    >>> prefix_key("<urn:p>", Prefix("v", '"fir"', through_str=True))
    (PrefixKey(predicate='<urn:p>', length=3, through_str=True), '^fir')
    """
    text = test.text[1:-1]
    return PrefixKey(predicate, len(text.encode()), test.through_str), PREFIX_MARK + text


def prefix_key_named(name: str) -> PrefixKey | None:
    """The prefix key of a name; None for the name of a property.

    >>> prefix_key_named("<urn:p> 3 STR")
    PrefixKey(predicate='<urn:p>', length=3, through_str=True)
    """
    if name.endswith(">"):
        return None
    predicate, length, through_str = name.split(" ")
    return PrefixKey(predicate, int(length), bool(through_str))
