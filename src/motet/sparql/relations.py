"""The relations of time between two events, as functions of queries (language page, sections 6 and 13)."""

from __future__ import annotations

from motet.model.intervals import Relation

_MOTET = "urn:motet:ns#"

#: By the IRI of the function: ``urn:motet:ns#metBy`` is MET BY.
RELATIONS: dict[str, Relation] = {
    _MOTET + first.lower() + "".join(map(str.capitalize, rest)): relation
    for relation in Relation
    for first, *rest in [relation.value.split()]
}
