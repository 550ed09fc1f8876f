"""Triples with the look-ups that rules need, in layers.

An event's layer stands on the closed background without copying it: what the event adds stays in the upper layer, and
look-ups see both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from motet.ontology.vocabulary import SAME, Triple

_Lookup = dict[tuple[str, str], list[str]]


class Facts:
    """A growing set of triples on top of another that no longer grows.

    >>> below = Facts([("<a>", "<p>", "<b>")])
    >>> above = Facts([("<a>", "<p>", "<c>")], below)
    >>> sorted(above.objects("<a>", "<p>"))
    ['<b>', '<c>']
    """

    __slots__ = ("_about", "_index", "below", "has_same", "triples")

    def __init__(self, triples: Iterable[Triple] = (), below: Facts | None = None) -> None:
        self.below = below
        self.triples: set[Triple] = set(triples)
        self.has_same: bool = (below is not None and below.has_same) or any(t[1] == SAME for t in self.triples)
        self._index: tuple[_Lookup, _Lookup] | None = None
        self._about: dict[str, list[Triple]] | None = None

    def add(self, triple: Triple) -> bool:
        """Whether the triple was new to both layers."""
        if triple in self.triples or (self.below is not None and triple in self.below.triples):
            return False
        self.triples.add(triple)
        if self._index is not None:
            _file(triple, *self._index)
        if self._about is not None:
            for term in set(triple):
                self._about[term].append(triple)
        if triple[1] == SAME:
            self.has_same = True
        return True

    def __contains__(self, triple: Triple) -> bool:
        return triple in self.triples or (self.below is not None and triple in self.below.triples)

    def objects(self, s: str, p: str) -> Iterable[str]:
        own = self._indexed()[0].get((s, p), ())
        return own if self.below is None else chain(own, self.below.objects(s, p))

    def subjects(self, p: str, o: str) -> Iterable[str]:
        own = self._indexed()[1].get((p, o), ())
        return own if self.below is None else chain(own, self.below.subjects(p, o))

    def about(self, term: str) -> Iterator[Triple]:
        """The triples that mention a term in any place. Only owl:sameAs asks for it."""
        if self._about is None:
            self._about = defaultdict(list)
            for triple in self.triples:
                for part in set(triple):
                    self._about[part].append(triple)
        own = self._about.get(term, ())
        return chain(own, self.below.about(term)) if self.below is not None else iter(own)

    def _indexed(self) -> tuple[_Lookup, _Lookup]:
        """Objects by subject and predicate, subjects by predicate and object; made when first asked for."""
        if self._index is None:
            self._index = {}, {}
            for triple in self.triples:
                _file(triple, *self._index)
        return self._index


def _file(triple: Triple, objects: _Lookup, subjects: _Lookup) -> None:
    s, p, o = triple
    objects.setdefault((s, p), []).append(o)
    subjects.setdefault((p, o), []).append(s)
