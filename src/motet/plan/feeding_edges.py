"""Who feeds whom, as subscriptions come and go: only those that change are looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from motet.plan.feeding import Needed, Offer, refuse_circles

Clause = tuple[str, int]  # a subscription's, counted from 1


@dataclass
class FeedingEdges:
    """Of subscriptions that are known by name, with what their clauses offer and their leaves need.

    >>> from motet.language.parse import parse
    >>> from motet.ontology.entailment import Reasoner
    >>> from motet.plan.feeding import needs, offers
    >>> from motet.plan.leaf_predicates import normalise
    >>> text = "SUBSCRIPTION one EVENT a : <urn:A> WHEN a CONSTRUCT { ?this a <urn:B> } "
    >>> edges = FeedingEdges()
    >>> for one in parse(text + "SUBSCRIPTION two EVENT b : <urn:B> WHEN b"):
    ...     edges.add(one.name, offers(one, Reasoner(())), {7: needs(normalise(one.events[0])[0])})
    False
    True
    >>> edges.fed
    {('one', 1): {'two': [7]}}
    >>> edges.remove("two"), edges.fed
    (True, {('one', 1): {}})
    """

    offers: dict[Clause, Offer] = field(default_factory=dict)
    needs: dict[str, Mapping[int, Needed]] = field(default_factory=dict)  # by name and leaf
    fed: dict[Clause, dict[str, list[int]]] = field(default_factory=dict)  # by clause: who sees it, by which leaves

    def copy(self) -> FeedingEdges:
        """One that goes its own way from here."""
        return FeedingEdges({**self.offers}, {**self.needs}, {clause: {**fed} for clause, fed in self.fed.items()})

    def add(self, name: str, offers: Sequence[Offer], needs: Mapping[int, Needed]) -> bool:
        """A subscription comes; whether it feeds somebody or is fed."""
        own = {(name, clause): offer for clause, offer in enumerate(offers, 1)}
        self.fed.update((clause, _fed(offer, self.needs)) for clause, offer in own.items())
        is_fed = [self._feed(clause, name, needs) for clause in self.offers]
        self.offers |= own
        self.needs[name] = needs
        return any(is_fed) or any(self.fed[clause] for clause in own)

    def _feed(self, clause: Clause, name: str, needs: Mapping[int, Needed]) -> bool:
        found = _fed(self.offers[clause], {name: needs})
        self.fed[clause].update(found)
        return bool(found)

    def remove(self, name: str) -> bool:
        """A subscription goes; whether it fed somebody or was fed."""
        own = [clause for clause in self.offers if clause[0] == name]
        has_fed = [self.fed.pop(clause) for clause in own]
        for clause in own:
            del self.offers[clause]
        self.needs.pop(name, None)
        was_fed = [fed.pop(name, None) for fed in self.fed.values()]
        return any(has_fed) or any(was_fed)

    def pairs(self) -> set[tuple[str, str]]:
        """Each who feeds somebody, with each it feeds."""
        return {(producer, consumer) for (producer, _), fed in self.fed.items() for consumer in fed}

    def refuse_circles(self) -> None:
        """A UsageError names the subscriptions that feed each other in a cycle."""
        refuse_circles(self.pairs())


def _fed(offer: Offer, needs: Mapping[str, Mapping[int, Needed]]) -> dict[str, list[int]]:
    found = {name: [leaf for leaf, needed in own.items() if offer.meets(needed)] for name, own in needs.items()}
    return {name: leaves for name, leaves in found.items() if leaves}
