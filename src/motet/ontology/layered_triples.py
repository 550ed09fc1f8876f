"""A set of triples with lookups, layered on another set that no longer changes.

The triples that an event adds are in the upper layer; lookups see both layers. The closed background is not copied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from motet.ontology.owl_names import SAME, Triple

_Lookup = dict[tuple[str, str], list[str]]


class LayeredTriples:
    """A growing set of triples on a fixed base.

    >>> base = LayeredTriples([("<a>", "<p>", "<b>")])
    >>> layer = LayeredTriples([("<a>", "<p>", "<c>")], base)
    >>> sorted(layer.objects("<a>", "<p>"))
    ['<b>', '<c>']
    """

    __slots__ = ("_index", "_mentioning", "base", "has_same_as", "triples")

    def __init__(self, triples: Iterable[Triple] = (), base: LayeredTriples | None = None) -> None:
        self.base = base
        self.triples: set[Triple] = set(triples)
        self.has_same_as: bool = (base is not None and base.has_same_as) or any(t[1] == SAME for t in self.triples)
        self._index: tuple[_Lookup, _Lookup] | None = None
        self._mentioning: dict[str, list[Triple]] | None = None

    def add(self, triple: Triple) -> bool:
        """Add a triple; returns whether it is new to both layers."""
        if triple in self.triples or (self.base is not None and triple in self.base.triples):
            return False
        self.triples.add(triple)
        if self._index is not None:
            _index_triple(triple, *self._index)
        if self._mentioning is not None:
            for term in set(triple):
                self._mentioning[term].append(triple)
        if triple[1] == SAME:
            self.has_same_as = True
        return True

    def __contains__(self, triple: Triple) -> bool:
        return triple in self.triples or (self.base is not None and triple in self.base.triples)

    def objects(self, s: str, p: str) -> Iterable[str]:
        upper = self._indexed()[0].get((s, p), ())
        return upper if self.base is None else chain(upper, self.base.objects(s, p))

    def subjects(self, p: str, o: str) -> Iterable[str]:
        upper = self._indexed()[1].get((p, o), ())
        return upper if self.base is None else chain(upper, self.base.subjects(p, o))

    def mentioning(self, term: str) -> Iterator[Triple]:
        """The triples that contain a term in any position; used for owl:sameAs only."""
        if self._mentioning is None:
            self._mentioning = defaultdict(list)
            for triple in self.triples:
                for each_term in set(triple):
                    self._mentioning[each_term].append(triple)
        upper = self._mentioning.get(term, ())
        return chain(upper, self.base.mentioning(term)) if self.base is not None else iter(upper)

    def _indexed(self) -> tuple[_Lookup, _Lookup]:
        """Objects by subject and predicate, subjects by predicate and object; built at the first lookup."""
        if self._index is None:
            self._index = {}, {}
            for triple in self.triples:
                _index_triple(triple, *self._index)
        return self._index


def _index_triple(triple: Triple, objects: _Lookup, subjects: _Lookup) -> None:
    s, p, o = triple
    objects.setdefault((s, p), []).append(o)
    subjects.setdefault((p, o), []).append(s)
