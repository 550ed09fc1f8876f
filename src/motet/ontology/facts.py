"""Triples with the look-ups that rules need, in layers.

An event's layer stands on the closed background without copying it: what the event adds stays in the upper layer, and
look-ups see both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from motet.ontology.vocabulary import SAME, Triple


class Facts:
    """A growing set of triples on top of another that no longer grows.

    >>> below = Facts([("<a>", "<p>", "<b>")])
    >>> above = Facts([("<a>", "<p>", "<c>")], below)
    >>> sorted(above.objects("<a>", "<p>"))
    ['<b>', '<c>']
    """

    __slots__ = ("_about", "_objects", "_subjects", "below", "has_same", "triples")

    def __init__(self, triples: Iterable[Triple] = (), below: Facts | None = None) -> None:
        self.below = below
        self.triples: set[Triple] = set()
        self.has_same: bool = below is not None and below.has_same
        self._objects: dict[tuple[str, str], list[str]] = {}
        self._subjects: dict[tuple[str, str], list[str]] = {}
        self._about: dict[str, list[Triple]] | None = None
        for triple in triples:
            self.add(triple)

    def add(self, triple: Triple) -> bool:
        """Whether the triple was new to both layers."""
        if triple in self.triples or (self.below is not None and triple in self.below.triples):
            return False
        s, p, o = triple
        self.triples.add(triple)
        self._objects.setdefault((s, p), []).append(o)
        self._subjects.setdefault((p, o), []).append(s)
        if self._about is not None:
            for term in {s, p, o}:
                self._about[term].append(triple)
        if p == SAME:
            self.has_same = True
        return True

    def __contains__(self, triple: Triple) -> bool:
        return triple in self.triples or (self.below is not None and triple in self.below.triples)

    def objects(self, s: str, p: str) -> Iterable[str]:
        own = self._objects.get((s, p), ())
        return own if self.below is None else chain(own, self.below.objects(s, p))

    def subjects(self, p: str, o: str) -> Iterable[str]:
        own = self._subjects.get((p, o), ())
        return own if self.below is None else chain(own, self.below.subjects(p, o))

    def about(self, term: str) -> Iterator[Triple]:
        """The triples that mention a term in any place. Indexed on first use: only owl:sameAs asks for it."""
        if self._about is None:
            self._about = defaultdict(list)
            for triple in self.triples:
                for part in set(triple):
                    self._about[part].append(triple)
        own = self._about.get(term, ())
        return chain(own, self.below.about(term)) if self.below is not None else iter(own)
