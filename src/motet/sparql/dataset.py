"""Triples in memory: a graph with lookups by any term, and the dataset that a query is evaluated on.

A graph can share another one as its base. A dataset has a default graph, named graphs, the time of the query and a
source of randomness: everything an answer depends on besides the query, so that an evaluation can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count
from operator import itemgetter
from typing import Any

from motet.model.intervals import Interval
from motet.model.terms import XSD, literal
from motet.model.times import format_datetime
from motet.sparql.algebra import DatasetClause

Triple = tuple[str, str, str]

_SCANNED = 16  # below this size, looking at every triple is quicker than building an index

# By mask of the given terms (1 subject, 2 predicate, 4 object): the terms of a triple that are an index key.
_KEYS: dict[int, itemgetter[Any]] = {
    mask: itemgetter(*(position for position in (0, 1, 2) if mask >> position & 1)) for mask in range(1, 8)
}
_NO_TRIPLES: list[Triple] = []


class Graph:
    """Triples of terms, each once.

    >>> graph = Graph([("<urn:a>", "<urn:p>", "<urn:b>"), ("<urn:a>", "<urn:q>", "<urn:c>")])
    >>> graph.match("<urn:a>", "<urn:q>", None)
    [('<urn:a>', '<urn:q>', '<urn:c>')]
    """

    __slots__ = ("_base", "_indexes", "_nodes", "_triples")

    def __init__(self, triples: Iterable[Triple], base: Graph | None = None) -> None:
        distinct = dict.fromkeys(triples)
        self._base = base if base else None
        self._triples = (
            list(distinct) if self._base is None else [triple for triple in distinct if triple not in self._base]
        )
        self._indexes: dict[int, dict[Any, list[Triple]]] = {}
        self._nodes: set[str] | None = None

    @classmethod
    def over(cls, background: Graph, triples: Iterable[Triple]) -> Graph:
        """A graph of the background and more triples; the background is shared.

        >>> len(Graph.over(Graph([("<urn:a>", "<urn:p>", "<urn:b>")]), [("<urn:a>", "<urn:p>", "<urn:c>")]))
        2
        """
        return cls(triples, background)

    def __len__(self) -> int:
        return len(self._triples) + (len(self._base) if self._base is not None else 0)

    def __iter__(self) -> Iterator[Triple]:
        yield from self._triples
        if self._base is not None:
            yield from self._base

    def __contains__(self, triple: Triple) -> bool:
        return bool(self.match(*triple))

    def match(self, subject: str | None, predicate: str | None, object_: str | None) -> list[Triple]:
        """The triples with these terms; None stands for any."""
        triples = self._lookup(subject, predicate, object_)
        if self._base is None:
            return triples
        more = self._base.match(subject, predicate, object_)
        return triples + more if more else triples

    def has_node(self, term: str) -> bool:
        """Whether a term is the subject or object of a triple."""
        return term in self._stored_nodes() or (self._base is not None and self._base.has_node(term))

    def nodes(self) -> Iterator[str]:
        """Every subject and object, once."""
        yield from self._stored_nodes()
        if self._base is not None:
            yield from (node for node in self._base.nodes() if node not in self._stored_nodes())

    def _stored_nodes(self) -> set[str]:
        if self._nodes is None:
            self._nodes = {triple[position] for triple in self._triples for position in (0, 2)}
        return self._nodes

    def _lookup(self, subject: str | None, predicate: str | None, object_: str | None) -> list[Triple]:
        if len(self._triples) <= _SCANNED:
            return [
                triple
                for triple in self._triples
                if (predicate is None or triple[1] == predicate)
                and (subject is None or triple[0] == subject)
                and (object_ is None or triple[2] == object_)
            ]
        mask = (subject is not None) + 2 * (predicate is not None) + 4 * (object_ is not None)
        if not mask:
            return self._triples
        index = self._indexes.get(mask)
        if index is None:
            index = self._indexes[mask] = self._index(mask)
        return index.get(_KEYS[mask]((subject, predicate, object_)), _NO_TRIPLES)

    def _index(self, mask: int) -> dict[Any, list[Triple]]:
        index: dict[Any, list[Triple]] = {}
        key = _KEYS[mask]
        for triple in self._triples:
            index.setdefault(key(triple), []).append(triple)
        return index


# Datasets


INTERVAL_START, INTERVAL_END = "<urn:motet:ns#start>", "<urn:motet:ns#end>"

Bits = Callable[[], int]  # 128 random bits


class DatasetGraph(Graph):
    """A graph of a dataset; it knows the dataset, because GRAPH changes from one to another."""

    __slots__ = ("dataset",)

    def __init__(self, triples: Iterable[Triple], dataset: Dataset) -> None:
        super().__init__(triples)
        self.dataset = dataset


class Dataset:
    """Graphs by name. ``now`` is the xsd:dateTime of NOW(); ``random_bits`` gives 128 random bits at each call.

    >>> dataset = Dataset([("<urn:a>", "<urn:p>", "<urn:b>")], {"<urn:g>": []})
    >>> len(dataset.default), list(dataset.named)
    (1, ['<urn:g>'])
    """

    def __init__(
        self,
        default: Iterable[Triple],
        named: Mapping[str, Iterable[Triple]] | None = None,
        *,
        now: str = "1970-01-01T00:00:00Z",
        random_bits: Bits | None = None,
        intervals: Mapping[str, Interval] | None = None,
    ) -> None:
        self.default = DatasetGraph(default, self)
        self.named = {name: DatasetGraph(triples, self) for name, triples in (named or {}).items()}
        self.intervals = intervals or {}  # of the events in it, for the relations of time
        self.now = now
        self.random_bits: Bits = random_bits or count(1).__next__
        self._blank_nodes = count()

    def blank_node(self) -> str:
        """A new blank node; the labels of the data do not begin with q."""
        return f"_:q{next(self._blank_nodes)}"

    def graph(self, name: str) -> DatasetGraph:
        """The named graph; the empty one when there is none of that name."""
        found = self.named.get(name)
        return DatasetGraph((), self) if found is None else found

    def selected(self, clause: DatasetClause | None) -> Dataset:
        """The dataset that FROM and FROM NAMED describe: the union of some graphs, and some named ones.

        >>> graphs = Dataset([], {"<urn:g>": [("<urn:a>", "<urn:p>", "<urn:b>")]})
        >>> len(graphs.selected(DatasetClause(("<urn:g>", "<urn:h>"), ())).default)
        1
        """
        if clause is None:
            return self
        return Dataset(
            chain.from_iterable(self.graph(name) for name in clause.default),
            {name: self.graph(name) for name in clause.named},
            now=self.now,
            random_bits=self.random_bits,
            intervals=self.intervals,
        )


def interval_triples(subject: str, start: int, end: int) -> list[Triple]:
    """The interval of an event or notification as triples (language page, section 13).

    >>> interval_triples("<urn:e:1>", 0, 0)[0]
    ('<urn:e:1>', '<urn:motet:ns#start>', '"1970-01-01T00:00:00.000000Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>')
    """
    times = ((INTERVAL_START, start), (INTERVAL_END, end))
    return [(subject, name, literal(format_datetime(instant), datatype=XSD + "dateTime")) for name, instant in times]
