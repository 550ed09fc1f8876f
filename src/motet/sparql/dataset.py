"""What a query is evaluated on: a default graph, named graphs, the time of the query and a source of randomness.

Everything an answer depends on besides the query is here, so that an evaluation can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain, count

from motet.model.intervals import Interval
from motet.model.terms import XSD, literal
from motet.model.times import format_datetime
from motet.sparql.algebra import DatasetClause
from motet.sparql.graph import Graph, Triple

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
