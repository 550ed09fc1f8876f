"""A small set of triples with lookups by any of their terms; a graph can share another one as its base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

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
